"""Reruns at the edges: what the machine of `tests/oracle/test_machine.py` found."""

from __future__ import annotations

from typing import Any

from engine_kit import Bench, flow, fork, join, simple

from conductorlite import SubWorkflowParams, WorkflowDef, WorkflowStatus, WorkflowTask


def made_at_run_time(*after: dict[str, Any]) -> WorkflowDef:
    """A dynamic fork with one branch, `a`, its JOIN, and what follows."""
    names = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
    branch = {"name": "a", "taskReferenceName": "a", "type": "SIMPLE"}
    fork = {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN_DYNAMIC", **names}
    fork |= {"inputParameters": {"t": [branch], "i": {}}}
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN"}
    return WorkflowDef.from_json({"name": "made", "tasks": [fork, join, *after]})


def test_the_join_of_the_only_branch_waits_for_its_rerun(bench: Bench) -> None:
    """The only branch of a dynamic fork is rerun while it runs: its JOIN does not end in between."""
    bench.start(made_at_run_time({"name": "z", "taskReferenceName": "z", "type": "SIMPLE"}))
    bench.take("a")
    bench.engine.rerun(bench.workflow_id, from_task="a")
    bench.engine.settle()
    assert bench.statuses() == {"f": "COMPLETED", "a": "SCHEDULED", "j": "IN_PROGRESS"}
    bench.do("a")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


def test_the_output_when_what_was_scheduled_last_is_taken_back(bench: Bench) -> None:
    """A JOIN that is rerun waits again for a child that was reopened; ended meanwhile, the execution puts out what is left."""
    child = WorkflowTask(
        name="c",
        task_reference_name="c",
        type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(workflow_definition=flow(simple("a"), name="inner")),
    )
    bench.start(flow(fork("f", [child], [simple("b")]), join("j", "c", "b"), simple("z")))
    bench.do("a")
    bench.do("b", output={"of": "b"})
    bench.take("z")
    bench.engine.rerun(str(bench.task("c").sub_workflow_id))
    bench.engine.settle()
    bench.engine.rerun(bench.workflow_id, from_task="j")
    assert bench.statuses() == {"f": "COMPLETED", "c": "IN_PROGRESS", "b": "COMPLETED", "j": "IN_PROGRESS"}
    bench.engine.terminate(bench.workflow_id)
    assert bench.status_of_workflow() is WorkflowStatus.TERMINATED
    assert bench.workflow.output_data == bench.task("j").output_data
