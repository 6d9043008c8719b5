"""KAFKA_PUBLISH: publishes one record to the sink registered for the scheme `kafka`.

We ship no Kafka client: a sink wraps the user's. Source of the rule: Conductor's KafkaPublishTask; the timeouts and the
servers of the request are the sink's own affair here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from conductorlite.ext.sinks import Sink, sink_of
from conductorlite.model import attrs
from conductorlite.model.canonical import canonical
from conductorlite.model.errors import InvalidInput, SinkError
from conductorlite.model.executions import TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.context import TaskContext

__all__ = ["Record", "kafka_worker", "read_record"]

_NEEDED: Final = ("bootStrapServers", "topic", "value")
_TIMES: Final = ("requestTimeoutMs", "maxBlockMs")
_PATH: Final = "$.kafka_request"

#: Last part of a serializer's class name → how a key is read.
_KEYS: Final[Mapping[str, type[str] | type[int]]] = {
    "StringSerializer": str,
    "LongSerializer": int,
    "IntegerSerializer": int,
}


@attrs.frozen(kw_only=True, slots=True)
class Record:
    """What is published, and to which topic."""

    topic: str
    value: Any
    key: str | int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)


def kafka_worker(sinks: Mapping[str, Sink]) -> Callable[[TaskContext], TaskResult]:
    """The function that carries out KAFKA_PUBLISH tasks with the sink for `kafka`."""

    def kafka(context: TaskContext) -> TaskResult:
        status, reason = TaskStatus.COMPLETED, None
        try:
            record = read_record(context.input.get("kafka_request"))
            destination = f"kafka:{record.topic}"
            sink_of(sinks, destination).publish(
                destination, record.value, message_id=context.first_task_id, key=record.key, headers=record.headers
            )
        except InvalidInput as error:
            status, reason = TaskStatus.FAILED, str(error)
        except SinkError as error:
            status, reason = TaskStatus.FAILED, f"The record was not published to {destination}: {error}"
        return TaskResult(workflow_id=context.workflow_id, task_id=context.task_id, status=status, reason=reason)

    return kafka


def read_record(request: Any) -> Record:
    """The record of a `kafka_request`; raises InvalidInput naming the path of everything that is wrong with it."""
    if not isinstance(request, Mapping):
        raise InvalidInput(f"{_PATH}: is {'missing' if request is None else 'not an object'}")
    problems = [f"{_PATH}.{name}: is missing" for name in _NEEDED if request.get(name) is None]
    for name in ("bootStrapServers", "topic"):
        value = request.get(name)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            problems.append(f"{_PATH}.{name}: is {'blank' if isinstance(value, str) else 'not text'}")
    for name in _TIMES:
        if request.get(name) is not None and not str(request[name]).isdecimal():
            problems.append(f"{_PATH}.{name}: is not a number of milliseconds")
    headers = request.get("headers") or {}
    if not isinstance(headers, Mapping):
        problems.append(f"{_PATH}.headers: is not an object")
        headers = {}
    key = _key(request.get("key"), request.get("keySerializer"), problems)
    if problems:
        raise InvalidInput("; ".join(problems))
    return Record(
        topic=request["topic"],
        value=request["value"],
        key=key,
        headers={name: _text(value) for name, value in headers.items()},
    )


def _key(key: Any, serializer: Any, problems: list[str]) -> str | int | None:
    name = "StringSerializer" if serializer in (None, "") else str(serializer).rpartition(".")[2]
    if name not in _KEYS:
        problems.append(f"{_PATH}.keySerializer: {str(serializer)[:80]!r} is none of {', '.join(_KEYS)}")
        return None
    if key is None:
        return None
    if _KEYS[name] is str:
        return _text(key)
    try:
        return int(_text(key))
    except ValueError:
        problems.append(f"{_PATH}.key: is not a whole number, which {name} needs")
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)
