"""What the decisions of turns that are written out as a whole have in common: an attempt is over, and another one is offered.

They are those of retries and rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from conductorlite.decide.changeset.mailboxes import REPLIES, timer_event
from conductorlite.decide.plain import polled_by, reported_with
from conductorlite.decide.poll import take_row
from conductorlite.decide.step import line
from conductorlite.model.attrs import copied, new
from conductorlite.model.decisions import Decision, Event, EventKind, Message, Outcome, Outgoing, queue_name
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Plan

__all__ = ["message_of", "takes", "whole"]

#: What is asked for in each of them: Python finds a global faster than a member of an enumeration.
_TASK = HistoryKind.TASK
_SCHEDULED, _IN_PROGRESS = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS
_POLL_TIMEOUT, _DONE, _NOTHING = EventKind.POLL_TIMEOUT, REPLIES[Outcome.DONE], Outgoing()


def message_of(row: Workflow, task: Task) -> Message:
    """What is put into the queue of an attempt that is offered."""
    plain = task.domain is None and not row.owner
    return new[Message](
        queue=task.task_type if plain else queue_name(task.task_type, task.domain, row.owner),
        workflow_id=row.workflow_id,
        ref=task.ref,
        attempt=task.attempt,
        generation=task.generation,
        task_id=task.task_id,
        due_at=task.due_at,
        priority=row.priority,
    )


def takes(poll: Event, message: Message, row: Workflow) -> bool:
    """Whether a poll takes what the turn offers, at an instant at which it is offered."""
    return (
        poll.ref == message.ref
        and poll.attempt == message.attempt
        and poll.generation == message.generation
        and poll.owner == row.owner
        and poll.due_at == poll.posted_at >= message.due_at
        and poll.data.text is not None
    )


def whole(
    row: Workflow,
    plan: Plan,
    ended: Task,
    made: Any,
    event: Event,
    taking: Event | Message,
    cancelled: Sequence[str],
    around: tuple[Task, HistoryEvent] | None = None,
) -> Decision:
    """The decision by which an attempt is over, and another one is offered, or taken by a poll; `around` is what a loop adds.

    The other one's row can be written still: it is nobody else's yet.
    """
    now, said, replies = ended.updated_at, event.data.value, {event.event_id: _DONE}
    number, after = row.history_seq + 1, copied[Workflow](row)
    written: Any = after
    written.task_seq, written.last_ref = made.seq, made.ref
    timers: tuple[Event, ...] = ()
    if made.poll_timeout_at is not None:
        written.sequence += 1  # of its timer, whether or not it is polled in this turn
    cause = reported_with(said.get("workerId"), said.get("callbackAfterMs"), ended.error_types)
    ref, attempt, add = made.ref, made.attempt, new[HistoryEvent]  # as `line` does
    history = [line(number, ended, ended.status, ended.output, cause)]
    if around is not None:
        number += 1
        history.append(around[1])
    history.append(add(n=number + 1, at=now, kind=_TASK, status=_SCHEDULED, ref=ref, attempt=attempt, payload=made.input))
    outgoing = _NOTHING
    if isinstance(taking, Event):
        now, replies[taking.event_id] = taking.due_at, _DONE
        timers = take_row(plan, written, made, taking, now)
        number += 1
        begun_by = polled_by(made.worker_id)
        history.append(add(n=number + 1, at=now, kind=_TASK, status=_IN_PROGRESS, ref=ref, attempt=attempt, cause=begun_by))
    else:
        outgoing = new[Outgoing](put=(taking,))
        if made.poll_timeout_at is not None:
            default = plan.nodes[made.base_ref].policy.defaults.get("poll_timeout_ms", 0)
            timer = (made.ref, made.attempt, made.generation, _POLL_TIMEOUT, made.poll_timeout_at, default, after.sequence, now)
            timers = (timer_event(row, f"POLL_TIMEOUT:{made.ref}", timer),)
    written.history_seq, written.updated_at, written.broken_turns, written.parked = number + 1, now, 0, None
    made.__class__, written.__class__ = Task, Workflow
    fresh = [timer.event_id for timer in timers]
    return new[Decision](
        workflow=after,
        inserted=(made,),
        updated=(ended,) if around is None else (ended, around[0]),
        history=tuple(history),
        cancelled=() if cancelled == fresh else tuple([one for one in cancelled if one not in fresh]),
        timers=timers,
        released_at=now,
        outgoing=outgoing,
        replies=replies,
    )
