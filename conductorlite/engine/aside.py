"""Turns that wait for foreign code, taken by threads of their own while others go on.

A turn of a driver, or over reports, waits for a script only shortly (`language.haste`). When that is not enough its events are
stored in the inbox, and the execution is put aside: nobody else takes its turn until a thread here has.

Two threads share the work. One takes the turns whose scripts nobody has tried yet, also shortly: what has to wait is that no helper
process was there, so one that is soon done never waits for one that is not. The other waits until a bound ends the code, for one
execution at a time. Definitions take turns there, those first that have had the least time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from conductorlite.engine.logs import log_driver
from conductorlite.language.haste import Haste, at_leisure
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import EngineClosed, InvariantBroken, NoThread, StorageError, TakesLong
from conductorlite.model.texts import error_text
from conductorlite.model.threads import Mutex, Waiter, started

__all__ = ["Aside", "Job", "may_be_put_aside"]

#: Of how many definitions it is known how often they had the slow thread; they are forgotten together.
_KNOWN: Final = 1_024
#: How long closing waits for a turn that is being taken, in seconds.
_CLOSING_S: Final = 5.0
#: Events over which a turn may be taken later: nobody waits for what becomes of them.
_LATER: Final = frozenset({EventKind.REPORT})


def may_be_put_aside(events: Sequence[Event]) -> bool:
    """Return True if a turn over these events, and what is due, may be taken by another thread later."""
    return all(event.kind in _LATER for event in events)


@attrs.frozen(slots=True, kw_only=True, eq=False, repr=False)
class Job:
    """An execution that was put aside, and the name of its definition."""

    workflow_id: str
    name: str
    inside: bool


class Aside:
    """The executions of one engine that were put aside, and the threads that take their turns. Thread-safe."""

    def __init__(self, run_turn: Callable[..., object], wake: Callable[[], object], workflow_ids: dict[str, Job]) -> None:
        """Take turns by `run_turn`; `workflow_ids` are filled with the executions that were put aside."""
        self._run_turn, self._wake, self.workflow_ids = run_turn, wake, workflow_ids
        self._mutex = Mutex()
        self._untried: deque[Job] = deque()
        self._slow: dict[str, deque[Job]] = {}
        #: Definitions whose code runs long in this process: how many of their executions wait.
        self.inside: dict[str, int] = {}
        #: How often each definition has had the slow thread.
        self._had: dict[str, int] = {}
        #: What ends with each thread that runs, by what it takes.
        self._running: dict[bool, Waiter] = {}
        self._closed = False

    def put(self, workflow_id: str, long: TakesLong) -> None:
        """Put an execution aside; its turn is taken after `go_on`. While the engine is being closed, its turn stays due."""
        job = Job(workflow_id=workflow_id, name=long.name, inside=long.inside)
        with self._mutex.held():
            if not self._closed and workflow_id not in self.workflow_ids:
                self.workflow_ids[workflow_id] = job
                self._enter(job, tried=long.tried)

    def go_on(self, workflow_id: str, *, tried: bool) -> None:
        """Have the turn taken of an execution that was put aside. While no thread can be started, it is as if it was not."""
        try:
            self._start(tried=tried)
        except NoThread:
            with self._mutex.held():
                job = self.workflow_ids.get(workflow_id)
                if job is not None:
                    self._forget(job)

    def close(self) -> None:
        """Take no more turns, and wait for those that are being taken; what is left is due when the store is opened again."""
        self._closed = True
        if not self.workflow_ids:
            return
        with self._mutex.held():
            self._untried.clear()
            self._slow.clear()
            running = list(self._running.values())
        for over in running:
            over.wait(_CLOSING_S)

    def _enter(self, job: Job, *, tried: bool) -> None:
        if not tried:
            self._untried.append(job)
            return
        if job.name not in self._had:
            if len(self._had) >= _KNOWN:
                self._had.clear()
            # Not before all those that have waited longer.
            self._had[job.name] = min((self._had.get(name, 0) for name in self._slow), default=0)
        self._slow.setdefault(job.name, deque()).append(job)
        if job.inside:
            self.inside[job.name] = self.inside.get(job.name, 0) + 1

    def _forget(self, job: Job) -> None:
        if self.workflow_ids.pop(job.workflow_id, None) is not None and job.inside:
            self.inside[job.name] -= 1
            if not self.inside[job.name]:
                del self.inside[job.name]
        if job in self._untried:
            self._untried.remove(job)
        waiting = self._slow.get(job.name)
        if waiting is not None and job in waiting:
            waiting.remove(job)
            if not waiting:
                del self._slow[job.name]

    def _start(self, *, tried: bool) -> None:
        with self._mutex.held():
            if tried in self._running or self._closed:
                return
            self._running[tried] = over = Waiter()
        try:
            started(self._run, tried, over, name=f"conductorlite-aside-{'slow' if tried else 'untried'}")
        except NoThread:
            with self._mutex.held():
                self._running.pop(tried, None)
            raise

    def _next(self, *, tried: bool) -> Job | None:
        """Return the next job for a thread; None if there is none, and the thread ends."""
        with self._mutex.held():
            # Of several the one that came last: those before it have waited longer than anybody waits for already.
            if not tried and self._untried:
                return self._untried.pop()
            if tried and self._slow:
                name = min(reversed(self._slow), key=lambda name: self._had.get(name, 0))
                self._had[name] = self._had.get(name, 0) + 1
                job = self._slow[name].popleft()
                if not self._slow[name]:
                    del self._slow[name]
                return job
            self._running.pop(tried, None)
            return None

    def _run(self, tried: bool, over: Waiter) -> None:
        take: Callable[[Job], bool] = self._take_slowly if tried else self._take_shortly
        try:
            while (job := self._next(tried=tried)) is not None:
                if take(job):
                    with self._mutex.held():
                        self._forget(job)
                    self._wake()
        finally:
            with self._mutex.held():
                if self._running.get(tried) is over:  # something unforeseen has ended it
                    del self._running[tried]
            over.wake()

    def _take_shortly(self, job: Job) -> bool:
        """Take a turn, with a helper process that may have to start; whether it was taken, or will never be."""
        try:
            self._run_turn(job.workflow_id, haste=Haste(starts=True))
        except TakesLong as long:
            job = attrs.evolve(job, inside=long.inside)
            with self._mutex.held():
                if not self._closed:
                    self.workflow_ids[job.workflow_id] = job
                    self._enter(job, tried=True)
            try:
                self._start(tried=True)
            except NoThread:
                with self._mutex.held():
                    self._forget(job)
                return self._take_slowly(job)
            return False
        except Exception as error:
            self._failed(job, error)
        return True

    def _take_slowly(self, job: Job) -> bool:
        """Take a turn, however long it takes."""
        try:
            with at_leisure():
                self._run_turn(job.workflow_id)
        except Exception as error:
            self._failed(job, error)
        return True

    def _failed(self, job: Job, error: Exception) -> None:
        """A driver takes the turn as any other, and hears of what lasts."""
        if isinstance(error, InvariantBroken | EngineClosed):
            return  # counted on its row and logged; or there is nobody to take it
        what = "is taken again" if isinstance(error, StorageError) else "failed"
        log_driver("the turn of %s that was put aside %s: %s", job.workflow_id, what, error_text(error))
