"""The retry: a plain task has failed, and its next attempt is offered, mostly later, and handed over where time passes by itself.

In tests on a virtual clock most turns are this one, so it is written out as a whole, as a step is: the Decision is made of the rows
themselves. What is decided is what the general way would decide, field by field and in its order; whatever is not as it mostly is,
is left to that way, with nothing changed. tests/oracle/test_plain.py compares.

Which turns are written out so: the poll, the step, the retry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from conductorlite.decide.changeset.mailboxes import REPLIES, timer_event
from conductorlite.decide.changeset.reader import Reader
from conductorlite.decide.changeset.rows import attempt_id
from conductorlite.decide.changeset.view import Bounds
from conductorlite.decide.plain import delay_after, polled_by, reported_with
from conductorlite.decide.poll import poll, taken_row
from conductorlite.decide.prefetch import prefetch
from conductorlite.decide.step import Handing, Rows, Seen, Unusual, ended_row, ends, line, stands, step, usual
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, EventKind, Message, Outcome, Outgoing, queue_name
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node, Plan

__all__ = ["again", "written_out"]

#: What is asked for in each retry: Python finds a global faster than a member of an enumeration.
_SCHEDULED, _IN_PROGRESS, _FAILED = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, TaskStatus.FAILED
_POLL, _REPORT = EventKind.POLL, EventKind.REPORT
_POLL_TIMEOUT, _DONE, _NOTHING = EventKind.POLL_TIMEOUT, REPLIES[Outcome.DONE], Outgoing()


class _Retried:
    """What is known of a retry when its definition is."""

    __slots__ = ("blank", "node", "poll_timer", "reads", "timers")

    def __init__(self, node: Node, plan: Plan) -> None:
        self.node = node
        #: The timers of an attempt that is carried out, and that of one that is offered.
        self.timers = (f"TOTAL_TIMEOUT:{node.ref}", f"TASK_TIMEOUT:{node.ref}", f"RESPONSE_TIMEOUT:{node.ref}")
        self.poll_timer = f"POLL_TIMEOUT:{node.ref}"
        #: The next row, as far as it is the same in each execution.
        self.blank = Task(
            workflow_id="",
            ref=node.ref,
            base_ref=node.ref,
            task_id="",
            task_type=node.task_type,
            name=node.task.name,
            status=_SCHEDULED,
        )
        members = node.template.reads.members
        #: What its input reads, if that is more than one row.
        self.reads = [root for root, _ in members if root != node.ref and root in plan.nodes] if len(members) > 1 else []


def written_out(
    plan: Plan,
    reader: Reader,
    event: Event,
    now: int,
    environment: Mapping[str, str],
    bounds: Bounds,
    hand_out: Handing | None,
) -> Decision | None:
    """The decision of a turn over one event that is written out as a whole; None for any other."""
    if event.kind is _POLL:
        return poll(plan, reader, event, now) if hand_out is None else None
    if event.kind is not _REPORT or event.stored:
        return None
    if not reader.at_hand:
        prefetch(plan, reader, (event,))
    way = again if event.data.value["status"] == "FAILED" else step
    return way(plan, reader, event, now, environment, bounds, hand_out)


def again(
    plan: Plan,
    reader: Rows,
    event: Event,
    now: int,
    environment: Mapping[str, str],
    bounds: Bounds,
    hand_out: Handing | None,
) -> Decision | None:
    """The decision of such a turn, over a report; None for any other."""
    row, ref, said = reader.workflow, event.ref or "", event.data.value
    if said["status"] != "FAILED" or ref not in plan.nodes:
        return None
    name = f"again:{ref}"
    known = plan.steps[name] if name in plan.steps else _known(plan, name, plan.nodes[ref])
    if not isinstance(known, _Retried) or not usual(row, event, now, bounds):
        return None
    task, output = reader.task(ref), Payload.of(said.get("output") or {})
    if (
        task is None
        or task.input.text is None
        or task.attempt - task.first_attempt >= known.node.policy.retry_count
        or not ends(said, event, task, row)
        or not stands(bounds, "task_output", output)
    ):
        return None
    failed = ended_row(task, said, output, now, _FAILED)
    attempt = task.attempt + 1
    task_id = attempt_id(row, ref, attempt, row.generation)
    if known.reads:
        reader.prefetch(refs=known.reads)
    try:
        values = known.node.template.render(Seen(plan, reader, environment, failed, task_id))
        given = Payload.of(values if task.input.text == "{}" else {**task.input.value, **values})
    except (Unusual, InvalidInput):
        return None
    if not stands(bounds, "task_input", given):
        return None
    made = _made(row, known, task, task_id, given, now)
    message = _message(row, made)
    cancelled = _cancelled(known, task)

    def is_done_until(at: int, due: Iterable[str]) -> bool:
        if made.poll_timeout_at is not None and made.poll_timeout_at <= at:
            return False
        return all(one in cancelled or (one == known.poll_timer and made.poll_timeout_at is not None) for one in due)

    polls = () if hand_out is None else hand_out((message,), is_done_until)
    if polls and (len(polls) > 1 or not _takes(polls[0], message, row)):
        return None
    return _decided(row, plan, known, failed, made, event, polls[0] if polls else message, cancelled)


def _known(plan: Plan, name: str, node: Node) -> _Retried | None:
    found = plan.steps[name] = None if not node.plain or node.scopes or plan.limited else _Retried(node, plan)
    return found


def _made(row: Workflow, known: _Retried, task: Task, task_id: str, given: Payload, now: int) -> Task:
    """The row of the attempt after one that has failed: offered after its delay."""
    made = copied[Task](known.blank)
    new_row: Any = made
    delay, wait = delay_after(row, known.node, task), known.node.policy.poll_timeout_ms
    new_row.workflow_id, new_row.task_id, new_row.generation = row.workflow_id, task_id, row.generation
    new_row.attempt, new_row.first_attempt, new_row.retried_task_id = task.attempt + 1, task.first_attempt, task.task_id
    new_row.domain, new_row.seq, new_row.input = task.domain, row.task_seq + 1, given
    new_row.succeeded_before = task.executed or task.succeeded_before
    new_row.scheduled_at = new_row.updated_at = now
    new_row.first_scheduled_at = task.first_scheduled_at
    new_row.due_at, new_row.start_delay_ms = now + delay, delay
    if wait > 0:
        new_row.poll_timeout_at = now + delay + wait
    new_row.__class__ = Task
    return made


def _message(row: Workflow, task: Task) -> Message:
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


def _cancelled(known: _Retried, task: Task) -> list[str]:
    """The timers of the attempt that has failed."""
    total, whole, response = known.timers
    found = [] if task.total_timeout_at is None else [total]
    if task.timeout_at is not None:
        found.append(whole)
    if task.response_timeout_at is not None:
        found.append(response)
    return found


def _takes(poll: Event, message: Message, row: Workflow) -> bool:
    """Whether a poll takes what the turn offers, at an instant at which it is offered."""
    return (
        poll.ref == message.ref
        and poll.attempt == message.attempt
        and poll.generation == message.generation
        and poll.owner == row.owner
        and poll.due_at == poll.posted_at >= message.due_at
        and poll.data.text is not None
    )


def _decided(
    row: Workflow,
    plan: Plan,
    known: _Retried,
    failed: Task,
    made: Task,
    event: Event,
    taking: Event | Message,
    cancelled: list[str],
) -> Decision:
    now, said, replies = failed.updated_at, event.data.value, {event.event_id: _DONE}
    number, after = row.history_seq + 1, copied[Workflow](row)
    written: Any = after
    written.task_seq, written.last_ref = made.seq, made.ref
    timers: tuple[Event, ...] = ()
    if made.poll_timeout_at is not None:
        written.sequence += 1  # of its timer, whether or not it is polled in this turn
    cause = reported_with(said.get("workerId"), said.get("callbackAfterMs"), failed.error_types)
    history = [line(number, failed, _FAILED, failed.output, cause), line(number + 1, made, _SCHEDULED, made.input, None)]
    outgoing = _NOTHING
    if isinstance(taking, Event):
        now, replies[taking.event_id] = taking.due_at, _DONE
        made, timers = taken_row(plan, written, made, taking, now)
        made.__class__ = Task
        number += 1
        history.append(line(number + 1, made, _IN_PROGRESS, None, polled_by(made.worker_id)))
    else:
        outgoing = new[Outgoing](put=(taking,))
        if made.poll_timeout_at is not None:
            default = known.node.policy.defaults.get("poll_timeout_ms", 0)
            timer = (made.ref, made.attempt, made.generation, _POLL_TIMEOUT, made.poll_timeout_at, default, after.sequence, now)
            timers = (timer_event(row, known.poll_timer, timer),)
    written.history_seq, written.updated_at, written.broken_turns, written.parked = number + 1, now, 0, None
    written.__class__ = Workflow
    fresh = [timer.event_id for timer in timers]
    return new[Decision](
        workflow=after,
        inserted=(made,),
        updated=(failed,),
        history=tuple(history),
        cancelled=tuple([one for one in cancelled if one not in fresh]),
        timers=timers,
        released_at=now,
        outgoing=outgoing,
        replies=replies,
    )
