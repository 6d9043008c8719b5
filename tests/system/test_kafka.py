"""KAFKA_PUBLISH tasks: the record a request makes, and what is wrong with one."""

from __future__ import annotations

from typing import Any

import pytest
from system_kit import carried_out, node

from conductorlite import TaskStatus
from conductorlite.errors import SinkError
from conductorlite.ext.sinks import MemorySink

REQUEST = {"bootStrapServers": "h:9092", "topic": "orders", "value": {"n": 1}}
SERIALIZERS = "org.apache.kafka.common.serialization."


def published(sinks: dict[str, Any], **fields: Any) -> Any:
    """The last attempt at a task with such a request."""
    return carried_out(node("KAFKA_PUBLISH", {"kafka_request": {**REQUEST, **fields}}), sinks=sinks)


def test_a_record_goes_to_the_sink_for_kafka() -> None:
    """Topic, value, key and headers reach the sink; the id of the message is the attempt's; there is no output."""
    sink = MemorySink()
    task = published({"kafka": sink}, key="k", headers={"h": 1, "t": "x"}, requestTimeoutMs=100, maxBlockMs="500")
    assert (task.status, task.output_data) == (TaskStatus.COMPLETED, {})
    (message,) = sink.messages
    assert (message.destination, message.payload, message.key) == ("kafka:orders", {"n": 1}, "k")
    assert (message.headers, message.message_id) == ({"h": "1", "t": "x"}, task.task_id)


@pytest.mark.parametrize(
    ("key", "serializer", "read"),
    [
        (None, None, None),
        (5, None, "5"),
        ("5", SERIALIZERS + "LongSerializer", 5),
        (7, SERIALIZERS + "IntegerSerializer", 7),
        ("a", SERIALIZERS + "StringSerializer", "a"),
    ],
)
def test_keys_are_read_as_their_serializer_says(key: Any, serializer: str | None, read: Any) -> None:
    """A key is text, unless the serializer is one of whole numbers."""
    sink = MemorySink()
    published({"kafka": sink}, key=key, keySerializer=serializer)
    assert (sink.messages[0].key, type(sink.messages[0].key)) == (read, type(read))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"bootStrapServers": None, "topic": None, "value": None},
            "$.kafka_request.bootStrapServers: is missing; $.kafka_request.topic: is missing; $.kafka_request.value: is missing",
        ),
        ({"topic": " "}, "$.kafka_request.topic: is blank"),
        ({"topic": 5}, "$.kafka_request.topic: is not text"),
        ({"headers": []}, None),
        ({"headers": [1]}, "$.kafka_request.headers: is not an object"),
        ({"maxBlockMs": "long"}, "$.kafka_request.maxBlockMs: is not a number of milliseconds"),
        ({"key": "x", "keySerializer": "LongSerializer"}, "$.kafka_request.key: is not a whole number, which LongSerializer"),
        ({"keySerializer": "a.b.MySerializer"}, "$.kafka_request.keySerializer: 'a.b.MySerializer' is none of"),
    ],
)
def test_a_bad_request_fails(fields: dict[str, Any], reason: str | None) -> None:
    """Everything that is wrong is named with its path, and nothing is published."""
    sink = MemorySink()
    task = published({"kafka": sink}, **fields)
    assert task.status is (TaskStatus.FAILED if reason else TaskStatus.COMPLETED)
    assert task.reason == reason or (reason is not None and task.reason.startswith(reason))
    assert len(sink.messages) == (reason is None)


def test_a_request_that_is_none() -> None:
    """A kafka_request that resolves to nothing, or to no object, is said to be that."""
    assert carried_out(node("KAFKA_PUBLISH", {"kafka_request": None})).reason == "$.kafka_request: is missing"
    assert carried_out(node("KAFKA_PUBLISH", {"kafka_request": "x"})).reason == "$.kafka_request: is not an object"


def test_without_a_sink_or_with_one_that_refuses() -> None:
    """No sink for `kafka` fails the task for good; one that refuses fails it with what it says."""
    task = published({"sqs": MemorySink()})
    assert task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert "no sink takes 'kafka' of 'kafka:orders': there are sqs" in task.reason
    full = MemorySink(capacity=1)
    full.publish("kafka:x", {}, message_id="1")
    task = published({"kafka": full})
    assert task.status is TaskStatus.FAILED
    assert task.reason == "The record was not published to kafka:orders: the sink is full: its capacity is 1"
    with pytest.raises(SinkError):
        full.publish("kafka:x", {}, message_id="2")
