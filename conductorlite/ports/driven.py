"""When the store was driven: what the timeouts that nobody wrote count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["DrivenReads", "DrivenWrites"]


class DrivenReads(Protocol):
    """Finding the stretches of time in which engines drove."""

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """Beginnings and ends (epoch ms) of the stretches of an owner's drivers that end after `since`, in order of beginnings.

        They may overlap: each driver notes its own.
        """
        ...


class DrivenWrites(Protocol):
    """Noting such stretches."""

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        """Keep that an owner's driver drove from `begin` to `end`; of stretches with one beginning the longest is kept."""
        ...

    def forget_driven(self, owner: str, kept: int) -> None:
        """Keep no more than the newest stretches of an owner, so many, in order of beginnings."""
        ...
