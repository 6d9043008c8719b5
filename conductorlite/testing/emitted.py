"""What an exported execution has emitted, and its latest values: read from the document, and kept with what was replayed.

No journal records what calls of workers emit, so a replay keeps nothing of it by itself; when all came out the same, it is kept as
the document has it. Calls have new leases, below zero, which no call to come has; one that holds its attempt has the attempt's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task
from conductorlite.model.streams import Chunk, Emission, EmissionState, LatestValue
from conductorlite.store.ports import Backend
from conductorlite.testing.fields import typed

__all__ = ["Emitted", "emitted_from_json", "keep_emitted"]


@attrs.frozen(kw_only=True, slots=True)
class Emitted:
    """Emissions of an execution, whose leases are numbers of calls within their attempt, and its latest values."""

    emissions: tuple[Emission, ...] = ()
    #: Ids of attempts whose last call holds them.
    held: frozenset[str] = frozenset()
    values: tuple[LatestValue, ...] = ()


def emitted_from_json(document: Mapping[str, Any], workflow_id: str, where: str) -> Emitted:
    """Return what the document of an execution says of it; raises InvalidInput naming the place of what is wrong."""
    calls = typed(document, "emitted", list, where) if "emitted" in document else []
    said = typed(document, "values", list, where) if "values" in document else []
    emissions = tuple(_emission(one, workflow_id, f"{where}.emitted[{number}]") for number, one in enumerate(calls))
    held = frozenset(call["taskId"] for call in calls if call.get("held") is True)
    chunks = sorted((chunk for one in emissions for chunk in one.chunks), key=lambda chunk: chunk.first)
    numbers = [(0, 0), *((chunk.first, chunk.last) for chunk in chunks)]
    for (_, last), (first, _) in pairwise(numbers):
        if first != last + 1:
            raise InvalidInput(f"{where}.emitted: number {first} follows number {last}")
    places = [(one.task_id, one.lease) for one in emissions]
    if len(set(places)) < len(places):
        raise InvalidInput(f"{where}.emitted: a call is there twice")
    values = tuple(_value(one, workflow_id, f"{where}.values[{number}]") for number, one in enumerate(said))
    if len({(one.name, one.ref) for one in values}) < len(values):
        raise InvalidInput(f"{where}.values: a name is there twice")
    return Emitted(emissions=emissions, held=held, values=values)


def _emission(document: Any, workflow_id: str, where: str) -> Emission:
    state = typed(document, "state", str, where)
    if state not in list(EmissionState):
        raise InvalidInput(f"{where}.state: {state!r} is none of {', '.join(EmissionState)}")
    given = typed(document, "chunks", list, where)
    chunks = tuple(_chunk(one, f"{where}.chunks[{number}]") for number, one in enumerate(given))
    if not chunks:
        raise InvalidInput(f"{where}.chunks is empty")
    return Emission(
        workflow_id=workflow_id,
        task_id=typed(document, "taskId", str, where),
        lease=typed(document, "call", int, where),
        ref=typed(document, "ref", str, where),
        attempt=typed(document, "attempt", int, where),
        state=EmissionState(state),
        first=chunks[0].first,
        last=chunks[-1].last,
        chunks=chunks,
    )


def _chunk(document: Any, where: str) -> Chunk:
    values, first = typed(document, "values", list, where), typed(document, "first", int, where)
    if not values:
        raise InvalidInput(f"{where}.values is empty")
    return Chunk(
        stream=typed(document, "stream", str, where),
        first=first,
        last=first + len(values) - 1,
        at=typed(document, "at", int, where),
        values=Payload.of(values, where=f"{where}.values", bounded=False),
    )


def _value(document: Any, workflow_id: str, where: str) -> LatestValue:
    if not isinstance(document, Mapping) or "value" not in document:
        raise InvalidInput(f"{where}.value is missing")
    return LatestValue(
        workflow_id=workflow_id,
        name=typed(document, "name", str, where),
        ref=typed(document, "ref", str, where),
        at=typed(document, "at", int, where),
        value=Payload.of(document["value"], where=f"{where}.value", bounded=False),
    )


def keep_emitted(backend: Backend, workflow_id: str, emitted: Emitted) -> None:
    """Keep with a replayed execution what it has emitted, and its latest values."""
    with backend.writing() as tx:
        row = tx.executions.workflow(workflow_id)
        if row is None:
            return
        attempts = {task.task_id: task for task in tx.executions.attempts(workflow_id)}
        emissions = [_leased(one, attempts.get(one.task_id), emitted) for one in emitted.emissions]
        updated = _counted(attempts, emissions)
        last = max((one.last for one in emissions), default=0)
        if updated or emissions or emitted.values or row.item_seq:
            row = attrs.evolve(row, item_seq=last)
            change = Decision(workflow=row, updated=updated, emissions=tuple(emissions), values=emitted.values)
            tx.decisions.apply(change)


def _leased(one: Emission, task: Task | None, emitted: Emitted) -> Emission:
    """An emission under the lease that the replay has for its call."""
    calls = [other.lease for other in emitted.emissions if other.task_id == one.task_id]
    holds = task is not None and task.lease and one.task_id in emitted.held and one.lease == max(calls)
    return attrs.evolve(one, lease=task.lease if task is not None and holds else -one.lease)


def _counted(attempts: Mapping[str, Task], emissions: Sequence[Emission]) -> tuple[Task, ...]:
    """The attempts that have not the counts of what they have emitted, with these."""
    counts: dict[str, list[int]] = {}
    for one in emissions:
        if one.state is not EmissionState.DROPPED:
            number = sum(chunk.last - chunk.first + 1 for chunk in one.chunks)
            counts.setdefault(one.task_id, []).extend((one.lease, number))
    found = {task_id: tuple(counts.get(task_id, ())) for task_id in attempts}
    return tuple(attrs.evolve(attempts[one], emitted=cell) for one, cell in found.items() if attempts[one].emitted != cell)
