"""Signals and outages, which end a driver or make it rest.

Signals that end the process: what it holds is left as by a process that ends by itself.

Without a handler SIGTERM ends a process like SIGKILL does, and the process that finds its tasks could not distinguish that from a
death they have caused. Python sets handlers in the main thread only, so one is in place as long as an engine is open that was
opened there, and while the main thread drives; and only where the program has set none. It writes to no store, and the process
still dies of the signal.

What a driver does while the store, or a part of it, cannot be used: it waits, longer each time, and logs it.

Two kinds. *The store* is busy, full or cannot be written: then nothing can be done, and the whole driver waits. *One piece of work*
cannot be done (its document cannot be fetched, the disk fails below its rows): it rests, and the others go on.
"""

from __future__ import annotations

import signal
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final

import attrs

from conductorlite.engine.holders import leave_all
from conductorlite.engine.logs import log_driver
from conductorlite.engine.turn_types import LASTING
from conductorlite.model.clock import Clock
from conductorlite.model.errors import (
    NoThread,
    StorageBusy,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
    TooManyOpenFiles,
)
from conductorlite.model.texts import error_text

__all__ = ["Leaving", "Outages", "passes"]

#: Signals by which a process is asked to end, as far as there are any here.
_ENDS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

#: What answers a signal. `signal.getsignal` tries to make it a member of an enumeration, which is fifty times as slow.
_answer: Final[Callable[[int], object]] = getattr(signal, "_signal", signal).getsignal

#: Blocks that were entered and not left. An engine that was not closed is forgotten with its block.
_within: Final[weakref.WeakSet[Leaving]] = weakref.WeakSet()


class Leaving:
    """A block in which such a signal is answered; entered outside the main thread, it changes nothing."""

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _within.add(self)
            for number in _ENDS:
                if _answer(number) == signal.SIG_DFL:
                    with suppress(ValueError):  # the main thread of another interpreter of this process
                        signal.signal(number, _leave)

    def __exit__(
        self, kind: type[BaseException] | None = None, error: BaseException | None = None, trace: TracebackType | None = None
    ) -> None:
        _within.discard(self)
        # Left in another thread, the handler stays until the next one: it does nothing where no engine holds anything.
        if not _within and threading.current_thread() is threading.main_thread():
            for number in _ENDS:
                if _answer(number) is _leave:
                    signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    leave_all()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


#: The first rest after a failure, ms, and the longest: each is twice as long as the one before.
_FIRST_MS: Final = 100
_LONGEST_MS: Final = 5_000

#: A piece of work that was not tried again for so long after its rest is not there any more, ms.
_GONE_MS: Final = 60_000

#: The address of the store as a whole.
_STORE: Final = ""

#: What would meet every other piece of work too.
_EVERYWHERE: Final = (StorageBusy, StorageFull, StorageReadOnly, StorageUnavailable, TooManyOpenFiles)


def passes(error: BaseException) -> bool:
    """Return True if an error of the store or the system may pass by itself: all but a damaged file, and one of a newer schema."""
    return isinstance(error, StorageError | NoThread) and not isinstance(error, LASTING)


@attrs.define(slots=True, eq=False, repr=False)
class _Rest:
    """The time for which a piece of work has been waiting, and until when it is left alone."""

    since: int
    failures: int = 0
    again_at: int = 0


class Outages:
    """The work of one driver that waits after a failure; used by its thread alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: The pieces of work that have failed and were not done since.
        self.resting: dict[str, _Rest] = {}
        self._since = 0
        self._what = ""
        #: Whether errors that pass are waited out; otherwise they reach the caller that asked for the work.
        self.patient = False

    def failed(self, error: StorageError | NoThread, address: str = _STORE) -> bool:
        """Note a failure; False when the caller must raise it: for what lasts, and by a caller that does not wait."""
        if not self.patient or not passes(error):
            return False
        if address and isinstance(error, _EVERYWHERE):
            return False
        now = self._clock.now()
        if not self.resting:
            self._since = now
            self._what = "a thread" if isinstance(error, NoThread) else "the store"
            log_driver(f"the driver waits for {self._what}: %s", error_text(error))
        rest = self.resting.setdefault(address, _Rest(since=now))
        rest.again_at = now + min(_LONGEST_MS, _FIRST_MS << min(rest.failures, 10))
        rest.failures += 1
        return True

    def known(self, address: str) -> bool:
        """Return True if a piece of work has failed and not been done since."""
        return address in self.resting

    def rests(self, address: str) -> bool:
        """Return True if a piece of work is left alone for now."""
        rest = self.resting.get(address)
        # A clock that was set back must not keep it waiting.
        return rest is not None and 0 < rest.again_at - self._clock.now() <= _LONGEST_MS

    def again_at(self) -> int | None:
        """Return when the next piece of work that rests is to be tried again."""
        now = self._clock.now()
        return min((rest.again_at for rest in self.resting.values() if rest.again_at > now), default=None)

    def done(self, address: str = _STORE) -> None:
        """Note that a piece of work was done, or that the store could be used; says so when it was the last that waited."""
        if self.resting and self.resting.pop(address, None) is not None:
            self._log_when_over()

    def prune(self) -> None:
        """Note that the store could be used, and forget work that was not asked for again: another process has done it."""
        if self.resting:
            self.done()
        if self.resting:
            gone = self._clock.now() - _GONE_MS
            for address in [address for address, rest in self.resting.items() if rest.again_at < gone]:
                del self.resting[address]
            self._log_when_over()

    def clear(self) -> None:
        """Forget all: nothing is left to do."""
        if self.resting:
            self.resting.clear()
            self._log_when_over()

    def _log_when_over(self) -> None:
        if not self.resting:
            log_driver(
                f"{self._what} can be used again, after %.1f s; the driver goes on", (self._clock.now() - self._since) / 1000
            )
