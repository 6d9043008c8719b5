"""What letters that are held stand for, in words."""

from __future__ import annotations

from typing import Final

from conductorlite.decisions import Event, EventKind

__all__ = ["REOPENED_BY", "held_letter"]

#: What an ended execution is to do once it has a slot, by the letter that waits for it.
REOPENED_BY: Final = {
    EventKind.RETRY: "retried",
    EventKind.RERUN: "rerun",
    EventKind.CHILD_REOPENED: "reopened with the sub-workflow it had waited for",
}

_HELD: Final = {
    EventKind.POLL_TIMEOUT: "the poll timeout of",
    EventKind.RESPONSE_TIMEOUT: "the response timeout of",
    EventKind.TASK_TIMEOUT: "the task timeout of",
    EventKind.TOTAL_TIMEOUT: "the total timeout of",
    EventKind.CONTINUE: "what follows",
    EventKind.ADMISSION: "the slot or the retry of",
}


def held_letter(event: Event) -> str:
    """One held letter."""
    if event.ref is not None:
        return f"{_HELD.get(event.kind, str(event.kind))} {event.ref}"
    if event.kind is EventKind.ADMISSION:
        return "its own slot"
    return "its first task" if event.kind is EventKind.START else "the rest of a cut turn"
