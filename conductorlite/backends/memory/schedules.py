"""Schedules in memory: rows under a fence, and the letters in their inboxes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from conductorlite.backends.memory.store import Execution, Store
from conductorlite.decisions import Event
from conductorlite.errors import FencedOut
from conductorlite.ports import ScheduleRow

__all__ = ["MemoryScheduleReads", "MemoryScheduleWrites"]


class MemoryScheduleReads:
    """Finding schedules."""

    _store: Store

    def schedule(self, name: str) -> ScheduleRow | None:
        """A schedule by its name, or None."""
        return self._store.schedules.get(name)

    def schedules(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        """A page of schedules in ascending order of names, greater than `after`."""
        return [self._store.schedules[name] for (name,) in islice(self._store.schedule_names.after((after,)), limit)]

    def next_letter(self, owner: str = "") -> tuple[int, str] | None:
        """`due_at` and address of the first letter of an owner that is not held, or None."""
        keys = self._store.due.get(owner)
        key = None if keys is None else keys.first()
        return None if key is None else (key[0], key[1])


class MemoryScheduleWrites:
    """Changing schedules."""

    _store: Store

    if TYPE_CHECKING:

        def _drop_event(self, execution: Execution, event_id: str) -> None: ...

        def post(self, events: Iterable[Event]) -> None: ...

        def remove(self, workflow_id: str) -> None: ...

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], letters: Sequence[Event]) -> None:
        """Store a schedule under its fence, and rewrite its inbox; raises FencedOut."""
        store = self._store
        stored = store.schedules.get(row.name)
        if (0 if stored is None else stored.fence) != row.fence:
            raise FencedOut(f"schedule {row.name!r}: somebody else changed it after fence {row.fence} was read")
        if stored is None:
            store.add(store.schedule_names, (row.name,))
        store.put(store.schedules, row.name, attrs.evolve(row, fence=row.fence + 1))
        for event_id in consumed:
            self._drop_event(store.execution(row.address), event_id)
        self.post(letters)

    def drop_schedule(self, name: str) -> None:
        """Delete a schedule with its inbox; nothing happens when it is not there."""
        store = self._store
        row = store.drop(store.schedules, name)
        if row is not None:
            store.discard(store.schedule_names, (name,))
            self.remove(row.address)
