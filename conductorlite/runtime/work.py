"""What a driver does, unit by unit: turns, reports, signs of life, calls of functions in its own thread."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from conductorlite.engine.logs import about_task
from conductorlite.engine.turn_types import Asked, TurnResult, caller_of
from conductorlite.engine.verbs import Verbs
from conductorlite.language.haste import Haste
from conductorlite.model.decisions import name_at
from conductorlite.model.errors import (
    ClockError,
    ConductorliteError,
    InvariantBroken,
    NotFound,
    Parked,
    StaleLease,
    StorageError,
    WouldDeadlock,
)
from conductorlite.model.executions import Task
from conductorlite.model.later import heapq
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.threads import Block, Mutex, clean_up, within
from conductorlite.runtime.calls import Deferred, raised, returned_value
from conductorlite.runtime.external import INDEX_EVERY, Feeding, MessageSources
from conductorlite.runtime.handout import HandOut, Reports
from conductorlite.runtime.idle import GLANCE_MS, Rest, WaitGraph
from conductorlite.runtime.missing import MissingWorkers
from conductorlite.runtime.pool import Call
from conductorlite.runtime.registry import Worker, Workers
from conductorlite.runtime.signals import Leaving, Outages
from conductorlite.runtime.workshop import Workshop
from conductorlite.store.ports import EventSource

__all__ = ["Work"]

#: Deliveries carried out in one write.
_BATCH: Final = 64

#: Executions looked at when another thread or process takes a turn on the first one that is due.
_OTHERS: Final = 64

#: Tasks in a row, carried out as they are handed over, before turns that other processes have made due are looked for.
_UNLOOKED: Final = 16


class Work:
    """The units of work of one engine, and what they have in common."""

    def __init__(self, engine: Verbs, workers: Workers | None, sources: Iterable[EventSource] = ()) -> None:
        self.engine = engine
        self.clock = engine.clock
        # An empty set is falsy, and functions may still be added to it.
        self.workers = workers if workers is not None else Workers()
        self.driving = Mutex()
        #: Whether a thread drives, or was interrupted while it did.
        self._torn = False
        self.workshop = Workshop(engine, self.workers)
        self.waiting = WaitGraph(engine, self.workers, self.workshop)
        self.handing = HandOut(engine, self.workers, self.workshop)
        self.missing = MissingWorkers(engine, self.workers, self.handing)
        self.outages = Outages(engine.clock)
        self.reports = Reports(engine, self.handing)
        self.listening = MessageSources(engine, sources)
        self._timeline: list[tuple[int, int, Call]] = []
        self._order = itertools.count()
        #: Whether the last turns that were due are being taken by another thread or process.
        self._passed_over = False
        #: Whether something is due that needs a lock which another turn has; virtual time: since when (-1: not).
        self._held = False
        self._held_since = -1
        self._locked = engine.core.turns.lock is not None
        self.feeding = Feeding(engine)
        self._unlooked = 0
        #: By how much the clock was set, in all, when instants of calls were dated last.
        self._set_by = 0
        #: When a unit of work was last noted as driven time.
        self._driven_at: int | None = None
        self._stopping = False
        #: Executions that ended while functions run or are being handed out, and whether a driver notes them down.
        self._over: deque[str] = deque()
        self._noting = False
        self._handing_out = False
        #: Whether there are sources of messages.
        self._asks = bool(self.listening)
        self._rest = Rest(engine, asked=self._asks)
        #: Where time passes by itself, no turn waits long for foreign code: others go on.
        self._haste = self.reports.haste = None if engine.clock.virtual else Haste()

    def drive(self, timeout: float = -1) -> AbstractContextManager[bool]:
        """A block that drives, which learns whether it does: not when another thread has driven for `timeout` seconds.

        A thread that comes after an interrupted one first sets right what that one has left.
        """
        return within(_Driving(self, timeout))

    def carries_out(self) -> bool:
        """Whether the thread that drives carries out a function while another one may drive."""
        return False

    def recover(self) -> None:
        """Set right what an interruption has left; raises StorageErrors."""
        self.outages.patient = False
        self._handing_out = False
        self.handing.handed.clear()
        self.workshop.recover()
        in_hand = [*(running.task for running in self.workshop), *self.reports.tasks()]
        self.engine.core.holding.give_back_all_but({(task.task_id, task.lease) for task in in_hand})
        if self.clock.virtual:
            self._timeline.clear()
            for running in self.workshop:
                self._enter(running)

    # ------------------------------------------------------------------ elapsed time

    def keep_time(self) -> None:
        """Put right what counts elapsed time, if the clock was set; raises StorageErrors."""
        watch = self.engine.core.clock_watch
        if not self.clock.virtual:
            watch.look()
        by = watch.set_by - self._set_by
        if by:
            self._set_by = watch.set_by
            for running in self.workshop:
                for name in ("beat_at", "report_at", "ended_at"):
                    at = getattr(running, name)
                    setattr(running, name, None if at is None else at + by)
            self._timeline = [(at + by, order, running) for at, order, running in self._timeline]
            self._held_since = self._held_since + by if self._held_since >= 0 else -1

    def give_time_back(self) -> None:
        """Move deadlines of tasks in hand by the time in which this process did not run, if there was any; raises StorageErrors."""
        lost = self.engine.core.clock_watch.lost()
        if lost:
            in_hand = [*(call.task for call in self.workshop), *self.reports.tasks()]
            self.engine.core.clock_watch.give_back(lost, [*in_hand, *(task for _, task in self.handing.handed)])

    # ------------------------------------------------------------------ one unit of work

    def tick(self, *, ahead: bool = False, until: float = -1) -> bool:
        """Do one unit of what is ready now: a turn, a message, a report, or one worker call; False when nothing is ready.

        What has changed is indexed when nothing else is ready, and else at every so many units. When one unit more will follow
        (`ahead`), the turn of a report may hand over the task of the next call; where the caller moves a virtual clock on to an
        instant (`until`), also what is offered later, when nothing else is to be done before.
        """
        self.handing.most, self.handing.threads = int(ahead), False
        turns = self.engine.core.turns
        listened = turns.listeners or turns.observers  # who hears of each instant at its own time
        if self._asks or self._locked or self._passed_over or listened:
            until = -1
        elif self._timeline and self._timeline[0][0] <= until:
            until = self._timeline[0][0] - 1
        self.handing.until = until
        if self.engine.core.clock_watch.set_by != self._set_by or not self.clock.virtual:
            self.keep_time()
        now = self.clock.now()
        if now != self._driven_at or not self.clock.virtual:
            self._driven_at = now
            self.engine.core.driven.look(now)
        self.feeding.units += 1
        if (self.reports.in_hand and self.reports.flush()) or (self.feeding.units >= INDEX_EVERY and self.feeding.feed()):
            return True
        if self._take_turn(now) or (self._asks and self.listening.take(1)):
            return True
        if self._timeline and self._timeline[0][0] <= now:
            self._report_due(now)
            return True
        return self._run_one() or self.feeding.feed()

    def settle(self, until: float = -1) -> int:
        """Do all that is ready now, and until an instant what `tick` hands over; returns how many units that was."""
        units = 0
        while self.tick(ahead=True, until=until):
            units += 1
        return units

    def _take_turn(self, now: int, most: int = 1, *, lately: bool = False) -> bool:
        """Take the turn that is due first; with `most`, those of so many executions, in one write. `lately`: a write has looked."""
        quiet = self.engine.core.turns.quiet
        if (lately or self.handing.handed) and self._unlooked < _UNLOOKED and quiet.nothing_due(now):
            self._unlooked += 1
            return False
        if quiet.is_idle(now):
            self._unlooked, self._passed_over = 0, False
            return False
        self._unlooked = 0
        with self.engine.backend.reading() as view:
            items = view.outbox(_BATCH)
            due = [] if items else view.due_workflows(self.clock.now(), most, self.engine.config.owner)
        if items:
            with self.engine.backend.writing() as tx:
                tx.deliver(items)
            return True
        self._passed_over = False
        if not due:
            return False
        if (len(due) > 1 and self._turns(due)) or self._turn(due[0]):
            return True
        # Another thread or process takes a turn on it, or it rests: there may be others.
        with self.engine.backend.reading() as view:
            most = _OTHERS + len(self.outages.resting) + len(self.engine.core.turns.put_aside)
            due = view.due_workflows(self.clock.now(), most, self.engine.config.owner)
        self._passed_over = not any(self._turn(workflow_id) for workflow_id in due[1:])
        return not self._passed_over

    def _turns(self, addresses: Iterable[str]) -> bool:
        """Take turns of executions in one write, as `_turn` does each; whether one was taken."""
        ready = [one for one in addresses if name_at(one) is None and not self._rests(one)]
        taken = False
        results = self.engine.core.groups.run([Asked(workflow_id=one, events=(), haste=self._haste) for one in ready])
        for address, result in zip(ready, results, strict=True):
            if isinstance(result, TurnResult):
                taken = taken or not result.posted
                self.outages.done(address)
            elif isinstance(result, InvariantBroken):
                taken = True
            elif not isinstance(result, StorageError) or not self.outages.failed(result, address):
                raise result
        return taken

    def _rests(self, address: str) -> bool:
        """Whether an execution rests after a failure, or was put aside until its foreign code has ended."""
        return self.outages.rests(address) or address in self.engine.core.turns.put_aside

    def _turn(self, address: str) -> bool:
        """Whether a turn was taken: not while another turn has the lock of the execution, nor while it rests."""
        if self._rests(address):
            return False
        try:
            taken = self._take(address)
        except InvariantBroken:
            # Counted on the workflow row; the third time parks it. Others must not suffer for it.
            taken = True
        except StorageError as error:
            if not self.outages.failed(error, address):
                raise
            return False
        self.outages.done(address)
        return taken

    def _take(self, address: str) -> bool:
        schedule = name_at(address)
        if schedule is None:
            return not self.engine.core.turns.run_turn(address, haste=self._haste).posted
        self.engine.core.timetable.fire(schedule)
        return True

    def _run_one(self) -> bool:
        """Take and run one offered task in this thread; one that fails before it is handed out counts: another may follow."""
        seen = self.engine.core.turns.committed.number
        handed = self.handing.handed
        for worker, task in [handed.popleft()] if handed else self.handing.take(1):
            self._run_inline(worker, task)
            return True
        return self.engine.core.turns.committed.number != seen

    def _run_inline(self, worker: Worker, task: Task) -> None:
        try:
            running = Call(worker=worker, task=task, inline=True)
            if self.clock.virtual:
                result = self.workshop.run(running)
            else:
                with Leaving():
                    result = self.workshop.run(running)
        except BaseException as error:  # interrupted: no thread works at it any more
            clean_up(error, f"giving back {task.ref!r}", partial(self.engine.core.holding.give_back, [task]))
            raise
        if isinstance(result, Deferred):
            self._defer(worker, task, result)
        elif not running.reported:
            self.reports.add(task, result, self.clock.now())

    # ------------------------------------------------------------------ virtual durations

    def _defer(self, worker: Worker, task: Task, deferred: Deferred) -> None:
        """Keep a call that takes virtual time on the agenda."""
        if not self.clock.virtual:
            raise ClockError(f"worker {worker.task_type!r} takes virtual time, but the engine's clock is real")
        now = self.clock.now()
        at = None if deferred.after_ms is None else now + deferred.after_ms
        if at is None and deferred.silent:
            return  # a dead worker: nothing will be heard of it, and it holds no slot of those that live
        running = Call(worker=worker, task=task, report_at=at, outcome=deferred.outcome, reports=deferred.reports)
        running.beat_at = None if deferred.silent else self._next_beat(worker, task, now)
        self.workshop.begin(running)
        self._enter(running)

    def _enter(self, running: Call) -> None:
        at, beat = running.report_at, running.beat_at
        if at is None or (beat is not None and beat < at):
            at = beat
        if at is not None:
            heapq.heappush(self._timeline, (at, next(self._order), running))

    def _report_due(self, now: int) -> None:
        """Make the next report, or give the next sign of life, that is due in virtual time."""
        _, _, running = heapq.heappop(self._timeline)
        if running.report_at is not None and running.report_at <= now:
            self.workshop.end(running)
            outcome = running.outcome
            task = running.task
            result = raised(task, outcome) if isinstance(outcome, BaseException) else returned_value(task, outcome)
            self.reports.add(task, result, now, running.reports, lost=running.lost)
        else:
            self._beat(running)
            self._enter(running)

    # ------------------------------------------------------------------ signs of life

    def _next_beat(self, worker: Worker, task: Task, now: int) -> int | None:
        """When to give a sign of life, or at least to look whether the task is still held; None when it has no deadline.

        A third of the response timeout from `now`, so that two signs may be missed; and at the deadlines themselves, because
        a function that never returns must give up its slot when its task has ended without it.
        """
        response = task.response_timeout_at
        beats = worker.heartbeat and response is not None
        first = now + max(1, (response - task.updated_at) // 3) if beats and response is not None else None
        for at in (None if beats else response, task.timeout_at, task.total_timeout_at):
            if at is not None and at <= now:  # it has not had its turn yet (virtual time takes all turns before it looks)
                at = None if self.clock.virtual else now + GLANCE_MS
            if at is not None and (first is None or at < first):
                first = at
        return first

    def _beats_due(self) -> bool:
        """Extend the leases of running functions; one that lost its lease is abandoned, and said so in its log."""
        if not len(self.workshop):
            self._over.clear()
            return False
        now = self.clock.now()
        self.reports.take_lines(self.workshop, now)
        over = {self._over.popleft() for _ in range(len(self._over))}
        due = [
            running
            for running in self.workshop
            if (running.beat_at is not None and running.beat_at <= now)
            # Canceling is free, so a coroutine need not go on until its next sign of life.
            or (running.worker.is_async and running.task.workflow_id in over)
        ]
        done = False
        for running in due:
            if self.outages.rests(running.sign):
                continue
            try:
                self._beat(running)
            except StorageError as error:
                self._over.extend(over)
                if not self.outages.failed(error, running.sign):
                    raise
                continue
            done = True
            self.outages.done(running.sign)
            if running.lost:
                self._abandon(running)
        return done

    def _abandon(self, running: Call) -> None:
        self.reports.log(running.task, self.workshop.abandon(running))

    def _beat(self, running: Call) -> None:
        held = running.task
        try:
            beats = running.worker.heartbeat and held.response_timeout_at is not None
            alive = not beats or self._alive(held, running.beat_at)
        except (StaleLease, NotFound):
            alive = False
        with self.engine.backend.reading() as view:
            stored = view.task_by_id(held.task_id) if alive else None
        if stored is not None and stored.status is TaskStatus.IN_PROGRESS and stored.lease == held.lease:
            running.beat_at = self._next_beat(running.worker, stored, self.clock.now())
        else:
            running.lost = True
            running.beat_at = None
            about_task(held, f"worker {running.worker.task_type!r} has lost its lease while it ran; what it returns is dropped")
            if running.report_at is None:
                # Hung, and no driver waits for it any more: its slot is free again.
                self.workshop.end(running)

    def _alive(self, held: Task, at: int | None) -> bool:
        try:
            if at is not None and self.outages.resting:  # it may be late
                return self.engine.core.reports.sign_of_life(held, at)
            return self.engine.tasks.extend_lease(held)
        except Parked:  # nothing times out there, and what the function returns will be kept
            return True


class _Driving(Block[bool]):
    """The block of one who drives."""

    __slots__ = ("_inside", "_timeout", "_work")

    def __init__(self, work: Work, timeout: float) -> None:
        self._work = work
        self._timeout = timeout
        self._inside = False

    def begin(self) -> bool:
        work = self._work
        self._inside = work.driving.owned()
        if self._inside:
            if caller_of(work.engine.core.turns) is None:  # nothing that this driver has called: it was interrupted
                text = (
                    "inside a finalizer or a hook that has interrupted the driver of the same thread: have another thread call it"
                )
                raise WouldDeadlock(f"a verb that drives was called {text}")
            return not work.carries_out()  # else who stands by drives
        if not work.driving.take(self, self._timeout):
            return False
        if work._torn:
            work.recover()
        work._torn = True
        return True

    def end(self, error: BaseException | None) -> None:
        if not self._inside and self._work.driving.mine(self):
            if error is None or isinstance(error, ConductorliteError):
                self._work._torn = False
            self._give()

    def undo(self, error: BaseException | None = None) -> None:
        self._give()

    def _give(self) -> None:
        work = self._work
        work.driving.give(self)
        turns = work.engine.core.turns
        if turns.sleeping:  # one of those that wait may have to drive now
            turns.awaited.wake_first()
