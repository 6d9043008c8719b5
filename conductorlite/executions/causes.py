"""What was to blame for an end, or for a wait: one failure and its address."""

from __future__ import annotations

import attrs

from conductorlite.executions.statuses import TaskStatus, WorkflowStatus

__all__ = ["Cause"]


@attrs.frozen(kw_only=True, slots=True)
class Cause:
    """One failure (or, of an execution that has not ended, one wait) and where it is.

    `address` leads down to it: the name of the awaited workflow, the reference of each SUB_WORKFLOW task on the way, and the
    task's own as printed (`capture__2` in the second round of a loop). `workflow_id` is that of the execution it is in; `ref`,
    `task_id` and `attempt` (from 0) are None where an execution failed without a task of its own, as by its timeout. `optional`
    failures did not stop anything, by themselves.
    """

    address: tuple[str, ...]
    workflow_id: str
    status: TaskStatus | WorkflowStatus
    reason: str | None = None
    traceback: str | None = None
    ref: str | None = None
    task_id: str | None = None
    attempt: int | None = None
    optional: bool = False
    #: Of each input that is null because a `${…}` found nothing, what is missing.
    nulls: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join((f"{' › '.join(self.address)}: {self.reason or self.status}", *self.nulls))
