"""Event handlers, and what became of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from conductorlite.handlers import EventExecution

__all__ = [
    "EventPlace",
    "EventReads",
    "EventWrites",
]

#: Place in listings: instant, handler, event, message, number of the action.
EventPlace = tuple[int, str, str, str, int]


class EventReads(Protocol):
    """Event handlers as canonical JSON text, and the records of what they did."""

    def event_handler(self, name: str) -> str | None:
        """The event handler of that name, or None."""
        ...

    def event_handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        """The event handlers of an event (None: of all), in order of their names."""
        ...

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        """What became of one action for one message, or None when nothing did yet."""
        ...

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first: of a handler, a message, both or all, in descending order of their places."""
        ...


class EventWrites(Protocol):
    """Registering handlers and recording what they did."""

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        """Register or replace an event handler."""
        ...

    def drop_event_handler(self, name: str) -> None:
        """Delete an event handler; nothing happens when there is none. Its records stay."""
        ...

    def add_event_execution(self, execution: EventExecution) -> None:
        """Keep a record; raises InvariantBroken when there is one of that identity."""
        ...

    def drop_event_executions(self, before: int, limit: int) -> int:
        """Delete the oldest records created before an instant, at most `limit`; returns how many that were."""
        ...
