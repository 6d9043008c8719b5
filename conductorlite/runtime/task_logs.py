"""Additions to a program's logging that name the task of a record; imported by who uses it."""

from __future__ import annotations

import logging

from conductorlite.model.executions import Task
from conductorlite.runtime.calls import current_context, current_task

__all__ = ["TaskLogFilter", "TaskLogHandler"]


class TaskLogFilter(logging.Filter):
    """Gives each record `workflow_id`, `task_id`, `task_ref`, `task_type` and `attempt` (from 0), for a formatter to show.

    Add it to a handler. Within a worker function they are those of its task; in conductorlite's own records those they are
    about; elsewhere `-`. It lets every record pass.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is missing; always true."""
        task = current_task()
        known = {} if task is None else _of(task)
        for name in ("workflow_id", "task_id", "task_ref", "task_type", "attempt"):
            if not hasattr(record, name):
                setattr(record, name, known.get(name, "-"))
        return True


class TaskLogHandler(logging.Handler):
    """Keeps the records that a worker function makes with its task, as `TaskContext.log` does: formatted, in order.

    Add it to a logger. Lines are stored with the function's report, those of one that runs longer each second; 1,000 of a call at
    most. They are on the page of the execution, in `engine.tasks.logs` and in what `conductorlite logs` prints. Records made
    outside of a worker function, and conductorlite's own, are left alone.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record for the task that is carried out."""
        context = current_context()
        if context is None or record.name.partition(".")[0] == "conductorlite":
            return
        try:
            context.note(self.format(record))
        except Exception:
            self.handleError(record)


def _of(task: Task) -> dict[str, object]:
    return {
        "workflow_id": task.workflow_id,
        "task_id": task.task_id,
        "task_ref": task.ref,
        "task_type": task.task_type,
        "attempt": task.attempt,
    }
