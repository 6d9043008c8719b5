"""What has changed since an index last looked.

A store notes it while a feed is on, in the commit of the change: which executions, and which of their attempts, each once until it
is forgotten. Nothing is noted without a feed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from conductorlite.executions import Task

__all__ = [
    "Change",
    "ChangeReads",
    "ChangeWrites",
    "Feed",
]


@attrs.frozen(kw_only=True, slots=True)
class Feed:
    """Who is told of changes. `position` counts what its reader was told; `removals` how many executions were deleted meanwhile.

    `noting` says that what was stored before the feed began is still being noted, and where that goes on; `until` is the last
    number that came of it, 0 once the reader was told of all that.
    """

    reader: str
    position: int = 0
    removals: int = 0
    noting: str | None = None
    until: int = 0

    @property
    def complete(self) -> bool:
        """Whether the reader was told of all that was there before."""
        return self.noting is None and not self.until


@attrs.frozen(kw_only=True, slots=True)
class Change:
    """An execution that has changed, or is gone (`fence` None), and attempts of it that have, or are gone.

    `numbers` are the notes this is made of: what is noted earlier has a lower one.
    """

    workflow_id: str
    fence: int | None
    places: tuple[tuple[str, int], ...] = ()
    #: An execution of this id was deleted: if there is one now, it is another, or it is archived.
    removed: bool = False
    numbers: tuple[int, ...] = ()


class ChangeReads(Protocol):
    """Looking at what was noted."""

    def feed(self) -> Feed | None:
        """The feed, or None when nothing is noted."""
        ...

    def changes(self, limit: int) -> Sequence[Change]:
        """What the oldest `limit` notes tell, by execution, in the order of their first."""
        ...

    def behind(self, limit: int) -> int:
        """Notes there are, counted up to `limit`."""
        ...

    def noted(self, workflow_ids: Sequence[str]) -> frozenset[str]:
        """Those of the executions of which, or of whose attempts, there are notes."""
        ...

    def attempts_at(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> Sequence[Task]:
        """The attempts at those places (printed reference and number) that exist, in any order."""
        ...


class ChangeWrites(Protocol):
    """Beginning, going on with and ending a feed."""

    def begin_feed(self, reader: str) -> None:
        """From now on note changes for this reader and no other, and begin to note all that is stored and archived."""
        ...

    def note_stored(self, limit: int) -> None:
        """Note up to `limit` more of the executions that were there before, with all their attempts."""
        ...

    def note_again(self, workflow_ids: Sequence[str]) -> None:
        """Note executions, there or not, as if each had been deleted and begun anew: all that its reader knows of them is wrong."""
        ...

    def forget(self, changes: Sequence[Change], feed: Feed) -> None:
        """Drop what the reader of `feed` was told, and count it, if the feed still stands where it stood.

        What has changed again since it was read (another fence, or a removal) stays.
        """
        ...

    def end_feed(self) -> None:
        """Note nothing more, and drop what was noted."""
        ...
