"""The events of a turn: what it posts, cancels, holds and consumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from conductorlite.decide.changeset.moment import Moment
from conductorlite.decide.changeset.reader import Reader
from conductorlite.decide.changeset.rows import Rows
from conductorlite.model.canonical import EMPTY, Payload
from conductorlite.model.decisions import FIELDS, Event, EventKind, Outcome, Reply
from conductorlite.model.executions import Task

__all__ = ["REPLIES", "TIMEOUTS", "Events", "counted"]

#: The deadlines that have a default.
TIMEOUTS: Final = frozenset({EventKind.POLL_TIMEOUT, EventKind.RESPONSE_TIMEOUT, EventKind.TASK_TIMEOUT})


def counted(event: Event) -> Mapping[str, Any] | None:
    """Since when a timeout counts driven time (epoch ms), how much, and whose drivers count; None if it counts by the clock."""
    return (event.data.value or None) if event.kind in TIMEOUTS else None


#: The answers that say no more.
REPLIES: Final = {outcome: Reply(outcome=outcome) for outcome in Outcome}


class Events:
    """Events that a turn puts into inboxes, and takes out of them."""

    #: Whether every held event is to be dated.
    releases_held = False

    def __init__(self, workflow: Any, moment: Moment, rows: Rows, reader: Reader) -> None:
        #: The execution's row, whose sequence numbers what it sends.
        self._workflow = workflow
        self._moment = moment
        self._rows = rows
        self._reader = reader
        #: Events of the execution's own inbox that the turn puts there; those of rows' deadlines are added at its end.
        self.timers: dict[str, Event] = {}
        #: Ids of events that are taken out of it.
        self.cancelled: dict[str, None] = {}
        #: Ids of events that were read.
        self.consumed: list[str] = []
        #: Events for the inboxes of other executions.
        self.posted: list[Event] = []
        #: Lengths of default timeouts that are dated again, by the ids of their timers, ms.
        self.lengths: dict[str, int] = {}

    def next_number(self) -> int:
        """The next value of the workflow's own sequence."""
        self._workflow.sequence = number = self._workflow.sequence + 1
        return int(number)

    def date(self, task: Task, kind: EventKind, at: int) -> None:
        """Put an event about a task into the inbox that follows from no deadline of its row."""
        self.post(f"{kind!s}:{task.ref}", kind, at, ref=task.ref, attempt=task.attempt, generation=task.generation)

    def post(
        self,
        event_id: str,
        kind: EventKind,
        at: int,
        *,
        ref: str | None = None,
        attempt: int = 0,
        generation: int = 0,
        data: Payload = EMPTY,
        held: bool = False,
    ) -> None:
        """Put an event into the workflow's own inbox, replacing one of the same id."""
        workflow_id = self._workflow.workflow_id
        self.timers[event_id] = Event(
            workflow_id=workflow_id,
            event_id=event_id,
            kind=kind,
            due_at=at,
            posted_at=self._moment.now,
            sender=workflow_id,
            sender_seq=self.next_number(),
            ref=ref,
            attempt=attempt,
            generation=generation,
            data=data,
            held=held,
            stored=True,
        )

    def post_to(self, workflow_id: str, event_id: str, kind: EventKind, data: Mapping[str, Any], **fields: Any) -> None:
        """Put an event into another workflow's inbox, due now by default."""
        workflow = self._workflow
        self.posted.append(
            Event(
                workflow_id=workflow_id,
                event_id=event_id,
                kind=kind,
                posted_at=self._moment.now,
                sender=workflow.workflow_id,
                sender_seq=self.next_number(),
                data=Payload.of(dict(data), bounded=False),
                owner=workflow.owner,
                **{"due_at": self._moment.clock, **fields},
            )
        )

    def cancel(self, event_id: str) -> None:
        """Take an event out of the inbox; one that this turn has put there for a task of its own making is nowhere else."""
        timer = self.timers.pop(event_id, None)
        if timer is None or (timer.ref, timer.attempt) not in self._rows.inserted:
            self.cancelled[event_id] = None

    def consume(self, event: Event) -> None:
        """Note that a stored event was read."""
        self.consumed.append(event.event_id)

    def overtaken(self, event: Event) -> list[Event]:
        """The events that its sender has written before it and a clock that was ahead has dated after it.

        An execution's own time never runs back: an event that is due before the time at which it was written shows that an earlier
        turn of its sender was taken by such a clock. What was meant for later is not overtaken.
        """
        if event.sender in ("", event.workflow_id) or event.posted_at <= event.due_at:
            return []
        return sorted(
            (
                posted
                for posted in self._reader.inbox()
                if posted.sender == event.sender
                and posted.sender_seq < event.sender_seq
                and event.due_at < posted.due_at <= posted.posted_at
                and not posted.held
            ),
            key=lambda posted: posted.sender_seq,
        )

    def replaced(self, event: Event) -> bool:
        """Return True if this turn gave an event it read a new date: a deadline after a sign of life that was read before it."""
        if event.event_id in self.timers:
            return True
        row = self._rows.last.get(event.ref or "")
        field = FIELDS.get(event.kind)
        if row is None or field is None or (row.attempt, row.generation) != (event.attempt, event.generation):
            return False
        at = getattr(row, field)
        return at is not None and at > event.due_at

    def shorten(self, event: Event, left_ms: int) -> None:
        """Have a default timeout that is dated again count only what is left of it."""
        self.lengths[event.event_id] = left_ms

    def hold(self, event: Event) -> None:
        """Put a due event back until the workflow is resumed."""
        self.timers[event.event_id] = attrs.evolve(event, held=True, stored=False)

    def send_on(self, event: Event, event_id: str, **changes: Any) -> None:
        """Put an event of the own inbox back with changes, under another id if need be; its instant stays."""
        if event_id != event.event_id:
            self.cancel(event.event_id)
        self.timers[event_id] = attrs.evolve(event, event_id=event_id, stored=False, **changes)

    def release_held(self) -> None:
        """Date every held event now, those that were held in this turn too: they came due while it was still paused."""
        self.releases_held = True
        for event_id, event in self.timers.items():
            if event.held:
                self.timers[event_id] = attrs.evolve(event, held=False, due_at=max(event.due_at, self._moment.clock))
