"""The reference page of the command line, made from the commands: `python -m conductorlite.cli.page` prints it."""

from __future__ import annotations

import click

from conductorlite.cli.commands import program
from conductorlite.cli.exits import Exit

__all__ = ["page"]

_HEAD = """# Command line

<!-- Written by conductorlite/cli/page.py: change the commands, then run `python -m conductorlite.cli.page`. -->

Needs the extra `cli`: `pip install 'conductorlite[cli]'`. How to work with it: [Use the command
line](../how-to/use-the-command-line.md).

Answers go to standard output, remarks and errors to standard error; an error is one line (the problems of a definition a
line each). On a terminal tables are coloured; elsewhere they are aligned text. Instants are UTC. The database is
`conductorlite.db` in the current folder unless `--db` names another, its payload storage
beside it unless `--payloads` does. `--db`, `--payloads`, `--json` and `--debug` may stand before or after the name of a command;
what stands after it wins. The environment variables `CONDUCTORLITE_DB` and `CONDUCTORLITE_PAYLOADS` stand in for the options that
are not given; conductorlite reads no others, but those that `run --secrets-prefix` asks for. The library that paints terminals
honours `NO_COLOR`, `TERM` and their like.

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
| `export` | the document of [Engine.export](../how-to/export-and-replay.md); with `-o`: `workflowId`, `file`, `executions` |
| `explain` | `workflowId`, `status`, `text` |
| `agenda` | a list of `time`, `kind`, `workflowId`, `referenceTaskName` |
| `limits` | a list of `key`, `inUse`, `waiting`, `admittedAt`, `reserved`, `windowMovesAt`; with a key one, with `holders` and \
 `line`: lists of `workflowId`, `referenceTaskName`, `taskId`, `retryCount`, `priority`, `askedAt` and the limits they ask under |
| `check` | `checked`, and `findings`: a list of `law`, `workflowId`, `text`; with `--repair` such a list `repaired` |
| `engines` | a list of `name`, `open`, `ended`, `letters` |
| `take-over` | `from`, `to` (null: all engines), `executions`: how many |
| `backup` | `file` |
| `diagram` | `mermaid` |
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
| `reindex` | `index`: the file (null: forgotten), `executions`: how many |
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
