"""Opening a store: its settings, and several processes at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import attrs
import pytest

from conductorlite.errors import StorageBusy
from conductorlite.model.executions import Task, Workflow
from conductorlite.store.sqlite import connections as opening
from conductorlite.store.sqlite import migrations, schema
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.rows import TASK_COLUMNS, WORKFLOW_COLUMNS
from conductorlite.testing.conformance.samples import event

#: Imports what it needs, says so, and opens the store when it is told to.
OPEN_AND_POST = """
import sys
from conductorlite.model.decisions import Event, EventKind
from conductorlite.store.sqlite.backend import SQLiteBackend

print("ready", flush=True)
sys.stdin.readline()
backend = SQLiteBackend(sys.argv[1], synchronous="NORMAL")
with backend.writing() as tx:
    tx.inbox.post([Event(workflow_id="w", event_id=f"from {sys.argv[2]}", kind=EventKind.CONTINUE, due_at=0, posted_at=0)])
backend.close()
"""


def test_processes_open_a_new_store_at_once(tmp_path: Path) -> None:
    """Two processes that create the same store at the same time all succeed, and it is migrated once."""
    path = str(tmp_path / "store.db")
    commands = [[sys.executable, "-c", OPEN_AND_POST, path, str(number)] for number in range(2)]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for command in commands]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", child.communicate()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [(child.communicate(timeout=60)[1], child.returncode) for child in children] == [("", 0)] * 2
    backend = SQLiteBackend(path)
    with backend.reading() as view:
        assert len(view.inbox.events("w")) == 2
    backend.close()


def test_threads_open_a_new_store_at_once(tmp_path: Path) -> None:
    """The same race inside one process, many times, where the switch to WAL is most contended."""
    with ThreadPoolExecutor(4) as pool:
        for n in range(10):
            path = tmp_path / f"{n}.db"
            for backend in pool.map(SQLiteBackend, [path] * 4):
                backend.close()


def test_a_store_that_is_being_made_is_waited_for(tmp_path: Path) -> None:
    """Whoever opens a store that another one is making waits longer than the busy timeout; one that is made is not waited for."""
    path = tmp_path / "store.db"
    maker = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN EXCLUSIVE")
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(SQLiteBackend, path, busy_timeout_ms=1)
        with pytest.raises(TimeoutError):
            opening.result(timeout=0.3)
        maker.execute("ROLLBACK")
        backend = opening.result(timeout=20)
    assert backend._writer.execute("PRAGMA busy_timeout").fetchone()[0] == 1
    maker.execute("PRAGMA locking_mode = EXCLUSIVE")
    backend.close()
    maker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageBusy):
        SQLiteBackend(path, busy_timeout_ms=1)
    maker.close()


def _in_another_process(path: Path, statements: str) -> str:
    """What another process says that opens the file, runs statements and closes it."""
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None); "
    script += f"print(*[c.execute(one).fetchone() for one in {statements!r}.split(';')]); c.close()"
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=20)
    return done.stdout + done.stderr


def test_opening_again_keeps_the_locks_of_the_first(tmp_path: Path) -> None:
    """A store that this process opens twice, under two names, is not taken by another process for one that nobody uses.

    That one would remove the log as it closes the file, and with it what is committed afterwards.
    """
    path, link = tmp_path / "store.db", tmp_path / "link.db"
    first = SQLiteBackend(path)
    with first.writing() as tx:
        tx.inbox.post([event("before")])
    link.symlink_to(path)
    for name in (path, link):
        SQLiteBackend(name).close()
    log = Path(f"{path}-wal").stat().st_ino
    assert _in_another_process(path, "SELECT count(*) FROM inbox") == "(1,)\n"
    assert Path(f"{path}-wal").stat().st_ino == log
    with first.writing() as tx:
        tx.inbox.post([event("after")])
    assert _in_another_process(path, "SELECT count(*) FROM inbox") == "(2,)\n"
    first.close()


def test_opening_again_while_the_store_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that opens the store while another one makes it does not let another process in between."""
    path = tmp_path / "store.db"
    really, second_came, said = opening.migrate, threading.Event(), []

    def migrating(connection: sqlite3.Connection, name: str) -> None:
        if threading.current_thread() is threading.main_thread():
            connection.execute("BEGIN EXCLUSIVE")
            opened.append(pool.submit(SQLiteBackend, path))
            assert second_came.wait(20)
            said.append(_in_another_process(path, "BEGIN IMMEDIATE"))
            connection.execute("ROLLBACK")
        second_came.set()
        really(connection, name)

    monkeypatch.setattr(opening, "migrate", migrating)
    opened: list[Future[SQLiteBackend]] = []
    with ThreadPoolExecutor(1) as pool:
        SQLiteBackend(path).close()
        opened[0].result(timeout=20).close()
    assert "database is locked" in said[0]


def test_a_store_that_is_closed_or_dropped_is_looked_at_again(tmp_path: Path) -> None:
    """The look without SQLite is left out only while this process has the file open."""
    path = tmp_path / "store.db"
    SQLiteBackend(path).close()
    kept = SQLiteBackend(path)
    assert opening._opened.has(str(path))
    del kept
    assert not opening._opened.has(str(path))
    SQLiteBackend(path).close()
    assert not opening._opened.has(str(path))


@pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1)])
def test_settings_are_really_set(tmp_path: Path, synchronous: str, number: int) -> None:
    """The connection writes through a bounded WAL with the durability that was asked for."""
    backend = SQLiteBackend(tmp_path / "store.db", synchronous=synchronous, busy_timeout_ms=123)  # type: ignore[arg-type]

    def pragma(name: str) -> object:
        return backend._writer.execute(f"PRAGMA {name}").fetchone()[0]

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == number
    assert pragma("busy_timeout") == 123
    assert pragma("journal_size_limit") == 16 * 1024 * 1024
    backend.close()


def test_durable_by_default(tmp_path: Path) -> None:
    """Unless told otherwise every commit is synced."""
    backend = SQLiteBackend(tmp_path / "store.db")
    assert backend._writer.execute("PRAGMA synchronous").fetchone()[0] == 2
    backend.close()


def test_failed_migration_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that breaks half-way leaves an empty file, which the next opening makes a store."""
    path = tmp_path / "store.db"
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "_STATEMENTS", (*migrations._STATEMENTS, "CREATE TABLE broken ("))
        with pytest.raises(Exception, match=r"store\.db"):
            SQLiteBackend(path)
    assert path.read_bytes() == b""
    SQLiteBackend(path).close()


def test_older_schema_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of an earlier schema gets the missing steps only, and keeps its rows."""
    path = tmp_path / "store.db"
    old = SQLiteBackend(path)
    with old.writing() as tx:
        tx.inbox.post([event()])
    old.close()
    later = ("later", lambda database: database.execute("CREATE TABLE later (x INTEGER) STRICT"))
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, later))
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    new = SQLiteBackend(path)
    with new.reading() as view:
        assert len(view.inbox.events("w")) == 1
    assert new._writer.execute("SELECT count(*) FROM later").fetchone() == (0,)
    assert new._writer.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    new.close()


def test_every_field_has_a_column(tmp_path: Path) -> None:
    """The tables hold exactly the fields of the rows, and every table is STRICT."""
    backend = SQLiteBackend(tmp_path / "store.db")

    def columns(table: str) -> set[str]:
        return {row[1] for row in backend._writer.execute(f"PRAGMA table_info({table})")}

    assert columns("tasks") == {*TASK_COLUMNS, "fence", "execution"}
    assert columns("tasks") < {field.name for field in attrs.fields(Task)} | {"live", "failed", "fence", "execution", "rest"}
    kept = {"alarm_at", "timers", "journal"}
    assert columns("workflows") == {*WORKFLOW_COLUMNS, "execution", "head", *kept}
    assert columns("workflows") < {field.name for field in attrs.fields(Workflow)} | {"execution", "head", "rest", *kept}
    tables = backend._writer.execute(
        "SELECT name, strict FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE '%sqlite%'"
    ).fetchall()
    assert len(tables) > 9
    assert all(strict for _, strict in tables)
    backend.close()


def test_import_is_light() -> None:
    """Importing the backend imports neither sqlite_utils nor asyncio."""
    code = "import sys, conductorlite.store.sqlite; print({'sqlite_utils', 'asyncio'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_store_is_a_plain_database(tmp_path: Path) -> None:
    """Any SQLite tool can open the file and finds it sound."""
    backend = SQLiteBackend(tmp_path / "store.db")
    other = sqlite3.connect(backend.path)
    assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    other.close()
    backend.close()


def test_others_that_leave_let_the_file_change_to_wal(tmp_path: Path) -> None:
    """A reader is on the file as it was before: whoever opens it waits for the reader to go, and leaves no transaction open."""
    path = tmp_path / "store.db"
    reader = sqlite3.connect(path, isolation_level=None)
    reader.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1); BEGIN; SELECT * FROM t;")
    connection = sqlite3.connect(path, isolation_level=None, timeout=0.1)
    connection.set_trace_callback(lambda text: reader.rollback() if "EXCLUSIVE" in text and reader.in_transaction else None)
    opening._enter_wal(connection, str(path))
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert not connection.in_transaction
    connection.close()
    reader.close()


def test_a_file_that_was_compacted_has_an_empty_log(tmp_path: Path) -> None:
    """The space of what was deleted is given back: the log, through which the whole file has gone, is cut as well."""
    backend = SQLiteBackend(tmp_path / "store.db")
    with backend.writing() as tx:
        tx.inbox.post([event(f"{number}", workflow_id=f"w{number}") for number in range(200)])
    log = Path(f"{tmp_path / 'store.db'}-wal")
    assert log.stat().st_size > 0
    backend.compact()
    assert log.stat().st_size == 0
    backend.close()
