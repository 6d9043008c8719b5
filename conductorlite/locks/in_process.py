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

    Without a `lease` a turn is held until it is given back: a thread always does, unless its process dies,
    and the lock with it.
    """

    def __init__(self, *, lease: Span | None = None) -> None:
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
