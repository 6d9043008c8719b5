"""The driver: takes every turn that is due, hands tasks to workers, and says when to come back.

One loop for both times. On a virtual clock worker functions run in the caller's thread, one after another, and the clock jumps
to the next instant on the agenda. On the system clock they run in threads (coroutines: on an event loop), and the caller's
thread, which is the only one that takes turns, sleeps until the next instant, a commit or the end of a function. Where nothing
else is ready it carries out a quick function itself, or waits for a quick coroutine; while that takes long, who stands by takes the
turns (`idle`). Idle is exact: nothing due, nothing offered, nothing running, nothing on the agenda.

How a caller comes to a result: it drives, or sleeps while another thread does (`engine/awaited`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final

from conductorlite.engine.logs import log_driver
from conductorlite.engine.turn_types import Caller, caller_of
from conductorlite.engine.verbs import Verbs
from conductorlite.language.haste import Haste
from conductorlite.model.clock import Deadline, VirtualClock
from conductorlite.model.errors import (
    ClockError,
    ConductorliteError,
    NoThread,
    StorageError,
    WouldDeadlock,
)
from conductorlite.model.executions import AgendaEntry, Task, Workflow
from conductorlite.model.later import functions
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.threads import Block, Mutex, cached_property, clean_up, within
from conductorlite.runtime.beginnings import Beginnings
from conductorlite.runtime.calls import Deferred
from conductorlite.runtime.external import INDEX_EVERY, Feeding, MessageSources
from conductorlite.runtime.handout import AHEAD, BATCH, HandOut, Reports
from conductorlite.runtime.idle import GLANCE_MS, PATIENCE_MS, Rest, Standby, WaitGraph
from conductorlite.runtime.missing import MissingWorkers, WaitNews
from conductorlite.runtime.pool import Call
from conductorlite.runtime.registry import Worker, Workers
from conductorlite.runtime.signals import Leaving, Outages, passes
from conductorlite.runtime.work import GROUP, DueTurns, Instants, Results, SignsOfLife, Timeline
from conductorlite.runtime.workshop import QUICK_MS, Workshop
from conductorlite.store.ports import EventSource

if TYPE_CHECKING:
    from conductorlite.runtime.result_errors import failed, late
else:
    failed, late = functions("conductorlite.runtime.result_errors", "failed", "late")

__all__ = ["Driver", "next_group", "output_of", "wait_until"]

#: Messages asked of a source at once, as in Conductor.
_MESSAGES: Final = 10

#: How long a lock is held before `run_until_idle` gives up on what needs it, ms of virtual time.
_LOST_MS: Final = 24 * 3_600_000

#: Signs of life without a report after which `run_until_idle` looks whether anything else will ever come.
_SIGNS: Final = 100

#: Where messages that cannot be stored, and calls that wait for a thread, are counted as one piece of work each.
_SOURCES: Final = "event sources"
_THREADS: Final = "threads"

#: After how long a write others have waited long enough for it, ms: the next one is shared by fewer.
_LONG_MS: Final = 200

_Until = Callable[[], bool] | None


class Driver:
    """Drives one engine. At most one thread at a time holds `driving`."""

    def __init__(self, engine: Verbs, workers: Workers | None, sources: Iterable[EventSource] = ()) -> None:
        self.engine = engine
        self.clock = engine.clock
        # An empty set is falsy, and functions may still be added to it.
        self.workers = workers if workers is not None else Workers()
        self.driving = Mutex()
        #: Whether a thread drives, or was interrupted while it did.
        self.torn = False
        self.workshop = Workshop(engine, self.workers)
        self.waiting = WaitGraph(engine, self.workers, self.workshop)
        self.handing = HandOut(engine, self.workers, self.workshop)
        self.missing = MissingWorkers(engine, self.workers, self.handing)
        self.outages = Outages(engine.clock)
        # Where time passes by itself, no turn waits long for foreign code: others go on.
        haste = None if engine.clock.virtual else Haste()
        self.reports = Reports(engine, self.handing, haste)
        self.results = Results(self.workshop, self.reports, self.outages)
        self.signs = SignsOfLife(engine, self.workshop, self.reports, self.outages)
        self.timeline = Timeline(engine.clock, self.workshop, self.reports, self.signs)
        self.due = DueTurns(engine, self.outages, haste)
        self.instants = Instants(engine, self.handing, self.workshop, self.outages, self.timeline, self.due)
        self.listening = MessageSources(engine, sources)
        self.feeding = Feeding(engine)
        self.standby = Standby(lambda over: self._run_real(over, None, True, standing_in=True), engine.core.turns.committed.wake)
        self.beginnings = Beginnings(engine, self.handing, self.workshop, self.drive)
        #: By how much the clock was set, in all, when instants of calls were dated last.
        self._set_by = 0
        #: When a unit of work was last noted as driven time.
        self._driven_at: int | None = None
        self._stopping = False
        #: Whether there are sources of messages.
        self._asks = bool(self.listening)
        self._rest = Rest(engine, asked=self._asks)
        self._deadline: Deadline | None = None
        #: Functions that a virtual clock has called at instants.
        self._alarms = engine.clock.alarms if isinstance(engine.clock, VirtualClock) else []
        #: How many executions' turns share a write.
        self._group = GROUP
        #: The execution that the caller of `run` waits for, and since when; None: nobody waits, or all was logged.
        self._awaited: str | None = None
        self._waits_since: int | None = None
        #: Whether a thread waits for the one that drives in order to close the engine: no other one begins to drive for a result.
        self.is_closing = False

    @cached_property
    def wait_news(self) -> WaitNews:
        """Logs what callers wait for."""
        return WaitNews(self.engine)

    def drive(self, timeout: float = -1) -> AbstractContextManager[bool]:
        """A block that drives, which learns whether it does: not when another thread has driven for `timeout` seconds.

        A thread that comes after an interrupted one first sets right what that one has left.
        """
        return within(_Driving(self, timeout))

    def recover(self) -> None:
        """Set right what an interruption has left; raises StorageErrors."""
        self.standby.rest()
        self.outages.patient = False
        self.signs.handing_out = False
        self.handing.handed.clear()
        self.workshop.recover()
        in_hand = [*(running.task for running in self.workshop), *self.reports.tasks()]
        self.engine.core.holding.give_back_all_but({(task.task_id, task.lease) for task in in_hand})
        if self.clock.virtual:
            self.timeline.begin_again()

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
            self.timeline.move(by)
            self.instants.move(by)

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
        if self._asks or self.instants.locked or self.due.passed_over or listened:
            until = -1
        elif self.timeline.calls and self.timeline.calls[0][0] <= until:
            until = self.timeline.calls[0][0] - 1
        if self._alarms:
            until = min(until, self._alarms[0][0] - 1)
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
        if self.due.take(now, lately=self.handing.handed) or (self._asks and self.listening.take(1)):
            return True
        if self._alarms and self._alarms[0][0] <= now:
            self._alarms.pop(0)[-1]()
            return True
        if self.timeline.calls and self.timeline.calls[0][0] <= now:
            self.timeline.report_due(now)
            return True
        return self._run_one() or self.feeding.feed()

    def settle(self, until: float = -1) -> int:
        """Do all that is ready now, and until an instant what `tick` hands over; returns how many units that was."""
        units = 0
        while self.tick(ahead=True, until=until):
            units += 1
        return units

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
            self.timeline.defer(worker, task, result)
        elif not running.reported:
            self.reports.add(task, result, self.clock.now())

    # ------------------------------------------------------------------ time

    def agenda(self) -> list[AgendaEntry]:
        """Reports that running scripted workers will make."""
        return [
            AgendaEntry(at=running.report_at, kind="REPORT", workflow_id=running.task.workflow_id, ref=running.task.ref)
            for running in self.workshop
            if running.report_at is not None
        ]

    def advance(self, until: int) -> None:
        """Move a virtual clock to an instant, doing all that comes due on the way at its own instant."""
        clock = self._virtual("advance")
        if until < clock.now():
            raise ClockError(f"time cannot go back from {clock.now()} to {until}")
        self.settle(until)
        while (at := self.instants.next_virtual(clock)) is not None and at <= until:
            clock.move_to(max(at, clock.now()))
            self.settle(until)
        clock.move_to(until)
        self.settle()

    def _virtual(self, verb: str) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise ClockError(f"{verb} needs a virtual clock; real time passes by itself")
        return self.clock

    def run(
        self, *, until: _Until = None, deadline: Deadline | None = None, forever: bool = False, awaited: str | None = None
    ) -> bool:
        """Drive until `until()` holds, or nothing is left to do (unless `forever`), or the time until `deadline` is over.

        Raises NoWorker without a deadline, if `awaited` is an execution for which no worker can come, or all that is left is such.
        Returns whether it stopped for one of the first two reasons. With running worker functions left behind at the deadline,
        their leases go on to be honoured by the next driver.
        """
        self._awaited = awaited
        self._waits_since = None if forever or (until is not None and awaited is None) else self.wait_news.begin()
        try:
            if self.clock.virtual:
                ended = self._run_virtual(until, deadline)
            else:
                with Leaving():
                    ended = self._run_real(until, deadline, forever)
            if self.handing.handed:
                self.handing.give_back()
            self.missing.look(self.clock.now())
            self.engine.core.driven.look(self.clock.now(), last=True)
            return ended
        finally:
            self.engine.core.driven.rest()

    def _run_virtual(self, until: _Until, end: Deadline | None) -> bool:
        clock, deadline = self._virtual("run"), None if end is None else end.instant
        limit = -1 if clock.running else inf if deadline is None else deadline
        self.engine.core.holding.look()
        while True:
            while self.handing.handed or until is None or not until():
                if not self.tick(ahead=True, until=limit):
                    break
            else:
                return True
            if deadline is None and self.timeline.signs >= _SIGNS and not self._alarms:
                self.timeline.signs = 0
                self.instants.refuse_endless()
            at = self.instants.next_virtual(clock, idle=True)
            if self.instants.held and clock.now() - self.instants.held_since >= _LOST_MS:
                return False
            if at is None:
                return True
            if deadline is not None and at > deadline:
                clock.move_to(max(deadline, clock.now()))
                return False
            if at > clock.now():
                clock.move_to(at)

    # ------------------------------------------------------------------ real time

    def stop(self) -> None:
        """Ask a driver in another thread to stop: it takes no more tasks, waits for running functions, returns."""
        self._stopping = True
        self.engine.core.turns.committed.wake()

    def forget_stop(self) -> None:
        """Take back a `stop` that came when the driver it was meant for had just returned."""
        self._stopping = False

    def _run_real(self, until: _Until, deadline: Deadline | None, forever: bool, *, standing_in: bool = False) -> bool:
        before, self.outages.patient = self.outages.patient, True
        turns = self.engine.core.turns
        driven, turns.is_driven = turns.is_driven, True
        outer, self.beginnings.loop, self._deadline = self.beginnings.loop, object(), deadline
        self.feeding.changed()
        self.engine.core.clock_watch.begins()
        try:
            while True:
                if self._stopping:
                    if standing_in:  # who called that function drains
                        return True
                    self._drain()
                    self._stopping = False
                    return True
                try:
                    over = self._round(until, deadline, forever)
                except (StorageError, NoThread) as error:
                    if not self.outages.failed(error):
                        raise
                    over = False if deadline is not None and deadline.passed else None
                    if over is None:
                        self._wait_out(deadline)
                if over is not None:
                    return over
        finally:
            self.outages.patient, self.beginnings.loop, turns.is_driven = before, outer, driven

    def _round(self, until: _Until, deadline: Deadline | None, forever: bool) -> bool | None:
        """Do what is ready, or sleep until there may be something; what `run` returns, None to go on."""
        seen = self.engine.core.turns.committed.number
        self.keep_time()
        self.give_time_back()
        if until is not None and until():
            return True
        now = self.clock.now()
        if deadline is not None and deadline.passed:
            return False
        if self.engine.core.holding.look() or self._work():
            self._rest.worked(now)
            return None
        ending = until is None and not forever and not len(self.workshop)
        at = self.instants.next(idle=ending)
        if at is None and ending and not self.due.passed_over and self.feeding.is_done():
            self.outages.clear()
            return True
        self.missing.look(now)
        if self._waits_since is not None and self.wait_news.look(self._waits_since, self._awaited):
            self._waits_since = None
        if deadline is None and not forever and (until is None or self._awaited is not None):
            self.refuse_missing(self._awaited)
        end = None if deadline is None else deadline.instant
        news = None if self._waits_since is None else now + self.wait_news.left(self._waits_since)
        limits = [instant for instant in (at, end, news, self.outages.again_at()) if instant is not None]
        with self.beginnings.resting():
            self._sleep(seen, min(limits, default=None))
        return None

    def refuse_missing(self, workflow_id: str | None) -> None:
        """Raise NoWorker if an execution (None: all that is left) waits only for workers that cannot come."""
        if not (len(self.workshop) or self._asks):
            self.missing.refuse(workflow_id)

    def _wait_out(self, deadline: Deadline | None) -> None:
        """Wait before the store is tried again; any commit in this process says that it can be."""
        committed, at = self.engine.core.turns.committed, self.outages.again_at()
        self.engine.core.clock_watch.rests(0 if at is None else at - self.clock.now())
        self.clock.wait(committed.waiter(), at if deadline is None or at is None else min(at, deadline.instant))

    def _work(self) -> bool:
        """Do what is ready now; whether anything was."""
        self.engine.core.driven.look(self.clock.now())
        self.handing.most, self.handing.threads = BATCH, True
        busy = self.results.collect()
        busy = self.signs.give_due() or busy
        begun = self.clock.now()
        if self.due.take(begun, self._group, lately=busy or self.handing.handed):
            busy, self._group = True, next_group(self._group, self.clock.now() - begun)
        busy = (self._asks and self._listen()) or busy
        busy = self._dispatch() or busy
        busy = self.feeding.look(busy=busy) or busy
        self.outages.prune()
        return busy

    def _listen(self) -> bool:
        if self.outages.rests(_SOURCES):
            return False
        try:
            found = self.listening.take(_MESSAGES)
        except StorageError as error:
            if not self.outages.failed(error, _SOURCES):
                raise
            return False
        self.outages.done(_SOURCES)
        return found

    def _sleep(self, seen: int, until: int | None) -> None:
        """Sleep until there may be something to do: an instant, any commit, the end of a function, or a while."""
        turns = self.engine.core.turns
        while True:
            now = self.clock.now()
            wake_at = now + self._rest.span(now)
            waiter = turns.committed.waiter()
            if turns.committed.number != seen or self.results.finished():
                return
            wake_at = wake_at if until is None else min(wake_at, until)
            self.engine.core.clock_watch.rests(wake_at - now)
            self.clock.wait(waiter, wake_at)
            if turns.committed.number != seen or self.engine.core.clock_watch.look():
                return
            now = self.clock.now()
            if (
                (until is not None and now >= until)
                or self.due.passed_over
                or self.engine.core.holding.look()
                or self._rest.over(now)
            ):
                return

    def _dispatch(self) -> bool:
        """Hand offered tasks to free threads, and coroutines to the loop; what a stop finds handed over is given back."""
        if self._stopping or not len(self.workers):
            return False
        if self.outages.resting and self.outages.known(_THREADS) and not self.outages.rests(_THREADS):
            with self._waiting_for_a_thread():
                self.workshop.recover()
        if not self.signs.noting and any(worker.is_async for worker in self.workers):
            self.signs.listen()
        self.signs.handing_out = True
        try:
            handed = self.handing.handed
            if not handed:
                handed.extend(self.handing.take(BATCH, threads=True))
            found = bool(handed)
            self._run_here()
            self._run_row()
            while handed and not self._stopping and not self._runs_here():
                if self.handing.ahead and self.workshop.room(is_async=False) <= 0:
                    if self.results.finished():  # there is room when they are reported
                        break
                    if not self.workshop.is_only_quick(handed[0][0]):  # it was quicker when they were handed over
                        self.handing.ahead = 0
                        self.handing.give_back()
                        break
                self._begin(*handed.popleft())
        finally:
            self.signs.handing_out = False
        return found

    def _runs_here(self, *, next_one: bool = False) -> bool:
        """Return True if this thread may carry out the next task: one that is alone and quick, or takes next to no time.

        Only while nothing is under way, as after one it has carried out (`next_one`), and for no caller that goes on at an instant.
        """
        handed = self.handing.handed
        if not handed or self._deadline is not None or self._stopping or (not next_one and self.workshop.under_way()):
            return False
        return self.workshop.is_quick(handed[0][0], alone=len(handed) == 1)

    def _run_here(self) -> None:
        """Carry out what was handed over, and what its reports hand over then, for a few ms. Who stands by finds the rest there."""
        handed, carried, until = self.handing.handed, 0, (now := self.clock.now()) + QUICK_MS
        while self._runs_here(next_one=carried > 0):
            worker, task = handed.popleft()
            running = Call(worker=worker, task=task, beat_at=self.signs.next_beat(worker, task, now), inline=True)
            try:
                self.standby.run(partial(self.workshop.run_here, running))
            except NoThread:
                return self._begin(worker, task)
            except BaseException as error:  # interrupted: no thread works at it any more
                clean_up(error, f"giving back {task.ref!r}", partial(self.engine.core.holding.give_back, [task]))
                raise
            carried += 1
            if handed:
                continue
            self.handing.ahead = carried if carried < AHEAD else AHEAD
            if not (self.workshop.is_only(running) and not self.reports.in_hand and self.results.report(running)):
                self.results.collect()
            if (now := self.clock.now()) >= until:
                break
            carried = 0
        return None

    def _run_row(self) -> None:
        """For a caller that goes on at an instant, have one thread carry out what takes next to nothing, one after another.

        That one is waited for as long as a function in this thread would be.
        """
        handed, row, now, deadline = self.handing.handed, list[Call](), self.clock.now(), self._deadline
        if deadline is None or self._stopping or self.workshop.under_way():
            return
        while handed and self.workshop.is_quick(handed[0][0], alone=False):
            worker, task = handed.popleft()
            row.append(Call(worker=worker, task=task, beat_at=self.signs.next_beat(worker, task, now)))
        if row:
            with self._waiting_for_a_thread():
                self.workshop.run_row(row, min(deadline.instant, now + PATIENCE_MS))

    def _begin(self, worker: Worker, task: Task) -> None:
        with self._waiting_for_a_thread():
            self.workshop.dispatch(Call(worker=worker, task=task, beat_at=self.signs.next_beat(worker, task, self.clock.now())))

    @contextmanager
    def _waiting_for_a_thread(self) -> Iterator[None]:
        """Count a task that waits for a thread among the calls, and keep its lease, until there is one."""
        try:
            yield
        except NoThread as error:
            if not self.outages.failed(error, _THREADS):
                raise
        else:
            self.outages.done(_THREADS)

    def _drain(self) -> None:
        """Wait for running functions, extending their leases, up to the workers' drain time; then abandon them."""
        self.handing.most = 0
        self.handing.give_back()
        deadline = Deadline(self.clock, self.workers.drain_ms)
        while (len(self.workshop) or len(self.reports)) and not deadline.passed:
            seen = self.engine.core.turns.committed.number
            try:
                if self.results.collect() or self.signs.give_due():
                    continue
            except StorageError as error:
                if not self.outages.failed(error):
                    raise
                self._wait_out(deadline)
                continue
            waiter = self.engine.core.turns.committed.waiter()
            if self.engine.core.turns.committed.number == seen:
                self.clock.wait(waiter, min(deadline.instant, self.clock.now() + GLANCE_MS))
        left = [running for running in self.workshop if running.job is None or not running.job.over]  # what has ended stays here
        for running in left:
            self.signs.abandon(running)
        with suppress(StorageError):  # else it is given back when the engine is closed
            self.engine.core.holding.give_back(running.task for running in left)
        self._report_once()

    def _report_once(self) -> None:
        """Try once more to store what is unreported; what cannot be stored stays there."""
        before, self.outages.patient = self.outages.patient, True
        try:
            self.results.collect()
        except StorageError as error:
            if not self.outages.failed(error):
                raise
        finally:
            self.outages.patient = before

    def close(self) -> None:
        """Report what is unreported, as far as the store can be written; let idle threads end, and cancel coroutines."""
        with suppress(ConductorliteError):  # what is left is counted and logged
            self._report_once()
        left = len(self.reports) + len(self.workshop.finished())
        if left:
            log_driver("%d results could not be stored before the engine was closed; their tasks are carried out again", left)
        try:
            self.feeding.close()
        finally:
            try:
                self.workshop.close()
            finally:
                self.standby.close()  # raises nothing


class _Driving(Block[bool]):
    """The block of one who drives."""

    __slots__ = ("_driver", "_inside", "_timeout")

    def __init__(self, driver: Driver, timeout: float) -> None:
        self._driver = driver
        self._timeout = timeout
        self._inside = False

    def begin(self) -> bool:
        driver = self._driver
        self._inside = driver.driving.owned()
        if self._inside:
            if caller_of(driver.engine.core.turns) is None:  # nothing that this driver has called: it was interrupted
                text = (
                    "inside a finalizer or a hook that has interrupted the driver of the same thread: have another thread call it"
                )
                raise WouldDeadlock(f"a verb that drives was called {text}")
            return not driver.standby.busy  # else who stands by drives
        if not driver.driving.take(self, self._timeout):
            return False
        if driver.torn:
            driver.recover()
        driver.torn = True
        return True

    def end(self, error: BaseException | None) -> None:
        if not self._inside and self._driver.driving.mine(self):
            if error is None or isinstance(error, ConductorliteError):
                self._driver.torn = False
            self._give()

    def undo(self, error: BaseException | None = None) -> None:
        self._give()

    def _give(self) -> None:
        driver = self._driver
        driver.driving.give(self)
        turns = driver.engine.core.turns
        if turns.sleeping:  # one of those that wait may have to drive now
            turns.awaited.wake_first()


def next_group(size: int, took_ms: int) -> int:
    """Return how many executions' turns share the next write, after so many took so long: others wait for all of them."""
    if took_ms > _LONG_MS:
        return max(1, size // 4)
    return min(GROUP, 2 * size) if took_ms < _LONG_MS // 4 else size


def output_of(engine: Verbs, workflow_id: str, row: Workflow | None) -> dict[str, Any]:
    """The output of an execution that has ended; `row` is its own, if it is at hand. Raises WorkflowFailed."""
    if row is None or row.output.absent:
        row = engine.core.queries.execution(workflow_id)
    if row.status is not WorkflowStatus.COMPLETED:
        raise failed(engine, engine.get(workflow_id))
    return row.output_data


def wait_until(
    engine: Verbs,
    driver: Driver,
    workflow_id: str,
    reached: Callable[[], bool],
    deadline: Deadline | None = None,
    *,
    each: bool = True,
) -> Workflow | None:
    """Drive, or wait for the thread that does, until something holds of an execution; its row, if it has ended and that is at hand.

    What holds comes with one commit of it or another (`each`), or only with its end. Raises ResultTimeout when the clock reads the
    `deadline` first, NoWorker, and WouldDeadlock inside what the driver has called.
    """
    once = False

    def over() -> bool:
        nonlocal once
        try:
            once = once or reached()
        except StorageError as error:
            if engine.clock.virtual or not passes(error):
                raise  # else the driver waits for the store
        return once

    if over():
        return None
    turns = engine.core.turns
    turns.joined.refuse("result")
    driver.missing.news.log(driving=True)
    if (caller := caller_of(turns)) is None:  # outside of executions who waits may wait for anything
        return _wait(engine, driver, workflow_id, over, deadline, None, each)
    with driver.waiting.of(caller, workflow_id) as check:
        return _wait(engine, driver, workflow_id, lambda: check() or over(), deadline, caller, each)


def _wait(
    engine: Verbs,
    driver: Driver,
    workflow_id: str,
    reached: Callable[[], bool],
    deadline: Deadline | None,
    inside: Caller | None,
    each: bool,
) -> Workflow | None:
    if _is_driven(engine, driver, workflow_id, reached, deadline, inside):
        return None
    awaited = engine.core.turns.awaited
    since: int | None = driver.wait_news.begin()
    with awaited.wait(workflow_id, each=each) as waiting:
        while not reached():
            if deadline is not None and deadline.passed:
                raise late(engine, workflow_id)
            drives = awaited.sleep(waiting, engine.clock, deadline)
            if waiting.row is not None:
                return waiting.row
            waiting.news = False
            if drives and _is_driven(engine, driver, workflow_id, reached, deadline, inside):
                break
            if inside is None and since is not None and driver.wait_news.look(since, workflow_id):
                since = None
            if deadline is None and inside is None:
                driver.refuse_missing(workflow_id)
    return None


def _is_driven(
    engine: Verbs, driver: Driver, workflow_id: str, reached: Callable[[], bool], deadline: Deadline | None, inside: Caller | None
) -> bool:
    """Drive until something holds; False, at once, if it does not and another thread drives, or is about to close the engine."""
    if driver.is_closing:
        return reached()
    try:
        with driver.drive(timeout=0) as driving:
            awaited = workflow_id if inside is None else None
            in_time = driving and driver.run(until=reached, deadline=deadline, awaited=awaited)
    except ClockError as error:
        if inside is None or not inside.inline:
            raise
        text = f"result() inside {inside.what} would wait for itself: time stands still while it runs"
        raise WouldDeadlock(f"{text}, and {workflow_id} needs it to pass") from error
    if reached():
        return True
    if driving:
        raise late(engine, workflow_id, in_time=in_time)
    return False
