"""What a chain of ten costs in a file, as counts: statements, commits, pages of the log, trees, bytes."""

from __future__ import annotations

import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from shapes import chain, engine_on, workflow

from conductorlite import Engine, WorkflowDef
from conductorlite.store.sqlite.backend import SQLiteBackend

STEPS: Final = 10

TEN: Final = chain(STEPS)
LONG: Final = workflow("long", *chain(2 * STEPS).to_json()["tasks"])

WAIT: Final = workflow(
    "waits", {"name": "wait", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "30 days"}}
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine on a counting store in a file, on which nothing waits: being idle would let that time pass."""
    with closing(engine_on(tmp_path_factory.mktemp("cost") / "store.db")) as engine:
        for definition in (LONG, TEN, WAIT):
            engine.register(definition)
        carry_out(engine, 2, LONG)
        yield engine


def carry_out(engine: Engine, count: int, definition: WorkflowDef) -> None:
    """So many executions, one after another, as far as they go by themselves at this instant."""
    for _ in range(count):
        engine.start(definition.name, {"x": 1})
        if definition is not WAIT:
            engine.run_until_idle()


def backend_of(engine: Engine) -> SQLiteBackend:
    """Its store."""
    backend = engine.backend
    assert isinstance(backend, SQLiteBackend)
    return backend


def used(engine: Engine) -> int:
    """Bytes of the pages that hold something."""
    connection = backend_of(engine)._writer
    assert connection is not None
    try:
        (found,) = connection.execute("SELECT sum(pgsize - unused) FROM dbstat").fetchone()
    except sqlite3.OperationalError:
        pytest.skip("an SQLite without dbstat")
    return int(found)


def written_pages(engine: Engine) -> list[int]:
    """The pages in the log since it began, by their numbers."""
    log = Path(f"{backend_of(engine).path}-wal").read_bytes()
    (page_size,) = struct.unpack(">I", log[8:12])
    return [struct.unpack(">I", log[at : at + 4])[0] for at in range(32, len(log), page_size + 24)]


@pytest.mark.parametrize(("kept", "most", "read"), [(0, 11.4, 2), (2**25, 5.4, 0)], ids=["read again", "kept in memory"])
def test_statements_of_a_step(tmp_path: Path, kept: int, most: float, read: int) -> None:
    """A task more is so many statements, rows and commits more; with rows kept in memory between turns none is read."""
    with closing(engine_on(tmp_path / "store.db", kept)) as engine:
        for definition in (LONG, TEN):
            engine.register(definition)
        carry_out(engine, 2, LONG)
        counts = backend_of(engine).counts
        assert counts is not None
        found = []
        for definition in (TEN, LONG):
            counts.reset()
            carry_out(engine, 1, definition)
            written = sum(n for sql, n in counts.statements_by_sql.items() if sql.split()[0] in {"INSERT", "UPDATE", "DELETE"})
            found.append((counts.statements, written, counts.rows_read, counts.commits))
    statements, written, rows, commits = ((more - few) / STEPS for few, more in zip(*found, strict=True))
    assert commits <= 1
    assert written <= 2.9
    assert statements <= most
    assert rows <= read + 1.1  # `data_version`, in each write and now and then between them


def test_pages_and_trees_of_a_step(engine: Engine) -> None:
    """A step writes few pages of the log, of few tables and indexes; its start and end included."""
    backend = backend_of(engine)
    connection = backend._writer
    assert connection is not None
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = backend.commits()
    carry_out(engine, 5, TEN)
    frames = written_pages(engine)
    assert backend.commits() - before <= 1.2 * 5 * STEPS
    assert len(frames) <= 5.2 * 5 * STEPS
    try:
        trees = dict(connection.execute("SELECT pageno, name FROM dbstat").fetchall())
    except sqlite3.OperationalError:
        return  # an SQLite that was built without it
    per_step = Counter(trees.get(page, "") for page in frames)
    usual = {name for name, n in per_step.items() if n >= 5 * STEPS}
    assert usual == {"workflows", "tasks", "tasks_live"}


def test_pages_of_many_starts(tmp_path: Path) -> None:
    """Beside many that wait, what begins is appended everywhere but in the index of heads, by which ids of attempts are found."""
    with closing(engine_on(tmp_path / "store.db")) as engine:
        engine.start_many(WAIT, [{"x": n} for n in range(6_000)])
        connection = backend_of(engine)._writer
        assert connection is not None
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        engine.start_many(WAIT, [{"x": n} for n in range(50)])
        pages = written_pages(engine)
        try:
            trees = dict(connection.execute("SELECT pageno, name FROM dbstat").fetchall())
        except sqlite3.OperationalError:
            pytest.skip("an SQLite without dbstat")
        written = Counter(trees.get(page, "") for page in set(pages))
        assert written.pop("workflows_head") > 10
        assert written["tasks_live"] <= 2
        assert sum(written.values()) <= 28, written


@pytest.mark.parametrize(("definition", "most"), [(TEN, 1_495), (WAIT, 546)], ids=["finished", "waiting"])
def test_bytes_of_an_execution(engine: Engine, definition: WorkflowDef, most: int) -> None:
    """A finished chain of ten with its history, and then one in a WAIT, take so many bytes in all tables and indexes."""
    before = used(engine)
    carry_out(engine, 10, definition)
    assert (used(engine) - before) / 10 <= most


def test_statements_of_many_starts(tmp_path: Path) -> None:
    """Executions that begin together are a statement for each kind of row, however many they are; what waits is read by none."""
    with closing(engine_on(tmp_path / "store.db")) as engine:
        engine.start_many(WAIT, [{"x": 1}])
        counts = backend_of(engine).counts
        assert counts is not None
        counts.reset()
        engine.start_many(WAIT, [{"x": n} for n in range(50)])
        assert counts.commits == 1
        assert counts.statements <= 11, counts.statements_by_sql
