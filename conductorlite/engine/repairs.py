"""Repairs of a stored execution without guessing: everything that follows from its rows.

The rows of tasks and the journal are the truth; nothing here changes a status, an output or a line of the journal. Counters,
timers, messages and slots follow from rows, and are made to. What is left after that, `Engine.admin.check` still reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from conductorlite.engine.invariants import ExecutionAudit, Finding, could_go, recounted, slots_taken, timers_amiss
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import DEADLINES, FIELDS, TIMERS, Decision, Event, EventKind, Message, Outgoing, queue_name
from conductorlite.model.executions import Task
from conductorlite.model.limits import Limit, LimitChange, Member, MemberState
from conductorlite.model.statuses import TaskStatus

__all__ = ["Mended", "limit_repaired", "repaired"]


@attrs.frozen(kw_only=True, slots=True)
class Mended:
    """The changes to commit, under the fences that were read, and what they repair, in words."""

    decision: Decision
    done: tuple[Finding, ...]


class _Mending:
    """Collects what is to be changed of one execution."""

    def __init__(self, audit: ExecutionAudit, now: int) -> None:
        self.audit = audit
        self.now = now
        self.rows = {(task.ref, task.attempt): task for task in audit.attempts}
        self.workflow = audit.workflow
        self.timers: list[Event] = []
        self.cancelled: list[str] = []
        self.put: list[Message] = []
        self.removed: list[tuple[str, str]] = []
        self.done: list[Finding] = []
        self._changed: dict[tuple[str, int], Task] = {}

    def note(self, law: str, text: str) -> None:
        self.done.append(Finding(law=law, workflow_id=self.workflow.workflow_id, text=text))

    def last(self) -> dict[str, Task]:
        """The last attempts, as they will be."""
        return {task.ref: task for task in sorted(self.rows.values(), key=lambda task: task.attempt)}

    def put_off(self, task: Task) -> bool:
        """Return True if it is the retry of an operator, which is offered to no worker."""
        node = self.audit.placed(task) if task.status is TaskStatus.SCHEDULED else None
        return node is not None and node.operator

    def change(self, task: Task, **fields: Any) -> None:
        row = attrs.evolve(self.rows[(task.ref, task.attempt)], **fields)
        self.rows[(task.ref, task.attempt)] = self._changed[(task.ref, task.attempt)] = row

    def post(self, event_id: str, kind: EventKind, at: int, **fields: Any) -> None:
        """Put an event into the own inbox; that of a parked execution is held like all others."""
        number = self.workflow.sequence + 1
        self.workflow = attrs.evolve(self.workflow, sequence=number)
        held = self.workflow.parked is not None
        workflow_id = self.workflow.workflow_id
        self.timers.append(
            Event(
                workflow_id=workflow_id,
                event_id=event_id,
                kind=kind,
                due_at=at,
                posted_at=self.now,
                sender=workflow_id,
                sender_seq=number,
                held=held,
                **fields,
            )
        )

    def outcome(self) -> Mended | None:
        if not self.done:
            return None
        decision = Decision(
            workflow=self.workflow,
            updated=tuple(self._changed.values()),
            timers=tuple(event for event in self.timers if event.event_id not in self.cancelled),
            cancelled=tuple(self.cancelled),
            outgoing=Outgoing(removed=tuple(self.removed), put=tuple(self.put)),
        )
        return Mended(decision=decision, done=tuple(self.done))


def repaired(audit: ExecutionAudit, now: int) -> Mended | None:
    """Everything of one execution that can be set right at the instant `now`; None when there is nothing."""
    repair = _Mending(audit, now)
    _ended(repair)
    _owners(repair)
    _counters(repair)
    _timers(repair)
    if not audit.undelivered:
        _messages(repair)
    return repair.outcome()


def _ended(repair: _Mending) -> None:
    """Take back the lease and the deadlines of attempts that have ended."""
    for task in repair.audit.attempts:
        held = {name: None for name in DEADLINES if getattr(task, name) is not None}
        if task.status.terminal and (held or task.lease or task.holder):
            repair.change(task, lease=0, holder=None, **held)
            repair.note("nothing_of_the_ended", f"{task.ref} attempt {task.attempt}: the lease and {[*held]} are taken back")


def _owners(repair: _Mending) -> None:
    """Events are stored where the execution's owner finds them."""
    for event in repair.audit.inbox:
        if event.owner != repair.workflow.owner:
            repair.timers.append(attrs.evolve(event, owner=repair.workflow.owner))
            repair.note("events_are_the_owners", f"{event.event_id} is for {repair.workflow.owner or 'everybody'} now")


def _counters(repair: _Mending) -> None:
    """`open` and `waiting` are what counting the rows gives; a JOIN that waits for nothing looks again."""
    for task, field, count in recounted(repair.audit, repair.last()):
        if task is None:
            repair.note("counters_equal_counts", f"the workflow counts {count} live tasks, it had {repair.workflow.open}")
            repair.workflow = attrs.evolve(repair.workflow, open=count)
            continue
        counts = (
            f"counts {count} live tasks, it had {task.open}" if field == "open" else f"waits for {count}, it had {task.waiting}"
        )
        repair.note("counters_equal_counts", f"{task.ref}: {counts}")
        repair.change(task, **{field: count})
        if field == "waiting" and count == 0:
            work = Payload.of({"queue": [["look_again", task.ref]]})
            generation = repair.workflow.generation
            event_id = f"{EventKind.CONTINUE}#{repair.workflow.sequence + 1}"
            repair.post(event_id, EventKind.CONTINUE, repair.now, generation=generation, data=work)


def _timers(repair: _Mending) -> None:
    """Every deadline has its timer, and every timer its deadline."""
    audit, last = repair.audit, repair.last()
    ended = audit.workflow.status.terminal
    inbox = {event.event_id: event for event in audit.inbox}
    kinds = frozenset(TIMERS.values())
    for event in audit.inbox:
        task = last.get(event.ref or "")
        over = ended or task is None or task.status.terminal
        if event.kind in kinds and (over or getattr(task, FIELDS[event.kind]) is None):
            repair.cancelled.append(event.event_id)
            repair.note("nothing_of_the_ended", f"{event.event_id}: a timer without a deadline is taken back")
        elif event.kind is EventKind.WORKFLOW_TIMEOUT and ended:
            repair.cancelled.append(event.event_id)
            repair.note("nothing_of_the_ended", f"{event.event_id}: the timer of an ended workflow is taken back")
    if ended:
        return
    for task in last.values():
        for name, kind, at, _ in () if task.status.terminal else timers_amiss(task, inbox):
            if at is not None:
                repair.post(f"{kind}:{task.ref}", kind, at, ref=task.ref, attempt=task.attempt, generation=task.generation)
                repair.note("open_tasks_are_reachable", f"{task.ref}: {name} at {at} has its timer again")
        if repair.put_off(task) and f"{EventKind.ADMISSION}:{task.ref}" not in inbox:
            about = {"ref": task.ref, "attempt": task.attempt, "generation": task.generation}
            repair.post(f"{EventKind.ADMISSION}:{task.ref}", EventKind.ADMISSION, task.due_at, **about)
            repair.note("open_tasks_are_reachable", f"{task.ref}: its retry begins at {task.due_at} again")
    for member in audit.members:
        row, name = last.get(member.ref or ""), f"{EventKind.OFFER_ENDS}:{member.ref}"
        offered = row is not None and (row.task_id, row.status) == (member.holder, TaskStatus.SCHEDULED)
        if row is not None and offered and member.state is MemberState.RESERVED and name not in inbox:
            repair.post(name, EventKind.OFFER_ENDS, repair.now, ref=row.ref, attempt=row.attempt, generation=row.generation)
            repair.note("slots_are_those_of_the_rows", f"{row.ref}: goes back into the line when nobody takes it")
    timeout = audit.workflow.timeout_at
    if timeout is not None and EventKind.WORKFLOW_TIMEOUT not in inbox and audit.workflow.compensating is None:
        repair.post(EventKind.WORKFLOW_TIMEOUT, EventKind.WORKFLOW_TIMEOUT, timeout)
        repair.note("open_tasks_are_reachable", f"the workflow's timeout at {timeout} has its timer again")


def _messages(repair: _Mending) -> None:
    """Every SCHEDULED task is offered as it is, and nothing else is."""
    audit = repair.audit
    workflow = audit.workflow
    wanted = {
        task.ref: message_of(task, workflow.priority, workflow.owner)
        for task in repair.last().values()
        if task.status is TaskStatus.SCHEDULED and not workflow.status.terminal and not repair.put_off(task)
    }
    offered = {message.ref: message for message in audit.messages}
    for ref, message in wanted.items():
        if offered.get(ref) != message:
            repair.put.append(message)
            repair.note("open_tasks_are_reachable", f"{ref} is offered in queue {message.queue!r} again")
    for ref, message in offered.items():
        if ref not in wanted:
            repair.removed.append(message.key)
            repair.note("nothing_of_the_ended", f"{ref} is taken out of queue {message.queue!r}")


def message_of(task: Task, priority: int, owner: str) -> Message:
    """The message under which a SCHEDULED task is offered."""
    return Message(
        queue=queue_name(task.task_type, task.domain, owner),
        workflow_id=task.workflow_id,
        ref=task.ref,
        attempt=task.attempt,
        generation=task.generation,
        task_id=task.task_id,
        due_at=task.due_at,
        priority=priority,
    )


def limit_repaired(
    limit: Limit, members: Sequence[Member], stale_holders: frozenset[str], now: int
) -> tuple[LimitChange, tuple[Event, ...], tuple[Finding, ...]] | None:
    """A limit whose counts are those of its members, without the stale holders; None when it is so already.

    The head of its line gets an event to look again: a slot may be free.
    """
    stale = (member.holder for member in members if member.holder in stale_holders)
    problems = [f"{holder} has no part in it any more, and gives its place back" for holder in stale]
    stay = [member for member in members if member.holder not in stale_holders]
    in_use, reserved = slots_taken(stay)
    if (limit.in_use, limit.reserved) != (in_use, reserved):
        problems.append(f"counts {in_use} in use and {reserved} reserved, it had {limit.in_use} and {limit.reserved}")
    new = attrs.evolve(limit, in_use=in_use, reserved=reserved)
    events: tuple[Event, ...] = ()
    head = could_go(new, stay)
    if head is not None:
        problems.append(f"{head.holder} is to look again: its slot is free")
        new = attrs.evolve(new, alarm=head.holder, alarm_at=now)
        events = (
            Event(
                workflow_id=head.workflow_id,
                event_id=f"{EventKind.WINDOW_MOVES}:{limit.key}",
                kind=EventKind.WINDOW_MOVES,
                due_at=now,
                posted_at=now,
                sender=limit.key,
                sender_seq=limit.number,
                data=Payload.of({"key": limit.key}),
            ),
        )
    change = LimitChange(limit=new, gone=tuple(sorted(stale_holders)))
    if not problems and change.unused and not stay:
        problems.append("it is forgotten: nobody holds a slot of it or waits")
    if not problems:
        return None
    return change, events, tuple(Finding(law="slots_are_counted_and_used", workflow_id=limit.key, text=text) for text in problems)
