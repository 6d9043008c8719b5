"""Where messages go: the protocol of a sink, the one that keeps them in memory, and how a destination finds its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import attrs

from conductorlite.canonical import canonical, parse
from conductorlite.errors import InvalidInput, SinkError, TaskFailedTerminally
from conductorlite.threads import Mutex

__all__ = ["MemorySink", "Published", "Sink", "checked_sinks", "sink_of"]


@runtime_checkable
class Sink(Protocol):
    """What takes the messages of one scheme to their broker."""

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
        ...


@attrs.frozen(kw_only=True, slots=True)
class Published:
    """One message a MemorySink has taken."""

    destination: str
    payload: Any
    message_id: str
    key: str | int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)


class MemorySink:
    """Keeps messages in a list: for tests, and where nobody listens.

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
        """What was published, in order."""
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


def checked_sinks(sinks: Mapping[str, Sink]) -> dict[str, Sink]:
    """A copy of a map of sinks by scheme; raises InvalidInput for a scheme that cannot occur, or what cannot publish."""
    for scheme, sink in sinks.items():
        if not scheme or ":" in scheme or scheme != scheme.strip():
            raise InvalidInput(f"sinks: {scheme!r} is no scheme: it is the text before the first colon of a destination")
        if not isinstance(sink, Sink):
            raise InvalidInput(f"sinks[{scheme!r}]: a {type(sink).__name__} has no publish()")
    return dict(sinks)


def sink_of(sinks: Mapping[str, Sink], destination: str) -> Sink:
    """The sink of a destination's scheme; raises TaskFailedTerminally, naming those there are, when there is none."""
    scheme = destination.partition(":")[0]
    if scheme not in sinks:
        there = f"there are {', '.join(sorted(sinks))}" if sinks else "there are none"
        raise TaskFailedTerminally(f"no sink takes {scheme!r} of {destination!r}: {there} (system_workers(sinks=…))")
    return sinks[scheme]
