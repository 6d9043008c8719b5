"""Who drives while the thread that should carries out a function itself, and that takes long.

A function that was quick the last time is called by the driver's own thread when nothing else is ready, and one that took no time
at all, beside others too: it costs no change of threads. Should it not return for `PATIENCE_S`, a thread that stands by drives in
the meantime, timers, signs of life and other executions included, until the function has returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from conductorlite.model.threads import Mutex, Waiter, started

__all__ = ["PATIENCE_S", "Standby"]

T = TypeVar("T")

#: How long a function may keep its driver from driving, in seconds.
PATIENCE_S: Final = 0.05

#: Looks without a function under way after which the thread ends; the next function starts another one.
_IDLE: Final = 40


class Standby:
    """The thread that stands by for one driver. `drive` is called with what says that it is to end."""

    def __init__(self, drive: Callable[[Callable[[], bool]], object], wake: Callable[[], object]) -> None:
        self._drive = drive
        self._wake = wake
        #: What the driver's thread carries out, and how many it has so far.
        self._current: object = None
        self._calls = 0
        self._driving = Mutex()
        #: Whether the thread drives, or is about to look whether it must.
        self._taking = False
        self._present = False
        self._over = Waiter()
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether the driver's thread carries out a function."""
        return self._current is not None

    def run(self, function: Callable[[], T]) -> T:
        """Call a function in this thread, which drives; raises NoThread when nobody can stand by, and what driving has raised."""
        if not self._present:
            self._present = True
            try:
                started(self._watch, name="conductorlite-standby")
            except BaseException:
                self._present = False
                raise
        self._calls += 1
        self._current = call = object()
        try:
            return function()
        finally:
            if self._current is call:
                self._current = None
            self.rest()

    def rest(self) -> None:
        """Have the thread that stands by drive no more; to be called by who is about to drive. Raises what driving has raised."""
        if self._taking:
            self._current = None
            self._wake()
            with self._driving.held():
                error, self._error = self._error, None
            if error is not None:
                raise error

    def close(self) -> None:
        """Let the thread end."""
        self._current = None
        self._over.wake()

    def _watch(self) -> None:
        seen, idle = 0, 0
        try:
            while idle < _IDLE:
                if self._over.wait(PATIENCE_S):
                    return
                call, idle = self._current, 0 if self._calls != seen else idle + 1
                if call is not None and self._calls == seen:
                    idle = 0
                    self._take_over(call)
                seen = self._calls
        finally:
            self._present = False

    def _take_over(self, call: object) -> None:
        with self._driving.held():
            self._taking = True
            try:
                if self._current is call:
                    self._drive(lambda: self._current is not call)
            except BaseException as error:
                self._error = error
            finally:
                self._taking = False
