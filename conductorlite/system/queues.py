"""A queue in memory that is a sink and a source in one: what is published to it, its engine handles."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from conductorlite.canonical import canonical, parse
from conductorlite.errors import InvalidInput, SinkError
from conductorlite.ports import EventMessage
from conductorlite.threads import Mutex

__all__ = ["MemoryQueue"]


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
        """What is not acknowledged yet, in order."""
        with self._mutex.held():
            return tuple(self._messages)

    @property
    def rejected(self) -> tuple[tuple[EventMessage, str], ...]:
        """What could not be handled, and why."""
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
        """Forget a message; nothing happens when it is gone."""
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
