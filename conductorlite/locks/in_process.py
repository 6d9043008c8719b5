"""A lock for engines of one process that share a store."""

from __future__ import annotations

from itertools import count
from typing import final

from conductorlite.spans import Span, to_span
from conductorlite.threads import Mutex

__all__ = ["InProcessLock"]


@final
class InProcessLock:
    """One object, given to every engine of the process as `lock`. Thread-safe.

    A turn is lost when it is held for longer than `lease` (Conductor's 60 s by default): then somebody else may take it, and the
    fence refuses what the slow one commits. With None it is held until it is given back, which an interruption between the taking
    and the turn (Ctrl-C, no memory) prevents for good.
    """

    def __init__(self, *, lease: Span | None = "60s") -> None:
        self._lease = None if lease is None else to_span(lease)
        self._held: dict[str, tuple[int, int | None]] = {}
        self._tokens = count(1)
        self._guard = Mutex()

    def try_acquire(self, workflow_id: str, now: int) -> int | None:
        """Take the turn and return its token, or None at once when somebody has it whose lease is not over at `now`."""
        with self._guard.held():
            held = self._held.get(workflow_id)
            if held is not None and (held[1] is None or held[1] > now):
                return None
            token = next(self._tokens)
            self._held[workflow_id] = (token, None if self._lease is None else now + self._lease)
            return token

    def release(self, workflow_id: str, token: int) -> None:
        """Give a turn back; nothing happens when it was lost to somebody else."""
        with self._guard.held():
            if self._held.get(workflow_id, (0, None))[0] == token:
                del self._held[workflow_id]

    def close(self) -> None:
        """Nothing: it belongs to all engines that share it."""
