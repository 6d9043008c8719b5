"""Where worker functions run: plain ones in threads, coroutines on an event loop.

Which offered tasks a driver takes for its workers: as many as may run, every type in its turn, and some alone.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from conductorlite.engine.groups import RunGroup
from conductorlite.engine.keys import POLLS_MS, PollWrite
from conductorlite.engine.polling import Asker, Hand, said
from conductorlite.engine.reports import Report
from conductorlite.engine.turn_types import Taking, called_by
from conductorlite.engine.verbs import Verbs
from conductorlite.model.attrs import new
from conductorlite.model.clock import VirtualClock
from conductorlite.model.decisions import Message, MessageKey, queue_name
from conductorlite.model.errors import StorageError
from conductorlite.model.executions import PollData, Task, TaskResult
from conductorlite.model.threads import Block
from conductorlite.runtime.calls import Deferred, FunctionCaller, call, call_async, call_committing, raised
from conductorlite.runtime.context import TaskContext
from conductorlite.runtime.pool import Call, CoroutineJob, Coroutines, Job, Pool
from conductorlite.runtime.registry import Worker, Workers

if TYPE_CHECKING:
    import asyncio

__all__ = ["AHEAD", "BATCH", "COROUTINES", "QUICK_MS", "THREADS", "HandOut", "Workshop"]

#: Threads for worker functions when the user sets no bound.
THREADS: Final = 32

#: How long a quick function takes at most, ms; and one of next to nothing, of which the driver carries out many.
QUICK_MS: Final = 10
_NOTHING_MS: Final = 0.25

#: So many tasks more than there are threads are at hand at most, where the driver carries them out.
AHEAD: Final = 96

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
            return (bound or COROUTINES) - self._coroutines_busy
        return (bound or THREADS) - (len(self._calls) - self._coroutines_busy)

    def lends(self) -> bool:
        """Whether a worker may be handed a task by a turn of another thread: there is room for one less."""
        return self.lent is not None and self.lent.live

    def room_for(self, worker: Worker) -> int | None:
        """How many more tasks a worker may take, by its own bound; None when it has none."""
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
        """Whether a function took little the last time, or, not `alone`, next to nothing; coroutines then go on beside others."""
        most = QUICK_MS if alone else _NOTHING_MS
        return self._spans.get(worker.queue, most + 1) <= most and (alone or not worker.is_async)

    def is_only_quick(self, worker: Worker) -> bool:
        """Whether a function, and each that was called and has not been reported, took little the last time."""
        return all(self.is_quick(one, alone=True) for one in (worker, *[running.worker for running in self._calls]))

    def _took(self, worker: Worker, span: int) -> None:
        """Note how long a call took, ms: one of next to nothing may come upon the end of a millisecond."""
        before = self._spans.get(worker.queue, span)
        self._spans[worker.queue] = span if span > 1 else (7 * (before if before < 1 else 1) + span) / 8

    def is_only(self, running: Call) -> bool:
        """Whether a call that has returned is the only one there is, and is to be reported."""
        return len(self._calls) == 1 and running in self._calls and not running.reported

    def under_way(self) -> bool:
        """Whether a function has been called and has not returned."""
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
                self._pool = Pool(self._workers.concurrency or THREADS, self._engine.core.turns.wake)
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

    def _caller(self, running: Call) -> FunctionCaller:
        engine, task = self._engine, running.task
        context = TaskContext(task, engine)
        if running.worker.signature.transaction is None:
            running.context = context  # else its lines come with its rows: nobody else can write meanwhile
        what, inline = f"worker {running.worker.task_type!r}", running.inline and engine.clock.virtual
        return new[FunctionCaller](turns=engine.core.turns, what=what, task=task, inline=inline, context=context)

    def _carry(self, running: Call) -> TaskResult | Deferred:
        clock, worker = self._engine.clock, running.worker
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


#: Offered tasks taken at once.
BATCH: Final = 64

#: Tasks handed over one after another before every worker is asked for in its turn.
_IN_A_ROW: Final = 64


class HandOut:
    """Takes tasks. One in whose hands processes have died is taken when nothing else runs here, and nothing else beside it."""

    def __init__(self, engine: Verbs, workers: Workers, workshop: Workshop) -> None:
        self._engine = engine
        self._workers = workers
        self._workshop = workshop
        self._rotation = 0
        #: Whether the last poll has given all that was asked for: then there may be more.
        self._plenty = False
        #: What is to be taken alone, and until when nothing else is taken so that it can be.
        self._waiting: dict[MessageKey, tuple[Worker, Message]] = {}
        self._until = 0
        #: What was taken alone.
        self._lone: Task | None = None
        #: What turns have handed over, to be carried out before anything else is taken.
        self.handed: deque[tuple[Worker, Task]] = deque()
        #: So many more of them than there are threads: the driver's own thread has carried out the last ones in next to no time.
        self.ahead = 0
        #: How many tasks a turn may hand over at most: none to a caller who may not drive on. In threads, or in the driver's own.
        self.most = 0
        self.threads = False
        #: To which instant the driver moves a virtual clock when nothing else is to be done before.
        self.until: float = -1
        self._in_a_row = 0
        self._noted_at = 0
        self._by_queue: dict[str, Worker] = {}
        #: Whose hand takes what is offered, and what turns hand over.
        self._hand = Hand(engine.core.holding)

    @property
    def worker_id(self) -> str:
        """What tasks show of who has them."""
        return self._workers.worker_id or self._engine.core.holding.worker_id

    def take(self, most: int, *, threads: bool = False) -> list[tuple[Worker, Task]]:
        """Up to `most` tasks for workers that may take one more; with `threads`, as many as there is room for."""
        self._in_a_row = 0
        if self._lone is not None:
            if any(running.task is self._lone for running in self._workshop):
                return []
            self._lone = None
        if self._waiting and (alone := self._alone()):
            return alone
        if self._waiting and self._engine.clock.now() < self._until:
            return []
        return self._offered(most, threads=threads) or (self._alone() if self._waiting else [])

    def _alone(self) -> list[tuple[Worker, Task]]:
        """The first of those that wait to be alone, if nothing runs."""
        while self._waiting and not (len(self._workshop) or self._workshop.lends()):
            worker, message = self._waiting.pop(next(iter(self._waiting)))
            self._lone = self._engine.core.polling.take_alone(message, self.worker_id, self._engine.core.holding)
            if self._lone is not None:
                return [(worker, self._lone)]
        return []

    def _offered(self, most: int, *, threads: bool) -> list[tuple[Worker, Task]]:
        found: list[tuple[Worker, Task]] = []
        workers = tuple(self.served().values())
        limit, hand, polling, left = self._workers.concurrency, self._hand, self._engine.core.polling, most
        worker_id, room = self._workers.worker_id or hand.holding.worker_id, self._room() if threads else {}
        lent = self._workshop.lent is not None and self._workshop.lends()
        if hand.passed:
            hand.passed.clear()  # of an attempt that has failed
        self._plenty = False
        for offset in range(len(workers)):
            worker, free = workers[(self._rotation + offset) % len(workers)], left
            if worker.concurrency is not None:
                free = min(free, (self._workshop.room_for(worker) or 0) - lent)
            free = min(free, room[worker.is_async] - lent) if room else free
            free = free if limit is None else min(free, limit - len(self._workshop) - lent - len(found))
            if free <= 0:
                continue
            try:
                tasks = polling.take_offered(worker.task_type, worker_id, free, worker.domain, hand)
            except StorageError:
                if found:  # what was taken is carried out; the error comes again
                    break
                raise
            if room:
                given = len(tasks)
                room[worker.is_async] -= given
                self._plenty = self._plenty or given == free
            if hand.passed:
                self._keep(worker, hand)
            found += [(worker, task) for task in tasks] if tasks else ()
            left = most - len(found)
            if left <= 0:
                break
        self._rotation += 1
        return found

    def _room(self) -> dict[bool, int]:
        """How many more functions may run in threads, coroutines or not; one that the driver runs itself takes no room."""
        return {kind: self._workshop.room(is_async=kind) for kind in (False, True)}

    # ------------------------------------------------------------------ handed over

    def take_beside(self, ended: Sequence[Call], run: RunGroup) -> bool:
        """Take the next tasks in one write with reports of many executions, whose turns `run` takes too; False when it does not.

        It is not done when what the reports offer might come first.
        """
        most, lent = self.most, self._workshop.lent is not None and self._workshop.lends()
        worker = self._next_offered() if self._plenty and self.threads else None
        if not most or self.handed or self._waiting or self._lone is not None or worker is None:
            return False
        freed = sum(one.worker.is_async is worker.is_async for one in ended) - lent
        most = min(most, self._workshop.room(is_async=worker.is_async) + freed)
        if self._workers.concurrency is not None:
            most = min(most, self._workers.concurrency - len(self._workshop) + len(ended) - lent)
        if worker.concurrency is not None:
            most = min(most, (self._workshop.room_for(worker) or 0) + sum(one.worker is worker for one in ended) - lent)
        if most <= 0:
            return False
        polling, hand, noted = self._engine.core.polling, new[Hand](self._engine.core.holding), list[Task]()
        asker = new[Asker](worker_id=self.worker_id, count=most)
        busy = {one.task.workflow_id for one in ended}
        try:
            return polling.take_first([asker], worker.task_type, worker.domain, busy, noted, run, hand)
        finally:
            self._plenty = len(asker.taken) == most
            self._in_a_row, self._rotation = 0, self._rotation + bool(asker.taken)
            self.handed.extend((worker, task) for task, _ in asker.given)
            self._keep(worker, hand)
            if len(asker.given) < len(noted):
                kept = {task.task_id for task, _ in asker.given}
                polling.give_up([task for task in noted if task.task_id not in kept])

    def _next_offered(self) -> Worker | None:
        """The next worker in turn whose queue is not known to be empty."""
        served, quiet, now = tuple(self.served().items()), self._engine.core.turns.quiet, self._engine.clock.now()
        for offset in range(len(served)):
            queue, worker = served[(self._rotation + offset) % len(served)]
            if quiet.offered_at(queue) <= now:
                return worker
        return None

    def taking(self, reports: Iterable[Report], ended: Sequence[Worker] = ()) -> Taking | None:
        """What has a turn over reports hand other tasks of their execution to workers that are free after it, `ended` included.

        None when nothing is to be handed over: then, and now and then anyway, every worker is asked for in its turn.
        """
        served = self.served()
        self._in_a_row += 1
        waits = self.handed or self._waiting or self._lone is not None or (len(served) > 1 and self._in_a_row > _IN_A_ROW)
        if not self.most or waits or not served:
            return None
        most, limit, lent = self.most, self._workers.concurrency, self._workshop.lent is not None and self._workshop.lends()
        if self.threads:
            seen: set[bool] = set()
            for worker in served.values():
                if worker.is_async not in seen:
                    seen.add(worker.is_async)
                    room = self._workshop.room(is_async=worker.is_async) - lent
                    for one in ended:
                        room += one.is_async is worker.is_async
                    most = room if room < most else most
        if limit is not None:
            most = min(most, limit - len(self._workshop) - lent + len(ended))
        if most <= 0:
            return None
        free = dict.fromkeys(served, most)
        ahead = self.ahead if self.threads and limit is None else 0
        for queue, worker in served.items():
            if worker.concurrency is not None:
                free[queue] = (self._workshop.room_for(worker) or 0) - lent + ended.count(worker)
            elif ahead and self._workshop.is_quick(worker, alone=False):
                free[queue] += ahead
        owner = self._engine.config.owner
        again: set[str] = set()
        for report in reports:
            task = report.task
            again.add(queue_name(task.task_type, task.domain, owner) if owner or task.domain else task.task_type)
        return new[Taking](
            data=said(self._workers.worker_id or self._hand.holding.worker_id, self._hand),
            owner=owner,
            write=None if 0 <= (now := self._engine.clock.now()) - self._noted_at < POLLS_MS else self._polled(now),
            free=free,
            most=most + ahead,
            again=again,
            until=self.until,
            write_at=self._polled,
        )

    def give_back(self) -> None:
        """Give back what was handed over and not begun: nobody drives on. What cannot be now, is when the engine is closed."""
        handed = [task for _, task in self.handed]
        self.handed.clear()
        with suppress(StorageError):
            self._engine.core.holding.give_back(handed)

    def served(self) -> dict[str, Worker]:
        """The workers by the queues of this engine's owner that they take from."""
        owner = self._engine.config.owner
        if not owner:
            return self._workers.by_queue
        if len(self._by_queue) != len(self._workers):
            self._by_queue = {queue_name(one.task_type, one.domain, owner): one for one in self._workers}
        return self._by_queue

    def _polled(self, at: int) -> PollWrite | None:
        """What is written of the poll that workers make which are free at an instant: as often as one is written."""
        if 0 <= at - self._noted_at < POLLS_MS:
            return None
        self._noted_at = at
        who = self.worker_id
        polls = [
            new[PollData](queue_name=worker.task_type, domain=worker.domain or None, worker_id=who, last_poll_time=at)
            for worker in self.served().values()
        ]
        return self._engine.core.polling.polls.write(polls)

    def receive(self, taking: Taking | None, into: list[tuple[Worker, Task]] | None = None) -> None:
        """Have what a turn has handed over carried out next, or put it into a list."""
        if taking is None or not (taking.taken or taking.write):
            return
        owner, served, handed = self._engine.config.owner, self.served(), self.handed if into is None else into
        for task, _ in self._engine.core.polling.received(taking):
            queue = queue_name(task.task_type, task.domain, owner) if owner or task.domain else task.task_type
            handed.append((served[queue], task))
        if taking.at is not None and taking.taken and isinstance(self._engine.clock, VirtualClock):
            self._in_a_row, self._rotation = 0, self._rotation + 2  # as after a poll in vain, and one at that instant
            self._engine.clock.move_to(max(taking.at, self._engine.clock.now()))

    def _keep(self, worker: Worker, hand: Hand) -> None:
        """Note what is to be taken alone. What runs is waited for, but not for longer than a stopping engine would."""
        while hand.passed:
            if (message := hand.passed.pop(0)).key not in self._waiting:
                self._waiting[message.key] = (worker, message)
                self._until = self._engine.clock.now() + self._workers.drain_ms
