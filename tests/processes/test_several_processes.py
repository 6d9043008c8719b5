"""Several engines on one file: who begins what two of them begin at once, who hears of whom and when, forks, copies."""

from __future__ import annotations

import gc
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    Engine,
    TaskContext,
    TaskDef,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import AlreadyExists, EngineClosed, InvalidInput, StorageReadOnly
from conductorlite.runtime.idle import Rest
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend

CHILD = WorkflowDef.from_json({"name": "child", "tasks": [{"name": "c", "taskReferenceName": "c"}]})
PARENT = WorkflowDef.from_json(
    {
        "name": "parent",
        "tasks": [
            {
                "name": "s",
                "taskReferenceName": "s",
                "type": "SUB_WORKFLOW",
                "subWorkflowParam": {"name": "child", "version": 1},
            }
        ],
    }
)
SIMPLE = WorkflowDef.from_json({"name": "simple", "tasks": [{"name": "t", "taskReferenceName": "t"}]})


def test_two_processes_begin_one_child(tmp_path: Path) -> None:
    """Both have read the event and decided; the second finds it begun, decides again, and nothing is amiss."""
    clock = VirtualClock()
    path = tmp_path / "store.db"
    faulty = FaultyBackend(SQLiteBackend(path))
    with Engine(faulty, clock=clock) as slow, Engine(path, clock=clock) as fast:
        slow.register(CHILD, PARENT)
        writes = 0

        def second() -> None:
            nonlocal writes
            writes += 1
            if writes == 2:
                assert fast.settle() == 1

        faulty.on_writing = second
        run = slow.start("parent")
        faulty.on_writing = None
        (child,) = slow.admin.children(run.workflow_id)
        assert child.status is WorkflowStatus.RUNNING
        assert len(slow.poll("c", count=5)) == 1
        assert slow.admin.check() == []


def test_a_driver_hears_of_another_process_without_looking_at_everything(tmp_path: Path) -> None:
    """While nobody commits only one number is looked at; a commit through another connection is seen with the next look."""
    path = tmp_path / "store.db"
    backend = SQLiteBackend(path, counting=True)
    with Engine(backend) as engine, Engine(path) as other:
        rest = Rest(engine, asked=False)
        assert rest.over(1_000), "nothing was looked at yet"
        assert backend.counts is not None
        backend.counts.reset()
        assert not any(rest.over(now) for now in range(1_100, 2_000, 100))
        assert set(backend.counts.statements_by_sql) == {"PRAGMA data_version"}
        other.register(SIMPLE)
        assert rest.over(1_950)
        assert not rest.over(1_960)
        engine.register(CHILD)
        assert rest.over(1_970), "another engine on the same object may have committed it"
        assert not rest.over(2_900)
        assert rest.over(2_980), "everything is looked at once a second"


def test_a_driver_looks_often_after_work_and_then_puts_the_store_in_order(tmp_path: Path) -> None:
    """10 ms for half a second, then 100; and what the log holds goes into the file, once."""
    backend = SQLiteBackend(tmp_path / "store.db", counting=True)
    with Engine(backend) as engine:
        assert backend.counts is not None
        rest = Rest(engine, asked=False)
        rest.worked(1_000)
        engine.register(SIMPLE)
        assert [rest.span(now) for now in (1_000, 1_499)] == [10, 10]
        assert [rest.span(now) for now in (1_500, 9_000)] == [100, 100]
        assert backend.counts.statements_by_sql["PRAGMA wal_checkpoint(PASSIVE)"] == 1


def test_another_process_is_woken(tmp_path: Path) -> None:
    """What this process starts is carried out by another one, which sleeps meanwhile. (`Rest` says how long: 10 to 100 ms.)"""
    path = tmp_path / "store.db"
    code = (
        "import sys; from conductorlite import Engine, Workers\n"
        "workers = Workers()\n"
        "@workers.task('t')\n"
        "def t() -> dict: return {}\n"
        "with Engine(sys.argv[1], workers=workers) as engine:\n"
        "    print('ready', flush=True)\n"
        "    engine.run_forever()\n"
    )
    with Engine(path) as engine:
        engine.register(SIMPLE)
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            engine.start("simple").result(timeout="30s")
            for _ in range(5):
                engine.start("simple").result(timeout="30s")
        finally:
            process.kill()
            process.communicate()


def _refused(use: Callable[[], Any]) -> bool:
    try:
        used = use()
        if hasattr(used, "__enter__"):
            used.__enter__()
    except EngineClosed as error:
        return "forked" in str(error)
    return False


def test_a_worker_that_is_killed(tmp_path: Path) -> None:
    """Its task is handed out again at once, in whatever process; the key of its acts stays the same."""
    path = tmp_path / "store.db"
    code = (
        "import sys, time; from conductorlite import Engine, TaskContext, Workers\n"
        "workers = Workers()\n"
        "@workers.task('t')\n"
        "def t(context: TaskContext) -> dict:\n"
        "    print(context.idempotency_key, flush=True)\n"
        "    time.sleep(60)\n"
        "with Engine(sys.argv[1], workers=workers) as engine:\n"
        "    engine.run_forever()\n"
    )
    workers = Workers()

    @workers.task("t")
    def t(context: TaskContext) -> dict[str, Any]:
        return {"key": context.idempotency_key}

    with Engine(path) as engine:
        task = TaskDef(name="t", response_timeout_ms=300_000, retry_count=1, retry_delay_ms=0)
        run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t", task_definition=task)]))
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    key = process.stdout.readline().strip()
    process.kill()
    process.communicate()
    clock = VirtualClock(round(time.time() * 1000) + 1_000)
    with Engine(path, workers=workers, clock=clock) as engine:
        began = clock.now()
        assert engine.result(run.workflow_id) == {"key": key}
        assert clock.now() == began, "neither its response timeout is waited for nor a retry's delay"
        assert [(task.status, task.deaths) for task in engine.get(run.workflow_id).tasks] == [(TaskStatus.COMPLETED, 1)]
        assert engine.admin.check() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_the_store_alone(tmp_path: Path) -> None:
    """It is told so by every use, at once, also when the parent was writing; its end does the parent's store no harm."""
    path = tmp_path / "store.db"
    backend = SQLiteBackend(path)
    engine = Engine(backend)
    engine.register(SIMPLE)
    with backend.writing() as tx:
        tx.metadata.put_task_def("held", '{"name": "held"}')
        child = os.fork()
        if child == 0:
            try:
                os._exit(100 - sum(map(_refused, (backend.reading, backend.writing, backend.data_version, backend.checkpoint))))
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 96
    child = os.fork()
    if child == 0:
        try:
            if not _refused(engine.close):
                os._exit(2)
            del tx
            backend._writer = None  # type: ignore[assignment]
            gc.collect()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert engine.definitions.task("held") is not None
    run = engine.start("simple")
    engine.close()
    with Engine(path) as again:
        assert again.status(run.workflow_id) is WorkflowStatus.RUNNING
        assert again.admin.check() == []


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Engine, threading.Event]]:
    """An engine whose store is written to all the time by another thread; the event is set after some writes."""
    engine = Engine(tmp_path / "store.db")
    engine.register(SIMPLE)
    stop, running = threading.Event(), threading.Event()

    def write() -> None:
        with Engine(tmp_path / "store.db") as other:
            number = 0
            while not stop.is_set():
                other.start("simple", {"text": "x" * 2_000, "n": number})
                number += 1
                if number > 20:
                    running.set()

    thread = threading.Thread(target=write)
    thread.start()
    yield engine, running
    stop.set()
    thread.join()
    engine.close()


def test_a_copy_while_others_write(busy: tuple[Engine, threading.Event], tmp_path: Path) -> None:
    """It is the store at one instant: every law holds, and it goes on by itself."""
    engine, running = busy
    assert running.wait(30)
    engine.admin.backup(tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy")) == ["copy.db"]
    workers = Workers()

    @workers.task("t")
    def t() -> dict[str, Any]:
        return {}

    with Engine(tmp_path / "copy.db", workers=workers) as copy:
        found = list(copy.admin.workflow_ids())
        assert len(found) >= 20
        assert copy.admin.check() == []
        copy.run(found[0]).result(timeout="30s")


def test_a_copy_has_its_documents(tmp_path: Path) -> None:
    """Documents past the barrier lie beside the copy, and only those that it refers to."""
    with Engine(tmp_path / "store.db") as engine:
        engine.register(SIMPLE)
        gone = engine.start("simple", {"text": "y" * 6_000_000})
        engine.terminate(gone.workflow_id)
        run = engine.start("simple", {"text": "x" * 6_000_000})
        engine.admin.backup(tmp_path / "before.db")
        engine.admin.remove(gone.workflow_id)
        engine.admin.backup(tmp_path / "copy.db")
    documents = [path for path in (tmp_path / "copy.db.payloads").rglob("*") if path.is_file()]
    assert len(documents) == 1
    with Engine(tmp_path / "copy.db") as copy:
        assert copy.get(run.workflow_id).input_data == {"text": "x" * 6_000_000}
    with Engine(tmp_path / "before.db") as before:
        assert before.get(gone.workflow_id).input_data == {"text": "y" * 6_000_000}


def test_a_copy_replaces_nothing(tmp_path: Path) -> None:
    """Neither a file, nor documents, nor a link that leads nowhere; and nothing is left of the attempt."""
    (tmp_path / "a.db").write_bytes(b"mine")
    (tmp_path / "b.db.payloads").mkdir()
    (tmp_path / "c.db").symlink_to(tmp_path / "nowhere")
    with Engine(tmp_path / "store.db") as engine:
        before = sorted(tmp_path.iterdir())
        for name in ("a.db", "b.db", "c.db", "store.db"):
            with pytest.raises(AlreadyExists, match="never replaces"):
                engine.admin.backup(tmp_path / name)
        with pytest.raises(StorageReadOnly, match="does not exist"):
            engine.admin.backup(tmp_path / "folder" / "copy.db")
        assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "a.db").read_bytes() == b"mine"


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the file is synced: there is no file, whole or half."""
    with Engine(tmp_path / "store.db") as engine:
        before = sorted(tmp_path.iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", _full)
            with pytest.raises(StorageReadOnly, match="No space"):
                engine.admin.backup(tmp_path / "copy.db")
        assert sorted(tmp_path.iterdir()) == before


def _full(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_memory_has_no_copy() -> None:
    """There is nothing a file could be made of; it is said how to have one."""
    with Engine(MemoryBackend()) as engine, pytest.raises(InvalidInput, match="in memory"):
        engine.admin.backup("copy.db")


def test_a_copy_is_a_database_like_any(tmp_path: Path) -> None:
    """SQLite finds no fault with it, and it is in the same journal mode."""
    with Engine(tmp_path / "store.db") as engine:
        engine.register(SIMPLE)
        engine.admin.backup(tmp_path / "copy.db")
    raw = sqlite3.connect(tmp_path / "copy.db")
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()
