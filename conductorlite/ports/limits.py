"""Limits. They change with the decisions that name them, see `ExecutionWrites.apply`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from conductorlite.limits import Limit, LimitChange, Line, Member

__all__ = ["LimitReads", "LimitWrites"]


class LimitReads(Protocol):
    """Who holds slots of limits, and who waits."""

    def line(self, key: str, heads: int) -> Line:
        """A limit (one that nobody has asked yet is empty, with fence 0) with up to so many heads of each lane of its line."""
        ...

    def member(self, key: str, holder: str) -> Member | None:
        """One member of a limit, or None."""
        ...

    def members(self, key: str) -> Sequence[Member]:
        """All members of a limit: those with a slot in order of holder, then the line."""
        ...

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        """What an execution and its tasks hold and wait for, in order of key, then holder."""
        ...

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane until somebody polls it, in order."""
        ...

    def limits(self, after: str, limit: int) -> Sequence[Limit]:
        """A page of limits in order of their keys, greater than `after`."""
        ...

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        """A page of the members of a limit that have a slot, given ones included, in order of holder, greater than `after`."""
        ...

    def waiting(self, key: str, before: Member | None = None) -> int:
        """How many wait in the line of a limit; with `before`, how many of them come before it. Reads that part of the line."""
        ...


class LimitWrites(Protocol):
    """Changing limits outside a decision."""

    def put_limit(self, change: LimitChange) -> None:
        """Set one limit right; raises FencedOut when its fence differs. An unused one (`LimitChange.unused`) is forgotten.

        One that comes back under a key that was forgotten has a higher fence than any there was.
        """
        ...
