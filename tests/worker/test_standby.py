"""Quick functions are carried out by the thread that drives; one that takes long keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

import pytest

from conductorlite import Engine, TaskContext, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import ResultTimeout, WorkflowFailed, WouldDeadlock

PATIENCE = 20.0


def chain(name: str, *types: str) -> WorkflowDef:
    """Tasks one after another."""
    tasks = [{"name": kind, "taskReferenceName": f"t{place}", "type": "SIMPLE"} for place, kind in enumerate(types)]
    return WorkflowDef.from_json({"name": name, "tasks": tasks})


class Held:
    """A worker `step` that is quick until it is told to wait, and `other`, which is always quick."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.threads: Counter[str] = Counter()
        self.waits = False
        self.released = threading.Event()
        self.workers.task("step", response_timeout_seconds=1)(self.step)
        self.workers.task("other")(self.other)

    def step(self, context: TaskContext) -> None:
        self.threads[threading.current_thread().name] += 1
        if self.waits and context.task.ref == "t0":
            self.during(context)

    def during(self, context: TaskContext) -> None:
        """What it does while it keeps its thread."""
        assert self.released.wait(PATIENCE)

    def other(self) -> None:
        self.threads[threading.current_thread().name] += 1


@pytest.fixture
def held() -> Held:
    """Workers that were not called yet."""
    return Held()


@pytest.fixture
def engine(held: Held) -> Iterator[Engine]:
    """A real clock, and a first execution that shows that all are quick."""
    with Engine(workers=held.workers) as engine:
        engine.register(chain("step", "step", "step"), chain("other", "other", "other"))
        engine.start("step").result()
        engine.start("other").result()
        held.threads.clear()
        yield engine


def test_a_quick_function_runs_in_the_thread_that_drives(engine: Engine, held: Held) -> None:
    """No change of threads for a function that was quick the last time."""
    engine.start("step").result()
    assert held.threads == {threading.current_thread().name: 2}


def test_a_caller_with_a_deadline_keeps_it(engine: Engine, held: Held) -> None:
    """It must go on in time, whatever a function does: that has a thread of its own."""
    held.waits = True
    with pytest.raises(ResultTimeout):
        engine.start("step").result(timeout="50ms")
    held.released.set()
    assert threading.current_thread().name not in held.threads


def test_several_at_once_have_threads(engine: Engine, held: Held) -> None:
    """What could run beside each other does."""
    both = threading.Barrier(2)
    held.waits = True
    held.during = lambda context: both.wait(PATIENCE) and None  # type: ignore[method-assign, assignment]
    runs = [engine.start("step"), engine.start("step")]
    for run in runs:
        run.result()
    assert {run.status.value for run in runs} == {"COMPLETED"}


def test_a_function_that_hangs_delays_no_other_execution_and_no_timer(engine: Engine, held: Held) -> None:
    """Who stands by drives after 50 ms: what becomes ready meanwhile is done before the function returns."""
    later = engine.start("other", delay=timedelta(milliseconds=150))
    done: list[str] = []

    def during(context: TaskContext) -> None:
        other = engine.start("other")
        done.append(other.status.value)
        while not engine.status(later.workflow_id).terminal or not engine.status(other.workflow_id).terminal:
            assert not held.released.wait(0.02)
        done.append("both")

    held.waits, held.during = True, during  # type: ignore[method-assign]
    engine.start("step").result()
    assert done == ["RUNNING", "both"]


def test_it_keeps_its_lease_meanwhile(engine: Engine, held: Held) -> None:
    """Its signs of life are given by who stands by: after twice its response timeout it is still its own."""

    def during(context: TaskContext) -> None:
        def deadline() -> int:
            (task,) = [task for task in engine.get(context.workflow_id).tasks if task.task_id == context.task_id]
            return task.response_timeout_at or 0

        first = deadline()
        while deadline() == first:
            assert not held.released.wait(0.02)

    held.waits, held.during = True, during  # type: ignore[method-assign]
    run = engine.start("step")
    run.result()
    assert [task.attempt for task in run.workflow.tasks] == [0, 0]


def test_a_function_may_wait_for_another_execution(engine: Engine, held: Held) -> None:
    """`result` inside it: who stands by drives that one."""
    results: list[str] = []

    def during(context: TaskContext) -> None:
        other = engine.start("other")
        other.result()
        results.append(other.status.value)

    held.waits, held.during = True, during  # type: ignore[method-assign]
    engine.start("step").result()
    assert results == ["COMPLETED"]


def test_no_function_waits_for_itself(engine: Engine, held: Held) -> None:
    """Verbs that drive are refused inside it, as ever."""
    problems: list[type[BaseException]] = []

    def during(context: TaskContext) -> None:
        for verb in (engine.settle, engine.run_until_idle, engine.close, lambda: engine.result(context.workflow_id)):
            with pytest.raises(WouldDeadlock) as raised:
                verb()
            problems.append(raised.type)

    held.waits, held.during = True, during  # type: ignore[method-assign]
    engine.start("step").result()
    assert problems == [WouldDeadlock] * 4


def test_an_interrupted_function_is_given_back(engine: Engine, held: Held) -> None:
    """Also while another thread drives: it ends before the interruption is raised, and the task is offered again."""
    interrupted = [False]

    def during(context: TaskContext) -> None:
        if not interrupted[0]:
            interrupted[0] = True
            other = engine.start("other")
            while not other.status.terminal:
                assert not held.released.wait(0.02)
            raise KeyboardInterrupt

    held.waits, held.during = True, during  # type: ignore[method-assign]
    run = engine.start("step")
    with pytest.raises(KeyboardInterrupt):
        run.result()
    assert not engine.driver.standby.busy
    run.result()
    assert [task.attempt for task in run.workflow.tasks] == [0, 0]
    assert engine.admin.check() == []


def test_stopping_waits_for_it(engine: Engine, held: Held) -> None:
    """A driver that is asked to stop while it carries out a function returns when that has."""

    def during(context: TaskContext) -> None:
        engine.stop()

    held.waits, held.during = True, during  # type: ignore[method-assign]
    run = engine.start("step")
    engine.run_forever()
    assert run.workflow.tasks[0].status.value == "COMPLETED"
    held.waits = False
    run.result()


class Coroutine:
    """A worker `step` that is a coroutine's: the second task of each execution is alone, and quick until it is told otherwise."""

    def __init__(self) -> None:
        self.workers = Workers()
        self.waited_for: list[bool] = []
        self.hangs = False
        self.canceled = False
        self.workers.task("step")(self.step)

    async def step(self, context: TaskContext) -> None:
        engine = context._engine
        assert isinstance(engine, Engine)
        self.waited_for.append(engine.driver.standby.busy)
        if self.hangs and context.ref == "t1":
            await asyncio.to_thread(engine.terminate, context.workflow_id, reason="enough")
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                self.canceled = True
                raise


def test_a_quick_coroutine_is_waited_for() -> None:
    """The thread that drives looks for nothing else meanwhile, as with a function; that it runs on its loop stays so."""
    coroutine = Coroutine()
    with Engine(workers=coroutine.workers) as engine:
        engine.register(chain("step", "step", "step", "step"))
        engine.start("step").result()
        assert coroutine.waited_for == [False, True, True]  # of the first one it is not known whether it is quick


def test_one_that_is_not_quick_any_more_is_canceled_with_its_execution() -> None:
    """Who stands by drives, and finds that the execution is over: nobody waits for the coroutine any longer."""
    coroutine = Coroutine()
    with Engine(workers=coroutine.workers) as engine:
        engine.register(chain("step", "step", "step"))
        engine.start("step").result()
        coroutine.hangs = True
        run = engine.start("step")
        with pytest.raises(WorkflowFailed):
            run.result()
        assert run.status is WorkflowStatus.TERMINATED
        engine.run_until_idle()
        assert coroutine.canceled
