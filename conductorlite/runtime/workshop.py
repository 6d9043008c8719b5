"""Execution of worker functions: plain ones in threads, coroutines on an event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from conductorlite.engine.logs import log_driver
from conductorlite.engine.turn_types import called_by
from conductorlite.engine.verbs import Verbs
from conductorlite.model.clock import Deadline, VirtualClock
from conductorlite.model.errors import ConductorliteError
from conductorlite.model.executions import TaskResult
from conductorlite.model.threads import Block, Waiter, cached_property
from conductorlite.runtime.calls import Deferred, FunctionCaller, call, call_async, call_committing, raised
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.pool import Call, CoroutineJob, Coroutines, Job, Pool
from conductorlite.runtime.registry import Worker, Workers

if TYPE_CHECKING:
    import asyncio

    from conductorlite.runtime.call_rates import CallRates

__all__ = ["COROUTINES", "QUICK_MS", "THREADS", "Workshop"]

#: Threads for worker functions when the user sets no bound.
THREADS: Final = 32

#: How long a quick function takes at most, ms; and one of next to nothing, of which the driver carries out many.
QUICK_MS: Final = 10
_NOTHING_MS: Final = 0.25

#: Coroutines that run at once when the user sets no bound.
COROUTINES: Final = 1_000


class Workshop:
    """The calls that run, in the order in which they began, and the threads and the loop that carry them."""

    def __init__(self, engine: Verbs, workers: Workers) -> None:
        self._engine = engine
        self._workers = workers
        #: There may be as many as a fork is wide.
        self._calls: dict[Call, None] = {}
        self._busy: Counter[str] = Counter()
        self._coroutines_busy = 0
        #: In which block a worker is lent to a turn of another thread.
        self.lent: Block[Any] | None = None
        #: How long the last call of a queue's function took, ms; of those that take less than two, the last ones on average.
        self._spans: dict[str, float] = {}
        self._pool: Pool[TaskResult | Deferred] | None = None
        self._loop: Coroutines[TaskResult | Deferred] = Coroutines(engine.core.turns.committed.wake)
        #: Names of the task definitions with a rate limit; virtual time does not pass between a hand-out and its call.
        self._rated = engine.core.turns.lookups.plans.rated

    def __iter__(self) -> Iterator[Call]:
        return iter(tuple(self._calls))

    def __len__(self) -> int:
        return len(self._calls)

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run coroutine functions on this loop."""
        self._loop.use(loop)

    def room(self, *, is_async: bool) -> int:
        """Return how many more functions of a kind may run."""
        bound = self._workers.concurrency
        if is_async:
            return (bound or COROUTINES) - self._coroutines_busy
        return (bound or THREADS) - (len(self._calls) - self._coroutines_busy)

    def lends(self) -> bool:
        """Return True if a worker may be handed a task by a turn of another thread: there is room for one less."""
        return self.lent is not None and self.lent.live

    def room_for(self, worker: Worker) -> int | None:
        """Return how many more tasks a worker may take, by its own bound; None when it has none."""
        return None if worker.concurrency is None else worker.concurrency - self._busy[worker.queue]

    def run(self, running: Call) -> TaskResult | Deferred:
        """Run a function while this thread waits; a virtual clock stands still meanwhile."""
        clock = self._engine.clock
        self.begin(running)  # it counts, for what it may wait for itself
        try:
            if not running.worker.is_async:
                return self._carry(running)
            with clock.held() if isinstance(clock, VirtualClock) else nullcontext():
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
            if running.worker.is_async:
                running.job = job = self._loop.job(partial(self._carry_async, running))
                self._loop.carry_out(job)
            else:
                running.job = Job.here(self._carry(running))
        except BaseException:
            self.end(running)
            raise

    def is_quick(self, worker: Worker, *, alone: bool) -> bool:
        """Return True if a function took little last time, or, not `alone`, next to nothing; coroutines go on beside others."""
        most = QUICK_MS if alone else _NOTHING_MS
        return self._spans.get(worker.queue, most + 1) <= most and (alone or not worker.is_async)

    def is_only_quick(self, worker: Worker) -> bool:
        """Return True if a function, and each that was called and has not been reported, took little the last time."""
        return all(self.is_quick(one, alone=True) for one in (worker, *[running.worker for running in self._calls]))

    def _took(self, worker: Worker, span: int) -> None:
        """Note how long a call took, ms: one of next to nothing may come upon the end of a millisecond."""
        before = self._spans.get(worker.queue, span)
        self._spans[worker.queue] = span if span > 1 else (7 * (before if before < 1 else 1) + span) / 8

    def is_only(self, running: Call) -> bool:
        """Return True if a call that has returned is the only one there is, and is to be reported."""
        return len(self._calls) == 1 and running in self._calls and not running.reported

    def under_way(self) -> bool:
        """Return True if a function has been called and has not returned."""
        for running in self._calls:
            job = running.job
            if job is None or not (job.done or job.over):
                return True
        return False

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

    def run_row(self, calls: Sequence[Call], until: int) -> None:
        """Have one thread carry out calls, one after another, and wait for it until an instant; then others begin what is left.

        Raises NoThread as `dispatch` does.
        """
        clock, committed = self._engine.clock, self._engine.core.turns.committed
        jobs = [Job(partial(self._carry, running)) for running in calls]
        for running, job in zip(calls, jobs, strict=True):
            running.job = job
            self.begin(running)
        self._threads().start_row(jobs)
        begun = clock.now()
        while begun <= clock.now() < until:
            waiter = committed.waiter()
            if jobs[-1].done:
                break
            clock.wait(waiter, until)
        for job in jobs:
            if not job.done:
                self._start(job)

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
            self._threads().start(job)

    def _threads(self) -> Pool[TaskResult | Deferred]:
        if self._pool is None:
            self._pool = Pool(self._workers.concurrency or THREADS, self._engine.core.turns.committed.wake)
        return self._pool

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

    def _caller(self, running: Call) -> FunctionCaller:
        engine, task = self._engine, running.task
        context = TaskContext(task, engine)
        if running.worker.signature.transaction is None:
            running.context = context  # else its lines come with its rows: nobody else can write meanwhile
        else:
            context.alone = True
        what, inline = f"worker {running.worker.task_type!r}", running.inline and engine.clock.virtual
        return FunctionCaller(turns=engine.core.turns, what=what, task=task, inline=inline, context=context)

    @cached_property
    def _rates(self) -> CallRates:
        from conductorlite.runtime.call_rates import CallRates

        return CallRates(self._engine.clock)

    def _early(self, running: Call) -> Iterator[Deadline]:
        """Yield when a call may begin under its rate limit, again and again until it may; it is counted then."""
        task = running.task
        try:
            terms = self._engine.core.polling.terms_of(task)
        except ConductorliteError as error:
            log_driver("the rate of %r is not known, so a call of it is not spaced from others: %s", task.name, error)
            return
        while (allowed := self._rates.begin(task.name, terms)) is not None:
            yield allowed

    def _carry(self, running: Call) -> TaskResult | Deferred:
        clock, worker = self._engine.clock, running.worker
        if running.task.name in self._rated and not clock.virtual:
            for allowed in self._early(running):
                clock.wait(Waiter(), allowed.instant)
        begun = None if clock.virtual else clock.now()
        try:
            with called_by(self._caller(running), getattr(clock, "running", None) if begun is None else None) as caller:
                if worker.signature.transaction is None:
                    return call(worker, caller.context)
                result, running.reported = call_committing(worker, caller.context, self._engine)
                return result
        finally:
            if begun is not None:
                running.ended_at = ended = clock.now()
                self._took(worker, abs(ended - begun))

    async def _carry_async(self, running: Call) -> TaskResult | Deferred:
        clock = self._engine.clock
        if running.task.name in self._rated and not clock.virtual:
            from asyncio import sleep

            for allowed in self._early(running):
                await sleep(max(allowed.left, 0) / 1000)
        begun = clock.now()
        try:
            with called_by(self._caller(running)) as caller:
                return await call_async(running.worker, caller.context)
        finally:
            running.ended_at = clock.now()
            self._took(running.worker, abs(running.ended_at - begun))

    def finished(self) -> list[Call]:
        """Calls whose function has returned."""
        return [running for running in tuple(self._calls) if (job := running.job) is not None and (job.done or job.over)]

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
