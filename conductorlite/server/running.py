"""An app on a port: uvicorn, with a deadline for headers, and streams that end when the server is to stop.

No request is logged: an address may hold what is nobody's business.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from conductorlite.model.errors import InvalidInput, MissingExtra
from conductorlite.model.threads import Waiter, started
from conductorlite.server.safety import App, Safety, is_loopback

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise MissingExtra("server", "A server") from error

__all__ = ["serve", "served"]

#: Seconds in which the headers of a request come, a connection without one is kept, and what runs may end when the server stops.
_HEADER_S: Final = 10.0
_IDLE_S: Final = 30
_STOP_S: Final = 5

#: Seconds that a server in a thread takes to listen, or to end, at most.
_PATIENCE_S: Final = 30.0


class _HeadInTime(asyncio.Protocol):
    """Cuts off who does not send the head of a request in time, or sends too long a one: uvicorn waits for it for ever."""

    loop: asyncio.AbstractEventLoop
    config: uvicorn.Config
    transport: asyncio.Transport
    send_400_response: Callable[[str], None]
    #: The request whose head came last, and what is read of it and answered.
    cycle: Any
    _deadline: asyncio.TimerHandle | None = None
    #: Bytes of a head that is not whole.
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come: its first request is due."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(_HEADER_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """A part of a request: its head is whole, or due in time."""
        before = self.cycle
        super().data_received(data)
        cycle = self.cycle
        self._head = self._head + len(data) if cycle is before and (cycle is None or not cycle.more_body) else self.begun()
        if self._head > (self.config.h11_max_incomplete_event_size or 0) and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")
        answering = cycle is not None and not cycle.response_complete
        if answering and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif not answering and self._deadline is None:
            self._deadline = self.loop.call_later(_HEADER_S, self.transport.close)

    def on_response_complete(self) -> None:
        """A request is answered: the rest of a head that came together with it is due in time, as no other part may come."""
        super().on_response_complete()  # type: ignore[misc]
        if self._deadline is None and self.cycle.response_complete and self.begun():
            self._deadline = self.loop.call_later(_HEADER_S, self.transport.close)

    def begun(self) -> int:
        """About how many bytes there are of a head that has begun and is not whole."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)


class _H11(_HeadInTime, H11Protocol):
    """In Python."""

    def begun(self) -> int:
        """Return the bytes that are left; while a request is being answered, whole requests may be among them."""
        return len(self.conn.trailing_data[0]) if self.cycle is None or self.cycle.response_complete else 0


#: How requests are read, the fastest way that is there first.
_PROTOCOLS: Final[list[type[asyncio.Protocol]]] = [_H11]

try:
    import httptools
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError:
    pass
else:

    class _Parser:
        """The parser of a connection, which goes on with HTTP/1.1 when a client offers another protocol.

        Java's HttpClient offers `Upgrade: h2c` with its first request. The parser in C takes that for the end of the request, and
        what follows for another protocol: the request's body is read by a second one, and the connection ends with its answer.
        """

        def __init__(self, protocol: _HttpTools, parser: Any) -> None:
            self._protocol, self._parser = protocol, parser
            for name in ("get_http_version", "get_method", "should_keep_alive", "should_upgrade"):
                setattr(self, name, getattr(parser, name))

        def feed_data(self, data: bytes) -> None:
            """Parse what has come; raises httptools.HttpParserError."""
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offered:
                rest = data[offered.args[0] :]
                framing = self._protocol.framing()
                if framing:
                    self._parser = httptools.HttpRequestParser(_Body(self._protocol))
                if framing or rest:
                    self.feed_data(framing + rest)

    class _Body:
        """The body of a request up to its end, after its head."""

        def __init__(self, protocol: _HttpTools) -> None:
            self._protocol = protocol

        def on_body(self, body: bytes) -> None:
            """A part of it has come."""
            self._protocol.on_body(body)

        def on_message_complete(self) -> None:
            """All of it has come."""
            HttpToolsProtocol.on_message_complete(self._protocol)

    class _HttpTools(_HeadInTime, HttpToolsProtocol):
        """In C."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.parser = _Parser(self, self.parser)  # type: ignore[assignment]

        def on_message_complete(self) -> None:
            """A request has come as a whole, unless it is one whose body the parser does not read."""
            if self.parser.should_upgrade() and self.framing():
                self.cycle.keep_alive = False
                return
            super().on_message_complete()

        def framing(self) -> bytes:
            """A head that says as much as the request's own of where its body ends; empty for a request without one."""
            said = [
                b"%s: %s\r\n" % (name, value) for name, value in self.headers if name in (b"content-length", b"transfer-encoding")
            ]
            return b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(said) if said else b""

        def begun(self) -> int:
            """Return the bytes of a head that is being parsed: its request has a scope from its first byte on, and a cycle when it
            is whole.
            """
            if self.scope is None or (self.cycle is not None and self.cycle.scope is self.scope):
                return 0
            return sum((len(name) + len(value) for name, value in self.headers), 1 + len(self.url))

    _PROTOCOLS.insert(0, _HttpTools)


class _Server(uvicorn.Server):
    """A server that says when it listens, and when it is to stop."""

    def __init__(self, config: uvicorn.Config, listening: Callable[[str], None], ending: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._listening, self._ending = listening, ending

    async def startup(self, sockets: Any = None) -> None:
        """Listen; then say where."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            try:
                self._listening(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
            except BaseException:
                await super().shutdown(sockets)
                raise

    async def shutdown(self, sockets: Any = None) -> None:
        """End streams first: they would be waited for."""
        if self._ending is not None:
            self._ending()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl-C does not wait. The signal is answered here, and not raised once more at the end."""
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def _server(
    app: App,
    safety: Safety,
    host: str,
    port: int,
    certificate: str | None,
    key: str | None,
    listening: Callable[[str], None],
    ending: Callable[[], None] | None,
) -> _Server:
    if not is_loopback(host) and safety.token is None:
        raise InvalidInput(f"{host} can be reached from other machines: that needs a token")
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=_PROTOCOLS[0],
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_STOP_S,
        limit_concurrency=2 * safety.concurrency,
        h11_max_incomplete_event_size=safety.max_headers,
    )
    return _Server(config, listening, ending)


def serve(
    app: App,
    safety: Safety,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    certificate: str | None = None,
    key: str | None = None,
    listening: Callable[[str], None] = lambda url: None,
    ending: Callable[[], None] | None = None,
) -> None:
    """Serve an app in this thread until SIGINT or SIGTERM; requests that run are answered first.

    `listening` is called with the address; `ending` when it is to stop, for streams that would go on. `certificate` and `key` are
    files, for TLS. Raises InvalidInput for an address that other machines reach without a token, OSError when the port is taken.
    """
    server = _server(app, safety, host, port, certificate, key, listening, ending)
    try:
        server.run()
    except SystemExit as error:
        raise OSError(f"{host}:{port}: cannot listen there, the log says why") from error


@contextmanager
def served(
    app: App,
    safety: Safety,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    certificate: str | None = None,
    key: str | None = None,
    ending: Callable[[], None] | None = None,
) -> Iterator[str]:
    """Serve an app in a thread of its own while the block lasts, which gets the address. Otherwise as `serve`."""
    found: list[str] = []
    changed = Waiter()

    def listening(url: str) -> None:
        found.append(url)
        changed.wake()

    server = _server(app, safety, host, port, certificate, key, listening, ending)

    def run() -> None:
        try:
            server.run()
        except SystemExit:  # the log says why
            return
        finally:
            changed.wake()

    thread = started(run, name="conductorlite-server")
    try:
        changed.wait(_PATIENCE_S)
        if not found:
            raise OSError(f"{host}:{port}: cannot listen there, the log says why")
        yield found[0]
    finally:
        server.should_exit = True
        thread.join(_PATIENCE_S)
