"""Event handlers and their records in a SQLite store: `ports.EventReads` and `ports.EventWrites`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final

from conductorlite.backends.sqlite import statements as sql
from conductorlite.canonical import Payload
from conductorlite.errors import InvalidInput, InvariantBroken
from conductorlite.handlers import EventExecution, EventStatus
from conductorlite.ports import EventPlace

__all__ = ["SQLiteEventReads", "SQLiteEventWrites"]

#: Later than every record.
_END: Final[EventPlace] = (2**63 - 1, "", "", "", 0)


class SQLiteEventReads:
    """Reading what there is of events."""

    _execute: Callable[..., sqlite3.Cursor]

    def event_handler(self, name: str) -> str | None:
        """The event handler of that name, or None."""
        row = self._execute(sql.EVENT_HANDLER, (name,)).fetchone()
        return None if row is None else str(row[0])

    def event_handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        """The event handlers of an event (None: of all), in order of their names."""
        rows = self._execute(sql.EVENT_HANDLERS) if event is None else self._execute(sql.EVENT_HANDLERS_OF, (event,))
        return [text for text, active in rows if active or not active_only]

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        """What became of one action for one message, or None when nothing did yet."""
        row = self._execute(sql.EVENT_EXECUTION, (name, event, message_id, number)).fetchone()
        return None if row is None else _execution_of(row)

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first; of both a handler and a message, along the message's."""
        place = after or _END
        if message_id is not None:
            rows = self._execute(sql.EVENT_EXECUTIONS_OF_MESSAGE, (message_id, name, *place, limit))
        elif name is not None:
            rows = self._execute(sql.EVENT_EXECUTIONS_OF_HANDLER, (name, *place, limit))
        else:
            rows = self._execute(sql.EVENT_EXECUTIONS, (*place, limit))
        return [_execution_of(row) for row in rows]


class SQLiteEventWrites(SQLiteEventReads):
    """Changing it."""

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        """Register or replace an event handler."""
        self._write(sql.PUT_EVENT_HANDLER, (name, event, int(active), text))

    def drop_event_handler(self, name: str) -> None:
        """Delete an event handler; nothing happens when there is none."""
        self._write(sql.DROP_EVENT_HANDLER, (name,))

    def add_event_execution(self, execution: EventExecution) -> None:
        """Keep a record; raises InvariantBroken when there is one of that identity."""
        row = (
            *execution.key,
            *(execution.created, execution.status.value, execution.action, execution.output.text),
        )
        if self._write(sql.ADD_EVENT_EXECUTION, row) == 0:
            raise InvariantBroken(f"the action {execution.id} of {execution.name!r} was carried out before")

    def drop_event_executions(self, before: int, limit: int) -> int:
        """Delete the oldest records created before an instant, at most `limit`; returns how many that were."""
        return self._write(sql.DROP_EVENT_EXECUTIONS, (before, limit))

    def _write(self, statement: str, row: tuple[Any, ...]) -> int:
        self._dirty = True
        try:
            return self._execute(statement, row).rowcount
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error

    _dirty: bool


def _execution_of(row: tuple[Any, ...]) -> EventExecution:
    name, event, message_id, number, created, status, action, output = row
    return EventExecution(
        name=name,
        event=event,
        message_id=message_id,
        number=number,
        created=created,
        status=EventStatus(status),
        action=action,
        output=Payload(output),
    )
