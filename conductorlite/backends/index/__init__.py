"""The index in SQLite: a file of its own beside the store, or in memory; for every backend."""

from __future__ import annotations

from conductorlite.backends.index.index import SQLiteIndex

__all__ = ["SQLiteIndex"]
