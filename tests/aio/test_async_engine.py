"""AsyncEngine: the verbs awaited, results without a thread each, and a loop that is never blocked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    Engine,
    ResultTimeout,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowFailed,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import EngineClosed
from conductorlite.runtime.aio import AsyncEngine

#: Generous bound of every wait on the machine's clock, seconds.
PATIENCE = 20.0


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """A coroutine on a loop of its own, bounded in time."""

    async def bounded() -> Any:
        return await asyncio.wait_for(main, PATIENCE * 3)

    return asyncio.run(bounded())


def chain(*names: str) -> WorkflowDef:
    """Tasks one after another, each adding to the `n` of the one before."""
    source, tasks = "${workflow.input.n}", []
    for index, name in enumerate(names):
        ref = f"t{index}"
        tasks.append(WorkflowTask(name=name, task_reference_name=ref, input_parameters={"n": source}))
        source = f"${{{ref}.output.n}}"
    return WorkflowDef(name="chain", tasks=tasks, output_parameters={"n": source})


def adders() -> Workers:
    """A plain and a coroutine function that add one."""
    workers = Workers()

    @workers.task("plain")
    def plain(n: int) -> dict[str, int]:
        return {"n": n + 1}

    @workers.task("awaited")
    async def awaited(n: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": n + 1}

    return workers


FIVE = ("awaited", "plain", "awaited", "plain", "awaited")


@pytest.mark.parametrize("background", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_hundred_requests_that_each_start_and_await_five_steps(tmp_path: Path, background: bool) -> None:
    """100 concurrent starts and awaited results on SQLite: every one right, no busy error, a bounded number of threads."""
    most = 0

    async def request(engine: AsyncEngine, definition: WorkflowDef, n: int) -> int:
        nonlocal most
        handle = await engine.start(definition, {"n": n})
        most = max(most, threading.active_count())
        result = await handle.result(timeout="60s")
        return int(result["n"])

    async def main() -> list[int]:
        async with AsyncEngine(tmp_path / "web.db", workers=adders()) as engine:
            requests = [request(engine, chain(*FIVE), n) for n in range(100)]
            if background:
                async with engine.background():
                    answers = await asyncio.gather(*requests)
            else:
                answers = await asyncio.gather(*requests)
            assert await engine.admin.check() == []
            return list(answers)

    before = threading.active_count()
    assert run(main()) == [n + 5 for n in range(100)]
    # Four for verbs, one that drives, at most 32 for plain functions.
    assert most - before <= 4 + 1 + 32


def test_coroutines_run_on_the_callers_loop_and_may_await_each_other() -> None:
    """An `async def` worker sees the running loop, and can await the result of an execution that it starts."""

    async def main() -> None:
        workers = adders()
        loops: list[asyncio.AbstractEventLoop] = []

        @workers.task("nesting")
        async def nesting(n: int) -> dict[str, Any]:
            loops.append(asyncio.get_running_loop())
            inner = await engine.start(chain("awaited"), {"n": n})
            return await inner.result(timeout="20s")

        async with AsyncEngine(workers=workers) as engine:
            outer = await engine.start(chain("nesting"), {"n": 1})
            assert await outer.result(timeout="20s") == {"n": 2}
        assert loops == [asyncio.get_running_loop()]

    run(main())


def test_waiting_uses_no_threads() -> None:
    """100 results awaited at once start no thread per waiter, and all are woken by commits of other verbs."""

    async def main() -> None:
        async with AsyncEngine() as engine:
            handles = [await engine.start(chain("by_hand"), {"n": n}) for n in range(100)]
            results = [asyncio.ensure_future(handle.result()) for handle in handles]
            await asyncio.sleep(0)
            assert threading.active_count() - before <= 5
            for task in await engine.poll("by_hand", count=100):
                report = TaskResult(
                    workflow_id=task.workflow_id,
                    task_id=task.task_id,
                    status=TaskStatus.COMPLETED,
                    output_data=task.input_data,
                    lease=task.lease,
                )
                await engine.update_task(report)
            assert [result["n"] for result in await asyncio.gather(*results)] == list(range(100))
            assert threading.active_count() - before <= 5

    before = threading.active_count()
    run(main())


def test_an_execution_that_another_engine_ends(tmp_path: Path) -> None:
    """A result is found although another connection committed the end."""

    async def main() -> None:
        async with AsyncEngine(tmp_path / "shared.db") as engine:
            handle = await engine.start(chain("awaited"), {"n": 1})
            awaited = asyncio.ensure_future(handle.result(timeout="20s"))
            with Engine(tmp_path / "shared.db", workers=adders()) as other:
                await asyncio.to_thread(other.run_until_idle, "20s")
            assert await awaited == {"n": 2}

    run(main())


def test_a_result_that_does_not_come() -> None:
    """Time-outs, failures and closing each end the waiting with the error that `Engine` raises."""

    async def main() -> None:
        async with AsyncEngine() as engine:
            handle = await engine.start(chain("by_hand"), {"n": 1})
            with pytest.raises(ResultTimeout, match="t0"):
                await handle.result(timeout="10ms")
            awaited = asyncio.ensure_future(handle.result())
            await asyncio.sleep(0)
            await engine.terminate(handle.workflow_id, "enough")
            with pytest.raises(WorkflowFailed, match="enough"):
                await awaited
            assert await handle.status is WorkflowStatus.TERMINATED
            assert (await handle.workflow).workflow_id == handle.workflow_id
            other = await engine.start(chain("by_hand"), {"n": 1})
            left = asyncio.ensure_future(other.result())
            await asyncio.sleep(0)
        with pytest.raises(EngineClosed):
            await left
        with pytest.raises(EngineClosed):
            await engine.get(handle.workflow_id)
        await engine.close()

    run(main())


def test_canceling_who_awaits_leaves_the_others() -> None:
    """One canceled request harms neither the engine nor another that awaits the same execution."""

    async def main() -> None:
        began, go = asyncio.Event(), asyncio.Event()
        workers = Workers()

        @workers.task("held")
        async def held(n: int) -> dict[str, int]:
            began.set()
            await go.wait()
            return {"n": n}

        async with AsyncEngine(workers=workers) as engine:
            handle = await engine.start(chain("held"), {"n": 7})
            one, two = (asyncio.ensure_future(handle.result()) for _ in range(2))
            await began.wait()
            one.cancel()
            await asyncio.wait([one])
            assert one.cancelled()
            go.set()
            assert await two == {"n": 7}

    run(main())


def test_a_lost_lease_cancels_the_coroutine() -> None:
    """Terminating an execution cancels the coroutine that works for it, and its task's log says so."""

    async def main() -> None:
        began, canceled = asyncio.Event(), asyncio.Event()
        workers = Workers()

        @workers.task("endless")
        async def endless() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                canceled.set()

        async with AsyncEngine(workers=workers) as engine, engine.background():
            handle = await engine.start(chain("endless"))
            await began.wait()
            await engine.terminate(handle.workflow_id)
            await canceled.wait()
            with pytest.raises(WorkflowFailed):
                await handle.result()

    run(main())


def test_driving_verbs_take_turns_with_those_who_await() -> None:
    """`run_until_idle` gets its turn while a result is awaited, and canceling `run_forever` does not stop the next driver."""

    async def main() -> None:
        async with AsyncEngine(workers=adders()) as engine:
            stuck = await engine.start(chain("by_hand"), {"n": 1})
            awaited = asyncio.ensure_future(stuck.result())
            await asyncio.sleep(0)
            forever = asyncio.ensure_future(engine.run_forever())
            handle = await engine.start(chain(*FIVE), {"n": 1})
            assert await handle.result(timeout="20s") == {"n": 6}
            forever.cancel()
            await asyncio.wait([forever])
            assert forever.cancelled()
            assert await engine.settle() == 0
            handle = await engine.start(chain(*FIVE), {"n": 2})
            assert await handle.result(timeout="20s") == {"n": 7}
            awaited.cancel()

    run(main())


def test_virtual_time() -> None:
    """On a virtual clock thirty days pass at once, with coroutine functions on the caller's loop."""

    async def main() -> None:
        clock = VirtualClock(0)
        wait = WorkflowTask(name="w", task_reference_name="w", type="WAIT", input_parameters={"duration": "30 days"})
        definition = WorkflowDef(name="month", tasks=[wait, *chain("awaited").tasks])
        async with AsyncEngine(workers=adders(), clock=clock) as engine:
            first, second = [await engine.start(definition, {"n": n}) for n in range(2)]
            assert await asyncio.gather(first.result(), second.result(timeout="31d")) == [{"n": 1}, {"n": 2}]
            assert clock.now() == 30 * 86_400_000
            third = await engine.start(definition, {"n": 1})
            await engine.advance("29d")
            assert await third.status is WorkflowStatus.RUNNING
            assert await engine.run_until_idle()
            assert await third.status is WorkflowStatus.COMPLETED
            assert [one async for one in engine.admin.workflow_ids()] == sorted(
                handle.workflow_id for handle in (first, second, third)
            )

    run(main())


def test_one_engine_on_one_loop_after_another() -> None:
    """An engine made outside of any loop serves several loops, one after another."""
    engine = AsyncEngine(workers=adders())

    async def once(n: int) -> Any:
        return await (await engine.start(chain("awaited"), {"n": n})).result(timeout="20s")

    assert [run(once(n)) for n in range(2)] == [{"n": 1}, {"n": 2}]
    run(engine.close())


def test_long_polls_hold_no_threads() -> None:
    """Ten long polls wait at once while other verbs go on; one of them gets the task as soon as there is one."""

    async def main() -> None:
        async with AsyncEngine() as engine:
            polls = [asyncio.ensure_future(engine.poll("by_hand", timeout="30s")) for _ in range(10)]
            await asyncio.sleep(0)
            handle = await engine.start(chain("by_hand"), {"n": 1})
            done, rest = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
            assert [task.workflow_id for poll in done for task in poll.result()] == [handle.workflow_id]
            for poll in rest:
                poll.cancel()
            assert await engine.poll("by_hand", timeout="1ms") == []

    run(main())
