"""Traps in the verbs that look at an execution from outside or run it again, and in families."""

from __future__ import annotations

import pytest
from engine_kit import T0, Bench, flow, fork, join, rounds, simple, switch, task_def, wait

from conductorlite import SubWorkflowParams, TaskStatus, WorkflowDef, WorkflowStatus, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.errors import Conflict

_ONCE = {"retry_count": 0}


def _set(**values: object) -> WorkflowTask:
    return WorkflowTask(name="v", task_reference_name="v", type="SET_VARIABLE", input_parameters=values)


def _child(**fields: object) -> WorkflowTask:
    return WorkflowTask(
        name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="child"), **fields
    )


@pytest.mark.trap("core-45", "tasks-57")
def test_a_restart_begins_with_the_definitions_variables(bench: Bench) -> None:
    """What the first run had set is gone, as its tasks and the names of what failed are; the id and its beginning stay."""
    bench.start(flow(simple("a", _ONCE), _set(n=2), simple("b", _ONCE), variables={"n": 1}))
    bench.do("a")
    bench.at(5)
    bench.do("b", "FAILED")
    assert (bench.workflow.variables.fresh(), bench.workflow.failed_refs) == ({"n": 2}, ("b",))
    bench.engine.restart(bench.workflow_id)
    bench.engine.settle()
    after = bench.workflow
    assert (after.variables.fresh(), after.failed_refs, after.ended_at, after.created_at) == ({"n": 1}, (), 0, T0)
    assert bench.statuses() == {"a": "SCHEDULED"}


@pytest.mark.trap("core-45", "tasks-57")
def test_a_rerun_from_a_task_keeps_variables_and_counts_attempts_anew(bench: Bench) -> None:
    """The task gets a row with a fresh budget behind what stays; what was set before it stays set."""
    bench.start(flow(_set(n=2), simple("a", {"retry_count": 1, "retry_delay_s": 0}), variables={"n": 1}))
    bench.do("a", "FAILED")
    bench.do("a", "FAILED")
    bench.engine.rerun(bench.workflow_id, from_task="a", task_input={"x": 1})
    bench.engine.settle()
    task = bench.task("a")
    assert (task.attempt, task.input_data, bench.workflow.variables.fresh()) == (0, {"x": 1}, {"n": 2})
    assert [row.seq for row in bench.workflow.tasks] == sorted(row.seq for row in bench.workflow.tasks)


@pytest.mark.trap("core-18")
def test_a_rerun_starts_the_workflows_clock_again(bench: Bench) -> None:
    """Else an execution that timed out would time out again at once."""
    policy = WorkflowTimeoutPolicy.TIME_OUT_WF
    bench.start(flow(simple("a"), timeout_ms=10_000, timeout_policy=policy))
    bench.at(10)
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT
    bench.at(60)
    bench.engine.rerun(bench.workflow_id, from_task="a")
    bench.at(69)
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("core-46")
def test_a_rerun_leaves_the_other_branches_alone(bench: Bench) -> None:
    """What comes after a task is what follows it in the flow, not what was scheduled later."""
    bench.start(flow(fork("f", [simple("a"), simple("a2")], [simple("b"), simple("b2")]), join("j", "a2", "b2")))
    for name in ("a", "b", "b2"):
        bench.do(name)
    bench.engine.rerun(bench.workflow_id, from_task="a")
    bench.engine.settle()
    expected = {"f": "COMPLETED", "a": "SCHEDULED", "b": "COMPLETED", "b2": "COMPLETED", "j": "IN_PROGRESS"}
    assert bench.statuses() == expected


@pytest.mark.trap("tasks-75")
def test_what_is_skipped_at_the_head_of_a_branch_or_case_does_not_stop_it(bench: Bench) -> None:
    """The flow goes on behind a skipped head of a fork's branch and of a SWITCH's case."""
    bench.start(flow(simple("a"), fork("f", [simple("p"), simple("p2")]), join("j", "p2"),
                     switch("s", {"x": [simple("h"), simple("h2")]})), {"case": "x"})  # fmt: skip
    bench.engine.skip_task(bench.workflow_id, "p")
    bench.engine.skip_task(bench.workflow_id, "h")
    for name in ("a", "p2", "h2"):
        bench.do(name)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("core-13", "tasks-70")
def test_a_signal_lays_its_output_over_what_is_there(bench: Bench) -> None:
    """A report replaces the output, a signal by reference adds to it."""
    bench.start(flow(wait("w", duration="10s")))
    bench.report(bench.task("w"), "IN_PROGRESS", {"a": 1}, lease=False)
    bench.engine.signal(bench.workflow_id, {"b": 2})
    assert bench.task("w").output_data == {"a": 1, "b": 2}


@pytest.mark.trap("core-42")
def test_a_completed_workflow_that_is_not_restartable(bench: Bench) -> None:
    """Restarting it is a conflict; one that failed may be restarted all the same."""
    bench.start(flow(simple("a", _ONCE), restartable=False))
    bench.do("a", "FAILED")
    bench.engine.restart(bench.workflow_id)
    bench.do("a")
    with pytest.raises(Conflict, match="not restartable"):
        bench.engine.restart(bench.workflow_id)


@pytest.mark.trap("core-28")
def test_the_input_of_a_retried_sub_workflow_is_rendered_again(bench: Bench) -> None:
    """Every attempt's child gets the input as it is when the attempt is scheduled."""
    bench.engine.register(WorkflowDef(name="child", tasks=[simple("x", _ONCE)]))
    retried = task_def("s", retry_count=1, retry_delay_s=0)
    bench.start(flow(_child(task_definition=retried, input_parameters={"n": "${workflow.variables.n}"}), variables={"n": 1}))
    bench.engine.settle()
    bench.engine.update_variables(bench.workflow_id, {"n": 2})
    bench.do("x", "FAILED")
    inputs = [task.input_data["workflowInput"] for task in bench.workflow.tasks]
    assert inputs == [{"n": 1}, {"n": 2}]
    given = {child.workflow_id: child.input_data for child in bench.engine.admin.children(bench.workflow_id)}
    assert [given[task.sub_workflow_id or ""] for task in bench.workflow.tasks] == inputs


@pytest.mark.trap("tasks-43")
@pytest.mark.parametrize("optional", [False, True])
def test_a_childs_retry_reopens_what_its_failure_had_ended(bench: Bench, optional: bool) -> None:
    """The parent runs again with the siblings that were canceled; a parent that bears the failure is left as it is."""
    bench.engine.register(WorkflowDef(name="child", tasks=[simple("x", _ONCE)]))
    bench.start(flow(fork("f", [_child(optional=optional)], [simple("a")]), join("j", "s", "a")))
    bench.engine.settle()
    bench.do("x", "FAILED")
    before = bench.statuses()
    (child,) = bench.engine.admin.children(bench.workflow_id)
    bench.engine.retry(child.workflow_id)
    bench.engine.settle()
    if optional:
        assert bench.statuses() == before
    else:
        assert (before["a"], before["j"]) == ("CANCELED", "CANCELED")
        assert bench.statuses() == {"f": "COMPLETED", "s": "IN_PROGRESS", "a": "SCHEDULED", "j": "IN_PROGRESS"}
        assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.do("x")
    bench.do("a")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("core-28", "tasks-39")
def test_what_a_child_inherits(bench: Bench) -> None:
    """Correlation id and domains are the parent's; its id follows from the attempt that starts it."""
    bench.engine.register(WorkflowDef(name="child", tasks=[simple("x")]))
    bench.start(flow(_child()), correlation_id="c", task_to_domain={"x": "d"})
    bench.engine.settle()
    (child,) = bench.engine.admin.children(bench.workflow_id)
    assert (child.correlation_id, child.task_to_domain.fresh()) == ("c", {"x": "d"})
    assert child.workflow_id == bench.task("s").output_data["subWorkflowId"] == bench.task("s").sub_workflow_id
    assert child.parent_task_id == bench.task("s").task_id


def test_pausing_a_parent_leaves_its_children_running(bench: Bench) -> None:
    """As in Conductor: each execution is paused by itself."""
    bench.engine.register(WorkflowDef(name="child", tasks=[simple("x")]))
    bench.start(flow(_child()))
    bench.engine.settle()
    bench.engine.pause(bench.workflow_id)
    (child,) = bench.engine.admin.children(bench.workflow_id)
    assert child.status is WorkflowStatus.RUNNING
    bench.do("x")
    bench.engine.resume(bench.workflow_id)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.trap("tasks-35")
def test_a_loop_that_failed_goes_on_in_its_round(bench: Bench) -> None:
    """A retry goes on in the round that failed, under its printed name, and does not begin at round 1."""
    bench.start(flow(rounds("l", [simple("a", _ONCE)])))
    bench.do("a")
    bench.do("a", "FAILED")
    assert bench.statuses() == {"l": "CANCELED", "a__1": "COMPLETED", "a__2": "FAILED"}
    bench.engine.retry(bench.workflow_id)
    assert bench.statuses() == {"l": "IN_PROGRESS", "a__1": "COMPLETED", "a__2": "SCHEDULED"}


def test_a_callback_delay_can_be_ended_from_outside(bench: Bench) -> None:
    """IN_PROGRESS without a delay offers a task that put itself off at once, with what it has put out so far."""
    bench.start(flow(simple("a")))
    bench.do("a", "IN_PROGRESS", {"x": 1}, callback_s=100)
    assert bench.poll("a") is None
    bench.engine.signal(bench.workflow_id, task="a", status=TaskStatus.IN_PROGRESS)
    assert bench.take("a").output_data == {"x": 1}


def test_a_bulk_does_each_id_once_and_goes_on_after_an_error(bench: Bench) -> None:
    """What cannot be done is reported under its id, and the others are done."""
    bench.start(flow(simple("a")))
    report = bench.engine.admin.bulk(bench.engine.pause, [bench.workflow_id, "nobody", bench.workflow_id])
    assert (report.succeeded, list(report.failed)) == ((bench.workflow_id,), ["nobody"])
    assert bench.status_of_workflow() is WorkflowStatus.PAUSED
