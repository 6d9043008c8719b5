"""JSON ⇄ the typed values of worker functions.

`reader` gives the function that turns a JSON value into what an annotation asks for, or says, with the path of the field,
why it cannot; `plain` goes the other way. What JSON has itself (text, numbers, booleans, null, lists and maps of anything) is
only checked, and never imports cattrs; records, dates, enums and containers of them are structured by cattrs on first use.
Nothing is coerced that would change its meaning: the text "5" is no int, 1 is no text, true is no number; an int passes for a
float, and stays one. A class with a `model_validate` (pydantic) reads itself, as strictly as it says.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from enum import Enum
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
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

from conductorlite.model import attrs
from conductorlite.model.errors import InvalidInput
from conductorlite.model.later import dataclasses, decimal
from conductorlite.model.scalars import Wrong, shown

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["Reader", "is_record", "is_union", "is_uuid", "plain", "reader", "typed_dict_fields"]

#: Takes a JSON value and the path it is at; returns what was asked for, or raises InvalidInput with every problem.
Reader: TypeAlias = Callable[[Any, str], Any]

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MAPS: Final = frozenset({dict, Mapping, MutableMapping})
_LISTS: Final = frozenset({list, Sequence, MutableSequence, Iterable})
#: Annotation → what a JSON list becomes.
_CONTAINERS: Final[dict[Any, Callable[[list[Any]], Any]]] = {
    **dict.fromkeys(_LISTS, list), tuple: tuple, set: set, frozenset: frozenset, AbstractSet: set,
}  # fmt: skip


def reader(kind: Any) -> Reader | None:
    """How values annotated `kind` are read; None when they are taken as they are."""
    if kind is Any or kind is object or isinstance(kind, str | TypeVar):
        return None
    if isinstance(kind, type) and kind in _SCALARS:
        return partial(_read_scalar, kind)
    check = _check(kind)
    return partial(_structured, kind) if check is None else partial(_checked, check)


def is_record(kind: Any) -> bool:
    """Whether a class has named fields: a dataclass, a TypedDict, an attrs class or a pydantic model."""
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and (attrs.has(kind) or dataclasses.is_dataclass(kind) or is_typeddict(kind) or _is_model(kind))


def plain(value: Any) -> Any:
    """The value as JSON has it: records become maps, dates ISO text, enums their value; what is unknown stays as it is."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key.value if isinstance(key, Enum) else key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal) or is_uuid(kind):
        return str(value)
    if isinstance(value, type):
        return value
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json", by_alias=True)
    if attrs.has(kind):
        return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(kind)}
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


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
    """What the first member of a union makes of a value; one that takes it unchanged goes before one that converts."""
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
        return found[0]
    arms = [arm for arm in get_args(kind) if arm is not type(None)]
    if len(arms) == 1:
        raise next(error for error, arm in zip(errors, get_args(kind), strict=True) if arm is not type(None))
    raise Wrong(f"expected {' or '.join(_name(arm) for arm in get_args(kind))}, got {shown(value)}")


def _origin(kind: Any) -> Any:
    return get_origin(kind) or kind


def is_union(kind: Any) -> bool:
    """Whether an annotation allows one of several kinds, however it was written."""
    return get_origin(kind) in (Union, types.UnionType)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and callable(getattr(kind, "model_validate", None))


def is_uuid(kind: Any) -> bool:
    """Whether an annotation is of a UUID."""
    # By name: the module that draws ids by chance is not for this layer. Code that annotates with it has imported it.
    return isinstance(kind, type) and (kind.__module__, kind.__qualname__) == ("uuid", "UUID")


def typed_dict_fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The fields of a TypedDict: the kind of each, and whether it has to be there."""
    fields: dict[str, tuple[Any, bool]] = {}
    for name, hint in get_type_hints(_origin(kind), include_extras=True).items():
        # Not by __required_keys__ alone, which knows no NotRequired under `from __future__ import annotations`.
        wrapped = get_origin(hint) in (Required, NotRequired)
        needed = get_origin(hint) is Required if wrapped else name in _origin(kind).__required_keys__
        fields[name] = (get_args(hint)[0] if wrapped else hint, needed)
    return fields


def _name(kind: Any) -> str:
    return "null" if kind is type(None) else kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


# ---------------------------------------------------------------------- what cattrs structures


def _structured(kind: Any, value: Any, path: str) -> Any:
    converter = _converter()
    try:
        return converter.structure(value, kind)
    except Exception as error:
        raise InvalidInput("; ".join(_problems(error, path))) from None


def _problems(error: BaseException, root: str) -> list[str]:
    """Every leaf of the tree of errors, in the order of the fields, each with its path."""
    from cattrs.errors import BaseValidationError, StructureHandlerNotFoundError

    found: list[str] = []
    stack: list[tuple[BaseException, str]] = [(error, root)]
    while stack:
        error, path = stack.pop()
        if isinstance(error, BaseValidationError):
            stack.extend((child, path + _step(child)) for child in reversed(error.exceptions))
        elif isinstance(error, KeyError) and error.args and _step(error) == _step_to(error.args[0]):
            found.append(f"{path}: is missing")
        elif isinstance(error, StructureHandlerNotFoundError):
            found.append(f"{path}: {_name(error.type_)} cannot be made from JSON")
        elif callable(listed := getattr(error, "errors", None)):
            found += [_of_model(one, path) for one in listed()]
        else:
            kind = "" if isinstance(error, Wrong | ValueError) else f"{type(error).__name__}: "
            found.append(f"{path}: {kind}{error}")
    return found


def _of_model(error: Mapping[str, Any], path: str) -> str:
    for key in error["loc"]:
        path += _step_to(key)
    if error["type"] == "missing":
        return f"{path}: is missing"
    return f"{path}: {error['msg']}"


def _step(error: BaseException) -> str:
    from cattrs.errors import AttributeValidationNote, IterableValidationNote

    for note in getattr(error, "__notes__", ()):
        if isinstance(note, IterableValidationNote):
            return _step_to(note.index)
        if isinstance(note, AttributeValidationNote):
            return _step_to(note.name)
    return ""


def _step_to(key: Any) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}" if str(key).isidentifier() else f"[{shown(str(key))}]"


@cache
def _converter() -> Converter:
    # cattrs costs more to import than all of conductorlite: a program whose workers take plain JSON must not pay for it.
    from cattrs import Converter

    converter = Converter(detailed_validation=True)
    register = converter.register_structure_hook_func

    def entries(kinds: Iterable[Any], keyed: Iterable[tuple[Any, Any]], owner: Any) -> list[Any]:
        return _entries(converter, kinds, keyed, owner)

    for scalar in (str, int, float, bool, type(None)):
        converter.register_structure_hook(scalar, _swapped(_scalar))
    for kind, read in ((datetime, datetime.fromisoformat), (date, date.fromisoformat), (time, time.fromisoformat)):
        converter.register_structure_hook(kind, _from_text(read))
    register(is_uuid, lambda value, kind: _from_text(kind)(value, kind))
    converter.register_structure_hook(decimal.Decimal, _decimal)
    register(lambda kind: kind is object, lambda value, _: value)
    register(lambda kind: isinstance(kind, type) and issubclass(kind, Enum), _enum)
    register(lambda kind: _origin(kind) is Literal, _literal)
    register(lambda kind: _origin(kind) in _CONTAINERS, partial(_container, entries))
    register(lambda kind: _origin(kind) in _MAPS, partial(_map, entries))
    register(is_union, partial(_union, converter))
    generated: dict[Any, Callable[[Any, Any], Any]] = {}

    def record(value: Any, kind: Any) -> Any:
        _object(value)
        if kind not in generated:
            generated[kind] = converter.gen_structure_attrs_fromdict(kind)
        return generated[kind](value, kind)

    register(is_record, record)
    register(lambda kind: is_typeddict(_origin(kind)), partial(_typed_dict, converter))
    register(_is_model, lambda value, kind: kind.model_validate(value))
    return converter


def _swapped(read: Callable[[type, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, kind: read(kind, value)


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
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(shown(plain(member)) for member in kind)
        raise Wrong(f"expected one of {choices}, got {shown(value)}") from None


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
    from cattrs.errors import AttributeValidationNote, ClassValidationError

    _object(value)
    made: dict[str, Any] = {}
    errors: list[Exception] = []
    for name, (field_kind, needed) in typed_dict_fields(kind).items():
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
    keys = ((key, int(key) if key_kind is int and key.lstrip("-").isdecimal() else key) for key in value)
    made = entries((key_kind,) * len(value), keys, kind)
    return dict(zip(made, entries((entry_kind,) * len(value), value.items(), kind), strict=True))


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
