"""The command line: `conductorlite run order.json …`. Needs the extra `cli` (click and rich).

    shared      exit codes, the options all commands have, one line on stderr per error; from texts to objects
    output      tables on a terminal, aligned text elsewhere, JSON on request
    execution   drives one execution in a thread of its own while the main thread shows and listens
    commands    the program; its commands are imported when they are asked for, from
    driving, queries, operations, schedules, maintenance

Nothing here is imported before `main` is called, and only CONDUCTORLITE_DB and CONDUCTORLITE_PAYLOADS are read from the
process environment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from conductorlite.model.errors import MissingExtra

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: the process's arguments) and return its exit code."""
    try:
        import click  # noqa: F401 - asked for here, so that its absence is one clear line
        import rich  # noqa: F401
    except ImportError:
        print(f"conductorlite: {MissingExtra('cli', 'The command line')}", file=sys.stderr)
        return 2
    from conductorlite.cli.commands import run_command

    return run_command(list(sys.argv[1:] if arguments is None else arguments))
