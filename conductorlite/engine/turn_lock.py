"""The lock of an execution's turns, where one is used; and what happens while it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from conductorlite.engine.logs import log_driver
from conductorlite.model.clock import Clock
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import EngineClosed, FencedOut, LockUnavailable
from conductorlite.model.texts import error_text
from conductorlite.model.threads import Waiters
from conductorlite.store.ports import Lock

__all__ = ["UNLOCKED", "TurnLock", "TurnLost"]

#: How long a turn with an event waits for an execution's lock, as Conductor's lockTimeToTry, and how often it looks, ms.
_WAIT_MS: Final = 500
_GLANCE_MS: Final = 10

#: How long a lock that failed is left alone, ms: asking it may take a while.
_AGAIN_MS: Final = 1_000

#: In place of a token: a turn without the lock.
UNLOCKED: Final = object()


class TurnLost(FencedOut):
    """The lease of a turn was over, and another engine may have taken one; never leaves the engine."""


class TurnLock:
    """The lock of an engine, if it has one. With the fence a turn goes on without a lock that fails: only work is saved by it."""

    def __init__(self, lock: Lock | None, clock: Clock, committed: Waiters, *, fencing: bool, required: bool = False) -> None:
        self._lock = lock
        self._clock = clock
        self._committed = committed
        #: Whether turns go on without a lock that fails.
        self._dispensable = fencing and not required
        self._fencing = fencing
        self._failed_at: int | None = None

    def acquire(self, workflow_id: str, events: Sequence[Event]) -> object | None:
        """The token of a turn; None when another turn has it. An event is worth a short wait in real time, a poll is not.

        Raises LockUnavailable when the lock fails and there is no fence or it is required, EngineClosed when it was closed.
        """
        if self._lock is None:
            return UNLOCKED
        clock = self._clock
        began = clock.now()
        if self._failed_at is not None and self._dispensable and 0 <= began - self._failed_at < _AGAIN_MS:
            return UNLOCKED
        patient = not clock.virtual and any(event.kind is not EventKind.POLL for event in events)
        while True:
            now = clock.now()
            try:
                token = self._lock.try_acquire(workflow_id, now)
            except EngineClosed:
                raise
            except Exception as error:
                return self._failed(error)
            self._works()
            if token is not None or not patient or now - began >= _WAIT_MS:
                return token
            clock.wait(self._committed.waiter(), now + _GLANCE_MS)

    def confirm(self, workflow_id: str, token: object) -> None:
        """Renew the lease of a turn that is about to commit without a fence.

        Raises TurnLost when it was over, LockUnavailable when the lock fails. What passes between this and the commit is
        what no lock can exclude.
        """
        if self._lock is None or self._fencing or not isinstance(token, int):
            return
        try:
            held = self._lock.renew(workflow_id, token, self._clock.now())
        except EngineClosed:
            raise
        except Exception as error:
            raise self._unavailable(error) from error
        if not held:
            raise TurnLost(f"{workflow_id}: its turn was lost to another engine when the lease was over")

    def release(self, workflow_id: str, token: object) -> None:
        """Give a turn back; one that cannot be is free when its lease is over."""
        if self._lock is None or not isinstance(token, int):
            return
        try:
            self._lock.release(workflow_id, token)
        except Exception as error:
            self._log_failure(error)

    def _failed(self, error: Exception) -> object:
        if not self._dispensable:
            raise self._unavailable(error) from error
        self._log_failure(error)
        return UNLOCKED

    def _unavailable(self, error: Exception) -> LockUnavailable:
        why = "it is required" if self._fencing else "there is no fence to go without it"
        return LockUnavailable(f"the lock cannot be used, and {why}: {error_text(error)}")

    def _log_failure(self, error: Exception) -> None:
        if self._failed_at is None:
            log_driver("the lock cannot be used: %s; turns are taken without it, under the fence", error_text(error))
        self._failed_at = self._clock.now()

    def _works(self) -> None:
        if self._failed_at is not None:
            self._failed_at = None
            log_driver("the lock can be used again")
