"""Reasons in two sentences: the step and the cause for a person, and the words that Conductor's server gives to its clients."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple, task_def, wait

from conductorlite import Task, Workflow, WorkflowDef, WorkflowStatus, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.model.definitions import SubWorkflowParams
from conductorlite.model.documents import task_to_json, workflow_to_json

PATIENT: dict[str, Any] = {"poll_timeout_s": 0, "response_timeout_s": 0, "timeout_s": 0, "retry_count": 0}


def task(kind: str, ref: str = "o", **fields: Any) -> WorkflowTask:
    """A task of a type."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, **fields)


def sub(ref: str, child: WorkflowDef) -> WorkflowTask:
    """A SUB_WORKFLOW."""
    return task("SUB_WORKFLOW", ref, sub_workflow_param=SubWorkflowParams(workflow_definition=child))


def in_conductor(workflow: Workflow) -> str | None:
    """The reason that Conductor's clients read."""
    assert workflow_to_json(workflow).get("reasonForIncompletion") == (workflow.conductor_reason or workflow.reason)
    return workflow.conductor_reason or workflow.reason


def of_task(task: Task) -> str | None:
    """The reason of an attempt that Conductor's clients read; what a person reads has no id in it."""
    assert task_to_json(task).get("reasonForIncompletion") == (task.conductor_reason or task.reason)
    assert task.task_id not in (task.reason or "")
    return task.conductor_reason or task.reason


@pytest.mark.parametrize("policy", ["RETRY", "TIME_OUT_WF", "ALERT_ONLY"])
@pytest.mark.parametrize(
    ("field", "text", "shown"),
    [
        (
            "poll",
            "Task poll timed out after 20 seconds. Poll timeout configured as 20 seconds. Timeout policy configured to {}",
            "",
        ),
        ("", "Task timed out after 20 seconds. Timeout configured as 20 seconds. Timeout policy configured to {}", ""),
        (
            "total",
            "Task t/{id} exceeded total timeout of 20 seconds (elapsed 20 seconds across all attempts including retry delays). "
            "Timeout policy: {}",
            "t exceeded its total timeout of 20 seconds (elapsed 20 seconds across all attempts including retry delays). "
            "Timeout policy: {}",
        ),
        (
            "response",
            "responseTimeout: 20 exceeded for the taskId: {id} with Task Definition: t",
            "responseTimeout: 20 exceeded by t",
        ),
    ],
    ids=["poll", "task", "total", "response"],
)
def test_timeouts(bench: Bench, field: str, text: str, shown: str, policy: str) -> None:
    """How long it took, what was configured, and the policy, as the task's reason or in the alert; `shown` to a person."""
    option = f"{field}_timeout_s".lstrip("_")
    bench.start(flow(simple("t", {**PATIENT, option: 20, "timeout_policy": policy})))
    polled = bench.task("t") if field == "poll" else bench.take("t")
    bench.at(20)
    expected, read = text.format(policy, id=polled.task_id), (shown or text).format(policy)
    if policy == "ALERT_ONLY" and field != "response":
        alerts = [line.reason for line in bench.engine.history(bench.workflow_id) if line.kind == "ALERT"]
        assert alerts == [read]
    else:
        assert (of_task(bench.task("t", 0)), bench.task("t", 0).reason) == (expected, read)
        quoted = f"Task {polled.task_id} failed with status: TIMED_OUT and reason: '{expected}'"
        assert in_conductor(bench.workflow) == (expected if policy == "TIME_OUT_WF" and field != "response" else quoted)
        assert bench.workflow.reason == (read if policy == "TIME_OUT_WF" and field != "response" else f"t timed out: {read}")


@pytest.mark.parametrize("how", ["response", "report"])
def test_no_time_left_for_a_retry(bench: Bench, how: str) -> None:
    """An attempt that fails when the total time is over ends the workflow in words of its own, though attempts were left."""
    spans = {"response_timeout_s": 20} if how == "response" else {}
    bench.start(flow(simple("t", {**PATIENT, **spans, "retry_count": 3, "total_timeout_s": 20, "timeout_policy": "ALERT_ONLY"})))
    polled = bench.take("t")
    bench.at(20 if how == "response" else 21)
    if how == "report":
        bench.report(polled, "FAILED", reason="no paper")
    elapsed = 20 if how == "response" else 21
    assert bench.workflow.reason == (
        f"t exceeded its total timeout of 20 seconds "
        f"(elapsed {elapsed} seconds across all attempts). No further retries will be attempted."
    )
    assert in_conductor(bench.workflow) == (
        f"Task {polled.task_id}/t exceeded total timeout of 20 seconds "
        f"(elapsed {elapsed} seconds across all attempts). No further retries will be attempted."
    )
    assert bench.workflow.status is (WorkflowStatus.TIMED_OUT if how == "response" else WorkflowStatus.FAILED)


def test_parts_of_a_second(bench: Bench) -> None:
    """What Conductor cannot have is told as it is."""
    bench.start(flow(simple("t", {**PATIENT, "timeout_s": 1.5})))
    bench.take("t")
    bench.at(2)
    assert (bench.workflow.reason or "").startswith("Task timed out after 1 seconds. Timeout configured as 1.5 seconds.")


@pytest.mark.parametrize("policy", ["TIME_OUT_WF", "ALERT_ONLY", None])
def test_the_workflows_timeout(bench: Bench, policy: str | None) -> None:
    """The same, as the workflow's reason or in the alert."""
    given = None if policy is None else WorkflowTimeoutPolicy(policy)
    bench.start(flow(simple("t", PATIENT), timeout_ms=60_000, timeout_policy=given))
    bench.at(60)
    told = f"Timeout configured as 60 seconds. Timeout policy configured to {policy or 'ALERT_ONLY'}"
    lines = [line.reason for line in bench.engine.history(bench.workflow_id) if line.kind == "ALERT" or line.status == "TIMED_OUT"]
    assert lines == [f"Workflow timed out after 60 seconds. {told}"]


@pytest.mark.parametrize("permissive", [False, True])
@pytest.mark.parametrize(("reason", "told"), [(None, "null"), ("no paper", "no paper")])
def test_a_failure(bench: Bench, reason: str | None, told: str, permissive: bool) -> None:
    """The task, its status and its reason; one that was given none says null."""
    bench.start(flow(simple("t", PATIENT, permissive=permissive)))
    bench.do("t", "FAILED", reason=reason)
    assert in_conductor(bench.workflow) == f"Task {bench.task('t').task_id} failed with status: FAILED and reason: '{told}'"
    assert bench.workflow.reason == ("t failed" if reason is None else f"t failed: {reason}")


def test_failures_that_were_permitted_are_told_though_one_was_canceled(bench: Bench) -> None:
    """Each of them, in the order in which they were scheduled."""
    bench.start(flow(simple("a", PATIENT, permissive=True), simple("b", PATIENT, permissive=True)))
    bench.do("a", "CANCELED", reason="withdrawn")
    bench.do("b", "FAILED", reason="no paper")
    told = [f"Task {bench.task(ref).task_id} failed with status: {bench.task(ref).status}" for ref in "ab"]
    assert in_conductor(bench.workflow) == f"{told[0]} and reason: 'withdrawn'. {told[1]} and reason: 'no paper'"
    assert bench.workflow.reason == "a was canceled: withdrawn. b failed: no paper"


def test_a_loop_fails_with_the_first_failure_in_it(bench: Bench) -> None:
    """Though the others of its round are carried out."""
    bench.start(flow(rounds("l", [simple("a", PATIENT, permissive=True), simple("b", PATIENT, permissive=True)])))
    bench.do("a", "FAILED", reason="first")
    bench.do("b", "FAILED", reason="second")
    assert bench.task("l").reason == "first"


@pytest.mark.parametrize("end", ["terminated", "failed", "timed out", "without a reason"])
def test_children_of_what_has_ended(bench: Bench, end: str) -> None:
    """Each is told what its parent's reason was; without one, the status."""
    middle = flow(sub("m", WorkflowDef(name="one", tasks=[wait("w")])), name="middle")
    policy = WorkflowTimeoutPolicy.TIME_OUT_WF
    forked = fork("f", [sub("c", middle)], [simple("t", PATIENT)])
    bench.start(flow(forked, join("j", "c", "t"), timeout_ms=60_000, timeout_policy=policy))
    bench.engine.settle()
    if end == "failed":
        bench.do("t", "FAILED", reason="no paper")
    elif end == "timed out":
        bench.at(60)
    else:
        bench.engine.terminate(bench.workflow_id, "enough" if end == "terminated" else None)
    bench.engine.settle()
    (child,) = bench.engine.admin.children(bench.workflow_id)
    (grandchild,) = bench.engine.admin.children(child.workflow_id)
    words, given = "Parent workflow has been terminated with", in_conductor(bench.workflow)
    told = f"{words} reason: {given}" if given else f"{words} status TERMINATED"
    assert (in_conductor(child), in_conductor(grandchild)) == (told, f"{words} reason: {told}")


TASKS: dict[str, tuple[WorkflowTask, str]] = {
    "TERMINATE": (
        task("TERMINATE", input_parameters={"terminationStatus": "${workflow.input.d}"}),
        "given termination status is not valid: '1 s' is none of COMPLETED, FAILED, TERMINATED",
    ),
    "SET_VARIABLE": (
        task("SET_VARIABLE", input_parameters={"v": "${workflow.input.long}"}),
        "The variables payload size: 300008 is greater than the permissible limit: 256 kilobytes",
    ),
    "START_WORKFLOW": (
        task("START_WORKFLOW", input_parameters={"startWorkflow": "${workflow.input.no}"}),
        "Missing 'startWorkflow' in input data.",
    ),
}


@pytest.mark.parametrize("kind", TASKS)
def test_operators(bench: Bench, kind: str) -> None:
    """What a built-in type says of an input that it cannot take."""
    one, told = TASKS[kind]
    bench.start(flow(one), {"d": "1 s", "long": "x" * 300_000})
    assert bench.task("o").reason == told
    if kind == "SET_VARIABLE":
        assert of_task(bench.task("o")) == told.replace("300008", "300008 of workflow: w1")


def test_a_loop_condition(bench: Bench) -> None:
    """A condition that cannot be evaluated is quoted."""
    condition = "if ($.l.iteration < $.t.x.y.z) { true; } else { false; }"
    bench.start(flow(attrs.evolve(rounds("l", [simple("t", PATIENT)], 2), loop_condition=condition)))
    bench.do("t")
    assert (bench.task("l").reason or "").startswith(f"Unable to evaluate condition {condition}, exception TypeError")


@pytest.mark.parametrize(("reason", "told"), [(None, "null"), ("", ""), ("enough", "enough")])
def test_a_child_that_was_terminated(bench: Bench, reason: str | None, told: str) -> None:
    """Without a reason of its own its task says null, as in Conductor."""
    bench.start(flow(sub("c", WorkflowDef(name="one", tasks=[simple("t", PATIENT)]))))
    bench.engine.settle()
    (run,) = bench.engine.admin.children(bench.workflow_id)
    bench.engine.terminate(run.workflow_id, reason)
    bench.engine.settle()
    assert of_task(bench.task("c")) == f"Sub workflow one.1/{run.workflow_id} failure reason: {told}"
    assert (bench.task("c").reason, bench.workflow.reason) == (reason, f"c was canceled: {reason}" if reason else "c was canceled")


def test_a_child_that_failed(bench: Bench) -> None:
    """Its task names the execution and quotes its reason."""
    child = WorkflowDef(name="one", tasks=[simple("t", PATIENT)])
    bench.start(flow(attrs.evolve(sub("c", child), task_definition=task_def("c", retry_count=0))))
    bench.engine.settle()
    bench.do("t", "FAILED", reason="no paper")
    bench.engine.settle()
    (run,) = bench.engine.admin.children(bench.workflow_id)
    assert of_task(bench.task("c")) == f"Sub workflow one.1/{run.workflow_id} failure reason: {in_conductor(run)}"
    assert (run.reason, bench.task("c").reason, bench.workflow.reason) == ("t failed: no paper", "no paper", "c failed: no paper")
    assert str(in_conductor(bench.workflow)).count("failed with status") == 2


#: Ids as people see them: a task's, and one of an execution that the engine has named.
IDS = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-")


BESIDE = simple("beside", {**PATIENT, "retry_count": 0}, compensate="undo")


def _ways_up(child: WorkflowTask) -> dict[str, tuple[WorkflowTask, ...]]:
    """Ways in which the failure of an execution below reaches the reason of its execution."""
    permitted = attrs.evolve(child, permissive=True)
    return {
        "alone": (child,),
        "permitted": (permitted, BESIDE),
        "in a loop": (rounds("l", [permitted], 2),),
        "joined": (fork("f", [permitted], [BESIDE]), join("j", "c", "beside")),
        "undone": (BESIDE, child),
    }


def _do_offered(bench: Bench, task_type: str, status: str) -> None:
    task = bench.poll(task_type)
    if task is not None:
        bench.report(task, status)
        bench.engine.settle()


@pytest.mark.parametrize("how", ["FAILED", "total", "response"])
@pytest.mark.parametrize("way", ["alone", "permitted", "in a loop", "joined", "undone"])
def test_no_reason_has_an_id(bench: Bench, way: str, how: str) -> None:
    """However a task fails two executions below, and whatever that goes through: in no row, and in no line of the journals.

    Conductor's sentence names the task at the bottom for its clients.
    """
    spans = {"total": {"total_timeout_s": 20}, "response": {"response_timeout_s": 20}}.get(how, {})
    middle = WorkflowDef(name="middle", tasks=[sub("m", WorkflowDef(name="bottom", tasks=[simple("t", {**PATIENT, **spans})]))])
    child = attrs.evolve(sub("c", middle), task_definition=task_def("c", retry_count=0))
    bench.start(flow(*_ways_up(child)[way]))
    bench.engine.settle()
    _do_offered(bench, "beside", "COMPLETED")
    failing = bench.take("t")
    if spans:
        bench.at(20)
    else:
        bench.report(failing, "FAILED", reason="no paper")
    bench.engine.settle()
    _do_offered(bench, "beside", "COMPLETED")
    _do_offered(bench, "undo", "FAILED_WITH_TERMINAL_ERROR")
    family = [bench.workflow_id]
    for one in family:
        family += [below.workflow_id for below in bench.engine.admin.children(one)]
    assert (len(family), bench.workflow.status.terminal) == (3, True)
    shown = [row.reason for one in family for row in (bench.engine.get(one), *bench.engine.get(one).tasks) if row.reason]
    shown += [line.reason for one in family for line in bench.engine.history(one) if line.reason]
    assert [text for text in shown if IDS.search(text)] == []
    cause = {"total": "t exceeded its total timeout", "response": "responseTimeout: 20 exceeded by t"}.get(how, "no paper")
    assert cause in str(bench.workflow.reason)
    assert failing.task_id in str(in_conductor(bench.workflow))
