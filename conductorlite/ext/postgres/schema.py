"""The tables of a store in PostgreSQL, in a schema of their own, how they are made and migrated, and the statements of its own.

The rows are those of the SQLite store (see `store.sqlite.schema`), and so is what the columns mean. Texts compare by their bytes
(`COLLATE "C"`), as they do everywhere else here. What a feed has to know of rare changes is written by triggers, which stand from
the beginning and find no feed where none is on. A feed finds new executions by their number: one with a lower number is never
committed later, because a writer draws numbers only while it alone may write.

Each migration is a text that takes a store from one version to the next, never edited once released. All of them run in one
transaction, under a lock that every process takes which opens the store: one that comes second finds the work done.

Statements that are not PostgreSQL's own stand with the SQLite store, in words that both understand. Parameters are `?`, in their
order, or `?1`, by their number.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from conductorlite.store.sqlite import limits, tables
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import EVENT_COLUMNS, MESSAGE_COLUMNS, TASK_COLUMNS, TASK_FIXED, WORKFLOW_COLUMNS

__all__ = ["MIGRATIONS", "VERSION", "lock_of", "numbered", "text_of"]

_V1: Final = """
CREATE TABLE workflows (
    execution bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workflow_id text NOT NULL UNIQUE, head bigint NOT NULL,
    name text NOT NULL, version bigint NOT NULL, definition_hash text NOT NULL, status bigint NOT NULL, fence bigint NOT NULL,
    created_at bigint NOT NULL, started_at bigint, updated_at bigint, ended_at bigint, correlation_id text,
    parent_workflow_id text, owner text NOT NULL, input text NOT NULL, output text NOT NULL, variables text NOT NULL,
    task_to_domain text NOT NULL, reason text, task_seq bigint NOT NULL, history_seq bigint NOT NULL,
    sequence bigint NOT NULL, open bigint NOT NULL, last_ref text, parked text, broken_turns bigint NOT NULL, rest text
) WITH (fillfactor = 60);
CREATE INDEX workflows_head ON workflows (head);
CREATE INDEX workflows_status_created ON workflows (status, created_at, workflow_id);
CREATE INDEX workflows_name ON workflows (name, status, created_at, workflow_id);
CREATE INDEX workflows_correlation ON workflows (correlation_id, created_at, workflow_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX workflows_parent ON workflows (parent_workflow_id, created_at, workflow_id) WHERE parent_workflow_id IS NOT NULL;
CREATE INDEX workflows_owner ON workflows (owner, workflow_id) WHERE owner <> '';
CREATE TABLE idempotency_keys (name text NOT NULL, key text NOT NULL, workflow_id text NOT NULL, PRIMARY KEY (name, key));
CREATE INDEX idempotency_keys_workflow ON idempotency_keys (workflow_id);
CREATE TABLE tasks (
    execution bigint NOT NULL, ref text NOT NULL, attempt bigint NOT NULL, task_id text NOT NULL, base_ref text,
    iterations text NOT NULL, seq bigint NOT NULL, task_type text NOT NULL, name text, status bigint NOT NULL,
    input text NOT NULL, output text NOT NULL, reason text, worker_id text, holder text NOT NULL,
    lease bigint NOT NULL, poll_count bigint NOT NULL, scheduled_at bigint NOT NULL, first_scheduled_at bigint,
    due_at bigint, started_at bigint, updated_at bigint, ended_at bigint, poll_timeout_at bigint,
    response_timeout_at bigint, timeout_at bigint, retried bigint NOT NULL, executed bigint NOT NULL,
    live bigint NOT NULL, fence bigint NOT NULL, rest text, PRIMARY KEY (execution, ref, attempt)
) WITH (fillfactor = 70);
CREATE INDEX tasks_live ON tasks (holder, task_id) WHERE live = 1 OR holder <> '';
CREATE INDEX tasks_failed ON tasks (execution, seq) WHERE retried = 0 AND status IN (5, 6, 7);
CREATE INDEX tasks_loop ON tasks (execution, base_ref, seq, attempt, ref) WHERE iterations <> '';
CREATE TABLE history (place bigint PRIMARY KEY, at bigint NOT NULL, lines text NOT NULL);
CREATE TABLE texts (execution bigint NOT NULL, digest text NOT NULL, text text NOT NULL, PRIMARY KEY (execution, digest));
CREATE TABLE inbox (
    workflow_id text NOT NULL, event_id text NOT NULL, kind text NOT NULL, due_at bigint NOT NULL, posted_at bigint NOT NULL,
    sender text, sender_seq bigint NOT NULL, ref text, attempt bigint NOT NULL, generation bigint NOT NULL,
    data text NOT NULL, held bigint NOT NULL, owner text NOT NULL, PRIMARY KEY (workflow_id, event_id)
);
CREATE INDEX inbox_due ON inbox (owner, due_at, workflow_id, posted_at, (coalesce(sender, workflow_id)), sender_seq, event_id)
    WHERE held = 0;
CREATE INDEX inbox_order ON inbox (workflow_id, due_at, posted_at, (coalesce(sender, workflow_id)), sender_seq, event_id)
    WHERE held = 0;
CREATE TABLE messages (
    workflow_id text NOT NULL, ref text NOT NULL, queue text NOT NULL, attempt bigint NOT NULL,
    generation bigint NOT NULL, task_id text NOT NULL, due_at bigint NOT NULL, priority bigint NOT NULL,
    PRIMARY KEY (workflow_id, ref)
);
CREATE INDEX messages_due ON messages (queue, due_at);
CREATE INDEX messages_offered ON messages (queue, priority DESC, due_at, workflow_id, ref);
CREATE TABLE polls (
    task_type text NOT NULL, domain text NOT NULL, worker_id text, polled_at bigint NOT NULL, PRIMARY KEY (task_type, domain)
);
CREATE TABLE task_logs (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, workflow_id text NOT NULL, task_id text NOT NULL, at bigint NOT NULL,
    text text NOT NULL
);
CREATE INDEX task_logs_task ON task_logs (task_id, n);
CREATE INDEX task_logs_workflow ON task_logs (workflow_id);
CREATE TABLE definitions (digest text PRIMARY KEY, text text NOT NULL);
CREATE TABLE workflow_defs (name text NOT NULL, version bigint NOT NULL, text text NOT NULL, PRIMARY KEY (name, version));
CREATE TABLE task_defs (name text PRIMARY KEY, text text NOT NULL);
CREATE TABLE schema_defs (name text NOT NULL, version bigint NOT NULL, text text NOT NULL, PRIMARY KEY (name, version));
CREATE TABLE counters (name text PRIMARY KEY, value bigint NOT NULL);
INSERT INTO counters VALUES ('registry', 0);
CREATE TABLE limits (
    key text PRIMARY KEY, fence bigint NOT NULL, in_use bigint NOT NULL, reserved bigint NOT NULL,
    log text NOT NULL, depth bigint NOT NULL, span_ms bigint NOT NULL, number bigint NOT NULL, alarm text, alarm_at bigint,
    unpolled text, read_at bigint NOT NULL, boot text NOT NULL, steady bigint NOT NULL
);
CREATE INDEX limits_unpolled ON limits (key) WHERE unpolled IS NOT NULL;
CREATE TABLE limit_members (
    key text NOT NULL, holder text NOT NULL, workflow_id text NOT NULL, ref text, attempt bigint NOT NULL,
    generation bigint NOT NULL, state text NOT NULL, number bigint NOT NULL, priority bigint NOT NULL,
    asked_at bigint NOT NULL, created_at bigint NOT NULL, seq bigint NOT NULL, concurrent bigint NOT NULL,
    rate bigint NOT NULL, window_ms bigint NOT NULL, lane text NOT NULL, PRIMARY KEY (key, holder)
);
CREATE INDEX limit_members_line ON limit_members (key, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_lane ON limit_members (key, lane, priority DESC, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_workflow ON limit_members (workflow_id);
CREATE TABLE event_handlers (name text PRIMARY KEY, event text NOT NULL, active bigint NOT NULL, text text NOT NULL);
CREATE INDEX event_handlers_event ON event_handlers (event, name);
CREATE TABLE event_executions (
    name text NOT NULL, event text NOT NULL, message_id text NOT NULL, number bigint NOT NULL, created bigint NOT NULL,
    status text NOT NULL, action text, output text NOT NULL, PRIMARY KEY (name, event, message_id, number)
);
CREATE INDEX event_executions_created ON event_executions (created, name, event, message_id, number);
CREATE INDEX event_executions_name ON event_executions (name, created, event, message_id, number);
CREATE INDEX event_executions_message ON event_executions (message_id, created, name, event, number);
CREATE TABLE schedules (
    name text PRIMARY KEY, address text NOT NULL, text text NOT NULL, progress text NOT NULL, waits bigint NOT NULL,
    fence bigint NOT NULL, owner text NOT NULL
);
CREATE TABLE external_payloads (
    workflow_id text NOT NULL, digest text NOT NULL, size bigint NOT NULL, key text NOT NULL, PRIMARY KEY (workflow_id, digest)
);
CREATE INDEX external_payloads_key ON external_payloads (key);
CREATE TABLE loose_payloads (
    key text NOT NULL, workflow_id text NOT NULL, at bigint NOT NULL, PRIMARY KEY (key, workflow_id)
);
CREATE TABLE archive (
    workflow_id text PRIMARY KEY, name text NOT NULL, status text NOT NULL, ended_at bigint NOT NULL,
    archived_at bigint NOT NULL, size bigint NOT NULL, document bytea NOT NULL
);
CREATE TABLE driven (owner text NOT NULL, since bigint NOT NULL, until bigint NOT NULL, PRIMARY KEY (owner, since));
CREATE TABLE presences (place text PRIMARY KEY, departed bigint NOT NULL DEFAULT 0);
CREATE TABLE holders (holder text PRIMARY KEY, place text NOT NULL, lease_until bigint);
CREATE TABLE feeds (n bigint PRIMARY KEY, reader text NOT NULL, position bigint NOT NULL, complete bigint NOT NULL);
CREATE TABLE indexed (
    feed bigint NOT NULL, place bigint NOT NULL, fence bigint NOT NULL, live bigint NOT NULL, PRIMARY KEY (feed, place)
);
CREATE INDEX indexed_live ON indexed (feed, place, fence) WHERE live = 1;
CREATE TABLE pending (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, feed bigint NOT NULL, workflow_id text NOT NULL);
CREATE INDEX pending_feed ON pending (feed, workflow_id);
CREATE FUNCTION pend_new() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO pending (feed, workflow_id) SELECT n, NEW.workflow_id FROM feeds; RETURN NULL; END $$;
CREATE FUNCTION pend_old() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO pending (feed, workflow_id) SELECT n, OLD.workflow_id FROM feeds; RETURN NULL; END $$;
CREATE FUNCTION pend_removed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM indexed WHERE feed IN (SELECT n FROM feeds) AND place = OLD.execution;
    INSERT INTO pending (feed, workflow_id) SELECT n, OLD.workflow_id FROM feeds; RETURN NULL; END $$;
CREATE FUNCTION pend_execution() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO pending (feed, workflow_id) SELECT n, workflow_id FROM feeds, workflows WHERE execution = OLD.execution;
    RETURN NULL; END $$;
CREATE TRIGGER pend_turn_on_ended AFTER UPDATE ON workflows FOR EACH ROW
    WHEN (OLD.ended_at IS NOT NULL AND OLD.fence <> NEW.fence) EXECUTE FUNCTION pend_new();
CREATE TRIGGER pend_removal AFTER DELETE ON workflows FOR EACH ROW EXECUTE FUNCTION pend_removed();
CREATE TRIGGER pend_rename AFTER UPDATE ON tasks FOR EACH ROW WHEN (OLD.ref <> NEW.ref) EXECUTE FUNCTION pend_execution();
CREATE TRIGGER pend_drop AFTER DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION pend_execution();
CREATE TRIGGER pend_archiving AFTER INSERT ON archive FOR EACH ROW EXECUTE FUNCTION pend_new();
CREATE TRIGGER pend_dropping AFTER DELETE ON archive FOR EACH ROW EXECUTE FUNCTION pend_old();
"""

#: The index by which a store is searched. A text is indexed by its beginning.
_V2: Final = """
CREATE TABLE search_paths (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE, path text NOT NULL);
CREATE TABLE search_workflows (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE, workflow_id text, workflow_type text,
    version bigint, status text, correlation_id text, start_time bigint, update_time bigint, end_time bigint,
    execution_time bigint, reason_for_incompletion text, event text, priority bigint, created_by text,
    idempotency_key text, parent_workflow_id text, archived text
);
CREATE INDEX search_workflows_id ON search_workflows (left(workflow_id, 100));
CREATE INDEX search_workflows_start ON search_workflows (start_time DESC NULLS LAST);
CREATE INDEX search_workflows_status ON search_workflows (left(status, 100), start_time DESC NULLS LAST);
CREATE INDEX search_workflows_type ON search_workflows (left(workflow_type, 100), start_time DESC NULLS LAST);
CREATE INDEX search_workflows_correlation ON search_workflows (left(correlation_id, 100), start_time DESC NULLS LAST);
CREATE INDEX search_workflows_parent ON search_workflows (left(parent_workflow_id, 100), start_time DESC NULLS LAST);
CREATE INDEX search_workflows_end ON search_workflows (end_time DESC NULLS LAST);
CREATE INDEX search_workflows_update ON search_workflows (update_time DESC NULLS LAST);
CREATE TABLE search_tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text NOT NULL UNIQUE, execution_key text NOT NULL, task_id text,
    reference_task_name text, task_def_name text, task_type text, status text, workflow_id text,
    scheduled_time bigint, start_time bigint, update_time bigint, end_time bigint, execution_time bigint,
    queue_wait_time bigint, reason_for_incompletion text, domain text, worker_id text, retry_count bigint,
    iteration bigint, sub_workflow_id text
);
CREATE INDEX search_tasks_execution ON search_tasks (execution_key);
CREATE INDEX search_tasks_workflow ON search_tasks (left(workflow_id, 100));
CREATE INDEX search_tasks_id ON search_tasks (left(task_id, 100));
CREATE INDEX search_tasks_scheduled ON search_tasks (scheduled_time DESC NULLS LAST);
CREATE INDEX search_tasks_status ON search_tasks (left(status, 100), scheduled_time DESC NULLS LAST);
CREATE INDEX search_tasks_name ON search_tasks (left(task_def_name, 100), scheduled_time DESC NULLS LAST);
""" + "".join(
    f"""
CREATE TABLE {table}_values (path bigint NOT NULL, value text NOT NULL, whole text, id bigint NOT NULL);
CREATE INDEX {table}_values_path ON {table}_values (path, value, id);
CREATE INDEX {table}_values_id ON {table}_values (id);
CREATE TABLE {table}_texts (
    id bigint PRIMARY KEY, digest text NOT NULL, words text NOT NULL, input text, output text, lexemes tsvector
);
CREATE INDEX {table}_texts_lexemes ON {table}_texts USING gin (lexemes);
CREATE INDEX {table}_texts_long ON {table}_texts (id) WHERE lexemes IS NULL;
"""
    for table in ("search_workflows", "search_tasks")
)

#: What has failed is indexed by the bounds that it is asked for by, as in a file.
_V3: Final = """
DROP INDEX tasks_failed;
CREATE INDEX tasks_failed ON tasks (execution, seq) WHERE retried = 0 AND status BETWEEN 5 AND 7;
"""

#: Messages to executions are kept.
_V4: Final = """
CREATE TABLE mailbox (
    workflow_id text NOT NULL, number bigint NOT NULL, topic text NOT NULL, receiver text, received_at bigint,
    key text NOT NULL, sent_at bigint NOT NULL, value text NOT NULL, PRIMARY KEY (workflow_id, number)
);
CREATE UNIQUE INDEX mailbox_key ON mailbox (workflow_id, topic, key);
CREATE INDEX mailbox_unreceived ON mailbox (workflow_id, topic, number) WHERE receiver IS NULL;
"""

#: A queue goes by numbered references: `item_2` before `item_10`.
_V5: Final = """
DROP INDEX messages_offered;
CREATE INDEX messages_offered ON messages (queue, priority DESC, due_at, workflow_id, length(ref), ref);
"""

#: Values that are emitted are kept.
_V6: Final = """
CREATE TABLE emissions (
    workflow_id text NOT NULL, task_id text NOT NULL, lease bigint NOT NULL, ref text NOT NULL, attempt bigint NOT NULL,
    state text NOT NULL, first bigint NOT NULL, last bigint NOT NULL, PRIMARY KEY (workflow_id, task_id, lease)
);
CREATE TABLE emitted (
    workflow_id text NOT NULL, last bigint NOT NULL, first bigint NOT NULL, stream text NOT NULL, task_id text NOT NULL,
    lease bigint NOT NULL, at bigint NOT NULL, items text NOT NULL, PRIMARY KEY (workflow_id, last)
);
CREATE INDEX emitted_stream ON emitted (workflow_id, stream, last);
CREATE TABLE latest_values (
    workflow_id text NOT NULL, name text NOT NULL, ref text NOT NULL, at bigint NOT NULL, value text NOT NULL,
    PRIMARY KEY (workflow_id, name, ref)
);
"""

#: Members of a limit take turns by key.
_V7: Final = """
ALTER TABLE limits ADD COLUMN tags text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE limit_members ADD COLUMN fairness_key text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE limit_members ADD COLUMN start_tag bigint NOT NULL DEFAULT 0;
ALTER TABLE limit_members ADD COLUMN cost bigint NOT NULL DEFAULT 0;
DROP INDEX limit_members_line;
DROP INDEX limit_members_lane;
CREATE INDEX limit_members_line ON limit_members (key, priority DESC, start_tag, asked_at, created_at, workflow_id, seq, holder)
    WHERE state = 'WAITING';
CREATE INDEX limit_members_lane
    ON limit_members (key, lane, priority DESC, start_tag, asked_at, created_at, workflow_id, seq, holder) WHERE state = 'WAITING';
"""

#: A column that is a text.
_TEXT: Final = re.compile(r"\btext\b(?=( NOT NULL)?( PRIMARY KEY| UNIQUE)?[,\n)])")


def _texts(script: str) -> list[str]:
    """The statements of a script; bodies of functions stand between `$$`."""
    parts = re.split(r"(\$\$.*?\$\$)", _TEXT.sub('text COLLATE "C"', script), flags=re.DOTALL)
    whole = "".join(part.replace(";", "\0") if part.startswith("$$") else part for part in parts)
    return [text.replace("\0", ";").strip() for text in whole.split(";") if text.strip()]


#: What takes a store from version n to n + 1.
MIGRATIONS: Final = (_texts(_V1), _texts(_V2), _texts(_V3), _texts(_V4), _texts(_V5), _texts(_V6), _texts(_V7))

#: The version this conductorlite writes.
VERSION: Final = len(MIGRATIONS)


def lock_of(schema: str) -> str:
    """The key of the store's advisory locks: those of another store, or of another program, are others."""
    return f"1129006149, hashtext('{schema}')"


_EVENT: Final = ", ".join(EVENT_COLUMNS)
_MESSAGE: Final = ", ".join(MESSAGE_COLUMNS)
_LISTED: Final = "jsonb_array_elements_text(CAST(? AS jsonb)) AS wanted(value)"


def guarded(statement: str) -> str:
    """A change that fails where it finds no row: nothing after it is carried out, a COMMIT that was sent with it neither."""
    return f"WITH changed AS ({statement} RETURNING 1) SELECT 1 / count(*) FROM changed"


#: The number of the execution that the same change has begun just before (it is given as 0).
_BEGUN: Final = "currval('workflows_execution_seq')"
_NUMBER: Final = f"coalesce(nullif(CAST(? AS bigint), 0), {_BEGUN})"

WORKFLOW: Final = sql.WORKFLOW.replace(" FROM", ", execution FROM")
#: What is asked of an execution with its row: its first events that are not held, and its first tasks.
EVENTS: Final = (
    f"SELECT {_EVENT} FROM inbox WHERE workflow_id = ? AND held = 0"
    " ORDER BY due_at, posted_at, coalesce(sender, workflow_id), sender_seq, event_id LIMIT ?"
)
TASKS: Final = (
    f"SELECT {', '.join(TASK_COLUMNS)} FROM tasks WHERE execution = (SELECT execution FROM workflows WHERE workflow_id = ?) LIMIT ?"
)
INSERT_WORKFLOW: Final = f"{sql.INSERT_WORKFLOW} RETURNING execution"
UPDATE_WORKFLOW: Final = guarded(
    f"UPDATE workflows SET {', '.join(f'{column} = ?' for column in WORKFLOW_COLUMNS[: sql.CHANGING])}, fence = fence + 1,"
    " status = ?, definition_hash = ?, name = ?, correlation_id = ? WHERE workflow_id = ? AND fence = ? AND execution = ?"
)
#: Those of some executions whose fences are not the given ones.
FENCED: Final = (
    "SELECT wanted.key FROM jsonb_each_text(CAST(? AS jsonb)) AS wanted LEFT JOIN workflows AS w ON w.workflow_id = wanted.key"
    " WHERE w.fence IS DISTINCT FROM CAST(wanted.value AS bigint)"
)
FIRST: Final = (
    f"SELECT {_MESSAGE} FROM messages WHERE queue = ? ORDER BY priority DESC, due_at, workflow_id, length(ref), ref LIMIT ?"
)
OFFERED: Final = FIRST.replace("queue = ?", "queue = ? AND due_at <= ?")
MESSAGE_AT: Final = (
    f"SELECT min(at) FROM {_LISTED} CROSS JOIN LATERAL"
    " (SELECT min(due_at) AS at FROM messages WHERE queue = wanted.value) AS of_one"
)
FILE_BYTES: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c JOIN pg_namespace AS n"
    " ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'"
)


def _optional(condition: str) -> str:
    """Executions of one family, newest first; what is not asked for is null."""
    return (
        (
            f"SELECT created_at, workflow_id FROM workflows WHERE {condition} = ?1 AND (?2 IS NULL OR name = ?2)"
            " AND (CAST(?3 AS bigint) IS NULL OR status = ?3) AND (?4 IS NULL OR correlation_id = ?4)"
            " AND (created_at, workflow_id) < (?5, ?6) ORDER BY created_at DESC, workflow_id DESC LIMIT ?7"
        )
        .replace("?2 IS", "CAST(?2 AS text) IS")
        .replace("?4 IS", "CAST(?4 AS text) IS")
    )


#: By the statement of the SQLite store.
_OWN: Final = {
    sql.UPDATE_TASK: guarded(
        f"UPDATE tasks SET fence = ?, {', '.join(f'{column} = ?' for column in TASK_COLUMNS[:-TASK_FIXED])} WHERE "
        + " AND ".join(f"{column} IS NOT DISTINCT FROM ?" for column in TASK_COLUMNS[-TASK_FIXED:])
        + " AND execution = ?"
    ),
    sql.INSERT_TASK: sql.INSERT_TASK.replace("VALUES (?", f"VALUES ({_NUMBER}"),
    sql.INSERT_TEXT: sql.INSERT_TEXT.replace("VALUES (?", f"VALUES ({_NUMBER}"),
    sql.INSERT_HISTORY: (
        f"INSERT INTO history (place, at, lines) VALUES (CAST(?1 AS bigint)"
        f" + CASE WHEN CAST(?1 AS bigint) < 268435456 THEN {_BEGUN} << 28 ELSE 0 END, ?2, ?3)"
    ),
    sql.WORKFLOWS_BY_ID: (
        f"SELECT {', '.join('w.' + column for column in WORKFLOW_COLUMNS)} FROM {_LISTED}"
        " JOIN workflows AS w ON w.workflow_id = wanted.value"
    ),
    sql.EXECUTIONS_CORRELATED: _optional("correlation_id"),
    sql.EXECUTIONS_OF_PARENT: _optional("parent_workflow_id"),
    sql.TASKS_LAST: (
        f"SELECT {', '.join('t.' + column for column in TASK_COLUMNS)} FROM {_LISTED} CROSS JOIN LATERAL (SELECT * FROM tasks"
        " WHERE execution = (SELECT execution FROM workflows WHERE workflow_id = ?) AND ref = wanted.value"
        " ORDER BY attempt DESC LIMIT 1) AS t"
    ),
    sql.TEXTS: (
        f"SELECT t.digest, t.text FROM {_LISTED} JOIN workflows AS w ON w.workflow_id = ?"
        " JOIN texts AS t ON t.execution = w.execution AND t.digest = wanted.value"
    ),
    sql.DUE_EVENTS: (
        f"SELECT {_EVENT} FROM inbox WHERE workflow_id = ? AND held = 0 AND due_at <= ?"
        " ORDER BY due_at, posted_at, coalesce(sender, workflow_id), sender_seq, event_id LIMIT ?"
    ),
    limits.UNPOLLED: (
        "SELECT key FROM limits WHERE unpolled IS NOT NULL AND CAST(unpolled AS jsonb) @> to_jsonb(CAST(? AS text)) ORDER BY key"
    ),
    tables.MOVED: tables.MOVED.replace(" INDEXED BY indexed_live", ""),
    tables.NEW: tables.NEW.replace("max(?,", "greatest(CAST(? AS bigint),"),
    tables.IS_PENDING: tables.IS_PENDING.replace("IS NOT w.", "IS DISTINCT FROM w."),
    tables._ARCHIVE: tables._ARCHIVE.replace("?, ?)", "?, decode(?, 'hex'))"),
    tables._OF: (
        f"SELECT e.digest, e.size, e.key FROM {_LISTED} JOIN external_payloads AS e ON e.workflow_id = ? AND e.digest = value"
    ),
    tables._KNOWN: tables._KNOWN.replace("json_each(?)", _LISTED),
}


@cache
def text_of(statement: str) -> str:
    """A statement as the server reads it, its parameters numbered."""
    return numbered(_OWN.get(statement, statement))


def numbered(statement: str) -> str:
    """A statement of PostgreSQL's own, its parameters numbered."""
    text, *parts = statement.split("?")
    for number, part in enumerate(parts, 1):
        text += f"${part}" if part[:1].isdigit() else f"${number}{part}"
    return text
