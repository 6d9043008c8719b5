"""The sink and the source for AMQP on a real RabbitMQ."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import url_of

from conductorlite import Engine, VirtualClock, WorkflowDef
from conductorlite.errors import InvalidInput, SinkError, SourceError
from conductorlite.ext.workers import system_workers

sys.path.append(str(Path(__file__).parent.parent / "system"))

from system_kit import node
from test_brokers import handled

pika = pytest.importorskip("pika", reason="the extra amqp is not installed")


@pytest.fixture
def url() -> str:
    """A RabbitMQ."""
    return url_of("rabbitmq")


class Opened:
    """Sinks and sources, which are closed at the end of a test."""

    def __init__(self, url: str) -> None:
        self._url, self.links = url, list[Any]()

    def sink(self, **options: Any) -> Any:
        from conductorlite.ext.amqp import AmqpSink

        self.links.append(AmqpSink(options.pop("url", self._url), **options))
        return self.links[-1]

    def source(self, queue: str, **options: Any) -> Any:
        from conductorlite.ext.amqp import AmqpSource

        self.links.append(AmqpSource(queue, self._url, **options))
        return self.links[-1]


@pytest.fixture
def opened(url: str) -> Iterator[Opened]:
    """Makes them."""
    made = Opened(url)
    yield made
    for one in made.links:
        one.close()


@pytest.fixture
def channel(url: str) -> Iterator[Any]:
    """A channel of the test's own."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    yield connection.channel()
    connection.close()


@pytest.fixture
def queue(channel: Any) -> Iterator[str]:
    """A queue whose dead letters go to one with the same name and `.dead`."""
    name = f"orders-{uuid.uuid4().hex}"
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    channel.queue_declare(f"{name}.dead", durable=True)
    channel.queue_declare(name, durable=True, arguments=dead)
    yield name
    for one in (name, f"{name}.dead"):
        channel.queue_delete(one)


def test_a_message_goes_out_and_comes_in_once(opened: Opened, channel: Any, queue: str) -> None:
    """By an EVENT task, with the id of its first attempt; sent twice, and given by a process that died, it starts one execution."""
    sink = opened.sink()
    definition = WorkflowDef(name="w", tasks=[node("EVENT", {"n": 7}, sink=f"amqp:{queue}")])
    with Engine(workers=system_workers(sinks={"amqp": sink}), clock=VirtualClock(0)) as engine:
        run = engine.start(definition)
        engine.run_until_idle()
        (sent,) = run.tasks
    sink.publish(f"amqp:{queue}", sent.output_data, message_id=sent.task_id, key=5, headers={"h": "x"})
    died = opened.source(queue)
    assert [(one.event, one.message_id, one.payload["n"]) for one in died.poll(1)] == [(f"amqp:{queue}", sent.task_id, 7)]
    died.close()
    source = opened.source(queue)
    assert handled(source, f"amqp:{queue}", 1) == ["order-7"]
    assert source.poll(10) == []
    source.close()
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def test_a_connection_that_is_lost_is_opened_again(opened: Opened, queue: str) -> None:
    """What was not acknowledged comes again; an acknowledgment that comes too late does nothing."""
    sink, source = opened.sink(), opened.source(queue, event="orders")
    sink.publish(f"amqp:{queue}", {"n": 1}, message_id="m-1")
    (first,) = source.poll(10)
    assert source.poll(10) == [first]
    for one in (sink, source):
        one._link._connection.close()
    (again,) = source.poll(10)
    assert (again, again is first) == (first, False)
    source.ack(first)
    assert source.poll(10) == [again]
    source.ack(again)
    source._link._connection.close()
    sink.publish(f"amqp:{queue}", {"n": 2}, message_id="m-2")
    assert [one.message_id for one in source.poll(10)] == ["m-2"]


def test_what_cannot_be_handled_is_put_away(opened: Opened, channel: Any, queue: str) -> None:
    """No JSON, or rejected by an engine; a message without an id has one of its own each time."""
    for body in (b"no JSON", b'{"n": 1}', b'{"n": 2}'):
        channel.basic_publish("", queue, body)
    source = opened.source(queue)
    one, two = source.poll(10)
    assert len({one.message_id, two.message_id}) == 2
    source.reject(one, "not now")
    source.ack(two)
    source.close()
    assert opened.source(queue).poll(10) == []
    dead = [channel.basic_get(f"{queue}.dead", auto_ack=True)[2] for _ in range(3)]
    assert dead == [b"no JSON", b'{"n": 1}', None]


def test_an_exchange_takes_what_follows_as_the_routing_key(opened: Opened, channel: Any, queue: str) -> None:
    """A topic exchange, and a queue that is bound to it."""
    channel.exchange_declare(f"x-{queue}", "topic", auto_delete=True)
    channel.queue_bind(queue, f"x-{queue}", "order.*")
    opened.sink(exchange=f"x-{queue}").publish("amqp:order.new", {"n": 1}, message_id="m")
    assert [one.payload for one in opened.source(queue).poll(10)] == [{"n": 1}]


def test_what_the_broker_refuses_is_a_sink_error_or_a_source_error(opened: Opened, queue: str) -> None:
    """A queue or an exchange that there is not, a broker that does not answer, and a URL that is none; it works afterwards."""
    sink = opened.sink()
    with pytest.raises(SinkError, match="amqp:nothing: the broker has no queue for it"):
        sink.publish("amqp:nothing", {}, message_id="m")
    with pytest.raises(SinkError, match="NOT_FOUND"):
        opened.sink(exchange="nothing").publish("amqp:k", {}, message_id="m")
    missing = opened.source("nothing")
    for _ in range(2):
        with pytest.raises(SourceError, match="NOT_FOUND"):
            missing.poll(10)
    with pytest.raises(SinkError, match="amqp:q"):
        opened.sink(url="amqp://127.0.0.1:1/?connection_attempts=1&socket_timeout=1").publish("amqp:q", {}, message_id="m")
    with pytest.raises(InvalidInput, match="amqp"):
        opened.sink(url="http://127.0.0.1")
    sink.publish(f"amqp:{queue}", {"n": 1}, message_id="m")
    assert len(opened.source(queue).poll(10)) == 1
