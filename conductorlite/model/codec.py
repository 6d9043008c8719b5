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
What is said of single classes stands in `scalars`, by name, so that this module knows none of them. Readers are made of the
annotations of a class when its first value comes. Tasks that are nested too deeply are not looked into: reading recurses only so
far.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial, reduce
from itertools import compress, count
from operator import attrgetter, ne
from os import PathLike
from types import UnionType
from typing import Any, Final, Self, TypeAlias, TypeVar, Union, get_args, get_origin

from conductorlite.model import attrs
from conductorlite.model.canonical import canonical, digest, parse
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.scalars import (
    ALWAYS_WRITTEN,
    ANSWERED,
    DURATION_PROPERTIES,
    EXTRA,
    INSTANTS,
    MAX_NESTING,
    REQUIRED_TEXT,
    Wrong,
    boolean,
    choice,
    duration_ms,
    instant,
    integer,
    json_names,
    shown,
    step_path,
    strict_text,
    text,
)
from conductorlite.model.texts import InNotebook, brief

__all__ = [
    "Definition",
    "Source",
    "definition_hash",
    "definition_text",
    "document_of",
    "several_from_json",
    "structured",
]

_NOTHING: Final[frozenset[str]] = frozenset()

#: Types whose values are their own JSON.
_OWN_JSON: Final = frozenset({str, int, float, bool, type(None)})


#: Writes a value as JSON, with what is around it.
_Writer = Callable[[Any, Sequence[object]], Any]


@cache
def _writer(kind: type) -> _Writer:
    """What writes values of a type that is not its own JSON."""
    if issubclass(kind, Enum):
        return lambda value, _: value.value
    if issubclass(kind, Mapping):
        return _of_mapping
    if issubclass(kind, list | tuple):
        return _of_sequence
    return _object if attrs.has(kind) else lambda value, _: value


def _of_mapping(value: Mapping[str, Any], within: Sequence[object]) -> dict[str, Any]:
    written = {}
    for key, entry in value.items():
        kind: Any = type(entry)
        written[key] = entry if kind in _OWN_JSON else _writer(kind)(entry, within)
    return written


def _of_sequence(value: Sequence[Any], within: Sequence[object]) -> list[Any]:
    written = []
    for entry in value:
        kind: Any = type(entry)
        written.append(entry if kind in _OWN_JSON else _writer(kind)(entry, within))
    return written


def _object(thing: Any, within: Sequence[object] = ()) -> dict[str, Any]:
    """A thing as JSON; `within` are those around it."""
    kind: Any = type(thing)
    read, written, defaults, known = _properties(kind)
    document: dict[str, Any] = {}
    values = read(thing)
    within = (*within, thing)
    # Most fields of most tasks were never given.
    for place in compress(count(), map(ne, values, defaults)):
        value, (name, lasts) = values[place], written[place]
        kind = type(value)
        document[name] = _seconds(value) if lasts else value if kind in _OWN_JSON else _writer(kind)(value, within)
    for key, value in getattr(thing, EXTRA, {}).items():
        if key in known:
            where = " ".join(["$", *(f"{type(one).__name__}({getattr(one, 'name', None)!r})" for one in within)])
            raise InvalidDefinition([Problem(path=where, message=f"extra holds {key!r}, which is a property of its own")])
        document[key] = _of_mapping({key: value}, within)[key]
    return document


@cache
def _properties(
    kind: Any,
) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[tuple[str, bool], ...], tuple[object, ...], frozenset[str]]:
    """How the fields of a class are read all at once, each one's name and whether it is a duration, the values that are not
    written, and the names that are taken."""
    names = json_names(kind)
    always, fields = ALWAYS_WRITTEN.get(kind.__name__, _NOTHING), attrs.fields_dict(kind)
    written = tuple((name, field in DURATION_PROPERTIES) for field, name in names.items())
    defaults = tuple(attrs.NOTHING if field in always else _default(fields[field]) for field in names)
    return attrgetter(*names), written, defaults, frozenset(names.values())


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
        definition: Self = structured(document_of(source), cls)
        return definition

    def to_json(self) -> dict[str, Any]:
        """This as Conductor's JSON, fresh: defaults are left out, unknown properties written back.

        Raises InvalidDefinition if `extra` holds a property that is known, and for nesting that exhausts the stack.
        """
        try:
            return _object(self)
        except RecursionError:
            raise InvalidDefinition([Problem(path="$", message="nested too deeply to be written")]) from None


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


class _Wrongs(list[tuple[list[str | int], str]]):
    """What is wrong: the steps to where it is, the last one first, and a message."""

    #: Tasks around what is read now, and whether one was too deep.
    depth = 0
    deep = False

    def say(self, message: object, *steps: str | int) -> object:
        self.append(([*steps], str(message)))
        return None

    def below(self, since: int, step: str | int) -> None:
        """What was said since then is below this step."""
        if len(self) > since:
            for steps, _ in self[since:]:
                steps.append(step)

    def problems(self) -> list[Problem]:
        return [Problem(path=reduce(step_path, reversed(steps), "$"), message=message) for steps, message in self]


#: Reads a value; what it gives where it has said that something is wrong is of no use.
_Reader = Callable[[Any, _Wrongs], Any]


def structured(document: object, kind: Any) -> Any:
    """A parsed document as `kind`, or a list of `Sequence[kind]`; raises InvalidDefinition with all problems at once."""
    wrongs = _Wrongs()
    try:
        value = _reader(kind)(document, wrongs)
    except RecursionError:
        # Within MAX_NESTING this happens only to a caller who has used up most of the stack before.
        problem = Problem(path="$", message="nested too deeply for what is left of the stack")
        raise InvalidDefinition([problem]) from None
    if wrongs:
        raise InvalidDefinition(wrongs.problems())
    return value


@cache
def _reader(kind: Any) -> _Reader:
    """What reads values of a type."""
    if kind is Any:
        return lambda value, _: value
    if attrs.has(kind):
        return _later(kind)
    if get_origin(kind) in (Union, UnionType):
        return _of_union(kind, {*get_args(kind)} - {type(None)})
    if get_origin(kind) is Sequence:
        return _of_lists(*get_args(kind))
    if get_origin(kind) is Mapping:
        return _of_maps(get_args(kind)[1])
    if kind in _SCALARS:
        return _of_scalars(_SCALARS[kind])
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise TypeError(f"nothing here reads a {kind}")
    return _of_scalars(partial(choice, kind=kind))


_SCALARS: Final[dict[Any, Callable[[Any], object]]] = {str: text, bool: boolean, int: integer}


def _of_scalars(read: Callable[[Any], object]) -> _Reader:
    def structure(value: Any, wrongs: _Wrongs) -> object:
        try:
            return read(value)
        except Wrong as error:
            return wrongs.say(error)

    return structure


def _later(kind: Any) -> _Reader:
    """The reader of a class, made when its first value comes: the classes refer to each other in a circle."""
    made = cache(partial(_of_class, kind))
    return _of_tasks(made) if kind.__name__ == "WorkflowTask" else lambda value, wrongs: made()(value, wrongs)


def _of_tasks(reader: Callable[[], _Reader]) -> _Reader:
    """The reader of tasks, which hold tasks: of those that are too deep one is a problem, and none is looked into."""

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if wrongs.depth == MAX_NESTING:
            if not wrongs.deep:
                wrongs.deep = True
                wrongs.say(f"tasks are nested deeper than {MAX_NESTING} levels")
            return None
        wrongs.depth += 1
        task = reader()(value, wrongs)
        wrongs.depth -= 1
        return task

    return structure


#: What reads a property: its field, how, the type of which every value is read as it is, and whether blank text is none.
_Reading = tuple[str, _Reader, type | None, bool]


def _of_entries(value: dict[str, Any], readers: Mapping[str, _Reading], wrongs: _Wrongs) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of an object, and the properties that are not known."""
    values: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    for key, entry in value.items():
        known = readers.get(key)
        if known is None:
            unknown[key] = entry
        elif entry is not None:
            field, read, itself, blankable = known
            if type(entry) is itself:
                values[field] = entry
            elif not (blankable and isinstance(entry, str) and not entry.strip()):
                before = len(wrongs)
                values[field] = read(entry, wrongs)
                wrongs.below(before, key)
    return values, unknown


def _of_class(kind: Any) -> _Reader:
    attrs.resolve_types(kind)
    names = json_names(kind)
    fields = [(names[field.name], field) for field in attrs.fields(kind) if field.name != EXTRA]
    blank_is_absent = {name for name, field in fields if field.type in (int, bool, int | None, bool | None)}
    readers = {name: (field.name, _of_field(kind, field), _itself(kind, field), name in blank_is_absent) for name, field in fields}
    required = [(name, field.name) for name, field in fields if field.default is attrs.NOTHING]
    places = {name: place for place, name in enumerate(readers)}
    dropped, is_task = ANSWERED.get(kind.__name__, frozenset()), kind.__name__ == "WorkflowTask"
    keeps, make = EXTRA in attrs.fields_dict(kind), kind

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if not isinstance(value, dict):
            return wrongs.say(f"expected an object, got {shown(value)}")
        if is_task and ("taskDefinition" in value or "workflowTaskType" in value):
            value = _stood_in(value)
        begun = len(wrongs)
        values, unknown = _of_entries(value, readers, wrongs)
        for key, field in required:
            if field not in values:
                wrongs.say("is missing", key)
        if len(wrongs) > begun:
            wrongs[begun:] = sorted(wrongs[begun:], key=lambda wrong: places[str(wrong[0][-1])])
            return None
        if unknown and keeps:
            values[EXTRA] = {key: entry for key, entry in unknown.items() if key not in dropped}
        try:
            return make(**values)
        except InvalidInput as error:
            return wrongs.say(error)

    return structure


def _itself(kind: Any, field: attrs.Attribute[Any]) -> type | None:
    """The type of which every value of a field is read as it is: most fields of most tasks hold such a one."""
    wanted: Any = field.type
    if field.name in DURATION_PROPERTIES or field.name in INSTANTS:
        return None
    if field.name in REQUIRED_TEXT.get(kind.__name__, ()) or wanted in (str, str | None):
        return str
    if wanted in (bool, bool | None):
        return bool
    return dict if get_origin(wanted) is Mapping and get_args(wanted)[1] is Any else None


def _of_field(kind: Any, field: attrs.Attribute[Any]) -> _Reader:
    if field.name in DURATION_PROPERTIES:
        return _of_scalars(duration_ms)
    if field.name in INSTANTS:
        return _of_scalars(instant)
    if field.name in REQUIRED_TEXT.get(kind.__name__, ()):
        return _of_scalars(strict_text)
    wanted: Any = field.type
    return _reader(wanted)


def _stood_in(given: dict[str, Any]) -> dict[str, Any]:
    """A task with a `type` that is only given as `workflowTaskType`, and the name that an embedded definition leaves out."""
    given = dict(given)
    if given.get("type") is None and given.get("workflowTaskType") is not None:
        given["type"] = given.pop("workflowTaskType")
    task_def = given.get("taskDefinition")
    if isinstance(task_def, dict) and task_def.get("name") is None and isinstance(given.get("name"), str):
        given["taskDefinition"] = {**task_def, "name": given["name"]}
    return given


def _of_lists(entry_kind: Any) -> _Reader:
    read = _reader(entry_kind)

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if value is None:
            return ()
        if not isinstance(value, list):
            return wrongs.say(f"expected a list, got {shown(value)}")
        return tuple(_entries(enumerate(value), read, wrongs))

    return structure


def _of_maps(entry_kind: Any) -> _Reader:
    read = _reader(entry_kind)

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if not isinstance(value, dict):
            return wrongs.say(f"expected an object, got {shown(value)}")
        return value if entry_kind is Any else dict(zip(value, _entries(value.items(), read, wrongs), strict=True))

    return structure


def _entries(entries: Iterable[tuple[Any, Any]], read: _Reader, wrongs: _Wrongs) -> list[Any]:
    """Each entry read: one bad entry does not hide the next."""
    found = []
    for key, entry in entries:
        before = len(wrongs)
        found.append(read(entry, wrongs))
        if len(wrongs) > before:
            wrongs.below(before, key)
    return found


#: What a text may stand for in the place of an object, and whether it is one that does.
_TEXT_FOR: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    "WorkflowDef": ("an object or an expression ${…}", lambda value: value.startswith("${") and value.endswith("}")),
    "WorkflowTask": ("a task or the name of one", lambda value: True),
}


def _of_union(kind: Any, members: set[Any]) -> _Reader:
    """Of one type or null; or of a text that may stand in the place of a member of an enumeration, or of an object."""
    if len(members) == 1:
        read = _reader(*members)
        return lambda value, wrongs: None if value is None else read(value, wrongs)
    (other,) = members - {str}
    if issubclass(other, Enum):
        return _of_scalars(lambda value: None if value is None else other(value) if value in [*other] else text(value))
    read, (expected, stands) = _reader(other), _TEXT_FOR[other.__name__]

    def structure(value: Any, wrongs: _Wrongs) -> object:
        if isinstance(value, dict):
            return read(value, wrongs)
        if value is None or (isinstance(value, str) and stands(value)):
            return value
        return wrongs.say(f"expected {expected}, got {shown(value)}")

    return structure
