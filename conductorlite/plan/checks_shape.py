"""Are all values of the types their fields declare? Python code need not have passed a type checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import attrs

from conductorlite.definitions import MAX_NESTING, Problem, property_name, step_path

__all__ = ["Payload", "examine"]

#: Containers on the way into one level of nested tasks, at most: task, params, definition, list.
_DEEPEST: Final = 4 * MAX_NESTING + 8

#: What a 64-bit column and a Java long hold.
_LARGEST: Final = 2**63 - 1


Payload = tuple[object, str]


def examine(value: object, path: str, kind: Any) -> tuple[list[Problem], list[Payload]]:
    """Every value within the attrs object `value` that is not of its declared type, and every JSON payload, with paths.

    Nesting far beyond MAX_NESTING (or a cycle) is one problem; nothing is raised.
    """
    problems: list[Problem] = []
    payloads: list[Payload] = []
    stack: list[tuple[object, str, Any, int]] = [(value, path, kind, 0)]
    while stack:
        item, where, wanted, depth = stack.pop()
        if depth > _DEEPEST:
            message = f"tasks are nested deeper than {MAX_NESTING} levels (or cyclic)"
            return [Problem(path=where[:200], message=message)], []
        fitting = _alternative(item, wanted)
        if fitting is _NOTHING:
            problems.append(Problem(path=where, message=f"expected {_named(wanted)}, got {_shown(item)}"))
        elif fitting is Any or (get_origin(fitting) is Mapping and get_args(fitting)[1] is Any):
            payloads.append((item, where))
        else:
            children = [(child, at, each, depth + 1) for child, at, each in _children(item, where, fitting)]
            stack.extend(reversed(children))
    return problems, payloads


_NOTHING: Final = object()


def _alternative(item: object, wanted: Any) -> Any:
    """The member of a union (or the type itself) that `item` is an instance of, or _NOTHING."""
    if wanted is Any:
        return Any
    if get_origin(wanted) in (Union, UnionType):
        found = (_alternative(item, each) for each in get_args(wanted))
        return next((each for each in found if each is not _NOTHING), _NOTHING)
    origin = get_origin(wanted) or wanted
    if origin is Sequence:
        origin = tuple
    if wanted is int:
        return int if isinstance(item, int) and not isinstance(item, bool) and abs(item) <= _LARGEST else _NOTHING
    return wanted if isinstance(item, origin) else _NOTHING


def _children(item: Any, where: str, kind: Any) -> Iterator[tuple[object, str, Any]]:
    arguments = get_args(kind)
    if get_origin(kind) is Sequence:
        for index, entry in enumerate(item):
            yield entry, step_path(where, index), arguments[0]
    elif get_origin(kind) is Mapping:
        for key, entry in item.items():
            if not isinstance(key, str):
                # Shown as a value of the wrong type: a path could not even be written down.
                yield key, f"{where} (key)", str
            else:
                yield entry, step_path(where, key), arguments[1]
    elif isinstance(kind, type) and attrs.has(kind):
        read, fields = _fields(kind)
        # Most fields of most tasks were never given, or hold a plain text: this keeps the check of a large definition cheap.
        for value, (name, declared, default, fitting, mapping) in zip(read(item), fields, strict=True):
            if value is default or type(value) in fitting or (mapping and not value and type(value) is dict):
                continue
            # Unknown properties lie beside the known ones in the JSON, not below a property of their own.
            yield value, where if name == "extra" else step_path(where, property_name(name)), declared


#: A field: its name, declared type and default, the types of which every value fits, and whether it is a mapping.
_Field = tuple[str, Any, object, frozenset[type], bool]


@cache
def _fields(kind: Any) -> tuple[Callable[[Any], tuple[object, ...]], tuple[_Field, ...]]:
    """How the fields of a class are read all at once, and what each is."""
    attrs.resolve_types(kind)
    fields = attrs.fields(kind)
    return attrgetter(*(field.name for field in fields)), tuple(
        (field.name, field.type, field.default, _fitting(field.type), get_origin(field.type) is Mapping) for field in fields
    )


def _fitting(declared: Any) -> frozenset[type]:
    """Types of which every value is as declared; there may be others whose values must be looked at."""
    if get_origin(declared) in (Union, UnionType):
        return frozenset().union(*map(_fitting, get_args(declared)))
    if declared in (str, bool, type(None)) or (isinstance(declared, type) and issubclass(declared, Enum)):
        return frozenset({declared})
    return frozenset()


def _named(wanted: Any) -> str:
    if get_origin(wanted) in (Union, UnionType):
        return " or ".join(_named(each) for each in get_args(wanted) if each is not type(None))
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return f"a {wanted.__name__} ({', '.join(str(member.value) for member in wanted)})"
    if wanted is int:
        return "an integer of at most 64 bits"
    plain = {str: "text", bool: "True or False", Sequence: "a list", Mapping: "a mapping"}
    return plain.get(get_origin(wanted) or wanted) or f"a {wanted.__name__}"


def _shown(item: object) -> str:
    if isinstance(item, str):
        return f"the text {item[:60]!r}"
    if item is None or isinstance(item, bool | float):
        return repr(item)
    if isinstance(item, int):
        # The digits of a huge integer cannot even be printed.
        return str(item) if abs(item) < 10**20 else f"an integer of {item.bit_length()} bits"
    return f"a {type(item).__name__}"
