"""Holders in a SQLite store: `ports.HolderReads` and `ports.HolderWrites`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from conductorlite.backends.sqlite import statements as sql
from conductorlite.backends.sqlite.rows import Row, task_of
from conductorlite.executions import Task
from conductorlite.ports import HolderRow

__all__ = ["SQLiteHolderReads", "SQLiteHolderWrites"]


class SQLiteHolderReads:
    """Finding holders."""

    _execute: Callable[..., sqlite3.Cursor]

    def task_holders(self) -> Sequence[HolderRow]:
        """Every holder, in order of names."""
        return [HolderRow(holder=name, place=place, lease_until=until) for name, place, until in self._execute(sql.HOLDERS)]

    def held_by(self, holder: str) -> Sequence[Task]:
        """The attempts a holder has, in order of execution, reference and attempt."""
        return [task_of(row) for row in self._execute(sql.HELD_BY, (holder,))]


class SQLiteHolderWrites:
    """Coming and going."""

    if TYPE_CHECKING:

        def _many(self, statement: str, rows: Iterable[Row]) -> None: ...

    def put_holder(self, row: HolderRow) -> None:
        """Register a holder, or renew it."""
        self._many(sql.PUT_HOLDER, [(row.holder, row.place, row.lease_until)])

    def drop_holder(self, holder: str) -> None:
        """Forget a holder; nothing happens when it is not there."""
        self._many(sql.DROP_HOLDER, [(holder,)])
