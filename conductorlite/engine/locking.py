"""Who takes the next turn on an execution, where a lock is used."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from conductorlite.clock import Clock
from conductorlite.decisions import Event, EventKind
from conductorlite.ports import Lock

__all__ = ["acquire"]

#: How long somebody with a letter waits for an execution's lock, as Conductor's lockTimeToTry, and how often it looks, ms.
_WAIT_MS: Final = 500
_GLANCE_MS: Final = 10


def acquire(
    lock: Lock | None, clock: Clock, committed: threading.Condition, workflow_id: str, events: Sequence[Event]
) -> int | None:
    """The token of a turn; None when somebody else has it. A letter is worth a short wait in real time, a poll is not."""
    if lock is None:
        return 0
    began = clock.now()
    patient = not clock.virtual and any(event.kind is not EventKind.POLL for event in events)
    while True:
        now = clock.now()
        token = lock.try_acquire(workflow_id, now)
        if token is not None or not patient or now - began >= _WAIT_MS:
            return token
        with committed:
            clock.wait(committed, now + _GLANCE_MS)
