"""JSON Schemas of what `from_json` reads, made of the classes, and of exports; `python docs/generate.py` writes them.

They take what the codec takes, its leniency included, and refuse what it refuses: `tests/docs/test_schemas.py`. What only
validation knows, such as a JOIN without its fork, no schema says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import attrs

from conductorlite import EventHandler, SchemaDef, TaskDef, WorkflowDef, WorkflowSchedule
from conductorlite.model.documents import EXPORT_FORMAT, EXPORT_LINE, EXPORT_ROW, EXPORT_VERSION
from conductorlite.model.scalars import EXTRA, DurationMs, InstantMs, is_of, json_names, property_of

J = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

#: The documents: what each file describes.
DOCUMENTS: Final[Mapping[str, Any]] = {
    "workflow-def": WorkflowDef,
    "task-def": TaskDef,
    "event-handler": EventHandler,
    "schedule": WorkflowSchedule,
    "schema-def": SchemaDef,
}

_LARGEST: Final = 2**63 - 1

#: What the codec reads as one value, as it reads it.
SCALARS: Final[Mapping[str, J]] = {
    "text": {"type": ["string", "number", "boolean"]},
    "integer": {
        "anyOf": [
            {"type": "integer", "minimum": -_LARGEST, "maximum": _LARGEST},
            {"type": "string", "pattern": r"^\s*[+-]?\d{1,18}(\.0*)?\s*$"},
        ]
    },
    "boolean": {
        "anyOf": [{"type": ["boolean", "integer"]}, {"type": "string", "pattern": r"^\s*([Tt]rue|TRUE|[Ff]alse|FALSE)\s*$"}],
    },
    "seconds": {
        "description": "Seconds; a fraction down to a millisecond.",
        "anyOf": [
            {"type": "number", "minimum": -_LARGEST // 1000, "maximum": _LARGEST // 1000},
            {"type": "string", "pattern": r"^\s*[+-]?\d{1,15}(\.\d{0,3})?\s*$"},
        ],
    },
    "instant": {"description": "Epoch ms, or ISO 8601.", "anyOf": [{"type": "integer"}, {"type": "string"}]},
}

_NAMES: Final[Mapping[Any, str]] = {str: "text", int: "integer", bool: "boolean", DurationMs: "seconds", InstantMs: "instant"}


class Schemas:
    """Writes the definitions of classes, each once."""

    def __init__(self, effects: Mapping[str, Mapping[str, str]]) -> None:
        self._effects = effects
        self.made: J = {}

    def of(self, kind: Any) -> J:
        """The schema of values of a type."""
        if kind is Any:
            return {}
        if kind in _NAMES:
            return self._scalar(_NAMES[kind])
        if attrs.has(kind):
            return self._class(kind)
        if get_origin(kind) in (Union, UnionType):
            return self._union({*get_args(kind)} - {type(None)})
        if get_origin(kind) is Sequence:
            return {"type": ["array", "null"], "items": self.of(*get_args(kind))}
        if get_origin(kind) is Mapping:
            return {"type": "object", "additionalProperties": self.of(get_args(kind)[1])}
        return {"enum": [member.value for member in kind]}

    def _scalar(self, name: str) -> J:
        self.made[name] = SCALARS[name]
        return {"$ref": f"#/$defs/{name}"}

    def _union(self, members: set[Any]) -> J:
        if len(members) == 1:
            return self.of(*members)
        (other,) = members - {str}
        if issubclass(other, Enum):
            return {"anyOf": [self.of(other), self._scalar("text")]}
        text: J = {"type": "string"} if other.__name__ == "WorkflowTask" else {"type": "string", "pattern": r"^\$\{[\s\S]*\}$"}
        return {"anyOf": [self.of(other), text]}

    def _class(self, kind: Any) -> J:
        name = kind.__name__
        if name not in self.made:
            self.made[name] = {}  # classes refer to each other in a circle
            attrs.resolve_types(kind)
            names = json_names(kind)
            fields = [field for field in attrs.fields(kind) if field.name != EXTRA]
            needed = [names[field.name] for field in fields if field.default is attrs.NOTHING]
            self.made[name] = {
                "type": "object",
                "description": re.sub(r"\s+", " ", (kind.__doc__ or "").partition("\n\n")[0]).strip(),
                "properties": {names[field.name]: self._field(kind, field) for field in fields},
                **({"required": needed} if needed else {}),
            }
        return {"$ref": f"#/$defs/{name}"}

    def _field(self, kind: Any, field: Any) -> J:
        if property_of(field).strict:
            found = {"type": "string"}
        elif field.name == "task_definition":  # its name may be the task's
            found = {"$ref": "#/$defs/EmbeddedTaskDef"}
            self.made["EmbeddedTaskDef"] = {**self._made(field.type), "required": []}
        else:
            found = self.of(field.type)
        effect = self._effects.get(kind.__name__, {}).get(field.name)
        said = {} if effect is None else {"description": re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", effect)}
        if field.default is attrs.NOTHING:
            return {**said, **found}
        blank: list[J] = [{"type": "null"}]
        if is_of(field, int, bool, DurationMs, InstantMs):
            blank.append({"type": "string", "pattern": r"^\s*$"})
        return {**said, "anyOf": [found, *blank]} if found else said

    def _made(self, kind: Any) -> J:
        (one,) = {*get_args(kind)} - {type(None)}
        self.of(one)
        made: J = self.made[one.__name__]
        return made


def _document(title: str, schema: J, made: Mapping[str, J]) -> str:
    whole = {"$schema": DIALECT, "title": title, **schema, "$defs": dict(sorted(made.items()))}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


_TYPES: Final[Mapping[type, str]] = {str: "string", int: "integer", dict: "object", list: "array"}


def _table(rows: Sequence[tuple[str, str, type]], needed: frozenset[str]) -> J:
    properties = {name: {"type": _TYPES[kind]} for name, _, kind in rows}
    return {"type": "object", "properties": properties, "required": [name for name, _, _ in rows if name in needed]}


def _export() -> J:
    """Of an export: what is always there, by its type."""
    texts = {"type": "object", "additionalProperties": {"type": "object"}}
    line = _table(EXPORT_LINE, frozenset({"n", "at", "kind", "status"}))
    row = _table(EXPORT_ROW, frozenset({"workflowId", "workflowName", "workflowVersion", "definitionHash", "input", "createTime"}))
    row["properties"]["history"] = {"type": "array", "minItems": 1, "items": line}
    row["required"].append("history")
    positive = {"type": "integer", "minimum": 1}
    bounds = {"type": "object", "properties": {"steps": positive, "rows": positive}, "required": ["steps", "rows"]}
    properties = {
        "format": {"const": EXPORT_FORMAT},
        "formatVersion": {"const": EXPORT_VERSION},
        "workflowId": {"type": "string"},
        "bounds": bounds,
        "definitions": texts,
        "executions": {"type": "array", "minItems": 1, "items": row},
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def schemas(effects: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The text of each file, by its name; `effects` say what the fields of a class do."""
    found: dict[str, str] = {}
    for name, kind in DOCUMENTS.items():
        writer = Schemas(effects)
        root = writer.of(kind)
        found[f"schemas/{name}.json"] = _document(kind.__name__, root, writer.made)
    found["schemas/export.json"] = _document("Export of an execution", _export(), {})
    return found
