"""The parts of a driver: turns that are due, results, signs of life, calls that take virtual time, and when to come back.

None of them knows the driver, which holds them and says when each has its turn.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from conductorlite.engine.logs import about_task
from conductorlite.engine.turn_types import Asked, TurnResult
from conductorlite.engine.verbs import Verbs
from conductorlite.language.haste import Haste
from conductorlite.model.clock import Clock, VirtualClock
from conductorlite.model.decisions import EventKind, name_at
from conductorlite.model.errors import (
    ClockError,
    EngineClosed,
    InvariantBroken,
    NotFound,
    Parked,
    StaleLease,
    StorageError,
)
from conductorlite.model.executions import HistoryEvent, Task, Workflow
from conductorlite.model.later import heapq
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.calls import Deferred, raised, returned_value
from conductorlite.runtime.handout import HandOut, Reports
from conductorlite.runtime.idle import GLANCE_MS, next_stored
from conductorlite.runtime.pool import Call
from conductorlite.runtime.registry import Worker
from conductorlite.runtime.signals import Outages
from conductorlite.runtime.workshop import Workshop

__all__ = ["GROUP", "DueTurns", "Instants", "Results", "SignsOfLife", "Timeline"]

#: Deliveries carried out in one write.
_BATCH: Final = 64

#: Executions looked at when another thread or process takes a turn on the first one that is due.
_OTHERS: Final = 64

#: Tasks in a row, carried out as they are handed over, before turns that other processes have made due are looked for.
_UNLOOKED: Final = 16


#: How long a living holder of a lock is waited for before virtual time passes, seconds of real time.
_MOMENT_S: Final = 0.1

#: So often virtual time waits for what is due and is not taken.
_IN_VAIN: Final = 100

#: Reports on tasks of one execution in one turn, and executions whose turns share one write, at most: others wait for it.
_REPORTS: Final = 200
GROUP: Final = 64


class DueTurns:
    """Takes the turns that are due on one engine's store, and delivers what its outbox has."""

    def __init__(self, engine: Verbs, outages: Outages, haste: Haste | None) -> None:
        self._engine, self._outages, self._haste = engine, outages, haste
        #: Whether the last turns that were due are being taken by another thread or process.
        self.passed_over = False
        self._unlooked = 0

    def take(self, now: int, most: int = 1, *, lately: object = False) -> bool:
        """Take the turn that is due first; with `most`, those of so many executions, in one write.

        `lately` is true when a write has looked, or tasks were handed over.
        """
        quiet = self._engine.core.turns.quiet
        if lately and self._unlooked < _UNLOOKED and quiet.nothing_due(now):
            self._unlooked += 1
            return False
        if quiet.is_idle(now):
            self._unlooked, self.passed_over = 0, False
            return False
        self._unlooked = 0
        with self._engine.backend.reading() as view:
            items = view.outbox.items(_BATCH)
            due = [] if items else view.inbox.due_workflows(self._engine.clock.now(), most, self._engine.config.owner)
        if items:
            with self._engine.backend.writing() as tx:
                tx.outbox.deliver(items)
            return True
        self.passed_over = False
        if not due:
            return False
        if (len(due) > 1 and self._turns(due)) or self._turn(due[0]):
            return True
        # Another thread or process takes a turn on it, or it rests: there may be others.
        with self._engine.backend.reading() as view:
            most = _OTHERS + len(self._outages.resting) + len(self._engine.core.turns.put_aside)
            due = view.inbox.due_workflows(self._engine.clock.now(), most, self._engine.config.owner)
        self.passed_over = not any(self._turn(workflow_id) for workflow_id in due[1:])
        return not self.passed_over

    def _turns(self, addresses: Iterable[str]) -> bool:
        """Take turns of executions in one write, as `_turn` does each; whether one was taken."""
        ready = [one for one in addresses if name_at(one) is None and not self._rests(one)]
        taken = False
        results = self._engine.core.groups.run([Asked(workflow_id=one, events=(), haste=self._haste) for one in ready])
        for address, result in zip(ready, results, strict=True):
            if isinstance(result, TurnResult):
                taken = taken or not result.posted
                self._outages.done(address)
            elif isinstance(result, InvariantBroken):
                taken = True
            elif not isinstance(result, StorageError) or not self._outages.failed(result, address):
                raise result
        return taken

    def _rests(self, address: str) -> bool:
        """Return True if an execution rests after a failure, or was put aside until its foreign code has ended."""
        return self._outages.rests(address) or address in self._engine.core.turns.put_aside

    def _turn(self, address: str) -> bool:
        """Take a turn, and return whether it was taken.

        It is not while another turn has the lock of the execution, nor while it rests.
        """
        if self._rests(address):
            return False
        try:
            taken = self._take(address)
        except InvariantBroken:
            # Counted on the workflow row; the third time parks it. Others must not suffer for it.
            taken = True
        except StorageError as error:
            if not self._outages.failed(error, address):
                raise
            return False
        self._outages.done(address)
        return taken

    def _take(self, address: str) -> bool:
        schedule = name_at(address)
        if schedule is None:
            return not self._engine.core.turns.run_turn(address, haste=self._haste).posted
        self._engine.core.timetable.fire(schedule)
        return True


class SignsOfLife:
    """Extends the leases of running functions, and gives up those that have lost theirs."""

    def __init__(self, engine: Verbs, workshop: Workshop, reports: Reports, outages: Outages) -> None:
        self._engine, self._clock = engine, engine.clock
        self._workshop, self._reports, self._outages = workshop, reports, outages
        #: Executions that ended while functions run or are being handed out, and whether they are noted down.
        self._over: deque[str] = deque()
        self.noting = False
        #: Whether tasks are being handed out: an execution may end after its task was polled and before its function is called.
        self.handing_out = False

    def listen(self) -> None:
        """Note from now on which executions end while functions run."""
        self.noting = True
        self._engine.listen(self._note)

    def _note(self, workflow: Workflow, _: Sequence[HistoryEvent]) -> None:
        if workflow.status.terminal and (self.handing_out or len(self._workshop)):
            self._over.append(workflow.workflow_id)

    def next_beat(self, worker: Worker, task: Task, now: int) -> int | None:
        """Return when to give a sign of life, or at least to look whether the task is still held; None when it has no deadline.

        A third of the response timeout from `now`, so that two signs may be missed; and at the deadlines themselves, because
        a function that never returns must give up its slot when its task has ended without it.
        """
        response = task.response_timeout_at
        beats = worker.heartbeat and response is not None
        first = now + max(1, (response - task.updated_at) // 3) if beats and response is not None else None
        for at in (None if beats else response, task.timeout_at, task.total_timeout_at):
            if at is not None and at <= now:  # it has not had its turn yet (virtual time takes all turns before it looks)
                at = None if self._clock.virtual else now + GLANCE_MS
            if at is not None and (first is None or at < first):
                first = at
        return first

    def give_due(self) -> bool:
        """Extend the leases of running functions; one that lost its lease is abandoned, and said so in its log."""
        if not len(self._workshop):
            self._over.clear()
            return False
        now = self._clock.now()
        self._reports.take_lines(self._workshop, now)
        self._reports.take_emitted(self._workshop, now)
        over = {self._over.popleft() for _ in range(len(self._over))}
        due = [
            running
            for running in self._workshop
            if (running.beat_at is not None and running.beat_at <= now)
            # Canceling is free, so a coroutine need not go on until its next sign of life.
            or (running.worker.is_async and running.task.workflow_id in over)
        ]
        done = False
        for running in due:
            if self._outages.rests(running.sign):
                continue
            try:
                self.beat(running)
            except StorageError as error:
                self._over.extend(over)
                if not self._outages.failed(error, running.sign):
                    raise
                continue
            done = True
            self._outages.done(running.sign)
            if running.lost:
                self.abandon(running)
        return done

    def abandon(self, running: Call) -> None:
        """Leave a call to itself: what it returns is dropped, and its log says so."""
        self._reports.log(running.task, self._workshop.abandon(running))

    def beat(self, running: Call) -> None:
        """Give a sign of life of a call, or find that it has lost its lease."""
        held = running.task
        try:
            beats = running.worker.heartbeat and held.response_timeout_at is not None
            alive = not beats or self._alive(held, running.beat_at)
        except (StaleLease, NotFound):
            alive = False
        with self._engine.backend.reading() as view:
            stored = view.executions.task_by_id(held.task_id) if alive else None
        if stored is not None and stored.status is TaskStatus.IN_PROGRESS and stored.lease == held.lease:
            running.beat_at = self.next_beat(running.worker, stored, self._clock.now())
        else:
            running.lost = True
            running.beat_at = None
            about_task(held, f"worker {running.worker.task_type!r} has lost its lease while it ran; what it returns is dropped")
            if running.report_at is None:
                # Hung, and no driver waits for it any more: its slot is free again.
                self._workshop.end(running)

    def _alive(self, held: Task, at: int | None) -> bool:
        try:
            if at is not None and self._outages.resting:  # it may be late
                return self._engine.core.reports.sign_of_life(held, at)
            return self._engine.tasks.extend_lease(held)
        except Parked:  # nothing times out there, and what the function returns will be kept
            return True


class Timeline:
    """The calls that take virtual time, by the instant at which something comes of each."""

    def __init__(self, clock: Clock, workshop: Workshop, reports: Reports, signs: SignsOfLife) -> None:
        self._clock, self._workshop, self._reports, self._signs = clock, workshop, reports, signs
        #: The first to come first.
        self.calls: list[tuple[int, int, Call]] = []
        #: Signs of life since a call last reported.
        self.signs = 0
        self._order = itertools.count()

    def begin_again(self) -> None:
        """Have on it what runs, and nothing else: it was interrupted."""
        self.calls.clear()
        for running in self._workshop:
            self.enter(running)

    def move(self, by: int) -> None:
        """Have all of it come so much later: the clock was set."""
        self.calls = [(at + by, order, running) for at, order, running in self.calls]

    def defer(self, worker: Worker, task: Task, deferred: Deferred) -> None:
        """Keep a call that takes virtual time on the agenda."""
        if not self._clock.virtual:
            raise ClockError(f"worker {worker.task_type!r} takes virtual time, but the engine's clock is real")
        now = self._clock.now()
        at = None if deferred.after_ms is None else now + deferred.after_ms
        if at is None and deferred.silent:
            return  # a dead worker: nothing will be heard of it, and it holds no slot of those that live
        running = Call(worker=worker, task=task, report_at=at, outcome=deferred.outcome, reports=deferred.reports)
        running.beat_at = None if deferred.silent else self._signs.next_beat(worker, task, now)
        self._workshop.begin(running)
        self.enter(running)

    def enter(self, running: Call) -> None:
        """Have what comes next of a call come at its instant: its report, or a sign of life."""
        at, beat = running.report_at, running.beat_at
        if at is None or (beat is not None and beat < at):
            at = beat
        if at is not None:
            heapq.heappush(self.calls, (at, next(self._order), running))

    def report_due(self, now: int) -> None:
        """Make the next report, or give the next sign of life, that is due in virtual time."""
        _, _, running = heapq.heappop(self.calls)
        if running.report_at is not None and running.report_at <= now:
            self.signs = 0
            self._workshop.end(running)
            outcome = running.outcome
            task = running.task
            result = raised(task, outcome) if isinstance(outcome, BaseException) else returned_value(task, outcome)
            self._reports.add(task, result, now, running.reports, lost=running.lost)
        else:
            self.signs += 1
            self._signs.beat(running)
            self.enter(running)

    @property
    def endless(self) -> Call | None:
        """The next call, when none of them will ever report: each gives signs of life alone."""
        if not self.calls or any(running.report_at is not None for _, _, running in self.calls):
            return None
        return self.calls[0][2]


class Results:
    """Reports what functions that have ended have returned."""

    def __init__(self, workshop: Workshop, reports: Reports, outages: Outages) -> None:
        self._workshop, self._reports, self._outages = workshop, reports, outages

    def finished(self) -> list[Call]:
        """The calls that have ended, but for those that rest after a failure of the store."""
        return [running for running in self._workshop.finished() if not self._outages.rests(running.task.task_id)]

    def collect(self) -> bool:
        """Report what finished functions returned. A call whose result cannot be stored yet goes on to count, and to beat."""
        done = bool(self._reports.in_hand) and self._reports.flush()
        if not len(self._workshop):
            return done
        finished = []
        for running in self.finished():
            if not running.reported:
                finished.append(running)
                continue
            self._workshop.end(running)
            done = True
        if len(finished) > 1:
            executions: dict[str, list[Call]] = {}
            for running in finished:
                executions.setdefault(running.task.workflow_id, []).append(running)
            # One turn of each execution at a time: what is left is collected next.
            groups = [calls[:_REPORTS] for calls in executions.values()][:GROUP]
            reported: set[Call] = set()
            for running in self._reports.together(groups):
                reported.add(running)
                self._workshop.end(running)
                done = True
            finished = [running for calls in groups for running in calls if running not in reported]
        return sum([self.report(running) for running in finished]) > 0 or done

    def report(self, running: Call) -> bool:
        """Report what one function returned; False when that cannot be stored yet."""
        try:
            self._reports.report(running.task, running.result(), running.ended_at, ended=[running.worker])
        except StorageError as error:
            if self._outages.failed(error, running.task.task_id):
                return False
            raise
        except EngineClosed:
            raise
        except Exception:
            self._workshop.end(running)
            raise
        if self._outages.resting:
            self._outages.done(running.task.task_id)
        self._workshop.end(running)
        return True


class Instants:
    """The instants at which there will be something to do."""

    def __init__(
        self, engine: Verbs, handing: HandOut, workshop: Workshop, outages: Outages, timeline: Timeline, due: DueTurns
    ) -> None:
        self._engine, self._clock = engine, engine.clock
        self._handing, self._workshop, self._outages, self._timeline, self._due = handing, workshop, outages, timeline, due
        #: Whether something is due that needs a lock which another turn has; virtual time: since when (-1: not).
        self.held = False
        self.held_since = -1
        #: Whether the engine has a lock.
        self.locked = engine.core.turns.lock is not None
        #: What was due last in virtual time, and how often in a row no turn took it.
        self._due_at: int | None = None
        self._in_vain = 0

    def move(self, by: int) -> None:
        """Date what it remembers so much later: the clock was set."""
        self.held_since = self.held_since + by if self.held_since >= 0 else -1

    def next(self, *, idle: bool = False) -> int | None:
        """Return when something will be ready that is not ready now; None when nothing will by itself.

        With `idle` schedules alone are nothing: they never come to an end.
        """
        queues = list(self._handing.served())
        quiet = self._engine.core.turns.quiet
        soon = self._timeline.calls[0][0] if self._timeline.calls else None
        exact = self._due.passed_over or (soon is None and (idle or self._clock.virtual))
        offered = 0 if exact else min(map(quiet.offered_at, queues), default=inf)
        if soon is not None and offered > soon and quiet.is_idle(soon):  # when all else comes due, after it, need not be known
            self.held = False
            return soon
        now = self._clock.now()
        if soon is None and offered > now and quiet.is_idle(now):
            event, message, endless = quiet.next_event(), None if offered == inf else int(offered), False
        else:
            event, message, endless = next_stored(self._engine, queues, now, later=self._due.passed_over, idle=idle)
        instants = [at for at in (None if event is None else event[0], soon) if at is not None]
        self.held = self._due.passed_over or (self.locked and message is not None and message <= now)
        if message is not None and message > now:
            instants.append(message)
        if not self._clock.virtual:  # in virtual time they are on the timeline, and a walk over all would be paid at each instant
            beating = [running for running in self._workshop if not self._outages.rests(running.sign)]
            instants += [running.beat_at for running in beating if running.beat_at is not None]
            emitting = [running.context.emitting for running in beating if running.context is not None]
            instants += [one.due_at for one in emitting if one is not None and one.due_at is not None]
        if endless and len(instants) == 1 and not len(self._workshop):
            return None
        return min(instants, default=None)

    def refuse_endless(self) -> None:
        """Raise ClockError when only signs of life are to come, for ever: of calls that never report and that no timeout ends."""
        running = self._timeline.endless
        if running is None or self._handing.handed:
            return
        ids = {call.task.task_id for _, _, call in self._timeline.calls}
        with self._engine.backend.reading() as view:
            coming = view.inbox.upcoming_events(len(ids) + 1)
            tasks = {
                event.event_id: view.executions.tasks(event.workflow_id, [event.ref or ""])[event.ref or ""] for event in coming
            }
        for event in coming:
            task = tasks[event.event_id]
            if event.kind is not EventKind.RESPONSE_TIMEOUT or task is None or task.task_id not in ids:
                return
        task = running.task
        raise ClockError(
            f"worker {running.worker.task_type!r} gives signs of life and never reports on {task.ref!r} of {task.workflow_id}, and "
            "no timeout is to come: virtual time would go on for ever. Give the task timeoutSeconds, or run for a time, timeout=…"
        )

    def next_virtual(self, clock: VirtualClock, *, idle: bool = False) -> int | None:
        """The next instant, also while another turn has the lock of what is due: it is not known when it will be free.

        A living holder gives it back in no time, so it is given a moment of real time first. After that virtual time goes on
        in steps that grow with how long it has been held: the lease of a dead one is over some day.
        """
        at = self.next(idle=idle)
        if clock.alarms:
            at = clock.alarms[0][0] if at is None else min(at, clock.alarms[0][0])
        if not self.held:
            self.held_since = -1
            is_stuck = at is not None and at == self._due_at and at <= clock.now()  # a clock that is moved by hand may come to it
            self._in_vain = self._in_vain + 1 if is_stuck else 0
            if self._in_vain > _IN_VAIN and at is not None:
                raise InvariantBroken(f"something is due at {at}, and no turn takes it; admin.check says what is wrong")
            self._due_at = at
            return at
        now = clock.now()
        if self.held_since < 0 or self.held_since > now:
            self.held_since = now
            self._engine.core.turns.committed.waiter().wait(_MOMENT_S)
            return now
        step = now + max(GLANCE_MS, (now - self.held_since) // 8)
        return step if at is None else min(at, step)
