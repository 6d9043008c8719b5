"""The step: a plain task is completed, the plain one that follows is offered, and handed to the worker that is free because of it.

Or none follows, and the execution is completed. Most turns are this one, so it is written out as a whole: each row is read once and
written once, and the Decision is made of the rows themselves, without a changeset and its work list. What is decided is what the
general way would decide, field by field and in its order. Whatever is not as it mostly is, is left to that way, with nothing
changed. tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from conductorlite.decide.changeset.mailboxes import REPLIES, timer_event
from conductorlite.decide.changeset.rows import attempt_id
from conductorlite.decide.changeset.view import SMALL, Bounds
from conductorlite.decide.plain import polled_by, reported_with
from conductorlite.language.values import MISSING, Json, Missing
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, EventKind, Message, Outcome, Outgoing, queue_name
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node, Plan

__all__ = [
    "STEPS",
    "Following",
    "Handing",
    "Rows",
    "Seen",
    "Unusual",
    "ended_row",
    "ends",
    "line",
    "made_row",
    "never",
    "offered_at_once",
    "stands",
    "step",
    "timers_for",
    "timers_of",
    "usual",
]

#: What gives what a turn offers to workers that are free: see `decide`.
Handing = Callable[[Sequence[Message], Callable[[int, Iterable[str]], bool]], Sequence[Event]]

#: Of the work list, in the general way: advance, schedule, executed.
STEPS: Final = 3

#: What is asked for in each step: Python finds a global faster than a member of an enumeration.
_SCHEDULED, _IN_PROGRESS, _COMPLETED = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED
_POLL_TIMEOUT, _TASK_TIMEOUT, _RESPONSE_TIMEOUT = EventKind.POLL_TIMEOUT, EventKind.TASK_TIMEOUT, EventKind.RESPONSE_TIMEOUT
_RUNNING, _TASK, _DONE = WorkflowStatus.RUNNING, HistoryKind.TASK, REPLIES[Outcome.DONE]
_ENDED, _WORKFLOW, _WORKFLOW_TIMEOUT = WorkflowStatus.COMPLETED, HistoryKind.WORKFLOW, EventKind.WORKFLOW_TIMEOUT
_NOTHING: Final = Outgoing()


class Rows(Protocol):
    """What a step asks of an execution: a part of `Reader`."""

    @property
    def workflow(self) -> Workflow:
        """See `Reader.workflow`."""

    def task(self, ref: str) -> Task | None:
        """See `Reader.task`."""

    def prefetch(self, *, refs: Iterable[str]) -> None:
        """See `Reader.prefetch`."""


class Following:
    """What is known of a step when its definition is: what ends, and what follows it."""

    __slots__ = ("blank", "defaults", "ended", "node", "reads", "timers")

    def __init__(self, ref: str, node: Node, plan: Plan) -> None:
        self.node = node
        #: The timers that the attempt which ends may have, and those that the next one may.
        self.ended = (f"TOTAL_TIMEOUT:{ref}", f"TASK_TIMEOUT:{ref}", f"RESPONSE_TIMEOUT:{ref}")
        self.timers = (f"POLL_TIMEOUT:{node.ref}", f"TASK_TIMEOUT:{node.ref}", f"RESPONSE_TIMEOUT:{node.ref}")
        #: The lengths of those that no definition sets.
        lengths = node.policy.defaults
        self.defaults = tuple([lengths.get(name, 0) for name in ("poll_timeout_ms", "timeout_ms", "response_timeout_ms")])
        #: The next row, as far as it is the same in each execution: a copy is made faster than a row of that many fields.
        self.blank = new[Task](
            workflow_id="",
            ref=node.ref,
            base_ref=node.ref,
            task_id="",
            task_type=node.task_type,
            name=node.task.name,
            status=TaskStatus.SCHEDULED,
        )
        members = node.template.reads.members
        #: What its input reads, if that is more than one row.
        self.reads = tuple([root for root, _ in members if root != ref and root in plan.nodes]) if len(members) > 1 else ()


class _Last:
    """What is known of a step that nothing follows when its definition is."""

    __slots__ = ("output", "reads")

    def __init__(self, ref: str, plan: Plan) -> None:
        self.output = plan.output
        members = () if plan.output is None else plan.output.reads.members
        #: What outputParameters read, beside the task that ends.
        self.reads = [root for root, _ in members if root != ref and root in plan.nodes]


class Unusual(Exception):
    """Internal: an expression reads something that has to be looked for."""


class Seen:
    """What the input of the next task mostly reads: a `Source` over stored rows and the one that has ended, if one has."""

    __slots__ = ("_ended", "_environment", "_plan", "_reader", "_task_id")
    has_env = True

    def __init__(self, plan: Plan, reader: Rows, environment: Mapping[str, str], ended: Task | None, task_id: str | None) -> None:
        self._plan, self._reader, self._environment, self._ended, self._task_id = plan, reader, environment, ended, task_id

    def env(self, name: str) -> str | None:
        """See `ExpressionContext`, as for the others."""
        return self._environment.get(name)

    def variable(self, name: str) -> str | None:
        """See `Source.variable`."""
        return self._task_id if name == "CPEWF_TASK_ID" else self._environment.get(name)

    def member(self, root: str, member: str) -> Json | Missing:
        """See `Source.member`; raises Unusual for all but inputs of the execution and outputs of tasks that have their rows."""
        if root == "workflow":
            if member != "input":
                raise Unusual
            payload = self._reader.workflow.input
        else:
            task = self._ended
            if task is None or root != task.ref:
                node = self._plan.nodes.get(root)
                if node is None or node.loops:
                    raise Unusual
                task = self._reader.task(root)
            if task is None:
                return MISSING
            if member != "output" or task.round:
                raise Unusual
            payload = task.output
        if payload.text is None:
            raise Unusual
        value: Json = payload.value
        return value

    def root(self, root: str) -> Json | Missing:
        """Raises Unusual."""
        raise Unusual

    def document(self) -> Json:
        """Raises Unusual."""
        raise Unusual


def step(
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
    if said["status"] != "COMPLETED" or ref not in plan.nodes:
        return None
    known = plan.steps[ref] if ref in plan.steps else _following(plan, ref)
    if known is None or not usual(row, event, now, bounds):
        return None
    task, output = reader.task(ref), Payload.of(said.get("output") or {})
    if task is None or not ends(said, event, task, row) or not stands(bounds, "task_output", output):
        return None
    ended = ended_row(task, said, output, now, _COMPLETED)
    if not isinstance(known, Following):
        return _last(plan, reader, known, task, ended, event, environment, bounds) if isinstance(known, _Last) else None
    node = known.node
    task_id = attempt_id(row, node.ref, 0, row.generation)
    if known.reads:
        reader.prefetch(refs=known.reads)
    try:
        given = Payload.of(node.template.render(Seen(plan, reader, environment, ended, task_id)))
    except (Unusual, InvalidInput):
        return None
    if not stands(bounds, "task_input", given) or (offer := offered_at_once(row, known, task_id, now, hand_out)) is None:
        return None
    message, poll = offer
    return _decided(row, task, ended, known, message, given, event, poll)


def _following(plan: Plan, ref: str) -> Following | _Last | None:
    """What a plain node is followed by, if that is plain too, or nothing, and nothing else follows: no JOIN, loop, or branch."""
    node = plan.nodes[ref]
    known: Following | _Last | None = None
    if node.plain and not (node.joins or node.scopes or node.output_check or plan.limited):
        found = None if node.successor is None else plan.nodes[node.successor]
        if found is not None:
            known = Following(ref, found, plan) if found.plain and not found.scopes else None
        elif not (node.compensates or plan.output_check or plan.foreign):
            known = _Last(ref, plan)
    plan.steps[ref] = known
    return known


def _last(
    plan: Plan,
    reader: Rows,
    known: _Last,
    task: Task,
    ended: Task,
    event: Event,
    environment: Mapping[str, str],
    bounds: Bounds,
) -> Decision | None:
    """The decision by which the execution is completed, if the attempt is all that was live in it, and nobody waits for its end."""
    row, output = reader.workflow, ended.output
    if (
        row.open != 1
        or row.permitted_failures
        or row.compensating is not None
        or row.rate_limit_key is not None
        or row.parent_workflow_id is not None
        or row.event is not None
    ):
        return None
    if known.output is None:
        if row.last_ref != task.ref:
            return None
    else:
        reader.prefetch(refs=known.reads)
        try:
            output = Payload.of(known.output.render(Seen(plan, reader, environment, ended, None)))
        except (Unusual, InvalidInput):
            return None
    return _completed(row, task, ended, output, event) if stands(bounds, "workflow_output", output) else None


def _completed(row: Workflow, task: Task, ended: Task, output: Payload, event: Event) -> Decision:
    now, said, number, after, cancelled = (
        ended.updated_at,
        event.data.value,
        row.history_seq + 1,
        copied[Workflow](row),
        timers_of(task),
    )
    if row.timeout_at is not None:
        cancelled.append(_WORKFLOW_TIMEOUT)
    written: Any = after
    written.status, written.output, written.reason, written.open = _ENDED, output, None, 0
    written.ended_at, written.timeout_at, written.history_seq = now, None, number + 1
    written.updated_at, written.broken_turns, written.parked = now, 0, None
    written.__class__ = Workflow
    cause = reported_with(said.get("workerId"), said.get("callbackAfterMs"), ended.error_types)
    end = new[HistoryEvent](n=number + 1, at=now, kind=_WORKFLOW, status=_ENDED, payload=output)
    return new[Decision](
        workflow=after,
        updated=(ended,),
        history=(line(number, ended, _COMPLETED, ended.output, cause), end),
        cancelled=tuple(cancelled),
        released_at=now,
        outgoing=_NOTHING,
        replies={event.event_id: _DONE},
    )


def usual(row: Workflow, event: Event, now: int, bounds: Bounds) -> bool:
    """Whether neither the execution nor the turn is in an unusual state."""
    return not (
        event.sender
        or event.stored
        or event.posted_at > now
        or row.updated_at > now
        or row.status is not _RUNNING
        or row.rate_limited
        or row.skips
        or row.task_to_domain.text != "{}"
        or bounds.steps < STEPS
        or bounds.rows <= 1
    )


def ends(said: Mapping[str, Any], event: Event, task: Task, row: Workflow) -> bool:
    """Whether a report completes the attempt as it mostly does."""
    return (
        task.status is _IN_PROGRESS
        and event.attempt == task.attempt
        and event.generation == task.generation == row.generation
        and said.get("lease", task.lease) == task.lease
        and not said.get("merge")
        and not (task.grafts or task.succeeded_before)
        and task.limit_key is None
        and task.sub_workflow_id is None
        and task.poll_timeout_at is None
        and task.wait_until is None
    )


def stands(bounds: Bounds, place: str, payload: Payload) -> bool:
    """Whether a payload is kept in its row."""
    text = payload.text
    return text is not None and not payload.large and (len(text) <= SMALL or bounds.barriers.refusal(place, payload) is None)


def offered_at_once(
    row: Workflow, known: Following, task_id: str, now: int, hand_out: Handing | None
) -> tuple[Message, Event | None] | None:
    """What is put into the queue of the attempt that follows, and the poll that takes it; None for what is handed out otherwise."""
    node = known.node
    message = new[Message](
        queue=queue_name(node.task_type, None, row.owner) if row.owner else node.task_type,
        workflow_id=row.workflow_id,
        ref=node.ref,
        attempt=0,
        generation=row.generation,
        task_id=task_id,
        due_at=now,
        priority=row.priority,
    )
    polls = () if hand_out is None else hand_out((message,), never)
    if not polls:
        return message, None
    poll = polls[0]
    takes = (
        len(polls) == 1
        and poll.ref == message.ref
        and poll.attempt == 0
        and poll.generation == message.generation
        and poll.owner == row.owner
        and poll.due_at <= now
        and poll.posted_at <= now
        and poll.data.text is not None
    )
    return (message, poll) if takes else None


def never(at: int, due: Iterable[str]) -> bool:
    """What is offered at once is asked nothing of a later instant."""
    return False


def ended_row(task: Task, said: Mapping[str, Any], output: Payload, now: int, status: TaskStatus) -> Task:
    """The row of an attempt that is over, when what follows it has its row: its successor, or the next attempt."""
    ended: Any = copied[Task](task)
    ended.status, ended.executed, ended.output = status, status is _COMPLETED, output
    ended.retried = not ended.executed
    ended.ended_at = ended.updated_at = now
    ended.lease, ended.holder = 0, None
    ended.reason = said["reason"] or None if "reason" in said else None
    ended.traceback = said.get("traceback")
    ended.error_types = tuple(said["errorTypes"] or ()) if "errorTypes" in said else ()
    if "workerId" in said:
        ended.worker_id = said["workerId"] or task.worker_id
    ended.timeout_at = ended.response_timeout_at = ended.total_timeout_at = None
    ended.__class__ = Task
    row: Task = ended
    return row


def timers_of(task: Task) -> list[str]:
    """The timers that end with an attempt that was carried out."""
    found = [] if task.total_timeout_at is None else [f"TOTAL_TIMEOUT:{task.ref}"]
    if task.timeout_at is not None:
        found.append(f"TASK_TIMEOUT:{task.ref}")
    if task.response_timeout_at is not None:
        found.append(f"RESPONSE_TIMEOUT:{task.ref}")
    return found


def line(number: int, task: Task, status: TaskStatus, payload: Payload | None, cause: str | None) -> HistoryEvent:
    """A line of the journal."""
    return new[HistoryEvent](
        n=number,
        at=task.updated_at,
        kind=_TASK,
        status=status,
        ref=task.ref,
        attempt=task.attempt,
        reason=task.reason,
        payload=payload,
        cause=cause,
    )


def _decided(
    row: Workflow, task: Task, ended: Task, known: Following, message: Message, given: Payload, event: Event, poll: Event | None
) -> Decision:
    now, sequence, number = message.due_at, row.sequence, row.history_seq + 1
    if known.node.policy.poll_timeout_ms > 0:
        sequence += 1  # of its timer, whether or not it is polled at once
    made = made_row(row, known, message, given, sequence, poll)
    timers = timers_for(row, known, made, sequence)
    said, replies = event.data.value, {event.event_id: _DONE}
    cause = reported_with(said.get("workerId"), said.get("callbackAfterMs"), ended.error_types)
    ref, add = made.ref, new[HistoryEvent]  # as `line` does
    history: tuple[HistoryEvent, ...] = (
        line(number, ended, _COMPLETED, ended.output, cause),
        add(n=number + 1, at=now, kind=_TASK, status=_SCHEDULED, ref=ref, attempt=0, payload=given),
    )
    if poll is not None:
        number += 1
        replies[poll.event_id] = _DONE
        begun_by = polled_by(made.worker_id)
        history = (*history, add(n=number + 1, at=now, kind=_TASK, status=_IN_PROGRESS, ref=ref, attempt=0, cause=begun_by))
        sequence = made.lease + len(timers)
    total, whole, response = known.ended
    cancelled: tuple[str, ...] = () if task.timeout_at is None else (whole,)
    if task.total_timeout_at is not None:
        cancelled = (total, *cancelled)
    if task.response_timeout_at is not None:
        cancelled = (*cancelled, response)
    after: Any = copied[Workflow](row)
    after.task_seq, after.last_ref, after.sequence, after.history_seq = made.seq, made.ref, sequence, number + 1
    after.updated_at, after.broken_turns, after.parked = now, 0, None
    after.__class__ = Workflow
    return new[Decision](
        workflow=after,
        inserted=(made,),
        updated=(ended,),
        history=history,
        cancelled=cancelled,
        timers=tuple(timers),
        released_at=now,
        outgoing=_NOTHING if poll is not None else new[Outgoing](put=(message,)),
        replies=replies,
    )


def made_row(row: Workflow, known: Following, message: Message, given: Payload, sequence: int, poll: Event | None) -> Task:
    """The row of the attempt that follows: offered, or in the hands of who has polled for it."""
    now, policy, made = message.due_at, known.node.policy, copied[Task](known.blank)
    task: Any = made
    task.workflow_id, task.task_id, task.generation, task.seq = row.workflow_id, message.task_id, row.generation, row.task_seq + 1
    task.input = given
    task.scheduled_at = task.first_scheduled_at = task.due_at = task.updated_at = now
    if poll is not None:
        said = poll.data.value
        task.status, task.poll_count, task.started_at, task.lease = _IN_PROGRESS, 1, now, sequence + 1
        task.worker_id, task.holder = said.get("workerId"), said.get("holder")
        if policy.timeout_ms > 0:
            task.timeout_at = now + policy.timeout_ms
        if policy.response_timeout_ms > 0:
            task.response_timeout_at = now + policy.response_timeout_ms
    elif policy.poll_timeout_ms > 0:
        task.poll_timeout_at = now + policy.poll_timeout_ms
    task.__class__ = Task
    return made


def timers_for(row: Workflow, known: Following, made: Task, sequence: int) -> list[Event]:
    """What is dated for the attempt that follows; `sequence` is the number of the execution's last event so far."""
    ref, generation, now = made.ref, made.generation, made.updated_at
    (polled, whole, response), (poll_ms, whole_ms, response_ms), number = known.timers, known.defaults, made.lease
    timers: list[Event] = []
    if (at := made.poll_timeout_at) is not None:
        timers = [timer_event(row, polled, (ref, 0, generation, _POLL_TIMEOUT, at, poll_ms, sequence, now))]
    if (at := made.timeout_at) is not None:
        number += 1
        timers = [timer_event(row, whole, (ref, 0, generation, _TASK_TIMEOUT, at, whole_ms, number, now))]
    if (at := made.response_timeout_at) is not None:
        timer = (ref, 0, generation, _RESPONSE_TIMEOUT, at, response_ms, number + 1, now)
        timers = [*timers, timer_event(row, response, timer)]
    return timers
