"""What an HTTP task asks for: its input, read and checked, before anything is sent.

Source of the rule: Conductor's HttpTask.Input. No message here quotes the value of a header: it may be a password.

HTTP: one request, one reply, bounded in time and memory. The only importer of httpx.

Each request has a client, so a connection, of its own: no cookie, and nothing a broken connection left behind, gets from one
task to another. Nothing is read from the environment (no proxies, no .netrc), and redirects are not followed. Source of the
rule: Conductor's HttpTask; where we differ: the compatibility page.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

import attrs

from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidInput, MissingExtra, TaskFailedTerminally
from conductorlite.model.executions import TaskResult
from conductorlite.model.scalars import step_path
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.threads import carried
from conductorlite.runtime.calls import carried_headers
from conductorlite.runtime.context import TaskContext

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["Reply", "Request", "decoder_of", "http_worker", "read_request"]

_TIMEOUT_MS: Final = 3_000

#: Longest single timeout, ms: a day. Beyond it the unit is probably mistaken.
_LONGEST_MS: Final = 86_400_000

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD: Final = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([\w.:-]+)""", re.IGNORECASE)

#: Headers whose values no message may hold, no matter who wrote it.
_PASSWORDS: Final = ("authorization", "proxy-authorization", "cookie")

#: Encodings a text may have. Not every codec of Python's: some are no encodings, and some take quadratic time.
_ENCODINGS: Final = re.compile(
    r"utf-?(8|16|32)([-_]?[lb]e)?|us-ascii|ascii|(iso-?8859|windows)-?\d+|latin-?1|cp\d+|koi8-[ru]|gbk|gb2312|gb18030|big5"
    r"|shift[-_]jis|euc-(jp|kr)",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True, slots=True)
class Request:
    """One HTTP request, ready to be sent. Timeouts in ms; `host` is what messages call it by; `hidden` is never to be shown."""

    method: str
    uri: str
    host: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes | None
    connection_timeout_ms: int
    read_timeout_ms: int
    hidden: tuple[str, ...] = attrs.field(default=(), repr=False)


def read_request(given: Mapping[str, Any]) -> Request:
    """The request in an HTTP task's input; raises TaskFailedTerminally naming the path of every problem."""
    nested = given.get("http_request")
    path = "$" if nested is None else "$.http_request"
    problems: list[str] = []
    if nested is not None and not isinstance(nested, Mapping):
        raise TaskFailedTerminally(f"{path}: is not an object")
    fields = given if nested is None else nested
    uri, host, hidden = _uri(fields.get("uri"), f"{path}.uri", problems)
    headers = _headers(fields.get("headers"), f"{path}.headers", problems)
    there = {name.lower(): value for name, value in headers}
    if "accept" not in there:
        headers.append(("Accept", _accept(fields.get("accept"), f"{path}.accept", problems)))
    content_type = there.get("content-type") or _content_type(fields.get("contentType"), f"{path}.contentType", problems)
    body = _body(fields.get("body"), content_type, path, problems)
    if body is not None and "content-type" not in there:
        headers.append(("Content-Type", content_type))
    request = Request(
        method=_method(fields.get("method"), f"{path}.method", problems),
        uri=uri,
        host=host,
        headers=tuple((name.encode(), _encoded(value)) for name, value in headers),
        body=body,
        connection_timeout_ms=_timeout(fields.get("connectionTimeOut"), f"{path}.connectionTimeOut", problems),
        read_timeout_ms=_timeout(fields.get("readTimeOut"), f"{path}.readTimeOut", problems),
        hidden=(*hidden, *(text for name in _PASSWORDS if (text := there.get(name)))),
    )
    if problems:
        raise TaskFailedTerminally("; ".join(problems))
    return request


def decoder_of(content_type: str) -> str | None:
    """The encoding a content type names, `utf-8` when it names none; None for one that is not known here."""
    found = _CHARSET.search(content_type)
    if found is None:
        return "utf-8"
    return found[1] if _ENCODINGS.fullmatch(found[1]) else None


def _uri(uri: Any, path: str, problems: list[str]) -> tuple[str, str, tuple[str, ...]]:
    """The address, the host as messages name it, and the password in it."""
    if uri is None or uri == "":
        problems.append(f"{path}: is missing: HTTP needs it")
        return "", "", ()
    try:
        parts = urlsplit(uri.strip()) if isinstance(uri, str) else None
        port = parts.port if parts is not None else None
    except ValueError:
        parts = port = None
    if parts is None or parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        problems.append(f"{path}: is not the address of a host, beginning with http:// or https://")
        return "", "", ()
    host = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return uri.strip(), host, (parts.password,) if parts.password else ()


def _method(method: Any, path: str, problems: list[str]) -> str:
    if method is None or method == "":
        problems.append(f"{path}: is missing: HTTP needs it")
    elif not isinstance(method, str) or not _TOKEN.fullmatch(method) or method.upper() == "CONNECT":
        problems.append(f"{path}: is no method such as GET or POST")
    else:
        return method.upper()
    return ""


def _headers(headers: Any, path: str, problems: list[str]) -> list[tuple[str, str]]:
    if headers is None:
        return []
    if not isinstance(headers, Mapping):
        problems.append(f"{path}: is not an object")
        return []
    found = []
    for name, value in headers.items():
        if value is None:
            continue
        text = (value if isinstance(value, str) else canonical(value)).strip()
        if not _TOKEN.fullmatch(name):
            problems.append(f"{step_path(path, name)}: is no name of a header")
        elif not _FIELD.fullmatch(text):
            problems.append(f"{step_path(path, name)}: has a character that no header may have")
        elif name.lower() in ("content-length", "transfer-encoding", "connection"):
            problems.append(f"{step_path(path, name)}: is set by the connection itself")
        else:
            found.append((name, text))
    return found


def _accept(accept: Any, path: str, problems: list[str]) -> str:
    accepted = [accept] if isinstance(accept, str) else [] if accept is None else accept
    if not isinstance(accepted, list | tuple) or not all(_line(text) for text in accepted):
        problems.append(f"{path}: is neither a media type nor a list of them")
        return _JSON
    return ", ".join(text.strip() for text in accepted) or _JSON


def _content_type(content_type: Any, path: str, problems: list[str]) -> str:
    if content_type is None or content_type == "":
        return _JSON
    if not _line(content_type):
        problems.append(f"{path}: is no media type")
        return _JSON
    return str(content_type).strip()


def _line(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip()) and _FIELD.fullmatch(text.strip()) is not None


def _body(body: Any, content_type: str, path: str, problems: list[str]) -> bytes | None:
    """The body's bytes. Text is sent as it is; other values are written as the content type says."""
    if body is None:
        return None
    media = content_type.partition(";")[0].strip().lower()
    if isinstance(body, str):
        text = body
    elif media == _FORM and isinstance(body, Mapping):
        return urlencode([pair for name, value in body.items() for pair in _pairs(name, value)]).encode()
    elif media == _JSON or media.endswith("+json"):
        text = canonical(body)
    else:
        problems.append(f"{path}.body: is not text, and only JSON and forms are written as {media or 'that'}")
        return None
    encoding = decoder_of(content_type)
    try:
        return text.encode(encoding or "")
    except (LookupError, UnicodeEncodeError):
        problems.append(f"{path}.body: cannot be written in the charset of {media}")
        return None


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    values = value if isinstance(value, list | tuple) else [value]
    return [(name, one if isinstance(one, str) else canonical(one)) for one in values if one is not None]


def _encoded(value: str) -> bytes:
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode()


def _timeout(value: Any, path: str, problems: list[str]) -> int:
    if value is None:
        return _TIMEOUT_MS
    text = value.strip() if isinstance(value, str) else value
    try:
        number = 0 if isinstance(text, bool) else round(float(text))
    except (TypeError, ValueError, OverflowError):
        number = 0
    if not 0 < number <= _LONGEST_MS:
        problems.append(f"{path}: is no number of milliseconds from 1 to {_LONGEST_MS}")
        return _TIMEOUT_MS
    return number


_FAILED: Final = "Failed to invoke HTTP task due to:"


@attrs.frozen(kw_only=True, slots=True)
class Reply:
    """The reply of a server; the body without its transfer and content encodings."""

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
        reason = None if problem is None else f"{_FAILED} {_described(problem, request)} ({request.method} {request.host})"
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


def _described(problem: str, request: Request) -> str:
    # Ours never quote a header; what a library says of a connection might.
    for secret in request.hidden:
        problem = problem.replace(secret, "…")
    return " ".join(problem.split()).encode("utf-8", "replace").decode()


#: Where httpx and what it stands on report addresses, which may hold a secret, and headers.
_TELLTALES: Final = (
    "httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy", "httpcore.socks",
)  # fmt: skip
_in_exchange: ContextVar[bool] = ContextVar("_in_exchange", default=False)


def _unlogged() -> AbstractContextManager[None]:
    """Keep the loggers of httpx silent about the request that is made inside; about all others they speak as before."""
    _mute()
    return carried(_in_exchange, True)


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
    ours |= {name.encode(): value.encode() for name, value in carried_headers().items()}
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
