"""Notices that the machine's clock was set, or that this process did not run, and puts right what counts elapsed time.

The clock is compared with one that nobody sets (`model.clock.elapsed_of`). When it was set, every execution that has not ended gets
an event, by which its next turn dates again what counts a length of time (`decide.elapsed`). Of several processes the first that
notices writes these events, together with a note for the others, in one commit. A store that several machines share is left as it
is: their clocks are not set together.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

import attrs

from conductorlite.engine.driven_time import Driven
from conductorlite.engine.logs import log_driver
from conductorlite.engine.turn_types import pages
from conductorlite.engine.turns import Turns
from conductorlite.model.canonical import Payload
from conductorlite.model.clock import VirtualClock, elapsed_of, machine_boot
from conductorlite.model.decisions import Event, EventKind, name_at
from conductorlite.model.errors import InvariantBroken, NotFound
from conductorlite.model.executions import Task
from conductorlite.model.limits import LimitChange
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import span_in_words
from conductorlite.model.threads import Mutex
from conductorlite.store.ports import Capability, ReadingTransaction, WritingTransaction

__all__ = ["ClockWatch"]

#: A clock that is set by less than this, ms, is left to itself; what it is set by in several steps adds up.
_STEP_MS: Final = 1_000

#: A driver that comes back later than it meant to by at least this, ms, did not run.
_LOST_MS: Final = 500

#: How often both clocks are read until they were read at once, and how far apart, ms, they may be.
_TRIES: Final = 10
_APART_MS: Final = 20

#: Under which name, with that of the machine's run, the last step is noted in the store: when it was noticed, in elapsed time,
#: and by how much the clock was ahead then.
_NOTED: Final = "clock of "

_LEAST: Final = -(2**53)
#: What is added to it there, so that it is an instant as others are.
_ABOVE: Final = 2**45
_LATEST: Final = 2**53

#: Deadlines of a task that a process holds.
_HELD: Final = frozenset({EventKind.RESPONSE_TIMEOUT, EventKind.TASK_TIMEOUT, EventKind.TOTAL_TIMEOUT})

#: Time lost that is a smaller part of what is left is not given back: a busy machine is late now and then.
_TENTH: Final = 10

#: Executions whose deadlines are looked at after this process did not run.
_MOST: Final = 1_000


#: Held by who compares clocks, of whichever engine.
_LOOKING: Final = Mutex()


class ClockWatch:
    """The knowledge of one engine about its clock. Thread-safe, except for what its driver notes of its own running."""

    def __init__(self, turns: Turns, driven: Driven) -> None:
        self._turns = turns
        self._clock = clock = turns.clock
        self._driven = driven
        #: By how much the clock was set since, in all, ms.
        self.set_by = 0
        #: What was lost of the time of this process, ms, and for how long its driver means to rest.
        self._lost = self._rests = 0
        if isinstance(clock, VirtualClock):
            #: By how much the clock is ahead of elapsed time, ms.
            self._ahead, self._elapsed = clock.set_by, clock.elapsed
            #: When the clock was last found to be as it was, in elapsed time.
            self._agreed_at = -1
            clock.watchers.append(weakref.ref(self))  # it says when it is set
            return
        self._elapsed = elapsed_of(clock)
        self._agreed_at = self._elapsed()
        self._ahead = clock.now() - self._agreed_at
        #: When the driver was last seen to run, in elapsed time.
        self._seen_at = self._elapsed()
        if hasattr(clock, "elapsed"):
            turns.look_at_clock = self.look

    # ------------------------------------------------------------------ the clock

    def look(self) -> int:
        """By how much the clock was set since the last look, ms; 0: it was not. Raises StorageErrors: then it is looked at again.

        When it was, what counts elapsed time in the store is put right before this returns, here or in another process.
        """
        passed = self._elapsed()
        if -_STEP_MS < self._clock.now() - passed - self._ahead < _STEP_MS:
            self._agreed_at = passed
            return 0
        if self._turns.joined.decisions is not None:
            return 0
        with _LOOKING.held():
            ahead = self._read()
            by = ahead - self._ahead
            if abs(by) < _STEP_MS:
                return 0
            self._correct(by, ahead)
            self._ahead, self._agreed_at = ahead, self._elapsed()
            self.set_by += by
            self._driven.set_by(by)
        self._turns.committed.wake()
        return by

    def _read(self) -> int:
        """By how much the clock is ahead, of readings that no wait of this thread lies between; as it was if there are none."""
        for _ in range(_TRIES):
            before, passed, now = self._clock.now(), self._elapsed(), self._clock.now()
            if 0 <= now - before <= _APART_MS:
                return now - passed
        return self._ahead

    def _correct(self, by: int, ahead: int) -> None:
        what = f"the clock was set {'back' if by < 0 else 'forward'} by {span_in_words(abs(by))}"
        if Capability.ONE_CLOCK not in self._turns.backend.capabilities:
            log_driver("%s; timers keep their instants, as other machines may use this store: keep their clocks together", what)
            return
        boot, now = f"virtual {id(self._clock)}" if self._clock.virtual else machine_boot(), self._clock.now()
        with self._turns.backend.writing() as tx:
            noted = tx.owners.driven(_NOTED + boot, _LEAST)
            known = noted[-1][1] - _ABOVE if noted else None
            if known is not None and abs(known - ahead) < _STEP_MS:
                return  # another process was first
            if known is not None and noted[-1][0] > self._agreed_at:  # that one has put right a part of it
                by = ahead - known
            tx.owners.note_driven(_NOTED + boot, max(self._elapsed(), noted[-1][0] + 1 if noted else 0), ahead + _ABOVE)
            tx.owners.forget_driven(_NOTED + boot, 1)
            tx.inbox.post(_set_events(tx, by, now))
            for row in tx.task_holders.rows():
                if row.lease_until is not None:
                    tx.task_holders.put_holder(attrs.evolve(row, lease_until=row.lease_until + by))
            _move_windows(tx, by)
            _move_loose(tx, by)
            for owner in {"", self._turns.quiet.owner, *(row.name for row in tx.owners.rows())}:
                _move_stretches(tx, owner, by)
        log_driver("%s; what counts elapsed time is dated again", what)

    # ------------------------------------------------------------------ this process

    def rests(self, span_ms: float) -> None:
        """Note that the driver is about to rest for up to so long."""
        now = self._elapsed()
        lost = now - self._seen_at - self._rests
        self._seen_at, self._rests = now, max(0, int(span_ms))
        if lost >= _LOST_MS:
            self._lost += lost

    def begins(self) -> None:
        """Note that a driver begins: that none drove before says nothing of the process."""
        self._seen_at, self._rests = self._elapsed(), 0

    def lost(self) -> int:
        """For how long this process did not run since the last call, though its driver meant to, ms; 0 for what is usual."""
        self.rests(0)
        lost, self._lost = self._lost, 0
        return lost

    def give_back(self, lost: int, held: Iterable[Task]) -> None:
        """Move deadlines of tasks by the time in which this process did not run: of those it holds, and those that passed in it.

        It could not hear from their workers. Deadlines so far away that the time does not matter stay. Raises StorageErrors.
        """
        now = self._clock.now()
        in_hand = (task for task in held if task.status is TaskStatus.IN_PROGRESS and _matters(task, now, lost))
        tasks = {(task.task_id, task.lease): task for task in in_hand}
        with self._turns.backend.reading() as view:
            tasks |= {(task.task_id, task.lease): task for task in _passed(view, now, lost, self._turns.quiet.owner)}
        for task in tasks.values():
            with suppress(NotFound, InvariantBroken):  # it was removed, or is parked, which the turn has logged
                self._turns.run_turn(task.workflow_id, [_suspended_event(task, lost, now)])
        if tasks:
            what = "a task in progress" if len(tasks) == 1 else f"{len(tasks)} tasks in progress"
            log_driver("this process did not run for %s; the deadlines of %s are later by that", span_in_words(lost), what)


def _move_stretches(tx: WritingTransaction, owner: str, by: int) -> None:
    """Have the time in which the store was driven lie where the clock would have had it."""
    stretches = tx.owners.driven(owner, 0)
    tx.owners.forget_driven(owner, 0)
    for begin, end in stretches:
        tx.owners.note_driven(owner, begin + by, end + by)


def _move_windows(tx: WritingTransaction, by: int) -> None:
    """Have the windows of rate limits lie where the clock would have had them; those with a steady clock say so themselves."""
    for page in pages(tx.limits.page, "", lambda limit: limit.key):
        for limit in page:
            if limit.log and not limit.boot:
                tx.limits.put_limit(LimitChange(limit=attrs.evolve(limit, log=tuple(at + by for at in limit.log))))


def _move_loose(tx: WritingTransaction, by: int) -> None:
    """Have what was put into the payload storage lately be as old as it is: its grace time is a length of time."""
    for page in pages(partial(tx.payloads.loose_payloads, _LATEST), ("", ""), lambda one: (one.key, one.workflow_id)):
        tx.payloads.mark_orphan([attrs.evolve(one, at=one.at + by) for one in page if one.at])


def _set_events(tx: WritingTransaction, by: int, now: int) -> list[Event]:
    """An event to each execution that has not ended; and what was due at once before the clock was set back, due now."""
    data = Payload.of({"by": by})
    found = []
    for workflow_id in _live(tx):
        event_id = f"{EventKind.CLOCK_SET}@{now}:{by}"
        # Before everything that seems to be due.
        event = Event(workflow_id=workflow_id, event_id=event_id, kind=EventKind.CLOCK_SET, due_at=0, posted_at=now, data=data)
        found.append(event)
    known = {event.workflow_id for event in found}
    if by < 0:
        found += [
            attrs.evolve(event, due_at=now, posted_at=now)
            for event in tx.inbox.upcoming_events(_MOST)
            if event.workflow_id not in known and now < event.due_at <= event.posted_at
        ]
    return found


def _live(view: ReadingTransaction) -> Iterator[str]:
    for status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED):
        for page in pages(partial(view.executions.workflow_ids, status), "", str):
            yield from page


def _passed(view: ReadingTransaction, now: int, lost: int, owner: str) -> Iterator[Task]:
    """Tasks that somebody holds, of which a deadline passed in the time that was lost."""
    for workflow_id in view.inbox.due_workflows(now, _MOST, owner):
        if name_at(workflow_id) is not None:
            continue
        due = view.inbox.due_events(workflow_id, now, _MOST)
        refs = {event.ref for event in due if event.kind in _HELD and event.ref is not None and event.due_at >= now - lost}
        for task in view.executions.tasks(workflow_id, refs).values():
            if task is not None and task.status is TaskStatus.IN_PROGRESS and task.lease:
                yield task


def _matters(task: Task, now: int, lost: int) -> bool:
    """True if the time that was lost is a tenth or more of what is left to a deadline of a task."""
    deadlines = (task.response_timeout_at, task.timeout_at, task.total_timeout_at)
    return any(at is not None and at - now <= _TENTH * lost for at in deadlines)


def _suspended_event(task: Task, lost: int, now: int) -> Event:
    return Event(
        workflow_id=task.workflow_id,
        event_id=f"{EventKind.SUSPENDED}:{task.task_id}:{task.lease}",
        kind=EventKind.SUSPENDED,
        due_at=0,
        posted_at=now,
        ref=task.ref,
        attempt=task.attempt,
        generation=task.generation,
        data=Payload.of({"taskId": task.task_id, "lease": task.lease, "by": lost}),
    )
