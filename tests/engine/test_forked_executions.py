"""`fork`: a new execution from a step of an old one, which stays as it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest
from engine_kit import T0, Bench, NewBench, flow, fork, join, rounds, simple, wait
from rerun_kit import child, s, stand, sub, work
from run_time_kit import node, same, workflow
from test_reruns_end_alike import SEEDS, Author, ends, step

from conductorlite import AsyncEngine, Engine, RateLimitConfig, VirtualClock, Workers, WorkflowStatus
from conductorlite import flow as as_flow
from conductorlite import task as as_task
from conductorlite.errors import (
    AlreadyExists,
    Conflict,
    ExecutionArchived,
    ExecutionNotFound,
    InvalidDefinition,
    InvalidInput,
    KeyTaken,
    MissingCapability,
    TaskNotFound,
)
from conductorlite.store.ports import Backend, Capability
from conductorlite.testing import replay

CHAIN = flow(*s("a", "b", "c"), variables={"v": 1}, output_parameters={"a": "${a.output.n}", "v": "${workflow.variables.v}"})


def picture(bench: Bench, *workflow_ids: str) -> list[Any]:
    """Everything that is stored of executions: rows, inbox, queue, journal, members of limits, logs."""
    found: list[Any] = []
    with bench.engine.backend.reading() as view:
        messages = view.queue.messages(1_000)
        for one in workflow_ids:
            rows = view.executions.attempts(one)
            found += [
                view.executions.workflow(one),
                rows,
                view.inbox.events(one),
                view.history.lines(one),
                view.limits.members_of(one),
            ]
            found += [
                [message for message in messages if message.workflow_id == one],
                [view.history.logs(row.task_id) for row in rows],
            ]
    return found


def family(bench: Bench, workflow_id: str) -> list[str]:
    """An execution and all below it."""
    found = [workflow_id]
    for one in found:
        found += [row.workflow_id for row in bench.engine.admin.children(one)]
    return found


def forked(bench: Bench, at: str, **options: Any) -> str:
    """Fork the execution under test; the plan says what was done, the origin and all below it are untouched; returns the id."""
    bench.engine.settle()
    origin = bench.workflow_id
    before = picture(bench, *family(bench, origin))
    planned = {name: value for name, value in options.items() if name in ("definition", "input", "task_input")}
    ids = list(bench.engine.admin.workflow_ids())
    plan = bench.engine.plan_fork(origin, at=at, **planned)
    assert list(bench.engine.admin.workflow_ids()) == ids
    run = bench.engine.fork(origin, at=at, **options)
    assert picture(bench, *family(bench, origin)) == before
    rows = {task.ref for task in run.tasks}
    assert rows == {*plan.kept, *plan.again}
    assert plan.shared == {
        ref: run.workflow.task(ref).sub_workflow_id for ref in plan.kept if run.workflow.task(ref).sub_workflow_id
    }
    assert bench.engine.admin.check() == []
    return run.workflow_id


def replayed(bench: Bench, workflow_id: str) -> None:
    """The export of an execution comes out the same, byte for byte."""
    again = replay(json.dumps(bench.engine.admin.export(workflow_id)))
    again.engine.close()


def test_a_failed_step_is_done_again_elsewhere(bench: Bench) -> None:
    """The copy has what came before, with its documents and instants, under ids of its own; the journal says whence."""
    bench.start(CHAIN, {"n": 1}, correlation_id="c1", priority=3, created_by="ann", idempotency_key="k")
    bench.engine.update_variables(bench.workflow_id, {"v": 2})
    work(bench, {"a": {"n": 5}}, fail=["b"])
    assert stand(bench) == "FAILED: a COMPLETED, b FAILED"
    bench.at(60)
    origin = bench.workflow
    plan = bench.engine.plan_fork(origin.workflow_id, at="b")
    assert str(plan) == f"{origin.workflow_id} from b\n  kept: a\n  again: b"
    new = forked(bench, "b", new_id="fork", task_input={"x": 1})
    assert new == "fork"
    assert stand(bench, new) == "RUNNING: a COMPLETED, b SCHEDULED"
    row = bench.engine.get(new)
    said = ("name", "version", "definition_hash", "correlation_id", "priority", "created_by", "input", "variables")
    assert [getattr(row, name) for name in said] == [getattr(origin, name) for name in said]
    assert (row.idempotency_key, row.parent_workflow_id, row.created_at, row.ended_at) == (None, None, bench.clock.now(), 0)
    old, copy = origin.task("a"), row.task("a")
    assert {field.name for field in attrs.fields(type(old)) if getattr(old, field.name) != getattr(copy, field.name)} == {
        "task_id",
        "workflow_id",
        "poll_count",
    }
    assert row.task("b").input_data == {"x": 1}
    verbs = [line for line in bench.engine.history(new) if line.kind == "VERB"]
    assert [(line.status, line.ref) for line in verbs] == [("FORK", None), ("RERUN", "b")]
    assert verbs[0].payload is not None
    assert verbs[0].payload.value["origin"] == {"workflowId": origin.workflow_id, "status": "FAILED", "definitionHash": None}
    assert work(bench) == "b c"
    assert bench.engine.get(new).output_data == {"a": 5, "v": 2}
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    replayed(bench, new)
    bench.workflow_id = new
    assert stand(bench, forked(bench, "c", input={"n": 9}, correlation_id="c2")) == "RUNNING: a COMPLETED, b COMPLETED, c SCHEDULED"
    assert [row.input_data for row in bench.engine.admin.correlated("flow", "c2")] == [{"n": 9}]


def test_what_is_open_begins_anew(bench: Bench) -> None:
    """A task with a worker, a WAIT with its whole length, a HUMAN, a retry that waits: the copy has them again, at once."""
    b = simple("b", {"retry_count": 3, "retry_delay_s": 100, "timeout_s": 50, "timeout_policy": "RETRY", "response_timeout_s": 50})
    branches = [s("a"), [b], [wait("w", duration="60s")], [*s("x", "y")]]
    bench.start(flow(fork("f", *branches), join("j", "a", "b", "w", "y"), *s("z")))
    held = bench.take("a")
    bench.do("b", "FAILED")
    bench.do("x")
    bench.at(30)
    new = forked(bench, "y")
    assert stand(bench, new) == (
        "RUNNING: f COMPLETED, x COMPLETED, j IN_PROGRESS, a#1 SCHEDULED, w#1 IN_PROGRESS, b#2 SCHEDULED, y SCHEDULED"
    )
    assert bench.engine.get(new).task("w").wait_until == bench.clock.now() + 60_000
    assert {task.lease for task in bench.engine.get(new).tasks} == {0}
    copied = next(line.payload for line in bench.engine.history(new) if line.status == "FORK")
    assert copied is not None
    assert not {"lease", "holder", "response_timeout_at"} & {name for cells in copied.value["tasks"] for name in cells}
    bench.report(held)  # of the old one's
    assert bench.task("a").status == "COMPLETED"
    assert bench.engine.get(new).task("a").status == "SCHEDULED"
    bench.at(60)
    assert (bench.task("w").status, bench.engine.get(new).task("w").status) == ("COMPLETED", "IN_PROGRESS")
    bench.at(90)
    work(bench)
    assert bench.engine.status(new) is WorkflowStatus.COMPLETED
    replayed(bench, new)


def test_rounds_of_loops_and_joins(bench: Bench) -> None:
    """From a task of a round the loop goes on in that round; from a JOIN it joins again; from what comes after, all stays."""
    bench.start(flow(rounds("l", s("x"), times=3), fork("f", s("p"), s("q")), join("j", "p", "q"), *s("z")))
    work(bench, leave=["z"])
    new = forked(bench, "x__2")
    assert stand(bench, new) == "RUNNING: l IN_PROGRESS, x__1 COMPLETED, x__2 SCHEDULED"
    assert work(bench, leave=["z"]) == "x__2 x__3 p q"
    for at in ("j", "z"):
        assert stand(bench, forked(bench, at)).endswith("p COMPLETED, q COMPLETED, j COMPLETED, z SCHEDULED")
    work(bench)
    for one in bench.engine.admin.workflow_ids():
        assert bench.engine.status(one) is WorkflowStatus.COMPLETED
        replayed(bench, one)


def test_branches_made_at_run_time(bench: Bench) -> None:
    """From one branch of a dynamic fork: the others are there, and what was made at run time is found by its hash."""
    bench.start(workflow(*same([{"n": 1}, {"n": 2}, {"n": 3}], "f", "j", forkTaskName="b"), node("z")))
    work(bench, fail=["_b_1"], leave=["_b_2"])
    new = forked(bench, "_b_1")
    assert stand(bench, new) == "RUNNING: f COMPLETED, _b_0 COMPLETED, j IN_PROGRESS, _b_2#1 SCHEDULED, _b_1 SCHEDULED"
    assert bench.engine.get(new).task("_b_1").input_data["n"] == 2
    work(bench)
    assert bench.engine.status(new) is WorkflowStatus.COMPLETED
    replayed(bench, new)


def test_messages(bench: Bench) -> None:
    """What a task of the old one has received, the same task of the copy has received; what none has is the old one's alone."""
    people = [node(ref, "HUMAN") for ref in ("first", "second", "third")]
    bench.start(workflow(node("a"), *people))
    bench.engine.signal(bench.workflow_id, {"early": 3}, task="third")
    bench.engine.signal(bench.workflow_id, {"early": 1}, task="first")
    work(bench)
    assert stand(bench) == "RUNNING: a COMPLETED, first COMPLETED, second IN_PROGRESS"
    new = forked(bench, "second")
    assert stand(bench, new) == "RUNNING: a COMPLETED, first COMPLETED, second IN_PROGRESS"
    kept = [(message.number, message.signal_to, message.receiver) for message in bench.engine.messages(new)]
    assert kept == [(1, "first", "first")]
    for one in (new, bench.workflow_id):
        bench.engine.signal(one, task="second")
    assert stand(bench, new).endswith("third IN_PROGRESS")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    replayed(bench, new)
    # From the task that has received one, it is received again, as by `rerun`.
    assert stand(bench, forked(bench, "first")).endswith("first COMPLETED, second IN_PROGRESS")


def test_executions_below(bench: Bench) -> None:
    """One that ended well is shared; one that is open, or failed, is started again; no verb on the copy reaches the old one's."""
    inner = flow(*s("i"), name="inner", output_parameters={"i": "${i.output.n}"})
    lame = flow(*s("k"), name="lame")
    definition = flow(
        sub("good", inner), sub("bad", lame, optional=True), fork("f", [sub("open", inner)], s("p", "q")), join("j", "open", "q")
    )
    origin = bench.start(definition).workflow_id
    bench.do("i", "COMPLETED", {"n": 1})
    bench.do("k", "FAILED")
    assert stand(bench) == (
        "RUNNING: good COMPLETED, bad COMPLETED_WITH_ERRORS, f COMPLETED, open IN_PROGRESS, p SCHEDULED, j IN_PROGRESS"
    )
    good, still = child(bench, "good"), child(bench, "open")
    new = forked(bench, "p")
    row = bench.engine.get(new)
    assert (row.task("good").sub_workflow_id, row.task("open").sub_workflow_id != still) == (good, True)
    assert bench.engine.get(good).parent_workflow_id == origin
    before = picture(bench, *family(bench, origin))
    bench.engine.terminate(new)
    bench.engine.retry(new, resume_subworkflow_tasks=True)
    bench.engine.rerun(new, from_task="good")
    bench.engine.settle()
    assert bench.engine.get(new).task("good").sub_workflow_id != good
    assert picture(bench, *family(bench, origin)) == before
    bench.engine.terminate(new)
    bench.engine.admin.remove(new)
    assert picture(bench, *family(bench, origin)) == before
    bench.healthy()


def test_of_a_failed_child(bench: Bench) -> None:
    """A fork of an execution below another one stands alone: nobody waits for it."""
    bench.start(flow(sub("c", flow(*s("i", "k"), name="inner"))))
    work(bench, fail=["k"])
    assert stand(bench) == "FAILED: c FAILED"
    inner = bench.workflow.task("c").sub_workflow_id
    assert inner is not None
    top, bench.workflow_id = bench.workflow_id, inner
    new = forked(bench, bench.task("k").task_id)
    work(bench)
    assert (bench.engine.status(new), bench.engine.get(new).depth) == (WorkflowStatus.COMPLETED, 0)
    assert bench.engine.status(top) is WorkflowStatus.FAILED
    replayed(bench, new)


@pytest.mark.parametrize("how", ["RUNNING", "PAUSED", "TERMINATED", "COMPLETED"])
def test_from_any_status(bench: Bench, how: str) -> None:
    """Whatever the old one is at, the copy runs from the task."""
    bench.start(CHAIN)
    work(bench, leave=["b", "c"] if how != "COMPLETED" else [])
    if how == "PAUSED":
        bench.engine.pause(bench.workflow_id)
    if how == "TERMINATED":
        bench.engine.terminate(bench.workflow_id, "enough")
    assert bench.status_of_workflow() == how
    new = forked(bench, "b")
    assert stand(bench, new) == "RUNNING: a COMPLETED, b SCHEDULED"
    assert stand(bench, forked(bench, "a")) == "RUNNING: a SCHEDULED"
    bench.engine.pause(new)
    bench.engine.resume(new)
    work(bench, leave=["b", "c"])
    bench.engine.terminate(new)
    bench.engine.restart(new)
    work(bench)
    assert bench.engine.status(new) is WorkflowStatus.COMPLETED
    replayed(bench, new)


def test_on_another_definition(bench: Bench) -> None:
    """What goes on must have its place in it; what has ended and is gone stays; else it is refused, and nothing is stored."""
    old = flow(*s("a", "b"), simple("c", {"retry_count": 0}, input_parameters={"x": "${b.output.y}"}), *s("d"))
    bench.start(old)
    work(bench, {"b": {"y": 3}}, fail=["c"])
    fixed = simple("c", {"retry_count": 0}, input_parameters={"x": "${b.output.y}", "fixed": True})
    new = forked(bench, "c", definition=attrs.evolve(old, version=2, tasks=[*s("b"), fixed, *s("e")]))
    row = bench.engine.get(new)
    assert (row.version, row.task("c").input_data) == (2, {"x": 3, "fixed": True})
    assert work(bench) == "c e"
    replayed(bench, new)
    ids = list(bench.engine.admin.workflow_ids())
    for tasks, why in (
        (s("a", "b", "e"), "the new definition has no 'c'"),
        ([*s("a"), fixed, *s("b")], "b: has run already, and would run again"),
        ([*s("a", "b"), wait("c")], "is a WAIT in the new definition"),
    ):
        for verb in (bench.engine.plan_fork, bench.engine.fork):
            with pytest.raises(Conflict, match=why):
                verb(bench.workflow_id, at="c", definition=attrs.evolve(old, tasks=tasks))
    with pytest.raises(Conflict, match="not of 'other'"):
        bench.engine.fork(bench.workflow_id, at="c", definition=attrs.evolve(old, name="other"))
    with pytest.raises(InvalidDefinition):
        bench.engine.fork(bench.workflow_id, at="c", definition=attrs.evolve(old, tasks=[*s("c"), *s("c")]))
    assert list(bench.engine.admin.workflow_ids()) == ids


def test_what_is_refused_stores_nothing(bench: Bench) -> None:
    """Each with its own error."""
    undone = attrs.evolve(simple("a", {"retry_count": 0}), compensate="undo_a")
    bench.start(flow(undone, *s("b"), name="undone"))
    work(bench, fail=["b"])
    compensated = bench.workflow_id
    bench.start(CHAIN, workflow_id="gone")
    work(bench)
    bench.engine.admin.archive("gone")
    bench.start(CHAIN, idempotency_key="k")
    work(bench, leave=["b", "c"])
    origin = bench.workflow_id
    ids = list(bench.engine.admin.workflow_ids())
    for error, execution, options in (
        (ExecutionNotFound, "nobody", {"at": "a"}),
        (ExecutionArchived, "gone", {"at": "a"}),
        (TaskNotFound, origin, {"at": "nothing"}),
        (TaskNotFound, origin, {"at": "c"}),
        (Conflict, compensated, {"at": "b"}),
        (AlreadyExists, origin, {"at": "b", "new_id": origin}),
        (KeyTaken, origin, {"at": "b", "idempotency_key": "k"}),
        (InvalidInput, origin, {"at": "b", "idempotency_key": ""}),
        (InvalidInput, origin, {"at": "b", "input": {"x": object()}}),
        (InvalidInput, origin, {"at": "b", "input": 7}),
        (InvalidInput, origin, {"at": "b", "new_id": "schedule:x"}),
        (InvalidInput, origin, {"at": 7}),
    ):
        with pytest.raises(error):
            bench.engine.fork(execution, **options)
    assert list(bench.engine.admin.workflow_ids()) == ids
    run = bench.engine.fork(bench.engine.run(origin), at="b", idempotency_key="mine")
    assert bench.engine.start(CHAIN, idempotency_key="mine", idempotency_strategy="RETURN_EXISTING") == run


def test_it_waits_for_a_slot_of_its_own(bench: Bench) -> None:
    """Under a limit on executions the copy is stored, and goes on when it is let in."""
    limited = attrs.evolve(CHAIN, rate_limit_config=RateLimitConfig(rate_limit_key="k", concurrent_exec_limit=1))
    bench.start(limited)
    work(bench, leave=["b", "c"])
    new = bench.engine.fork(bench.workflow_id, at="b").workflow_id
    bench.healthy()
    assert bench.engine.get(new).rate_limited
    work(bench)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    work(bench)
    assert bench.engine.status(new) is WorkflowStatus.COMPLETED


def test_large_documents(new_bench: NewBench) -> None:
    """Documents that are stored by their hash, or in the payload storage, are the copy's as well, also when the old one is gone."""
    bench = new_bench()
    text = "x" * 400_000
    bench.start(CHAIN, {"text": text})
    work(bench, {"a": {"n": text}}, leave=["b", "c"])
    new = forked(bench, "b")
    replayed(bench, new)
    bench.engine.terminate(bench.workflow_id)
    bench.engine.admin.remove(bench.workflow_id)
    bench.engine.payloads.sweep(0)
    work(bench)
    assert bench.engine.get(new).output_data["a"] == text
    assert bench.engine.get(new).input_data == {"text": text}


@pytest.mark.parametrize("seed", SEEDS)
def test_forks_end_alike(bench: Bench, seed: int) -> None:
    """Random definitions, stopped and forked at random: each fork ends as one that was left alone, and its export is replayed."""
    chance = Random(seed)
    definition = workflow(*Author(chance).tasks(3))
    undisturbed = bench.start(definition).workflow_id
    while step(bench, chance):
        pass
    expected = ends(bench, undisturbed)
    bench.start(definition)
    for _ in range(chance.randint(1, 12)):
        step(bench, chance)
    if chance.random() < 0.5:
        step(bench, chance, fail=True)
    forks = []
    for _ in range(2):
        bench.engine.settle()
        tasks = [task for task in bench.workflow.tasks if not task.retried]
        forks.append(forked(bench, chance.choice(tasks).ref))
        bench.workflow_id = forks[-1]
        for _ in range(chance.randint(0, 6)):
            step(bench, chance)
    for one in forks:
        for _ in range(5):
            while step(bench, chance):
                pass
            if bench.engine.status(one) is WorkflowStatus.COMPLETED:
                break
            bench.at(bench.second + 60)
        assert ends(bench, one) == expected
        replayed(bench, one)
    bench.healthy()


def test_typed_and_awaited(store: Backend) -> None:
    """A handle's fork has the type of its flow; with an AsyncEngine it is awaited."""

    @as_task(retry=0)
    def double(n: int) -> int:
        if n > 100:
            raise ValueError(n)
        return 2 * n

    @as_flow
    def doubling(n: int) -> int:
        first = double(n)
        return double.options(name="second")(first)

    with Engine(store, workers=[doubling], clock=VirtualClock(0)) as engine:
        run = engine.start(doubling, 60)
        engine.run_until_idle()
        assert run.status is WorkflowStatus.FAILED
        assert run.fork(at="second", task_input={"n": 5}).result() == 10

    async def main() -> None:
        async with AsyncEngine(workers=Workers().include(doubling)) as engine:
            run = await engine.start(doubling, 1)
            assert await run.result() == 4
            other = await run.fork(at="double", task_input={"n": 2})
            assert await other.result() == 8
            assert (await engine.plan_fork(other, at="double")).again == ("double",)
            third = await engine.fork(other, at="double", task_input={"n": 3})
            assert await third.result() == {"result": 12}

    asyncio.run(main())


def test_masked_fields_stay_hidden(bench: Bench) -> None:
    """The line that holds the copied documents is masked as all others are."""
    masked = attrs.evolve(CHAIN, masked_fields=["card"])
    bench.start(masked, {"card": "card-one"})
    bench.engine.update_variables(bench.workflow_id, {"card": "card-two"})
    work(bench, {"a": {"deep": [{"card": "card-three"}]}}, leave=["b", "c"])
    new = forked(bench, "b")
    assert bench.engine.get(new).task("a").output_data == {"deep": [{"card": "card-three"}]}
    shown = f"{bench.engine.history(new, masked=True)} {bench.engine.admin.page(new)} {bench.engine.explain(new)}"
    assert [card for card in ("card-one", "card-two", "card-three") if card in shown] == []


def test_in_a_transaction(new_store: Callable[[], Backend]) -> None:
    """A fork is stored with the block that it is in, or not at all; in the block it is there already. Some stores have none."""
    with Engine(new_store(), clock=VirtualClock(T0)) as engine:
        run = engine.start(CHAIN)
        if Capability.TRANSACTIONS not in engine.backend.capabilities:
            with pytest.raises(MissingCapability, match="takes no transactions"), engine.transaction():
                run.fork(at="a", new_id="never")
            assert set(engine.admin.workflow_ids()) == {run.workflow_id}
            return

        def fail() -> None:
            with engine.transaction():
                run.fork(at="a", new_id="never")
                assert engine.status("never") is WorkflowStatus.RUNNING
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with engine.transaction():
            run.fork(at="a", new_id="fork")
        assert set(engine.admin.workflow_ids()) == {run.workflow_id, "fork"}
        assert engine.admin.check() == []


def test_a_failure_of_production_on_a_laptop(bench: Bench) -> None:
    """An export is replayed into an empty store, on a virtual clock, and forked there."""
    bench.start(CHAIN)
    work(bench, {"a": {"n": 5}}, fail=["b"])
    document = json.dumps(bench.engine.admin.export(bench.workflow_id))
    laptop = replay(document).engine
    workers = Workers()
    for name in ("b", "c"):
        workers.task(name)(lambda: {"n": 1})
    laptop.workers.include(workers)
    run = laptop.fork(bench.workflow_id, at="b")
    assert run.result("1h") == {"a": 5, "v": 1}
    assert laptop.status(bench.workflow_id) is WorkflowStatus.FAILED
    laptop.close()
