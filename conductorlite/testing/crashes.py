"""`crash_everywhere`: a program, killed before and after each of its writes in turn, must come to the same end.

What may differ is known exactly. A task that was with a worker of the process when it died is given back, and the same
attempt is offered again; one that was polled by hand is lost: its response timeout passes. Where there was neither, every
reference's lines of the journal are the same to the millisecond. Where there was, they are the same but for the lost call
itself (one IN_PROGRESS, and the SCHEDULED of the attempt given back, or the TIMED_OUT and the SCHEDULED of the attempt in
its place), the numbers of attempts and the instants that follow from it.

What every run of a scenario is made of, whatever disturbs it.
"""

from __future__ import annotations

import difflib
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite.engine.config import EngineConfig
from conductorlite.engine.streams import emissions_of, items_of
from conductorlite.model.canonical import Payload, parse
from conductorlite.model.clock import VirtualClock
from conductorlite.model.decisions import Event, EventKind, Message
from conductorlite.model.errors import AlreadyExists, InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow
from conductorlite.model.limits import Limit, Member
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.streams import Emission, EmissionState, LatestValue
from conductorlite.runtime.engine import Engine, Run
from conductorlite.store.ports import Backend
from conductorlite.store.tables import RelayItem, ScheduleRow
from conductorlite.testing.exploration.invariants import Invariant, broken, rules_of
from conductorlite.testing.faults import STORES, Crash, FaultyBackend, Store, StoreKind, counted, some
from conductorlite.testing.scripted import ScriptedWorkers
from conductorlite.testing.steps import StepKind, base_ref, render_history

__all__ = ["CrashLife", "Life", "Rules", "compare_ends", "crash_everywhere", "start_once"]


@attrs.frozen(kw_only=True, slots=True)
class Rules:
    """Invariants, and the tasks (by type or reference) whose effect happens once, however often they are tried."""

    invariants: Sequence[Invariant] = ()
    idempotent: frozenset[str] = frozenset()

    @classmethod
    def of(cls, invariants: Iterable[Invariant], idempotent: Iterable[str]) -> Rules:
        """The rules of a disturbance; raises InvalidInput for what are no invariants, or for one text instead of names."""
        if isinstance(idempotent, str):
            raise InvalidInput(f"idempotent is a list of task types or references, not {idempotent!r}: write [{idempotent!r}]")
        return cls(invariants=rules_of(invariants), idempotent=frozenset(idempotent))


@attrs.define(slots=True, eq=False)
class Life:
    """One run of a scenario on a fresh store: what its workers are to do, the store, and the options of its engines."""

    _scenario: Callable[[Engine], object]
    _script: Callable[[ScriptedWorkers], object] | None
    _kind: StoreKind
    _options: Mapping[str, Any]
    _rules: Rules

    def _workers(self) -> ScriptedWorkers:
        """The workers, with what each is to do."""
        workers = ScriptedWorkers()
        if self._script is not None:
            self._script(workers)
        return workers

    def _broken(self, engine: Engine, workers: ScriptedWorkers, *, over: bool) -> list[str]:
        """Return the invariants that do not hold. An effect is a call that does what it is there for, each time it is made."""
        acts: list[tuple[str, str, str]] = []
        done: set[str] = set()
        for one in workers.calls:
            ref = base_ref(one.ref)
            once = one.task_type in self._rules.idempotent or ref in self._rules.idempotent
            if one.step.kind in _ACTS and not (once and one.idempotency_key in done):
                acts.append((one.workflow_id, ref, one.task_type))
                done.add(one.idempotency_key)
        return broken(self._rules.invariants, engine, acts, over=over)


_ACTS: Final = (StepKind.RETURNS, StepKind.DOES)

#: (workflow id, printed reference, attempt) of a task that was held when the process died.
Lost = tuple[str, str, int]


def start_once(
    engine: Engine,
    workflow: Any,
    input: Mapping[str, Any] | None = None,
    *,
    workflow_id: str,
    **options: Any,
) -> Run[Any]:
    """Start an execution of a flow, a definition or a registered name, or return a handle on it when it exists; raises what
    `Engine.start` does otherwise."""
    try:
        if hasattr(workflow, "starting"):
            return engine.start(workflow.options(workflow_id=workflow_id, **options), **(input or {}))
        return engine.start(workflow, input, workflow_id=workflow_id, **options)
    except AlreadyExists:
        return engine.run(workflow_id)


def crash_everywhere(
    scenario: Callable[[Engine], object],
    script: Callable[[ScriptedWorkers], object] | None = None,
    *,
    stores: Iterable[StoreKind] = STORES,
    same_order: bool = False,
    every: int = 1,
    invariants: Iterable[Invariant] = (),
    idempotent: Iterable[str] = (),
    **options: Any,
) -> int:
    """Kill the scenario before and after each store write in turn, reopen, run it again; returns how often it was
    killed.

    `scenario(engine)` is run from its beginning after each crash, so every step of it must be one that may be
    repeated: start with `start_once`, look at the status before a verb. `script(workers)` says what workers do; they
    are the world outside, are scripted once, and repeat a call whose report was lost. Time is virtual and goes on.
    `stores` are names or functions that open a backend in a folder; `options` go to the engines. With `every` above one
    it is killed only every so manieth time, on each store at others; an odd number takes turns between before and after.
    `invariants` are what `never`, `eventually`, `whenever`, `conserved` and `in_order` make, asked of each execution at reopening
    and at the end; an effect is a scripted call that returns. A worker is not taken for idempotent: a call that is repeated has its
    effect again, but for tasks that `idempotent` names, by type or reference, which hand on their idempotency key.

    Raises AssertionError unless, on every store and for every crash: what is in the store at reopening is, row by
    row, what was there after the last commit of the undisturbed run; no law is broken, then and at the end; every
    execution ends with the same status and outputs; and the journals agree as the module says. With `same_order` also
    the order of lines of different references must be the same where nothing was lost, which parallel branches of
    several task types do not promise.
    """
    if every < 1:
        raise InvalidInput(f"every={every} is no number of deaths")
    points, rules = 0, Rules.of(invariants, idempotent)
    for offset, kind in enumerate(some(stores, "store")):
        calm = CrashLife(scenario, script, kind, options, rules)
        calm.live()
        deaths = [(number, side) for number in range(1, calm.writes + 1) for side in ("crash_before", "crash_after")]
        for number, side in deaths[offset % every :: every]:
            shaken = CrashLife(scenario, script, kind, options, rules)
            shaken.live(**{side: number})
            where = f"store {kind}, {side} {number} of {calm.writes} ({calm.journal[number - 1]})"
            _compare(calm, shaken, where, number, side, same_order)
            points += 1
    return points


@attrs.frozen(kw_only=True, slots=True)
class _Rows:
    """All that is stored of one execution."""

    workflow: Workflow
    attempts: tuple[Task, ...]
    inbox: tuple[Event, ...]
    history: tuple[HistoryEvent, ...]
    emissions: tuple[Emission, ...]
    values: tuple[LatestValue, ...]


@attrs.frozen(kw_only=True, slots=True)
class _Dump:
    """All that is stored of executions and schedules."""

    executions: dict[str, _Rows]
    messages: tuple[Message, ...]
    outbox: tuple[RelayItem, ...]
    schedules: tuple[tuple[ScheduleRow, tuple[Event, ...]], ...] = ()
    #: Limits, each with its members.
    limits: tuple[tuple[Limit, tuple[Member, ...]], ...] = ()


def _dump(backend: Backend) -> _Dump:
    with backend.reading() as view:
        rows = {}
        for workflow_id in view.executions.workflow_ids(None, "", 10_000):
            workflow = view.executions.workflow(workflow_id)
            assert workflow is not None
            rows[workflow_id] = _Rows(
                workflow=workflow,
                attempts=tuple(view.executions.attempts(workflow_id)),
                inbox=tuple(view.inbox.events(workflow_id)),
                history=tuple(view.history.lines(workflow_id)),
                emissions=tuple(emissions_of(view, workflow_id)),
                values=tuple(view.streams.values(workflow_id)),
            )
        schedules = tuple((row, tuple(view.inbox.events(row.address))) for row in view.schedules.page("", 10_000))
        limits = tuple((limit, tuple(view.limits.members(limit.key))) for limit in view.limits.page("", 10_000))
        messages, outbox = tuple(view.queue.messages(10_000)), tuple(view.outbox.items(10_000))
        return _Dump(executions=rows, messages=messages, outbox=outbox, schedules=schedules, limits=limits)


@attrs.define(slots=True, eq=False)
class CrashLife(Life):
    """One run of the scenario on a fresh store, with at most one death."""

    journal: list[str] = attrs.field(init=False, factory=list)
    dumps: dict[int, _Dump] = attrs.field(init=False, factory=dict)
    reopened: _Dump | None = attrs.field(init=False, default=None)
    #: Those that no process gives back, and those that are given back.
    lost: set[Lost] = attrs.field(init=False, factory=set)
    returned: set[Lost] = attrs.field(init=False, factory=set)
    findings: list[str] = attrs.field(init=False, factory=list)
    end: _Dump | None = attrs.field(init=False, default=None)
    histories: dict[str, Sequence[HistoryEvent]] = attrs.field(init=False, factory=dict)

    @property
    def _owner(self) -> str:
        return (self._options.get("config") or EngineConfig()).owner

    @property
    def writes(self) -> int:
        """Writes to the store so far."""
        return len(self.journal)

    def live(self, **disturbed: int) -> None:
        """Run to the end; with a disturbance, die there and run again."""
        with tempfile.TemporaryDirectory(prefix="conductorlite-") as folder:
            store = Store(self._kind, lambda: Path(folder))
            clock, workers = VirtualClock(), self._workers()
            inner = store.inner()
            faulty = FaultyBackend(
                inner,
                crash_before=disturbed.get("crash_before"),
                crash_after=disturbed.get("crash_after"),
                on_crash=store.killed,
                on_commit=None if disturbed else self._remember(inner),
                keep_open=True,
            )
            begun = clock.now()
            try:
                self._run(faulty, clock, workers)
            except Crash:
                if not store.in_memory:
                    inner.close()
                inner = store.inner()
                with inner.writing() as tx:  # real time does not jump: all but its last seconds would be noted
                    tx.owners.note_driven(self._owner, begun, clock.now())
                self._reopen(inner, clock, workers)
                self._run(FaultyBackend(inner, keep_open=True), clock, workers)
            self.journal = faulty.journal
            inner.close()
            if disturbed and not faulty.dead:
                raise AssertionError(f"{disturbed} was not reached: the scenario does not do the same twice")

    def _remember(self, inner: Backend) -> Callable[[int], None]:
        def remember(number: int) -> None:
            self.dumps[number] = _dump(inner)

        return remember

    def _engine(self, backend: Backend, clock: VirtualClock, workers: ScriptedWorkers) -> Engine:
        config = counted(backend, self._options.get("config"))
        return Engine(backend, clock=clock, workers=workers, **{**self._options, "config": config})

    def _run(self, backend: Backend, clock: VirtualClock, workers: ScriptedWorkers) -> None:
        with self._engine(backend, clock, workers) as engine:
            self._scenario(engine)
            self.end = _dump(backend)
            self.findings += [*map(str, engine.admin.check()), *self._broken(engine, workers, over=True)]
            self.histories = {workflow_id: engine.history(workflow_id) for workflow_id in engine.admin.workflow_ids()}

    def _reopen(self, inner: Backend, clock: VirtualClock, workers: ScriptedWorkers) -> None:
        """Look at what the dead process left, and have the workers repeat what it did not get to report."""
        self.reopened = _dump(inner)
        with self._engine(FaultyBackend(inner, keep_open=True), clock, workers) as engine:
            found = [*map(str, engine.admin.check()), *self._broken(engine, workers, over=False)]
            self.findings += [f"at reopening: {finding}" for finding in found]
        leases = {
            (task.workflow_id, task.ref, task.attempt): (task.lease, task.holder)
            for rows in self.reopened.executions.values()
            for task in rows.attempts
            if task.status is TaskStatus.IN_PROGRESS and task.lease
        }
        self.lost = {key for key, (_, holder) in leases.items() if holder is None}
        self.returned = set(leases) - self.lost
        for call in tuple(workers.calls):
            if leases.get((call.workflow_id, call.ref, call.attempt), (0, None))[0] == call.lease:
                workers[call.task_type].give_back(call)


# ---------------------------------------------------------------------- comparing


def _compare(calm: CrashLife, shaken: CrashLife, where: str, number: int, side: str, same_order: bool) -> None:
    last = max((n for n in calm.dumps if n < number or (n == number and side == "crash_after")), default=0)
    before = calm.dumps.get(last, _Dump(executions={}, messages=(), outbox=()))
    if shaken.reopened != before:
        raise AssertionError(f"{where}: the store holds something else than after commit {last}: {shaken.reopened}")
    if calm.findings or shaken.findings:
        raise AssertionError("\n".join([f"{where}: laws do not hold", *calm.findings, *shaken.findings]))
    if calm.histories.keys() != shaken.histories.keys():
        raise AssertionError(f"{where}: executions {sorted(shaken.histories)} instead of {sorted(calm.histories)}")
    for workflow_id in calm.histories:
        compare_ends(calm, shaken, workflow_id, where)
        _compare_histories(calm, shaken, workflow_id, where, same_order)


def compare_ends(calm: CrashLife, shaken: CrashLife, workflow_id: str, where: str) -> None:
    """Raises AssertionError unless an execution ended alike in both."""
    wanted, found = (_ending(life, workflow_id) for life in (calm, shaken))
    if wanted != found:
        text = render_history(shaken.histories[workflow_id])
        raise AssertionError(f"{where}: {workflow_id} ended {found} instead of {wanted}\n{text}")


def _ending(life: CrashLife, workflow_id: str) -> object:
    assert life.end is not None
    rows = life.end.executions[workflow_id]
    last = {task.ref: task for task in rows.attempts if not task.retried}
    tasks = {ref: (str(task.status), task.output, task.round) for ref, task in sorted(last.items())}
    kept = [one for one in rows.emissions if one.state is EmissionState.KEPT]
    emitted = sorted((one.ref, [(item.stream, item.value) for item in items_of(one)]) for one in kept)
    values = [(value.name, value.ref, value.value.text) for value in rows.values]
    return str(rows.workflow.status), rows.workflow.output, tasks, emitted, values


def _compare_histories(calm: CrashLife, shaken: CrashLife, workflow_id: str, where: str, same_order: bool) -> None:
    again = {workflow for workflow, _, _ in shaken.lost | shaken.returned}
    wanted, found = calm.histories[workflow_id], shaken.histories[workflow_id]
    # What is handed out again takes a place of its window again, and others wait for it; it keeps its slot, and nobody does.
    rates = calm.end is not None and any(limit.log for limit, _ in calm.end.limits)
    waits = rates and any(event.status == TaskStatus.PENDING for event in (*wanted, *found))
    exact = not again if waits else workflow_id not in again
    if exact and list(wanted) == list(found):
        return
    texts = []
    for life in (calm, shaken):
        lines = _lines(life, workflow_id, exact)
        texts.append([line for ref in sorted(lines) for line in lines[ref]])
    if texts[0] != texts[1] or (exact and same_order):
        difference = difflib.unified_diff(texts[0], texts[1], "undisturbed", "after the crash", lineterm="", n=2)
        whole = ["the whole history after the crash:", render_history(found, payloads=True)]
        raise AssertionError("\n".join([f"{where}: {workflow_id} has another history", *difference, *whole]))


def _lines(life: CrashLife, workflow_id: str, exact: bool) -> dict[str, list[str]]:
    """The journal as text, by reference; unless `exact`, without instants and without what was lost."""
    assert life.end is not None
    events: dict[str, list[HistoryEvent]] = defaultdict(list)
    for event in life.histories[workflow_id]:
        events[event.ref or ""].append(event)
    names = {task.task_id: task.ref for task in life.end.executions[workflow_id].attempts}
    lines = {}
    for ref, history in events.items():
        lost, returned = (
            sorted(attempt for where, what, attempt in gone if (where, what) == (workflow_id, ref))
            for gone in (life.lost, life.returned)
        )
        kept = history if exact else _without(_at_once(_not_returned(history, returned)), lost)
        lines[ref] = [_text(event, lost, names, exact) for event in kept]
    return lines


def _at_once(history: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The lines of one reference as if nothing had waited for a slot: who waits for which holder depends on who is late."""
    kept: list[HistoryEvent] = []
    given: Payload | None = None
    for event in history:
        if event.status == TaskStatus.PENDING:
            before = kept[-1] if kept else event
            offered = (before.attempt, before.status) == (event.attempt, TaskStatus.SCHEDULED)  # in vain
            given = kept.pop().payload if offered else event.payload
            continue
        if given is not None and event.status == TaskStatus.SCHEDULED and event.payload is None:
            event = attrs.evolve(event, payload=given)
        kept.append(event)
        given = None
    return kept


def _not_returned(history: Sequence[HistoryEvent], returned: Sequence[int]) -> list[HistoryEvent]:
    """The lines of one reference without the calls that were given back: the poll, and the offer of the same attempt."""
    kept = list(history)
    for attempt in returned:
        offers = [
            n
            for n, event in enumerate(kept)
            if event.attempt == attempt
            and event.status in (TaskStatus.SCHEDULED, TaskStatus.PENDING)
            and parse(event.cause or "{}").get("kind") == "GIVE_BACK"
        ]
        if offers and offers[0] and kept[offers[0] - 1].status == TaskStatus.IN_PROGRESS:
            waits = kept[offers[0]].status == TaskStatus.PENDING
            del kept[offers[0] - 1 : offers[0] + (not waits)]
    return kept


def _without(history: Sequence[HistoryEvent], lost: Sequence[int]) -> list[HistoryEvent]:
    """The lines of one reference without its lost calls: the poll, the timeout, and the start of the next attempt."""
    kept = list(history)
    for attempt in lost:
        ends = [n for n, event in enumerate(kept) if (event.attempt, event.status) == (attempt, TaskStatus.TIMED_OUT)]
        if not ends or ends[0] + 1 >= len(kept):
            # It was not given a chance to be done again; the difference will show.
            continue
        if kept[ends[0] - 1].status == TaskStatus.IN_PROGRESS and kept[ends[0] + 1].status == TaskStatus.SCHEDULED:
            del kept[ends[0] - 1 : ends[0] + 2]
    return kept


def _copied(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a fork copied, without the order of rows: which of two open branches was first depends on who was late."""
    rows = [{name: cell for name, cell in row.items() if name != "seq"} for row in said["tasks"]]
    return {**said, "tasks": sorted(rows, key=str)}


def _text(event: HistoryEvent, lost: Sequence[int], names: Mapping[str, str], exact: bool) -> str:
    shift = 0 if exact else sum(attempt < (event.attempt or 0) for attempt in lost)
    number = event.number if event.kind is HistoryKind.ROUND else None if event.attempt is None else event.attempt - shift
    payload = "" if event.payload is None else event.payload.shown
    if event.status == EventKind.FORK and event.payload is not None:
        payload = str(_copied(event.payload.value))
    text = f"{event.ref or 'workflow'} {event.kind} {number} {event.status} {event.reason or ''} {payload}"
    if exact:
        return f"{event.at} {text}"
    for task_id, ref in names.items():
        text = text.replace(task_id, f"<id of {ref}>")
    return text
