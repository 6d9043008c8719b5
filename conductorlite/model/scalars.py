"""One JSON scalar at a time, read as leniently as Conductor's parser (Jackson) reads it; and what its properties are called.

Every reader takes the JSON value and returns the Python one, or raises `Wrong` with a message that says what was expected and
what was found: each is a hook of the codec's converter. `property_of` is what a field's metadata says of its property.

The text of what is JSON for certain, and how deep and how large a document may be.
"""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple, NewType, TypeVar, get_args

import attrs

from conductorlite.model.later import decimal

__all__ = [
    "ENTRY_SIZE",
    "EXTRA",
    "LARGEST_VERSION",
    "MAX_DEPTH",
    "MAX_EXECUTIONS",
    "MAX_INTEGER",
    "MAX_NESTING",
    "MAX_SIZE",
    "NAMES",
    "WRITTEN",
    "DurationMs",
    "InstantMs",
    "Property",
    "Wrong",
    "boolean",
    "camel_case",
    "choice",
    "chunks",
    "duration_ms",
    "encoded",
    "in_json",
    "in_seconds",
    "instant",
    "integer",
    "is_integer",
    "is_of",
    "json_names",
    "property_of",
    "shown",
    "step_path",
    "strict_text",
    "text",
    "whole_seconds",
]

#: Deepest nesting of maps and lists that is accepted; beyond it the JSON of other tools breaks too.
MAX_DEPTH: Final = 200

#: Size that a document may have: its characters of text, and `ENTRY_SIZE` for each entry of a map or list.
MAX_SIZE: Final = 16 * 1024 * 1024
ENTRY_SIZE: Final = 8

#: Deepest nesting of tasks within tasks, inline sub-workflow definitions included. Each level costs up to four levels
#: of JSON, so that fifty just fit the depth that canonical JSON accepts.
MAX_NESTING: Final = 50
#: Deepest nesting of executions that start each other.
MAX_EXECUTIONS: Final = 100

#: Largest integer of Conductor (a Java long) and of every store.
MAX_INTEGER: Final = 2**63 - 1

#: Largest version of a workflow: 32 bits in Conductor, whose clients cannot read a larger one.
LARGEST_VERSION: Final = 2**31 - 1

#: The field in which a class keeps the properties it does not know.
EXTRA: Final = "extra"

#: Milliseconds whose property in Conductor's JSON is in seconds.
DurationMs = NewType("DurationMs", int)

#: An instant in epoch ms, which may be written as an ISO text too.
InstantMs = NewType("InstantMs", int)


class Property(NamedTuple):
    """Property of a field in JSON, as the metadata of the field describes it."""

    #: Its name where that is not the field's in camelCase, with `Seconds` for a duration.
    name: str | None = None
    #: Written even when it equals the default: what identifies a thing. Readers of the JSON should not need to know our defaults.
    written: bool = False
    #: A number or a boolean is surely a mistake here, and not a loosely written text.
    strict: bool = False
    #: The name of another property that stands in for it where it is absent.
    also: str | None = None
    #: A property of the object around that an embedded object has, too, unless it has its own.
    inherits: str | None = None
    #: What a text may stand for in the place of an object, and whether it is one that does.
    stands: tuple[str, Callable[[str], bool]] | None = None
    #: Of `extra`: properties that Conductor's server writes into its answers, and that say nothing of what is wanted.
    answered: frozenset[str] = frozenset()


def in_json(name: str | None = None, **said: Any) -> Mapping[str, Property]:
    """The metadata of a field whose property is not as the rule has it: see `Property`."""
    return {"json": Property(name, **said)}


#: Metadata of what is always written, and of what names a thing besides.
WRITTEN: Final = in_json(written=True)
NAMES: Final = in_json(written=True, strict=True)

_AS_THE_RULE_HAS_IT: Final = Property()


def property_of(field: attrs.Attribute[Any]) -> Property:
    """Return the property that the metadata of a field describes."""
    found: Property = field.metadata.get("json", _AS_THE_RULE_HAS_IT)
    return found


def camel_case(name: str) -> str:
    """A name in snake_case as Conductor's JSON has it."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


@cache
def json_names(kind: Any) -> dict[str, str]:
    """The JSON property of each field of an attrs class, without `extra`, in the order of the fields."""
    attrs.resolve_types(kind)
    return {field.name: property_of(field).name or camel_case(_unit(field)) for field in attrs.fields(kind) if field.name != EXTRA}


def _unit(field: attrs.Attribute[Any]) -> str:
    return f"{field.name.removesuffix('_ms')}_seconds" if is_of(field, DurationMs) else field.name


def is_of(field: attrs.Attribute[Any], *kinds: Any) -> bool:
    """Return True if a field, whose type is resolved, is of one of these types, or None."""
    return {*(get_args(field.type) or (field.type,))} - {type(None)} <= {*kinds}


def step_path(path: str, key: str | int) -> str:
    """The JSON path one step below `path`: an index, a plain name, or a name that needs brackets and quotes."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if key.isidentifier():
        return f"{path}.{key}"
    quoted = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"{path}['{quoted}']"


E = TypeVar("E", bound=Enum)

_TRUTH: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


class Wrong(Exception):
    """A value is not of the kind its place demands; internal to the codec, which makes it a Problem with a path."""


def shown(value: object) -> str:
    """A JSON value in the words of an error message: scalars verbatim but short, lists and objects by kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:56]}…{text[-1:]}"


def text(value: object, _: object = None) -> str:
    """Text; numbers and booleans become the text JSON writes for them (`true` → `"true"`)."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise Wrong(f"expected text, got {shown(value)}")


def strict_text(value: object, _: object = None) -> str:
    """Text and nothing else, for what names a thing."""
    if isinstance(value, str):
        return value
    raise Wrong(f"expected text, got {shown(value)}")


def boolean(value: object, _: object = None) -> bool:
    """A boolean, its text in Java's three spellings, or an integer (0 is false)."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value != 0
    if isinstance(value, str) and value.strip() in _TRUTH:
        return _TRUTH[value.strip()]
    raise Wrong(f"expected true or false, got {shown(value)}")


def is_integer(value: object) -> bool:
    """Return True if a value is a whole number; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def integer(value: object, _: object = None) -> int:
    """An integer within a Java long, also as text (`"5"`) or as a float without a fraction (`5.0`)."""
    if type(value) is int and abs(value) <= MAX_INTEGER:
        return value
    number = _number(value)
    if number is None or number != number.to_integral_value():
        raise Wrong(f"expected an integer, got {shown(value)}")
    if abs(number) > MAX_INTEGER:
        raise Wrong(f"expected an integer of at most 64 bits, got {shown(value)}")
    return int(number)


def instant(value: object, _: object = None) -> int | str:
    """An instant as its field takes it: epoch ms, or a text that is no number."""
    return value if isinstance(value, str) and not value.strip().lstrip("-").isdigit() else integer(value)


def duration_ms(value: object, _: object = None) -> int:
    """Milliseconds of a duration in seconds; a fraction is accepted down to one millisecond."""
    if type(value) is int and abs(value) <= MAX_INTEGER // 1000:
        return value * 1000
    seconds = _number(value)
    if seconds is None:
        raise Wrong(f"expected an integer, got {shown(value)}")
    if abs(seconds) > MAX_INTEGER // 1000:
        raise Wrong(f"expected seconds within 64 bits of milliseconds, got {shown(value)}")
    # Within that range, and with at most a dozen digits after the point that matter, Decimal's 28 digits are exact.
    milliseconds = seconds * 1000
    if milliseconds != milliseconds.to_integral_value():
        raise Wrong(f"expected whole seconds or milliseconds, got {shown(value)}")
    return int(milliseconds)


def in_seconds(milliseconds: int | None) -> int | float | str | None:
    """A duration as its property has it; a text where a float has too few digits, which is read as a number."""
    if milliseconds is None or milliseconds % 1000 == 0:
        return None if milliseconds is None else milliseconds // 1000
    exact = decimal.Decimal(milliseconds).scaleb(-3)
    return float(exact) if decimal.Decimal(repr(float(exact))) == exact else str(exact)


def whole_seconds(milliseconds: int | None) -> int | None:
    """Milliseconds as Conductor's whole seconds, rounded up: a short time must not become 0, which means that there is none."""
    return None if milliseconds is None else -(-milliseconds // 1000)


def _number(value: object) -> decimal.Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (not value.isascii() or len(value) > 100 or "_" in value):
        return None
    try:
        # repr of a float is the shortest text that means it, so 0.1 is a tenth and not 0.1000000000000000055….
        number = decimal.Decimal(repr(value) if isinstance(value, float) else value)
    except decimal.InvalidOperation:
        return None
    return number if number.is_finite() and -100 < number.adjusted() < 100 else None


def choice(value: object, kind: type[E]) -> E:
    """A member of an enumeration by its exact name, as in Conductor: case counts."""
    if isinstance(value, str):
        for member in kind:
            if member.value == value:
                return member
    raise Wrong(f"expected one of {', '.join(str(member.value) for member in kind)}, got {shown(value)}")


def _encoder() -> Callable[[Any, int], Iterable[str]]:
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: (encoder.encode(value),)
    # `encode` makes one of these for each value.
    made: Callable[[Any, int], Iterable[str]] = make(
        None, encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
    )
    return made


#: The parts of the text of a value, and 0, its indentation.
chunks: Final = _encoder()


def encoded(value: Any) -> str:
    """JSON text of what is JSON for certain: without the checks of `canonical`."""
    return "".join(chunks(value, 0))
