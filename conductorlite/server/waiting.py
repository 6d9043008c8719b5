"""Clients that call, and clients that wait: an app's threads, the groups of its reports and polls, and who waits for what.

Reports and polls are handed to the engine in groups, by one thread: what has come while one group is carried out is the next one.
Those of different executions so share a write, however many clients there are, and one that is alone waits for nobody.

Who waits for a task or an execution is a future on the event loop, and no thread. A commit of this engine says that there may be
something new; what other processes commit is looked for every tenth of a second while someone waits. One look a time asks the store
which queues have something; of those who wait at a queue the first is called, and calls the next if it has got something.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

import attrs

from conductorlite.engine.bulk import Exchange, exchange
from conductorlite.engine.polling import Asker
from conductorlite.language.haste import Haste
from conductorlite.model.decisions import queue_name
from conductorlite.model.errors import EngineClosed, StorageError
from conductorlite.model.executions import HistoryEvent, Task, TaskResult, Workflow
from conductorlite.model.threads import Waiter, started
from conductorlite.runtime.engine import Engine

__all__ = ["Given", "Groups", "Shown", "Threads", "Waiting"]

P = ParamSpec("P")
T = TypeVar("T")

#: Threads for verbs and pages. More would only queue at the store.
_THREADS: Final = 4

#: Tasks that a client is given, each with the row of its execution; and how they are shown.
Given = list[tuple[Task, Workflow]]
Shown = Callable[[Engine, Given], list[Any]]

#: Calls of one group at most: others wait for all of them.
_MOST: Final = 200


class Threads:
    """Calls of an engine's verbs, away from the loop."""

    def __init__(self, number: int = _THREADS) -> None:
        self._pool = ThreadPoolExecutor(number, thread_name_prefix="conductorlite-server")

    async def __call__(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a call in a thread."""
        return await asyncio.wrap_future(self.submit(verb, *args, **kwargs))

    def submit(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a call done in a thread."""
        return self._pool.submit(partial(copy_context().run, verb, *args, **kwargs))

    def close(self) -> None:
        """Take no more calls, and let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


@attrs.define(slots=True, kw_only=True, eq=False)
class _Call:
    """One request of a client, and the future that waits for its answer."""

    exchange: Exchange
    shown: Shown
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[Any]]
    documents: list[Any] = attrs.field(factory=list)
    error: BaseException | None = None

    @property
    def given(self) -> Given:
        """The tasks that it was given."""
        return [] if self.exchange.asker is None else self.exchange.asker.given


class Groups:
    """The groups of one app. What a client does not get, because it went away, is given back."""

    def __init__(self, engine: Engine, give_up: Callable[[Sequence[Task]], None]) -> None:
        self._engine, self._give_up = engine, give_up
        self._calls: deque[_Call] = deque()
        self._news = Waiter()
        self._begun = self._over = False

    def close(self) -> None:
        """Take no more calls, and let the thread end."""
        self._over = True
        self._news.wake()

    async def ask(self, asked: Exchange, shown: Shown) -> list[Any]:
        """Return the tasks that a client is given, as it is shown them; raises the refusal of its report or its poll.

        Canceled, a report is taken all the same, and what was polled is given back.
        """
        if self._over:
            raise EngineClosed("the server has ended")
        loop = asyncio.get_running_loop()
        call = _Call(exchange=asked, shown=shown, loop=loop, answer=loop.create_future())
        self._calls.append(call)
        if not self._begun:
            self._begun = True
            started(self._run, name="conductorlite-groups")
        self._news.wake()
        try:
            return await call.answer
        except asyncio.CancelledError:
            # It may have been answered in the same round of the loop: then nobody else knows that it got nothing.
            if call.answer.done() and not call.answer.cancelled() and call.error is None:
                self._give_back([call])
            raise

    def _run(self) -> None:
        while True:
            over = self._over  # what was asked before it is answered still
            self._news.wait(0 if over else None)
            while calls := [self._calls.popleft() for _ in range(min(_MOST, len(self._calls)))]:
                self._carry_out(calls)
            if over:
                return

    def _carry_out(self, calls: Sequence[_Call]) -> None:
        for call in calls:
            if call.answer.cancelled():  # nobody would get it
                call.exchange.asker = None
        try:
            # Clients whose tasks are followed by a script that takes long do not hold up the others.
            haste = None if self._engine.clock.virtual else Haste()
            exchange(self._engine.core, [call.exchange for call in calls], haste)
        except BaseException as error:
            for call in calls:
                call.error = error
        for call in calls:
            call.error = call.error or call.exchange.error
            if call.given and call.error is None:
                try:
                    call.documents = call.shown(self._engine, call.given)
                except BaseException as error:
                    call.error = error
                    self._give_back([call])
        for loop in dict.fromkeys(call.loop for call in calls):
            own = [call for call in calls if call.loop is loop]
            try:
                loop.call_soon_threadsafe(self._answer, own)
            except RuntimeError:  # the loop was closed
                self._give_back(own)

    def _give_back(self, calls: Sequence[_Call]) -> None:
        self._give_up([task for call in calls for task, _ in call.given])

    def _answer(self, calls: Sequence[_Call]) -> None:
        for call in calls:
            if call.answer.done():
                if call.error is None and call.given:
                    self._give_back([call])
            elif call.error is not None:
                call.answer.set_exception(call.error)
            else:
                call.answer.set_result(call.documents)


#: Seconds between looks for what other processes have committed.
_GLANCE: Final = 0.1


class Waiting:
    """One app's threads, and who waits."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._threads = Threads()
        #: For what is answered in time, however much the others have to do.
        self._prompt = Threads(1)
        self._groups = Groups(engine, self.give_up)
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Who waits at a queue, in order.
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        #: How many wait for an execution.
        self._until = 0
        self._looking: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._stop = engine.listen(self._committed)
        engine.core.polling.polls.answered = True

    def close(self) -> None:
        """Hear nothing more, and end the threads."""
        self._stop()
        self._groups.close()
        self._threads.close()
        self._prompt.close()

    async def call(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a verb that is done in a thread."""
        self._loop = asyncio.get_running_loop()
        return await self._threads(verb, *args, **kwargs)

    async def call_promptly(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a short verb in a thread that no other call keeps busy."""
        return await self._prompt(verb, *args, **kwargs)

    def give_up(self, tasks: Sequence[Task]) -> None:
        """Give back tasks that no client got, in a thread."""
        if tasks:
            self._threads.submit(self.engine.core.polling.give_up, tasks)

    # ------------------------------------------------------------------ tasks

    async def poll(
        self, task_type: str, shown: Shown, *, worker_id: str | None, domain: str | None, count: int, timeout: float
    ) -> tuple[list[Task], list[Any]]:
        """Tasks as `Engine.poll` takes them, waited for up to `timeout` seconds, and what is shown of them."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        queue = queue_name(task_type, domain or None, self.engine.config.owner)
        while True:
            seen = self.engine.core.turns.committed.number
            taken = await self.exchange(None, Asker(worker_id=worker_id, count=count), shown, task_type, domain)
            if taken[0] or loop.time() >= until:
                self._call_next(queue if taken[0] else "")
                return taken
            waiter: asyncio.Future[None] = loop.create_future()
            self._queues.setdefault(queue, deque()).append(waiter)
            if self.engine.core.turns.committed.number != seen:
                self._news.set()
            self._look()
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until):
                        await waiter
            finally:
                waiting = self._queues.get(queue)
                if waiting is not None and waiter in waiting:
                    waiting.remove(waiter)
                    if not waiting:
                        del self._queues[queue]
                elif waiter.done() and loop.time() >= until:
                    self._call_next(queue)  # it was called, and goes

    async def exchange(
        self, result: TaskResult | None, asker: Asker | None, shown: Shown, task_type: str | None = None, domain: str | None = None
    ) -> tuple[list[Task], list[Any]]:
        """Report and poll, together with what other clients report and poll for at the time; see `Exchange`."""
        self._loop = asyncio.get_running_loop()
        asked = Exchange(result=result, asker=asker, task_type=task_type, domain=domain)
        documents = await self._groups.ask(asked, shown)
        return [task for task, _ in asked.asker.given] if asked.asker is not None else [], documents

    def _call_next(self, queue: str) -> None:
        """Have the first that waits at a queue try."""
        waiting = self._queues.get(queue)
        while waiting:
            waiter = waiting.popleft()
            if not waiting:
                del self._queues[queue]
            if not waiter.done():
                waiter.set_result(None)
                return

    def _look(self) -> None:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_on())

    async def _look_on(self) -> None:
        """Look which queues have something, after commits and now and then, and what others commit, as long as someone waits."""
        while self._queues or self._until:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GLANCE):
                    await self._news.wait()
            self._news.clear()
            with suppress(EngineClosed, StorageError):  # the next look will show it
                for queue in await self.call(self._offered, [*self._queues]):
                    self._call_next(queue)

    def _offered(self, queues: Sequence[str]) -> list[str]:
        """Those of the queues that have a task to take; wakes who waits for an execution that others have committed."""
        self.engine.core.turns.awaited.look()
        if not queues:
            return []
        now = self.engine.clock.now()
        with self.engine.backend.reading() as view:
            first = view.queue.next_message_at(queues)
            if first is None or first > now:
                return []
            due = ((queue, view.queue.next_message_at([queue])) for queue in queues)
            return [queue for queue, at in due if at is not None and at <= now]

    # ------------------------------------------------------------------ executions

    async def until(self, workflow_id: str, left: Callable[[], Collection[str]], timeout: float) -> bool:
        """Wait until something holds of an execution; False when the time is over.

        `left` returns the executions that it still depends on, none when it holds. It is asked again after a commit of one of them.
        """
        loop = asyncio.get_running_loop()
        end, known = loop.time() + timeout, frozenset([workflow_id])
        self._until += 1
        try:
            while True:
                changed: asyncio.Future[None] = loop.create_future()
                wake = partial(_wake, loop, changed)
                with self.engine.core.turns.awaited.wait(*known, each=True, wake=wake):  # before it is asked: no commit is missed
                    others = frozenset(await self.call(left))
                    if not others:
                        return True
                    if others <= known:
                        self._look()
                        with suppress(TimeoutError):
                            async with asyncio.timeout_at(end):
                                await changed
                        if loop.time() >= end:
                            return not await self.call(left)
                    known = others
        finally:
            self._until -= 1

    def _committed(self, _: Workflow, __: Sequence[HistoryEvent]) -> None:
        if self._loop is not None and self._queues:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._news.set)


def _wake(loop: asyncio.AbstractEventLoop, changed: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop was closed meanwhile
        loop.call_soon_threadsafe(_resolve, changed)


def _resolve(changed: asyncio.Future[None]) -> None:
    if not changed.done():
        changed.set_result(None)
