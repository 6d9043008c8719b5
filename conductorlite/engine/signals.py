"""Signals: reports from outside on tasks that wait, found by reference or by what blocks the execution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conductorlite.decisions import Outcome
from conductorlite.engine.control import refuse_parked
from conductorlite.engine.workface import WorkerFace
from conductorlite.errors import Conflict, TaskNotFound
from conductorlite.executions import Task, TaskResult, TaskStatus
from conductorlite.ports import ReadingTransaction

__all__ = ["Signals"]

#: Searches before giving up: what was found may end before it is told.
_TRIES: Final = 8

#: What waits for somebody outside.
_BLOCKING: Final = frozenset({"WAIT", "HUMAN"})


class Signals(WorkerFace):
    """Verbs that tell a waiting task to go on."""

    def signal(
        self,
        workflow_id: str,
        output: Mapping[str, Any] | None = None,
        *,
        task: str | None = None,
        status: TaskStatus = TaskStatus.COMPLETED,
        reason: str | None = None,
    ) -> Task:
        """Report on a task of a running execution without holding its lease, and return it as stored afterwards.

        `task` is a task id or a reference: the printed one (`x__2`), or the definition's for its first open round. Without it the
        first open WAIT or HUMAN of the execution is meant, else that of the first of its sub-workflows that has one, depth first.
        `output` is laid over what the task has put out so far. `status` is one a worker may report. Raises ExecutionNotFound,
        TaskNotFound when no such task is open, InvalidInput, Conflict when the execution has ended or has no slot to begin with,
        and Parked. Source of the rule: Conductor's `signalTask`, which finds no HUMAN.
        """
        row = self._row(workflow_id)
        if row.status.terminal:
            raise Conflict(f"{workflow_id}: a {row.status} workflow waits for no signal")
        for _ in range(_TRIES):
            with self.backend.reading() as view:
                found = self._blocking(view, workflow_id) if task is None else self._open_task(view, workflow_id, task)
            if found is None:
                wanted = "WAIT or HUMAN task that waits" if task is None else f"open task {task!r}"
                raise TaskNotFound(f"{workflow_id}: there is no {wanted}")
            result = TaskResult(
                workflow_id=found.workflow_id,
                task_id=found.task_id,
                status=status,
                output_data=dict(output or {}),
                reason=reason,
            )
            event = self.report_event(found, result, merge=True)
            taken = self.turns.take(found.workflow_id, [event])
            refuse_parked(found.workflow_id, taken)
            reply = taken.replies.get(event.event_id)
            if reply is not None and reply.outcome is Outcome.CONFLICT:
                raise Conflict(f"{found.workflow_id}: {reply.message}")
            if reply is None or reply.outcome is Outcome.DONE:
                return self.task(found.task_id)
        raise Conflict(f"{workflow_id}: what waits changes faster than it can be told")

    def _open_task(self, view: ReadingTransaction, workflow_id: str, wanted: str) -> Task | None:
        by_id = view.task_by_id(wanted)
        if by_id is not None and by_id.workflow_id == workflow_id:
            return None if by_id.status.terminal else by_id
        rows = _open_rows(view, workflow_id)
        return next((row for row in rows if row.ref == wanted), next((row for row in rows if row.base_ref == wanted), None))

    def _blocking(self, view: ReadingTransaction, workflow_id: str) -> Task | None:
        pending = [workflow_id]
        while pending:
            rows = _open_rows(view, pending.pop(0))
            for row in rows:
                if row.task_type in _BLOCKING:
                    return row
            pending[:0] = [row.sub_workflow_id for row in rows if row.sub_workflow_id is not None]
        return None


def _open_rows(view: ReadingTransaction, workflow_id: str) -> list[Task]:
    return sorted((row for row in view.live(workflow_id) if not row.status.terminal), key=lambda row: row.seq)
