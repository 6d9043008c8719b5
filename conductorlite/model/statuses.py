"""Statuses of an attempt and of an execution, and the tables of what may follow."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from conductorlite.model.definitions import Semantics

__all__ = [
    "REPORTABLE",
    "TASK_TRANSITIONS",
    "TASK_VERB_TRANSITIONS",
    "WORKFLOW_TRANSITIONS",
    "WORKFLOW_VERB_TRANSITIONS",
    "TaskStatus",
    "WorkflowStatus",
    "shown_status",
]


class TaskStatus(StrEnum):
    """Status of an attempt: Conductor's names, and Orkes' PENDING for a task that waits for a slot."""

    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    COMPLETED_WITH_ERRORS = "COMPLETED_WITH_ERRORS"
    FAILED = "FAILED"
    FAILED_WITH_TERMINAL_ERROR = "FAILED_WITH_TERMINAL_ERROR"
    TIMED_OUT = "TIMED_OUT"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"

    def __init__(self, name: str) -> None:
        #: Whether the attempt is over.
        self.terminal = name not in ("PENDING", "SCHEDULED", "IN_PROGRESS")
        #: Whether the attempt is over and its successors may run.
        self.successful = name in ("COMPLETED", "COMPLETED_WITH_ERRORS", "SKIPPED")
        #: Whether an automatic retry may follow.
        self.retriable = name in ("FAILED", "TIMED_OUT")


#: What a worker may report.
REPORTABLE: Final = frozenset(
    {
        TaskStatus.IN_PROGRESS,
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        TaskStatus.CANCELED,
    }
)

_ENDS: Final = frozenset(
    {
        TaskStatus.COMPLETED,
        TaskStatus.FAILED,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        TaskStatus.TIMED_OUT,
        TaskStatus.CANCELED,
    }
)

#: From which status a task may go to which, on its own. `None` is "no row yet".
TASK_TRANSITIONS: Final[Mapping[TaskStatus | None, frozenset[TaskStatus]]] = {
    None: frozenset(TaskStatus),
    # The first task of an execution that waited for its slot is of any type, and becomes whatever that does.
    TaskStatus.PENDING: frozenset(TaskStatus),
    TaskStatus.SCHEDULED: _ENDS | {TaskStatus.IN_PROGRESS, TaskStatus.PENDING},
    TaskStatus.IN_PROGRESS: _ENDS | {TaskStatus.SCHEDULED, TaskStatus.PENDING, TaskStatus.COMPLETED_WITH_ERRORS},
    TaskStatus.COMPLETED: frozenset(),
    TaskStatus.COMPLETED_WITH_ERRORS: frozenset(),
    TaskStatus.FAILED: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.TIMED_OUT: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.CANCELED: frozenset({TaskStatus.COMPLETED_WITH_ERRORS}),
    TaskStatus.SKIPPED: frozenset(),
}

#: Additional moves that only an explicit verb makes: JOINs, loops and tasks of a reopened child are reopened in place.
TASK_VERB_TRANSITIONS: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    TaskStatus.FAILED: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.TIMED_OUT: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.CANCELED: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.FAILED_WITH_TERMINAL_ERROR: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.COMPLETED: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.COMPLETED_WITH_ERRORS: frozenset({TaskStatus.IN_PROGRESS}),
    TaskStatus.SKIPPED: frozenset({TaskStatus.IN_PROGRESS}),
}


class WorkflowStatus(StrEnum):
    """Status of an execution; Conductor's names."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    TERMINATED = "TERMINATED"

    def __init__(self, name: str) -> None:
        #: Whether the execution is over.
        self.terminal = name not in ("RUNNING", "PAUSED")


#: From which status an execution may go to which. `None` is "no row yet".
WORKFLOW_TRANSITIONS: Final[Mapping[WorkflowStatus | None, frozenset[WorkflowStatus]]] = {
    None: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.RUNNING: frozenset(WorkflowStatus) - {WorkflowStatus.RUNNING},
    WorkflowStatus.PAUSED: frozenset({WorkflowStatus.RUNNING, WorkflowStatus.TERMINATED, WorkflowStatus.TIMED_OUT}),
    WorkflowStatus.COMPLETED: frozenset(),
    WorkflowStatus.FAILED: frozenset(),
    WorkflowStatus.TIMED_OUT: frozenset(),
    WorkflowStatus.TERMINATED: frozenset(),
}

#: Additional moves that only an explicit verb makes: `retry`, `restart` and `rerun` reopen, here or in a child.
WORKFLOW_VERB_TRANSITIONS: Final[Mapping[WorkflowStatus, frozenset[WorkflowStatus]]] = {
    WorkflowStatus.COMPLETED: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.FAILED: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.TIMED_OUT: frozenset({WorkflowStatus.RUNNING}),
    WorkflowStatus.TERMINATED: frozenset({WorkflowStatus.RUNNING}),
}


def shown_status(status: TaskStatus, semantics: Semantics) -> TaskStatus:
    """A status as documents and expressions show it: Conductor OSS has no PENDING, a task over its limit is SCHEDULED there."""
    return TaskStatus.SCHEDULED if status is TaskStatus.PENDING and semantics is Semantics.OSS else status
