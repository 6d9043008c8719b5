"""Who may ask what of an app of ours: the middleware around each of them, and the settings it is given.

Rules. A request names a host that is meant: loopback, or one of `Safety.hosts` (a page elsewhere may have its name resolve to
this machine: DNS rebinding). A browser's request comes from a page of this app, or one of `Safety.origins`. Without a token a
caller may do nothing, save on loopback, where `Safety.anonymous` says what. A browser adds the session's cookie by itself, so what
changes something needs a proof that our page sent it (CSRF). Bodies are read here: bounded in size and time, whole or refused.
A header that may not repeat may stand there twice with the same value, as some clients send it.

No token, session or header is logged or answered. What an app raises is logged, and answered without a word of it; what a
stranger has sent is escaped in the log.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256
from inspect import isawaitable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qsl

import attrs

from conductorlite.model.errors import InvalidInput
from conductorlite.model.texts import escape_for_log, format_traceback

__all__ = [
    "Answer",
    "App",
    "Caller",
    "Guard",
    "Receive",
    "Role",
    "Safety",
    "Scope",
    "Send",
    "caller_of",
    "is_loopback",
    "needed_by_method",
    "new_token",
]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOG: Final = logging.getLogger("conductorlite.server")

#: A `Host` header: an IPv6 address in brackets, or a name or an IPv4 address; and a port. Nothing else may stand there.
_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)\]|(?P<name>[a-z0-9._-]+))(?::[0-9]{1,5})?")

#: An `Origin` header: scheme and host, and a port that is not the scheme's own.
_ORIGIN: Final = re.compile(rf"[a-z][a-z0-9+.-]*://{_HOST.pattern}")

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_ONCE: Final = frozenset({"host", "origin", "authorization", "x-authorization", "content-length", "content-type", "x-csrf-token"})
_FORM: Final = "application/x-www-form-urlencoded"

#: What shows that a request was passed on by another server: its address is not the caller's.
_RELAYED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")

#: What each answer says unless the app says otherwise.
_HEADERS: Final = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # with `no-referrer` a form of ours would come from the origin `null`
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}

#: Sessions of browsers that are kept; the one that was used longest ago goes first.
_SESSIONS: Final = 1_000

#: Characters that a static token has at least.
_SHORTEST: Final = 16


class Role(IntEnum):
    """Permissions of a caller; each role includes those below."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@attrs.frozen(kw_only=True, slots=True)
class Caller:
    """The client of a request: its role, and its name if known."""

    role: Role
    name: str | None = None


#: Answers for a token: who shows it, or None for one it does not know. It is called on the event loop: quick, or a coroutine.
TokenCheck = Callable[[str], "Caller | Role | Awaitable[Caller | Role | None] | None"]


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


@attrs.frozen(kw_only=True, slots=True)
class Safety:
    """Settings that protect an app.

    `token` is a text of 16 characters or more, whose holder may do everything, or a callable that says who shows one. `anonymous`
    is what a caller without a token may do, on loopback only and not through another server; None: nothing. `hosts` are names
    (without a port) under which the app is called besides `localhost` and loopback addresses, `origins` pages elsewhere whose
    scripts may ask, and under which a proxy shows this app (`https://ops.example.com`). `read_only` refuses whatever needs more
    than READ. Sizes are bytes; seconds: a body comes within `body_seconds`, an answer begins within `answer_seconds`, and a client
    that takes no part of it for `send_seconds` is cut off. Raises InvalidInput for a short token and for what is no origin.
    """

    token: str | TokenCheck | None = attrs.field(default=None, repr=False)
    anonymous: Role | None = Role.READ
    hosts: frozenset[str] = attrs.field(default=frozenset(), converter=_lower)
    origins: frozenset[str] = attrs.field(default=frozenset(), converter=_lower)
    read_only: bool = False
    max_body: int = 16 * 1024 * 1024
    max_headers: int = 32 * 1024
    concurrency: int = 2_000
    body_seconds: float = 30
    answer_seconds: float = 120
    send_seconds: float = 60

    def __attrs_post_init__(self) -> None:
        if isinstance(self.token, str) and len(self.token) < _SHORTEST:
            raise InvalidInput(f"a token has {_SHORTEST} characters at least, this one has {len(self.token)}")
        for origin in sorted(self.origins):
            if not _ORIGIN.fullmatch(origin):
                raise InvalidInput(
                    f"{origin!r:.100} is no origin: scheme, host and port of a page, such as https://ops.example.com"
                )

    async def who(self, token: str | None, *, near: bool) -> Caller | None:
        """Return the caller who shows a token, or none; `near` says whether they are on this machine. None: nobody."""
        if token is not None:
            return await self._known(token)
        return Caller(role=self.anonymous) if near and self.anonymous is not None else None

    async def _known(self, token: str) -> Caller | None:
        check = self.token
        if check is None:
            return None
        if isinstance(check, str):
            return Caller(role=Role.ADMIN) if _same(token, check) else None
        found = check(token)
        if isawaitable(found):
            found = await found
        return found if isinstance(found, Caller) or found is None else Caller(role=Role(found))


def _same(one: str, other: str) -> bool:
    """Return True if two secrets are equal, in a time that depends on neither."""
    return hmac.compare_digest(sha256(one.encode()).digest(), sha256(other.encode()).digest())


@lru_cache(256)
def is_loopback(host: str) -> bool:
    """Return True if a name or address, in brackets or not, is this machine's own and reached from nowhere else."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_urlsafe(24)


def needed_by_method(method: str, path: str) -> Role | None:
    """The role for a request: READ for what changes nothing, else WRITE."""
    return Role.READ if method in _SAFE else Role.WRITE


def caller_of(scope: Scope) -> Caller:
    """Return the caller of a request behind a `Guard`; raises KeyError where no role is needed."""
    caller: Caller = scope["conductorlite.caller"]
    return caller


class Answer(Exception):
    """Ends a request with a status and a sentence, in Conductor's form of an error; never leaves the `Guard`."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status, self.headers = status, [*headers]

    async def send(self, send: Send) -> None:
        """Send it."""
        body = b"" if self.status < 400 else self._body()
        headers = [
            *self.headers,
            (b"content-length", b"%d" % len(body)),
            *([(b"content-type", b"application/json")] if body else []),
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _body(self) -> bytes:
        return json.dumps({"status": self.status, "message": str(self), "retryable": self.status == 503}).encode()


@attrs.frozen(slots=True)
class _Request:
    """The parts of a request that are checked before an app is called."""

    method: str
    path: str
    scheme: str
    headers: Mapping[str, str]
    #: With its port, as it was called, lower case.
    host: str
    #: Whether the caller is on this machine, and called it by a name of its own.
    near: bool

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: ports share cookies, so it has this one's."""
        return f"conductorlite-{int(self.host.rpartition(']')[2].partition(':')[2] or 0)}"

    def session(self) -> str | None:
        """The session that a browser shows."""
        for part in self.headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return value
        return None

    def token(self) -> str | None:
        """The token that a program shows: `Authorization: Bearer …`, or `X-Authorization`, as Conductor's clients do."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else self.headers.get("x-authorization")


class Guard:
    """The middleware: an app behind `Safety`.

    `needs` says what role a method on a path (below the mount) takes; None: none. `login` is the path of a page where a browser is
    sent that shows no token.
    """

    def __init__(
        self,
        app: App,
        safety: Safety,
        *,
        needs: Callable[[str, str], Role | None] = needed_by_method,
        login: str | None = None,
    ) -> None:
        self._app, self.safety, self._needs, self._login = app, safety, needs, login
        self._busy = 0
        #: The token of each session, checked with each request.
        self._sessions: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            await receive()
            return await send({"type": "websocket.close", "code": 1008})
        sent = _Sending(send, self.safety.send_seconds)
        if self._busy >= self.safety.concurrency:
            return await Answer(503, "too many requests at once", [(b"retry-after", b"1")]).send(sent)
        self._busy += 1
        try:
            await self._answered(scope, receive, sent)
        except Answer as answer:
            if not sent.started:
                await answer.send(sent)
        except Exception as error:
            # A client that went away, or takes nothing, is no error of the app's.
            if not isinstance(error, OSError | TimeoutError):
                asked = escape_for_log(f"{scope['method']} {scope['path']}")
                _LOG.error("%s raised %s\n%s", asked, type(error).__name__, format_traceback(error))
            if not sent.started:
                await Answer(500, "an error that should not happen; the server's log says more").send(sent)
        finally:
            self._busy -= 1

    async def _answered(self, scope: Scope, receive: Receive, send: _Sending) -> None:
        request = _looked_at(scope, self.safety)
        if (given := request.headers.get("origin", "").lower()) in self.safety.origins:
            send.extra += [(b"access-control-allow-origin", given.encode()), (b"vary", b"Origin")]
            if request.method == "OPTIONS" and "access-control-request-method" in request.headers:
                raise Answer(204, "", _preflight(request))
        session, caller = await self._caller(request)
        needed = self._needs(request.method, request.path)
        if needed is not None:
            self._admitted(request, caller, needed, scope.get("root_path", ""), shown=session or request.token())
        body = b"" if _bodiless(scope, request) else await _body(request, receive, self.safety)
        if session and needed is not None and request.method not in _SAFE and not _proven(request, body, session):
            raise Answer(403, "the proof that a page of this server sent this is missing or wrong: load the page again")
        scope["conductorlite.guard"], scope["conductorlite.csrf"] = self, None if session is None else _proof(session)
        if caller is not None:
            scope["conductorlite.caller"] = caller
        try:
            async with asyncio.timeout(self.safety.answer_seconds) as deadline:
                send.deadline = deadline
                await self._app(scope, _received(body, receive), send)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise Answer(503, f"there was no answer within {self.safety.answer_seconds:g} s") from None
        finally:
            send.deadline = None

    def _admitted(self, request: _Request, caller: Caller | None, needed: Role, root: str, *, shown: str | None) -> None:
        """Raise unless the caller may."""
        if needed > Role.READ and self.safety.read_only:
            raise Answer(403, "this server is read-only")
        if caller is not None and caller.role >= needed:
            return
        if caller is not None and shown is not None:
            raise Answer(403, f"this needs the role {needed.name}, the caller has {caller.role.name}")
        if self._login is not None and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            raise Answer(303, "", [(b"location", f"{root}{self._login}".encode())])
        raise Answer(401, f"this needs a token for the role {needed.name}", [(b"www-authenticate", b"Bearer")])

    async def _caller(self, request: _Request) -> tuple[str | None, Caller | None]:
        """Return the caller, and the session by which a browser is recognized."""
        token, session = request.token(), request.session()
        if token is None and session is not None:
            kept = self._sessions.get(session)
            caller = None if kept is None else await self.safety.who(kept, near=request.near)
            if caller is not None:
                self._sessions.move_to_end(session)
                return session, caller
        return None, await self.safety.who(token, near=request.near)

    async def sign_in(self, scope: Scope, token: str) -> str | None:
        """The `Set-Cookie` of a new session for a token; None for a token that nobody has."""
        if await self.safety.who(token, near=False) is None:
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[session] = token
        while len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        return _cookie(scope, self.safety, session)

    def sign_out(self, scope: Scope) -> str:
        """The `Set-Cookie` that ends a session."""
        self._sessions.pop(_looked_at(scope, self.safety).session() or "", None)
        return f"{_cookie(scope, self.safety, '')}; Max-Age=0"


def _cookie(scope: Scope, safety: Safety, session: str) -> str:
    request = _looked_at(scope, safety)
    secure = "; Secure" if request.scheme == "https" else ""
    return f"{request.cookie}={session}; Path={scope.get('root_path') or '/'}; HttpOnly; SameSite=Strict{secure}"


def _looked_at(scope: Scope, safety: Safety) -> _Request:
    """The request, if its headers, its host and where it comes from are right; raises Answer."""
    headers: dict[str, str] = {}
    size = len(scope["path"]) + len(scope.get("query_string", b""))
    for name, value in scope["headers"]:
        size += len(name) + len(value)
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if key not in headers:
            headers[key] = text
        elif key not in _ONCE:
            headers[key] = f"{headers[key]}; {text}"
        elif headers[key].strip() != text.strip():
            raise Answer(400, f"the header {key} is there twice, with different values")
    if size > safety.max_headers:
        raise Answer(431, f"address and headers are more than {safety.max_headers} bytes")
    host = headers.get("host", "").strip().lower()
    parts = _HOST.fullmatch(host)
    name = "" if parts is None else (parts["address"] or parts["name"])
    if not (is_loopback(name) or name in safety.hosts):
        raise Answer(403, "this server does not answer to the host that was called")
    root, server, client = scope.get("root_path", ""), scope.get("server"), scope.get("client")
    near = is_loopback(name) and all(end is None or is_loopback(str(end[0])) for end in (server, client))
    request = _Request(
        method=scope["method"],
        path=scope["path"].removeprefix(root) or "/",
        scheme=scope.get("scheme", "http"),
        headers=headers,
        host=host,
        near=near and not any(one in headers for one in _RELAYED),
    )
    _check_origin(request, safety)
    return request


def _check_origin(request: _Request, safety: Safety) -> None:
    """Refuse what a browser sends on behalf of another site; to follow a link from there is no such thing."""
    origin = request.headers.get("origin")
    if origin is not None:
        if origin.lower() not in (f"{request.scheme}://{request.host}", *safety.origins):
            raise Answer(403, "this server does not answer to pages of another origin")
        return
    followed = request.method in ("GET", "HEAD") and request.headers.get("sec-fetch-mode") == "navigate"
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not followed:
        raise Answer(403, "this server does not answer to pages of another site")


def _preflight(request: _Request) -> list[tuple[bytes, bytes]]:
    asked = request.headers.get("access-control-request-headers", "authorization, content-type")
    return [
        (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", asked.encode("latin-1")),
        (b"access-control-max-age", b"600"),
    ]


def _proof(session: str) -> str:
    """Return the proof of a session, which only a page made for that session can carry."""
    return hmac.new(session.encode(), b"csrf", sha256).hexdigest()


def _proven(request: _Request, body: bytes, session: str) -> bool:
    given = request.headers.get("x-csrf-token")
    if given is None and request.headers.get("content-type", "").partition(";")[0].strip().lower() == _FORM:
        given = dict(parse_qsl(body.decode("utf-8", "replace"))).get("csrf")
    return given is not None and _same(given, _proof(session))


def _bodiless(scope: Scope, request: _Request) -> bool:
    """Return True if no body can come: in HTTP/1 the headers say."""
    said = {"content-length", "transfer-encoding"} & request.headers.keys()
    return not said and str(scope.get("http_version", "1.1")).startswith("1")


async def _body(request: _Request, receive: Receive, safety: Safety) -> bytes:
    """The whole body; raises Answer for one that is too large or too slow."""
    said = request.headers.get("content-length")
    too_large = Answer(413, f"the body is more than {safety.max_body} bytes")
    if said is not None and (not said.isdecimal() or int(said[:20]) > safety.max_body):
        raise too_large if said.isdecimal() else Answer(400, "content-length is no number")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(safety.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > safety.max_body:
                    raise too_large
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Answer(408, f"the body did not come within {safety.body_seconds:g} s", [(b"connection", b"close")]) from None


def _received(body: bytes, receive: Receive) -> Receive:
    """Return the `receive` of the app: the whole body at once, then whatever else comes."""
    whole = [body]

    async def next_message() -> Message:
        if whole:
            return {"type": "http.request", "body": whole.pop(), "more_body": False}
        while (message := await receive())["type"] == "http.request":
            pass
        return message

    return next_message


class _Sending:
    """The `send` of the app: adds the headers of every answer, and sends only to a client that is still there."""

    def __init__(self, send: Send, seconds: float) -> None:
        self._send, self._seconds = send, seconds
        self.started = False
        self.extra: list[tuple[bytes, bytes]] = []
        #: Of the answer's beginning.
        self.deadline: asyncio.Timeout | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if self.deadline is not None:
                self.deadline.reschedule(None)
            given = [*message.get("headers", ()), *self.extra]
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": [*given, *(one for one in _HEADERS.items() if one[0] not in names)]}
        async with asyncio.timeout(self._seconds):
            await self._send(message)
