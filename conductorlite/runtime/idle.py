"""Functions of workers that wait for an execution: each holds its slot meanwhile, and what it waits for may need one.

How a driver on real time rests: what it looks at meanwhile, and how often.

It is notified of commits in this process. It is not notified of another process's, so it looks at one number that SQLite keeps in
shared memory: often while something was done a moment ago, rarely else. Everything else is looked at only when that number has
changed, or once in a while.

Who drives while the thread that should carries out a function itself, and that takes long.

A function that was quick the last time is called by the driver's own thread when nothing else is ready, and one that took no time
at all, beside others too: it costs no change of threads. Should it not return for `PATIENCE_MS`, a thread that stands by drives in
the meantime, timers, signs of life and other executions included, until the function has returned. A caller that goes on at an
instant has another thread call those that take no time at all, and waits for it as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from conductorlite.engine.turn_types import Caller
from conductorlite.engine.verbs import Verbs
from conductorlite.model.decisions import ADDRESS, queue_name
from conductorlite.model.errors import NoThread, StorageError, WouldDeadlock
from conductorlite.model.executions import Task
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.threads import Mutex, Waiter, clean_up, started
from conductorlite.runtime.registry import Worker, Workers
from conductorlite.runtime.workshop import Workshop
from conductorlite.store.ports import ReadingTransaction

__all__ = ["COUNTING", "GLANCE_MS", "PATIENCE_MS", "POLLED_MS", "Rest", "Standby", "WaitGraph", "next_stored"]

#: Between looks for commits of other processes, ms: while something was done a moment ago, and else.
_QUICK_MS: Final = 10
GLANCE_MS: Final = 100

#: For how long after the last thing that was done one looks quickly, ms; then the store is put in order.
_MOMENT_MS: Final = 500

#: How often everything is looked at although no process has committed, ms: it is to be known that one still polls.
_LOOK_MS: Final = 1_000


class Rest:
    """The driver's knowledge of the store while it rests. Costs a driver that always has something to do nothing."""

    def __init__(self, engine: Verbs, *, asked: bool) -> None:
        self._engine = engine
        #: Sources of messages do not notify the engine that they have one.
        self._look_ms = GLANCE_MS if asked else _LOOK_MS
        #: What was committed when everything was looked at last; None when there was something to do since.
        self._seen: tuple[int, int] | None = None
        self._looked_at = 0
        self._worked_at = 0
        self._in_order = True
        #: Whether the store says by itself that another process has committed; None: not asked yet.
        self._notified: bool | None = None

    def worked(self, now: int) -> None:
        """Note that there was something to do."""
        self._seen, self._worked_at, self._in_order = None, now, False

    def span(self, now: int) -> int:
        """Return how long to sleep before the next look, ms. A while after the last work, put the store in order first."""
        if self._notified is None:
            self._notified = self._watches()
        if self._notified:
            return self._look_ms
        if 0 <= now - self._worked_at < _MOMENT_MS:
            return _QUICK_MS
        if not self._in_order:
            self._in_order = True
            with suppress(StorageError):  # it can wait, and the next commit will report it
                self._engine.backend.checkpoint()
        return GLANCE_MS

    def _watches(self) -> bool:
        """Have the store wake this driver, if it can."""
        watch = getattr(self._engine.backend, "watch", None)
        if watch is None:
            return False
        try:
            watch(self._engine.core.turns.committed.wake)
        except (NoThread, StorageError):
            return False  # this driver looks by itself, more often
        return True

    def over(self, now: int) -> bool:
        """Return True if everything is to be looked at: a process has committed since that was done last, or it was a while ago."""
        backend = self._engine.backend
        state = (backend.data_version(), backend.commits())
        if state == self._seen and 0 <= now - self._looked_at < self._look_ms:
            return False
        # Taken before the look: what is committed meanwhile counts as not seen.
        self._seen, self._looked_at = state, now
        return True


#: A worker elsewhere that has polled so recently is counted on, ms.
POLLED_MS: Final = 10_000

#: Tasks that end when others do.
COUNTING: Final = frozenset({"JOIN", "EXCLUSIVE_JOIN", "DO_WHILE"})

#: Executions below the awaited one that are looked at.
_FAMILY: Final = 100


class WaitGraph:
    """The waiting callers and what they wait for; refuses a caller that would wait for itself. Thread-safe."""

    def __init__(self, engine: Verbs, workers: Workers, workshop: Workshop) -> None:
        self._engine = engine
        self._workers = workers
        self._workshop = workshop
        self._mutex = Mutex()
        #: By id of the task whose function waits: the executions it is part of, and the one it waits for.
        self._waiting: dict[str, tuple[frozenset[str], str]] = {}

    @contextmanager
    def of(self, caller: Caller, workflow_id: str) -> Iterator[Callable[[], None]]:
        """While inside, that code waits for an execution; yields what raises WouldDeadlock once that can never end.

        Raises WouldDeadlock at once for a listener and a source, and for who waits for what waits for it.
        """
        held = caller.task
        if held is None:
            raise WouldDeadlock(f"result() inside {caller.what} would wait for itself: nothing goes on until it returns")
        own = self._family(held.workflow_id)
        with self._mutex.held():
            if own & self._reached(workflow_id):
                text = f"{workflow_id} waits for its task {held.ref!r}"
                raise WouldDeadlock(f"result() inside {caller.what} would wait for itself: {text}")
            self._waiting[held.task_id] = (own, workflow_id)
        try:
            yield lambda: self._check(caller, held.task_id, workflow_id)
        finally:
            with self._mutex.held():
                self._waiting.pop(held.task_id, None)

    def _family(self, workflow_id: str) -> frozenset[str]:
        """An execution and those above it."""
        found: list[str] = []
        with self._engine.backend.reading() as view:
            above: str | None = workflow_id
            while above is not None and above not in found:
                found.append(above)
                row = view.executions.workflow(above)
                above = None if row is None else row.parent_workflow_id
        return frozenset(found)

    def _reached(self, workflow_id: str) -> frozenset[str]:
        """Return what an execution waits for by way of functions that wait."""
        reached = {workflow_id}
        while True:
            further = {awaited for own, awaited in self._waiting.values() if own & reached} - reached
            if not further:
                return frozenset(reached)
            reached |= further

    def _check(self, caller: Caller, task_id: str, workflow_id: str) -> None:
        if not self._full():
            return
        blocked = self._blocked(workflow_id)
        with self._mutex.held():
            # Of several that wait for ever the first gives up: then there is room for the others.
            if blocked is None or not self._full():
                return
            self._waiting.pop(task_id, None)
        text = f"{workflow_id} needs a worker for {blocked!r}, and the caller that could make room for one waits too"
        raise WouldDeadlock(
            f"result() inside {caller.what} would wait for itself: {text}; allow more of them at once (concurrency)"
        )

    def _full(self) -> bool:
        """Return True if some bound is reached by functions that all wait."""
        return bool(self._waiting) and any(self._has_no_room(worker) for worker in self._workers)

    def _has_no_room(self, worker: Worker) -> bool:
        every = list(self._workshop)
        calls = [call for call in every if call.job is None or not call.job.over]  # those that have ended make room
        kind = [call for call in calls if call.worker.is_async == worker.is_async]
        own = [call for call in calls if call.worker is worker]
        ended = sum(call.worker.is_async == worker.is_async for call in every) - len(kind)
        total = self._workers.concurrency
        bounds = [
            (self._workshop.room(is_async=worker.is_async) + ended, kind),
            (1 if total is None else total - len(calls), calls),
            (1 if worker.concurrency is None else worker.concurrency - len(own), own),
        ]
        return any(room <= 0 and all(call.task.task_id in self._waiting for call in some) for room, some in bounds)

    def _blocked(self, workflow_id: str) -> str | None:
        """The type of a task below an execution that only workers without room could carry out, if nothing else goes on there."""
        here = {queue_name(worker.task_type, worker.domain, self._engine.config.owner): worker for worker in self._workers}
        found: str | None = None
        ids, seen = [workflow_id], 0
        with self._engine.backend.reading() as view:
            while ids and seen < _FAMILY:
                seen += 1
                for task in view.executions.attempts(ids.pop()):
                    if task.sub_workflow_id is not None and not task.status.terminal:
                        ids.append(task.sub_workflow_id)
                    elif not (task.status.terminal or task.task_type in COUNTING or task.task_id in self._waiting):
                        worker = here.get(queue_name(task.task_type, task.domain, self._engine.config.owner))
                        if task.status is not TaskStatus.SCHEDULED or worker is None or not self._has_no_room(worker):
                            return None
                        if self._served_elsewhere(view, task):
                            return None
                        found = task.task_type
        return found

    def _served_elsewhere(self, view: ReadingTransaction, task: Task) -> bool:
        since = self._engine.clock.now() - POLLED_MS
        polls = view.poll_data.polls(task.task_type)
        own = self._workers.worker_id or self._engine.core.holding.worker_id
        return any(poll.worker_id != own and poll.last_poll_time > since for poll in polls)


def next_stored(
    engine: Verbs, queues: Sequence[str], now: int, *, later: bool, idle: bool
) -> tuple[tuple[int, str] | None, int | None, bool]:
    """The next event (`later`: that is not due yet), when the next message is due, and, if that is asked for (`idle`), whether
    all events are schedules' own.
    """
    owner, commits = engine.config.owner, engine.backend.commits()
    with engine.backend.reading() as view:
        event = _later_event(view, owner, now) if later else view.inbox.next_event(owner)
        endless = idle and event is not None and event[1].startswith(ADDRESS) and _only_schedules(view, owner)
        message = view.queue.next_message_at(queues) if queues else None
    if not later:
        engine.core.turns.quiet.found_next(commits, None if event is None else event[0])
    return event, message, endless


def _later_event(view: ReadingTransaction, owner: str, now: int) -> tuple[int, str] | None:
    """The first event that is not due yet: when, and for which execution."""
    limit = 64
    while True:
        events = view.inbox.upcoming_events(limit, owner)
        later = [event for event in events if event.due_at > now]
        if later or len(events) < limit:
            return (later[0].due_at, later[0].workflow_id) if later else None
        limit *= 4


def _only_schedules(view: ReadingTransaction, owner: str) -> bool:
    """Return True if all events that are not held are schedules' own."""
    limit = 16
    while True:
        events = view.inbox.upcoming_events(limit, owner)
        if any(not event.workflow_id.startswith(ADDRESS) for event in events):
            return False
        if len(events) < limit:
            return True
        limit *= 4


T = TypeVar("T")

#: How long a function may keep its driver from driving, ms.
PATIENCE_MS: Final = 50

#: Looks without a function under way after which the thread ends; the next function starts another one.
_IDLE: Final = 40


class Standby:
    """The thread that stands by for one driver. `drive` is called with what says that it is to end."""

    def __init__(self, drive: Callable[[Callable[[], bool]], object], wake: Callable[[], object]) -> None:
        self._drive = drive
        self._wake = wake
        #: What the driver's thread carries out, and how many it has so far.
        self._current: object = None
        self._calls = 0
        self._driving = Mutex()
        #: Whether the thread drives, or is about to look whether it must.
        self._taking = False
        self._present = False
        self._over = Waiter()
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """True if the driver's thread carries out a function."""
        return self._current is not None

    def run(self, function: Callable[[], T]) -> T:
        """Call a function in this thread, which drives; raises NoThread when nobody can stand by, and what driving has raised."""
        if not self._present:
            self._present = True
            try:
                started(self._watch, name="conductorlite-standby")
            except BaseException:
                self._present = False
                raise
        self._calls += 1
        self._current = call = object()
        error: BaseException | None = None
        try:
            return function()
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._current is call:
                self._current = None
            if self._taking:
                clean_up(error, "driving while a function ran", self.rest)
            del error  # or this frame and the exception would keep one another

    def rest(self) -> None:
        """Have the thread that stands by drive no more; to be called by who is about to drive. Raises what driving has raised."""
        if self._taking:
            self._current = None
            self._wake()
            with self._driving.held():
                error, self._error = self._error, None
            if error is not None:
                raise error

    def close(self) -> None:
        """Let the thread end."""
        self._current = None
        self._over.wake()

    def _watch(self) -> None:
        seen, idle = 0, 0
        try:
            while idle < _IDLE:
                if self._over.wait(PATIENCE_MS / 1_000):
                    return
                call, idle = self._current, 0 if self._calls != seen else idle + 1
                if call is not None and self._calls == seen:
                    idle = 0
                    self._take_over(call)
                seen = self._calls
        finally:
            self._present = False

    def _take_over(self, call: object) -> None:
        with self._driving.held():
            self._taking = True
            try:
                if self._current is call:
                    self._drive(lambda: self._current is not call)
            except BaseException as error:
                self._error = error
            finally:
                self._taking = False
