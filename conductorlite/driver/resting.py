"""How a driver on real time rests: what it looks at meanwhile, and how often.

Of commits in this process it is told. Of another process's nobody tells it, so it looks at one number that SQLite keeps in shared
memory: often while something was done a moment ago, rarely else. Everything else is looked at only when that number has changed,
or once in a while.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from conductorlite.engine import Queries
from conductorlite.errors import StorageError

__all__ = ["GLANCE_MS", "Rest"]

#: Between looks for commits of other processes, ms: while something was done a moment ago, and else.
_QUICK_MS: Final = 10
GLANCE_MS: Final = 100

#: For how long after the last thing that was done one looks quickly, ms; then the store is put in order.
_MOMENT_MS: Final = 500

#: How often everything is looked at although nobody has committed, ms: it is to be known that one still polls.
_LOOK_MS: Final = 1_000


class Rest:
    """What a driver knows of the store while it rests. Costs a driver that always has something to do nothing."""

    def __init__(self, engine: Queries, *, asked: bool) -> None:
        self._engine = engine
        #: Sources of messages tell nobody that they have one.
        self._look_ms = GLANCE_MS if asked else _LOOK_MS
        #: What was committed when everything was looked at last; None when there was something to do since.
        self._seen: tuple[int, int] | None = None
        self._looked_at = 0
        self._worked_at = 0
        self._in_order = True

    def worked(self, now: int) -> None:
        """Note that there was something to do."""
        self._seen, self._worked_at, self._in_order = None, now, False

    def span(self, now: int) -> int:
        """How long to sleep before the next look, ms. A while after the last work, puts the store in order first."""
        if 0 <= now - self._worked_at < _MOMENT_MS:
            return _QUICK_MS
        if not self._in_order:
            self._in_order = True
            with suppress(StorageError):  # it can wait, and whoever commits next will be told
                self._engine.backend.checkpoint()
        return GLANCE_MS

    def over(self, now: int) -> bool:
        """Whether everything is to be looked at: somebody has committed since that was done last, or it was a while ago."""
        backend = self._engine.backend
        state = (backend.data_version(), backend.commits())
        if state == self._seen and 0 <= now - self._looked_at < self._look_ms:
            return False
        # Taken before the look: what is committed meanwhile counts as not seen.
        self._seen, self._looked_at = state, now
        return True
