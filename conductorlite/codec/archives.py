"""An execution with all that belongs to it ⇄ the compressed JSON it is archived as.

Rows are written cell by cell, those that equal their default left out; payloads as the text they are, so that nothing about them
changes. What a later version adds is left out by an earlier one, and what it lacks has its default.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from conductorlite.canonical import Payload, canonical, parse
from conductorlite.definitions import Semantics
from conductorlite.errors import StorageCorrupt
from conductorlite.executions import HistoryEvent, HistoryKind, Task, TaskLog, TaskStatus, Workflow, WorkflowStatus

__all__ = ["ARCHIVE_FORMAT", "Unpacked", "archive_text", "unpacked"]

#: What the document says it is, and its version; a later one is refused.
ARCHIVE_FORMAT: Final = "conductorlite/archive"
ARCHIVE_VERSION: Final = 1

R = TypeVar("R", Workflow, Task, HistoryEvent, TaskLog)

#: Cells of a row that `Engine.get` fills.
_FILLED: Final = frozenset({"tasks", "definition", "made"})


def _statuses(kind: Callable[[str], object]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else kind(value)


#: How a cell is made of JSON again, by the type of its field.
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Payload": Payload,
    "Payload | None": _statuses(Payload),
    "TaskStatus": TaskStatus,
    "WorkflowStatus": WorkflowStatus,
    "WorkflowStatus | None": _statuses(WorkflowStatus),
    "Semantics": Semantics,
    "HistoryKind": HistoryKind,
    "tuple[str, ...]": tuple,
    "tuple[int, ...]": tuple,
}


@attrs.frozen(kw_only=True, slots=True)
class Unpacked:
    """What an archive's document holds: `workflow` with its tasks; texts of the definitions by hash."""

    workflow: Workflow
    history: tuple[HistoryEvent, ...]
    logs: tuple[TaskLog, ...]
    definitions: Mapping[str, str]


def archive_text(
    workflow: Workflow, history: Sequence[HistoryEvent], logs: Sequence[TaskLog], definitions: Mapping[str, str]
) -> str:
    """The JSON text of an execution with its tasks; every payload must be there."""
    document = {
        "format": ARCHIVE_FORMAT,
        "version": ARCHIVE_VERSION,
        "workflow": _cells(workflow),
        "tasks": [_cells(task) for task in workflow.tasks],
        "history": [_cells(line) for line in history],
        "logs": [_cells(entry) for entry in logs],
        "definitions": dict(definitions),
    }
    return canonical(document, bounded=False)


def unpacked(document: bytes) -> Unpacked:
    """What was archived; raises StorageCorrupt for what cannot be read."""
    try:
        said = parse(zlib.decompress(document))
        if (said["format"], said["version"]) != (ARCHIVE_FORMAT, ARCHIVE_VERSION):
            raise StorageCorrupt(f"an archived execution is a {said['format']!r} of version {said['version']}")
        tasks = tuple(_row(Task, cells) for cells in said["tasks"])
        return Unpacked(
            workflow=attrs.evolve(_row(Workflow, said["workflow"]), tasks=tasks),
            history=tuple(_row(HistoryEvent, cells) for cells in said["history"]),
            logs=tuple(_row(TaskLog, cells) for cells in said["logs"]),
            definitions=said["definitions"],
        )
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageCorrupt(f"an archived execution cannot be read: {error}") from error


def _cells(row: Workflow | Task | HistoryEvent | TaskLog) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in attrs.fields(type(row)):
        value = getattr(row, field.name)
        if field.name in _FILLED or (field.default is not attrs.NOTHING and value == field.default):
            continue
        if isinstance(value, Payload):
            value = value.text
        found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def _row(kind: type[R], cells: Mapping[str, Any]) -> R:
    # Not `field.type`: another library may have resolved that in this process.
    types = inspect.get_annotations(kind)
    known = {name: value for name, value in cells.items() if name in types}
    return kind(**{name: _READ[types[name]](value) if types[name] in _READ else value for name, value in known.items()})
