"""Callers that wait cost nothing while they wait: each is woken by its own execution, and reads nothing until then."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from conductorlite import AsyncEngine, Engine, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import EngineClosed, ExecutionNotFound, ResultTimeout, WorkflowFailed
from conductorlite.server.waiting import Waiting
from conductorlite.store.sqlite.backend import SQLiteBackend

HUMAN = WorkflowDef(name="human", tasks=[WorkflowTask(name="h", task_reference_name="h", type="HUMAN")])
WAITERS = 40


@contextmanager
def waiting_threads(engine: Engine, ids: list[str], wait: Callable[[str], object]) -> Iterator[dict[str, object]]:
    """A thread for each execution that waits for it, all asleep, beside one that drives; what each has found at the end."""
    found: dict[str, object] = {}
    driver = threading.Thread(target=engine.run_forever)
    driver.start()

    def thread(workflow_id: str) -> None:
        try:
            found[workflow_id] = wait(workflow_id)
        except Exception as error:
            found[workflow_id] = error

    threads = [threading.Thread(target=thread, args=(one,)) for one in ids]
    for one in threads:
        one.start()
    sleepers = engine.core.turns.awaited.sleepers
    while len(sleepers) + len(found) < len(ids):
        driver.join(0.001)
    yield found
    for one in threads:
        one.join(30)
    assert not any(one.is_alive() for one in threads), "a thread was not woken"
    assert not sleepers
    assert not engine.core.turns.awaited.by_execution
    engine.stop()
    driver.join(30)


def rows_read(backend: SQLiteBackend, act: Callable[[], object]) -> int:
    """How many rows an act has the store read."""
    assert backend.counts is not None
    before = backend.counts.rows_read
    act()
    return backend.counts.rows_read - before


@pytest.mark.parametrize("kind", ["result", "events"])
def test_a_commit_wakes_who_waits_for_its_execution_and_nobody_else(kind: str, tmp_path: Path) -> None:
    """Forty threads that wait read no row at twenty commits of another execution; the end of one wakes that one."""
    backend = SQLiteBackend(tmp_path / "orders.db", counting=True)
    engine = Engine(backend)
    other, *ids = [engine.start(HUMAN).workflow_id for _ in range(WAITERS + 1)]

    def wait(workflow_id: str) -> object:
        if kind == "result":
            return engine.result(workflow_id, "60s")
        return [line.n for line in engine.run(workflow_id).events()]

    def commit() -> None:
        for n in range(20):
            engine.update_variables(other, {"n": n})

    commit()
    alone = rows_read(backend, commit)
    with waiting_threads(engine, ids, wait) as found:
        # A thread that has just begun to wait looks once more: the fewest of three counts is what commits cost.
        beside = min(rows_read(backend, commit) for _ in range(3))
        assert found == {}
        assert len(engine.core.turns.awaited.by_execution) == WAITERS
        engine.signal(ids[7], {"by": "me"})
        while ids[7] not in found:
            threading.Event().wait(0.001)
        assert list(found) == [ids[7]]
        for one in ids[:7] + ids[8:]:
            engine.signal(one, {"by": "me"})
    assert beside < alone + WAITERS  # the driver looks after commits; none of those who wait has read a row
    expected: dict[str, object] = {one: {"by": "me"} if kind == "result" else [1, 2, 3, 4, 5] for one in ids}
    if kind == "events":
        expected = {one: [line.n for line in engine.history(one)] for one in ids}
    assert found == expected
    engine.close()


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_each_way_to_an_end_is_found(store: str, tmp_path: Path) -> None:
    """Whoever ends an execution, and however: completed, failed, terminated, removed after its end; many wait for the same."""
    engine = Engine(None if store == "memory" else tmp_path / "orders.db")
    ids = [engine.start(HUMAN).workflow_id for _ in range(4)]
    many = [f"{one} {n}" for one in ids for n in range(5)]
    with waiting_threads(engine, many, lambda each: engine.result(each.partition(" ")[0], "60s")) as found:
        engine.signal(ids[0], {"a": 1})
        engine.signal(ids[1], status="FAILED", reason="no")  # type: ignore[arg-type]
        engine.terminate(ids[2])
        with engine.transaction():
            engine.terminate(ids[3])
            engine.admin.remove(ids[3])
    kinds = {one: {type(found[f"{one} {n}"]) for n in range(5)} for one in ids}
    assert kinds[ids[0]] == {dict}
    assert kinds[ids[1]] == kinds[ids[2]] == {WorkflowFailed}
    assert kinds[ids[3]] <= {WorkflowFailed, ExecutionNotFound}
    engine.close()


def test_what_another_engine_commits_is_found(tmp_path: Path) -> None:
    """Executions that end on another engine's commits, as on another process's, wake who waits here: by one look for all."""
    backend = SQLiteBackend(tmp_path / "orders.db", counting=True)
    engine, other = Engine(backend), Engine(tmp_path / "orders.db")
    ids = [engine.start(HUMAN).workflow_id for _ in range(WAITERS)]
    with waiting_threads(engine, ids, lambda one: engine.result(one, "60s")) as found:
        for n, one in enumerate(ids):
            other.signal(one, {"n": n})
    assert found == {one: {"n": n} for n, one in enumerate(ids)}
    other.close()
    engine.close()


@pytest.mark.parametrize("clock", ["real", "virtual"])
def test_a_thread_that_waits_drives_when_the_driver_leaves(clock: str) -> None:
    """A driver that stops, or has its own result, is followed by one of those that sleep."""
    workers = Workers()

    @workers.task
    def a() -> dict[str, int]:
        return {"a": 1}

    engine = Engine(workers=workers, clock=VirtualClock(0) if clock == "virtual" else None)
    steps = [WorkflowTask(name="h", task_reference_name="h", type="HUMAN"), WorkflowTask(name="a", task_reference_name="a")]
    flow = WorkflowDef(name="w", tasks=steps)
    ids = [engine.start(flow).workflow_id for _ in range(8)]
    if clock == "real":
        with waiting_threads(engine, ids, lambda one: engine.result(one, "60s")) as found:
            engine.stop()
            for one in ids:
                engine.signal(one)
    else:
        found = {}
        for one in ids:
            engine.signal(one)
        threads = [threading.Thread(target=lambda one=one: found.update({one: engine.result(one, "60s")})) for one in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert found == {one: {"a": 1} for one in ids}
    engine.close()


def test_a_deadline_ends_a_wait_and_a_close_all_of_them() -> None:
    """ResultTimeout at its own time, and EngineClosed at once."""
    engine = Engine()
    ids = [engine.start(HUMAN).workflow_id for _ in range(5)]
    with waiting_threads(engine, ids, lambda one: engine.result(one, "1ms" if one == ids[3] else None)) as found:
        while ids[3] not in found:
            threading.Event().wait(0.001)
        assert list(found) == [ids[3]]
        engine.close()
    assert {type(one) for one in found.values()} == {ResultTimeout, EngineClosed}


def test_coroutines_that_wait_read_nothing(tmp_path: Path) -> None:
    """As threads: forty that await a result and forty that follow a journal read no row at commits of another execution."""
    backend = SQLiteBackend(tmp_path / "orders.db", counting=True)

    async def main() -> None:
        async with AsyncEngine(backend) as engine:
            other, *ids = [(await engine.start(HUMAN)).workflow_id for _ in range(WAITERS + 1)]

            async def commit() -> int:
                assert backend.counts is not None
                before = backend.counts.rows_read
                for n in range(20):
                    await engine.update_variables(other, {"n": n})
                return backend.counts.rows_read - before

            async def events(one: str) -> list[int]:
                return [line.n async for line in (await engine.run(one)).events()]

            await commit()
            async with engine.background():
                alone = await commit()
                results = [asyncio.create_task(engine.result(one, "60s")) for one in ids]
                follows = [asyncio.create_task(events(one)) for one in ids]
                awaited = engine._engine.core.turns.awaited.by_execution
                while sum(len(some) for some in awaited.copy().values()) < 2 * WAITERS:
                    await asyncio.sleep(0.001)
                while engine._bridge._verbs._jobs:  # the first looks of those that have come
                    await asyncio.sleep(0.001)
                assert await commit() < alone + WAITERS
                for one in ids:
                    await engine.signal(one, {"one": one})
                assert [await one for one in results] == [{"one": one} for one in ids]
                for one, follow in zip(ids, follows, strict=True):
                    assert await follow == [line.n for line in await engine.history(one)]
            assert not awaited

    asyncio.run(asyncio.wait_for(main(), 60))


def test_clients_that_wait_are_asked_for_when_something_of_theirs_was_committed() -> None:
    """A long call over REST looks again after a commit of an execution that it depends on, also of one far below it."""
    engine, looks = Engine(), list[str]()
    below = {"name": "human", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": "human", "version": 1}}
    engine.register(HUMAN, WorkflowDef.from_json({"name": "middle", "tasks": [below]}))
    top = {**below, "subWorkflowParam": {"name": "middle", "version": 1}}
    engine.register(WorkflowDef.from_json({"name": "top", "tasks": [top]}))
    other, ids = engine.start(HUMAN).workflow_id, [engine.start("top").workflow_id for _ in range(WAITERS)]
    engine.settle()

    async def main() -> None:
        api = Waiting(engine)
        chains = {one: [one] for one in ids}
        for chain in chains.values():
            for _ in range(2):
                chain.append(engine.admin.children(chain[-1])[0].workflow_id)

        def left(one: str) -> list[str]:
            looks.append(one)
            return [] if engine.status(one).terminal else chains[one]

        waits = [asyncio.create_task(api.until(one, partial(left, one), 60)) for one in ids]
        while len(engine.core.turns.awaited.by_execution) < 3 * WAITERS:
            await asyncio.sleep(0.001)
        await api.call(lambda: None)
        looks.clear()
        for n in range(20):
            await api.call(engine.update_variables, other, {"n": n})
        await asyncio.sleep(0)
        assert looks == []
        await api.call(engine.update_variables, chains[ids[5]][-1], {"n": 1})
        while not looks:
            await asyncio.sleep(0.001)
        assert set(looks) == {ids[5]}
        for one in ids:
            await api.call(engine.terminate, one)
        assert all([await wait for wait in waits])
        assert await api.until(other, lambda: [other], 0) is False
        assert not engine.core.turns.awaited.by_execution
        api.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    engine.close()
