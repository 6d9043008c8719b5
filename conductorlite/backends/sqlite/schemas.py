"""Registered schemas in a SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from conductorlite.backends.sqlite.rows import Row
from conductorlite.backends.sqlite.statements import REGISTRY_CHANGED

__all__ = ["SQLiteSchemaReads", "SQLiteSchemaWrites"]

_PUT: Final = "INSERT OR REPLACE INTO schema_defs (name, version, text) VALUES (?, ?, ?)"
_ONE: Final = "SELECT text FROM schema_defs WHERE name = ? AND version = ?"
_NEWEST: Final = "SELECT text FROM schema_defs WHERE name = ? ORDER BY version DESC LIMIT 1"
_ALL: Final = "SELECT name, version FROM schema_defs ORDER BY name, version"


class SQLiteSchemaReads:
    """The queries of `ports.SchemaReads`."""

    _execute: Callable[..., sqlite3.Cursor]

    def schema_def(self, name: str, version: int | None) -> str | None:
        """A registered schema; version None is the highest."""
        found = self._execute(_NEWEST, (name,)) if version is None else self._execute(_ONE, (name, version))
        row = found.fetchone()
        return None if row is None else str(row[0])

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered schemas, in order."""
        return [(name, version) for name, version in self._execute(_ALL)]


class SQLiteSchemaWrites:
    """The changes of `ports.SchemaWrites`."""

    _execute: Callable[..., sqlite3.Cursor]
    _many: Callable[[str, Iterable[Row]], None]

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a schema."""
        self._many(_PUT, [(name, version, text)])
        self._execute(REGISTRY_CHANGED)
