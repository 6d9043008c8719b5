"""Who takes turns on an execution."""

from __future__ import annotations

from typing import Protocol

__all__ = [
    "Lock",
]


class Lock(Protocol):
    """Saves double work on one workflow; never trusted for safety, which is the fence's."""

    def try_acquire(self, workflow_id: str) -> bool:
        """Take the workflow's turn, or return False at once when somebody has it."""
        ...

    def release(self, workflow_id: str) -> None:
        """Give the turn back; harmless when it is not held."""
        ...
