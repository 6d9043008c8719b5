"""How far an execution has come: what is counted, and of how much that is known to be ahead.

What is ahead is every task of the definition that the flow has not come to, but for the cases that were not taken, and for those of
a switch that is still ahead. What is made at run time (branches over a list, rounds of a loop) counts from when it is there, so the
total may grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import attrs

from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.plan.tree import TreePosition, positions

__all__ = ["RunProgress", "progress_of"]


@attrs.frozen(kw_only=True, slots=True)
class RunProgress:
    """How far an execution has come, which follows from its rows alone: a restart does not change it."""

    status: WorkflowStatus
    #: Tasks by their status: the last attempt of each reference.
    by_status: Mapping[str, int]
    #: The same for each reference of the definition, over all its rounds; of what was made at run time, by the task's name.
    by_step: Mapping[str, Mapping[str, int]]
    #: Printed references of what is with a worker or waits for time, an event or a person.
    running: tuple[str, ...]
    done: int
    total: int
    elapsed_ms: int
    #: What is left if it goes on as fast as so far; None when it has ended, or nothing is done yet.
    remaining_ms: int | None

    @property
    def fraction(self) -> float:
        """From 0 to 1; 1 only for an execution that COMPLETED."""
        if self.status is WorkflowStatus.COMPLETED:
            return 1.0
        return min(self.done / self.total, 0.999) if self.total else 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(self.by_status.items()))
        return f"{self.status}: {self.done} of {self.total} tasks ({self.fraction:.0%}){f': {counts}' if counts else ''}"


def progress_of(workflow: Workflow, now: int) -> RunProgress:
    """The progress of an execution with its tasks and its definition."""
    last: dict[str, Task] = {task.ref: task for task in workflow.tasks}
    nodes = positions(workflow.definition)
    by_step: dict[str, Counter[str]] = {}
    for task in last.values():
        by_step.setdefault(task.base_ref if task.base_ref in nodes else task.name, Counter())[str(task.status)] += 1
    done = sum(task.status.terminal for task in last.values())
    running = workflow.status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)
    total = len(last) + (_ahead(nodes.values(), by_step) if running else 0)
    elapsed = max(0, (workflow.ended_at or now) - (workflow.started_at or workflow.created_at))
    return RunProgress(
        status=workflow.status,
        by_status=Counter(str(task.status) for task in last.values()),
        by_step=by_step,
        running=tuple(task.ref for task in last.values() if task.live),
        done=done,
        total=total,
        elapsed_ms=elapsed,
        remaining_ms=elapsed * (total - done) // done if running and done else None,
    )


def _ahead(nodes: Collection[TreePosition], reached: Collection[str]) -> int:
    taken = {branch for node in nodes if node.ref in reached for branch in node.around}
    return sum(
        node.ref not in reached and all(branch in taken for branch in node.around if branch.kind in ("case", "default"))
        for node in nodes
    )
