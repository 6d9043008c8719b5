"""The store in PostgreSQL: the contract on a real server."""

from __future__ import annotations

import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from places import dropped, own_schema

from conductorlite import Engine, EngineConfig, TaskResult, TaskStatus, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import AccessDenied, AlreadyExists, InvalidInput, LockUnavailable, SchemaTooNew, StorageUnavailable
from conductorlite.model.decisions import Decision
from conductorlite.store.places import open_lock
from conductorlite.store.ports import Backend, Lock
from conductorlite.store.sqlite import statements as sql
from conductorlite.testing.conformance import BackendConformance
from conductorlite.testing.conformance.locks import LockConformance
from conductorlite.testing.conformance.samples import event, task, workflow
from conductorlite.testing.faults import FaultyBackend


class TestPostgres(BackendConformance):
    """The conformance suite, in a schema of its own for each folder."""

    @pytest.fixture(autouse=True)
    def _url(self, postgres_url: str) -> Iterator[None]:
        self.server = postgres_url
        self.urls: dict[Path, str] = {}
        yield
        for url in self.urls.values():
            dropped(url)

    def make_backend(self, folder: Path) -> Backend:
        """A store; of one folder the same."""
        from conductorlite.ext.postgres import PostgresBackend

        return PostgresBackend(self.urls.setdefault(folder, own_schema(self.server)))


class TestPostgresLock(LockConformance):
    """Advisory locks of two sessions; a lease is over when its connection ends."""

    @pytest.fixture(autouse=True)
    def _url(self, postgres_url: str) -> Iterator[None]:
        self.url, self.locks = own_schema(postgres_url), list[Any]()
        yield
        for lock in self.locks:
            lock.close()

    def make_locks(self) -> tuple[Lock, Lock]:
        """Two sessions."""
        self.locks += (open_lock(self.url), open_lock(self.url))
        return self.locks[-2], self.locks[-1]

    def end_leases(self, lock: Any) -> None:
        """The server ends the session."""
        (pid,) = lock._connection.execute("SELECT pg_backend_pid()").fetchone()
        ask(self.url, f"SELECT pg_terminate_backend({pid}, 2000)")


class _Sent:
    """In the place of a connection: keeps what is sent."""

    def __init__(self) -> None:
        self.cells: list[object] = []

    def execute(self, _statement: str, row: Sequence[object] = ()) -> Any:
        """Keep a row."""
        self.cells += row
        return SimpleNamespace()

    def executemany(self, statement: str, rows: Iterable[Sequence[object]]) -> Any:
        """Keep rows."""
        return [self.execute(statement, row) for row in rows] and SimpleNamespace()


def test_an_empty_cell_is_sent_as_none() -> None:
    """What SQLite binds in the place of None is SQLite's own; no server is asked."""
    pytest.importorskip("psycopg")
    from conductorlite.ext.postgres.presence import Peers
    from conductorlite.ext.postgres.rows import PostgresTransaction
    from conductorlite.ext.postgres.session import PostgresSession

    sent: Any = _Sent()
    tx = PostgresTransaction(PostgresSession(sent, "", {"w": 1}, Peers(b""), ahead=False), schema="shop")
    tx.decisions.defer()
    tx.decisions.apply(Decision(workflow=workflow("w"), updated=(task("a"),), inserted=(task("b"),), timers=(event("timeout", 9),)))
    assert None in sent.cells
    assert not [cell for cell in sent.cells if isinstance(cell, float)]


def ask(url: str, statement: str) -> None:
    """Have the server of a store carry out a statement."""
    import psycopg

    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_lock_of_the_stores_own_server(url: str, tmp_path: Path) -> None:
    """By one word; a store that has none says so, and a server that is down is named."""
    with Engine(url, workers=workers(), lock="advisory") as engine:
        assert engine.start(CHAIN).result("30s") == {"done": True}
    with pytest.raises(InvalidInput, match="advisory"):
        Engine(tmp_path / "store.db", lock="advisory")
    with pytest.raises(LockUnavailable, match="cannot be reached"):
        Engine(url, lock="postgresql://me:secret@127.0.0.1:1/x", config=EngineConfig(lock_required=True))


CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": name, "taskReferenceName": name} for name in ("a", "b", "c")]})

WAITS = WorkflowDef.from_json({"name": "waits", "tasks": [{"name": "w", "taskReferenceName": "w", "type": "HUMAN"}]})


def workers() -> Workers:
    """Functions for the tasks of CHAIN."""
    made = Workers()
    for name in ("a", "b", "c"):
        made.add(name, lambda: {"done": True})
    return made


def test_round_trips_of_a_step(url: str) -> None:
    """A step alone is one commit that is awaited once, with its share of start, end and looks of the driver; groups share all."""
    tasks = [{"name": "a", "taskReferenceName": f"a{at}"} for at in range(10)]
    ten = WorkflowDef.from_json({"name": "ten", "tasks": tasks})
    with Engine(url, workers=workers()) as engine:
        backend: Any = engine.backend
        engine.start(ten).result("30s")
        found = []
        for _ in range(5):
            before = backend.round_trips
            engine.start(ten).result("30s")
            found.append((backend.round_trips - before) / 10)
        assert min(found) <= 2
        for _ in range(60):
            engine.start(ten)
        before = backend.round_trips
        engine.run_until_idle("60s")
        assert (backend.round_trips - before) / 600 < 0.2


def test_a_group_leaves_out_who_comes_second(url: str) -> None:
    """Of turns that share a write, those that another engine was before are taken again, and the others are committed."""
    from conductorlite.ext.postgres import PostgresBackend

    taken: list[str] = []
    with Engine(url) as other:

        def first() -> None:
            if begun and not taken:
                taken.extend(task.workflow_id for task in other.poll("a", count=2))

        begun: list[str] = []
        with Engine(FaultyBackend(PostgresBackend(url), on_writing=first)) as one:
            begun += [one.start(CHAIN, workflow_id=f"w{number}").workflow_id for number in range(4)]
            assert [task.workflow_id for task in one.poll("a", count=4)] == ["w2", "w3"]
            assert taken == ["w0", "w1"]
            assert one.admin.check() == []


def end_connections(url: str) -> None:
    """Have the server end every connection of the store, as when it is restarted at once."""
    import psycopg

    place, _, schema = url.partition("?schema=")
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE application_name = %s", (f"conductorlite {schema}",)
        )


def test_a_url_is_enough(url: str) -> None:
    """An engine runs a chain on a server as it does in a file; its laws hold, and a second engine sees what it did."""
    with Engine(url, workers=workers()) as engine, Engine(url) as other:
        run = engine.start(CHAIN)
        assert run.result("30s") == {"done": True}
        assert other.get(run.workflow_id).output_data == {"done": True}
        assert engine.admin.check() == []
        assert [row.workflow_id for row in other.search("workflowType = 'chain'").results] == [run.workflow_id]


def removed_and_lost(engine: Engine, url: str) -> None:
    """Remove an execution in a change whose connection is lost before it is committed."""
    with engine.backend.writing() as tx:
        tx.executions.remove("w")
        end_connections(url)
        tx.executions.workflow("w")


@pytest.mark.parametrize("where", ["before a start", "between a poll and its report", "inside a change"])
def test_every_connection_is_lost(url: str, where: str) -> None:
    """What was under way is one named error with nothing stored, or goes on; the next call finds the server again."""
    with Engine(url) as engine:
        engine.start(CHAIN, workflow_id="w")
        if where == "before a start":
            end_connections(url)  # what was idle is found lost before anything is asked of it
            engine.start(CHAIN, workflow_id="v")
        elif where == "inside a change":
            with pytest.raises(StorageUnavailable):
                removed_and_lost(engine, url)
        [task] = [task for task in engine.poll("a", count=2) if task.workflow_id == "w"]
        if where == "between a poll and its report":
            end_connections(url)
        result = TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
        engine.update_task(result)
        assert [str(task.status) for task in engine.get("w").tasks][:2] == ["COMPLETED", "SCHEDULED"]
        assert engine.admin.check() == []


def test_two_engines_share_the_turns(url: str) -> None:
    """Two engines that take turns of one execution alternately are fenced, not lost: each sees what the other committed."""
    with Engine(url) as one, Engine(url) as other:
        one.start(CHAIN, workflow_id="w")
        for name, engine in (("a", one), ("b", other), ("c", one)):
            [task] = engine.poll(name)
            engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease))
        assert str(other.status("w")) == "COMPLETED"
        assert one.admin.check() == []


def test_a_commit_elsewhere_wakes_who_drives(url: str) -> None:
    """By a notification: a driver that sleeps takes what another engine begins, also after its connections were ended."""
    with Engine(url, workers=workers()) as driving, Engine(url) as other:
        thread = threading.Thread(target=driving.run_forever)
        thread.start()
        for workflow_id in ("w", "v"):
            other.start(CHAIN, workflow_id=workflow_id)
            assert other.result(workflow_id, timeout="30s") == {"done": True}
            end_connections(url)
        assert driving.driver._rest._notified
        driving.stop()
        thread.join(20)
        assert not thread.is_alive()


def test_a_newer_schema_is_refused(url: str) -> None:
    """It is left as it is."""
    import psycopg

    Engine(url).close()
    place, _, schema = url.partition("?schema=")
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.schema_version SET version = 99")
    with pytest.raises(SchemaTooNew, match="schema 99"):
        Engine(url)


#: What a store is made of, by names.
_BUILT = (
    "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = %s",
    "SELECT tablename, indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes WHERE schemaname = %s",
    "SELECT event_object_table, trigger_name, event_manipulation FROM information_schema.triggers WHERE trigger_schema = %s",
)


def _built(url: str) -> list[Any]:
    """The columns, indexes and triggers of a store."""
    import psycopg

    place, _, schema = url.partition("?schema=")
    with psycopg.connect(place) as connection:
        return [sorted(connection.execute(asked.encode(), (schema,)).fetchall()) for asked in _BUILT]


def test_a_store_of_each_older_schema_becomes_one_of_today(url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables and indexes are those of a new one, and what had failed in it is found by them and retried."""
    pytest.importorskip("psycopg")
    from conductorlite.ext.postgres import backend
    from conductorlite.ext.postgres.schema import MIGRATIONS, VERSION, numbered

    Engine(url).close()
    failed = TaskStatus.FAILED_WITH_TERMINAL_ERROR
    for version in range(1, VERSION):
        old = own_schema(postgres_url)
        try:
            with monkeypatch.context() as then:
                then.setattr(backend, "MIGRATIONS", MIGRATIONS[:version])
                then.setattr(backend, "VERSION", version)
                with Engine(old) as engine:
                    engine.start(CHAIN, workflow_id="w")
                    (taken,) = engine.poll("a", worker_id="me")
                    engine.update_task(TaskResult(workflow_id="w", task_id=taken.task_id, status=failed, lease=taken.lease))
            assert _built(old) != _built(url)
            with Engine(old, workers=workers()) as engine:
                assert engine.run("w").status is WorkflowStatus.FAILED
                engine.retry("w")
                assert engine.run("w").result("30s") == {"done": True}
            assert _built(old) == _built(url)
            assert "tasks_failed" in _plan(old, numbered(sql.TASKS_FAILED))
        finally:
            dropped(old)


def _plan(url: str, statement: str) -> str:
    """How the server answers, of many rows."""
    import psycopg

    place, _, schema = url.partition("?schema=")
    options = f"-c search_path={schema} -c enable_seqscan=off -c enable_sort=off"
    with psycopg.connect(place, options=options) as connection:
        return str(connection.execute(f"EXPLAIN {statement.replace('$1', chr(39) + 'w' + chr(39))}".encode()).fetchall())


def test_many_open_at_once(url: str) -> None:
    """The tables are made once, no matter who comes first."""
    made = [threading.Thread(target=lambda: Engine(url).close()) for _ in range(6)]
    for thread in made:
        thread.start()
    for thread in made:
        thread.join(20)
    with Engine(url, workers=workers()) as engine:
        assert engine.start(CHAIN).result("30s") == {"done": True}


def test_named_errors_at_open(postgres_url: str) -> None:
    """No server, no such user, no such database, no such schema's name: each says what is wrong, and shows no password."""
    pytest.importorskip("psycopg")
    with pytest.raises(StorageUnavailable, match="connection was lost"):
        Engine("postgresql://me:secret@127.0.0.1:1/x")
    with pytest.raises(AccessDenied, match="user or the password"):
        Engine(postgres_url.replace("postgres@", "nobody:secret@"))
    with pytest.raises(StorageUnavailable, match="no such database") as raised:
        Engine(postgres_url.rpartition("/")[0].replace("postgres@", "postgres:secret@") + "/nowhere")
    assert "secret" not in str(raised.value)
    with pytest.raises(InvalidInput, match="lower-case"):
        Engine(f"{postgres_url}?schema=A;B")


def test_options_of_a_url(url: str) -> None:
    """Ours are ours; all others are libpq's as they stand there, those too that we set where there are none."""
    from conductorlite.ext.postgres import PostgresBackend

    given = "busy_timeout_ms=700&application_name=shop%20of+all&options=-c%20work_mem%3D5MB&connect_timeout=3"
    backend = PostgresBackend(f"{url}&{given}")
    with backend.reading() as view:
        connection = view.session.wire  # type: ignore[attr-defined]
        names = ("lock_timeout", "application_name", "work_mem", "search_path")
        found = [connection.execute(f"SHOW {name}").fetchone() for name in names]  # type: ignore[attr-defined]
        assert found == [("700ms",), ("shop of+all",), ("5MB",), (backend.schema,)]
        assert connection._kept.info.get_parameters()["connect_timeout"] == "3"  # type: ignore[attr-defined]
    backend.close()


@pytest.mark.parametrize("account", ["me:se:cret@127.0.0.1:1/x", "me@127.0.0.1:1/x?password=cret"])
def test_a_password_is_never_shown(account: str) -> None:
    """Wherever it stands, and whatever is in it."""
    pytest.importorskip("psycopg")
    for opening in (Engine, open_lock):
        with pytest.raises((StorageUnavailable, LockUnavailable), match="me@127") as raised:
            opening(f"postgresql://{account}")
        assert "cret" not in str(raised.value)


def test_texts_that_cannot_be_kept(url: str) -> None:
    """A NUL, which PostgreSQL keeps in no text, is refused with nothing stored; inside JSON it is escaped, and kept."""
    with Engine(url) as engine:
        with pytest.raises(InvalidInput, match="NUL"):
            engine.start(CHAIN, workflow_id="w", correlation_id="a\0b")
        engine.start(CHAIN, {"text": "a\0b"}, workflow_id="w")
        assert engine.get("w").input_data == {"text": "a\0b"}


def test_copied_there_and_back(url: str, tmp_path: Path) -> None:
    """A store with running, ended and archived executions is the same on the other side, goes on there, and comes back as it is."""
    from conductorlite.ext.postgres.copying import copy_store

    with Engine(tmp_path / "one.db", workers=workers()) as one, Engine(url, workers=workers()) as there:
        for number in range(3):
            one.start(CHAIN, {"text": "x" * 5_000}, workflow_id=f"w{number}")
        assert one.run_until_idle("30s") is not None
        one.start(WAITS, workflow_id="waits", idempotency_key="key")
        one.admin.archive("w1")
        copied = copy_store(one.backend, there.backend)
        assert (copied["workflows"], copied["archive"]) == (3, 1)
        with pytest.raises(AlreadyExists, match="not empty"):
            copy_store(one.backend, there.backend)
        assert there.admin.check() == one.admin.check() == []
        assert [line.words for line in there.history("w0")] == [line.words for line in one.history("w0")]
        assert there.get("w2") == one.get("w2")
        there.signal("waits", task="w")
        there.start(CHAIN, workflow_id="more")
        there.run_until_idle("30s")
        assert (str(there.status("waits")), str(there.status("more"))) == ("COMPLETED", "COMPLETED")
        with Engine(tmp_path / "two.db") as back:
            copy_store(there.backend, back.backend)
            assert back.admin.check() == []
            for workflow_id in ("waits", "more", "w0"):
                assert back.get(workflow_id) == there.get(workflow_id)
            with pytest.raises(InvalidInput, match="backup"):
                copy_store(back.backend, one.backend)


def test_a_worker_by_the_command_line(url: str, tmp_path: Path) -> None:
    """It drives a store on a server, answers whether it does, and ends with 0 when it is asked to, with nothing held."""
    (tmp_path / "crew.py").write_text(
        "from conductorlite import Workers\nworkers = Workers()\nfor name in 'abc': workers.add(name, lambda: {'done': True})\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Engine(url) as engine:
        engine.start(CHAIN, workflow_id="w")
        command = ["worker", "--store", url, "--workers", "crew:workers", "--health", str(port)]
        path = {"PYTHONPATH": str(Path(__file__).parents[2])}
        with subprocess.Popen(
            [sys.executable, "-m", "conductorlite", *command], cwd=tmp_path, stdout=subprocess.PIPE, env={**os.environ, **path}
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"driving postgresql://")
            assert engine.result("w", timeout="30s") == {"done": True}
            for where in ("health", "ready"):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{where}", timeout=10) as answer:
                    assert (answer.status, answer.read()) == (200, b'{"status": "UP"}')
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        with engine.backend.reading() as view:
            assert view.task_holders.rows() == []


@pytest.mark.slow
def test_the_main_job_is_killed_and_goes_on(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the standard library (a part of it), killed and run again on a server, is to the byte that of a file."""
    index = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "kill_index.py"))
    calm, work = tmp_path / "calm", tmp_path / "1"
    index["finish"](calm, "--limit", "40")
    monkeypatch.setitem(index["store"].__globals__, "SERVER", postgres_url)
    try:
        assert index["killed_after"](work, 15, "--limit", "40")
        left = index["scene"](work)
        index["finish"](work, "--limit", "40")
        assert index["called_again"](work, left)[0] == []
        assert index["tables"](work) == index["tables"](calm)
        assert (work / "summary.txt").read_bytes() == (calm / "summary.txt").read_bytes()
        assert index["laws"](work) == []
    finally:
        dropped(index["store"](work))


def test_the_script_names_files_that_are_there() -> None:
    """What `tests/servers/run` runs on a server exists."""
    top = Path(__file__).parents[2]
    named = re.findall(r"tests/[\w/]+\.py", (top / "tests" / "servers" / "run").read_text(encoding="utf-8"))
    assert len(named) > 5
    assert [name for name in named if not (top / name).exists()] == []
