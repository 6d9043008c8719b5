"""Archived executions in a SQLite store: `ports.ArchiveReads` and `ports.ArchiveWrites`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from conductorlite.ports import Archived

__all__ = ["SQLiteArchiveReads", "SQLiteArchiveWrites"]

ARCHIVED: Final = "SELECT workflow_id, name, status, ended_at, archived_at, size, document FROM archive WHERE workflow_id = ?"
ARCHIVED_IDS: Final = "SELECT workflow_id FROM archive WHERE workflow_id > ? ORDER BY workflow_id LIMIT ?"
# Not OR REPLACE, which deletes without a trigger.
_ARCHIVE: Final = (
    "INSERT INTO archive (workflow_id, name, status, ended_at, archived_at, size, document) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_DROP: Final = "DELETE FROM archive WHERE workflow_id = ?"


class SQLiteArchiveReads:
    """Finding archived executions."""

    _connection: sqlite3.Connection

    def archived(self, workflow_id: str) -> Archived | None:
        """An archived execution, or None."""
        row = self._connection.execute(ARCHIVED, (workflow_id,)).fetchone()
        if row is None:
            return None
        return Archived(
            workflow_id=row[0], name=row[1], status=row[2], ended_at=row[3], archived_at=row[4], size=row[5], document=row[6]
        )

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        """A page of ids in ascending order, greater than `after`."""
        return [workflow_id for (workflow_id,) in self._connection.execute(ARCHIVED_IDS, (after, limit))]


class SQLiteArchiveWrites:
    """Keeping archived executions."""

    _connection: sqlite3.Connection
    _dirty: bool

    def archive(self, archived: Archived) -> None:
        """Keep an execution, in the place of one of the same id."""
        self.drop_archived(archived.workflow_id)
        self._connection.execute(
            _ARCHIVE,
            (
                archived.workflow_id,
                archived.name,
                archived.status,
                archived.ended_at,
                archived.archived_at,
                archived.size,
                archived.document,
            ),
        )

    def drop_archived(self, workflow_id: str) -> bool:
        """Delete an archived execution; False when there is none."""
        self._dirty = True
        return self._connection.execute(_DROP, (workflow_id,)).rowcount > 0
