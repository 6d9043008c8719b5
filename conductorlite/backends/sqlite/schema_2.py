"""Schema 2: what stands around the decider."""

from __future__ import annotations

from typing import Final

__all__ = ["V2"]

#: Limits. `in_use` and `reserved` count members; `log` holds the instants of the last admissions; the line is along `place`.
_LIMITS: Final = """
CREATE TABLE limits (
    key TEXT PRIMARY KEY NOT NULL, fence INTEGER NOT NULL, in_use INTEGER NOT NULL, reserved INTEGER NOT NULL,
    log TEXT NOT NULL, depth INTEGER NOT NULL, span_ms INTEGER NOT NULL, number INTEGER NOT NULL, alarm TEXT, alarm_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE limit_members (
    key TEXT NOT NULL, holder TEXT NOT NULL, workflow_id TEXT NOT NULL, ref TEXT, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, state TEXT NOT NULL, number INTEGER NOT NULL, priority INTEGER NOT NULL,
    asked_at INTEGER NOT NULL, created_at INTEGER NOT NULL, seq INTEGER NOT NULL, concurrent INTEGER NOT NULL,
    rate INTEGER NOT NULL, window_ms INTEGER NOT NULL,
    PRIMARY KEY (key, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_members_line ON limit_members (key, priority, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_workflow ON limit_members (workflow_id);
"""

#: What an index is told. `feed` has a row while one is fed: `reader` names it, `position` counts its meals, `removals` deletions;
#: `noting` is where the noting of what was stored before goes on, `until` the last change that came of that. The triggers that
#: fill `changes` are made when the feed begins and dropped when it ends: without an index nothing is noted.
_CHANGES: Final = """
CREATE TABLE feed (
    id INTEGER PRIMARY KEY CHECK (id = 0), reader TEXT NOT NULL, position INTEGER NOT NULL, removals INTEGER NOT NULL,
    noting TEXT, until INTEGER NOT NULL
) STRICT;
CREATE TABLE changes (
    n INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX changes_key ON changes (workflow_id, ref, attempt);
"""

#: Executions that left the store: the compressed JSON of each.
_ARCHIVE: Final = """
CREATE TABLE archive (
    workflow_id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, ended_at INTEGER NOT NULL,
    archived_at INTEGER NOT NULL, size INTEGER NOT NULL, document BLOB NOT NULL
) STRICT;
"""

V2: Final = _LIMITS + _CHANGES + _ARCHIVE
