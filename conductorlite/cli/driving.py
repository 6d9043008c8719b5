"""The commands that drive and serve.

`run` and `start` begin an execution, `worker` and `drive` work on a store until they are asked to stop, `serve` serves it, `copy`
moves it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import click

from conductorlite.cli.execution import drive_to_end, driven
from conductorlite.cli.queries import explained
from conductorlite.cli.shared import (
    CODEC_OPTION,
    Exit,
    Setting,
    command_options,
    read_definition,
    read_input,
    read_json,
    read_task_defs,
    read_workers,
    with_system_workers,
)
from conductorlite.engine.config import EngineConfig
from conductorlite.engine.holders import leave_all
from conductorlite.ext import EnvironmentSecrets
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.clock import Deadline, SystemClock
from conductorlite.model.debounce import Debounce
from conductorlite.model.definitions import TASK_ALONE, IdempotencyStrategy, Semantics, WorkflowDef, task_alone
from conductorlite.model.documents import workflow_to_json
from conductorlite.model.errors import ConductorliteError, Conflict, ExecutionNotFound, InvalidInput
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import to_span
from conductorlite.model.threads import started
from conductorlite.plan.tree import OPERATOR_TYPES, walk
from conductorlite.runtime.engine import Engine
from conductorlite.runtime.registry import Workers

__all__ = ["DRIVING", "SERVING", "STARTING"]

_INPUT = click.option("--input", "given", metavar="JSON|@FILE", help="The workflow's input: a JSON object, or @ and a file.")
_UPLOADED = click.option(
    "--input-path", "uploaded", metavar="PATH", help="Where the input was uploaded into the payload storage, instead of --input."
)
_ALONE = click.option("--task", "alone", is_flag=True, help="DEFINITION is a task type: start that task alone.")
_NEW_ID = click.option("--id", "workflow_id", metavar="ID", help="The execution's id (default: a random one).")
_KEY = click.option("--idempotency-key", metavar="KEY", help="Start at most one execution of the workflow with this key.")
_STRATEGY = click.option(
    "--idempotency-strategy",
    type=click.Choice([*IdempotencyStrategy], case_sensitive=False),
    default=IdempotencyStrategy.FAIL,
    show_default=True,
    help="What to do when an execution with that key exists.",
)
_TASK_DEFS = click.option("--task-defs", metavar="FILE", multiple=True, help="Task definitions to register first.")
_WORKERS = click.option(
    "--workers", metavar="MODULE:ATTR", multiple=True, help="A Workers object to run tasks with; may be repeated."
)


_ENGINE = click.option("--engine", "name", metavar="NAME", help="Be this engine, which keeps what it starts to itself.")


@click.command("run")
@click.argument("definition", metavar="[DEFINITION]", required=False)
@_INPUT
@_UPLOADED
@_WORKERS
@_ALONE
@_NEW_ID
@_KEY
@_STRATEGY
@_TASK_DEFS
@click.option(
    "--secrets-prefix",
    metavar="PREFIX",
    help="Fill in ${workflow.secrets.NAME} for workers from the environment variable PREFIXNAME, such as CONDUCTOR_SECRET_NAME.",
)
@_ENGINE
@click.option("--watch", is_flag=True, help="Show each line of history as it happens.")
@click.option("--timeout", metavar="SPAN", help="Stop driving after this long, such as 90s or 5m.")
@command_options()
def run_(setting: Setting, definition: str | None, given: str | None, workers: tuple[str, ...], workflow_id: str | None,
         watch: bool, timeout: str | None, secrets_prefix: str | None, name: str | None, alone: bool,
         **options: Any) -> Exit:  # fmt: skip
    """Start an execution, or resume the one with --id, and drive it to its end.

    DEFINITION is a JSON file or a registered name; it may be left out when the execution exists. Run the same command again
    after an interruption: with the same --id it goes on where it was. On a terminal a progress bar is shown. HTTP, EVENT and
    KAFKA_PUBLISH tasks are carried out by the system workers where --workers has none for them.
    """
    if definition is None and workflow_id is None:
        raise click.UsageError("give a DEFINITION, or the --id of an execution")
    timeout_ms = None if timeout is None else to_span(timeout)
    sets = with_system_workers(read_workers(workers))
    secrets = None if secrets_prefix is None else EnvironmentSecrets(secrets_prefix)
    with setting.engine(create=definition is not None, workers=sets, secrets=secrets, name=name) as engine:
        known = None if workflow_id is None else _existing(engine, workflow_id, needed=definition is None)
        if known is None:
            with _warned_once():
                known = engine.get(_start(engine, definition or "", given, workflow_id, alone=alone, **options))
        else:
            _same(known, f"{TASK_ALONE}{definition}" if alone and definition else definition, given)
        if known.status is WorkflowStatus.PAUSED:
            raise Conflict(f"{known.workflow_id} is PAUSED; `conductorlite resume {known.workflow_id}` first")
        if not known.status.terminal:
            absent = sorted(_types(known) - {worker.task_type for worker in sets})
            if absent:
                setting.screen.note(f"no worker here for {', '.join(absent)}: such tasks wait for another process")
            ended = drive_to_end(engine, known.workflow_id, setting.screen, timeout_ms=timeout_ms, watch=watch)
            if ended is not Exit.OK:
                setting.screen.note(f"stopped; go on with: conductorlite run --id {known.workflow_id}")
                return ended
        return _result(setting, engine, engine.get(known.workflow_id, masked=True))


@contextmanager
def _warned_once() -> Iterator[None]:
    """The command itself says which workers are not here; what is logged of it at a start would say it again."""
    logger = logging.getLogger("conductorlite.definitions")

    def other(record: logging.LogRecord) -> bool:
        return "no worker here for" not in record.getMessage()

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


def _existing(engine: Engine, workflow_id: str, *, needed: bool) -> Workflow | None:
    try:
        return engine.get(workflow_id)
    except ExecutionNotFound:
        if needed:
            raise
        return None


def _same(known: Workflow, definition: str | None, given: str | None) -> None:
    """Check that a request is the one that the execution was started for; raises Conflict."""
    name = known.name
    if definition is not None:
        name = read_definition(definition).name if _is_file(definition) else definition
    if name != known.name:
        raise Conflict(f"{known.workflow_id} is an execution of {known.name!r}, not of {name!r}")
    if given is not None:
        template = known.definition.input_template if known.definition is not None else {}
        wanted: Any = read_input(given)
        if template:
            wanted = apply_workflow_input_template(wanted, template)
        if wanted != known.input_data:
            raise Conflict(f"{known.workflow_id} exists with another input; leave --input out, or choose another --id")


def _types(workflow: Workflow) -> set[str]:
    """Task types of the definition that workers carry out."""
    tasks = [] if workflow.definition is None else [place.task for place in walk(workflow.definition)]
    return {task.name if task.type == "SIMPLE" else task.type for task in tasks if task.type not in OPERATOR_TYPES}


def _result(setting: Setting, engine: Engine, workflow: Workflow) -> Exit:
    ended = workflow.status.terminal
    if setting.json:
        whole = workflow_to_json(workflow)
        setting.screen.document({key: whole[key] for key in whole if key not in ("tasks", "workflowDefinition")})
    else:
        setting.screen.pairs([("workflowId", workflow.workflow_id), ("status", workflow.status), ("output", workflow.output.shown)])
    if workflow.status is WorkflowStatus.COMPLETED:
        return Exit.OK
    setting.screen.note(explained(engine, workflow.workflow_id))
    return Exit.FAILED if ended or workflow.parked is not None else Exit.CONFLICT


@click.command("start")
@click.argument("definition", metavar="DEFINITION")
@_INPUT
@_UPLOADED
@_ALONE
@_NEW_ID
@_KEY
@_STRATEGY
@click.option("--debounce", metavar="SPAN", help="Begin when no start with the --debounce-key has come for this long, such as 30s.")
@click.option("--debounce-key", metavar="KEY", help="Starts with this key become one execution, with the last one's input.")
@click.option("--max-wait", metavar="SPAN", help="Begin at the latest this long after the first of them.")
@click.option("--send", "sent", metavar="TOPIC JSON|@FILE", nargs=2, help="Send it this message in the commit of the start.")
@click.option("--key", metavar="KEY", help="The key of that message: it is sent once.")
@_TASK_DEFS
@_ENGINE
@command_options()
def start(setting: Setting, definition: str, given: str | None, workflow_id: str | None, name: str | None,
          sent: tuple[str, str] | None, key: str | None, **options: Any) -> None:  # fmt: skip
    """Start an execution without driving it, and print its id.

    DEFINITION is a JSON file or a registered name. `conductorlite run --id ID`, or any other process that drives the
    database, takes it from there.
    """
    if sent is None and key is not None:
        raise click.UsageError("--key needs --send")
    message = None if sent is None else {"topic": sent[0], "value": read_json(sent[1], "--send"), "key": key}
    with setting.engine(create=True, name=name) as engine:
        started = _start(engine, definition, given, workflow_id, **options, message=message)
        setting.screen.answer({"workflowId": started, "status": str(engine.status(started))}, started)


def _start(engine: Engine, definition: str, given: str | None, workflow_id: str | None, *, task_defs: tuple[str, ...],
           idempotency_key: str | None, idempotency_strategy: str, uploaded: str | None, debounce: str | None = None,
           debounce_key: str | None = None, max_wait: str | None = None,
           message: dict[str, Any] | None = None, alone: bool = False) -> str:  # fmt: skip
    values = None if given is None else read_input(given)
    wanted: WorkflowDef | str
    if alone:
        wanted = task_alone(definition, values or {})
    else:
        wanted = read_definition(definition) if _is_file(definition) else definition
    for file in task_defs:
        engine.register(*read_task_defs(file))
    return engine.start(
        wanted,
        values,
        workflow_id=workflow_id,
        idempotency_key=idempotency_key,
        idempotency_strategy=IdempotencyStrategy(idempotency_strategy),
        external_input_payload_storage_path=uploaded,
        debounce=_debounce(debounce, debounce_key, max_wait),
        message=message,
    ).workflow_id


def _debounce(quiet: str | None, key: str | None, max_wait: str | None) -> Debounce | None:
    if quiet is None and key is None and max_wait is None:
        return None
    if quiet is None or key is None:
        raise click.UsageError("--debounce and --debounce-key go together")
    return Debounce(quiet, key=key, max_wait=max_wait)


def _is_file(definition: str) -> bool:
    """Return True if a DEFINITION names a file; a name that ends in .json does, also when there is none."""
    return definition.endswith(".json") or Path(definition).is_file()


STARTING = (run_, start)


_HEALTH = click.option(
    "--health", metavar="[HOST:]PORT", help="Answer GET /health (it drives) and /ready (the store answers too) there."
)
_LOCK = click.option("--lock", metavar="URL", help="A lock of turns: redis://a,b,c, zookeeper://a,b,c or advisory.")
_OWNER = click.option("--engine", "name", metavar="NAME", help="Be this engine, which takes only what is its own.")


_TIMEOUT = click.option("--timeout", metavar="SPAN", help="Stop after this long, such as 90s or 5m.")


@click.command("worker")
@click.option("--workers", metavar="MODULE:ATTR", multiple=True, required=True, help="A Workers object; may be repeated.")
@click.option("--url", help="Work for the server with this API instead, such as http://127.0.0.1:8400/api.")
@_LOCK
@_OWNER
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

    end = None if timeout is None else Deadline(SystemClock(), to_span(timeout))
    token = os.environ.get("CONDUCTORLITE_TOKEN")
    client = ConductorClient(url, headers={} if token is None else {"X-Authorization": token})
    client.work(read_workers(workers), until=None if end is None else lambda: end.passed)
    return Exit.OK


@click.command("drive")
@_LOCK
@_OWNER
@_HEALTH
@_TIMEOUT
@command_options(index=True)
def drive(setting: Setting, lock: str | None, name: str | None, health: str | None, timeout: str | None) -> Exit:
    """Take the turns of the store until SIGTERM or Ctrl-C: timers, timeouts, schedules, children; it runs no tasks."""
    return _work(setting, Workers(), lock, name, health, timeout)


def _work(setting: Setting, workers: Workers, lock: str | None, name: str | None, health: str | None, timeout: str | None) -> Exit:
    patience = None if timeout is None else to_span(timeout)
    with setting.engine(workers=workers, name=name, lock=lock) as engine, ExitStack() as stack:
        until = None if patience is None else Deadline(engine.clock, patience)
        try:
            with driven(engine, setting.screen) as (stop, thread):
                if health is not None:
                    stack.enter_context(_answering(health, engine, thread))
                setting.screen.answer({"driving": str(setting.place)}, f"driving {setting.place}")
                while not stop and not thread.failed and not (until is not None and until.passed):
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
            view.metadata.registry_version()
    except ConductorliteError as error:
        return str(error)
    return _alive(engine, thread)


@click.command("copy")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@CODEC_OPTION
@command_options(database=False)
def copy(setting: Setting, source: str, target: str) -> Exit:
    """Copy a store, with its running executions, into an empty one: FROM and TO are a file or a URL (postgresql://…).

    Nobody should work on either meanwhile: what happens in FROM after the instant of the copy is not in it. Both are checked
    afterwards. Large documents stay in their payload storage: name it with --payloads for both. Exits with 1 if a law is broken.
    """
    from conductorlite.ext.postgres.copying import copy_store

    sealing = setting.payload_codec
    quiet = EngineConfig(give_back=False, payload_codec=sealing)
    with Engine(source, config=quiet) as one:
        with Engine(target, config=EngineConfig(give_back=False)) as other:
            sealed: Any = one.backend
            copied = copy_store(one.backend if sealing is None else sealed.inner, other.backend)
        with Engine(target, config=quiet) as other:
            places = ((source, one), (target, other))
            problems = [f"{place}: {finding}" for place, engine in places for finding in engine.admin.check()]
    if setting.json:
        setting.screen.document({"copied": copied, "problems": problems})
    else:
        setting.screen.text(f"copied {copied['workflows']} executions, {sum(copied.values())} rows\n")
        for problem in problems:
            setting.screen.text(f"{problem}\n")
    return Exit.FAILED if problems else Exit.OK


DRIVING = (worker, drive, copy)


#: Seconds that functions of workers may take to end when the server stops.
_PATIENCE_S = 60.0


@click.command("serve")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Listen at this address.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8_400, show_default=True, help="At this port; 0: a free one.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="Answer to this name too, besides localhost.")
@click.option("--allow-origin", "origins", metavar="URL", multiple=True,
              help="Answer to pages of this origin too: where a proxy in front changes the host or ends TLS, its own.")  # fmt: skip
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The token, in a file, that may do everything; by default one is made and printed.",
)
@click.option("--read-only", is_flag=True, help="Nobody may change anything.")
@click.option("--workers", metavar="MODULE:ATTR", multiple=True, help="Drive the store meanwhile, with this Workers object.")
@click.option("--api", is_flag=True, help="Answer Conductor's clients too, under /api, and drive the store meanwhile.")
@click.option("--grpc-port", type=click.IntRange(0, 65_535), help="With --api: answer Conductor's gRPC clients at this port too.")
@click.option("--certificate", metavar="FILE", help="A certificate, for TLS.")
@click.option("--key", metavar="FILE", help="Its key.")
@command_options()
def serve(setting: Setting, host: str, port: int, hosts: tuple[str, ...], origins: tuple[str, ...], token_file: Path | None,
          read_only: bool, workers: tuple[str, ...], api: bool, grpc_port: int | None, certificate: str | None,
          key: str | None) -> Exit:  # fmt: skip
    """Serve the pages of the store, live, with the verbs for its executions, until Ctrl-C.

    On this machine everybody may look; a verb needs the token. Needs the extra `server`. The token may also stand in the
    environment variable CONDUCTORLITE_TOKEN. Without --workers nothing is driven: another process does that.

    With --api it is a Conductor server as well, which makes the store if there is none, and starts executions with the semantics of
    Conductor's open-source server. Programs on this machine need no token for it.
    """
    # Most commands need none of it.
    from conductorlite.server.pages import engine_app
    from conductorlite.server.rest.app import beside, rest_app
    from conductorlite.server.running import serve as serve_app
    from conductorlite.server.safety import Role, Safety, is_loopback, new_token

    token = os.environ.get("CONDUCTORLITE_TOKEN") if token_file is None else token_file.read_text(encoding="utf-8").strip()
    made = None if token or (read_only and is_loopback(host)) else new_token()
    names = [*hosts, *([] if host in ("0.0.0.0", "::") else [host])]
    safety = Safety(token=token or made, hosts=frozenset(names), origins=frozenset(origins), read_only=read_only)
    if not hosts and host in ("0.0.0.0", "::"):
        raise InvalidInput(f"{host} is every address of this machine: --allow-host says by which names it may be called")
    if grpc_port is not None and not api:
        raise InvalidInput("--grpc-port is for --api")
    sets = with_system_workers(read_workers(workers)) if workers or api else None
    semantics = Semantics.OSS if api else Semantics.ORKES
    with (
        setting.engine(create=sets is not None, workers=sets, semantics=semantics) as engine,
        _driven(engine, drives=sets is not None),
        ExitStack() as others,
    ):
        pages = engine_app(engine, safety)
        # Programs of Conductor's know no token where they need none.
        local = attrs.evolve(safety, anonymous=Role.ADMIN)
        app = beside(rest_app(engine, safety=local), pages) if api else pages
        calls = None
        if grpc_port is not None:
            from conductorlite.server.grpc import grpc_served

            address = f"{host}:{grpc_port}"
            number = others.enter_context(grpc_served(engine, address, safety=local, certificate=certificate, key=key))
            calls = f"{host}:{number}"

        def listening(url: str) -> None:
            shown = f"{url}/login#token={made}" if made is not None else f"{url}/"
            setting.screen.answer(
                {"url": url, "token": made, **({} if calls is None else {"grpc": calls})},
                shown if calls is None else f"{shown}\ngRPC at {calls}",
            )

        serve_app(
            app, safety, host=host, port=port, certificate=certificate, key=key, listening=listening, ending=pages.end_streams
        )
    return Exit.OK


@contextmanager
def _driven(engine: Engine, *, drives: bool) -> Iterator[None]:
    """Drive the engine in a thread of its own while the block lasts."""
    if not drives:
        yield
        return
    thread: threading.Thread = started(engine.run_forever, name="conductorlite-driver")
    try:
        yield
    finally:
        engine.stop()
        thread.join(_PATIENCE_S)


SERVING = (serve,)
