"""What comes before a commit: a small snapshot is loaded, and decided on, until nothing more is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from conductorlite.canonical import Payload
from conductorlite.clock import Clock, steady
from conductorlite.decider import Bounds, decide, foresee
from conductorlite.decisions import Decision, Embedding, Event, Need, Snapshot
from conductorlite.definitions import Semantics
from conductorlite.engine.cache import Cache
from conductorlite.engine.domains import last_polls
from conductorlite.engine.driven import Driven
from conductorlite.engine.outside import Elsewhere, Near, Outside
from conductorlite.engine.plans import Plans
from conductorlite.errors import (
    ConductorliteError,
    InvalidDefinition,
    InvalidExpression,
    InvariantBroken,
    MissingExtra,
    NotFound,
    StorageCorrupt,
)
from conductorlite.executions import Workflow
from conductorlite.limits import Line, reread
from conductorlite.plan import Plan
from conductorlite.ports import ReadingTransaction

__all__ = ["Deciding"]

#: Due events one turn reads.
_EVENTS: Final = 200

#: Characters of large payloads an engine remembers.
_CACHED_TEXT: Final = 32 * 1024 * 1024

K = TypeVar("K")
V = TypeVar("V")


class Deciding(Plans):
    """Decides turns, and commits nothing."""

    def __init__(self, clock: Clock, *, environment: Mapping[str, str], bounds: Bounds, outside: Outside) -> None:
        super().__init__()
        #: What lies in the payload storage.
        self.outside = outside
        self.clock = clock
        #: For how long the store was driven; None: default deadlines count by the clock. Set by the engine.
        self.driven: Driven | None = None
        self.environment = dict(environment)
        self.bounds = bounds
        #: How a definition made at run time is embedded; set by the engine.
        self.embed: Callable[[ReadingTransaction, object, Semantics], Embedding] = _not_embedded
        #: How a name becomes the hash of an embedded definition and the texts it needs; set by the engine.
        self.resolve: Callable[[ReadingTransaction, str, int | None], tuple[str, Mapping[str, str]]] = _unresolved
        self._resolved: Cache[str, Mapping[str, str]] = Cache(256)
        self._payloads: Cache[str, Payload] = Cache(256, weigh=lambda held: len(held.text or ""), budget=_CACHED_TEXT)

    def decide(
        self,
        view: ReadingTransaction,
        workflow: Workflow,
        events: Sequence[Event],
        *,
        fresh: bool = False,
        near: Near | None = None,
    ) -> Decision:
        """Load what a turn needs and decide, without committing anything; raises InvariantBroken.

        Raises Elsewhere when it needs documents of the payload storage that are not `near`. A *fresh* workflow is about to be
        created: what lies in an inbox of that id belongs to another one. What lies in that of a parked one waits for its
        release.
        """
        now, read = self.clock.now(), steady(self.clock)
        due = () if fresh or workflow.parked is not None else self.due(view, workflow, now)
        ordered = tuple(sorted((*due, *events), key=lambda event: event.order))
        plan = self.plan(view, workflow)
        snapshot = self.snapshot(workflow, ordered)
        left = self.left(view, ordered, now)
        if left:
            snapshot = attrs.evolve(snapshot, left=left)
        if near is not None and (near.payloads or near.lost):
            snapshot = attrs.evolve(snapshot, payloads=dict(near.payloads), lost=dict(near.lost))
        if near is not None and plan.foreign:
            self.entering(workflow, ordered, near)
        need = foresee(plan, workflow, ordered)
        grown: dict[tuple[str, ...], Plan] = {}
        while True:
            if need:
                snapshot = self.load(view, snapshot, need, now, read)
                made = {digest: text for found in snapshot.embedded.values() for digest, text in found.texts.items()}
                grown |= {chain: self.grown(view, workflow, chain, made) for chain in need.grafts}
            answer = self._guarded(plan, snapshot, now, grown)
            if isinstance(answer, Decision):
                return answer
            need = answer

    def entering(self, workflow: Workflow, events: Sequence[Event], near: Near) -> None:
        """A turn that may run code of somebody else is about to be decided."""

    def snapshot(self, workflow: Workflow, events: tuple[Event, ...]) -> Snapshot:
        """What a turn begins with."""
        return Snapshot(workflow=workflow, events=events)

    def left(self, view: ReadingTransaction, events: Sequence[Event], now: int) -> Mapping[str, int]:
        """How much driven time is left of the default deadlines among the events, ms, by event."""
        known = {} if self.driven is None else self.driven.left(view, events, now)
        return {event_id: left for (_, event_id), left in known.items()}

    def due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
        """The letters of an inbox that a turn at `now` reads."""
        return view.due_events(workflow.workflow_id, now, _EVENTS)

    def _guarded(self, plan: Plan, snapshot: Snapshot, now: int, grown: Mapping[tuple[str, ...], Plan]) -> Decision | Need:
        """A decision; whatever else goes wrong in it is a broken invariant of that workflow, not a crash of the driver."""
        try:
            return decide(plan, snapshot, now, environment=self.environment, bounds=self.bounds, grown=grown)
        except ConductorliteError:
            raise
        except Exception as error:
            text = f"workflow {snapshot.workflow.workflow_id}: {type(error).__name__}: {error}"
            raise InvariantBroken(text) from error

    def load(self, view: ReadingTransaction, snapshot: Snapshot, need: Need, now: int, read: tuple[str, int] | None) -> Snapshot:
        """The snapshot with what a need names, limits as the clocks read when the turn began; raises Elsewhere."""
        workflow_id = snapshot.workflow.workflow_id
        known = self.texts(view, workflow_id, need.payloads) if need.payloads else {}
        far = [payload.external for payload in known.values() if payload.text is None and payload.external is not None]
        if far:
            raise Elsewhere(far)
        loaded = view.load(workflow_id, attrs.evolve(need, payloads=frozenset()) if need.payloads else need)
        semantics = snapshot.workflow.semantics
        made = {name: self.embed(view, definition, semantics) for name, definition in need.embeds.items()}
        plans = {digest: self.plan(view, attrs.evolve(snapshot.workflow, definition_hash=digest)) for digest in need.plans}
        return Snapshot(
            workflow=snapshot.workflow,
            events=snapshot.events,
            tasks=_both(snapshot.tasks, loaded.tasks),
            ids=_both(snapshot.ids, {one: _ref_of(view, workflow_id, one) for one in need.ids}),
            latest=_both(snapshot.latest, loaded.latest),
            payloads=_both(snapshot.payloads, known),
            lost=snapshot.lost,
            left=snapshot.left,
            definitions=_both(snapshot.definitions, {key: self._resolve(view, *key) for key in need.definitions}),
            polls=_both(snapshot.polls, {kind: last_polls(view, kind) for kind in need.polls}),
            embedded=_both(snapshot.embedded, made),
            plans=_both(snapshot.plans, plans),
            inbox=tuple(view.inbox(workflow_id)) if need.inbox else snapshot.inbox,
            lines=_both(snapshot.lines, {key: _line(view, key, heads, now, read) for key, heads in need.limits.items()}),
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
        """Large payloads by their hashes. What a hash stands for never changes, so it is read and parsed once a process.

        Those of the payload storage may come without their text, which is then fetched when their document is looked at.
        """
        held = {digest: self._payloads.get(digest) for digest in digests}
        known = {digest: payload for digest, payload in held.items() if payload is not None}
        missing = held.keys() - known.keys()
        if missing:
            for digest, payload in view.load(workflow_id, Need(payloads=frozenset(missing))).payloads.items():
                self._payloads.put(digest, payload)
                known[digest] = payload
        absent = held.keys() - known.keys()
        if absent:
            for digest, external in view.externals(workflow_id, absent).items():
                known[digest] = self._payloads.get(external.key) or self.outside.lazy(external)
            if absent - known.keys():
                raise StorageCorrupt(f"{workflow_id}: payload {min(absent - known.keys())} is missing")
        return known


def _both(known: Mapping[K, V], more: Mapping[K, V]) -> Mapping[K, V]:
    return {**known, **more} if known and more else known or more


def _line(view: ReadingTransaction, key: str, heads: int, now: int, read: tuple[str, int] | None) -> Line:
    """A limit with its windows by the turn's own reading of the clocks: had they been set since, it would compare two times."""
    line = view.line(key, heads)
    return line if read is None else attrs.evolve(line, limit=reread(line.limit, now, read))


def _ref_of(view: ReadingTransaction, workflow_id: str, task_id: str) -> str | None:
    task = view.task_by_id(task_id)
    return None if task is None or task.workflow_id != workflow_id else task.ref


def _not_embedded(view: ReadingTransaction, definition: object, semantics: Semantics) -> Embedding:
    return Embedding(problem="nothing embeds definitions")


def _unresolved(view: ReadingTransaction, name: str, version: int | None) -> tuple[str, Mapping[str, str]]:
    raise NotFound(f"nothing resolves definitions: {name!r}")
