"""What the garbage collector has to look at: again and again what a store in memory holds, and cycles, which only it can find."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from shapes import chain, fork, loop, step

from conductorlite import AsyncEngine, Engine, TaskResult, TaskStatus, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import WorkflowFailed

#: A task's row, and the documents that are its input and its output.
A_ROUND = 4

#: A branch's task as it is defined, the list in which it is alone, and its node: what leads to it are texts and numbers.
A_BRANCH = 3

#: Executions that are looked at.
EXECUTIONS = 10


def test_a_round_in_memory_leaves_few_objects() -> None:
    """A line of the journal is none of them: it is a tuple of texts and numbers."""
    rounds, workers = 100, Workers()
    workers.task("step")(step)
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        definition = loop(rounds)
        engine.start(definition, {"x": 1}).result()
        gc.collect()
        before = len(gc.get_objects())
        run = engine.start(definition, {"x": 1})
        run.result()
        gc.collect()
        assert len(gc.get_objects()) - before <= A_ROUND * rounds + 100
        assert len(list(engine.history(run.workflow_id))) >= 4 * rounds


def test_a_branch_leaves_few_objects_with_its_plan() -> None:
    """Counted in the second definition: the first has made what is made at its first use."""
    branches = 300
    with Engine(clock=VirtualClock()) as engine:

        def begin(definition: WorkflowDef) -> int:
            workflow_id = engine.start(definition, {"x": 1}).workflow_id
            engine.terminate(workflow_id)
            engine.admin.remove(workflow_id)
            del definition
            gc.collect()
            return len(gc.get_objects())

        before = begin(fork(2))
        after = begin(fork(branches))
        assert after - before <= A_BRANCH * branches + 150


async def astep() -> dict[str, Any]:
    """A step that is a coroutine."""
    return {"x": 1}


def fails() -> None:
    """A step that does not work."""
    raise ConnectionError("not today")


def by_hand(engine: Engine, definition: WorkflowDef) -> None:
    """Without a driver."""
    engine.start(definition, {"x": 1})
    while tasks := engine.poll("step", count=10):
        for task in tasks:
            engine.update_task(
                TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, lease=task.lease, status=TaskStatus.COMPLETED)
            )


def driven(engine: Engine, definition: WorkflowDef) -> None:
    """With one."""
    with suppress(WorkflowFailed):
        engine.start(definition, {"x": 1}).result(timeout="20s")


def together(engine: Engine, definition: WorkflowDef) -> None:
    """Many at once, which share their writes."""
    engine.start_many(definition, [{"x": 1}] * 10)
    engine.run_until_idle(timeout="20s")


@contextmanager
def nothing_found() -> Iterator[None]:
    """What is let go within is gone without the collector."""
    gc.collect()
    gc.freeze()  # what was there before may be let go here by others
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = {type(each).__qualname__ for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not kinds


@pytest.mark.parametrize("virtual", [True, False], ids=["virtual", "real"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(
    ("shape", "act", "function"),
    [
        pytest.param(chain, driven, step, id="chain"),
        pytest.param(fork, driven, step, id="fork"),
        pytest.param(loop, driven, step, id="loop"),
        pytest.param(chain, driven, astep, id="coroutine"),
        pytest.param(chain, driven, fails, id="failing"),
        pytest.param(chain, together, step, id="together"),
        pytest.param(chain, by_hand, None, id="by hand"),
    ],
)
def test_a_turn_leaves_no_cycle(
    shape: Callable[[int], WorkflowDef],
    act: Callable[[Engine, WorkflowDef], None],
    function: Callable[..., object] | None,
    store: str,
    virtual: bool,
    tmp_path: Path,
) -> None:
    """In whatever way it is taken: what it read and wrote is gone with it, unless the store holds it."""
    workers, definition = Workers(), shape(3)
    if function is not None:
        workers.task("step", retry_count=2, retry_delay_seconds=1 if virtual else 0)(function)
    clock = VirtualClock() if virtual else None
    with Engine(tmp_path / "s.db" if store == "sqlite" else None, workers=workers, clock=clock) as engine:
        act(engine, definition)
        with nothing_found():
            for _ in range(EXECUTIONS):
                act(engine, definition)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_an_awaited_turn_leaves_no_cycle(store: str, tmp_path: Path) -> None:
    """Neither does one of an AsyncEngine."""

    async def live() -> None:
        workers, definition = Workers(), chain(3)
        workers.task("step")(astep)
        async with AsyncEngine(tmp_path / "s.db" if store == "sqlite" else None, workers=workers) as engine:
            await (await engine.start(definition, {"x": 1})).result(timeout="20s")
            with nothing_found():
                for _ in range(EXECUTIONS):
                    await (await engine.start(definition, {"x": 1})).result(timeout="20s")

    asyncio.run(live())
