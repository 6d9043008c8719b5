"""What makes a new store, and a store of the present schema of an older one: named steps, of which the file keeps which ran.

The tables and indexes are declared once, in `declarations`. A step says what has to be done to those of the schema before: columns
that are added, rows that are written in another way, what is dropped. What is missing after the last one is made as it is declared.
sqlite-utils runs the steps (its `Migrations`), keeps their names in the table `_sqlite_migrations`, and says what is there. It
writes neither WITHOUT ROWID tables nor partial indexes, so what makes them is SQL. Imported when a store is made or migrated. A
step is never changed once it is released.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from typing import Final

from sqlite_utils import Database, Migrations

from conductorlite.model.canonical import attempt_head
from conductorlite.store.sqlite.callbacks import callback
from conductorlite.store.sqlite.declarations import SCHEMA
from conductorlite.store.sqlite.history import line_of
from conductorlite.store.sqlite.rows import STATUS, packed_hex

__all__ = ["STEPS", "bring_up_to_date"]

_STATEMENTS: Final = tuple(statement.strip() for statement in SCHEMA.split(";") if statement.strip())

#: The statements that make the tables, indexes and views, by name; tables stand before what is made of them.
_DECLARED: Final = {
    match[1]: statement
    for statement in _STATEMENTS
    if (match := re.match(r"CREATE (?:TABLE|VIEW|(?:UNIQUE )?INDEX) (\w+)", statement)) is not None
}


def bring_up_to_date(connection: sqlite3.Connection, found: int) -> None:
    """Make a store in an empty file, where 0 is found, or take the steps after the one that was found; in the caller's transaction.

    Raises sqlite3 errors as they come.
    """
    database = Database(connection, execute_plugins=False)
    if found:
        for name, translate in _OF_OLD.items():
            connection.create_function(name, -1, callback(translate), deterministic=True)
    else:
        for statement in _STATEMENTS:
            connection.execute(statement)
    steps = Migrations("conductorlite")
    for number, (name, take) in enumerate(STEPS, 1):
        # A new store is as the last step leaves it, and an older one has taken some before steps were kept.
        steps(name=name)(take if 0 < found < number else _nothing)
    steps.apply(database)
    # The store knows no time but its engine's: which steps ran is kept, and not when.
    database.execute("UPDATE _sqlite_migrations SET applied_at = '' WHERE migration_set = 'conductorlite'")
    _make_missing(database)


def _nothing(database: Database) -> None:
    """A step that a store has taken, or that brings tables only."""


def _make_missing(database: Database) -> None:
    there = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    for name, statement in _DECLARED.items():
        if name not in there:
            database.execute(statement)


def _run(database: Database, script: str) -> None:
    for statement in filter(str.strip, script.split(";")):
        database.execute(statement)


def _add(database: Database, table: str, *columns: str) -> None:
    """Add columns to a table that is there without them; what is not there will be made with them."""
    known = database.table(table).columns_dict if database.table(table).exists() else None
    for column in columns:
        if known is not None and column.split()[0] not in known:
            database.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def _around_the_decider(database: Database) -> None:
    _add(database, "tasks", "limit_key TEXT")
    limited = ("rate_limit_key TEXT", "rate_limited INTEGER NOT NULL DEFAULT 0", "outer_keys TEXT NOT NULL DEFAULT ''")
    _add(database, "workflows", *limited, "owner TEXT NOT NULL DEFAULT ''")
    _add(database, "inbox", "owner TEXT NOT NULL DEFAULT ''")


def _holders(database: Database) -> None:
    _add(database, "tasks", "holder TEXT", "deaths INTEGER NOT NULL DEFAULT 0")


def _lanes(database: Database) -> None:
    """An older member has no lane until its offer ends."""
    read = ("read_at INTEGER NOT NULL DEFAULT 0", "boot TEXT NOT NULL DEFAULT ''", "steady INTEGER NOT NULL DEFAULT 0")
    _add(database, "limits", "unpolled TEXT", *read)
    _add(database, "limit_members", "lane TEXT NOT NULL DEFAULT ''")


def _indexed_by_fences(database: Database) -> None:
    """No trigger looks at every change any more; those for what is rare come with a feed."""
    for name in [one.name for one in database.triggers if one.name.startswith("note_")]:
        database.execute(f"DROP TRIGGER {name}")
    _run(database, "DROP TABLE IF EXISTS changes; DROP TABLE IF EXISTS feed")
    _add(database, "tasks", "fence INTEGER NOT NULL DEFAULT 0")


def _by_number(database: Database) -> None:
    """Executions get numbers, by which their rows are found, and `rows` says how cells are written; history is a row for each turn.

    The indexes that fed on the old rows are begun again.
    """
    for name in [one.name for one in database.triggers if one.name.startswith("pend_")]:
        database.execute(f"DROP TRIGGER {name}")
    if database.table("feeds").exists():
        database.execute("UPDATE feeds SET reader = ''")
    renewed = ("workflows", "tasks", "history", "texts", "inbox")
    for table in renewed:
        database.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        database.execute(_DECLARED[table])
    _run(database, _RENEWED)
    for table in renewed:
        database.execute(f"DROP TABLE old_{table}")
    database.execute("DROP INDEX IF EXISTS messages_due")


_RENEWED: Final = """
INSERT INTO workflows (
    execution, workflow_id, head, name, version, definition_hash, status, fence, created_at, started_at, updated_at, ended_at,
    correlation_id, parent_workflow_id, owner, input, output, variables, task_to_domain, reason, task_seq, history_seq, sequence,
    open, last_ref, parked, broken_turns, rest
) SELECT rowid, workflow_id, attempt_head(workflow_id), name, version, packed_hex(definition_hash),
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
INSERT INTO history SELECT (execution << 28) + n, at, line_of(kind || ' ' || h.status, ref, attempt, number, h.reason, payload,
    cause, NULL) FROM old_history AS h JOIN workflows AS w ON w.workflow_id = h.workflow_id;
INSERT INTO texts SELECT execution, digest, text FROM old_texts AS t JOIN workflows AS w ON w.workflow_id = t.workflow_id;
INSERT INTO inbox SELECT workflow_id, event_id, kind, due_at, posted_at,
    nullif(sender, workflow_id), sender_seq, ref, attempt, generation, data, held, owner FROM old_inbox;
"""


def _timers_in_rows(database: Database) -> None:
    """New ones of those that have none in the inbox."""
    _add(database, "workflows", "alarm_at INTEGER", "timers TEXT")
    database.execute("UPDATE workflows SET timers = '+' WHERE workflow_id IN (SELECT workflow_id FROM inbox)")


def _journals_in_rows(database: Database) -> None:
    """Let the lines of a journal be a blob, since long ones are compressed."""
    _add(database, "workflows", "journal ANY")
    if database.table("history").schema != _DECLARED["history"]:
        database.execute("ALTER TABLE history RENAME TO old_history")
        database.execute(_DECLARED["history"])
        _run(database, "INSERT INTO history SELECT place, at, lines FROM old_history; DROP TABLE old_history")


def _taking_turns(database: Database) -> None:
    """An older member takes no turns; its place is what it was."""
    _add(database, "limits", "tags TEXT NOT NULL DEFAULT ''")
    turns = ("fairness_key TEXT NOT NULL DEFAULT ''", "start_tag INTEGER NOT NULL DEFAULT 0", "cost INTEGER NOT NULL DEFAULT 0")
    _add(database, "limit_members", *turns)
    _run(database, "DROP INDEX IF EXISTS limit_members_line; DROP INDEX IF EXISTS limit_members_lane")


def _dropped(index: str) -> Callable[[Database], None]:
    """An index that is declared in another way since."""

    def drop(database: Database) -> None:
        database.execute(f"DROP INDEX IF EXISTS {index}")

    return drop


#: Every step from no store to the present schema, by what it brings.
STEPS: Final[tuple[tuple[str, Callable[[Database], None]], ...]] = (
    ("executions, their inboxes and queues, the registry", _nothing),
    ("limits, events, schedules, payloads, the archive, owners", _around_the_decider),
    ("when the store was driven", _nothing),
    ("who holds tasks", _holders),
    ("rate limits count what is handed to workers", _lanes),
    ("what was indexed, by fences", _indexed_by_fences),
    ("executions by number", _by_number),
    ("timers in the rows of executions", _timers_in_rows),
    ("the last lines of a journal in the row of its execution", _journals_in_rows),
    ("what has failed, by bounds", _dropped("tasks_failed")),
    ("what is live, by execution", _dropped("tasks_live")),
    ("messages to executions", _nothing),
    ("views of executions and tasks for people", _nothing),
    ("queues in the order of numbered references", _dropped("messages_offered")),
    ("values that are emitted", _nothing),
    ("members of a limit that take turns by key", _taking_turns),
)

#: How cells of older schemas are written since the seventh.
_OF_OLD: Final[dict[str, Callable[..., str | bytes | int]]] = {
    "attempt_head": lambda workflow_id: int(attempt_head(workflow_id), 16),
    "packed_hex": packed_hex,
    "status_number": lambda name: STATUS[name],
    "line_of": line_of,
}
