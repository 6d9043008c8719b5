"""Signals that end the process: what it has in hand is left as by somebody who goes of his own will.

Without a handler SIGTERM ends a process like SIGKILL does, and whoever finds its tasks could not tell that from a death they have
caused. Python sets handlers in the main thread only, so one is in place as long as an engine is open that was opened there, and
while the main thread drives; and only where nobody has set one. It writes to no store, and the process still dies of the signal.
"""

from __future__ import annotations

import signal
import threading
import weakref
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final

from conductorlite.engine import leave_all

__all__ = ["Leaving"]

#: Signals by which a process is asked to end, as far as there are any here.
_ENDS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))

#: Blocks that were entered and not left. An engine that nobody closed is forgotten with its block.
_within: Final[weakref.WeakSet[Leaving]] = weakref.WeakSet()


class Leaving:
    """A block in which such a signal is answered; entered outside the main thread, it changes nothing."""

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            _within.add(self)
            for number in _ENDS:
                if signal.getsignal(number) is signal.SIG_DFL:
                    with suppress(ValueError):  # the main thread of another interpreter of this process
                        signal.signal(number, _leave)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _within.discard(self)
        # Left in another thread, the handler stays until the next one: it does nothing where nobody holds anything.
        if not _within and threading.current_thread() is threading.main_thread():
            for number in _ENDS:
                if signal.getsignal(number) is _leave:
                    signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    leave_all()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
