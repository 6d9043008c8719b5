"""Executions found by what they are, and removed when they have ended."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import PATIENCE, T0, Bench, NewBench, flow, simple, wait

from conductorlite import (
    Engine,
    IdempotencyStrategy,
    SubWorkflowParams,
    TaskContext,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.engine.control import ascending_ids
from conductorlite.errors import Conflict, ExecutionNotFound, InvalidInput, TaskNotFound
from conductorlite.store.ports import Backend
from conductorlite.testing.conformance.samples import dump

ONE = flow(simple("a"), name="one")
TWO = flow(simple("a"), name="two")


def names(rows: list[Workflow]) -> list[str]:
    """Their ids."""
    return [row.workflow_id for row in rows]


def test_executions_by_what_they_are(bench: Bench) -> None:
    """Filters are combined; the newest comes first; the next page begins after the last of this one."""
    engine = bench.engine
    for n, (definition, correlation) in enumerate([(ONE, "c"), (TWO, "c"), (ONE, "d"), (ONE, "c"), (ONE, None)]):
        bench.at(n)
        bench.start(definition, correlation_id=correlation)
    engine.terminate("w4")
    engine.pause("w1")
    assert names(engine.executions()) == ["w5", "w4", "w3", "w2", "w1"]
    assert names(engine.executions("one")) == ["w5", "w4", "w3", "w1"]
    assert names(engine.executions("one", status=WorkflowStatus.RUNNING)) == ["w5", "w3"]
    assert names(engine.executions(status=WorkflowStatus.TERMINATED)) == ["w4"]
    assert names(engine.executions(correlation_id="c")) == ["w4", "w2", "w1"]
    assert names(engine.executions("two", correlation_id="c")) == ["w2"]
    page = engine.executions("one", limit=2)
    rest = engine.executions("one", limit=9, after=(page[-1].created_at, page[-1].workflow_id))
    assert [names(page), names(rest)] == [["w5", "w4"], ["w3", "w1"]]
    with pytest.raises(InvalidInput, match="limit 0"):
        engine.executions(limit=0)


def test_correlated(bench: Bench) -> None:
    """As in Conductor only RUNNING ones of that name are given, unless those that are closed are asked for."""
    for definition in (ONE, ONE, ONE, TWO):
        bench.start(definition, correlation_id="c")
    bench.engine.terminate("w1")
    bench.engine.pause("w2")
    assert names(bench.engine.admin.correlated("one", "c")) == ["w3"]
    assert names(bench.engine.admin.correlated("one", "c", include_closed=True)) == ["w3", "w2", "w1"]
    assert bench.engine.admin.correlated("one", "other", include_closed=True) == []


def test_children(bench: Bench) -> None:
    """The executions a parent's tasks have begun, oldest first, and nobody else's."""

    def child(ref: str) -> WorkflowTask:
        params = SubWorkflowParams(name="one", workflow_definition=ONE)
        return WorkflowTask(name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=params)

    bench.start(flow(child("s1"), child("s2")))
    bench.start(ONE)
    bench.engine.settle()
    bench.at(1)
    (task,) = [task for task in bench.engine.poll("a", count=2) if task.workflow_id != "w2"]
    bench.report(task)
    parent = bench.engine.get("w1")
    assert names(bench.engine.admin.children("w1")) == [parent.task("s1").sub_workflow_id, parent.task("s2").sub_workflow_id]
    assert bench.engine.admin.children("w2") == []
    with pytest.raises(ExecutionNotFound, match="nobody"):
        bench.engine.admin.children("nobody")


# ---------------------------------------------------------------------- remove


def test_an_execution_that_has_ended_is_removed(bench: Bench) -> None:
    """After `remove` nothing of it can be found, its id and its key are free, and the others are untouched."""
    engine = bench.engine
    engine.start(flow(wait("later", duration="1h"), name="two"), workflow_id="other", idempotency_key="k")
    engine.settle()
    with engine.backend.reading() as view:
        before = dump(view)
    bench.start(ONE, {"x": "y" * 5_000}, idempotency_key="k", correlation_id="c")
    engine.settle()
    (task,) = [task for task in engine.poll("a", count=2) if task.workflow_id == bench.workflow_id]
    engine.tasks.log(task, "a line")
    bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    engine.admin.remove(bench.workflow_id)
    engine.settle()
    for look in (engine.get, engine.history, engine.status, engine.explain, engine.admin.remove, engine.retry):
        with pytest.raises(ExecutionNotFound, match=bench.workflow_id):
            look(bench.workflow_id)
    with pytest.raises(TaskNotFound):
        engine.tasks.get(task.task_id)
    assert engine.tasks.logs(task.task_id) == []
    with engine.backend.reading() as view:
        after = dump(view)
    for parts in (before, after):
        parts.pop("polls")
    assert after == before
    bench.start(ONE, workflow_id=bench.workflow_id, idempotency_key="k")


def test_what_has_not_ended_is_not_removed(bench: Bench) -> None:
    """RUNNING, PAUSED and parked executions are a Conflict; once terminated they can go."""
    bench.start(ONE)
    with pytest.raises(Conflict, match="RUNNING workflow cannot be removed"):
        bench.engine.admin.remove("w1")
    bench.engine.pause("w1")
    with pytest.raises(Conflict, match="PAUSED workflow cannot be removed"):
        bench.engine.admin.remove("w1")
    with bench.engine.backend.writing() as tx:
        tx.executions.park("w1", 3, "broken")
    with pytest.raises(Conflict, match="PAUSED and parked"):
        bench.engine.admin.remove("w1")
    bench.engine.terminate("w1")
    bench.engine.admin.remove("w1")
    assert list(bench.engine.admin.workflow_ids()) == []


def test_late_words_about_a_removed_execution(bench: Bench) -> None:
    """A report, a sign of life, lines of a log and events that come after the removal do no harm and leave no trace."""
    engine = bench.engine
    bench.start(flow(simple("a"), wait("w", duration="1h")))
    task = bench.take("a")
    with engine.backend.reading() as view:
        events = view.inbox.events("w1")
    assert events
    engine.terminate("w1")
    engine.admin.remove("w1")
    result = TaskResult(workflow_id="w1", task_id=task.task_id, status=TaskStatus.COMPLETED, lease=task.lease)
    with pytest.raises(TaskNotFound, match=task.task_id):
        engine.update_task(result)
    with pytest.raises(ExecutionNotFound):
        engine.core.reports.report(task, result)
    with pytest.raises(TaskNotFound):
        engine.tasks.extend_lease(task)
    engine.tasks.log(task, "too late")
    with engine.backend.writing() as tx:
        tx.inbox.post(events)
    bench.at(7_200)
    assert engine.tasks.logs(task.task_id) == []
    with engine.backend.reading() as view:
        assert view.inbox.events("w1") == []
        assert view.inbox.next_event_at() is None
    assert engine.poll("a") == []


def test_a_removed_child_is_not_missed(bench: Bench) -> None:
    """A child that has ended may be removed: its parent has heard of its end."""
    params = SubWorkflowParams(name="one", workflow_definition=ONE)
    task = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=params)
    bench.start(flow(task, simple("b")))
    bench.do("a", output={"x": 1})
    (child,) = bench.engine.admin.children("w1")
    bench.engine.admin.remove(child.workflow_id)
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.task("s").output_data == {"subWorkflowId": child.workflow_id, "x": 1}


def test_a_removed_execution_gives_its_key_back_only_if_it_has_it(bench: Bench) -> None:
    """Removing an execution whose key has moved on leaves the key where it is."""
    bench.start(ONE, idempotency_key="k")
    bench.engine.terminate("w1")
    options: dict[str, Any] = {"idempotency_key": "k", "idempotency_strategy": IdempotencyStrategy.FAIL_ON_RUNNING}
    second = bench.start(ONE, **options)
    bench.engine.admin.remove("w1")
    options["idempotency_strategy"] = IdempotencyStrategy.RETURN_EXISTING
    assert bench.engine.start(ONE, **options) == second


def test_the_driver_survives_a_removal_in_virtual_time(new_bench: NewBench) -> None:
    """A function that ends its own execution and removes it: its report is dropped, others are run."""
    workers = Workers()

    @workers.task("a")
    def remove_me(context: TaskContext) -> None:
        if context.task.workflow_id == "w1":
            bench.engine.terminate("w1")
            bench.engine.admin.remove("w1")
            context.log("nobody reads this")

    bench = new_bench(workers=workers)
    bench.start(ONE)
    bench.start(TWO)
    assert bench.engine.run_until_idle()
    assert names(bench.engine.executions()) == ["w2"]
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_driver_survives_a_removal_in_real_time(new_store: Callable[[], Backend], kind: str) -> None:
    """While a function runs in a thread or on the loop its execution is removed: the driver goes on with the others."""
    workers = Workers()
    running, removed = threading.Event(), threading.Event()
    short = {"response_timeout_seconds": 0.3}

    if kind == "plain":

        @workers.task("a", **short)
        def held(context: TaskContext) -> None:
            running.set()
            assert removed.wait(PATIENCE)

    else:

        @workers.task("a", **short)
        async def held_too(context: TaskContext) -> None:
            import asyncio

            running.set()
            while not removed.is_set():
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)

    @workers.task("b")
    def other() -> None:
        return None

    with Engine(new_store(), workers=workers) as engine:
        driver = threading.Thread(target=engine.run_forever)
        gone = engine.start(ONE)
        driver.start()
        try:
            assert running.wait(PATIENCE)
            engine.terminate(gone.workflow_id)
            engine.admin.remove(gone.workflow_id)
            removed.set()
            assert engine.start(flow(simple("b"))).result(timeout="20s") == {}
            assert driver.is_alive()
        finally:
            engine.stop()
            driver.join(PATIENCE)
        assert not driver.is_alive()
        assert [row.workflow_id for row in engine.executions("one")] == []


def test_removing_wakes_who_waits(bench: Bench) -> None:
    """Whoever looks at an execution that is gone is told so."""
    run = bench.start(ONE)
    bench.engine.terminate("w1")
    bench.engine.admin.remove("w1")
    with pytest.raises(ExecutionNotFound):
        run.result()
    assert bench.clock.now() == T0


def test_ids_of_executions_ascend() -> None:
    """Drawn ids are UUIDs of version 7 of the engine's clock, each greater than the one before."""
    clock = VirtualClock(T0)
    with Engine(clock=clock) as engine:
        ids = [engine.start(ONE).workflow_id for _ in range(50)]
        engine.advance("1s")
        ids += [engine.start(ONE).workflow_id for _ in range(50)]
    assert ids == sorted(set(ids))
    assert {uuid.UUID(one).version for one in ids} == {7}
    assert [uuid.UUID(one).int >> 80 for one in (ids[0], ids[-1])] == [T0, T0 + 1000]
    first = ascending_ids(clock)
    assert all(first() < first() for _ in range(100))


def test_no_chance_is_given_twice_to_threads() -> None:
    """What many of them take from what was drawn at once, each has for itself."""
    new_id, drawn, before = ascending_ids(VirtualClock(T0)), list[int](), sys.getswitchinterval()
    threads = [
        threading.Thread(target=lambda: drawn.extend([uuid.UUID(new_id()).int & 2**44 - 1 for _ in range(500)])) for _ in range(8)
    ]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(set(drawn)) == len(drawn) == 8 * 500
