"""Why an execution waits, or how it ended, in one paragraph: it follows from rows, inbox and definition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from conductorlite.decide.operators.worker import POLLED_LATELY_MS
from conductorlite.engine.causes import TOLD, instant_in_words, listed, nulls, output_nulls, span_in_words
from conductorlite.engine.waits import (
    REOPENED_BY,
    TAKEN_BACK,
    DrivenLeft,
    Standing,
    deaths,
    dropped,
    given_back,
    held_event,
    is_taken_back,
    next_deadline,
    versions,
    why_it_waits,
)
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.definitions import LOOP_DELIMITER, TaskType, WorkflowDef, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.model.executions import HistoryEvent, HistoryKind, PollData, Task, Workflow, printed_ref
from conductorlite.model.policies import task_policy
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.grafts import unfolded
from conductorlite.plan.tree import OPERATOR_TYPES, SHIPPED_TYPES, TreePosition, positions

__all__ = ["explain"]

#: Where the workers are that we ship and nobody gets unasked.
_SHIPPED_IN: Final = "conductorlite.ext.workers.system_workers"

_NOTHING_BELOW: Final[Mapping[str, tuple[Workflow, Sequence[Event]]]] = {}
_NO_STANDINGS: Final[Mapping[str, Standing]] = {}

_COUNTED: Final[DrivenLeft] = {}


def explain(
    workflow: Workflow,
    inbox: Iterable[Event],
    now: int,
    *,
    ref: str | None = None,
    history: Iterable[HistoryEvent] = (),
    below: Mapping[str, tuple[Workflow, Sequence[Event]]] = _NOTHING_BELOW,
    polls: Iterable[PollData] | None = None,
    former: Sequence[WorkflowDef] = (),
    standings: Mapping[str, Standing] = _NO_STANDINGS,
    left: DrivenLeft = _COUNTED,
) -> str:
    """Why an execution (as `Engine.get` returns it, with the events of its inbox) waits at `now`, or why it ended as it did.

    With `ref` (of the definition or as printed) the paragraph is about that task: where it stands, or why it never ran. What is
    not given is not told: `history`, with its payloads, tells what was rerun, moved or dropped; `below` holds the executions that
    open tasks wait for, by id, with their inboxes; `polls` say who asked for tasks of a domain; `former` are definitions that
    the execution was on before; `standings` tell how tasks and executions, by id, stand to the limits whose slots they wait for;
    `left` is what is left of deadlines that count driven time.
    """
    case = _Case(
        workflow=workflow, inbox=tuple(inbox), now=now, history=tuple(history), below=below,
        polls=None if polls is None else tuple(polls), former=former, standings=standings, left=left,
    )  # fmt: skip
    return " ".join(case.of_task(ref) if ref is not None else case.of_workflow())


@attrs.define(slots=True)
class _Case:
    workflow: Workflow
    inbox: tuple[Event, ...]
    now: int
    history: tuple[HistoryEvent, ...] = ()
    below: Mapping[str, tuple[Workflow, Sequence[Event]]] = _NOTHING_BELOW
    polls: tuple[PollData, ...] | None = None
    former: Sequence[WorkflowDef] = ()
    standings: Mapping[str, Standing] = _NO_STANDINGS
    left: DrivenLeft = _COUNTED
    places: dict[str, TreePosition] = attrs.field(factory=dict)
    last: dict[str, Task] = attrs.field(factory=dict)
    newest: dict[str, Task] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.places = positions(unfolded(self.workflow), compensations=True)
        for task in self.workflow.tasks:
            self.last[task.ref] = task
            self.newest[task.base_ref] = task

    def ago(self, at: int) -> str:
        return f"{span_in_words(self.now - at)} ago" if at < self.now else "just now"

    def since(self, at: int) -> str:
        return f"for {span_in_words(self.now - at)}" if at < self.now else "since just now"

    def ahead(self, at: int) -> str:
        return f"in {span_in_words(at - self.now)}" if at > self.now else "now" if at == self.now else f"overdue {self.since(at)}"

    # ------------------------------------------------------------------ the execution

    def of_workflow(self) -> Iterator[str]:
        row = self.workflow
        name = f"{row.name} ({row.workflow_id})"
        if row.status.terminal:
            yield from self.ended(name)
            return
        if row.parked is not None:
            yield (
                f"{name} is parked: {row.parked}. No more turns are taken: resume tries again from the last good commit, "
                "terminate ends it."
            )
        elif row.status is WorkflowStatus.PAUSED:
            yield f"{name} is PAUSED: nothing more is scheduled until it is resumed."
            held = [event for event in sorted(self.inbox, key=lambda event: event.order) if event.held]
            if held:
                many = len(held) != 1
                yield f"{len(held)} event{'s are' if many else ' is'} held: {listed([held_event(event) for event in held])}."
        else:
            yield f"{name} is RUNNING {self.since(row.created_at)}."
        yield from self.turned()
        if row.rate_limited:
            yield f"It {self.limited()}."
        if row.compensating is not None:
            why = f": {row.reason.rstrip('.')}" if row.reason else ""
            yield f"It is being compensated and will end {row.compensating}{why}."
            yield from self.undoing()
        yield from self.open_tasks()
        yield from self.timers()

    def turned(self) -> Iterator[str]:
        """That the execution was run again, or moved to another definition: the last time of each."""
        again = next((line for line in reversed(self.history) if is_taken_back(line)), None)
        if again is not None:
            where = f" from {again.ref}" if again.ref else " from the start" if again.status == "RERUN" else ""
            yield f"It was {TAKEN_BACK[again.status]}{where} {self.ago(again.at)}."
        moved = next((line for line in reversed(self.history) if line.kind is HistoryKind.MIGRATED), None)
        if moved is not None:
            yield f"It was moved {versions(moved)} {self.ago(moved.at)}."

    def undoing(self) -> Iterator[str]:
        """What is undone by now, and what is left to undo, in that order."""
        rows = [task for task in self.last.values() if task.status in _DONE]
        rows.sort(key=lambda task: (task.ended_at, task.seq), reverse=True)
        by = {row.ref: self.compensation_of(row) for row in rows}
        undone = [ref for ref, (owed, row) in by.items() if owed and row is not None and row.status.successful]
        failed = [ref for ref, (owed, row) in by.items() if owed and row is not None and row.failed]
        left = [ref for ref, (owed, row) in by.items() if owed and row is None]
        for text, refs in (("Undone", undone), ("Could not be undone", failed), ("Left to undo", left)):
            if refs:
                yield f"{text}: {listed(refs)}."

    def compensation_of(self, task: Task) -> tuple[bool, Task | None]:
        """Whether something undoes a task, and its row if it has begun."""
        place = self.places.get(task.base_ref)
        undo = None if place is None else place.task.compensation
        if undo is None:
            return False, None
        return True, self.last.get(printed_ref(undo.task_reference_name, task.iterations))

    def open_tasks(self) -> Iterator[str]:
        waiting = [task for task in self.workflow.tasks if not task.retried and not task.status.terminal]
        # A loop is explained by what is open in it, a JOIN by what it waits for: workers and timers come first.
        waiting.sort(key=lambda task: task.task_type in (TaskType.JOIN, TaskType.EXCLUSIVE_JOIN, TaskType.DO_WHILE))
        for task in waiting[:TOLD]:
            yield self.waits(task) + "."
        if len(waiting) > TOLD:
            yield f"{len(waiting) - TOLD} more tasks are open."
        starts = [event.due_at for event in self.inbox if event.kind is EventKind.START]
        if not waiting and starts:
            yield f"Its first task is scheduled at {instant_in_words(min(starts))} ({self.ahead(min(starts))})."

    def timers(self) -> Iterator[str]:
        if self.workflow.parked is not None:
            return
        due = [event for event in self.inbox if not event.held and event.due_at <= self.now]
        if due:
            many = len(due) != 1
            yield (
                f"{len(due)} event{'s' if many else ''} {'are' if many else 'is'} due and nobody has taken the turn: "
                "drive the engine."
            )
        if self.workflow.timeout_at is not None and self.workflow.timeout_at > self.now:
            definition = self.workflow.definition
            ends = definition is not None and definition.timeout_policy is WorkflowTimeoutPolicy.TIME_OUT_WF
            what = "times out" if ends else "passes its timeout, which only alerts,"
            yield f"The workflow {what} {self.ahead(self.workflow.timeout_at)}."

    def ended(self, name: str) -> Iterator[str]:
        row = self.workflow
        took = f" after {span_in_words(row.ended_at - row.created_at)}" if row.ended_at >= row.created_at else ""
        text = f"{name} is {row.status}: it ended {self.ago(row.ended_at)}{took}"
        failed = self.culprits()
        if row.status is WorkflowStatus.COMPLETED:
            many = len(row.tasks)
            yield f"{text}, with {many} task attempt{'s' if many != 1 else ''}."
            yield from (f"Of its output, {null}." for null in output_nulls(row))
            if row.permitted_failures:
                yield f"{row.permitted_failures} permitted failures did not stop it."
            return
        told = any(task.reason and task.reason in (row.reason or "") for task in failed)
        yield f"{text}: {row.reason}." if row.reason and not told else f"{text}."
        for task in failed[:TOLD]:
            yield f"{self.failure(task)}."
        never = [ref for ref, place in self.places.items() if ref not in self.newest and place.compensates is None]
        if never:
            yield f"Never scheduled: {listed(never)}."
        undone = [ref for ref, place in self.places.items() if ref in self.newest and place.compensates is not None]
        if undone:
            yield f"It was compensated by {listed(undone)}: retry is refused, restart or rerun it."
        elif row.rate_limited:
            verbs = [REOPENED_BY[event.kind] for event in self.inbox if event.held and event.kind in REOPENED_BY]
            yield f"It is to be {' and '.join(verbs) or 'reopened'} and {self.limited()}."
        else:
            yield "retry reopens it where it failed."

    def culprits(self) -> list[Task]:
        """The tasks to blame: those the workflow names, in order; a workflow that timed out or was terminated has none."""
        return [self.last[ref] for ref in dict.fromkeys(self.workflow.failed_refs) if ref in self.last]

    def failure(self, task: Task) -> str:
        return "; ".join((f"{_named(task)} is {task.status} at {self.attempt(task)}{_because(task)}", *nulls(self.workflow, task)))

    def limited(self) -> str:
        """That the execution waits for a slot of its own."""
        row = self.workflow
        if row.rate_limit_key is None:
            return "asks for its slot when it is resumed"
        standing = self.standings.get(row.workflow_id)
        asked = "" if standing is None else f" {self.since(standing.member.asked_at)}"
        return f"waits for its slot{asked}: {why_it_waits(standing, row.rate_limit_key, self.now)}"

    # ------------------------------------------------------------------ one task

    def attempt(self, task: Task) -> str:
        number = task.attempt - task.first_attempt + 1
        place = self.places.get(task.base_ref)
        if place is None:
            return f"attempt {number}"
        policy = task_policy(place.task, self.workflow.semantics, operator=place.task.type in OPERATOR_TYPES)
        return f"attempt {number} of {max(number, policy.retry_count + 1)}"

    def waits(self, task: Task) -> str:
        if task.status is TaskStatus.PENDING:
            return f"{_named(task)} is PENDING{self.pending(task)}{self.deadline(task)}"
        place = self.places.get(task.base_ref)
        if task.status is TaskStatus.SCHEDULED and place is not None and place.task.type in OPERATOR_TYPES:
            return f"{_named(task)} is due for retry {self.ahead(task.due_at)}, {self.delayed(task)}"
        if task.task_type in _WAITS:
            return f"{_named(task)} {_WAITS[task.task_type](self, task)}"
        if task.status is TaskStatus.SCHEDULED:
            return self.offered(task)
        worker = f"with worker {task.worker_id}" if task.worker_id else "in progress"
        return f"{_named(task)} is {worker} {self.since(task.started_at)}, {self.attempt(task)}{deaths(task)}{self.deadline(task)}"

    def pending(self, task: Task) -> str:
        if self.workflow.rate_limited:
            return " until its execution has a slot"
        if task.limit_key is not None:
            standing = self.standings.get(task.task_id)
            asked = "" if standing is None else f" {self.since(standing.member.asked_at)}"
            again = f", {self.attempt(task)}" if task.attempt > task.first_attempt else ""
            return f"{asked}{again}: {why_it_waits(standing, task.limit_key, self.now)}"
        if task.due_at > self.now:
            return f" and asks for its slot {self.ahead(task.due_at)}, {self.delayed(task)}"
        paused = self.workflow.status is WorkflowStatus.PAUSED
        return f" and asks for its slot {'when the execution is resumed' if paused else 'in the next turn'}"

    def delayed(self, task: Task) -> str:
        """Why a task that workers carry out is not due yet."""
        before = self.attempt_before(task)
        if before is not None:
            how = "timed out" if before.status is TaskStatus.TIMED_OUT else "failed"
            return f"after {self.attempt(before)} {how}{_because(before)}"
        return "as its worker asked" if task.poll_count else "after its start delay"

    def offered(self, task: Task) -> str:
        queue = f"type {task.task_type}" + (f" in domain {task.domain}" if task.domain else "")
        if task.due_at <= self.now:
            again = f", {self.attempt(task)}" if task.attempt > task.first_attempt else ""
            shipped = f" ({_SHIPPED_IN} has one; include it)" if task.task_type in SHIPPED_TYPES else ""
            waits = f"waits for a worker of {queue}{shipped} {self.since(task.due_at)}"
            return f"{_named(task)} {waits}{again}{given_back(task, self.history)}{self.unpolled(task)}{self.deadline(task)}"
        if self.attempt_before(task) is not None:
            return f"{_named(task)} is due for retry {self.ahead(task.due_at)}, {self.delayed(task)}"
        return f"{_named(task)} is offered to workers of {queue} {self.ahead(task.due_at)}, {self.delayed(task)}"

    def unpolled(self, task: Task) -> str:
        """That nobody has asked for tasks of a domain lately."""
        if not task.domain or self.polls is None:
            return ""
        asked = [poll.last_poll_time for poll in self.polls if (poll.queue_name, poll.domain) == (task.task_type, task.domain)]
        if not asked:
            return ", for which nobody has ever polled"
        late = max(asked) + POLLED_LATELY_MS < self.now
        return f", for which somebody last polled {self.ago(max(asked))}" if late else ""

    def attempt_before(self, task: Task) -> Task | None:
        earlier = [t for t in self.workflow.tasks if t.ref == task.ref and t.attempt == task.attempt - 1]
        return earlier[-1] if earlier and not task.poll_count else None

    def deadline(self, task: Task) -> str:
        """The next deadline of a task, in words."""
        return "" if self.workflow.status.terminal else next_deadline(task, self.now, self.left)

    def waiting(self, task: Task) -> str:
        if task.wait_until is None:
            return f"waits for somebody to complete it, {self.since(task.started_at)}{self.deadline(task)}"
        return f"ends its wait at {instant_in_words(task.wait_until)} ({self.ahead(task.wait_until)})"

    def joining(self, task: Task) -> str:
        place = self.places.get(task.base_ref)
        refs = [printed_ref(ref, task.iterations) for ref in dict.fromkeys(place.task.join_on if place else ())]
        missing = [ref for ref in refs if ref not in self.last or self.last[ref].live]
        waits = f"waits for {listed(missing)}" if missing else "waits for its turn"
        return f"{waits} ({len(refs) - len(missing)} of {len(refs)} ended){self.deadline(task)}"

    def joining_one(self, task: Task) -> str:
        place = self.places.get(task.base_ref)
        for refs in (place.task.join_on, place.task.default_exclusive_join_task) if place else ():
            named = dict.fromkeys(printed_ref(ref, task.iterations) for ref in refs)
            rows = [self.last[ref] for ref in named if ref in self.last and self.last[ref].status is not TaskStatus.SKIPPED]
            still = [row.ref for row in rows if row.live]
            come = [ref for ref in named if ref not in self.last]
            if still or (rows and come):
                later = f" ({listed(come)} not scheduled yet)" if still and come else ""
                first = f"the first of {listed(still)}" if len(still) > 1 else listed(still or come)
                return f"waits for {first} to end{later}{self.deadline(task)}"
        return f"waits to see which of the tasks it joins will be scheduled{self.deadline(task)}"

    def looping(self, task: Task) -> str:
        return f"is in round {task.round}" if task.round else "has not begun its first round"

    def beneath(self, task: Task) -> str:
        if task.sub_workflow_id is None:
            return f"has not started its sub-workflow yet{self.deadline(task)}"
        there = self.there(task.sub_workflow_id)
        return f"waits for its sub-workflow {task.sub_workflow_id}, {self.since(task.started_at)}{self.deadline(task)}{there}"

    def there(self, workflow_id: str) -> str:
        """What a sub-workflow waits for itself, down to what nothing below explains."""
        if workflow_id not in self.below:
            return ""
        workflow, inbox = self.below[workflow_id]
        if workflow.parked is not None or workflow.status is not WorkflowStatus.RUNNING:
            return f"; it is {'parked' if workflow.parked is not None else workflow.status}"
        case = _Case(
            workflow=workflow, inbox=tuple(inbox), now=self.now, below=self.below, polls=self.polls,
            standings=self.standings, left=self.left,
        )  # fmt: skip
        first = next(case.open_tasks(), "")
        return f"; there {first.rstrip('.')}" if first else ""

    def starting(self, task: Task) -> str:
        if task.due_at > self.now:
            return f"starts another execution {self.ahead(task.due_at)}, after its start delay{self.deadline(task)}"
        return f"waits for the execution it starts to begin, {self.since(task.due_at)}{self.deadline(task)}"

    # ------------------------------------------------------------------ why not

    def of_task(self, ref: str) -> Iterator[str]:
        task = self.last.get(ref) or self.newest.get(ref)
        if task is None:
            yield self.why_not(ref) + "."
        elif task.status is TaskStatus.SKIPPED:
            then = "the flow will pass over it when it comes to it"
            if self.workflow.status.terminal or not task.skipped_ahead:
                then = "the flow never came to it" if task.skipped_ahead else "the flow has passed over it"
            yield f"{_named(task)} is SKIPPED: skip_task was used {self.ago(task.ended_at)}, and {then}."
        elif not task.status.terminal:
            yield self.waits(task) + "."
            if self.workflow.status is WorkflowStatus.PAUSED or self.workflow.parked is not None:
                yield "The execution is " + ("parked." if self.workflow.parked is not None else "PAUSED.")
        elif task.failed or task.status is TaskStatus.COMPLETED_WITH_ERRORS:
            yield f"{self.failure(task)}; that was {self.ago(task.ended_at)}."
        else:
            took = span_in_words(max(0, task.ended_at - (task.started_at or task.scheduled_at)))
            told = f"{_named(task)} is {task.status}: it ended {self.ago(task.ended_at)} after {took}{_because(task)}"
            yield "; ".join((told, *nulls(self.workflow, task))) + "."

    def why_not(self, ref: str) -> str:
        """Why a task of the definition has no row: the nearest thing before or around it that has one."""
        gone = next((line for line in reversed(self.history) if ref in dropped(line)), None)
        if gone is not None and gone.status == "DROPPED":
            return f"{ref} has run: its loop keeps its last rounds only, and dropped this one {self.ago(gone.at)}"
        place = self.places.get(ref)
        if place is None:
            return self.round_to_come(ref) or self.moved_away(ref) or f"{ref} is not a task of {self.workflow.name}"
        text = f"{ref} never ran: " if self.workflow.status.terminal else f"{ref} has not run yet: "
        if gone is not None:
            by = f"the execution was {TAKEN_BACK[gone.status]}" + (f" from {gone.ref}" if gone.ref else "")
            text = f"{ref} has not run again: {by} {self.ago(gone.at)}; "
        around: WorkflowTask | None = None
        if place.compensates is not None:
            return f"{text}it undoes {place.compensates.task_reference_name} if the execution fails after that has completed"
        while True:
            chosen = self.other_case(place)
            if chosen is not None:
                return text + chosen
            nearest = place.previous or (None if place.parent is None else place.parent.task)
            if nearest is None:
                begun = "the execution began with another definition, behind it"
                return text + (begun if self.workflow.tasks else "the execution has not begun")
            row = self.newest.get(nearest.task_reference_name)
            if row is not None:
                inside = "" if around is None else f"it is in {around.task_reference_name}, which the flow has not come to; "
                side = "before" if place.previous else "around"
                return f"{text}{inside}{row.ref}, {side} it, is {row.status}{self.instead(row)}"
            around = around if place.previous is not None else nearest
            place = self.places[nearest.task_reference_name]

    def round_to_come(self, ref: str) -> str:
        """Why a printed reference has no row: the loop around it has not come to that round, or has ended before."""
        base, _, number = ref.rpartition(LOOP_DELIMITER)
        place = self.places.get(ref.split(LOOP_DELIMITER)[0])
        if not base or not number.isdigit() or place is None or place.compensates is not None or not place.loops:
            return ""
        loop = self.newest.get(place.loops[-1])
        if loop is None:
            return ""
        if int(number) <= loop.round:
            why = f"{loop.ref} is in round {loop.round}, and in round {number} the flow did not come to it"
        else:
            why = f"{loop.ref} ended with round {loop.round}" if loop.status.terminal else f"{loop.ref} is in round {loop.round}"
        return f"{ref} {'never ran' if loop.status.terminal else 'has not run yet'}: {why}"

    def moved_away(self, ref: str) -> str:
        """Why a reference is not in the definition: the execution was moved to one without it, or with another name for it."""
        for line in reversed(self.history):
            payload = line.payload
            if line.kind is HistoryKind.MIGRATED and payload is not None:
                names = {**payload.value.get("refs", {}), **payload.value.get("renamed", {})}
                if ref in names:
                    return f"{ref} is called {names[ref]} since the execution was moved {versions(line)} {self.ago(line.at)}"
        for definition in self.former:
            if ref in positions(definition, compensations=True):
                moved = [line for line in self.history if line.kind is HistoryKind.MIGRATED]
                return f"{ref} never ran: it is not in the definition the execution was moved to {self.ago(moved[-1].at)}"
        return ""

    def instead(self, row: Task) -> str:
        """What holds the execution up behind a task that has ended."""
        if self.workflow.status.terminal:
            return f"{_because(row)}, and the execution is {self.workflow.status}"
        if not row.status.terminal:
            return ""
        held = [task.ref for task in self.workflow.tasks if not task.retried and not task.status.terminal]
        return f"{_because(row)}; still open: {listed(held)}" if held else _because(row)

    def other_case(self, place: TreePosition) -> str | None:
        """That the SWITCH around a task took another case; None when it took this one, or there is none, or it has not run."""
        switch = None if place.parent is None or place.previous is not None else place.parent.task
        if switch is None or switch.type not in _CHOOSES:
            return None
        row = self.newest.get(switch.task_reference_name)
        taken = None if row is None else row.output_data.get("selectedCase")
        if row is not None and switch.type == TaskType.DECISION:
            taken = next(iter(row.output_data.get("caseOutput", ())), None)
        if row is None or taken is None:
            return None
        cases = switch.decision_cases
        # An empty case of a DECISION stands for its default.
        there = taken in cases and (switch.type == TaskType.SWITCH or bool(cases[taken]))
        case = place.branch.key if place.branch is not None and place.branch.kind == "case" else None
        if case == (taken if there else None):
            return None
        here = "the default case" if case is None else f"the case {case!r}"
        return f"{row.ref} took the case {str(taken)!r}, and this is in {here}"


_CHOOSES: Final = frozenset({TaskType.SWITCH, TaskType.DECISION})

_WAITS: Final[dict[str, Callable[[_Case, Task], str]]] = {
    TaskType.WAIT: _Case.waiting,
    TaskType.HUMAN: _Case.waiting,
    TaskType.JOIN: _Case.joining,
    TaskType.EXCLUSIVE_JOIN: _Case.joining_one,
    TaskType.DO_WHILE: _Case.looping,
    TaskType.SUB_WORKFLOW: _Case.beneath,
    TaskType.START_WORKFLOW: _Case.starting,
}


_DONE: Final = frozenset({TaskStatus.COMPLETED, TaskStatus.COMPLETED_WITH_ERRORS})


def _named(task: Task) -> str:
    kind = task.name if task.task_type not in OPERATOR_TYPES else task.task_type
    return task.ref if kind == task.ref else f"{task.ref} ({kind})"


def _because(task: Task) -> str:
    return f' with "{" ".join(task.reason.split())}"' if task.reason else ""
