"""Output that scripts print: lines for the log of the task whose script they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final

from conductorlite.model.threads import carried

__all__ = ["collect_lines", "note_lines", "without_lines"]

_lines: Final[ContextVar[list[str] | None]] = ContextVar("_lines", default=None)


def collect_lines(into: list[str]) -> AbstractContextManager[None]:
    """A block in which what scripts print is added to a list."""
    return carried(_lines, into)


def note_lines(lines: Sequence[str]) -> None:
    """Add lines that a script has printed to the list of the block, if there is one."""
    found = _lines.get()
    if found is not None:
        found.extend(lines)


def without_lines(answer: str) -> str:
    """An answer without the lines that a script has printed, which stand before it and are noted."""
    if answer.startswith(">"):
        lines, _, answer = answer[1:].partition("\n")
        note_lines(json.loads(lines))
    return answer
