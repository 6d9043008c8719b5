"""The SQLite backend: one file, several processes, every commit durable."""

from __future__ import annotations

from conductorlite.backends.sqlite.backend import SQLiteBackend
from conductorlite.backends.sqlite.counting import Counts

__all__ = ["Counts", "SQLiteBackend"]
