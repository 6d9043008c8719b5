"""What changes, for those who look: commits of this engine as they happen, those of other processes at a glance.

A page that somebody looks at is made once for all of them, after a change and at times that its own cost sets: it never takes more
than a fifth of a thread. A connection that waits is an event on the loop, and no thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from hashlib import sha256
from typing import Any, Final, ParamSpec, TypeVar

from conductorlite.model.errors import ConductorliteError, EngineClosed, StorageError
from conductorlite.model.executions import HistoryEvent, Workflow
from conductorlite.pages.markup import Document, Html
from conductorlite.runtime.engine import Engine

__all__ = ["Feed", "Feeds", "Threads", "digest"]

P = ParamSpec("P")
T = TypeVar("T")

_LOG: Final = logging.getLogger("conductorlite.server")

#: Threads for verbs and pages. More would only queue at the store.
_THREADS: Final = 4

#: Seconds between looks for commits of other processes; between two makings of a page, at least; after which it is made without a
#: change, for it shows how long things take. The last two also as multiples of what making it took.
_GLANCE_S: Final = 0.1
_PAUSE_S: Final = 0.25
_TICK_S: Final = 1.0
_PAUSE: Final = 4
_TICK: Final = 20


class Threads:
    """Calls of an engine's verbs, away from the loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="conductorlite-server")

    async def __call__(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await a call in a thread."""
        return await asyncio.wrap_future(self.submit(verb, *args, **kwargs))

    def submit(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a call done in a thread."""
        return self._pool.submit(partial(copy_context().run, verb, *args, **kwargs))

    def close(self) -> None:
        """Take no more calls, and let the threads end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def digest(text: str) -> str:
    """By which a part of a page is known to a browser that has it."""
    return sha256(text.encode()).hexdigest()[:12]


class Feed:
    """One page as it changes."""

    def __init__(self, make: Callable[[], Document], threads: Threads) -> None:
        self._make, self._threads = make, threads
        self.title, self._moves = "", True
        #: By name, in order; empty before it was made.
        self.parts: dict[str, Html] = {}
        #: Of these parts: what is sent, by whose it is and what they have, and what they have then.
        self.events: dict[object, tuple[str, dict[str, str]]] = {}
        #: Set when something may have changed.
        self.due = asyncio.Event()
        self.followers: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Make the page again and again; ends by being canceled."""
        loop = asyncio.get_running_loop()
        while True:
            self.due.clear()
            begun = loop.time()
            try:
                await self._made()
            except (EngineClosed, StorageError):
                pass  # the next look will show it
            except Exception as error:
                _LOG.error("a page could not be made: %s", type(error).__name__, exc_info=error)
            took = loop.time() - begun
            await asyncio.sleep(max(_PAUSE_S, _PAUSE * took))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_TICK_S, _TICK * took) if self._moves else None):
                    await self.due.wait()

    async def _made(self) -> None:
        try:
            document = await self._threads(self._make)
            self.title, self._moves, parts = document.title, document.moves, document.parts()
        except (EngineClosed, StorageError):
            raise
        except ConductorliteError as error:  # it was removed
            self.title, parts = "Not there", Document("Not there", Html(), [("gone", str(error), Html(" "))]).parts()
        if parts != self.parts:
            self.parts, self.events = parts, {}
            for follower in self.followers:
                follower.set()


class Feeds:
    """The pages that somebody looks at: one of the store (None) and of executions, by id."""

    def __init__(self, engine: Engine, make: Callable[[str | None], Document], threads: Threads) -> None:
        self._engine, self._make, self._threads = engine, make, threads
        self._feeds: dict[str | None, tuple[Feed, asyncio.Task[None]]] = {}
        self._glancing: asyncio.Task[None] | None = None
        self._unlisten: Callable[[], None] = lambda: None
        self._ending = False

    def end(self) -> None:
        """Have every stream end, from the loop's thread: the server is to stop."""
        self._ending = True
        for feed, _ in self._feeds.values():
            for follower in feed.followers:
                follower.set()

    async def follow(self, workflow_id: str | None, seconds: float, quiet: float) -> AsyncIterator[Feed | None]:
        """The feed of a page, whenever it has changed, for so many seconds; None after each `quiet` ones without a change."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self._following(workflow_id) as (feed, news):
            while not self._ending and (left := until - loop.time()) > 0:
                changed = True
                try:
                    async with asyncio.timeout(min(quiet, left)):
                        await news.wait()
                except TimeoutError:
                    changed = False
                news.clear()
                yield feed if changed and feed.parts else None

    @contextmanager
    def _following(self, workflow_id: str | None) -> Iterator[tuple[Feed, asyncio.Event]]:
        loop = asyncio.get_running_loop()
        if not self._feeds:
            self._unlisten = self._engine.listen(partial(self._committed, loop))
            self._glancing = loop.create_task(self._glance())
        if workflow_id not in self._feeds:
            feed = Feed(partial(self._make, workflow_id), self._threads)
            self._feeds[workflow_id] = feed, loop.create_task(feed.run())
        feed, running = self._feeds[workflow_id]
        news = asyncio.Event()
        if feed.parts:
            news.set()
        feed.followers.add(news)
        try:
            yield feed, news
        finally:
            feed.followers.discard(news)
            if not feed.followers:
                del self._feeds[workflow_id]
                running.cancel()
            if not self._feeds and self._glancing is not None:
                self._unlisten()
                self._glancing.cancel()

    def _committed(self, loop: asyncio.AbstractEventLoop, workflow: Workflow, _: Sequence[HistoryEvent]) -> None:
        for key in (workflow.workflow_id, None):
            found = self._feeds.get(key)
            if found is not None and not found[0].due.is_set():
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(found[0].due.set)

    async def _glance(self) -> None:
        """Look for what other processes commit; what it was is seen when a page is made."""
        seen: Any = None
        while True:
            with suppress(EngineClosed, StorageError):
                now = await self._threads(self._engine.backend.data_version)
                if now != seen and seen is not None:
                    for feed, _ in self._feeds.values():
                        feed.due.set()
                seen = now
            await asyncio.sleep(_GLANCE_S)
