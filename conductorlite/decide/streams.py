"""Output of an execution while it runs: numbered in the turn that keeps it, kept or dropped with the attempt that emitted it.

A call of a worker function says what it has emitted with its signs of life, and the rest with its report. How much the attempt has
of each call stands in its row (`Task.emitted`), so that what is said twice is kept once. What is emitted is kept when the attempt
completes. It is dropped when the attempt ends otherwise, when the call is given back, and when the attempt is taken back; what
rounds have emitted that a loop keeps no longer stays. Numbers go on over all of it. Source of the rules: our own; Conductor has no
streams. The journal holds nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.emissions import cell_of, counts_of
from conductorlite.decide.operators.document import rendered
from conductorlite.model.decisions import Event, Outcome
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.model.streams import STREAM, EmissionState
from conductorlite.plan.compile import Node

__all__ = ["on_set_value", "schedule_emit", "take_emitted"]


def take_emitted(changeset: Changeset, task: Task, said: Mapping[str, Any]) -> None:
    """Keep what a call has emitted: `streams` are values by stream, in order, `values` latest ones by name.

    They come after the first `after` of the call, and what was kept before is passed over; without an `after` nothing was.
    """
    row, _ = changeset.rows.opened(task)
    counts = counts_of(row)
    known = counts.get(row.lease, 0)
    count = known if said["after"] is None else said["after"]
    streams: list[tuple[str, list[Any]]] = []
    for stream, values in said["streams"]:
        new = values[max(known - count, 0) :]
        count += len(values)
        if new:
            streams.append((stream, new))
    for name, value in said["values"].items():
        changeset.emissions.set_value(name, row.ref, value)
    if streams:
        row.emitted = cell_of({**counts, row.lease: count})
        changeset.emissions.add(row, row.lease, EmissionState.OPEN, streams)


def on_set_value(changeset: Changeset, event: Event) -> None:
    """Set the latest value of a name, said from outside."""
    if changeset.workflow.status.terminal:
        changeset.reply(event, Outcome.ENDED, f"a {changeset.workflow.status} workflow takes no value")
        return
    said = changeset.documents.value(event.data)
    changeset.emissions.set_value(said["name"], "", said["value"])


def schedule_emit(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the row, already over, and emit its `value` into its `stream`."""
    task_id = changeset.task_id(printed_ref(node.ref, iterations), 0 if previous is None else previous.attempt + 1)
    values = rendered(changeset, node, iterations, task_id)
    stream = STREAM if values.get("stream") is None else values["stream"]
    named = isinstance(stream, str) and 0 < len(stream) <= 255
    problem = None if named else f"{str(stream)[:60]!r} is no name of a stream: that is a text of 1 to 255 characters"
    status = TaskStatus.COMPLETED if named else TaskStatus.FAILED_WITH_TERMINAL_ERROR
    given = changeset.documents.payload(values)
    task = changeset.create_ended(node, iterations, status, previous=previous, input=given, reason=problem)
    if task.status is TaskStatus.COMPLETED:
        row, _ = changeset.rows.opened(task)
        row.emitted = (0, 1)
        changeset.emissions.add(row, 0, EmissionState.KEPT, [(str(stream), [values.get("value")])])
