"""When a memory store was driven: `ports.DrivenReads` and `ports.DrivenWrites`."""

from __future__ import annotations

from collections.abc import Sequence

from conductorlite.backends.memory.store import Store

__all__ = ["MemoryDrivenReads", "MemoryDrivenWrites"]


class MemoryDrivenReads:
    """Finding the stretches in which engines drove."""

    _store: Store

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """The stretches of an owner's drivers that end after `since`."""
        return sorted((begin, end) for (whose, begin), end in self._store.driven.items() if whose == owner and end > since)


class MemoryDrivenWrites:
    """Noting such stretches."""

    _store: Store

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        """Keep that an owner's driver drove from `begin` to `end`."""
        store = self._store
        store.put(store.driven, (owner, begin), max(end, store.driven.get((owner, begin), end)))

    def forget_driven(self, owner: str, kept: int) -> None:
        """Keep the newest stretches of an owner."""
        known = sorted(key for key in self._store.driven if key[0] == owner)
        for key in known[: max(0, len(known) - kept)]:
            self._store.drop(self._store.driven, key)
