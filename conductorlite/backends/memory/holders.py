"""Holders in a memory store: `ports.HolderReads`, `ports.HolderWrites`, and presences, which are objects of this process."""

from __future__ import annotations

from collections.abc import Sequence

from conductorlite.backends.memory.store import Store
from conductorlite.executions import Task
from conductorlite.ports import HolderRow, Life

__all__ = ["MemoryHolderReads", "MemoryHolderWrites", "MemoryPresence"]


class MemoryHolderReads:
    """Finding holders."""

    _store: Store

    def task_holders(self) -> Sequence[HolderRow]:
        """Every holder, in order of names."""
        return [row for _, row in sorted(self._store.holders.items())]

    def held_by(self, holder: str) -> Sequence[Task]:
        """The attempts a holder has, in order of execution, reference and attempt."""
        keys = sorted(self._store.held.get(holder, ()))
        return [self._store.executions[workflow_id].attempts[ref, attempt] for workflow_id, ref, attempt in keys]


class MemoryHolderWrites:
    """Coming and going."""

    _store: Store

    def put_holder(self, row: HolderRow) -> None:
        """Register a holder, or renew it."""
        self._store.put(self._store.holders, row.holder, row)

    def drop_holder(self, holder: str) -> None:
        """Forget a holder; nothing happens when it is not there."""
        self._store.drop(self._store.holders, holder)

    def _hold(self, old: Task | None, new: Task | None) -> None:
        """Keep the index of what is held, when one row takes the place of another."""
        store = self._store
        before, after = None if old is None else old.holder, None if new is None else new.holder
        if old is not None and before is not None and (new is None or before != after):
            store.drop(store.held[before], (old.workflow_id, old.ref, old.attempt))
        if new is not None and after is not None and before != after:
            store.put(store.held.setdefault(after, {}), (new.workflow_id, new.ref, new.attempt), True)


class MemoryPresence:
    """The sign of one holder: among those there are, until it goes, or its engine is forgotten."""

    leased = False

    def __init__(self, present: dict[str, Life], number: int) -> None:
        self._present = present
        self.place = str(number)
        present[self.place] = Life.ALIVE

    def leave(self) -> None:
        """End it, telling that the holder went of its own will."""
        self._end(Life.LEFT)

    def die(self) -> None:
        """End it as the death of its process would."""
        self._end(Life.DEAD)

    def remove(self) -> None:
        """End it and leave no trace."""
        self._present.pop(self.place, None)

    def _end(self, life: Life) -> None:
        if self._present.get(self.place) is Life.ALIVE:
            self._present[self.place] = life
