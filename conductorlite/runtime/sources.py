"""The sources of messages of one engine: asked in turn, each message handed to the event handlers and then acknowledged.

A message is acknowledged after all it leads to is stored, so one that is given again is one whose acknowledgement was lost, and
its records keep it from being acted upon twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

from conductorlite.engine.logs import log_store
from conductorlite.engine.turn_types import Caller, called_by
from conductorlite.engine.verbs import Verbs
from conductorlite.model.errors import InvalidInput, SourceError
from conductorlite.model.texts import type_name
from conductorlite.store.ports import EventMessage, EventSource

__all__ = ["MessageSources"]

P = ParamSpec("P")
T = TypeVar("T")

#: How long a source that could not give messages is left alone, ms.
_REST_MS: Final = 1_000


class MessageSources:
    """Asks the sources; at most one thread at a time."""

    def __init__(self, engine: Verbs, sources: Iterable[EventSource]) -> None:
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

        A source that raises anything is left alone for a second. Raises StorageErrors; what was not acknowledged is given again.
        """
        for offset in range(len(self._sources)):
            number = (self._rotation + offset) % len(self._sources)
            if self._resting.get(number, 0) > self._engine.clock.now():
                continue
            try:
                with called_by(Caller(turns=self._engine.core.turns, what="an event source")):
                    found = self._handle(self._sources[number], limit)
            except _Failed as failed:
                log_store(f"event source {type_name(self._sources[number])}", failed.error)
                self._resting[number] = self._engine.clock.now() + _REST_MS
                continue
            if found:
                self._rotation = number + 1
                return True
        return False

    def _handle(self, source: EventSource, limit: int) -> bool:
        messages = _asked(_polled, source, limit)
        for message in messages:
            try:
                self._engine.events.publish(message.event, message.payload, message_id=message.message_id)
            except InvalidInput as error:
                _asked(source.reject, message, str(error))
                log_store(f"message {message.message_id!r} of event {message.event!r} was rejected", error)
            else:
                _asked(source.ack, message)
        return bool(messages)


class _Failed(Exception):
    """Internal: a source has raised, whatever it was; not the store that its messages are for."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _asked(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return call(*args, **kwargs)
    except Exception as error:
        raise _Failed(error) from error


def _polled(source: EventSource, limit: int) -> list[EventMessage]:
    messages = list(source.poll(limit))
    for message in messages:
        if not isinstance(message, EventMessage):
            raise SourceError(f"poll() gave a {type_name(message)} among its messages, not an EventMessage")
    return messages
