"""Who takes turns on an execution."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Lock"]


class Lock(Protocol):
    """Saves double work on one execution; never trusted for safety, which is the fence's. Thread-safe, never waits.

    A turn is held under a lease: when that is over, by the `now` that is given (epoch ms), somebody else may take it. A token
    tells one holding from every other, so that who has lost a turn cannot give back another's.
    """

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the execution's turn and return its token, or None at once when somebody has it."""
        ...

    def release(self, workflow_id: str, token: int) -> None:
        """Give the turn back; nothing happens when it was lost to somebody else."""
        ...

    def close(self) -> None:
        """Release what it holds of the system; idempotent."""
        ...
