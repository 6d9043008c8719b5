"""The turn: load a small snapshot, decide, commit if nobody else moved.

This is the only place where an execution changes. The snapshot is read without a write lock; scripts, payloads and wide JOINs
cost nobody else anything. The commit is one atomic write under the fence; whoever comes second is fenced out, reloads and
decides again, and after a few tries leaves its letters in the inbox, where the driver finds them. Sleepers are woken and
listeners told after the commit, never inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from conductorlite import codec
from conductorlite.canonical import Payload
from conductorlite.canonical import digest as digest_of
from conductorlite.clock import Clock
from conductorlite.decider import DECIDER_VERSION, Bounds, decide, foresee
from conductorlite.decisions import Decision, Embedding, Event, EventKind, Need, Outcome, Snapshot
from conductorlite.definitions import Semantics, WorkflowDef
from conductorlite.engine.asked import Along, Listener, Start, Taken
from conductorlite.engine.cache import Cache
from conductorlite.engine.domains import last_polls
from conductorlite.engine.keys import refuse_letter, replaced, start_letter, strategy_of
from conductorlite.errors import (
    ConductorliteError,
    ExecutionNotFound,
    FencedOut,
    InvalidDefinition,
    InvalidExpression,
    InvariantBroken,
    KeyTaken,
    LimitReached,
    MissingExtra,
    NotFound,
    StorageCorrupt,
)
from conductorlite.executions import Workflow
from conductorlite.expressions import apply_workflow_input_template
from conductorlite.plan import Plan, compile_plan, grafted
from conductorlite.ports import Backend, Lock, ReadingTransaction, WritingTransaction

__all__ = ["Turns"]

#: How often a turn that is fenced out decides anew before it leaves its events in the inbox.
_TRIES: Final = 8

#: After how many of them it decides inside the write, where nobody can be first: many may ask one limit at once.
_INSIDE: Final = 3

#: Turns that break an invariant before the workflow is parked.
_BROKEN_TURNS: Final = 3

#: Characters of large payloads an engine remembers.
_CACHED_TEXT: Final = 32 * 1024 * 1024

#: Due events one turn reads.
_EVENTS: Final = 200

_NOTHING_MADE: Final[Mapping[str, str]] = {}

#: Turns a verb takes on its own to finish what it began, before the driver has to.
_FOLLOW_UPS: Final = 1_000

K = TypeVar("K")
V = TypeVar("V")


class Turns:
    """Takes turns on one backend."""

    def __init__(
        self,
        backend: Backend,
        clock: Clock,
        *,
        environment: Mapping[str, str],
        bounds: Bounds,
        lock: Lock | None = None,
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.environment = dict(environment)
        self.bounds = bounds
        self.lock = lock
        #: Read inside the write transaction: no turn is lost, but others wait while this one decides.
        self.read_inside = False
        self.listeners: list[Listener] = []
        #: Notified after every commit of this engine.
        self.committed = threading.Condition()
        self.commits = 0
        #: How a definition made at run time is embedded; set by the engine.
        self.embed: Callable[[ReadingTransaction, object, Semantics], Embedding] = _not_embedded
        #: How a name becomes the hash of an embedded definition and the texts it needs; set by the engine.
        self.resolve: Callable[[ReadingTransaction, str, int | None], tuple[str, Mapping[str, str]]] = _unresolved
        self._resolved: Cache[str, Mapping[str, str]] = Cache(256)
        self._plans: Cache[tuple[str, Semantics], Plan] = Cache(256)
        self._grown: Cache[tuple[str, Semantics, tuple[str, ...]], Plan] = Cache(64)
        self._payloads: Cache[str, Payload] = Cache(256, weigh=lambda held: len(held.text or ""), budget=_CACHED_TEXT)

    # ------------------------------------------------------------------ taking turns

    def take(
        self, workflow_id: str, events: Sequence[Event] = (), *, started: Start | None = None, along: Along | None = None
    ) -> Taken:
        """Take one turn over what is due and `events`, and the turns that directly follow from it.

        `started` is what a new workflow begins with; `along` writes something more in the same commit. Raises
        ExecutionNotFound, AlreadyExists, KeyTaken, InvariantBroken (the turn is rolled back and counted) and StorageErrors;
        then nothing of the turn is stored.
        """
        taken = self._take(workflow_id, events, started, along)
        rounds = 0
        latest = taken.decision
        family = _addressed(taken)
        while latest is not None and (latest.more or latest.release_held) and rounds < _FOLLOW_UPS:
            rounds += 1
            missing = [event for event in events if event.event_id not in taken.replies]
            follow = self._take(workflow_id, missing, None)
            taken = attrs.evolve(taken, replies={**taken.replies, **follow.replies}, parked=follow.parked)
            latest = follow.decision
            family += _addressed(follow)
        if self.backend.one_commit:
            self._take_family(family)
        return taken

    def _take_family(self, family: list[str]) -> None:
        """The turns of parents and children that were written to; what is left of them is the driver's."""
        for _ in range(_FOLLOW_UPS):
            if not family:
                return
            try:
                family += _addressed(self._take(family.pop(0), (), None))
            except InvariantBroken:
                continue  # counted on its own row; whoever wrote to it is not to blame

    def _take(
        self, workflow_id: str, events: Sequence[Event], started: Start | None, along: Along | None = None
    ) -> Taken:
        if self.lock is not None and not self.lock.try_acquire(workflow_id):
            return self._leave(workflow_id, events)
        try:
            for tried in range(_TRIES):
                try:
                    return self._decide_and_commit(workflow_id, events, started, along, inside=tried >= _INSIDE)
                except FencedOut:
                    continue
                except KeyTaken:
                    if started is not None:
                        raise
                    answered = self._refuse(workflow_id)
                    if answered is not None:
                        return Taken(decision=None, replies={}, answered=answered)
                    continue
                except ExecutionNotFound:
                    if events:
                        raise
                    # Letters to an execution that is gone, or that was ended before it began. Its start may be yet to come.
                    with self.backend.writing() as tx:
                        if tx.due_events(workflow_id, self.clock.now(), 1):
                            tx.remove(workflow_id)
                    return Taken(decision=None, replies={})
                except InvariantBroken as error:
                    self._count_broken(workflow_id, error)
                    raise
            return self._leave(workflow_id, events)
        finally:
            if self.lock is not None:
                self.lock.release(workflow_id)

    def _leave(self, workflow_id: str, events: Sequence[Event]) -> Taken:
        if events:
            with self.backend.writing() as tx:
                tx.post(events)
            self.wake()
        return Taken(decision=None, replies={}, posted=True)

    def _decide_and_commit(
        self, workflow_id: str, events: Sequence[Event], started: Start | None, along: Along | None, *, inside: bool
    ) -> Taken:
        if self.read_inside or inside:
            with self.backend.writing() as tx:
                workflow, decision = self._read_and_decide(tx, workflow_id, events, started)
                _refuse_rejected(decision, started)
                if decision is not None and not decision.empty:
                    self._apply(tx, decision, started, along)
        else:
            with self.backend.reading() as view:
                workflow, decision = self._read_and_decide(view, workflow_id, events, started)
            _refuse_rejected(decision, started)
            if decision is not None and not decision.empty:
                with self.backend.writing() as tx:
                    self._apply(tx, decision, started, along)
        if decision is None:
            if not events:  # it is due: what lies in its inbox is to be held
                self.keep(workflow_id)
            return Taken(decision=None, replies={}, parked=workflow.parked)
        if not decision.empty:
            self.announce(decision)
        return Taken(decision=decision, replies=decision.replies)

    def _read_and_decide(
        self, view: ReadingTransaction, workflow_id: str, events: Sequence[Event], started: Start | None
    ) -> tuple[Workflow, Decision | None]:
        """The row that was read and the decision on it; None for a parked workflow, which takes no turns."""
        workflow = started.workflow if started is not None else view.workflow(workflow_id) or self._begun(view, workflow_id)
        if workflow is None:
            raise ExecutionNotFound(f"no execution has the id {workflow_id!r}")
        ends = any(event.kind is EventKind.TERMINATE for event in events)
        return workflow, self.decide(view, workflow, events, fresh=started is not None) if workflow.parked is None or ends else None

    def _begun(self, view: ReadingTransaction, workflow_id: str) -> Workflow | None:
        """The row of an execution that a START letter of another one brings into being."""
        found = start_letter(view, workflow_id, self.clock.now())
        if found is None:
            return None
        row = self._begun_by(view, found)
        # Before anything is decided on: an execution whose key is taken takes no turn.
        replaced(view, row.name, row.idempotency_key, strategy_of(found))
        return row

    def _begun_by(self, view: ReadingTransaction, found: Event) -> Workflow:
        said = found.data.value
        parent = said.get("parent") or {}
        row = Workflow(
            workflow_id=found.workflow_id,
            name=said["name"],
            version=said["version"],
            definition_hash=said["definitionHash"],
            semantics=Semantics(said["semantics"]),
            decider_version=DECIDER_VERSION,
            seed=said["seed"],
            created_at=self.clock.now(),
            updated_at=found.posted_at,
            correlation_id=said.get("correlationId"),
            idempotency_key=said.get("idempotencyKey") or None,
            priority=said["priority"],
            parent_workflow_id=found.sender if parent else None,
            parent_task_id=parent.get("taskId"),
            parent_ref=parent.get("ref"),
            parent_attempt=parent.get("attempt", 0),
            parent_generation=parent.get("generation", 0),
            depth=said["depth"],
            outer_keys=tuple(said.get("limitKeys") or ()),
            created_by=said.get("createdBy"),
            task_to_domain=Payload.of(said.get("taskToDomain") or {}),
        )
        definition = self.plan(view, row).definition
        return attrs.evolve(
            row,
            name=definition.name,
            version=definition.version,
            input=Payload.of(apply_workflow_input_template(said["input"], definition.input_template)),
            variables=Payload.of(dict(definition.variables)),
        )

    def _refuse(self, workflow_id: str) -> tuple[str, ...] | None:
        """Answer a START letter whose idempotency key is taken, and say who was told; None when it is not taken any more."""
        now = self.clock.now()
        with self.backend.writing() as tx:
            found = start_letter(tx, workflow_id, now)
            told = None if found is None else refuse_letter(tx, found, self._begun_by(tx, found), now)
        if told is not None:
            self.wake()
        return told

    def _apply(self, tx: WritingTransaction, decision: Decision, started: Start | None, along: Along | None) -> None:
        workflow = decision.workflow
        if decision.created and workflow.idempotency_key is not None:
            asked = start_letter(tx, workflow.workflow_id, self.clock.now()) if started is None else None
            strategy = strategy_of(asked) if started is None else started.strategy
            holder = replaced(tx, workflow.name, workflow.idempotency_key, strategy)
            decision = attrs.evolve(decision, replaces=holder)
        if started is not None:
            for digest, text in started.definitions.items():
                tx.embed(digest, text)
        for event in decision.outgoing.posted:
            if event.kind is EventKind.START:
                for digest, text in (self._resolved.get(event.data.value["definitionHash"]) or {}).items():
                    tx.embed(digest, text)
        for digest, text in decision.definitions.items():
            tx.embed(digest, text)
        tx.apply(decision)
        if along is not None:
            along(tx)

    def announce(self, decision: Decision) -> None:
        """Wake sleepers and tell listeners of a committed decision."""
        self.wake()
        for listener in tuple(self.listeners):
            listener(decision.workflow, decision.history)

    def wake(self) -> None:
        """Wake everybody who waits for something to change."""
        with self.committed:
            self.commits += 1
            self.committed.notify_all()

    # ------------------------------------------------------------------ deciding

    def decide(
        self, view: ReadingTransaction, workflow: Workflow, events: Sequence[Event], *, fresh: bool = False
    ) -> Decision:
        """Load what a turn needs and decide, without committing anything; raises InvariantBroken.

        A *fresh* workflow is about to be created: what lies in an inbox of that id belongs to another one. What lies in that of
        a parked one waits for its release.
        """
        now = self.clock.now()
        due = () if fresh or workflow.parked is not None else self.due(view, workflow, now)
        ordered = tuple(sorted((*due, *events), key=lambda event: event.order))
        plan = self.plan(view, workflow)
        snapshot = self.snapshot(workflow, ordered)
        need = foresee(plan, workflow, ordered)
        grown: dict[tuple[str, ...], Plan] = {}
        while True:
            if need:
                snapshot = self.load(view, snapshot, need)
                made = {digest: text for found in snapshot.embedded.values() for digest, text in found.texts.items()}
                grown |= {chain: self.grown(view, workflow, chain, made) for chain in need.grafts}
            answer = self._guarded(plan, snapshot, now, grown)
            if isinstance(answer, Decision):
                return answer
            need = answer

    def snapshot(self, workflow: Workflow, events: tuple[Event, ...]) -> Snapshot:
        """What a turn begins with."""
        return Snapshot(workflow=workflow, events=events)

    def due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
        """The letters of an inbox that a turn at `now` reads."""
        return view.due_events(workflow.workflow_id, now, _EVENTS)

    def _guarded(
        self, plan: Plan, snapshot: Snapshot, now: int, grown: Mapping[tuple[str, ...], Plan]
    ) -> Decision | Need:
        """A decision; whatever else goes wrong in it is a broken invariant of that workflow, not a crash of the driver."""
        try:
            return decide(plan, snapshot, now, environment=self.environment, bounds=self.bounds, grown=grown)
        except ConductorliteError:
            raise
        except Exception as error:
            text = f"workflow {snapshot.workflow.workflow_id}: {type(error).__name__}: {error}"
            raise InvariantBroken(text) from error

    def load(self, view: ReadingTransaction, snapshot: Snapshot, need: Need) -> Snapshot:
        """The snapshot with what a need names."""
        workflow_id = snapshot.workflow.workflow_id
        known = self.texts(view, workflow_id, need.payloads) if need.payloads else {}
        loaded = view.load(workflow_id, attrs.evolve(need, payloads=frozenset()) if need.payloads else need)
        semantics = snapshot.workflow.semantics
        made = {name: self.embed(view, definition, semantics) for name, definition in need.embeds.items()}
        plans = {digest: self.plan(view, attrs.evolve(snapshot.workflow, definition_hash=digest)) for digest in need.plans}
        return Snapshot(
            workflow=snapshot.workflow,
            events=snapshot.events,
            tasks=_both(snapshot.tasks, loaded.tasks),
            latest=_both(snapshot.latest, loaded.latest),
            payloads=_both(snapshot.payloads, known),
            definitions=_both(snapshot.definitions, {key: self._resolve(view, *key) for key in need.definitions}),
            polls=_both(snapshot.polls, {kind: last_polls(view, kind) for kind in need.polls}),
            embedded=_both(snapshot.embedded, made),
            plans=_both(snapshot.plans, plans),
            inbox=tuple(view.inbox(workflow_id)) if need.inbox else snapshot.inbox,
            lines=_both(snapshot.lines, {key: view.line(key, heads) for key, heads in need.limits.items()}),
            members=_both(snapshot.members, {place: view.member(*place) for place in need.members}),
            admissions=snapshot.admissions,
            live_loaded=snapshot.live_loaded or need.live,
            failed_loaded=snapshot.failed_loaded or need.failed,
            everything_loaded=snapshot.everything_loaded or need.everything,
        )

    def _resolve(self, view: ReadingTransaction, name: str, version: int | None) -> str | None:
        """Hash of a registered definition as a new execution keeps it; None when it cannot be started."""
        try:
            digest, definitions = self.resolve(view, name, version)
        except (NotFound, InvalidDefinition, InvalidExpression, MissingExtra):
            return None
        self._resolved.put(digest, definitions)
        return digest

    def texts(self, view: ReadingTransaction, workflow_id: str, digests: Iterable[str]) -> dict[str, Payload]:
        """Large payloads by their hashes. What a hash stands for never changes, so it is read and parsed once a process."""
        held = {digest: self._payloads.get(digest) for digest in digests}
        known = {digest: payload for digest, payload in held.items() if payload is not None}
        missing = held.keys() - known.keys()
        if missing:
            for digest, payload in view.load(workflow_id, Need(payloads=frozenset(missing))).payloads.items():
                self._payloads.put(digest, payload)
                known[digest] = payload
        absent = held.keys() - known.keys()
        if absent:
            raise StorageCorrupt(f"{workflow_id}: payload {min(absent)} is missing")
        return known

    def plan(self, view: ReadingTransaction, workflow: Workflow) -> Plan:
        """The compiled plan of an execution's embedded definition; raises StorageCorrupt when that is missing."""
        return self._plan(view, workflow, workflow.definition_hash, {})

    def made(self, view: ReadingTransaction, workflow: Workflow, digest: str) -> WorkflowDef:
        """A definition that an execution made at run time; raises StorageCorrupt when it is missing."""
        return self._plan(view, workflow, digest, _NOTHING_MADE).definition

    def grown(
        self, view: ReadingTransaction, workflow: Workflow, chain: tuple[str, ...], made: Mapping[str, str] = _NOTHING_MADE
    ) -> Plan:
        """The plan with the definitions of these hashes grown into it; `made` are texts that are not stored yet."""
        if not chain:
            return self.plan(view, workflow)
        key = (workflow.definition_hash, workflow.semantics, chain)
        plan = self._grown.get(key)
        if plan is None:
            inner = self._plan(view, workflow, chain[-1], made)
            root = inner.definition.tasks[0].task_reference_name
            plan = grafted(self.grown(view, workflow, chain[:-1], made), root, chain[-1], inner)
            self._grown.put(key, plan)
        return plan

    def _plan(self, view: ReadingTransaction, workflow: Workflow, digest: str, made: Mapping[str, str]) -> Plan:
        plan = self._plans.get((digest, workflow.semantics))
        if plan is None:
            text = made.get(digest) or view.definition(digest)
            if text is None:
                raise StorageCorrupt(f"the definition {digest} of {workflow.workflow_id} is missing")
            if digest_of(text) != digest:
                raise StorageCorrupt(f"the definition {digest} of {workflow.workflow_id} is damaged")
            plan = compile_plan(codec.workflow_def_from_json(text), workflow.semantics)
            self._plans.put((digest, workflow.semantics), plan)
        return plan

    def know(self, digest: str, plan: Plan) -> None:
        """Keep a plan that was compiled elsewhere."""
        self._plans.put((digest, plan.semantics), plan)

    # ------------------------------------------------------------------ broken turns

    def _count_broken(self, workflow_id: str, error: InvariantBroken) -> None:
        """Count a broken turn on the workflow row, in a write of its own; the third one parks the workflow."""
        with self.backend.writing() as tx:
            workflow = tx.workflow(workflow_id)
            if workflow is not None:
                tries = workflow.broken_turns + 1
                tx.park(workflow_id, tries, str(error) if tries >= _BROKEN_TURNS else None)

    def keep(self, workflow_id: str, events: Sequence[Event] = ()) -> None:
        """Put letters into the inbox of a parked workflow and hold all of it; of one released meanwhile they are due."""
        with self.backend.writing() as tx:
            workflow = tx.workflow(workflow_id)
            if workflow is not None:
                tx.post(events)
                tx.park(workflow_id, workflow.broken_turns, workflow.parked)
        if events:
            self.wake()


def _refuse_rejected(decision: Decision | None, started: Start | None) -> None:
    """An execution that a limit refuses is not stored; raises LimitReached."""
    if started is not None and decision is not None:
        for reply in decision.replies.values():
            if reply.outcome is Outcome.REJECTED:
                raise LimitReached(f"{decision.workflow.name}: {reply.message}")


def _both(known: Mapping[K, V], more: Mapping[K, V]) -> Mapping[K, V]:
    return {**known, **more} if known and more else known or more


def _addressed(taken: Taken) -> list[str]:
    """Other workflows a turn has written to, each once."""
    posted = () if taken.decision is None else taken.decision.outgoing.posted
    return list(dict.fromkeys((*taken.answered, *(event.workflow_id for event in posted))))


def _not_embedded(view: ReadingTransaction, definition: object, semantics: Semantics) -> Embedding:
    return Embedding(problem="nothing embeds definitions")


def _unresolved(view: ReadingTransaction, name: str, version: int | None) -> tuple[str, Mapping[str, str]]:
    raise NotFound(f"nothing resolves definitions: {name!r}")
