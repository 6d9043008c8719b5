"""Values that an execution emits, as Server-Sent Events: live, from a number on.

An event's `id` is the number of its value, so that a browser that was cut off goes on where it was: it says the last one in
`Last-Event-ID`. Values come without a name of an event, so that `onmessage` has them; `dropped` says that what an attempt has
emitted counts no more, and `end` that the execution has ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import attrs

from conductorlite.engine.streams import Reading
from conductorlite.model.streams import StreamItem
from conductorlite.runtime.engine import Engine

__all__ = ["KIND", "Events", "last_number", "values"]

#: The media type.
KIND: Final = "text/event-stream"

#: Seconds between looks for what other processes have committed, and between lines that keep the connection open.
_GLANCE: Final = 0.1
_QUIET: Final = 15.0


@attrs.frozen(slots=True)
class Events:
    """An answer that comes in parts, for as long as the client stays."""

    parts: AsyncGenerator[str, None]


def last_number(headers: Mapping[str, str]) -> int:
    """The number that a browser has seen last, which it says when it connects again; 0 for none."""
    said = headers.get("last-event-id", "")
    return int(said) if said.isdecimal() and len(said) < 16 else 0


async def values(
    engine: Engine, call: Callable[..., Awaitable[Any]], reading: Reading, over: Callable[[], bool] = lambda: False
) -> AsyncGenerator[str, None]:
    """Yield the values of an execution, as `Run.stream` reads them, until the server is `over`; masked fields are hidden. Drives
    nothing.
    """
    readers, workflow_id = engine.core.readers, reading.workflow_id
    found = await call(readers.more, reading, masked=True)
    yield "retry: 2000\n\n"
    loop = asyncio.get_running_loop()
    spoken = loop.time()
    while not over():
        before = reading.after
        for one in found:
            spoken = loop.time()
            yield _part(one)
        if reading.over:
            yield "event: end\ndata:\n\n"
            return
        if not found or reading.after == before:
            await _moved(engine, partial(call, readers.has_moved, reading), workflow_id, over)
        if loop.time() - spoken >= _QUIET:
            spoken = loop.time()
            yield ":\n\n"
        found = await call(readers.more, reading, masked=True)


async def _moved(engine: Engine, has_moved: Callable[[], Awaitable[bool]], workflow_id: str, over: Callable[[], bool]) -> None:
    """Wait for a turn on an execution, here or in another process, but not for ever."""
    loop = asyncio.get_running_loop()
    until = loop.time() + _QUIET
    news = asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(news.set)

    with engine.core.turns.awaited.wait(workflow_id, each=True, wake=wake):
        while not over() and loop.time() < until and not await has_moved():
            with suppress(TimeoutError):
                async with asyncio.timeout(_GLANCE):
                    await news.wait()
            news.clear()


def _part(one: Any) -> str:
    name = f"id: {one.number}\n" if isinstance(one, StreamItem) else "event: dropped\n"
    said = {field.name: getattr(one, field.name) for field in attrs.fields(type(one))}
    return f"{name}data: {json.dumps(said, ensure_ascii=False, separators=(',', ':'))}\n\n"
