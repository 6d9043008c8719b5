"""Who was stopped in the middle of a turn, and goes on when its lock, its fence or its transaction is no longer what it was.

A real process stops itself with SIGSTOP at a given place; meanwhile this one writes another variable into the same execution.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import Engine, EngineConfig, Task, WorkflowDef, WorkflowStatus
from conductorlite.errors import StorageBusy
from conductorlite.store.locks import SQLiteLock
from conductorlite.store.sqlite.backend import SQLiteBackend

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")

WAITING = WorkflowDef.from_json({"name": "waiting", "tasks": [{"name": "ask", "taskReferenceName": "ask"}]})
SHORT, LONG = 40, 60_000

#: The fast case first: with a lock whose lease passes, and without the fence where nothing is lost all the same.
LOCKED = [True, pytest.param(False, marks=pytest.mark.slow)]
FENCED = [False, pytest.param(True, marks=pytest.mark.slow)]


@attrs.define
class Place:
    """A store with one execution, and what its holders are told."""

    store: str
    workflow: str
    task: Task
    lock: str

    def variables(self) -> dict[str, Any]:
        """What the execution has in the end, when all its events were read; its laws hold."""
        with Engine(self.store) as engine:
            engine.settle()
            assert engine.admin.check() == []
            assert engine.status(self.workflow) is WorkflowStatus.RUNNING
            found: dict[str, Any] = engine.get(self.workflow).variables.value
            return found

    def engine(self, *, locked: bool, fencing: bool, lease: int, busy_timeout_ms: int = 5_000) -> Engine:
        """The engine of this process."""
        lock = SQLiteLock(self.lock, lease=f"{lease}ms") if locked else None
        return Engine(SQLiteBackend(self.store, busy_timeout_ms=busy_timeout_ms), config=EngineConfig(lock=lock, fencing=fencing))


@attrs.define
class Holder:
    """The other process, and what it has said in the end."""

    process: subprocess.Popen[str]
    decided: int = 0

    def go_on(self) -> None:
        """Continue it, and wait until it has come to its end."""
        self.process.send_signal(signal.SIGCONT)
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        self.decided = json.loads(out)["decided"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A store with an execution that waits."""
    store = str(tmp_path / "store.db")
    with Engine(store) as engine:
        run = engine.start(WAITING)
        (task,) = engine.poll("ask")
    return Place(store=store, workflow=run.workflow_id, task=task, lock=str(tmp_path / "locks.db"))


@contextmanager
def stopped(place: Place, stop: str, *, locked: bool, fencing: bool, lease: int = SHORT, beats: bool = False) -> Iterator[Holder]:
    """A process that sets `theirs`, or gives a sign of life, and has stopped itself on the way."""
    told = {
        "store": place.store,
        "workflow": place.workflow,
        "variables": {"theirs": 1},
        "task": place.task.task_id if beats else None,
        "stop": stop,
        "fencing": fencing,
        "lock": place.lock if locked else None,
        "lease": lease,
    }
    command = [sys.executable, str(Path(__file__).with_name("holder.py")), json.dumps(told)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.communicate()
        yield Holder(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("locked", LOCKED)
def test_with_the_fence_nothing_is_lost(place: Place, locked: bool) -> None:
    """Stopped between reading and writing, past the lease of its lock if it has one, while somebody else writes.

    Its commit is refused (FencedOut), it decides anew, and both have taken effect.
    """
    with stopped(place, "decided", locked=locked, fencing=True) as holder:
        with place.engine(locked=locked, fencing=True, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
        holder.go_on()
        assert holder.decided == 2
    assert place.variables() == {"ours": 2, "theirs": 1}


def test_without_the_fence_an_update_is_lost(place: Place) -> None:
    """The same without the fence: the sign of life it gives writes back the row it has read, and what was set meanwhile is gone.

    This is what `fencing=False` permits without a lock. `check` finds it.
    """
    with stopped(place, "decided", locked=False, fencing=False, beats=True) as holder:
        with place.engine(locked=False, fencing=False, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
            assert engine.get(place.workflow).variables.value == {"ours": 2}
        holder.go_on()
        assert holder.decided == 1
    with Engine(place.store) as engine:
        assert engine.get(place.workflow).variables.value == {}, "lost"
        assert {finding.law for finding in engine.admin.check()} == {"time_runs_forward"}


@pytest.mark.parametrize("beats", [True, False])
def test_without_the_fence_a_lock_says_that_its_lease_was_over(place: Place, beats: bool) -> None:
    """Before it commits it asks its lock: the turn was lost, it takes another one, and both have taken effect."""
    with stopped(place, "decided", locked=True, fencing=False, beats=beats) as holder:
        with place.engine(locked=True, fencing=False, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
        holder.go_on()
        assert holder.decided == 1
    assert place.variables() == ({"ours": 2} if beats else {"ours": 2, "theirs": 1})


@pytest.mark.parametrize("locked", LOCKED)
def test_the_same_sign_of_life_with_the_fence(place: Place, locked: bool) -> None:
    """With the fence it is given, and takes nothing back."""
    with stopped(place, "decided", locked=locked, fencing=True, beats=True) as holder:
        with place.engine(locked=locked, fencing=True, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
        holder.go_on()
        assert holder.decided == 2
    assert place.variables() == {"ours": 2}
    with Engine(place.store) as engine:
        assert (engine.tasks.get(place.task.task_id).response_timeout_at or 0) > (place.task.response_timeout_at or 0)


def test_without_the_fence_the_journal_still_refuses_a_second_line(place: Place) -> None:
    """Two turns that both tell of something cannot both be kept: the later one is an error, told to whoever asked for it."""
    with stopped(place, "decided", locked=False, fencing=False) as holder:
        with place.engine(locked=False, fencing=False, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
        holder.process.send_signal(signal.SIGCONT)
        _, err = holder.process.communicate(timeout=30)
    assert "InvariantBroken" in err
    assert place.variables() == {"ours": 2}


@pytest.mark.parametrize("fencing", FENCED)
def test_stopped_within_the_lease(place: Place, fencing: bool) -> None:
    """As long as its lease runs nobody takes its turn: events wait in the inbox, and nothing is lost even without the fence."""
    with stopped(place, "decided", locked=True, fencing=fencing, lease=LONG) as holder:
        with place.engine(locked=True, fencing=fencing, lease=LONG) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
            assert engine.get(place.workflow).variables.value == {}
        holder.go_on()
        assert holder.decided == 1
    assert place.variables() == {"ours": 2, "theirs": 1}


@pytest.mark.parametrize("fencing", FENCED)
def test_stopped_with_the_lock_before_reading(place: Place, fencing: bool) -> None:
    """Its lease passes, somebody else takes the turn; it then reads what that one has written, and nothing is lost."""
    with stopped(place, "locked", locked=True, fencing=fencing) as holder:
        with place.engine(locked=True, fencing=fencing, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
        holder.go_on()
        assert holder.decided == 1
    assert place.variables() == {"ours": 2, "theirs": 1}


@pytest.mark.parametrize("locked", LOCKED)
def test_stopped_inside_its_write(place: Place, locked: bool) -> None:
    """Others read on; whoever writes waits for as long as its busy timeout says, and is told which file; then it commits."""
    with stopped(place, "writing", locked=locked, fencing=True) as holder:
        with place.engine(locked=locked, fencing=True, lease=SHORT, busy_timeout_ms=50) as engine:
            assert engine.get(place.workflow).variables.value == {}
            with pytest.raises(StorageBusy, match=r"store\.db: another process .* holds the database"):
                engine.update_variables(place.workflow, {"ours": 0})
            holder.go_on()
            engine.update_variables(place.workflow, {"ours": 2})
        assert holder.decided == 1
    assert place.variables() == {"ours": 2, "theirs": 1}


def test_killed_inside_its_write(place: Place) -> None:
    """Whoever dies there has written nothing, and holds nothing up."""
    with stopped(place, "writing", locked=True, fencing=True) as holder:
        holder.process.kill()
        holder.process.wait()
        with place.engine(locked=True, fencing=True, lease=SHORT) as engine:
            engine.update_variables(place.workflow, {"ours": 2})
    assert place.variables() == {"ours": 2}
