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
empty map may vanish on the way through, a value that says something never does, and the order of keys is kept.

A class that derives from `Definition` needs no code for it: fields are properties, in the order in which they are declared.
What is said of single classes stands in `scalars`, by name, so that this module knows none of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from os import PathLike
from typing import Any, Final, Self, TypeAlias, TypeVar

from conductorlite.model import attrs
from conductorlite.model.canonical import canonical, digest, parse
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.scalars import ALWAYS_WRITTEN, DURATION_PROPERTIES, EXTRA, json_names
from conductorlite.model.texts import InNotebook, brief

__all__ = ["Definition", "Source", "definition_hash", "definition_text", "document_of", "several_from_json"]

_NOTHING: Final[frozenset[str]] = frozenset()

#: Types whose values are their own JSON.
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


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
    for key, value in getattr(thing, EXTRA, {}).items():
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
    from decimal import Decimal

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
        from pathlib import Path

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


class Definition(InNotebook):
    """What a user writes down, in Conductor's JSON: a workflow, a task, a schema, an event handler, a schedule."""

    __slots__ = ()

    def __repr__(self) -> str:
        return brief(self)

    @classmethod
    def from_json(cls, source: Source) -> Self:
        """Read one from Conductor's JSON: text, bytes, a parsed mapping, or the path of a UTF-8 file.

        Raises InvalidDefinition with all problems at once, InvalidInput for broken JSON text (with line and column) and for
        values that are no JSON, OSError for an unreadable file.
        """
        from conductorlite.model.reading import structured

        definition: Self = structured(document_of(source), cls)
        return definition

    def to_json(self) -> dict[str, Any]:
        """This as Conductor's JSON, fresh: defaults are left out, unknown properties written back.

        Raises InvalidDefinition if `extra` holds a property that is known, and for nesting that exhausts the stack.
        """
        try:
            return _object(self, "$")
        except RecursionError:
            raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None


D = TypeVar("D", bound=Definition)


def several_from_json(kind: type[D], source: Source) -> tuple[D, ...]:
    """A list of definitions, as Conductor's `POST /metadata/taskdefs` takes it, or one; raises as `Definition.from_json`."""
    from conductorlite.model.reading import structured

    document = document_of(source)
    if not isinstance(document, list):
        return (structured(document, kind),)
    found: tuple[D, ...] = structured(document, Sequence[kind])  # type: ignore[valid-type]
    return found


def definition_text(definition: Definition) -> str:
    """The canonical JSON text of a definition; raises InvalidInput for payload values that are no JSON."""
    return canonical(definition.to_json())


def definition_hash(definition: Definition) -> str:
    """The content hash by which a definition is stored: sha256 of its canonical text, in hex."""
    return digest(definition_text(definition))
