"""docs/reference/cli.md is what the commands themselves say."""

from __future__ import annotations

from pathlib import Path

import click
from cli_kit import Shell

from conductorlite.cli.commands import complete, page
from conductorlite.cli.shared import Exit

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_the_help() -> None:
    """The page in the repository is the one the commands write (`python -m conductorlite.cli.commands > docs/reference/cli.md`)."""
    assert (DOCS / "reference" / "cli.md").read_text(encoding="utf-8") == page()


def test_the_page_has_what_help_prints(shell: Shell) -> None:
    """`--help` of every command prints, event by event, what stands on the page."""
    text = page()
    assert "-h, --help" in text
    groups = {name: group for name, group in complete().commands.items() if isinstance(group, click.Group)}
    inner = [[name, each] for name, group in groups.items() for each in group.commands]
    assert inner
    for arguments in ([], *([name] for name in complete().commands), *inner):
        said = shell(*arguments, "--help")
        assert said.code == 0
        assert f"```text\n{said.out.rstrip()}\n```" in text, arguments


def test_every_command_and_code_is_told() -> None:
    """Each command has a section and a JSON document; each exit code has its row."""
    text = page()
    tables = text.partition("## JSON")[2].partition("## conductorlite")[0]
    assert [name for name in complete().commands if f"\n## {name}\n" not in text or f"`{name}`" not in tables] == []
    assert [code for code in Exit if f"\n| {int(code)} | {code.meaning} |\n" not in text] == []
