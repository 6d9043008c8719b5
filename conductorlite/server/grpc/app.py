"""Conductor's gRPC API as an asyncio server: the operations of the REST API under their other names.

A long poll takes no thread; what a client has polled and does not take is given back. Errors are status codes, and a sentence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from conductorlite.model.errors import (
    AlreadyExists,
    ConductorliteError,
    Conflict,
    EngineClosed,
    InvalidDefinition,
    InvalidExpression,
    InvalidInput,
    MissingExtra,
    NotFound,
    StorageError,
)
from conductorlite.model.executions import Task
from conductorlite.model.threads import Waiter, started
from conductorlite.runtime.aio.engine import AsyncEngine
from conductorlite.runtime.engine import Engine
from conductorlite.server.grpc.contract import message_class
from conductorlite.server.grpc.conversion import filled, read
from conductorlite.server.grpc.methods import METHODS, Call, Method
from conductorlite.server.rest.operations import Refused
from conductorlite.server.rest.tasks import Polled, batch_poll, poll
from conductorlite.server.rest.waiting import Waiting
from conductorlite.server.safety import Role, Safety, is_loopback

try:
    import grpc
except ImportError as error:
    raise MissingExtra("grpc", "A gRPC server") from error

__all__ = ["grpc_served", "grpc_server"]

#: Status codes of errors, the most special first.
_CODES: Final[tuple[tuple[type[BaseException], Any], ...]] = (
    (NotFound, grpc.StatusCode.NOT_FOUND),
    (AlreadyExists, grpc.StatusCode.ALREADY_EXISTS),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (InvalidInput, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidDefinition, grpc.StatusCode.INVALID_ARGUMENT),
    (InvalidExpression, grpc.StatusCode.INVALID_ARGUMENT),
    (KeyError, grpc.StatusCode.INVALID_ARGUMENT),
    (StorageError, grpc.StatusCode.UNAVAILABLE),
    (EngineClosed, grpc.StatusCode.UNAVAILABLE),
)
_STATUSES: Final = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.FAILED_PRECONDITION,
}

#: Seconds that calls may take to end when the server stops, and a thread to begin.
_GRACE: Final = 2.0
_PATIENCE: Final = 30.0

#: Every caller on this machine may do everything, and no other.
_LOCAL: Final = Safety(anonymous=Role.ADMIN)


def grpc_server(
    engine: Engine | AsyncEngine,
    address: str = "127.0.0.1:0",
    *,
    safety: Safety = _LOCAL,
    certificate: str | None = None,
    key: str | None = None,
) -> tuple[Any, int]:
    """An asyncio server (`grpc.aio.Server`) that is not started yet, and its port; made on the event loop that it is to run on.

    Nothing is driven by it. A caller that `safety` knows by a token only shows it as `authorization` or
    `x-authorization` of its metadata; an address that other machines reach takes a token. `certificate` and `key` are files, for
    TLS. Raises InvalidInput, MissingExtra, and OSError when the address cannot be had.
    """
    if safety.token is None and not is_loopback(address.rpartition(":")[0]):
        raise InvalidInput(f"{address} can be reached from other machines: that needs a token")
    waiting = Waiting(engine if isinstance(engine, Engine) else engine._engine)
    options = [("grpc.max_receive_message_length", safety.max_body), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=safety.concurrency)
    services: dict[str, dict[str, Any]] = {}
    for one in METHODS:
        call = _poll(waiting) if one.call is None else _called(waiting, one.call, one)
        services.setdefault(one.service, {})[one.name] = _handler(one, call, safety)
    for service, methods in services.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    try:
        if certificate is None:
            port = server.add_insecure_port(address)
        else:
            files = (Path(key or certificate).read_bytes(), Path(certificate).read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([files]))
    except RuntimeError as error:
        raise OSError(f"{address}: cannot listen there: {error}") from error
    return server, port


@contextmanager
def grpc_served(
    engine: Engine,
    address: str = "127.0.0.1:0",
    *,
    safety: Safety = _LOCAL,
    certificate: str | None = None,
    key: str | None = None,
) -> Iterator[int]:
    """Serve in a thread with an event loop of its own while the block lasts, which gets the port; raises as `grpc_server`."""
    found: list[int | BaseException] = []
    changed, over = Waiter(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def main() -> None:
        try:
            server, port = grpc_server(engine, address, safety=safety, certificate=certificate, key=key)
            await server.start()
            found.append(port)
        except BaseException as error:
            found.append(error)
            return
        finally:
            changed.wake()
        await over.wait()
        await server.stop(_GRACE)

    thread = started(lambda: loop.run_until_complete(main()), name="conductorlite-grpc")
    changed.wait(_PATIENCE)
    try:
        if not found or isinstance(found[0], BaseException):
            raise found[0] if found else OSError(f"{address}: no answer")  # type: ignore[misc]
        yield found[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(_PATIENCE)
        loop.close()


def _handler(method: Method, call: Callable[[Any, Any], Awaitable[Any]], safety: Safety) -> Any:
    """A handler of grpc's, which asks who calls before, and says errors as codes."""

    async def answer(request: Any, context: Any) -> Any:
        try:
            await _admitted(context, safety, method.role)
            return await call(request, context)
        except (Refused, ConductorliteError, KeyError) as error:
            await context.abort(_code(error), f"{error} is missing" if type(error) is KeyError else str(error))

    async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
        for one in await answer(request, context):
            yield one

    takes, gives = message_class(method.takes), message_class(method.gives)
    kind = grpc.unary_stream_rpc_method_handler if method.stream else grpc.unary_unary_rpc_method_handler
    return kind(answers if method.stream else answer, takes.FromString, gives.SerializeToString)


def _code(error: Exception) -> Any:
    if isinstance(error, Refused):
        return _STATUSES.get(error.status, grpc.StatusCode.INTERNAL)
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


async def _admitted(context: Any, safety: Safety, needed: Role) -> None:
    """Abort unless the caller may."""
    sent = {name.lower(): value for name, value in context.invocation_metadata() or ()}
    kind, _, given = str(sent.get("authorization", "")).partition(" ")
    token = given.strip() if kind.lower() == "bearer" else sent.get("x-authorization")
    caller = await safety.who(token, near=_near(context.peer()))
    if needed > Role.READ and safety.read_only:
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this server is read-only")
    if caller is None:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"this needs a token for the role {needed.name}")
    elif caller.role < needed:
        said = f"this needs the role {needed.name}, the caller has {caller.role.name}"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, said)


def _near(peer: str) -> bool:
    """Whether a peer, such as `ipv4:127.0.0.1:5000`, is on this machine."""
    kind, _, address = peer.partition(":")
    return kind in ("ipv4", "ipv6") and is_loopback(unquote(address).rpartition(":")[0])


def _called(waiting: Waiting, operation: Call, method: Method) -> Callable[[Any, Any], Awaitable[Any]]:
    gives = message_class(method.gives)

    def call(request: Any) -> Any:
        answer = operation(waiting.engine, read(request))
        return [filled(gives(), one) for one in answer] if method.stream else filled(gives(), answer or {})

    return lambda request, _: waiting.call(call, request)


def _poll(waiting: Waiting) -> Callable[[Any, Any], Awaitable[Any]]:
    """Poll and BatchPoll; what a client that has gone away does not get is given back."""

    async def call(request: Any, context: Any) -> Any:
        asked = read(request)
        who = (asked.get("taskType", ""), asked.get("workerId"), asked.get("domain"))
        several = "count" in request.DESCRIPTOR.fields_by_name
        if several:
            taken = await batch_poll(waiting, *who, count=asked.get("count", 1), timeout=asked.get("timeout", 0))
        else:
            taken = await poll(waiting, *who)
        tasks: Sequence[Task] = taken.tasks
        context.add_done_callback(lambda done: waiting.give_up(tasks) if done.cancelled() else None)
        return _handed(taken, several)

    return call


def _handed(taken: Polled, several: bool) -> Any:
    task = message_class("conductor.proto.Task")
    if several:
        return [filled(task(), one) for one in taken.value]
    return filled(message_class("conductor.grpc.tasks.PollResponse")(), {} if taken.value is None else {"task": taken.value})
