"""Threads that run worker functions.

Daemon threads of our own instead of a ThreadPoolExecutor: an executor joins its threads when the interpreter ends, so that one
function that never returns would keep the process for ever. Here such a thread is *abandoned*: its lease is void, whatever it
may still return is dropped, and a fresh thread takes its place.

Nothing is counted, so that no exception between two instructions can make a count wrong: which calls wait, which thread has which
call, and how many threads there are follows from what is there. A thread that ends otherwise than by itself is replaced.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

from conductorlite.model.errors import NoThread
from conductorlite.model.threads import started

__all__ = ["Job", "Pool"]

T = TypeVar("T")


class _Presence:
    """Kept by one thread among what is local to it, and by no frame: gone when the thread is, whatever keeps its frames.

    Nothing is asked of the interpreter's list of threads: `sys._current_frames()` locks it while it may collect garbage, and
    whatever that frees may wait for a thread that begins or ends (seen on Python 3.11: an application stood still).
    """

    __slots__ = ("__weakref__",)


class _Taker(weakref.ref[_Presence]):
    """One thread, also after it is gone: a plain reference that was not hashed before cannot be hashed then."""

    __slots__ = ("abandoned", "begun")
    __hash__ = object.__hash__

    def __init__(self, presence: _Presence, gone: Callable[[_Taker], None]) -> None:
        super().__init__(presence, gone)  # type: ignore[call-arg]
        #: Whether it runs: one that was never started must not count, whatever its starter's frames keep.
        self.begun = False
        self.abandoned = False

    @property
    def present(self) -> bool:
        """Whether the thread runs and takes jobs."""
        return self.begun and not self.abandoned and self() is not None


#: Who took a job; at most one entry, so that one step of a dict decides who is first.
_Taken = dict[str, _Taker | None]


class Job(Generic[T]):
    """One call in a thread. `result` is set before `done`."""

    __slots__ = ("abandoned", "begun", "done", "lost", "result", "run", "taker")

    def __init__(self, run: Callable[[], T], lost: Callable[[BaseException], object] | None = None) -> None:
        self.run = run
        self.lost = lost
        self.result: T | BaseException | None = None
        self.taker: _Taken = {}
        self.begun = False
        self.done = False
        self.abandoned = False

    @property
    def over(self) -> bool:
        """Whether nothing will come of it any more."""
        return self.done


class Pool(Generic[T]):
    """At most `size` threads, started when first needed. `finished` is called in the worker's thread after each job."""

    def __init__(self, size: int, finished: Callable[[], None]) -> None:
        self.size = size
        self._finished = finished
        #: What is not done, in order.
        self._jobs: dict[Job[T], None] = {}
        self._workers: set[_Taker] = set()
        self._here = threading.local()
        self._news: SimpleQueue[None] = SimpleQueue()
        self._closed = False

    def submit(self, run: Callable[[], T], lost: Callable[[BaseException], object] | None = None) -> Job[T]:
        """Have a function run by the next free thread; `lost` is called with an exception that came before it or after it.

        Raises NoThread, as `start` does; the function is not run then.
        """
        job = Job(run, lost)
        try:
            self.start(job)
        except NoThread:
            self._jobs.pop(job, None)
            raise
        return job

    def start(self, job: Job[T]) -> None:
        """Have a job run by the next free thread; nothing happens when it was begun.

        Raises NoThread when there is no thread; the job waits, and `start` may be called again.
        """
        self._jobs[job] = None
        if job.done or job.abandoned:  # perhaps since a moment ago
            self._jobs.pop(job, None)
            return
        self._news.put(None)
        self._staff()

    def abandon(self, job: Job[T]) -> None:
        """Give up on a job that does not return: its thread no longer counts, its result will be dropped."""
        if not job.done and not job.abandoned:
            job.abandoned = True
            taker = job.taker.setdefault("by", None)
            if taker is not None:
                taker.abandoned = True
            self._jobs.pop(job, None)
            self._staff()

    def close(self) -> None:
        """Let idle threads end; those that run a job end after it."""
        self._closed = True
        for _ in self._workers.copy():
            self._news.put(None)

    def _staff(self) -> None:
        """Start a thread if there are more jobs than threads; raises NoThread when none can be started, and there is none."""
        present = self._present()
        if present < min(self.size, len(self._jobs)):
            presence = [_Presence()]
            taker = _Taker(presence[0], self._gone)
            self._workers.add(taker)
            try:
                started(self._work, presence, taker, name="conductorlite-worker")
            except NoThread:
                self._workers.discard(taker)
                if not present:
                    raise

    def _present(self) -> int:
        """How many threads there are."""
        return sum(taker.present for taker in self._workers.copy())

    def _gone(self, taker: _Taker) -> None:
        """A thread has ended: its job is lost, what it would have taken is another one's."""
        counted = taker in self._workers
        self._workers.discard(taker)
        self._lose(taker, InterruptedError("the thread of the call has ended"))
        if counted and self._jobs:
            with suppress(NoThread):  # no caller is here to be notified; the next job tries again
                self._staff()

    def _work(self, presence: list[_Presence], taker: _Taker) -> None:
        self._here.presence = presence.pop()
        taker.begun = True
        if self._present() > self.size:
            return
        while not taker.abandoned:
            try:
                job = self._taken(taker)
                if job is not None:
                    self._carry_out(job)
                elif self._closed:
                    return
                else:
                    self._news.get()
            except BaseException as error:
                self._lose(taker, error)

    def _taken(self, taker: _Taker) -> Job[T] | None:
        """The first job that no thread has: it is this thread's from now on."""
        for job in list(self._jobs):
            if job.taker.setdefault("by", taker) is taker:
                return job
        return None

    def _carry_out(self, job: Job[T]) -> None:
        job.begun = True
        try:
            result: T | BaseException = job.run()
        except BaseException as error:
            result = error
        self._end(job, result)

    def _end(self, job: Job[T], result: T | BaseException) -> None:
        job.result = result
        job.done = True
        self._jobs.pop(job, None)
        if not job.abandoned:
            self._finished()

    def _lose(self, taker: _Taker, error: BaseException) -> None:
        """Set right what a thread was doing when an exception came from elsewhere than from its function."""
        for job in list(self._jobs):
            if job.taker.get("by") == taker:
                if not job.begun:
                    job.taker = {}  # as good as not taken
                    self._news.put(None)
                elif job.done:
                    self._end(job, job.result if job.result is not None else error)
                else:
                    self._end(job, error)
                    if job.lost is not None:
                        job.lost(error)
        self._finished()
