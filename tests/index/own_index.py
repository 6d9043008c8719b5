"""The index that a store keeps in its file, by itself: put and asked without a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conductorlite.store.documents import Document
from conductorlite.store.query import fits
from conductorlite.store.sqlite.search import SQLiteIndex


class OwnIndex:
    """One in a file, or in memory; it can be asked whatever an index can, and changed."""

    def __init__(self, path: Path | str = ":memory:", *documents: Document) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA trusted_schema = 0")
        self.connection.create_function("fits", 2, fits, deterministic=True)
        if not self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search_paths'").fetchone():
            SQLiteIndex(self.connection).create()
        SQLiteIndex(self.connection).put(documents)

    @contextmanager
    def changing(self) -> Iterator[SQLiteIndex]:
        """A change of its documents, undone when the block raises."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield SQLiteIndex(self.connection)
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def __getattr__(self, name: str) -> Any:
        return getattr(SQLiteIndex(self.connection), name)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()
