"""The first turn: an execution begins, its first task is offered, and handed to the worker that is free for it.

Every execution has one, so it is written out as a whole, as a step is: the Decision is made of the rows themselves. What is decided
is what the general way would decide, field by field and in its order; whatever is not as it mostly is, is left to that way.
tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.decide.changeset.mailboxes import REPLIES
from conductorlite.decide.changeset.rows import attempt_id
from conductorlite.decide.changeset.view import Bounds
from conductorlite.decide.plain import polled_by
from conductorlite.decide.step import (
    Following,
    Handing,
    Rows,
    Seen,
    Unusual,
    line,
    made_row,
    message_at,
    never,
    stands,
    takes_at_once,
    timers_for,
    usual,
)
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload, encoded
from conductorlite.model.decisions import Decision, Event, EventKind, Message, Outcome, Outgoing
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Plan

__all__ = ["first"]

#: What is asked for in each of them: Python finds a global faster than a member of an enumeration.
_RUNNING, _WORKFLOW, _WORKFLOW_TIMEOUT = WorkflowStatus.RUNNING, HistoryKind.WORKFLOW, EventKind.WORKFLOW_TIMEOUT
_SCHEDULED, _IN_PROGRESS, _DONE = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, REPLIES[Outcome.DONE]
_START, _NOTHING = str(EventKind.START), Outgoing()

#: Where a plan keeps what is known of it: no task has a name that is empty.
_NAME = "first:"


def first(
    plan: Plan,
    reader: Rows,
    event: Event,
    now: int,
    environment: Mapping[str, str],
    bounds: Bounds,
    hand_out: Handing | None,
) -> Decision | None:
    """The decision of such a turn, over a start; None for any other."""
    row = reader.workflow
    known = plan.steps[_NAME] if _NAME in plan.steps else _known(plan)
    if (
        not isinstance(known, Following)
        or row.history_seq
        or row.started_at
        or event.data.text != "{}"
        or not usual(row, event, now, bounds)
        or row.input.large
        or row.variables.large
    ):
        return None
    task_id = attempt_id(row, known.node.ref, 0, row.generation)
    try:
        given = Payload.of(known.node.template.render(Seen(plan, reader, environment, None, task_id)))
    except (Unusual, InvalidInput):
        return None
    if not stands(bounds, "task_input", given):
        return None
    message = message_at(row, known, task_id, now)
    polls = () if hand_out is None else hand_out((message,), never)
    if polls and (len(polls) > 1 or not takes_at_once(polls[0], message, row, now)):
        return None
    return _decided(row, plan, known, message, given, event, polls[0] if polls else None)


def _known(plan: Plan) -> Following | None:
    """The first task of an execution that nothing keeps from beginning, if it reads no other one."""
    node = plan.nodes[plan.first]
    held = plan.limited or plan.foreign or plan.rate_limit_key or plan.input_check
    alone = node.plain and not (node.scopes or any(root in plan.nodes for root, _ in node.template.reads.members))
    found = plan.steps[_NAME] = Following("", node, plan) if alone and not held else None
    return found


def _decided(
    row: Workflow, plan: Plan, known: Following, message: Message, given: Payload, event: Event, poll: Event | None
) -> Decision:
    now, sequence, after, span = message.due_at, row.sequence, copied[Workflow](row), plan.definition.timeout_ms
    written: Any = after
    timers: list[Event] = []
    if span > 0:
        sequence += 1
        written.timeout_at = now + span
        timers.append(
            new[Event](
                workflow_id=row.workflow_id,
                event_id=_WORKFLOW_TIMEOUT,
                kind=_WORKFLOW_TIMEOUT,
                due_at=now + span,
                posted_at=now,
                sender=row.workflow_id,
                sender_seq=sequence,
                stored=True,
            )
        )
    if known.node.policy.poll_timeout_ms > 0:
        sequence += 1  # of its timer, whether or not it is polled at once
    made = made_row(row, known, message, given, sequence, poll)
    own = timers_for(row, known, made, sequence)
    cause = {"kind": _START, "definition": row.definition_hash}
    if row.correlation_id is not None:
        cause["correlationId"] = row.correlation_id
    history: tuple[HistoryEvent, ...] = (
        new[HistoryEvent](n=1, at=now, kind=_WORKFLOW, status=_RUNNING, payload=row.input, cause=encoded(cause)),
        line(2, made, _SCHEDULED, given, None),
    )
    replies = {event.event_id: _DONE}
    if poll is not None:
        replies[poll.event_id] = _DONE
        history = (*history, line(3, made, _IN_PROGRESS, None, polled_by(made.worker_id)))
        sequence = made.lease + len(own)
    written.task_seq, written.last_ref, written.sequence, written.open = made.seq, made.ref, sequence, row.open + 1
    written.history_seq, written.started_at = len(history), now
    written.updated_at, written.broken_turns, written.parked = now, 0, None
    written.__class__ = Workflow
    return new[Decision](
        workflow=after,
        created=True,
        inserted=(made,),
        history=history,
        timers=(*timers, *own),
        released_at=now,
        outgoing=_NOTHING if poll is not None else new[Outgoing](put=(message,)),
        replies=replies,
    )
