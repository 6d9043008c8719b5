"""What executions in memory emit, and their latest values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from conductorlite.store.memory.rows import Emitted

if TYPE_CHECKING:
    from conductorlite.model.decisions import Decision
    from conductorlite.model.streams import Emission, LatestValue
    from conductorlite.store.memory.rows import Execution, Store

__all__ = ["MemoryStreams", "put_emitted"]


class MemoryStreams:
    """Values that executions have emitted; see `StreamReads`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _of(self, workflow_id: str) -> Emitted:
        return self._store.of(workflow_id).emitted or Emitted()

    def chunks(self, workflow_id: str, stream: str | None, after: int, limit: int) -> Sequence[Emission]:
        return list(islice(_chunks(self._of(workflow_id), stream, after), limit))

    def emissions(self, workflow_id: str) -> Sequence[Emission]:
        return sorted(self._of(workflow_id).emissions.values(), key=lambda one: (one.first, one.task_id, one.lease))

    def values(self, workflow_id: str) -> Sequence[LatestValue]:
        return [value for _, value in sorted(self._of(workflow_id).values.items())]


def _chunks(held: Emitted, stream: str | None, after: int) -> Iterator[Emission]:
    for last in held.chunk_ends[bisect_right(held.chunk_ends, after) :]:
        call, chunk = held.chunks[last]
        if stream in (None, chunk.stream):
            yield attrs.evolve(held.emissions[call], chunks=(chunk,))


def put_emitted(store: Store, execution: Execution, decision: Decision) -> None:
    """Store what a decision has emitted, what has become of what was emitted before, and latest values."""
    held = execution.emitted
    if held is None:
        held = execution.emitted = Emitted()  # nothing is in it when what follows is undone
    for one in decision.emissions:
        call = (one.task_id, one.lease)
        known = held.emissions.get(call)
        if known is None:
            kept = attrs.evolve(one, chunks=())
        else:
            kept = attrs.evolve(known, state=one.state, last=max(one.last, known.last))
        store.put(held.emissions, call, kept)
        for chunk in one.chunks:
            store.put(held.chunks, chunk.last, (call, chunk))
            store.extend(held.chunk_ends, [chunk.last])
    for value in decision.values:
        store.put(held.values, (value.name, value.ref), value)
