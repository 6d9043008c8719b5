"""What is raised in place of a result: why an execution failed, or has not ended."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from conductorlite.engine import Queries
from conductorlite.errors import ConductorliteError, ExecutionNotFound, ResultTimeout, StorageError, WorkflowFailed
from conductorlite.executions import Workflow
from conductorlite.explain import causes_of

__all__ = ["failed", "late"]


def failed(engine: Queries, workflow: Workflow) -> WorkflowFailed:
    """The error about an execution that ended otherwise than COMPLETED, with its root causes from below."""
    return WorkflowFailed(workflow, causes_of(workflow, partial(_child, engine)))


def late(engine: Queries, workflow_id: str, *, in_time: bool = False) -> ResultTimeout:
    """The error about an execution that has not ended; `in_time` says that nothing was waited for any longer."""
    try:
        workflow = engine.get(workflow_id)
    except StorageError as error:
        return ResultTimeout(f"{workflow_id} did not end in time, and where it stands cannot be read: {error}")
    waiting = [f"{task.ref} ({task.task_type}) is {task.status}" for task in workflow.tasks if not task.status.terminal]
    what = "did not end in time"
    if in_time:
        what = "cannot go on by itself" if engine.clock.virtual else "was still open when the engine was told to stop"
    parked = f"; it is parked: {workflow.parked}" if workflow.parked else ""
    if workflow.owner != engine.owner:
        owner = f"engine {workflow.owner!r}" if workflow.owner else "all engines, and this one keeps to its own"
        what = f"{what} (it belongs to {owner})"
    text = f"{workflow_id} {what}: {workflow.status}, {', '.join(waiting) or 'no open task'}{parked}"
    told = ""
    with suppress(ConductorliteError):  # it may be gone by now, or not to be read: that it is late is what matters
        told = engine.explain(workflow_id)
    return ResultTimeout(text, causes_of(workflow, partial(_child, engine)), told)


def _child(engine: Queries, workflow_id: str) -> Workflow | None:
    try:
        return engine.get(workflow_id)
    except (ExecutionNotFound, StorageError):  # not begun, removed, or not to be read
        return None
