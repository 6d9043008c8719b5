"""Schema 2: what stands around the decider."""

from __future__ import annotations

from typing import Final

__all__ = ["V2"]

#: Limits. `in_use` and `reserved` count members; `log` holds the instants of the last admissions; the line is along `place`.
_LIMITS: Final = """
ALTER TABLE tasks ADD COLUMN limit_key TEXT;
ALTER TABLE workflows ADD COLUMN rate_limit_key TEXT;
ALTER TABLE workflows ADD COLUMN rate_limited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflows ADD COLUMN outer_keys TEXT NOT NULL DEFAULT '';
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
CREATE INDEX limit_members_line ON limit_members (key, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_workflow ON limit_members (workflow_id);
"""

#: Event handlers, and what became of messages: the primary key is what makes an action happen once.
_EVENTS: Final = """
CREATE TABLE event_handlers (
    name TEXT PRIMARY KEY NOT NULL, event TEXT NOT NULL, active INTEGER NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE INDEX event_handlers_event ON event_handlers (event, name);
CREATE TABLE event_executions (
    name TEXT NOT NULL, event TEXT NOT NULL, message_id TEXT NOT NULL, number INTEGER NOT NULL, created INTEGER NOT NULL,
    status TEXT NOT NULL, action TEXT, output TEXT NOT NULL,
    PRIMARY KEY (name, event, message_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_executions_created ON event_executions (created, name, event, message_id, number);
CREATE INDEX event_executions_name ON event_executions (name, created, event, message_id, number);
CREATE INDEX event_executions_message ON event_executions (message_id, created, name, event, number);
"""

#: Schedules. `text` is what is wanted, `progress` how far it has come; their letters lie in the inbox of `address`.
_SCHEDULES: Final = """
CREATE TABLE schedules (
    name TEXT PRIMARY KEY NOT NULL, address TEXT NOT NULL, text TEXT NOT NULL, progress TEXT NOT NULL,
    waits INTEGER NOT NULL, fence INTEGER NOT NULL
) STRICT;
"""

#: What lies in the payload storage: for whom, and what may lie there for nobody.
_PAYLOADS: Final = """
CREATE TABLE external_payloads (
    workflow_id TEXT NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (workflow_id, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX external_payloads_key ON external_payloads (key);
CREATE TABLE loose_payloads (
    key TEXT NOT NULL, workflow_id TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, workflow_id)
) STRICT, WITHOUT ROWID;
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

#: Schemas that definitions name.
_SCHEMA_DEFS: Final = """
CREATE TABLE schema_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
"""

#: Owners: who alone takes turns (empty: anybody). Letters carry the owner of their execution, so that what is due is found along
#: one index, whoever asks.
_OWNERS: Final = """
ALTER TABLE workflows ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX workflows_owner ON workflows (owner, workflow_id) WHERE owner <> '';
DROP INDEX inbox_due;
CREATE INDEX inbox_due ON inbox (owner, due_at, workflow_id, event_id) WHERE held = 0;
"""

V2: Final = _LIMITS + _EVENTS + _SCHEDULES + _PAYLOADS + _CHANGES + _ARCHIVE + _SCHEMA_DEFS + _OWNERS
