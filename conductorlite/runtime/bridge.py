"""Between an event loop and a synchronous engine: a few threads, and futures that commits resolve.

Short verbs run in up to four threads. All driving of one AsyncEngine is done by one more: a verb that drives (`run_forever`,
`settle` …) has it until it returns; while a task awaits a result and no such verb is under way, it drives on their behalf.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar

from conductorlite.engine.awaited import Awaiting
from conductorlite.engine.config import refuse_forked
from conductorlite.engine.turn_types import Caller, caller_of, refuse_callers
from conductorlite.errors import NoWorker
from conductorlite.model.clock import Deadline
from conductorlite.model.errors import EngineClosed, NoThread, StorageError, WouldDeadlock
from conductorlite.model.executions import HistoryEvent, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import Span, to_span
from conductorlite.model.threads import clean_up, replaces
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.loop import wait_until
from conductorlite.runtime.pool import Job, Pool
from conductorlite.runtime.result_errors import late
from conductorlite.runtime.signals import Leaving

if TYPE_CHECKING:
    from conductorlite.engine.streams import Reading
    from conductorlite.model.streams import Dropped, StreamItem

__all__ = ["Bridge"]

P = ParamSpec("P")
T = TypeVar("T")

#: Threads for short verbs. More would only queue at the store.
_THREADS: Final = 4

#: Seconds between looks for executions that another process has ended.
_GLANCE: Final = 0.1

#: How much longer it is for each function of a worker that waits, seconds.
_EACH: Final = 0.01

#: Callers that are looked at, one look, for what cannot come any more.
_LOOKED: Final = 100

#: Entries an iterating verb fetches at once.
_PAGE: Final = 500


class _Order(Generic[T]):
    """A call on its way to a thread, and the future of its awaiter."""

    def __init__(self, work: Callable[[], T], unwanted: Callable[[T], None] | None = None) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work = work
        self._unwanted = unwanted
        #: Who was first, the thread or the caller that takes it back: one step of a dict decides.
        self._fate: dict[str, bool] = {}

    def drop(self) -> bool:
        """Take the order back; False when a thread has begun it."""
        return not self._fate.setdefault("begun", False)

    def carry_out(self) -> None:
        """Do it in this thread, unless it was taken back."""
        if not self._fate.setdefault("begun", True):
            return
        try:
            result = self._work()
        except BaseException as error:
            self.fail(error)
        else:
            if not _post(self.future, self._resolve, result):
                self.refuse(result)

    def fail(self, error: BaseException) -> None:
        """Notify the awaiter that it failed."""
        _post(self.future, _fail, error)

    def refuse(self, result: T) -> None:
        """The awaiter of the result does not wait any more."""
        if self._unwanted is not None:
            self._unwanted(result)

    def _resolve(self, future: asyncio.Future[T], result: T) -> None:
        if future.done():
            self.refuse(result)
        else:
            future.set_result(result)


class Bridge:
    """One engine's threads, and who awaits which execution."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._pid = os.getpid()
        self._verbs: Pool[None] = Pool(_THREADS, _nothing)
        self._drives: Pool[None] = Pool(1, _nothing)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Those who await what a driver brings about, by the futures that end it; the execution of those without a timeout.
        self._awaited: dict[asyncio.Future[None], str | None] = {}
        #: What drives for those who await, or will when its turn comes.
        self._on_behalf: Job[None] | None = None
        #: Functions of workers that wait for an execution.
        self._napping = 0
        #: Blocks of `background()` that are open.
        self._blocks = 0
        #: Driving verbs that wait for the thread.
        self._queued: set[object] = set()
        #: Of those who poll with a timeout, resolved by the next commit.
        self._polling: set[asyncio.Future[None]] = set()
        self._closed = False
        #: From the first driving on, until it is closed.
        self._leaving = Leaving()
        self._glancing: asyncio.Task[None] | None = None
        engine.listen(self._committed)

    # ------------------------------------------------------------------ calls

    async def call(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a short verb, done in a thread."""
        call = partial(verb, *args, **kwargs)
        if self.engine.core.turns.observers:  # which may ask for the caller's context, such as its span
            call = partial(copy_context().run, call)
        order = self._order(call)
        self._verbs.submit(order.carry_out, order.fail)
        return await self._reply(order)

    async def take(self, take: Callable[[], T], give_back: Callable[[T], None]) -> T:
        """Await what is taken; what no task awaits any more when it comes is given back."""

        def unwanted(taken: T) -> None:
            self._verbs.submit(lambda: give_back(taken))

        order = self._order(take, unwanted)
        self._verbs.submit(order.carry_out, order.fail)
        return await self._reply(order)

    async def drive(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a verb that drives. Canceled before it began it never begins; later it goes on to its end unattended."""
        self._refuse(verb)
        return await self._reply(self._order_drive(lambda: verb(*args, **kwargs)))

    async def drive_until_stopped(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a verb that drives for long. When it is canceled, the engine is stopped and running functions waited for."""
        self._refuse(verb)
        return await self._drive_until_stopped(lambda: verb(*args, **kwargs))

    async def _drive_until_stopped(self, verb: Callable[[], T]) -> T:
        order = self._order_drive(verb)
        try:
            return await asyncio.shield(order.future)
        except asyncio.CancelledError:
            if not order.drop() and not order.future.done():
                self.engine.stop()
                await asyncio.wait([order.future])
                order.future.exception()  # looked at, or asyncio would complain
                # It may have returned just before it was asked to; then the next one must not find the message.
                self.engine.driver.forget_stop()
            raise

    def _refuse(self, verb: Callable[..., object]) -> None:
        """Raise WouldDeadlock for a verb that drives where the driver waits for its caller, or drives as long as a block lasts."""
        name = getattr(verb, "__name__", "a verb that drives")
        refuse_callers(self.engine.core.turns, name)
        if self._blocks:
            raise WouldDeadlock(f"{name}() would wait for the end of background(), which drives already: await results instead")

    @asynccontextmanager
    async def background(self) -> AsyncIterator[None]:
        """Drive in a task of its own while the block lasts; see `AsyncEngine.background`."""
        refuse_callers(self.engine.core.turns, "background")
        driving = asyncio.get_running_loop().create_task(self._drive_until_stopped(self.engine.run_forever))
        self._blocks += 1
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._blocks -= 1
            driving.cancel()
            await asyncio.wait([driving])
            if not driving.cancelled():
                clean_up(error, "driving in the background", driving.result)
            del error  # or this frame and the exception would keep one another

    async def poll(self, timeout: Span, take: Callable[[], list[T]], give_back: Callable[[list[T]], None]) -> list[T]:
        """Return what `take` takes, trying again after each commit until it is something or the time is over.

        Canceled, it has taken nothing: what it had taken is given back.
        """
        clock = self.engine.clock
        until = Deadline(clock, to_span(timeout))
        while True:
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._polling.add(changed)  # before the try: a commit in between is not missed
            try:
                taken = await self.take(take, give_back)
                left = until.left
                if taken or left <= 0 or clock.virtual:
                    return taken
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left / 1000, _GLANCE)):
                        await changed
            finally:
                self._polling.discard(changed)

    async def each(self, found: Iterable[T]) -> AsyncIterator[T]:
        """Yield the values of an iterator, fetched page by page."""
        iterator = iter(found)
        while page := await self.call(lambda: list(islice(iterator, _PAGE))):
            for one in page:
                yield one

    def _order(self, work: Callable[[], T], unwanted: Callable[[T], None] | None = None) -> _Order[T]:
        refuse_forked(self._pid)
        if self._closed:
            raise EngineClosed("the engine was closed")
        if self._loop is None or self._loop.is_closed():
            # Coroutine functions run on the loop that uses the engine.
            self._loop = asyncio.get_running_loop()
            self.engine.driver.workshop.use(self._loop)
        return _Order(work, unwanted)

    def _order_drive(self, work: Callable[[], T]) -> _Order[T]:
        order = self._order(work)

        def take_up() -> None:
            self._queued.discard(order)
            if self._closed:
                order.fail(EngineClosed("the engine was closed"))
            else:
                order.carry_out()

        def lost(error: BaseException) -> None:
            self._queued.discard(order)
            order.fail(error)

        self._answer_signals()
        self._queued.add(order)
        try:
            self._drives.submit(take_up, lost)
        except NoThread:
            self._queued.discard(order)
            raise
        self.engine.core.turns.committed.wake()
        return order

    async def _reply(self, order: _Order[T]) -> T:
        try:
            return await order.future
        except asyncio.CancelledError:
            future = order.future
            if not order.drop() and future.done() and not future.cancelled() and future.exception() is None:
                order.refuse(future.result())  # it came at the same instant
            raise

    # ------------------------------------------------------------------ awaiting results

    async def result(self, workflow_id: str, timeout: Span | None) -> dict[str, Any]:
        """Return what `Engine.result` returns, and raise what it raises, without a thread that waits for it."""
        engine = self.engine
        inside = caller_of(engine.core.turns)
        if inside is not None:
            return await self._result_inside(inside, workflow_id, timeout)
        if engine.clock.virtual:  # nothing is waited for: time jumps
            return await self.drive(engine.result, workflow_id, timeout)
        seconds = None if timeout is None else to_span(timeout) / 1000
        with self._waiting(workflow_id, each=False, endless=timeout is None) as (waiting, ended):
            # Asked after the future is in place: a commit in between is not missed.
            if not (await self.call(engine.status, workflow_id)).terminal:
                self._drive_on_behalf()
                self._glance()
                try:
                    async with asyncio.timeout(seconds):
                        await ended
                except NoWorker:
                    raise
                except TimeoutError:
                    pass  # the outcome says that it has not ended
        row = waiting.row
        if row is not None and row.status is WorkflowStatus.COMPLETED and not (row.output.absent or row.output.large):
            return row.output_data
        return await self.call(self._outcome, workflow_id)

    def events(self, workflow_id: str, after: int) -> AsyncIterator[HistoryEvent]:
        """Yield what `Run.events` yields, without a thread that waits for it."""
        refuse_forked(self.engine._pid)
        return self._events(workflow_id, after)

    async def _events(self, workflow_id: str, after: int) -> AsyncIterator[HistoryEvent]:
        queries = self.engine.core.queries
        while True:
            lines, over = await self.call(queries.following, workflow_id, after)
            for line in lines:
                yield line
                after = line.n
            if over:
                return
            await self._more(workflow_id, partial(queries.more, workflow_id, after))

    def stream(self, workflow_id: str, stream: str | None, after: int, kept_only: bool) -> AsyncIterator[StreamItem | Dropped]:
        """Yield what `Run.stream` yields, without a thread that waits for it."""
        refuse_forked(self.engine._pid)
        return self._stream(self.engine.core.readers.reading(workflow_id, stream, after, kept_only=kept_only))

    async def _stream(self, reading: Reading) -> AsyncIterator[StreamItem | Dropped]:
        readers = self.engine.core.readers
        while not reading.over:
            before = reading.after
            for item in await self.call(readers.more, reading):
                yield item
            if not reading.over and reading.after == before:
                await self._more(reading.workflow_id, partial(readers.has_moved, reading))

    async def _more(self, workflow_id: str, reached: Callable[[], bool]) -> None:
        """Await that something holds of an execution, after its next commit or the one after."""
        engine = self.engine
        if caller_of(engine.core.turns) is not None:  # a worker's function, which follows others: nothing is driven for it
            return await self._nap(workflow_id, each=True)
        if engine.clock.virtual:
            await self.drive(wait_until, engine, engine.driver, workflow_id, reached)
            return None
        with self._waiting(workflow_id, each=True, endless=True) as (_, news):
            if not await self.call(reached):
                self._drive_on_behalf()
                self._glance()
                await news
        return None

    @contextmanager
    def _waiting(self, workflow_id: str, *, each: bool, endless: bool) -> Iterator[tuple[Awaiting, asyncio.Future[None]]]:
        """A block that waits for an execution, and what ends the wait."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited[news] = workflow_id if endless else None
        try:
            with self.engine.core.turns.awaited.wait(workflow_id, each=each, wake=partial(_post, news, _resolve, None)) as waiting:
                yield waiting, news
        finally:
            self._awaited.pop(news, None)
            if not self._awaited:
                self.engine.core.turns.committed.wake()  # a driver on behalf of no caller may stop
                if self._glancing is not None and self._glancing.get_loop() is asyncio.get_running_loop():
                    self._glancing.cancel()

    async def _nap(self, workflow_id: str, *, each: bool) -> None:
        """Wait for a commit of an execution, or for a while that is the longer the more wait: they must look for more than that."""
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._napping += 1
        try:
            with self.engine.core.turns.awaited.wait(workflow_id, each=each, wake=partial(_post, news, _resolve, None)):
                await asyncio.wait([news], timeout=max(_GLANCE, _EACH * self._napping))
        finally:
            self._napping -= 1

    async def _result_inside(self, inside: Caller, workflow_id: str, timeout: Span | None) -> dict[str, Any]:
        """As `result`, in a function that the driver may wait for; raises WouldDeadlock when it does, or comes to."""
        engine = self.engine
        if not (await self.call(engine.status, workflow_id)).terminal:
            if inside.inline:
                raise WouldDeadlock(f"result() inside {inside.what} would wait for itself: the driver waits for it")
            until = None if timeout is None else Deadline(engine.clock, to_span(timeout))
            with engine.driver.waiting.of(inside, workflow_id) as check:
                while not (await self.call(engine.status, workflow_id)).terminal:
                    if until is not None and until.passed:
                        break
                    await self.call(check)
                    await self._nap(workflow_id, each=False)
        return await self.call(self._outcome, workflow_id)

    def _outcome(self, workflow_id: str) -> dict[str, Any]:
        if not self.engine.status(workflow_id).terminal:
            raise late(self.engine, workflow_id)
        return self.engine.result(workflow_id)

    def _committed(self, _: Workflow, __: Sequence[HistoryEvent]) -> None:
        for future in tuple(self._polling):
            _post(future, _resolve, None)

    def _release_all(self, error: BaseException) -> None:
        for future in self._awaited.copy():
            _post(future, _fail, error)

    def _answer_signals(self) -> None:
        if not self.engine.clock.virtual:
            self._leaving.__enter__()  # once more changes nothing

    def _drive_on_behalf(self) -> None:
        self._answer_signals()
        if not self._closed and (self._on_behalf is None or self._on_behalf.over):
            self._on_behalf = self._drives.submit(self._drive_while_awaited, self._release_all)

    def _drive_while_awaited(self) -> None:
        driver = self.engine.driver
        try:
            with driver.drive():
                driver.run(until=lambda: not self._awaited or bool(self._queued) or self._closed)
        except BaseException as error:
            self._release_all(error)
            return
        self._on_behalf = None  # before it looks who awaits: a task that comes later sees it
        if self._awaited:  # a driving verb wants the thread: it comes first
            self._drive_on_behalf()

    def _glance(self) -> None:
        """Have one task look for what other processes commit; commits of this engine need no looking."""
        if self._glancing is None or self._glancing.done() or self._glancing.get_loop() is not asyncio.get_running_loop():
            self._glancing = asyncio.get_running_loop().create_task(self._glance_while_awaited())

    async def _glance_while_awaited(self) -> None:
        while self._awaited and not self._closed:
            await asyncio.sleep(_GLANCE)
            some = list(islice(self._awaited.items(), _LOOKED))
            for future, workflow_id in some:  # to the end of the line
                del self._awaited[future]
                self._awaited[future] = workflow_id
            with suppress(EngineClosed, StorageError):  # the next look will show it
                await self.call(self._look, some)
            if self._awaited:  # unless somebody does
                self._drive_on_behalf()

    def _look(self, some: Sequence[tuple[asyncio.Future[None], str | None]]) -> None:
        """Look for what others have committed; end the wait of each of some callers that waits for workers that cannot come."""
        self.engine.core.turns.awaited.look()
        for future, workflow_id in some:
            try:
                if workflow_id is not None:
                    self.engine.driver.refuse_missing(workflow_id)
            except NoWorker as error:
                _post(future, _fail, error)

    # ------------------------------------------------------------------ the end

    async def close(self) -> None:
        """Stop the drivers, release the store and the threads; idempotent."""
        if self._closed:
            return
        refuse_callers(self.engine.core.turns, "close")
        order = self._order(self.engine.close)
        self._closed = True
        self._release_all(EngineClosed("the engine was closed"))
        self._verbs.submit(order.carry_out, order.fail)
        error = sys.exc_info()[1]  # what is being handled where it is awaited, as in a `finally`
        error = None if isinstance(error, Exception) else error
        try:
            await asyncio.shield(order.future)
        except BaseException as raised:
            if replaces(raised, error, "closing an engine"):
                error = raised
                raise
        finally:
            clean_up(error, "closing an engine", self._leaving.__exit__, self._verbs.close, self._drives.close)
            del error  # or this frame and the exception would keep one another


def _post(future: asyncio.Future[Any], settle: Callable[[asyncio.Future[Any], Any], None], value: Any) -> bool:
    """Settle a future on its loop; False when that is closed: no task awaits."""
    try:
        future.get_loop().call_soon_threadsafe(settle, future, value)
    except RuntimeError:  # the loop is closed; the caller handles that
        return False
    return True


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _nothing() -> None:
    return None
