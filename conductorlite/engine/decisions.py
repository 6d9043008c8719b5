"""What comes before a commit: a turn is read and decided, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from conductorlite.decide import decide
from conductorlite.decide.draft.view import Bounds
from conductorlite.engine.cache import Cache
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.payloads import Near, Outside
from conductorlite.engine.reader import Cut, StoreReader
from conductorlite.engine.registry import Registry
from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.clock import Clock
from conductorlite.model.decisions import Admission, Decision, Event
from conductorlite.model.errors import (
    ConductorliteError,
    InvalidDefinition,
    InvalidExpression,
    InvariantBroken,
    MissingExtra,
    NotFound,
    StorageCorrupt,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.texts import error_text
from conductorlite.plan.compile import Plan
from conductorlite.store.ports import ReadingTransaction, WritingTransaction

__all__ = ["Deciding", "Turn"]

#: Due events one turn reads.
_EVENTS: Final = 200

#: Characters of large payloads an engine remembers.
_CACHED_TEXT: Final = 32 * 1024 * 1024


@attrs.frozen(kw_only=True, slots=True)
class Turn:
    """What one turn is decided on."""

    plan: Plan
    reader: StoreReader
    events: tuple[Event, ...]
    now: int


class Deciding:
    """Decides turns, and commits nothing."""

    #: When a record is lived again: what limits answered in the turn to come, save where nothing came of it, and what was cut.
    admissions: tuple[Admission, ...] | None = None
    cut: tuple[Cut, ...] | None = None

    def __init__(
        self,
        clock: Clock,
        *,
        registry: Registry,
        environment: Mapping[str, str],
        bounds: Bounds,
        outside: Outside,
        driven: Driven | None = None,
    ) -> None:
        self.clock = clock
        #: The compiled plans of embedded definitions.
        self.plans = registry.plans
        #: What embeds definitions made at run time, and those known by name only.
        self.registry = registry
        #: What lies in the payload storage.
        self.outside = outside
        #: For how long the store was driven; None: default deadlines count by the clock.
        self.driven = driven
        self.environment = dict(environment)
        self.bounds = bounds
        self._resolved: Cache[str, Mapping[str, str]] = Cache(256)
        self._payloads: Cache[str, Payload] = Cache(256, weigh=lambda held: len(held.text or ""), budget=_CACHED_TEXT)

    def prepare(
        self,
        view: ReadingTransaction,
        workflow: Workflow,
        events: Sequence[Event],
        *,
        fresh: bool = False,
        near: Near | None = None,
    ) -> Turn:
        """What a turn decides on, for as long as the view is open, or beyond that once its reader has left it.

        A *fresh* workflow is about to be created: what lies in an inbox of that id belongs to another one. What lies in that of
        a parked one waits for its release.
        """
        near = Near() if near is None else near
        now = self.clock.now() if near.now is None else near.now
        due = () if fresh or workflow.parked is not None else self.due(view, workflow, now)
        ordered = tuple(sorted((*due, *events), key=lambda event: event.order))
        plan = self.plans.plan(view, workflow)
        if plan.foreign:
            self.entering(workflow, ordered, near)
        reader = StoreReader(self, view, workflow, now, near)
        return Turn(plan=plan, reader=reader, events=ordered, now=now)

    def decide(self, turn: Turn) -> Decision:
        """Decide, without committing anything; raises InvariantBroken.

        Raises Elsewhere and NoHelper when documents of the payload storage, or processes for scripts, are needed while the view is
        open; whatever else the store raises goes on as it came.
        """
        reader = turn.reader
        try:
            decision = self._decided(turn)
        except Exception as error:
            if reader.failure is None and not isinstance(error, ConductorliteError):
                # Whatever goes wrong in it is a broken invariant of that workflow, not a crash of the driver.
                text = f"workflow {reader.workflow.workflow_id}: {error_text(error)}"
                raise InvariantBroken(text) from error
            if reader.failure is None or error is reader.failure:
                raise
        if reader.failure is not None:
            raise reader.failure
        return decision

    def _decided(self, turn: Turn) -> Decision:
        return decide(
            turn.plan,
            turn.reader,
            turn.events,
            turn.now,
            environment=self.environment,
            bounds=self.bounds,
            told=self.admissions,
        )

    def entering(self, workflow: Workflow, events: Sequence[Event], near: Near) -> None:
        """A turn that may run code of somebody else is about to be decided."""

    def left(self, view: ReadingTransaction, events: Iterable[Event], now: int) -> Mapping[tuple[str, str], int]:
        """How much driven time is left of default deadlines, ms; others are not in it."""
        return {} if self.driven is None else self.driven.left(view, events, now)

    def due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
        """The events of an inbox that a turn at `now` reads."""
        return view.due_events(workflow.workflow_id, now, _EVENTS)

    def resolved(self, view: ReadingTransaction, name: str, version: int | None) -> str | None:
        """Hash of a registered definition as a new execution keeps it; None when it cannot be started."""
        try:
            digest, definitions = self.registry.resolve(view, name, version)
        except (NotFound, InvalidDefinition, InvalidExpression, MissingExtra):
            return None
        self._resolved.put(digest, definitions)
        return digest

    def fetch(self, near: Near, externals: Iterable[ExternalPayload]) -> None:
        """Have documents of the payload storage at hand, outside any transaction; raises PayloadUnavailable."""
        self.outside.fetch(near, externals)
        for payload in near.payloads.values():
            if payload.external is not None:
                self._payloads.put(payload.external.key, payload)

    def put_outside(self, decision: Decision, near: Near, inside: WritingTransaction | None = None) -> Decision:
        """The decision with what is past its soft barrier put into the payload storage; `inside` is a write that is open."""
        decision, put = self.outside.put(decision, near, self.clock.now(), inside)
        for key, payload in put.items():
            self._payloads.put(key, payload)
        return decision

    def texts(self, view: ReadingTransaction, workflow_id: str, digests: Iterable[str]) -> dict[str, Payload]:
        """Large payloads by their hashes. What a hash stands for never changes, so it is read and parsed once a process.

        Those of the payload storage may come without their text, which is then fetched when their document is looked at.
        """
        held = {digest: self._payloads.get(digest) for digest in digests}
        known = {digest: payload for digest, payload in held.items() if payload is not None}
        missing = held.keys() - known.keys()
        if missing:
            for digest, payload in view.payloads(workflow_id, missing).items():
                self._payloads.put(digest, payload)
                known[digest] = payload
        absent = held.keys() - known.keys()
        if absent:
            for digest, external in view.externals(workflow_id, absent).items():
                known[digest] = self._payloads.get(external.key) or self.outside.lazy(external)
            if absent - known.keys():
                raise StorageCorrupt(f"{workflow_id}: payload {min(absent - known.keys())} is missing")
        return known
