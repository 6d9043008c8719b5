"""The task that a worker function carries out, known to whatever it calls: for its own log lines above all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from conductorlite.executions import Task

__all__ = ["TaskLogFilter", "carrying_out", "current_task"]

_CURRENT: Final[ContextVar[Task | None]] = ContextVar("conductorlite.task", default=None)


def current_task() -> Task | None:
    """The attempt that the calling worker function carries out; None outside of one.

    Known in the function's thread or coroutine, and in what inherits its context (`asyncio.create_task`, `asyncio.to_thread`);
    a thread started by hand knows nothing of it.
    """
    return _CURRENT.get()


@contextmanager
def carrying_out(task: Task) -> Iterator[None]:
    """While inside, `current_task` is this one."""
    token = _CURRENT.set(task)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class TaskLogFilter(logging.Filter):
    """Gives each record `workflow_id`, `task_id`, `task_ref`, `task_type` and `attempt` (from 0), for a formatter to show.

    Add it to a handler. Within a worker function they are those of its task; in conductorlite's own records those they are
    about; elsewhere `-`. It lets every record pass.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add what is missing; always true."""
        task = _CURRENT.get()
        known = {} if task is None else _of(task)
        for name in ("workflow_id", "task_id", "task_ref", "task_type", "attempt"):
            if not hasattr(record, name):
                setattr(record, name, known.get(name, "-"))
        return True


def _of(task: Task) -> dict[str, object]:
    return {
        "workflow_id": task.workflow_id,
        "task_id": task.task_id,
        "task_ref": task.ref,
        "task_type": task.task_type,
        "attempt": task.attempt,
    }
