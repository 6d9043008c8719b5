"""The sources of messages of one engine: asked in turn, each message handed to the event handlers and then acknowledged.

A message is acknowledged after all it leads to is stored, so one that is given again is one whose acknowledgement was lost, and
its records keep it from being acted upon twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from conductorlite.engine import Queries
from conductorlite.engine.callers import Caller, called_by
from conductorlite.engine.logs import log_store
from conductorlite.errors import InvalidInput, SourceError
from conductorlite.ports import EventSource

__all__ = ["Listening"]

#: How long a source that could not give messages is left alone, ms.
_REST_MS: Final = 1_000


class Listening:
    """Asks the sources; at most one thread at a time."""

    def __init__(self, engine: Queries, sources: Iterable[EventSource]) -> None:
        self._engine = engine
        self._sources = list(sources)
        for source in self._sources:
            if not isinstance(source, EventSource):
                raise InvalidInput(f"event_sources: a {type(source).__name__} has no poll(), ack() and reject()")
        self._rotation = 0
        self._resting: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._sources)

    def take(self, limit: int) -> bool:
        """Handle up to `limit` messages of the next source that has any; False when none has.

        Raises StorageErrors; what was not acknowledged is given again.
        """
        for offset in range(len(self._sources)):
            number = (self._rotation + offset) % len(self._sources)
            if self._resting.get(number, 0) > self._engine.clock.now():
                continue
            try:
                with called_by(Caller(turns=self._engine.turns, what="an event source")):
                    found = self._handle(self._sources[number], limit)
            except SourceError as error:
                log_store(f"event source {type(self._sources[number]).__name__}", error)
                self._resting[number] = self._engine.clock.now() + _REST_MS
                continue
            if found:
                self._rotation = number + 1
                return True
        return False

    def _handle(self, source: EventSource, limit: int) -> bool:
        messages = source.poll(limit)
        for message in messages:
            try:
                self._engine.publish(message.event, message.payload, message_id=message.message_id)
            except InvalidInput as error:
                source.reject(message, str(error))
                log_store(f"message {message.message_id!r} of event {message.event!r} was rejected", error)
            else:
                source.ack(message)
        return bool(messages)
