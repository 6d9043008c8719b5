"""Which processes commit to the same store of late, and which of its executions each of them looks at first.

Several processes that poll one queue would all decide on what is first in it, and all but one in vain. So each begins with its own
share of what is best, by the hash of the execution, and goes on with that of the others: nothing is left out, and nobody is waited
for. Who the others are is known from their notifications; a process that has not been heard of for a while has no share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Final, TypeVar

from conductorlite.store.tables import Share

__all__ = ["Peers"]

T = TypeVar("T")

#: After so many changes of its own a process forgets others that have been silent meanwhile.
_WINDOW: Final = 64


class Peers:
    """The processes of one store, as one of them knows them; what it notes in one thread others may read meanwhile."""

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._heard: dict[bytes, None] = {}
        self._before: dict[bytes, None] = {}
        self._changes = 0
        #: That of this process.
        self.share = Share()

    def changed(self) -> None:
        """Note a change of this process."""
        self._changes += 1
        if self._changes % _WINDOW == 0:
            self._before, self._heard = self._heard, {}
            self._reckon()

    def heard(self, tokens: Iterable[bytes]) -> int:
        """Note who has committed; how many of them were others."""
        others = [token for token in tokens if token != self._own]
        new = set(others) - self._heard.keys()
        if new:
            self._heard = self._heard | dict.fromkeys(new)
            self._reckon()
        return len(others)

    def _reckon(self) -> None:
        self.share = Share.of(self._own, sorted({self._own, *self._heard, *self._before}))

    def own_first(self, found: list[T], workflow_id: Callable[[T], str], rank: Callable[[T], int] = lambda _: 0) -> list[T]:
        """What was found, of each rank the own share first; else in the order in which it came."""
        if self.share.count == 1:
            return found
        placed = [(rank(one), self.share.distance(workflow_id(one)), one) for one in found]
        return [one for _, _, one in sorted(placed, key=itemgetter(0, 1))]
