"""Conductor's REST API as an ASGI application over an engine.

An operation that waits is a coroutine and takes no thread; the others are carried out in a few threads, so that the engine never
blocks the loop. What a client has polled and does not take is given back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from conductorlite.model.errors import (
    ConductorliteError,
    Conflict,
    EngineClosed,
    ExecutionNotFound,
    ExpressionFailed,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MailboxFull,
    MissingExtra,
    NotFound,
    PayloadLost,
    StorageBusy,
    StorageError,
    StorageFull,
)
from conductorlite.runtime.aio import AsyncEngine
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.operations import Found, Operation, Refused, find, no_such
from conductorlite.server.rest.own import stream
from conductorlite.server.rest.routes import TABLE
from conductorlite.server.rest.tasks import Polled
from conductorlite.server.safety import App, Guard, Receive, Role, Safety, Scope, Send
from conductorlite.server.streams import KIND, Events, last_number
from conductorlite.server.waiting import Waiting

__all__ = ["beside", "needed", "rest_app"]


#: A HEAD is answered as a GET is, by a server that leaves out the body.
_METHODS: Final = {"HEAD": "GET"}

#: What the paths of operations begin with. `/context.js` is not among them: Conductor's web UI has a file of that name.
_PATHS: Final = ("/api/", "/api-docs", "/health")

_TEXT: Final = b"text/plain;charset=UTF-8"
_JSON: Final = b"application/json"

#: Statuses of errors, the most special first.
_STATUSES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (NotFound, 404),
    (MailboxFull, 429),
    (Conflict, 409),
    (InvalidInput, 400),
    (InvalidDefinition, 400),
    (InvalidExpression, 400),
    (ExpressionFailed, 400),
    (MissingExtra, 501),
    (PayloadLost, 404),
    (StorageError, 503),
    (EngineClosed, 503),
)


#: Every caller on this machine may do everything, and no other.
_LOCAL: Final = Safety(anonymous=Role.ADMIN)


def rest_app(engine: Engine | AsyncEngine, *, safety: Safety | None = _LOCAL) -> App:
    """Conductor's REST API over an engine, an ASGI application that can be mounted into any other.

    Nothing is driven by it: drive the engine as ever. `safety` says who may ask; by default every caller on this machine, for
    anything, and no other. None leaves that to the application it is mounted into. It uses the engine from a few threads, and
    one event loop; when the application ends, its lifespan says so, or the engine is closed.
    """
    app = _Rest(engine if isinstance(engine, Engine) else engine._engine)
    return app if safety is None else Guard(app, safety, needs=needed)


def beside(api: App, pages: App) -> App:
    """One application: `api` for the paths of the REST API, `pages` for all others, a web UI's own `/context.js` among them."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        theirs = scope["type"] == "http" and scope["path"].startswith(_PATHS)
        await (api if theirs else pages)(scope, receive, send)

    return app


def needed(method: str, path: str) -> Role | None:
    """The role that a request needs; READ for what there is not."""
    method = _METHODS.get(method, method)
    found = find(TABLE, path, method)
    return found.operations[method].role if found is not None and method in found.operations else Role.READ


class _Rest:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting = Waiting(engine)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0].removeprefix(scope.get("root_path", ""))
        body = await _body(receive)
        arguments: dict[str, Any] = {}
        try:
            operation, found = _found(path, scope["method"])
            arguments = operation.arguments(found.path, scope.get("query_string", b""), body)
            if operation.waits:
                if operation.function is stream and not arguments.get("after"):
                    arguments["after"] = last_number(_headers(scope))
                await self._wait(operation, arguments, receive, send)
                return
            call = self._waiting.call_promptly if operation.prompt else self._waiting.call
            answer = await call(operation.function, self._engine, **arguments)
            await _answer(send, answer, operation.empty)
        except (Refused, ConductorliteError) as error:
            await _send(send, *_error(error, arguments))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        self._waiting.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _wait(self, operation: Operation, arguments: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer what waits, unless the client goes away before: then nothing is kept of what it polled."""
        gone = asyncio.ensure_future(_gone(receive))
        answering: asyncio.Task[Any] = asyncio.ensure_future(operation.function(self._waiting, **arguments))
        sent = False
        try:
            await asyncio.wait([gone, answering], return_when=asyncio.FIRST_COMPLETED)
            if answering.done() and not gone.done():
                answer = answering.result()
                if isinstance(answer, Events):
                    await _send_events(send, answer, gone)
                else:
                    await _answer(send, answer.value if isinstance(answer, Polled) else answer, operation.empty)
                sent = True
        finally:
            gone.cancel()
            if answering.cancel():
                await asyncio.wait([answering])
            if not (sent or answering.cancelled() or answering.exception()) and isinstance(answer := answering.result(), Polled):
                self._waiting.give_up(answer.tasks)


def _found(path: str, method: str) -> tuple[Operation, Found]:
    method = _METHODS.get(method, method)
    found = find(TABLE, path, method)
    if found is None:
        raise Refused(404, f"No static resource {path.strip('/')}.")
    if method not in found.operations:
        raise Refused(405, f"Request method '{method}' is not supported")
    return found.operations[method], found


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return b"".join(parts)


async def _gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}


async def _send_events(send: Send, events: Events, gone: asyncio.Future[None]) -> None:
    """Send parts as they come, until there are no more or the client has gone away."""
    headers = [(b"content-type", KIND.encode()), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    coming: asyncio.Future[str] | None = None
    try:
        while True:
            coming = asyncio.ensure_future(anext(events.parts, ""))
            first: list[asyncio.Future[Any]] = [gone, coming]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                return
            part = coming.result()
            await send({"type": "http.response.body", "body": part.encode(), "more_body": bool(part)})
            if not part:
                return
    finally:
        if coming is not None and coming.cancel():
            await asyncio.wait([coming])
        await events.parts.aclose()


async def _answer(send: Send, answer: Any, empty: int) -> None:
    if answer is None:
        await _send(send, empty, b"", None)
    elif isinstance(answer, str):
        await _send(send, 200, answer.encode(), _TEXT)
    else:
        await _send(send, 200, json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode(), _JSON)


async def _send(send: Send, status: int, body: bytes, kind: bytes | None) -> None:
    headers = [(b"content-length", b"%d" % len(body))] if status != 204 else []
    if kind is not None:
        headers.append((b"content-type", kind))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _error(error: Exception, arguments: Mapping[str, Any]) -> tuple[int, bytes, bytes]:
    """An error in Conductor's form."""
    if isinstance(error, Refused):
        status = error.status
    else:
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    retryable = isinstance(error, StorageBusy | StorageFull | EngineClosed)
    said: dict[str, Any] = {"status": status, "message": str(error), "instance": "conductorlite", "retryable": retryable}
    if type(error) is ExecutionNotFound:
        said["message"] = no_such(arguments.get("workflow_id"))
    if isinstance(error, InvalidDefinition):
        problems = [{"path": problem.path, "message": problem.message} for problem in error.problems]
        said |= {"message": "Validation failed, check below errors for detail.", "validationErrors": problems}
        del said["instance"]  # as in Conductor, of these alone
    return status, json.dumps(said, ensure_ascii=False).encode("utf-8", "replace"), _JSON
