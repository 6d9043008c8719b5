"""What went wrong in an execution, as data and as the errors that carry it."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from conductorlite.model.errors import ConductorliteError
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = ["Cause", "ResultTimeout", "WorkflowFailed"]


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


class ResultTimeout(ConductorliteError, TimeoutError):
    """The execution did not end in the time given, or it waits for something that nothing here will send.

    Its text begins with what is waited for, down through sub-workflows; `causes` hold the same as data, and `explain` is the
    paragraph of `Engine.explain`.
    """

    def __init__(self, text: str, causes: Sequence[Cause] = (), explain: str = "") -> None:
        self.causes = tuple(causes)
        self.explain = explain
        super().__init__("\n".join(filter(None, [*_told(self.causes), text, explain])))


class WorkflowFailed(ConductorliteError):
    """The awaited execution ended FAILED, TIMED_OUT or TERMINATED; `workflow` is the whole execution.

    Its text begins with the root cause, `booking › payment › capture: over the limit`, and the traceback from there. `causes` hold
    the root cause and what else failed, optional tasks last, each with its own address.
    """

    def __init__(self, workflow: Workflow, causes: Sequence[Cause] = ()) -> None:
        self.workflow = workflow
        self.causes = tuple(causes)
        failed = [task for task in workflow.tasks if task.ref in workflow.failed_refs]
        self.task = failed[-1] if failed else None
        text = f"workflow {workflow.name!r} ({workflow.workflow_id}) is {workflow.status}"
        if workflow.reason:
            text += f": {workflow.reason}"
        if self.task is not None:
            text += f" [task {self.task.ref!r}, {self.task.attempt + 1} attempt(s)]"
            if self.task.traceback and not self.causes:
                text += f"\n{self.task.traceback}"
        super().__init__("\n".join([*_told(self.causes), text]))


def _told(causes: Sequence[Cause]) -> list[str]:
    """The root cause with its traceback, then what else failed, a line each."""
    if not causes:
        return []
    root, *others = causes
    trace = [root.traceback.rstrip()] if root.traceback else []
    return [str(root), *trace, *(f"{'also, optional' if one.optional else 'also'}: {one}" for one in others)]
