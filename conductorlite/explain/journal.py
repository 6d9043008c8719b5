"""What lines of the journal tell about an execution that was run again or moved, and of attempts that were given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductorlite.decider import ALONE_AFTER
from conductorlite.executions import HistoryEvent, HistoryKind, Task

__all__ = ["TAKEN_BACK", "deaths", "dropped", "given_back", "is_taken_back", "versions"]

#: Verbs that take back what an execution has done, in words.
TAKEN_BACK: Final = {"RERUN": "rerun", "RESTART": "restarted"}


#: How the reason of a line begins by which an attempt is offered once more.
_GIVEN_BACK: Final = "given back: "


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


def given_back(task: Task, history: Sequence[HistoryEvent]) -> str:
    """That an offered attempt was given back, by whom and why, and what follows from deaths."""
    of_it = (line for line in reversed(history) if line.kind is HistoryKind.TASK and line.ref == task.ref)
    line = next((line for line in of_it if line.attempt == task.attempt), None)
    why = "" if line is None or not (line.reason or "").startswith(_GIVEN_BACK) else f", {line.reason}"
    return f"{why}{deaths(task)}"


def deaths(task: Task) -> str:
    """How often the process of its worker has died with an attempt in hand, and whether it is therefore alone."""
    if not task.deaths:
        return ""
    alone = "alone, " if task.deaths >= ALONE_AFTER else ""
    return f", {alone}after {task.deaths} death{'s' if task.deaths > 1 else ''} of its worker's process"
