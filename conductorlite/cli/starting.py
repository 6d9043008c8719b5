"""The commands that run and start executions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from conductorlite.cli.execution import drive
from conductorlite.cli.queries import explained
from conductorlite.cli.shared import (
    Exit,
    Setting,
    command_options,
    read_definition,
    read_input,
    read_task_defs,
    read_workers,
    with_system_workers,
)
from conductorlite.ext import EnvironmentSecrets
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.documents import workflow_to_json
from conductorlite.model.errors import Conflict, ExecutionNotFound
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import to_span
from conductorlite.plan.tree import OPERATOR_TYPES, walk

if TYPE_CHECKING:
    from conductorlite.runtime.engine import Engine

__all__ = ["STARTING"]

_INPUT = click.option("--input", "given", metavar="JSON|@FILE", help="The workflow's input: a JSON object, or @ and a file.")
_UPLOADED = click.option(
    "--input-path", "uploaded", metavar="PATH", help="Where the input was uploaded into the payload storage, instead of --input."
)
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
         watch: bool, timeout: str | None, secrets_prefix: str | None, name: str | None, **options: Any) -> Exit:  # fmt: skip
    """Start an execution, or go on with the one named by --id, and drive it to its end.

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
                known = engine.get(_start(engine, definition or "", given, workflow_id, **options))
        else:
            _same(known, definition, given)
        if known.status is WorkflowStatus.PAUSED:
            raise Conflict(f"{known.workflow_id} is PAUSED; `conductorlite resume {known.workflow_id}` first")
        if not known.status.terminal:
            absent = sorted(_types(known) - {worker.task_type for worker in sets})
            if absent:
                setting.screen.note(f"no worker here for {', '.join(absent)}: such tasks wait for another process")
            ended = drive(engine, known.workflow_id, setting.screen, timeout_ms=timeout_ms, watch=watch)
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
    """Whether what is asked for is what that execution is about; raises Conflict."""
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
@_NEW_ID
@_KEY
@_STRATEGY
@_TASK_DEFS
@_ENGINE
@command_options()
def start(setting: Setting, definition: str, given: str | None, workflow_id: str | None, name: str | None,
          **options: Any) -> None:  # fmt: skip
    """Start an execution without driving it, and print its id.

    DEFINITION is a JSON file or a registered name. `conductorlite run --id ID`, or any other process that drives the
    database, takes it from there.
    """
    with setting.engine(create=True, name=name) as engine:
        started = _start(engine, definition, given, workflow_id, **options)
        if setting.json:
            setting.screen.document({"workflowId": started, "status": str(engine.status(started))})
        else:
            setting.screen.line(started)


def _start(engine: Engine, definition: str, given: str | None, workflow_id: str | None, *, task_defs: tuple[str, ...],
           idempotency_key: str | None, idempotency_strategy: str, uploaded: str | None) -> str:  # fmt: skip
    wanted: WorkflowDef | str = read_definition(definition) if _is_file(definition) else definition
    values = None if given is None else read_input(given)
    for file in task_defs:
        engine.register(*read_task_defs(file))
    return engine.start(
        wanted,
        values,
        workflow_id=workflow_id,
        idempotency_key=idempotency_key,
        idempotency_strategy=IdempotencyStrategy(idempotency_strategy),
        external_input_payload_storage_path=uploaded,
    ).workflow_id


def _is_file(definition: str) -> bool:
    """Whether a DEFINITION names a file; a name that ends in .json does, also when there is none."""
    return definition.endswith(".json") or Path(definition).is_file()


STARTING = (run_, start)
