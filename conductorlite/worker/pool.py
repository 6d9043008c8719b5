"""Threads that run worker functions.

Daemon threads of our own instead of a ThreadPoolExecutor: an executor joins its threads when the interpreter ends, so that one
function that never returns would keep the process for ever. Here such a thread is *abandoned*: its lease is void, whatever it
may still return is dropped, and a fresh thread takes its place.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Job", "Pool"]

T = TypeVar("T")


class Job(Generic[T]):
    """One call in a thread. `result` is set before `done`."""

    __slots__ = ("abandoned", "done", "result", "run")

    def __init__(self, run: Callable[[], T]) -> None:
        self.run = run
        self.result: T | BaseException | None = None
        self.done = False
        self.abandoned = False


class Pool(Generic[T]):
    """At most `size` threads, started when first needed. `finished` is called in the worker's thread after each job."""

    def __init__(self, size: int, finished: Callable[[], None]) -> None:
        self.size = size
        self._finished = finished
        self._waiting: deque[Job[T]] = deque()
        self._changed = threading.Condition()
        self._idle = 0
        self._threads = 0
        self._closed = False

    def submit(self, run: Callable[[], T]) -> Job[T]:
        """Have a function run by the next free thread."""
        job = Job(run)
        with self._changed:
            self._waiting.append(job)
            if self._idle >= len(self._waiting):
                self._changed.notify()
            elif self._threads < self.size:
                self._threads += 1
                threading.Thread(target=self._work, name="conductorlite-worker", daemon=True).start()
            else:
                self._changed.notify()
        return job

    def abandon(self, job: Job[T]) -> None:
        """Give up on a job that does not return: its thread no longer counts, its result will be dropped."""
        with self._changed:
            if not job.done and not job.abandoned:
                job.abandoned = True
                self._threads -= 1

    def close(self) -> None:
        """Let idle threads end; those that run a job end after it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._waiting and not self._closed:
                    self._changed.wait()
                self._idle -= 1
                if not self._waiting:
                    self._threads -= 1
                    return
                job = self._waiting.popleft()
            try:
                result: T | BaseException = job.run()
            except BaseException as error:
                result = error
            with self._changed:
                job.result = result
                job.done = True
                if job.abandoned:
                    return
            self._finished()
