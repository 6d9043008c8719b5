"""A store with something in every table, and every alteration of every cell of it.

`built` makes the store; `alterations` lists what can be done to its rows; `found` says what `Engine.admin.check`, or opening the
store, reports of it after that.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite import (
    Engine,
    EngineConfig,
    EventAction,
    EventHandler,
    SchemaDef,
    StartWorkflowRequest,
    TaskDef,
    VirtualClock,
    WorkflowDef,
    WorkflowSchedule,
)
from conductorlite.errors import ConductorliteError
from conductorlite.model.canonical import canonical
from conductorlite.model.handlers import StartWorkflow
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.schema import VERSION

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
from golden_lives import ENDS_AT, LARGE, STARTS_AT, begin, node

__all__ = ["ENDS_AT", "STARTS_AT", "Alteration", "alterations", "altered", "built", "found"]

#: What a number becomes that is far in the future, for instants and for counts.
FAR: Final = 1 << 52


@attrs.frozen(kw_only=True)
class Alteration:
    """One change of one row: what it is called, and the statement that makes it."""

    table: str
    column: str
    what: str
    key: tuple[Any, ...]
    sql: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.table}.{self.column} {self.what} of {self.key}"


def built(path: Path) -> None:
    """Make the store: every kind of execution in the middle of its life, and something in every other table."""
    clock = VirtualClock(STARTS_AT)
    with Engine(SQLiteBackend(path), clock=clock) as engine:
        begin(engine, VERSION)
        _beside(engine)
        engine.admin.archive("completed")
        engine.search("status = RUNNING")
    alone = WorkflowDef.from_json(
        {"name": "alone", "version": 1, "tasks": [node("a", "WAIT", inputParameters={"duration": "5 h"}), node("b")]}
    )
    with Engine(SQLiteBackend(path), clock=clock, config=EngineConfig(name="own", allocation="local")) as engine:
        engine.start(alone, {"x": LARGE}, workflow_id="alone")
        engine.settle()


def _beside(engine: Engine) -> None:
    """Event handlers and what one has done, a schedule, a task definition, a schema, a document of the payload storage."""
    started = EventAction(action="start_workflow", start_workflow=StartWorkflow(name="keyed", input={"from": "${id}"}))
    engine.events.register(EventHandler(name="on_news", event="news", active=True, actions=[started]))
    engine.events.register(EventHandler(name="off", event="other", actions=[started]))
    engine.events.publish("news", {"id": 7}, message_id="m1")
    request = StartWorkflowRequest(name="keyed")
    engine.schedules.save(WorkflowSchedule(name="daily", cron_expression="0 0 6 * * *", start_workflow_request=request))
    engine.register(TaskDef(name="limited", concurrent_exec_limit=3))
    engine.definitions.register_schema(SchemaDef(name="order", version=2, data={"type": "object"}))
    with engine.backend.writing() as tx:
        tx.owners.note_driven("own", STARTS_AT, STARTS_AT + 5)
    engine.settle()


def rows_of(path: Path) -> Iterator[tuple[str, Sequence[str], Sequence[str], list[tuple[Any, ...]]]]:
    """Each table with its columns, those of its key, and its rows."""
    with closing(sqlite3.connect(path)) as connection:
        # Not the pages of a full-text index, which are SQLite's own.
        tables = [
            name
            for name, kind in connection.execute("SELECT name, type FROM pragma_table_list WHERE schema = 'main' ORDER BY name")
            if kind == "table" and not name.startswith("sqlite_")
        ]
        for table in tables:
            about = connection.execute(f"PRAGMA table_info({table})").fetchall()
            columns = [row[1] for row in about]
            key = [row[1] for row in sorted(about, key=lambda row: row[5]) if row[5]]
            if not key:
                columns, key = ["rowid", *columns], ["rowid"]
            yield table, columns, key, connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()


def others(cell: Any, column: list[Any]) -> Iterator[tuple[str, Any]]:
    """What may stand in the place of a cell: what it is called, and the value."""
    if cell is not None:
        yield "null", None
    if isinstance(cell, int) or (cell is None and any(isinstance(one, int) for one in column)):
        number = cell or 0
        for what, value in (("more", number + 1), ("less", number - 1), ("far", number + FAR), ("past", number - FAR), ("zero", 0)):
            if value != cell:
                yield what, value
    elif isinstance(cell, bytes):
        yield "flipped", bytes([*cell[:-1], cell[-1] ^ 1]) if cell else b"\0"
        yield "cut", cell[: len(cell) // 2]
    elif isinstance(cell, str):
        yield "flipped", flipped(cell)
        yield "cut", cell[: len(cell) // 2]
        yield "empty", ""
    else:
        yield "text", "damaged"
    another = next((one for one in column if one != cell and one is not None), None)
    if another is not None:
        yield "another's", another


def flipped(text: str) -> str:
    """A text with one letter or digit changed, near its middle."""
    places = [n for n, character in enumerate(text) if character.isascii() and character.isalnum()]
    if not places:
        return text + "x"
    place = places[len(places) // 2]
    character = text[place]
    changed = str((int(character) + 1) % 10) if character.isdigit() else ("q" if character != "q" else "r")
    return text[:place] + changed + text[place + 1 :]


def alterations(path: Path) -> Iterator[Alteration]:
    """Every alteration of every cell, the loss of each row, and a second one like it under another key."""
    for table, columns, key, rows in rows_of(path):
        where = " AND ".join(f"{name} IS ?" for name in key)
        by_name = {name: [row[n] for row in rows] for n, name in enumerate(columns)}
        for row in rows:
            place = tuple(row[columns.index(name)] for name in key)
            yield Alteration(
                table=table, column="", what="missing", key=place, sql=f"DELETE FROM {table} WHERE {where}", values=place
            )
            last = key[-1]
            cell = row[columns.index(last)]
            other = cell + 77 if isinstance(cell, int) else f"{cell}_2"
            copied = tuple(other if name == last else value for name, value in zip(columns, row, strict=True))
            yield Alteration(
                table=table,
                column="",
                what="doubled",
                key=place,
                sql=f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                values=copied,
            )
            for name, value in zip(columns, row, strict=True):
                if name == "rest" and value is not None:
                    yield from _fields(table, key, place, json.loads(value))
                for what, new in others(value, by_name[name]):
                    if new == value:
                        continue
                    yield Alteration(
                        table=table,
                        column=name,
                        what=what,
                        key=place,
                        sql=f"UPDATE {table} SET {name} = ? WHERE {where}",
                        values=(new, *place),
                    )


def _fields(table: str, key: Sequence[str], place: tuple[Any, ...], fields: dict[str, Any]) -> Iterator[Alteration]:
    """The alterations of each field of a cell of JSON."""
    for field, value in fields.items():
        changes = [(what, new) for what, new in others(value, []) if new != value]
        for what, new in [*changes, ("missing", None)]:
            changed = {name: one for name, one in fields.items() if name != field} | ({} if what == "missing" else {field: new})
            yield Alteration(
                table=table,
                column=f"rest.{field}",
                what=what,
                key=place,
                sql=f"UPDATE {table} SET rest = ? WHERE {' AND '.join(f'{name} IS ?' for name in key)}",
                values=(
                    canonical(changed) if changed else None,
                    *place,
                ),
            )


def altered(path: Path, one: Alteration) -> bool:
    """Alter the store; False when SQLite refuses that."""
    with closing(sqlite3.connect(path)) as connection:
        connection.create_function("fits", 2, lambda *_: 1, deterministic=True)
        try:
            with connection:
                return connection.execute(one.sql, one.values).rowcount > 0
        except sqlite3.Error:
            return False


def found(path: Path) -> list[str]:
    """What a check of the store reports, or the error of opening or checking it."""
    try:
        with Engine(SQLiteBackend(path, synchronous="NORMAL"), clock=VirtualClock(ENDS_AT)) as engine:
            return [str(finding) for finding in engine.admin.check()]
    except ConductorliteError as error:
        return [f"{type(error).__name__}: {error}"]
