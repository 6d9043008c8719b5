"""`run.events()`: the journal as it is written, for loops of both kinds."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from conductorlite import AsyncEngine, Engine, TaskContext, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import ExecutionNotFound, ResultTimeout, WorkflowFailed
from conductorlite.model.statuses import WorkflowStatus

WORKERS = Workers()


@WORKERS.task("work")
def work() -> None:
    """Does nothing."""


@WORKERS.task("broken", retry_count=0)
def broken() -> None:
    """Fails."""
    raise ValueError("no")


def steps(*types: str, **inputs: Any) -> WorkflowDef:
    """A chain of tasks."""
    made = [
        WorkflowTask(
            name=kind, task_reference_name=f"t{number}", type=kind if kind.isupper() else "SIMPLE", input_parameters=inputs
        )
        for number, kind in enumerate(types)
    ]
    return WorkflowDef(name="steps", tasks=made)


@pytest.mark.parametrize("store", ["memory", "file"])
@pytest.mark.parametrize("clock", [None, "virtual"])
def test_all_that_happens(store: str, clock: str | None, tmp_path: Path) -> None:
    """The loop drives, gives each line once, and ends with the execution; from any line on it can be taken up."""
    file = None if store == "memory" else tmp_path / "events.db"
    with Engine(file, workers=WORKERS, clock=VirtualClock() if clock else None) as engine:
        run = engine.start(steps("work", "work" if clock is None else "WAIT", "work", duration="30 days"))
        lines = list(run.events())
        assert lines == list(run.history())
        assert run.status is WorkflowStatus.COMPLETED
        assert [list(run.events(after=line.n)) for line in lines] == [lines[number + 1 :] for number in range(len(lines))]
        engine.admin.archive(run.workflow_id)
        assert list(run.events(after=lines[2].n)) == lines[3:]


def test_it_waits_where_another_drives(tmp_path: Path) -> None:
    """A loop in this thread follows what a thread, and another process's engine, do."""
    file = tmp_path / "events.db"
    with Engine(file) as engine, Engine(file, workers=WORKERS) as other:
        run = engine.start(steps("work", "HUMAN", "work"))
        driver = threading.Thread(target=other.run_forever)
        driver.start()
        seen = []
        for line in run.events():
            seen.append(line)
            if (line.ref, line.status) == ("t1", "IN_PROGRESS"):
                other.signal(run.workflow_id, {"ok": True})
        other.stop()
        driver.join(20)
        assert seen == list(run.history())


def test_it_ends_and_begins_again() -> None:
    """After a failure it ends; after a retry it goes on. What cannot move is ResultTimeout, as for a result."""
    with Engine(workers=WORKERS, clock=VirtualClock()) as engine:
        run = engine.start(steps("broken"))
        first = list(run.events())
        assert (run.status, first[-1].status) == (WorkflowStatus.FAILED, "FAILED")
        run.retry()
        assert [line.status for line in run.events(after=first[-1].n)][-1] == "FAILED"
        stuck = engine.start(steps("HUMAN"))
        events = stuck.events()
        with pytest.raises(ResultTimeout):
            list(events)
        engine.admin.remove(run.workflow_id)
        with pytest.raises(ExecutionNotFound):
            next(run.events())
        with pytest.raises(WorkflowFailed):
            engine.start(steps("broken")).result()


@pytest.mark.parametrize("clock", [None, "virtual"])
def test_awaited(clock: str | None, tmp_path: Path) -> None:
    """`async for` gives the same; many follow at once, one is left early, one follows an execution that a worker waits for."""

    async def main() -> None:
        async with AsyncEngine(tmp_path / "events.db", workers=WORKERS, clock=VirtualClock() if clock else None) as engine:
            runs = [await engine.start(steps("work", "work")) for _ in range(5)]

            async def all_of(run: Any) -> list[Any]:
                return [line async for line in run.events()]

            async def some_of(run: Any) -> Any:
                async for line in run.events():
                    if line.ref == "t0":
                        return line
                return None

            found = await asyncio.gather(*map(all_of, runs), *map(all_of, runs), *map(some_of, runs))
            for number, run in enumerate(runs):
                history = list(await run.history())
                assert found[number] == found[number + 5] == history
                assert found[number + 10] in history
            assert [line async for line in runs[-1].events(after=history[-2].n)] == history[-1:]
            if clock is None:
                waits = await engine.start(steps("HUMAN", "work"))
                following = asyncio.create_task(all_of(waits))
                while not await waits.tasks:
                    await asyncio.sleep(0)
                await waits.signal({})
                assert await following == list(await waits.history())
                assert engine._bridge._awaited == {}

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_worker_follows_what_it_starts() -> None:
    """A function that follows another execution does not keep the driver from it."""
    workers = Workers().include(WORKERS)
    found: list[str] = []

    @workers.task("parent")
    def parent(context: TaskContext) -> None:
        run = engine.start(steps("work"), workflow_id="child")
        found.extend(line.status for line in run.events())

    with Engine(workers=workers) as engine:
        engine.start(steps("parent")).result("20s")
        assert found == [line.status for line in engine.history("child")]
