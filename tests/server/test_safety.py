"""Who is refused by the guard around every app, and that nothing secret is answered or logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from conductorlite.errors import InvalidInput
from conductorlite.model.texts import escape_for_log
from conductorlite.server.safety import App, Caller, Guard, Receive, Role, Safety, Scope, caller_of, is_loopback

TOKEN = "correct-horse-battery-staple"
OURS = "http://localhost:8400"


async def echo(scope: Scope, receive: Receive, send: Any) -> None:
    """Answers with what it was given: who asks, and the body."""
    body = (await receive())["body"]
    role = caller_of(scope).role.name if "conductorlite.caller" in scope else "nobody"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": role.encode() + b" " + body})


def asked(
    guard: Guard, *requests: tuple[str, str, dict[str, Any]], base: str = OURS, client: str = "127.0.0.1"
) -> list[httpx.Response]:
    """The answers to requests (method, path, options), one after another."""

    async def main() -> list[httpx.Response]:
        transport = httpx.ASGITransport(guard, client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url=base) as session:
            return [await session.request(method, path, **options) for method, path, options in requests]

    return asyncio.run(asyncio.wait_for(main(), 20))


def statuses(guard: App, *requests: tuple[str, str, dict[str, Any]], **options: Any) -> list[int]:
    """Their statuses."""
    return [answer.status_code for answer in asked(guard, *requests, **options)]


def shown(**headers: str) -> dict[str, Any]:
    """Options of a request with headers."""
    return {"headers": {name.replace("_", "-"): value for name, value in headers.items()}}


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "a@localhost", "[::1", "10.0.0.1"),
        *(
            "[::1].evil.com",
            "[::1]evil.com",
            "[::1].evil.com:80",
            "[::1]:80@evil.com",
            "[::1]:80.evil.com",
            "[localhost]",
            "[127.0.0.1]",
        ),
        *(
            "localhost#evil",
            "localhost?evil",
            "localhost/evil",
            "localhost\\evil",
            "localhost;evil",
            "localhost evil",
            "localhost,evil",
        ),
        *(
            "localhost:80:80",
            "localhost:x",
            "localhost:-1",
            "localhost:80evil",
            ":80",
            "local\thost",
            "localhost%2eevil",
            "::1",
            "[]",
        ),
    ],
)
def test_a_foreign_host_is_refused(host: str) -> None:
    """A name that somebody else's DNS resolves to this machine opens nothing, whatever else the request shows."""
    assert statuses(Guard(echo, Safety(token=TOKEN)), ("GET", "/", shown(host=host, authorization=f"Bearer {TOKEN}"))) == [403]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8400", "127.0.0.1:1", "127.9.9.9", "[::1]:8400", "ops.example:443"])
def test_hosts_that_are_meant(host: str) -> None:
    """Loopback by name or address, and what `hosts` names."""
    guard = Guard(echo, Safety(token=TOKEN, hosts=["Ops.Example"]))
    assert statuses(guard, ("GET", "/", shown(host=host, authorization=f"Bearer {TOKEN}"))) == [200]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "https://localhost:8400"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
        ({"origin": OURS}, 200),
        ({"origin": "https://ops.example"}, 200),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({}, 200),
    ],
)
def test_a_foreign_origin_is_refused(headers: dict[str, str], status: int) -> None:
    """A page of another origin, also of another port, changes nothing, with or without the token."""
    guard = Guard(echo, Safety(token=TOKEN, anonymous=Role.WRITE, origins=["https://ops.example"]))
    assert statuses(guard, ("POST", "/", shown(**headers))) == [status]
    assert statuses(guard, ("POST", "/", shown(authorization=f"Bearer {TOKEN}", **headers))) == [status]


def test_a_link_from_elsewhere_may_be_followed() -> None:
    """It is a browser's navigation; an element or a script of that page is not."""
    elsewhere = {"sec_fetch_site": "cross-site"}
    requests = [("GET", "/", shown(**elsewhere, sec_fetch_mode=mode)) for mode in ("navigate", "no-cors", "cors")]
    assert statuses(Guard(echo, Safety()), *requests) == [200, 403, 403]


def test_pages_elsewhere_that_are_named_may_ask() -> None:
    """Their preflight is answered, and the answer says that they may read it."""
    guard = Guard(echo, Safety(token=TOKEN, origins=["https://ops.example"]))
    ask = shown(origin="https://ops.example", access_control_request_method="PUT", access_control_request_headers="x-authorization")
    preflight, real = asked(guard, ("OPTIONS", "/", ask), ("GET", "/", shown(origin="https://ops.example", x_authorization=TOKEN)))
    assert (preflight.status_code, preflight.headers["access-control-allow-headers"]) == (204, "x-authorization")
    assert real.headers["access-control-allow-origin"] == "https://ops.example"
    assert real.text == "ADMIN "


@pytest.mark.parametrize("token", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "ü" * 16])
def test_a_wrong_token_is_nobody(token: str) -> None:
    """Also where no token at all would do: who shows one means it."""
    guard = Guard(echo, Safety(token=TOKEN, anonymous=Role.ADMIN))
    headers = {"headers": {"authorization": f"Bearer {token}".encode()}}
    assert statuses(guard, ("GET", "/", headers), ("GET", "/", {})) == [401, 200]


def test_who_asks() -> None:
    """A callable says it, awaited or not: their role decides, and which paths need none or another one."""

    async def later(token: str) -> Caller | None:
        return {"r" * 9: Caller(role=Role.READ), "w" * 9: Caller(role=Role.WRITE, name="wendy")}.get(token)

    def at_once(token: str) -> Role | None:
        return {"r" * 9: Role.READ, "w" * 9: Role.WRITE}.get(token)

    def needs(method: str, path: str) -> Role | None:
        return None if path == "/health" else Role.ADMIN if path == "/admin" else Role.READ if method == "GET" else Role.WRITE

    for check in (later, at_once):
        guard = Guard(echo, Safety(token=check, anonymous=None), needs=needs)
        wanted = [("GET", "/health"), ("GET", "/"), ("POST", "/"), ("GET", "/admin")]
        for token, answers in (("r", [200, 200, 403, 403]), ("w", [200, 200, 200, 403]), ("x", [200, 401, 401, 401])):
            assert statuses(guard, *((method, path, shown(x_authorization=token * 9)) for method, path in wanted)) == answers


@pytest.mark.parametrize(
    ("base", "client", "headers"),
    [
        ("http://ops.example", "127.0.0.1", {}),
        ("http://localhost", "10.0.0.7", {}),
        ("http://localhost", "127.0.0.1", {"x-forwarded-for": "10.0.0.7"}),
        ("http://localhost", "127.0.0.1", {"forwarded": "for=10.0.0.7"}),
    ],
)
def test_without_a_token_only_this_machine_may_ask(base: str, client: str, headers: dict[str, str]) -> None:
    """Not through another server, nor by another name, nor from elsewhere."""
    guard = Guard(echo, Safety(anonymous=Role.ADMIN, hosts=["ops.example"]))
    assert statuses(guard, ("GET", "/", {"headers": headers}), base=base, client=client) == [401]


def test_read_only_refuses_every_change() -> None:
    """Whoever asks."""
    guard = Guard(echo, Safety(token=TOKEN, read_only=True))
    requests = [(method, "/", shown(authorization=f"Bearer {TOKEN}")) for method in ("GET", "POST", "PUT", "DELETE", "PATCH")]
    assert statuses(guard, *requests) == [200, 403, 403, 403, 403]


def test_a_browser_shows_its_session_and_a_proof() -> None:
    """Signed in, a browser may read; to change something it shows what only our page knows, in a header or a field of its form."""
    proofs: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Any) -> None:
        guard = scope["conductorlite.guard"]
        proofs.append(scope["conductorlite.csrf"])
        if scope["path"] == "/login":
            given = await guard.sign_in(scope, (await receive())["body"].decode())
            cookies = [(b"set-cookie", given.encode())] if given else []
            await send({"type": "http.response.start", "status": 200, "headers": cookies})
            await send({"type": "http.response.body"})
        elif scope["path"] == "/logout":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"set-cookie", guard.sign_out(scope).encode())]})
            await send({"type": "http.response.body"})
        else:
            await echo(scope, receive, send)

    guard = Guard(app, Safety(token=TOKEN), needs=lambda method, path: None if path == "/login" else Role.WRITE, login="/login")
    [sent] = asked(guard, ("GET", "/", shown(accept="text/html")))
    assert (sent.status_code, sent.headers["location"]) == (303, "/login")
    [wrong, right] = asked(
        guard, ("POST", "/login", {"content": "guessed-guessed-guessed"}), ("POST", "/login", {"content": TOKEN})
    )
    assert "set-cookie" not in wrong.headers
    cookie, _, flags = right.headers["set-cookie"].partition("; ")
    assert "HttpOnly" in flags
    assert "SameSite=Strict" in flags
    assert TOKEN not in str(right.headers)
    [seen] = asked(guard, ("GET", "/", shown(cookie=cookie)))
    assert seen.text == "ADMIN "
    proof = proofs[-1]
    form = {"content-type": "application/x-www-form-urlencoded", "cookie": cookie}
    answers = statuses(
        guard,
        ("POST", "/", shown(cookie=cookie)),
        ("POST", "/", shown(cookie=cookie, x_csrf_token="0" * 64)),
        ("POST", "/", {"headers": form, "content": "a=1"}),
        ("POST", "/", shown(cookie=cookie, x_csrf_token=proof)),
        ("POST", "/", {"headers": form, "content": f"a=1&csrf={proof}"}),
        ("POST", "/logout", shown(cookie=cookie, x_csrf_token=proof)),
        ("GET", "/", shown(cookie=cookie)),
    )
    assert answers == [403, 403, 403, 200, 200, 200, 401]


def test_a_session_ends_with_its_token() -> None:
    """The callable is asked each time."""
    valid = {"t" * 20}
    guard = Guard(echo, Safety(token=lambda token: Role.READ if token in valid else None, anonymous=None))
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost:8400")]}
    cookie = asyncio.run(guard.sign_in(scope, "t" * 20))
    assert cookie is not None
    assert statuses(guard, ("GET", "/", shown(cookie=cookie.partition(";")[0]))) == [200]
    valid.clear()
    assert statuses(guard, ("GET", "/", shown(cookie=cookie.partition(";")[0]))) == [401]


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def test_bodies_are_bounded() -> None:
    """By what they say of themselves, and by what comes; one that fits is handed over whole."""
    guard = Guard(echo, Safety(anonymous=Role.WRITE, max_body=10, max_headers=2_000))
    answers = asked(
        guard,
        ("POST", "/", {"content": b"x" * 11}),
        ("POST", "/", {"content": b"", "headers": {"content-length": "9" * 30}}),
        ("POST", "/", {"content": b"", "headers": {"content-length": "-1"}}),
        ("POST", "/", {"content": _pieces(b"12345", b"678901")}),
        ("POST", "/", {"content": _pieces(b"12345", b"67890")}),
        ("GET", "/", shown(big="x" * 2_000)),
    )
    assert [answer.status_code for answer in answers] == [413, 413, 400, 413, 200, 431]
    assert answers[4].text == "WRITE 1234567890"


def _called(guard: Guard, receive: Callable[[], Awaitable[Any]], **extra: Any) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(b"host", b"localhost"), (b"content-length", b"1")],
        **extra,
    }
    asyncio.run(asyncio.wait_for(guard(scope, receive, send), 20))
    return sent


def test_who_is_slow_is_cut_off() -> None:
    """A body that does not come, an answer that is not begun, and one that nobody takes."""

    async def never() -> Any:
        await asyncio.Event().wait()

    async def body() -> Any:
        return {"type": "http.request", "body": b"1"}

    async def silent(scope: Scope, receive: Receive, send: Any) -> None:
        await never()

    quick = Safety(anonymous=Role.WRITE, body_seconds=0, answer_seconds=0)
    assert [one.get("status") for one in _called(Guard(echo, quick), never)] == [408, None]
    assert [one.get("status") for one in _called(Guard(silent, quick), body)] == [503, None]

    taken: list[Any] = []

    async def stuck(message: Any) -> None:
        taken.append(message)
        await never()

    guard = Guard(echo, Safety(anonymous=Role.WRITE, send_seconds=0))
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"localhost")]}
    asyncio.run(asyncio.wait_for(guard(scope, body, stuck), 20))
    assert len(taken) <= 1


def test_so_many_at_once() -> None:
    """Who comes above the limit is asked to come again; each place is free again, also after an error."""

    async def main() -> list[int]:
        go = asyncio.Event()

        async def waiting(scope: Scope, receive: Receive, send: Any) -> None:
            await go.wait()
            raise ValueError("no matter what")

        guard = Guard(waiting, Safety(concurrency=2))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=OURS) as session:
            asked = [asyncio.create_task(session.get("/")) for _ in range(3)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            go.set()
            answers = [await one for one in asked]
            return [*sorted(one.status_code for one in answers), (await session.get("/")).status_code]

    logging.getLogger("conductorlite.server").disabled = True
    try:
        assert asyncio.run(asyncio.wait_for(main(), 20)) == [500, 500, 503, 500]
    finally:
        logging.getLogger("conductorlite.server").disabled = False


def test_an_error_says_nothing_of_itself(caplog: pytest.LogCaptureFixture) -> None:
    """The answer has no word of what was raised; the log has it, and no header, token or body of the request."""

    async def broken(scope: Scope, receive: Receive, send: Any) -> None:
        raise KeyError("from inside")

    guard = Guard(broken, Safety(token=TOKEN))
    options = {"headers": {"authorization": f"Bearer {TOKEN}"}, "content": "body-of-mine"}
    [answer] = asked(guard, ("POST", "/x?token=in-the-query", options))
    assert (answer.status_code, "inside" in answer.text) == (500, False)
    assert "POST /x raised KeyError" in caplog.text
    assert "  KeyError: 'from inside'" in caplog.text
    assert not [one for one in (TOKEN, "body-of-mine", "in-the-query") if one in caplog.text + answer.text + str(answer.headers)]
    assert TOKEN not in repr(guard.safety)


def test_every_answer_has_the_headers_of_safety() -> None:
    """Of the app, and of the guard itself; what the app says stands."""

    async def app(scope: Scope, receive: Receive, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Security-Policy", b"default-src 'self'")]})
        await send({"type": "http.response.body"})

    own, refused = asked(Guard(app, Safety()), ("GET", "/", {}), ("POST", "/", {}))
    assert own.headers["content-security-policy"] == "default-src 'self'"
    assert "default-src 'none'" in refused.headers["content-security-policy"]
    for answer in (own, refused):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert (refused.status_code, refused.json()["retryable"]) == (401, False)


@pytest.mark.parametrize("text", ["/\n2026 INFO all is well", "/\r\x1b[2J\x1b[31m", "/\u202e\u2028\x85\x00", "/\\n", "/é😀"])
def test_what_a_stranger_sends_is_escaped_in_the_log(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A line of the log begins where the log begins one, whatever stands in a path or in what is raised about it."""

    async def broken(scope: Scope, receive: Receive, send: Any) -> None:
        raise ValueError(f"bad: {scope['path']}") from OSError(scope["path"])

    _called(Guard(broken, Safety()), _whole_body, path=text, method="GET")
    (record,) = caplog.records
    first, *others = record.getMessage().split("\n")
    assert first == f"GET {escape_for_log(text)} raised ValueError"
    assert len(others) > 3
    assert all(one.startswith("  ") and one.isprintable() for one in others)
    assert first.isascii()


async def _whole_body() -> Any:
    return {"type": "http.request", "body": b""}


def test_odd_requests() -> None:
    """A header that is there twice with different values, and a WebSocket, are refused."""
    for name, one, other in (
        (b"host", b"localhost", b"evil.example"),
        (b"authorization", b"Bearer a", b"Bearer b"),
        (b"x-authorization", b"a", b""),
        (b"origin", OURS.encode(), b"null"),
        (b"content-type", b"application/json", b"text/plain"),
        (b"content-length", b"0", b"1"),
        (b"x-csrf-token", b"a", b"b"),
    ):
        twice = [*([] if name == b"host" else [(b"host", b"localhost")]), (name, one), (name.title(), other)]
        assert _called(Guard(echo, Safety()), _whole_body, headers=twice)[0]["status"] == 400

    async def nothing() -> Any:
        return {"type": "websocket.connect"}

    assert _called(Guard(echo, Safety()), nothing, type="websocket") == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("host", "localhost:8400"), ("authorization", f"Bearer {TOKEN}"), ("x-authorization", TOKEN), ("origin", OURS)),
        *(("content-type", "application/json"), ("content-length", "2"), ("x-csrf-token", "x"), ("accept", "application/json")),
    ],
)
def test_the_same_header_twice_is_one(name: str, value: str) -> None:
    """A client's default header and the request's own, as an official SDK sends them: equal repeats are that value."""
    guard = Guard(echo, Safety(anonymous=Role.ADMIN, token=TOKEN))
    others = {"host": "localhost:8400", "content-length": "2"}
    others.pop(name, None)
    headers = [(key.encode(), text.encode()) for key, text in [*others.items(), (name, value), (name.title(), f" {value}")]]

    async def body() -> Any:
        return {"type": "http.request", "body": b"{}"}

    start, answer = _called(guard, body, method="POST", headers=headers)
    assert (start["status"], answer["body"]) == (200, b"ADMIN {}")


def test_settings_are_checked() -> None:
    """A token that can be guessed is refused; what is loopback."""
    with pytest.raises(InvalidInput, match="16 characters"):
        Safety(token="short")
    for origin in ("ops.example.com", "https://ops.example.com/", "https://ops.example.com/a", "null", "*", "https://a@b", ""):
        with pytest.raises(InvalidInput, match="is no origin"):
            Safety(origins=["https://fine.example", origin])
    assert [is_loopback(one) for one in ("localhost", "::1", "[::1]", "127.1.2.3")] == [True] * 4
    assert [is_loopback(one) for one in ("0.0.0.0", "::", "", "example.org", "127.0.0.1.nip.io", "localhost.")] == [False] * 6
