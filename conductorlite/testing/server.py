"""A Conductor server for tests: a real port of this machine over an engine of this process, by default on a virtual clock.

    with ConductorServer() as server:
        client = ConductorClient(server.api)        # of any language, unmodified
        ...
        server.advance("30 days")

What is due is done as it comes, but time moves only when the test says so: a retry after an hour, a WAIT of a month and a schedule
are tested in milliseconds. Needs the extra `[server]`.
"""

from __future__ import annotations

import asyncio
import socket
from threading import Thread
from types import TracebackType
from typing import Final, Self

from conductorlite.engine.config import EngineConfig
from conductorlite.model.clock import Clock, Instant, VirtualClock
from conductorlite.model.definitions import Semantics
from conductorlite.model.errors import MissingExtra
from conductorlite.model.texts import Span
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest import rest_app
from conductorlite.server.safety import App

__all__ = ["ConductorServer"]

#: Seconds between looks for what other engines on the store have committed, and until a thread must have ended.
_GLANCE: Final = 0.1
_PATIENCE: Final = 10.0


class ConductorServer:
    """Conductor's REST API at a free port of 127.0.0.1 while the block lasts.

    Without an `engine` it has one of its own, in memory, on a `VirtualClock` unless `clock` is another, with Conductor OSS's
    semantics; that one is closed with it. An engine on the machine's clock is driven by that clock. `url` is where it listens,
    `api` what clients call their server URL. Raises MissingExtra without uvicorn.
    """

    def __init__(self, engine: Engine | None = None, *, clock: Clock | None = None, app: App | None = None) -> None:
        self._own = engine is None
        config = EngineConfig(semantics=Semantics.OSS)
        self.engine = engine or Engine(clock=VirtualClock() if clock is None else clock, config=config)
        self._app = app or rest_app(self.engine)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.api = f"{self.url}/api"
        self._stopping = False
        self._threads: list[Thread] = []

    def advance(self, span: Span | None = None, *, to: Instant | None = None) -> None:
        """Move the virtual clock, doing all that comes due on the way at its own instant; see `Engine.advance`."""
        self.engine.advance(span, to=to)

    def __enter__(self) -> Self:
        try:
            import uvicorn
        except ImportError:
            raise MissingExtra("server", "a server for tests") from None
        config = uvicorn.Config(self._app, ws="none", log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        drive = self._settle if self.engine.clock.virtual else self.engine.run_forever
        self._threads = [Thread(target=self._serve, name="conductorlite-server"), Thread(target=drive, name="conductorlite-driver")]
        for thread in self._threads:
            thread.start()
        return self

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def _settle(self) -> None:
        """Do what is due now, after every commit."""
        turns = self.engine.core.turns
        while not self._stopping:
            waiter = turns.committed.waiter()
            if not self.engine.settle():
                waiter.wait(_GLANCE)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping = self._server.should_exit = True
        self.engine.stop()
        self.engine.core.turns.wake()
        for thread in self._threads:
            thread.join(_PATIENCE)
        self._socket.close()
        if self._own:
            self.engine.close()
