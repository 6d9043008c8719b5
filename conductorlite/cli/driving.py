"""The commands for processes that share a store: `worker` and `drive` work until they are asked to stop, `copy` moves a store."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import click

from conductorlite.cli.execution import driven
from conductorlite.cli.shared import Exit, Setting, command_options, read_workers, with_system_workers
from conductorlite.engine.config import EngineConfig
from conductorlite.engine.holders import leave_all
from conductorlite.model.clock import SystemClock
from conductorlite.model.errors import ConductorliteError, InvalidInput
from conductorlite.model.texts import to_span
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Workers

__all__ = ["DRIVING"]

_HEALTH = click.option(
    "--health", metavar="[HOST:]PORT", help="Answer GET /health (it drives) and /ready (the store answers too) there."
)
_LOCK = click.option("--lock", metavar="URL", help="A lock of turns: redis://a,b,c, zookeeper://a,b,c or advisory.")
_ENGINE = click.option("--engine", "name", metavar="NAME", help="Be this engine, which takes only what is its own.")


_TIMEOUT = click.option("--timeout", metavar="SPAN", help="Stop after this long, such as 90s or 5m.")


@click.command("worker")
@click.option("--workers", metavar="MODULE:ATTR", multiple=True, required=True, help="A Workers object; may be repeated.")
@click.option("--url", help="Work for the server with this API instead, such as http://127.0.0.1:8400/api.")
@_LOCK
@_ENGINE
@_HEALTH
@_TIMEOUT
@command_options(index=True)
def worker(setting: Setting, workers: tuple[str, ...], url: str | None, lock: str | None, name: str | None, health: str | None,
           timeout: str | None) -> Exit:  # fmt: skip
    """Drive the store and run tasks, or with --url run those of a Conductor server, until SIGTERM or Ctrl-C.

    Several processes, on several hosts, may do so at once. Asked to stop, it takes no more tasks, waits for those that run up to
    their drain time, and gives back what it holds; asked again, it ends at once, and others take over what it held.

    The server may be `conductorlite serve --api` or Conductor's own. The environment variable CONDUCTORLITE_TOKEN is the token that
    is shown, as X-Authorization. Needs the extra `http`.
    """
    if url is None:
        return _work(setting, with_system_workers(read_workers(workers)), lock, name, health, timeout)
    if lock or name or health:
        raise click.UsageError("--url takes no --lock, --engine or --health: those are of a process that drives a store")
    from conductorlite.ext.conductor import ConductorClient

    clock = SystemClock()
    end = None if timeout is None else clock.now() + to_span(timeout)
    token = os.environ.get("CONDUCTORLITE_TOKEN")
    client = ConductorClient(url, headers={} if token is None else {"X-Authorization": token})
    client.work(read_workers(workers), until=None if end is None else lambda: clock.now() >= end)
    return Exit.OK


@click.command("drive")
@_LOCK
@_ENGINE
@_HEALTH
@_TIMEOUT
@command_options(index=True)
def drive(setting: Setting, lock: str | None, name: str | None, health: str | None, timeout: str | None) -> Exit:
    """Take the turns of the store until SIGTERM or Ctrl-C: timers, timeouts, schedules, children; it runs no tasks."""
    return _work(setting, Workers(), lock, name, health, timeout)


def _work(setting: Setting, workers: Workers, lock: str | None, name: str | None, health: str | None, timeout: str | None) -> Exit:
    patience = None if timeout is None else to_span(timeout)
    with setting.engine(workers=workers, name=name, lock=lock) as engine, ExitStack() as stack:
        until = None if patience is None else engine.clock.now() + patience
        try:
            with driven(engine, setting.screen) as (stop, thread):
                if health is not None:
                    stack.enter_context(_answering(health, engine, thread))
                if setting.json:
                    setting.screen.document({"driving": str(setting.place)})
                else:
                    setting.screen.line(f"driving {setting.place}")
                while not stop and not thread.failed and (until is None or engine.clock.now() < until):
                    thread.join(0.1)
        except KeyboardInterrupt:  # asked twice: closing the engine would wait for what is to be abandoned
            leave_all()
            sys.stdout.flush()
            os._exit(Exit.INTERRUPTED)
    if thread.error is not None:
        raise thread.error
    return Exit.OK


@contextmanager
def _answering(place: str, engine: Engine, thread: threading.Thread) -> Iterator[None]:
    """Answer whether the process drives, and whether its store answers."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    host, _, port = place.rpartition(":")
    if not port.isdecimal():
        raise InvalidInput(f"--health {place!r:.80} is no port, and no host:port")

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"/health": _alive, "/ready": _ready}.get(self.path)
            problem = "there is /health and /ready" if found is None else found(engine, thread)
            text = json.dumps({"status": "DOWN", "problem": problem} if problem else {"status": "UP"}).encode()
            self.send_response(404 if found is None else 503 if problem else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing: it is asked every few seconds."""

    try:
        server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), Answer)
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"--health {place}: {error}") from error
    threading.Thread(target=server.serve_forever, daemon=True, name="conductorlite-health").start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _alive(_: Engine, thread: threading.Thread) -> str:
    return "" if thread.is_alive() else "nothing drives the store any more"


def _ready(engine: Engine, thread: threading.Thread) -> str:
    try:
        with engine.backend.reading() as view:
            view.registry_version()
    except ConductorliteError as error:
        return str(error)
    return _alive(engine, thread)


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@command_options(database=False)
def copy(setting: Setting, source: str, target: str) -> Exit:
    """Copy a store, with its running executions, into an empty one: FROM and TO are a file or a URL (postgresql://…).

    Nobody should work on either meanwhile: what happens in FROM after the instant of the copy is not in it. Both are checked
    afterwards. Large documents stay in their payload storage: name it with --payloads for both. Exits with 1 if a law is broken.
    """
    from conductorlite.ext.postgres.copying import copy_store

    quiet = EngineConfig(give_back=False)
    with Engine(source, config=quiet) as one, Engine(target, config=quiet) as other:
        copied = copy_store(one.backend, other.backend)
        problems = [f"{place}: {finding}" for place, engine in ((source, one), (target, other)) for finding in engine.admin.check()]
    if setting.json:
        setting.screen.document({"copied": copied, "problems": problems})
    else:
        setting.screen.text(f"copied {copied['workflows']} executions, {sum(copied.values())} rows\n")
        for problem in problems:
            setting.screen.text(f"{problem}\n")
    return Exit.FAILED if problems else Exit.OK


DRIVING = (worker, drive, copy)
