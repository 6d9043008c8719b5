"""Turns that are not taken: what becomes of their events, and of their executions.

A turn that breaks a law, or that ends its process, is tried again; the third time its execution is parked. Events that no turn can
read now wait in the inbox, those to what is gone are dropped, and a start whose key is taken is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductorlite.engine.decisions import DeathMarks, TurnDecider
from conductorlite.engine.keys import refuse_event, refuse_start, start_event
from conductorlite.engine.logs import log_driver, log_parked
from conductorlite.engine.lookups import Lookups
from conductorlite.engine.turn_types import Commits, Deadly, TurnResult
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import InvariantBroken
from conductorlite.store.ports import Backend, WritingTransaction

__all__ = ["BROKEN_TURNS", "Parking"]

#: Turns that break an invariant before the workflow is parked.
BROKEN_TURNS: Final = 3

#: Events that are of no use in a later turn.
_UNLEFT: Final = (EventKind.POLL, EventKind.DEBOUNCE)


class Parking:
    """The handling of executions over which one engine cannot take a turn now."""

    def __init__(self, backend: Backend, lookups: Lookups, decider: TurnDecider, deaths: DeathMarks, committed: Commits) -> None:
        self._backend, self._lookups, self._decider, self._deaths = backend, lookups, decider, deaths
        self._committed = committed
        #: Broken turns of executions without a row to count them on.
        self._unborn: dict[str, int] = {}

    def park_deadly(self, workflow_id: str, deadly: Deadly) -> None:
        """Park an execution whose turn has ended its process too often."""
        with self._backend.writing() as tx:
            tx.executions.park(workflow_id, BROKEN_TURNS, str(deadly))
        self._deaths.forget(deadly.key)
        log_driver("%s is parked: %s", workflow_id, deadly)

    def count_broken(self, workflow_id: str, error: InvariantBroken) -> None:
        """Count a broken turn on the workflow row, in a write of its own; the third one parks the workflow."""
        self._lookups.failures.broken(workflow_id, error)
        with self._backend.writing() as tx:
            workflow = tx.executions.workflow(workflow_id)
            tries = 1 + (self._unborn.get(workflow_id, 0) if workflow is None else workflow.broken_turns)
            self._unborn = {} if workflow is not None else {**self._unborn, workflow_id: tries}
            tx.executions.park(workflow_id, tries, str(error) if tries >= BROKEN_TURNS else None)
        if tries == BROKEN_TURNS:
            log_parked(workflow_id, str(error))

    def hold_inbox(self, workflow_id: str, events: Sequence[Event] = ()) -> None:
        """Put events into the inbox of a parked workflow and hold all of it; of one released meanwhile they are due."""
        with self._backend.writing() as tx:
            workflow = tx.executions.workflow(workflow_id)
            if workflow is not None:
                tx.inbox.post(events)
                tx.executions.park(workflow_id, workflow.broken_turns, workflow.parked)
        if events:
            self._committed.wake()

    def clear(self, workflow_id: str) -> None:
        """Drop events to an execution that was removed, or ended before it began. Its start may be yet to come."""
        with self._backend.writing() as tx:
            if tx.inbox.due_events(workflow_id, self._lookups.clock.now(), 1):
                tx.executions.remove(workflow_id)

    def post_to_inbox(self, workflow_id: str, events: Sequence[Event]) -> TurnResult:
        """Leave events to the next turn.

        A poll is not left, for no worker would be there to receive the task, nor another call of a debounced start, for the
        execution may begin before.
        """
        left = [event for event in events if event.kind not in _UNLEFT]
        if left:
            with self._backend.writing() as tx:
                tx.inbox.post(left)
            self._committed.wake()
        return TurnResult(decision=None, replies={}, posted=True)

    def refuse(self, workflow_id: str) -> tuple[str, ...] | None:
        """Answer a START event whose idempotency key is taken, and say who was notified; None when it is not taken any more."""
        now = self._lookups.clock.now()
        with self._backend.writing() as tx:
            found = start_event(tx, workflow_id, now)
            recipients = None if found is None else self._refused(tx, found, now)
        if recipients is not None:
            self._committed.wake()
        return recipients

    def _refused(self, tx: WritingTransaction, found: Event, now: int) -> tuple[str, ...] | None:
        row = self._decider.row_from_start_event(tx, found)
        problem = self._lookups.bounds.barriers.refusal("workflow_input", row.input)
        if problem is not None:
            return refuse_start(tx, found, now, problem)
        return refuse_event(tx, found, row, now, self._lookups.texts)
