"""What a SQLite store holds twice, in its own form: columns that follow from others, and rows that belong to an execution.

The file may be whole for SQLite and hold rows that nobody has written: an instant at which nobody looks, a row whose execution is
gone. `faults_of_rows` finds them, trusting no column that can be worked out, and `mend` works out again what can be.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

from conductorlite.model.canonical import attempt_head, digest
from conductorlite.model.errors import StorageCorrupt
from conductorlite.store.sqlite.decisions import SLACK_MS
from conductorlite.store.sqlite.rows import STATUS
from conductorlite.store.sqlite.timers import MARK, SHORT, entries_of, first_of

__all__ = ["faults_of_rows", "mend"]

#: More than these of one kind are counted.
_SHOWN: Final = 20

_OPEN: Final = f"{STATUS['SCHEDULED']}, {STATUS['IN_PROGRESS']}, {STATUS['PENDING']}"

#: `Task.live`, of a row.
_LIVE: Final = (
    f"CASE WHEN retried = 1 OR (executed = 1 AND status NOT IN ({_OPEN})) THEN 0"
    f" WHEN status = {STATUS['SKIPPED']} AND seq = 0 AND due_at IS NULL THEN 0 ELSE 1 END"
)

_UNMARKED: Final = (
    f"t.kind IN ({', '.join(map(repr, SHORT))}) AND t.sender IS NULL AND coalesce(substr(w.timers, 1, 1), '') <> '{MARK}'"
)

_GONE: Final = "NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.{} = t.{})"

#: No instant that is stored is later: the end of the year 9999, epoch ms.
_LATEST: Final = 253_402_300_799_999

#: Where instants are stored that no execution is asked for: table, key, columns.
_INSTANTS: Final = (
    ("task_logs", "n", ("at",)),
    ("mailbox", "workflow_id", ("sent_at", "received_at")),
    ("emitted", "workflow_id", ("at",)),
    ("latest_values", "workflow_id", ("at",)),
    ("polls", "task_type", ("polled_at",)),
    ("driven", "owner", ("since", "until")),
    ("holders", "holder", ("lease_until",)),
    ("event_executions", "name", ("created",)),
    ("archive", "workflow_id", ("ended_at", "archived_at")),
    ("loose_payloads", "key", ("at",)),
    ("limits", "key", ("alarm_at", "read_at")),
    ("limit_members", "key", ("asked_at", "created_at")),
)

#: What is wrong, and the statement whose rows say where.
_FAULTS: Final = {
    "executions whose numbers are none": "SELECT execution, workflow_id FROM workflows WHERE execution < 1",
    "attempts of an execution that is not stored": (
        f"SELECT execution, ref, attempt FROM tasks AS t WHERE {_GONE.format('execution', 'execution')}"
    ),
    "lines of the journal of an execution that is not stored": (
        "SELECT place FROM history AS t WHERE NOT EXISTS (SELECT 1 FROM workflows AS w WHERE w.execution = t.place >> 28)"
    ),
    "payloads of an execution that is not stored": (
        f"SELECT execution, digest FROM texts AS t WHERE {_GONE.format('execution', 'execution')}"
    ),
    "log lines of an execution that is not stored": (
        f"SELECT n, workflow_id FROM task_logs AS t WHERE {_GONE.format('workflow_id', 'workflow_id')}"
    ),
    "log lines of another execution's task": (
        "SELECT n, t.workflow_id, task_id FROM task_logs AS t JOIN workflows AS w ON w.workflow_id = t.workflow_id"
        " WHERE substr(task_id, 1, 8) <> printf('%08x', w.head)"
    ),
    "messages to an execution that is not stored": (
        f"SELECT workflow_id, number FROM mailbox AS t WHERE {_GONE.format('workflow_id', 'workflow_id')}"
    ),
    "emitted values of an execution that is not stored": (
        " UNION ALL ".join(
            f"SELECT '{table}', workflow_id, {key} FROM {table} AS t WHERE {_GONE.format('workflow_id', 'workflow_id')}"
            for table, key in (("emissions", "task_id"), ("emitted", "last"), ("latest_values", "name"))
        )
    ),
    "documents of an execution that is not stored": (
        f"SELECT workflow_id, digest FROM external_payloads AS t WHERE {_GONE.format('workflow_id', 'workflow_id')}"
    ),
    "idempotency keys of an execution that is not stored, or has another key": (
        "SELECT name, key, workflow_id FROM idempotency_keys AS t WHERE NOT EXISTS (SELECT 1 FROM workflows AS w"
        # SQLite's JSON functions end a text at a NUL.
        " WHERE w.workflow_id = t.workflow_id AND (json_extract(w.rest, '$.idempotency_key') = t.key OR instr(t.key, char(0))))"
    ),
    "members of a limit that is not stored": (
        "SELECT key, holder FROM limit_members AS t WHERE NOT EXISTS (SELECT 1 FROM limits AS l WHERE l.key = t.key)"
    ),
    "attempts changed by a turn that the execution has not had": (
        "SELECT t.execution, ref, attempt FROM tasks AS t JOIN workflows AS w ON w.execution = t.execution"
        " WHERE t.fence < 0 OR t.fence > w.fence"
    ),
    "executions indexed at a turn that they have not had": (
        "SELECT t.feed, t.place FROM indexed AS t JOIN workflows AS w ON w.execution = t.place"
        " WHERE t.fence > w.fence OR t.fence < 0"
    ),
    "truth values that are neither 0 nor 1": (
        "SELECT 'tasks', execution, ref, attempt FROM tasks WHERE retried NOT IN (0, 1) OR executed NOT IN (0, 1)"
        " UNION ALL SELECT 'inbox', workflow_id, event_id, held FROM inbox WHERE held NOT IN (0, 1)"
        " UNION ALL SELECT 'event_handlers', name, '', active FROM event_handlers WHERE active NOT IN (0, 1)"
        " UNION ALL SELECT 'schedules', name, '', waits FROM schedules WHERE waits NOT IN (0, 1)"
        " UNION ALL SELECT 'feeds', n, '', complete FROM feeds WHERE complete NOT IN (0, 1)"
        " UNION ALL SELECT 'indexed', feed, place, live FROM indexed WHERE live NOT IN (0, 1)"
    ),
    "instants that are none": " UNION ALL ".join(
        f"SELECT '{table}', {key}, '{column}', {column} FROM {table} WHERE {column} NOT BETWEEN 0 AND {_LATEST}"
        for table, key, columns in _INSTANTS
        for column in columns
    ),
    "executions indexed as live that have ended, or the other way": (
        "SELECT t.feed, t.place FROM indexed AS t JOIN workflows AS w ON w.execution = t.place"
        " WHERE t.fence = w.fence AND t.live <> (w.ended_at IS NULL)"
    ),
    "schedules whose events are for another address": "SELECT name, address FROM schedules WHERE address <> 'schedule:' || name",
    "records of events that cannot be read": (
        "SELECT name, event, message_id, number, status FROM event_executions"
        " WHERE status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED') OR NOT json_valid(output) OR number < 0"
    ),
    "stretches of driving that end before they begin": "SELECT owner, since, until FROM driven WHERE until < since",
    "holders of tasks that are not known": (
        "SELECT t.holder, execution, ref FROM tasks AS t WHERE t.holder <> ''"
        " AND NOT EXISTS (SELECT 1 FROM holders AS h WHERE h.holder = t.holder)"
    ),
}

#: The same of what follows from the same row, or from nothing: `mend` puts it right.
_MENDED: Final = {
    "attempts that are marked as live and are not, or the other way": (
        f"SELECT execution, ref, attempt FROM tasks WHERE live <> {_LIVE}"
    ),
    "executions that look for timers in their row alone and have some in the inbox": (
        f"SELECT DISTINCT w.workflow_id FROM workflows AS w JOIN inbox AS t ON t.workflow_id = w.workflow_id WHERE {_UNMARKED}"
    ),
    "the number of the registry is lost": "SELECT 'registry' WHERE NOT EXISTS (SELECT 1 FROM counters WHERE name = 'registry')",
}


def faults_of_rows(connection: sqlite3.Connection) -> Iterator[str]:
    """Everything that contradicts the form of the store; in a transaction, for one view."""
    for what, statement in (*_FAULTS.items(), *_MENDED.items()):
        found = connection.execute(statement).fetchall()
        yield from _shown(what, [", ".join(map(str, row)) for row in found])
    yield from _shown("executions whose alarm is not that of their timers", [workflow_id for workflow_id, _ in _alarms(connection)])
    yield from _shown("executions under another head than their id has", [workflow_id for workflow_id, _ in _heads(connection)])
    for table, key in (("texts", "execution, digest"), ("definitions", "digest")):
        amiss = [
            ", ".join(map(str, row[:-2]))
            for row in connection.execute(f"SELECT {key}, digest, text FROM {table}")
            if digest(row[-1]) != row[-2] and row[-1][:1] != "~"  # of what is sealed only who opens it knows
        ]
        yield from _shown(f"{table} that are not what their hash says", amiss)


def _shown(what: str, places: list[str]) -> Iterator[str]:
    """One line for the first of them, and how many there are."""
    if places:
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        yield f"{what}: {'; '.join(places[:_SHOWN])}{more}"


def _alarms(connection: sqlite3.Connection) -> Iterator[tuple[str, int | None]]:
    """Executions with a wrong alarm, and the right one."""
    rows = connection.execute(
        "SELECT workflow_id, alarm_at, timers FROM workflows WHERE timers IS NOT NULL OR alarm_at IS NOT NULL"
    )
    for workflow_id, alarm, cell in rows.fetchall():
        try:
            entries = entries_of(cell)
        except StorageCorrupt:
            continue  # reading the execution says so
        first = first_of(entries) if entries else None
        if (alarm is None) is not (first is None) or (first is not None and not alarm <= first <= alarm + SLACK_MS):
            yield workflow_id, first


def _heads(connection: sqlite3.Connection) -> Iterator[tuple[str, int]]:
    """Executions that are not found by the ids of their attempts, and what these begin with."""
    for workflow_id, head in connection.execute("SELECT workflow_id, head FROM workflows").fetchall():
        if int(attempt_head(workflow_id), 16) != head:
            yield workflow_id, int(attempt_head(workflow_id), 16)


def mend(connection: sqlite3.Connection) -> None:
    """Work out again what follows from the rows: alarms, heads, which attempts are live, the number of the registry."""
    connection.executemany("UPDATE workflows SET alarm_at = ?2 WHERE workflow_id = ?1", list(_alarms(connection)))
    connection.executemany("UPDATE workflows SET head = ?2 WHERE workflow_id = ?1", list(_heads(connection)))
    connection.execute(f"UPDATE tasks SET live = {_LIVE} WHERE live <> {_LIVE}")
    connection.execute(
        f"UPDATE workflows AS w SET timers = '{MARK}' || coalesce(timers, '')"
        f" WHERE EXISTS (SELECT 1 FROM inbox AS t WHERE t.workflow_id = w.workflow_id AND {_UNMARKED})"
    )
    connection.execute("INSERT INTO counters (name, value) VALUES ('registry', 1) ON CONFLICT DO NOTHING")
