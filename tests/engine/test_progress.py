"""How far an execution has come, and what a handle can do."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from conductorlite import AsyncEngine, Engine, TaskDef, VirtualClock, WorkflowStatus, flow, task
from conductorlite.flows import each, human, otherwise, parallel, repeat, when


@task
def step(number: int) -> int:
    """Nothing but a number."""
    return number


@task
def numbers(count: int) -> list[int]:
    """A list."""
    return list(range(count))


@task
def counted(found: list[int]) -> int:
    """How many."""
    return len(found)


@flow
def work(count: int, long: bool) -> int:
    """A list, a person, cases, branches, a loop."""
    found = each(numbers(count), step)
    human("look", bool)
    with when(long):
        with repeat(3):
            step.options(name="again")(1)
        parallel(step.options(name="a")(1), step.options(name="b")(2))
    with otherwise():
        step.options(name="short")(0)
    return counted(found)


def test_what_is_done_and_what_is_ahead(tmp_path: Path) -> None:
    """Cases count when they are taken; branches and rounds when they are there; a restart changes nothing."""
    clock = VirtualClock(0)
    with Engine(tmp_path / "p.db", workers=[work], clock=clock) as engine:
        run = engine.start(work, count=4, long=True)
        before = run.progress()
        assert (before.done, before.fraction, before.remaining_ms) == (0, 0.0, None)
        engine.settle()
        engine.advance("10s")
        there = run.progress()
        # numbers, fork, four steps, join | look | switch, last
        assert (there.done, there.total, there.running, there.elapsed_ms) == (7, 10, ("look",), 10_000)
        assert there.remaining_ms == 10_000 * 3 // 7
        assert there.by_step["step"] == {"COMPLETED": 4}
        assert there.by_status == {"COMPLETED": 7, "IN_PROGRESS": 1}
        assert str(there) == "RUNNING: 7 of 10 tasks (70%): 7 COMPLETED, 1 IN_PROGRESS"
    with Engine(tmp_path / "p.db", workers=[work], clock=clock) as engine:
        run = engine.run(run.workflow_id)
        assert run.progress() == there
        run.signal({"result": True}, task="look")
        engine.settle()
        end = run.progress()
        assert (end.status, end.fraction, end.remaining_ms, end.running) == (WorkflowStatus.COMPLETED, 1.0, None, ())
        assert end.done == end.total == len({row.ref for row in run.tasks})


@given(count=st.integers(0, 4), long=st.booleans(), units=st.integers(0, 60))
def test_it_never_counts_more_than_there_is(count: int, long: bool, units: int) -> None:
    """At every instant 0 ≤ done ≤ total and what runs is open; the fraction is 1 at the end alone."""
    with Engine(workers=[work], clock=VirtualClock(0)) as engine:
        run = engine.start(work, count=count, long=long)
        for unit in range(units):
            if not engine.tick() and run.progress().running:
                run.signal({"result": True})
            found = run.progress()
            assert 0 <= found.done <= found.total, unit
            assert sum(found.by_status.values()) == sum(sum(one.values()) for one in found.by_step.values())
            assert (found.fraction == 1.0) == (found.status is WorkflowStatus.COMPLETED)
            assert set(found.running) == {row.ref for row in run.tasks if row.live}


def test_the_verbs_of_a_handle() -> None:
    """Each is the engine's verb on this execution."""
    with Engine(workers=[work], clock=VirtualClock(0)) as engine:
        run = engine.start(work, count=1, long=False)
        run.pause()
        assert run.status is WorkflowStatus.PAUSED
        run.resume()
        engine.settle()
        assert "look" in str(run.explain())
        run.terminate("enough")
        assert (run.status, run.workflow.reason) == (WorkflowStatus.TERMINATED, "enough")
        assert [line for line in run.history() if line.reason == "enough"] != []
        run.retry()
        engine.settle()
        assert run.signal({"result": True}).status.terminal
        engine.settle()
        assert run.progress().fraction == 1.0


def test_the_verbs_of_an_awaited_handle() -> None:
    """The same, awaited."""

    async def main() -> None:
        async with AsyncEngine(workers=[work], clock=VirtualClock(0)) as engine:
            run = await engine.start(work, count=1, long=False)
            await engine.settle()
            assert (await run.progress()).running == ("look",)
            await run.pause()
            await run.resume()
            await run.signal({"result": True})
            assert await run.result(timeout="1s") == 1
            assert len(await run.tasks) == len((await run.workflow).tasks)

    asyncio.run(main())


def test_short_texts_of_objects() -> None:
    """What is printed of rows and definitions fits a line or says only what was written."""
    with Engine(workers=[work], clock=VirtualClock(0)) as engine:
        run = engine.start(work.options(workflow_id="w-1"), count=1, long=False)
        engine.settle()
        assert repr(run) == "Run('w-1')"
        assert repr(run.workflow) == "<Workflow 'w-1' 'work' version 1 RUNNING, 5 attempts>"
        assert repr(run.workflow.task("numbers")) == "<Task 'numbers' attempt 0 COMPLETED of 'w-1'>"
        run.terminate("x" * 200)
        assert len(repr(run.workflow)) < 200
    given = "input_parameters={'found': '${each_step_join.output[*].result}'}"
    assert repr(work.definition.tasks[-1]) == f"WorkflowTask(name='counted', task_reference_name='counted', {given})"
    assert repr(TaskDef(name="x", retry_count=3)) == "TaskDef(name='x', retry_count=3)"


@flow
def spread(count: int) -> int:
    """A list, and a task for each of its items."""
    return counted(each(numbers(count), step))


def test_the_branches_of_a_list_count_as_soon_as_it_is_known(tmp_path: Path) -> None:
    """The total of a wide fan-out is known with the list, though its tasks are created some thousand at a time."""
    with Engine(tmp_path / "p.db", workers=[spread], clock=VirtualClock(0)) as engine:
        run = engine.start(spread, count=2_500)
        totals, created = {run.progress().total}, {0}

        def look(*_: object) -> None:
            progress = run.progress()
            totals.add(progress.total)
            created.add(sum(progress.by_step.get("step", {}).values()))

        engine.listen(look)
        while max(created) < 2_500:
            assert engine.tick()
        assert totals == {4, 2_504}
        assert len(created) > 2
