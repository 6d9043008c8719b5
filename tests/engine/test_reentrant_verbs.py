"""Verbs that would wait for whoever calls them raise WouldDeadlock at once: whatever the driver calls, on both clocks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductorlite import AsyncEngine, Engine, EngineConfig, TaskContext, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import WouldDeadlock
from conductorlite.store.ports import EventMessage

PATIENCE = "20s"


def flow(name: str, *tasks: str) -> WorkflowDef:
    """A sequence of workers' tasks."""
    return WorkflowDef.from_json({"name": name, "tasks": [{"name": task, "taskReferenceName": task} for task in tasks]})


def nothing() -> dict[str, Any]:
    """A function that asks for nothing."""
    return {}


KID, MAIN = flow("kid", "inner"), flow("main", "asks", "last")

#: What waits for running functions.
WAITING: dict[str, Callable[[Engine], object]] = {
    "tick": lambda engine: engine.tick(),
    "settle": lambda engine: engine.settle(),
    "advance": lambda engine: engine.advance(1),
    "run_until_idle": lambda engine: engine.run_until_idle(),
    "run_forever": lambda engine: engine.run_forever(),
    "close": lambda engine: engine.close(),
    "with": lambda engine: engine.__exit__(None, None, None),
    "child": lambda engine: engine.start(KID).result(),
}


def engine_with(asks: Callable[..., object], clock: str, store: object = None, concurrency: int = 1) -> Engine:
    """An engine whose task `asks` does something at its first attempt."""
    workers = Workers(concurrency=concurrency)
    workers.task("asks", retry_count=1, retry_delay_seconds=0)(asks)
    for name in ("inner", "last"):
        workers.add(name, lambda: {"by": "it"})
    virtual = {"clock": VirtualClock(0)} if clock == "virtual" else {}
    return Engine(store, workers=workers, **virtual)  # type: ignore[arg-type]


def attempts(engine: Engine, workflow_id: str) -> list[tuple[str, int, str]]:
    """What became of each attempt; no law is broken."""
    assert engine.admin.check() == []
    return [(task.ref, task.attempt, str(task.status)) for task in engine.get(workflow_id).tasks]


ONCE = [("asks", 0, "FAILED"), ("asks", 1, "COMPLETED"), ("last", 0, "COMPLETED")]


@pytest.mark.parametrize("clock", ["real", "virtual"])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
@pytest.mark.parametrize("verb", sorted(WAITING))
def test_in_a_worker(verb: str, kind: str, clock: str) -> None:
    """The attempt fails with the text, the next one goes on, and so does everything else."""

    def asks(context: TaskContext) -> dict[str, str]:
        return {} if context.attempt else {"got": repr(WAITING[verb](engine))}

    async def awaits(context: TaskContext) -> dict[str, str]:
        return asks(context)

    engine = engine_with(asks if kind == "function" else awaits, clock)
    run = engine.start(MAIN)
    assert engine.run_until_idle(PATIENCE)
    assert attempts(engine, run.workflow_id) == ONCE
    reason = run.workflow.tasks[0].reason
    assert reason is not None
    assert "WouldDeadlock" in reason
    assert "inside worker 'asks'" in reason
    engine.close()


def test_with_room_a_child_is_waited_for(tmp_path: Path) -> None:
    """A function may wait for what it has started as long as there is room for it, on both clocks and stores."""
    for clock in ("real", "virtual"):
        for store in (None, tmp_path / f"{clock}.db"):
            made: list[Engine] = []

            def asks(made: Any = made) -> dict[str, Any]:
                return made[0].start(KID).result(PATIENCE)

            engine = engine_with(asks, clock, store, concurrency=2)
            made.append(engine)
            run = engine.start(MAIN)
            assert engine.run_until_idle(PATIENCE)
            assert attempts(engine, run.workflow_id) == [("asks", 0, "COMPLETED"), ("last", 0, "COMPLETED")]
            engine.close()


def test_of_several_that_wait_one_gives_up() -> None:
    """Two functions fill all the room and wait: the first to notice fails, and leaves room for what both wait for."""
    both = threading.Barrier(2)

    def asks(context: TaskContext) -> dict[str, Any]:
        if context.attempt:
            return {}
        both.wait(20)
        return engine.start(KID).result(PATIENCE)

    engine = engine_with(asks, "real", concurrency=2)
    runs = [engine.start(MAIN) for _ in range(2)]
    assert engine.run_until_idle(PATIENCE)
    assert [str(run.status) for run in runs] == ["COMPLETED", "COMPLETED"]
    failed = [task for run in runs for task in run.workflow.tasks if str(task.status) == "FAILED"]
    assert len(failed) == 1
    engine.close()


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_bound_of_the_worker_itself(clock: str) -> None:
    """A function that waits for an execution which needs the same worker, of which there may be one at a time."""
    workers = Workers()
    loop = flow("loop", "self")

    @workers.task("self", concurrency=1, retry_count=0)
    def again(context: TaskContext) -> dict[str, Any]:
        return engine.start(loop).result() if context.workflow_id == "top" else {}

    engine = Engine(workers=workers, **({"clock": VirtualClock(0)} if clock == "virtual" else {}))  # type: ignore[arg-type]
    run = engine.start(loop, workflow_id="top")
    assert engine.run_until_idle(PATIENCE)
    assert "needs a worker for 'self'" in str(run.workflow.tasks[0].reason)
    engine.close()


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_waiting_for_oneself(clock: str) -> None:
    """The execution of the function, and two functions that wait for each other's."""

    def own(context: TaskContext) -> dict[str, Any]:
        return {} if context.attempt else engine.run(context.workflow_id).result()

    engine = engine_with(own, clock, concurrency=4)
    run = engine.start(MAIN)
    assert engine.run_until_idle(PATIENCE)
    assert attempts(engine, run.workflow_id) == ONCE
    engine.close()


def test_two_that_wait_for_each_other() -> None:
    """The second one to wait is told so."""
    both, ids = threading.Barrier(2), ["one", "two"]

    def asks(context: TaskContext) -> dict[str, Any]:
        if context.attempt:
            return {}
        both.wait(20)
        return engine.result(ids[context.workflow_id == "one"])

    engine = engine_with(asks, "real", concurrency=4)
    runs = [engine.start(MAIN, workflow_id=one) for one in ids]
    assert engine.run_until_idle(PATIENCE)
    assert [str(run.status) for run in runs] == ["COMPLETED", "COMPLETED"]
    assert sorted(len(run.workflow.tasks) for run in runs) == [2, 3]
    engine.close()


@pytest.mark.parametrize("verb", sorted(WAITING))
def test_in_a_listener(verb: str) -> None:
    """A listener is told, and whoever caused the commit is not: it stands."""
    engine = engine_with(nothing, "virtual")
    refused: list[str] = []

    def drives(*_: object) -> None:
        stop()
        with pytest.raises(WouldDeadlock, match="inside a listener") as told:
            WAITING[verb](engine)
        refused.append(str(told.value))

    stop = engine.listen(drives)
    engine.start(flow("one", "last"), workflow_id="w")
    assert engine.run_until_idle()
    assert len(refused) == 1
    assert str(engine.status("w")) == "COMPLETED"
    engine.close()


@pytest.mark.parametrize("verb", sorted(WAITING))
def test_in_a_source(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    """A source is asked by the driver, and may not drive: that is logged as anything it raises."""

    class Source:
        def poll(self, limit: int) -> list[EventMessage]:
            WAITING[verb](engine)
            return []

        def ack(self, message: EventMessage) -> None: ...

        def reject(self, message: EventMessage, reason: str) -> None: ...

    engine = Engine(clock=VirtualClock(0), config=EngineConfig(event_sources=[Source()]))
    with caplog.at_level(logging.WARNING, logger="conductorlite.store"):
        assert not engine.tick()
    assert "WouldDeadlock" in caplog.text
    assert "inside an event source" in caplog.text
    engine.close()


def test_what_has_ended_may_be_asked_for_anywhere() -> None:
    """`result()` of an execution that has ended waits for nothing."""
    results: list[Any] = []
    engine = engine_with(nothing, "virtual")
    done = engine.start(flow("one", "last"))
    done.result()
    engine.listen(lambda workflow, history: results.append(done.result()))
    engine.start(flow("two", "last")).result()
    assert results
    assert results[0] == {"by": "it"}
    engine.close()


AWAITED: dict[str, Callable[[AsyncEngine], Any]] = {
    "tick": lambda engine: engine.tick(),
    "settle": lambda engine: engine.settle(),
    "run_until_idle": lambda engine: engine.run_until_idle(),
    "run_forever": lambda engine: engine.run_forever(),
}


@pytest.mark.parametrize("verb", [*sorted(AWAITED), "close", "background", "child"])
@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_in_a_coroutine_of_an_async_engine(verb: str, clock: str) -> None:
    """The attempt fails with the text, and the next one goes on."""

    async def ask(engine: AsyncEngine) -> object:
        if verb == "child":
            return await (await engine.start(KID)).result()
        if verb == "background":
            async with engine.background():
                return {}
        return await (engine.close() if verb == "close" else AWAITED[verb](engine))

    async def main() -> None:
        workers = Workers(concurrency=1)

        @workers.task("asks", retry_count=1, retry_delay_seconds=0)
        async def asks(context: TaskContext) -> dict[str, str]:
            return {} if context.attempt else {"got": repr(await ask(engine))}

        for name in ("inner", "last"):
            workers.add(name, nothing)
        engine = AsyncEngine(workers=workers, **({"clock": VirtualClock(0)} if clock == "virtual" else {}))  # type: ignore[arg-type]
        async with engine:
            run = await engine.start(MAIN)
            await run.result(PATIENCE)
            tasks = (await run.workflow).tasks
            assert [(task.ref, task.attempt, str(task.status)) for task in tasks] == ONCE
            assert "WouldDeadlock" in str(tasks[0].reason)

    asyncio.run(asyncio.wait_for(main(), 20))


@pytest.mark.parametrize("verb", sorted(AWAITED))
def test_in_a_block_of_background(verb: str) -> None:
    """The block drives already; a verb that drives would wait for its end. Results are awaited as ever."""

    async def main() -> None:
        workers = Workers()
        workers.add("inner", lambda: {"x": 1})
        async with AsyncEngine(workers=workers) as engine:
            async with engine.background():
                with pytest.raises(WouldDeadlock, match=r"background\(\), which drives already"):
                    await AWAITED[verb](engine)
                assert await (await engine.start(KID)).result(PATIENCE) == {"x": 1}
            assert await engine.run_until_idle(PATIENCE)

    asyncio.run(asyncio.wait_for(main(), 20))
