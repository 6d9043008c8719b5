"""The driver: takes every turn that is due, hands tasks to workers, and says when to come back.

One loop for both times. On a virtual clock worker functions run in the caller's thread, one after another, and the clock jumps
to the next instant on the agenda. On the system clock they run in threads (coroutines: on an event loop), and the caller's
thread, which is the only one that takes turns, sleeps until the next instant, a commit or the end of a function. Idle is
exact: nothing due, nothing offered, nothing running, nothing on the agenda.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from conductorlite.clock import VirtualClock
from conductorlite.decisions import queue_name
from conductorlite.driver.listening import Listening
from conductorlite.driver.resting import GLANCE_MS, Rest
from conductorlite.driver.workshop import Call, Workshop
from conductorlite.engine import AgendaEntry, Keeping
from conductorlite.errors import ClockError, InvalidInput, InvariantBroken, NotFound, Parked, StaleLease
from conductorlite.executions import HistoryEvent, Task, TaskResult, TaskStatus, Workflow
from conductorlite.ports import EventSource, ReadingTransaction
from conductorlite.schedules import ADDRESS, name_at
from conductorlite.worker import Deferred, Worker, Workers
from conductorlite.worker.calls import raised, returned_value

__all__ = ["Driver"]

#: Due workflows looked up at once.
_BATCH: Final = 64

#: Messages asked of a source at once, as in Conductor.
_MESSAGES: Final = 10

#: Units of work that may pass before the index is told of them.
_HUNGRY: Final = 500

#: Executions looked at when somebody else takes a turn on the first one that is due.
_OTHERS: Final = 64


class Driver:
    """Drives one engine. At most one thread at a time holds `driving`."""

    def __init__(self, engine: Keeping, workers: Workers | None, sources: Iterable[EventSource] = ()) -> None:
        self.engine = engine
        self.clock = engine.clock
        # An empty set is falsy, and functions may still be added to it.
        self.workers = workers if workers is not None else Workers()
        self.driving = threading.RLock()
        self.workshop = Workshop(engine, self.workers)
        self.listening = Listening(engine, sources)
        self._timeline: list[tuple[int, int, Call]] = []
        self._order = itertools.count()
        self._rotation = 0
        #: Whether the last turns that were due are being taken by somebody else.
        self._passed_over = False
        self._unfed = 0
        self._stopping = threading.Event()
        #: Executions that ended while functions run or are being handed out, and whether anybody notes them down.
        self._over: deque[str] = deque()
        self._noting = False
        self._handing_out = False
        self._rest = Rest(engine, asked=bool(self.listening))

    # ------------------------------------------------------------------ one unit of work

    def tick(self) -> bool:
        """Do one unit of what is ready now: a turn, a message, a report, or one worker call; False when nothing is ready.

        The index is told of changes when nothing else is ready, and else at every so many units.
        """
        if self._feeds() and self._feed():
            return True
        return self._take_turn() or self.listening.take(1) or self._report_due() or self._run_one() or self._feed()

    def _feeds(self) -> bool:
        """Whether the index has been kept waiting for so many units."""
        self._unfed += 1
        return self._unfed >= _HUNGRY

    def _feed(self) -> bool:
        self._unfed = 0
        return self.engine.feeder is not None and self.engine.feeder.feed()

    def settle(self) -> int:
        """Do all that is ready now; returns how many units that was."""
        units = 0
        while self.tick():
            units += 1
        return units

    def _take_turn(self) -> bool:
        with self.engine.backend.reading() as view:
            items = view.outbox(_BATCH)
            due = [] if items else view.due_workflows(self.clock.now(), 1, self.engine.owner)
        if items:
            with self.engine.backend.writing() as tx:
                tx.deliver(items)
            return True
        self._passed_over = False
        if not due:
            return False
        if self._turn(due[0]):
            return True
        # Somebody else takes a turn on it: there may be others.
        with self.engine.backend.reading() as view:
            due = view.due_workflows(self.clock.now(), _OTHERS, self.engine.owner)
        self._passed_over = not any(self._turn(workflow_id) for workflow_id in due[1:])
        return not self._passed_over

    def _turn(self, address: str) -> bool:
        """Whether a turn was taken: not while somebody else has the lock of the execution."""
        schedule = name_at(address)
        try:
            if schedule is None:
                return not self.engine.turns.take(address).posted
            self.engine.declared_task_defs = self.workers.task_defs
            self.engine.fire_schedule(schedule)
            return True
        except InvariantBroken:
            # Counted on the workflow row; the third time parks it. Others must not suffer for it.
            return True

    def _run_one(self) -> bool:
        """Take and run one offered task in this thread."""
        for worker, task in self._polled(1):
            self._run_inline(worker, task)
            return True
        return False

    def _polled(self, most: int, *, threads: bool = False) -> list[tuple[Worker, Task]]:
        """Up to `most` tasks for workers that may take one more (with `threads`: as many as there is room for); every type
        gets its turn."""
        found: list[tuple[Worker, Task]] = []
        workers = list(self.workers)
        limit = self.workers.concurrency
        room = {kind: self.workshop.room(is_async=kind) for kind in (False, True)} if threads else {}
        for offset in range(len(workers)):
            worker = workers[(self._rotation + offset) % len(workers)]
            own = self.workshop.room_for(worker)
            free = min(most - len(found), room.get(worker.is_async, most), most if own is None else own)
            if limit is not None:
                free = min(free, limit - len(self.workshop) - len(found))
            if free <= 0:
                continue
            tasks = self.engine.poll(worker.task_type, worker_id=self.workers.worker_id, count=free, domain=worker.domain)
            found += [(worker, task) for task in tasks]
            if room:
                room[worker.is_async] -= len(tasks)
            if len(found) >= most:
                break
        self._rotation += 1
        return found

    def _run_inline(self, worker: Worker, task: Task) -> None:
        result = self.workshop.run(worker, task)
        if isinstance(result, Deferred):
            self._defer(worker, task, result)
        else:
            self._report(task, result)

    def _report(self, task: Task, result: TaskResult) -> None:
        try:
            self.engine.report(task, result)
        except (StaleLease, InvariantBroken, NotFound):
            return  # not found: the execution was removed while the function ran
        except InvalidInput as error:
            text = f"task {task.ref!r} reported something that cannot be kept: {error}"
            refused = TaskResult(
                workflow_id=task.workflow_id,
                task_id=task.task_id,
                status=TaskStatus.FAILED_WITH_TERMINAL_ERROR,
                reason=text.encode("utf-8", "replace").decode(),
                lease=task.lease,
            )
            self.engine.report(task, refused)

    # ------------------------------------------------------------------ virtual durations

    def _defer(self, worker: Worker, task: Task, deferred: Deferred) -> None:
        """Keep a call that takes virtual time on the agenda."""
        if not self.clock.virtual:
            raise ClockError(f"worker {worker.task_type!r} takes virtual time, but the engine's clock is real")
        at = None if deferred.after_ms is None else self.clock.now() + deferred.after_ms
        if at is None and deferred.silent:
            # A dead worker: nothing will be heard of it, and it holds no slot of those that live.
            return
        running = Call(worker=worker, task=task, report_at=at, outcome=deferred.outcome, reports=deferred.reports)
        running.beat_at = None if deferred.silent else self._next_beat(worker, task)
        self.workshop.begin(running)
        self._enter(running)

    def _enter(self, running: Call) -> None:
        instants = [at for at in (running.beat_at, running.report_at) if at is not None]
        if instants:
            heapq.heappush(self._timeline, (min(instants), next(self._order), running))

    def _report_due(self) -> bool:
        """Make the next report, or give the next sign of life, that is due in virtual time."""
        if not self._timeline or self._timeline[0][0] > self.clock.now():
            return False
        _, _, running = heapq.heappop(self._timeline)
        if running.report_at is not None and running.report_at <= self.clock.now():
            self.workshop.end(running)
            outcome = running.outcome
            task = running.task
            result = raised(task, outcome) if isinstance(outcome, BaseException) else returned_value(task, outcome)
            for _ in range(running.reports):
                self._report(task, result)
        else:
            self._beat(running)
            self._enter(running)
        return True

    # ------------------------------------------------------------------ signs of life

    def _next_beat(self, worker: Worker, task: Task) -> int | None:
        """When to give a sign of life, or at least to look whether the task is still held; None when it has no deadline.

        A third of the response timeout from now, so that two signs may be missed; and at the deadlines themselves, because
        a function that never returns must give up its slot when its task has ended without it.
        """
        now = self.clock.now()
        beats = worker.heartbeat and task.response_timeout_at is not None
        deadlines = (None if beats else task.response_timeout_at, task.timeout_at, task.total_timeout_at)
        instants = [at for at in deadlines if at is not None and at > now]
        if not self.clock.virtual and any(at is not None and at <= now for at in deadlines):
            # Overdue, but its turn has not been taken yet. (Virtual time takes all turns before it looks.)
            instants.append(now + GLANCE_MS)
        if beats:
            instants.append(now + max(1, ((task.response_timeout_at or 0) - task.updated_at) // 3))
        return min(instants, default=None)

    def _beat(self, running: Call) -> None:
        held = running.task
        try:
            beats = running.worker.heartbeat and held.response_timeout_at is not None
            alive = not beats or self._alive(held)
            stored = self.engine.task(held.task_id) if alive else held
        except (StaleLease, NotFound):
            alive, stored = False, held
        if alive and stored.status is TaskStatus.IN_PROGRESS and stored.lease == held.lease:
            running.beat_at = self._next_beat(running.worker, stored)
        else:
            running.lost = True
            running.beat_at = None
            if running.report_at is None:
                # Hung, and nobody waits for it any more: its slot is free again.
                self.workshop.end(running)

    def _alive(self, held: Task) -> bool:
        try:
            return self.engine.extend_lease(held)
        except Parked:  # nothing times out there, and what the function returns will be kept
            return True

    # ------------------------------------------------------------------ time

    def agenda(self) -> list[AgendaEntry]:
        """Reports that running scripted workers will make."""
        return [
            AgendaEntry(at=running.report_at, kind="REPORT", workflow_id=running.task.workflow_id, ref=running.task.ref)
            for running in self.workshop
            if running.report_at is not None
        ]

    def next_instant(self, *, idle: bool = False) -> int | None:
        """When something will be ready that is not ready now; None when nothing will by itself.

        With `idle` schedules alone are nothing: they never come to an end.
        """
        owner = self.engine.owner
        with self.engine.backend.reading() as view:
            letter = view.next_letter(owner)
            only_schedules = idle and letter is not None and letter[1].startswith(ADDRESS) and _only_schedules(view, owner)
            queues = [queue_name(worker.task_type, worker.domain, owner) for worker in self.workers]
            message = view.next_message_at(queues) if queues else None
        now = self.clock.now()
        instants = [at for at in (letter and letter[0], self._timeline[0][0] if self._timeline else None) if at is not None]
        if message is not None and message > now:
            instants.append(message)
        if not self.clock.virtual:  # in virtual time they are on the timeline, and a walk over all would be paid at each instant
            instants += [running.beat_at for running in self.workshop if running.beat_at is not None]
        if only_schedules and len(instants) == 1 and not len(self.workshop):
            return None
        return min(instants, default=None)

    def advance(self, until: int) -> None:
        """Move a virtual clock to an instant, doing all that comes due on the way at its own instant."""
        clock = self._virtual("advance")
        if until < clock.now():
            raise ClockError(f"time cannot go back from {clock.now()} to {until}")
        self.settle()
        while (at := self.next_instant()) is not None and at <= until:
            clock.move_to(max(at, clock.now()))
            self.settle()
        clock.move_to(until)
        self.settle()

    def _virtual(self, verb: str) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise ClockError(f"{verb} needs a virtual clock; real time passes by itself")
        return self.clock

    def run(self, *, until: Callable[[], bool] | None = None, deadline: int | None = None, forever: bool = False) -> bool:
        """Drive until `until()` holds, or nothing is left to do (unless `forever`), or the clock reads `deadline`.

        Returns whether it stopped for one of the first two reasons. With running worker functions left behind at the deadline,
        their leases go on to be honoured by whoever drives next.
        """
        if self.clock.virtual:
            return self._run_virtual(until, deadline)
        return self._run_real(until, deadline, forever)

    def _run_virtual(self, until: Callable[[], bool] | None, deadline: int | None) -> bool:
        clock = self._virtual("run")
        while True:
            while until is None or not until():
                if not self.tick():
                    break
            else:
                return True
            at = self.next_instant(idle=True)
            if at is None:
                return True
            if deadline is not None and at > deadline:
                clock.move_to(max(deadline, clock.now()))
                return False
            clock.move_to(max(at, clock.now()))

    # ------------------------------------------------------------------ real time

    def stop(self) -> None:
        """Ask a driver in another thread to stop: it takes no more tasks, waits for running functions, returns."""
        self._stopping.set()
        self.engine.turns.wake()

    def forget_stop(self) -> None:
        """Take back a `stop` that came when the driver it was meant for had just returned."""
        self._stopping.clear()

    def _run_real(self, until: Callable[[], bool] | None, deadline: int | None, forever: bool) -> bool:
        turns = self.engine.turns
        while True:
            seen = turns.commits
            if self._stopping.is_set():
                self._drain()
                self._stopping.clear()
                return True
            if until is not None and until():
                return True
            now = self.clock.now()
            if deadline is not None and now >= deadline:
                return False
            if self._work():
                self._rest.worked(now)
                continue
            at = self.next_instant(idle=not forever and until is None)
            if at is None and not len(self.workshop) and not forever and until is None:
                return True
            at = None if self._passed_over and at is not None and at <= now else at
            limits = [instant for instant in (at, deadline) if instant is not None]
            self._sleep(seen, min(limits, default=None))

    def _work(self) -> bool:
        """Do what is ready now; whether anything was."""
        busy = self._collect()
        busy = self._beats_due() or busy
        busy = self._take_turn() or busy
        busy = self.listening.take(_MESSAGES) or busy
        busy = self._dispatch() or busy
        return ((self._feeds() or not busy) and self._feed()) or busy

    def _sleep(self, seen: int, until: int | None) -> None:
        """Sleep until there may be something to do: an instant, a commit of anybody, the end of a function, or a while."""
        turns = self.engine.turns
        while True:
            now = self.clock.now()
            wake_at = now + self._rest.span(now)
            with turns.committed:
                if turns.commits != seen or self.workshop.finished():
                    return
                self.clock.wait(turns.committed, wake_at if until is None else min(wake_at, until))
                if turns.commits != seen:
                    return
            now = self.clock.now()
            if (until is not None and now >= until) or self._passed_over or self._rest.over(now):
                return

    def _dispatch(self) -> bool:
        """Hand offered tasks to free threads, and coroutines to the loop."""
        if not len(self.workers):
            return False
        if not self._noting and any(worker.is_async for worker in self.workers):
            self._noting = True
            self.engine.listen(self._note)
        self._handing_out = True  # an execution may end after its task was polled and before its function is among the calls
        try:
            found = self._polled(_BATCH, threads=True)
            for worker, task in found:
                self.workshop.dispatch(Call(worker=worker, task=task, beat_at=self._next_beat(worker, task)))
        finally:
            self._handing_out = False
        return bool(found)

    def _note(self, workflow: Workflow, _: Sequence[HistoryEvent]) -> None:
        if workflow.status.terminal and (self._handing_out or len(self.workshop)):
            self._over.append(workflow.workflow_id)

    def _collect(self) -> bool:
        """Report what finished functions returned."""
        finished = self.workshop.finished()
        for running in finished:
            self.workshop.end(running)
            result = running.job.result if running.job is not None else None
            if isinstance(result, Deferred):
                text = f"worker {running.worker.task_type!r} takes virtual time, but the engine's clock is real"
                result = ClockError(text)
            if isinstance(result, TaskResult):
                self._report(running.task, result)
            elif isinstance(result, BaseException):
                self._report(running.task, raised(running.task, result))
        return bool(finished)

    def _beats_due(self) -> bool:
        """Extend the leases of running functions; one that lost its lease is abandoned, and said so in its log."""
        now = self.clock.now()
        over = {self._over.popleft() for _ in range(len(self._over))}
        due = [
            running
            for running in self.workshop
            if (running.beat_at is not None and running.beat_at <= now)
            # Canceling is free, so a coroutine need not go on until its next sign of life.
            or (running.worker.is_async and running.task.workflow_id in over)
        ]
        for running in due:
            self._beat(running)
            if running.lost:
                self._abandon(running)
        return bool(due)

    def _abandon(self, running: Call) -> None:
        self.engine.log(running.task, self.workshop.abandon(running))

    def _drain(self) -> None:
        """Wait for running functions, extending their leases, up to the workers' drain time; then abandon them."""
        deadline = self.clock.now() + self.workers.drain_ms
        while len(self.workshop) and self.clock.now() < deadline:
            seen = self.engine.turns.commits
            if self._collect() or self._beats_due():
                continue
            with self.engine.turns.committed:
                if self.engine.turns.commits == seen:
                    self.clock.wait(self.engine.turns.committed, min(deadline, self.clock.now() + GLANCE_MS))
        for running in self.workshop:
            self._abandon(running)

    def close(self) -> None:
        """Let idle threads end, and cancel coroutines."""
        self.workshop.close()


def _only_schedules(view: ReadingTransaction, owner: str) -> bool:
    """Whether all letters that are not held are schedules' own."""
    limit = 16
    while True:
        letters = view.upcoming_events(limit, owner)
        if any(not letter.workflow_id.startswith(ADDRESS) for letter in letters):
            return False
        if len(letters) < limit:
            return True
        limit *= 4
