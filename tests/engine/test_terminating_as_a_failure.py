"""`terminate(trigger_failure_workflow=True)`: an execution that is ended by hand ends as if it had failed."""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, noop, simple, wait

from conductorlite import SubWorkflowParams, WorkflowStatus, WorkflowTask
from conductorlite.errors import Conflict

UNDO = flow(simple("undo"), name="undo")


def _failures(bench: Bench) -> list[str]:
    """Ids of the failure workflows there are."""
    return [row.workflow_id for row in bench.engine.executions("undo")]


@pytest.mark.parametrize("trigger", [False, True])
def test_its_failure_workflow_is_started(bench: Bench, trigger: bool) -> None:
    """Once, with the reason and the status in its input; without the flag it is not."""
    bench.engine.register(UNDO)
    run = bench.start(flow(simple("a"), wait("w"), failure_workflow="undo"), {"x": 1})
    bench.do("a", output={"n": 1})
    for _ in range(2):  # one that is terminated stays as it is
        run.terminate("enough", trigger_failure_workflow=trigger)
        bench.engine.settle()
    row = bench.workflow
    assert (row.status, row.reason, bench.statuses()["w"]) == (WorkflowStatus.TERMINATED, "enough", "CANCELED")
    assert len(_failures(bench)) == trigger
    if trigger:
        given = bench.engine.get(_failures(bench)[0]).input_data
        assert (given["workflowId"], given["reason"], given["failureStatus"]) == (row.workflow_id, "enough", "TERMINATED")
        assert row.output_data["conductor.failure_workflow"] == _failures(bench)[0]
        assert given["failedWorkflow"]["input"] == {"x": 1}


def test_what_was_done_is_undone_first(bench: Bench) -> None:
    """With compensations as after a failure: they run, and then the failure workflow; a second one by hand cuts them off."""
    bench.engine.register(UNDO)
    undo = WorkflowTask(name="refund", task_reference_name="refund")
    definition = flow(simple("pay", compensate=undo), wait("w"), failure_workflow="undo")
    for cut in (False, True):
        run = bench.start(definition)
        bench.do("pay")
        run.terminate("enough", trigger_failure_workflow=True)
        bench.engine.settle()
        assert (bench.workflow.compensating, len(_failures(bench))) == (WorkflowStatus.TERMINATED, int(cut))
        if cut:
            run.terminate("now", trigger_failure_workflow=True)
        else:
            bench.do("refund")
        bench.engine.settle()
        assert bench.status_of_workflow() is WorkflowStatus.TERMINATED
        assert len(_failures(bench)) == 1 + cut


def test_only_its_own(bench: Bench) -> None:
    """What runs below only ends; paused, not begun and without a failure workflow is as without the flag; an end stays."""
    child = flow(wait("w"), name="child", failure_workflow="undo")
    bench.engine.register(UNDO, child)
    sub = WorkflowTask(
        name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(name="child", version=1)
    )
    run = bench.start(flow(sub))
    bench.engine.settle()
    below = bench.task("s").sub_workflow_id or ""
    run.terminate(trigger_failure_workflow=True)
    bench.engine.settle()
    assert (bench.engine.status(below), _failures(bench)) == (WorkflowStatus.TERMINATED, [])
    run = bench.start(flow(simple("a"), failure_workflow="undo"))
    run.pause()
    run.terminate(trigger_failure_workflow=True)
    bench.engine.settle()
    assert (bench.status_of_workflow(), len(_failures(bench))) == (WorkflowStatus.TERMINATED, 1)
    run = bench.start(flow(noop("n"), failure_workflow="undo"))
    bench.engine.settle()
    with pytest.raises(Conflict):
        run.terminate(trigger_failure_workflow=True)
    assert len(_failures(bench)) == 1
