"""What makes a store of an older schema one of the present; imported when there is one.

Each schema is the list of statements that makes it of the one before: 1 executions, their inboxes and queues, the registry; 2 what
stands around the decider; 3 when the store was driven; 4 who holds tasks; 5 rate limits count what is handed to workers;
6 what was indexed, by fences; 7 executions by number; 8 timers in the rows of executions. Never edited once released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from conductorlite.model.canonical import attempt_head
from conductorlite.store.sqlite.history import line_of
from conductorlite.store.sqlite.rows import STATUS, packed_hex

__all__ = ["MIGRATIONS", "OF_OLD"]

V1: Final = """
CREATE TABLE workflows (
    workflow_id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, definition_hash TEXT NOT NULL,
    status TEXT NOT NULL, semantics TEXT NOT NULL, decider_version INTEGER NOT NULL, seed TEXT NOT NULL,
    fence INTEGER NOT NULL, generation INTEGER NOT NULL, created_at INTEGER NOT NULL, started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, last_retried_at INTEGER NOT NULL, timeout_at INTEGER,
    correlation_id TEXT, priority INTEGER NOT NULL, parent_workflow_id TEXT, parent_task_id TEXT,
    parent_ref TEXT, parent_attempt INTEGER NOT NULL, parent_generation INTEGER NOT NULL, depth INTEGER NOT NULL, event TEXT,
    created_by TEXT, idempotency_key TEXT,
    input TEXT NOT NULL, output TEXT NOT NULL, variables TEXT NOT NULL, task_to_domain TEXT NOT NULL,
    reason TEXT, failed_refs TEXT NOT NULL, failed_task_names TEXT NOT NULL, failed_task_id TEXT,
    task_seq INTEGER NOT NULL, history_seq INTEGER NOT NULL, sequence INTEGER NOT NULL, open INTEGER NOT NULL,
    skips INTEGER NOT NULL, permitted_failures INTEGER NOT NULL, compensating TEXT, last_ref TEXT,
    parked TEXT, broken_turns INTEGER NOT NULL
) STRICT;
CREATE INDEX workflows_status_created ON workflows (status, created_at, workflow_id);
CREATE INDEX workflows_name ON workflows (name, status, created_at, workflow_id);
CREATE INDEX workflows_correlation ON workflows (correlation_id, created_at, workflow_id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX workflows_parent ON workflows (parent_workflow_id, created_at, workflow_id)
    WHERE parent_workflow_id IS NOT NULL;

CREATE TABLE idempotency_keys (
    name TEXT NOT NULL, key TEXT NOT NULL, workflow_id TEXT NOT NULL, PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_workflow ON idempotency_keys (workflow_id);

CREATE TABLE tasks (
    workflow_id TEXT NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL, task_id TEXT NOT NULL,
    base_ref TEXT NOT NULL, iterations TEXT NOT NULL, grafts TEXT NOT NULL, seq INTEGER NOT NULL, task_type TEXT NOT NULL,
    name TEXT NOT NULL, status TEXT NOT NULL, first_attempt INTEGER NOT NULL, generation INTEGER NOT NULL,
    input TEXT NOT NULL, output TEXT NOT NULL, reason TEXT, traceback TEXT, worker_id TEXT, domain TEXT,
    lease INTEGER NOT NULL, poll_count INTEGER NOT NULL, scheduled_at INTEGER NOT NULL,
    first_scheduled_at INTEGER NOT NULL, due_at INTEGER NOT NULL, started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, start_delay_ms INTEGER NOT NULL,
    callback_after_ms INTEGER NOT NULL, retried INTEGER NOT NULL, executed INTEGER NOT NULL,
    succeeded_before INTEGER NOT NULL, retried_task_id TEXT, sub_workflow_id TEXT, round INTEGER NOT NULL,
    open INTEGER NOT NULL, waiting INTEGER NOT NULL, failed_child TEXT, poll_timeout_at INTEGER,
    response_timeout_at INTEGER, timeout_at INTEGER, total_timeout_at INTEGER, wait_until INTEGER,
    compensation_next TEXT, live INTEGER NOT NULL, failed INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, ref, attempt)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tasks_id ON tasks (task_id);
CREATE INDEX tasks_loop ON tasks (workflow_id, base_ref, seq, attempt, ref) WHERE iterations <> '';
CREATE INDEX tasks_live ON tasks (workflow_id, seq) WHERE live = 1;
CREATE INDEX tasks_failed ON tasks (workflow_id, seq) WHERE failed = 1;

CREATE TABLE history (
    workflow_id TEXT NOT NULL, n INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL,
    ref TEXT, attempt INTEGER, number INTEGER, reason TEXT, payload TEXT, cause TEXT,
    PRIMARY KEY (workflow_id, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE texts (
    workflow_id TEXT NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (workflow_id, digest)
) STRICT;

CREATE TABLE inbox (
    workflow_id TEXT NOT NULL, event_id TEXT NOT NULL, kind TEXT NOT NULL, due_at INTEGER NOT NULL,
    posted_at INTEGER NOT NULL, sender TEXT NOT NULL, sender_seq INTEGER NOT NULL, ref TEXT, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, data TEXT NOT NULL, held INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_order ON inbox (workflow_id, due_at, posted_at, sender, sender_seq, event_id) WHERE held = 0;
CREATE INDEX inbox_due ON inbox (due_at, workflow_id, event_id) WHERE held = 0;
CREATE INDEX inbox_held ON inbox (workflow_id) WHERE held = 1;

CREATE TABLE messages (
    workflow_id TEXT NOT NULL, ref TEXT NOT NULL, queue TEXT NOT NULL, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, task_id TEXT NOT NULL, due_at INTEGER NOT NULL, priority INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_offered ON messages (queue, priority, due_at, workflow_id, ref);
CREATE INDEX messages_due ON messages (due_at, workflow_id, ref);

CREATE TABLE polls (
    task_type TEXT NOT NULL, domain TEXT NOT NULL, worker_id TEXT, polled_at INTEGER NOT NULL,
    PRIMARY KEY (task_type, domain)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_logs (
    n INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL, task_id TEXT NOT NULL, at INTEGER NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE INDEX task_logs_task ON task_logs (task_id, n);
CREATE INDEX task_logs_workflow ON task_logs (workflow_id);

CREATE TABLE definitions (digest TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE workflow_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE task_defs (name TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('registry', 0);
"""


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

#: Schedules. `text` is what is wanted, `progress` how far it has come; their events are in the inbox of `address`.
_SCHEDULES: Final = """
CREATE TABLE schedules (
    name TEXT PRIMARY KEY NOT NULL, address TEXT NOT NULL, text TEXT NOT NULL, progress TEXT NOT NULL,
    waits INTEGER NOT NULL, fence INTEGER NOT NULL
) STRICT;
"""

#: What is in the payload storage: for which execution, and what may be there for none.
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

#: What goes into an index. `feed` has a row while there is one: `reader` names it, `position` counts its batches, `removals`
#: deletions; `noting` is where the noting of what was stored before goes on, `until` the last change that came of that. The
#: triggers that fill `changes` are made when the feed begins and dropped when it ends: without an index nothing is noted.
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

#: Owners: which engine alone takes turns (empty: any). Events carry the owner of their execution, so that what is due is found
#: along one index, no matter who asks.
_OWNERS: Final = """
ALTER TABLE workflows ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE inbox ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX workflows_owner ON workflows (owner, workflow_id) WHERE owner <> '';
DROP INDEX inbox_due;
CREATE INDEX inbox_due ON inbox (owner, due_at, workflow_id, event_id) WHERE held = 0;
"""

V2: Final = _LIMITS + _EVENTS + _SCHEDULES + _PAYLOADS + _CHANGES + _ARCHIVE + _SCHEMA_DEFS + _OWNERS


#: One row for each stretch in which a driver of an owner (empty: shared) drove, epoch ms.
V3: Final = """
CREATE TABLE driven (
    owner TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (owner, since)
) STRICT, WITHOUT ROWID;
"""


#: `place` says where the presence of a holder is seen, `lease_until` until when it counts as alive where that cannot be looked at.
V4: Final = """
ALTER TABLE tasks ADD COLUMN holder TEXT;
ALTER TABLE tasks ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
CREATE INDEX tasks_held ON tasks (holder) WHERE holder IS NOT NULL;
CREATE TABLE holders (
    holder TEXT PRIMARY KEY NOT NULL, place TEXT NOT NULL, lease_until INTEGER
) STRICT, WITHOUT ROWID;
"""


#: `unpolled` is a JSON list of the lanes that a line passes over. An older member has no lane until its offer ends.
V5: Final = """
ALTER TABLE limits ADD COLUMN unpolled TEXT;
ALTER TABLE limits ADD COLUMN read_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limits ADD COLUMN boot TEXT NOT NULL DEFAULT '';
ALTER TABLE limits ADD COLUMN steady INTEGER NOT NULL DEFAULT 0;
ALTER TABLE limit_members ADD COLUMN lane TEXT NOT NULL DEFAULT '';
CREATE INDEX limits_unpolled ON limits (key) WHERE unpolled IS NOT NULL;
CREATE INDEX limit_members_lane ON limit_members (key, lane, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
"""


#: What was indexed: `feeds` has a row for each index, `indexed` the fence each execution had then, by its rowid, and whether it was
#: `live`; `pending` is what has to be indexed besides. A task has the fence of the last turn that changed it. No trigger looks at
#: every change any more; those for what is rare come with a feed, the tables of the store's own index with the first search.
V6: Final = """
DROP TRIGGER IF EXISTS note_start;
DROP TRIGGER IF EXISTS note_return;
DROP TRIGGER IF EXISTS note_turn;
DROP TRIGGER IF EXISTS note_removal;
DROP TRIGGER IF EXISTS note_attempt;
DROP TRIGGER IF EXISTS note_progress;
DROP TRIGGER IF EXISTS note_rename;
DROP TRIGGER IF EXISTS note_drop;
DROP TRIGGER IF EXISTS note_archiving;
DROP TRIGGER IF EXISTS note_dropping;
DROP TABLE changes;
DROP TABLE feed;
ALTER TABLE tasks ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
CREATE TABLE feeds (
    n INTEGER PRIMARY KEY, reader TEXT NOT NULL, position INTEGER NOT NULL, complete INTEGER NOT NULL
) STRICT;
CREATE TABLE indexed (
    feed INTEGER NOT NULL, place INTEGER NOT NULL, fence INTEGER NOT NULL, live INTEGER NOT NULL, PRIMARY KEY (feed, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX indexed_live ON indexed (feed, place, fence) WHERE live = 1;
CREATE TABLE pending (
    n INTEGER PRIMARY KEY AUTOINCREMENT, feed INTEGER NOT NULL, workflow_id TEXT NOT NULL
) STRICT;
CREATE INDEX pending_feed ON pending (feed, workflow_id);
"""


#: Executions have numbers, by which their rows are found; `rows` says how cells are written. History is a row for each turn.
#: An attempt is found by its id among the live ones of each holder, else through the `head` of its execution: what the ids of its
#: attempts begin with. The indexes that fed on the old rows are begun again.
V7: Final = """
DROP TRIGGER IF EXISTS pend_turn_on_ended;
DROP TRIGGER IF EXISTS pend_removal;
DROP TRIGGER IF EXISTS pend_rename;
DROP TRIGGER IF EXISTS pend_drop;
DROP TRIGGER IF EXISTS pend_archiving;
DROP TRIGGER IF EXISTS pend_dropping;
UPDATE feeds SET reader = '';
ALTER TABLE workflows RENAME TO old_workflows;
ALTER TABLE tasks RENAME TO old_tasks;
ALTER TABLE history RENAME TO old_history;
ALTER TABLE texts RENAME TO old_texts;
ALTER TABLE inbox RENAME TO old_inbox;
CREATE TABLE workflows (
    execution INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL UNIQUE, head INTEGER NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, definition_hash ANY NOT NULL, status INTEGER NOT NULL, fence INTEGER NOT NULL,
    created_at INTEGER NOT NULL, started_at INTEGER, updated_at INTEGER, ended_at INTEGER, correlation_id TEXT,
    parent_workflow_id TEXT, owner TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, variables TEXT NOT NULL,
    task_to_domain TEXT NOT NULL, reason TEXT, task_seq INTEGER NOT NULL, history_seq INTEGER NOT NULL,
    sequence INTEGER NOT NULL, open INTEGER NOT NULL, last_ref TEXT, parked TEXT, broken_turns INTEGER NOT NULL, rest TEXT
) STRICT;
INSERT INTO workflows SELECT rowid, workflow_id, attempt_head(workflow_id), name, version, packed_hex(definition_hash),
    status_number(status), fence, created_at, nullif(started_at, 0) - created_at, nullif(updated_at, 0) - created_at,
    nullif(ended_at, 0) - created_at, correlation_id, parent_workflow_id, owner, input, output, variables, task_to_domain, reason,
    task_seq, history_seq, sequence, open, last_ref, parked, broken_turns,
    nullif(json_patch('{}', json_object('semantics', nullif(semantics, 'ORKES'), 'decider_version', nullif(decider_version, 1),
    'seed', nullif(seed, ''), 'generation', nullif(generation, 0), 'last_retried_at', nullif(last_retried_at, 0),
    'timeout_at', timeout_at, 'priority', nullif(priority, 0), 'parent_task_id', parent_task_id, 'parent_ref', parent_ref,
    'parent_attempt', nullif(parent_attempt, 0), 'parent_generation', nullif(parent_generation, 0), 'depth', nullif(depth, 0),
    'event', event, 'created_by', created_by, 'rate_limit_key', rate_limit_key,
    'rate_limited', CASE WHEN rate_limited THEN json('true') END, 'outer_keys', json(nullif(outer_keys, '')),
    'idempotency_key', idempotency_key, 'failed_refs', json(nullif(failed_refs, '')),
    'failed_task_names', json(nullif(failed_task_names, '')), 'failed_task_id', failed_task_id, 'skips', nullif(skips, 0),
    'permitted_failures', nullif(permitted_failures, 0), 'compensating', compensating)), '{}') FROM old_workflows ORDER BY rowid;
CREATE TABLE tasks (
    execution INTEGER NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL, task_id ANY NOT NULL, base_ref TEXT,
    iterations TEXT NOT NULL, seq INTEGER NOT NULL, task_type TEXT NOT NULL, name TEXT, status INTEGER NOT NULL,
    input TEXT NOT NULL, output TEXT NOT NULL, reason TEXT, worker_id TEXT, holder TEXT NOT NULL,
    lease INTEGER NOT NULL, poll_count INTEGER NOT NULL, scheduled_at INTEGER NOT NULL, first_scheduled_at INTEGER,
    due_at INTEGER, started_at INTEGER, updated_at INTEGER, ended_at INTEGER, poll_timeout_at INTEGER,
    response_timeout_at INTEGER, timeout_at INTEGER, retried INTEGER NOT NULL, executed INTEGER NOT NULL,
    live INTEGER NOT NULL, fence INTEGER NOT NULL, rest TEXT, PRIMARY KEY (execution, ref, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO tasks SELECT w.execution, t.ref, attempt, packed_hex(task_id), nullif(base_ref, t.ref), iterations, seq, task_type,
    nullif(t.name, task_type), status_number(t.status), t.input, t.output, t.reason, worker_id, coalesce(holder, ''),
    lease, poll_count, scheduled_at, nullif(first_scheduled_at, 0) - scheduled_at, nullif(due_at, 0) - scheduled_at,
    nullif(t.started_at, 0) - scheduled_at, nullif(t.updated_at, 0) - scheduled_at, nullif(t.ended_at, 0) - scheduled_at,
    poll_timeout_at - scheduled_at, response_timeout_at - scheduled_at, timeout_at - scheduled_at, retried, executed, live,
    t.fence, nullif(json_patch('{}', json_object('grafts', CASE WHEN grafts <> '' THEN
    json('["' || replace(grafts, ',', '","') || '"]') END, 'generation', nullif(generation, 0),
    'first_attempt', nullif(first_attempt, 0), 'traceback', traceback,
    'domain', domain, 'deaths', nullif(deaths, 0), 'start_delay_ms', nullif(start_delay_ms, 0),
    'callback_after_ms', nullif(callback_after_ms, 0), 'succeeded_before', CASE WHEN succeeded_before THEN json('true') END,
    'retried_task_id', retried_task_id, 'sub_workflow_id', sub_workflow_id, 'round', nullif(round, 0), 'open', nullif(t.open, 0),
    'waiting', nullif(waiting, 0), 'failed_child', failed_child, 'total_timeout_at', total_timeout_at, 'wait_until', wait_until,
    'limit_key', limit_key, 'compensation_next', compensation_next)), '{}')
    FROM old_tasks AS t JOIN workflows AS w ON w.workflow_id = t.workflow_id;
CREATE TABLE history (place INTEGER PRIMARY KEY, at INTEGER NOT NULL, lines TEXT NOT NULL) STRICT;
INSERT INTO history SELECT (execution << 28) + n, at, line_of(kind || ' ' || h.status, ref, attempt, number, h.reason, payload,
    cause, NULL) FROM old_history AS h JOIN workflows AS w ON w.workflow_id = h.workflow_id;
CREATE TABLE texts (
    execution INTEGER NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (execution, digest)
) STRICT;
INSERT INTO texts SELECT execution, digest, text FROM old_texts AS t JOIN workflows AS w ON w.workflow_id = t.workflow_id;
CREATE TABLE inbox (
    workflow_id TEXT NOT NULL, event_id TEXT NOT NULL, kind TEXT NOT NULL, due_at INTEGER NOT NULL, posted_at INTEGER NOT NULL,
    sender TEXT, sender_seq INTEGER NOT NULL, ref TEXT, attempt INTEGER NOT NULL, generation INTEGER NOT NULL,
    data TEXT NOT NULL, held INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (workflow_id, event_id)
) STRICT, WITHOUT ROWID;
INSERT INTO inbox SELECT workflow_id, event_id, kind, due_at, posted_at,
    nullif(sender, workflow_id), sender_seq, ref, attempt, generation, data, held, owner FROM old_inbox;
DROP TABLE old_workflows;
DROP TABLE old_tasks;
DROP TABLE old_history;
DROP TABLE old_texts;
DROP TABLE old_inbox;
CREATE INDEX workflows_head ON workflows (head);
CREATE INDEX workflows_status_created ON workflows (status, created_at, workflow_id);
CREATE INDEX workflows_name ON workflows (name, status, created_at, workflow_id);
CREATE INDEX workflows_correlation ON workflows (correlation_id, created_at, workflow_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX workflows_parent ON workflows (parent_workflow_id, created_at, workflow_id) WHERE parent_workflow_id IS NOT NULL;
CREATE INDEX workflows_owner ON workflows (owner, workflow_id) WHERE owner <> '';
CREATE INDEX tasks_live ON tasks (holder, task_id) WHERE live = 1 OR holder <> '';
CREATE INDEX tasks_failed ON tasks (execution, seq) WHERE retried = 0 AND status IN (5, 6, 7);
CREATE INDEX tasks_loop ON tasks (execution, base_ref, seq, attempt, ref) WHERE iterations <> '';
CREATE INDEX inbox_due ON inbox (owner, due_at, workflow_id, posted_at, coalesce(sender, workflow_id), sender_seq, event_id)
    WHERE held = 0;
DROP INDEX messages_due;
"""

#: An execution's own timers stand in its row: new ones of those that have none in the inbox.
V8: Final = """
ALTER TABLE workflows ADD COLUMN alarm_at INTEGER;
ALTER TABLE workflows ADD COLUMN timers TEXT;
UPDATE workflows SET timers = '+' WHERE workflow_id IN (SELECT workflow_id FROM inbox);
CREATE INDEX workflows_alarm ON workflows (owner, alarm_at, workflow_id) WHERE alarm_at IS NOT NULL;
"""

#: The last lines of a journal stand in the row of their execution, and what is long is compressed.
V9: Final = """
ALTER TABLE workflows ADD COLUMN journal ANY;
ALTER TABLE history RENAME TO old_history;
CREATE TABLE history (place INTEGER PRIMARY KEY, at INTEGER NOT NULL, lines ANY NOT NULL) STRICT;
INSERT INTO history SELECT place, at, lines FROM old_history;
DROP TABLE old_history;
"""

#: What has failed is indexed by bounds: of a list SQLite makes a table, for each row that is written.
V10: Final = """
DROP INDEX tasks_failed;
CREATE INDEX tasks_failed ON tasks (execution, seq) WHERE retried = 0 AND status BETWEEN 5 AND 7;
"""

#: What is live is indexed by execution, so that what is new stands side by side: by their ids they would be all over the index.
V11: Final = """
DROP INDEX tasks_live;
CREATE INDEX tasks_live ON tasks (holder, execution, task_id) WHERE live = 1 OR holder <> '';
"""

#: Messages to executions are kept.
V12: Final = """
CREATE TABLE mailbox (
    workflow_id TEXT NOT NULL, number INTEGER NOT NULL, topic TEXT NOT NULL, receiver TEXT, received_at INTEGER,
    key TEXT NOT NULL, sent_at INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (workflow_id, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mailbox_key ON mailbox (workflow_id, topic, key);
CREATE INDEX mailbox_unreceived ON mailbox (workflow_id, topic, number) WHERE receiver IS NULL;
"""

#: What takes a store from schema n to n + 1.
MIGRATIONS: Final = (V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12)

#: How cells of older schemas are written since the seventh.
OF_OLD: Final[dict[str, Callable[..., str | bytes | int]]] = {
    "attempt_head": lambda workflow_id: int(attempt_head(workflow_id), 16),
    "packed_hex": packed_hex,
    "status_number": lambda name: STATUS[name],
    "line_of": line_of,
}
