"""Schedules in SQLite: rows under a fence, and the letters in their inboxes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from conductorlite.backends.sqlite import statements as sql
from conductorlite.backends.sqlite.rows import Row, letter_row
from conductorlite.decisions import Event
from conductorlite.errors import FencedOut
from conductorlite.ports import ScheduleRow

__all__ = ["SQLiteScheduleReads", "SQLiteScheduleWrites"]


class SQLiteScheduleReads:
    """Finding schedules."""

    _connection: sqlite3.Connection

    def schedule(self, name: str) -> ScheduleRow | None:
        """A schedule by its name, or None."""
        row = self._connection.execute(sql.SCHEDULE, (name,)).fetchone()
        return None if row is None else _schedule_of(row)

    def schedules(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        """A page of schedules in ascending order of names, greater than `after`."""
        return [_schedule_of(row) for row in self._connection.execute(sql.SCHEDULES, (after, limit))]

    def next_letter(self, owner: str = "") -> tuple[int, str] | None:
        """`due_at` and address of the first letter of an owner that is not held, or None."""
        found: tuple[int, str] | None = self._connection.execute(sql.NEXT_LETTER, (owner,)).fetchone()
        return found


class SQLiteScheduleWrites:
    """Changing schedules."""

    _connection: sqlite3.Connection

    if TYPE_CHECKING:

        def _many(self, statement: str, rows: Iterable[Row]) -> None: ...

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], letters: Sequence[Event]) -> None:
        """Store a schedule under its fence, and rewrite its inbox; raises FencedOut."""
        cells: Row = (row.text, row.progress, row.waits, row.owner, row.name, row.address)
        statement = sql.UPDATE_SCHEDULE if row.fence else sql.INSERT_SCHEDULE
        if self._connection.execute(statement, (*cells, row.fence) if row.fence else cells).rowcount == 0:
            raise FencedOut(f"schedule {row.name!r}: somebody else changed it after fence {row.fence} was read")
        self._many(sql.DELETE_EVENT, [(row.address, event_id) for event_id in consumed])
        self._many(sql.PUT_LETTER, map(letter_row, letters))

    def drop_schedule(self, name: str) -> None:
        """Delete a schedule with its inbox; nothing happens when it is not there."""
        gone = self._connection.execute(sql.DELETE_SCHEDULE, (name,)).fetchall()
        self._many(sql.EMPTY_INBOX, gone)


def _schedule_of(row: Row) -> ScheduleRow:
    name, address, text, progress, waits, fence, owner = row
    return ScheduleRow(name=name, address=address, text=text, progress=progress, waits=waits == 1, fence=fence, owner=owner)
