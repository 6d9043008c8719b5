"""Turns under way, known to those who come after a process that died in one."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Marks"]


class Marks(Protocol):
    """Marks of turns that may end their process. They survive the process, not the power. Thread-safe.

    No method raises: where nothing can be marked, nothing is.
    """

    def deaths(self, key: str) -> int:
        """How many processes have died in a turn of this key since the last one was forgotten."""
        ...

    def begin(self, key: str) -> None:
        """Mark that a turn of this key is under way in this process."""
        ...

    def end(self, key: str) -> None:
        """Take the mark back; nothing happens when there is none."""
        ...

    def forget(self, key: str) -> None:
        """Forget that processes have died in turns of this key."""
        ...

    def close(self) -> None:
        """Leave nothing behind but what the dead have left; idempotent."""
        ...
