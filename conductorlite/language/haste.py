"""Time that a caller with other work to do waits for foreign code.

A driver takes the turns of all executions one after another. A script that does not end, or a path over a large document, must not
hold up the others: in haste it is waited for some milliseconds, then `TakesLong` is raised, and a thread of its own takes the turn
(`engine.aside`), which waits until a bound ends the code.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final

import attrs

from conductorlite.model.errors import TakesLong
from conductorlite.model.threads import Waiter, carried

__all__ = ["LATER_S", "SOON_S", "Haste", "Hurry", "Leisure", "at_leisure", "hurry", "in_haste", "pace"]

#: How long a script is waited for in haste, in seconds, and one that was soon done before: it is the machine that is slow.
SOON_S: Final = 0.02
LATER_S: Final = 0.3
#: How many values all paths of a turn may look at in haste; it takes as long, where each is compared with others.
_WORK: Final = 3_000
#: After how many values a path at leisure rests, and for how long, in seconds: longer than it takes to look at them.
_STRIDE: Final = 1_000
_REST_S: Final = 0.002


@attrs.frozen(slots=True, kw_only=True, repr=False)
class Haste:
    """Sign that a caller waits only shortly; `starts` says whether it waits for a helper process to start."""

    starts: bool = False


@attrs.define(slots=True, kw_only=True, eq=False, repr=False)
class Hurry:
    """Budget that one turn in haste may still take."""

    starts: bool
    left: int = _WORK

    def spend(self, count: int) -> None:
        """Count values that a path looks at; raises TakesLong."""
        self.left -= count
        if self.left < 0:
            raise TakesLong(tried=True, inside=True)


class Leisure:
    """The pace of a turn that others do not wait for: it lets go of the interpreter again and again."""

    __slots__ = ("_left", "_waiter")

    def __init__(self) -> None:
        self._left, self._waiter = _STRIDE, Waiter()

    def spend(self, count: int) -> None:
        """Count values that a path looks at, and rest after so many."""
        self._left -= count
        if self._left < 0:
            self._left = _STRIDE
            self._waiter.wait(_REST_S)


_current: Final[ContextVar[Hurry | Leisure | None]] = ContextVar("_current", default=None)


def pace() -> Hurry | Leisure | None:
    """The pace of the turn for which foreign code is run; None where its caller waits for it."""
    return _current.get()


def hurry() -> Hurry | None:
    """Return the budget of the code that is being run; None where its caller waits."""
    found = _current.get()
    return found if isinstance(found, Hurry) else None


def in_haste(haste: Haste) -> AbstractContextManager[None]:
    """A block within which foreign code is waited for only shortly."""
    return carried(_current, Hurry(starts=haste.starts))


def at_leisure() -> AbstractContextManager[None]:
    """A block whose foreign code lets the other threads of this process go first."""
    return carried(_current, Leisure())
