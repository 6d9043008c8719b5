"""The same verbs, awaited: an engine for programs that live on an event loop.

The core is synchronous because it never waits. Only a worker function and `result` truly wait, and only these are native
asyncio: coroutine functions run on the caller's loop, and whoever awaits a result is woken by the commit that ends the
execution. Every other verb is a few milliseconds of a thread. Importing this imports no asyncio; using it does.
"""

from conductorlite.aio.engine import AsyncEngine
from conductorlite.aio.run import AsyncRun

__all__ = ["AsyncEngine", "AsyncRun"]
