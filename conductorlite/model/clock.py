"""Time that the user owns. The only file of the package that reads a clock.

Every instant in conductorlite is epoch milliseconds, UTC. `SystemClock` is the real one; `VirtualClock` moves only when a
program moves it. Both answer one more question than "what time is it": how to wait, because only the clock knows how long to
*really* sleep (a virtual one never does).
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache
from threading import Event
from typing import Final, Protocol, runtime_checkable
from weakref import ref

from conductorlite.model.errors import ClockError
from conductorlite.model.texts import Instant, Span, to_instant, to_instant_since
from conductorlite.model.threads import Block, within

__all__ = [
    "Clock",
    "Deadline",
    "SystemClock",
    "VirtualClock",
    "Wakeup",
    "elapsed_of",
    "machine_boot",
    "readings",
    "stands_still",
    "steady",
]


class Wakeup(Protocol):
    """Signal that ends a wait before its time."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds; whether it was woken."""


@runtime_checkable
class Clock(Protocol):
    """A source of time for the engine. Implementations must be safe to call from any thread.

    `now` may be set, by a person or by NTP. A clock of your own may also have a method `elapsed() -> int`: milliseconds on a scale
    that runs on whatever `now` is set to, by which it is noticed that it was. Without it all of its time counts as elapsed.
    """

    #: True when time only moves by `move_to`; the driver then jumps instead of waiting.
    virtual: bool

    def now(self) -> int:
        """Epoch milliseconds."""

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Wait until `wakeup` is woken or the clock reads `until`; a virtual clock returns at once."""


def steady(clock: Clock) -> tuple[str, int] | None:
    """Return the name and reading (ms) of a clock of this machine that no setting moves; None in virtual time, or without one.

    All processes since the machine was started share it.
    """
    if clock.virtual or not hasattr(time, "CLOCK_BOOTTIME") or not machine_boot():
        return None
    return machine_boot(), _machine_elapsed()


def elapsed_of(clock: Clock) -> Callable[[], int]:
    """Return a function that reads ms on a scale that no setting of the clock moves; of a clock without one, the clock itself."""
    own: Callable[[], int] | None = getattr(clock, "elapsed", None)
    return clock.now if own is None else own


def stands_still(clock: Clock) -> bool:
    """True if a real clock reads the same before and after a wait of 20 ms, as where a test has frozen it."""
    if clock.virtual:
        return False
    before = clock.now()
    Event().wait(0.02)
    return clock.now() == before


def _machine_elapsed() -> int:
    if hasattr(time, "CLOCK_BOOTTIME"):  # Linux, where CLOCK_MONOTONIC stands still while the machine sleeps
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    if hasattr(time, "CLOCK_MONOTONIC"):  # macOS, where `time.monotonic` does
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000
    return time.monotonic_ns() // 1_000_000


class Deadline:
    """The end of a length of time: it comes when so much time has passed, whatever the clock is set to meanwhile."""

    __slots__ = ("_at", "_clock", "_elapsed")

    def __init__(self, clock: Clock, span_ms: int) -> None:
        self._clock = clock
        self._elapsed = elapsed_of(clock)
        self._at = self._elapsed() + span_ms

    @property
    def left(self) -> int:
        """Time left until then, ms; 0 or less when it has passed."""
        return self._at - self._elapsed()

    @property
    def passed(self) -> bool:
        """True once the time is over."""
        return self.left <= 0

    @property
    def instant(self) -> int:
        """Reading that the clock will have then, as it is set now, epoch ms."""
        return self._clock.now() + self.left


def readings(clock: Clock) -> tuple[int, tuple[str, int] | None]:
    """Return the readings of a clock and of the steady one in the same millisecond; None without one, or without such a moment.

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
def machine_boot() -> str:
    """Return a name of the machine's present run: its processes share one scale of elapsed time; empty where it is not known."""
    from pathlib import Path

    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class Watcher(Protocol):
    """Object that has to know that a clock was set."""

    def look(self) -> object:
        """Compare the clock with elapsed time."""


class SystemClock:
    """The machine's clock."""

    virtual = False

    #: A wait is cut into pieces of this length, so that a change of the machine's clock is noticed.
    LONGEST_WAIT_S = 60.0

    def now(self) -> int:
        """Epoch milliseconds, from the machine."""
        return time.time_ns() // 1_000_000

    def elapsed(self) -> int:
        """Milliseconds of a clock of the machine that nobody sets."""
        return _machine_elapsed()

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Wait until `wakeup` is woken or the machine's clock reads `until`."""
        if until is None:
            wakeup.wait(self.LONGEST_WAIT_S)
            return
        remaining = (until - self.now()) / 1000
        if remaining > 0:
            wakeup.wait(min(remaining, self.LONGEST_WAIT_S))


class VirtualClock:
    """A clock that stands still until you move it.

    `start` is epoch ms, a datetime with a time zone or ISO text with an offset; the default is 2030-01-01T00:00:00Z.
    """

    virtual = True

    def __init__(self, start: Instant = 1_893_456_000_000) -> None:
        #: What it was set to, the latest last: when two threads move it at once, the later instant stands.
        self._set = [to_instant(start)]
        #: By how much it was set without time passing, ms.
        self.set_by = 0
        #: What is notified when it is set.
        self.watchers: list[ref[Watcher]] = []
        #: What runs meanwhile: workers, or the blocks of `held`.
        self.running: set[object] = set()
        #: Functions to be called, the next first: at which instant, and a number for those of one instant; see `at`.
        self.alarms: list[tuple[int, int, Callable[[], object]]] = []

    def now(self) -> int:
        """Epoch milliseconds, as last set."""
        return self._set[-1]

    def elapsed(self) -> int:
        """Milliseconds that have passed by `move_to`; setting the clock does not count."""
        return self._set[-1] - self.set_by

    def set_to(self, instant: Instant) -> None:
        """Set the clock back or forward without letting time pass, as a person or NTP does. Raises ClockError while a worker
        runs.

        Remaining durations stay; instants come nearer or move away.
        """
        target = to_instant(instant)
        if self.running:
            raise ClockError(f"cannot set the clock while {len(self.running)} worker(s) run")
        self.set_by += target - self._set[-1]
        self.alarms[:] = [(at + target - self._set[-1], number, function) for at, number, function in self.alarms]
        self._set[:] = [target]
        for watcher in [watcher for each in self.watchers if (watcher := each()) is not None]:
            watcher.look()

    def move_to(self, instant: Instant) -> None:
        """Let time pass until an instant; raises ClockError when it lies back (`set_to` sets the clock), or while a worker runs.

        Moving the clock does not fire what is due: `Engine.advance` does both, each due event at its own instant.
        """
        target = instant if type(instant) is int else to_instant(instant)
        if self.running:
            raise ClockError(f"cannot move the clock while {len(self.running)} worker(s) run")
        if target < self._set[-1]:
            raise ClockError(f"time cannot go back from {self._set[-1]} to {target}")
        insort(self._set, target)
        del self._set[:-1]

    def at(self, when: Instant | Span, function: Callable[[], object]) -> None:
        """Have a function called at an instant, or after a length of time ("3h"), by the engine that lets that time pass.

        It comes after what is due at that instant, and may use the engine, but not let time pass itself. What it raises is raised
        by the call that lets time pass. Raises ClockError for an instant gone by.
        """
        instant = to_instant_since(when, self._set[-1])
        if instant < self._set[-1]:
            raise ClockError(f"time cannot go back from {self._set[-1]} to {instant}")
        number = max((number for at, number, _ in self.alarms if at == instant), default=0) + 1
        insort(self.alarms, (instant, number, function))

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Return at once: virtual time never passes by waiting."""

    def held(self) -> AbstractContextManager[None]:
        """Return a block in which a worker runs and the clock cannot be moved."""
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
