"""The lock of turns, as an engine uses it, and what it does while the lock fails.

With the fence a lock only saves work. So an engine opens although the servers of its lock are down, and goes on when they fail: one
turn learns of it, and waits for as long as the lock itself takes to fail. From then on turns are taken without the lock, and a
thread of its own asks the lock again, less and less often, until it answers. What was taken and could not be given back is given
back then. Without the fence, or with a lock that is required, each turn asks, and is refused.
"""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Final

from conductorlite.engine.logs import log_driver
from conductorlite.engine.turn_types import UNLOCKED, TurnLost
from conductorlite.model.clock import Clock
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import EngineClosed, LockUnavailable, NoThread
from conductorlite.model.texts import error_text
from conductorlite.model.threads import Mutex, Waiter, Waiters, started
from conductorlite.store.ports import Lock

__all__ = ["TurnLock"]

#: How long a turn with an event waits for an execution's lock, as Conductor's lockTimeToTry, and how often it looks, ms.
_WAIT_MS: Final = 500
_GLANCE_MS: Final = 10

#: How long a lock that failed is left alone, ms, where no thread asks it: in virtual time.
_AGAIN_MS: Final = 1_000

#: How long it is left alone by the thread that asks it, seconds: at first, and at most.
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 30.0

#: Turns that are given back when the lock answers again; those before them end with their leases.
_MOST_OWED: Final = 10_000


class TurnLock:
    """The lock of an engine. With the fence a turn goes on without a lock that fails: only work is saved by it."""

    def __init__(self, lock: Lock, clock: Clock, committed: Waiters, *, fencing: bool, required: bool = False) -> None:
        self._lock = lock
        self._clock = clock
        self._committed = committed
        #: Whether turns go on without a lock that fails.
        self._dispensable = fencing and not required
        self._fencing = fencing
        self._failed_at: int | None = None
        self._asking = False
        self._mutex = Mutex()
        self._over = Waiter()
        #: What could not be given back.
        self._owed: deque[tuple[str, int]] = deque(maxlen=_MOST_OWED)
        weakref.finalize(self, self._over.wake)
        problem: Exception | None = getattr(lock, "problem", None)
        if problem is not None:  # it could not be opened
            self._failed(problem)

    def acquire(self, workflow_id: str, events: Sequence[Event]) -> object | None:
        """The token of a turn; None when another turn has it. An event is worth a short wait in real time, a poll is not.

        Raises LockUnavailable when the lock fails and there is no fence or it is required, EngineClosed when it was closed.
        """
        clock = self._clock
        began = clock.now()
        if self._dispensable and self._is_left_alone(began):
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
            if self._failed_at is not None:
                self._works()
            if token is not None or not patient or now - began >= _WAIT_MS:
                return token
            clock.wait(self._committed.waiter(), now + _GLANCE_MS)

    def confirm(self, workflow_id: str, token: object) -> None:
        """Renew the lease of a turn that is about to commit without a fence.

        Raises TurnLost when it was over, LockUnavailable when the lock fails. What passes between this and the commit is
        what no lock can exclude.
        """
        if self._fencing or not isinstance(token, int):
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
        """Give a turn back; one that cannot be is when the lock answers again, or is free when its lease is over."""
        if not isinstance(token, int):
            return
        if self._asking:  # it has failed meanwhile: it is not waited for a second time
            self._owed.append((workflow_id, token))
            return
        try:
            self._lock.release(workflow_id, token)
        except Exception as error:
            self._owed.append((workflow_id, token))
            self._note(error)

    def close(self) -> None:
        """Ask the lock no more."""
        self._over.wake()

    def _is_left_alone(self, now: int) -> bool:
        return self._asking or (self._failed_at is not None and 0 <= now - self._failed_at < _AGAIN_MS)

    def _failed(self, error: Exception) -> object:
        if not self._dispensable:
            raise self._unavailable(error) from error
        self._note(error)
        return UNLOCKED

    def _unavailable(self, error: Exception) -> LockUnavailable:
        why = "it is required" if self._fencing else "there is no fence to go without it"
        return LockUnavailable(f"the lock cannot be used, and {why}: {error_text(error)}")

    def _note(self, error: Exception) -> None:
        """Log that the lock fails, once until it answers again, and have a thread ask it in real time."""
        with self._mutex.held():
            new, self._failed_at = self._failed_at is None, self._clock.now()
            begins = self._dispensable and not (self._asking or self._clock.virtual)
            self._asking = self._asking or begins
        if new:
            meanwhile = "turns are taken without it, under the fence" if self._dispensable else "turns are refused until it answers"
            log_driver("the lock cannot be used: %s; %s", error_text(error), meanwhile)
        if begins:
            try:
                started(_ask_again, weakref.ref(self), self._over, os.getpid(), name="conductorlite-lock")
            except NoThread:
                self._asking = False  # turns ask it, after a second each time

    def _works(self) -> None:
        with self._mutex.held():
            again, self._failed_at, self._asking = self._failed_at is not None, None, False
        if again:
            log_driver("the lock can be used again")

    def _answers(self) -> bool:
        """Return True if the lock answers; then what is owed is given back."""
        lock, now = self._lock, self._clock.now()
        try:
            probe = f"conductorlite probe {os.urandom(6).hex()}"
            token = lock.try_acquire(probe, now)
            if token is not None:
                lock.release(probe, token)
            while self._owed:
                lock.release(*self._owed[0])
                self._owed.popleft()
        except EngineClosed:
            self._over.wake()
            return False
        except Exception:
            return False  # it was logged when it failed first, and is asked again
        return True


def _ask_again(of: weakref.ref[TurnLock], over: Waiter, pid: int) -> None:
    """Ask a lock that has failed until it answers; keeps nothing alive."""
    pause = _FIRST_S
    while not over.wait(pause) and os.getpid() == pid:
        lock = of()
        if lock is None:
            return
        if lock._answers():
            lock._works()
            return
        del lock
        pause = min(2 * pause, _LONGEST_S)
