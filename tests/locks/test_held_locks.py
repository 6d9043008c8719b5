"""A lock that somebody else has, for ever or for a while, and one that fails: time goes on, and no report is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from conductorlite import Engine, EngineConfig, ResultTimeout, Task, TaskResult, TaskStatus, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import LockUnavailable, StorageBusy, StorageError
from conductorlite.store.locks import InProcessLock

ONE = WorkflowDef.from_json({"name": "one", "tasks": [{"name": "a", "taskReferenceName": "a"}]})
WAITS = WorkflowDef.from_json(
    {"name": "waits", "tasks": [{"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "20 s"}}]}
)


def done(task: Task) -> TaskResult:
    """The report that completes a task."""
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)


def nothing() -> dict[str, Any]:
    """A function that does nothing."""
    return {}


VERBS: dict[str, Callable[[Engine], object]] = {
    "advance": lambda engine: engine.advance("70s"),
    "run_until_idle": lambda engine: engine.run_until_idle(),
    "with a timeout": lambda engine: engine.run_until_idle("70s"),
    "result": lambda engine: engine.result("held"),
    "result with a timeout": lambda engine: engine.result("held", "70s"),
}


@pytest.mark.parametrize("what", ["an event", "an offered task"])
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_dead_holder_stops_no_time(verb: str, what: str) -> None:
    """Virtual time passes until the lease of the dead one is over, and what is due in between comes at its own instant."""
    lock, clock = InProcessLock(lease="60s"), VirtualClock(0)
    workers = Workers()
    if what == "an offered task":
        workers.add("a", nothing)
    engine = Engine(clock=clock, workers=workers, config=EngineConfig(lock=lock))
    engine.start(ONE, workflow_id="held")
    engine.start(WAITS, workflow_id="other")
    held = [] if workers else engine.poll("a")
    assert lock.try_acquire("held", clock.now()) is not None  # whoever took it has died
    for task in held:
        engine.update_task(done(task))
    VERBS[verb](engine)
    assert engine.get("other").ended_at == 20_000
    assert str(engine.status("held")) == "COMPLETED"
    assert 60_000 <= engine.get("held").ended_at <= 70_000
    assert engine.admin.check() == []


def test_a_lock_that_is_never_given_back() -> None:
    """Each verb returns, and says that it has not come to an end."""
    lock, clock = InProcessLock(lease=None), VirtualClock(0)
    engine = Engine(clock=clock, config=EngineConfig(lock=lock))
    engine.start(ONE, workflow_id="held")
    (task,) = engine.poll("a")
    token = lock.try_acquire("held", clock.now())
    assert token is not None
    engine.update_task(done(task))
    engine.advance("2d")
    assert clock.now() == 2 * 86_400_000
    assert engine.run_until_idle("1h") is False
    assert engine.run_until_idle() is False
    with pytest.raises(ResultTimeout):
        engine.result("held")
    lock.release("held", token)
    assert engine.run_until_idle() is True
    assert str(engine.status("held")) == "COMPLETED"


class Failing:
    """A lock of a service that is down for a while."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.releases = True
        self._lock = InProcessLock()

    own_time = False

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn, if the service answers."""
        if self.error is not None:
            raise self.error
        return self._lock.try_acquire(workflow_id, now)

    def renew(self, workflow_id: str, token: int, now: int) -> bool:
        """Begin the lease again, if the service answers."""
        if self.error is not None:
            raise self.error
        return self._lock.renew(workflow_id, token, now)

    def release(self, workflow_id: str, token: int) -> None:
        """Give it back, if the service answers."""
        if self.error is not None or not self.releases:
            raise self.error or ConnectionError("it went away meanwhile")
        self._lock.release(workflow_id, token)

    def close(self) -> None:
        """Nothing is kept."""


ERRORS = [ConnectionError("refused"), TimeoutError("no answer"), StorageBusy("held"), StorageError("I/O"), ValueError("odd")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_with_the_fence_work_goes_on_without_the_lock(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """Starts, polls and reports are taken under the fence; it is told once that the lock fails, and once that it works again."""
    lock, clock = Failing(error), VirtualClock(0)
    engine = Engine(clock=clock, config=EngineConfig(lock=lock))
    with caplog.at_level(logging.WARNING, logger="conductorlite"):
        run = engine.start(ONE)
        (task,) = engine.poll("a")
        engine.update_task(done(task))
        assert str(run.status) == "COMPLETED"
        lock.error = None
        clock.move_to(10_000)
        engine.start(ONE)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert texts[0].startswith(f"the lock cannot be used: {type(error).__name__}")
    assert texts[1] == "the lock can be used again"
    assert engine.admin.check() == []


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_without_a_fence_it_is_one_named_error(error: Exception) -> None:
    """Whatever the service raises is LockUnavailable, with nothing changed; what a worker returned is kept and reported later."""
    lock, clock = Failing(error), VirtualClock(0)
    lock.error = None
    calls: list[int] = []
    workers = Workers()

    @workers.task("a")
    def a() -> dict[str, Any]:
        calls.append(1)
        lock.error = error
        return {}

    engine = Engine(clock=clock, workers=workers, config=EngineConfig(lock=lock, fencing=False))
    run = engine.start(ONE)
    for verb in (engine.run_until_idle, lambda: engine.start(ONE), lambda: engine.pause(run.workflow_id), engine.settle):
        with pytest.raises(LockUnavailable, match=type(error).__name__):
            verb()
    assert [task.status for task in run.workflow.tasks] == ["IN_PROGRESS"]
    lock.error = None
    assert engine.run_until_idle()
    assert (str(run.status), calls) == ("COMPLETED", [1])
    assert len(list(engine.admin.workflow_ids())) == 1


def test_a_lock_that_cannot_be_given_back() -> None:
    """The turn is committed; that the lock stays taken until its lease is over is no error of the verb."""
    lock = Failing(ConnectionError("refused"))
    lock.error, lock.releases = None, False
    engine = Engine(clock=VirtualClock(0), config=EngineConfig(lock=lock))
    run = engine.start(ONE)
    assert str(run.status) == "RUNNING"


def test_a_required_lock_is_not_gone_without() -> None:
    """With `lock_required` turns are refused beside the fence too while the service is down, and taken when it is back."""
    lock = Failing(ConnectionError("down"))
    engine = Engine(clock=VirtualClock(0), config=EngineConfig(lock=lock, lock_required=True))
    with pytest.raises(LockUnavailable, match="it is required: ConnectionError: down"):
        engine.start(ONE, workflow_id="w")
    lock.error = None
    engine.start(ONE, workflow_id="w")
    assert [task.ref for task in engine.poll("a")] == ["a"]
