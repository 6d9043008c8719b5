"""The program; its commands are in the modules beside this one, each imported when it is asked for.

The reference page of the command line, made from the commands: `python -m conductorlite.cli.commands` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from conductorlite import __version__
from conductorlite.cli.output import discard_output
from conductorlite.cli.shared import Exit, OutputClosed, SharedGroup

__all__ = ["complete", "page", "program", "run_command"]

#: The commands, where they are and what they are together there, in the order of the page.
_COMMANDS: Final = {
    ("driving", "STARTING"): "run start",
    (
        "operations",
        "CHANGING",
    ): "retry restart rerun fork skip send signal set-variables pause resume terminate remove sweep-payloads",
    ("queries", "LOOKING"): "list show history logs watch export explain agenda queues limits check diagram to-python compile",
    ("talking", "TALKING"): "messages stream",
    ("maintenance", "VALIDATING"): "validate",
    ("driving", "DRIVING"): "worker drive copy",
    ("driving", "SERVING"): "serve",
    ("maintenance", "LINTING"): "lint",
    ("maintenance", "IMPORTING"): "import",
    ("maintenance", "MOVING"): "diff migrate",
    ("operations", "MESSAGES"): "publish events handlers",
    ("schedules", "SCHEDULING"): "schedule",
    ("maintenance", "RETENTION"): "search query archive prune compact reseal size reindex",
    ("maintenance", "MAINTENANCE"): "engines take-over backup",
}


class _Program(SharedGroup):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(" ".join(_COMMANDS.values()).split())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for (module, name), commands in _COMMANDS.items():
            if cmd_name in commands.split():
                made: tuple[click.Command, ...] = getattr(import_module(f"conductorlite.cli.{module}"), name)
                return next(command for command in made if command.name == cmd_name)
        return None


@click.group(
    cls=_Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "terminal_width": 100}
)
@click.version_option(__version__, message="conductorlite %(version)s")
def program() -> None:
    """Run and look at workflows that are kept in a SQLite database.

    The options below may also follow the name of a command. Exit codes: 0 ok, 1 the execution failed or something was found,
    2 usage, 3 not found, 4 conflict, 5 storage, 6 not in time, 70 internal error, 130 interrupted, 141 nobody reads the
    answer, 143 terminated.
    """


def complete() -> SharedGroup:
    """The program, all its commands imported."""
    context = click.Context(program)
    for name in " ".join(_COMMANDS.values()).split():
        command = program.get_command(context, name)
        if command is not None and name not in program.commands:
            program.add_command(command)
    return program


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


_HEAD = """# Command line

<!-- Written by conductorlite/cli/commands.py: change the commands, then run `python -m conductorlite.cli.commands`. -->

This page lists every command, option, exit code and JSON document. Install the extra `cli`: `pip install
'conductorlite[cli]'`. For tasks, see [Use the command line](../how-to/use-the-command-line.md).

- Results go to standard output, notes and errors to standard error. An error is one line (each problem of a definition on its own).
- Tables are colored on a terminal, which honors `NO_COLOR` and `TERM`. Instants are UTC.
- The database is `conductorlite.db` in the current folder unless you give `--db`; its payload storage is beside it unless you give
  `--payloads`. `--db`, `--payloads`, `--codec`, `--json` and `--debug` may come before or after the command; after it, they win.
- The environment variables `CONDUCTORLITE_DB`, `CONDUCTORLITE_PAYLOADS`, `CONDUCTORLITE_CODEC` and `CONDUCTORLITE_TOKEN` (for
  `serve` and `worker`) set missing options. No others are read, except those of `run --secrets-prefix`.

## Exit codes

| code | meaning |
|---|---|
"""

_JSON = """
## JSON

| command | document |
|---|---|
| `run` | Conductor's Workflow without `tasks` and `workflowDefinition` |
| `show` | Conductor's Workflow with both; instants in epoch ms (0: not yet), spans in seconds, without nulls |
| `list` | `totalHits` (counted up to 1,000 past `--limit`), `results`: Conductor's WorkflowSummary without input and output |
| `start`, `retry`, `restart`, `rerun`, `fork`, `pause`, `resume`, `terminate` | `workflowId`, `status` |
| `fork --dry-run` | `workflowId`, `at`, `kept`, `again`, `dropped`, `shared`: ids of executions by reference |
| `remove` | `workflowId`, `removed` |
| `sweep-payloads` | `deleted`, `found` |
| these with several ids | `bulkSuccessfulResults`: a list of such documents, and `bulkErrorResults`: messages by id |
| `skip` | `workflowId`, `referenceTaskName`, `status` |
| `send` | `workflowId`, `topic`, `key`, `number`, `receiver` |
| `signal` | `workflowId`, `referenceTaskName`, `taskId`, `status`; for a kept signal `kept` instead of the last two |
| `set-variables` | `workflowId`, `variables` |
| `messages` | a list of `number`, `topic`, `key`, `time`, `value`; if received `receiver`, `receivedAt` |
| `stream` | a list of `number`, `stream`, `time`, `referenceTaskName`, `retryCount`, `kept`, `value`; with `--follow` one a line, \
 or `dropped`: the first and the last number, `referenceTaskName`, `retryCount` |
| `history` | a list of `n`, `time`, `kind`, `status`; if any `referenceTaskName`, `retryCount`, `iteration`, `reason`, \
 `data` (or `externalPayloadStoragePath`), `cause` |
| `logs` | a list of `time`, `referenceTaskName`, `retryCount`, `taskId`, `log` |
| `watch` | the documents of `history`, one a line |
| `export` | the document of [Engine.admin.export](../how-to/export-and-replay.md); with `-o`: `workflowId`, `file`, `executions` |
| `explain` | `workflowId`, `status`, `text` |
| `agenda` | a list of `time`, `kind`, `workflowId`, `referenceTaskName` |
| `serve` | `url`, and `token` if one was made |
| `worker`, `drive` | `driving`, the store |
| `copy` | `copied`: rows by table, and `problems` |
| `queues` | a list of `queue`, `taskType`, `domain`, `offered`, `waiting`, `delayed`, `inProgress`, `oldestDueAt` |
| `limits` | a list of `key`, `inUse`, `waiting`, `admittedAt`, `reserved`, `windowMovesAt`; with a key one, with `holders` and \
 `line`: lists of `workflowId`, `referenceTaskName`, `taskId`, `retryCount`, `priority`, `askedAt`, \
 `fairnessKey` and the limits they ask under |
| `check` | `checked`, and `findings`: a list of `law`, `workflowId`, `text`; with `--repair` such a list `repaired` |
| `engines` | a list of `name`, `open`, `ended`, `events` |
| `take-over` | `from`, `to` (null: all engines), `executions`: how many |
| `backup` | `file` |
| `diagram` | `mermaid` |
| `to-python` | `python` |
| `compile` | the definition; with `-o`: `files` |
| `lint` | a list of `source`, `path`, `message`, `severity`; with `--format sarif` SARIF 2.1.0 |
| `import` | `workflows`, `tasks`, `eventHandlers`, `schemas`: what is registered now; `findings`: a list of `source`, `path`, \
 `message`, `severity` (`error`, `warning`, `note`) |
| `diff` | `name`, `from`, `to`, `fields`, `added`, `removed`, `changed`, `moved`, `perhapsRenamed`, `inside` |
| `migrate` | per execution: `verdict`, `reasons`, `notes`, `lost`, `live`, `renamed`; with `--all` an `error` if it was not moved |
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
| `query` | a list of rows, each an object with the columns of the query |
| `archive` | `bulkSuccessfulResults`: a list of ids, and `bulkErrorResults`: messages by id |
| `prune` | `removed`, `archived`, `kept`: lists of ids, and `bulkErrorResults`: messages by id |
| `compact` | `bytesBefore`, `bytesAfter` |
| `reseal` | `rows`, `keysNotNeeded` |
| `size` | `fileBytes`, `freeBytes`, `kinds` and `executions`: rows and bytes |
| `reindex` | `executions`: how many are indexed |
| `validate` | `valid`, and `problems`: a list of `path`, `message`, `severity` |
"""


def page() -> str:
    """The whole page: exit codes, JSON documents, and the help of every command as it is printed."""
    codes = "".join(f"| {int(code)} | {code.meaning} |\n" for code in Exit)
    helps = [_help(None, program)]
    for name, command in complete().commands.items():
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
