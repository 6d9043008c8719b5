"""Definitions → JSON: plain recursion over the fields, no third party."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

import attrs

from conductorlite.codec.names import ALWAYS_WRITTEN, EXTRA, json_names
from conductorlite.definitions import DURATION_PROPERTIES, Problem, SchemaDef, TaskDef, WorkflowDef
from conductorlite.errors import InvalidDefinition
from conductorlite.handlers import EventHandler

__all__ = ["to_document"]

_NOTHING: frozenset[str] = frozenset()


def to_document(defn: WorkflowDef | TaskDef | SchemaDef | EventHandler) -> dict[str, Any]:
    """The JSON of a definition, sharing nothing with it.

    Raises InvalidDefinition if an `extra` holds a property that is known, and for nesting that exhausts the stack.
    """
    try:
        return _object(defn, "$")
    except RecursionError:
        raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None


def _plain(value: object, where: str) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(entry, where) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, where) for entry in value]
    if attrs.has(type(value)):
        return _object(value, where)
    return value


def _object(thing: Any, where: str) -> dict[str, Any]:
    kind: Any = type(thing)
    names = json_names(kind)
    always = ALWAYS_WRITTEN.get(kind.__name__, _NOTHING)
    where = f"{where} {kind.__name__}({getattr(thing, 'name', None)!r})"
    document: dict[str, Any] = {}
    for field in attrs.fields(kind):
        value = getattr(thing, field.name)
        if field.name == EXTRA or (field.name not in always and _is_default(field, value)):
            continue
        name = names[field.name]
        document[name] = _seconds(value) if field.name in DURATION_PROPERTIES else _plain(value, where)
    for key, value in thing.extra.items():
        if key in names.values():
            message = f"extra holds {key!r}, which is a property of its own"
            raise InvalidDefinition([Problem(path=where, message=message)])
        document[key] = _plain(value, where)
    return document


def _is_default(field: attrs.Attribute[Any], value: object) -> bool:
    default: Any = field.default
    if default is attrs.NOTHING:
        return False
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
    return bool(value == default)


def _seconds(milliseconds: int | None) -> int | float | str | None:
    if milliseconds is None:
        return None
    if milliseconds % 1000 == 0:
        return milliseconds // 1000
    exact = Decimal(milliseconds).scaleb(-3)
    # A float has about 15 digits: where they do not suffice, a text keeps the milliseconds, and is read back as a
    # number.
    return float(exact) if Decimal(repr(float(exact))) == exact else str(exact)
