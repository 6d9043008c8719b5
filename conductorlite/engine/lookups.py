"""The inputs of the turns of one engine besides rows, and what is remembered of them from one turn to the next.

When a record is replayed (`Record`), some of it is what the record says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from conductorlite.decide.changeset.reader import Bounds
from conductorlite.engine.driven_time import Driven
from conductorlite.engine.logs import FailureLog
from conductorlite.engine.payloads import PayloadStore, TurnMemo
from conductorlite.engine.registry import Registry
from conductorlite.engine.residents import Quiet
from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.clock import Clock
from conductorlite.model.decisions import Admission, Decision, Event
from conductorlite.model.errors import InvalidDefinition, InvalidExpression, MissingExtra, NotFound, StorageCorrupt
from conductorlite.model.executions import Workflow
from conductorlite.model.threads import Cache
from conductorlite.store.ports import ReadingTransaction

__all__ = ["Cut", "Lookups", "Record"]

#: A script that a bound ended, as the journal records it: its seed, whether it was its time, and its words.
Cut = tuple[str, bool, str]

#: Characters of large payloads an engine remembers.
_CACHED_TEXT: Final = 32 * 1024 * 1024


class Record(Protocol):
    """The inputs of a turn that is replayed from a record, used instead of the store and of other sources."""

    @property
    def events(self) -> Sequence[Event]:
        """The events of the inbox that the turn reads."""

    @property
    def admissions(self) -> tuple[Admission, ...]:
        """The answers of limits, except where nothing came of them."""

    @property
    def cut(self) -> tuple[Cut, ...]:
        """The scripts that a bound ended."""

    def left(self, events: Iterable[Event]) -> Mapping[tuple[str, str], int]:
        """Return the driven time left of default deadlines, ms; others are not in it."""

    def begun(self, row: Workflow) -> Workflow:
        """The row of an execution that a START event has begun, as it was in the record."""

    def kept(self, decision: Decision) -> Decision:
        """A decision as it is committed."""


class Lookups:
    """The inputs of turns besides rows: plans, definitions, large payloads, driven time."""

    def __init__(
        self,
        clock: Clock,
        *,
        registry: Registry,
        environment: Mapping[str, str],
        bounds: Bounds,
        payload_store: PayloadStore,
        quiet: Quiet,
        at_hand: bool = False,
        driven: Driven | None = None,
        record: Record | None = None,
    ) -> None:
        self.clock = clock
        #: The compiled plans of embedded definitions.
        self.plans = registry.plans
        #: What embeds definitions made at run time, and those known by name only.
        self.registry = registry
        #: The documents in the payload storage.
        self.payload_store = payload_store
        #: What is known of the store beside executions.
        self.quiet = quiet
        #: Whether the store is in memory.
        self.at_hand = at_hand
        #: For how long the store was driven; None: default deadlines count by the clock.
        self.driven = driven
        #: The record that is replayed, if one is.
        self.record = record
        #: What goes wrong in turns.
        self.failures = FailureLog()
        self.environment = dict(environment)
        self.bounds = bounds
        self._resolved: Cache[str, Mapping[str, str]] = Cache(256)
        #: Large payloads, by their hashes, or where they lie in the payload storage.
        self.large: Cache[str, Payload] = Cache(256, weigh=lambda held: len(held.text or ""), budget=_CACHED_TEXT)

    def left(self, view: ReadingTransaction, events: Iterable[Event], now: int) -> Mapping[tuple[str, str], int]:
        """Return the driven time left of default deadlines, ms; others are not in it."""
        if self.record is not None:
            return self.record.left(events)
        return {} if self.driven is None else self.driven.left(view, events, now)

    def resolved(self, view: ReadingTransaction, name: str, version: int | None) -> str | None:
        """Hash of a registered definition as a new execution keeps it; None when it cannot be started."""
        try:
            digest, definitions = self.registry.resolve(view, name, version)
        except (NotFound, InvalidDefinition, InvalidExpression, MissingExtra):
            return None
        self._resolved.put(digest, definitions)
        return digest

    def texts_resolved(self, digest: str) -> Mapping[str, str]:
        """The definitions that were found by a name lately, of the one with this hash: their texts, by hash."""
        return self._resolved.get(digest) or {}

    def fetch(self, memo: TurnMemo, externals: Iterable[ExternalPayload]) -> None:
        """Have documents of the payload storage at hand, outside any transaction; raises PayloadUnavailable."""
        self.payload_store.fetch(memo, externals)
        for payload in memo.payloads.values():
            if payload.external is not None:
                self.large.put(payload.external.key, payload)

    def texts_known(self, digests: Iterable[str]) -> dict[str, Payload]:
        """Large payloads, by their hashes, that this process need not read."""
        return {digest: held for digest in digests if (held := self.large.get(digest)) is not None}

    def texts(self, view: ReadingTransaction, workflow_id: str, digests: Iterable[str]) -> dict[str, Payload]:
        """Large payloads by their hashes. What a hash stands for never changes, so it is read and parsed once a process.

        Those of the payload storage may come without their text, which is then fetched when their document is looked at.
        """
        wanted = frozenset(digests)
        known = self.texts_known(wanted)
        missing = wanted - known.keys()
        if missing:
            for digest, payload in view.executions.payloads(workflow_id, missing).items():
                self.large.put(digest, payload)
                known[digest] = payload
        absent = wanted - known.keys()
        if absent:
            for digest, external in view.payloads.externals(workflow_id, absent).items():
                known[digest] = self.large.get(external.key) or self.payload_store.lazy(external)
            if absent - known.keys():
                raise StorageCorrupt(f"{workflow_id}: payload {min(absent - known.keys())} is missing")
        return known
