"""Many executions started in one write: each its own, all of them or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from engine_kit import Bench, NewBench, flow, simple

from conductorlite import (
    Engine,
    RateLimitConfig,
    RateLimitPolicy,
    SchemaDef,
    SubWorkflowParams,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import ConductorliteError, DefinitionNotFound, InvalidInput, LimitReached, PayloadTooLarge
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import Crash, FaultyBackend

WAITING = flow(WorkflowTask(name="w", task_reference_name="w", type="WAIT", input_parameters={"duration": "30 days"}))
SCRIPT = {"evaluatorType": "python", "expression": "n + 1", "n": "${workflow.input.n}"}


def script() -> WorkflowTask:
    """A task whose expression another program runs."""
    return WorkflowTask(name="i", task_reference_name="i", type="INLINE", input_parameters=SCRIPT)


def inputs(count: int) -> list[dict[str, Any]]:
    """Inputs that can be told apart."""
    return [{"n": n} for n in range(count)]


def test_each_is_its_own(bench: Bench) -> None:
    """Ids come in the order of the inputs, in one commit; each waits, is found by its input, and ends by itself."""
    before = bench.engine.backend.commits()
    ids = bench.engine.start_many(WAITING, inputs(7), priority=3)
    assert bench.engine.backend.commits() - before == 1
    rows = [bench.engine.get(one) for one in ids]
    assert [(row.input.value["n"], row.priority, str(row.task("w").status)) for row in rows] == [
        (n, 3, "IN_PROGRESS") for n in range(7)
    ]
    bench.engine.terminate(ids[3])
    bench.at(30 * 86_400)
    assert [str(bench.engine.status(one)) for one in ids].count("COMPLETED") == 6
    assert bench.engine.start_many(WAITING, []) == []


def test_they_are_as_if_started_one_by_one(new_bench: NewBench) -> None:
    """History and rows are equal, with a script in the first turn, a child, and a name of which the version is given."""
    child = flow(simple("c"), name="child")
    tasks = (
        script(),
        WorkflowTask(
            name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="child", version=1)
        ),
    )
    found = []
    for many in (False, True):
        one = new_bench()
        one.engine.register(child, flow(*tasks, name="parent"))
        ids = (
            one.engine.start_many("parent", inputs(3), version=1)
            if many
            else [one.engine.start("parent", given, version=1).workflow_id for given in inputs(3)]
        )
        one.engine.settle()
        found.append([(one.engine.history(each), one.engine.get(each).tasks, str(one.engine.status(each))) for each in ids])
        assert [each.task("i").output.value["result"] for each in map(one.engine.get, ids)] == [1, 2, 3]
    alone, together = ([(lines, [(t.ref, str(t.status), t.output) for t in tasks]) for lines, tasks, _ in each] for each in found)
    assert [tasks for _, tasks in alone] == [tasks for _, tasks in together]
    assert [[(line.kind, line.ref, line.status, line.at) for line in lines] for lines, _ in alone] == [
        [(line.kind, line.ref, line.status, line.at) for line in lines] for lines, _ in together
    ]


CHECKED = flow(
    simple("a"),
    input_schema=SchemaDef(name="n", data={"type": "object", "properties": {"n": {"type": "integer"}}}),
    enforce_schema=True,
)


@pytest.mark.parametrize(
    ("definition", "bad", "error"),
    [
        (WAITING, 7, InvalidInput),
        (WAITING, {"n": object()}, InvalidInput),
        (CHECKED, {"n": "seven"}, InvalidInput),
        (WAITING, {"n": "x" * 11_000_000}, PayloadTooLarge),
        ("nobody", {}, DefinitionNotFound),
    ],
    ids=["no mapping", "no JSON", "breaks the schema", "too large", "no definition"],
)
def test_one_bad_input_refuses_all(bench: Bench, definition: WorkflowDef | str, bad: Any, error: type[ConductorliteError]) -> None:
    """Nothing is written, and the message says which input it is."""
    before = bench.engine.backend.commits()
    with pytest.raises(error, match=r"inputs\[2\]" if error is not DefinitionNotFound else "nobody"):
        bench.engine.start_many(definition, [*inputs(2), bad, *inputs(2)])
    with pytest.raises(InvalidInput, match="priority 100"):
        bench.engine.start_many(WAITING, inputs(1), priority=100)
    assert list(bench.engine.admin.workflow_ids()) == []
    assert bench.engine.backend.commits() == before


def limited(policy: RateLimitPolicy, *tasks: WorkflowTask) -> WorkflowDef:
    """A definition of which two executions may run at once."""
    limit = RateLimitConfig(rate_limit_key="key", concurrent_exec_limit=2, policy=policy)
    return flow(*(tasks or (simple("a"),)), rate_limit_config=limit)


@pytest.mark.parametrize("tasks", [(), (script(), simple("a"))], ids=["worker", "script"])
def test_they_share_a_limit(bench: Bench, tasks: tuple[WorkflowTask, ...]) -> None:
    """Each sees what the ones before it hold: two run, the others have their turn as these end."""
    ids = bench.engine.start_many(limited(RateLimitPolicy.QUEUE, *tasks), inputs(5))
    done = []
    bench.engine.settle()  # with a relay, offers are delivered
    while taken := bench.engine.poll("a", count=5):
        assert len(taken) <= 2
        done += [task.workflow_id for task in taken]
        for task in taken:
            bench.report(task)
        bench.engine.settle()
    assert sorted(done) == sorted(ids)
    assert len(done) == 5


def test_a_limit_that_rejects_refuses_all(bench: Bench) -> None:
    """What would be the third execution of two is refused, and the first two with it."""
    definition = limited(RateLimitPolicy.REJECT)
    with pytest.raises(LimitReached):
        bench.engine.start_many(definition, inputs(3))
    assert list(bench.engine.admin.workflow_ids()) == []
    assert len(bench.engine.start_many(definition, inputs(2))) == 2


def test_a_death_at_any_write_leaves_all_or_none(new_store: Callable[[], Backend]) -> None:
    """Killed after any write, an engine has started every one of them or nobody."""
    found: list[int] = []
    while True:
        store = new_store()
        try:
            with Engine(FaultyBackend(store, crash_after=len(found) + 1, keep_open=True), clock=VirtualClock()) as engine:
                engine.start_many(WAITING, inputs(4))
                break
        except Crash:
            if isinstance(store, SQLiteBackend):
                store.close()
                store = SQLiteBackend(store.path, synchronous="NORMAL")
        with Engine(store, clock=VirtualClock()) as engine:
            found.append(len(list(engine.admin.workflow_ids(WorkflowStatus.RUNNING))))
            assert engine.admin.check() == []
    assert set(found) == {0, 4}
