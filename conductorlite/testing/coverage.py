"""Coverage of workflows: which tasks, cases, loops, retries, timeouts, failures and signals of a definition tests have come to.

`pytest --workflow-cov` counts what any engine of the run does. What there is to come to are *goals* of a definition, short texts
such as `charge: retries used up`. What was come to follows from the journal; only a signal that nothing waits for leaves no line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite.engine.turns import Turns
from conductorlite.engine.verbs import Verbs
from conductorlite.model.decisions import Decision
from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.errors import Conflict, TaskNotFound
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task
from conductorlite.model.statuses import TaskStatus
from conductorlite.pages.graph import Graph, Place
from conductorlite.pages.markup import Document, Html, element, join, pairs
from conductorlite.plan.tree import OPERATOR_TYPES, TreePosition, walk
from conductorlite.testing.steps import base_ref

__all__ = ["WorkflowCoverage", "goals_met", "goals_of"]

_SWITCHES: Final = (TaskType.SWITCH, TaskType.DECISION)
_LOOPS: Final = (TaskType.DO_WHILE,)
_WAITS: Final = (TaskType.WAIT, TaskType.HUMAN)

#: Deadlines of a task definition, with how the reason of their TIMED_OUT begins, and how an ALERT names them.
_DEADLINES: Final = (
    ("response_timeout_ms", "response timeout", "responseTimeout", "response_timeout"),
    ("poll_timeout_ms", "poll timeout", "Task poll timed out", "poll_timeout"),
    ("total_timeout_ms", "total timeout", "{ref} exceeded its total timeout", "total_timeout"),
    ("timeout_ms", "timeout", "Task timed out", "timeout"),
)


def goals_of(definition: WorkflowDef) -> dict[str, list[str]]:
    """Return what there is to come to, by reference in the order of the definition; the workflow's own under the empty text."""
    found = {position.ref: [f"{position.ref}: {goal}" for goal in _goals(position)] for position in walk(definition)}
    own = [f"{definition.name}: {goal}" for goal in _own_goals(definition)]
    return {**({"": own} if own else {}), **found}


def _own_goals(definition: WorkflowDef) -> Iterator[str]:
    if definition.timeout_ms:
        yield "timeout"
    if definition.failure_workflow:
        yield "fails"


def _goals(position: TreePosition) -> Iterator[str]:
    task = position.task
    yield "undoes" if position.compensates is not None else "runs"
    if task.type in _SWITCHES:
        yield from (f"case {key}" for key in task.decision_cases)
        yield "default"
    elif task.type in _LOOPS:
        yield from ("ends after one round", "ends after more")
    elif task.type in _WAITS:
        timed = any(key in task.input_parameters for key in ("duration", "until"))
        yield from ("signal", "signal too early", "signal too late", *(("time is over",) if timed else ()))
    elif task.type not in OPERATOR_TYPES or task.type == TaskType.SUB_WORKFLOW:
        yield "fails"
    retries = _retries(task)
    if retries:
        yield from ("is retried", "retries used up")
    yield from (name for field, name, _, _ in _DEADLINES if getattr(task.task_definition, field, None))


def _retries(task: WorkflowTask) -> int:
    """Return how often it is tried again, as far as it is written."""
    if task.retry_count is not None:
        return task.retry_count
    return (task.task_definition.retry_count or 0) if task.task_definition is not None else 0


def goals_met(definition: WorkflowDef, history: Iterable[HistoryEvent]) -> set[str]:
    """The goals that these lines of a journal have come to."""
    tasks = {position.ref: position for position in walk(definition)}
    found: set[str] = set()
    for line in history:
        if line.ref is None:
            if line.kind is HistoryKind.WORKFLOW and line.status == "TIMED_OUT":
                found.add(f"{definition.name}: timeout")
            if line.kind is HistoryKind.WORKFLOW and line.status in ("FAILED", "TIMED_OUT"):
                found.add(f"{definition.name}: fails")
            continue
        ref = base_ref(line.ref)
        if ref in tasks:
            found.update(f"{ref}: {goal}" for goal in _met(tasks[ref], line))
    return found


def _met(position: TreePosition, line: HistoryEvent) -> Iterator[str]:
    task, attempt = position.task, line.attempt or 0
    if line.kind is HistoryKind.ALERT:
        yield from (name for _, name, _, alert in _DEADLINES if line.status == alert)
    if line.kind is not HistoryKind.TASK or line.status == TaskStatus.SKIPPED:
        return
    yield "undoes" if position.compensates is not None else "runs"
    if attempt and line.status == TaskStatus.SCHEDULED:
        yield "is retried"
    if line.status in (TaskStatus.FAILED, TaskStatus.TIMED_OUT, TaskStatus.FAILED_WITH_TERMINAL_ERROR):
        used_up = attempt >= _retries(task) and line.status != TaskStatus.FAILED_WITH_TERMINAL_ERROR
        yield from ("retries used up",) if used_up else ()
        yield from ("fails",) if used_up or line.status == TaskStatus.FAILED_WITH_TERMINAL_ERROR else ()
    if line.status == TaskStatus.TIMED_OUT:
        begins = ((name, text.format(ref=line.ref)) for _, name, text, _ in _DEADLINES)
        yield from (name for name, text in begins if (line.reason or "").startswith(text))
    if line.status == TaskStatus.COMPLETED:
        yield from _completed(task, line)


def _completed(task: WorkflowTask, line: HistoryEvent) -> Iterator[str]:
    output: Any = {} if line.payload is None or line.payload.text is None else line.payload.value
    if task.type in _SWITCHES:
        chosen = [str(one) for one in (output.get("evaluationResult") or output.get("caseOutput") or ())]
        taken = [key for key in chosen if key in task.decision_cases]
        yield f"case {taken[0]}" if taken else "default"
    elif task.type in _LOOPS:
        yield "ends after one round" if output.get("iteration") == 1 else "ends after more"
    elif task.type in _WAITS:
        yield "signal" if '"REPORT"' in (line.cause or "") else "time is over"


@attrs.define
class _Counted:
    """A definition, and what was come to of it."""

    definition: WorkflowDef
    met: set[str] = attrs.field(factory=set)

    @property
    def goals(self) -> dict[str, list[str]]:
        return goals_of(self.definition)

    @property
    def missed(self) -> list[str]:
        return [goal for goals in self.goals.values() for goal in goals if goal not in self.met]

    @property
    def number(self) -> int:
        return sum(map(len, self.goals.values()))


class WorkflowCoverage:
    """Coverage of each definition. `count` looks at what engines of this process do; `merge` takes what others saw."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}
        self._undo: list[Callable[[], None]] = []

    # ------------------------------------------------------------------ counting

    def begin(self) -> None:
        """Look at every decision that an engine of this process commits, and at every signal, until `end`."""
        announce, signal = Turns.announce, Verbs.signal

        def announced(turns: Turns, decision: Decision) -> None:
            self._look(turns, decision)
            announce(turns, decision)

        def signaled(engine: Verbs, workflow_id: str, *given: Any, **options: Any) -> Task | None:
            try:
                task = signal(engine, workflow_id, *given, **options)
            except (TaskNotFound, Conflict):
                self._missed(engine, workflow_id, options.get("task"))
                raise
            if task is None:  # kept for a task to come
                self._missed(engine, workflow_id, options.get("task"))
            return task

        for owner, name, real, wrapped in ((Turns, "announce", announce, announced), (Verbs, "signal", signal, signaled)):
            setattr(owner, name, wrapped)
            self._undo.append(partial(setattr, owner, name, real))

    def end(self) -> None:
        """Look no more."""
        while self._undo:
            self._undo.pop()()

    def _missed(self, engine: Verbs, workflow_id: str, ref: str | None) -> None:
        """A signal came too early or too late: to the task that it names, or to all that could have waited for it."""
        with engine.backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            attempts = {task.base_ref for task in view.executions.attempts(workflow_id)}
        counted = None if row is None else self._counted.get(row.definition_hash)
        if counted is None:
            return
        refs = [one.ref for one in walk(counted.definition) if one.task.type in _WAITS and ref in (None, one.ref)]
        counted.met.update(f"{one}: signal too {'late' if one in attempts else 'early'}" for one in refs)

    def _look(self, turns: Turns, decision: Decision) -> None:
        row = decision.workflow
        plan = turns.lookups.registry.plans.kept(row, ())
        if plan is None:
            with turns.backend.reading() as view:
                plan = turns.lookups.registry.plans.plan(view, row)
        counted = self._counted.setdefault(row.definition_hash, _Counted(plan.definition))
        counted.met |= goals_met(plan.definition, decision.history)

    # ------------------------------------------------------------------ merging

    def data(self) -> dict[str, Any]:
        """Return what was counted, as JSON: by the hash of the definition."""
        return {
            digest: {"definition": one.definition.to_json(), "met": sorted(one.met)}
            for digest, one in sorted(self._counted.items())
        }

    def merge(self, data: Mapping[str, Any]) -> None:
        """Take what another process or run has counted."""
        for digest, one in data.items():
            known = self._counted.setdefault(digest, _Counted(WorkflowDef.from_json(one["definition"])))
            known.met |= set(one["met"])

    def load(self, path: Path) -> None:
        """Take what was saved, if anything was."""
        if path.exists():
            self.merge(json.loads(path.read_text(encoding="utf-8")))

    def save(self, path: Path) -> None:
        """Write what was counted, to be merged by another run."""
        path.write_text(json.dumps(self.data()), encoding="utf-8")

    # ------------------------------------------------------------------ reporting

    @property
    def _sorted(self) -> list[_Counted]:
        return sorted(self._counted.values(), key=lambda one: (one.definition.name, one.definition.version))

    @property
    def percent(self) -> float:
        """Share of all goals that was come to, in percent; nothing when no workflow was started."""
        goals = sum(one.number for one in self._counted.values())
        missed = sum(len(one.missed) for one in self._counted.values())
        return 100.0 * (goals - missed) / goals if goals else 0.0

    def lines(self) -> list[str]:
        """The report for a terminal: a line for each definition, and what was missed of it."""
        width = max([len(one.definition.name) for one in self._counted.values()], default=0) + 2
        found = [f"{'workflow':<{width}}{'goals':>6}{'missed':>8}{'cover':>7}   missed"]
        for one in self._sorted:
            missed = one.missed
            cover = 100 * (one.number - len(missed)) // one.number
            found.append(f"{one.definition.name:<{width}}{one.number:>6}{len(missed):>8}{cover:>6}%   {', '.join(missed)}".rstrip())
        return [*found, f"in all {self.percent:.1f}%"]

    def html(self) -> str:
        """One page: each definition's picture, with what was come to of each task, and a table of what was missed."""
        parts = [(f"w{number}", _title(one.definition), self._section(one)) for number, one in enumerate(self._sorted)]
        heading = join([element("h1", "Coverage of workflows"), pairs([("Goals come to", f"{self.percent:.1f} %")])])
        return Document("Coverage of workflows", heading, parts).html()

    def _section(self, one: _Counted) -> Html:
        picture = _Picture(definition=one.definition, rows={}, links={}, now=0)
        picture.goals, picture.met = one.goals, one.met
        missed = element("ul", *(element("li", goal) for goal in one.missed)) if one.missed else element("p", "Nothing was missed.")
        return join([picture.svg(), element("h3", "Missed"), missed])


def _title(definition: WorkflowDef) -> str:
    return f"{definition.name} version {definition.version}"


class _Picture(Graph):
    """A definition's picture, coloured by how much of each task was come to."""

    goals: Mapping[str, Sequence[str]]
    met: set[str]

    def state(self, place: Place, rows: Sequence[object]) -> tuple[str, str]:
        """See `Graph.state`."""
        goals = [goal for ref in place.refs for goal in self.goals.get(ref, ())]
        met = sum(goal in self.met for goal in goals)
        status = "COMPLETED" if met == len(goals) else "IN_PROGRESS" if met else "FAILED"
        return f"{met} of {len(goals)}", status
