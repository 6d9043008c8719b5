"""The first turn: an execution begins, its first task is offered, and handed to the worker that is free for it; or it waits.

Every execution has one, so it is written out as a whole, as a step is: the Decision is made of the rows themselves. What is decided
is what the general way would decide, field by field and in its order; whatever is not as it mostly is, is left to that way.
tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from conductorlite.decide.changeset.mailboxes import REPLIES, timer_event
from conductorlite.decide.changeset.rows import attempt_id
from conductorlite.decide.changeset.view import Bounds
from conductorlite.decide.operators import wait_until
from conductorlite.decide.plain import polled_by
from conductorlite.decide.step import (
    Following,
    Handing,
    Rows,
    Seen,
    Unusual,
    line,
    made_row,
    never,
    offered_at_once,
    stands,
    timers_for,
    usual,
)
from conductorlite.language.values import Source
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload, encoded
from conductorlite.model.decisions import Decision, Event, EventKind, Message, Outcome, Outgoing
from conductorlite.model.errors import InvalidExpression, InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node, Plan

__all__ = ["first"]

#: What is asked for in each of them: Python finds a global faster than a member of an enumeration.
_RUNNING, _WORKFLOW, _WORKFLOW_TIMEOUT = WorkflowStatus.RUNNING, HistoryKind.WORKFLOW, EventKind.WORKFLOW_TIMEOUT
_SCHEDULED, _IN_PROGRESS, _DONE = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, REPLIES[Outcome.DONE]
_START, _WAIT_ENDS, _NOTHING = str(EventKind.START), EventKind.WAIT_ENDS, Outgoing()

#: Where a plan keeps what is known of it: no task has a name that is empty.
_NAME = "first:"


class _Blind:
    """What is a constant asks nothing of this `Source`."""

    def __getattr__(self, name: str) -> Any:
        raise Unusual


class _Waiting:
    """What is known of a WAIT that an execution begins with when its definition is."""

    __slots__ = ("blank", "node", "same", "timer")

    def __init__(self, node: Node) -> None:
        self.node, self.timer = node, f"{_WAIT_ENDS!s}:{node.ref}"
        #: Its input, where no expression makes another one of it each time.
        self.same: Payload | None = None
        blind: Any = _Blind()
        with suppress(Unusual, InvalidInput):
            self.same = Payload.of(node.template.render(blind))
        #: Its row, as far as it is the same in each execution.
        self.blank = new[Task](
            workflow_id="",
            ref=node.ref,
            base_ref=node.ref,
            task_id="",
            task_type=node.task_type,
            name=node.task.name,
            status=_IN_PROGRESS,
        )


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
        not isinstance(known, Following | _Waiting)
        or row.history_seq
        or row.started_at
        or event.data.text != "{}"
        or not usual(row, event, now, bounds)
        or row.input.large
        or row.variables.large
    ):
        return None
    task_id = attempt_id(row, known.node.ref, 0, row.generation)
    source = Seen(plan, reader, environment, None, task_id)
    if isinstance(known, _Waiting):
        nothing_taken = hand_out is None or not hand_out((), never)
        return _waiting(row, plan, known, task_id, source, event, now, bounds) if nothing_taken else None
    try:
        given = Payload.of(known.node.template.render(source))
    except (Unusual, InvalidInput):
        return None
    if not stands(bounds, "task_input", given) or (offer := offered_at_once(row, known, task_id, now, hand_out)) is None:
        return None
    message, poll = offer
    return _offered(row, plan, known, message, given, event, poll)


def _known(plan: Plan) -> Following | _Waiting | None:
    """The first task of an execution that nothing keeps from beginning, if it reads no other one."""
    node = plan.nodes[plan.first]
    held = plan.limited or plan.foreign or plan.rate_limit_key or plan.input_check
    alone = not (held or node.scopes or any(root in plan.nodes for root, _ in node.template.reads.members))
    found: Following | _Waiting | None = None
    if alone and node.plain:
        found = Following("", node, plan)
    elif alone and node.task.type == "WAIT" and not (node.policy.timeout_ms or node.policy.total_timeout_ms > 0):
        found = _Waiting(node)
    plan.steps[_NAME] = found
    return found


def _offered(
    row: Workflow, plan: Plan, known: Following, message: Message, given: Payload, event: Event, poll: Event | None
) -> Decision:
    now = message.due_at
    after, begun, timers = _begun(row, plan, now)
    sequence = after.sequence
    if known.node.policy.poll_timeout_ms > 0:
        sequence += 1  # of its timer, whether or not it is polled at once
    made = made_row(row, known, message, given, sequence, poll)
    own = timers_for(row, known, made, sequence)
    history: tuple[HistoryEvent, ...] = (begun, line(2, made, _SCHEDULED, given, None))
    replies = {event.event_id: _DONE}
    if poll is not None:
        replies[poll.event_id] = _DONE
        history = (*history, line(3, made, _IN_PROGRESS, None, polled_by(made.worker_id)))
        sequence = made.lease + len(own)
    after.task_seq, after.last_ref, after.sequence, after.history_seq = made.seq, made.ref, sequence, len(history)
    after.__class__ = Workflow
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


def _waiting(
    row: Workflow, plan: Plan, known: _Waiting, task_id: str, source: Source, event: Event, now: int, bounds: Bounds
) -> Decision | None:
    try:
        if known.same is None:
            values = known.node.template.render(source)
            given = Payload.of(values)
        else:
            given, values = known.same, known.same.value
        until = wait_until(values, now)
    except (Unusual, InvalidInput, InvalidExpression):
        return None
    if not stands(bounds, "task_input", given):
        return None
    after, begun, timers = _begun(row, plan, now)
    task: Any = copied[Task](known.blank)
    task.workflow_id, task.task_id, task.generation, task.seq = row.workflow_id, task_id, row.generation, row.task_seq + 1
    task.input, task.wait_until = given, until
    task.scheduled_at = task.first_scheduled_at = task.started_at = task.updated_at = now
    task.__class__ = Task
    if until is not None:
        after.sequence += 1
        timer = (task.ref, 0, row.generation, _WAIT_ENDS, until, 0, after.sequence, now)
        timers = (*timers, timer_event(row, known.timer, timer))
    after.task_seq, after.last_ref, after.history_seq = task.seq, task.ref, 2
    after.__class__ = Workflow
    return new[Decision](
        workflow=after,
        created=True,
        inserted=(task,),
        history=(begun, line(2, task, _IN_PROGRESS, given, None)),
        timers=timers,
        released_at=now,
        outgoing=_NOTHING,
        replies={event.event_id: _DONE},
    )


def _begun(row: Workflow, plan: Plan, now: int) -> tuple[Any, HistoryEvent, tuple[Event, ...]]:
    """The row of an execution that begins with an attempt, to be written on; the first line of its journal; its own timer."""
    span, after = plan.definition.timeout_ms, copied[Workflow](row)
    written: Any = after
    written.open, written.started_at = row.open + 1, now
    written.updated_at, written.broken_turns, written.parked = now, 0, None
    timers: tuple[Event, ...] = ()
    if span > 0:
        written.timeout_at, written.sequence = now + span, row.sequence + 1
        timer = new[Event](
            workflow_id=row.workflow_id,
            event_id=_WORKFLOW_TIMEOUT,
            kind=_WORKFLOW_TIMEOUT,
            due_at=now + span,
            posted_at=now,
            sender=row.workflow_id,
            sender_seq=written.sequence,
            stored=True,
        )
        timers = (timer,)
    cause = _started_by(row.definition_hash, row.correlation_id)
    return after, new[HistoryEvent](n=1, at=now, kind=_WORKFLOW, status=_RUNNING, payload=row.input, cause=cause), timers


@lru_cache(maxsize=256)
def _started_by(definition: str, correlation: str | None) -> str:
    """What a line of the journal says of a start."""
    cause = {"kind": _START, "definition": definition}
    return encoded(cause if correlation is None else {**cause, "correlationId": correlation})
