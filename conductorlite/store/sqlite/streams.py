"""What executions emit, and their latest values, in SQL.

The values of one chunk stand in one row, under the number of the last one, along which they are read; what has become of them
stands in the row of the call that has emitted them, so that a report changes one row however much there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.later import functions
from conductorlite.store.sqlite.rows import Row, Session, readable
from conductorlite.store.sqlite.statements import replacing

if TYPE_CHECKING:
    from conductorlite.model.decisions import Decision
    from conductorlite.model.streams import Chunk, Emission, EmissionState, LatestValue
else:
    Chunk, Emission, EmissionState, LatestValue = functions(
        "conductorlite.model.streams", "Chunk", "Emission", "EmissionState", "LatestValue"
    )

__all__ = ["RowStreams", "emitted_of", "emitted_rows", "put_emitted"]

_CALL: Final = ("workflow_id", "task_id", "lease")
_PUT_CALL: Final = (
    "INSERT INTO emissions (workflow_id, task_id, lease, ref, attempt, state, first, last) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    f" ON CONFLICT ({', '.join(_CALL)}) DO UPDATE SET state = excluded.state,"
    " last = CASE WHEN excluded.last > emissions.last THEN excluded.last ELSE emissions.last END"
)
_PUT_CHUNK: Final = (
    "INSERT INTO emitted (workflow_id, last, first, stream, task_id, lease, at, items) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_VALUE: Final = ("workflow_id", "name", "ref", "at", "value")
_PUT_VALUE: Final = replacing("latest_values", _VALUE, _VALUE[:3])

_CALLS: Final = "e.workflow_id, e.task_id, e.lease, e.ref, e.attempt, e.state, e.first, e.last"
_EMISSIONS: Final = f"SELECT {_CALLS} FROM emissions AS e WHERE e.workflow_id = ? ORDER BY e.first, e.task_id, e.lease"
_JOINED: Final = (
    f"SELECT {_CALLS}, c.stream, c.first, c.last, c.at, c.items FROM emitted AS c JOIN emissions AS e"
    " ON e.workflow_id = c.workflow_id AND e.task_id = c.task_id AND e.lease = c.lease WHERE c.workflow_id = ?"
)
_CHUNKS: Final = f"{_JOINED} AND c.last > ? ORDER BY c.last LIMIT ?"
_CHUNKS_OF: Final = f"{_JOINED} AND c.stream = ? AND c.last > ? ORDER BY c.last LIMIT ?"
_VALUES: Final = f"SELECT {', '.join(_VALUE)} FROM latest_values WHERE workflow_id = ? ORDER BY name, ref"


class RowStreams:
    """Values that executions have emitted, see `StreamReads`; valid until the block of its view ends."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def chunks(self, workflow_id: str, stream: str | None, after: int, limit: int) -> Sequence[Emission]:
        asked = (workflow_id, after, limit) if stream is None else (workflow_id, stream, after, limit)
        return [_emission(row) for row in self._session.execute(_CHUNKS if stream is None else _CHUNKS_OF, asked)]

    def emissions(self, workflow_id: str) -> Sequence[Emission]:
        return [_emission(row) for row in self._session.execute(_EMISSIONS, (workflow_id,))]

    def values(self, workflow_id: str) -> Sequence[LatestValue]:
        return [_value(row) for row in self._session.execute(_VALUES, (workflow_id,))]


def put_emitted(executemany: Callable[[str, Any], object], decision: Decision) -> None:
    """Store what a decision has emitted, what has become of what was emitted before, and latest values."""
    for statement, rows in zip((_PUT_CALL, _PUT_CHUNK, _PUT_VALUE), emitted_rows(decision), strict=True):
        if rows:
            executemany(statement, rows)


def emitted_rows(decision: Decision) -> tuple[list[Row], list[Row], list[Row]]:
    """The rows of calls, chunks and latest values."""
    calls: list[Row] = []
    chunks: list[Row] = []
    for one in decision.emissions:
        call = (one.workflow_id, one.task_id, one.lease)
        calls.append((*call, one.ref, one.attempt, one.state.value, one.first, one.last))
        for chunk in one.chunks:
            where = (one.workflow_id, chunk.last, chunk.first, chunk.stream, one.task_id, one.lease)
            chunks.append((*where, chunk.at, chunk.values.text))
    values = [(one.workflow_id, one.name, one.ref, one.at, one.value.text) for one in decision.values]
    return calls, chunks, values


def emitted_of(calls: Sequence[Row], chunks: Sequence[Row], values: Sequence[Row]) -> dict[str, Any]:
    """The fields of the decision that has these rows."""
    emissions = [_emission((*call,)) for call in calls]
    for workflow_id, last, first, stream, task_id, lease, at, items in chunks:
        (number,) = (n for n, call in enumerate(calls) if tuple(call[:3]) == (workflow_id, task_id, lease))
        one = emissions[number]
        chunk = Chunk(stream=stream, first=first, last=last, at=at, values=Payload(items))
        emissions[number] = attrs.evolve(one, chunks=(*one.chunks, chunk))
    return {"emissions": tuple(emissions), "values": tuple(_value((*value,)) for value in values)}


@readable
def _emission(row: Row) -> Emission:
    workflow_id, task_id, lease, ref, attempt, state, first, last, *chunk = row
    chunks: tuple[Chunk, ...] = ()
    if chunk:
        stream, begin, end, at, items = chunk
        chunks = (Chunk(stream=stream, first=int(begin), last=int(end), at=int(at), values=Payload(items)),)
    return Emission(
        workflow_id=workflow_id,
        task_id=task_id,
        lease=lease,
        ref=ref,
        attempt=attempt,
        state=EmissionState(state),
        first=int(first),
        last=int(last),
        chunks=chunks,
    )


@readable
def _value(row: Row) -> LatestValue:
    workflow_id, name, ref, at, value = row
    return LatestValue(workflow_id=workflow_id, name=name, ref=ref, at=int(at), value=Payload(value))
