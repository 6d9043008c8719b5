"""Errors that are raised in place of a result: why an execution failed, has not ended, or cannot end."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from conductorlite.engine.verbs import Verbs
from conductorlite.model.clock import stands_still
from conductorlite.model.errors import ConductorliteError, ExecutionNotFound, StorageError
from conductorlite.model.executions import Explanation, Workflow
from conductorlite.model.later import functions

if TYPE_CHECKING:
    from conductorlite.engine.causes import causes_of
    from conductorlite.errors import Cause, NoWorker, ResultTimeout, WorkflowFailed
else:
    NoWorker, ResultTimeout, WorkflowFailed = functions("conductorlite.errors", "NoWorker", "ResultTimeout", "WorkflowFailed")
    (causes_of,) = functions("conductorlite.engine.causes", "causes_of")

__all__ = ["failed", "late", "unserved_error"]


def failed(engine: Verbs, workflow: Workflow) -> WorkflowFailed:
    """The error about an execution that ended otherwise than COMPLETED, with its root causes from below."""
    return WorkflowFailed(workflow, _causes(engine, workflow))


def late(engine: Verbs, workflow_id: str, *, in_time: bool = False) -> ResultTimeout:
    """The error about an execution that has not ended; `in_time` says that nothing was waited for any longer."""
    try:
        workflow = engine.get(workflow_id)
    except StorageError as error:
        return ResultTimeout(f"{workflow_id} did not end in time, and where it stands cannot be read: {error}")
    waiting = [f"{task.ref} ({task.task_type}) is {task.status}" for task in workflow.tasks if not task.status.terminal]
    what = "did not end in time"
    if in_time:
        what = "cannot go on by itself" if engine.clock.virtual else "was still open when the engine was asked to stop"
    elif stands_still(engine.clock):
        what = f"{what} (the clock stands still, as a test freezes it: use VirtualClock, or a clock that ticks)"
    parked = f"; it is parked: {workflow.parked}" if workflow.parked else ""
    if workflow.owner != engine.config.owner:
        owner = f"engine {workflow.owner!r}" if workflow.owner else "all engines, and this one keeps to its own"
        what = f"{what} (it belongs to {owner})"
    text = f"{workflow_id} {what}: {workflow.status}, {', '.join(waiting) or 'no open task'}{parked}"
    explanation = Explanation()
    with suppress(ConductorliteError):  # it may be removed by now, or not to be read: that it is late is what matters
        explanation = engine.explain(workflow_id)
    return ResultTimeout(text, _causes(engine, workflow), explanation)


def unserved_error(engine: Verbs, workflow_id: str | None, text: str) -> NoWorker:
    """The error that names the missing workers of an execution, or (None) of all executions."""
    if workflow_id is None:
        return NoWorker(text)
    return NoWorker(
        text,
        _causes(engine, engine.get(workflow_id)),
        engine.explain(workflow_id),
    )


def _causes(engine: Verbs, workflow: Workflow) -> tuple[Cause, ...]:
    return causes_of(workflow, partial(_child, engine), engine.core.turns.lookups.failures.line_of)


def _child(engine: Verbs, workflow_id: str) -> Workflow | None:
    try:
        return engine.get(workflow_id)
    except (ExecutionNotFound, StorageError):  # not begun, removed, or not to be read
        return None
