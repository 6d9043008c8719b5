"""Work that is left to do in a turn."""

from __future__ import annotations

from collections import deque
from typing import Any

from conductorlite.model.canonical import Payload

__all__ = ["Item", "WorkList"]

#: One entry of the work list: what to do, and the JSON-able arguments to do it with.
Item = tuple[str, *tuple[Any, ...]]


class WorkList:
    """The two ends of the work list: a stack of what is scheduled, and a queue of what has ended."""

    def __init__(self) -> None:
        self.stack: list[Item] = []
        self.queue: deque[Item] = deque()
        #: Set while an execution is being reopened: what is scheduled may exist already.
        self.reopening = False
        #: Rounds of loops begun in this piece of work, however many turns it was cut into.
        self.rounds = 0

    def clear(self) -> None:
        """Forget every entry."""
        self.stack.clear()
        self.queue.clear()

    def kept(self) -> Payload:
        """The list as a document, for the turn that goes on with it."""
        return Payload.of(
            {
                "stack": [list(item) for item in self.stack],
                "queue": [list(item) for item in self.queue],
                "reopening": self.reopening,
                "rounds": self.rounds,
            }
        )
