"""Time that the user owns. The only file of the package that reads a clock.

Every instant in conductorlite is epoch milliseconds, UTC. `SystemClock` is the real one; `VirtualClock` moves only when a
program moves it. Both answer one more question than "what time is it": how to wait, because only the clock knows how long to
*really* sleep (a virtual one never does).
"""

from __future__ import annotations

import time
from bisect import insort
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from typing import Final, Protocol, runtime_checkable

from conductorlite.model.errors import ClockError
from conductorlite.model.texts import Instant, to_instant
from conductorlite.model.threads import Block, within

__all__ = ["Clock", "SystemClock", "VirtualClock", "Wakeup", "readings", "steady"]


class Wakeup(Protocol):
    """What ends a wait before its time."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; whether it was woken."""


@runtime_checkable
class Clock(Protocol):
    """What the engine asks of time. Implementations must be safe to call from any thread."""

    #: True when time only moves by `move_to`; the driver then jumps instead of waiting.
    virtual: bool

    def now(self) -> int:
        """Epoch milliseconds."""

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Wait until `wakeup` is woken or the clock reads `until`; a virtual clock returns at once."""


def steady(clock: Clock) -> tuple[str, int] | None:
    """Which clock of this machine runs on whatever its time is set to, and what it reads, ms; None in virtual time, or without one.

    All processes since the machine was started share it.
    """
    if clock.virtual or not hasattr(time, "CLOCK_BOOTTIME") or not _boot():
        return None
    return _boot(), time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def readings(clock: Clock) -> tuple[int, tuple[str, int] | None]:
    """What a clock reads, and what the steady one does in the same millisecond of it; None where there is none, or no such moment.

    Were they read apart, a thread that has to wait between the two would take its wait for a jump of the clock.
    """
    now = clock.now()
    for _ in range(_TRIES):
        read = steady(clock)
        if read is None:
            break
        before, now = now, clock.now()
        if now == before:
            return now, read
    return now, None


#: How often two clocks are read until both were read in one millisecond.
_TRIES: Final = 10


@cache
def _boot() -> str:
    from pathlib import Path

    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class SystemClock:
    """The machine's clock."""

    virtual = False

    #: A wait is cut into pieces of this length, so that a change of the machine's clock is noticed.
    LONGEST_WAIT_S = 60.0

    def now(self) -> int:
        """Epoch milliseconds, from the machine."""
        return time.time_ns() // 1_000_000

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Wait until `wakeup` is woken or the machine's clock reads `until`."""
        if until is None:
            wakeup.wait(self.LONGEST_WAIT_S)
            return
        remaining = (until - self.now()) / 1000
        if remaining > 0:
            wakeup.wait(min(remaining, self.LONGEST_WAIT_S))


class VirtualClock:
    """A clock that stands still until it is moved: thirty days pass in the time one assignment takes.

    `start` is epoch ms, a datetime with a time zone or ISO text with an offset; the default is 2030-01-01T00:00:00Z.
    """

    virtual = True

    def __init__(self, start: Instant = "2030-01-01T00:00:00+00:00") -> None:
        #: What it was set to, the latest last: when two threads move it at once, the later instant stands.
        self._set = [to_instant(start)]
        #: What runs meanwhile: workers, or the blocks of `held`.
        self.running: set[object] = set()

    def now(self) -> int:
        """Epoch milliseconds, as last set."""
        return self._set[-1]

    def move_to(self, instant: Instant) -> None:
        """Set the time; raises ClockError when it would go back, or while a worker is running.

        Moving the clock does not fire what is due: `Engine.advance` does both, each due event at its own instant.
        """
        target = instant if type(instant) is int else to_instant(instant)
        if self.running:
            raise ClockError(f"cannot move the clock while {len(self.running)} worker(s) run")
        if target < self._set[-1]:
            raise ClockError(f"time cannot go back from {self._set[-1]} to {target}")
        insort(self._set, target)
        del self._set[:-1]

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Return at once: virtual time never passes by waiting."""

    def held(self) -> AbstractContextManager[None]:
        """While inside, a worker is running and the time cannot be moved."""
        return within(_Running(self.running))

    def __repr__(self) -> str:
        return f"VirtualClock({datetime.fromtimestamp(self._set[-1] / 1000, UTC).isoformat()!r})"


class _Running(Block[None]):
    """The block of one worker."""

    __slots__ = ("_all",)

    def __init__(self, running: set[object]) -> None:
        self._all = running

    def begin(self) -> None:
        self._all.add(self)

    def end(self, error: BaseException | None) -> None:
        self.undo()

    def undo(self, error: BaseException | None = None) -> None:
        self._all.discard(self)
