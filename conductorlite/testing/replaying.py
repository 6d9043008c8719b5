"""An exported execution replayed: the same history, byte for byte, or the first line that differs.

What came from outside is done again in the order and at the instants the journals record, a turn at a time: each turn is given the
events it had then. Timers, retries and what executions write to each other come by themselves and must come out the same.
Signs of life are in no journal: a response timeout fires when the journal says so, and is put off when it does not.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

import attrs

from conductorlite.decide.changeset.reader import Barriers, Bounds
from conductorlite.engine.config import EngineConfig
from conductorlite.engine.turn_types import Start
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.documents import history_line_to_json
from conductorlite.model.errors import AlreadyExists, ConductorliteError, ReplayDiverged
from conductorlite.model.executions import HistoryEvent, HistoryKind, Workflow
from conductorlite.model.limits import Limit, LimitChange, Member, MemberState
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.runtime.engine import Engine
from conductorlite.store.ports import Backend
from conductorlite.testing.emitted import keep_emitted
from conductorlite.testing.reenacting import Exported, ReplayStep, as_recorded, export_from_json, reenacted, steps_of, window_event
from conductorlite.testing.steps import ReplayRecord, ReplayRegistry, SettableClock

__all__ = ["Replayed", "replay"]

#: Turns taken for one step before it counts as diverged.
_TURNS: Final = 10_000

#: Timers that have an effect while an execution is paused.
_UNPAUSED: Final = frozenset({EventKind.WAIT_ENDS, EventKind.WORKFLOW_TIMEOUT})

#: What a limit answers, as the journal has it, to who asked in a turn before.
_LET_IN: Final = ("take ", "stands ")

#: An event that leads to nothing but the instant it was posted at.
_NUDGE: Final = "replay"


@attrs.frozen(kw_only=True, slots=True)
class Replayed:
    """A replayed execution: the engine that holds it and those below it, with its clock at the last instant of the record."""

    engine: Engine
    workflow_id: str
    #: Ids of all executions that were replayed, the exported one first.
    workflow_ids: tuple[str, ...]
    #: Lines of history that came out the same.
    lines: int


def replay(
    document: Mapping[str, Any] | str | bytes,
    *,
    store: str | os.PathLike[str] | Backend | None = None,
    environment: Mapping[str, str] | None = None,
) -> Replayed:
    """Live an exported execution again, on an empty store and a virtual clock, and compare every line of its history.

    `document` is what `Engine.admin.export` returned, or its JSON text; `store` is as for an `Engine`; `environment` is what the
    execution's engine had: it is not in the document. Raises InvalidInput naming the place of what is wrong in the document,
    AlreadyExists when the store holds one of the executions, and ReplayDiverged at the first line that differs.
    """
    exported = export_from_json(document)
    first = exported.executions[exported.workflow_id]
    clock = SettableClock(first.created_at)
    bounds = Bounds(steps=exported.steps, rows=exported.rows, barriers=Barriers.from_stated(exported.barriers))
    config = EngineConfig(seed=first.seed, semantics=first.semantics, bounds=bounds)
    engine = Engine(store, clock=clock, environment=environment, config=config)
    ids = tuple(exported.executions)
    with engine.backend.reading() as view:
        taken = [one for one in ids if view.executions.workflow(one) is not None]
    if taken:
        engine.close()
        raise AlreadyExists(f"the store holds an execution {taken[0]!r} already")
    try:
        lines = _Player(engine, clock, exported).play()
    except ReplayDiverged:
        engine.close()
        raise
    return Replayed(engine=engine, workflow_id=exported.workflow_id, workflow_ids=ids, lines=lines)


class _Player:
    def __init__(self, engine: Engine, clock: SettableClock, exported: Exported) -> None:
        self.engine = engine
        self.clock = clock
        self.exported = exported
        plain = engine.core.turns
        self.registry = ReplayRegistry(engine.backend, plain.lookups.environment, engine.config.semantics, dict)
        self.registry.known = exported.definitions
        self.record = ReplayRecord(recorded=exported.executions)
        self.turns = Turns(
            engine.backend,
            clock,
            registry=self.registry,
            environment=plain.lookups.environment,
            bounds=plain.lookups.bounds,
            payload_store=plain.lookups.payload_store,
            record=self.record,
        )
        self.steps = {one: steps_of(lines) for one, lines in exported.histories.items()}
        #: By sender and id of an event of another execution: the last line that it led to.
        self.reads = {one: _reads(steps, exported.executions) for one, steps in self.steps.items()}
        self.last_read = {one: max(read.values(), default=0) for one, read in self.reads.items()}
        #: Lines that came out already, of each execution.
        self.done = dict.fromkeys(exported.histories, 0)
        #: Response timeouts that were put off.
        self.kept_alive: dict[tuple[str, str | None, int], None] = {}

    def play(self) -> int:
        """Take every step of every execution; returns how many lines came out."""
        with self.engine.backend.writing() as tx:
            for hashed, text in self.exported.definitions.items():
                tx.metadata.embed(hashed, text)
        while any(self.steps.values()):
            left = [one for one, steps in self.steps.items() if steps]
            ready = [one for one in left if all(self.ready(one, step) for step in self.turn(one))]
            # What only a part of is there comes out otherwise; that is said by its first line.
            ready = ready or [one for one in left if self.ready(one, self.steps[one][0])]
            if not ready:
                if any(self.answer(one, self.steps[one][0]) for one in left):
                    continue
                raise self.diverged(left[0], self.done[left[0]])
            # An event is read before its sender can write another one in its place: a parent writes to a child under few names.
            reading = [one for one in ready if self.awaits(one)]
            first = min(reading, key=lambda one: -self.exported.executions[one].depth) if reading else None
            self.take(first or min(ready, key=lambda one: self.steps[one][0].at))
        self.clock.set(max(lines[-1].at for lines in self.exported.histories.values()))
        self.leave()
        return sum(self.done.values())

    # ------------------------------------------------------------------ one step

    def turn(self, workflow_id: str) -> list[ReplayStep]:
        """The next steps of an execution that were one turn."""
        first, *others = self.steps[workflow_id]
        return [first, *takewhile(lambda step: bool(step.cause.get("same")), others)]

    def ready(self, workflow_id: str, step: ReplayStep) -> bool:
        """Return True if what leads to the step has been written."""
        sender = step.cause.get("from")
        if sender is None or sender not in self.exported.executions:
            return True
        with self.engine.backend.reading() as view:
            inbox = view.inbox.events(workflow_id)
        return any(event.event_id == step.cause["id"] and event.due_at <= step.clock for event in inbox)

    def awaits(self, workflow_id: str) -> bool:
        """Return True if an event has been written that a step to come reads."""
        if self.last_read[workflow_id] <= self.done[workflow_id]:
            return False
        with self.engine.backend.reading() as view:
            inbox = view.inbox.events(workflow_id)
        return any(self.is_to_come(workflow_id, event) for event in inbox)

    def answer(self, workflow_id: str, step: ReplayStep) -> bool:
        """Have who is to write what a step reads take an event that leads to no line but to that; False when there is none."""
        sender = step.cause.get("from", "")
        if sender not in self.exported.executions or self.row(sender) is None:
            return False
        self.clock.set(step.clock)
        self.registry.used, self.record.admissions = (), ()
        with self.engine.backend.reading() as view:
            due = [event for event in view.inbox.events(sender) if not event.held and event.due_at <= step.clock]
        for event in due:
            others = event.sender in self.exported.executions and event.sender != sender
            self.record.events = [event]
            if others and not self.is_to_come(sender, event) and not self.records(sender):
                self.turns.attempt(sender, ())
                if self.ready(workflow_id, step):
                    return True
        return False

    def is_to_come(self, workflow_id: str, event: Event) -> bool:
        """Return True if a step to come reads the event."""
        return self.reads[workflow_id].get((event.sender, event.event_id), 0) > self.done[workflow_id]

    def take(self, workflow_id: str) -> None:
        """One turn as the journal records it, with whatever the same turn did besides."""
        steps = self.steps[workflow_id]
        turn = self.turn(workflow_id)
        if any(not self.ready(workflow_id, step) for step in turn):
            turn = turn[:1]
        del steps[: len(turn)]
        clock = turn[0].clock
        row = self.row(workflow_id)
        if row is not None and row.status is WorkflowStatus.PAUSED:
            self.pass_while_paused(workflow_id, clock)
        self.clock.set(clock)
        lines = [line for step in turn for line in step.lines]
        self.registry.used = [hashed for line in lines for hashed in parse(line.cause or "{}").get("used", ())]
        self.record.postponed = [line for line in lines if line.kind is HistoryKind.POSTPONED]
        self.act(workflow_id, turn, self.done[workflow_id] + len(lines))
        if steps and steps[0].cause.get("kind") is not None:
            self.settle(workflow_id, steps[0])
        self.compare(workflow_id)

    def act(self, workflow_id: str, turn: Sequence[ReplayStep], end: int) -> None:
        """Take turns until the step's lines are there, or nothing moves any more."""
        todo, started = self.from_outside(workflow_id, turn)
        self.ask(workflow_id, turn)
        for _ in range(_TURNS):
            nudged = [*self.nudge(workflow_id, turn[0]), *todo]
            self.record.events = () if started is not None else self.chosen(workflow_id, turn)
            now = self.row(workflow_id) or _NOBODY
            before = now.fence
            lines = self.exported.histories[workflow_id][now.history_seq : end]
            self.record.admissions = tuple(tuple(answer) for answer in _slots(lines))
            self.record.cut = tuple(tuple(cut) for line in lines for cut in parse(line.cause or "{}").get("cut", ()))
            try:
                reached = self.turns.attempt(workflow_id, nudged, started).replies
            except ConductorliteError:
                return
            started = None
            todo = [event for event in todo if event.event_id not in reached]
            row = self.row(workflow_id)
            if row is None or (row.history_seq >= end and not todo):
                return
            if row.fence == before:
                if self.clock.now() >= turn[0].at:
                    return
                # What followed came when a clock that had been set back had caught up: a line without a clock says so.
                self.clock.set(turn[0].at)

    def from_outside(self, workflow_id: str, turn: Sequence[ReplayStep]) -> tuple[list[Event], Start | None]:
        """The events of a turn that no execution in the document has written, and the start of an execution."""
        found = []
        started = None
        for step in turn:
            sender = step.cause.get("from")
            if step.cause.get("kind") is None or sender in self.exported.executions:
                continue
            if step.cause["kind"] in (EventKind.START, EventKind.FORK):
                started = Start(workflow=self.exported.executions[workflow_id])
            event = reenacted(self.engine, workflow_id, step, self.exported.definitions)
            if event is not None and sender and step is turn[0]:
                # It lay in the inbox, and was read before what else the turn records, however late that was due.
                event = attrs.evolve(event, due_at=0, posted_at=0)
            if event is not None:
                found.append(event)
        return found, started

    def ask(self, workflow_id: str, turn: Sequence[ReplayStep]) -> None:
        """Have what is let in ask for its slot first: it did in a turn before, without a line, maybe by a clock set back since."""
        acts = [act for step in turn for act, admitted, *_ in _slots(step.lines) if admitted]
        asking = {act.removeprefix("ask ") for act in acts if act.startswith("ask ")}
        let_in = {act.partition(" ")[2] for act in acts if act.startswith(_LET_IN)} - asking
        if not let_in:
            return
        with self.engine.backend.reading() as view:
            due = [event for event in view.inbox.events(workflow_id) if event.kind is EventKind.ADMISSION and not event.held]
        found = [event for event in due if event.due_at <= turn[0].at and (event.ref or "") in let_in]
        if found:
            clock = self.clock.now()
            self.clock.set(max(clock, *(event.due_at for event in found)))
            self.record.admissions = ()
            self.record.events = found
            if not self.records(workflow_id):
                self.turns.attempt(workflow_id, ())
            self.clock.set(clock)

    def nudge(self, workflow_id: str, step: ReplayStep) -> list[Event]:
        """Return what makes the turn stamp its lines later than the clock, where something without a line had done so."""
        row = self.row(workflow_id)
        if row is None or step.at <= max(step.clock, row.updated_at) or step.cause.get("kind") == EventKind.MIGRATE:
            return []
        return [Event(workflow_id=workflow_id, event_id=_NUDGE, kind=EventKind.EXTEND_LEASE, due_at=-1, posted_at=step.at, ref="")]

    def chosen(self, workflow_id: str, turn: Sequence[ReplayStep]) -> list[Event]:
        """The events of the inbox that the turn reads: its own timers that are due, and what the record says it read."""
        clock = turn[0].clock
        wanted = {(step.cause["from"], step.cause["id"]) for step in turn if "from" in step.cause}
        lines = [line for step in turn for line in step.lines]
        found = []
        with self.engine.backend.reading() as view:
            due = [event for event in view.inbox.events(workflow_id) if not event.held and event.due_at <= self.clock.now()]
        for event in due:
            if event.sender != workflow_id:
                # One that led to no line was void when it was read. It must not be read when it no longer is.
                if (event.sender, event.event_id) in wanted:
                    found.append(event)
            elif event.kind is not EventKind.RESPONSE_TIMEOUT:
                found.append(event)
            elif _timed_out(event, lines):
                found.append(self.as_kept_alive(event, clock))
            else:
                self.kept_alive[workflow_id, event.ref, event.attempt] = None
        return as_recorded(found, lines)

    def as_kept_alive(self, event: Event, clock: int) -> Event:
        """A response timeout as the last sign of life before it has dated it."""
        if (event.workflow_id, event.ref, event.attempt) not in self.kept_alive:
            return event
        return attrs.evolve(event, due_at=clock, posted_at=clock - (event.due_at - event.posted_at))

    def settle(self, workflow_id: str, following: ReplayStep) -> None:
        """Finish what a cut turn has left, when nothing of it leads to a line."""
        self.registry.used = ()
        self.record.admissions = ()
        for _ in range(_TURNS):
            with self.engine.backend.reading() as view:
                due = [event for event in view.inbox.events(workflow_id) if not event.held and event.due_at <= self.clock.now()]
            left = [event for event in due if event.sender == workflow_id and event.kind is EventKind.CONTINUE]
            self.record.events = left
            if not left or self.records(workflow_id):
                return
            self.turns.attempt(workflow_id, ())

    def records(self, workflow_id: str) -> bool:
        """Return True if a turn over the chosen events has a line: then they were read with those that the next step records."""
        with self.engine.backend.reading() as view:
            row = view.executions.workflow(workflow_id)
            return row is not None and bool(self.turns.decider.decide(self.turns.decider.prepare(view, row, ())).history)

    def pass_while_paused(self, workflow_id: str, until: int) -> None:
        """Have the timers of a paused execution held as they come due: that leads to no line."""
        self.record.admissions = ()
        while True:
            with self.engine.backend.reading() as view:
                inbox = [event for event in view.inbox.events(workflow_id) if not event.held and event.due_at <= until]
            due = [event for event in inbox if event.sender == workflow_id and event.kind not in _UNPAUSED]
            if not due:
                return
            first = min(due, key=lambda event: event.order)
            self.clock.set(first.due_at)
            self.record.events = [first]
            self.turns.attempt(workflow_id, ())

    # ------------------------------------------------------------------ comparing

    def row(self, workflow_id: str) -> Workflow | None:
        """An execution's row, if it has begun."""
        with self.engine.backend.reading() as view:
            return view.executions.workflow(workflow_id)

    def compare(self, workflow_id: str) -> None:
        """Compare the lines that came out since the last time; raises ReplayDiverged."""
        expected = self.exported.histories[workflow_id]
        actual = self.lines(workflow_id)
        upto = len(expected) - sum(len(step.lines) for step in self.steps[workflow_id])
        for place in range(self.done[workflow_id], max(len(actual), upto)):
            same = place < min(len(actual), len(expected)) and _text(expected[place]) == _text(actual[place])
            if not same:
                raise self.diverged(workflow_id, place)
        self.done[workflow_id] = len(actual)
        # A turn may have gone on into what the record has as a step of its own.
        ahead = len(actual) - upto
        while ahead > 0:
            step = self.steps[workflow_id].pop(0)
            if len(step.lines) > ahead:
                self.steps[workflow_id].insert(0, step.without(ahead))
            ahead -= len(step.lines)

    def lines(self, workflow_id: str) -> Sequence[HistoryEvent]:
        """The history as far as it came out."""
        return () if self.row(workflow_id) is None else self.engine.history(workflow_id)

    def diverged(self, workflow_id: str, place: int) -> ReplayDiverged:
        """The difference at a place of a history."""
        both = (self.exported.histories[workflow_id], self.lines(workflow_id))
        expected, actual = (_text(lines[place]) if place < len(lines) else None for lines in both)
        return ReplayDiverged(workflow_id, expected, actual)

    # ------------------------------------------------------------------ definitions, and the end

    def leave(self) -> None:
        """Leave the executions as they were: running tasks alive, no event to one that is not in the document."""
        known = self.exported.executions
        for workflow_id in known:
            for task in self.engine.get(workflow_id).tasks:
                kept = (workflow_id, task.ref, task.attempt) in self.kept_alive
                if kept and not task.retried and task.status is TaskStatus.IN_PROGRESS:
                    self.engine.tasks.extend_lease(task)
            keep_emitted(self.engine.backend, workflow_id, self.exported.emitted[workflow_id])
        self.discard_void()
        self.restore_limits()
        with self.engine.backend.writing() as tx:
            stale_holders = {event.workflow_id for event in tx.inbox.upcoming_events(_TURNS)} - set(known)
            for workflow_id in stale_holders:
                tx.executions.remove(workflow_id)

    def restore_limits(self) -> None:
        """Count what is left with a slot, and have what waits look at once: the execution before it is not in the document."""
        members: dict[str, list[tuple[Workflow, Member]]] = {}
        for workflow_id in self.exported.executions:
            for row, member in self.members(workflow_id):
                members.setdefault(member.key, []).append((row, member))
        for key, found in members.items():
            held = sum(member.state is not MemberState.WAITING and member.concurrent > 0 for _, member in found)
            line = sorted((member.place, row.workflow_id) for row, member in found if member.state is MemberState.WAITING)
            now = self.clock.now()
            alarm = (line[0][0][-1], now) if line else (None, None)
            reserved = sum(member.state is MemberState.RESERVED for _, member in found)
            limit = Limit(key=key, in_use=held, reserved=reserved, alarm=alarm[0], alarm_at=alarm[1])
            change = LimitChange(limit=limit, put=tuple(member for _, member in found))
            with self.engine.backend.writing() as tx:
                row = tx.executions.workflow(found[0][0].workflow_id) or found[0][0]
                tx.decisions.apply(Decision(workflow=row, limits=(change,)))
                if line:
                    tx.inbox.post([window_event(line[0][1], key, now)])

    def members(self, workflow_id: str) -> Iterator[tuple[Workflow, Member]]:
        """Yield what of an execution has a slot, or waits for one."""
        row = self.engine.get(workflow_id)
        seen: dict[str, Any] = {"workflow_id": workflow_id, "priority": row.priority, "created_at": row.created_at}
        if row.rate_limit_key is not None:
            state = MemberState.WAITING if row.rate_limited else MemberState.HELD
            config = row.definition and row.definition.rate_limit_config
            most = config.concurrent_exec_limit if config else 1
            yield row, Member(
                key=row.rate_limit_key, holder=workflow_id, ref=None, attempt=0, generation=row.generation, state=state,
                asked_at=row.updated_at, concurrent=most, **seen,
            )  # fmt: skip
        with self.engine.backend.reading() as view:
            # An execution that has ended holds nothing, and may be of a definition that the execution has moved away from.
            limited = [(task, task.limit_key) for task in row.tasks if task.limit_key is not None]
            terms_of = [self.turns.lookups.plans.extended(view, row, task.grafts).nodes[task.base_ref].limit for task, _ in limited]
        for (task, key), terms in zip(limited, terms_of, strict=True):
            waits = task.status is TaskStatus.PENDING
            offered = task.status is TaskStatus.SCHEDULED and terms.rate > 0
            if waits or offered or terms.concurrent:
                state = MemberState.WAITING if waits else MemberState.RESERVED if offered else MemberState.HELD
                yield row, Member(
                    key=key, holder=task.task_id, ref=task.ref, attempt=task.attempt, generation=task.generation,
                    state=state, asked_at=task.updated_at, seq=task.seq, **attrs.asdict(terms), **seen,
                )  # fmt: skip

    def discard_void(self) -> None:
        """Take events between executions that are due and led to nothing out of their inboxes."""
        for workflow_id in self.exported.executions:
            with self.engine.backend.writing() as tx:
                row = tx.executions.workflow(workflow_id)
                inbox = [event for event in tx.inbox.events(workflow_id) if event.due_at <= self.clock.now()]
                void = tuple(event.event_id for event in inbox if event.sender != workflow_id and not event.held)
                if row is not None and void:
                    tx.decisions.apply(Decision(workflow=row, consumed=void))


def _slots(lines: Sequence[HistoryEvent]) -> list[Any]:
    """Return what limits answered in these lines."""
    return [answer for line in lines for answer in parse(line.cause or "{}").get("slots", ())]


_NOBODY: Final = Workflow(workflow_id="", name="", version=0, definition_hash="", fence=-1)


def _reads(steps: Sequence[ReplayStep], senders: Container[str]) -> dict[tuple[str, str], int]:
    causes = [(step.cause, step.lines[0].n) for step in steps]
    return {(cause["from"], cause["id"]): n for cause, n in causes if cause.get("from") in senders}


def _text(line: HistoryEvent) -> str:
    return canonical(history_line_to_json(line), bounded=False)


def _timed_out(event: Event, lines: Sequence[HistoryEvent]) -> bool:
    """Return True if the lines record the response timeout that an event is about, or of its being put off."""
    return any(
        (line.ref, line.attempt) == (event.ref, event.attempt)
        and (
            (line.kind is HistoryKind.TASK and line.status == TaskStatus.TIMED_OUT and _names_response(line.reason or ""))
            or (line.kind is HistoryKind.POSTPONED and line.status == "response_timeout")
        )
        for line in lines
    )


def _names_response(reason: str) -> bool:
    """Return True if a reason is that of a response timeout, in Conductor's words or in those of earlier releases."""
    return reason.startswith("responseTimeout: ") or " response timeout: " in reason
