"""Who has tasks of the store in hand: open engines, and how it is known that one is no more."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import attrs

from conductorlite.executions import Task

__all__ = ["HolderReads", "HolderRow", "HolderWrites", "Life", "Presence"]


class Life(StrEnum):
    """What is known of a holder by its presence."""

    ALIVE = "ALIVE"
    #: It went without giving back, but of its own will.
    LEFT = "LEFT"
    #: Its process has died.
    DEAD = "DEAD"
    #: There is no trace of it: nobody can say.
    MISSING = "MISSING"
    #: It is where this process cannot look: another host, a mount that passes no locks.
    ELSEWHERE = "ELSEWHERE"


@attrs.frozen(kw_only=True, slots=True)
class HolderRow:
    """An engine whose workers may have tasks in hand.

    `place` says, in the backend's own words, where its presence is seen. `lease_until` (epoch ms) counts where that cannot be
    looked at; None: it has no lease, and is there until its presence tells otherwise.
    """

    holder: str
    place: str
    lease_until: int | None = None


class Presence(Protocol):
    """The sign that a holder is alive. It ends with its process, whatever ends that."""

    @property
    def place(self) -> str:
        """Where others look for it."""
        ...

    @property
    def leased(self) -> bool:
        """Whether there may be somebody who cannot look there, for whom only a lease counts."""
        ...

    def leave(self) -> None:
        """End it, telling that the holder went of its own will; from another process than its own, nothing. Idempotent."""
        ...

    def die(self) -> None:
        """End it as the death of its process would; idempotent."""
        ...

    def remove(self) -> None:
        """End it and leave no trace: nobody will look for it any more. Idempotent."""
        ...


class HolderReads(Protocol):
    """Finding holders, and what they hold."""

    def task_holders(self) -> Sequence[HolderRow]:
        """Every holder, in order of names."""
        ...

    def held_by(self, holder: str) -> Sequence[Task]:
        """The attempts a holder has, in order of execution, reference and attempt."""
        ...


class HolderWrites(Protocol):
    """Coming and going."""

    def put_holder(self, row: HolderRow) -> None:
        """Register a holder, or renew it."""
        ...

    def drop_holder(self, holder: str) -> None:
        """Forget a holder; nothing happens when it is not there."""
        ...
