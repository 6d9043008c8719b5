"""The laws of what is stored more than once: rows against the journal, the definition, and the rows of others.

`invariants` says what holds after each turn of an engine that works. This says what holds of rows that nobody has damaged: every
column that can be worked out from something else is. No law here trusts a column that it could compare. What `Engine.admin.check`
looks at beyond the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from conductorlite.decide.transitions import attempt_id
from conductorlite.engine.invariants import ExecutionAudit, Finding
from conductorlite.engine.keys import is_put_off
from conductorlite.engine.parking import BROKEN_TURNS
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.canonical import digest as digest_of
from conductorlite.model.decisions import DEADLINES, FIELDS, TIMERS, EventKind, queue_name
from conductorlite.model.definitions import debounce_key
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, printed_ref
from conductorlite.model.limits import Member
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.store.ports import ReadingTransaction

__all__ = ["record_findings", "relation_findings"]

#: No instant that is stored is later: the end of the year 9999, epoch ms.
_LATEST: Final = 253_402_300_799_999

_INSTANTS_OF_WORKFLOW: Final = ("created_at", "started_at", "updated_at", "ended_at", "last_retried_at", "timeout_at")
_INSTANTS_OF_TASK: Final = (
    *("scheduled_at", "first_scheduled_at", "due_at", "started_at", "updated_at", "ended_at"),
    *(*DEADLINES, "wait_until"),
)
_COUNTS_OF_WORKFLOW: Final = (
    *("fence", "generation", "priority", "parent_attempt", "parent_generation", "depth", "task_seq", "history_seq"),
    *("sequence", "open", "skips", "permitted_failures", "broken_turns", "message_seq", "unreceived"),
    "item_seq",
)
_COUNTS_OF_TASK: Final = (
    *("attempt", "first_attempt", "generation", "seq", "lease", "deaths", "poll_count", "start_delay_ms", "callback_after_ms"),
    *("round", "open", "waiting"),
)

#: No count is as high.
_MOST: Final = 1 << 50


@attrs.define(kw_only=True, slots=True)
class _Attempt:
    """The content of the journal for one attempt."""

    last: HistoryEvent
    began: HistoryEvent | None = None
    ended: HistoryEvent | None = None
    at_once: HistoryEvent | None = None
    given: Payload | None = None
    so_far: Payload | None = None
    #: When it was scheduled: at its first line, or when it was let in by its limit.
    scheduled: set[int]
    reopened: bool = False
    #: By how much the instant at which the first attempt was scheduled was moved in its row, when the clock was set.
    first_moved: int = 0

    def move(self, by: int) -> None:
        """Move its instants, as its row's were when the clock was set."""
        for name in ("last", "began", "ended", "at_once"):
            line = getattr(self, name)
            if line is not None:
                setattr(self, name, attrs.evolve(line, at=line.at + by))
        self.scheduled, self.first_moved = {at + by for at in self.scheduled}, self.first_moved + by


class _Journal:
    """The content of the journal for attempts and the execution, and the definitions it has had."""

    def __init__(self, audit: ExecutionAudit) -> None:
        self.attempts: dict[tuple[str | None, int | None], _Attempt] = {}
        #: The line at which the execution began, and the last one about its status.
        self.begun: HistoryEvent | None = None
        self.status: HistoryEvent | None = None
        self.migrated = self.verbs = False
        #: Attempts that another execution has made: what they were there is in none of these lines.
        self.copied: set[tuple[str | None, int | None]] = set()
        #: When first attempts were scheduled, as their lines say.
        self.first: dict[str | None, set[int]] = {}
        #: The numbers of lines at which the clock was set, and by how much.
        self.clock: list[tuple[int, int]] = []
        for line in audit.history:
            if line.kind is HistoryKind.TASK:
                self._task(line)
            elif line.kind is HistoryKind.REPORT and (reported := self.attempts.get((line.ref, line.attempt))) is not None:
                reported.so_far = line.payload
            elif line.kind is HistoryKind.COPIED and line.ref is not None:
                self.copied.add((line.ref, line.attempt))
            elif line.kind in (HistoryKind.WORKFLOW, HistoryKind.COPIED):
                self.verbs |= self.status is not None and WorkflowStatus(self.status.status).terminal  # it was reopened
                self.begun, self.status = self.begun or line, line
            elif line.kind is HistoryKind.CLOCK and line.status == "SET":
                self._move(line)
            elif line.kind is HistoryKind.MIGRATED:
                self.migrated = True
                names: dict[str, str] = line.payload.value["renamed"] if line.payload is not None else {}
                self.first = {names.get(ref or "", ref): scheduled for ref, scheduled in self.first.items()}
                self.attempts = {(names.get(ref or "", ref), number): one for (ref, number), one in self.attempts.items()}
            if line.kind is HistoryKind.VERB or line.status == "DROPPED":
                gone = {*line.dropped}
                self.attempts = {key: one for key, one in self.attempts.items() if key[0] not in gone}
                self.copied = {key for key in self.copied if key[0] not in gone}
                if line.status == "FORK" and line.payload is not None:
                    # It may have been copied to another definition than its rows were made from.
                    self.migrated = line.payload.value["origin"]["definitionHash"] is not None
                self.verbs |= line.kind is HistoryKind.VERB

    def moved_since(self, n: int) -> int:
        """By how much the clock was set after a line."""
        return sum(by for number, by in self.clock if number > n)

    def _move(self, line: HistoryEvent) -> None:
        by = line.number or 0
        self.clock.append((line.n, by))
        last = dict(sorted(self.attempts, key=lambda key: key[1] or 0))
        for ref, number in last.items():
            self.attempts[ref, number].move(by)

    def _task(self, line: HistoryEvent) -> None:
        status, key = TaskStatus(line.status), (line.ref, line.attempt)
        one = self.attempts.get(key)
        waited = one is not None and one.last.status == TaskStatus.PENDING
        if one is None:
            before = self.attempts.get((line.ref, (line.attempt or 0) - 1))
            one = self.attempts[key] = _Attempt(last=line, scheduled={line.at})
            one.first_moved = 0 if before is None else before.first_moved
            waited, one.reopened = True, key in self.copied
        elif waited:
            one.scheduled.add(line.at)
        if waited and not line.attempt:
            self.first.setdefault(line.ref, set()).add(line.at - one.first_moved)
        one.reopened |= one.ended is not None and not status.terminal
        one.last, one.ended = line, line if status.terminal else None
        if one.began is None and not status.terminal and line.payload is not None:
            one.given = line.payload
        elif line.payload is not None and status in (TaskStatus.SCHEDULED, TaskStatus.PENDING):
            one.so_far = line.payload
        if waited and status.terminal:  # it ended as it began
            one.at_once, one.given = line, None
        elif one.began is None and status is TaskStatus.IN_PROGRESS:
            one.began = line


def attempts_are_those_of_the_journal(audit: ExecutionAudit, journal: _Journal) -> Iterator[str]:
    """The instants, the input, the reason and the output so far of an attempt are those of its lines."""
    for task in audit.attempts:
        one = journal.attempts.get((task.ref, task.attempt))
        if one is None or one.reopened:
            continue  # another law says so; a task that is reopened in place begins again
        node, name = audit.placed(task), f"{task.ref} attempt {task.attempt}"
        for text in (
            *_instants(audit, journal, task, one),
            *_work(task, one, operator=node is None or node.operator, moved=journal.migrated or journal.verbs),
            *(() if node is None or node.operator or node.task.async_complete or journal.verbs else _held(task)),
        ):
            yield f"{name} {text}"


def _instants(audit: ExecutionAudit, journal: _Journal, task: Task, one: _Attempt) -> Iterator[str]:
    if task.scheduled_at not in one.scheduled:
        yield f"is scheduled at {task.scheduled_at}, the journal says {min(one.scheduled)}"
    began = one.began or one.at_once
    if began is not None and task.started_at not in (began.at, 0):
        yield f"begins at {task.started_at}, the journal says {began.at}"
    if one.began is not None and one.began.at and not task.started_at:
        yield f"has not begun, the journal says that it began at {one.began.at}"
    # A verb and a migration may take back what has ended, and end what they take back, without a line of its own.
    changed = journal.verbs or journal.migrated
    if not changed and task.ended_at != (0 if one.ended is None else one.ended.at):
        yield f"ends at {task.ended_at}, the journal says {None if one.ended is None else one.ended.at}"
    if not changed and not one.last.at <= task.updated_at <= max(audit.workflow.updated_at, one.last.at):
        yield f"was changed last at {task.updated_at}, the journal says {one.last.at}"
    first = journal.first.get(task.ref)
    if not journal.verbs and first is not None and task.first_scheduled_at - one.first_moved not in first:
        yield f"was scheduled first at {task.first_scheduled_at}, the journal says {min(first) + one.first_moved}"


def _held(task: Task) -> Iterator[str]:
    if task.status is TaskStatus.IN_PROGRESS and not task.lease:
        yield "is in progress, and nobody has a lease on it"


def _work(task: Task, one: _Attempt, *, operator: bool, moved: bool) -> Iterator[str]:
    if one.ended is not None and task.reason != one.ended.reason:
        yield f"has the reason {task.reason!r}, the journal says {one.ended.reason!r}"
    if one.given is not None and task.input != one.given and not moved:  # a migration or a verb may have given it another one
        yield "has another input than the journal says"
    if operator or task.status.terminal:
        return
    if task.output != (one.so_far or EMPTY):
        yield "has put out something else so far than the journal says"


def attempts_are_of_their_places(audit: ExecutionAudit, journal: _Journal) -> Iterator[str]:
    """The reference, the id, the type and the name of an attempt are those of its place."""
    workflow, ids = audit.workflow, {(task.ref, task.attempt): task.task_id for task in audit.attempts}
    if not journal.verbs and workflow.failed_task_id not in {None, *ids.values()}:
        yield f"the failed task {workflow.failed_task_id!r} is none of it"
    for task in audit.attempts:
        before = ids.get((task.ref, task.attempt - 1))
        if before is not None and task.retried_task_id != before:
            yield f"{task.ref} attempt {task.attempt} follows {task.retried_task_id}, the attempt before is {before}"
        if task.ref != printed_ref(task.base_ref, task.iterations):
            yield f"{task.ref} is of {task.base_ref} in the rounds {list(task.iterations)}"
        if journal.migrated:
            continue  # it may have been made from another definition, under another name
        # One that was reopened in place has the id that it had before.
        numbers = range(min(task.generation, len(audit.history)), -1, -1)
        if task.task_id not in (attempt_id(workflow, task.ref, task.attempt, number) for number in numbers):
            yield f"{task.ref} attempt {task.attempt} has the id of another attempt, {task.task_id}"
        node = audit.placed(task)
        if node is None:
            yield f"{task.ref} has no place in the definition"
        elif (task.task_type, task.name) != (node.task_type, node.task.name):
            yield f"{task.ref} is {task.name!r} of type {task.task_type}, by the definition {node.task.name!r} of {node.task_type}"


def counts_are_those_of_the_rows(audit: ExecutionAudit, _: _Journal) -> Iterator[str]:
    """The order of scheduling, generations, leases and what was skipped ahead are within what the workflow counts."""
    workflow, seen = audit.workflow, dict[int, tuple[str, int]]()
    if workflow.skips != sum(task.skipped_ahead for task in audit.last.values()):
        yield f"{workflow.skips} tasks are skipped ahead of the flow, by the rows it is another number"
    for task in audit.attempts:
        node = audit.placed(task)
        if task.seq and seen.setdefault(task.seq, (task.ref, task.attempt)) != (task.ref, task.attempt):
            ref, attempt = seen[task.seq]
            yield f"{task.ref} attempt {task.attempt} and {ref} attempt {attempt} have the same place in the order, {task.seq}"
        if task.seq == workflow.task_seq and task.seq and task.ref != workflow.last_ref:
            yield f"{task.ref} was scheduled last, the workflow says {workflow.last_ref}"
        if not task.seq and task.status is not TaskStatus.SKIPPED and (node is None or node.task.type != "JOIN"):
            yield f"{task.ref} has no place in the order"
        if task.executed and not task.status.terminal:
            yield f"{task.ref} is {task.status}, and what follows from it is done already"
        if task.seq > workflow.task_seq:
            yield f"{task.ref} has place {task.seq} in the order, the workflow counts {workflow.task_seq}"
        if task.generation > workflow.generation or task.first_attempt > task.attempt + 1:
            yield f"{task.ref} attempt {task.attempt} is of generation {task.generation}, the workflow of {workflow.generation}"
        if task.lease > workflow.sequence:
            yield f"{task.ref} has lease {task.lease}, the workflow counts {workflow.sequence}"


def the_execution_is_that_of_the_journal(audit: ExecutionAudit, journal: _Journal) -> Iterator[str]:
    """Check that the row of the execution agrees with the journal and the definition about its beginning and its end."""
    workflow, begun, last = audit.workflow, journal.begun, journal.status
    definition, ended = audit.plan.definition, audit.workflow.status.terminal
    known, said = (workflow.name, workflow.version), (definition.name, definition.version)
    if known != said:
        yield f"it is an execution of {known[0]!r} version {known[1]}, its definition is {said[0]!r} version {said[1]}"
    if begun is None or last is None:
        return
    if workflow.created_at > begun.at:
        yield f"it was created at {workflow.created_at}, the journal begins at {begun.at}"
    if workflow.ended_at != (last.at if ended else 0):
        yield f"it ends at {workflow.ended_at}, the journal says {last.status} at {last.at}"
    # While it is compensated, and when a verb has reopened it, it keeps what it has ended with before.
    if ended or not (journal.verbs or workflow.compensating):
        if workflow.reason != (last.reason if ended else None):
            yield f"it has the reason {workflow.reason!r}, the journal says {last.reason!r}"
        if workflow.output != ((last.payload or EMPTY) if ended else EMPTY):
            yield "the journal has another output"
    # Where the journal itself is amiss, another law says so.
    if workflow.updated_at < audit.history[-1].at and workflow.history_seq == len(audit.history):
        yield f"it was changed last at {workflow.updated_at}, the journal says {audit.history[-1].at}"
    if journal.verbs or journal.migrated:
        return
    if begun.payload is not None and workflow.input != begun.payload:
        yield "the journal has another input"
    first = next((line for line in audit.history if line.kind is HistoryKind.TASK), None)
    if first is not None:
        expected_at = {line.at + journal.moved_since(line.n) for line in (first, begun)}
        if workflow.started_at not in expected_at:
            yield f"its first task was scheduled at {workflow.started_at}, the journal says {max(expected_at)}"
    expected = _variables(audit)
    if expected is not None and workflow.variables != expected:
        yield "its variables are not those that its tasks have set"


def _variables(audit: ExecutionAudit) -> Payload | None:
    """The variables of an execution by its definition and the tasks that have set some; None where that is not known."""
    found: dict[str, Any] = dict(audit.plan.definition.variables)
    rows = {(task.ref, task.attempt): task for task in audit.attempts}
    for line in audit.history:
        if line.kind is not HistoryKind.TASK or line.status != TaskStatus.COMPLETED:
            continue
        task = rows.get((line.ref or "", line.attempt or 0))
        if task is None or task.input.absent:
            return None  # a round that is dropped, a large input
        if task.task_type == "SET_VARIABLE":
            found.update(task.input.value)
    return Payload.of(found)


def instants_and_counts_are_possible(audit: ExecutionAudit, _: _Journal) -> Iterator[str]:
    """No instant lies before 1970 or after the year 9999; no count is negative, or higher than any can be."""
    for row, name, instants, counts in (
        (audit.workflow, "the workflow", _INSTANTS_OF_WORKFLOW, _COUNTS_OF_WORKFLOW),
        *((task, task.ref, _INSTANTS_OF_TASK, _COUNTS_OF_TASK) for task in audit.attempts),
    ):
        for field in instants:
            at = getattr(row, field)
            if at is not None and not 0 <= at <= _LATEST:
                yield f"{name}: {field} is {at}, which is no instant"
        for field in counts:
            count = getattr(row, field)
            if not 0 <= count < _MOST:
                yield f"{name}: {field} is {count}, which is no count"
    if audit.workflow.broken_turns > BROKEN_TURNS:
        yield f"{audit.workflow.broken_turns} turns have broken a law, and it is not parked since {BROKEN_TURNS}"


def events_are_of_their_tasks(audit: ExecutionAudit, _: _Journal) -> Iterator[str]:
    """A timer is about the attempt that it names, and waits while the execution is paused or parked, and no longer."""
    workflow, last = audit.workflow, audit.last
    for event in audit.inbox:
        if not 0 <= event.due_at <= _LATEST or not 0 <= event.posted_at <= _LATEST:
            yield f"{event.event_id} is due at {event.due_at}, posted at {event.posted_at}, which are no instants"
        if event.held and workflow.parked is None and workflow.status.value != "PAUSED" and not workflow.status.terminal:
            yield f"{event.event_id} is held, and the workflow is {workflow.status}"
        if workflow.parked is not None and not event.held:
            yield f"{event.event_id} is not held, and the workflow is parked"
        if event.kind not in _OWN:
            continue
        task = last.get(event.ref or "")
        if event.sender != workflow.workflow_id:
            yield f"{event.event_id} is a timer of {event.sender!r}"
        if event.event_id != (event.kind if event.ref is None else f"{event.kind}:{event.ref}"):
            yield f"{event.event_id} is the timer {event.kind} of {event.ref}"
        if event.kind is EventKind.WORKFLOW_TIMEOUT and workflow.timeout_at is None:
            yield "the workflow has a timer for its timeout, and no timeout"
        at = workflow.timeout_at
        if event.kind is not EventKind.WORKFLOW_TIMEOUT:
            at = None if task is None else getattr(task, FIELDS[event.kind])
        # What came due while the workflow was paused or parked is dated again when it goes on.
        if at is not None and event.due_at != at and not at < event.due_at <= workflow.updated_at:
            yield f"{event.event_id} is due at {event.due_at}, its deadline is {at}"
        if task is not None and (event.attempt, event.generation) != (task.attempt, task.generation):
            yield f"{event.event_id} is about attempt {event.attempt} of generation {event.generation}"


#: Kinds of the timers that an execution sets for its tasks and for itself.
_OWN: Final = frozenset({*TIMERS.values(), EventKind.WORKFLOW_TIMEOUT})


def messages_are_those_of_the_rows(audit: ExecutionAudit, _: _Journal) -> Iterator[str]:
    """A task is offered under its own id, with the execution's priority."""
    for message in audit.messages:
        task = audit.last.get(message.ref)
        if task is not None and not audit.undelivered:
            if message.task_id != task.task_id:
                yield f"{message.ref} is offered as {message.task_id}, which is not its id"
            if message.priority != audit.workflow.priority:
                yield f"{message.ref} is offered with priority {message.priority}, the execution has {audit.workflow.priority}"


def members_are_those_of_the_rows(audit: ExecutionAudit, _: _Journal) -> Iterator[str]:
    """Check that what a limit knows of a member agrees with the member's row."""
    rows: Mapping[str, Task] = {task.task_id: task for task in audit.attempts}
    workflow = audit.workflow
    for member in audit.members:
        task = rows.get(member.holder)
        if task is None and member.holder != workflow.workflow_id:
            continue  # another law says so
        known = _known(member)
        # An execution that is run again, and a task that is reopened, keep the place that they have.
        generation = workflow.generation if task is None else task.generation
        place = (None, 0) if task is None else (task.ref, task.attempt)
        if member.generation > max(generation, workflow.generation):
            yield f"{member.key!r} knows {member.holder} in generation {member.generation}, its rows are in {generation}"
        said = (*place, workflow.priority, workflow.created_at)
        lanes = ("",) if task is None else ("", queue_name(task.task_type, task.domain, workflow.owner))
        if member.lane not in lanes:
            yield f"{member.key!r} has {member.holder} wait in the lane {member.lane!r}, its queue is {lanes[-1]!r}"
        if known != said:
            yield f"{member.key!r} knows {member.holder} as {known}, its rows say {said}"
        if not 0 <= member.asked_at <= _LATEST or min(member.number, member.concurrent, member.rate, member.window_ms) < 0:
            yield f"{member.key!r} has impossible numbers for {member.holder}"


def _known(member: Member) -> tuple[Any, ...]:
    return member.ref, member.attempt, member.priority, member.created_at


def relation_findings(view: ReadingTransaction, audit: ExecutionAudit) -> list[Finding]:
    """Everything about one execution that contradicts what is stored of others, of its documents and of its definitions."""
    workflow_id = audit.workflow.workflow_id
    return [
        Finding(law=law.__name__, workflow_id=workflow_id, text=text)
        for law in (texts_are_stored, families_agree, keys_are_held, limits_are_stored)
        for text in law(view, audit)
    ]


def texts_are_stored(view: ReadingTransaction, audit: ExecutionAudit) -> Iterator[str]:
    """Each large document that a row or a line names by its hash is stored, and so is each definition."""
    workflow = audit.workflow
    named: dict[str, str] = {}
    for payload in (workflow.input, workflow.output, workflow.variables, workflow.task_to_domain):
        if payload.absent:
            named.setdefault(payload.digest, "the workflow")
    for task in audit.attempts:
        for payload in (task.input, task.output):
            if payload.absent:
                named.setdefault(payload.digest, task.ref)
    for line in audit.history:
        if line.payload is not None and line.payload.absent:
            named.setdefault(line.payload.digest, f"line {line.n} of the journal")
    stored = (
        {*view.executions.payloads(workflow.workflow_id, named), *view.payloads.externals(workflow.workflow_id, named)}
        if named
        else set()
    )
    for digest, where in named.items():
        if digest not in stored:
            yield f"{where} names the payload {digest}, which is not stored"
    for digest in {workflow.definition_hash, *(digest for task in audit.attempts for digest in task.grafts)}:
        text = view.metadata.definition(digest)
        if text is None or digest_of(text) != digest:
            yield f"the definition {digest} is {'missing' if text is None else 'damaged'}"


def families_agree(view: ReadingTransaction, audit: ExecutionAudit) -> Iterator[str]:
    """A child names the task that has started it, and that task names the child."""
    workflow = audit.workflow
    parent, ref = workflow.parent_workflow_id, workflow.parent_ref
    if (ref is None) is not (parent is None):
        yield f"it was started by the task {ref!r} of {parent!r}"
    above = None if parent is None or ref is None else view.executions.tasks(parent, [ref]).get(ref)
    row = None if parent is None else view.executions.workflow(parent)
    if row is not None and workflow.depth != row.depth + 1:
        yield f"it is {workflow.depth} executions below the first one, its parent {row.depth}"
    place = (workflow.parent_attempt, workflow.parent_generation)
    named = None if above is None or (above.attempt, above.generation) != place else above.sub_workflow_id
    if named not in (None, workflow.workflow_id):
        yield f"{ref!r} of {parent!r}, which has started it, names {named!r}"
    moved = any(line.kind is HistoryKind.MIGRATED for line in audit.history)
    copied = {(line.ref, line.attempt) for line in audit.history if line.kind is HistoryKind.COPIED}
    for task in audit.last.values():
        child = None if task.sub_workflow_id is None else view.executions.workflow(task.sub_workflow_id)
        if (task.ref, task.attempt) in copied and task.status.terminal:
            continue  # the execution that it was copied from has started the child
        if child is not None and child.parent_workflow_id != workflow.workflow_id and child.idempotency_key is None:
            yield f"{task.ref} has started {child.workflow_id!r}, which names the parent {child.parent_workflow_id!r}"
        elif child is not None and child.parent_ref != task.ref and child.idempotency_key is None and not moved:
            yield f"{task.ref} has started {child.workflow_id!r}, which names the task {child.parent_ref!r}"


def keys_are_held(view: ReadingTransaction, audit: ExecutionAudit) -> Iterator[str]:
    """The idempotency key of an execution is its own, or was given to another one; a debounce key once the execution has begun."""
    workflow = audit.workflow
    if workflow.idempotency_key is not None and not any(line.kind is HistoryKind.MIGRATED for line in audit.history):
        holder = view.executions.key_holder(workflow.name, workflow.idempotency_key)
        if holder is None:
            yield f"its idempotency key {workflow.idempotency_key!r} is held by nobody"
        elif debounce_key(workflow.idempotency_key) is not None and is_put_off(workflow) and holder != workflow.workflow_id:
            yield f"it has not begun, and {holder!r} holds the key of its debounced start"


def limits_are_stored(view: ReadingTransaction, audit: ExecutionAudit) -> Iterator[str]:
    """A limit that an execution is a member of is stored."""
    for member in audit.members:
        if view.limits.line(member.key, 0).limit.fence == 0:
            yield f"it is a member of {member.key!r}, which is not stored"


_LAWS: Final[tuple[Callable[[ExecutionAudit, _Journal], Iterator[str]], ...]] = (
    attempts_are_those_of_the_journal,
    attempts_are_of_their_places,
    counts_are_those_of_the_rows,
    the_execution_is_that_of_the_journal,
    instants_and_counts_are_possible,
    events_are_of_their_tasks,
    messages_are_those_of_the_rows,
    members_are_those_of_the_rows,
)


def record_findings(audit: ExecutionAudit) -> list[Finding]:
    """Everything about one execution that contradicts what is stored of it elsewhere."""
    journal = _Journal(audit)
    return [
        Finding(law=law.__name__, workflow_id=audit.workflow.workflow_id, text=text)
        for law in _LAWS
        for text in law(audit, journal)
    ]
