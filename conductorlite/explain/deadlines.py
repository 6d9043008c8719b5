"""When a task runs into its next deadline, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conductorlite.decisions import DEADLINES
from conductorlite.executions import Task
from conductorlite.explain.words import span_in_words

__all__ = ["DrivenLeft", "next_deadline"]

#: How much driven time is left of deadlines that nobody wrote, ms, by execution and id of the timer.
DrivenLeft = Mapping[tuple[str, str], int]

_NAMES: Final = {
    "poll_timeout_at": "poll timeout",
    "response_timeout_at": "response timeout",
    "timeout_at": "task timeout",
    "total_timeout_at": "total timeout",
}


def next_deadline(task: Task, now: int, left: DrivenLeft) -> str:
    """The next deadline of a task; nothing when it has none."""
    instants = []
    for field, name in _NAMES.items():
        at: int | None = getattr(task, field)
        if at is not None:
            driven = left.get((task.workflow_id, f"{DEADLINES[field]}:{task.ref}"))
            instants.append((at if driven is None else now + driven, name, "" if driven is None else " of driven time"))
    if not instants:
        return ""
    at, name, counts = min(instants)
    if at > now:
        return f"; its {name} comes in {span_in_words(at - now)}{counts}"
    return f"; its {name} is {'now' if at == now else f'overdue for {span_in_words(now - at)}'}"
