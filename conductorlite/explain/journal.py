"""What lines of the journal tell about an execution that was run again or moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductorlite.executions import HistoryEvent, HistoryKind

__all__ = ["TAKEN_BACK", "dropped", "is_taken_back", "versions"]

#: Verbs that take back what an execution has done, in words.
TAKEN_BACK: Final = {"RERUN": "rerun", "RESTART": "restarted"}


def is_taken_back(line: HistoryEvent) -> bool:
    """Whether a line tells that a verb has taken back what was done."""
    return line.kind is HistoryKind.VERB and line.status in TAKEN_BACK


def dropped(line: HistoryEvent) -> Sequence[str]:
    """References of which a line says that every attempt is gone."""
    telling = (is_taken_back(line) or line.status == "DROPPED") and line.payload is not None
    found: Sequence[str] = line.payload.value.get("dropped", ()) if telling and line.payload is not None else ()
    return found


def versions(line: HistoryEvent) -> str:
    """Between which versions a MIGRATED line tells of a move."""
    said = {} if line.payload is None else line.payload.value
    return f"from version {said['from']['version']} to {said['to']['version']}"
