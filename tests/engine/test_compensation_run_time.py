"""Compensation of what is made at run time, and of rounds; and what the other verbs make of an execution that is undone."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, NewBench
from run_time_kit import Json, dynamic, forked, loop, node, static, switched, tried, workflow

from conductorlite import Bounds, WorkflowStatus
from conductorlite.engine.reader import StoreReader
from conductorlite.errors import Conflict
from conductorlite.model.executions import HistoryKind

FAIL = tried("fail")


def step(ref: str, undo: Any = None, **fields: Any) -> Json:
    """A task that is done by hand, and undone by a task that says which one it undoes."""
    given = {"of": "${" + ref + ".output.n}", **({} if undo is None else undo)}
    return tried(ref, compensate=node(f"undo_{ref}", name="undo", inputParameters=given), **fields)


def failed(bench: Bench, *names: str) -> None:
    """Do these tasks, in order, and have the last one fail."""
    for number, name in enumerate(names):
        bench.do(name, output={"n": number})
    bench.do("fail", "FAILED")


def undo_all(bench: Bench) -> list[Any]:
    """Carry out every compensation, one after another; what each was told."""
    seen = []
    while (task := bench.poll("undo")) is not None:
        seen.append((task.ref, task.input_data.get("of")))
        bench.report(task)
    bench.healthy()
    return seen


def undone(bench: Bench) -> list[str]:
    """What was compensated, in order, as the history tells it."""
    lines = bench.engine.history(bench.workflow_id)
    return [str(line.ref) for line in lines if line.kind is HistoryKind.COMPENSATION and line.ref is not None]


# -- dynamic branches, and what a DYNAMIC stands for -------------------------------------------------------------------


def test_tasks_of_dynamic_branches(bench: Bench) -> None:
    """Undone in the order of their ends, each reading its own task; what stands around them too."""
    branches = [[step("b"), step("c")], step("d")]
    bench.start(workflow(step("a"), *forked(), FAIL), {"t": branches})
    failed(bench, "a", "b", "d", "c")
    assert undo_all(bench) == [("undo_c", 3), ("undo_d", 2), ("undo_b", 1), ("undo_a", 0)]
    assert undone(bench) == ["c", "d", "b", "a"]
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_only_dynamic_branches_have_any(bench: Bench) -> None:
    """An execution whose definition says of no task how it is undone still undoes what it made at run time."""
    bench.start(workflow(*forked(), FAIL), {"t": [step("b"), tried("c")]})
    failed(bench, "b", "c")
    assert undo_all(bench) == [("undo_b", 0)]


def test_a_branch_fails_while_others_run(bench: Bench) -> None:
    """What is open in other branches is canceled and not undone."""
    bench.start(workflow(*forked()), {"t": [[step("b"), step("c")], [step("d")], FAIL]})
    bench.do("b", output={"n": 1})
    bench.take("d")
    bench.do("fail", "FAILED")
    assert undo_all(bench) == [("undo_b", 1)]
    assert (bench.statuses()["c"], bench.statuses()["d"]) == ("CANCELED", "CANCELED")


def test_a_loop_and_a_fork_in_a_dynamic_branch(bench: Bench) -> None:
    """Rounds inside a dynamic branch, branches of a dynamic fork inside it, and the fork in rounds of a loop."""
    inner = [*forked("g", "k", "${workflow.input.g}"), loop("l", step("z"))]
    bench.start(workflow(loop("o", *forked()), FAIL), {"t": [inner], "g": [step("x"), step("y")]})
    failed(bench, "x", "y", "z", "z", "x", "y", "z", "z")
    assert undo_all(bench) == [
        *(("undo_z__2__2", 7), ("undo_z__2__1", 6), ("undo_y__2", 5), ("undo_x__2", 4)),
        *(("undo_z__1__2", 3), ("undo_z__1__1", 2), ("undo_y__1", 1), ("undo_x__1", 0)),
    ]


def test_what_a_dynamic_stands_for(bench: Bench) -> None:
    """The compensation is the DYNAMIC's, and reads the task that it stood for; also in rounds and in dynamic branches."""
    who = {"type": "DYNAMIC", "dynamicTaskNameParam": "who", "inputParameters": {"who": "work"}}
    bench.start(workflow(step("a", **who), loop("l", step("c", **who)), *forked(), FAIL), {"t": [step("b", **who)]})
    failed(bench, "work", "work", "work", "work")
    assert undo_all(bench) == [("undo_b", 3), ("undo_c__2", 2), ("undo_c__1", 1), ("undo_a", 0)]


@pytest.mark.parametrize("bounds", [Bounds(rows=1), Bounds(steps=1)], ids=["one row", "one step"])
def test_turns_that_are_cut(new_bench: NewBench, bounds: Bounds) -> None:
    """The chain goes on over turns that are cut after each row or step."""
    bench = new_bench(bounds=bounds)
    bench.start(workflow(step("a"), *forked(), FAIL), {"t": [[step("b"), step("c")], loop("l", step("d"))]})
    failed(bench, "a", "b", "d", "c", "d")
    assert [ref for ref, _ in undo_all(bench)] == ["undo_d__2", "undo_c", "undo_d__1", "undo_b", "undo_a"]


@pytest.mark.parametrize("other", ["fork", "task"])
def test_a_compensation_whose_name_is_taken(bench: Bench, other: str) -> None:
    """Two dynamic forks that name their compensations alike, or a branch named like a compensation: said, not broken."""
    second = [tried("c", compensate=node("undo_b", name="undo"))] if other == "fork" else [tried("undo_b")]
    tasks = [*forked(tasks=[step("b")]), *forked("g", "k", tasks=second), FAIL]
    bench.start(workflow(*tasks))
    bench.do("b", output={"n": 1})
    if bench.status_of_workflow() is WorkflowStatus.RUNNING:
        bench.do("c" if other == "fork" else "undo_b")
        bench.do("fail", "FAILED")
    assert [ref for ref, _ in undo_all(bench)] == (["undo_b"] if other == "fork" else [])
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert "; compensation of 'b' failed: the execution has another task 'undo_b'" in str(bench.workflow.reason)


def test_a_compensation_named_like_a_task_of_the_definition(bench: Bench) -> None:
    """A dynamic fork whose branches would take a name of the definition, by a compensation, fails and says so."""
    made = [tried("b", compensate=node("undo_a", name="undo"))]
    bench.start(workflow(step("a"), *forked()), {"t": made})
    bench.do("a", output={"n": 1})
    assert "the execution has another task 'undo_a'" in str(bench.task("f").reason)
    assert undo_all(bench) == [("undo_a", 1)]


# -- other rounds ------------------------------------------------------------------------------------------------------


def test_expressions_in_rounds_read_their_round(bench: Bench) -> None:
    """A compensation in a round of loops in loops reads siblings of its round, and what is outside."""
    body = [tried("x"), step("y", {"x": "${x.output.n}", "a": "${a.output.n}", "round": "${i.output.iteration}"})]
    bench.start(workflow(tried("a"), loop("o", loop("i", *body)), FAIL))
    bench.do("a", output={"n": 99})
    for number in range(4):
        bench.do("x", output={"n": 10 + number})
        bench.do("y", output={"n": number})
    bench.do("fail", "FAILED")
    seen = []
    while (task := bench.poll("undo")) is not None:
        seen.append((task.ref, task.input_data))
        bench.report(task)
    assert [(ref, given["of"], given["x"], given["a"]) for ref, given in seen] == [
        ("undo_y__2__2", 3, 13, 99),
        ("undo_y__2__1", 2, 12, 99),
        ("undo_y__1__2", 1, 11, 99),
        ("undo_y__1__1", 0, 10, 99),
    ]


def test_expressions_in_dynamic_branches_of_rounds(bench: Bench) -> None:
    """The same where the branches of each round were made in it."""
    made = [[tried("x"), step("y", {"x": "${x.output.n}"})]]
    bench.start(workflow(loop("o", *forked()), FAIL), {"t": made})
    for number in range(2):
        bench.do("x", output={"n": 10 + number})
        bench.do("y", output={"n": number})
    bench.do("fail", "FAILED")
    seen = []
    while (task := bench.poll("undo")) is not None:
        seen.append((task.ref, task.input_data["of"], task.input_data["x"]))
        bench.report(task)
    assert seen == [("undo_y__2", 1, 11), ("undo_y__1", 0, 10)]


# -- verbs -------------------------------------------------------------------------------------------------------------


def compensating(bench: Bench) -> None:
    """Bring an execution to where the second of three compensations is offered."""
    bench.start(workflow(step("a"), *forked(), switched("s", "go", go=[step("c")]), FAIL), {"t": [step("b")]})
    failed(bench, "a", "b", "c")
    bench.do("undo")


def test_no_verb_disturbs_it(bench: Bench) -> None:
    """Retry, restart, rerun, skip and migrate are refused while it is undone; pause and resume hold it; it then ends."""
    compensating(bench)
    engine, it = bench.engine, bench.workflow_id
    for verb in (
        lambda: engine.retry(it),
        lambda: engine.restart(it),
        lambda: engine.skip_task(it, "fail"),
        lambda: engine.rerun(it, from_task="a"),
        lambda: engine.definitions.migrate(it, workflow(step("a"), version=2)),
    ):
        with pytest.raises(Conflict):
            verb()
    plan = engine.definitions.migrate(it, workflow(step("a"), version=2), dry_run=True)
    assert plan.blocked
    engine.pause(it)
    bench.do("undo")
    assert bench.poll("undo") is None
    engine.resume(it)
    undo_all(bench)
    assert undone(bench) == ["c", "b", "a"]
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.parametrize("verb", ["restart", "rerun"])
@pytest.mark.parametrize("state", ["undone", "terminated", "compensating"])
def test_run_again_from_the_start(bench: Bench, verb: str, state: str) -> None:
    """What was undone, wholly or in part, is done and undone anew; while it is undone only `rerun` takes it back."""
    compensating(bench)
    if state == "undone":
        undo_all(bench)
    elif state == "terminated":
        bench.engine.terminate(bench.workflow_id)
    if (verb, state) == ("restart", "compensating"):
        with pytest.raises(Conflict):
            bench.engine.restart(bench.workflow_id)
        return
    getattr(bench.engine, verb)(bench.workflow_id)
    bench.healthy()
    assert (bench.workflow.compensating, bench.poll("undo")) == (None, None)
    failed(bench, "a", "b", "c")
    assert [ref for ref, _ in undo_all(bench)] == ["undo_c", "undo_b", "undo_a"]


def test_its_failure_workflow_runs_each_time(bench: Bench) -> None:
    """A failure workflow begins after the last compensation, sees it, and begins again after a restart that fails."""
    bench.engine.register(workflow(node("mourn"), name="mourn"))
    bench.start(workflow(*forked(tasks=[step("b")]), FAIL, failureWorkflow="mourn"))
    for _ in range(2):
        failed(bench, "b")
        assert bench.poll("mourn") is None
        undo_all(bench)
        mourning = bench.do("mourn")
        told = bench.engine.get(mourning.workflow_id).input_data["failedWorkflow"]["tasks"]
        assert {"b", "undo_b", "fail"} <= {task["referenceTaskName"] for task in told}
        bench.engine.restart(bench.workflow_id)
    assert len(list(bench.engine.admin.workflow_ids())) == 3


def test_a_child_that_is_reopened(bench: Bench) -> None:
    """The parent that was compensated does not wait for a child that is rerun; the child runs by itself."""
    child = {"name": "child", "tasks": [tried("work")]}
    sub = node("c", "SUB_WORKFLOW", subWorkflowParam={"name": "child", "workflowDefinition": child},
               compensate=node("undo_c", name="undo", inputParameters={"of": "${c.output.subWorkflowId}"}))  # fmt: skip
    bench.start(workflow(*forked(), FAIL), {"t": [sub]})
    bench.do("work")
    bench.do("fail", "FAILED")
    below = str(bench.task("c").sub_workflow_id)
    bench.engine.rerun(below, from_task="work")
    bench.engine.settle()
    assert undo_all(bench) == [("undo_c", below)]
    bench.do("work")
    bench.healthy()
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.engine.status(below) is WorkflowStatus.COMPLETED


def test_a_skipped_task_is_not_undone(bench: Bench) -> None:
    """What was passed over has not been done; what was skipped ahead in a case neither."""
    bench.start(workflow(step("a"), step("b"), *static("f", "j", [step("c")]), FAIL))
    bench.engine.skip_task(bench.workflow_id, "b")
    bench.engine.skip_task(bench.workflow_id, "f")
    failed(bench, "a")
    assert undo_all(bench) == [("undo_a", 0)]


def test_retry_before_anything_was_undone(bench: Bench) -> None:
    """An execution that failed with nothing to undo is retried, and what it then makes at run time is undone."""
    bench.start(workflow(*forked(), FAIL), {"t": [step("b"), tried("c")]})
    bench.take("b")
    bench.do("c", "FAILED")
    bench.engine.retry(bench.workflow_id)
    failed(bench, "b", "c")
    assert undo_all(bench) == [("undo_b", 0)]


@pytest.mark.parametrize("place", ["definition", "branch"])
def test_a_dynamic_that_stands_for_another_at_the_retry(bench: Bench, place: str) -> None:
    """What is undone is the attempt that completed, whatever the ones before it stood for."""
    one = step("d", type="DYNAMIC", dynamicTaskNameParam="who", inputParameters={"who": "${workflow.variables.who}"})
    definition = workflow(*([one] if place == "definition" else forked()), FAIL, variables={"who": "w1"})
    bench.start(definition, {"t": [one]})
    bench.engine.update_variables(bench.workflow_id, {"who": "w2"})
    bench.do("w1", "FAILED")
    bench.engine.retry(bench.workflow_id)
    bench.do("w1", output={"n": 5})
    bench.do("fail", "FAILED")
    assert undo_all(bench) == [("undo_d", 5)]


def test_branches_beside_dynamic_names(bench: Bench) -> None:
    """A dynamic fork whose branches hold a DYNAMIC each, undone branch by branch."""
    one = dynamic("p", "work", compensate=node("undo_p", name="undo"))
    two = dynamic("q", "work", compensate=node("undo_q", name="undo"))
    bench.start(workflow(*forked(tasks=[one, two]), FAIL))
    failed(bench, "work", "work")
    assert [ref for ref, _ in undo_all(bench)] == ["undo_q", "undo_p"]


def test_many_that_need_no_worker(new_bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turns that are cut, hundreds of compensations without a worker are not asked for one by one."""
    bench = new_bench(bounds=Bounds(rows=60))
    made = [node(f"b{n}", "NOOP", compensate=node(f"u{n}", "NOOP")) for n in range(300)]
    bench.start(workflow(*forked(), FAIL), {"t": made})
    bench.engine.settle()
    reads: list[object] = []
    ask = StoreReader._read
    monkeypatch.setattr(StoreReader, "_read", lambda *given: reads.append(given) or ask(*given))
    bench.do("fail", "FAILED")
    bench.healthy()
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert len(undone(bench)) == 300
    assert len(reads) < 60
