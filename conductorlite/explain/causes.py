"""The root causes of an execution that failed, or what one that is open waits for, down through its sub-workflows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from conductorlite.definitions import TaskType
from conductorlite.executions import Cause, Task, TaskStatus, Workflow, WorkflowStatus
from conductorlite.explain.nulls import nulls

__all__ = ["causes_of"]

#: Tasks that fail, or wait, because of one in them or before them.
_CONTAINERS: Final = frozenset({TaskType.DO_WHILE, TaskType.JOIN, TaskType.EXCLUSIVE_JOIN})

#: Causes told of, and executions looked into.
_MOST: Final = 20
_DEEPEST: Final = 100


def causes_of(workflow: Workflow, child: Callable[[str], Workflow | None]) -> tuple[Cause, ...]:
    """What was to blame, the root cause first and optional failures last; of an open execution what it waits for.

    `child` gives an execution by its id, with its tasks, or None when it is not there. At most 20 are told of.
    """
    found: list[Cause] = []
    # Depth first: what a cause leads to is told before its neighbours are.
    pending: list[tuple[Workflow, tuple[str, ...], bool]] = [(workflow, (workflow.name,), False)]
    while pending and len(found) < _MOST:
        row, address, optional = pending.pop()
        below: list[tuple[Workflow, tuple[str, ...], bool]] = []
        tasks = (_blamed(row) if row.status.terminal else _open(row))[:_MOST]
        for task in tasks:
            lesser = optional or task.status is TaskStatus.COMPLETED_WITH_ERRORS
            inner = None if task.sub_workflow_id is None or len(address) > _DEEPEST else child(task.sub_workflow_id)
            if inner is not None and _leads_on(task, inner):
                below.append((inner, (*address, task.ref), lesser))
            else:
                found.append(_cause(row, task, address, optional=lesser))
        if not tasks and row.status is not WorkflowStatus.COMPLETED:
            reason = f"is parked: {row.parked}" if row.parked is not None else row.reason
            found.append(Cause(address=address, workflow_id=row.workflow_id, status=row.status, reason=reason, optional=optional))
        pending.extend(reversed(below))
    return tuple(sorted(found, key=lambda cause: cause.optional))


def _leads_on(task: Task, inner: Workflow) -> bool:
    """Whether the execution below a task tells what is to be told of it: not if the task ended by a timeout of its own, say."""
    ended_alike = inner.status.terminal == task.status.terminal and inner.status is not WorkflowStatus.COMPLETED
    return ended_alike and task.status is not TaskStatus.TIMED_OUT


def _cause(row: Workflow, task: Task, address: tuple[str, ...], *, optional: bool) -> Cause:
    told = task if task.status.terminal else _attempt_before(row, task) or task
    reason = told.reason
    if told is not task:
        reason = f"{told.reason or told.status} (attempt {_number(told)}; attempt {_number(task)} is {task.status})"
    return Cause(
        address=(*address, task.ref),
        workflow_id=row.workflow_id,
        status=task.status,
        reason=reason,
        traceback=told.traceback,
        ref=task.ref,
        task_id=task.task_id,
        attempt=task.attempt,
        optional=optional,
        nulls=nulls(row, task) if task.status.terminal or told is not task else (),
    )


def _number(task: Task) -> int:
    return task.attempt - task.first_attempt + 1


def _attempt_before(row: Workflow, task: Task) -> Task | None:
    """The last attempt before this one that has failed."""
    if task.attempt == task.first_attempt:
        return None
    attempts = (one for one in row.tasks if one.ref == task.ref and task.first_attempt <= one.attempt < task.attempt)
    failed = [one for one in attempts if one.status.terminal and not one.status.successful]
    return max(failed, key=lambda one: one.attempt, default=None)


def _blamed(row: Workflow) -> list[Task]:
    """Failed tasks, the first to fail first and those that were optional last; not those that failed because of another here."""
    failed = [task for task in row.tasks if not task.retried and (task.failed or task.status is TaskStatus.COMPLETED_WITH_ERRORS)]
    failed.sort(key=lambda task: (task.status is TaskStatus.COMPLETED_WITH_ERRORS, task.ended_at, task.seq))
    return _without_containers(failed)


def _open(row: Workflow) -> list[Task]:
    return _without_containers([task for task in row.tasks if not task.retried and not task.status.terminal])


def _without_containers(tasks: Iterable[Task]) -> list[Task]:
    """Loops and JOINs fail, or wait, because of others, if there are others that are not optional."""
    known = list(tasks)
    if any(task.task_type not in _CONTAINERS and task.status is not TaskStatus.COMPLETED_WITH_ERRORS for task in known):
        return [task for task in known if task.task_type not in _CONTAINERS]
    return known
