"""Are all values of the types their fields declare? Python code need not have passed a type checker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import attrs

from conductorlite.model.errors import Problem
from conductorlite.model.scalars import MAX_NESTING, property_name, step_path

__all__ = ["Payload", "examine"]

#: Containers on the way into one level of nested tasks, at most: task, params, definition, list.
_DEEPEST: Final = 4 * MAX_NESTING + 8

#: What a 64-bit column and a Java long hold.
_LARGEST: Final = 2**63 - 1


Payload = tuple[object, str]


@attrs.frozen(kw_only=True, slots=True, eq=False)
class _Form:
    """A declared type, taken apart once."""

    declared: Any
    #: What `isinstance` is asked; of a union, which has members, nothing.
    origin: Any
    members: tuple[_Form, ...] = ()
    #: Of a list or a mapping: what its entries are.
    entries: _Form | None = None
    #: Whether it is JSON, which is checked elsewhere.
    payload: bool = False
    #: Types of which every value is as declared; there may be others whose values must be looked at.
    fitting: frozenset[type] = frozenset()


def examine(value: object, path: str, kind: Any) -> tuple[list[Problem], list[Payload]]:
    """Every value within the attrs object `value` that is not of its declared type, and every JSON payload, with paths.

    Nesting far beyond MAX_NESTING (or a cycle) is one problem; nothing is raised.
    """
    problems: list[Problem] = []
    payloads: list[Payload] = []
    stack: list[tuple[object, str, _Form, int]] = [(value, path, _form(kind), 0)]
    while stack:
        item, where, wanted, depth = stack.pop()
        if depth > _DEEPEST:
            message = f"tasks are nested deeper than {MAX_NESTING} levels (or cyclic)"
            return [Problem(path=where[:200], message=message)], []
        found = _alternative(item, wanted)
        if found is None:
            problems.append(Problem(path=where, message=f"expected {_named(wanted.declared)}, got {_shown(item)}"))
        elif found.payload:
            payloads.append((item, where))
        else:
            stack.extend([(child, at, each, depth + 1) for child, at, each in _children(item, where, found)][::-1])
    return problems, payloads


@cache
def _form(declared: Any) -> _Form:
    origin, arguments = get_origin(declared) or declared, get_args(declared)
    if origin in (Union, UnionType):
        members = tuple(map(_form, arguments))
        fitting = frozenset().union(*(member.fitting for member in members))
        return _Form(declared=declared, origin=None, members=members, fitting=fitting)
    if declared is Any:
        return _Form(declared=declared, origin=object, payload=True)
    if origin is Sequence:
        return _Form(declared=declared, origin=tuple, entries=_form(arguments[0]))
    if origin is Mapping:
        return _Form(declared=declared, origin=Mapping, entries=_form(arguments[1]), payload=arguments[1] is Any)
    plain = declared in (str, bool, type(None)) or (isinstance(declared, type) and issubclass(declared, Enum))
    return _Form(declared=declared, origin=origin, fitting=frozenset({declared}) if plain else frozenset())


def _alternative(item: object, wanted: _Form) -> _Form | None:
    """The member of a union (or the type itself) that `item` is an instance of."""
    if wanted.members:
        return next((each for each in wanted.members if _alternative(item, each) is not None), None)
    if wanted.origin is int:
        return wanted if isinstance(item, int) and not isinstance(item, bool) and abs(item) <= _LARGEST else None
    return wanted if isinstance(item, wanted.origin) else None


def _children(item: Any, where: str, form: _Form) -> Iterator[tuple[object, str, _Form]]:
    if form.entries is None:
        if attrs.has(form.origin):
            yield from _given_fields(item, where, form.origin)
    elif form.origin is tuple:
        for index, entry in enumerate(item):
            yield entry, f"{where}[{index}]", form.entries
    else:
        for key, entry in item.items():
            if not isinstance(key, str):
                # Shown as a value of the wrong type: a path could not even be written down.
                yield key, f"{where} (key)", _form(str)
            else:
                yield entry, step_path(where, key), form.entries


def _given_fields(item: Any, where: str, kind: Any) -> Iterator[tuple[object, str, _Form]]:
    read, fields = _fields(kind)
    # Most fields of most tasks were never given, or hold a plain text: this keeps the check of a large definition cheap.
    for value, (name, form, default, fitting, mapping) in zip(read(item), fields, strict=True):
        if value is default or type(value) in fitting or (mapping and not value and type(value) is dict):
            continue
        # Unknown properties lie beside the known ones in the JSON, not below a property of their own.
        yield value, where if name == "extra" else step_path(where, property_name(name)), form


#: A field: its name, form and default, the types of which every value fits, and whether it is a mapping.
_Field = tuple[str, _Form, object, frozenset[type], bool]


@cache
def _fields(kind: Any) -> tuple[Callable[[Any], tuple[object, ...]], tuple[_Field, ...]]:
    """How the fields of a class are read all at once, and what each is."""
    attrs.resolve_types(kind)
    declared = [(field.name, _form(field.type), field.default) for field in attrs.fields(kind)]
    return attrgetter(*(name for name, _, _ in declared)), tuple(
        (name, form, default, form.fitting, form.origin is Mapping) for name, form, default in declared
    )


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
