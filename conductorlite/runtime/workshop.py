"""Where worker functions run: plain ones in threads, coroutines on an event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from conductorlite.engine.turn_types import Caller, called_by
from conductorlite.engine.verbs import Verbs
from conductorlite.model import attrs
from conductorlite.model.clock import VirtualClock
from conductorlite.model.executions import Task, TaskResult
from conductorlite.runtime.calls import Deferred, call, call_async, raised
from conductorlite.runtime.pool import CoroutineJob, Coroutines, Job, Pool
from conductorlite.runtime.registry import TaskContext, Worker, Workers

if TYPE_CHECKING:
    import asyncio

__all__ = ["QUICK_MS", "Call", "Workshop"]

#: Threads for worker functions when the user sets no bound.
_THREADS: Final = 32

#: How long a quick function takes at most, ms.
QUICK_MS: Final = 10

#: Coroutines that run at once when the user sets no bound.
_COROUTINES: Final = 1_000


@attrs.define(slots=True, eq=False)
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


class Workshop:
    """The calls that run, in the order in which they began, and the threads and the loop that carry them."""

    def __init__(self, engine: Verbs, workers: Workers) -> None:
        self._engine = engine
        self._workers = workers
        #: There may be as many as a fork is wide.
        self._calls: dict[Call, None] = {}
        self._busy: Counter[str] = Counter()
        self._coroutines_busy = 0
        #: How long the last call of a queue's function took, ms.
        self._spans: dict[str, int] = {}
        self._pool: Pool[TaskResult | Deferred] | None = None
        self._loop: Coroutines[TaskResult | Deferred] = Coroutines(engine.core.turns.wake)

    def __iter__(self) -> Iterator[Call]:
        return iter(tuple(self._calls))

    def __len__(self) -> int:
        return len(self._calls)

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run coroutine functions on this loop."""
        self._loop.use(loop)

    def room(self, *, is_async: bool) -> int:
        """How many more functions of a kind may run."""
        bound = self._workers.concurrency
        if is_async:
            return (bound or _COROUTINES) - self._coroutines_busy
        return (bound or _THREADS) - (len(self._calls) - self._coroutines_busy)

    def room_for(self, worker: Worker) -> int | None:
        """How many more tasks a worker may take, by its own bound; None when it has none."""
        return None if worker.concurrency is None else worker.concurrency - self._busy[worker.queue]

    def run(self, running: Call) -> TaskResult | Deferred:
        """Run a function while this thread waits; a virtual clock stands still meanwhile."""
        clock = self._engine.clock
        self.begin(running)  # it counts, for what it may wait for itself
        try:
            with clock.held() if isinstance(clock, VirtualClock) else nullcontext():
                if not running.worker.is_async:
                    return self._carry(running)
                result = self._loop.run(partial(self._carry_async, running))
        finally:
            self.end(running)
        if isinstance(result, KeyboardInterrupt):
            raise result
        return raised(running.task, result) if isinstance(result, BaseException) else result

    def run_here(self, running: Call) -> None:
        """Run a function while this thread waits and another one may drive; its end is found among those of the others."""
        self.begin(running)
        try:
            job = Job(partial(self._carry, running))
            job.result = self._carry(running)
            job.done, running.job = True, job
        except BaseException:
            self.end(running)
            raise

    def is_quick(self, worker: Worker, most: int) -> bool:
        """Whether the last call of a function that is no coroutine's took so many milliseconds at most."""
        return self._spans.get(worker.queue, most + 1) <= most

    def under_way(self) -> bool:
        """Whether a function has been called and has not returned."""
        return any(running.job is None or not running.job.over for running in self._calls)

    def begin(self, running: Call) -> None:
        """Count a call as running."""
        self._calls[running] = None
        self._busy[running.worker.queue] += 1
        self._coroutines_busy += running.worker.is_async

    def dispatch(self, running: Call) -> None:
        """Begin a call in a thread or on the loop; it counts before its function can do anything.

        Raises NoThread when there is neither; the call counts, and `mend` begins it.
        """
        self.begin(running)
        self._launch(running)

    def _launch(self, running: Call) -> None:
        if running.job is None:
            if running.worker.is_async:
                running.job = self._loop.job(partial(self._carry_async, running))
            else:
                running.job = Job(partial(self._carry, running))
        self._start(running.job)

    def _start(self, job: Job[TaskResult | Deferred]) -> None:
        if isinstance(job, CoroutineJob):
            self._loop.start(job)
        else:
            if self._pool is None:
                self._pool = Pool(self._workers.concurrency or _THREADS, self._engine.core.turns.wake)
            self._pool.start(job)

    def recover(self) -> None:
        """Set right what an interruption of this thread has left: count again, and begin what was not begun; raises NoThread."""
        for running in tuple(self._calls):
            if running.inline and running.job is None:  # this thread ran it
                self._calls.pop(running, None)
        calls = tuple(self._calls)
        self._busy = Counter(running.worker.queue for running in calls)
        self._coroutines_busy = sum(running.worker.is_async for running in calls)
        for running in calls:
            # In virtual time a call without a job is one that takes time, and not one that waits for a thread.
            if not running.job.over if running.job is not None else not self._engine.clock.virtual:
                self._launch(running)

    def _caller(self, running: Call) -> Caller:
        what, inline = f"worker {running.worker.task_type!r}", running.inline and self._engine.clock.virtual
        return Caller(turns=self._engine.core.turns, what=what, task=running.task, inline=inline)

    def _carry(self, running: Call) -> TaskResult | Deferred:
        clock = self._engine.clock
        if clock.virtual:
            with called_by(self._caller(running)):
                return call(running.worker, TaskContext(running.task, self._engine))
        begun = clock.now()
        try:
            with called_by(self._caller(running)):
                return call(running.worker, TaskContext(running.task, self._engine))
        finally:
            running.ended_at = clock.now()
            self._spans[running.worker.queue] = abs(running.ended_at - begun)

    async def _carry_async(self, running: Call) -> TaskResult | Deferred:
        try:
            with called_by(self._caller(running)):
                return await call_async(running.worker, TaskContext(running.task, self._engine))
        finally:
            running.ended_at = self._engine.clock.now()

    def finished(self) -> list[Call]:
        """Calls whose function has returned."""
        return [running for running in tuple(self._calls) if running.job is not None and running.job.over]

    def end(self, running: Call) -> None:
        """Count a call as over."""
        if running in self._calls:
            del self._calls[running]
            self._busy[running.worker.queue] -= 1
            self._coroutines_busy -= running.worker.is_async

    def abandon(self, running: Call) -> str:
        """Give up a call whose lease is lost: its coroutine is canceled, its thread no longer counts; says so."""
        self.end(running)
        if isinstance(running.job, CoroutineJob):
            self._loop.abandon(running.job)
            return f"worker {running.worker.task_type!r} lost its lease while it ran; its coroutine was canceled"
        if running.job is not None and self._pool is not None:
            self._pool.abandon(running.job)
        return f"worker {running.worker.task_type!r} lost its lease while it ran; its thread was abandoned"

    def close(self) -> None:
        """Let idle threads end; cancel coroutines that still run."""
        for running in tuple(self._calls):
            if isinstance(running.job, CoroutineJob):
                self._loop.abandon(running.job)
        if self._pool is not None:
            self._pool.close()
        self._loop.close()
