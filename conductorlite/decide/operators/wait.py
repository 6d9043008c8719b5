"""WAIT, HUMAN and NOOP: time passes, a person acts, or nothing happens.

A WAIT is one dated event. Without duration and until it waits for a report. A duration or instant that cannot be read fails
the task for good, with the text quoted. (In Conductor a bad duration wedges the workflow.) A HUMAN always waits for a report.
"""

from __future__ import annotations

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.language.durations import parse_duration, parse_until
from conductorlite.language.values import to_text
from conductorlite.model.decisions import EventKind
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["schedule_human", "schedule_noop", "schedule_wait"]


def schedule_wait(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Start waiting. A WAIT that was canceled with its execution and is retried waits for the same instant as before."""
    ref = printed_ref(node.ref, iterations)
    task_id = draft.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(draft, node, iterations, task_id)
    until: int | None = None
    problem: str | None = None
    if previous is not None and previous.wait_until is not None:
        until = previous.wait_until
    else:
        try:
            until = _until(values, draft.now)
        except InvalidExpression as error:
            problem = str(error)
    given = draft.payload(values)
    if problem:
        failed = TaskStatus.FAILED_WITH_TERMINAL_ERROR
        draft.create_ended(node, iterations, failed, previous=previous, input=given, reason=problem)
        return
    task = draft.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=given,
        started_at=draft.now,
        wait_until=until,
    )
    if until is not None:
        draft.set_timer(task, EventKind.WAIT_ENDS, until)
    start_deadlines(draft, node, task, previous)


def schedule_human(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Wait for somebody to report on the task; it times out only if its definition says so."""
    ref = printed_ref(node.ref, iterations)
    task_id = draft.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(draft, node, iterations, task_id)
    task = draft.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        previous=previous,
        input=draft.payload(values),
        started_at=draft.now,
    )
    start_deadlines(draft, node, task, previous)


def _until(values: dict[str, object], now: int) -> int | None:
    duration, until = (_text(values.get(name)) for name in ("duration", "until"))
    if duration.strip() and until.strip():
        raise InvalidExpression("Both 'duration' and 'until' specified. Please provide only one input")
    if duration.strip():
        return now + parse_duration(duration.strip())
    # Conductor reads the text as it is: blanks around a date are an error.
    return parse_until(until, "UTC") if until.strip() else None


def _text(value: object) -> str:
    return "" if value is None else to_text(value)


def schedule_noop(draft: Draft, node: Node, iterations: tuple[int, ...]) -> None:
    """Create the row, already over."""
    draft.create_ended(node, iterations, TaskStatus.COMPLETED)
