"""`async def` workers in the synchronous Engine: one private loop, in a thread that is started when it is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

import pytest

from conductorlite import (
    Clock,
    Engine,
    HistoryEvent,
    SystemClock,
    TaskContext,
    TaskFailedTerminally,
    TaskStatus,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowDef,
    WorkflowFailed,
    WorkflowTask,
)

TIMEOUT = "20s"
CLOCKS: list[Callable[[], Clock]] = [SystemClock, lambda: VirtualClock(0)]

clocks = pytest.mark.parametrize("clock", CLOCKS, ids=["system", "virtual"])


def one(name: str, **fields: object) -> WorkflowDef:
    """A workflow of one task."""
    return WorkflowDef(name="w", tasks=[WorkflowTask(name=name, task_reference_name="t", input_parameters=dict(fields))])


def loops() -> int:
    """Private loops that live in this process."""
    return sum(thread.name == "conductorlite-loop" for thread in threading.enumerate())


@clocks
def test_a_coroutine_function_carries_out_a_task(clock: Callable[[], Clock]) -> None:
    """It runs on one private loop, started by the first call and ended with the engine; the context works in it."""
    workers = Workers()
    seen: set[int] = set()

    @workers.task("later")
    async def later(n: int, context: TaskContext) -> dict[str, int]:
        await asyncio.sleep(0)
        seen.add(id(asyncio.get_running_loop()))
        assert context.heartbeat()
        context.log("here")
        return {"n": n + 1}

    with Engine(workers=workers, clock=clock()) as engine:
        assert loops() == 0
        for n in range(3):
            run = engine.start(one("later", n=n))
            run.result(timeout=TIMEOUT)
            assert run.workflow.tasks[0].output_data == {"n": n + 1}
        assert loops() == 1
        assert [line.text for line in engine.tasks.logs(run.workflow.tasks[0].task_id)] == ["here"]
    assert len(seen) == 1
    assert loops() == 0


def boom(error: BaseException) -> Callable[[], object]:
    """A coroutine function that raises."""

    async def function() -> None:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ValueError("no"), TaskStatus.FAILED),
        (TaskFailedTerminally("never"), TaskStatus.FAILED_WITH_TERMINAL_ERROR),
        (asyncio.CancelledError("itself"), TaskStatus.FAILED),
        (SystemExit(3), TaskStatus.FAILED),
    ],
    ids=repr,
)
def test_what_a_coroutine_raises(error: BaseException, status: TaskStatus) -> None:
    """Whatever is raised fails the attempt, with its text and its traceback, and the loop goes on."""
    workers = Workers()
    workers.task("boom", retry_count=0)(boom(error))
    with Engine(workers=workers) as engine:
        for _ in range(2):
            run = engine.start(one("boom"))
            with pytest.raises(WorkflowFailed):
                run.result(timeout=TIMEOUT)
            (task,) = run.workflow.tasks
            assert task.status is status
            assert str(error) in (task.reason or "")


def test_many_coroutines_need_one_thread() -> None:
    """A hundred coroutines that wait for each other run at once, although only 32 threads would be there."""
    workers = Workers()
    count = 0
    all_there = asyncio.Event()

    @workers.task("meet")
    async def meet() -> None:
        nonlocal count
        count += 1
        if count == 100:
            all_there.set()
        await all_there.wait()

    with Engine(workers=workers) as engine:
        runs = [engine.start(one("meet")) for _ in range(100)]
        before = set(threading.enumerate())
        for run in runs:
            run.result(timeout=TIMEOUT)
        assert len(set(threading.enumerate()) - before) == 1  # those of earlier tests may end meanwhile


def test_bounds_hold_for_coroutines() -> None:
    """`concurrency` of a worker bounds its coroutines."""
    workers = Workers()
    running, most = 0, 0

    @workers.task("narrow", concurrency=2)
    async def narrow() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1

    with Engine(workers=workers) as engine:
        for run in [engine.start(one("narrow")) for _ in range(10)]:
            run.result(timeout=TIMEOUT)
    assert 1 <= most <= 2


@pytest.mark.parametrize("lost", ["terminated", "timed out"])
def test_a_lost_lease_cancels(lost: str) -> None:
    """When its task ends without it, the coroutine is canceled, may clean up, and its task's log says so."""
    workers = Workers()
    began, canceled = threading.Event(), threading.Event()

    @workers.task("endless", retry_count=0, timeout_seconds=0.2 if lost == "timed out" else 60)
    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()

    with Engine(workers=workers) as engine:
        driver = threading.Thread(target=engine.run_forever, daemon=True)
        driver.start()
        run = engine.start(one("endless"))
        assert began.wait(20)
        if lost == "terminated":
            engine.terminate(run.workflow_id)
        assert canceled.wait(20)
        engine.stop()
        driver.join(20)
        (task,) = run.workflow.tasks
        assert [line.text for line in engine.tasks.logs(task.task_id)] == [
            "worker 'endless' lost its lease while it ran; its coroutine was canceled"
        ]


def test_a_lease_lost_before_the_coroutine_began_cancels() -> None:
    """An execution that ends right after its task was handed out, before the driver counts the call, is noticed all the same."""
    workers = Workers()

    @workers.task("endless")
    async def endless() -> None:
        await asyncio.Event().wait()

    with Engine(workers=workers) as engine:
        run = engine.start(one("endless"))

        def terminate_at_once(workflow: Workflow, events: Sequence[HistoryEvent]) -> None:
            if not workflow.status.terminal and any(event.status == TaskStatus.IN_PROGRESS for event in events):
                other = threading.Thread(target=engine.terminate, args=(workflow.workflow_id,))
                other.start()
                other.join(20)

        engine.listen(terminate_at_once)
        assert engine.run_until_idle(TIMEOUT)
        (task,) = run.workflow.tasks
        assert [line.text for line in engine.tasks.logs(task.task_id)] == [
            "worker 'endless' lost its lease while it ran; its coroutine was canceled"
        ]


def test_closing_cancels_what_runs() -> None:
    """An engine that is closed while nobody drives it cancels the coroutines it left behind."""
    workers = Workers()
    canceled = threading.Event()

    @workers.task("endless")
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            canceled.set()

    began = threading.Event()
    with Engine(workers=workers) as engine:
        engine.start(one("endless"))
        engine.listen(lambda _, history: began.set())
        engine.run_until_idle(timeout="50ms")
        assert began.is_set()
    assert canceled.wait(20)
    assert loops() == 0


def test_what_counts_as_a_coroutine_function() -> None:
    """An object whose `__call__` is a coroutine function is one too."""

    class Later:
        async def __call__(self, n: int) -> int:
            return n

    workers = Workers()
    workers.add("later", Later())
    with Engine(workers=workers, clock=VirtualClock(0)) as engine:
        run = engine.start(one("later", n=5))
        run.result()
        assert run.workflow.tasks[0].output_data == {"result": 5}
