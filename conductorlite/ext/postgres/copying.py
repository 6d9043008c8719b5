"""Copies of stores between SQLite and PostgreSQL: row by row, as they are, for both keep the same rows.

What belongs to the place is left: who is at work there, and what searches were indexed by. Holders come along as such that have
been silent: what they held is given back when the copy is first driven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from conductorlite.ext.postgres.backend import PostgresBackend
from conductorlite.model.errors import AlreadyExists, InvalidInput
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.executions import kept_lines
from conductorlite.store.sqlite.mailboxes import kept_timers, mark_timers
from conductorlite.store.sqlite.rows import packed_hex
from conductorlite.store.sqlite.statements import INSERT_HISTORY, PUT_EVENT

__all__ = ["copy_store"]

_TABLES: Final = (
    *("workflows", "tasks", "history", "texts", "inbox", "messages", "idempotency_keys", "polls", "task_logs", "definitions"),
    *("workflow_defs", "task_defs", "schema_defs", "counters", "limits", "limit_members", "event_handlers", "event_executions"),
    *("schedules", "external_payloads", "loose_payloads", "archive", "driven", "holders", "mailbox"),
    *("emissions", "emitted", "latest_values"),
)
#: Numbers that the server draws by itself, and goes on with behind those that were copied.
_DRAWN: Final = {"workflows": "execution", "task_logs": "n"}
_PACKED: Final = frozenset({"definition_hash", "task_id"})
_PACKED_IN: Final = frozenset({"workflows", "tasks"})
_PAGE: Final = 500

_COLUMNS: Final = (
    "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?"
    " ORDER BY ordinal_position"
)


def copy_store(source: Backend, target: Backend) -> dict[str, int]:
    """Copy all of a store into an empty one, in one change, as it is at one instant; how many rows of each table.

    Raises InvalidInput for stores that are neither in SQLite nor in PostgreSQL, AlreadyExists for one that is not empty,
    StorageErrors; then nothing was copied.
    """
    if not any(isinstance(one, PostgresBackend) for one in (source, target)) or not all(
        isinstance(one, PostgresBackend | SQLiteBackend) for one in (source, target)
    ):
        raise InvalidInput("copied are stores from SQLite to PostgreSQL, back, and from one schema to another; a file: `backup`")
    copied: dict[str, int] = {}
    with source.reading() as view, target.writing() as tx:
        viewed: Any = view
        changed: Any = tx
        out, into = viewed.session, changed.session
        there = out if isinstance(source, PostgresBackend) else into
        if into.execute("SELECT 1 FROM workflows UNION ALL SELECT 1 FROM archive LIMIT 1").fetchone() is not None:
            raise AlreadyExists("the store to copy into is not empty")
        for table in _TABLES:
            columns = [name for (name,) in there.execute(_COLUMNS, (table,))]
            copied[table] = _copied(table, columns, out, into, source, target)
        if isinstance(source, SQLiteBackend):
            copied["inbox"] += _put(PUT_EVENT, kept_timers(out), into)
            copied["history"] += _put(INSERT_HISTORY, kept_lines(out), into)
        elif isinstance(target, SQLiteBackend):
            mark_timers(into)
        into.execute("UPDATE holders SET place = '', lease_until = 0")
        into.dirty = True
    return copied


def _copied(table: str, columns: Sequence[str], out: Any, into: Any, source: Backend, target: Backend) -> int:
    names = ", ".join(columns)
    cells = ", ".join("decode(?, 'hex')" if one == "document" and isinstance(target, PostgresBackend) else "?" for one in columns)
    own = "OVERRIDING SYSTEM VALUE " if table in _DRAWN and isinstance(target, PostgresBackend) else ""
    packed = [columns.index(one) for one in _PACKED & set(columns)] if table in _PACKED_IN else []
    into.execute(f"DELETE FROM {table}")
    count = 0
    read = names.replace("lines", "journal_text(lines)") if isinstance(source, SQLiteBackend) else names
    rows = _rows(f"SELECT {read} FROM {table}", out, isinstance(source, PostgresBackend))
    while page := list(islice(rows, _PAGE)):
        if packed and isinstance(target, SQLiteBackend):
            page = [tuple(packed_hex(cell) if at in packed else cell for at, cell in enumerate(row)) for row in page]
        into.executemany(f"INSERT INTO {table} ({names}) {own}VALUES ({cells})", page)
        if isinstance(target, PostgresBackend):
            into.connection.sync()
        count += len(page)
    if own:
        column = _DRAWN[table]
        into.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), 1 + coalesce(max({column}), 0)) FROM {table}")
    return count


def _put(statement: str, rows: Iterator[Any], into: Any) -> int:
    """Put what stands in rows of executions where it stands here; how many rows."""
    count = 0
    while page := list(islice(rows, _PAGE)):
        into.executemany(statement, page)
        into.connection.sync()
        count += len(page)
    return count


def _rows(statement: str, out: Any, paged: bool) -> Iterator[Any]:
    if not paged:
        yield from out.execute(statement)
        return
    out.execute(f"DECLARE copied NO SCROLL CURSOR FOR {statement}")
    while page := out.execute(f"FETCH {_PAGE} FROM copied").fetchall():
        yield from page
    out.execute("CLOSE copied").fetchall()
