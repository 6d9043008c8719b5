"""Schedules: rows with a fence of their own, each with an inbox like an execution's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from conductorlite.decisions import Event

__all__ = [
    "ScheduleReads",
    "ScheduleRow",
    "ScheduleWrites",
]


@attrs.frozen(kw_only=True, slots=True)
class ScheduleRow:
    """One schedule as it is kept: two texts that mean nothing to the store."""

    name: str
    #: The inbox its letters lie in.
    address: str
    #: What is wanted.
    text: str
    #: How far it has come.
    progress: str
    #: Whether the end of an execution it has started is to be told to it.
    waits: bool = False
    #: The fence that was read; 0 for one that is not stored yet.
    fence: int = 0
    #: The engine that alone drives it; empty: any.
    owner: str = ""


class ScheduleReads(Protocol):
    """Finding schedules."""

    def schedule(self, name: str) -> ScheduleRow | None:
        """A schedule by its name, or None."""
        ...

    def schedules(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        """A page of schedules in ascending order of names, greater than `after`."""
        ...

    def next_letter(self, owner: str = "") -> tuple[int, str] | None:
        """`due_at` and address of the first letter of an owner that is not held, or None."""
        ...


class ScheduleWrites(Protocol):
    """Changing schedules."""

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], letters: Sequence[Event]) -> None:
        """Store a schedule under its fence; its inbox loses the letters `consumed`, by id, then gets `letters`.

        Raises FencedOut, and changes nothing, when the stored fence differs from `row.fence` (0: there is none yet). The stored
        fence becomes that number plus one.
        """
        ...

    def drop_schedule(self, name: str) -> None:
        """Delete a schedule with its inbox; nothing happens when it is not there."""
        ...
