"""Which properties of Conductor's JSON hold which fields, which are always written, and which must be text."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import attrs

from conductorlite.definitions import property_name

__all__ = ["ALWAYS_WRITTEN", "EXTRA", "REQUIRED_TEXT", "json_names"]

#: The field in which a class keeps the properties it does not know.
EXTRA: Final = "extra"

#: What identifies a thing is written even when it equals a default: readers of the JSON should not need to know our
#: defaults.
ALWAYS_WRITTEN: Final = {
    "EventAction": frozenset({"action"}),
    "EventHandler": frozenset({"name", "event", "actions", "active"}),
    "SchemaDef": frozenset({"name", "version", "type"}),
    "StateChangeEvent": frozenset({"type"}),
    "WorkflowDef": frozenset({"name", "version", "tasks", "schema_version"}),
    "WorkflowTask": frozenset({"name", "task_reference_name", "type"}),
}

#: Where a number or a boolean is surely a mistake and not a loosely written text.
REQUIRED_TEXT: Final = {
    "EventAction": frozenset({"action"}),
    "EventHandler": frozenset({"name", "event"}),
    "TaskDef": frozenset({"name"}),
    "WorkflowDef": frozenset({"name"}),
    "WorkflowTask": frozenset({"name", "task_reference_name", "type"}),
}


@cache
def json_names(kind: Any) -> dict[str, str]:
    """The JSON property of each field of an attrs class, without `extra`, in the order of the fields."""
    return {field.name: property_name(field.name) for field in attrs.fields(kind) if field.name != EXTRA}
