"""Conductor JSON ⇄ attrs definitions, in both directions without loss.

Reading accepts what Conductor's own parser accepts, and reports every problem of a document at once, each with its
JSON path:

* scalars are coerced (`"5"` → 5, `"true"` → true, `true` → `"true"` where text is expected); only `name`,
  `taskReferenceName` and `type` must be text;
* `null` counts as absent, and so does blank text where a number or a boolean is expected;
* seconds become milliseconds; fractions of a second down to one millisecond are kept;
* `workflowTaskType` stands in for an absent `type`; an embedded `taskDefinition` without a name takes its task's name;
* properties we do not know are kept in `extra`, at every level, nulls included.

Writing leaves out what equals the default of its attrs field, and always writes what identifies: `name`, `version`,
`schemaVersion` and `tasks` of a workflow, `name`, `taskReferenceName` and `type` of a task. So `optional: false` or an
empty map may vanish on the way through, a value that says something never does, and the order of keys is kept. Writing
needs no third party; reading imports cattrs on first use.

Definitions → JSON: plain recursion over the fields, no third party.

From whatever holds a definition to one plain JSON value that nobody else can change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from conductorlite.model.canonical import canonical, digest, parse
from conductorlite.model.definitions import DURATION_PROPERTIES, SchemaDef, TaskDef, WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.handlers import EventHandler
from conductorlite.model.scalars import ALWAYS_WRITTEN, json_names

__all__ = [
    "Source",
    "definition_hash",
    "definition_text",
    "document_of",
    "event_handler_from_json",
    "event_handler_to_json",
    "schema_def_from_json",
    "schema_def_to_json",
    "task_def_from_json",
    "task_def_to_json",
    "task_defs_from_json",
    "to_document",
    "workflow_def_from_json",
    "workflow_def_to_json",
]

_NOTHING: Final[frozenset[str]] = frozenset()

#: Types whose values are their own JSON.
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def to_document(defn: WorkflowDef | TaskDef | SchemaDef | EventHandler) -> dict[str, Any]:
    """The JSON of a definition, sharing nothing with it.

    Raises InvalidDefinition if an `extra` holds a property that is known, and for nesting that exhausts the stack.
    """
    try:
        return _object(defn, "$")
    except RecursionError:
        raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None


def _plain(value: object, where: str) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(entry, where) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, where) for entry in value]
    if attrs.has(kind):
        return _object(value, where)
    return value


def _object(thing: Any, where: str) -> dict[str, Any]:
    kind: Any = type(thing)
    read, written, known = _properties(kind)
    where = f"{where} {kind.__name__}({getattr(thing, 'name', None)!r})"
    document: dict[str, Any] = {}
    # Most fields of most tasks were never given: what is the default itself needs no comparison.
    for value, (name, default, lasts) in zip(read(thing), written, strict=True):
        if value is default or value == default:
            continue
        document[name] = _seconds(value) if lasts else _plain(value, where)
    for key, value in thing.extra.items():
        if key in known:
            message = f"extra holds {key!r}, which is a property of its own"
            raise InvalidDefinition([Problem(path=where, message=message)])
        document[key] = _plain(value, where)
    return document


#: A property: its name, the default that is not written, and whether it is a duration.
_Property = tuple[str, object, bool]


@cache
def _properties(kind: Any) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[_Property, ...], frozenset[str]]:
    """How the fields of a class are read all at once, what they are written as, and the names that are taken."""
    names = json_names(kind)
    always = ALWAYS_WRITTEN.get(kind.__name__, _NOTHING)
    written = tuple(
        (name, attrs.NOTHING if field in always else _default(attrs.fields_dict(kind)[field]), field in DURATION_PROPERTIES)
        for field, name in names.items()
    )
    return attrgetter(*names), written, frozenset(names.values())


def _default(field: attrs.Attribute[Any]) -> object:
    default: Any = field.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]


def _seconds(milliseconds: int | None) -> int | float | str | None:
    if milliseconds is None:
        return None
    if milliseconds % 1000 == 0:
        return milliseconds // 1000
    exact = Decimal(milliseconds).scaleb(-3)
    # A float has about 15 digits: where they do not suffice, a text keeps the milliseconds, and is read back as a
    # number.
    return float(exact) if Decimal(repr(float(exact))) == exact else str(exact)


def document_of(source: object) -> Any:
    """The JSON value in `source` (text, bytes, a parsed value, or a path), as fresh dicts, lists and scalars.

    Raises InvalidInput for broken text, values that are no JSON and nesting deeper than canonical JSON allows; OSError
    when the file cannot be read.
    """
    if isinstance(source, PathLike):
        source = Path(source).read_bytes()
    try:
        if isinstance(source, str | bytes):
            value = parse(source)
            # Text can hold what no other edge accepts: nesting too deep, lone surrogates, 1e999. Refuse it here, by
            # the same rule.
            canonical(value)
            return value
        return json.loads(canonical(source))
    except InvalidInput:
        raise
    except ValueError as error:
        # CPython refuses to convert integers of more than 4300 digits, and json passes that on as it is.
        raise InvalidInput(f"$: {error}") from None


#: JSON text, its bytes, the value already parsed, or the path of a UTF-8 file.
Source: TypeAlias = "str | bytes | Mapping[str, Any] | Sequence[Any] | PathLike[str]"


def workflow_def_from_json(source: Source) -> WorkflowDef:
    """Read a workflow definition.

    Raises InvalidDefinition with all problems at once; InvalidInput for broken JSON text (with line and column) and
    for values that are no JSON; OSError when a file cannot be read.
    """
    # cattrs costs more to import than all of conductorlite; a program that reads no JSON must not pay for it.
    from conductorlite.model.reading import read_workflow_def

    return read_workflow_def(document_of(source))


def workflow_def_to_json(defn: WorkflowDef) -> dict[str, Any]:
    """The definition as Conductor's JSON, fresh; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(defn)


def task_def_from_json(source: Source) -> TaskDef:
    """Read a task definition; raises as `workflow_def_from_json` does."""
    from conductorlite.model.reading import read_task_def

    return read_task_def(document_of(source))


def task_defs_from_json(source: Source) -> tuple[TaskDef, ...]:
    """Read a list of task definitions, as Conductor's `POST /metadata/taskdefs` takes it, or one; raises likewise."""
    from conductorlite.model.reading import read_task_defs

    return read_task_defs(document_of(source))


def task_def_to_json(task_def: TaskDef) -> dict[str, Any]:
    """The task definition as Conductor's JSON; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(task_def)


def event_handler_from_json(source: Source) -> EventHandler:
    """Read an event handler; raises as `workflow_def_from_json` does."""
    from conductorlite.model.reading import read_event_handler

    return read_event_handler(document_of(source))


def event_handler_to_json(handler: EventHandler) -> dict[str, Any]:
    """The event handler as Conductor's JSON; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(handler)


def schema_def_from_json(source: Source) -> SchemaDef:
    """Read a schema with its name and version; raises as `workflow_def_from_json` does."""
    from conductorlite.model.reading import read_schema_def

    return read_schema_def(document_of(source))


def schema_def_to_json(schema: SchemaDef) -> dict[str, Any]:
    """The schema as Conductor's JSON; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(schema)


def definition_text(defn: WorkflowDef | TaskDef | SchemaDef | EventHandler) -> str:
    """The canonical JSON text of a definition; raises InvalidInput for payload values that are no JSON."""
    return canonical(to_document(defn))


def definition_hash(defn: WorkflowDef | TaskDef) -> str:
    """The content hash by which a definition is stored: sha256 of its canonical text, in hex."""
    return digest(definition_text(defn))
