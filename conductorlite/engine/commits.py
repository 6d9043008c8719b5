"""Commits of decisions: compared, completed and written in one transaction, and then kept in memory.

The transaction is the caller's, which may write several executions' decisions in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from conductorlite.engine.keys import replaced, start_event, strategy_of
from conductorlite.engine.lookups import Lookups
from conductorlite.engine.payloads import TurnMemo
from conductorlite.engine.residents import Residents
from conductorlite.engine.turn_types import Asked
from conductorlite.model.clock import readings
from conductorlite.model.decisions import Decision, EventKind
from conductorlite.model.errors import FencedOut
from conductorlite.model.executions import Workflow
from conductorlite.model.limits import LimitChange, reread
from conductorlite.store.ports import WritingTransaction

if TYPE_CHECKING:
    from conductorlite.engine.turn_lock import TurnLock

__all__ = ["Committer"]


class Committer:
    """Writes decisions. The row is compared by the store, under the fence; what else must hold, here."""

    def __init__(
        self,
        lookups: Lookups,
        residents: Residents,
        locking: TurnLock | None = None,
        *,
        fencing: bool = True,
        ended: Callable[[WritingTransaction, Workflow], None] | None = None,
    ) -> None:
        self._lookups, self._residents, self._locking = lookups, residents, locking
        #: Without it a turn overwrites what another one has committed since it read.
        self.fencing = fencing
        #: Called in the same commit when an execution ends that something else began (`Workflow.event`).
        self._ended = ended

    def store_payloads(self, decision: Decision, memo: TurnMemo, inside: WritingTransaction | None = None) -> Decision:
        """The decision with what is past its soft barrier put into the payload storage; `inside` is a write that is open."""
        if not decision.texts:
            return decision
        decision, put = self._lookups.payload_store.put(decision, memo, self._lookups.clock.now(), inside)
        for key, payload in put.items():
            self._lookups.large.put(key, payload)
        return decision

    def stores_apart(self, decision: Decision) -> bool:
        """Return True if documents of a decision are put into a payload storage, which may take long."""
        return self._lookups.payload_store.storage is not None and bool(self._lookups.bounds.barriers.past_soft(decision))

    def before_apply(self, tx: WritingTransaction, decision: Decision, memo: TurnMemo) -> Decision:
        """Return the decision to apply; when this raises, nothing is stored but definitions by their hashes."""
        workflow, started = decision.workflow, memo.started
        if decision.created and workflow.idempotency_key is not None:
            asked = start_event(tx, workflow.workflow_id, self._lookups.clock.now()) if started is None else None
            strategy = strategy_of(asked) if started is None else started.strategy
            holder = replaced(tx, workflow.name, workflow.idempotency_key, strategy)
            decision = attrs.evolve(decision, replaces=holder)
        if decision.created and started is None and workflow.owner:
            decision = self._owned_now(tx, decision)
        if started is not None:
            for digest, text in started.definitions.items():
                tx.metadata.embed(digest, text)
        for event in decision.outgoing.posted:
            if event.kind is EventKind.START:
                for digest, text in self._lookups.texts_resolved(event.data.value["definitionHash"]).items():
                    tx.metadata.embed(digest, text)
        for digest, text in decision.definitions.items() if decision.definitions else ():
            tx.metadata.embed(digest, text)
        if self._locking is not None:
            self._locking.confirm(workflow.workflow_id, memo.token)
        if not self.fencing and not decision.created:
            stored = tx.executions.workflow(workflow.workflow_id)
            fence, owner = (workflow.fence, workflow.owner) if stored is None else (stored.fence, stored.owner)
            decision = attrs.evolve(decision, workflow=attrs.evolve(decision.workflow, fence=fence, owner=owner))
        if not self._lookups.at_hand and memo.known is not None and self._residents:
            self._lookups.quiet.confirm(tx, workflow, memo, self._lookups.clock.now())
        self._lookups.quiet.write(decision)
        if decision.limits and not self._lookups.clock.virtual:
            decision = attrs.evolve(decision, limits=self._dated_now(decision.limits))
        return decision

    def write_extras(self, tx: WritingTransaction, decision: Decision, memo: TurnMemo | Asked) -> None:
        """Write what belongs to the same commit beside the decision."""
        if decision.printed:
            tx.history.log(decision.workflow.workflow_id, decision.printed)
        if self._ended is not None and decision.workflow.event is not None and decision.workflow.status.terminal:
            self._lookups.quiet.forget()
            self._ended(tx, decision.workflow)
        if memo.extra_write is not None:
            self._lookups.quiet.forget(memo.extra_write)
            memo.extra_write(tx, decision)
        if memo.taking is not None:
            memo.taking(tx, decision)

    def keep(self, decision: Decision, memo: TurnMemo, number: int) -> None:
        """Keep the rows that a committed decision has made, for the next turn; `number` is that of its commit."""
        known, memo.known = memo.known, None  # it knows the memo, and the collector would have to find both
        if known is None or self._lookups.registry.joined.decisions is not None:
            return
        if decision.workflow.status.terminal:
            self._lookups.quiet.over = (decision.workflow, number)
        else:
            self._residents.keep(decision, known, memo.version, number)

    def _dated_now(self, changes: Sequence[LimitChange]) -> tuple[LimitChange, ...]:
        """Limits as they are at the commit: the write may have waited, and the clock may have jumped meanwhile."""
        now, read = readings(self._lookups.clock)
        return tuple(attrs.evolve(change, limit=reread(change.limit, now, read, change.dated)) for change in changes)

    def _owned_now(self, tx: WritingTransaction, decision: Decision) -> Decision:
        """An execution that begins belongs to the present owner of its events: it may have been taken over since it was read."""
        event = start_event(tx, decision.workflow.workflow_id, self._lookups.clock.now())
        if event is None or event.owner == decision.workflow.owner:
            return decision
        raise FencedOut(f"{decision.workflow.workflow_id}: it belongs to {event.owner!r} since it was read")
