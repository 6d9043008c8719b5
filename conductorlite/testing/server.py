"""A Conductor server for tests: a real port of this machine over an engine of this process, by default on a virtual clock.

    with ConductorServer() as server:
        client = ConductorClient(server.api)        # of any language, unmodified
        ...
        server.advance("30 days")

What is due is done as it comes, but time moves only when the test says so: a retry after an hour, a WAIT of a month and a schedule
are tested in milliseconds. Needs the extra `[server]`.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from conductorlite.engine.config import EngineConfig
from conductorlite.model.clock import Clock, VirtualClock
from conductorlite.model.definitions import Semantics
from conductorlite.model.texts import Instant, Span
from conductorlite.model.threads import started
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest import rest_app
from conductorlite.server.running import served
from conductorlite.server.safety import Role, Safety

__all__ = ["ConductorServer"]

#: Seconds between looks for what other engines on the store have committed, and until a thread must have ended.
_GLANCE: Final = 0.1
_PATIENCE: Final = 10.0


class ConductorServer:
    """Conductor's REST API at a free port of 127.0.0.1 while the block lasts.

    Without an `engine` it has one of its own, in memory, on a `VirtualClock` unless `clock` is another, with Conductor OSS's
    semantics; that one is closed with it. An engine on the machine's clock is driven by that clock. `url` is where it listens,
    `api` what clients call their server URL. With `grpc` it serves that API too. Raises MissingExtra without uvicorn, or grpcio.
    """

    url: str
    api: str
    #: Host and port of the gRPC API, if it is served.
    grpc: str | None = None

    def __init__(self, engine: Engine | None = None, *, clock: Clock | None = None, grpc: bool = False) -> None:
        self._own = engine is None
        config = EngineConfig(semantics=Semantics.OSS)
        self.engine = engine or Engine(clock=VirtualClock() if clock is None else clock, config=config)
        self._serves_grpc = grpc
        self._open = ExitStack()
        self._stopping = False

    def advance(self, span: Span | None = None, *, to: Instant | None = None) -> None:
        """Move the virtual clock, doing all that comes due on the way at its own instant; see `Engine.advance`."""
        self.engine.advance(span, to=to)

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            if self._own:
                opening.callback(self.engine.close)
            safety = Safety(anonymous=Role.ADMIN)
            self.url = opening.enter_context(served(rest_app(self.engine, safety=safety), safety))
            self.api = f"{self.url}/api"
            if self._serves_grpc:
                from conductorlite.server.grpc import grpc_served

                self.grpc = f"127.0.0.1:{opening.enter_context(grpc_served(self.engine))}"
            thread = started(self._settle if self.engine.clock.virtual else self.engine.run_forever, name="conductorlite-driver")
            opening.callback(thread.join, _PATIENCE)
            opening.callback(self._stop)
            self._open = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def _settle(self) -> None:
        """Do what is due now, after every commit."""
        turns = self.engine.core.turns
        while not self._stopping:
            waiter = turns.committed.waiter()
            if not self.engine.settle():
                waiter.wait(_GLANCE)

    def _stop(self) -> None:
        self._stopping = True
        self.engine.stop()
        self.engine.core.turns.committed.wake()
