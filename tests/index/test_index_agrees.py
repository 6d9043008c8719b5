"""The index in SQLite keeps the contract of an index. One in memory has a single handle: it is the same code on another path."""

from __future__ import annotations

from pathlib import Path

from conductorlite.store.index.index import SQLiteIndex
from conductorlite.store.ports import IndexDAO
from conductorlite.testing.conformance.indexes import IndexConformance


class TestSQLiteIndex(IndexConformance):
    """In a file, two handles as of two processes."""

    def make_index(self, folder: Path) -> IndexDAO:
        """A handle on the file in a folder."""
        return SQLiteIndex(folder / "some.index.db")
