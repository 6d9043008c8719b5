"""Locks: what every one does, and engines that share a store under one."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from conductorlite import Engine, EngineConfig, TaskResult, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.errors import EngineClosed, InvalidInput, StorageBusy, StorageError
from conductorlite.store.locks import InProcessLock, SQLiteLock
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, Lock
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend
from conductorlite.testing.conformance.locks import LockConformance
from conductorlite.testing.faults import lay_empty_store

CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": name, "taskReferenceName": name} for name in ("a", "b")]})


class TestInProcessLock(LockConformance):
    """One object that engines share."""

    def make_locks(self) -> tuple[Lock, Lock]:
        """The same lock twice."""
        lock = InProcessLock(lease=f"{self.lease_ms}ms")
        return lock, lock


class TestSQLiteLock(LockConformance):
    """Two objects on one file, as in two processes."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "turns.locks"

    def make_locks(self) -> tuple[Lock, Lock]:
        """Two locks on one file, with one name."""
        return SQLiteLock(self.path, owner="o", lease=f"{self.lease_ms}ms"), SQLiteLock(
            self.path, owner="o", lease=f"{self.lease_ms}ms"
        )


def test_without_a_lease() -> None:
    """A turn without a lease is held until it is given back."""
    lock = InProcessLock(lease=None)
    token = lock.try_acquire("w", 0)
    assert token is not None
    assert lock.try_acquire("w", 2**60) is None


def test_a_lease_must_be_positive(tmp_path: Path) -> None:
    """A lease that is over at once would lock nothing."""
    with pytest.raises(InvalidInput, match="over at once"):
        SQLiteLock(tmp_path / "l", lease=0)


def test_files_that_are_no_locks(tmp_path: Path) -> None:
    """A folder, or somebody else's bytes: a named error with the path."""
    with pytest.raises(StorageError, match=str(tmp_path)):
        SQLiteLock(tmp_path)
    path = tmp_path / "notes.txt"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(StorageError, match=r"notes\.txt"):
        SQLiteLock(path)
    assert path.read_bytes() == b"no database" * 100


def test_a_held_file_is_busy(tmp_path: Path) -> None:
    """The wait for another process is bounded, and ends in a clear error."""
    lock = SQLiteLock(tmp_path / "l", busy_timeout_ms=1)
    other = sqlite3.connect(tmp_path / "l", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StorageBusy, match="could not be used"):
        lock.try_acquire("w", 0)
    other.execute("ROLLBACK")
    other.close()
    assert lock.try_acquire("w", 0) is not None


def test_closed_and_forked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed lock, and one that another process opened, answer with EngineClosed."""
    lock = SQLiteLock(tmp_path / "l")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(EngineClosed, match="forked"):
            lock.try_acquire("w", 0)
    lock.close()
    with pytest.raises(EngineClosed):
        lock.try_acquire("w", 0)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty store."""
    return MemoryBackend() if request.param == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "store.db"))


def two(store: Backend, lock: Lock | None, *, fencing: bool = True) -> tuple[Engine, Engine, VirtualClock]:
    """Two engines on one store and clock."""
    clock = VirtualClock()
    one, other = (Engine(store, clock=clock, config=EngineConfig(lock=lock, fencing=fencing)) for _ in range(2))
    return one, other, clock


def work(engine: Engine) -> None:
    """Complete whatever is offered."""
    while tasks := [task for name in ("a", "b") for task in engine.poll(name)]:
        for task in tasks:
            engine.update_task(
                TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
            )


@pytest.mark.parametrize("fencing", [True, False])
@pytest.mark.parametrize("locked", [True, False])
def test_each_combination_runs(store: Backend, locked: bool, fencing: bool) -> None:
    """With and without the lock, with and without the fence, one after the other loses nothing."""
    one, other, _ = two(store, InProcessLock() if locked else None, fencing=fencing)
    ids = [one.start(CHAIN, {"n": number}).workflow_id for number in range(3)]
    work(other)
    work(one)
    assert {one.status(workflow_id) for workflow_id in ids} == {WorkflowStatus.COMPLETED}
    assert one.admin.check() == []


def test_events_wait_while_a_turn_is_taken(store: Backend) -> None:
    """A verb on a locked execution is left in the inbox and takes effect when the lock is free; polls pass it over."""
    lock = InProcessLock(lease="1s")
    one, other, clock = two(store, lock)
    busy, free = (one.start(CHAIN, {}).workflow_id for _ in range(2))
    token = lock.try_acquire(busy, clock.now())
    assert token is not None
    other.pause(busy)
    assert other.status(busy) is WorkflowStatus.RUNNING
    assert [task.workflow_id for task in other.poll("a", count=5)] == [free]
    assert other.tick() is False, "the driver passes over what is locked"
    other.pause(free)
    lock.release(busy, token)
    other.settle()
    assert other.status(busy) is WorkflowStatus.PAUSED
    other.resume(busy)
    assert [task.workflow_id for task in other.poll("a", count=5)] == [busy], "the poll that passed it over took nothing"
    assert one.admin.check() == []


def test_others_are_driven_past_a_locked_one(store: Backend) -> None:
    """An execution that is due first and locked does not hold up those behind it."""
    lock = InProcessLock()
    one, other, clock = two(store, lock)
    waiting = WorkflowDef.from_json(
        {
            "name": "pause",
            "tasks": [{"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 s"}}],
        }
    )
    first, second = one.start(waiting, {}, workflow_id="1").workflow_id, one.start(waiting, {}, workflow_id="2").workflow_id
    token = lock.try_acquire(first, clock.now())
    assert token is not None
    clock.move_to(clock.now() + 1_000)
    other.settle()
    assert (other.status(first), other.status(second)) == (WorkflowStatus.RUNNING, WorkflowStatus.COMPLETED)
    lock.release(first, token)
    other.settle()
    assert other.status(first) is WorkflowStatus.COMPLETED


def test_a_dead_holder_is_waited_for_no_longer_than_its_lease(store: Backend) -> None:
    """What somebody took and never gave back is free when the lease is over, and what was left is done."""
    lock = InProcessLock(lease="30s")
    one, other, clock = two(store, lock)
    workflow_id = one.start(CHAIN, {}).workflow_id
    assert lock.try_acquire(workflow_id, clock.now()) is not None
    other.terminate(workflow_id, reason="enough")
    other.settle()
    assert other.status(workflow_id) is WorkflowStatus.RUNNING
    clock.move_to(clock.now() + 30_000)
    other.settle()
    assert other.status(workflow_id) is WorkflowStatus.TERMINATED


def test_a_sign_of_life_and_the_deadline_it_moves_in_one_turn(store: Backend) -> None:
    """The sign waited for the lock until the deadline had passed: it came before, and the deadline counts from it anew."""
    lock = InProcessLock(lease="30s")
    one, other, clock = two(store, lock)
    policy = {"name": "a", "retryCount": 0, "responseTimeoutSeconds": 5}
    definition = {"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a", "taskDefinition": policy}]}
    workflow_id = one.start(WorkflowDef.from_json(definition), {}).workflow_id
    (task,) = one.poll("a")
    assert lock.try_acquire(workflow_id, clock.now()) is not None
    clock.move_to(clock.now() + 4_000)
    other.tasks.extend_lease(task)
    clock.move_to(clock.now() + 26_000)
    other.settle()
    (row,) = other.get(workflow_id).tasks
    assert (row.status, row.response_timeout_at) == (TaskStatus.IN_PROGRESS, clock.now() + 5_000)
    other.advance("5s")
    assert other.get(workflow_id).tasks[0].status is TaskStatus.TIMED_OUT


def test_a_resumption_and_the_timeout_it_starts_again_in_one_turn(store: Backend) -> None:
    """As with a task: the timeout that was read with the event is not the one that holds."""
    lock = InProcessLock(lease="30s")
    one, other, clock = two(store, lock)
    tasks = [{"name": "a", "taskReferenceName": "a"}]
    definition = {"name": "w", "timeoutSeconds": 5, "timeoutPolicy": "TIME_OUT_WF", "tasks": tasks}
    workflow_id = one.start(WorkflowDef.from_json(definition), {}).workflow_id
    one.pause(workflow_id)
    assert lock.try_acquire(workflow_id, clock.now()) is not None
    clock.move_to(clock.now() + 4_000)
    other.resume(workflow_id)
    clock.move_to(clock.now() + 26_000)
    other.settle()
    assert other.status(workflow_id) is WorkflowStatus.RUNNING
    other.advance("5s")
    assert other.status(workflow_id) is WorkflowStatus.TIMED_OUT


def test_no_event_is_overtaken_by_a_later_one_of_its_sender(store: Backend) -> None:
    """A child is run again by an engine whose clock is ahead, and ended by another: its parent hears of both, in order."""
    lock = InProcessLock(lease="30s")
    clock = VirtualClock(1_900_000_000_000)
    right = Engine(FaultyBackend(store, keep_open=True), clock=clock, config=EngineConfig(lock=lock))
    ahead = Engine(FaultyBackend(store, keep_open=True), clock=VirtualClock(clock.now() + 2_000), config=EngineConfig(lock=lock))
    child = {"name": "child", "tasks": [{"name": "a", "taskReferenceName": "a"}]}
    task = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"workflowDefinition": child}}
    parent = right.start(WorkflowDef.from_json({"name": "parent", "tasks": [task]}), {}).workflow_id
    (below,) = right.admin.children(parent)
    token = lock.try_acquire(parent, clock.now())
    assert token is not None
    ahead.rerun(below.workflow_id)
    right.terminate(below.workflow_id)
    assert right.status(parent) is WorkflowStatus.RUNNING, "nobody could take its turn"
    lock.release(parent, token)
    right.run_until_idle()
    assert right.status(parent) is WorkflowStatus.TERMINATED
    assert right.admin.check() == []
