"""Kafka and SQS: sinks and sources over their clients, against the in-memory brokers that librdkafka and moto bring."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from system_kit import node

from conductorlite import Engine, EngineConfig, EventHandler, VirtualClock, WorkflowDef
from conductorlite.errors import InvalidInput, SinkError, SourceError
from conductorlite.ext.workers import system_workers
from conductorlite.store.ports import EventMessage, EventSource


def handler_of(event: str) -> EventHandler:
    """Starts a workflow for each message of an event."""
    start = {"name": "order", "correlationId": "order-${n}", "input": {"n": "${n}"}}
    action = {"action": "start_workflow", "start_workflow": start}
    return EventHandler.from_json({"name": "start", "event": event, "active": True, "actions": [action]})


ORDER = WorkflowDef.from_json({"name": "order", "tasks": [{"name": "t", "taskReferenceName": "t", "type": "WAIT"}]})


def handled(source: EventSource, event: str, number: int) -> list[str | None]:
    """The executions that messages of a source have started, once there are so many."""
    with Engine(clock=VirtualClock(0), config=EngineConfig(event_sources=[source])) as engine:
        engine.register(ORDER)
        engine.events.register(handler_of(event))
        for _ in range(2_000):
            engine.settle()
            found = sorted(str(row.correlation_id) for row in engine.executions("order"))
            if len(found) >= number:
                return [*found]
            threading.Event().wait(0.01)  # the broker's own threads
    raise AssertionError(f"only {found} came")


# -- SQS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of an SQS in memory."""
    moto, boto3 = pytest.importorskip("moto"), pytest.importorskip("boto3", reason="the extra sqs is not installed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with moto.mock_aws():
        yield boto3.client("sqs", region_name="eu-central-1")


def test_a_message_of_sqs_goes_out_and_comes_in_once(sqs: Any) -> None:
    """By an EVENT task, with the id of its first attempt; what it leads to is stored before it is deleted."""
    from conductorlite.ext.sqs import SqsSink, SqsSource

    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    definition = WorkflowDef(name="w", tasks=[node("EVENT", {"n": 7}, sink="sqs:orders")])
    with Engine(workers=system_workers(sinks={"sqs": SqsSink(sqs)}), clock=VirtualClock(0)) as engine:
        run = engine.start(definition)
        engine.run_until_idle()
        (sent,) = run.tasks
    source = SqsSource("orders", sqs)
    (message,) = source.poll(10)
    assert (message.event, message.message_id, message.payload["n"]) == ("sqs:orders", sent.task_id, 7)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=source._receipts[id(message)][1], VisibilityTimeout=0)
    assert handled(source, "sqs:orders", 1) == ["order-7"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert [counts[name] for name in ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")] == ["0", "0"]


def test_what_was_not_acknowledged_comes_again(sqs: Any) -> None:
    """Rejected, no JSON, or given to a process that died; one that nobody gave is deleted by nobody."""
    from conductorlite.ext.sqs import SqsSink, SqsSource

    url = sqs.create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "0"})["QueueUrl"]
    SqsSink(sqs).publish(f"sqs:{url}", {"n": 1}, message_id="m-1", headers={"h": "x"})
    sqs.send_message(QueueUrl=url, MessageBody="no JSON")
    source = SqsSource(url, sqs, event="orders")
    for _ in range(2):
        (message,) = source.poll(10)
        assert message == EventMessage(event="orders", payload={"n": 1}, message_id="m-1")
        source.reject(message, "not now")
    source.ack(message)
    assert len(SqsSource(url, sqs).poll(10)) == 1


def test_a_fifo_queue_takes_a_message_once_and_keeps_the_order_of_a_key(sqs: Any) -> None:
    """Published again with the same id, and without an id of its own for the order."""
    from conductorlite.ext.sqs import SqsSink, SqsSource

    sqs.create_queue(QueueName="orders.fifo", Attributes={"FifoQueue": "true"})
    sink = SqsSink(sqs)
    for message_id in ("m-1", "m-1", "m-2"):
        sink.publish("sqs:orders.fifo", {"id": message_id}, message_id=message_id, key=5)
    sink.publish("sqs:orders.fifo", {"id": "m-3"}, message_id="m-3")
    assert [one.message_id for one in SqsSource("orders.fifo", sqs).poll(10)] == ["m-1", "m-2", "m-3"]


def test_what_sqs_refuses_is_a_sink_error_or_a_source_error(sqs: Any) -> None:
    """A queue that there is not, too many attributes, a queue that was deleted."""
    from conductorlite.ext.sqs import SqsSink, SqsSource

    sink = SqsSink(region_name="eu-central-1")
    with pytest.raises(SinkError, match="sqs:nothing"):
        sink.publish("sqs:nothing", {}, message_id="m")
    with pytest.raises(SourceError, match="sqs:nothing"):
        SqsSource("nothing", region_name="eu-central-1")
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    with pytest.raises(SinkError, match="at most 10 attributes"):
        sink.publish("sqs:orders", {}, message_id="m", headers={str(n): "x" for n in range(10)})
    source = SqsSource("orders", sqs)
    sqs.delete_queue(QueueUrl=url)
    with pytest.raises(SourceError, match="sqs:orders"):
        source.poll(1)
    with pytest.raises(InvalidInput, match="sqs:"):
        SqsSink(region_name="no region")


# -- Kafka -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Iterator[Mapping[str, Any]]:
    """Settings for a cluster in memory, whose partitions a group has after three seconds."""
    kafka = pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    holder = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = holder.list_topics(timeout=10).brokers.values()
    yield {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}
    holder.flush(1)


@pytest.mark.slow
def test_a_record_is_published_when_the_broker_has_it(cluster: Mapping[str, Any]) -> None:
    """Value, key and headers as they were given; the id of the message is a header."""
    from confluent_kafka import Consumer, TopicPartition

    from conductorlite.ext.kafka import KafkaSink

    sink = KafkaSink({**cluster, "linger.ms": 0})
    sink.publish("kafka:orders", {"n": 1}, message_id="m-1", key="k", headers={"h": "x"})
    sink.publish("kafka:orders", [2], message_id="m-2", key=5)
    consumer = Consumer({**cluster, "group.id": "look"})
    records = [record for partition in range(4) for record in _read(consumer, TopicPartition("orders", partition, 0))]
    found = {dict(record.headers())["message-id"]: record for record in records}
    assert {one: (record.value(), record.key()) for one, record in found.items()} == {
        b"m-1": (b'{"n":1}', b"k"),
        b"m-2": (b"[2]", (5).to_bytes(8, "big")),
    }
    assert dict(found[b"m-1"].headers())["h"] == b"x"
    consumer.close()


def _read(consumer: Any, place: Any) -> list[Any]:
    """The records of one partition."""
    _, last = consumer.get_watermark_offsets(place, timeout=5)
    consumer.assign([place])
    records: list[Any] = []
    while len(records) < last:
        records += consumer.consume(last - len(records), 1)
    return records


def test_a_broker_that_is_not_there() -> None:
    """Publishing fails when the time for it is over; wrong settings are refused."""
    pytest.importorskip("confluent_kafka", reason="the extra kafka is not installed")
    from conductorlite.ext.kafka import KafkaSink, KafkaSource

    nowhere = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "delivery.timeout.ms": 100, "linger.ms": 0}
    with pytest.raises(SinkError, match="kafka:orders"):
        KafkaSink(nowhere).publish("kafka:orders", {}, message_id="m")
    with pytest.raises(InvalidInput, match="kafka:"):
        KafkaSink({"no.such.setting": 1})
    with pytest.raises(InvalidInput, match="kafka:"):
        KafkaSource({"bootstrap.servers": "127.0.0.1:1"}, ["orders"])


@pytest.mark.slow
def test_records_are_handled_and_committed_in_order(cluster: Mapping[str, Any]) -> None:
    """What is no JSON is put away; nothing is committed past a record that is not handled."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    from conductorlite.ext.kafka import KafkaSink, KafkaSource

    sink = KafkaSink({**cluster, "linger.ms": 0})
    sink.publish("kafka:orders", {"n": 1}, message_id="m-1", key="k")
    plain = Producer(dict(cluster))
    plain.produce("orders", b"no JSON", b"k")
    plain.flush(10)
    sink.publish("kafka:orders", {"n": 2}, message_id="m-2", key="k")
    source = KafkaSource({**cluster, "group.id": "g", "session.timeout.ms": 6_000}, ["orders"], rejected=sink)
    first: list[EventMessage] = []
    while len(first) < 2:
        first = [*source.poll(10)]
        threading.Event().wait(0.01)  # the broker's own threads
    assert [(one.event, one.message_id, one.payload) for one in first] == [
        ("kafka:orders", "m-1", {"n": 1}),
        ("kafka:orders", "m-2", {"n": 2}),
    ]
    look = Consumer({**cluster, "group.id": "g"})
    places = [TopicPartition("orders", number) for number in range(4)]

    def committed() -> int:
        return max(one.offset for one in look.committed(places, timeout=10))

    source.ack(first[1])
    assert committed() == 0
    assert source.poll(10) == [first[0]]
    assert handled(source, "kafka:orders", 1) == ["order-1"]
    assert committed() == 3
    (away,) = [record for number in range(4) for record in _read(look, TopicPartition("orders.rejected", number, 0))]
    assert away.value() == b'"no JSON"'
    assert "reason" in dict(away.headers())
    source.close()
    look.close()
