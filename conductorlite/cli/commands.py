"""The program and its commands that run and start executions; the others are in the modules beside this one.

The reference page of the command line, made from the commands: `python -m conductorlite.cli.commands` prints it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from conductorlite.cli.driving import DRIVING
from conductorlite.cli.execution import drive
from conductorlite.cli.maintenance import MAINTENANCE, MOVING, RETENTION, lint
from conductorlite.cli.operations import CHANGING, MESSAGES
from conductorlite.cli.output import discard_output
from conductorlite.cli.queries import LOOKING, explained
from conductorlite.cli.schedules import SCHEDULING
from conductorlite.cli.serving import serve
from conductorlite.cli.shared import (
    Exit,
    OutputClosed,
    Setting,
    SharedGroup,
    command_options,
    read_definition,
    read_input,
    read_task_defs,
    read_workers,
    with_system_workers,
)
from conductorlite.ext.secrets import EnvironmentSecrets
from conductorlite.language.templates import apply_workflow_input_template
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.documents import workflow_to_json
from conductorlite.model.errors import Conflict, ExecutionNotFound
from conductorlite.model.executions import Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import to_span
from conductorlite.plan.tree import OPERATOR_TYPES, walk
from conductorlite.runtime.engine import Engine

__all__ = ["page", "program", "run_command"]


@click.group(
    cls=SharedGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "terminal_width": 100}
)
@click.version_option(package_name="conductorlite", message="%(package)s %(version)s")
def program() -> None:
    """Run and look at workflows that are kept in a SQLite database.

    The options below may also follow the name of a command. Exit codes: 0 ok, 1 the execution failed or something was found,
    2 usage, 3 not found, 4 conflict, 5 storage, 6 not in time, 70 internal error, 130 interrupted, 141 nobody reads the
    answer, 143 terminated.
    """


def run_command(arguments: Sequence[str]) -> int:
    """Run the program on arguments and return its exit code; nothing is raised."""
    try:
        code = _run(arguments)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        return code
    except (BrokenPipeError, OutputClosed):
        discard_output()
        return int(Exit.PIPE)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = program.main(list(arguments), prog_name="conductorlite", standalone_mode=False)
        return int(code) if isinstance(code, int) else 0
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return int(Exit.USAGE)
    except click.ClickException as error:
        error.show()
        return int(Exit.USAGE)
    except (KeyboardInterrupt, click.Abort):
        click.echo("conductorlite: interrupted", err=True)
        return int(Exit.INTERRUPTED)


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


@program.command("run")
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


@program.command("start")
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


for _command in (*CHANGING, *LOOKING, *DRIVING, serve, lint, *MOVING, *MESSAGES, *SCHEDULING, *RETENTION, *MAINTENANCE):
    program.add_command(_command)


_HEAD = """# Command line

<!-- Written by conductorlite/cli/commands.py: change the commands, then run `python -m conductorlite.cli.commands`. -->

Needs the extra `cli`: `pip install 'conductorlite[cli]'`. How to work with it: [Use the command
line](../how-to/use-the-command-line.md).

Answers go to standard output, remarks and errors to standard error; an error is one line (the problems of a definition a
line each). On a terminal tables are coloured; elsewhere they are aligned text. Instants are UTC. The database is
`conductorlite.db` in the current folder unless `--db` names another, its payload storage
beside it unless `--payloads` does. `--db`, `--payloads`, `--json` and `--debug` may stand before or after the name of a command;
what stands after it wins. The environment variables `CONDUCTORLITE_DB` and `CONDUCTORLITE_PAYLOADS` stand in for the options that
are not given, `CONDUCTORLITE_TOKEN` for the token of `serve`; conductorlite reads no others, but those that `run --secrets-prefix`
asks for. The library that paints terminals honours `NO_COLOR`, `TERM` and their like.

## Exit codes

| code | meaning |
|---|---|
"""

_JSON = """
## JSON

| command | document |
|---|---|
| `run` | Conductor's Workflow without `tasks` and `workflowDefinition` |
| `show` | Conductor's Workflow with both; instants epoch ms (0: not yet), spans seconds, nulls left out |
| `list` | `totalHits` (counted up to 1,000 past `--limit`), `results`: Conductor's WorkflowSummary less input and output |
| `start`, `retry`, `restart`, `rerun`, `pause`, `resume`, `terminate` | `workflowId`, `status` |
| `remove` | `workflowId`, `removed` |
| `sweep-payloads` | `deleted`, `found` |
| these with several ids | `bulkSuccessfulResults`: a list of such documents, and `bulkErrorResults`: messages by id |
| `skip` | `workflowId`, `referenceTaskName`, `status` |
| `signal` | `workflowId`, `referenceTaskName`, `taskId`, `status` |
| `set-variables` | `workflowId`, `variables` |
| `history` | a list of `n`, `time`, `kind`, `status`; if any `referenceTaskName`, `retryCount`, `iteration`, `reason`, \
 `data` (or `externalPayloadStoragePath`), `cause` |
| `logs` | a list of `time`, `referenceTaskName`, `retryCount`, `taskId`, `log` |
| `watch` | such documents as `history` has, one a line |
| `export` | the document of [Engine.admin.export](../how-to/export-and-replay.md); with `-o`: `workflowId`, `file`, `executions` |
| `explain` | `workflowId`, `status`, `text` |
| `agenda` | a list of `time`, `kind`, `workflowId`, `referenceTaskName` |
| `serve` | `url`, and `token` if one was made |
| `worker`, `drive` | `driving`, the store |
| `copy` | `copied`: rows by table, and `problems` |
| `limits` | a list of `key`, `inUse`, `waiting`, `admittedAt`, `reserved`, `windowMovesAt`; with a key one, with `holders` and \
 `line`: lists of `workflowId`, `referenceTaskName`, `taskId`, `retryCount`, `priority`, `askedAt` and the limits they ask under |
| `check` | `checked`, and `findings`: a list of `law`, `workflowId`, `text`; with `--repair` such a list `repaired` |
| `engines` | a list of `name`, `open`, `ended`, `events` |
| `take-over` | `from`, `to` (null: all engines), `executions`: how many |
| `backup` | `file` |
| `diagram` | `mermaid` |
| `to-python` | `python` |
| `lint` | a list of `source`, `path`, `message`, `severity`; with `--format sarif` SARIF 2.1.0 |
| `diff` | `name`, `from`, `to`, `fields`, `added`, `removed`, `changed`, `moved`, `perhapsRenamed`, `inside` |
| `migrate` | per execution: `verdict`, `reasons`, `notes`, `live`, `renamed`; with `--all` an `error` if it was not moved |
| `publish`, `events` | a list of Conductor's EventExecution: `id`, \
 `messageId`, `name`, `event`, `created`, `status`, `action`, `output` |
| `handlers` | a list of Conductor's EventHandler |
| `schedule` `save`, `show`, `pause`, `resume` | Conductor's WorkflowSchedule with `nextRunTime`, and `running`, `buffered`, \
 `backfills`, `recent` |
| `schedule list` | a list of these |
| `schedule preview` | a list of instants, epoch ms |
| `schedule backfill` | `name`, `instants`: how many |
| `schedule remove` | `name`, `removed` |
| `search` | `totalHits`, `results`: Conductor's WorkflowSummary, or with `--tasks` TaskSummary |
| `archive` | `bulkSuccessfulResults`: a list of ids, and `bulkErrorResults`: messages by id |
| `prune` | `removed`, `archived`, `kept`: lists of ids, and `bulkErrorResults`: messages by id |
| `compact` | `bytesBefore`, `bytesAfter` |
| `size` | `fileBytes`, `freeBytes`, `kinds` and `executions`: rows and bytes |
| `reindex` | `executions`: how many are indexed |
| `validate` | `valid`, and `problems`: a list of `path`, `message`, `severity` |
"""


def page() -> str:
    """The whole page: exit codes, JSON documents, and the help of every command as it is printed."""
    codes = "".join(f"| {int(code)} | {code.meaning} |\n" for code in Exit)
    helps = [_help(None, program)]
    for name, command in program.commands.items():
        helps.append(_help(name, command))
        if isinstance(command, click.Group):
            helps += [_help(f"{name} {inner}", each) for inner, each in command.commands.items()]
    return f"{_HEAD}{codes}{_JSON}\n" + "\n".join(helps)


def _help(name: str | None, command: click.Command) -> str:
    parent = click.Context(program, info_name="conductorlite", **program.context_settings)
    context = parent if name is None else click.Context(command, info_name=name, parent=parent)
    text = command.get_help(context)
    return f"## {'conductorlite' if name is None else name}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    click.echo(page(), nl=False)
