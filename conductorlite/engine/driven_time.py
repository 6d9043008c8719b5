"""For how long a store was driven: what the timeouts that no definition sets count.

A driver looks at the clock as it goes; looks that follow each other closely make a stretch. Stretches are noted in the store now
and then, and at the end; several drivers note their own, and what overlaps counts once. On a virtual clock an engine drives for as
long as it is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from conductorlite.decide.changeset.events import counted
from conductorlite.model.clock import Clock
from conductorlite.model.decisions import Event
from conductorlite.model.errors import SchemaTooNew, StorageCorrupt, StorageError
from conductorlite.model.threads import Mutex
from conductorlite.store.ports import Backend, ReadingTransaction

__all__ = ["Driven", "measured"]

#: Looks further apart than this, ms, are of two stretches: the process had stopped, the machine slept, or its clock was set.
_APART_MS: Final = 30_000

#: Driven time after which it is noted, ms, and after which it is when a loop ends: who is killed loses less than the sum.
_NOTED_MS: Final = 20_000
_ENDED_MS: Final = 1_000

#: Stretches kept of an owner: a program that runs once a minute makes as many in a week.
_KEPT: Final = 10_000

Stretch = tuple[int, int]


@attrs.define(slots=True, eq=False, repr=False)
class _Drive:
    """One stretch of this engine, up to its last look; `noted` is the end that the store knows."""

    begin: int
    end: int
    noted: int


class Driven:
    """The stretches of one engine, and those in the store. Thread-safe."""

    def __init__(self, backend: Backend, clock: Clock, owner: str, *, downtime_counts: bool) -> None:
        self._backend = backend
        self._clock = clock
        self._owner = owner
        self._downtime_counts = downtime_counts
        self._lock = Mutex()
        #: What the store does not know whole; the last one goes on.
        self._drives: list[_Drive] = []
        self._driving = clock.virtual
        self._looked_at: int | None = None
        #: When this engine has committed a turn last: an engine that starts an execution, and then drives, drives from its start
        #: on.
        self.committed_at: int | None = None
        #: Whether this engine has looked that there are not too many of them.
        self._tidy = False
        #: When noting has failed, so that a store that cannot be written is not waited for all the time.
        self._failed_at: int | None = None
        if clock.virtual:
            self._extend(clock.now())

    def look(self, now: int, *, last: bool = False) -> None:
        """Note that this engine drives `now`, and when it is the `last` time for a while; not to be called inside a transaction.

        Writes to the store once in a while. Raises what `note` does.
        """
        self._driving = True
        most = _ENDED_MS if last else _NOTED_MS
        if now == self._looked_at and not last:
            return
        self._looked_at = now
        drives, virtual = self._drives, self._clock.virtual
        if drives and (drive := drives[-1]).end <= now:  # it goes on, as mostly, and nothing is to be noted
            lasts = len(drives) == 1 and now - drive.end <= _APART_MS and now - drive.noted < most
            if virtual or lasts:
                drive.end = now
                return
        with self._lock.held():
            self._extend(now)
            # An engine on a virtual clock is not killed on the way: it notes its time when it is closed.
            late = not virtual and sum(drive.end - drive.noted for drive in self._drives) >= most
            late = late and (self._failed_at is None or not 0 <= now - self._failed_at < _NOTED_MS)
        if late:
            self.note()

    def rest(self) -> None:
        """Note that this engine drives no more, until it looks again."""
        self._driving = self._clock.virtual

    def note(self) -> None:
        """Write to the store what it does not know yet; what cannot be written now is when it is noted next.

        Raises StorageCorrupt, SchemaTooNew and EngineClosed, which do not pass.
        """
        with self._lock.held():
            if self._clock.virtual:
                self._extend(self._clock.now())
            drives = [(drive, drive.end) for drive in self._drives if drive.end > drive.noted]
        if not drives:
            return
        try:
            with self._backend.writing() as tx:
                for drive, end in drives:
                    tx.owners.note_driven(self._owner, drive.begin, end)
                if not self._tidy:
                    tx.owners.forget_driven(self._owner, _KEPT)
        except StorageError as error:
            if isinstance(error, StorageCorrupt | SchemaTooNew):
                raise
            self._failed_at = self._clock.now()
            return
        self._failed_at, self._tidy = None, True
        with self._lock.held():
            for drive, end in drives:
                drive.noted = end
            self._drives = [drive for drive in self._drives if drive.end > drive.noted or drive is self._drives[-1]]

    def set_by(self, by: int) -> None:
        """Have what was not noted yet begin and end by as much later as the clock was set, ms."""
        with self._lock.held():
            for drive in self._drives:
                drive.begin, drive.end, drive.noted = drive.begin + by, drive.end + by, drive.noted + by
            if self._looked_at is not None:
                self._looked_at += by
            self.committed_at = None

    def left(self, view: ReadingTransaction, events: Iterable[Event], now: int) -> Mapping[tuple[str, str], int]:
        """Return the driven time left of the default deadlines among the events, ms, by execution and event."""
        found = {}
        for event in events:
            said = None if self._downtime_counts else counted(event)
            if said is not None:
                if not {"since", "span"} <= said.keys():
                    raise StorageCorrupt(f"{event.workflow_id}: the timer {event.event_id} does not say since when it counts")
                spent = self.between(view, said.get("owner", ""), said["since"], now)
                found[(event.workflow_id, event.event_id)] = said["span"] - spent
        return found

    def between(self, view: ReadingTransaction, owner: str, begin: int, end: int) -> int:
        """For how long drivers of an owner drove between two instants, ms."""
        stretches = list(view.owners.driven(owner, begin))
        if owner == self._owner:
            with self._lock.held():
                if self._driving:
                    self._extend(end)
                stretches += [(drive.begin, drive.end) for drive in self._drives]
        return measured(stretches, begin, end)

    def _extend(self, now: int) -> None:
        last = self._drives[-1] if self._drives else None
        if last is not None and last.end <= now and (self._clock.virtual or now - last.end <= _APART_MS):
            last.end = now
            return
        at = self.committed_at
        begin = now if at is None or self._clock.virtual or not 0 <= now - at <= _APART_MS else at
        self._drives.append(_Drive(begin=begin, end=now, noted=begin))


def measured(stretches: Sequence[Stretch], begin: int, end: int) -> int:
    """Return how much of the time between two instants the stretches cover, ms; what overlaps counts once."""
    covered, reached = 0, begin
    for since, until in sorted(stretches):
        first, last = max(since, reached), min(until, end)
        if last > first:
            covered += last - first
            reached = last
    return covered
