"""Schema 1: executions, their inboxes and queues, the registry."""

from __future__ import annotations

from typing import Final

__all__ = ["V1"]

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
CREATE INDEX workflows_status ON workflows (status, workflow_id);
CREATE INDEX workflows_created ON workflows (created_at, workflow_id);
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
