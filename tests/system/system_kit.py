"""Executions of one task carried out by the system workers, and HTTP servers that behave well and badly."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs

from conductorlite import Engine, Task, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.ext.workers import system_workers


def node(kind: str, inputs: dict[str, Any], ref: str = "t", **fields: Any) -> WorkflowTask:
    """A task of a type with that input."""
    return WorkflowTask(name=ref, task_reference_name=ref, type=kind, input_parameters=inputs, **fields)


def carried_out(task: WorkflowTask, input: dict[str, Any] | None = None, *, store: Path | None = None, **options: Any) -> Task:
    """The last attempt at a workflow's only task, when nothing more happens; `options` are those of system_workers."""
    started = {key: options.pop(key) for key in ("correlation_id",) if key in options}
    with Engine(store, workers=system_workers(**options), clock=VirtualClock(0)) as engine:
        run = engine.start(WorkflowDef(name="flow", version=3, tasks=[task]), input, workflow_id="w1", **started)
        engine.run_until_idle()
        assert engine.admin.check() == []
        return run.workflow.tasks[-1]


@attrs.frozen
class Received:
    """What a server was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@attrs.frozen
class Canned:
    """What a server answers."""

    body: bytes = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


@attrs.define
class Server:
    """A server on this machine: where it is, what it was sent, what it answers."""

    url: str = ""
    received: list[Received] = attrs.field(factory=list)
    answer: Canned = attrs.field(factory=Canned)

    def answers(self, value: Any, status: int = 200, **headers: str) -> str:
        """Answer with these bytes, or this value as JSON, from now on; returns the address."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        named = tuple((name.replace("_", "-"), text) for name, text in headers.items())
        self.answer = Canned(body, status, named)
        return self.url


@contextmanager
def serving() -> Iterator[Server]:
    """A well-behaved server."""
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.received.append(Received(self.command, self.path, dict(self.headers.items()), body))
            self.send_response(server.answer.status)
            for name, value in server.answer.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(server.answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(server.answer.body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_FETCH = handle_any  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


Behaviour = Callable[[socket.socket, threading.Event], None]


@contextmanager
def misbehaving(behaviour: Behaviour) -> Iterator[str]:
    """A server that does this with the first connection, once it was sent something; `over` is set when the test ends."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65_536)
                    behaviour(connection, over)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()
