"""Where coroutine functions run: on the caller's event loop, or on one private loop in a thread of its own.

asyncio is imported, and the private thread started, by the first call; a program that has no `async def` workers pays for neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from conductorlite.model.threads import Mutex, Waiter, started
from conductorlite.runtime.pool import Job

if TYPE_CHECKING:
    import asyncio

__all__ = ["CoroutineJob", "Coroutines"]

T = TypeVar("T")

#: Seconds between looks whether a loop is still there.
_GLANCE = 1.0

#: Seconds that closing waits for canceled coroutines to end.
_PATIENCE = 5.0


class CoroutineJob(Job[T]):
    """One call on a loop. `result` is set before `done`, `done` before `ended` is woken."""

    __slots__ = ("ended", "loop", "start", "task")

    def __init__(self, start: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(_nothing)
        self.start = start
        self.loop = loop
        self.task: asyncio.Task[None] | None = None
        self.ended = Waiter()

    @property
    def over(self) -> bool:
        """Whether nothing will come of it any more: it has ended, or its loop has."""
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
        try:
            self.start(job)
            while not job.over:
                job.ended.wait(_GLANCE)
        except BaseException:
            self.abandon(job)
            raise
        return InterruptedError("the event loop ended") if job.result is None else job.result

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
            job.task = job.loop.create_task(_carry(job))
            job.task.add_done_callback(lambda task: self._end(job, task))

    def _end(self, job: CoroutineJob[T], task: asyncio.Task[None]) -> None:
        if task.cancelled():  # before its first step
            job.result = InterruptedError("the event loop ended before the coroutine began")
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


async def _carry(job: CoroutineJob[T]) -> None:
    # Nothing gets past here, KeyboardInterrupt and SystemExit neither: they would stop the loop and with it all others.
    try:
        job.result = await job.start()
    except BaseException as error:
        job.result = error


def _cancel(job: CoroutineJob[Any]) -> None:
    if job.task is not None:
        job.task.cancel()


def _nothing() -> Any:
    return None
