"""Every SQL text of the SQLite backend, by what it is for: plain, prepared once per connection, explained by the tests.

No statement scans a table, sorts, or computes a "now"; the few that walk much (a whole execution, or the size of every
queue) are in `COLD`.

An optional instrument: what a SQLite backend asked of SQLite, so that tests can pin costs as counts, not seconds.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from conductorlite.store.sqlite.rows import (
    EVENT_COLUMNS,
    MAILBOX_COLUMNS,
    MESSAGE_COLUMNS,
    TASK_COLUMNS,
    TASK_FIXED,
    WORKFLOW_COLUMNS,
    WORKFLOW_IDENTITY,
)

__all__ = ["COLD", "Counts", "counting_connection", "numbered"]


def numbered(*values: Any) -> dict[str, Any]:
    """Return the values of `?1`, `?2` … of a statement, by name: Python 3.12.0 to 3.12.3 warn of a sequence there."""
    return {str(number): value for number, value in enumerate(values, 1)}


@attrs.define(slots=True)
class Counts:
    """Running totals of one backend. An executemany is one statement; `commits` are those of writing transactions."""

    statements: int = 0
    rows_read: int = 0
    commits: int = 0
    statements_by_sql: Counter[str] = attrs.field(factory=Counter)

    def reset(self) -> None:
        """Start again from zero."""
        self.statements = self.rows_read = self.commits = 0
        self.statements_by_sql.clear()


def counting_connection(counts: Counts) -> type[sqlite3.Connection]:
    """A connection class whose connections count into `counts`."""

    def count_row(_cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        counts.rows_read += 1
        return row

    class CountingConnection(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.row_factory = count_row

        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            counts.statements += 1
            counts.statements_by_sql[sql] += 1
            return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
            counts.statements += 1
            counts.statements_by_sql[sql] += 1
            return super().executemany(sql, parameters)

    return CountingConnection


_TASK: Final = ", ".join(TASK_COLUMNS)
_EVENT: Final = ", ".join(EVENT_COLUMNS)
_MESSAGE: Final = ", ".join(MESSAGE_COLUMNS)


def _marks(columns: Sequence[str]) -> str:
    return ", ".join("?" * len(columns))


def replacing(table: str, columns: Sequence[str], keys: Sequence[str], cells: str = "") -> str:
    """The statement that puts a row in the place of that with the same keys."""
    setting = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in keys)
    values = cells or f"VALUES ({_marks(columns)})"
    return f"INSERT INTO {table} ({', '.join(columns)}) {values} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {setting}"


def _setting(columns: tuple[str, ...]) -> str:
    return ", ".join(f"{column} = ?" for column in columns)


# -- workflows: WORKFLOW_COLUMNS ends with WORKFLOW_IDENTITY, workflow_id, fence, status, definition_hash ---------------

#: How many cells of a row an update takes from its beginning.
CHANGING: Final = len(WORKFLOW_COLUMNS) - len(WORKFLOW_IDENTITY) - 4

WORKFLOW: Final = f"SELECT {', '.join(WORKFLOW_COLUMNS)} FROM workflows WHERE workflow_id = ?"
INSERT_WORKFLOW: Final = (
    f"INSERT INTO workflows ({', '.join(WORKFLOW_COLUMNS)}, head) VALUES ({_marks(WORKFLOW_COLUMNS[:-3])}, CAST(? AS bigint) + 1"
    " + coalesce((SELECT value FROM counters WHERE name = 'removed'), 0), ?, ?, ?)"
)
INSERT_WITH_TIMERS: Final = f"{INSERT_WORKFLOW[:-1].replace('head)', 'head, alarm_at, timers, journal)')}, ?, ?, ?)"
INSERT_NUMBERED: Final = INSERT_WITH_TIMERS.replace("workflows (", "workflows (execution, ").replace("VALUES (", "VALUES (?, ")
LAST_NUMBER: Final = "SELECT coalesce(max(execution), 0) FROM workflows"
#: The fence is compared and set by the same statement. The usual turn keeps the status, the definition, the
#: name and the correlation id, whose indexes are then left alone; so is that of alarms, where there is none to change.
_USUAL: Final = (
    " fence = fence + 1 WHERE name = ? AND correlation_id IS ? AND workflow_id = ? AND fence = ? AND status = ?"
    " AND definition_hash = ? AND execution = ? AND alarm_at IS ? AND timers IS ? AND journal IS ?"
)
_CHANGED: Final = f"UPDATE workflows SET {_setting(WORKFLOW_COLUMNS[:CHANGING])}, timers = ?, journal = ?,"
UPDATE_WORKFLOW: Final = _CHANGED + _USUAL
UPDATE_WORKFLOW_AND_ALARM: Final = f"{_CHANGED} alarm_at = ?,{_USUAL}"
UPDATE_WORKFLOW_AND_STATUS: Final = (
    f"{_CHANGED} alarm_at = ?, status = ?, definition_hash = ?, name = ?, correlation_id = ?, fence = fence + 1"
    " WHERE workflow_id = ? AND fence = ? AND execution = ? AND alarm_at IS ? AND timers IS ? AND journal IS ?"
)
#: A parked workflow is not due: its events are held until it is released.
HOLD: Final = "UPDATE inbox SET held = 1 WHERE workflow_id = ? AND held = 0"
PARK: Final = (
    "UPDATE workflows SET broken_turns = ?1, parked = CAST(?2 AS text),"
    " fence = fence + CASE WHEN CAST(?2 AS text) IS NULL THEN 0 ELSE 1 END WHERE workflow_id = ?3"
)
WORKFLOW_IDS: Final = "SELECT workflow_id FROM workflows WHERE workflow_id > ? ORDER BY workflow_id LIMIT ?"
#: Walks along all of them.
WORKFLOW_IDS_OF: Final = "SELECT workflow_id FROM workflows WHERE workflow_id > ? AND +status = ? ORDER BY workflow_id LIMIT ?"


def _listing(condition: str) -> str:
    """A page of ids, newest first, walked backwards along an index; `after` is compared as a pair."""
    return (
        f"SELECT created_at, workflow_id FROM workflows WHERE {condition}(created_at, workflow_id) < (?, ?)"
        " ORDER BY created_at DESC, workflow_id DESC LIMIT ?"
    )


#: What belongs to one parent, or one correlation id, is a family: a walk along it may skip some.
_AND_THE_REST: Final = (
    " AND name = coalesce(?, name) AND status = coalesce(?, status) AND correlation_id IS coalesce(?, correlation_id) AND "
)
EXECUTIONS_IN: Final = _listing("status = ? AND ")
EXECUTIONS_NAMED: Final = _listing("name = ? AND status = ? AND ")
EXECUTIONS_CORRELATED: Final = _listing("correlation_id = ?" + _AND_THE_REST)
EXECUTIONS_OF_PARENT: Final = _listing("parent_workflow_id = ?" + _AND_THE_REST)
WORKFLOWS_BY_ID: Final = (
    f"SELECT {', '.join('w.' + column for column in WORKFLOW_COLUMNS)} FROM json_each(?) AS wanted"
    " CROSS JOIN workflows AS w WHERE w.workflow_id = wanted.value"
)
KEY_HOLDER: Final = "SELECT workflow_id FROM idempotency_keys WHERE name = ? AND key = ?"
CLAIM_KEY: Final = "INSERT INTO idempotency_keys (name, key, workflow_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
MOVE_KEY: Final = "UPDATE idempotency_keys SET workflow_id = ? WHERE name = ? AND key = ? AND workflow_id = ?"

# -- tasks -------------------------------------------------------------------------------------------------------------

#: The number of an execution, by its id.
NUMBER: Final = "SELECT execution FROM workflows WHERE workflow_id = ?"
_NUMBER: Final = f"({NUMBER})"
#: With each row the number of its execution and the fence that its turn commits, by which is found what is to be indexed.
INSERT_TASK: Final = f"INSERT INTO tasks (execution, fence, {_TASK}) VALUES (?, ?, {_marks(TASK_COLUMNS)})"
UPDATE_TASK: Final = (
    f"UPDATE tasks SET fence = ?, {_setting(TASK_COLUMNS[:-TASK_FIXED])}"
    f" WHERE {' AND '.join(f'{column} IS ?' for column in TASK_COLUMNS[-TASK_FIXED:])} AND execution = ?"
)
RENAME_TASK: Final = "UPDATE tasks SET ref = ?, base_ref = ? WHERE execution = ? AND ref = ?"
TASK_LAST: Final = f"SELECT {_TASK} FROM tasks WHERE execution = {_NUMBER} AND ref = ? ORDER BY attempt DESC LIMIT 1"
#: Many references at once; `json_each` walks the argument, not the table.
TASKS_LAST: Final = (
    f"SELECT {', '.join('t.' + column for column in TASK_COLUMNS)} FROM workflows AS w CROSS JOIN json_each(?) AS wanted"
    " CROSS JOIN tasks AS t WHERE w.workflow_id = ? AND t.execution = w.execution AND t.ref = wanted.value AND t.attempt ="
    " (SELECT max(attempt) FROM tasks WHERE execution = w.execution AND ref = wanted.value)"
)
TASK_LATEST_IN_LOOP: Final = (
    f"SELECT {_TASK} FROM tasks WHERE execution = {_NUMBER} AND base_ref = ? AND iterations <> ''"
    " ORDER BY seq DESC, attempt DESC, ref DESC LIMIT 1"
)
#: Only who ends an execution, or what is around many tasks, asks for all that are live: its tasks are looked through.
TASKS_LIVE: Final = f"SELECT {_TASK} FROM tasks WHERE execution = {_NUMBER} AND live = 1"
#: FAILED, FAILED_WITH_TERMINAL_ERROR, TIMED_OUT: by bounds, as the index of them has it.
TASKS_FAILED: Final = (
    f"SELECT {_TASK} FROM tasks WHERE execution = {_NUMBER} AND retried = 0 AND status BETWEEN 5 AND 7 ORDER BY seq"
)
TASKS_ALL: Final = f"SELECT {_TASK} FROM tasks WHERE execution = {_NUMBER} ORDER BY ref, attempt"
_TASKS_OF: Final = f"SELECT w.workflow_id, {', '.join('t.' + column for column in TASK_COLUMNS)} FROM"
_OPEN: Final = "(t.live = 1 OR t.holder <> '')"
#: Of the executions whose attempts' ids begin so, among what nobody holds and what each holder has; among all of their attempts.
LIVE_TASK_BY_ID: Final = (
    f"{_TASKS_OF} workflows AS w CROSS JOIN (SELECT '' AS name UNION ALL SELECT holder FROM holders) AS h CROSS JOIN tasks AS t"
    f" WHERE w.head = ? AND t.holder = h.name AND t.execution = w.execution AND t.task_id = ? AND {_OPEN}"
)
TASK_BY_ID: Final = (
    f"{_TASKS_OF} workflows AS w CROSS JOIN tasks AS t WHERE w.head = ? AND t.execution = w.execution AND t.task_id = ?"
)

# -- payloads, history, logs -------------------------------------------------------------------------------------------

INSERT_TEXT: Final = "INSERT INTO texts (execution, digest, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
TEXTS: Final = (
    "SELECT t.digest, t.text FROM workflows AS w CROSS JOIN json_each(?) AS wanted CROSS JOIN texts AS t"
    " WHERE w.workflow_id = ? AND t.execution = w.execution AND t.digest = wanted.value"
)
INSERT_HISTORY: Final = "INSERT INTO history (place, at, lines) VALUES (?, ?, ?)"
#: A place is the number of the execution and 28 bits of the number of a line.
HISTORY: Final = (
    "SELECT h.place & 268435455, h.at, h.lines FROM workflows AS w CROSS JOIN history AS h WHERE w.workflow_id = ?"
    " AND h.place >= w.execution << 28 AND h.place < (w.execution + 1) << 28 ORDER BY h.place"
)
#: The row that holds the line after the last known one may begin with lines that are known.
HISTORY_AFTER: Final = (
    "SELECT h.place & 268435455, h.at, h.lines FROM workflows AS w CROSS JOIN history AS h WHERE w.workflow_id = ?"
    " AND h.place >= (SELECT max(p.place) FROM history AS p WHERE p.place <= (w.execution << 28) + ?)"
    " AND h.place >= w.execution << 28 AND h.place < (w.execution + 1) << 28 ORDER BY h.place"
)
#: The last lines of the journal, in the row of the execution.
LAST_LINES: Final = "SELECT created_at, journal FROM workflows WHERE workflow_id = ? AND journal IS NOT NULL"
LINES: Final = "SELECT execution, created_at, journal FROM workflows WHERE journal IS NOT NULL"
INSERT_LOG: Final = "INSERT INTO task_logs (workflow_id, task_id, at, text) VALUES (?, ?, ?, ?)"
LOGS: Final = "SELECT task_id, at, text FROM task_logs WHERE task_id = ? ORDER BY n"

# -- messages to executions --------------------------------------------------------------------------------------------

_MAIL: Final = ", ".join(MAILBOX_COLUMNS)
PUT_MAIL: Final = replacing("mailbox", MAILBOX_COLUMNS, ("workflow_id", "number"))
MAIL: Final = f"SELECT {_MAIL} FROM mailbox WHERE workflow_id = ? AND topic = ? AND key = ?"
UNRECEIVED: Final = f"SELECT {_MAIL} FROM mailbox WHERE workflow_id = ? AND topic = ? AND receiver IS NULL ORDER BY number LIMIT ?"
MAILBOX: Final = f"SELECT {_MAIL} FROM mailbox WHERE workflow_id = ? AND number > ? ORDER BY number LIMIT ?"

# -- inbox -------------------------------------------------------------------------------------------------------------

_EVENT_KEYS: Final = ("workflow_id", "event_id")
PUT_EVENT: Final = replacing("inbox", EVENT_COLUMNS, _EVENT_KEYS)
#: An event to an execution that is there is its owner's.
PUT_INBOX_EVENT: Final = replacing(
    *("inbox", EVENT_COLUMNS, _EVENT_KEYS),
    f"VALUES ({_marks(EVENT_COLUMNS[:-1])}, coalesce((SELECT owner FROM workflows WHERE workflow_id = ?), ?))",
)
DELETE_EVENT: Final = "DELETE FROM inbox WHERE workflow_id = ? AND event_id = ?"
DELETE_TASK: Final = "DELETE FROM tasks WHERE execution = ? AND ref = ?"
RELEASE_HELD: Final = (
    "UPDATE inbox SET due_at = CASE WHEN due_at > ?1 THEN due_at ELSE ?1 END, held = 0 WHERE workflow_id = ?2 AND held = 1"
)
INBOX: Final = f"SELECT {_EVENT} FROM inbox WHERE workflow_id = ?"
#: Few wait in most inboxes, and are looked through. Of more, those of each instant that is due are found along the index of these.
_MANY: Final = "(SELECT count(*) FROM (SELECT 1 FROM inbox WHERE workflow_id = ?1 LIMIT 9)) = 9"
DUE_EVENTS: Final = (
    "WITH RECURSIVE whose (owner) AS (SELECT coalesce((SELECT owner FROM workflows WHERE workflow_id = ?1),"
    f" (SELECT owner FROM inbox WHERE workflow_id = ?1 AND held = 0 LIMIT 1)) WHERE {_MANY}),"
    " instants (owner, at) AS (SELECT owner, (SELECT min(due_at) FROM inbox WHERE held = 0 AND owner = whose.owner) FROM whose"
    " UNION ALL SELECT owner, (SELECT min(due_at) FROM inbox WHERE held = 0 AND owner = instants.owner AND due_at > instants.at)"
    f" FROM instants WHERE at < ?2) SELECT {_EVENT} FROM"
    f" (SELECT * FROM inbox WHERE workflow_id = ?1 LIMIT 9 * NOT {_MANY}) WHERE held = 0 AND due_at <= ?2"
    f" UNION ALL SELECT {', '.join('i.' + column for column in EVENT_COLUMNS)} FROM instants CROSS JOIN inbox AS i WHERE at <= ?2"
    " AND i.held = 0 AND i.owner = instants.owner AND i.due_at = at AND i.workflow_id = ?1 LIMIT ?3"
)
DUE_WORKFLOWS: Final = (
    "SELECT due_at, workflow_id FROM inbox WHERE held = 0 AND owner = ? AND due_at <= ? ORDER BY due_at, workflow_id LIMIT ?"
)
NEXT_EVENT_AT: Final = "SELECT min(due_at) FROM inbox WHERE held = 0 AND owner = ?"
UPCOMING_EVENTS: Final = (
    f"SELECT {_EVENT} FROM inbox WHERE held = 0 AND owner = ?"
    " ORDER BY due_at, workflow_id, posted_at, coalesce(sender, workflow_id), sender_seq, event_id LIMIT ?"
)
FIRST_EVENT_OWNER: Final = "SELECT min(owner) FROM inbox WHERE held = 0"
NEXT_EVENT_OWNER: Final = "SELECT min(owner) FROM inbox WHERE held = 0 AND owner > ?"

# -- timers in the row of their execution ------------------------------------------------------------------------------

#: What is known of an execution that is to be written.
KNOWN: Final = "SELECT execution, alarm_at, timers, journal FROM workflows WHERE workflow_id = ?"
#: The same of many, by their ids and fences, where these are still the same.
KNOWN_AT: Final = (
    "SELECT w.workflow_id, w.execution, w.alarm_at, w.timers, w.journal FROM json_each(?) AS wanted CROSS JOIN workflows AS w"
    " WHERE w.workflow_id = wanted.key AND w.fence = wanted.value"
)
KEPT_OF: Final = "SELECT owner, timers FROM workflows WHERE workflow_id = ?"
KEPT_DUE: Final = "SELECT owner, timers FROM workflows WHERE workflow_id = ? AND alarm_at <= ?"
ALARMS: Final = (
    "SELECT alarm_at, workflow_id, timers FROM workflows WHERE owner = ? AND alarm_at IS NOT NULL ORDER BY alarm_at, workflow_id"
)
FIRST_ALARM_OWNER: Final = "SELECT min(owner) FROM workflows WHERE alarm_at IS NOT NULL"
NEXT_ALARM_OWNER: Final = "SELECT min(owner) FROM workflows WHERE alarm_at IS NOT NULL AND owner > ?"
OWNERS_OF_ALARMS: Final = (
    "SELECT owner, sum(json_array_length(ltrim(timers, '+'))) FROM workflows"
    " WHERE owner <> '' AND alarm_at IS NOT NULL GROUP BY owner"
)
KEPT_SIZES: Final = "SELECT name, status, timers FROM workflows WHERE alarm_at IS NOT NULL"
KEPT: Final = "SELECT workflow_id, owner, timers FROM workflows WHERE alarm_at IS NOT NULL"
SPILL: Final = "UPDATE workflows SET alarm_at = NULL, timers = ? WHERE workflow_id = ?"
MARK: Final = "UPDATE workflows SET timers = ? WHERE workflow_id IN (SELECT workflow_id FROM inbox)"

# -- messages ----------------------------------------------------------------------------------------------------------

PUT_MESSAGE: Final = replacing("messages", MESSAGE_COLUMNS, ("workflow_id", "ref"))
DELETE_MESSAGE: Final = "DELETE FROM messages WHERE workflow_id = ? AND ref = ?"
DISCARD_MESSAGE: Final = f"DELETE FROM messages WHERE {' AND '.join(f'{column} = ?' for column in MESSAGE_COLUMNS)}"
MESSAGE: Final = f"SELECT {_MESSAGE} FROM messages WHERE workflow_id = ? AND ref = ?"
MESSAGES: Final = f"SELECT {_MESSAGE} FROM messages ORDER BY due_at, workflow_id, length(ref), ref LIMIT ?"
#: A queue is read priority by priority, each by one probe: messages of a high priority that are not due cost nothing.
HIGHEST_PRIORITY: Final = "SELECT max(priority) FROM messages WHERE queue = ?"
NEXT_PRIORITY: Final = "SELECT max(priority) FROM messages WHERE queue = ? AND priority < ?"
OFFERED: Final = (
    f"SELECT {_MESSAGE} FROM messages WHERE queue = ? AND priority = ? AND due_at <= ?"
    " ORDER BY due_at, workflow_id, length(ref), ref LIMIT ?"
)
MESSAGE_AT: Final = "SELECT min(due_at) FROM messages WHERE queue = ? AND priority = ?"
NEXT_MESSAGE_AT: Final = "SELECT min(due_at) FROM messages"
QUEUE_SIZES: Final = "SELECT queue, count(*) FROM messages GROUP BY queue"
RECORD_POLL: Final = (
    "INSERT INTO polls (task_type, domain, worker_id, polled_at) VALUES (?, ?, ?, ?) ON CONFLICT (task_type, domain)"
    " DO UPDATE SET worker_id = excluded.worker_id, polled_at = excluded.polled_at WHERE excluded.polled_at >= polls.polled_at"
)
POLLS: Final = "SELECT task_type, domain, worker_id, polled_at FROM polls ORDER BY task_type, domain"
POLLS_OF: Final = "SELECT task_type, domain, worker_id, polled_at FROM polls WHERE task_type = ? ORDER BY domain"

# -- definitions -------------------------------------------------------------------------------------------------------

EMBED: Final = "INSERT INTO definitions (digest, text) VALUES (?, ?) ON CONFLICT DO NOTHING"
DEFINITION: Final = "SELECT text FROM definitions WHERE digest = ?"
PUT_WORKFLOW_DEF: Final = replacing("workflow_defs", ("name", "version", "text"), ("name", "version"))
WORKFLOW_DEF: Final = "SELECT text FROM workflow_defs WHERE name = ? AND version = ?"
WORKFLOW_DEF_NEWEST: Final = "SELECT text FROM workflow_defs WHERE name = ? ORDER BY version DESC LIMIT 1"
WORKFLOW_DEFS: Final = "SELECT name, version FROM workflow_defs ORDER BY name, version"
PUT_TASK_DEF: Final = replacing("task_defs", ("name", "text"), ("name",))
DROP_WORKFLOW_DEF: Final = "DELETE FROM workflow_defs WHERE name = ? AND version = ?"
DROP_TASK_DEF: Final = "DELETE FROM task_defs WHERE name = ?"
TASK_DEF: Final = "SELECT text FROM task_defs WHERE name = ?"
TASK_DEFS: Final = "SELECT name FROM task_defs ORDER BY name"

# -- events ------------------------------------------------------------------------------------------------------------

_RECORD: Final = "name, event, message_id, number, created, status, action, output"

PUT_EVENT_HANDLER: Final = replacing("event_handlers", ("name", "event", "active", "text"), ("name",))
DROP_EVENT_HANDLER: Final = "DELETE FROM event_handlers WHERE name = ?"
EVENT_HANDLER: Final = "SELECT text FROM event_handlers WHERE name = ?"
EVENT_HANDLERS: Final = "SELECT text, active FROM event_handlers ORDER BY name"
EVENT_HANDLERS_OF: Final = "SELECT text, active FROM event_handlers WHERE event = ? ORDER BY name"
ADD_EVENT_EXECUTION: Final = f"INSERT INTO event_executions ({_RECORD}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
EVENT_EXECUTION: Final = f"SELECT {_RECORD} FROM event_executions WHERE name = ? AND event = ? AND message_id = ? AND number = ?"
EVENT_EXECUTIONS: Final = (
    f"SELECT {_RECORD} FROM event_executions WHERE (created, name, event, message_id, number) < (?, ?, ?, ?, ?)"
    " ORDER BY created DESC, name DESC, event DESC, message_id DESC, number DESC LIMIT ?"
)
EVENT_EXECUTIONS_OF_HANDLER: Final = (
    f"SELECT {_RECORD} FROM event_executions WHERE name = ? AND (created, name, event, message_id, number) < (?, ?, ?, ?, ?)"
    " ORDER BY created DESC, event DESC, message_id DESC, number DESC LIMIT ?"
)
EVENT_EXECUTIONS_OF_MESSAGE: Final = (
    f"SELECT {_RECORD} FROM event_executions WHERE message_id = ? AND name = coalesce(?, name)"
    " AND (created, name, event, message_id, number) < (?, ?, ?, ?, ?)"
    " ORDER BY created DESC, name DESC, event DESC, number DESC LIMIT ?"
)
DROP_EVENT_EXECUTIONS: Final = (
    "DELETE FROM event_executions WHERE (name, event, message_id, number) IN (SELECT name, event, message_id, number"
    " FROM event_executions WHERE created < ? AND message_id = coalesce(?, message_id)"
    " AND message_id <> coalesce(?, message_id || '-') ORDER BY created, name, event, message_id, number LIMIT ?)"
)
# -- schedules ---------------------------------------------------------------------------------------------------------

SCHEDULE: Final = "SELECT name, address, text, progress, waits, fence, owner FROM schedules WHERE name = ?"
SCHEDULES: Final = "SELECT name, address, text, progress, waits, fence, owner FROM schedules WHERE name > ? ORDER BY name LIMIT ?"
INSERT_SCHEDULE: Final = (
    "INSERT INTO schedules (text, progress, waits, owner, name, address, fence) VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING"
)
UPDATE_SCHEDULE: Final = (
    "UPDATE schedules SET text = ?, progress = ?, waits = ?, owner = ?, fence = fence + 1"
    " WHERE name = ? AND address = ? AND fence = ?"
)
DELETE_SCHEDULE: Final = "DELETE FROM schedules WHERE name = ? RETURNING address"
EMPTY_INBOX: Final = "DELETE FROM inbox WHERE workflow_id = ?"
NEXT_EVENT: Final = "SELECT due_at, workflow_id FROM inbox WHERE held = 0 AND owner = ? ORDER BY due_at, workflow_id LIMIT 1"

# -- holders -----------------------------------------------------------------------------------------------------------

HOLDERS: Final = "SELECT holder, place, lease_until FROM holders ORDER BY holder"
PUT_HOLDER: Final = replacing("holders", ("holder", "place", "lease_until"), ("holder",))
DROP_HOLDER: Final = "DELETE FROM holders WHERE holder = ?"
HELD_BY: Final = f"{_TASKS_OF} tasks AS t CROSS JOIN workflows AS w WHERE holder = ? AND {_OPEN} AND w.execution = t.execution"

# -- owners ------------------------------------------------------------------------------------------------------------

OWNED: Final = "SELECT workflow_id FROM workflows WHERE owner = ? AND owner <> '' AND workflow_id > ? ORDER BY workflow_id LIMIT ?"
UNOWNED: Final = "SELECT workflow_id FROM workflows WHERE owner = '' AND workflow_id > ? ORDER BY workflow_id LIMIT ?"
OWN: Final = "UPDATE workflows SET owner = ?, fence = fence + 1 WHERE workflow_id = ?"
OWN_EVENTS: Final = "UPDATE inbox SET owner = ? WHERE workflow_id = ?"
OWN_MESSAGES: Final = (
    "UPDATE messages SET queue = CAST(?1 AS text) || substr(queue, length(CAST(?2 AS text)) + 1)"
    " WHERE workflow_id = ?3 AND substr(queue, 1, length(CAST(?2 AS text))) = ?2"
)
OWN_THE_REST: Final = "UPDATE inbox SET owner = ? WHERE owner = ?"
OWN_SCHEDULES: Final = "UPDATE schedules SET owner = ?, fence = fence + 1 WHERE owner = ?"
OWNERS: Final = "SELECT owner, status, count(*) FROM workflows WHERE owner <> '' GROUP BY owner, status"
OWNERS_OF_EVENTS: Final = "SELECT owner, count(*) FROM inbox WHERE owner <> '' GROUP BY owner"


REGISTRY_VERSION: Final = "SELECT value FROM counters WHERE name = 'registry'"
REGISTRY_CHANGED: Final = "UPDATE counters SET value = value + 1 WHERE name = 'registry'"

#: Everything of one execution: what is found by its id, its row, which has its number, and what is found by that.
REMOVE: Final = tuple(
    f"DELETE FROM {table} WHERE workflow_id = ?"
    for table in ("idempotency_keys", "inbox", "messages", "task_logs", "mailbox", "limit_members")
) + tuple(f"DELETE FROM {table} WHERE workflow_id = ?" for table in ("emissions", "emitted", "latest_values"))
#: The highest fence of what was removed: one that comes back under its id has a higher one.
REMOVED: Final = (
    "INSERT INTO counters (name, value) SELECT 'removed', fence FROM workflows WHERE workflow_id = ?"
    " ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE excluded.value > counters.value"
)
REMOVE_WORKFLOW: Final = "DELETE FROM workflows WHERE workflow_id = ? RETURNING execution"
REMOVE_ROWS: Final = (
    "DELETE FROM tasks WHERE execution = ?1",
    "DELETE FROM history WHERE place >= (CAST(?1 AS bigint) << 28) AND place < (CAST(?1 AS bigint) + 1) << 28",
    "DELETE FROM texts WHERE execution = ?1",
)

#: Statements that walk a whole index by their nature; none of them belongs to a turn.
COLD: Final = frozenset(
    {
        *(QUEUE_SIZES, POLLS, WORKFLOW_DEFS, TASK_DEFS, EVENT_HANDLERS, UNOWNED, OWN_THE_REST, OWN_SCHEDULES),
        *(OWNERS, OWNERS_OF_EVENTS, OWNERS_OF_ALARMS, KEPT, KEPT_SIZES, LINES, MARK, HOLDERS, MESSAGES, NEXT_MESSAGE_AT),
    }
)

DRIVEN: Final = "SELECT since, until FROM driven WHERE owner = ? AND until > ? ORDER BY since"
NOTE_DRIVEN: Final = (
    "INSERT INTO driven (owner, since, until) VALUES (?, ?, ?)"
    " ON CONFLICT (owner, since) DO UPDATE SET until = excluded.until WHERE excluded.until > driven.until"
)
FORGET_DRIVEN: Final = (
    "DELETE FROM driven WHERE owner = ? AND since <= "
    "(SELECT since FROM driven WHERE owner = ? ORDER BY since DESC LIMIT 1 OFFSET ?)"
)
