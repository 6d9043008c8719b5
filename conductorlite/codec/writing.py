"""Definitions → JSON: plain recursion over the fields, no third party."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Final

import attrs

from conductorlite.codec.names import ALWAYS_WRITTEN, json_names
from conductorlite.definitions import DURATION_PROPERTIES, Problem, SchemaDef, TaskDef, WorkflowDef
from conductorlite.errors import InvalidDefinition
from conductorlite.handlers import EventHandler

__all__ = ["to_document"]

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
