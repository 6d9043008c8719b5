"""Why an execution waits, or how it ended, in one paragraph that a person reads.

Everything said follows from the rows, the inbox and the definition; `now` only makes spans of it. Nothing here decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs

from conductorlite.decisions import Event, EventKind
from conductorlite.definitions import TaskType, WorkflowDef, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.executions import Task, TaskStatus, Workflow, WorkflowStatus, printed_ref
from conductorlite.plan import OPERATOR_TYPES, unfolded
from conductorlite.policies import task_policy

__all__ = ["explain", "span_in_words"]

#: How many open tasks, references and failures are told one by one.
_TOLD: Final = 5

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS: Final = ((86_400_000, "day"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))

#: Types whose workers we ship and nobody gets unasked, and where they are: a test compares this with what is there.
_SHIPPED: Final = frozenset({TaskType.HTTP, TaskType.EVENT, TaskType.KAFKA_PUBLISH})
_SHIPPED_IN: Final = "conductorlite.system.system_workers"

_DEADLINES: Final = {
    "poll_timeout_at": "poll timeout",
    "response_timeout_at": "response timeout",
    "timeout_at": "task timeout",
    "total_timeout_at": "total timeout",
}


def explain(workflow: Workflow, inbox: Iterable[Event], now: int, *, ref: str | None = None) -> str:
    """Why an execution (as `Engine.get` returns it, with the events of its inbox) waits at `now`, or why it ended as it did.

    With `ref` (of the definition or as printed) the paragraph is about that task: where it stands, or why it never ran.
    """
    case = _Case(workflow=workflow, inbox=tuple(inbox), now=now)
    return " ".join(case.of_task(ref) if ref is not None else case.of_workflow())


def span_in_words(span_ms: int) -> str:
    """A length of time in at most two units: `450 ms`, `3 s`, `1 min 30 s`, `29 days 23 h`."""
    if span_ms < 1_000:
        return f"{span_ms} ms"
    for place, (size, unit) in enumerate(_UNITS):
        if span_ms >= size:
            words = [_count(span_ms // size, unit)]
            rest = 0
            if place + 1 < len(_UNITS):
                smaller, below = _UNITS[place + 1]
                rest = span_ms % size // smaller
                words += [_count(rest, below)] if rest else []
            return " ".join(words)
    return f"{span_ms} ms"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}s" if unit == "day" and number != 1 else f"{number} {unit}"


def _instant(at: int) -> str:
    try:
        moment = _EPOCH + timedelta(milliseconds=at)
    except OverflowError:
        return f"{at} ms after 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def _listed(words: Sequence[str]) -> str:
    shown = list(words[:_TOLD])
    if len(words) > _TOLD:
        shown.append(f"{len(words) - _TOLD} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


@attrs.define(slots=True)
class _Place:
    """Where a task of the definition stands: what it is in, and what comes before it."""

    task: WorkflowTask
    before: WorkflowTask | None
    parent: WorkflowTask | None
    #: The case of the SWITCH around it; None for its default case.
    case: str | None = None
    #: What this task undoes, for a compensation.
    undoes: WorkflowTask | None = None


@attrs.define(slots=True)
class _Case:
    workflow: Workflow
    inbox: tuple[Event, ...]
    now: int
    places: dict[str, _Place] = attrs.field(factory=dict)
    last: dict[str, Task] = attrs.field(factory=dict)
    newest: dict[str, Task] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.places = {place.task.task_reference_name: place for place in _places(unfolded(self.workflow))}
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
            held = sum(event.held for event in self.inbox)
            waiting = f" {held} event{'s' if held != 1 else ''} {'are' if held != 1 else 'is'} held." if held else ""
            yield f"{name} is PAUSED: nothing more is scheduled until it is resumed.{waiting}"
        else:
            yield f"{name} is RUNNING {self.since(row.created_at)}."
        if row.compensating is not None:
            why = f": {row.reason.rstrip('.')}" if row.reason else ""
            yield f"It is being compensated and will end {row.compensating}{why}."
        yield from self.open_tasks()
        yield from self.timers()

    def open_tasks(self) -> Iterator[str]:
        waiting = [task for task in self.workflow.tasks if not task.retried and not task.status.terminal]
        # A loop is explained by what is open in it, a JOIN by what it waits for: workers and timers come first.
        waiting.sort(key=lambda task: task.task_type in (TaskType.JOIN, TaskType.EXCLUSIVE_JOIN, TaskType.DO_WHILE))
        for task in waiting[:_TOLD]:
            yield self.waits(task) + "."
        if len(waiting) > _TOLD:
            yield f"{len(waiting) - _TOLD} more tasks are open."
        starts = [event.due_at for event in self.inbox if event.kind is EventKind.START]
        if not waiting and starts:
            yield f"Its first task is scheduled at {_instant(min(starts))} ({self.ahead(min(starts))})."

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
            if row.permitted_failures:
                yield f"{row.permitted_failures} permitted failures did not stop it."
            return
        told = any(task.reason and task.reason in (row.reason or "") for task in failed)
        yield f"{text}: {row.reason}." if row.reason and not told else f"{text}."
        for task in failed[:_TOLD]:
            yield f"{self.failure(task)}."
        never = [ref for ref, place in self.places.items() if ref not in self.newest and place.undoes is None]
        if never:
            yield f"Never scheduled: {_listed(never)}."
        undone = [ref for ref, place in self.places.items() if ref in self.newest and place.undoes is not None]
        if undone:
            yield f"It was compensated by {_listed(undone)}: retry is refused, restart or rerun it."
        else:
            yield "retry reopens it where it failed."

    def culprits(self) -> list[Task]:
        """The tasks to blame: those the workflow names, in order; a workflow that timed out or was terminated has none."""
        return [self.last[ref] for ref in dict.fromkeys(self.workflow.failed_refs) if ref in self.last]

    def failure(self, task: Task) -> str:
        return f"{_named(task)} is {task.status} at {self.attempt(task)}{_because(task)}"

    # ------------------------------------------------------------------ one task

    def attempt(self, task: Task) -> str:
        number = task.attempt - task.first_attempt + 1
        place = self.places.get(task.base_ref)
        if place is None:
            return f"attempt {number}"
        policy = task_policy(place.task, self.workflow.semantics, operator=place.task.type in OPERATOR_TYPES)
        return f"attempt {number} of {max(number, policy.retry_count + 1)}"

    def waits(self, task: Task) -> str:
        if task.task_type in _WAITS:
            return f"{_named(task)} {_WAITS[task.task_type](self, task)}"
        if task.status is TaskStatus.SCHEDULED:
            return self.offered(task)
        worker = f"with worker {task.worker_id}" if task.worker_id else "in progress"
        return f"{_named(task)} is {worker} {self.since(task.started_at)}, {self.attempt(task)}{self.deadline(task)}"

    def offered(self, task: Task) -> str:
        queue = f"type {task.task_type}" + (f" in domain {task.domain}" if task.domain else "")
        if task.due_at <= self.now:
            again = f", {self.attempt(task)}" if task.attempt > task.first_attempt else ""
            shipped = f" ({_SHIPPED_IN} has one; include it)" if task.task_type in _SHIPPED else ""
            waits = f"waits for a worker of {queue}{shipped} {self.since(task.due_at)}"
            return f"{_named(task)} {waits}{again}{self.deadline(task)}"
        before = self.attempt_before(task)
        if before is not None:
            return (
                f"{_named(task)} is due for retry {self.ahead(task.due_at)}, after {self.attempt(before)} "
                f"{'timed out' if before.status is TaskStatus.TIMED_OUT else 'failed'}{_because(before)}"
            )
        why = "as its worker asked" if task.poll_count else "after its start delay"
        return f"{_named(task)} is offered to workers of {queue} {self.ahead(task.due_at)}, {why}"

    def attempt_before(self, task: Task) -> Task | None:
        earlier = [t for t in self.workflow.tasks if t.ref == task.ref and t.attempt == task.attempt - 1]
        return earlier[-1] if earlier and not task.poll_count else None

    def deadline(self, task: Task) -> str:
        """The next deadline of a task, in words."""
        instants = [(at, name) for field, name in _DEADLINES.items() if (at := getattr(task, field)) is not None]
        if not instants or self.workflow.status.terminal:
            return ""
        at, name = min(instants)
        return f"; its {name} comes {self.ahead(at)}" if at > self.now else f"; its {name} is {self.ahead(at)}"

    def waiting(self, task: Task) -> str:
        if task.wait_until is None:
            return f"waits for somebody to complete it, {self.since(task.started_at)}{self.deadline(task)}"
        return f"ends its wait at {_instant(task.wait_until)} ({self.ahead(task.wait_until)})"

    def joining(self, task: Task) -> str:
        place = self.places.get(task.base_ref)
        refs = [printed_ref(ref, task.iterations) for ref in dict.fromkeys(place.task.join_on if place else ())]
        missing = [ref for ref in refs if ref not in self.last or self.last[ref].live]
        waits = f"waits for {_listed(missing)}" if missing else "waits for its turn"
        return f"{waits} ({len(refs) - len(missing)} of {len(refs)} ended){self.deadline(task)}"

    def joining_one(self, task: Task) -> str:
        place = self.places.get(task.base_ref)
        for refs in (place.task.join_on, place.task.default_exclusive_join_task) if place else ():
            named = dict.fromkeys(printed_ref(ref, task.iterations) for ref in refs)
            rows = [self.last[ref] for ref in named if ref in self.last and self.last[ref].status is not TaskStatus.SKIPPED]
            still = [row.ref for row in rows if row.live]
            come = [ref for ref in named if ref not in self.last]
            if still or (rows and come):
                later = f" ({_listed(come)} not scheduled yet)" if still and come else ""
                first = f"the first of {_listed(still)}" if len(still) > 1 else _listed(still or come)
                return f"waits for {first} to end{later}{self.deadline(task)}"
        return f"waits to see which of the tasks it joins will be scheduled{self.deadline(task)}"

    def looping(self, task: Task) -> str:
        return f"is in round {task.round}" if task.round else "has not begun its first round"

    def below(self, task: Task) -> str:
        if task.sub_workflow_id is None:
            return f"has not started its sub-workflow yet{self.deadline(task)}"
        return f"waits for its sub-workflow {task.sub_workflow_id}, {self.since(task.started_at)}{self.deadline(task)}"

    # ------------------------------------------------------------------ why not

    def of_task(self, ref: str) -> Iterator[str]:
        task = self.last.get(ref) or self.newest.get(ref)
        if task is None:
            yield self.why_not(ref) + "."
        elif not task.status.terminal:
            yield self.waits(task) + "."
            if self.workflow.status is WorkflowStatus.PAUSED or self.workflow.parked is not None:
                yield "The execution is " + ("parked." if self.workflow.parked is not None else "PAUSED.")
        elif task.failed or task.status is TaskStatus.COMPLETED_WITH_ERRORS:
            yield f"{self.failure(task)}; that was {self.ago(task.ended_at)}."
        else:
            took = span_in_words(max(0, task.ended_at - (task.started_at or task.scheduled_at)))
            yield f"{_named(task)} is {task.status}: it ended {self.ago(task.ended_at)} after {took}{_because(task)}."

    def why_not(self, ref: str) -> str:
        """Why a task of the definition has no row: the nearest thing before or around it that has one."""
        place = self.places.get(ref)
        if place is None:
            return f"{ref} is not a task of {self.workflow.name}"
        text = f"{ref} never ran: " if self.workflow.status.terminal else f"{ref} has not run yet: "
        if place.undoes is not None:
            return f"{text}it undoes {place.undoes.task_reference_name} if the execution fails after that has completed"
        while True:
            chosen = self.other_case(place)
            if chosen is not None:
                return text + chosen
            nearest = place.before or place.parent
            if nearest is None:
                begun = "the execution began with another definition, behind it"
                return text + (begun if self.workflow.tasks else "the execution has not begun")
            row = self.newest.get(nearest.task_reference_name)
            if row is not None:
                return f"{text}{row.ref}, {'before' if place.before else 'around'} it, is {row.status}{self.instead(row)}"
            place = self.places[nearest.task_reference_name]

    def instead(self, row: Task) -> str:
        """What holds the execution up behind a task that has ended."""
        if self.workflow.status.terminal:
            return f"{_because(row)}, and the execution is {self.workflow.status}"
        if not row.status.terminal:
            return ""
        held = [task.ref for task in self.workflow.tasks if not task.retried and not task.status.terminal]
        return f"{_because(row)}; still open: {_listed(held)}" if held else _because(row)

    def other_case(self, place: _Place) -> str | None:
        """That the SWITCH around a task took another case; None when it took this one, or there is none, or it has not run."""
        if place.parent is None or place.before is not None or place.parent.type not in _CHOOSES:
            return None
        row = self.newest.get(place.parent.task_reference_name)
        taken = None if row is None else row.output_data.get("selectedCase")
        if row is not None and place.parent.type == TaskType.DECISION:
            taken = next(iter(row.output_data.get("caseOutput", ())), None)
        if row is None or taken is None:
            return None
        cases = place.parent.decision_cases
        # An empty case of a DECISION stands for its default.
        there = taken in cases and (place.parent.type == TaskType.SWITCH or bool(cases[taken]))
        if place.case == (taken if there else None):
            return None
        here = "the default case" if place.case is None else f"the case {place.case!r}"
        return f"{row.ref} took the case {str(taken)!r}, and this is in {here}"


_CHOOSES: Final = frozenset({TaskType.SWITCH, TaskType.DECISION})

_WAITS: Final[dict[str, Callable[[_Case, Task], str]]] = {
    TaskType.WAIT: _Case.waiting,
    TaskType.HUMAN: _Case.waiting,
    TaskType.JOIN: _Case.joining,
    TaskType.EXCLUSIVE_JOIN: _Case.joining_one,
    TaskType.DO_WHILE: _Case.looping,
    TaskType.SUB_WORKFLOW: _Case.below,
}


def _named(task: Task) -> str:
    kind = task.name if task.task_type not in OPERATOR_TYPES else task.task_type
    return task.ref if kind == task.ref else f"{task.ref} ({kind})"


def _because(task: Task) -> str:
    return f' with "{" ".join(task.reason.split())}"' if task.reason else ""


def _places(definition: WorkflowDef | None) -> Iterator[_Place]:
    """Every task in document order, each before what it contains. A stack, as in `plan.tree`."""
    waiting = [] if definition is None else _stacked(definition.tasks, None, None)
    while waiting:
        place = waiting.pop()
        yield place
        task = place.task
        if task.compensation is not None and place.undoes is None:
            yield _Place(task.compensation, None, None, undoes=task)
        inner = [_stacked(branch, task, name) for name, branch in task.decision_cases.items()]
        inner += [_stacked(branch, task, None) for branch in (task.default_case, *task.fork_tasks, task.loop_over)]
        for branch in reversed(inner):
            waiting.extend(branch)


def _stacked(tasks: Sequence[WorkflowTask], parent: WorkflowTask | None, case: str | None) -> list[_Place]:
    before = (None, *tasks)
    return [_Place(task, before[index], parent, case) for index, task in enumerate(tasks)][::-1]
