"""What a SQLite store consists of: its tables, indexes and views, each declared once.

Layout. What a turn touches is stored together: tasks are WITHOUT ROWID and clustered by the number of the execution, which
grows, so that what is new stands side by side; history by a rowid made of that number and the line's, for SQLite fills pages with
rising rowids to the full; inbox and messages, which also are there before an execution, by its id.
Rows that may be wide (workflows, texts, definitions) are ordinary tables, because an index b-tree spills rows over 1 KB into
overflow pages. Every secondary index on a hot table is partial or serves a statement of every turn: each one costs a page in
the log of each commit. No partial one says `IN`: SQLite makes a table of the list for each row that is written. Those of
workflows, along which executions are listed, hold only what a turn does not change, and the status. An execution's own timers
stand in its row, see `changes`. Nothing here may run ANALYZE: plans must not depend on what a store held when it was analysed.

The tables are declared in SQL: sqlite-utils makes STRICT tables, but neither WITHOUT ROWID ones nor partial indexes.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA"]

#: What a store consists of when it is made. `limits`: `in_use` and `reserved` count members, `log` holds the instants of the last
#: admissions, `unpolled` is a JSON list of the lanes that a line passes over. `event_executions`: its primary key is what makes an
#: action happen once. `schedules`: `text` is what is wanted, `progress` how far it has come; their events are in the inbox of
#: `address`. `driven`: a row for each stretch in which a driver of an owner (empty: shared) drove, epoch ms. `holders`: `place` is
#: where the presence of a holder is seen, `lease_until` until when it counts as alive where that cannot be looked at. `feeds` has a
#: row for each index, `indexed` the fence each execution had then and whether it was `live`, `pending` what has to be indexed
#: besides. `mailbox`: messages to executions; `receiver` is the reference of the task that has received one. `emitted`: values
#: of streams, `emissions` what has become of those of a call. The tables of the store's own index come with the first search. The
#: views are for people: their columns are added to, never taken away. Where a table has got columns later, its text is what ALTER
#: TABLE leaves.
SCHEMA: Final = """
CREATE TABLE workflows (
    execution INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL UNIQUE, head INTEGER NOT NULL, name TEXT NOT NULL,
    version INTEGER NOT NULL, definition_hash ANY NOT NULL, status INTEGER NOT NULL, fence INTEGER NOT NULL,
    created_at INTEGER NOT NULL, started_at INTEGER, updated_at INTEGER, ended_at INTEGER, correlation_id TEXT,
    parent_workflow_id TEXT, owner TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL, variables TEXT NOT NULL,
    task_to_domain TEXT NOT NULL, reason TEXT, task_seq INTEGER NOT NULL, history_seq INTEGER NOT NULL,
    sequence INTEGER NOT NULL, open INTEGER NOT NULL, last_ref TEXT, parked TEXT, broken_turns INTEGER NOT NULL, rest TEXT
, alarm_at INTEGER, timers TEXT, journal ANY) STRICT;
CREATE INDEX workflows_head ON workflows (head);
CREATE INDEX workflows_status_created ON workflows (status, created_at, workflow_id);
CREATE INDEX workflows_name ON workflows (name, status, created_at, workflow_id);
CREATE INDEX workflows_correlation ON workflows (correlation_id, created_at, workflow_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX workflows_parent ON workflows (parent_workflow_id, created_at, workflow_id) WHERE parent_workflow_id IS NOT NULL;
CREATE INDEX workflows_owner ON workflows (owner, workflow_id) WHERE owner <> '';
CREATE INDEX workflows_alarm ON workflows (owner, alarm_at, workflow_id) WHERE alarm_at IS NOT NULL;
CREATE TABLE tasks (
    execution INTEGER NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL, task_id ANY NOT NULL, base_ref TEXT,
    iterations TEXT NOT NULL, seq INTEGER NOT NULL, task_type TEXT NOT NULL, name TEXT, status INTEGER NOT NULL,
    input TEXT NOT NULL, output TEXT NOT NULL, reason TEXT, worker_id TEXT, holder TEXT NOT NULL,
    lease INTEGER NOT NULL, poll_count INTEGER NOT NULL, scheduled_at INTEGER NOT NULL, first_scheduled_at INTEGER,
    due_at INTEGER, started_at INTEGER, updated_at INTEGER, ended_at INTEGER, poll_timeout_at INTEGER,
    response_timeout_at INTEGER, timeout_at INTEGER, retried INTEGER NOT NULL, executed INTEGER NOT NULL,
    live INTEGER NOT NULL, fence INTEGER NOT NULL, rest TEXT, PRIMARY KEY (execution, ref, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX tasks_live ON tasks (holder, execution, task_id) WHERE live = 1 OR holder <> '';
CREATE INDEX tasks_failed ON tasks (execution, seq) WHERE retried = 0 AND status BETWEEN 5 AND 7;
CREATE INDEX tasks_loop ON tasks (execution, base_ref, seq, attempt, ref) WHERE iterations <> '';
CREATE TABLE history (place INTEGER PRIMARY KEY, at INTEGER NOT NULL, lines ANY NOT NULL) STRICT;
CREATE TABLE texts (
    execution INTEGER NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (execution, digest)
) STRICT;
CREATE TABLE inbox (
    workflow_id TEXT NOT NULL, event_id TEXT NOT NULL, kind TEXT NOT NULL, due_at INTEGER NOT NULL, posted_at INTEGER NOT NULL,
    sender TEXT, sender_seq INTEGER NOT NULL, ref TEXT, attempt INTEGER NOT NULL, generation INTEGER NOT NULL,
    data TEXT NOT NULL, held INTEGER NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (workflow_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_due ON inbox (owner, due_at, workflow_id, posted_at, coalesce(sender, workflow_id), sender_seq, event_id)
    WHERE held = 0;

CREATE TABLE messages (
    workflow_id TEXT NOT NULL, ref TEXT NOT NULL, queue TEXT NOT NULL, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, task_id TEXT NOT NULL, due_at INTEGER NOT NULL, priority INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX messages_offered ON messages (queue, priority, due_at, workflow_id, length(ref), ref);

CREATE TABLE idempotency_keys (
    name TEXT NOT NULL, key TEXT NOT NULL, workflow_id TEXT NOT NULL, PRIMARY KEY (name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_workflow ON idempotency_keys (workflow_id);
CREATE TABLE polls (
    task_type TEXT NOT NULL, domain TEXT NOT NULL, worker_id TEXT, polled_at INTEGER NOT NULL,
    PRIMARY KEY (task_type, domain)
) STRICT, WITHOUT ROWID;
CREATE TABLE task_logs (
    n INTEGER PRIMARY KEY, workflow_id TEXT NOT NULL, task_id TEXT NOT NULL, at INTEGER NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE INDEX task_logs_task ON task_logs (task_id, n);
CREATE INDEX task_logs_workflow ON task_logs (workflow_id);
CREATE TABLE mailbox (
    workflow_id TEXT NOT NULL, number INTEGER NOT NULL, topic TEXT NOT NULL, receiver TEXT, received_at INTEGER,
    key TEXT NOT NULL, sent_at INTEGER NOT NULL, value TEXT NOT NULL, PRIMARY KEY (workflow_id, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mailbox_key ON mailbox (workflow_id, topic, key);
CREATE INDEX mailbox_unreceived ON mailbox (workflow_id, topic, number) WHERE receiver IS NULL;
CREATE TABLE emissions (
    workflow_id TEXT NOT NULL, task_id TEXT NOT NULL, lease INTEGER NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL,
    state TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (workflow_id, task_id, lease)
) STRICT, WITHOUT ROWID;
CREATE TABLE emitted (
    workflow_id TEXT NOT NULL, last INTEGER NOT NULL, first INTEGER NOT NULL, stream TEXT NOT NULL, task_id TEXT NOT NULL,
    lease INTEGER NOT NULL, at INTEGER NOT NULL, items TEXT NOT NULL, PRIMARY KEY (workflow_id, last)
) STRICT;
CREATE INDEX emitted_stream ON emitted (workflow_id, stream, last);
CREATE TABLE latest_values (
    workflow_id TEXT NOT NULL, name TEXT NOT NULL, ref TEXT NOT NULL, at INTEGER NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (workflow_id, name, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE task_defs (name TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE workflow_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE definitions (digest TEXT PRIMARY KEY NOT NULL, text TEXT NOT NULL) STRICT;
CREATE TABLE schema_defs (
    name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (name, version)
) STRICT;
CREATE TABLE counters (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('registry', 0);

CREATE TABLE limits (
    key TEXT PRIMARY KEY NOT NULL, fence INTEGER NOT NULL, in_use INTEGER NOT NULL, reserved INTEGER NOT NULL,
    log TEXT NOT NULL, depth INTEGER NOT NULL, span_ms INTEGER NOT NULL, number INTEGER NOT NULL, alarm TEXT, alarm_at INTEGER
, unpolled TEXT, read_at INTEGER NOT NULL DEFAULT 0, boot TEXT NOT NULL DEFAULT '', steady INTEGER NOT NULL DEFAULT 0, tags TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;
CREATE INDEX limits_unpolled ON limits (key) WHERE unpolled IS NOT NULL;
CREATE TABLE limit_members (
    key TEXT NOT NULL, holder TEXT NOT NULL, workflow_id TEXT NOT NULL, ref TEXT, attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL, state TEXT NOT NULL, number INTEGER NOT NULL, priority INTEGER NOT NULL,
    asked_at INTEGER NOT NULL, created_at INTEGER NOT NULL, seq INTEGER NOT NULL, concurrent INTEGER NOT NULL,
    rate INTEGER NOT NULL, window_ms INTEGER NOT NULL, lane TEXT NOT NULL DEFAULT '', fairness_key TEXT NOT NULL DEFAULT '', start_tag INTEGER NOT NULL DEFAULT 0, cost INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (key, holder)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_members_line ON limit_members (key, priority DESC, start_tag, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_workflow ON limit_members (workflow_id);
CREATE INDEX limit_members_lane ON limit_members
    (key, lane, priority DESC, start_tag, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';

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

CREATE TABLE schedules (
    name TEXT PRIMARY KEY NOT NULL, address TEXT NOT NULL, text TEXT NOT NULL, progress TEXT NOT NULL,
    waits INTEGER NOT NULL, fence INTEGER NOT NULL
, owner TEXT NOT NULL DEFAULT '') STRICT;

CREATE TABLE external_payloads (
    workflow_id TEXT NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (workflow_id, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX external_payloads_key ON external_payloads (key);
CREATE TABLE loose_payloads (
    key TEXT NOT NULL, workflow_id TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (key, workflow_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE archive (
    workflow_id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL, ended_at INTEGER NOT NULL,
    archived_at INTEGER NOT NULL, size INTEGER NOT NULL, document BLOB NOT NULL
) STRICT;

CREATE TABLE driven (
    owner TEXT NOT NULL, since INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (owner, since)
) STRICT, WITHOUT ROWID;

CREATE TABLE holders (
    holder TEXT PRIMARY KEY NOT NULL, place TEXT NOT NULL, lease_until INTEGER
) STRICT, WITHOUT ROWID;

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

CREATE VIEW conductor_workflows AS SELECT w.workflow_id, name, version, s.value AS status, created_at,
    created_at + started_at AS started_at, created_at + updated_at AS updated_at, created_at + ended_at AS ended_at, correlation_id,
    parent_workflow_id, owner, reason, CASE WHEN input LIKE '#%' THEN (SELECT text FROM texts AS t WHERE t.execution = w.execution
    AND t.digest = substr(input, 2)) ELSE input END AS input, CASE WHEN output LIKE '#%' THEN (SELECT text FROM texts AS t
    WHERE t.execution = w.execution AND t.digest = substr(output, 2)) ELSE output END AS output
    FROM workflows AS w JOIN json_each('["SCHEDULED","IN_PROGRESS","COMPLETED","RUNNING","PENDING","FAILED","FAILED_WITH_TERMINAL_ERROR","TIMED_OUT","CANCELED","COMPLETED_WITH_ERRORS","SKIPPED","PAUSED","TERMINATED"]') AS s ON s.key = w.status;
CREATE VIEW conductor_tasks AS SELECT w.workflow_id, ref AS reference_task_name, attempt,
    CASE typeof(task_id) WHEN 'blob' THEN lower(hex(task_id)) ELSE task_id END AS task_id, task_type,
    coalesce(k.name, task_type) AS name, s.value AS status, scheduled_at, scheduled_at + k.started_at AS started_at,
    scheduled_at + k.updated_at AS updated_at, scheduled_at + k.ended_at AS ended_at, worker_id, k.reason,
    CASE WHEN k.input LIKE '#%' THEN (SELECT text FROM texts AS t WHERE t.execution = k.execution
    AND t.digest = substr(k.input, 2)) ELSE k.input END AS input, CASE WHEN k.output LIKE '#%' THEN (SELECT text FROM texts AS t
    WHERE t.execution = k.execution AND t.digest = substr(k.output, 2)) ELSE k.output END AS output
    FROM tasks AS k JOIN workflows AS w ON w.execution = k.execution JOIN json_each('["SCHEDULED","IN_PROGRESS","COMPLETED","RUNNING","PENDING","FAILED","FAILED_WITH_TERMINAL_ERROR","TIMED_OUT","CANCELED","COMPLETED_WITH_ERRORS","SKIPPED","PAUSED","TERMINATED"]') AS s ON s.key = k.status;
"""  # noqa: E501
