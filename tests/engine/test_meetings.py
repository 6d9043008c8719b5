"""What meets what: features that were made apart, used on one execution; every law holds after each step."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from engine_kit import Bench
from run_time_kit import Json, dynamic, forked, loop, node, starting, static, tried, workflow

from conductorlite import Engine, IdempotencyStrategy, TaskStatus, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.errors import Conflict, InvalidInput
from conductorlite.model.canonical import EMPTY
from conductorlite.model.decisions import EventKind
from conductorlite.plan.migration import Verdict
from conductorlite.store.memory.backend import MemoryBackend

ORDER = {"name": "order", "tasks": [node("work")]}


def branches(*made: Any) -> dict[str, Any]:
    """The input from which the dynamic fork is made."""
    return {"t": list(made)}


# -- migration ---------------------------------------------------------------------------------------------------------


def test_a_dynamic_fork_in_progress_does_not_move(bench: Bench) -> None:
    """BLOCKED while a branch is live, with the fork named; after its JOIN the execution moves, and reruns in it still work."""
    old = workflow(*forked(), node("z"))
    new = workflow(*forked(), node("y"), node("z"), version=2)
    bench.start(old, branches([node("a"), node("b")]))
    bench.do("a")
    plan = bench.engine.definitions.migrate(bench.workflow_id, new, dry_run=True)
    assert plan.verdict is Verdict.BLOCKED
    with pytest.raises(Conflict):
        bench.engine.definitions.migrate(bench.workflow_id, new)
    bench.do("b")
    bench.engine.definitions.migrate(bench.workflow_id, new)
    bench.healthy()
    bench.engine.rerun(bench.workflow_id, from_task="b")
    bench.healthy()
    for name in ("b", "y", "z"):
        bench.do(name)
        bench.healthy()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_what_was_made_at_run_time_may_be_read_after_a_move(bench: Bench) -> None:
    """What later tasks read of a dynamic branch never was in a definition: it is no reason against a move."""
    z = node("z", inputParameters={"n": "${b.output.n}"})
    bench.start(workflow(*forked(), node("y"), z), branches([node("a"), node("b")]))
    bench.do("a")
    bench.do("b", output={"n": 7})
    plan = bench.engine.definitions.migrate(bench.workflow_id, workflow(*forked(), node("y"), z, version=2))
    assert plan.verdict is Verdict.SAFE
    bench.do("y")
    bench.healthy()
    assert bench.take("z").input_data == {"n": 7}


def test_what_was_skipped_ahead_moves(bench: Bench) -> None:
    """A task that was skipped before the flow came to it is passed over on the new definition too, under its new name."""
    bench.start(workflow(node("a"), node("b"), node("c")))
    bench.engine.skip_task(bench.workflow_id, "b", output={"n": 1})
    new = workflow(node("a"), node("bb", name="b"), node("c", inputParameters={"n": "${bb.output.n}"}), version=2)
    plan = bench.engine.definitions.migrate(bench.workflow_id, new, refs={"b": "bb"}, dry_run=True)
    assert not plan.blocked, plan
    bench.engine.definitions.migrate(bench.workflow_id, new, refs={"b": "bb"})
    bench.healthy()
    bench.do("a")
    bench.healthy()
    assert bench.take("c").input_data == {"n": 1}


def test_what_was_skipped_ahead_is_no_more(bench: Bench) -> None:
    """A skipped task that the new definition does not have holds nothing up: the execution moves or says why it does not."""
    bench.start(workflow(node("a"), node("b"), node("c")))
    bench.engine.skip_task(bench.workflow_id, "b")
    new = workflow(node("a"), node("c"), version=2)
    plan = bench.engine.definitions.migrate(bench.workflow_id, new, dry_run=True)
    if not plan.blocked:
        bench.engine.definitions.migrate(bench.workflow_id, new)
    bench.do("a")
    bench.healthy()
    bench.do("c")
    bench.healthy()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("verb", ["rerun", "rerun from a", "restart", "retry"])
def test_reopened_after_a_task_is_gone(bench: Bench, verb: str) -> None:
    """Rows whose reference the definition has no more stay as history; every verb that reopens passes them by."""
    bench.start(workflow(node("gone"), node("a"), tried("b")))
    bench.do("gone")
    bench.engine.definitions.migrate(bench.workflow_id, workflow(node("a"), tried("b"), version=2))
    bench.healthy()
    bench.do("a")
    bench.do("b", "FAILED")
    bench.healthy()
    with pytest.raises(Conflict):
        bench.engine.rerun(bench.workflow_id, from_task="gone")
    match verb:
        case "rerun":
            bench.engine.rerun(bench.workflow_id)
        case "rerun from a":
            bench.engine.rerun(bench.workflow_id, from_task="a")
        case _:
            getattr(bench.engine, verb)(bench.workflow_id)
    bench.healthy()
    if verb != "retry":
        bench.do("a")
    bench.do("b")
    bench.healthy()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("taken", [False, True])
def test_a_renamed_start_workflow_is_answered(bench: Bench, taken: bool) -> None:
    """What a START_WORKFLOW has started finds its task under the name that a migration gave it."""
    bench.engine.register(WorkflowDef.from_json(ORDER))
    request = {"name": "order", "idempotencyKey": "k", "idempotencyStrategy": "RETURN_EXISTING"}
    if taken:
        bench.engine.start("order", idempotency_key="k")
    bench.start(workflow(starting(request, startDelay=5), node("z")))
    new = workflow(starting(request, ref="other", startDelay=5), node("z"), version=2)
    bench.engine.definitions.migrate(bench.workflow_id, new, refs={"s": "other"})
    bench.healthy()
    bench.at(6)
    bench.healthy()
    assert bench.task("other").status is TaskStatus.COMPLETED
    assert bench.engine.get(bench.task("other").output_data["workflowId"]).name == "order"
    bench.do("z")


# -- domains -----------------------------------------------------------------------------------------------------------


def test_domains_of_what_is_made_at_run_time(bench: Bench) -> None:
    """Tasks of dynamic branches and what a DYNAMIC stands for go to the domain of the execution, also when run again."""
    bench.start(workflow(*forked(), dynamic(who="work")), branches(node("a", name="work")), task_to_domain={"work": "eu"})
    for expected in ("a", "d", "a", "d"):
        bench.engine.settle()
        (task,) = bench.engine.poll("work", domain="eu")
        assert (task.ref, task.domain) == (expected, "eu")
        bench.report(task)
        bench.healthy()
        if bench.status_of_workflow() is WorkflowStatus.COMPLETED and task.first_attempt == 0 and expected == "d":
            bench.engine.rerun(bench.workflow_id, from_task="a")
            bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING


# -- idempotency keys --------------------------------------------------------------------------------------------------


def test_a_key_stays_with_a_restarted_execution(bench: Bench) -> None:
    """`restart`, also on another definition, `rerun` and `retry` leave the key where it is; `remove` frees it."""
    order = workflow(tried("work"), name="order")
    run = bench.start(order, idempotency_key="k")
    existing = IdempotencyStrategy.RETURN_EXISTING
    bench.engine.register(workflow(tried("work"), name="order", version=2))
    bench.do("work", "FAILED")
    for verb in (
        lambda: bench.engine.retry(run.workflow_id),
        lambda: bench.engine.restart(run.workflow_id),
        lambda: bench.engine.restart(run.workflow_id, use_latest_definitions=True),
        lambda: bench.engine.rerun(run.workflow_id, correlation_id="c"),
    ):
        verb()
        bench.healthy()
        assert bench.engine.start(order, idempotency_key="k", idempotency_strategy=existing).workflow_id == run.workflow_id
        bench.do("work", "FAILED")
    bench.engine.admin.remove(run.workflow_id)
    assert bench.engine.start(order, idempotency_key="k").workflow_id != run.workflow_id
    bench.healthy()


def test_a_key_that_moved_on_and_its_first_execution(bench: Bench) -> None:
    """An execution that lost its key to a later one may be restarted and removed; the key stays with the later one."""
    order = workflow(tried("work"), name="order")
    first = bench.start(order, idempotency_key="k")
    bench.do("work")
    over = IdempotencyStrategy.FAIL_ON_RUNNING
    second = bench.engine.start(order, idempotency_key="k", idempotency_strategy=over).workflow_id
    bench.engine.restart(first.workflow_id)
    bench.healthy()
    bench.engine.terminate(first.workflow_id)
    bench.engine.admin.remove(first.workflow_id)
    again = bench.engine.start(order, idempotency_key="k", idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING).workflow_id
    assert again == second


@pytest.mark.parametrize("key", ["x" * 256, 7, [1]])
def test_bad_keys_of_a_start_workflow(bench: Bench, key: Any) -> None:
    """A key of more than 255 characters, or that is no text, fails the task and is named."""
    bench.start(workflow(starting({"workflowDef": ORDER, "idempotencyKey": key})))
    bench.healthy()
    assert bench.task("s").status is TaskStatus.FAILED
    assert "startWorkflow.idempotencyKey" in str(bench.task("s").reason)
    with pytest.raises(InvalidInput):
        bench.engine.start(WorkflowDef.from_json(ORDER), idempotency_key=key)


# -- leaves and signals where they are made at run time ------------------------------------------------------------------


def test_an_exclusive_join_in_a_dynamic_branch(bench: Bench) -> None:
    """It ends with the first of its tasks inside a branch; the JOIN outside waits for the branch."""
    inner = [*static("F", "J", [node("a")], [node("b")]), node("x", "EXCLUSIVE_JOIN", joinOn=["a", "b"]), node("c")]
    bench.start(workflow(*forked(), node("z")), branches(inner, node("o")))
    for name in ("b", "a", "c", "o"):
        assert bench.poll("z") is None
        bench.do(name, output={"by": name})
        bench.healthy()
    assert bench.task("x").output_data
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_jq_in_a_dynamic_branch(bench: Bench) -> None:
    """A JSON_JQ_TRANSFORM in a branch reads a task of its branch."""
    pytest.importorskip("jq")
    told = node("q", "JSON_JQ_TRANSFORM", inputParameters={"n": "${a.output.n}", "queryExpression": ".n + 1"})
    bench.start(workflow(*forked()), branches([node("a"), told]))
    bench.do("a", output={"n": 4})
    bench.healthy()
    assert bench.task("q").output_data["result"] == 5
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("kind", ["HUMAN", "WAIT"])
@pytest.mark.parametrize("named", [True, False])
def test_signals_into_dynamic_branches_and_loops(bench: Bench, kind: str, named: bool) -> None:
    """A signal finds what waits in a round of a loop in a dynamic branch, by name or as the first that waits."""
    bench.start(workflow(*forked(), node("z")), branches(loop("l", node("h", kind)), [node("g", kind)]))
    bench.healthy()
    for ref in ("h__1", "h__2", "g") if named else ("g", "h__1", "h__2"):
        if named:
            told = bench.engine.signal(bench.workflow_id, {"n": 1}, task=ref.partition("__")[0])
            assert told.ref == ref
        else:
            told = bench.engine.signal(bench.workflow_id, {"n": 1})
        assert (told.status, told.output_data["n"]) == (TaskStatus.COMPLETED, 1)
        bench.healthy()
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_human_in_a_child_of_a_dynamic_branch(bench: Bench) -> None:
    """A signal without a name finds what waits in a sub-workflow that a dynamic branch has begun."""
    child = {"name": "child", "tasks": [node("h", "HUMAN")]}
    sub: Json = node("c", "SUB_WORKFLOW", subWorkflowParam={"name": "child", "workflowDefinition": child})
    bench.start(workflow(*forked()), branches(sub))
    bench.engine.settle()
    told = bench.engine.signal(bench.workflow_id)
    assert told.workflow_id == bench.task("c").sub_workflow_id
    bench.healthy()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_a_type_nobody_works_on(bench: Bench) -> None:
    """A task of a type that is none of ours, made at run time too, waits for a worker, and `explain` says so."""
    bench.start(workflow(*forked()), branches(node("a", "LLM_CHAT"), node("b", "MADE_UP", name="b")))
    bench.healthy()
    assert {task.status for task in bench.workflow.tasks if task.ref in "ab"} == {TaskStatus.SCHEDULED}
    said = str(bench.engine.explain(bench.workflow_id))
    assert "LLM_CHAT" in said
    assert "MADE_UP" in said
    assert "worker" in said


# -- what the simulator has found ---------------------------------------------------------------------------------------


def test_a_poll_that_comes_too_late_leaves_the_new_message(bench: Bench) -> None:
    """A task is run again between the look at its queue and the poll: what is offered now stays in the queue."""
    bench.start(workflow(node("a")))
    bench.engine.settle()
    with bench.engine.backend.reading() as view:
        (seen,) = view.queue.offered("a", bench.engine.clock.now(), 1)
    bench.engine.rerun(bench.workflow_id, from_task="a")
    assert bench.engine.core.polling.take_message(seen, "late") is None
    bench.healthy()
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_an_end_dated_before_the_beginning() -> None:
    """What ends an execution, dated by a clock that is behind, is read with what begins it: it begins, and ends."""
    store, clock = MemoryBackend(relay=True), VirtualClock()
    engine = Engine(store, clock=clock)
    child = {"name": "child", "tasks": [node("a")]}
    task = {"name": "s", "taskReferenceName": "s", "type": "SUB_WORKFLOW", "subWorkflowParam": {"workflowDefinition": child}}
    engine.start(workflow(task))
    with store.reading() as view:
        ((beginning,),) = (item.outgoing.posted for item in view.outbox.items(10))
    end = attrs.evolve(beginning, event_id="END", kind=EventKind.TERMINATE, due_at=clock.now() - 5, data=EMPTY)
    with store.writing() as tx:
        tx.inbox.post([end])
    engine.settle()
    assert engine.status(beginning.workflow_id) is WorkflowStatus.TERMINATED
    assert engine.admin.check() == []
