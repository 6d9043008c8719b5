"""Payloads of a store in SQL sealed again by the present key, table by table, a page in each change; for SQLite and PostgreSQL.

A cell is written only where it is not sealed by that key, and only as long as it is as it was read. So it may be begun again at any
time, and others may write meanwhile.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from conductorlite.model.decisions import EventKind
from conductorlite.model.executions import HistoryEvent, Task, Workflow
from conductorlite.store.sealing import SEALED, Rows, Sealing, is_own_timer
from conductorlite.store.sqlite.history import journal_with, lines_with
from conductorlite.store.sqlite.rows import Row, Session

__all__ = ["Place", "documents_page", "move_document", "reseal_page"]

#: Up to where a store was sealed again: which table, and the key of its last row.
Place = tuple[int, tuple[Any, ...]]

#: What is sealed of a row that has these cells, by column: the new cell.
_Convert = Callable[[Rows, Mapping[str, Any]], Any]


def _cell(column: str) -> _Convert:
    return lambda rows, row: rows.sealing.again_cell(row[column])


def _text(column: str) -> _Convert:
    return lambda rows, row: rows.sealing.again(row[column])


def _json(column: str) -> _Convert:
    return lambda rows, row: rows.sealing.again_json(row[column])


def _hash(column: str) -> _Convert:
    def named(rows: Rows, row: Mapping[str, Any]) -> Any:
        cell = row[column]
        return rows.sealing.name(cell.hex() if isinstance(cell, bytes) else cell)

    return named


def _rest(kind: type) -> _Convert:
    def rest(rows: Rows, row: Mapping[str, Any]) -> str:
        found = json.loads(row["rest"])
        changed = {name: _again(rows.sealing, found[name], ways) for name, ways in SEALED[kind].items() if name in found}
        changed = {name: value for name, value in changed.items() if value != found[name]}
        return json.dumps(found | changed, ensure_ascii=False, separators=(",", ":")) if changed else row["rest"]

    return rest


def _again(sealing: Sealing, value: Any, ways: tuple[str, str]) -> Any:
    return list(sealing.names(value)) if ways[0] == "names" else sealing.again(value)


def _event(rows: Rows, row: Mapping[str, Any]) -> str:
    return row["data"] if is_own_timer(EventKind(row["kind"]), row["data"]) else rows.sealing.again_cell(row["data"])


def _journal(rows: Rows, row: Mapping[str, Any]) -> Any:
    return journal_with(row["journal"], row["created_at"], lambda line: _line(rows, line))


def _lines(rows: Rows, row: Mapping[str, Any]) -> Any:
    return lines_with(row["lines"], row["at"], lambda line: _line(rows, line))


def _line(rows: Rows, line: HistoryEvent) -> HistoryEvent:
    return line if rows.is_fresh(line) else rows.sealed(HistoryEvent, rows.opened(HistoryEvent, line))


#: Tables, their keys, what else is read of a row, and what of it is sealed. One that is `None` there is not.
_TABLES: Final[Sequence[tuple[str, tuple[str, ...], tuple[str, ...], Mapping[str, _Convert]]]] = (
    (
        *("workflows", ("execution",), ("created_at",)),
        {
            **{name: _cell(name) for name in ("input", "output", "variables", "task_to_domain")},
            **{name: _text(name) for name in ("reason", "parked")},
            "rest": _rest(Workflow),
            "definition_hash": _hash("definition_hash"),
            "journal": _journal,
        },
    ),
    (
        *("tasks", ("execution", "ref", "attempt"), ()),
        {"input": _cell("input"), "output": _cell("output"), "reason": _text("reason"), "rest": _rest(Task)},
    ),
    ("history", ("place",), ("at",), {"lines": _lines}),
    ("texts", ("execution", "digest"), (), {"digest": _hash("digest"), "text": _text("text")}),
    ("inbox", ("workflow_id", "event_id"), ("kind",), {"data": _event}),
    ("task_logs", ("n",), (), {"text": _text("text")}),
    ("mailbox", ("workflow_id", "number"), (), {"value": _cell("value")}),
    ("emitted", ("workflow_id", "last"), (), {"items": _json("items")}),
    ("latest_values", ("workflow_id", "name", "ref"), (), {"value": _json("value")}),
    ("event_executions", ("name", "event", "message_id", "number"), (), {"output": _json("output")}),
    ("schedules", ("name",), (), {"text": _text("text"), "progress": _text("progress")}),
    ("external_payloads", ("workflow_id", "digest"), (), {"digest": _hash("digest")}),
    ("definitions", ("digest",), (), {"digest": _hash("digest"), "text": _text("text")}),
)

#: Only SQLite keeps the last lines of a journal in the row of their execution.
_OF_SQLITE: Final = {"journal"}


def reseal_page(session: Session, rows: Rows, after: Place | None, limit: int) -> tuple[Place | None, int]:
    """Seal a page of a table again, of so many rows; where the next one begins (None: there is none), and how many were changed."""
    number, last = (0, ()) if after is None else after
    table, keys, beside, converted = _TABLES[number]
    in_file = isinstance(session.connection, sqlite3.Connection)
    columns = [name for name in converted if in_file or name not in _OF_SQLITE]
    read = list(dict.fromkeys((*keys, *beside, *columns)))
    names, order = ", ".join(read), ", ".join(keys)
    greater = f"WHERE ({order}) > ({', '.join('?' * len(keys))}) " if last else ""
    found = session.execute(f"SELECT {names} FROM {table} {greater}ORDER BY {order} LIMIT {limit:d}", last).fetchall()
    changed = sum([_reseal(session, rows, table, keys, columns, dict(zip(read, row, strict=True))) for row in found])
    session.dirty |= changed > 0
    if len(found) == limit:
        return (number, tuple(found[-1][: len(keys)])), changed
    return (None if number + 1 == len(_TABLES) else (number + 1, ())), changed


def _reseal(session: Session, rows: Rows, table: str, keys: Sequence[str], columns: Sequence[str], row: Mapping[str, Any]) -> int:
    if table == "definitions" and row["digest"].startswith("sealing/"):
        return 0
    made = {name: _TABLES_BY_NAME[table][name](rows, row) for name in columns if row[name] is not None}
    made = {name: cell for name, cell in made.items() if cell != row[name]}
    if not made:
        return 0
    if "digest" in made and _is_there(session, table, keys, {**row, "digest": made["digest"]}):  # it was stored again since
        session.execute(f"DELETE FROM {table} WHERE {_same(keys)}", tuple(row[name] for name in keys))
        return 1
    compared = list(dict.fromkeys((*keys, *made)))
    cells: Row = (*made.values(), *(row[name] for name in compared))
    sets = ", ".join(f"{name} = ?" for name in made)
    session.execute(f"UPDATE {table} SET {sets} WHERE {_same(compared)}", cells)
    return 1


def _is_there(session: Session, table: str, keys: Sequence[str], row: Mapping[str, Any]) -> bool:
    asked = tuple(row[name] for name in keys)
    return session.execute(f"SELECT 1 FROM {table} WHERE {_same(keys)}", asked).fetchone() is not None


def _same(columns: Sequence[str]) -> str:
    return " AND ".join(f"{name} = ?" for name in columns)


_TABLES_BY_NAME: Final = {table: converted for table, _, _, converted in _TABLES}


def documents_page(session: Session, after: tuple[str, str], limit: int) -> Sequence[tuple[str, str, int, str]]:
    """A page of documents in the payload storage: execution, name of the hash, size, key."""
    names = "workflow_id, digest, size, key FROM external_payloads WHERE (workflow_id, digest) > (?, ?)"
    return session.execute(f"SELECT {names} ORDER BY workflow_id, digest LIMIT {limit:d}", after).fetchall()


def move_document(session: Session, workflow_id: str, named: str, key: str, new: str) -> None:
    """Have an execution refer to a document by another key."""
    session.dirty = True
    statement = "UPDATE external_payloads SET key = ? WHERE workflow_id = ? AND digest = ? AND key = ?"
    session.execute(statement, (new, workflow_id, named, key))
