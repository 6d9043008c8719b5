"""HTTP: one request, one reply, bounded in time and memory. The only importer of httpx.

Each request has a client, so a connection, of its own: no cookie, and nothing a broken connection left behind, gets from one
task to another. Nothing is read from the environment (no proxies, no .netrc), and redirects are not followed. Source of the
rule: Conductor's HttpTask; where we differ: the compatibility page.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.canonical import canonical, parse
from conductorlite.errors import InvalidInput, MissingExtra, TaskFailedTerminally
from conductorlite.executions import TaskResult, TaskStatus
from conductorlite.system.requests import Request, decoder_of, read_request
from conductorlite.worker import TaskContext

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["Reply", "http_worker"]

_FAILED: Final = "Failed to invoke HTTP task due to:"


@attrs.frozen(kw_only=True, slots=True)
class Reply:
    """What came back; the body without its transfer and content encodings."""

    status: int
    phrase: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def as_output(self) -> dict[str, Any]:
        """The map `response` of the task's output; raises InvalidInput for JSON that cannot be kept."""
        named: dict[str, tuple[str, list[str]]] = {}
        for name, value in self.headers:
            named.setdefault(name.lower(), (name, []))[1].append(value)
        content_type = ", ".join(named["content-type"][1]) if "content-type" in named else ""
        return {
            "headers": dict(named.values()),
            "reasonPhrase": self.phrase,
            "body": _value(self.body, content_type),
            "statusCode": self.status,
        }


class _Refused(Exception):
    """A reply that is not read to its end; never leaves this module."""


def http_worker(*, deadline_ms: int, max_body: int) -> Callable[[TaskContext], Awaitable[TaskResult]]:
    """The coroutine function that carries out HTTP tasks within these bounds (ms, bytes)."""

    async def http(context: TaskContext) -> TaskResult:
        request = read_request(context.input)
        limit_ms = max(deadline_ms, request.connection_timeout_ms + request.read_timeout_ms)
        output: dict[str, Any] = {}
        # Here, so that a program without HTTP tasks pays for neither.
        import asyncio

        try:
            import httpx
        except ImportError:
            raise TaskFailedTerminally(str(MissingExtra("http", "HTTP"))) from None
        try:
            with _unlogged():
                async with asyncio.timeout(limit_ms / 1000):
                    reply = await _exchange(httpx.AsyncClient, request, max_body)
            output = {"response": reply.as_output}
            problem = _problem(reply)
        except TimeoutError:
            problem = f"no complete reply within {limit_ms} ms"
        except httpx.ConnectTimeout:
            problem = f"no connection within {request.connection_timeout_ms} ms"
        except httpx.ReadTimeout:
            problem = f"nothing was received for {request.read_timeout_ms} ms"
        except _Refused as error:
            problem = str(error)
        except InvalidInput as error:
            problem = f"the reply cannot be kept: {error}"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
        reason = None if problem is None else f"{_FAILED} {_told(problem, request)} ({request.method} {request.host})"
        return TaskResult(
            workflow_id=context.workflow_id,
            task_id=context.task_id,
            status=TaskStatus.COMPLETED if reason is None else TaskStatus.FAILED,
            output_data=output,
            reason=reason,
        )

    return http


def _problem(reply: Reply) -> str | None:
    if 200 <= reply.status < 300:
        return None
    followed = ", and redirects are not followed" if 300 <= reply.status < 400 and reply.status != 304 else ""
    return f"{reply.status} {reply.phrase}".rstrip() + followed


def _told(problem: str, request: Request) -> str:
    # Ours never quote a header; what a library says of a connection might.
    for secret in request.hidden:
        problem = problem.replace(secret, "…")
    return " ".join(problem.split()).encode("utf-8", "replace").decode()


#: Where httpx and what it stands on tell of addresses, which may hold a secret, and of headers.
_TELLTALES: Final = (
    "httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks",
)  # fmt: skip
_in_exchange: ContextVar[bool] = ContextVar("_in_exchange", default=False)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep the loggers of httpx silent about the request that is made inside; about all others they speak as before."""
    _mute()
    token = _in_exchange.set(True)
    try:
        yield
    finally:
        _in_exchange.reset(token)


@cache
def _mute() -> None:
    for name in _TELLTALES:
        logging.getLogger(name).addFilter(lambda record: not _in_exchange.get())


@cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates takes longer than most requests.
    import httpx

    return httpx.create_ssl_context(trust_env=False)


async def _exchange(new_client: Callable[..., httpx.AsyncClient], request: Request, max_body: int) -> Reply:
    """Send a request and read the reply; raises what httpx does, and _Refused."""
    each = request.read_timeout_ms / 1000
    timeout = (request.connection_timeout_ms / 1000, each, each, None)  # connect, read, write, wait for a pool
    given = {name.lower() for name, _ in request.headers}
    ours = {b"User-Agent": b"conductorlite", b"Accept-Encoding": b"identity", b"Connection": b"close"}
    headers = [*request.headers, *((name, value) for name, value in ours.items() if name.lower() not in given)]
    async with (
        new_client(verify=_tls(), trust_env=False, follow_redirects=False, timeout=timeout) as client,
        client.stream(request.method, request.uri, headers=headers, content=request.body) as response,
    ):
        length = response.headers.get("content-length", "")
        if length.isdecimal() and len(length) < 20 and int(length) > max_body and request.method != "HEAD":
            raise _Refused(f"the reply announces {length} bytes, and {max_body} are accepted")
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > max_body:
                raise _Refused(f"the reply has more than {max_body} bytes")
        return Reply(
            status=response.status_code,
            phrase=response.reason_phrase,
            headers=tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw),
            body=_inflated(bytes(body), response.headers.get("content-encoding", ""), max_body),
        )


def _inflated(body: bytes, encodings: str, max_body: int) -> bytes:
    """The body without its content encoding. By hand, because it must not grow past its bound on the way."""
    named = [name for part in encodings.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if not named or not body:
        return body
    if len(named) > 1 or named[0] not in ("gzip", "x-gzip", "deflate"):
        raise _Refused(f"the reply is encoded as {', '.join(named)[:80]}, which was not asked for")
    inflater = zlib.decompressobj(wbits=47)
    try:
        whole = inflater.decompress(body, max_body + 1)
    except zlib.error as error:
        raise _Refused(f"the reply is not {named[0]}, as it says: {error}") from None
    if len(whole) > max_body:
        raise _Refused(f"the reply has more than {max_body} bytes")
    if not inflater.eof:
        raise _Refused(f"the reply ends in the middle of its {named[0]}")
    return whole


def _value(body: bytes, content_type: str) -> Any:
    """JSON as it is, other text as text, nothing as None; raises InvalidInput for JSON that cannot be kept."""
    if not body:
        return None
    text = body.decode(decoder_of(content_type) or "utf-8", "replace").removeprefix("\ufeff")
    try:
        value = parse(text)
    except InvalidInput:
        return _clean(text)
    canonical(value, where="$.response.body")
    return value


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
