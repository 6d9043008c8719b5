"""Turns that cannot be taken: those that break a law, and those that end their process. The third of either parks the execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductorlite.engine.decisions import TurnDecider
from conductorlite.engine.logs import log_driver, log_parked
from conductorlite.engine.payloads import TurnMemo
from conductorlite.engine.turn_types import Deadly
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import Workflow
from conductorlite.store.ports import Backend, Marks

__all__ = ["DEATHS", "Parking"]

#: Turns that break an invariant before the workflow is parked.
_BROKEN_TURNS: Final = 3

#: Processes that die in one turn before the workflow is parked.
DEATHS: Final = 3

#: Events that run no script by themselves.
_QUIET: Final = frozenset({EventKind.POLL, EventKind.EXTEND_LEASE})


class Parking(TurnDecider):
    """Counts them; those of one engine."""

    backend: Backend
    #: Turns under way that may end their process.
    marks: Marks | None
    #: Broken turns of executions without a row to count them on.
    _unborn: dict[str, int]

    def wake(self) -> None:
        """Wake all threads that wait for something to change."""
        raise NotImplementedError

    # ------------------------------------------------------------------ turns that end their process

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

    def _leaving(self, memo: TurnMemo) -> None:
        """Whatever came of it, the process lives."""
        if memo.mark is not None and self.marks is not None:
            self.marks.end(memo.mark)

    def _park_deadly(self, workflow_id: str, deadly: Deadly) -> None:
        with self.backend.writing() as tx:
            tx.park(workflow_id, _BROKEN_TURNS, str(deadly))
        if self.marks is not None:
            self.marks.forget(deadly.key)
        log_driver("%s is parked: %s", workflow_id, deadly)

    # ------------------------------------------------------------------ broken turns

    def _count_broken(self, workflow_id: str, error: InvariantBroken) -> None:
        """Count a broken turn on the workflow row, in a write of its own; the third one parks the workflow."""
        with self.backend.writing() as tx:
            workflow = tx.workflow(workflow_id)
            tries = 1 + (self._unborn.get(workflow_id, 0) if workflow is None else workflow.broken_turns)
            self._unborn = {} if workflow is not None else {**self._unborn, workflow_id: tries}
            tx.park(workflow_id, tries, str(error) if tries >= _BROKEN_TURNS else None)
        if tries == _BROKEN_TURNS:
            log_parked(workflow_id, str(error))

    def hold_inbox(self, workflow_id: str, events: Sequence[Event] = ()) -> None:
        """Put events into the inbox of a parked workflow and hold all of it; of one released meanwhile they are due."""
        with self.backend.writing() as tx:
            workflow = tx.workflow(workflow_id)
            if workflow is not None:
                tx.post(events)
                tx.park(workflow_id, workflow.broken_turns, workflow.parked)
        if events:
            self.wake()
