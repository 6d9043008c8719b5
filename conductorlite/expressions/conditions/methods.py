"""The functions and methods a condition can call: pure ones only, plus the spellings of Java's collections."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import attrs

from conductorlite.errors import ExpressionFailed
from conductorlite.expressions.conditions.seam import BeyondSubset
from conductorlite.expressions.conditions.values import (
    MAX_STRING,
    UNDEFINED,
    ScriptList,
    length_of,
    strictly_equal,
    text_of,
    to_number,
    truthy,
)
from conductorlite.expressions.sources import Json

__all__ = ["GLOBALS", "METHODS", "Builtin", "Host", "Namespace", "call_method"]


class Host(Protocol):
    """What a method may ask of the interpreter that runs it."""

    def charge(self, steps: int) -> None:
        """Spend steps of the budget; raises ExpressionFailed when it is used up."""
        ...

    def call(self, function: Json, arguments: Sequence[Json]) -> Json:
        """Call a function value of the script."""
        ...


_Arguments: TypeAlias = Sequence[Json]
_Method: TypeAlias = Callable[[Host, Json, _Arguments], Json]


@attrs.frozen(kw_only=True, eq=False)
class Builtin:
    """A global function."""

    name: str
    run: Callable[[Host, _Arguments], Json]


@attrs.frozen(kw_only=True, eq=False)
class Namespace:
    """A global that only holds functions and constants, like Math."""

    members: Mapping[str, Builtin | float]


def _argument(arguments: _Arguments, index: int) -> Json:
    return arguments[index] if index < len(arguments) else UNDEFINED


def _number(host: Host, arguments: _Arguments, index: int) -> float:
    return to_number(_argument(arguments, index), host.charge)


def _text(host: Host, arguments: _Arguments, index: int) -> str:
    return text_of(_argument(arguments, index), host.charge)


def _integer(host: Host, arguments: _Arguments, index: int, otherwise: int) -> int:
    if _argument(arguments, index) is UNDEFINED:
        return otherwise
    number = _number(host, arguments, index)
    if math.isnan(number):
        return 0
    return int(max(-1e15, min(1e15, number)))


# -- globals ------------------------------------------------------------------------------------------------------


def _math(name: str, compute: Callable[[float], float]) -> Builtin:
    def run(host: Host, arguments: _Arguments) -> Json:
        number = _number(host, arguments, 0)
        return float(compute(number)) if math.isfinite(number) else number  # NaN and infinities stay what they are

    return Builtin(name=name, run=run)


def _extreme(name: str, start: float, choose: Callable[[float, float], float]) -> Builtin:
    def run(host: Host, arguments: _Arguments) -> Json:
        result = start
        for index in range(len(arguments)):
            number = _number(host, arguments, index)
            if math.isnan(number):
                return number
            result = choose(result, number)
        return result

    return Builtin(name=name, run=run)


def _parse_float(host: Host, arguments: _Arguments) -> Json:
    found = re.match(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", _text(host, arguments, 0).strip()[:400])
    return float(found.group()) if found else math.nan


def _parse_int(host: Host, arguments: _Arguments) -> Json:
    if _integer(host, arguments, 1, 10) not in (0, 10):
        raise BeyondSubset("parseInt() with another base than 10")
    found = re.match(r"[+-]?[0-9]+", _text(host, arguments, 0).strip()[:400])
    return float(found.group()) if found else math.nan


def _is_nan(host: Host, arguments: _Arguments) -> Json:
    return math.isnan(_number(host, arguments, 0))


def _builtin(name: str, run: Callable[[Host, _Arguments], Json]) -> Builtin:
    return Builtin(name=name, run=run)


_MATH: Final = Namespace(
    members=MappingProxyType(
        {
            "ceil": _math("ceil", math.ceil),
            "floor": _math("floor", math.floor),
            "round": _math("round", lambda number: math.floor(number) + (number - math.floor(number) >= 0.5)),
            "trunc": _math("trunc", math.trunc),
            "abs": _builtin("abs", lambda host, arguments: abs(_number(host, arguments, 0))),
            "sqrt": _math("sqrt", lambda number: math.sqrt(number) if number >= 0 else math.nan),
            "sign": _math("sign", lambda number: (number > 0) - (number < 0)),
            "min": _extreme("min", math.inf, min),
            "max": _extreme("max", -math.inf, max),
            "PI": math.pi,
            "E": math.e,
        }
    )
)

#: Names that mean something without being declared.
GLOBALS: Final[Mapping[str, Json]] = MappingProxyType(
    {
        "Math": _MATH,
        "Array": Namespace(
            members=MappingProxyType(
                {"isArray": _builtin("isArray", lambda host, arguments: isinstance(_argument(arguments, 0), list))}
            )
        ),
        "NaN": math.nan,
        "Infinity": math.inf,
        "Number": _builtin("Number", lambda host, arguments: _number(host, arguments, 0) if arguments else 0.0),
        "String": _builtin("String", lambda host, arguments: _text(host, arguments, 0) if arguments else ""),
        "Boolean": _builtin("Boolean", lambda host, arguments: truthy(_argument(arguments, 0))),
        "parseInt": _builtin("parseInt", _parse_int),
        "parseFloat": _builtin("parseFloat", _parse_float),
        "isNaN": _builtin("isNaN", _is_nan),
    }
)


# -- methods ------------------------------------------------------------------------------------------------------


def _made(host: Host, items: Sequence[Json]) -> ScriptList:
    # A list that doubles in each statement would fill the memory within the step budget if it were one step.
    host.charge(len(items) // 10)
    return ScriptList(items)


def _scan(host: Host, this: Json) -> Json:
    host.charge(len(this) // 100)
    return this


def _find_index(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    wanted = _argument(arguments, 0)
    return next((index for index, item in enumerate(_scan(host, this)) if strictly_equal(item, wanted)), -1)


def _contains(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    wanted = _argument(arguments, 0)
    return any(strictly_equal(item, wanted) for item in _scan(host, this))


def _get(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    index = _number(host, arguments, 0)
    if not 0 <= index < len(this) or not index.is_integer():
        wanted = text_of(_argument(arguments, 0), host.charge)[:80]
        raise ExpressionFailed(f"Index {wanted} out of bounds for length {len(this)}")
    return this[int(index)]


def _at(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    index = _integer(host, arguments, 0, 0)
    return this[index] if -len(this) <= index < len(this) else UNDEFINED


def _join(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    separator = "," if _argument(arguments, 0) is UNDEFINED else _text(host, arguments, 0)
    host.charge(len(this) + len(this) * len(separator) // 1000)
    texts = ["" if item is None or item is UNDEFINED else text_of(item, host.charge) for item in this]
    if sum(map(len, texts)) + len(this) * len(separator) > MAX_STRING:
        raise BeyondSubset(f"a text longer than {MAX_STRING:,} characters")
    return separator.join(texts)


def _slice_list(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    return _made(host, this[_integer(host, arguments, 0, 0) : _integer(host, arguments, 1, len(this))])


def _concat_list(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    items = list(this)
    for argument in arguments:
        host.charge(len(argument) // 10 if isinstance(argument, list) else 1)
        items.extend(argument if isinstance(argument, list) else [argument])
    return _made(host, items)


def _each(host: Host, this: list[Json], arguments: _Arguments) -> list[tuple[Json, Json]]:
    function = _argument(arguments, 0)
    return [(item, host.call(function, (item, index, this))) for index, item in enumerate(this)]


def _until(host: Host, this: list[Json], arguments: _Arguments, wanted: bool) -> Json:
    function = _argument(arguments, 0)
    for index, item in enumerate(this):
        if truthy(host.call(function, (item, index, this))) is wanted:
            return item, index
    return None


def _find(host: Host, this: list[Json], arguments: _Arguments) -> Json:
    found = _until(host, this, arguments, True)
    return UNDEFINED if found is None else found[0]


_LIST: Final[Mapping[str, _Method]] = {
    "indexOf": _find_index,
    "includes": _contains,
    "contains": _contains,
    "get": _get,
    "at": _at,
    "size": lambda host, this, arguments: len(this),
    "isEmpty": lambda host, this, arguments: not this,
    "join": _join,
    "slice": _slice_list,
    "concat": _concat_list,
    "filter": lambda host, this, a: _made(host, [item for item, kept in _each(host, this, a) if truthy(kept)]),
    "map": lambda host, this, a: _made(host, [result for _, result in _each(host, this, a)]),
    "some": lambda host, this, a: _until(host, this, a, True) is not None,
    "every": lambda host, this, a: _until(host, this, a, False) is None,
    "find": _find,
    "toString": lambda host, this, a: text_of(this, host.charge),
}


def _own(host: Host, this: dict[str, Json], arguments: _Arguments) -> Json:
    return _text(host, arguments, 0) in this


_MAP: Final[Mapping[str, _Method]] = {
    "get": lambda host, this, arguments: this.get(_text(host, arguments, 0)),
    "size": lambda host, this, arguments: len(this),
    "isEmpty": lambda host, this, arguments: not this,
    "containsKey": _own,
    "hasOwnProperty": _own,
    "toString": lambda host, this, arguments: text_of(this, host.charge),
}


def _clamped(host: Host, this: str, arguments: _Arguments, index: int, otherwise: int) -> int:
    return max(0, min(len(this), _integer(host, arguments, index, otherwise)))


def _substring(host: Host, this: str, arguments: _Arguments) -> Json:
    start, stop = sorted((_clamped(host, this, arguments, 0, 0), _clamped(host, this, arguments, 1, len(this))))
    return this[start:stop]


def _char_at(host: Host, this: str, arguments: _Arguments) -> Json:
    index = _integer(host, arguments, 0, 0)
    return this[index] if 0 <= index < len(this) else ""


def _split(host: Host, this: str, arguments: _Arguments) -> Json:
    if _argument(arguments, 0) is UNDEFINED:
        return ScriptList([this])
    separator = _text(host, arguments, 0)
    host.charge(len(this) // 100)
    return _made(host, this.split(separator) if separator else list(this))


def _concat_text(host: Host, this: str, arguments: _Arguments) -> Json:
    texts = [this, *(text_of(argument, host.charge) for argument in arguments)]
    if sum(map(len, texts)) > MAX_STRING:
        raise BeyondSubset(f"a text longer than {MAX_STRING:,} characters")
    return "".join(_charged(host, texts))


def _charged(host: Host, texts: list[str]) -> list[str]:
    host.charge(sum(map(len, texts)) // 1000)
    return texts


def _pure(change: Callable[[str], str]) -> _Method:
    def run(host: Host, this: Json, arguments: _Arguments) -> Json:
        host.charge(len(this) // 1000)
        return change(this)

    return run


_TEXT: Final[Mapping[str, _Method]] = {
    "indexOf": lambda host, this, a: this.find(_text(host, a, 0), _clamped(host, this, a, 1, 0)),
    "lastIndexOf": lambda host, this, a: this.rfind(_text(host, a, 0)),
    "includes": lambda host, this, a: _text(host, a, 0) in this,
    "contains": lambda host, this, a: _text(host, a, 0) in this,
    "startsWith": lambda host, this, a: this.startswith(_text(host, a, 0), _clamped(host, this, a, 1, 0)),
    "endsWith": lambda host, this, a: this[: _clamped(host, this, a, 1, len(this))].endswith(_text(host, a, 0)),
    "toLowerCase": _pure(str.lower),
    "toUpperCase": _pure(str.upper),
    "trim": _pure(str.strip),
    "charAt": _char_at,
    "slice": lambda host, this, a: this[_integer(host, a, 0, 0) : _integer(host, a, 1, len(this))],
    "substring": _substring,
    "split": _split,
    "concat": _concat_text,
    "isEmpty": lambda host, this, a: not this,
    "toString": _pure(str),
    "size": lambda host, this, a: length_of(this),
}
_SCALAR: Final[Mapping[str, _Method]] = {"toString": lambda host, this, a: text_of(this, host.charge)}

#: Every method name that some value answers to.
METHODS: Final = frozenset((*_LIST, *_MAP, *_TEXT, *_SCALAR))


def call_method(host: Host, this: Json, name: str, arguments: Sequence[Json]) -> Json:
    """Call a method of a value; raises ExpressionFailed when its kind does not have it."""
    table: Mapping[str, _Method]
    if isinstance(this, list):
        table = _LIST
    elif isinstance(this, dict):
        table = _MAP
    elif isinstance(this, str):
        table = _TEXT
    else:
        table = _SCALAR
    method = table.get(name)
    if method is None:
        raise ExpressionFailed(f"TypeError: .{name} is not a function")
    return method(host, this, arguments)
