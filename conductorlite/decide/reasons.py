"""Reasons in two sentences: one for a person, and Conductor's where its server says something else.

A person reads the step and the cause. Conductor's sentences name tasks and executions by their ids; its clients read them, and so
do expressions. Both are kept where the reason is: `reason` and `conductor_reason`, None where the first one is Conductor's too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "Reasons",
    "cause_below",
    "end_of_parent",
    "failed_with",
    "in_both",
    "in_seconds",
    "joined",
    "joined_in_spite",
    "out_of_time",
    "response_timeout",
    "terminated_by",
    "too_many_variables",
    "total_timeout",
]

#: For a person, and in Conductor's words.
Reasons: TypeAlias = tuple[str, str | None]

#: How a task that does not just fail ends.
_HOW: Final[Mapping[TaskStatus, str]] = {TaskStatus.TIMED_OUT: "timed out", TaskStatus.CANCELED: "was canceled"}


def in_both(said: Callable[[str | None], str], reason: str | None, conductor_reason: str | None) -> Reasons:
    """Make two sentences that quote a reason of two sentences."""
    return said(reason), None if conductor_reason is None else said(conductor_reason)


def in_seconds(span_ms: int) -> str:
    """A span in seconds, with a fraction only where there is one."""
    seconds, rest = divmod(span_ms, 1000)
    return str(span_ms / 1000 if rest else seconds)


def failed_with(*tasks: Task) -> Reasons:
    """Reason of an execution that failures of its tasks have ended."""
    return ". ".join(map(_failure, tasks)), ". ".join(map(_conductor_failure, tasks))


def _failure(task: Task) -> str:
    text = f"{task.ref} {_HOW.get(task.status, 'failed')}"
    return f"{text}: {task.reason}" if task.reason else text


def _conductor_failure(task: Task) -> str:
    reason = task.conductor_reason or task.reason
    return f"Task {task.task_id} failed with status: {task.status} and reason: '{'null' if reason is None else reason}'"


def out_of_time(changeset: Changeset, task: Task) -> Reasons:
    """Reason of an execution after a failure when attempts were left, but no time in which to make them."""
    limit, elapsed = changeset.rows.node(task).policy.total_timeout_ms, changeset.moment.now - task.first_scheduled_at
    rest = f"(elapsed {elapsed // 1000} seconds across all attempts). No further retries will be attempted."
    return (
        f"{task.ref} exceeded its total timeout of {in_seconds(limit)} seconds {rest}",
        f"Task {task.task_id}/{task.name} exceeded total timeout of {in_seconds(limit)} seconds {rest}",
    )


def total_timeout(changeset: Changeset, task: Task) -> Reasons:
    """Reason of a task whose attempts took too long together."""
    policy, elapsed = changeset.rows.node(task).policy, changeset.moment.now - task.first_scheduled_at
    rest = (
        f"(elapsed {elapsed // 1000} seconds across all attempts including retry delays). Timeout policy: {policy.timeout_policy}"
    )
    limit = in_seconds(policy.total_timeout_ms)
    return (
        f"{task.ref} exceeded its total timeout of {limit} seconds {rest}",
        f"Task {task.name}/{task.task_id} exceeded total timeout of {limit} seconds {rest}",
    )


def response_timeout(changeset: Changeset, task: Task, rule: str) -> Reasons:
    """Reason of a task whose worker gave no sign of life in time; `rule` follows it."""
    limit = in_seconds(changeset.rows.node(task).policy.response_timeout_ms)
    return (
        f"responseTimeout: {limit} exceeded by {task.ref}{rule}",
        f"responseTimeout: {limit} exceeded for the taskId: {task.task_id} with Task Definition: {task.name}{rule}",
    )


def terminated_by(task: Task, status: WorkflowStatus) -> Reasons:
    """Reason of an execution that a TERMINATE task has ended without giving one."""
    return f"Workflow is {status} by {task.ref}", f"Workflow is {status} by TERMINATE task: {task.task_id}"


def end_of_parent(status: WorkflowStatus, reason: str | None, conductor_reason: str | None) -> Reasons:
    """Reason of an execution whose parent has ended before it."""
    return in_both(
        lambda why: f"Parent workflow has been terminated with {f'reason: {why}' if why else f'status {status}'}",
        reason,
        conductor_reason,
    )


def joined(tasks: Sequence[Task]) -> Reasons:
    """Reason of a JOIN that tasks have failed."""
    own, conductors = (task.reason or "" for task in tasks), (task.conductor_reason or task.reason or "" for task in tasks)
    reasons = " ".join(own).strip(), " ".join(conductors).strip()
    return reasons[0], None if reasons[0] == reasons[1] else reasons[1]


def joined_in_spite(tasks: Sequence[Task]) -> Reasons:
    """Reason of a JOIN after failures of optional tasks."""
    refs, ids = (task.ref for task in tasks), (f"{task.name}/{task.task_id}" for task in tasks)
    return f"{' '.join(refs)} completed with errors", f"{' '.join(ids)} completed with errors"


def too_many_variables(workflow: Workflow, size: int, limit: int) -> Reasons:
    """Reason of a SET_VARIABLE after which the variables would have `size` bytes."""
    rest = f"is greater than the permissible limit: {limit // 1024} kilobytes"
    said = f"The variables payload size: {size}"
    return f"{said} {rest}", f"{said} of workflow: {workflow.workflow_id} {rest}"


def cause_below(workflow: Workflow, failed: Task | None) -> str | None:
    """Return what the task that started an ended execution says of it, for a person.

    That is the reason of the task that has `failed` it, so that of executions in executions only the innermost cause is given.
    """
    alone = failed is not None and workflow.reason == failed_with(failed)[0]
    return failed.reason if failed is not None and alone else workflow.reason
