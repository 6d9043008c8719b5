"""Whose executions are whose, where engines keep what they have started to themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

__all__ = ["OwnerReads", "OwnerRow", "OwnerWrites"]


@attrs.frozen(kw_only=True, slots=True)
class OwnerRow:
    """What belongs to one engine: executions by status, and letters that wait in inboxes (timers and schedules included)."""

    name: str
    #: Number of executions by the name of their status.
    executions: dict[str, int]
    letters: int


class OwnerReads(Protocol):
    """Finding owners. The empty name means everybody, and is never listed."""

    def owners(self) -> Sequence[OwnerRow]:
        """Everybody who owns an execution or a letter, in order of names."""
        ...


class OwnerWrites(Protocol):
    """Changing owners."""

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, in order of their ids, greater than `after`; returns those ids.

        With an execution go its letters and its messages, whose queues are named anew (see `queue_name`), and its fence is
        raised by one: what was decided for the old owner is fenced out.
        """
        ...

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        """Give an owner's schedules, and its letters to what has not begun, to another; returns how many schedules that were."""
        ...
