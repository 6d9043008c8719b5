"""Output of an execution while it runs: values in streams, and the latest value of a name.

A worker function or a flow *emits* values into a stream, which anybody may read while they come or afterwards. What one call of an
attempt has emitted is *open* while nothing is decided about it, *kept* from the commit in which the attempt completes on, and
*dropped* when it does not, when its worker is heard of no more, or when the step is run again.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

import attrs

from conductorlite.model.canonical import Payload

__all__ = ["PROGRESS", "STREAM", "Chunk", "Dropped", "Emission", "EmissionState", "LatestValue", "StreamItem", "progress_in_words"]

#: The stream of what is emitted without the name of one.
STREAM: Final = "values"

#: The name under which a step says how far it has come.
PROGRESS: Final = "progress"


class EmissionState(StrEnum):
    """State of the values that a call of an attempt has emitted."""

    OPEN = "OPEN"
    KEPT = "KEPT"
    DROPPED = "DROPPED"


@attrs.frozen(kw_only=True, slots=True)
class Chunk:
    """Values that a call has emitted into one stream, one after another: a JSON list, with its first and its last number.

    `at` is epoch ms.
    """

    stream: str
    first: int
    last: int
    at: int
    values: Payload


@attrs.frozen(kw_only=True, slots=True)
class Emission:
    """Values that one call of an attempt emitted, known by the attempt's id and the call's lease (0: a flow has); chunks in order.

    `ref` is the printed reference that the attempt had then; `first` and `last` are numbers of values.
    """

    workflow_id: str
    task_id: str
    lease: int
    ref: str
    attempt: int
    state: EmissionState
    first: int = 0
    last: int = 0
    chunks: tuple[Chunk, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class LatestValue:
    """The latest value of a name, set at `at` (epoch ms) by the task `ref`, or (the empty text) by who holds the execution."""

    workflow_id: str
    name: str
    ref: str
    at: int
    value: Payload


@attrs.frozen(kw_only=True, slots=True)
class StreamItem:
    """One value of a stream. `at` is epoch ms; `ref` and `attempt` (from 0) say which step has emitted it.

    `number` counts what the execution emits, in all its streams, from 1, and is never used again: give it to read on after it.
    `kept` says whether the attempt has completed; if not, it may still be dropped.
    """

    number: int
    value: Any
    stream: str
    ref: str
    attempt: int
    at: int
    kept: bool


def progress_in_words(values: Iterable[LatestValue]) -> dict[str, str]:
    """Return how far steps say that they have come, by their printed references: `30 of 100 (30%)`."""
    found: dict[str, str] = {}
    for one in values:
        said = one.value.value
        if one.name != PROGRESS or not one.ref or not isinstance(said, dict) or "done" not in said:
            continue
        done, total = said["done"], said.get("total")
        share = f" ({done / total:.0%})" if total else ""
        found[one.ref] = f"{done:,}" if total is None else f"{done:,} of {total:,}{share}"
    return found


@attrs.frozen(kw_only=True, slots=True)
class Dropped:
    """Notice that an attempt's emissions count no more: it failed, its worker was lost, or the step is run again.

    `numbers` are those of the first and of the last value that is meant: what the attempt has emitted in between.
    """

    ref: str
    attempt: int
    numbers: tuple[int, int]
