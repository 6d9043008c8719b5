"""Processes that end with tasks in hand, in every way: who opens or drives the store next goes on at once, and knows why."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from conductorlite import Engine, Task, TaskStatus, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.processes import this_kernel

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or not this_kernel(), reason="here no lock tells of a dead process: its lease does"
)

PROGRAM = str(Path(__file__).with_name("dying.py"))


@attrs.define
class Child:
    """A process that has the task `work` of the execution `w` in hand."""

    process: subprocess.Popen[str]

    def end(self, number: int) -> None:
        """Send it a signal, and wait until it is no more."""
        self.process.send_signal(number)
        self.process.communicate(timeout=30)


@contextmanager
def child(store: Path, what: str = "hold", *more: str, under: Sequence[str] = ()) -> Iterator[Child]:
    """Start one, and wait until its worker has begun."""
    command = [*under, sys.executable, PROGRAM, str(store), what, *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n", process.communicate(timeout=30)
        yield Child(process)
    finally:
        process.kill()
        process.communicate(timeout=30)


def seen(store: Path, clock: VirtualClock | None = None, kernel: str | None = None) -> Task:
    """The task as it stands when the store has just been opened; no verb is used, and no law is broken."""
    with Engine(SQLiteBackend(store, kernel=kernel), clock=clock) as engine:
        assert engine.admin.check() == []
        return engine.get("w").task("work")


def later(span_ms: int) -> VirtualClock:
    """A clock that is ahead of the machine's."""
    return VirtualClock(time.time_ns() // 1_000_000 + span_ms)


@pytest.mark.parametrize(
    ("number", "deaths"),
    [(signal.SIGKILL, 1), pytest.param(signal.SIGABRT, 1, marks=pytest.mark.slow), (signal.SIGTERM, 0), (signal.SIGINT, 0)],
)
def test_whoever_opens_the_store_gives_back(tmp_path: Path, number: signal.Signals, deaths: int) -> None:
    """Killed, stopped, interrupted: the same attempt is offered, and only a death that nobody asked for is counted."""
    store = tmp_path / "store.db"
    with child(store) as dying:
        assert seen(store).status is TaskStatus.IN_PROGRESS, "as long as it lives it keeps what it has"
        dying.end(number)
    assert dying.process.returncode in (-number, 1), "it still dies of the signal"
    task = seen(store)
    assert (task.status, task.attempt, task.deaths) == (TaskStatus.SCHEDULED, 0, deaths)
    assert list(tmp_path.glob("*.holders")) == [], "nothing is left of it"


@pytest.mark.parametrize(
    ("what", "code", "deaths"), [("thread", -15, 0), pytest.param("elsewhere", -15, 1, marks=pytest.mark.slow), ("handler", 143, 0)]
)
def test_a_signal_while_another_thread_drives(tmp_path: Path, what: str, code: int, deaths: int) -> None:
    """No death if the engine was opened in the main thread, or the program ends as by its own will: else nobody could tell."""
    store = tmp_path / "store.db"
    with child(store, what) as dying:
        dying.end(signal.SIGTERM)
    assert dying.process.returncode == code
    assert (seen(store).status, seen(store).attempt, seen(store).deaths) == (TaskStatus.SCHEDULED, 0, deaths)


HANDLERS = """
import signal, threading
from conductorlite import Engine, VirtualClock

def unanswered():
    return [signal.getsignal(number) is signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGHUP)]

with Engine(clock=VirtualClock()):
    assert all(unanswered())
with Engine() as first, Engine():
    first.run_until_idle()
    first.close()
    assert not any(unanswered()), "the second one is open"
    thread = threading.Thread(target=Engine().close)
    thread.start()
    thread.join()
    assert not any(unanswered())
assert all(unanswered())
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with Engine():
    assert unanswered() == [False, False]
assert unanswered() == [False, True] and signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
"""


def test_a_handler_is_there_as_long_as_an_engine() -> None:
    """The last one that is closed takes it along; one of the program's own is never touched, and virtual time needs none."""
    done = subprocess.run([sys.executable, "-c", HANDLERS], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("what", ["two", "forks"])
def test_a_lock_is_of_one_engine_of_one_process(tmp_path: Path, what: str) -> None:
    """Another engine of the process that is closed, or a forked child that ends, takes nothing of it along."""
    store = tmp_path / "store.db"
    with child(store, what) as dying:
        for _ in range(2):
            assert seen(store).status is TaskStatus.IN_PROGRESS
        dying.end(signal.SIGKILL)
        assert (seen(store).status, seen(store).deaths) == (TaskStatus.SCHEDULED, 1)


def test_an_engine_that_nobody_closed(tmp_path: Path) -> None:
    """A program that ends without closing its engine has not died of the task."""
    store = tmp_path / "store.db"
    with child(store, "exit") as dying:
        dying.process.communicate(timeout=30)
        assert dying.process.returncode == 0
    assert (seen(store).status, seen(store).deaths) == (TaskStatus.SCHEDULED, 0)


def test_a_process_that_drives_already_gives_back(tmp_path: Path) -> None:
    """Survivors need no restart and no verb: they look while they drive."""
    store = tmp_path / "store.db"
    workers = Workers()
    with child(store) as dying, Engine(store, workers=workers) as survivor:
        workers.add("work", lambda: {"done": "here"})
        assert not survivor.run_until_idle(timeout="1ms")
        dying.end(signal.SIGKILL)
        assert survivor.run("w").result(timeout="30s") == {"done": "here"}
        assert len(survivor.get("w").tasks) == 1


def test_a_stopped_process_is_alive(tmp_path: Path) -> None:
    """SIGSTOP frees no lock, and no lease runs where locks are seen."""
    store = tmp_path / "store.db"
    with child(store) as stopped:
        os.kill(stopped.process.pid, signal.SIGSTOP)
        assert seen(store, later(60_000)).status is TaskStatus.IN_PROGRESS


def test_where_no_lock_is_shared_the_lease_counts(tmp_path: Path) -> None:
    """On another host, through another mount: alive until its lease ends, dead or not; then the same attempt is offered."""
    store = tmp_path / "store.db"
    with child(store, "hold", "another kernel") as dying:
        dying.end(signal.SIGKILL)
        assert seen(store).status is TaskStatus.IN_PROGRESS
        assert seen(store, later(20_000)).status is TaskStatus.IN_PROGRESS
        task = seen(store, later(31_000))
        assert (task.status, task.attempt, task.deaths) == (TaskStatus.SCHEDULED, 0, 1)


def test_a_copy_of_a_store_goes_by_the_lease(tmp_path: Path) -> None:
    """The presence is beside another file: whoever had something in hand there is alive here until the lease ends."""
    store, copy = tmp_path / "store.db", tmp_path / "elsewhere" / "copy.db"
    copy.parent.mkdir()
    with child(store) as alive:
        with Engine(store) as engine:
            engine.backend.backup(str(copy))
        assert seen(copy).status is TaskStatus.IN_PROGRESS
        assert seen(copy, later(31_000)).status is TaskStatus.SCHEDULED
        assert seen(store).status is TaskStatus.IN_PROGRESS
        assert alive.process.poll() is None


def _unshared() -> list[str]:
    """A command line under which a program is process 1 of a namespace of its own; empty where that is not allowed."""
    command = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for words in (command, [command[0], *command[3:]]):
        if (
            shutil.which("unshare")
            and subprocess.run([*words, "true"], capture_output=True, timeout=30, check=False).returncode == 0
        ):
            return words
    return []


@pytest.mark.deep
def test_two_namespaces_of_one_kernel(tmp_path: Path) -> None:
    """Two containers on one file, each process number 1: the one sees that the other is alive, and that it has died."""
    under = _unshared()
    if not under:
        pytest.skip("namespaces of processes cannot be made here")
    store = tmp_path / "store.db"

    def looked() -> object:
        command = [*under, sys.executable, PROGRAM, str(store), "look"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)

    with child(store, under=under) as dying:
        assert looked() == {"status": "IN_PROGRESS", "attempt": 0, "deaths": 0}
        dying.end(signal.SIGKILL)
        assert looked() == {"status": "SCHEDULED", "attempt": 0, "deaths": 1}


@pytest.mark.deep
def test_a_worker_that_kills_its_process(tmp_path: Path) -> None:
    """It does so three times and no more; what else there is goes on, and is done."""
    store = tmp_path / "store.db"
    work = {"name": "work", "taskReferenceName": "work", "taskDefinition": {"name": "work", "retryCount": 0}}
    with Engine(store) as engine:
        engine.start(WorkflowDef.from_json({"name": "poison", "tasks": [work]}), workflow_id="w")
    ends = []
    while not ends or ends[-1] != 0:
        ends.append(subprocess.run([sys.executable, PROGRAM, str(store), "poison"], timeout=60, check=False).returncode)
        assert len(ends) <= 4
    assert ends == [-signal.SIGKILL] * 3 + [0]
    with Engine(store) as engine:
        assert engine.status("w") is WorkflowStatus.TIMED_OUT
        assert "died 3 times, the last time while it ran alone" in str(engine.get("w").task("work").reason)
        assert engine.admin.check() == []
