"""An optional instrument: what a SQLite backend asked of SQLite, so that tests can pin costs as counts, not seconds."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

import attrs

__all__ = ["Counts", "counting_connection"]


@attrs.define(slots=True)
class Counts:
    """Running totals of one backend. An executemany is one statement; `commits` are those of writing transactions."""

    statements: int = 0
    rows_read: int = 0
    commits: int = 0
    statements_by_sql: Counter[str] = attrs.field(factory=Counter)

    def reset(self) -> None:
        """Start again from zero."""
        self.statements = self.rows_read = self.commits = 0
        self.statements_by_sql.clear()


def counting_connection(counts: Counts) -> type[sqlite3.Connection]:
    """A connection class whose connections count into `counts`."""

    def count_row(_cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        counts.rows_read += 1
        return row

    class CountingConnection(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.row_factory = count_row

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            counts.statements += 1
            counts.statements_by_sql[sql] += 1
            return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
            counts.statements += 1
            counts.statements_by_sql[sql] += 1
            return super().executemany(sql, parameters)

    return CountingConnection
