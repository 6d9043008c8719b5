"""JSON ⇄ the typed values of Python: one table for all that enters and leaves.

`plain` writes a value as JSON has it; `reader` gives the function that makes of a JSON value what an annotation asks for, or says,
with the path of the field, why it cannot; `refusal` says whether values of an annotation cannot be carried at all. `TABLE` lists
the forms. What JSON has itself (text, numbers, booleans, null, lists and maps of anything) is only checked, and never imports
cattrs; records, dates, enums and containers of them are structured by cattrs on first use. `converter` is the cattrs converter, for
hooks of an application's own classes.

Nothing is coerced that would change its meaning: the text "5" is no int, 1 is no text, true is no number; an int passes for a
float, and stays one. A class with a `model_validate_json` (pydantic) reads itself, as strictly as it says.

JSON has no NaN and no infinities: they are the texts "NaN", "Infinity" and "-Infinity", as Jackson writes them, which Conductor's
servers use. A set is a list in the order of its entries' JSON, so that one set is one text.
"""

from __future__ import annotations

import re
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time, timedelta
from enum import Enum, Flag
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Never,
    NewType,
    NoReturn,
    NotRequired,
    Required,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import attrs

from conductorlite.model.errors import InvalidDefinition, InvalidInput
from conductorlite.model.later import dataclasses, decimal, pattern
from conductorlite.model.scalars import ENTRY_SIZE, MAX_DEPTH, MAX_SIZE, Wrong, encoded, shown

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = [
    "TABLE",
    "Reader",
    "bare",
    "converter",
    "field_kinds",
    "is_definition",
    "is_named_tuple",
    "is_record",
    "is_union",
    "leaves",
    "plain",
    "reader",
    "refusal",
    "text_schema",
    "typed_dict_fields",
    "unknown_fields",
]

#: Takes a JSON value and the path it is at; returns what was asked for, or raises InvalidInput with every problem.
Reader: TypeAlias = Callable[[Any, str], Any]

#: Writes a value of a class of the application's as something that `plain` writes further.
_OwnWriter: TypeAlias = Callable[[Any], Any]

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MAPS: Final = frozenset({dict, Mapping, MutableMapping})
_LISTS: Final = frozenset({list, Sequence, MutableSequence, Iterable})
#: Annotation → what a JSON list becomes.
_CONTAINERS: Final[dict[Any, Callable[[list[Any]], Any]]] = {
    **dict.fromkeys(_LISTS, list), tuple: tuple, set: set, frozenset: frozenset, AbstractSet: set, deque: deque,
}  # fmt: skip

#: Numbers that JSON does not have, as Jackson writes them.
_BEYOND: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

#: Entries of maps and lists that one value may have: as many as fit a document.
_MOST: Final = MAX_SIZE // ENTRY_SIZE

#: What the application's hooks write, by class: see `converter`.
_own: dict[type, _OwnWriter] = {}


@attrs.frozen(kw_only=True, slots=True)
class Form:
    """A row of the table: an annotation, how its values are written in JSON, and an example of one."""

    annotation: str
    json: str
    example: str


#: How values are carried. The documentation's table is written from it, and each row is tested in both directions.
TABLE: Final = (
    Form(annotation="str", json="text", example="'a'"),
    Form(annotation="int", json="a whole number", example="5"),
    Form(annotation="float", json="a number; NaN and the infinities are texts", example="float('nan')"),
    Form(annotation="bool", json="true or false", example="True"),
    Form(annotation="None", json="null", example="None"),
    Form(annotation="datetime", json="text, ISO 8601, with the offset that it has", example="datetime(2030, 1, 2, 9, tzinfo=UTC)"),
    Form(annotation="date", json="text, ISO 8601", example="date(2030, 1, 2)"),
    Form(annotation="time", json="text, ISO 8601", example="time(9, 30)"),
    Form(annotation="timedelta", json="text, ISO 8601, to the microsecond", example="timedelta(hours=1.5)"),
    Form(annotation="Decimal", json="text; a number is read too", example="Decimal('1.10')"),
    Form(annotation="UUID", json="text", example="UUID(int=1)"),
    Form(annotation="Path", json="text", example="Path('a/b')"),
    Form(annotation="bytes", json="text, Base64", example="b'\\x00\\xff'"),
    Form(annotation="Enum", json="its value, written as its type is", example="Color.RED"),
    Form(annotation="StrEnum", json="its value", example="Phase.READY"),
    Form(annotation="IntEnum", json="its value", example="Level.HIGH"),
    Form(annotation="Flag", json="its value; several flags are one number", example="Right.READ | Right.WRITE"),
    Form(annotation="Literal", json="its value", example="'a'"),
    Form(annotation="NewType", json="as what it is made of", example="Sku('a-1')"),
    Form(annotation="subclass of str, int or float", json="as what it is made of", example="Code('a')"),
    Form(annotation="list[T]", json="a list", example="[1, 2]"),
    Form(annotation="tuple[T, ...]", json="a list", example="(1, 2)"),
    Form(annotation="tuple[T, U]", json="a list of as many", example="(1, 'a')"),
    Form(annotation="set[T]", json="a list, in the order of its entries' JSON", example="{2, 1}"),
    Form(annotation="frozenset[T]", json="a list, in the order of its entries' JSON", example="frozenset({2, 1})"),
    Form(annotation="deque[T]", json="a list", example="deque([1, 2])"),
    Form(annotation="dict[str, T]", json="an object", example="{'a': 1}"),
    Form(annotation="dict[int, T]", json="an object; keys are texts", example="{1: 'a'}"),
    Form(annotation="T | U", json="as the one it is; null for None", example="None"),
    Form(annotation="dataclass", json="an object with its fields", example="Item('a', 2)"),
    Form(annotation="attrs class", json="an object with its fields", example="Parcel('a', None)"),
    Form(annotation="NamedTuple", json="an object with its fields", example="Point(1, 2)"),
    Form(annotation="TypedDict", json="an object with its keys", example="{'city': 'Bern'}"),
    Form(annotation="generic record", json="an object with its fields", example="Box(1)"),
    Form(annotation="pydantic model", json="as it writes itself", example="Guest(name='Ada')"),
    Form(
        annotation="WorkflowDef, WorkflowTask, TaskDef …",
        json="Conductor's JSON",
        example="WorkflowTask(name='pay', task_reference_name='p')",
    ),
    Form(annotation="Any, object, no annotation", json="as the value is", example="[1, None]"),
)


def reader(kind: Any) -> Reader | None:
    """Return the reader of values annotated `kind`; None when they are taken as they are."""
    kind = bare(kind)
    if kind is Any or kind is object or isinstance(kind, str | TypeVar):
        return None
    if isinstance(kind, type) and kind in _SCALARS:
        return partial(_read_scalar, kind)
    check = _check(kind)
    return partial(_structured, kind) if check is None else partial(_checked, check)


def bare(kind: Any) -> Any:
    """Return what an annotation says, without the names it is given: a NewType, an alias, Annotated."""
    while True:
        if isinstance(kind, NewType):
            kind = kind.__supertype__
        elif get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        else:
            return kind


def is_record(kind: Any) -> bool:
    """Return True if a class has named fields: a dataclass, a TypedDict, a NamedTuple, an attrs class or a pydantic model."""
    kind = bare(kind)
    kind = get_origin(kind) or kind
    if not isinstance(kind, type) or kind in _own or is_definition(kind):
        return False
    return attrs.has(kind) or dataclasses.is_dataclass(kind) or is_typeddict(kind) or is_named_tuple(kind) or _is_model(kind)


def is_definition(kind: Any) -> bool:
    """Return True if a class is one of Conductor's definitions, whose form is Conductor's JSON."""
    return attrs.has(kind) and kind.__module__.startswith("conductorlite.model.") and hasattr(kind, "from_json")


def is_named_tuple(kind: Any) -> bool:
    """Return True if a class is one of tuples whose entries have names."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


# ---------------------------------------------------------------------- writing


def plain(value: Any) -> Any:
    """The value as JSON has it: records become maps, dates ISO text, enums their value; what is unknown stays as it is.

    Raises InvalidInput for keys that are equal as texts, and for what is nested too deeply or too large for a document.
    """
    kind = type(value)
    if kind in _SCALARS and kind is not float:
        return value
    return _Writing().written(value, 0)


class _Writing:
    """One value that is written: it may refer to itself, or to one value a thousand times."""

    def __init__(self) -> None:
        self._left = _MOST

    def written(self, value: Any, depth: int) -> Any:
        """The value as JSON has it."""
        kind = type(value)
        if kind is float:
            return value if value - value == 0.0 else _beyond(value)
        if kind in _SCALARS or isinstance(value, type):
            return value
        if depth > MAX_DEPTH:
            raise InvalidInput(f"nested deeper than {MAX_DEPTH} levels (or cyclic)")
        if kind in _own:
            return self.written(_own[kind](value), depth + 1)
        if isinstance(value, Enum):
            return self.written(value.value, depth + 1)
        if isinstance(value, Mapping):
            return self._map(value.items(), depth)
        if isinstance(value, list | tuple | deque | set | frozenset) and not is_named_tuple(kind):
            entries = [self._entry(entry, depth) for entry in value]
            return _ordered(entries) if isinstance(value, set | frozenset) else entries
        found = _as_text(value)
        return self._record(value, depth) if found is None else found

    def _record(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if callable(getattr(kind, "model_dump", None)):
            return value.model_dump(mode="json", by_alias=True)
        if is_definition(kind):
            return self._map(value.to_json().items(), depth)
        if is_named_tuple(kind):
            names = kind._fields
        elif attrs.has(kind):
            names = [field.name for field in attrs.fields(kind)]
        elif dataclasses.is_dataclass(kind):
            names = [field.name for field in dataclasses.fields(kind)]
        else:
            return next((base(value) for base in (int, float) if isinstance(value, base)), value)
        return self._map(((name, getattr(value, name)) for name in names), depth)

    def _map(self, entries: Iterable[tuple[Any, Any]], depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, entry in entries:
            name = _key_text(key, self.written(key, depth + 1))
            if name in made:
                raise InvalidInput(f"two keys are {shown(str(name))} as texts")
            made[name] = self._entry(entry, depth)
        return made

    def _entry(self, entry: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise InvalidInput(f"larger than {MAX_SIZE // 1024 // 1024} MB")
        return self.written(entry, depth + 1)


def _ordered(entries: list[Any]) -> list[Any]:
    """The entries of a set in the order of their JSON; as they come where one has none, which is refused by its path later."""
    try:
        return sorted(entries, key=encoded)
    except TypeError:
        return entries


def _beyond(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _key_text(key: Any, written: Any) -> Any:
    """A key of a map as JSON has it; what cannot be a text stays as it is, and is refused as any value that is no JSON."""
    if isinstance(written, str):
        return written
    return encoded(written) if isinstance(written, int | float) else key


def _as_text(value: Any) -> str | None:
    """The text of a value whose form in JSON is one; None for others."""
    kind = type(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration_text(value)
    if isinstance(value, bytes | bytearray):
        from base64 import b64encode

        return b64encode(value).decode()
    if isinstance(value, decimal.Decimal) or _is_uuid(kind) or _is_path(kind):
        return str(value)
    return None


def _duration_text(span: timedelta) -> str:
    """ISO 8601, such as PT1H30M: what Python's own parts are, without those that are zero."""
    if span < timedelta():
        return f"-{_duration_text(-span)}"
    hours, rest = divmod(span.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "H"), (minutes, "M")) if number]
    if span.microseconds:
        parts.append(f"{seconds}.{span.microseconds:06}".rstrip("0") + "S")
    elif seconds or not (parts or span.days):
        parts.append(f"{seconds}S")
    return "P" + (f"{span.days}D" if span.days else "") + (f"T{''.join(parts)}" if parts else "")


_DURATION: Final = pattern(
    r"(-)?P(?=.)(?:(\d{1,9})W)?(?:(\d{1,9})D)?"
    r"(?:T(?=.)(?:(\d{1,12})H)?(?:(\d{1,12})M)?(?:(\d{1,12})(?:\.(\d{1,6}))?S)?)?",
    re.ASCII,
)


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:6])
    try:
        span = timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, microseconds=int((found[7] or "").ljust(6, "0"))
        )
        return -span if found[1] else span
    except OverflowError:
        raise ValueError from None


def _bytes(text: str) -> bytes:
    from base64 import b64decode

    return b64decode(text.encode("ascii"), validate=True)


# ---------------------------------------------------------------------- what JSON has itself


def _check(kind: Any) -> Callable[[Any], Any] | None:
    """A check that needs no cattrs: for scalars, maps and lists of anything, and unions of these."""
    if kind is None:
        kind = type(None)
    if isinstance(kind, type) and kind in _SCALARS:
        return partial(_scalar, kind)
    origin, args = _origin(kind), get_args(kind)
    if origin in _MAPS and args in ((), (str, Any), (str, object)):
        return _object
    if origin in _LISTS and args in ((), (Any,), (object,)):
        return _list
    if is_union(kind):
        checks = [_check(arm) for arm in args]
        return None if None in checks else partial(_first, kind, [check for check in checks if check is not None])
    return None


def _checked(check: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return check(value)
    except Wrong as error:
        raise InvalidInput(f"{path}: {error}") from None


def _read_scalar(kind: type, value: Any, path: str) -> Any:
    return value if type(value) is kind else _checked(partial(_scalar, kind), value, path)


def _scalar(kind: type, value: Any) -> Any:
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    if kind is float and isinstance(value, str) and value in _BEYOND:
        return _BEYOND[value]
    raise Wrong(f"expected {_name(kind)}, got {shown(value)}")


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise Wrong(f"expected an object, got {shown(value)}")
    return value


def _list(value: Any) -> Any:
    if not isinstance(value, list):
        raise Wrong(f"expected a list, got {shown(value)}")
    return value


def _first(kind: Any, reads: Sequence[Callable[[Any], Any]], value: Any) -> Any:
    """Return what the members of a union make of a value: one that takes it unchanged goes first, then a lossless one."""
    found: list[Any] = []
    errors: list[Exception] = []
    for read in reads:
        try:
            made = read(value)
        except Exception as error:
            errors.append(error)
            continue
        if made is value:
            return made
        found.append(made)
    if found:
        return next((made for made in found if _same(plain(made), value)), found[0])
    arms = [arm for arm in get_args(kind) if arm is not type(None)]
    if len(arms) == 1:
        raise next(error for error, arm in zip(errors, get_args(kind), strict=True) if arm is not type(None))
    raise Wrong(f"expected {' or '.join(_name(arm) for arm in get_args(kind))}, got {shown(value)}")


def _same(one: Any, other: Any) -> bool:
    """Return True if two JSON values are the same; 1 and true are not."""
    return one == other and encoded(one) == encoded(other)


def _origin(kind: Any) -> Any:
    return get_origin(kind) or kind


def is_union(kind: Any) -> bool:
    """Return True if an annotation allows one of several kinds, however it was written."""
    return get_origin(kind) in (Union, types.UnionType)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and callable(getattr(kind, "model_validate_json", None))


# By name: the modules of both are not for this layer. Code that annotates with them has imported them.
def _is_uuid(kind: Any) -> bool:
    return isinstance(kind, type) and (kind.__module__, kind.__qualname__) == ("uuid", "UUID")


def _is_path(kind: Any) -> bool:
    return isinstance(kind, type) and any(
        one.__name__ == "PurePath" and one.__module__.partition(".")[0] == "pathlib" for one in kind.__mro__
    )


def text_schema(kind: Any) -> dict[str, Any] | None:
    """The JSON Schema of a kind whose form is a text; None for others."""
    kind = bare(kind)
    if not isinstance(kind, type):
        return None
    if kind is decimal.Decimal:
        return {"type": ["string", "number"]}
    for known, said in _TEXT_SCHEMAS.items():
        if issubclass(kind, known):
            return {"type": "string", **said}
    if _is_uuid(kind):
        return {"type": "string", "format": "uuid"}
    return {"type": "string"} if _is_path(kind) else None


_TEXT_SCHEMAS: Final[dict[type, dict[str, str]]] = {
    datetime: {"format": "date-time"},
    date: {"format": "date"},
    time: {"format": "time"},
    timedelta: {"format": "duration"},
    bytes: {"contentEncoding": "base64"},
}


def typed_dict_fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The fields of a TypedDict: the kind of each, and whether it has to be there."""
    fields: dict[str, tuple[Any, bool]] = {}
    for name, hint in field_kinds(kind, include_extras=True).items():
        # Not by __required_keys__ alone, which knows no NotRequired under `from __future__ import annotations`.
        wrapped = get_origin(hint) in (Required, NotRequired)
        needed = get_origin(hint) is Required if wrapped else name in _origin(kind).__required_keys__
        fields[name] = (get_args(hint)[0] if wrapped else hint, needed)
    return fields


def field_kinds(kind: Any, *, include_extras: bool = False) -> dict[str, Any]:
    """The annotations of a record's fields, with what a generic one is made of."""
    origin = _origin(kind)
    known: Mapping[Any, Any] = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
    hints = get_type_hints(origin, include_extras=include_extras)
    return {name: _substituted(hint, known) for name, hint in hints.items()} if known else hints


def _substituted(hint: Any, known: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return known.get(hint, Any)
    inner = getattr(hint, "__parameters__", ())
    return hint[tuple(known.get(one, Any) for one in inner)] if inner and not isinstance(hint, type) else hint


def _name(kind: Any) -> str:
    return "null" if kind is type(None) else kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


def unknown_fields(value: Any, made: Any, path: str) -> list[str]:
    """The entries of a JSON value that nothing was made of, each with its path and the field that may have been meant."""
    return _unknown(value, plain(made), path)


def _unknown(value: Any, kept: Any, path: str) -> list[str]:
    from conductorlite.model.texts import did_you_mean

    if isinstance(value, dict) and isinstance(kept, dict):
        found = [f"{path}{_step_to(key)}: there is no such field{did_you_mean(key, kept)}" for key in value if key not in kept]
        for key in value:
            found += _unknown(value[key], kept[key], path + _step_to(key)) if key in kept else []
        return found
    if isinstance(value, list) and isinstance(kept, list) and len(value) == len(kept):
        return [
            one for at, (entry, made) in enumerate(zip(value, kept, strict=True)) for one in _unknown(entry, made, f"{path}[{at}]")
        ]
    return []


# ---------------------------------------------------------------------- what cannot be carried


def refusal(kind: Any) -> str | None:
    """Why values of an annotation cannot be carried as JSON, or not be read again; None when they can."""
    return _refusal(kind, set())


def _refusal(kind: Any, seen: set[Any]) -> str | None:
    kind = bare(kind)
    if kind in (Any, object, None, Never, NoReturn, Ellipsis) or isinstance(kind, str | TypeVar):
        return None
    if get_origin(kind) is Literal:
        odd = [choice for choice in get_args(kind) if type(plain(choice)) not in _SCALARS]
        return f"{odd[0]!r} is no text or number" if odd else None
    if is_union(kind):
        return _any_refusal(get_args(kind), seen)
    origin, args = _origin(kind), get_args(kind)
    if not isinstance(origin, type):
        return f"{_name(kind)} has no form in JSON"
    if origin in seen:
        return _any_refusal(args, seen)
    if origin in _own or origin in _SCALARS or text_schema(origin) is not None or _is_model(origin) or is_definition(origin):
        return None
    seen = seen | {origin}
    if issubclass(origin, Enum):
        odd = [member for member in origin if not _is_json(plain(member))]
        return f"the value of {odd[0]} has no form in JSON" if odd else None
    if is_record(origin):
        return _record_refusal(kind, seen)
    if origin in _CONTAINERS or origin in _MAPS:
        hashed = args[:1] if origin in (set, frozenset, AbstractSet) or origin in _MAPS else ()
        for one in hashed:
            if (said := _hash_refusal(one, key=origin in _MAPS)) is not None:
                return said
        return _any_refusal([arg for arg in args if arg is not Ellipsis], seen)
    if issubclass(origin, str | int | float):
        return None
    return None if _has_hook(origin) else f"{_name(origin)} has no form in JSON"


def _any_refusal(kinds: Iterable[Any], seen: set[Any]) -> str | None:
    return next((said for kind in kinds if (said := _refusal(kind, seen)) is not None), None)


def _record_refusal(kind: Any, seen: set[Any]) -> str | None:
    try:
        fields = field_kinds(kind)
    except NameError as error:
        return f"a field of {_name(_origin(kind))} is annotated with {error.name!r}, which is not known where it is defined"
    except TypeError as error:
        return f"the fields of {_name(_origin(kind))} cannot be read: {error}"
    made = {one.name for one in attrs.fields(_origin(kind))} if attrs.has(_origin(kind)) else fields.keys()
    for name, hint in fields.items():
        hint = get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint
        if name in made and str(get_origin(hint) or hint) != "typing.ClassVar" and (said := _refusal(hint, seen)) is not None:
            return f"{said} (field {name!r} of {_name(_origin(kind))})"
    return None


def _hash_refusal(kind: Any, *, key: bool) -> str | None:
    kind = bare(kind)
    if kind in (Any, object) or isinstance(kind, TypeVar):
        return None
    origin = _origin(kind)
    if key and (is_union(kind) or is_record(kind) or origin in _CONTAINERS):
        return f"{_name(kind)} is no key: keys are texts in JSON"
    if isinstance(origin, type) and origin.__hash__ is None:
        return f"{_name(kind)} cannot be hashed"
    return None


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(entry) for key, entry in value.items())
    return all(map(_is_json, value)) if isinstance(value, list) else type(value) in _SCALARS


def _has_hook(kind: type) -> bool:
    from cattrs.errors import StructureHandlerNotFoundError

    try:
        converter().get_structure_hook(kind)
    except StructureHandlerNotFoundError:
        return False
    return True


# ---------------------------------------------------------------------- what cattrs structures


def _structured(kind: Any, value: Any, path: str) -> Any:
    try:
        return converter().structure(value, kind)
    except Exception as error:
        raise InvalidInput("; ".join(_problems(error, path))) from None


def _problems(error: BaseException, root: str) -> list[str]:
    """Return what is wrong, in the order of the fields, each with its path."""
    from cattrs.errors import StructureHandlerNotFoundError

    found: list[str] = []
    for path, each in leaves(error, root, lambda path, key: path + _step_to(key)):
        if isinstance(each, StructureHandlerNotFoundError):
            found.append(f"{path}: {_name(each.type_)} cannot be made from JSON")
        elif isinstance(each, InvalidDefinition):
            found += [f"{path}{problem.path.removeprefix('$')}: {problem.message}" for problem in each.problems]
        elif callable(listed := getattr(each, "errors", None)):
            found += [_of_model(one, path) for one in listed()]
        else:
            kind = "" if isinstance(each, Wrong | ValueError) else f"{type(each).__name__}: "
            found.append(f"{path}: {kind}{each}")
    return found


def leaves(
    error: BaseException, path: str, step: Callable[[str, Any], str], names: Callable[[Any], Mapping[str, str]] | None = None
) -> Iterator[tuple[str, BaseException]]:
    """Every leaf of the tree of errors of a converter, in the order of the fields, each with its path.

    `step` writes a path one step on; `names` are the properties of the fields of a class, where those are not the fields' names.
    """
    from cattrs.errors import AttributeValidationNote, BaseValidationError, IterableValidationNote

    waiting = [(error, path)]
    while waiting:
        error, path = waiting.pop()
        if not isinstance(error, BaseValidationError):
            yield path, error
            continue
        for each in reversed(error.exceptions):
            note = next((note for note in getattr(each, "__notes__", ()) if type(note) is not str), None)
            if isinstance(note, IterableValidationNote):
                waiting.append((each, step(path, note.index)))
            elif isinstance(note, AttributeValidationNote):
                name = note.name if names is None else names(error.cl)[note.name]
                lacks = isinstance(each, KeyError) and each.args == (name,)
                waiting.append((Wrong("is missing") if lacks else each, step(path, name)))
            else:
                waiting.append((each, path))


def _of_model(error: Mapping[str, Any], path: str) -> str:
    for key in error["loc"]:
        path += _step_to(key)
    if error["type"] == "missing":
        return f"{path}: is missing"
    return f"{path}: {error['msg']}"


def _step_to(key: Any) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}" if str(key).isidentifier() else f"[{shown(str(key))}]"


@cache
def converter() -> Converter:
    """The cattrs converter of typed values, for hooks of an application's own classes; definitions are Conductor's JSON to it, too.

    `converter().register_unstructure_hook(Money, str)` says how one is written, and `register_structure_hook(Money, read)`, where
    `read(value, kind)` raises ValueError for what is none, how it is read. Register both before functions are decorated whose
    annotations name the class: what cannot be carried is refused there.
    """
    # cattrs costs more to import than all of conductorlite: a program whose workers take plain JSON must not pay for it.
    from cattrs import Converter

    class TypesConverter(Converter):
        """Notes the classes that the application says how to write."""

        def register_unstructure_hook(self, cls: Any = None, func: Any = None) -> Any:
            """As in cattrs."""
            if func is not None and isinstance(cls, type):
                _own[cls] = func
            return super().register_unstructure_hook(cls, func)

    made = TypesConverter(detailed_validation=True)
    made.register_unstructure_hook_func(is_definition, lambda value: value.to_json())
    register = made.register_structure_hook_func

    def entries(kinds: Iterable[Any], keyed: Iterable[tuple[Any, Any]], owner: Any) -> list[Any]:
        return _entries(made, kinds, keyed, owner)

    for scalar in (str, int, float, bool, type(None)):
        made.register_structure_hook(scalar, _of_scalar)
    texts = {
        datetime: datetime.fromisoformat, date: date.fromisoformat, time: time.fromisoformat, timedelta: _duration, bytes: _bytes,
    }  # fmt: skip
    for kind, read in texts.items():
        made.register_structure_hook(kind, _from_text(read))
    register(lambda kind: _is_uuid(kind) or _is_path(kind), lambda value, kind: _from_text(kind)(value, kind))
    made.register_structure_hook(decimal.Decimal, _decimal)
    register(lambda kind: kind is object, lambda value, _: value)
    register(lambda kind: kind is None, lambda value, _: _scalar(type(None), value))
    register(lambda kind: isinstance(kind, type) and issubclass(kind, Enum), _enum)
    register(lambda kind: _origin(kind) is Literal, _literal)
    register(lambda kind: _origin(kind) in _CONTAINERS, partial(_container, entries))
    register(lambda kind: _origin(kind) in _MAPS, partial(_map, entries))
    register(is_union, partial(_union, made))
    generated: dict[Any, Callable[[Any, Any], Any]] = {}

    def record(value: Any, kind: Any) -> Any:
        _object(value)
        if kind not in generated:
            generated[kind] = made.gen_structure_attrs_fromdict(kind)
        return generated[kind](value, kind)

    register(is_record, record)
    register(is_definition, lambda value, kind: kind.from_json(value))
    register(lambda kind: is_typeddict(_origin(kind)), partial(_typed_dict, made))
    register(lambda kind: is_named_tuple(_origin(kind)), partial(_named_tuple, made))
    register(_is_model, lambda value, kind: kind.model_validate_json(encoded(value)))
    return made


def _of_scalar(value: Any, kind: Any) -> Any:
    """Also for classes made of one: cattrs looks for the hook of a class among those of its bases."""
    if issubclass(kind, Enum):
        return _enum(value, kind)
    if kind in _SCALARS:
        return _scalar(kind, value)
    base = next(one for one in (int, float, str) if issubclass(kind, one))
    return kind(_scalar(base, value))


def _from_text(read: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, kind: Any) -> Any:
        if isinstance(value, str):
            try:
                return read(value)
            except ValueError:
                pass
        raise Wrong(f"expected {kind.__name__} as text, got {shown(value)}")

    return structure


def _decimal(value: Any, _: Any) -> decimal.Decimal:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return decimal.Decimal(str(value))
        except decimal.InvalidOperation:
            pass
    raise Wrong(f"expected Decimal as text or a number, got {shown(value)}")


def _enum(value: Any, kind: Any) -> Any:
    for member in kind.__members__.values():
        if _same(plain(member), value):
            return member
    if type(value) is not bool:
        try:
            # Flags that are joined, and classes that say what else stands for a member (`_missing_`).
            made = kind(value)
            if made not in kind.__members__.values() or "_missing_" in vars(kind):
                return made
        except (ValueError, TypeError, KeyError):
            pass
    choices = ", ".join(shown(plain(member)) for member in kind)
    also = " or a sum of these" if issubclass(kind, Flag) else ""
    raise Wrong(f"expected one of {choices}{also}, got {shown(value)}") from None


def _literal(value: Any, kind: Any) -> Any:
    for choice in get_args(kind):
        if plain(choice) == value and type(plain(choice)) is type(value):
            return choice
    raise Wrong(f"expected one of {', '.join(shown(plain(choice)) for choice in get_args(kind))}, got {shown(value)}")


def _union(converter: Converter, value: Any, kind: Any) -> Any:
    def arm(member: Any) -> Callable[[Any], Any]:
        return lambda given: converter.structure(given, member)

    return _first(kind, [arm(member) for member in get_args(kind)], value)


def _typed_dict(converter: Converter, value: Any, kind: Any) -> dict[str, Any]:
    # Not cattrs' own, which reads __required_keys__.
    return _fields(converter, value, kind, typed_dict_fields(kind))


def _named_tuple(converter: Converter, value: Any, kind: Any) -> Any:
    origin = _origin(kind)
    kinds, defaults = field_kinds(kind), origin._field_defaults
    fields = {name: (kinds.get(name, Any), name not in defaults) for name in origin._fields}
    return origin(**_fields(converter, value, kind, fields))


def _fields(converter: Converter, value: Any, kind: Any, fields: Mapping[str, tuple[Any, bool]]) -> dict[str, Any]:
    """The fields of a record that are there, each structured; all errors are gathered."""
    from cattrs.errors import AttributeValidationNote, ClassValidationError

    _object(value)
    made: dict[str, Any] = {}
    errors: list[Exception] = []
    for name, (field_kind, needed) in fields.items():
        if name not in value and not needed:
            continue
        try:
            made[name] = converter.structure(value[name], field_kind)
        except Exception as error:
            note = AttributeValidationNote(f"at {name!r}", name, field_kind)
            error.__notes__ = [*getattr(error, "__notes__", ()), note]
            errors.append(error)
    if errors:
        raise ClassValidationError("entries", errors, kind)
    return made


def _container(entries: Callable[..., list[Any]], value: Any, kind: Any) -> Any:
    _list(value)
    origin, args = _origin(kind), get_args(kind)
    fixed = origin is tuple and args and args[-1] is not Ellipsis
    if fixed and len(args) != len(value):
        raise Wrong(f"expected {len(args)} entries, got {len(value)}")
    kinds = args if fixed else (args[0] if args else Any,) * len(value)
    return _CONTAINERS[origin](entries(kinds, enumerate(value), kind))


def _map(entries: Callable[..., list[Any]], value: Any, kind: Any) -> dict[Any, Any]:
    _object(value)
    key_kind, entry_kind = get_args(kind) or (str, Any)
    keys = ((key, _key_value(key, key_kind)) for key in value)
    made = entries((key_kind,) * len(value), keys, kind)
    return dict(zip(made, entries((entry_kind,) * len(value), value.items(), kind), strict=True))


def _key_value(key: str, kind: Any) -> Any:
    """Return what stands for a key in JSON: its text, or the number or bool that the text is, where the kind is made of those."""
    kind = bare(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((value for member in kind if encoded(value := plain(member)) == key), key)
    if kind is bool:
        return {"true": True, "false": False}.get(key, key)
    if isinstance(kind, type) and issubclass(kind, int) and key.removeprefix("-").isdecimal() and key.isascii():
        return int(key)
    if isinstance(kind, type) and issubclass(kind, float):
        try:
            return key if key in _BEYOND else float(key)
        except ValueError:
            return key
    return key


def _entries(converter: Converter, kinds: Iterable[Any], keyed: Iterable[tuple[Any, Any]], owner: Any) -> list[Any]:
    """Each entry structured; all errors are gathered, so that one bad entry does not hide the next."""
    from cattrs.errors import IterableValidationError, IterableValidationNote

    made: list[Any] = []
    errors: list[Exception] = []
    for kind, (key, entry) in zip(kinds, keyed, strict=True):
        try:
            made.append(converter.structure(entry, kind))
        except Exception as error:
            error.__notes__ = [*getattr(error, "__notes__", ()), IterableValidationNote(f"at {key!r}", key, kind)]
            errors.append(error)
    if errors:
        raise IterableValidationError("entries", errors, owner)
    return made
