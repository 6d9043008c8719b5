"""The commands that compare definitions and move executions from one to another."""

from __future__ import annotations

from typing import Any

import click

from conductorlite.cli.exits import Exit
from conductorlite.cli.reading import read_definition
from conductorlite.cli.shared import Setting, command_options
from conductorlite.cli.showing import one_line
from conductorlite.definitions import WorkflowDef
from conductorlite.migration import DefinitionDiff, MigrationPlan
from conductorlite.migration import diff as difference

__all__ = ["MOVING"]


@click.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@command_options(database=False)
def diff(setting: Setting, old: str, new: str) -> Exit:
    """Say what tells two definition files apart.

    A line per difference: + added, - removed, ~ changed fields, > moved, ? perhaps only renamed. Exits with 1 if there is any.
    """
    found = difference(read_definition(old), read_definition(new))
    if setting.json:
        setting.screen.document(_diff_document(found))
    else:
        for line in str(found).split("\n"):
            setting.screen.text(_kept(line))
    return Exit.FAILED if found else Exit.OK


@click.command("migrate")
@click.argument("workflow_id", metavar="[ID]", required=False)
@click.option("--all", "name", metavar="NAME", help="Every running or paused execution of this workflow, instead of one.")
@click.option("--from", "from_version", metavar="VERSION", type=int, help="With --all: of this version.")
@click.option("--to", metavar="VERSION|FILE", help="A registered version, or a definition file (default: the highest version).")
@click.option("--map", "pairs", metavar="OLD=NEW", multiple=True, help="A reference that is called NEW in the new definition.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and change nothing.")
@command_options()
def migrate(setting: Setting, workflow_id: str | None, name: str | None, from_version: int | None, to: str | None,
            pairs: tuple[str, ...], dry_run: bool) -> Exit:  # fmt: skip
    """Move a running or paused execution, or all of a version, to another definition.

    What has ended stays; what is live must have its place in the new definition. Exits with 4 if one cannot be moved.
    """
    if (workflow_id is None) == (name is None):
        raise click.UsageError("give an ID, or --all NAME")
    if (name is None) != (from_version is None):
        raise click.UsageError("--all and --from go together")
    target, refs = _target(to), _refs(pairs)
    found: dict[str, MigrationPlan | str]
    with setting.engine() as engine:
        if workflow_id is not None:
            found = {workflow_id: engine.migrate(workflow_id, target, refs=refs, dry_run=dry_run)}
        else:
            found = engine.migrate_all(name or "", from_version or 0, target, refs=refs, dry_run=dry_run)
    if setting.json:
        setting.screen.document({key: _plan_document(plan) for key, plan in found.items()})
    else:
        for plan in found.values():
            for line in str(plan).split("\n"):
                setting.screen.text(_kept(line))
    if name is not None:
        stuck = sum(isinstance(plan, str) or plan.blocked for plan in found.values())
        setting.screen.note(f"{len(found) - stuck} of {len(found)} {'can be moved' if dry_run else 'moved'}")
    return Exit.CONFLICT if any(isinstance(plan, str) or plan.blocked for plan in found.values()) else Exit.OK


def _target(to: str | None) -> WorkflowDef | int | None:
    if to is None:
        return None
    return int(to) if to.isascii() and to.isdigit() else read_definition(to)


def _refs(pairs: tuple[str, ...]) -> dict[str, str]:
    refs: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise click.UsageError(f"--map {pair!r} is not OLD=NEW")
        if old in refs:
            raise click.UsageError(f"--map gives {old!r} twice")
        refs[old] = new
    return refs


def _kept(line: str) -> str:
    """A line with its indentation, and nothing a terminal would obey."""
    return " " * (len(line) - len(line.lstrip(" "))) + one_line(line.lstrip(" ")) + "\n"


def _diff_document(found: DefinitionDiff) -> dict[str, Any]:
    return {
        "name": found.name,
        "from": found.old_version,
        "to": found.new_version,
        "fields": list(found.fields),
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": {ref: list(names) for ref, names in found.changed.items()},
        "moved": {ref: {"from": was, "to": now} for ref, (was, now) in found.moved.items()},
        "perhapsRenamed": dict(found.renamed),
        "inside": {ref: _diff_document(inner) for ref, inner in found.inside.items()},
    }


def _plan_document(plan: MigrationPlan | str) -> dict[str, Any]:
    if isinstance(plan, str):
        return {"error": plan}
    return {
        "verdict": str(plan.verdict),
        "reasons": list(plan.reasons),
        "notes": list(plan.notes),
        "live": dict(plan.live),
        "renamed": dict(plan.renamed),
    }


#: What `commands` adds to the program.
MOVING = (diff, migrate)
