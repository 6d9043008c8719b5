"""Rates of calls of functions under a rate limit: counted at the call, where a service feels it.

The decider counts hand-outs: a task takes its place in the window of its limit at the commit that hands it to a worker. Its
function is called later, by some 100 ms in a process that is busy. Tasks of one window could so be called together with those of
the next one. A process therefore counts its own calls too, and a call that would be one too many waits.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from conductorlite.model.clock import Clock, Deadline
from conductorlite.model.limits import Terms
from conductorlite.model.threads import Mutex

__all__ = ["CallRates"]

#: Instants are whole milliseconds, cut off: two that are a window apart by them may be closer by less than this.
_ROUNDING_MS: Final = 1


class CallRates:
    """The calls of one process that began within the windows of their limits. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = Mutex()
        #: When each of the last calls under a limit leaves the window, oldest first, by the name of the task definition.
        self._begun: dict[str, deque[Deadline]] = {}

    def begin(self, name: str, terms: Terms) -> Deadline | None:
        """Count a call that begins now, and return None; or return when the limit allows it, and count nothing."""
        if terms.rate <= 0 or terms.window_ms <= 0:
            return None
        with self._mutex.held():
            begun = self._begun.setdefault(name, deque())
            if len(begun) >= terms.rate and not begun[-terms.rate].passed:
                return begun[-terms.rate]
            begun.append(Deadline(self._clock, terms.window_ms + _ROUNDING_MS))
            while begun[0].passed:
                begun.popleft()
        return None
