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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias

from conductorlite.canonical import canonical, digest
from conductorlite.codec.sources import document_of
from conductorlite.codec.writing import to_document
from conductorlite.definitions import SchemaDef, TaskDef, WorkflowDef
from conductorlite.handlers import EventHandler

__all__ = [
    "Source",
    "definition_hash",
    "definition_text",
    "event_handler_from_json",
    "event_handler_to_json",
    "schema_def_from_json",
    "schema_def_to_json",
    "task_def_from_json",
    "task_def_to_json",
    "task_defs_from_json",
    "workflow_def_from_json",
    "workflow_def_to_json",
]

#: JSON text, its bytes, the value already parsed, or the path of a UTF-8 file.
Source: TypeAlias = "str | bytes | Mapping[str, Any] | Sequence[Any] | PathLike[str]"


def workflow_def_from_json(source: Source) -> WorkflowDef:
    """Read a workflow definition.

    Raises InvalidDefinition with all problems at once; InvalidInput for broken JSON text (with line and column) and
    for values that are no JSON; OSError when a file cannot be read.
    """
    # cattrs costs more to import than all of conductorlite; a program that reads no JSON must not pay for it.
    from conductorlite.codec.reading import read_workflow_def

    return read_workflow_def(document_of(source))


def workflow_def_to_json(defn: WorkflowDef) -> dict[str, Any]:
    """The definition as Conductor's JSON, fresh; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(defn)


def task_def_from_json(source: Source) -> TaskDef:
    """Read a task definition; raises as `workflow_def_from_json` does."""
    from conductorlite.codec.reading import read_task_def

    return read_task_def(document_of(source))


def task_defs_from_json(source: Source) -> tuple[TaskDef, ...]:
    """Read a list of task definitions, as Conductor's `POST /metadata/taskdefs` takes it, or one; raises likewise."""
    from conductorlite.codec.reading import read_task_defs

    return read_task_defs(document_of(source))


def task_def_to_json(task_def: TaskDef) -> dict[str, Any]:
    """The task definition as Conductor's JSON; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(task_def)


def event_handler_from_json(source: Source) -> EventHandler:
    """Read an event handler; raises as `workflow_def_from_json` does."""
    from conductorlite.codec.reading import read_event_handler

    return read_event_handler(document_of(source))


def event_handler_to_json(handler: EventHandler) -> dict[str, Any]:
    """The event handler as Conductor's JSON; raises InvalidDefinition if `extra` shadows a known name."""
    return to_document(handler)


def schema_def_from_json(source: Source) -> SchemaDef:
    """Read a schema with its name and version; raises as `workflow_def_from_json` does."""
    from conductorlite.codec.reading import read_schema_def

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
