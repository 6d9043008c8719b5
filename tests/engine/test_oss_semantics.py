"""What `Semantics.OSS` does as Conductor's open-source server does, and the default semantics do not."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, NewBench, flow, fork, join, noop, rounds, simple
from run_time_kit import dynamic, starting, workflow

from conductorlite import Semantics, WorkflowDef, WorkflowStatus, WorkflowTask

INNER = {"name": "inner", "version": 2, "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}


def end(status: str = "COMPLETED", **given: Any) -> WorkflowTask:
    """A TERMINATE."""
    return WorkflowTask(
        name="end", task_reference_name="end", type="TERMINATE", input_parameters={"terminationStatus": status, **given}
    )


def child(ref: str = "c", **params: Any) -> WorkflowTask:
    """A SUB_WORKFLOW."""
    task = {"name": ref, "taskReferenceName": ref, "type": "SUB_WORKFLOW", "subWorkflowParam": params}
    return WorkflowDef.from_json({"name": "x", "tasks": [task]}).tasks[0]


@pytest.fixture(params=list(Semantics))
def bench(new_bench: NewBench, request: pytest.FixtureRequest) -> Bench:
    """A bench of each semantics."""
    return new_bench(semantics=request.param)


def is_oss(bench: Bench) -> bool:
    """Whether it does as the open-source server does."""
    return bench.engine.config.semantics is Semantics.OSS


@pytest.mark.parametrize("written", [None, "", " ", "enough"])
def test_the_reason_of_a_terminate_that_completes(bench: Bench, written: str | None) -> None:
    """The execution has the reason that is given, and without one that of the server; so has a child that it cancels."""
    bench.engine.register(flow(simple("a"), name="child"))
    given = {} if written is None else {"terminationReason": written}
    reason = (written or "").strip() or None
    bench.start(flow(fork("f", [child(name="child", version=1)], [simple("b"), end(**given)]), join("j", "c", "end")))
    bench.engine.settle()
    child_id = bench.task("c").sub_workflow_id or ""
    bench.do("b")
    bench.engine.settle()
    own = f"Workflow is COMPLETED by TERMINATE task: {bench.task('end').task_id}" if is_oss(bench) else None
    said = bench.workflow.conductor_reason or bench.workflow.reason
    assert (bench.workflow.status, said) == (WorkflowStatus.COMPLETED, reason or own)
    below = bench.engine.get(child_id)
    because = f"reason: {reason or own}" if reason or own else "status COMPLETED"
    assert (below.status, below.conductor_reason or below.reason) == (
        WorkflowStatus.TERMINATED,
        f"Parent workflow has been terminated with {because}",
    )
    assert bench.statuses()["c"] == "CANCELED"


@pytest.mark.parametrize("status", ["FAILED", "TERMINATED"])
def test_a_blank_reason_of_a_terminate_that_fails(bench: Bench, status: str) -> None:
    """A blank text is no reason: the sentence that names the task is."""
    bench.start(flow(end(status, terminationReason=" ")))
    bench.engine.settle()
    assert bench.workflow.conductor_reason == f"Workflow is {status} by TERMINATE task: {bench.task('end').task_id}"
    assert bench.workflow.reason == f"Workflow is {status} by end"


@pytest.mark.parametrize("correlation", [None, "", "  ", "own"])
def test_the_correlation_id_of_a_started_workflow(bench: Bench, correlation: str | None) -> None:
    """A START_WORKFLOW without one, or with a blank one, hands on that of its execution."""
    bench.engine.register(flow(noop("n"), name="child"))
    request = {"name": "child", "version": 1, "correlationId": correlation}
    bench.start(workflow(starting(request)), correlation_id="c")
    bench.engine.settle()
    (below,) = bench.engine.executions("child")
    assert below.correlation_id == ("own" if correlation == "own" else "c")


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TERMINATED"])
def test_terminate_in_a_loop(bench: Bench, status: str) -> None:
    """It ends the execution in that round; the loop is CANCELED, with what its rounds have put out."""
    bench.start(flow(rounds("l", [simple("a"), end(status, workflowOutput={"k": 1})], 3), noop("z")))
    bench.do("a", output={"n": 1})
    assert (str(bench.status_of_workflow()), bench.workflow.output_data) == (status, {"k": 1})
    assert bench.statuses() == {"l": "CANCELED", "a__1": "COMPLETED", "end__1": "COMPLETED"}
    assert bench.task("l").output_data["1"] == {"a": {"n": 1}, "end": {"k": 1}}


FORMS: dict[str, tuple[dict[str, Any], bool]] = {
    "an object": ({"name": "inner", "workflowDefinition": INNER}, True),
    "an expression": ({"name": "x", "version": 1, "workflowDefinition": "${workflow.input.inner}"}, True),
    "a name": ({"name": "inner", "version": 2}, False),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("known", [{}, {"_systemMetadata": {"other": 1}}, {"_systemMetadata": "text"}])
def test_the_mark_of_an_inline_child(bench: Bench, form: str, known: dict[str, Any]) -> None:
    """The input of a child of an inline definition says so under `_systemMetadata`; the task's own input does not."""
    params, inline = FORMS[form]
    bench.engine.register(WorkflowDef.from_json(INNER))
    task = {"name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW", "subWorkflowParam": params, "inputParameters": known}
    bench.start(workflow(task), {"inner": INNER})
    bench.engine.settle()
    below = bench.engine.get(bench.task("c").sub_workflow_id or "")
    mark = {**(known.get("_systemMetadata") if isinstance(known.get("_systemMetadata"), dict) else {}), "dynamic": True}  # type: ignore[dict-item]
    assert below.input_data == ({**known, "_systemMetadata": mark} if inline and is_oss(bench) else known)
    assert bench.task("c").input_data["workflowInput"] == known
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_the_mark_of_a_definition_among_the_inputs(bench: Bench) -> None:
    """So has the child of a DYNAMIC whose inputs hold the definition."""
    bench.start(workflow(dynamic(inputs={"subWorkflowDefinition": INNER, "workflowInput": {"a": 1}})), {"who": "SUB_WORKFLOW"})
    bench.engine.settle()
    below = bench.engine.get(bench.task("d").sub_workflow_id or "")
    assert below.input_data == ({"a": 1, "_systemMetadata": {"dynamic": True}} if is_oss(bench) else {"a": 1})
