"""Invariants that a search looks at, of every run: at every moment, or when nothing is left to happen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from conductorlite.engine.retention import below
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import did_you_mean
from conductorlite.model.threads import cached_property
from conductorlite.runtime.engine import Engine
from conductorlite.testing.exploration.reads import Read, Reader

__all__ = ["Act", "Invariant", "RunState", "broken", "conserved", "eventually", "in_order", "never", "rules_of", "whenever"]

#: (execution, reference of the definition, task type) of an effect that happened.
Act = tuple[str, str, str]


class RunState:
    """An execution at one moment of a search, read when it is asked for. `now` is epoch ms.

    The search distinguishes moments by what rules read here: see `reads`.
    """

    def __init__(self, engine: Engine, workflow_id: str, acts: Sequence[Act], reader: Reader) -> None:
        self.workflow_id = workflow_id
        self._engine, self._acts, self._reader = engine, acts, reader

    @property
    def engine(self) -> Engine:
        """The engine. A search whose rule reads it merges no moments."""
        self._reader.note(Read.ENGINE, "a rule")
        return self._engine

    @cached_property
    def workflow(self) -> Workflow:
        """The execution with all its attempts."""
        return self._reader.watched(self._engine.get(self.workflow_id))

    @property
    def status(self) -> str:
        """Status of the execution: RUNNING, COMPLETED, FAILED …"""
        return str(self.workflow.status)

    @property
    def name(self) -> str:
        """Name of its definition."""
        return self.workflow.name

    @property
    def running(self) -> bool:
        """True if it has not ended."""
        return not self.workflow.status.terminal

    @property
    def tasks(self) -> Sequence[Task]:
        """Every attempt, in order of scheduling."""
        return self.workflow.tasks

    @property
    def now(self) -> int:
        """The instant, epoch ms."""
        self._reader.note(Read.TIMES, "a rule that reads now")
        return self._engine.clock.now()

    @property
    def all(self) -> list[RunState]:
        """Every execution of the search: this one, others that were started, and children."""
        return [RunState(self._engine, one, self._acts, self._reader) for one in self._engine.admin.workflow_ids()]

    @property
    def parent(self) -> RunState | None:
        """The execution that has started this one as its child."""
        above = self.workflow.parent_workflow_id
        return None if above is None else RunState(self._engine, above, self._acts, self._reader)

    @property
    def variables(self) -> Mapping[str, Any]:
        """Its variables."""
        return self.workflow.variables.fresh()  # type: ignore[no-any-return]

    @property
    def is_begun(self) -> bool:
        """True if another execution of the search started it: as its child, as its failure workflow, or by START_WORKFLOW."""
        return any(self.workflow_id in below for below in self._started.values())

    def task(self, ref: str) -> Task | None:
        """The last attempt at a reference, or None as long as there is none."""
        return next((task for task in reversed(self.tasks) if ref in (task.ref, task.base_ref)), None)

    def output(self, ref: str) -> Mapping[str, Any]:
        """Return the output of the last attempt at a reference; empty if there is none."""
        task = self.task(ref)
        return {} if task is None else task.output_data

    def status_of(self, ref: str) -> str | None:
        """The status of the last attempt at a reference, or None as long as there is none."""
        task = self.task(ref)
        return None if task is None else str(task.status)

    def acts(self, name: str) -> int:
        """Return how often the effect of a task (by reference or type) happened, in this execution and those it started.

        Those are its children, its failure workflow, what its START_WORKFLOW tasks began, and so on.
        """
        return sum(1 for owner, ref, kind in self._acts if name in (ref, kind) and self._mine(owner))

    @property
    def order(self) -> list[str]:
        """References of the effects that happened, in their order."""
        return [ref for ref, _ in self.effects]

    @property
    def effects(self) -> list[tuple[str, str]]:
        """Reference and task type of the effects that happened, in their order."""
        self._reader.note(Read.ORDER, "a rule")
        return [(ref, kind) for owner, ref, kind in self._acts if self._mine(owner)]

    def _mine(self, owner: str) -> bool:
        return owner == self.workflow_id or owner in self._below

    @cached_property
    def _below(self) -> set[str]:
        found: set[str] = set()
        waiting = [self.workflow_id]
        while waiting:
            below = [one for one in self._started.get(waiting.pop(), ()) if one not in found]
            found.update(below)
            waiting += below
        return found

    @cached_property
    def _started(self) -> Mapping[str, set[str]]:
        """Executions that each execution has started."""
        with self._engine.backend.reading() as view:
            rows = [
                row for one in view.executions.workflow_ids(None, "", 1_000) if (row := view.executions.workflow(one)) is not None
            ]
            found = {row.workflow_id: set(below(row, view.history.lines(row.workflow_id))) for row in rows}
        for row in rows:
            if row.parent_workflow_id is not None:
                found[row.parent_workflow_id].add(row.workflow_id)
        return found


class Invariant:
    """Something that must hold. `name` is how a report calls it."""

    name: str = ""
    #: References and task types without which it says nothing.
    tasks: Sequence[str] = ()

    def moment(self, run: RunState) -> str | None:
        """Return what is wrong at this moment, or None."""

    def end(self, run: RunState) -> str | None:
        """Return what is wrong when nothing is left to happen, or None."""

    def remembers(self, run: RunState) -> bool:
        """Something to be remembered of this run from now on; see `eventually`."""
        return False

    def forgotten(self) -> str | None:
        """Return what is wrong when it was not remembered of a run that no other one has started, by the end, or None."""


def _named(predicate: Callable[[RunState], object], name: str | None) -> str:
    if name is not None:
        return name
    called = getattr(predicate, "__name__", "")
    if called and called != "<lambda>":
        return called.replace("_", " ")
    try:
        source = " ".join(inspect.getsource(predicate).split())
    except (OSError, TypeError):
        return "a lambda"
    return source[source.find("lambda") :].removesuffix(",").removesuffix("]") if "lambda" in source else source


class _Never(Invariant):
    def __init__(self, predicate: Callable[[RunState], object], name: str | None) -> None:
        self.name = f"never: {_named(predicate, name)}"
        self._predicate = predicate

    def moment(self, run: RunState) -> str | None:
        return "it came about" if self._predicate(run) else None


class _Eventually(Invariant):
    def __init__(self, predicate: Callable[[RunState], object], name: str | None) -> None:
        self.name = f"eventually: {_named(predicate, name)}"
        self._predicate = predicate

    def remembers(self, run: RunState) -> bool:
        return bool(self._predicate(run))

    def forgotten(self) -> str | None:
        return "it never came about"


#: What may be said of a task: how it stands, and that its effect happened.
_OF_TASKS: Final = (*map(str, TaskStatus), "ACTED")


class whenever(Invariant):  # noqa: N801 - reads as a sentence
    """Whenever a task (by reference or type) takes a status, another one must too, by the time nothing is left to happen.

    `whenever("charge").and_run_fails().then("refund")`. A status is that of the last attempt; "ACTED" stands for the effect of the
    task, reported or not.
    """

    def __init__(self, task: str, status: str = "COMPLETED") -> None:
        self._if = (task, _status(status, _OF_TASKS))
        self.tasks = (task,)
        self._then: tuple[str, str] | None = None
        self._wanted: frozenset[WorkflowStatus] | None = None
        self._ends = ""

    def and_run(self, *statuses: str) -> whenever:
        """Only of executions that end so."""
        self._wanted = frozenset(WorkflowStatus(_status(status, [*map(str, WorkflowStatus)])) for status in statuses)
        self._ends = f" and the run ends {' or '.join(map(str, statuses))}"
        return self

    def and_run_fails(self) -> whenever:
        """Only of executions that end FAILED, TIMED_OUT or TERMINATED."""
        return self.and_run("FAILED", "TIMED_OUT", "TERMINATED")

    def and_run_completes(self) -> whenever:
        """Only of executions that end COMPLETED."""
        return self.and_run("COMPLETED")

    def then(self, task: str, status: str = "COMPLETED") -> whenever:
        """Require that this also happened."""
        self._then = (task, _status(status, _OF_TASKS))
        return self

    @property
    def name(self) -> str:  # type: ignore[override]
        """The whole sentence."""
        wanted = "" if self._then is None else f", then {' '.join(self._then)}"
        return f"whenever {' '.join(self._if)}{self._ends}{wanted}"

    def end(self, run: RunState) -> str | None:
        """See `Invariant.end`."""
        applies = self._wanted is None or run.workflow.status in self._wanted
        if not applies or not _came(run, *self._if) or (self._then is not None and _came(run, *self._then)):
            return None
        return f"{' '.join(self._then)} never came about, and the run is {run.status}" if self._then else "it came about"


def _status(said: str, known: Sequence[str]) -> str:
    if said not in known:
        raise InvalidInput(f"there is no status {str(said)!r}{did_you_mean(str(said), known)}; use one of {', '.join(known)}")
    return str(said)


def _came(run: RunState, task: str, status: str) -> bool:
    if status == "ACTED":
        return run.acts(task) > 0
    last = (one for one in run.tasks if not one.retried)
    return any(task in (one.ref, one.base_ref, one.task_type) and one.status == TaskStatus(status) for one in last)


class conserved(Invariant):  # noqa: N801 - as `whenever`
    """Effects must add up when an execution has ended: `conserved({"charge": 1, "refund": -1}, completed=1, failed=0)`.

    Each effect counts so much; the sum must be `completed` for an execution that ended COMPLETED, and `failed` for one that ended
    otherwise; a tuple is a choice of sums, None leaves such executions alone. Effects of what it has started, children and its
    failure workflow among them, are counted with it, so nothing is asked of those themselves.
    """

    def __init__(
        self, counts: Mapping[str, int], *, completed: int | tuple[int, ...] | None = 1, failed: int | tuple[int, ...] | None = 0
    ) -> None:
        self._counts = dict(counts)
        self._sums = {True: completed, False: failed}
        self.name = f"conserved: {' '.join(f'{count:+d} {task}' for task, count in self._counts.items())}"

    def end(self, run: RunState) -> str | None:
        """See `Invariant.end`."""
        wanted = self._sums[run.workflow.status is WorkflowStatus.COMPLETED]
        if wanted is None or run.running or run.is_begun:
            return None
        counted = {task: run.acts(task) for task in self._counts}
        found = sum(self._counts[task] * count for task, count in counted.items())
        if found in (wanted if isinstance(wanted, tuple) else (wanted,)):
            return None
        return f"{counted} come to {found} instead of {wanted} in a run that is {run.status}"


class in_order(Invariant):  # noqa: N801 - as `whenever`
    """Effects, as far as they happen, must happen in this order: `in_order("unload", "refund", "release")`."""

    def __init__(self, *tasks: str) -> None:
        self._tasks = tasks
        self.name = f"in order: {', '.join(tasks)}"

    def moment(self, run: RunState) -> str | None:
        """See `Invariant.moment`."""
        found = [task for both in run.effects for task in self._tasks if task in both]
        places = [self._tasks.index(task) for task in found]
        return None if places == sorted(places) else f"they happened in the order {', '.join(found)}"


def never(predicate: Callable[[RunState], object], name: str | None = None) -> Invariant:
    """Require that something is true of no execution at any moment: `never(lambda run: run.acts("charge") > 1)`."""
    return _Never(predicate, name)


def eventually(predicate: Callable[[RunState], object], name: str | None = None) -> Invariant:
    """Require that something becomes true at some moment, in each execution that no other one started."""
    return _Eventually(predicate, name)


def rules_of(said: Any) -> list[Invariant]:
    """Return what was given as invariants, as a list; raises InvalidInput for what is none."""
    if isinstance(said, str | Mapping | Invariant) or not isinstance(said, Iterable):
        raise InvalidInput(f"invariants: a list is needed, not {said!r:.80}")
    rules = list(said)
    if not all(isinstance(one, Invariant) for one in rules):
        raise InvalidInput("invariants are made by never, eventually, whenever, conserved and in_order")
    return rules


def broken(invariants: Sequence[Invariant], engine: Engine, acts: Sequence[Act], *, over: bool) -> list[str]:
    """Return in words what is wrong with executions in an engine's store: now, and with `over` when nothing is left to happen."""
    found = []
    reader = Reader()
    for run in [RunState(engine, one, acts, reader) for one in engine.admin.workflow_ids()] if invariants else ():
        for one in invariants:
            texts = [one.moment(run)]
            if over:
                texts += [one.end(run), None if run.is_begun or one.remembers(run) else one.forgotten()]
            found += [f"{one.name}: {run.workflow_id}: {text}" for text in texts if text is not None]
    return found
