"""The commands on the database as a whole: whose executions are whose, and copies."""

from __future__ import annotations

from pathlib import Path

import click

from conductorlite.cli.shared import Setting, command_options

__all__ = ["UPKEEP"]


@click.command("engines")
@command_options()
def engines(setting: Setting) -> None:
    """List the engines that keep executions to themselves, with how many."""
    with setting.engine() as engine:
        shares = engine.engines()
    if setting.json:
        setting.screen.document(
            [{"name": one.name, "open": one.open, "ended": one.ended, "letters": one.letters} for one in shares]
        )
        return
    setting.screen.table(("ENGINE", "OPEN", "ENDED", "LETTERS"), [(one.name, one.open, one.ended, one.letters) for one in shares])


@click.command("take-over")
@click.argument("name", metavar="ENGINE")
@click.option("--to", "heir", metavar="ENGINE", help="Whose they are from now on (default: all engines').")
@command_options()
def take_over(setting: Setting, name: str, heir: str | None) -> None:
    """Give all that belongs to an engine that does not come back to another one, or to all."""
    with setting.engine(name=heir) as engine:
        moved = engine.take_over(name)
    if setting.json:
        setting.screen.document({"from": name, "to": heir, "executions": moved})
    else:
        setting.screen.line(f"{moved} executions of {name} belong to {heir or 'all engines'} now")


@click.command("backup")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@command_options()
def backup(setting: Setting, file: Path) -> None:
    """Copy the database, as it is at one instant, into a new file, while others go on with it."""
    with setting.engine() as engine:
        engine.backup(file)
    if setting.json:
        setting.screen.document({"file": str(file)})
    else:
        setting.screen.line(str(file))


#: Every command of this file.
UPKEEP = (engines, take_over, backup)
