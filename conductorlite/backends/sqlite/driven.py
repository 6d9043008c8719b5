"""When a SQLite store was driven: `ports.DrivenReads` and `ports.DrivenWrites`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from conductorlite.backends.sqlite import statements as sql

__all__ = ["SQLiteDrivenReads", "SQLiteDrivenWrites"]


class SQLiteDrivenReads:
    """Finding the stretches in which engines drove."""

    _execute: Callable[..., sqlite3.Cursor]

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """The stretches of an owner's drivers that end after `since`; reads all there are of it."""
        return [(begin, end) for begin, end in self._execute(sql.DRIVEN, (owner, since))]


class SQLiteDrivenWrites:
    """Noting such stretches."""

    _execute: Callable[..., sqlite3.Cursor]

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        """Keep that an owner's driver drove from `begin` to `end`."""
        self._execute(sql.NOTE_DRIVEN, (owner, begin, end))

    def forget_driven(self, owner: str, kept: int) -> None:
        """Keep the newest stretches of an owner."""
        self._execute(sql.FORGET_DRIVEN, (owner, owner, kept))
