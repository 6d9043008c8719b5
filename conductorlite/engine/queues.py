"""Queues as they stand: what is offered, what waits in line, what is not due yet, and what workers have in progress."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial

import attrs

from conductorlite.engine.turn_types import pages
from conductorlite.model.decisions import queue_name
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.tree import OPERATOR_TYPES
from conductorlite.store.ports import ReadingTransaction

__all__ = ["QueueDepth", "depths"]


@attrs.frozen(kw_only=True, slots=True)
class QueueDepth:
    """Numbers of tasks of a queue by state.

    `offered` can be taken by the next poll, `waiting` wait in line for a slot of their limit, `delayed` are not due yet (a retry, a
    start delay), `in_progress` are with workers. `oldest_at` is since when the oldest of those that are offered or wait in line
    is due, epoch ms; None when there is none.
    """

    queue: str
    task_type: str
    domain: str | None
    offered: int = 0
    waiting: int = 0
    delayed: int = 0
    in_progress: int = 0
    oldest_at: int | None = None

    @property
    def depth(self) -> int:
        """Number of tasks that wait for a worker, as `queue_sizes` counts them: all but those in progress."""
        return self.offered + self.waiting + self.delayed


def depths(view: ReadingTransaction, now: int) -> list[QueueDepth]:
    """Every queue with an open task, in order of names; reads every open task."""
    counts: defaultdict[tuple[str, str, str | None], Counter[str]] = defaultdict(Counter)
    oldest: dict[tuple[str, str, str | None], int] = {}
    for row, task in _open_tasks(view):
        place = (queue_name(task.task_type, task.domain, row.owner), task.task_type, task.domain)
        state = _state(task, now)
        counts[place][state] += 1
        if state in ("offered", "waiting"):
            oldest[place] = min(task.due_at, oldest.get(place, task.due_at))
    return [
        QueueDepth(queue=queue, task_type=task_type, domain=domain, **counts[place], oldest_at=oldest.get(place))
        for place in sorted(counts, key=lambda one: one[0])
        for queue, task_type, domain in (place,)
    ]


def _open_tasks(view: ReadingTransaction) -> Iterator[tuple[Workflow, Task]]:
    """The tasks for workers that have not ended, with their executions."""
    for status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED):
        for page in pages(partial(view.executions.workflow_ids, status), "", str):
            for workflow_id in page:
                row = view.executions.workflow(workflow_id)
                for task in view.executions.live(workflow_id) if row is not None else ():
                    if row is not None and not task.status.terminal and task.task_type not in OPERATOR_TYPES:
                        yield row, task


def _state(task: Task, now: int) -> str:
    if task.status is TaskStatus.IN_PROGRESS:
        return "in_progress"
    if task.status is TaskStatus.PENDING and task.limit_key is not None:
        return "waiting"
    if task.due_at > now:
        return "delayed"
    return "offered" if task.status is TaskStatus.SCHEDULED else "waiting"
