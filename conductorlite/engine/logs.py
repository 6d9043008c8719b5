"""Reports to `logging`: after a commit, never inside, one record for one thing. Nothing is configured here.

Records go to the logger `conductorlite` and its children, named by what they are about. Texts come from rows, so secrets were
taken out of them before they were stored.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from conductorlite.model.decisions import Decision, Outcome
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import HistoryKind, Task, Workflow
from conductorlite.model.later import made
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import error_text
from conductorlite.model.threads import Mutex

if TYPE_CHECKING:
    import logging
    import traceback

    from conductorlite.model.handlers import EventExecution
    from conductorlite.model.schedules import Progress
else:
    logging = made(lambda: import_module("logging"))
    traceback = made(lambda: import_module("traceback"))

__all__ = [
    "FailureLog",
    "about_task",
    "log_definition",
    "log_driver",
    "log_event_failure",
    "log_parked",
    "log_schedule",
    "log_store",
    "log_waiting",
]

_DRIVER: Final = made(lambda: logging.getLogger("conductorlite"))
_LISTENERS: Final = made(lambda: logging.getLogger("conductorlite.listeners"))
_TASKS: Final = made(lambda: logging.getLogger("conductorlite.tasks"))
_TURNS: Final = made(lambda: logging.getLogger("conductorlite.turns"))
_WORKFLOWS: Final = made(lambda: logging.getLogger("conductorlite.workflows"))
_SCHEDULES: Final = made(lambda: logging.getLogger("conductorlite.schedules"))
_DEFINITIONS: Final = made(lambda: logging.getLogger("conductorlite.definitions"))
_EVENTS: Final = made(lambda: logging.getLogger("conductorlite.events"))
_STORE: Final = made(lambda: logging.getLogger("conductorlite.store"))

_FAILED: Final = frozenset({TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR, TaskStatus.TIMED_OUT})
#: Longest text of an error that is logged.
_LENGTH: Final = 1_000

_ENDED_BADLY: Final = frozenset({WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT})

#: What is logged if anybody listens to warnings.
_NOTED: Final = _FAILED | _ENDED_BADLY

#: Answers to an event that nobody waits for any more, since it came from the inbox.
_REFUSED: Final = frozenset({Outcome.CONFLICT, Outcome.ENDED, Outcome.FULL})

#: What is not looked up for each turn, and the levels of `logging`.
_ALERT: Final = HistoryKind.ALERT
_DEBUG: Final = 10
_INFO: Final = 20
_WARNING: Final = 30
_ERROR: Final = 40

#: Kinds of failures whose number is kept.
_KINDS: Final = 1_000

#: Tasks that fail because one in them, or one they wait for, has failed.
_CONTAINERS: Final = frozenset({TaskType.DO_WHILE, TaskType.JOIN, TaskType.EXCLUSIVE_JOIN, TaskType.SUB_WORKFLOW})


def _no_line(workflow: str, ref: str) -> str | None:
    return None


class FailureLog:
    """Logs what goes wrong in the turns of one engine: a line for each failure, a traceback for the first of a kind. Thread-safe.

    Failures are of one kind when the same exceptions came from the same lines of code; their texts may differ.
    """

    def __init__(self) -> None:
        #: How often each kind has failed, the one that failed last at the end.
        self._numbers: dict[object, int] = {}
        self._mutex = Mutex()
        #: Where a step of a workflow is written, by their names: an engine that has the flows knows it.
        self.line_of: Callable[[str, str], str | None] = _no_line

    def decision(self, decision: Decision) -> None:
        """Log a committed turn: a warning for each attempt that failed or timed out and each alert, debug for the turn itself."""
        for event_id in decision.consumed:
            if (reply := decision.replies.get(event_id)) is not None and reply.outcome in _REFUSED:
                text = f"{_name(decision.workflow)}: what was left to its next turn is refused: {reply.message}"
                _emit(_WORKFLOWS, _WARNING, text, _about(decision.workflow))
        debug, noted = "logging" in sys.modules and _TURNS.isEnabledFor(_DEBUG), False
        for line in decision.history:
            if line.status in _NOTED or line.kind is _ALERT:
                noted = True
        if not debug and not noted:
            return
        workflow = decision.workflow
        if debug:
            lines = ", ".join(f"{line.kind} {line.ref or ''} {line.status}".replace("  ", " ") for line in decision.history)
            _emit(_TURNS, _DEBUG, f"{_name(workflow)}: {lines or 'nothing to report'}", _about(workflow))
        if noted and _TASKS.isEnabledFor(_WARNING) and (_is_heard(_TASKS) or _is_heard(_WORKFLOWS)):
            self._warn(workflow, decision)

    def _warn(self, workflow: Workflow, decision: Decision) -> None:
        rows = {(row.ref, row.attempt): row for row in (*decision.inserted, *decision.updated)}
        logged: set[str] = set()
        for line in decision.history:
            if line.kind is not HistoryKind.TASK or line.status not in _FAILED:
                continue
            row = rows.get((line.ref or "", line.attempt or 0))
            if row is not None and row.task_type in _CONTAINERS and _follows(row, logged):
                continue
            logged.add(line.reason or "")
            place = self.line_of(workflow.name, (line.ref or "") if row is None else row.base_ref)
            step = f"{line.ref} ({place})" if place else line.ref
            text = f"{_name(workflow)}: {step}, attempt {(line.attempt or 0) + 1}, {line.status}{_why(line.reason)}"
            about = _about(workflow, line.ref, line.attempt)
            if row is not None and row.traceback:
                self._failed(_TASKS, text, about, (row.error_types, row.traceback))
            else:
                _emit(_TASKS, _WARNING, text, about)
        for line in decision.history:
            if line.kind is HistoryKind.ALERT:
                of = "" if line.ref is None else f"{line.ref}, attempt {(line.attempt or 0) + 1}, "
                text = f"{_name(workflow)}: {of}ALERT{_why(line.reason)}"
                _emit(_TASKS, _WARNING, text, _about(workflow, line.ref, line.attempt))
            elif line.kind is HistoryKind.WORKFLOW and line.status in _ENDED_BADLY and not logged and not _is_logged(workflow):
                _emit(_WORKFLOWS, _WARNING, f"{_name(workflow)}: {line.status}{_why(line.reason)}", _about(workflow))

    def listener(self, what: Workflow | EventExecution, error: Exception) -> None:
        """Log what a listener raised: the commit stands, and the caller of the verb is not to blame."""
        name, about = (_name(what), _about(what)) if isinstance(what, Workflow) else _of_action(what)
        self._failed(_LISTENERS, f"{name}: a listener raised {_line(error_text(error, _LENGTH))}", about, error)

    def broken(self, workflow: Workflow | str, error: InvariantBroken) -> None:
        """Log a turn that came to nothing since a law did not hold, once for each error: it is a defect of conductorlite."""
        if error.logged:
            return
        error.logged = True
        about = {"workflow_id": workflow} if isinstance(workflow, str) else _about(workflow)
        cause = error.__cause__ or error
        name = workflow if isinstance(workflow, str) else _name(workflow)
        text = f"{name}: a turn failed, nothing of it is stored; please report this: {_line(error_text(cause, _LENGTH))}"
        self._failed(_TURNS, text, about, cause, level=_ERROR)

    def _failed(
        self,
        log: Any,
        text: str,
        about: Mapping[str, object],
        what: BaseException | tuple[object, str],
        *,
        level: int = _WARNING,
    ) -> None:
        """Log an exception, or what is stored of one: its types and its traceback, which is left out when the kind is known."""
        error = what if isinstance(what, BaseException) else None
        types, trace = what if isinstance(what, tuple) else (type(what), "".join(traceback.format_exception(what)))
        lines = tuple(line for line in trace.splitlines() if line.lstrip(" |").startswith('File "'))
        with self._mutex.held():
            number = self._numbers.pop((types, lines), 0) + 1
            self._numbers[types, lines] = number
            if len(self._numbers) > _KINDS:
                del self._numbers[next(iter(self._numbers))]
        if number > 1:
            error, text = None, f"{text} (failure {number} of this kind; the traceback is logged with the first)"
        elif error is None:
            text = f"{text}\n{trace.rstrip()}"
        _emit(log, level, text, {**about, "failures": number}, error)


def _emit(log: Any, level: int, text: str, about: Mapping[str, object], error: BaseException | None = None) -> None:
    """Make a record. What a handler or a filter of the user's raises ends nothing here; it is printed as `logging` prints it."""
    try:
        log.log(level, "%s", text, extra=about, exc_info=error)
    except Exception:
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()


def _line(text: str) -> str:
    """A text as one line."""
    return " ".join(line.strip() for line in text.splitlines() if line.strip()) if "\n" in text or "\r" in text else text


def _is_heard(log: Any) -> bool:
    """Return True if a record is looked at: not where every handler is one that does nothing. Without any, Python prints it."""
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


def _follows(row: Task, logged: set[str]) -> bool:
    """Return True if an attempt of a container failed only because something that was logged has."""
    return bool(logged) or (row.sub_workflow_id is not None and row.status is not TaskStatus.TIMED_OUT)


def _is_logged(workflow: Workflow) -> bool:
    # Its task was logged by an earlier turn: by that of the task's last attempt, or of the last one to be undone.
    return bool(workflow.failed_refs)


def log_parked(workflow_id: str, reason: str) -> None:
    """Log that an execution takes no more turns."""
    text = f"{workflow_id} is parked, resume or terminate it: {_line(reason)}"
    _emit(_WORKFLOWS, _WARNING, text, {"workflow_id": workflow_id})


def log_waiting(workflow: Workflow, text: str, *, urgent: bool) -> None:
    """Log what an execution waits for whose caller has waited for some seconds; as information where it goes on by itself."""
    level = _WARNING if urgent else _INFO
    _emit(_WORKFLOWS, level, f"{_name(workflow)} has not ended yet: {_line(text)}", _about(workflow))


def about_task(task: Task, text: str) -> None:
    """A warning about an attempt that no line of its history records, such as a lost lease."""
    about = {"workflow_id": task.workflow_id, "task_ref": task.ref, "task_id": task.task_id, "attempt": task.attempt}
    _emit(_TASKS, _WARNING, f"{task.workflow_id}: {task.ref}, attempt {task.attempt + 1}: {_line(text)}", about)


def log_schedule(name: str, before: Progress, after: Progress) -> None:
    """Log instants at which a schedule has started nothing: missed or refused with a warning, skipped on purpose at info."""
    about = {"schedule": name}
    if after.paused and not before.paused:
        _emit(_SCHEDULES, _WARNING, f"schedule {name} is paused{_why(after.paused_reason)}", about)
    for run in after.decided_since(before):
        if run.outcome in ("MISSED", "FAILED", "SKIPPED"):
            text = f"schedule {name}: the start at {run.scheduled_time} (epoch ms) was {run.outcome}{_why(run.reason)}"
            _emit(_SCHEDULES, _INFO if run.outcome == "SKIPPED" else _WARNING, text, about)


def log_definition(name: str, problem: str) -> None:
    """A warning about a definition: when it is used for the first time, or waits for a worker that is not here."""
    _emit(_DEFINITIONS, _WARNING, f"{name}: {problem}", {"workflow_name": name})


def log_event_failure(done: EventExecution) -> None:
    """A warning about an action of an event handler, or its condition, that could not be carried out."""
    name, about = _of_action(done)
    said = done.output_data
    _emit(_EVENTS, _WARNING, f"{name}: FAILED{_why(str(said.get('error') or said.get('exception')))}", about)


def _of_action(done: EventExecution) -> tuple[str, dict[str, object]]:
    about: dict[str, object] = {
        "event_handler": done.name,
        "event": done.event,
        "message_id": done.message_id,
        "action": done.action,
    }
    workflow_id = done.output_data.get("workflowId")
    if workflow_id is not None:
        about["workflow_id"] = workflow_id
    return f"event handler {done.name}: {done.action or 'its condition'} for message {done.message_id} of {done.event}", about


def log_store(text: str, error: Exception) -> None:
    """A warning about something outside that did not do what was asked and is asked again: a source, an index, a storage."""
    _emit(_STORE, _WARNING, f"{text}: {_line(error_text(error, _LENGTH))}", {})


def log_driver(text: str, *arguments: object) -> None:
    """A warning about what a driver meets: a store or a lock that cannot be used, a turn that ended its process."""
    _emit(_DRIVER, _WARNING, _line(text % arguments), {})


def _name(workflow: Workflow) -> str:
    return f"{workflow.name} ({workflow.workflow_id})"


def _why(reason: str | None) -> str:
    return f": {_line(reason)}" if reason else ""


def _about(workflow: Workflow, ref: str | None = None, attempt: int | None = None) -> dict[str, object]:
    about: dict[str, object] = {"workflow_id": workflow.workflow_id, "workflow_name": workflow.name}
    if ref is not None:
        about |= {"task_ref": ref, "attempt": attempt or 0}
    return about
