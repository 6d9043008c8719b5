"""Reports and polls of clients, handed to the engine in groups: what has come while one group is carried out is the next one.

One thread does it. Reports and polls of different executions so share a write, however many clients there are, and one that is
alone waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from conductorlite.engine.bulk import Exchange, exchange
from conductorlite.model import attrs
from conductorlite.model.errors import EngineClosed
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.threads import Waiter, started
from conductorlite.runtime.engine import Engine

__all__ = ["Given", "Groups", "Shown"]

#: Tasks that a client is given, each with the row of its execution; and how they are shown.
Given = list[tuple[Task, Workflow]]
Shown = Callable[[Engine, Given], list[Any]]

#: Calls of one group at most: others wait for all of them.
_MOST: Final = 200


@attrs.define(slots=True, kw_only=True, eq=False)
class _Call:
    """What one client says, and who waits for what comes of it."""

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
        """What is shown of the tasks that a client is given; raises what its report, or its poll, is refused with.

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
            exchange(self._engine.core, [call.exchange for call in calls])
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
