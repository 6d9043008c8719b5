"""Sinks: where messages go, and the workers of EVENT and KAFKA_PUBLISH, which publish to them.

A sink is found by the scheme of a destination. Two keep messages in memory; one of them is a source too: what is published to it,
its engine handles. Those for brokers are in `conductorlite.ext.kafka`, `sqs` and `amqp`; the timeouts and the
servers of a request are a sink's own affair.

Source of the rules: Conductor's Event and KafkaPublishTask. The destination `conductor` is made particular to the workflow and the
task, `conductor:x` to the workflow; every other one is taken as it is written. Without a sink for `conductor` the engine's own
event handlers get the message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidInput, SinkError, TaskFailedTerminally
from conductorlite.model.executions import TaskResult
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.threads import Mutex
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.registry import signature
from conductorlite.store.ports import EventMessage

__all__ = [
    "MemoryQueue",
    "MemorySink",
    "Published",
    "Record",
    "Sink",
    "checked_sinks",
    "destination_of",
    "event_worker",
    "kafka_worker",
    "read_record",
    "sink_of",
]


@runtime_checkable
class Sink(Protocol):
    """A publisher for the messages of one scheme."""

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish `payload`, a JSON value, and return when the broker has it; raise SinkError when it was not taken.

        `destination` is the whole text with its scheme (`kafka:orders`). Delivery is at least once: `message_id` is the id of
        the task's first attempt, so what is published again, by the same attempt or an automatic retry, has the same id. May
        be called from several threads at once.
        """


@attrs.frozen(kw_only=True, slots=True)
class Published:
    """One message a MemorySink has taken."""

    destination: str
    payload: Any
    message_id: str
    key: str | int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)


class MemorySink:
    """Keeps messages in a list: for tests, and where no broker listens.

    With `dedup` a message whose id it has seen is taken and not kept again. Past `capacity` messages it refuses more
    (SinkError) until `clear`, so that it never grows without bound. Raises InvalidInput for a capacity below 1.
    """

    def __init__(self, *, dedup: bool = False, capacity: int = 10_000) -> None:
        if capacity < 1:
            raise InvalidInput(f"capacity {capacity} is below 1")
        self._dedup = dedup
        self._capacity = capacity
        self._mutex = Mutex()
        self._messages: list[Published] = []
        self._seen: set[str] = set()

    @property
    def messages(self) -> tuple[Published, ...]:
        """Published messages, in order."""
        with self._mutex.held():
            return tuple(self._messages)

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep a copy of a message; raises SinkError when the sink is full, InvalidInput for a payload that is not JSON."""
        copy = parse(canonical(payload, where="payload"))
        message = Published(destination=destination, payload=copy, message_id=message_id, key=key, headers=dict(headers or {}))
        with self._mutex.held():
            if self._dedup and message_id in self._seen:
                return
            if len(self._messages) >= self._capacity:
                raise SinkError(f"the sink is full: its capacity is {self._capacity}")
            self._messages.append(message)
            if self._dedup:
                self._seen.add(message_id)

    def clear(self) -> None:
        """Forget every message, and the ids it has seen."""
        with self._mutex.held():
            self._messages.clear()
            self._seen.clear()


#: What a function may take that is given as a sink.
_GIVEN: Final = ("destination", "payload", "message_id", "key", "headers")


class _FunctionSink:
    """A function as a sink: called with those of a message's parts that it names."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        takes = signature(function)
        unknown = takes.required.difference(_GIVEN)
        if unknown or takes.is_async:
            what = "is a coroutine function" if takes.is_async else f"needs {', '.join(sorted(unknown))}"
            raise InvalidInput(f"a function that is a sink takes {', '.join(_GIVEN)}, or some of them; {function!r:.80} {what}")
        self._names = frozenset(_GIVEN) if takes.parameters is None else takes.parameters.intersection(_GIVEN)

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Call the function; what it raises is raised."""
        given = zip(_GIVEN, (destination, payload, message_id, key, headers), strict=True)
        self._function(**{name: value for name, value in given if name in self._names})


def checked_sinks(sinks: Mapping[str, Sink | Callable[..., object]]) -> dict[str, Sink]:
    """A copy of a map of sinks by scheme, functions as sinks; raises InvalidInput for a scheme that cannot occur, or no sink."""
    found: dict[str, Sink] = {}
    for scheme, sink in sinks.items():
        if not scheme or ":" in scheme or scheme != scheme.strip():
            raise InvalidInput(f"sinks: {scheme!r} is no scheme: it is the text before the first colon of a destination")
        if not isinstance(sink, Sink) and not callable(sink):
            raise InvalidInput(f"sinks[{scheme!r}]: a {type(sink).__name__} has no publish()")
        found[scheme] = sink if isinstance(sink, Sink) else _FunctionSink(sink)
    return found


def sink_of(sinks: Mapping[str, Sink], destination: str) -> Sink:
    """The sink of a destination's scheme; raises TaskFailedTerminally, naming those there are, when there is none."""
    scheme = destination.partition(":")[0]
    if scheme not in sinks:
        there = f"there are {', '.join(sorted(sinks))}" if sinks else "there are none"
        raise TaskFailedTerminally(f"no sink takes {scheme!r} of {destination!r}: {there} (system_workers(sinks=…))")
    return sinks[scheme]


class MemoryQueue:
    """Messages in order, each given until it is acknowledged. They are lost with the process.

    Past `capacity` messages it refuses more (SinkError). Raises InvalidInput for a capacity below 1.
    """

    def __init__(self, *, capacity: int = 10_000) -> None:
        if capacity < 1:
            raise InvalidInput(f"capacity {capacity} is below 1")
        self._capacity = capacity
        self._mutex = Mutex()
        self._messages: deque[EventMessage] = deque()
        self._rejected: list[tuple[EventMessage, str]] = []

    @property
    def messages(self) -> tuple[EventMessage, ...]:
        """Messages that are not acknowledged yet, in order."""
        with self._mutex.held():
            return tuple(self._messages)

    @property
    def rejected(self) -> tuple[tuple[EventMessage, str], ...]:
        """Messages that could not be handled, and why."""
        with self._mutex.held():
            return tuple(self._rejected)

    def publish(
        self,
        destination: str,
        payload: Any,
        *,
        message_id: str,
        key: str | int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Add a copy of a message; its event is `destination`. Raises SinkError when full, InvalidInput for what is no JSON."""
        message = EventMessage(event=destination, payload=parse(canonical(payload, where="payload")), message_id=message_id)
        with self._mutex.held():
            if len(self._messages) >= self._capacity:
                raise SinkError(f"the queue is full: its capacity is {self._capacity}")
            self._messages.append(message)

    def poll(self, limit: int) -> Sequence[EventMessage]:
        """The first messages that are not acknowledged."""
        with self._mutex.held():
            return [message for _, message in zip(range(limit), self._messages, strict=False)]

    def ack(self, message: EventMessage) -> None:
        """Forget a message; nothing happens when it was removed."""
        with self._mutex.held():
            self._forget(message)

    def reject(self, message: EventMessage, reason: str) -> None:
        """Put a message among the rejected."""
        with self._mutex.held():
            self._rejected.append((message, reason))
            self._forget(message)

    def _forget(self, message: EventMessage) -> None:
        for place, waiting in enumerate(self._messages):
            if waiting is message:
                del self._messages[place]
                return


_OWN: Final = "conductor"


def event_worker(sinks: Mapping[str, Sink]) -> Callable[[TaskContext], TaskResult]:
    """The function that carries out EVENT tasks with these sinks, by scheme."""

    def event(context: TaskContext) -> TaskResult:
        workflow = context.workflow
        given = dict(context.input)
        destination = destination_of(given.get("sink"), workflow.name, context.ref)
        payload = {
            **given,
            "workflowInstanceId": workflow.workflow_id,
            "workflowType": workflow.name,
            "workflowVersion": workflow.version,
            "correlationId": workflow.correlation_id,
            "taskToDomain": workflow.task_to_domain.fresh(),
            "event_produced": destination,
        }
        status, reason = TaskStatus.COMPLETED, None
        try:
            if destination.partition(":")[0] == _OWN and _OWN not in sinks:
                context.publish(destination, payload, message_id=context.first_task_id)
            else:
                sink_of(sinks, destination).publish(destination, payload, message_id=context.first_task_id)
        except SinkError as error:
            status, reason = TaskStatus.FAILED, f"The event was not published to {destination}: {error}"
        return TaskResult(
            workflow_id=context.workflow_id, task_id=context.task_id, status=status, output_data=payload, reason=reason
        )

    return event


def destination_of(sink: Any, workflow_name: str, ref: str) -> str:
    """Return the destination of a sink's text; raises TaskFailedTerminally if it is not text."""
    if not isinstance(sink, str) or not sink.strip():
        raise TaskFailedTerminally(f"$.sink: is {_kind(sink)}; EVENT needs a destination such as conductor:name")
    scheme, colon, name = sink.partition(":")
    if scheme != _OWN:
        return sink
    return f"{_OWN}:{workflow_name}:{name if colon else ref}"


def _kind(value: Any) -> str:
    return "null" if value is None else "blank" if isinstance(value, str) else "not text"


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
    """A message and its topic."""

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
