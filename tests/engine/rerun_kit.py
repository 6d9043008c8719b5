"""What the tests of restart, rerun, skip and signal share: where an execution stands, and workers that do all there is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from engine_kit import Bench, simple

from conductorlite import SubWorkflowParams, Task, Workflow, WorkflowDef, WorkflowTask


def s(*refs: str) -> list[WorkflowTask]:
    """SIMPLE tasks that are not tried again by themselves."""
    return [simple(ref, {"retry_count": 0}) for ref in refs]


def sub(ref: str, child: WorkflowDef | str, **fields: Any) -> WorkflowTask:
    """A SUB_WORKFLOW of a definition, or of a registered name."""
    params = {"name": child} if isinstance(child, str) else {"workflow_definition": child}
    return WorkflowTask(
        name=ref, task_reference_name=ref, type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(**params), **fields
    )


def stand(bench: Bench, workflow_id: str | None = None) -> str:
    """`RUNNING: a COMPLETED, b#1 SCHEDULED`: the last attempt at every reference, in order of scheduling; the laws hold."""
    bench.healthy()
    workflow = bench.engine.get(workflow_id or bench.workflow_id)
    last = {task.ref: task for task in workflow.tasks}
    tasks = sorted(last.values(), key=lambda task: task.seq)
    return f"{workflow.status}: " + ", ".join(f"{name(task)} {task.status}" for task in tasks)


def name(task: Task) -> str:
    """A task with the number of its attempt, if it is not the first."""
    return f"{task.ref}#{task.attempt}" if task.attempt else task.ref


def child(bench: Bench, *refs: str, of: str | None = None) -> str:
    """Id of the execution that SUB_WORKFLOW tasks, one below the other, have started."""
    workflow_id = of or bench.workflow_id
    for ref in refs:
        bench.engine.settle()
        found = bench.engine.get(workflow_id).task(ref).sub_workflow_id
        assert found is not None
        workflow_id = found
    return workflow_id


def offered(bench: Bench) -> list[Task]:
    """Workers' tasks that could be polled now, of every execution."""
    bench.engine.settle()
    workflows: list[Workflow] = [bench.engine.get(one) for one in bench.engine.admin.workflow_ids()]
    tasks = [task for workflow in workflows for task in workflow.tasks]
    return [task for task in tasks if task.status == "SCHEDULED" and task.due_at <= bench.clock.now()]


def work(
    bench: Bench,
    outputs: Mapping[str, dict[str, Any]] | None = None,
    *,
    fail: Collection[str] = (),
    leave: Collection[str] = (),
) -> str:
    """Do whatever workers are asked for, except what is to be left; returns the references in order.

    References in `fail` fail, the others complete with their output in `outputs`. A worker is called once per attempt: what
    comes twice stands there twice.
    """
    done = []
    while ready := [task for task in offered(bench) if task.ref not in leave]:
        task = bench.take(ready[0].task_type)
        while task.ref in leave:  # another one of the same type
            task = bench.take(ready[0].task_type)
        done.append(name(task))
        status = "FAILED" if task.ref in fail else "COMPLETED"
        bench.report(task, status, (outputs or {}).get(task.ref, {}))
        bench.healthy()
    return " ".join(done)
