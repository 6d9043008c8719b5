"""The pages of an engine, live, with its verbs: an app that runs by itself or within the user's own.

A page that somebody looks at is made once for all of them, after a change and at times that its own cost sets: it never takes more
than a fifth of a thread. Commits of this engine are seen as they happen, those of other processes at a glance. A connection that
waits is an event on the loop, and no thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl, quote

from conductorlite.engine.pages import Pages
from conductorlite.model.canonical import parse
from conductorlite.model.errors import (
    ConductorliteError,
    Conflict,
    EngineClosed,
    InvalidInput,
    MissingExtra,
    NotFound,
    StorageError,
)
from conductorlite.model.executions import HistoryEvent, Workflow
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.texts import format_traceback
from conductorlite.pages.markup import PROOF, Document, Html, element, join, whole_page
from conductorlite.runtime.aio import AsyncEngine
from conductorlite.runtime.engine import Engine
from conductorlite.server.safety import Guard, Receive, Role, Safety, Scope, Send, needed_by_method
from conductorlite.server.streams import KIND, last_number, values
from conductorlite.server.waiting import Threads

try:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
    from starlette.routing import Route
except ImportError as error:
    raise MissingExtra("server", "A server") from error

__all__ = ["EnginePages", "engine_app"]

_LOG: Final = logging.getLogger("conductorlite.server")

#: Seconds between looks for commits of other processes; between two makings of a page, at least; after which it is made without a
#: change, for it shows how long things take. The last two also as multiples of what making it took.
_GLANCE_S: Final = 0.1
_PAUSE_S: Final = 0.25
_TICK_S: Final = 1.0
_PAUSE: Final = 4
_TICK: Final = 20


def digest(text: str) -> str:
    """By which a part of a page is known to a browser that has it."""
    return sha256(text.encode()).hexdigest()[:12]


class Feed:
    """One page as it changes."""

    def __init__(self, make: Callable[[], Document], threads: Threads) -> None:
        self._make, self._threads = make, threads
        self.title, self._moves = "", True
        #: By name, in order; empty before it was made.
        self.parts: dict[str, Html] = {}
        #: Of these parts: what is sent, by whose it is and what they have, and what they have then.
        self.events: dict[object, tuple[str, dict[str, str]]] = {}
        #: Set when something may have changed.
        self.due = asyncio.Event()
        self.followers: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Make the page again and again; ends by being canceled."""
        loop = asyncio.get_running_loop()
        while True:
            self.due.clear()
            begun = loop.time()
            try:
                await self._made()
            except (EngineClosed, StorageError):
                pass  # the next look will show it
            except Exception as error:
                _LOG.error("a page could not be made: %s\n%s", type(error).__name__, format_traceback(error))
            took = loop.time() - begun
            await asyncio.sleep(max(_PAUSE_S, _PAUSE * took))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_TICK_S, _TICK * took) if self._moves else None):
                    await self.due.wait()

    async def _made(self) -> None:
        try:
            document = await self._threads(self._make)
            self.title, self._moves, parts = document.title, document.moves, document.parts()
        except (EngineClosed, StorageError):
            raise
        except ConductorliteError as error:  # it was removed
            self.title, parts = "Not there", Document("Not there", Html(), [("gone", str(error), Html(" "))]).parts()
        if parts != self.parts:
            self.parts, self.events = parts, {}
            for follower in self.followers:
                follower.set()


class Feeds:
    """The pages that somebody looks at: one of the store (None) and of executions, by id."""

    def __init__(self, engine: Engine, make: Callable[[str | None], Document], threads: Threads) -> None:
        self._engine, self._make, self._threads = engine, make, threads
        self._feeds: dict[str | None, tuple[Feed, asyncio.Task[None]]] = {}
        self._glancing: asyncio.Task[None] | None = None
        self._unlisten: Callable[[], None] = lambda: None
        self._ending = False

    def end(self) -> None:
        """Have every stream end, from the loop's thread: the server is to stop."""
        self._ending = True
        for feed, _ in self._feeds.values():
            for follower in feed.followers:
                follower.set()

    async def follow(self, workflow_id: str | None, seconds: float, quiet: float) -> AsyncIterator[Feed | None]:
        """The feed of a page, whenever it has changed, for so many seconds; None after each `quiet` ones without a change."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self._following(workflow_id) as (feed, news):
            while not self._ending and (left := until - loop.time()) > 0:
                changed = True
                try:
                    async with asyncio.timeout(min(quiet, left)):
                        await news.wait()
                except TimeoutError:
                    changed = False
                news.clear()
                yield feed if changed and feed.parts else None

    @contextmanager
    def _following(self, workflow_id: str | None) -> Iterator[tuple[Feed, asyncio.Event]]:
        loop = asyncio.get_running_loop()
        if not self._feeds:
            self._unlisten = self._engine.listen(partial(self._committed, loop))
            self._glancing = loop.create_task(self._glance())
        if workflow_id not in self._feeds:
            feed = Feed(partial(self._make, workflow_id), self._threads)
            self._feeds[workflow_id] = feed, loop.create_task(feed.run())
        feed, running = self._feeds[workflow_id]
        news = asyncio.Event()
        if feed.parts:
            news.set()
        feed.followers.add(news)
        try:
            yield feed, news
        finally:
            feed.followers.discard(news)
            if not feed.followers:
                del self._feeds[workflow_id]
                running.cancel()
            if not self._feeds and self._glancing is not None:
                self._unlisten()
                self._glancing.cancel()

    def _committed(self, loop: asyncio.AbstractEventLoop, workflow: Workflow, _: Sequence[HistoryEvent]) -> None:
        for key in (workflow.workflow_id, None):
            found = self._feeds.get(key)
            if found is not None and not found[0].due.is_set():
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(found[0].due.set)

    async def _glance(self) -> None:
        """Look for what other processes commit; what it was is seen when a page is made."""
        seen: Any = None
        while True:
            with suppress(EngineClosed, StorageError):  # the page itself shows that the store cannot be read
                now = await self._threads(self._engine.backend.data_version)
                if now != seen and seen is not None:
                    for feed, _ in self._feeds.values():
                        feed.due.set()
                seen = now
            await asyncio.sleep(_GLANCE_S)


#: Executions on the page of the store.
_ROWS: Final = 200

#: Seconds after which a stream ends and the browser asks for another one, so that who may look is checked again; and after which
#: a stream without news says that it is there.
_STREAM_S: Final = 60.0
_QUIET_S: Final = 15.0

#: The page's policy is in the page; that no other page may show it in a frame only a header can say.
_FRAMES: Final = {"content-security-policy": "frame-ancestors 'none'"}

#: Each verb of an engine with its arguments beside the execution's id, and how they are read.
_VERBS: Final[Mapping[str, Mapping[str, str]]] = {
    "pause": {},
    "resume": {},
    "terminate": {"reason": "text", "trigger_failure_workflow": "flag"},
    "retry": {"resume_subworkflow_tasks": "flag"},
    "restart": {"use_latest_definitions": "flag"},
    "rerun": {"from_task": "text", "input": "document", "task_input": "document", "correlation_id": "text"},
    "skip_task": {"ref": "text", "input": "document", "output": "document"},
    "update_variables": {"variables": "document"},
    "signal": {"task": "text", "output": "document", "status": "status", "reason": "text"},
}
_NEEDED: Final = {"skip_task": "ref", "update_variables": "variables"}

_STATUSES: Final[tuple[tuple[type[ConductorliteError], int], ...]] = (
    (NotFound, 404),
    (Conflict, 409),
    (InvalidInput, 400),
    (StorageError, 503),
    (EngineClosed, 503),
)


def engine_app(engine: Engine | AsyncEngine, safety: Safety | None = None) -> EnginePages:
    """An ASGI app: the pages of an engine, live, and its verbs; `app.mount("/workflows", engine_app(engine))`.

    It looks and gives orders, and drives nothing. Without `safety` this machine may look, and nobody change anything. Raises
    MissingExtra without Starlette.
    """
    return EnginePages(engine if isinstance(engine, Engine) else engine._engine, safety or Safety())


class EnginePages:
    """The ASGI app behind a guard that `engine_app` returns."""

    def __init__(self, engine: Engine, safety: Safety) -> None:
        self._engine = engine
        self._call = Threads()
        core = engine.core
        self._pages = Pages(core.turns, engine.config, core.queries, core.control)
        #: By the address under which the app stands: it may be mounted more than once.
        self._feeds: dict[str, Feeds] = {}
        self._over = False
        routes = [
            Route("/", self._store),
            Route("/executions/{id:path}/{verb}", self._verb, methods=["POST"]),
            Route("/executions/{id:path}", self._execution),
            Route("/changes/executions/{id:path}", self._changes),
            Route("/streams/executions/{id:path}", self._values),
            Route("/changes", self._changes),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/logout", self._logout, methods=["POST"]),
        ]
        self.safety = safety
        self._guard = Guard(Starlette(routes=routes), safety, needs=_needed, login="/login")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    def end_streams(self) -> None:
        """Have every stream end, from the loop's thread: the server is to stop."""
        self._over = True
        for feeds in self._feeds.values():
            feeds.end()

    # ------------------------------------------------------------------ pages

    async def _store(self, request: Request) -> Response:
        return await self._page(request, None)

    async def _execution(self, request: Request) -> Response:
        return await self._page(request, request.path_params["id"])

    async def _page(self, request: Request, workflow_id: str | None) -> Response:
        root = _root(request)
        try:
            document = await self._call(self._document, root, workflow_id)
        except ConductorliteError as error:
            return _refusal(request, error)
        parts = self._seen_by(request, document.parts())
        name = "" if workflow_id is None else f"/executions/{quote(workflow_id, safe='')}"
        shown = ",".join(f"{name}={digest(html)}" for name, html in parts.items())
        above = self._above(request, root, is_store=workflow_id is None)
        page = whole_page(document.title, parts, ("page.js", "live.js"), above=above, changes=f"{root}/changes{name}", shown=shown)
        return HTMLResponse(page, headers=_FRAMES)

    def _document(self, root: str, workflow_id: str | None) -> Document:
        """A page, made in a thread."""
        address = f"{root}/executions/"
        if workflow_id is not None:
            return self._pages.execution(workflow_id, address)
        admin = self._engine.admin
        engines = [(one.name, one.open, one.ended) for one in admin.engines()]
        return self._pages.store(_ROWS, admin.agenda(), engines, address)

    def _seen_by(self, request: Request, parts: Mapping[str, Html]) -> dict[str, Html]:
        """Parts as this caller sees them: with forms that carry their proof, or without."""
        proof = self._proof(request)
        if proof is None:
            return {name: html for name, html in parts.items() if name != "actions"}
        return {name: Html(html.replace(PROOF, proof)) if name == "actions" else html for name, html in parts.items()}

    def _proof(self, request: Request) -> str | None:
        """Return the proof that the forms of this caller carry; None for a caller who may change nothing, or is no browser that has
        signed in.
        """
        may = not self.safety.read_only and request.scope["conductorlite.caller"].role >= Role.WRITE
        proof: str | None = request.scope["conductorlite.csrf"] if may else None
        return proof

    def _above(self, request: Request, root: str, *, is_store: bool) -> Html:
        """Return the top of a page: the links to the other pages, and to sign in or out."""
        links = [] if is_store else [element("a", "All executions", href=f"{root}/")]
        proof = request.scope["conductorlite.csrf"]
        if proof is not None:
            hidden = element("input", type="hidden", name="csrf", value=proof)
            links.append(element("form", hidden, element("button", "Sign out"), method="post", action=f"{root}/logout"))
        elif not self.safety.read_only and self.safety.token is not None:
            links.append(element("a", "Sign in to act", href=f"{root}/login"))
        return element("nav", *links, element("output", id="said", role="status"), class_="site", aria_label="Site")

    # ------------------------------------------------------------------ changes

    async def _changes(self, request: Request) -> Response:
        root = _root(request)
        feeds = self._feeds.get(root)
        if feeds is None:
            feeds = self._feeds[root] = Feeds(self._engine, lambda workflow_id: self._document(root, workflow_id), self._call)
        stream = self._stream(request, feeds, request.path_params.get("id"))
        return StreamingResponse(stream, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def _stream(self, request: Request, feeds: Feeds, workflow_id: str | None) -> AsyncIterator[str]:
        """Server-sent events: the parts of a page that differ from those that the browser has, with their order."""
        have = dict(one.partition("=")[::2] for one in request.query_params.get("have", "").split(",") if one)
        yield "retry: 2000\n\n"
        async for feed in feeds.follow(workflow_id, _STREAM_S, _QUIET_S):
            if feed is None:
                yield ":\n\n"
                continue
            asked = self._proof(request), frozenset(have.items())
            if asked not in feed.events:
                feed.events[asked] = _event(feed.title, self._seen_by(request, feed.parts), have)
            text, have = feed.events[asked]
            if text:
                yield text
        yield "event: again\ndata:\n\n"

    async def _values(self, request: Request) -> Response:
        """Return the values that an execution emits, for a page of the application."""
        asked, workflow_id = request.query_params, request.path_params["id"]
        given = asked.get("after", "")
        after = int(given) if given.isdecimal() and len(given) < 16 else last_number(request.headers)
        try:
            kept_only = asked.get("keptOnly") == "true"
            reading = self._engine.core.readers.reading(workflow_id, asked.get("stream"), after, kept_only=kept_only)
            await self._call(self._engine.status, workflow_id)
        except ConductorliteError as error:
            return _refusal(request, error)
        parts = values(self._engine, self._call, reading, lambda: self._over)
        return StreamingResponse(parts, media_type=KIND, headers={"x-accel-buffering": "no"})

    # ------------------------------------------------------------------ verbs

    async def _verb(self, request: Request) -> Response:
        workflow_id, verb = request.path_params["id"], request.path_params["verb"]
        try:
            if verb not in _VERBS:
                raise InvalidInput(f"there is no verb {verb!r}: {', '.join(_VERBS)}")
            arguments = _arguments(verb, await request.body(), request.headers.get("content-type", ""))
            await self._call(getattr(self._engine, verb), workflow_id, **arguments)
        except ConductorliteError as error:
            return _refusal(request, error)
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(f"{_root(request)}/executions/{quote(workflow_id, safe='')}", 303)
        return JSONResponse({"workflowId": workflow_id, "done": verb})

    # ------------------------------------------------------------------ who looks

    async def _login(self, request: Request) -> Response:
        wrong = False
        if request.method == "POST":
            given = dict(parse_qsl((await request.body()).decode("utf-8", "replace")))
            cookie = await self._guard.sign_in(request.scope, given.get("token", ""))
            if cookie is not None:
                return RedirectResponse(f"{_root(request)}/", 303, headers={"set-cookie": cookie})
            wrong = True
        field = element("label", "Token ", element("input", type="password", name="token", autocomplete="current-password"))
        form = element("form", field, " ", element("button", "Sign in"), method="post", action=f"{_root(request)}/login")
        answer = element("p", "Nobody has this token", class_="reason", role="alert") if wrong else ""
        parts = {"top": element("header", element("h1", "Sign in"), id="top"), "form": join([answer, form])}
        page = whole_page("Sign in", parts, ("login.js",), above=Html(" "))
        return HTMLResponse(page, 401 if wrong else 200, headers=_FRAMES)

    async def _logout(self, request: Request) -> Response:
        return RedirectResponse(f"{_root(request)}/", 303, headers={"set-cookie": self._guard.sign_out(request.scope)})


def _event(title: str, parts: Mapping[str, Html], have: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The event for a browser that has other parts than these, by their digests, empty if it has these; and what it has then."""
    keys = {name: digest(html) for name, html in parts.items()}
    if keys == have:
        return "", keys
    news = {name: (parts[name], key) for name, key in keys.items() if have.get(name) != key}
    found = {"title": title, "order": list(parts), "parts": news}
    return f"event: parts\ndata: {json.dumps(found)}\n\n", keys


def _needed(method: str, path: str) -> Role | None:
    return None if path == "/login" else Role.READ if path == "/logout" else needed_by_method(method, path)


def _root(request: Request) -> str:
    """The address under which the app stands, without a slash at its end."""
    root: str = request.scope.get("root_path", "")
    return quote(root).rstrip("/")


def _arguments(verb: str, body: bytes, kind: str) -> dict[str, Any]:
    """Return the arguments of a verb, from a form or a JSON object; raises InvalidInput with all problems."""
    wanted = _VERBS[verb]
    given: Any
    if kind.partition(";")[0].strip().lower() == "application/json":
        given = parse(body, where="the body")
        if not isinstance(given, dict):
            raise InvalidInput("the body is no JSON object")
    else:
        given = {name: value for name, value in parse_qsl(body.decode("utf-8", "replace")) if name != "csrf"}
    problems = [f"{verb} takes no {name!r}" for name in given if name not in wanted]
    found: dict[str, Any] = {}
    for name, value in given.items():
        try:
            if name in wanted and value is not None:
                found[name] = _read(name, value, wanted[name])
        except InvalidInput as error:
            problems.append(str(error))
    if _NEEDED.get(verb, verb) not in (verb, *found):
        problems.append(f"{verb} needs {_NEEDED[verb]!r}")
    if problems:
        raise InvalidInput("; ".join(problems))
    return found


def _read(name: str, value: object, kind: str) -> object:
    if kind == "document":
        found = parse(value, where=name) if isinstance(value, str) else value
        if not isinstance(found, dict):
            raise InvalidInput(f"{name} is no JSON object")
        return found
    if kind == "flag":
        return value in (True, "true")
    if not isinstance(value, str):
        raise InvalidInput(f"{name} is no text")
    if kind == "status":
        if value not in list(TaskStatus):
            raise InvalidInput(f"{name} {value!r} is no status of a task")
        return TaskStatus(value)
    return value


def _refusal(request: Request, error: ConductorliteError) -> Response:
    """Return the response for a refusal of the engine: a sentence; for a browser a page with it."""
    status = next((number for kind, number in _STATUSES if isinstance(error, kind)), 500)
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"status": status, "message": str(error), "retryable": status == 503}, status)
    way = element("p", element("a", "All executions", href=f"{_root(request)}/"))
    parts = {
        "top": element("header", element("h1", "That cannot be done"), id="top"),
        "text": join([element("p", str(error)), way]),
    }
    return HTMLResponse(whole_page("That cannot be done", parts, above=Html(" ")), status, headers=_FRAMES)
