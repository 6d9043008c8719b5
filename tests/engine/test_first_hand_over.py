"""The turn that an execution begins with hands its first tasks over, if its caller is about to drive, or a driver rests.

It gives what a poll at that instant would, or nothing; a function is called once its lease is committed; and nothing is leased that
nobody in this process carries out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from engine_kit import PATIENCE, T0, flow, fork, join, simple, task_def

from conductorlite import (
    AsyncEngine,
    Engine,
    EngineConfig,
    TaskContext,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.engine.turn_types import Taking
from conductorlite.errors import AlreadyExists, ResultTimeout, StorageError, WorkflowFailed
from conductorlite.model.canonical import canonical
from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, Capability
from conductorlite.testing import ScriptedWorkers, crash_everywhere, start_once
from conductorlite.testing.faults import FaultyBackend, lay_empty_store


def chain(length: int, name: str = "chain") -> WorkflowDef:
    """Tasks of one type, one after another."""
    return WorkflowDef.from_json(
        {"name": name, "tasks": [{"name": "step", "taskReferenceName": f"t{i}", "type": "SIMPLE"} for i in range(length)]}
    )


def stepping(called: list[str] | None = None, concurrency: int = 1) -> Workers:
    """One worker, which notes its calls."""
    workers = Workers(concurrency=concurrency)

    @workers.task("step")
    def step(context: TaskContext) -> dict[str, Any]:
        if called is not None:
            called.append(f"{context.task.workflow_id}:{context.task.ref}")
        return {"x": 1}

    return workers


def delivered(engine: Engine) -> None:
    """Have what is addressed elsewhere arrive, in a store that does that later."""
    with engine.backend.reading() as view:
        items = view.outbox.items(64)
    if items:
        with engine.backend.writing() as tx:
            tx.outbox.deliver(items)


def test_the_start_takes_one_commit_with_the_first_hand_over(store: Backend) -> None:
    """A chain of ten takes eleven commits, and its record is that of one that was started and driven."""
    records, commits = [], []
    for verb in ("start", "start_and_wait"):
        with Engine(MemoryBackend(), workers=stepping(), clock=VirtualClock(T0)) as engine:
            engine.start_and_wait(chain(10))  # its definition is stored, the poll noted
            before = engine.backend.commits()
            if verb == "start":
                engine.start(chain(10), {"a": 1}, workflow_id="w").result()
            else:
                engine.start_and_wait(chain(10), {"a": 1}, workflow_id="w")
            commits.append(engine.backend.commits() - before)
            records.append(canonical(engine.admin.export("w")))
    assert records[0] == records[1]
    assert commits == [12, 11]
    with Engine(store, workers=stepping()) as engine:  # on a real clock, in the driver's threads
        engine.start_and_wait(chain(10))
        before = engine.backend.commits()
        assert engine.start_and_wait(chain(10)) == {"x": 1}
        assert engine.backend.commits() - before <= 11 or Capability.IMMEDIATE not in store.capabilities
        assert engine.admin.check() == []


def test_every_branch_that_there_is_room_for_is_handed_over(store: Backend) -> None:
    """Of a fork at the beginning, on a real clock, as many as may run."""
    workers = Workers(concurrency=3)
    seen: list[list[str]] = []
    lock = threading.Lock()

    @workers.task("step")
    def step(context: TaskContext) -> None:
        with lock:
            if not seen:
                seen.append([str(task.status) for task in engine.get("w").tasks if task.task_type == "step"])

    branches = [[WorkflowTask(name="step", task_reference_name=f"t{n}")] for n in range(5)]
    definition = flow(fork("f", *branches), join("j", *(f"t{n}" for n in range(5))))
    with Engine(store, workers=workers) as engine:
        engine.start_and_wait(definition, workflow_id="w", timeout="20s")
        assert seen[0].count("SCHEDULED") <= 2
        assert engine.admin.check() == []


@pytest.mark.parametrize("priority", [0, 3])
def test_what_waits_longer_or_is_more_urgent_comes_first(store: Backend, priority: int) -> None:
    """The start then hands nothing over: a poll would have given another execution's task."""
    called: list[str] = []
    with Engine(store, workers=stepping(called), clock=VirtualClock(T0)) as engine:
        engine.start(chain(1), workflow_id="b", priority=priority)
        delivered(engine)
        engine.clock.move_to(T0 + 1)  # type: ignore[attr-defined]
        engine.start_and_wait(chain(2), workflow_id="a")
        assert called == ["b:t0", "a:t0", "a:t1"]


def test_more_urgent_than_what_waits_it_is_handed_over(store: Backend) -> None:
    """As a poll would give it."""
    called: list[str] = []
    with Engine(store, workers=stepping(called), clock=VirtualClock(T0)) as engine:
        engine.start(chain(1), workflow_id="b")
        delivered(engine)
        engine.clock.move_to(T0 + 1)  # type: ignore[attr-defined]
        engine.start_and_wait(chain(1), workflow_id="a", priority=9)
        engine.run_until_idle()
        assert called == ["a:t0", "b:t0"]


def test_what_another_engine_has_put_into_the_queue_comes_first(tmp_path: Path) -> None:
    """That the queue was empty is compared in the write."""
    called: list[str] = []
    path = lay_empty_store(tmp_path / "store.db")
    with Engine(path, workers=stepping(called)) as engine, Engine(path) as other:
        engine.start_and_wait(chain(1))
        called.clear()
        other.start(chain(1), workflow_id="a")
        engine.start_and_wait(chain(1), workflow_id="b")
        engine.run_until_idle()
        assert called == ["a:t0", "b:t0"]


def ways_not_to_be_handed_over() -> list[Any]:
    """What is started, and why no poll at that instant would give its first task."""
    limited = flow(simple("step", {"concurrent_exec_limit": 1}), name="limited")
    return [
        pytest.param(flow(simple("other")), {}, id="no worker"),
        pytest.param(chain(1), {"delay": "1s"}, id="later"),
        pytest.param(chain(1), {"task_to_domain": {"step": "east"}}, id="another domain"),
        pytest.param(limited, {}, id="no slot"),
    ]


@pytest.mark.parametrize(("definition", "options"), ways_not_to_be_handed_over())
def test_what_no_poll_would_give_is_not_handed_over(store: Backend, definition: WorkflowDef, options: dict[str, Any]) -> None:
    """Nothing is leased then, and who waits is told as ever."""
    with Engine(store, workers=stepping(), clock=VirtualClock(T0)) as engine:
        if definition.name == "limited":
            engine.register(task_def("step", concurrent_exec_limit=1))
            engine.start(definition, workflow_id="first")
            delivered(engine)
            assert engine.poll("step", worker_id="elsewhere")
        with pytest.raises(ResultTimeout):
            engine.start_and_wait(definition, workflow_id="w", timeout="500ms", **options)
        assert {str(task.status) for task in engine.get("w").tasks} <= {"SCHEDULED", "PENDING"}
        assert all(task.poll_count == 0 for task in engine.get("w").tasks)


def test_another_engines_workers_are_not_asked(store: Backend) -> None:
    """What an engine keeps to its own is in queues of its own."""
    called: list[str] = []
    config = EngineConfig(name="a", allocation="local")
    with Engine(store, workers=stepping(called), clock=VirtualClock(T0), config=config) as engine:
        engine.start_and_wait(chain(2), workflow_id="w")
        assert called == ["w:t0", "w:t1"]
        assert [task.holder for task in engine.get("w").tasks] == [None, None]


def test_who_waits_no_longer_leaves_nothing_leased(store: Backend) -> None:
    """A wait that is over at once gives back what the start has handed over; whoever drives next carries it out."""
    called: list[str] = []
    with Engine(store, workers=stepping(called)) as engine:
        with pytest.raises(ResultTimeout):
            engine.start_and_wait(chain(1), workflow_id="w", timeout="0s")
        assert called == []
        assert engine.get("w").tasks[0].status is TaskStatus.SCHEDULED
        engine.run_until_idle()
        assert called == ["w:t0"]
        assert engine.status("w").value == "COMPLETED"
        assert engine.admin.check() == []


def test_a_start_hands_nothing_over(store: Backend) -> None:
    """Nobody may ever drive here."""
    with Engine(store, workers=stepping(), clock=VirtualClock(T0)) as engine:
        engine.start(chain(1), workflow_id="w")
        assert engine.get("w").tasks[0].status is TaskStatus.SCHEDULED


def test_inside_a_function_nothing_is_handed_over() -> None:
    """The function that waits is what the driver is about: it polls for what the function waits for."""
    workers = stepping(concurrency=2)
    first: dict[str, list[str]] = {}

    @workers.task("outer")
    def outer() -> dict[str, Any]:
        return engine.start_and_wait(chain(1), workflow_id="inner")

    with Engine(workers=workers, clock=VirtualClock(T0)) as engine:
        engine.listen(lambda row, lines: first.setdefault(row.workflow_id, [str(line.status) for line in lines]))
        assert engine.start_and_wait(flow(simple("outer")), workflow_id="w") == {"x": 1}
    assert first == {"w": ["RUNNING", "SCHEDULED", "IN_PROGRESS"], "inner": ["RUNNING", "SCHEDULED"]}


def test_a_start_that_is_refused_hands_nothing_over(store: Backend) -> None:
    """One with a key that is taken, or an id that is there."""
    called: list[str] = []
    with Engine(store, workers=stepping(called), clock=VirtualClock(T0)) as engine:
        engine.start_and_wait(chain(1), workflow_id="w", idempotency_key="k")
        assert engine.start_and_wait(chain(1), idempotency_key="k") == {"x": 1}
        with pytest.raises(AlreadyExists):
            engine.start_and_wait(chain(1), workflow_id="w")
        assert called == ["w:t0"]
        assert engine.admin.check() == []


def test_while_another_thread_drives_it_polls() -> None:
    """Nothing is handed over to two, and nobody waits for ever."""
    called: list[str] = []
    with Engine(workers=stepping(called)) as engine:
        driver = threading.Thread(target=engine.run_forever)
        driver.start()
        try:
            threads = [
                threading.Thread(target=engine.start_and_wait, args=(chain(3),), kwargs={"workflow_id": f"w{n}", "timeout": "20s"})
                for n in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
        finally:
            engine.stop()
            driver.join(PATIENCE)
        assert sorted(called) == [f"w{n}:t{t}" for n in range(8) for t in range(3)]
        assert {task.poll_count for n in range(8) for task in engine.get(f"w{n}").tasks} == {1}
        assert engine.admin.check() == []


def test_no_worker_runs_before_its_first_lease_is_committed() -> None:
    """Whichever write fails: a function that is called holds the lease that is stored, and all ends well."""
    leases: list[tuple[TaskStatus, int, int]] = []
    workers = Workers()

    @workers.task("step")
    def step(context: TaskContext) -> None:
        (held,) = [task for task in engine.get(context.task.workflow_id).tasks if task.task_id == context.task.task_id]
        leases.append((held.status, held.lease, context.task.lease))

    writes, number = 2, 1
    while number <= writes:
        backend = FaultyBackend(MemoryBackend(), fail_before=number)
        with Engine(backend, workers=workers, clock=VirtualClock(T0)) as engine:
            for _ in range(3):
                with suppress(StorageError, AlreadyExists):
                    engine.start_and_wait(chain(2), workflow_id="w")
            engine.run_until_idle()
            assert engine.status("w").value == "COMPLETED"
            assert engine.admin.check() == []
        writes, number = backend.writes, number + 1
    assert {(status, stored == held) for status, stored, held in leases} == {(TaskStatus.IN_PROGRESS, True)}


# -- beside a driver that rests -----------------------------------------------------------------------------------------


@contextmanager
def driven(engine: Engine) -> Iterator[threading.Thread]:
    """A driver in another thread, which rests."""
    driver = threading.Thread(target=engine.run_forever)
    driver.start()
    try:
        while not engine.driver.beginnings.rests:
            time.sleep(0.001)
        yield driver
    finally:
        engine.stop()
        driver.join(PATIENCE)
        engine.driver.forget_stop()  # it may have ended before


def first_lines(engine: Engine) -> dict[str, list[str]]:
    """What the first commit of each execution has written into its journal."""
    first: dict[str, list[str]] = {}
    engine.listen(lambda row, lines: first.setdefault(row.workflow_id, [str(line.status) for line in lines]))
    return first


def test_a_driver_that_rests_lends_a_worker_to_a_start(store: Backend) -> None:
    """The first task is handed out in the commit of the start, and carried out by the driver."""
    called: list[str] = []
    with Engine(store, workers=stepping(called)) as engine:
        first = first_lines(engine)
        with driven(engine):
            assert engine.start(chain(3), workflow_id="w").result(timeout="20s") == {"x": 1}
        assert first["w"] == ["RUNNING", "SCHEDULED", "IN_PROGRESS"]
        assert called == ["w:t0", "w:t1", "w:t2"]
        assert {task.poll_count for task in engine.get("w").tasks} == {1}
        assert engine.admin.check() == []


def test_a_driver_that_has_ended_meanwhile_carries_nothing_out(store: Backend) -> None:
    """What the start was handed is offered again."""
    called: list[str] = []
    with Engine(store, workers=stepping(called)) as engine:
        first = first_lines(engine)
        with driven(engine) as driver:
            begin = engine.driver.beginnings.beginning(False)

            def begun(turn: Callable[[Taking | None], object]) -> None:
                def ending(taking: Taking | None) -> None:
                    turn(taking)
                    engine.stop()
                    driver.join(PATIENCE)

                begin(ending)

            request = StartWorkflowRequest(name="chain", workflow_def=chain(1))
            engine.core.control.start(request, workflow_id="w", at=None, delay=None, begin=begun)
        assert first["w"] == ["RUNNING", "SCHEDULED", "IN_PROGRESS"]
        assert called == []
        assert engine.get("w").tasks[0].status is TaskStatus.SCHEDULED
        engine.run_until_idle()
        assert called == ["w:t0"]


def test_a_worker_that_is_lent_is_lent_to_nobody_else() -> None:
    """A start that comes while another one's turn is under way hands nothing over."""
    with Engine(workers=stepping()) as engine:
        first = first_lines(engine)
        with driven(engine):
            begin = engine.driver.beginnings.beginning(False)

            def begun(turn: Callable[[Taking | None], object]) -> None:
                def with_another(taking: Taking | None) -> None:
                    assert taking is not None
                    other = threading.Thread(target=engine.start, args=(chain(1),), kwargs={"workflow_id": "v"})
                    other.start()
                    other.join(PATIENCE)
                    turn(taking)

                begin(with_another)

            request = StartWorkflowRequest(name="chain", workflow_def=chain(1))
            engine.core.control.start(request, workflow_id="w", at=None, delay=None, begin=begun)
            for one in "vw":
                engine.result(one, timeout="20s")
        assert first["v"] == ["RUNNING", "SCHEDULED"]
        assert engine.admin.check() == []


@pytest.mark.parametrize("concurrency", [1, 2])
def test_no_more_run_than_may_however_many_start(concurrency: int) -> None:
    """A worker that is lent counts as one that runs."""
    workers, lock, running, most = Workers(concurrency=concurrency), threading.Lock(), [0], [0]

    @workers.task("step")
    def step() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.002)
        with lock:
            running[0] -= 1

    with Engine(workers=workers) as engine, driven(engine):
        ids = [f"w{n}" for n in range(40)]

        def start(some: list[str]) -> None:
            for one in some:
                engine.start(chain(2), workflow_id=one)
                time.sleep(0.003)

        threads = [threading.Thread(target=start, args=(ids[n::4],)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        for one in ids:
            engine.result(one, timeout="20s")
        assert most[0] <= concurrency
        assert {task.poll_count for one in ids for task in engine.get(one).tasks} == {1}
        assert engine.admin.check() == []


def test_an_async_engine_lends_its_driver_too() -> None:
    """As `background` drives."""

    async def main() -> dict[str, list[str]]:
        async with AsyncEngine(workers=stepping()) as engine:
            first = first_lines(engine._engine)
            async with engine.background():
                while not engine._engine.driver.beginnings.rests:
                    await asyncio.sleep(0.001)
                run = await engine.start(chain(2), workflow_id="w")
                assert await run.result("20s") == {"x": 1}
            return first

    assert asyncio.run(main())["w"] == ["RUNNING", "SCHEDULED", "IN_PROGRESS"]


# -- deaths -------------------------------------------------------------------------------------------------------------

POLICY = {"response_timeout_s": 10, "timeout_s": 120, "poll_timeout_s": 60, "retry_count": 5, "retry_delay_s": 5}
ORDER = flow(
    fork("f", [simple("a", POLICY)], [simple("b", POLICY)]),
    join("j", "a", "b"),
    simple("c", POLICY),
    name="order",
)


def script(workers: ScriptedWorkers) -> None:
    """The world outside: one call is in vain."""
    for name in "ab":
        getattr(workers, name).returns({"by": name})
    workers.c.fails(1, reason="503").then.returns({"by": "c"})


def scenario(engine: Engine) -> None:
    """Begun by a caller who waits, unless it was begun."""
    try:
        engine.start_and_wait(ORDER, workflow_id="w")
    except AlreadyExists:
        start_once(engine, ORDER, workflow_id="w").result()
    with suppress(WorkflowFailed):
        engine.start_and_wait(ORDER, idempotency_key="k")


@pytest.mark.parametrize("store", ["memory", "relay", "sqlite"])
def test_a_death_at_any_write_of_a_start_with_its_hand_over(store: str) -> None:
    """Whoever opens the store next has what the dead process had in hand offered again, the same attempt."""
    every = 1 if store == "memory" else 5
    assert crash_everywhere(scenario, script, stores=[store], every=every) >= 30 // every
