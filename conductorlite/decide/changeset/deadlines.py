"""The timers of rows follow from their deadlines.

A timer of a timeout that no definition sets carries its length, for it counts only time in which the store was driven.
"""

from __future__ import annotations

from typing import Final

from conductorlite.decide.changeset.events import Events
from conductorlite.decide.changeset.rows import Rows
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.executions import Task
from conductorlite.model.scalars import encoded

__all__ = ["date_row", "date_timers"]

#: Python finds a global faster than a member of an enumeration.
_TOTAL, _TASK, _POLL, _RESPONSE, _WAIT = (
    EventKind.TOTAL_TIMEOUT,
    EventKind.TASK_TIMEOUT,
    EventKind.POLL_TIMEOUT,
    EventKind.RESPONSE_TIMEOUT,
    EventKind.WAIT_ENDS,
)

#: As texts: an enumeration is printed slowly.
_NAMES: Final = {kind: str(kind) for kind in (_TOTAL, _TASK, _POLL, _RESPONSE, _WAIT)}


def date_timers(rows: Rows, events: Events, owner: str) -> None:
    """Have the timers of the rows that a turn has written follow from their deadlines; `owner` is whose drivers count.

    Each row is compared as it was read with what it is now, so a timer that is set and canceled within the turn leaves nothing.
    """
    for place, row in rows.updated.items():
        date_row(rows, events, owner, row, rows.as_read[place])
    for row in rows.inserted.values():
        if row.status.terminal:
            continue  # it has no deadline
        date_row(rows, events, owner, row, rows.plan.nodes[row.base_ref].blank if not row.grafts else rows.node(row).blank)


def date_row(rows: Rows, events: Events, owner: str, row: Task, read: Task) -> None:
    """Set and cancel the timers of a row by its deadlines and those of the row as it was `read`.

    Of those due at one instant the total timeout takes effect first, then the task timeout, the poll timeout and the response
    timeout, as in Conductor; of two tasks those of the one that was scheduled first. Each was set when what it limits began.
    """
    if (at := row.total_timeout_at) != read.total_timeout_at:
        _date(rows, events, owner, row, _TOTAL, at, row.scheduled_at, 0)
    if (at := row.timeout_at) != read.timeout_at:
        _date(rows, events, owner, row, _TASK, at, row.started_at, 1)
    if (at := row.poll_timeout_at) != read.poll_timeout_at:
        _date(rows, events, owner, row, _POLL, at, row.updated_at, 2)
    if (at := row.response_timeout_at) != read.response_timeout_at:
        _date(rows, events, owner, row, _RESPONSE, at, row.updated_at, 3)
    if row.wait_until is not None or read.wait_until is not None:
        at = None if row.status.terminal else row.wait_until
        if at != (None if read.status.terminal else read.wait_until):
            _date(rows, events, owner, row, _WAIT, at, row.scheduled_at, 4)


def _date(rows: Rows, events: Events, owner: str, row: Task, kind: EventKind, at: int | None, since: int, order: int) -> None:
    """Set a timer of a row that was set at an instant, or cancel it (None).

    One that no definition sets counts driven time; it says since when (epoch ms), how much, and whose drivers count.
    """
    event_id = f"{_NAMES[kind]}:{row.ref}"
    if at is None:
        if events.timers:
            events.timers.pop(event_id, None)
        events.cancelled[event_id] = None
        return
    policy, data = (rows.node(row) if row.grafts else rows.plan.nodes[row.base_ref]).policy, EMPTY
    span = policy.default_ms.get(kind, 0)
    if events.lengths:
        span = events.lengths.get(event_id, span)
    if span > 0:
        text = f'"since":{at - span},"span":{span}'
        data = Payload(f'{{{text},"owner":{encoded(owner)}}}' if owner else f"{{{text}}}")
    events.timers[event_id] = Event(
        workflow_id=row.workflow_id,
        event_id=event_id,
        kind=kind,
        due_at=at,
        posted_at=since,
        sender=row.workflow_id,
        sender_seq=5 * (row.seq - 1) + order,  # after those of every task that was scheduled before
        ref=row.ref,
        attempt=row.attempt,
        generation=row.generation,
        data=data,
        stored=True,
    )
