"""What is reported to `logging`: after a commit, never inside, one record for one thing. Nothing is configured here.

Records go to the logger `conductorlite` and its children, named by what they are about. Texts come from rows, so secrets were
taken out of them before they were stored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from conductorlite.model.decisions import Decision
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import HistoryKind, Task, Workflow
from conductorlite.model.later import made
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import error_text

if TYPE_CHECKING:
    import logging

    from conductorlite.model.schedules import Progress, ScheduledRun
else:
    logging = made(lambda: import_module("logging"))

__all__ = [
    "about_task",
    "log_decision",
    "log_definition",
    "log_driver",
    "log_listener",
    "log_parked",
    "log_schedule",
    "log_store",
]

_DRIVER: Final = made(lambda: logging.getLogger("conductorlite"))
_LISTENERS: Final = made(lambda: logging.getLogger("conductorlite.listeners"))
_TASKS: Final = made(lambda: logging.getLogger("conductorlite.tasks"))
_TURNS: Final = made(lambda: logging.getLogger("conductorlite.turns"))
_WORKFLOWS: Final = made(lambda: logging.getLogger("conductorlite.workflows"))
_SCHEDULES: Final = made(lambda: logging.getLogger("conductorlite.schedules"))
_DEFINITIONS: Final = made(lambda: logging.getLogger("conductorlite.definitions"))
_STORE: Final = made(lambda: logging.getLogger("conductorlite.store"))

_FAILED: Final = frozenset({TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT})
#: Longest text of an error that is logged.
_LENGTH: Final = 1_000

_ENDED_BADLY: Final = frozenset({WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT})

#: What is logged if anybody listens to warnings.
_NOTED: Final = _FAILED | _ENDED_BADLY

#: What is not looked up for each turn, and `logging.DEBUG` and `logging.WARNING`.
_ALERT: Final = HistoryKind.ALERT
_DEBUG: Final = 10
_WARNING: Final = 30

#: Tasks that fail because one in them, or one they wait for, has failed.
_CONTAINERS: Final = frozenset({TaskType.DO_WHILE, TaskType.JOIN, TaskType.EXCLUSIVE_JOIN, TaskType.SUB_WORKFLOW})


def log_decision(decision: Decision) -> None:
    """Log a committed turn: a warning for each attempt that failed or timed out and each alert, debug for the turn itself."""
    debug, noted = "logging" in sys.modules and _TURNS.isEnabledFor(_DEBUG), False
    for line in decision.history:
        if line.status in _NOTED or line.kind is _ALERT:
            noted = True
    if not debug and not noted:
        return
    try:
        workflow = decision.workflow
        if debug:
            lines = ", ".join(f"{line.kind} {line.ref or ''} {line.status}".replace("  ", " ") for line in decision.history)
            _TURNS.debug("%s (%s): %s", workflow.name, workflow.workflow_id, lines or "nothing to report", extra=_about(workflow))
        if noted and _TASKS.isEnabledFor(_WARNING) and (_is_heard(_TASKS) or _is_heard(_WORKFLOWS)):
            _warn(workflow, decision)
    except Exception:
        return  # a handler of the user's that raises is no reason to stop


def _is_heard(log: Any) -> bool:
    """Whether a record is looked at: not where every handler is one that does nothing. Without any, Python prints it."""
    logger: logging.Logger | None = log.isEnabledFor.__self__  # itself: what is read of `log` is kept
    silent, nothing = False, logging.NullHandler
    while logger is not None:
        if logger.filters:
            return True
        for handler in logger.handlers:
            if type(handler) is not nothing:
                return True
            silent = True
        logger = logger.parent if logger.propagate else None
    return not silent


def _warn(workflow: Workflow, decision: Decision) -> None:
    rows = {(row.ref, row.attempt): row for row in (*decision.inserted, *decision.updated)}
    logged: set[str] = set()
    for line in decision.history:
        if line.kind is not HistoryKind.TASK or line.status not in _FAILED:
            continue
        row = rows.get((line.ref or "", line.attempt or 0))
        if row is not None and row.task_type in _CONTAINERS and _follows(row, logged):
            continue
        logged.add(line.reason or "")
        trace = f"\n{row.traceback.rstrip()}" if row is not None and row.traceback else ""
        text = f"{_name(workflow)}: {line.ref}, attempt {(line.attempt or 0) + 1}, {line.status}{_why(line.reason)}{trace}"
        _TASKS.warning(text, extra=_about(workflow, line.ref, line.attempt))
    for line in decision.history:
        if line.kind is HistoryKind.ALERT:
            of = "" if line.ref is None else f"{line.ref}, attempt {(line.attempt or 0) + 1}, "
            text = f"{_name(workflow)}: {of}ALERT{_why(line.reason)}"
            _TASKS.warning("%s", text, extra=_about(workflow, line.ref, line.attempt))
        elif line.kind is HistoryKind.WORKFLOW and line.status in _ENDED_BADLY and not logged and not _is_logged(workflow):
            _WORKFLOWS.warning("%s: %s%s", _name(workflow), line.status, _why(line.reason), extra=_about(workflow))


def _follows(row: Task, logged: set[str]) -> bool:
    """Whether an attempt of a container failed only because something that was logged has."""
    return bool(logged) or (row.sub_workflow_id is not None and row.status is not TaskStatus.TIMED_OUT)


def _is_logged(workflow: Workflow) -> bool:
    # Its task was logged by an earlier turn: by that of the task's last attempt, or of the last one to be undone.
    return bool(workflow.failed_refs)


def log_parked(workflow_id: str, reason: str) -> None:
    """Log that an execution takes no more turns."""
    with suppress(Exception):
        extra = {"workflow_id": workflow_id}
        _WORKFLOWS.warning("%s is parked, resume or terminate it: %s", workflow_id, reason, extra=extra)


def about_task(task: Task, text: str) -> None:
    """A warning about an attempt that no line of its history records, such as a lost lease."""
    with suppress(Exception):
        about = {"workflow_id": task.workflow_id, "task_ref": task.ref, "task_id": task.task_id, "attempt": task.attempt}
        _TASKS.warning("%s: %s, attempt %s: %s", task.workflow_id, task.ref, task.attempt + 1, text, extra=about)


def log_schedule(name: str, before: Progress, after: Progress) -> None:
    """Log instants at which a schedule has started nothing: missed or refused with a warning, skipped on purpose at info."""
    with suppress(Exception):
        if after.paused and not before.paused:
            _SCHEDULES.warning("schedule %s is paused%s", name, _why(after.paused_reason), extra={"schedule": name})
        for run in _added(before.recent, after.recent):
            if run.outcome in ("MISSED", "FAILED"):
                level = logging.WARNING
            elif run.outcome == "SKIPPED":
                level = logging.INFO
            else:
                continue
            text = "schedule %s: the start at %s (epoch ms) was %s%s"
            _SCHEDULES.log(level, text, name, run.scheduled_time, run.outcome, _why(run.reason), extra={"schedule": name})


def _added(before: Sequence[ScheduledRun], after: Sequence[ScheduledRun]) -> Iterable[ScheduledRun]:
    known = set(before)
    return (run for run in after if run not in known)


def log_definition(name: str, problem: str) -> None:
    """A warning about a definition: when it is used for the first time, or waits for a worker that is not here."""
    with suppress(Exception):
        _DEFINITIONS.warning("%s: %s", name, problem, extra={"workflow_name": name})


def log_store(text: str, error: Exception) -> None:
    """A warning about something outside that did not do what was asked and is asked again: a source, an index, a storage."""
    with suppress(Exception):
        _STORE.warning("%s: %s", text, error_text(error, _LENGTH))


def log_driver(text: str, *arguments: object) -> None:
    """A warning about what a driver meets: a store or a lock that cannot be used, a turn that ended its process."""
    with suppress(Exception):
        _DRIVER.warning(text, *arguments)


def log_listener(workflow: Workflow, error: Exception) -> None:
    """Log what a listener raised, with its traceback: the commit stands, and the caller of the verb is not to blame."""
    with suppress(Exception):
        text = "%s: a listener raised %s"
        _LISTENERS.warning(text, _name(workflow), error_text(error, _LENGTH), extra=_about(workflow), exc_info=error)


def _name(workflow: Workflow) -> str:
    return f"{workflow.name} ({workflow.workflow_id})"


def _why(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _about(workflow: Workflow, ref: str | None = None, attempt: int | None = None) -> dict[str, object]:
    about: dict[str, object] = {"workflow_id": workflow.workflow_id, "workflow_name": workflow.name}
    if ref is not None:
        about |= {"task_ref": ref, "attempt": attempt or 0}
    return about
