"""What comes before a commit: a turn is read and decided, and nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import attrs

from conductorlite.decide import DECIDER_VERSION, decide
from conductorlite.engine.archive import missing
from conductorlite.engine.keys import replaced, start_event, strategy_of
from conductorlite.engine.payloads import PayloadsRequired, TurnMemo
from conductorlite.engine.reader import Lookups, StoreReader
from conductorlite.engine.residents import Resident
from conductorlite.engine.turn_types import LASTING, Taking
from conductorlite.language.processes import NoHelper
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Admission, Decision, Event, EventKind
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import (
    ConductorliteError,
    InvariantBroken,
    PayloadTooLarge,
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
        memo.known = None if plan.foreign else reader
        return Turn(plan=plan, reader=reader, events=ordered, now=now, taking=memo.taking)

    def prepared(
        self, view: ReadingTransaction, workflow_id: str, events: Sequence[Event], memo: TurnMemo
    ) -> tuple[Workflow, Turn | None]:
        """The row that was read and the turn over it; None for a parked workflow, which takes no turns."""
        started = memo.started
        workflow = started.workflow if started is not None else view.workflow(workflow_id) or self._begun(view, workflow_id)
        if workflow is None:
            raise missing(view, workflow_id)
        if workflow.parked is not None and all(event.kind is not EventKind.TERMINATE for event in events):
            return workflow, None
        return workflow, self.prepare(view, workflow, events, memo=memo)

    def _begun(self, view: ReadingTransaction, workflow_id: str) -> Workflow | None:
        """The row of an execution that a START event of another one brings into being."""
        found = start_event(view, workflow_id, self.clock.now())
        if found is None:
            return None
        row = self._row_from_start_event(view, found)
        # Before anything is decided on: an execution whose input is too large, or whose key is taken, takes no turn.
        problem = self.bounds.barriers.refusal("workflow_input", row.input)
        if problem is not None:
            raise PayloadTooLarge(problem)
        replaced(view, row.name, row.idempotency_key, strategy_of(found))
        return row

    def _row_from_start_event(self, view: ReadingTransaction, found: Event) -> Workflow:
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
            owner=found.owner,
            outer_keys=tuple(said.get("limitKeys") or ()),
            created_by=said.get("createdBy"),
            event=said.get("event"),
            task_to_domain=Payload.of(said.get("taskToDomain") or {}),
        )
        definition = self.plans.plan(view, row).definition
        return attrs.evolve(
            row,
            name=definition.name,
            version=definition.version,
            input=Payload.of(apply_workflow_input_template(said["input"], definition.input_template)),
            variables=Payload.of(dict(definition.variables)),
        )

    def on_residents(self, resident: Resident, events: Sequence[Event], memo: TurnMemo) -> Decision | None:
        """The decision on an execution's resident rows; None when it is to be made on what is stored.

        So it is when that would write nothing: no fence would be compared. Raises what does not pass by itself.
        """
        plan = self.plans.kept(resident.row, ())
        if plan is None or plan.foreign:
            return None
        now = self.clock.now()
        reader = StoreReader(self, None, resident.row, now, memo, resident)
        memo.known = reader
        ordered = tuple(sorted(events, key=lambda event: event.order)) if len(events) > 1 else tuple(events)
        try:
            decision = self.decide(Turn(plan=plan, reader=reader, events=ordered, now=now, taking=memo.taking))
        except LASTING:
            raise
        except (ConductorliteError, PayloadsRequired, NoHelper):
            return None
        if decision.empty:
            return None
        memo.resident, memo.version = True, resident.version
        return decision

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
        if not decision.texts:
            return decision
        decision, put = self.payload_store.put(decision, memo, self.clock.now(), inside)
        for key, payload in put.items():
            self._payloads.put(key, payload)
        return decision
