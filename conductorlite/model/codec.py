"""Conductor JSON ⇄ attrs definitions, in both directions without loss, by one cattrs converter.

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

A class that derives from `Definition` needs no code for it: fields are properties, in the order in which they are declared, and
what is said of single ones stands in their metadata (`scalars.Property`), so that this module knows no class. cattrs makes the
functions of a class when its first value comes. Tasks that are nested too deeply are not looked into.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from functools import cache, partial
from os import PathLike
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, Union, get_args, get_origin

import attrs

from conductorlite.model.canonical import Payload, canonical, digest, parse
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.scalars import (
    EXTRA,
    MAX_NESTING,
    DurationMs,
    InstantMs,
    Wrong,
    boolean,
    choice,
    duration_ms,
    in_seconds,
    instant,
    integer,
    is_of,
    json_names,
    property_of,
    shown,
    step_path,
    strict_text,
    text,
)
from conductorlite.model.texts import InNotebook, brief
from conductorlite.model.threads import carried

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = [
    "Definition",
    "Source",
    "converter",
    "definition_hash",
    "definition_text",
    "document_of",
    "fresh",
    "properties",
    "rows",
    "several_from_json",
    "structured",
]


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
    """Definition that a user writes, in Conductor's JSON: a workflow, a task, a schema, an event handler, a schedule."""

    __slots__ = ()

    def __repr__(self) -> str:
        return brief(self)

    @classmethod
    def from_json(cls, source: Source) -> Self:
        """Read one from Conductor's JSON: text, bytes, a parsed mapping, or the path of a UTF-8 file.

        Raises InvalidDefinition with all problems at once, InvalidInput for broken JSON text (with line and column) and for
        values that are no JSON, OSError for an unreadable file.
        """
        definition: Self = structured(document_of(source), cls)
        return definition

    def to_json(self) -> dict[str, Any]:
        """This as Conductor's JSON, fresh: defaults are left out, unknown properties written back.

        Raises InvalidDefinition if `extra` holds a property that is known, and for nesting that exhausts the stack.
        """
        try:
            document: dict[str, Any] = converter().unstructure(self)
        except _Shadowed as error:
            raise InvalidDefinition([Problem(path=" ".join(["$", *error.within]), message=str(error))]) from None
        except RecursionError:
            raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None
        return document


D = TypeVar("D", bound=Definition)


def several_from_json(kind: type[D], source: Source) -> tuple[D, ...]:
    """A list of definitions, as Conductor's `POST /metadata/taskdefs` takes it, or one; raises as `Definition.from_json`."""
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


def structured(document: object, kind: Any) -> Any:
    """A parsed document as `kind`, or a list of `Sequence[kind]`; raises InvalidDefinition with all problems at once."""
    try:
        with carried(_nesting, 0):
            return converter().structure(document, kind)
    except Exception as error:
        raise InvalidDefinition(_problems(error)) from None


# ---------------------------------------------------------------------- what cattrs found wrong


def _problems(error: Exception) -> list[Problem]:
    from conductorlite.model.typed import leaves

    found: list[Problem] = []
    deep = False
    for path, each in leaves(error, "$", step_path, json_names):
        if isinstance(each, RecursionError):
            # Within MAX_NESTING this happens only to a caller who has used up most of the stack before.
            return [Problem(path="$", message="nested too deeply for what is left of the stack")]
        if not isinstance(each, Wrong | InvalidInput):
            raise each
        if not (deep and isinstance(each, _TooDeep)):
            found.append(Problem(path=path, message=str(each)))
        deep |= isinstance(each, _TooDeep)
    return found


class _TooDeep(Wrong):
    """Tasks within tasks, one of which is too deep: of several one is a problem."""


class _Shadowed(Exception):
    """Two values for one property cannot both be written, so neither is silently dropped."""

    def __init__(self, key: str) -> None:
        super().__init__(f"extra holds {key!r}, which is a property of its own")
        self.within: list[str] = []


# ---------------------------------------------------------------------- the converter


#: Reads a value as a type.
_Reader: TypeAlias = Callable[[Any, Any], Any]

#: Tasks around what is read now.
_nesting: Final[ContextVar[int]] = ContextVar("conductorlite_nesting", default=0)

#: Types whose values are their own JSON.
_OWN_JSON: Final = frozenset({str, int, float, bool, type(None)})

#: What no field holds: stands for the default of what is always written.
_NEVER: Final = object()


@cache
def converter() -> Converter:
    """The converter of Conductor's JSON, made when the first document comes."""
    from cattrs import Converter

    made = Converter(detailed_validation=True)
    made.register_structure_hook_factory(_is_foreign, _refused)  # what is registered later comes first
    made.register_structure_hook(str, lambda value, kind: text(value) if kind is str else choice(value, kind))
    for kind, read in ((bool, boolean), (int, integer), (DurationMs, duration_ms), (InstantMs, instant)):
        made.register_structure_hook(kind, read)
    made.register_structure_hook_factory(lambda kind: _origin(kind) in (Sequence, tuple), _of_sequences)
    made.register_structure_hook_factory(lambda kind: _origin(kind) is Mapping, _of_mappings)
    made.register_structure_hook_factory(_has_text, _of_union)
    made.register_structure_hook_factory(attrs.has, _of_class)
    made.register_unstructure_hook_factory(attrs.has, _writer)
    made.register_unstructure_hook(Payload, Payload.fresh)
    return made


def fresh(value: Any) -> Any:
    """A value that was given as JSON, copied; objects in it are written as their classes say."""
    kind = type(value)
    if kind in _OWN_JSON:
        return value
    if issubclass(kind, Enum):
        return value.value
    if kind is dict or issubclass(kind, Mapping):
        return {key: entry if type(entry) in _OWN_JSON else fresh(entry) for key, entry in value.items()}
    if issubclass(kind, list | tuple):
        return [entry if type(entry) in _OWN_JSON else fresh(entry) for entry in value]
    return converter().unstructure(value) if attrs.has(kind) or issubclass(kind, Payload) else value


def properties(thing: Any, fields: Iterable[str]) -> dict[str, Any]:
    """Some fields of a thing as they are in Conductor's JSON, fresh, whatever they hold."""
    kind: Any = type(thing)
    names = json_names(kind)
    return {names[field]: fresh(getattr(thing, field)) for field in fields}


def _payload_text(payload: Payload | None) -> str | None:
    return None if payload is None else payload.text


@cache
def rows(kind: Any, without: frozenset[str]) -> tuple[Callable[[Any], dict[str, Any]], _Reader]:
    """Return the functions that write and read rows of a class by the names of their fields.

    What equals its default is left out, a payload is its text; what is not known is not read.
    """
    from cattrs.gen import make_dict_structure_fn_from_attrs, make_dict_unstructure_fn_from_attrs, override

    attrs.resolve_types(kind)
    fields = [field for field in attrs.fields(kind) if field.name not in without]
    kept: dict[str, Any] = {
        field.name: override(struct_hook=lambda text, _: Payload(text), unstruct_hook=_payload_text)
        if is_of(field, Payload)
        else override(unstruct_hook=fresh)
        for field in fields
    }
    write = make_dict_unstructure_fn_from_attrs(fields, kind, converter(), _cattrs_omit_if_default=True, **kept)
    return write, make_dict_structure_fn_from_attrs(fields, kind, converter(), _cattrs_detailed_validation=False, **kept)


def _writer(kind: Any, made: Converter) -> Callable[[Any], dict[str, Any]]:
    from cattrs.gen import make_dict_unstructure_fn_from_attrs, override

    names = json_names(kind)
    known = frozenset(names.values())
    fields = [field.evolve(default=_idle(field), converter=None) for field in attrs.fields(kind) if field.name in names]
    said: dict[str, Any] = {
        field.name: override(rename=names[field.name], unstruct_hook=in_seconds if is_of(field, DurationMs) else fresh)
        for field in fields
    }
    write = make_dict_unstructure_fn_from_attrs(fields, kind, made, _cattrs_omit_if_default=True, **said)

    def unstructure(thing: Any) -> dict[str, Any]:
        try:
            document = write(thing)
            for key, value in getattr(thing, EXTRA, {}).items():
                if key in known:
                    raise _Shadowed(key)
                document[key] = fresh(value)
        except _Shadowed as error:
            error.within.insert(0, f"{kind.__name__}({getattr(thing, 'name', None)!r})")
            raise
        return document

    return unstructure


def _idle(field: attrs.Attribute[Any]) -> object:
    """The value of a field that is not written."""
    return _NEVER if field.default is attrs.NOTHING or property_of(field).written else field.default


def _of_class(kind: Any, made: Converter) -> _Reader:
    """The reader of a class. cattrs makes its part when the first value comes: classes refer to each other in a circle."""
    names = json_names(kind)
    fields = [field for field in attrs.fields(kind) if field.name in names]
    blankable = {names[field.name]: is_of(field, int, bool, DurationMs, InstantMs) for field in fields}
    also = [(names[field.name], other) for field in fields if (other := property_of(field).also) is not None]
    inherits = [(names[field.name], name) for field in fields if (name := property_of(field).inherits) is not None]
    keeps = attrs.fields_dict(kind).get(EXTRA)
    dropped = frozenset() if keeps is None else property_of(keeps).answered
    reader = cache(partial(_generated, kind, made))

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, got {shown(value)}")
        unknown: dict[str, Any] = {}
        given: dict[str, Any] = {EXTRA: unknown}
        for key, entry in value.items():
            blank = blankable.get(key)
            if blank is None:
                unknown[key] = entry
            elif entry is not None and not (blank and isinstance(entry, str) and not entry.strip()):
                given[key] = entry
        for name, other in also:
            if name not in given and unknown.get(other) is not None:
                given[name] = unknown.pop(other)
        for name, outer in inherits:
            inner = given.get(name)
            if isinstance(inner, dict) and inner.get(outer) is None and isinstance(given.get(outer), str):
                given[name] = {**inner, outer: given[outer]}
        for key in dropped.intersection(unknown):
            del unknown[key]
        return reader()(given, kind)

    return _nested(structure) if getattr(kind, "HOLDS_ITS_LIKE", False) else structure


def _generated(kind: Any, made: Converter) -> _Reader:
    from cattrs.gen import make_dict_structure_fn_from_attrs, override

    names = json_names(kind)

    def hook(field: attrs.Attribute[Any]) -> _Reader | None:
        about = property_of(field)
        if about.stands is not None:
            return _or_text(made.get_structure_hook(next(one for one in get_args(field.type) if attrs.has(one))), *about.stands)
        return strict_text if about.strict else None

    said: dict[str, Any] = {
        field.name: override(rename=names[field.name], struct_hook=hook(field))
        for field in attrs.fields(kind)
        if field.name in names
    }
    read: _Reader = make_dict_structure_fn_from_attrs([*attrs.fields(kind)], kind, made, **said)
    return read


def _nested(read: _Reader) -> _Reader:
    """The reader of tasks, which hold tasks: those that are too deep are not looked into."""

    def structure(value: Any, kind: Any) -> Any:
        level = _nesting.get()
        if level == MAX_NESTING:
            raise _TooDeep(f"tasks are nested deeper than {MAX_NESTING} levels")
        _nesting.set(level + 1)
        try:
            return read(value, kind)
        finally:
            _nesting.set(level)

    return structure


def _or_text(read: _Reader, expected: str, stands: Callable[[str], bool]) -> _Reader:
    """The reader of an object, or of a text that stands for one."""

    def structure(value: Any, kind: Any) -> Any:
        if isinstance(value, dict):
            return read(value, kind)
        if isinstance(value, str) and stands(value):
            return value
        raise Wrong(f"expected {expected}, got {shown(value)}")

    return structure


def _origin(kind: Any) -> Any:
    return get_origin(kind)


def _has_text(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and str in get_args(kind) and len(get_args(kind)) > 2


def _of_union(kind: Any) -> _Reader:
    """Of a member of an enumeration by its text, or any other text, such as an expression."""
    (choices,) = {*get_args(kind)} - {str, type(None)}
    return lambda value, _: choices(value) if value in [*choices] else text(value)


def _is_foreign(kind: Any) -> bool:
    return kind is not Any and get_origin(kind) not in (Union, UnionType)


def _refused(kind: Any) -> _Reader:
    """cattrs would read more than Conductor's JSON has, in its own way."""
    raise TypeError(f"nothing here reads a {kind}")


def _of_sequences(kind: Any, made: Converter) -> _Reader:
    from cattrs.cols import list_structure_factory

    several: Any = list[get_args(kind)[0]]  # type: ignore[misc]
    read = list_structure_factory(several, made)

    def structure(value: Any, _: Any) -> Any:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise Wrong(f"expected a list, got {shown(value)}")
        return tuple(read(value, several))

    return structure


def _of_mappings(kind: Any, made: Converter) -> _Reader:
    from cattrs.gen import make_mapping_structure_fn

    read = None if get_args(kind)[1] is Any else make_mapping_structure_fn(kind, made, dict)

    def structure(value: Any, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Wrong(f"expected an object, got {shown(value)}")
        return value if read is None else read(value, kind)

    return structure
