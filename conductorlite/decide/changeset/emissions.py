"""Values that attempts have emitted, and what has become of them, as a turn leaves them; latest values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from conductorlite.decide.changeset.moment import Moment
from conductorlite.model.canonical import Payload
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.streams import Chunk, Emission, EmissionState, LatestValue

__all__ = ["Emissions", "cell_of", "counts_of"]


def counts_of(task: Task) -> dict[int, int]:
    """Return how much an attempt has of each call, by its lease."""
    return dict(zip(task.emitted[::2], task.emitted[1::2], strict=True))


def cell_of(counts: Mapping[int, int]) -> tuple[int, ...]:
    """Return the counts by lease as a row holds them."""
    return tuple(number for pair in counts.items() for number in pair)


class Emissions:
    """Notes of a turn on emitted values: they are decided about with the attempt that has emitted them."""

    def __init__(self, workflow: Workflow, moment: Moment) -> None:
        self._row: Any = workflow
        self._moment = moment
        #: By the attempt's id and the call's lease.
        self.changed: dict[tuple[str, int], Emission] = {}
        #: Latest values by name and task.
        self.values: dict[tuple[str, str], LatestValue] = {}

    def add(self, task: Task, lease: int, state: EmissionState, streams: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Give values their numbers, by stream, in order, and keep them."""
        chunks: list[Chunk] = []
        for stream, values in streams:
            number = self._row.item_seq
            self._row.item_seq = last = number + len(values)
            payload = Payload.of(list(values), bounded=False)
            chunks.append(Chunk(stream=stream, first=number + 1, last=last, at=self._moment.now, values=payload))
        self._put(task, lease, state, chunks)

    def settle(self, row: Any) -> None:
        """Keep or drop what an attempt has emitted that has ended."""
        if row.status is TaskStatus.COMPLETED:
            for lease in counts_of(row):
                self._put(row, lease, EmissionState.KEPT)
        else:
            self.drop(row)
            row.emitted = ()

    def drop(self, task: Task) -> None:
        """Drop all that an attempt has emitted."""
        for lease in counts_of(task):
            self._put(task, lease, EmissionState.DROPPED)

    def drop_call(self, row: Any) -> None:
        """Drop what the call has emitted that an attempt loses: nothing is heard of it any more."""
        counts = counts_of(row)
        if counts.pop(row.lease, None) is not None:
            self._put(row, row.lease, EmissionState.DROPPED)
            row.emitted = cell_of(counts)

    def set_value(self, name: str, ref: str, value: Any) -> None:
        """Set the latest value of a name, for a task or (the empty text) for the execution."""
        self.values[name, ref] = LatestValue(
            workflow_id=self._row.workflow_id, name=name, ref=ref, at=self._moment.now, value=Payload.of(value, bounded=False)
        )

    def _put(self, task: Task, lease: int, state: EmissionState, chunks: Sequence[Chunk] = ()) -> None:
        place = (task.task_id, lease)
        known = self.changed.get(place)
        if known is None:
            whose, ref = task.workflow_id, task.ref
            known = Emission(workflow_id=whose, task_id=task.task_id, lease=lease, ref=ref, attempt=task.attempt, state=state)
        first = known.first or (chunks[0].first if chunks else 0)
        last = chunks[-1].last if chunks else known.last
        self.changed[place] = attrs.evolve(known, state=state, first=first, last=last, chunks=(*known.chunks, *chunks))
