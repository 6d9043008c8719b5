"""Schema 4: who has tasks in hand."""

from __future__ import annotations

from typing import Final

__all__ = ["V4"]

#: `place` says where the presence of a holder is seen, `lease_until` until when it counts as alive where that cannot be looked at.
V4: Final = """
ALTER TABLE tasks ADD COLUMN holder TEXT;
ALTER TABLE tasks ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_held ON tasks (holder) WHERE holder IS NOT NULL;
CREATE TABLE holders (
    holder TEXT PRIMARY KEY NOT NULL, place TEXT NOT NULL, lease_until INTEGER
) STRICT, WITHOUT ROWID;
"""
