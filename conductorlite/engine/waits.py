"""The reasons why open tasks of an execution wait, and their wording: workers, slots, timers, tasks, executions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import attrs

from conductorlite.decide.operators.worker import POLLED_LATELY_MS
from conductorlite.decide.reports import ALONE_AFTER
from conductorlite.engine.causes import SHOWN, listed
from conductorlite.model.decisions import DEADLINES, Event, EventKind, version_of
from conductorlite.model.definitions import TaskType, debounce_key
from conductorlite.model.executions import (
    HistoryEvent,
    HistoryKind,
    PollData,
    Reason,
    ReasonKind,
    Task,
    Workflow,
    printed_ref,
)
from conductorlite.model.limits import Limit, Member, MemberState, admission
from conductorlite.model.mailbox import DEFAULT_TOPIC, topic_of
from conductorlite.model.policies import task_policy
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import instant_in_words, span_in_words
from conductorlite.plan.grafts import unfolded
from conductorlite.plan.tree import OPERATOR_TYPES, SHIPPED_TYPES, TreePosition, positions
from conductorlite.store.ports import ReadingTransaction

__all__ = [
    "REOPENED_BY",
    "TAKEN_BACK",
    "DrivenLeft",
    "Facts",
    "Standing",
    "Waits",
    "because",
    "held_event",
    "is_taken_back",
    "standings",
    "versions",
]


#: So many PENDING tasks of an execution are named with their place in the wait queue.
_NAMED: Final = 50


@attrs.frozen(kw_only=True, slots=True)
class Standing:
    """The position of an execution or a task before a limit.

    It gives the limit, itself, how many come before it in the line, and the line's head.
    """

    limit: Limit
    member: Member
    before: int = 0
    head: Member | None = None


def standings(view: ReadingTransaction, workflows: Iterable[Workflow], ref: str | None) -> dict[str, Standing]:
    """Return how executions, and the first of their PENDING tasks (or those at `ref`), stand to the limits they wait for; by id."""
    found: dict[str, Standing] = {}
    for row in workflows:
        waiting = [(row.rate_limit_key, row.workflow_id)] if row.rate_limited else []
        pending = (task for task in row.tasks if task.status is TaskStatus.PENDING and ref in (None, task.ref, task.base_ref))
        waiting += [(task.limit_key, task.task_id) for task in islice(pending, _NAMED)]
        for key, holder in waiting:
            member = None if key is None else view.limits.member(key, holder)
            if key is not None and member is not None:
                line = view.limits.line(key, 1)
                before = view.limits.waiting(key, member)
                found[holder] = Standing(limit=line.limit, member=member, before=before, head=line.head)
    return found


def _why_it_waits(standing: Standing | None, key: str | None, now: int) -> str:
    """Return what is in the way of a slot, and the place in the line; what is not known is not said."""
    if standing is None:
        return f"it waits for a slot of {key}"
    limit, member = standing.limit, standing.member
    if member.state is not MemberState.WAITING:
        return f"it was given a slot of {limit.key} and has not taken it up: drive the engine"
    if member.lane in limit.unpolled:
        return f"nobody takes what {limit.key} offers in queue {member.lane!r}; its line goes on there with the next poll"
    place = "it is next in the line" if not standing.before else f"it is number {standing.before + 1} in the line"
    if member.cost:
        place += f", by the turns of {member.fairness_key!r}" if member.fairness_key else ", by the turns of those without a key"
    return f"{_in_the_way(standing, now)}; {place}{_moving(standing, now)}"


def _in_the_way(standing: Standing, now: int) -> str:
    limit, terms = standing.limit, standing.member.terms
    if terms.concurrent and limit.in_use == terms.concurrent:
        slots, are = ("slot", "is") if terms.concurrent == 1 else ("slots", "are")
        return f"{limit.in_use} of {terms.concurrent} {slots} of {limit.key} {are} in use"
    if terms.concurrent and limit.in_use > terms.concurrent:
        return f"{limit.in_use} slots of {limit.key} are in use, and its definition allows {terms.concurrent}"
    begun = limit.reserved + sum(1 for at in limit.log if at > now - terms.window_ms)
    if terms.rate and begun >= terms.rate:
        many = f"{begun} of {terms.rate}" if begun == terms.rate else f"{begun}, where its definition allows {terms.rate},"
        offered = " or are offered" if limit.reserved else ""
        return f"{many} of {limit.key} have begun within {span_in_words(terms.window_ms)}{offered}"
    return f"the line of {limit.key} is strict, and the first in it waits"


def _moving(standing: Standing, now: int) -> str:
    """Return when the first in the line may go, if that is known."""
    if standing.head is None:
        return ""
    at = admission(standing.limit, standing.head.terms, now)
    return f", and the window moves in {span_in_words(at - now)}" if at is not None and at > now else ""


#: How much driven time is left of deadlines that no definition sets, ms, by execution and id of the timer.
DrivenLeft = Mapping[tuple[str, str], int]

_NAMES: Final = {
    "poll_timeout_at": "poll timeout",
    "response_timeout_at": "response timeout",
    "timeout_at": "task timeout",
    "total_timeout_at": "total timeout",
}


def _next_deadline(task: Task, now: int, left: DrivenLeft) -> tuple[int, str] | None:
    """The next deadline of a task, and the words for it; None when it has none."""
    instants = []
    for field, name in _NAMES.items():
        at: int | None = getattr(task, field)
        if at is not None:
            driven = left.get((task.workflow_id, f"{DEADLINES[field]}:{task.ref}"))
            instants.append((at if driven is None else now + driven, name, "" if driven is None else " of driven time"))
    if not instants:
        return None
    at, name, counts = min(instants)
    if at > now:
        return at, f"its {name} comes in {span_in_words(at - now)}{counts}"
    return at, f"its {name} is {'now' if at == now else f'overdue for {span_in_words(now - at)}'}"


#: Verbs that take back what an execution has done, in words.
TAKEN_BACK: Final = {"RERUN": "rerun", "RESTART": "restarted"}


#: How the reason of a line begins by which an attempt is offered once more.
_GIVEN_BACK: Final = "given back: "


def is_taken_back(line: HistoryEvent) -> bool:
    """Return True if a line records that a verb has taken back what was done."""
    return line.kind is HistoryKind.VERB and line.status in TAKEN_BACK


def versions(line: HistoryEvent) -> str:
    """Between which versions a MIGRATED line records a move."""
    said = {} if line.payload is None else line.payload.value
    return f"from version {said['from']['version']} to {said['to']['version']}"


def _in_domain(domain: str | None) -> str:
    """The domain, or the version, of the workers that a task waits for."""
    version = version_of(domain)
    return f" of version {version}" if version is not None else f" in domain {domain}" if domain else ""


def _given_back(task: Task, history: Sequence[HistoryEvent]) -> str:
    """Return a note that an offered attempt was given back, who gave it back and why, and what follows from deaths."""
    of_it = (line for line in reversed(history) if line.kind is HistoryKind.TASK and line.ref == task.ref)
    line = next((line for line in of_it if line.attempt == task.attempt), None)
    why = "" if line is None or not (line.reason or "").startswith(_GIVEN_BACK) else f", {line.reason}"
    return f"{why}{_deaths(task)}"


def _deaths(task: Task) -> str:
    """Return how often the worker's process has died while it held an attempt, and whether the attempt is therefore alone."""
    if not task.deaths:
        return ""
    alone = "alone, " if task.deaths >= ALONE_AFTER else ""
    return f", {alone}after {task.deaths} death{'s' if task.deaths > 1 else ''} of its worker's process"


#: What an ended execution is to do once it has a slot, by the event that waits for it.
REOPENED_BY: Final = {
    EventKind.RETRY: "retried",
    EventKind.RERUN: "rerun",
    EventKind.CHILD_REOPENED: "reopened with the sub-workflow it had waited for",
}

_HELD: Final = {
    EventKind.POLL_TIMEOUT: "the poll timeout of",
    EventKind.RESPONSE_TIMEOUT: "the response timeout of",
    EventKind.TASK_TIMEOUT: "the task timeout of",
    EventKind.TOTAL_TIMEOUT: "the total timeout of",
    EventKind.CONTINUE: "what follows",
    EventKind.ADMISSION: "the slot or the retry of",
}


def held_event(event: Event) -> str:
    """One held event."""
    if event.ref is not None:
        return f"{_HELD.get(event.kind, str(event.kind))} {event.ref}"
    if event.kind is EventKind.ADMISSION:
        return "its own slot"
    return "its first task" if event.kind is EventKind.START else "the rest of a cut turn"


#: Where the workers are that we ship and no engine has unasked.
_SHIPPED_IN: Final = "conductorlite.ext.workers.system_workers"

#: The kind of a wait, the words for it, and since or until when it is.
_Wait = tuple[ReasonKind, str, int | None]

#: Waits that end by themselves, whatever deadline is behind them.
_PATIENT: Final[frozenset[ReasonKind]] = frozenset({"RETRY", "DELAY", "TIME", "ROUND"})


@attrs.define(slots=True, kw_only=True)
class Facts:
    """An execution (as `Engine.get` returns it, with the events of its inbox) at an instant, and how what is known of it is said.

    What is not given is not known: `history`, with its payloads, says what was rerun, moved or dropped; `below` holds the
    executions that open tasks wait for, by id, with their inboxes; `polls` say who asked for tasks of a domain; `standings` say
    how tasks and executions, by id, stand to the limits whose slots they wait for; `left` is what is left of deadlines that count
    driven time; `put_aside` says that its turn waits for foreign code in this process.
    """

    workflow: Workflow
    inbox: Sequence[Event]
    now: int
    history: Sequence[HistoryEvent] = ()
    below: Mapping[str, tuple[Workflow, Sequence[Event]]] = attrs.field(factory=dict)
    polls: Sequence[PollData] | None = None
    standings: Mapping[str, Standing] = attrs.field(factory=dict)
    left: DrivenLeft = attrs.field(factory=dict)
    put_aside: bool = False
    #: Where a step of a workflow is written, by their names.
    line_of: Callable[[str, str], str | None] = attrs.field(default=lambda workflow, ref: None)
    places: dict[str, TreePosition] = attrs.field(init=False, factory=dict)
    last: dict[str, Task] = attrs.field(init=False, factory=dict)
    newest: dict[str, Task] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.places = positions(unfolded(self.workflow), compensations=True)
        for task in self.workflow.tasks:
            self.last[task.ref] = task
            self.newest[task.base_ref] = task

    def say(self, kind: ReasonKind, text: str, task: Task | None = None, at: int | None = None, *, further: bool = False) -> Reason:
        """A reason, of the execution or of a task of it."""
        ref = None if task is None else task.ref
        return Reason(kind=kind, workflow_id=self.workflow.workflow_id, ref=ref, at=at, text=text, further=further)

    def ago(self, at: int) -> str:
        """Return how long ago an instant was."""
        return f"{span_in_words(self.now - at)} ago" if at < self.now else "just now"

    def since(self, at: int) -> str:
        """For how long something has been so since an instant."""
        return f"for {span_in_words(self.now - at)}" if at < self.now else "since just now"

    def ahead(self, at: int) -> str:
        """In how long an instant comes."""
        return f"in {span_in_words(at - self.now)}" if at > self.now else "now" if at == self.now else f"overdue {self.since(at)}"

    def named(self, task: Task) -> str:
        """A task as a person names it: its reference, its name or type, and where it is written."""
        kind = task.name if task.task_type not in OPERATOR_TYPES else task.task_type
        more = [*([] if kind == task.ref else [kind]), *filter(None, [self.line_of(self.workflow.name, task.base_ref)])]
        return f"{task.ref} ({', '.join(more)})" if more else task.ref

    def attempt(self, task: Task) -> str:
        """Return the number of the attempt, and of how many."""
        number = task.attempt - task.first_attempt + 1
        place = self.places.get(task.base_ref)
        if place is None:
            return f"attempt {number}"
        policy = task_policy(place.task, self.workflow.semantics, operator=place.task.type in OPERATOR_TYPES)
        return f"attempt {number} of {max(number, policy.retry_count + 1)}"


class Waits:
    """The things that the open tasks of an execution wait for."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def open_tasks(self) -> Iterator[Reason]:
        """Yield what the first open tasks wait for, or when the first one is scheduled."""
        waiting = [task for task in self._facts.workflow.tasks if not task.retried and not task.status.terminal]
        # A loop is explained by what is open in it, a JOIN by what it waits for: workers and timers come first.
        waiting.sort(key=lambda task: task.task_type in (TaskType.JOIN, TaskType.EXCLUSIVE_JOIN, TaskType.DO_WHILE))
        for task in waiting[:SHOWN]:
            yield from self.of_task(task)
        if len(waiting) > SHOWN:
            yield self._facts.say("MORE", f"{len(waiting) - SHOWN} more tasks are open")
        starts = [event.due_at for event in self._facts.inbox if event.kind is EventKind.START]
        if not waiting and starts:
            at = min(starts)
            key = debounce_key(self._facts.workflow.idempotency_key)
            unless = "" if key is None else f", unless it is started again with the key {key!r} before"
            yield self._facts.say(
                "DELAY", f"Its first task is scheduled at {instant_in_words(at)} ({self._facts.ahead(at)}){unless}", at=at
            )

    def limited(self) -> str:
        """Return a note that the execution waits for a slot of its own."""
        row = self._facts.workflow
        if row.rate_limit_key is None:
            return "asks for its slot when it is resumed"
        standing = self._facts.standings.get(row.workflow_id)
        asked = "" if standing is None else f" {self._facts.since(standing.member.asked_at)}"
        return f"waits for its slot{asked}: {_why_it_waits(standing, row.rate_limit_key, self._facts.now)}"

    # ------------------------------------------------------------------ one task

    def of_task(self, task: Task) -> Iterator[Reason]:
        """Yield what an open task waits for, its next deadline, and what is waited for below it."""
        kind, text, at = self._wait(task)
        yield self._facts.say(kind, f"{self._facts.named(task)} {text}", task, at)
        deadline = (
            None
            if self._facts.workflow.status.terminal or kind in _PATIENT
            else _next_deadline(task, self._facts.now, self._facts.left)
        )
        if deadline is not None:
            yield self._facts.say("DEADLINE", deadline[1], task, deadline[0], further=True)
        if task.task_type == TaskType.SUB_WORKFLOW and task.sub_workflow_id is not None:
            yield from self._there(task.sub_workflow_id)

    def _wait(self, task: Task) -> _Wait:
        if task.status is TaskStatus.PENDING:
            return "SLOT", f"is PENDING{self._pending(task)}", None
        place = self._facts.places.get(task.base_ref)
        if task.status is TaskStatus.SCHEDULED and place is not None and place.task.type in OPERATOR_TYPES:
            return "RETRY", f"is due for retry {self._facts.ahead(task.due_at)}, {self._delayed(task)}", task.due_at
        if task.task_type in _WAITS:
            return _WAITS[task.task_type](self, task)
        if task.status is TaskStatus.SCHEDULED:
            return self._offered(task)
        worker = f"with worker {task.worker_id}" if task.worker_id else "in progress"
        text = f"is {worker} {self._facts.since(task.started_at)}, {self._facts.attempt(task)}{_deaths(task)}"
        return "WITH_WORKER", text, task.started_at

    def _pending(self, task: Task) -> str:
        if self._facts.workflow.rate_limited:
            return " until its execution has a slot"
        if task.limit_key is not None:
            standing = self._facts.standings.get(task.task_id)
            asked = "" if standing is None else f" {self._facts.since(standing.member.asked_at)}"
            again = f", {self._facts.attempt(task)}" if task.attempt > task.first_attempt else ""
            return f"{asked}{again}: {_why_it_waits(standing, task.limit_key, self._facts.now)}"
        if task.due_at > self._facts.now:
            return f" and asks for its slot {self._facts.ahead(task.due_at)}, {self._delayed(task)}"
        paused = self._facts.workflow.status is WorkflowStatus.PAUSED
        return f" and asks for its slot {'when the execution is resumed' if paused else 'in the next turn'}"

    def _delayed(self, task: Task) -> str:
        """Why a task that workers carry out is not due yet."""
        before = self._attempt_before(task)
        if before is not None:
            how = "timed out" if before.status is TaskStatus.TIMED_OUT else "failed"
            return f"after {self._facts.attempt(before)} {how}{because(before)}"
        return "as its worker asked" if task.poll_count else "after its start delay"

    def _offered(self, task: Task) -> _Wait:
        queue = f"type {task.task_type}" + _in_domain(task.domain)
        if task.due_at <= self._facts.now:
            again = f", {self._facts.attempt(task)}" if task.attempt > task.first_attempt else ""
            shipped = f" ({_SHIPPED_IN} has one; include it)" if task.task_type in SHIPPED_TYPES else ""
            waits = f"waits for a worker of {queue}{shipped} {self._facts.since(task.due_at)}"
            return "WORKER", f"{waits}{again}{_given_back(task, self._facts.history)}{self._unpolled(task)}", task.due_at
        if self._attempt_before(task) is not None:
            return "RETRY", f"is due for retry {self._facts.ahead(task.due_at)}, {self._delayed(task)}", task.due_at
        return "DELAY", f"is offered to workers of {queue} {self._facts.ahead(task.due_at)}, {self._delayed(task)}", task.due_at

    def _unpolled(self, task: Task) -> str:
        """Return a note that no worker has asked for tasks of a domain lately."""
        if not task.domain or self._facts.polls is None:
            return ""
        asked = [
            poll.last_poll_time for poll in self._facts.polls if (poll.queue_name, poll.domain) == (task.task_type, task.domain)
        ]
        late = not asked or max(asked) + POLLED_LATELY_MS < self._facts.now
        said = f", for which somebody last polled {self._facts.ago(max(asked))}" if asked else ", for which nobody has ever polled"
        return f"{said}{self._other_versions(task)}" if late else ""

    def _other_versions(self, task: Task) -> str:
        """Return the versions of workers that poll, where the one that a task keeps to does not."""
        if version_of(task.domain) is None or self._facts.polls is None:
            return ""
        polled = (
            one
            for one in self._facts.polls
            if one.queue_name == task.task_type and one.last_poll_time + POLLED_LATELY_MS >= self._facts.now
        )
        found = sorted({version_of(one.domain) or "" for one in polled})
        if not found:
            return ""
        named = listed([f"version {one}" if one else "no version" for one in found])
        return f"; workers of {named} poll, and take over none of this version"

    def _attempt_before(self, task: Task) -> Task | None:
        earlier = [t for t in self._facts.workflow.tasks if t.ref == task.ref and t.attempt == task.attempt - 1]
        return earlier[-1] if earlier and not task.poll_count else None

    def _waiting(self, task: Task) -> _Wait:
        if task.wait_until is None:
            return "COMPLETION", f"waits for somebody to complete it, {self._facts.since(task.started_at)}", task.started_at
        until = task.wait_until
        return "TIME", f"ends its wait at {instant_in_words(until)} ({self._facts.ahead(until)})", until

    def _receiving(self, task: Task) -> _Wait:
        topic = None if task.input.absent or task.input.external is not None else topic_of(task.input.value)
        text = f"waits for a message of topic {topic or DEFAULT_TOPIC}, {self._facts.since(task.started_at)}"
        if task.wait_until is None:
            return "MESSAGES", text, task.started_at
        return "MESSAGES", f"{text}, and goes on without one {self._facts.ahead(task.wait_until)}", task.wait_until

    def _joining(self, task: Task) -> _Wait:
        place = self._facts.places.get(task.base_ref)
        refs = [printed_ref(ref, task.iterations) for ref in dict.fromkeys(place.task.join_on if place else ())]
        missing = [ref for ref in refs if ref not in self._facts.last or self._facts.last[ref].live]
        waits = f"waits for {listed(missing)}" if missing else "waits for its turn"
        return "TASKS", f"{waits} ({len(refs) - len(missing)} of {len(refs)} ended)", None

    def _joining_one(self, task: Task) -> _Wait:
        place = self._facts.places.get(task.base_ref)
        for refs in (place.task.join_on, place.task.default_exclusive_join_task) if place else ():
            printed = dict.fromkeys(printed_ref(ref, task.iterations) for ref in refs)
            rows = [
                self._facts.last[ref]
                for ref in printed
                if ref in self._facts.last and self._facts.last[ref].status is not TaskStatus.SKIPPED
            ]
            still = [row.ref for row in rows if row.live]
            come = [ref for ref in printed if ref not in self._facts.last]
            if still or (rows and come):
                later = f" ({listed(come)} not scheduled yet)" if still and come else ""
                first = f"the first of {listed(still)}" if len(still) > 1 else listed(still or come)
                return "TASKS", f"waits for {first} to end{later}", None
        return "TASKS", "waits to see which of the tasks it joins will be scheduled", None

    def _looping(self, task: Task) -> _Wait:
        return "ROUND", f"is in round {task.round}" if task.round else "has not begun its first round", None

    def _beneath(self, task: Task) -> _Wait:
        if task.sub_workflow_id is None:
            return "SUB_WORKFLOW", "has not started its sub-workflow yet", None
        text = f"waits for its sub-workflow {task.sub_workflow_id}, {self._facts.since(task.started_at)}"
        return "SUB_WORKFLOW", text, task.started_at

    def _there(self, workflow_id: str) -> Iterator[Reason]:
        """Yield what a sub-workflow waits for itself, down to what nothing below explains."""
        if workflow_id not in self._facts.below:
            return
        workflow, inbox = self._facts.below[workflow_id]
        facts = attrs.evolve(self._facts, workflow=workflow, inbox=inbox, history=())
        if workflow.parked is not None or workflow.status is not WorkflowStatus.RUNNING:
            status: ReasonKind = "PARKED" if workflow.parked is not None else "PAUSED" if not workflow.status.terminal else "ENDED"
            yield facts.say(status, f"it is {'parked' if status == 'PARKED' else workflow.status}", further=True)
            return
        for number, reason in enumerate(Waits(facts).open_tasks()):
            if number and not reason.further:
                return
            yield reason if number else attrs.evolve(reason, text=f"there {reason.text}", further=True)

    def _starting(self, task: Task) -> _Wait:
        if task.due_at > self._facts.now:
            return "SUB_WORKFLOW", f"starts another execution {self._facts.ahead(task.due_at)}, after its start delay", task.due_at
        return "SUB_WORKFLOW", f"waits for the execution it starts to begin, {self._facts.since(task.due_at)}", task.due_at


_WAITS: Final[dict[str, Callable[[Waits, Task], _Wait]]] = {
    TaskType.WAIT: Waits._waiting,
    TaskType.HUMAN: Waits._waiting,
    TaskType.PULL_WORKFLOW_MESSAGES: Waits._receiving,
    TaskType.JOIN: Waits._joining,
    TaskType.EXCLUSIVE_JOIN: Waits._joining_one,
    TaskType.DO_WHILE: Waits._looping,
    TaskType.SUB_WORKFLOW: Waits._beneath,
    TaskType.START_WORKFLOW: Waits._starting,
}


def because(task: Task) -> str:
    """The reason a task ended with, if any."""
    return f' with "{" ".join(task.reason.split())}"' if task.reason else ""
