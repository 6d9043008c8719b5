"""Signals that end the process while it drives: what it has in hand is left as by somebody who goes of his own will.

Without a handler SIGTERM ends a process like SIGKILL does, and whoever finds its tasks could not tell that from a death they have
caused. The handler is in place only while the main thread drives, and only where nobody has set one; it writes to no store, and
the process still dies of the signal.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Final

from conductorlite.engine import leave_all

__all__ = ["Leaving"]

#: Signals by which a process is asked to end, as far as there are any here.
_ENDS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Leaving:
    """A block in which such a signal is answered; inside another one, and outside the main thread, it changes nothing."""

    def __init__(self) -> None:
        self._set: list[int] = []

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDS:
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._set.append(number)
                    signal.signal(number, _leave)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if threading.current_thread() is threading.main_thread():
            while self._set:
                number = self._set.pop()
                if signal.getsignal(number) is _leave:
                    signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    leave_all()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
