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

#: Schemas that definitions name.
_SCHEMA_DEFS: Final = """
CREATE TABLE schema_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
"""

V2: Final = _LIMITS + _SCHEMA_DEFS
