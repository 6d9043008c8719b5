"""Threads that run worker functions.

Daemon threads of our own instead of a ThreadPoolExecutor: an executor joins its threads when the interpreter ends, so that one
function that never returns would keep the process for ever. Here such a thread is *abandoned*: its lease is void, whatever it
may still return is dropped, and a fresh thread takes its place.

Nothing is counted, so that no exception between two instructions can make a count wrong: which calls wait, which thread has which
call, and how many threads there are follows from what is there. A thread that ends otherwise than by itself is replaced.

A call of a worker function, until it is reported.

Where coroutine functions run: on the caller's event loop, or on one private loop in a thread of its own.

asyncio is imported, and the private thread started, by the first call; a program that has no `async def` workers pays for neither.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from conductorlite.model.errors import ClockError, NoThread
from conductorlite.model.executions import Task, TaskResult
from conductorlite.model.threads import Mutex, Waiter, started
from conductorlite.runtime.calls import Deferred, raised
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.registry import Worker

if TYPE_CHECKING:
    import asyncio

__all__ = ["Call", "CoroutineJob", "Coroutines", "Job", "Pool"]

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


#: Who took a job; at most one entry, so that one step of a dict decides who is first.
_Taken = dict[str, _Taker | None]


class Job(Generic[T]):
    """One call in a thread. `result` is set before `done`, and that before it is asked whether it is `quiet`."""

    __slots__ = ("abandoned", "begun", "done", "lost", "quiet", "result", "run", "taker")

    def __init__(self, run: Callable[[], T], lost: Callable[[BaseException], object] | None = None) -> None:
        self.run = run
        self.lost = lost
        self.result: T | BaseException | None = None
        self.taker: _Taken = {}
        self.begun = False
        self.done = False
        self.abandoned = False
        #: Whether nobody is notified of its end, as another one of its row follows.
        self.quiet = False

    @classmethod
    def here(cls, result: T) -> Job[T]:
        """One that was carried out in the thread that asks."""
        job = cls(_nothing)
        job.result, job.done = result, True
        return job

    @property
    def over(self) -> bool:
        """True if nothing will come of it any more."""
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
        job.quiet = False
        self._jobs[job] = None
        if job.done or job.abandoned:  # perhaps since a moment ago
            self._jobs.pop(job, None)
            return
        self._news.put(None)
        self._staff()

    def start_row(self, jobs: Sequence[Job[T]]) -> None:
        """Start jobs that one free thread is to run, one after another; `finished` is called after the last of them.

        What of them is not begun, `start` gives to other threads. Raises NoThread as that does.
        """
        for job in jobs:
            job.quiet = job is not jobs[-1]
            self._jobs[job] = None
        self._news.put(None)
        if not self._present():
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
        """Return how many threads there are that run and take jobs."""
        return len([1 for taker in self._workers.copy() if taker.begun and not taker.abandoned and taker() is not None])

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
        job.run = _nothing  # it may know the job, and the collector would have to find both
        job.done = True
        self._jobs.pop(job, None)
        if not (job.abandoned or job.quiet):
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


#: Seconds between looks whether a loop is still there.
_GLANCE = 1.0

#: Seconds that closing waits for canceled coroutines to end.
_PATIENCE = 5.0


class CoroutineJob(Job[T]):
    """One call on a loop. `result` is set before `done`, `done` before `ended` is woken."""

    __slots__ = ("ended", "loop", "start", "task", "unbegun")

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(_nothing)
        self.start = start
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        #: Called at the end of a task that was canceled before its first step.
        self.unbegun: Callable[[object], None] | None = None
        self.ended = Waiter()

    @property
    def over(self) -> bool:
        """True if nothing will come of it any more: it has ended, or its loop has."""
        return self.done or self.loop.is_closed()


class Coroutines(Generic[T]):
    """Runs coroutines for threads. `finished` is called in the loop's thread after each one that was not abandoned."""

    def __init__(self, finished: Callable[[], None]) -> None:
        self._finished = finished
        self._host: asyncio.AbstractEventLoop | None = None
        self._private: tuple[threading.Thread, asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._mutex = Mutex()

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what is submitted from now on on this loop, which is the caller's to run and to close."""
        self._host = loop

    def submit(self, start: Callable[[], Coroutine[Any, Any, T]]) -> CoroutineJob[T]:
        """Have a coroutine run; `start` is called on the loop."""
        job = self.job(start)
        self.start(job)
        return job

    def job(self, start: Callable[[], Coroutine[Any, Any, T]]) -> CoroutineJob[T]:
        """One call that is not begun yet; raises NoThread when there is no loop, and no thread for one."""
        hosted = self._host is not None and not self._host.is_closed()
        return CoroutineJob(start, self._host if hosted and self._host is not None else self._private_loop())

    def start(self, job: CoroutineJob[T]) -> None:
        """Begin a call; nothing happens when it was begun."""
        job.loop.call_soon_threadsafe(self._begin, job)

    def run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T | BaseException:
        """Have a coroutine run and wait for it in this thread; what it raised is returned."""
        job = self.job(start)
        self.carry_out(job)
        return InterruptedError("the event loop ended") if job.result is None else job.result

    def carry_out(self, job: CoroutineJob[T]) -> None:
        """Begin a call, and wait in this thread until it is over."""
        try:
            self.start(job)
            while not job.over:
                job.ended.wait(_GLANCE)
        except BaseException:
            self.abandon(job)
            raise

    def abandon(self, job: CoroutineJob[T]) -> None:
        """Cancel a coroutine whose result is not needed any more."""
        job.abandoned = True
        try:
            job.loop.call_soon_threadsafe(_cancel, job)
        except RuntimeError:
            return  # its loop is closed, and the coroutine ended with it

    def close(self) -> None:
        """Cancel what runs on the private loop and end its thread; idempotent."""
        with self._mutex.held():
            private, self._private = self._private, None
        if private is not None:
            thread, loop, stopped = private
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(stopped.set)
            thread.join(_PATIENCE)

    def _begin(self, job: CoroutineJob[T]) -> None:
        if not job.abandoned and job.task is None:
            job.task = job.loop.create_task(self._carry(job))
            job.unbegun = partial(self._canceled, job)
            job.task.add_done_callback(job.unbegun)

    async def _carry(self, job: CoroutineJob[T]) -> None:
        if job.task is not None and job.unbegun is not None:  # else the end would take another round of the loop
            job.task.remove_done_callback(job.unbegun)
            job.unbegun = None
        # Nothing gets past here, KeyboardInterrupt and SystemExit neither: they would stop the loop and with it all others.
        try:
            job.result = await job.start()
        except BaseException as error:
            job.result = error
        self._end(job)

    def _canceled(self, job: CoroutineJob[T], _: object) -> None:
        job.result = InterruptedError("the event loop ended before the coroutine began")
        self._end(job)

    def _end(self, job: CoroutineJob[T]) -> None:
        job.start, job.unbegun = _nothing, None
        job.done = True
        job.ended.wake()
        if not job.abandoned:
            self._finished()

    def _private_loop(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._mutex.held():
            if self._private is None or self._private[1].is_closed():
                ready = Waiter()
                found: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

                async def live() -> None:
                    stopped = asyncio.Event()
                    found.append((asyncio.get_running_loop(), stopped))
                    ready.wake()
                    await stopped.wait()

                # asyncio.run cancels what is left and lets it end.
                thread = started(lambda: asyncio.run(live()), name="conductorlite-loop")
                while not ready.wait(_GLANCE) and thread.is_alive():
                    continue
                if not found:
                    raise InterruptedError("the thread of the event loop ended before it ran")
                self._private = (thread, *found[0])
            return self._private[1]


def _cancel(job: CoroutineJob[Any]) -> None:
    if job.task is not None:
        job.task.cancel()


def _nothing() -> Any:
    return None


@attrs.define(slots=True, eq=False, repr=False)
class Call:
    """A worker function that runs: in a thread, on a loop, or in virtual time."""

    worker: Worker
    task: Task
    job: Job[TaskResult | Deferred] | None = None
    #: When the next sign of life is due; None when the task needs none.
    beat_at: int | None = None
    #: Virtual time: when it reports (None: never) and what.
    report_at: int | None = None
    outcome: object = None
    reports: int = 1
    #: When its function ended, epoch ms.
    ended_at: int | None = None
    #: Whether the thread that drives waits for it.
    inline: bool = False
    lost: bool = False
    #: Whether its report was committed with the function's own rows.
    reported: bool = False
    #: What its function knows, from its beginning, and when its lines are stored next, epoch ms.
    context: TaskContext | None = None
    lines_at: int = 0

    @property
    def sign(self) -> str:
        """The name under which its signs of life are counted as one piece of work."""
        return f"heartbeat:{self.task.task_id}"

    def result(self) -> TaskResult:
        """Return what its function has returned."""
        result = None if self.job is None else self.job.result
        if isinstance(result, Deferred):
            result = ClockError(f"worker {self.worker.task_type!r} takes virtual time, but the engine's clock is real")
        problem = result if isinstance(result, BaseException) else InterruptedError("it gave no result")
        return result if isinstance(result, TaskResult) else raised(self.task, problem)
