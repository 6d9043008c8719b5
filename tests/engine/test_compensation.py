"""Compensation: what an execution that failed undoes before it ends, step by step on every kind of store."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, NewBench, flow, fork, join, noop, rounds, simple, switch, wait

from conductorlite import (
    Bounds,
    InvalidDefinition,
    SubWorkflowParams,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
    WorkflowTimeoutPolicy,
    validate,
)
from conductorlite.errors import Conflict
from conductorlite.model.documents import workflow_to_json
from conductorlite.model.executions import HistoryKind

#: One attempt, so that a failure is for good.
ONCE = {"retry_count": 0}
STEPS = tuple("abcdefgh")


def undone(bench: Bench) -> list[str]:
    """What was compensated, in order, as the history tells it."""
    lines = bench.engine.history(bench.workflow_id)
    return [str(line.ref) for line in lines if line.kind is HistoryKind.COMPENSATION and line.ref is not None]


def undo_all(bench: Bench, task_type: str = "undo", **fields: Any) -> list[Any]:
    """Carry out every compensation of a type, one after another; returns their inputs."""
    seen = []
    while (task := bench.poll(task_type)) is not None:
        seen.append(task.input_data)
        bench.report(task, **fields)
    return seen


def saga(*tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    """Tasks and behind them one that is made to fail."""
    return flow(*tasks, simple("fail", ONCE), **fields)


def step(ref: str, **fields: Any) -> WorkflowTask:
    """A task that is done by hand and undone by `undo`."""
    return simple(ref, ONCE, compensate="undo", **fields)


# -- the saga ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", range(8))
def test_eight_steps_failed_at_each_in_turn(bench: Bench, failing: int) -> None:
    """Exactly the steps that completed are undone, exactly once, last first, and the end is the failure."""
    bench.start(flow(*(step(ref) for ref in STEPS)))
    for ref in STEPS[:failing]:
        bench.do(ref, output={"did": ref})
    failed = bench.do(STEPS[failing], "FAILED", reason="no")
    assert undo_all(bench) == [{"input": {}, "output": {"did": ref}} for ref in reversed(STEPS[:failing])]
    assert undone(bench) == list(reversed(STEPS[:failing]))
    assert bench.order() == [*STEPS[: failing + 1], *(f"{ref}_compensation" for ref in reversed(STEPS[:failing]))]
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert bench.workflow.conductor_reason == f"Task {failed.task_id} failed with status: FAILED and reason: 'no'"
    assert bench.workflow.reason == f"{STEPS[failing]} failed: no"
    assert bench.workflow.failed_refs == (STEPS[failing],)


def test_the_history_tells_it_line_by_line(bench: Bench) -> None:
    """One line says that compensation begins and with what it will end, one per task what is undone and by what."""
    bench.start(saga(step("a"), simple("plain")))
    bench.do("a")
    bench.at(1)
    bench.do("plain")
    bench.at(2)
    bench.do("fail", "FAILED_WITH_TERMINAL_ERROR")
    bench.at(5)
    bench.do("undo")
    assert bench.journal()[-6:] == [
        "2 workflow COMPENSATION FAILED",
        "2 a COMPENSATING",
        "2 a_compensation SCHEDULED",
        "5 a_compensation IN_PROGRESS",
        "5 a_compensation COMPLETED",
        "5 workflow FAILED",
    ]
    assert bench.workflow.ended_at - bench.workflow.created_at == 5_000


def test_an_execution_shows_that_it_is_compensated(bench: Bench) -> None:
    """It is RUNNING, says with what it will end and why, in rows and in JSON; JSON has no such property otherwise."""
    bench.start(saga(step("a")))
    assert "compensating" not in workflow_to_json(bench.workflow)
    bench.do("a")
    bench.do("fail", "FAILED", reason="broken")
    row = bench.workflow
    assert (row.status, row.compensating) == (WorkflowStatus.RUNNING, WorkflowStatus.FAILED)
    assert "broken" in str(row.reason)
    document = workflow_to_json(row)
    assert (document["status"], document["compensating"]) == ("RUNNING", "FAILED")
    assert "It is being compensated and will end FAILED" in str(bench.engine.explain(bench.workflow_id))
    bench.do("undo")
    assert bench.workflow.compensating is None
    assert "compensating" not in workflow_to_json(bench.workflow)
    assert "It was compensated by a_compensation" in str(bench.engine.explain(bench.workflow_id))


def test_what_completes_well_is_not_undone(bench: Bench) -> None:
    """A COMPLETED execution runs no compensation."""
    bench.start(flow(step("a"), step("b")))
    bench.do("a")
    bench.do("b")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    assert bench.order() == ["a", "b"]


def test_nothing_else_runs_meanwhile(bench: Bench) -> None:
    """Open tasks are canceled first; their late reports change nothing, and nothing follows from them."""
    bench.start(flow(fork("f", [step("a"), simple("slow"), simple("behind")], [simple("b", ONCE)]), join("j", "behind", "b")))
    bench.do("a")
    slow = bench.take("slow")
    bench.do("b", "FAILED")
    assert bench.statuses()["slow"] == "CANCELED"
    bench.report(slow, lease=False)
    assert bench.statuses() == {
        "f": "COMPLETED", "j": "CANCELED", "a": "COMPLETED", "slow": "CANCELED", "b": "FAILED", "a_compensation": "SCHEDULED",
    }  # fmt: skip
    bench.do("undo")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_the_end_is_the_same_as_without(new_bench: NewBench) -> None:
    """Output, reason, failed references and what the failure workflow is given are those of a failure without compensation."""
    ends = []
    for compensate in (None, "undo"):
        bench = new_bench()
        bench.engine.register(flow(simple("mourn"), name="mourning"))
        task = simple("a", ONCE, compensate=compensate)
        bench.start(saga(task, output_parameters={"a": "${a.output.x}", "why": "${workflow.reasonForIncompletion}"},
                         failure_workflow="mourning"))  # fmt: skip
        bench.do("a", output={"x": 1})
        bench.do("fail", "FAILED", reason="broken")
        undo_all(bench)
        row = bench.workflow
        said = bench.take("mourn")
        told = bench.engine.get(said.workflow_id).input_data
        output = {**row.output_data, "conductor.failure_workflow": "…"}
        known = (told["reason"], told["failureStatus"], told["failureTaskId"] == row.failed_task_id)
        ends.append((row.status, output, row.failed_refs, row.failed_task_names, known, row.failed_task_id is not None))
        assert (str(row.conductor_reason).startswith("Task "), row.reason) == (True, "fail failed: broken")
        assert row.output_data["a"] == 1
    masked = [(end[0], {k: v for k, v in end[1].items() if k != "why"}, end[2], end[3], end[4][1:], end[5]) for end in ends]
    assert masked[0] == masked[1]


# -- the ways to fail --------------------------------------------------------------------------------------------------


def test_a_terminate_task_that_fails(bench: Bench) -> None:
    """TERMINATE with FAILED or TERMINATED undoes, and its output is the workflow's in the end."""
    inputs = {"terminationStatus": "${workflow.input.how}", "terminationReason": "enough", "workflowOutput": {"n": 1}}
    end = WorkflowTask(name="end", task_reference_name="end", type="TERMINATE", input_parameters=inputs)
    for how in ("FAILED", "TERMINATED", "COMPLETED"):
        bench.start(flow(step("a"), end), {"how": how})
        bench.do("a")
        assert len(undo_all(bench)) == (how != "COMPLETED")
        assert (bench.workflow.status, bench.workflow.output_data) == (how, {"n": 1})


def test_a_worker_that_cancels(bench: Bench) -> None:
    """CANCELED by a worker ends TERMINATED, after what was done is undone."""
    bench.start(saga(step("a")))
    bench.do("a")
    bench.do("fail", "CANCELED")
    assert bench.workflow.compensating is WorkflowStatus.TERMINATED
    bench.do("undo")
    assert bench.status_of_workflow() is WorkflowStatus.TERMINATED


def test_the_timeout_of_the_workflow(bench: Bench) -> None:
    """It undoes too; while it does the workflow has no timeout."""
    bench.start(flow(step("a"), simple("b"), timeout_ms=10_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF))
    bench.do("a")
    bench.at(10)
    assert (bench.workflow.compensating, bench.statuses()["b"]) == (WorkflowStatus.TIMED_OUT, "CANCELED")
    bench.engine.pause(bench.workflow_id)
    bench.engine.resume(bench.workflow_id)
    assert bench.workflow.timeout_at is None
    bench.at(1_000)
    assert bench.status_of_workflow() is WorkflowStatus.RUNNING
    bench.do("undo")
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


def test_a_task_that_times_the_workflow_out(bench: Bench) -> None:
    """A timeout with the policy TIME_OUT_WF undoes what was done before."""
    bench.start(flow(step("a"), simple("b", {"timeout_s": 5, "timeout_policy": "TIME_OUT_WF"})))
    bench.do("a")
    bench.take("b")
    bench.at(5)
    bench.do("undo")
    assert bench.status_of_workflow() is WorkflowStatus.TIMED_OUT


def test_failures_that_were_permitted_until_the_end(bench: Bench) -> None:
    """A permissive failure ends FAILED when all else is done; then everything that completed is undone."""
    bench.start(flow(simple("lost", ONCE, permissive=True), step("a")))
    bench.do("lost", "FAILED")
    bench.do("a")
    assert bench.workflow.compensating is WorkflowStatus.FAILED
    bench.do("undo")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_the_terminate_verb_undoes_nothing(bench: Bench) -> None:
    """Who terminates an execution wants it to end now."""
    bench.start(saga(step("a")))
    bench.do("a")
    bench.engine.terminate(bench.workflow_id, "stop")
    assert (bench.status_of_workflow(), bench.workflow.reason) == (WorkflowStatus.TERMINATED, "stop")
    assert bench.order() == ["a", "fail"]


# -- what is undone ----------------------------------------------------------------------------------------------------


def test_rounds_of_a_loop_are_undone_one_by_one(bench: Bench) -> None:
    """Each round's task is undone by a row of that round, which reads that round's input and output, not the newest."""
    inputs = {"x": "${x.output.n}", "before": "${first.output.n}", "at": "${x.input.i}", "whole": "${x}"}
    undo = simple("ux", ONCE, input_parameters=inputs)
    body = [simple("first"), simple("x", ONCE, compensate=undo, input_parameters={"i": "${loop.output.iteration}"})]
    bench.start(saga(rounds("loop", body, times=3)))
    for number in (1, 2, 3):
        bench.do("first", output={"n": number * 10})
        bench.do("x", output={"n": number})
    bench.do("fail", "FAILED")
    # A second attempt is rendered anew: it must read the same round.
    seen = [{key: value for key, value in one.items() if key != "whole"} for one in undo_all(bench, "ux")]
    assert seen == [{"x": n, "before": n * 10, "at": n} for n in (3, 2, 1)]
    assert [bench.task(ref).input_data["whole"]["referenceTaskName"] for ref in ("ux__3", "ux__1")] == ["x__3", "x__1"]
    assert undone(bench) == ["x__3", "x__2", "x__1"]


def test_a_retry_of_a_rounds_compensation_reads_the_same_round(bench: Bench) -> None:
    """Expressions are rendered again for each attempt, from the same round."""
    undo = simple("ux", {"retry_count": 2, "retry_delay_s": 1}, input_parameters={"x": "${x.output.n}"})
    bench.start(saga(rounds("loop", [simple("x", ONCE, compensate=undo)])))
    bench.do("x", output={"n": 1})
    bench.do("x", output={"n": 2})
    bench.do("fail", "FAILED")
    bench.do("ux")
    assert bench.do("ux", "FAILED").input_data == {"x": 1}
    bench.at(1)
    assert bench.do("ux").input_data == {"x": 1}
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_loops_in_loops(bench: Bench) -> None:
    """A row of an inner round is undone by a row of the same rounds; the task before the inner loop is that of the outer round."""
    undo = simple("ux", ONCE, input_parameters={"x": "${x.output.n}", "o": "${o.output.n}"})
    body = [simple("o"), rounds("inner", [simple("x", ONCE, compensate=undo)])]
    bench.start(saga(rounds("outer", body)))
    for outer in (1, 2):
        bench.do("o", output={"n": outer})
        for inner in (1, 2):
            bench.do("x", output={"n": outer * 10 + inner})
    bench.do("fail", "FAILED")
    assert undo_all(bench, "ux") == [{"x": x, "o": o} for x, o in ((22, 2), (21, 2), (12, 1), (11, 1))]
    assert undone(bench) == ["x__2__2", "x__2__1", "x__1__2", "x__1__1"]


def test_a_loop_that_fails_inside(bench: Bench) -> None:
    """What completed in the rounds of a loop that never ended is undone."""
    bench.start(flow(rounds("loop", [step("x"), simple("y", ONCE)], times=3)))
    bench.do("x")
    bench.do("y")
    bench.do("x")
    bench.do("y", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["x__2", "x__1"]
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


def test_branches_are_undone_in_the_order_of_their_ends(bench: Bench) -> None:
    """Not the order of the definition: what ended last is undone first."""
    bench.start(saga(fork("f", [step("a"), step("b")], [step("c")]), join("j", "b", "c")))
    bench.do("a")
    bench.at(1)
    bench.do("c")
    bench.at(2)
    bench.do("b")
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["b", "c", "a"]


def test_at_one_instant_the_later_scheduled_goes_first(bench: Bench) -> None:
    """Ties are broken by the order of scheduling."""
    bench.start(saga(fork("f", [step("a")], [step("b")]), join("j", "a", "b")))
    bench.do("b")
    bench.do("a")
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["b", "a"]


def test_the_case_that_was_taken(bench: Bench) -> None:
    """Of a SWITCH only what ran is undone, the SWITCH itself if it says how."""
    chosen = switch("s", {"1": [step("a")], "2": [step("b")]}, compensate="undo")
    bench.start(saga(chosen), {"case": "2"})
    bench.at(1)
    bench.do("b")
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["b", "s"]


def test_optional_and_retried_tasks(bench: Bench) -> None:
    """COMPLETED_WITH_ERRORS is undone, as something may have been done; a task that was retried is undone once."""
    again = simple("again", {"retry_count": 1, "retry_delay_s": 1}, compensate="undo")
    bench.start(saga(step("maybe", optional=True), again))
    bench.do("maybe", "FAILED")
    bench.at(1)
    bench.do("again", "FAILED")
    bench.at(2)
    bench.do("again")
    bench.do("fail", "FAILED")
    assert len(undo_all(bench)) == 2
    assert undone(bench) == ["again", "maybe"]


def test_a_sub_workflow_is_undone_by_the_parent(bench: Bench) -> None:
    """The SUB_WORKFLOW task's own compensation gets the child's output, and may be a SUB_WORKFLOW itself."""
    book, cancel = flow(simple("book"), name="booking"), flow(simple("cancel"), name="canceling")
    undo = WorkflowTask(
        name="undo", task_reference_name="undo", type="SUB_WORKFLOW", input_parameters={"what": "${child.output.nr}"},
        sub_workflow_param=SubWorkflowParams(workflow_definition=cancel),
    )  # fmt: skip
    child = WorkflowTask(
        name="child", task_reference_name="child", type="SUB_WORKFLOW", compensate=undo,
        sub_workflow_param=SubWorkflowParams(workflow_definition=book),
    )  # fmt: skip
    bench.start(saga(child))
    bench.do("book", output={"nr": 7})
    bench.do("fail", "FAILED")
    task = bench.take("cancel")
    assert bench.engine.get(task.workflow_id).input_data == {"what": 7}
    bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert undone(bench) == ["child"]


def test_a_child_undoes_before_its_parent_hears_of_it(bench: Bench) -> None:
    """The parent's task waits until the child has ended; then the parent undoes what it did."""
    inner = saga(step("c"), name="inner")
    child = WorkflowTask(
        name="child", task_reference_name="child", type="SUB_WORKFLOW", retry_count=0,
        sub_workflow_param=SubWorkflowParams(workflow_definition=inner),
    )  # fmt: skip
    bench.start(flow(simple("p", ONCE, compensate="undo_parent"), child))
    bench.do("p")
    bench.do("c")
    bench.do("fail", "FAILED")
    assert (bench.poll("undo_parent"), bench.statuses()["child"]) == (None, "IN_PROGRESS")
    bench.do("undo")
    bench.do("undo_parent")
    assert (bench.status_of_workflow(), bench.statuses()["child"]) == (WorkflowStatus.FAILED, "FAILED")


def test_a_child_that_still_runs_is_terminated_as_it_is(bench: Bench) -> None:
    """What ends a child from outside undoes nothing in it: the parent undoes what its tasks had completed."""
    inner = flow(step("c"), simple("slow"), name="inner")
    child = WorkflowTask(
        name="child", task_reference_name="child", type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(workflow_definition=inner),
    )  # fmt: skip
    bench.start(flow(fork("f", [child], [simple("b", ONCE)]), join("j", "child", "b")))
    bench.do("c")
    bench.do("b", "FAILED")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    (row,) = (bench.engine.get(one) for one in bench.engine.admin.workflow_ids() if one != bench.workflow_id)
    assert (row.status, [task.ref for task in row.tasks]) == (WorkflowStatus.TERMINATED, ["c", "slow"])


# -- how it is undone --------------------------------------------------------------------------------------------------


def test_types_of_compensations(bench: Bench) -> None:
    """A WAIT waits, a script runs, variables are set; each starts when the one before has ended."""
    kinds = [
        ("a", WorkflowTask(name="w", task_reference_name="ua", type="WAIT", input_parameters={"duration": "10 s"})),
        ("b", WorkflowTask(name="s", task_reference_name="ub", type="INLINE",
                           input_parameters={"evaluatorType": "javascript", "expression": "$.n + 1", "n": "${b.output.n}"})),
        ("c", WorkflowTask(name="v", task_reference_name="uc", type="SET_VARIABLE", input_parameters={"undone": "${c.output.n}"})),
        ("d", noop("ud")),
        ("e", WorkflowTask(name="h", task_reference_name="ue", type="MAIL", input_parameters={"to": "${e.output.n}"})),
    ]  # fmt: skip
    bench.start(saga(*(simple(ref, ONCE, compensate=undo) for ref, undo in kinds)))
    for number, (ref, _) in enumerate(kinds):
        bench.do(ref, output={"n": number})
    bench.do("fail", "FAILED")
    assert bench.do("MAIL").input_data == {"to": 4}
    assert bench.statuses()["ua"] == "IN_PROGRESS"
    assert bench.task("ub").output_data["result"] == 2
    assert bench.workflow.variables.fresh() == {"undone": 2}
    bench.at(10)
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert undone(bench) == ["e", "d", "c", "b", "a"]


def test_retries_and_timeouts_of_a_compensation(bench: Bench) -> None:
    """A compensation is a task like any other: it is retried after its delay, and its worker may die."""
    policy = {"retry_count": 2, "retry_delay_s": 5, "response_timeout_s": 10, "timeout_s": 0}
    bench.start(saga(simple("a", ONCE, compensate=simple("ua", policy)), step("b")))
    bench.do("a")
    bench.do("b")
    bench.do("fail", "FAILED")
    bench.do("undo")
    bench.do("ua", "FAILED")
    bench.at(5)
    bench.take("ua")
    bench.at(20)
    assert bench.journal_of("ua") == [
        "0 ua SCHEDULED", "0 ua IN_PROGRESS", "0 ua FAILED", "0 ua#1 SCHEDULED",
        "5 ua#1 IN_PROGRESS", "15 ua#1 TIMED_OUT", "15 ua#2 SCHEDULED",
    ]  # fmt: skip
    bench.do("ua")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


@pytest.mark.parametrize("how", ["FAILED", "FAILED_WITH_TERMINAL_ERROR", "CANCELED", "timeout"])
def test_a_compensation_that_fails_is_named_and_the_others_run(bench: Bench, how: str) -> None:
    """The status stays the one of the failure; the reason names in addition what could not be undone."""
    policy = {"retry_count": 0, "timeout_s": 5, "timeout_policy": "TIME_OUT_WF", "response_timeout_s": 5}
    bench.start(saga(step("a"), simple("b", ONCE, compensate=simple("ub", policy)), step("c")))
    for ref in "abc":
        bench.do(ref)
    bench.do("fail", "FAILED", reason="broken")
    bench.do("undo")
    if how == "timeout":
        bench.take("ub")
        bench.at(5)
    else:
        bench.do("ub", how, reason="bank is closed")
    bench.do("undo")
    assert undone(bench) == ["c", "b", "a"]
    row = bench.workflow
    assert row.status is WorkflowStatus.FAILED
    why = "Task timed out" if how == "timeout" else "bank is closed"
    reason = str(row.reason)
    assert "broken" in reason
    assert reason.count("compensation of 'b' failed: ") == 1
    assert why in reason.split("compensation of 'b' failed: ")[1]
    assert row.failed_refs == ("fail",)


def test_an_optional_compensation_may_fail(bench: Bench) -> None:
    """It is COMPLETED_WITH_ERRORS, and not named."""
    bench.start(saga(simple("a", ONCE, compensate=simple("ua", ONCE, optional=True))))
    bench.do("a")
    bench.do("fail", "FAILED")
    bench.do("ua", "FAILED")
    assert (bench.status_of_workflow(), bench.statuses()["ua"]) == (WorkflowStatus.FAILED, "COMPLETED_WITH_ERRORS")
    assert "compensation of" not in str(bench.workflow.reason)


def test_its_task_definition_is_embedded(bench: Bench) -> None:
    """A registered task definition of the compensation's name counts as it was at the start."""
    from engine_kit import task_def

    bench.engine.register(task_def("undo", retry_count=1, retry_delay_s=7))
    bench.start(saga(step("a")))
    bench.engine.register(task_def("undo", retry_count=0))
    bench.do("a")
    bench.do("fail", "FAILED")
    bench.do("undo", "FAILED")
    assert bench.poll("undo") is None
    bench.at(7)
    bench.do("undo")
    assert bench.status_of_workflow() is WorkflowStatus.FAILED


# -- verbs meanwhile ---------------------------------------------------------------------------------------------------


def test_pause_holds_the_next_compensation(bench: Bench) -> None:
    """What runs may end, the next one begins when the execution is resumed."""
    bench.start(saga(step("a"), step("b")))
    bench.do("a")
    bench.do("b")
    bench.do("fail", "FAILED")
    bench.engine.pause(bench.workflow_id)
    bench.do("undo")
    assert bench.poll("undo") is None
    bench.at(60)
    bench.engine.resume(bench.workflow_id)
    bench.do("undo")
    assert bench.journal()[-1] == "60 workflow FAILED"
    assert undone(bench) == ["b", "a"]


def test_a_paused_execution_that_times_out_waits_for_its_resumption(bench: Bench) -> None:
    """The timeout cancels what is open and ends nothing yet; the compensations run when it is resumed."""
    bench.start(flow(step("a"), step("b"), simple("c"), timeout_ms=10_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF))
    bench.do("a")
    taken = bench.take("b")
    bench.engine.pause(bench.workflow_id)
    # What follows from this report is held, and void once the execution is undone.
    bench.report(taken)
    bench.at(10)
    assert (bench.status_of_workflow(), bench.workflow.compensating) == (WorkflowStatus.PAUSED, WorkflowStatus.TIMED_OUT)
    assert bench.poll("undo") is None
    bench.engine.resume(bench.workflow_id)
    undo_all(bench)
    assert undone(bench) == ["b", "a"]
    assert (bench.status_of_workflow(), bench.poll("c")) == (WorkflowStatus.TIMED_OUT, None)


def test_terminate_ends_at_once_and_names_what_is_left(bench: Bench) -> None:
    """TERMINATED, the open compensation canceled; the reason has the failure and what was not undone."""
    bench.start(saga(step("a"), step("b"), step("c")))
    for ref in "abc":
        bench.do(ref)
    bench.do("fail", "FAILED", reason="broken")
    bench.do("undo")
    bench.take("undo")
    bench.engine.terminate(bench.workflow_id, "enough")
    row = bench.workflow
    assert (row.status, row.compensating, bench.statuses()["b_compensation"]) == (WorkflowStatus.TERMINATED, None, "CANCELED")
    assert str(row.conductor_reason).startswith("enough; terminated while compensating (Task ")
    assert str(row.reason).startswith("enough; terminated while compensating (fail failed: broken)")
    assert str(row.reason).endswith("; not compensated: 'b', 'a'")
    assert "broken" in str(row.reason)


def test_what_was_compensated_is_not_retried(bench: Bench) -> None:
    """Retry would go on from what was undone: a conflict. One that had nothing to undo is retried as ever."""
    bench.start(saga(step("a")))
    bench.do("a")
    bench.do("fail", "FAILED")
    with pytest.raises(Conflict):
        bench.engine.retry(bench.workflow_id)
    bench.do("undo")
    with pytest.raises(Conflict, match="was compensated"):
        bench.engine.retry(bench.workflow_id)
    bench.start(saga(simple("a", compensate="undo"), name="other"))
    bench.do("a", "FAILED_WITH_TERMINAL_ERROR")
    bench.engine.retry(bench.workflow_id)
    bench.do("a")
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["a"]


@pytest.mark.parametrize("bounds", [Bounds(rows=1), Bounds(steps=1)], ids=["one row", "one step"])
def test_turns_that_are_cut(new_bench: NewBench, bounds: Bounds) -> None:
    """However small the turns, the same is undone; what a cut turn had left to do is void once the execution fails."""
    bench = new_bench(bounds=bounds)
    body = [step("x"), simple("y", ONCE, compensate=noop("uy"))]
    bench.start(saga(fork("f", [rounds("l", body)], [step("b")]), join("j", "l", "b")))
    for ref in ("b", "x", "y", "x", "y"):
        bench.do(ref)
    bench.do("fail", "FAILED")
    undo_all(bench)
    bench.engine.settle()
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert undone(bench) == ["y__2", "x__2", "y__1", "x__1", "b"]


# -- definitions -------------------------------------------------------------------------------------------------------


def test_the_json_keeps_what_was_given() -> None:
    """A name stays a name, a task a task; without the property nothing is written."""
    document = {
        "name": "saga",
        "version": 1,
        "schemaVersion": 2,
        "tasks": [
            {"name": "a", "taskReferenceName": "a", "type": "SIMPLE", "compensate": "undo"},
            {"name": "b", "taskReferenceName": "b", "type": "SIMPLE",
             "compensate": {"name": "ub", "taskReferenceName": "ub", "type": "SIMPLE"}},
            {"name": "c", "taskReferenceName": "c", "type": "SIMPLE"},
        ],
    }  # fmt: skip
    definition = WorkflowDef.from_json(document)
    assert definition.to_json() == document
    made = definition.tasks[0].compensation
    assert made is not None
    assert (made.name, made.task_reference_name, made.type) == ("undo", "a_compensation", "SIMPLE")
    assert made.input_parameters == {"input": "${a.input}", "output": "${a.output}"}


def test_a_reference_that_no_dot_can_follow(bench: Bench) -> None:
    """The input of a compensation given by name finds its task whatever its reference."""
    bench.start(saga(step("take off")))
    bench.do("take off", output={"n": 1})
    bench.do("fail", "FAILED")
    assert undo_all(bench) == [{"input": {}, "output": {"n": 1}}]


@pytest.mark.parametrize(
    ("task", "path", "text"),
    [
        (simple("a", compensate=wait("w", duration="soon")), "compensate.inputParameters.duration", "soon"),
        (simple("a", compensate=fork("f", [noop("n")])), "compensate.type", "steers the flow"),
        (simple("a", compensate=simple("ua", compensate="again")), "compensate.compensate", "cannot itself be compensated"),
        (simple("a", compensate=simple("ua", permissive=True)), "compensate.permissive", "not permissive"),
        (simple("a", compensate=simple("a")), "compensate.taskReferenceName", "already the reference name"),
        (simple("a", compensate=" "), "compensate", "is empty"),
        (WorkflowTask(name="t", task_reference_name="t", type="TERMINATE", compensate="undo",
                      input_parameters={"terminationStatus": "FAILED"}), "compensate", "nothing that could be undone"),
    ],
    ids=["input", "type", "nested", "permissive", "unique", "empty", "terminate"],
)  # fmt: skip
def test_bad_compensations_are_refused(bench: Bench, task: WorkflowTask, path: str, text: str) -> None:
    """Each at its own path, before anything runs."""
    with pytest.raises(InvalidDefinition) as caught:
        bench.engine.register(flow(task))
    assert any(p.path == f"$.tasks[0].{path}" and text in p.message for p in caught.value.problems), caught.value


def test_no_join_waits_for_a_compensation(bench: Bench) -> None:
    """The flow never comes to it, so a JOIN on it would wait for ever."""
    with pytest.raises(InvalidDefinition, match="is a compensation"):
        bench.engine.register(flow(fork("f", [step("a")]), join("j", "a_compensation")))


def test_rounds_that_are_dropped_are_warned_of() -> None:
    """What keepLastN drops has no row left that could be undone: the validator says so."""
    loop = rounds("loop", [step("x")], input_parameters={"keepLastN": 1})
    found = [problem for problem in validate(flow(loop)) if problem.path == "$.tasks[0].loopOver[0].compensate"]
    assert [problem.severity for problem in found] == ["warning"]
    assert "drops rounds" in found[0].message


def test_json_of_the_wrong_shape() -> None:
    """Neither a task nor a name: said with the path."""
    tasks = [{"name": "a", "taskReferenceName": "a", "compensate": 5}]
    with pytest.raises(InvalidDefinition, match="expected a task or the name of one") as caught:
        WorkflowDef.from_json({"name": "x", "tasks": tasks})
    assert [p.path for p in caught.value.problems] == ["$.tasks[0].compensate"]


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begun", "ended", "expected"),
    [
        ("ab", "ab", "ba"),
        ("ab", "ba", "ab"),  # scheduled and begun first, but ended last
        ("ba", "ab", "ba"),
        ("ba", "ba", "ab"),  # scheduled first, begun and ended last
    ],
)
def test_what_ended_last_is_undone_first(bench: Bench, begun: str, ended: str, expected: str) -> None:
    """Neither the order of scheduling nor that of beginning counts."""
    bench.start(flow(fork("f", [step("a")], [step("b")]), join("j", "a", "b"), simple("fail", ONCE)))
    taken = {}
    for second, ref in enumerate(begun, 1):
        bench.at(second)
        taken[ref] = bench.take(ref)
    for second, ref in enumerate(ended, 11):
        bench.at(second)
        bench.report(taken[ref])
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == list(expected)


def test_of_what_ended_at_one_instant_the_last_scheduled_is_undone_first(bench: Bench) -> None:
    """In whatever order the reports came."""
    bench.start(flow(fork("f", [step("a")], [step("b")], [step("c")]), join("j", "a", "b", "c"), simple("fail", ONCE)))
    for ref in "bca":
        bench.do(ref)
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["c", "b", "a"]


def test_what_completed_with_errors_is_undone(bench: Bench) -> None:
    """What was done in part is undone as well."""
    bench.start(saga(step("a", optional=True), step("b")))
    bench.do("a", "FAILED")
    bench.do("b")
    bench.do("fail", "FAILED")
    undo_all(bench)
    assert undone(bench) == ["b", "a"]


def test_every_compensation_that_fails_is_named(bench: Bench) -> None:
    """Behind the reason of the failure, in the order in which they failed."""
    bench.start(saga(step("a"), step("b")))
    bench.do("a")
    bench.do("b")
    bench.do("fail", "FAILED", reason="over the limit")
    undo_all(bench, status="FAILED_WITH_TERMINAL_ERROR", reason="gone")
    reason = str(bench.workflow.reason)
    places = [
        reason.index(text) for text in ("over the limit", "compensation of 'b' failed: gone", "compensation of 'a' failed: gone")
    ]
    assert places == sorted(places)
