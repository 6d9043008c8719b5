"""What comes before a commit: a turn is read and decided, and nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from conductorlite.decide import decide
from conductorlite.engine.payloads import TurnMemo
from conductorlite.engine.reader import Lookups, StoreReader
from conductorlite.engine.turn_types import Taking
from conductorlite.model.decisions import Admission, Decision, Event
from conductorlite.model.errors import (
    ConductorliteError,
    InvariantBroken,
)
from conductorlite.model.executions import Workflow
from conductorlite.model.texts import error_text
from conductorlite.plan.compile import Plan
from conductorlite.store.ports import ReadingTransaction, WritingTransaction

__all__ = ["Turn", "TurnDecider"]

#: Due events one turn reads.
_EVENTS: Final = 200


@attrs.frozen(kw_only=True, slots=True)
class Turn:
    """What one turn is decided on."""

    plan: Plan
    reader: StoreReader
    events: tuple[Event, ...]
    now: int
    #: Workers that are free for what the turn offers.
    taking: Taking | None = None


class TurnDecider(Lookups):
    """Decides turns, and commits nothing."""

    #: When a record is replayed: what limits answered in the turn to come, except where nothing came of it.
    admissions: tuple[Admission, ...] | None = None

    def prepare(
        self,
        view: ReadingTransaction,
        workflow: Workflow,
        events: Sequence[Event],
        *,
        memo: TurnMemo | None = None,
    ) -> Turn:
        """What a turn decides on, for as long as the view is open, or beyond that once its reader has left it.

        One that is `started` is about to be created: an event in an inbox of that id belongs to another one. An event in that of
        a parked one waits for its release.
        """
        memo = TurnMemo() if memo is None else memo
        now = self.clock.now() if memo.now is None else memo.now
        due = () if memo.started is not None or workflow.parked is not None else self.due(view, workflow, now)
        ordered = tuple(sorted((*due, *events), key=lambda event: event.order))
        plan = self.plans.plan(view, workflow)
        if plan.foreign:
            self.entering(workflow, ordered, memo)
        reader = StoreReader(self, view, workflow, now, memo)
        return Turn(plan=plan, reader=reader, events=ordered, now=now, taking=memo.taking)

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
        taking, reader = turn.taking, turn.reader
        return decide(
            turn.plan,
            reader,
            turn.events,
            turn.now,
            environment=self.environment,
            bounds=self.bounds,
            recorded=self.admissions,
            hand_out=None
            if taking is None
            else partial(taking.hand_out, reader.workflow.workflow_id, turn.now, reader.first_offered),
        )

    def entering(self, workflow: Workflow, events: Sequence[Event], memo: TurnMemo) -> None:
        """A turn that may run code of another author is about to be decided."""

    def due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
        """The events of an inbox that a turn at `now` reads."""
        return view.due_events(workflow.workflow_id, now, _EVENTS)

    def store_payloads(self, decision: Decision, memo: TurnMemo, inside: WritingTransaction | None = None) -> Decision:
        """The decision with what is past its soft barrier put into the payload storage; `inside` is a write that is open."""
        decision, put = self.payload_store.put(decision, memo, self.clock.now(), inside)
        for key, payload in put.items():
            self._payloads.put(key, payload)
        return decision
