"""The laws of a stored execution, as one list: what `Engine.admin.check` and the test kit look at.

Each law is a function from a `Picture` (one execution, whole) to findings in words. None of them trusts a counter, a timer or
the journal: each is compared with what the rows say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final

import attrs

from conductorlite.model.decisions import DEADLINES, TIMERS, Event, EventKind, Message, queue_name
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow, printed_ref
from conductorlite.model.limits import Limit, Member, MemberState
from conductorlite.model.mailbox import WorkflowMessage, topic_of
from conductorlite.model.statuses import (
    TASK_TRANSITIONS,
    TASK_VERB_TRANSITIONS,
    WORKFLOW_TRANSITIONS,
    WORKFLOW_VERB_TRANSITIONS,
    TaskStatus,
    WorkflowStatus,
)
from conductorlite.model.streams import Emission, EmissionState
from conductorlite.model.threads import cached_property
from conductorlite.plan.compile import Node, Plan, split_ref

__all__ = [
    "INVARIANTS",
    "ExecutionAudit",
    "Finding",
    "could_go",
    "findings",
    "limit_findings",
    "recounted",
    "slots_taken",
    "timers_amiss",
]


_ATTEMPT: Final = attrgetter("attempt")


@attrs.frozen(kw_only=True, slots=False)
class ExecutionAudit:
    """One execution, whole, as it is stored. What more than one law asks for is worked out once."""

    workflow: Workflow
    plan: Plan
    attempts: Sequence[Task]
    inbox: Sequence[Event]
    messages: Sequence[Message]
    history: Sequence[HistoryEvent]
    #: The messages to it, by their numbers.
    mailbox: Sequence[WorkflowMessage] = ()
    #: What its calls have emitted, with its chunks.
    emissions: Sequence[Emission] = ()
    #: What it and its tasks hold of limits, and wait for.
    members: Sequence[Member] = ()
    #: The plan with what was made at run time, by the grafts of tasks.
    extended: Mapping[tuple[str, ...], Plan] = attrs.field(factory=dict)
    #: Outgoing parts wait to be relayed: the queue may lag behind the rows.
    undelivered: bool = False

    @cached_property
    def journal(self) -> _Journal:
        """The content of the journal."""
        return _Journal(self.history)

    @cached_property
    def last(self) -> Mapping[str, Task]:
        """The last attempt at each printed reference."""
        return {task.ref: task for task in sorted(self.attempts, key=_ATTEMPT)}

    def placed(self, task: Task) -> Node | None:
        """The node a row was made from; None when the execution has moved to a definition without it."""
        return self.extended.get(task.grafts, self.plan).nodes.get(task.base_ref)


@attrs.frozen(kw_only=True, slots=True)
class Finding:
    """A law that does not hold: its name, the execution, and what was seen."""

    law: str
    workflow_id: str
    text: str

    def __str__(self) -> str:
        return f"{self.workflow_id}: {self.law}: {self.text}"


def one_live_attempt(audit: ExecutionAudit) -> Iterator[str]:
    """Of each reference only the last attempt is open, attempts are numbered without gaps, every older one is superseded."""
    by_ref: dict[str, list[Task]] = {}
    for task in audit.attempts:
        by_ref.setdefault(task.ref, []).append(task)
    for ref, tasks in by_ref.items():
        tasks.sort(key=_ATTEMPT)
        if [task.attempt for task in tasks] != list(range(len(tasks))):
            yield f"{ref}: attempts are numbered {[task.attempt for task in tasks]}"
        for task in tasks[:-1]:
            if not task.status.terminal or not task.retried:
                yield f"{ref}: attempt {task.attempt} is {task.status}, but a later one exists"
        if tasks[-1].retried:
            yield f"{ref}: the last attempt is marked as superseded"


def counters_equal_counts(audit: ExecutionAudit) -> Iterator[str]:
    """`open` and `waiting` are what counting the rows gives."""
    for task, field, count in recounted(audit, audit.last):
        if task is None:
            yield f"the workflow counts {audit.workflow.open} live tasks, there are {count}"
        elif field == "open":
            yield f"{task.ref}: counts {task.open} live tasks, there are {count}"
        else:
            yield f"{task.ref}: waits for {task.waiting}, {count} have not ended"


def recounted(audit: ExecutionAudit, last: Mapping[str, Task]) -> Iterator[tuple[Task | None, str, int]]:
    """Each counter that is not what counting the last attempts gives: of a task or (None) the workflow, its field, the count."""
    live: dict[str | None, int] = {}
    for task in last.values():
        if task.live:
            node = audit.placed(task)
            scopes = () if node is None else node.scopes
            scope = last.get(printed_ref(scopes[-1][0], task.iterations[: scopes[-1][1]])) if scopes else None
            owner = scope.ref if scope is not None and scope.live else None
            live[owner] = live.get(owner, 0) + 1
    if audit.workflow.open != live.get(None, 0):
        yield None, "open", live.get(None, 0)
    for task in last.values():
        node = audit.placed(task)
        if node is None:
            continue  # it had ended when the execution moved to a definition without it
        if task.open != live.get(task.ref, 0):
            yield task, "open", live.get(task.ref, 0)
        if node.task.type == "JOIN" and not task.status.terminal:
            refs = [printed_ref(ref, task.iterations) for ref in dict.fromkeys(() if node.collects else node.task.join_on)]
            waiting = sum(ref not in last or not last[ref].passed for ref in refs) + (task.seq == 0)
            if task.waiting != waiting:
                yield task, "waiting", waiting


def nothing_of_the_ended(audit: ExecutionAudit) -> Iterator[str]:
    """A task that has ended has no message, no timer, no deadline and no lease; an ended workflow has none at all."""
    last = audit.last
    ended = audit.workflow.status.terminal
    for event in audit.inbox:
        task = last.get(event.ref or "")
        if event.kind is EventKind.CONTINUE or event.kind in _EVENTS:
            continue
        if event.kind is EventKind.START and event.sender != audit.workflow.workflow_id:
            continue  # a parent that resumes its children writes to each, for one may have been ended before it began
        if ended or (event.ref is not None and (task is None or task.status.terminal)):
            yield f"{event.event_id} is still in the inbox"
    for message in audit.messages:
        task = last.get(message.ref)
        if not audit.undelivered and (task is None or task.status is not TaskStatus.SCHEDULED or ended):
            yield f"{message.ref} is still offered in queue {message.queue!r}"
    for task in audit.attempts:
        if task.status.terminal:
            if task.lease or task.holder or _DEADLINES(task) != _NO_DEADLINES:
                held = [name for name in DEADLINES if getattr(task, name) is not None]
                yield f"{task.ref} attempt {task.attempt} is {task.status} with lease {task.lease} and {held}"
        elif task.holder is not None and not (task.status is TaskStatus.IN_PROGRESS and task.lease):
            yield f"{task.ref} is {task.status} with lease {task.lease}, and {task.holder} holds it"
        elif ended:
            yield f"{task.ref} is {task.status} in a {audit.workflow.status} workflow"


#: All deadlines of a task at once, and none.
_DEADLINES: Final = attrgetter(*DEADLINES)
_NO_DEADLINES: Final = (None,) * len(DEADLINES)

#: What others send may come at any time; it is void in an ended workflow, and removed by the next turn.
_EVENTS: Final = frozenset(
    {EventKind.REPORT, EventKind.EXTEND_LEASE, EventKind.GIVE_BACK, EventKind.POLL, EventKind.PAUSE, EventKind.RESUME,
     EventKind.TERMINATE, EventKind.RETRY, EventKind.RESTART, EventKind.RERUN, EventKind.SKIP, EventKind.VARIABLES,
     EventKind.APPEND, EventKind.MIGRATE, EventKind.CHILD_ENDED, EventKind.CHILD_REOPENED, EventKind.STARTED,
     EventKind.GRANTED, EventKind.WINDOW_MOVES, EventKind.SEND}
)  # fmt: skip


def open_tasks_are_reachable(audit: ExecutionAudit) -> Iterator[str]:
    """Every SCHEDULED task is offered, every deadline has its timer at that instant, every running workflow can still move."""
    if audit.workflow.status.terminal:
        return
    inbox = {event.event_id: event for event in audit.inbox}
    offered = {message.ref: message for message in audit.messages}
    for task in audit.last.values():
        if task.status is TaskStatus.SCHEDULED:
            yield from _will_begin(audit, task, inbox, offered.get(task.ref))
        if task.status.terminal:
            continue
        for name, kind, at, timer in timers_amiss(task, inbox):
            if at is None:
                yield f"{task.ref}: the timer {kind} has no deadline"
            else:
                yield f"{task.ref}: deadline {name} at {at} has the timer {timer}"
    workflow = audit.workflow
    if workflow.timeout_at is not None and EventKind.WORKFLOW_TIMEOUT not in inbox:
        yield f"the workflow's timeout at {workflow.timeout_at} has no timer"
    if workflow.started_at and workflow.open == 0:
        yield "the workflow is RUNNING with nothing live"


def _will_begin(audit: ExecutionAudit, task: Task, inbox: Mapping[str, Event], message: Message | None) -> Iterator[str]:
    """A SCHEDULED task is offered to workers; the retry of an operator that is put off has a timer instead."""
    node = audit.placed(task)
    if node is not None and node.operator:
        if f"{EventKind.ADMISSION}:{task.ref}" not in inbox:
            yield f"{task.ref} is SCHEDULED, and nothing begins it"
        if message is not None and not audit.undelivered:
            yield f"{task.ref} is SCHEDULED, and is offered"
    elif not audit.undelivered:
        if message is None:
            yield f"{task.ref} is SCHEDULED but not offered"
        elif (message.attempt, message.generation, message.due_at) != (task.attempt, task.generation, task.due_at):
            yield f"{task.ref} is offered as {message}"


def events_are_the_owners(audit: ExecutionAudit) -> Iterator[str]:
    """Events and messages are stored where the execution's owner, and no other engine, finds them."""
    owner = audit.workflow.owner
    for event in audit.inbox:
        if event.owner != owner:
            yield f"{event.event_id} is for {event.owner or 'everybody'}, the execution is {owner or 'everybody'}'s"
    last = audit.last
    for message in audit.messages:
        task = last.get(message.ref)
        if task is not None and message.queue != queue_name(task.task_type, task.domain, owner):
            yield f"{message.ref} is offered in queue {message.queue!r}, where its execution's owner does not find it"


def emitted_values_are_kept(audit: ExecutionAudit) -> Iterator[str]:
    """Every number has one value; what a completed attempt has emitted is all there and kept, what an open one has is open."""
    if not audit.workflow.item_seq and not [task for task in audit.attempts if task.emitted]:
        return
    calls = {(one.task_id, one.lease): one for one in audit.emissions}
    chunks = sorted((chunk for one in audit.emissions for chunk in one.chunks), key=lambda chunk: chunk.first)
    number = 0
    for chunk in chunks:
        if chunk.first != number + 1 or chunk.last - chunk.first + 1 != len(chunk.values.value):
            yield f"values {chunk.first} to {chunk.last} follow number {number}, and are {len(chunk.values.value)}"
        number = chunk.last
    if number != audit.workflow.item_seq:
        yield f"{number} values are kept, the workflow counts {audit.workflow.item_seq}"
    held: set[tuple[str, int]] = set()
    for task in audit.attempts:
        wanted = EmissionState.KEPT if task.status is TaskStatus.COMPLETED else EmissionState.OPEN
        for lease, count in zip(task.emitted[::2], task.emitted[1::2], strict=True):
            call = (task.task_id, lease)
            held.add(call)
            one = calls.get(call)
            there = 0 if one is None else sum(chunk.last - chunk.first + 1 for chunk in one.chunks)
            if there != count:
                yield f"{task.ref}: {there} values of lease {lease} are there, and it has emitted {count}"
            elif one is not None and one.state is not wanted:
                yield f"{task.ref} is {task.status}, and what it has emitted under lease {lease} is {one.state}"
            if task.status.terminal and task.status is not TaskStatus.COMPLETED:
                yield f"{task.ref} is {task.status}, and has values that are not dropped"
    stored = {task.task_id: task for task in audit.attempts}
    for call, one in calls.items():
        numbers = [number for chunk in one.chunks for number in (chunk.first, chunk.last)]
        if not numbers or (min(numbers), max(numbers)) != (one.first, one.last):
            yield f"what {one.ref} has emitted under lease {one.lease} is not {one.first} to {one.last}"
        if call[0] in stored and stored[call[0]].attempt != one.attempt:
            yield f"what attempt {one.attempt} at {one.ref} has emitted is another attempt's"
        if call not in held and (one.state is EmissionState.OPEN or (one.state is EmissionState.KEPT and call[0] in stored)):
            yield f"what {one.ref} has emitted under lease {one.lease} is {one.state}, and no attempt has it"


def messages_are_received_once(audit: ExecutionAudit) -> Iterator[str]:
    """Every message the journal names is kept, under its number; what is received has a task, whose output is the only one that has
    it, and none waits beside its task.
    """
    workflow, messages = audit.workflow, audit.mailbox
    if not (messages or workflow.message_seq or workflow.unreceived):
        return
    numbers, waiting = [message.number for message in messages], [message for message in messages if message.receiver is None]
    if len(numbers) != workflow.message_seq or any(number != place for place, number in enumerate(numbers, 1)):
        yield f"messages {numbers} are kept, the workflow counts {workflow.message_seq}"
    if len(waiting) != workflow.unreceived:
        yield f"{len(waiting)} messages are not received, the workflow counts {workflow.unreceived}"
    sent = [(line.number, line.at, line.payload) for line in audit.history if line.kind is HistoryKind.MESSAGE]
    if [number for number, *_ in sent] != numbers:
        yield f"messages {numbers} are kept, the journal names {[number for number, *_ in sent]}"
    for message in messages:
        said = next((payload for number, _, payload in sent if number == message.number), message.value)
        if said != message.value:
            yield f"message {message.number} is another one than the journal says"
        if (message.receiver is None) is not (message.received_at is None):
            yield f"message {message.number} is received by {message.receiver} at {message.received_at}"
        if message.receiver is not None and not _is_a_task(audit, message.receiver):
            yield f"message {message.number} is received by {message.receiver!r}, and there is no such task"
    yield from _received_twice(audit)
    if workflow.status is WorkflowStatus.RUNNING and not audit.inbox:
        for message in waiting:
            for task in audit.last.values():
                if _receives(task, message):
                    yield f"message {message.number} is not received, and {task.ref} waits for it"


def _received_twice(audit: ExecutionAudit) -> Iterator[str]:
    receivers = {(message.topic, message.key): message.receiver for message in audit.mailbox}
    for task in audit.last.values():
        for place in _received_by(task):
            if receivers.get(place, task.ref) != task.ref:
                yield f"{task.ref} has received {place[1]!r} of topic {place[0]}, which is received by {receivers[place]}"


def _received_by(task: Task) -> Iterator[tuple[str, str]]:
    """Topics and keys of the messages in what a task has put out; of none whose documents are not read."""
    pulled = task.task_type == TaskType.PULL_WORKFLOW_MESSAGES and task.status is TaskStatus.COMPLETED
    found = task.output.value.get("messages") if pulled and not (task.output.absent or task.input.absent) else None
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict) and isinstance(one.get("id"), str):
            yield topic_of(task.input.value) or "", one["id"]


def _is_a_task(audit: ExecutionAudit, ref: str) -> bool:
    """Return True if a printed reference is that of a task; the rows of an old round may have been dropped."""
    plans = (audit.plan, *audit.extended.values())
    return ref in audit.last or any(split_ref(plan, ref)[0] in plan.nodes for plan in plans)


def _receives(task: Task, message: WorkflowMessage) -> bool:
    """Return True if a task waits for a message; False for one whose input is not read."""
    if task.status is not TaskStatus.IN_PROGRESS or message.signal_to is not None:
        return task.status is TaskStatus.IN_PROGRESS and message.signal_to in (task.ref, task.base_ref)
    pulls = task.task_type == TaskType.PULL_WORKFLOW_MESSAGES and not task.input.absent
    return pulls and topic_of(task.input.value) == message.topic


def timers_amiss(task: Task, inbox: Mapping[str, Event]) -> Iterator[tuple[str, EventKind, int | None, Event | None]]:
    """Each deadline of an open task without its timer, and each timer without its deadline: field, kind, instant, timer."""
    for name, kind in TIMERS.items():
        at, timer = getattr(task, name), inbox.get(f"{kind}:{task.ref}")
        # A deadline that passed while the workflow was paused is dated again when it resumes.
        if at is not None and (timer is None or (timer.due_at != at and not timer.held and timer.due_at < timer.posted_at)):
            yield name, kind, at, timer
        if at is None and timer is not None:
            yield name, kind, at, timer


def time_runs_forward(audit: ExecutionAudit) -> Iterator[str]:
    """The journal is numbered without gaps; its instants go back only where the clock was set; no row ends before it began."""
    numbers = [line.n for line in audit.history]
    if numbers != list(range(1, len(numbers) + 1)) or audit.workflow.history_seq != len(numbers):
        yield f"the journal has {len(numbers)} lines, the workflow counts {audit.workflow.history_seq}"
    instants = [line.at for line in audit.history]
    back = (line for before, line in pairwise(audit.history) if line.at < before.at)
    if instants != sorted(instants) and any(line.kind is not HistoryKind.CLOCK for line in back):
        yield "the journal goes back in time"
    for task in audit.attempts:
        if task.ended_at and task.ended_at < max(task.started_at, task.scheduled_at):
            yield f"{task.ref} attempt {task.attempt} ends at {task.ended_at} before it begins"


def transitions_are_in_the_table(audit: ExecutionAudit) -> Iterator[str]:
    """Every change the journal records is one the tables allow; terminal is terminal but for the verbs."""
    yield from audit.journal.amiss


class _Journal:
    """The last line of the journal for each attempt, the workflow, and each loop's round; changes that no table allows."""

    def __init__(self, history: Sequence[HistoryEvent]) -> None:
        self.attempts: dict[tuple[str | None, int | None], tuple[TaskStatus, HistoryEvent]] = {}
        self.status: WorkflowStatus | None = None
        self.rounds: dict[str | None, int | None] = {}
        self.amiss: list[str] = []
        self._reopened = False
        for line in history:
            if line.kind is HistoryKind.TASK or (line.kind is HistoryKind.COPIED and line.ref is not None):
                self._task(line)
            else:
                self._read(line)

    def _read(self, line: HistoryEvent) -> None:
        if line.kind in (HistoryKind.WORKFLOW, HistoryKind.COPIED):
            self._workflow(WorkflowStatus(line.status), line.n)
        elif line.kind is HistoryKind.VERB or line.status == "DROPPED":
            gone = set(line.dropped)
            self.attempts = {key: recorded for key, recorded in self.attempts.items() if key[0] not in gone}
            if line.kind is HistoryKind.VERB:
                self._reopened = True
                self.rounds = {ref: number for ref, number in self.rounds.items() if ref not in gone}
        elif line.kind is HistoryKind.MIGRATED:
            names: dict[str, str] = line.payload.value["renamed"] if line.payload is not None else {}
            self.attempts = {(names.get(ref or "", ref), attempt): said for (ref, attempt), said in self.attempts.items()}
            self.rounds = {names.get(ref or "", ref): number for ref, number in self.rounds.items()}
        elif line.kind is HistoryKind.ROUND:
            self.rounds[line.ref] = line.number

    def _workflow(self, after: WorkflowStatus, number: int) -> None:
        status = self.status
        verbs = WORKFLOW_VERB_TRANSITIONS.get(status, frozenset()) if status is not None else frozenset()
        if after not in WORKFLOW_TRANSITIONS[status] and after not in verbs:
            self.amiss.append(f"line {number}: the workflow goes from {status} to {after}")
        self._reopened = status is not None and status.terminal
        self.status = after

    def _task(self, line: HistoryEvent) -> None:
        now = _TASK_STATUSES.get(line.status) or TaskStatus(line.status)
        before, _ = self.attempts.get((line.ref, line.attempt), _NEVER_SAID)
        allowed = now in TASK_TRANSITIONS[before]
        if not allowed and not (self._reopened and before is not None and now in TASK_VERB_TRANSITIONS.get(before, ())):
            self.amiss.append(f"line {line.n}: {line.ref} goes from {before} to {now}")
        if self.status is not None and self.status.terminal and not now.terminal:
            self.amiss.append(f"line {line.n}: {line.ref} becomes {now} in a {self.status} workflow")
        self.attempts[(line.ref, line.attempt)] = (now, line)


#: The statuses of attempts by their names: to find one here takes a fifth of calling the class.
_TASK_STATUSES: Final = {str(status): status for status in TaskStatus}

_NEVER_SAID: Final[tuple[TaskStatus | None, HistoryEvent | None]] = (None, None)


def the_journal_replays_to_the_rows(audit: ExecutionAudit) -> Iterator[str]:
    """Check that the journal's last line for each attempt agrees with its row."""
    journal = audit.journal
    statuses, rounds = journal.attempts, journal.rounds
    if {(task.ref, task.attempt) for task in audit.attempts} != set(statuses):
        yield "the journal and the rows name different attempts"
    for task in audit.attempts:
        status, recorded = statuses.get((task.ref, task.attempt), _NEVER_SAID)
        if recorded is None:
            continue
        if status is not task.status:
            yield f"{task.ref} attempt {task.attempt} is {task.status}, the journal says {status}"
        said = recorded.payload
        if task.status.terminal and said is not None and said is not task.output and said != task.output:
            yield f"{task.ref} attempt {task.attempt}: the journal has another output"
        if task.round != (rounds.get(task.ref) or 0):
            yield f"{task.ref} is in round {task.round}, the journal says {rounds.get(task.ref)}"
    if journal.status != audit.workflow.status:
        yield f"the workflow is {audit.workflow.status}, the journal says {journal.status}"


def compensations_undo_what_completed(audit: ExecutionAudit) -> Iterator[str]:
    """Check that what is undone had completed, once per row, last ended first, with nothing left out, and nothing else runs."""
    workflow, last = audit.workflow, audit.last
    undoing = [task for task in last.values() if _compensates(audit, task) is not None]
    if not undoing and workflow.compensating is None:
        return
    firsts = {task.ref: task.seq for task in audit.attempts if task.attempt == 0}
    undone = [_undone_by(audit, task) for task in sorted(undoing, key=lambda task: firsts.get(task.ref, 0))]
    done = [
        task
        for task in last.values()
        if task.status in _DONE and (node := audit.placed(task)) is not None and node.compensation is not None
        if not _nameless(audit, task, last)
    ]
    order = [task.ref for task in sorted(done, key=lambda task: (-task.ended_at, -task.seq))]
    if undone != order[: len(undone)]:
        yield f"{undone} are undone, what completed is to be undone in the order {order}"
    running = [task.ref for task in last.values() if not task.status.terminal]
    if any(_compensates(audit, last[ref]) is None for ref in running) or len(running) > 1:
        yield f"{running} are open while the workflow is compensated"
    if (workflow.compensating is None) is not workflow.status.terminal:
        yield f"the workflow is {workflow.status}, and its compensation is to end with {workflow.compensating}"
    if workflow.status in (WorkflowStatus.FAILED, WorkflowStatus.TIMED_OUT) and len(undone) < len(order):
        yield f"the workflow is {workflow.status}, but {order[len(undone) :]} were not undone"


_DONE: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS})


def _nameless(audit: ExecutionAudit, task: Task, last: Mapping[str, Task]) -> bool:
    """Return True if the name of a task's compensation belongs to something else, so that it could not be undone."""
    by = last.get(printed_ref(str(getattr(audit.placed(task), "compensation", None)), task.iterations))
    return by is not None and (_compensates(audit, by) is None or _undone_by(audit, by) != task.ref)


def _undone_by(audit: ExecutionAudit, task: Task) -> str:
    return printed_ref(str(_compensates(audit, task)), task.iterations)


def _compensates(audit: ExecutionAudit, task: Task) -> str | None:
    node = audit.placed(task)
    return None if node is None else node.compensates


def slots_are_those_of_the_rows(audit: ExecutionAudit) -> Iterator[str]:
    """Check that PENDING tasks wait in their line, slots are counted where they are held, and nothing that has ended has one."""
    workflow = audit.workflow
    coming = {event.data.value["holder"] for event in audit.inbox if event.kind is EventKind.GRANTED}
    behind = audit.undelivered or any(event.kind is EventKind.CONTINUE for event in audit.inbox)
    members = {(member.key, member.holder): member for member in audit.members}
    recorded = {event.event_id for event in audit.inbox}
    wanted: dict[tuple[str, str], bool] = {}
    if workflow.rate_limit_key is not None:
        wanted[(workflow.rate_limit_key, workflow.workflow_id)] = workflow.rate_limited
    for task in audit.attempts:
        if task.limit_key is None:
            continue
        if task.status.terminal:
            yield f"{task.ref} attempt {task.attempt} is {task.status} and belongs to {task.limit_key!r}"
        place = (task.limit_key, task.task_id)
        # What is only dated is a member no longer once it has begun.
        if task.status is TaskStatus.PENDING or place in members:
            wanted[place] = task.status is TaskStatus.PENDING
    for place, waits in wanted.items():
        member = members.get(place)
        if member is None:
            yield f"{place[1]} is not known to {place[0]!r}"
        elif member.state is MemberState.RESERVED and not waits and f"{EventKind.OFFER_ENDS}:{member.ref}" not in recorded:
            yield f"{place[1]} is offered, and nothing takes back what nobody takes"
        elif waits != (member.state is MemberState.WAITING) and not (waits and (place[1] in coming or behind)):
            yield f"{place[1]} {'waits' if waits else 'has its slot'}, but {place[0]!r} says {member.state}"
    for place in members.keys() - wanted.keys():
        yield f"{place[0]!r} counts {place[1]}, which has no part in it"


def limit_findings(limit: Limit, members: Sequence[Member]) -> list[Finding]:
    """Everything that does not hold of one limit: its counts are those of its members, and no slot is idle."""
    law, found = "slots_are_counted_and_used", []
    in_use, reserved = slots_taken(members)
    if (limit.in_use, limit.reserved) != (in_use, reserved):
        found.append(f"counts {limit.in_use} in use and {limit.reserved} reserved, there are {in_use} and {reserved}")
    if any(member.number > limit.number for member in members):
        found.append(f"counts {limit.number} admissions, and has a member of a later one")
    if (limit.alarm is None) is not (limit.alarm_at is None):
        found.append(f"has {limit.alarm} look again at {limit.alarm_at}")
    numbers = (limit.fence, limit.depth, limit.span_ms, limit.number, limit.read_at, limit.steady)
    if min(numbers) < 0 or max(numbers) >= 1 << 50 or list(limit.log) != sorted(limit.log):
        found.append(f"has impossible numbers: fence {limit.fence}, depth {limit.depth}, span {limit.span_ms}, {limit.number}")
    tagged = [member for member in members if member.cost or member.start_tag or member.fairness_key]
    if limit.tags or tagged:
        from conductorlite.model.fairness import SCALE, unpaid

        found += [
            f"has {member.holder} pay {member.cost} for {member.fairness_key!r} from {member.start_tag} on"
            for member in tagged
            if not limit.tags or not 0 < member.cost <= SCALE or member.start_tag < 0
        ]
        waiting = [member for member in tagged if member.waits]
        found += unpaid(limit.tags, [(member.priority, member.fairness_key, member.cost) for member in waiting])
    head = could_go(limit, members)
    if head is not None:
        found.append(f"{head.holder} waits for a slot that is free")
    return [Finding(law=law, workflow_id=limit.key, text=text) for text in found]


def slots_taken(members: Sequence[Member]) -> tuple[int, int]:
    """Return how many slots members use, and how many are reserved for them."""
    in_use = sum(member.state is not MemberState.WAITING and member.concurrent > 0 for member in members)
    return in_use, sum(member.state is MemberState.RESERVED for member in members)


def could_go(limit: Limit, members: Sequence[Member]) -> Member | None:
    """The first in the line, if nothing keeps it from its slot."""
    line = [member for member in members if member.state is MemberState.WAITING and member.lane not in limit.unpolled]
    head = min(line, key=lambda member: member.place, default=None)
    if head is None or (head.concurrent > 0 and limit.in_use >= head.concurrent) or (head.rate > 0 and limit.reserved > 0):
        return None
    return None if limit.alarm == head.holder and limit.alarm_at is not None else head


#: Every law, by name.
INVARIANTS: Final[dict[str, Callable[[ExecutionAudit], Iterator[str]]]] = {
    law.__name__: law
    for law in (
        one_live_attempt,
        counters_equal_counts,
        nothing_of_the_ended,
        open_tasks_are_reachable,
        time_runs_forward,
        transitions_are_in_the_table,
        the_journal_replays_to_the_rows,
        compensations_undo_what_completed,
        slots_are_those_of_the_rows,
        events_are_the_owners,
        messages_are_received_once,
        emitted_values_are_kept,
    )
}


def findings(audit: ExecutionAudit) -> list[Finding]:
    """Everything that does not hold of one execution."""
    return [
        Finding(law=name, workflow_id=audit.workflow.workflow_id, text=text)
        for name, law in INVARIANTS.items()
        for text in law(audit)
    ]
