"""What a replay is lived with: a clock that can be set to any instant, and turns that are told what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from conductorlite.canonical import parse
from conductorlite.clock import VirtualClock
from conductorlite.decisions import Admission, Event
from conductorlite.engine.asked import Start
from conductorlite.engine.reader import Cut
from conductorlite.engine.turns import Turns
from conductorlite.errors import NotFound
from conductorlite.executions import HistoryEvent, Workflow
from conductorlite.ports import ReadingTransaction

__all__ = ["FreeClock", "ToldTurns"]


class FreeClock(VirtualClock):
    """A virtual clock that can be set to any instant: the clock of the record may have been set back."""

    def set(self, instant: int) -> None:
        """Read that instant from now on, epoch ms."""
        self._now = instant


class ToldTurns(Turns):
    """Turns that read the letters they are told to, and find the definitions the record found."""

    letters: Sequence[Event] = ()
    #: Hashes of the definitions that the step's lines tell of.
    used: Sequence[str] = ()
    known: Mapping[str, str] = {}
    #: The executions of the record, as they had begun.
    recorded: Mapping[str, Workflow] = {}
    #: Lines of the turn to come that put a default deadline off.
    postponed: Sequence[HistoryEvent] = ()
    #: What limits have answered in the lines to come.
    admissions: tuple[Admission, ...] = ()
    #: Scripts that a bound ended in the lines to come.
    cut: tuple[Cut, ...] = ()

    def due(self, view: ReadingTransaction, workflow: Workflow, now: int) -> Sequence[Event]:
        """The letters chosen for this turn."""
        return self.letters

    def left(self, view: ReadingTransaction, event: Event, now: int) -> int:
        """How much driven time is left of a deadline, as the lines of the record tell; of others nothing."""
        told = {(line.status, line.ref, line.attempt): line.number or 0 for line in self.postponed}
        return told.get((str(event.kind).removeprefix("TASK_").lower(), event.ref, event.attempt), 0)

    def one(self, workflow_id: str, events: Sequence[Event], started: Start | None = None) -> frozenset[str]:
        """Take one turn and none of those that follow from it; ids of the events it came to."""
        return frozenset(self._take(workflow_id, events, started).replies)

    def _begun_by(self, view: ReadingTransaction, found: Event) -> Workflow:
        row = super()._begun_by(view, found)
        # A parent that is resumed writes to a child again, under the name that its task has then.
        return attrs.evolve(row, parent_ref=self.recorded[row.workflow_id].parent_ref)

    def find(self, view: ReadingTransaction, name: str, version: int | None) -> tuple[str, Mapping[str, str]]:
        """The definition of a name that the record found; raises NotFound when it found none."""
        for hashed in self.used:
            document = parse(self.known[hashed])
            if document.get("name") == name and version in (None, document.get("version", 1)):
                return hashed, {hashed: self.known[hashed]}
        raise NotFound(f"the record found no definition {name!r}")
