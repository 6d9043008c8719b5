"""Owners in a SQLite store: `ports.OwnerReads` and `ports.OwnerWrites`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from conductorlite.backends.sqlite import statements as sql
from conductorlite.backends.sqlite.rows import Row
from conductorlite.decisions import queue_prefix
from conductorlite.ports import OwnerRow

__all__ = ["SQLiteOwnerReads", "SQLiteOwnerWrites"]


class SQLiteOwnerReads:
    """Finding owners."""

    _execute: Callable[..., sqlite3.Cursor]

    def owners(self) -> Sequence[OwnerRow]:
        """Everybody who owns an execution or a letter, in order of names; reads an index entry for each."""
        letters: dict[str, int] = dict(self._execute(sql.OWNERS_OF_LETTERS))
        executions: dict[str, dict[str, int]] = {}
        for name, status, number in self._execute(sql.OWNERS):
            executions.setdefault(name, {})[status] = number
        names = sorted(letters.keys() | executions.keys())
        return [OwnerRow(name=name, executions=executions.get(name, {}), letters=letters.get(name, 0)) for name in names]

    def _letter_owners(self) -> list[str]:
        """Whose letters there are that are not held, found along the index of what is due."""
        found: list[str] = []
        row = self._execute(sql.FIRST_LETTER_OWNER).fetchone()
        while row[0] is not None:
            found.append(row[0])
            row = self._execute(sql.NEXT_LETTER_OWNER, row).fetchone()
        return found


class SQLiteOwnerWrites:
    """Changing owners."""

    _execute: Callable[..., sqlite3.Cursor]

    if TYPE_CHECKING:

        def _many(self, statement: str, rows: Iterable[Row]) -> None: ...

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, with their letters and messages, and raise their fences."""
        asked = (old, after, limit) if old else (after, limit)
        moved = [workflow_id for (workflow_id,) in self._execute(sql.OWNED if old else sql.UNOWNED, asked)]
        owned = [(new, workflow_id) for workflow_id in moved]
        self._many(sql.OWN, owned)
        self._many(sql.OWN_LETTERS, owned)
        before, after = queue_prefix(old), queue_prefix(new)
        self._many(sql.OWN_MESSAGES, [(after, before, workflow_id, before, before) for workflow_id in moved])
        return moved

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        """Give an owner's schedules, and its letters to what has not begun, to another."""
        self._many(sql.OWN_THE_REST, [(new, old)])
        return self._execute(sql.OWN_SCHEDULES, (new, old)).rowcount
