"""Reading and deciding a turn before its commit.

Nothing is changed but the mark of a turn that may end its process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import attrs

from conductorlite.decide import DECIDER_VERSION, decide
from conductorlite.decide.prefetch import prefetch
from conductorlite.engine.keys import replaced, start_event, strategy_of
from conductorlite.engine.lookups import Lookups
from conductorlite.engine.payloads import PayloadsRequired, TurnMemo
from conductorlite.engine.reader import StoreReader
from conductorlite.engine.residents import Resident
from conductorlite.engine.turn_types import LASTING, Asked, Deadly, Taking, missing
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, EventKind
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import (
    ConductorliteError,
    InvariantBroken,
    NoHelper,
    PayloadTooLarge,
    TakesLong,
)
from conductorlite.model.executions import Workflow, WorkflowRow
from conductorlite.model.texts import error_text
from conductorlite.plan.compile import Plan
from conductorlite.store.ports import Marks, ReadingTransaction

__all__ = ["DEATHS", "DeathMarks", "Turn", "TurnDecider", "polls_in_vain"]

#: Due events one turn reads.
_EVENTS: Final = 200


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class Turn:
    """The input of the decision of one turn."""

    plan: Plan
    reader: StoreReader
    events: tuple[Event, ...]
    now: int
    #: Workers that are free for what the turn offers.
    taking: Taking | None = None


def polls_in_vain(view: ReadingTransaction, asked: Asked) -> bool:
    """Return True if a late turn is over polls for what other engines have taken: it would write nothing but its fence."""
    return bool(asked.events) and all(
        event.kind is EventKind.POLL and view.queue.message((asked.workflow_id, event.ref or "")) is None for event in asked.events
    )


#: Processes that die in one turn before the workflow is parked.
DEATHS: Final = 3

#: Events that run no script by themselves.
_QUIET: Final = frozenset({EventKind.POLL, EventKind.EXTEND_LEASE})


class DeathMarks:
    """Marks of turns under way that may end their process: they run foreign code. None are made where the store keeps none."""

    def __init__(self, marks: Marks | None) -> None:
        #: What keeps them; None: nothing does.
        self.marks = marks

    def entering(self, workflow: Workflow, events: Sequence[Event], memo: TurnMemo) -> None:
        """Mark a turn that may end the process; raises Deadly for one that did, three times running.

        It is known by its first event, which stays the same however many come after it. A start that is asked for is nobody's to
        try again.
        """
        first = next((event for event in events if event.kind not in _QUIET), None)
        if self.marks is None or first is None or (workflow.history_seq == 0 and not first.stored):
            return
        key = f"{workflow.workflow_id}\0{first.kind}\0{first.ref or ''}"
        memo.deaths = self.marks.deaths(key)
        if memo.deaths >= DEATHS:
            raise Deadly(key, first)
        memo.mark = key  # before it is made: an interruption in between must find it
        self.marks.begin(key)

    def leaving(self, memo: TurnMemo) -> None:
        """Whatever came of it, the process lives."""
        if memo.mark is not None and self.marks is not None:
            self.marks.end(memo.mark)

    def forget(self, key: str) -> None:
        """Count the deaths of a turn from the beginning: it was taken, or its execution is parked."""
        if self.marks is not None:
            self.marks.forget(key)


class TurnDecider:
    """Reads and decides turns, and commits nothing."""

    def __init__(self, lookups: Lookups, deaths: DeathMarks, put_aside: Collection[str] = ()) -> None:
        self._lookups = lookups
        self._deaths = deaths
        #: Executions whose turns wait for foreign code; see `aside`.
        self._put_aside = put_aside

    def prepare(
        self,
        view: ReadingTransaction,
        workflow: Workflow,
        events: Sequence[Event],
        *,
        memo: TurnMemo | None = None,
    ) -> Turn:
        """Return the input of a turn's decision, valid while the view is open, or beyond that once its reader has left it.

        One that is `started` is about to be created: an event in an inbox of that id belongs to another one. An event in that of
        a parked one waits for its release.
        """
        memo = TurnMemo() if memo is None else memo
        plan = self._lookups.plans.plan(view, workflow)
        reader = StoreReader(self._lookups, view, workflow, memo, plan=plan)
        now = reader.now
        passes = memo.started is not None or workflow.parked is not None
        if self._put_aside and not passes:
            passes = self._only_hands_out(workflow.workflow_id, events)
        due = () if passes else self.due(view, workflow, now)
        ordered = (*due, *events)
        if len(ordered) > 1:
            ordered = tuple(sorted(ordered, key=lambda event: event.order))
        if plan.foreign:
            self._deaths.entering(workflow, ordered, memo)
        memo.known = None if plan.foreign else reader
        return Turn(plan=plan, reader=reader, events=ordered, now=now, taking=memo.taking)

    def _only_hands_out(self, workflow_id: str, events: Sequence[Event]) -> bool:
        """Return True if a turn is over polls alone of an execution put aside: what is due waits for the turn that was."""
        return workflow_id in self._put_aside and bool(events) and all(event.kind is EventKind.POLL for event in events)

    def prepared(
        self, view: ReadingTransaction, workflow_id: str, events: Sequence[Event], memo: TurnMemo
    ) -> tuple[Workflow, Turn | None]:
        """The row that was read and the turn over it; None for a parked workflow, which takes no turns."""
        started = memo.started
        workflow = (
            started.workflow if started is not None else view.executions.workflow(workflow_id) or self._begun(view, workflow_id)
        )
        if workflow is None:
            raise missing(view, workflow_id)
        if workflow.parked is not None and all(event.kind is not EventKind.TERMINATE for event in events):
            return workflow, None
        return workflow, self.prepare(view, workflow, events, memo=memo)

    def _begun(self, view: ReadingTransaction, workflow_id: str) -> Workflow | None:
        """The row of an execution that a START event of another one brings into being."""
        found = start_event(view, workflow_id, self._lookups.clock.now())
        if found is None:
            return None
        row = self.row_from_start_event(view, found)
        # Before anything is decided on: an execution whose input is too large, or whose key is taken, takes no turn.
        problem = self._lookups.bounds.barriers.refusal("workflow_input", row.input)
        if problem is not None:
            raise PayloadTooLarge(problem)
        replaced(view, row.name, row.idempotency_key, strategy_of(found))
        return row

    def row_from_start_event(self, view: ReadingTransaction, found: Event) -> Workflow:
        """The row of an execution as its START event says it."""
        said = found.data.value
        parent = said.get("parent") or {}
        row: Workflow = WorkflowRow(
            workflow_id=found.workflow_id,
            name=said["name"],
            version=said["version"],
            definition_hash=said["definitionHash"],
            semantics=Semantics(said["semantics"]),
            decider_version=DECIDER_VERSION,
            seed=said["seed"],
            created_at=self._lookups.clock.now(),
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
        definition = self._lookups.plans.plan(view, row).definition
        row = attrs.evolve(
            row,
            name=definition.name,
            version=definition.version,
            input=Payload.of(apply_workflow_input_template(said["input"], definition.input_template)),
            variables=Payload.of(dict(definition.variables)),
        )
        record = self._lookups.record
        return row if record is None else record.begun(row)

    def on_residents(self, resident: Resident, events: Sequence[Event], memo: TurnMemo) -> Decision | None:
        """The decision on an execution's resident rows; None when it is to be made on what is stored.

        So it is when that would write nothing: no fence would be compared. Raises what does not pass by itself.
        """
        plan = self._lookups.plans.kept(resident.row, ())
        if plan is None or plan.foreign:
            return None
        row = resident.row
        memo.known = reader = StoreReader(self._lookups, None, row, memo, resident, plan=plan)
        ordered = tuple(sorted(events, key=lambda event: event.order)) if len(events) > 1 else tuple(events)
        reader.ahead = partial(prefetch, plan, reader, ordered)
        try:
            decision = self.decide(Turn(plan=plan, reader=reader, events=ordered, now=reader.now, taking=memo.taking))
        except LASTING:
            raise
        except (ConductorliteError, PayloadsRequired, NoHelper):
            return None  # it is decided again on what is stored; `decide` has logged it if a law did not hold
        finally:
            reader.ahead = None
        if decision.empty:
            return None
        memo.resident, memo.version = True, resident.version
        return decision

    def on_nothing(self, workflow: Workflow, events: Sequence[Event], memo: TurnMemo) -> Decision | None:
        """The decision on an execution that begins, of which nothing is stored: a view is opened for what else it reads, if any.

        None when it is to be made in one. Raises as `decide` does.
        """
        plan = self._lookups.plans.kept(workflow, ())
        if plan is None or plan.foreign:
            return None
        memo.known = reader = StoreReader(self._lookups, None, workflow, memo, plan=plan)
        return self.decide(Turn(plan=plan, reader=reader, events=tuple(events), now=reader.now, taking=memo.taking))

    def decide(self, turn: Turn) -> Decision:
        """Decide, without committing anything; raises InvariantBroken.

        Raises Elsewhere and NoHelper when documents of the payload storage, or processes for scripts, are needed while the view is
        open; whatever else the store raises goes on as it came.
        """
        reader, taking, record = turn.reader, turn.taking, self._lookups.record
        try:
            decision = decide(
                turn.plan,
                reader,
                turn.events,
                turn.now,
                environment=self._lookups.environment,
                bounds=self._lookups.bounds,
                recorded=None if record is None else record.admissions,
                hand_out=None
                if taking is None
                else partial(taking.hand_out, reader.workflow.workflow_id, turn.now, reader.first_offered, reader.alone_until),
            )
        except TakesLong as long:
            long.name = reader.workflow.name
            raise
        except Exception as error:
            if reader.failure is None and not isinstance(error, ConductorliteError):
                # Whatever goes wrong in it is a broken invariant of that workflow, not a crash of the driver.
                text = f"workflow {reader.workflow.workflow_id}: {error_text(error)}"
                broken = InvariantBroken(text)
                broken.__cause__ = error
                self._lookups.failures.broken(reader.workflow, broken)
                raise broken from error
            if reader.failure is None or error is reader.failure:
                if isinstance(error, InvariantBroken):
                    self._lookups.failures.broken(reader.workflow, error)
                raise
        if reader.failure is not None:
            raise reader.failure
        return decision if record is None else record.kept(decision)

    def due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
        """The events of an inbox that a turn at `now` reads."""
        if self._lookups.record is not None:
            return self._lookups.record.events
        if self._lookups.at_hand and self._lookups.quiet.has_none_due(workflow, now):
            return ()
        return view.inbox.due_events(workflow.workflow_id, now, _EVENTS)
