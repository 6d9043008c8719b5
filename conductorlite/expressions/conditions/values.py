"""JavaScript's values in Python and its rules of coercion.

null is None, numbers are int or float (arithmetic is done on floats), lists and maps of the input are themselves. What
a script makes is a ScriptList or ScriptMap, so that data of the input is told apart and handed on without a copy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final

from conductorlite.errors import ExpressionFailed
from conductorlite.expressions.conditions.seam import BeyondSubset
from conductorlite.expressions.sources import Json
from conductorlite.expressions.text import js_number

__all__ = [
    "MAX_STRING",
    "UNDEFINED",
    "Charge",
    "ScriptList",
    "ScriptMap",
    "Undefined",
    "is_number",
    "length_of",
    "less",
    "loosely_equal",
    "strictly_equal",
    "text_of",
    "to_json",
    "to_number",
    "truthy",
    "type_name",
]

#: Longest text a script may make, in characters.
MAX_STRING: Final = 1_000_000
#: Deepest nesting of lists in lists that is turned to text or JSON.
_MAX_DEPTH: Final = 100
_SAFE_INTEGER: Final = 2**63

#: Called with the cost of a piece of work, in steps; raises ExpressionFailed when the budget is spent.
Charge = Callable[[int], None]

_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_PREFIXED: Final = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+")
_NAN: Final = float("nan")
_INFINITY: Final = float("inf")


class Undefined(Enum):
    """The type of UNDEFINED."""

    UNDEFINED = "undefined"


UNDEFINED: Final = Undefined.UNDEFINED


class ScriptList(list[Any]):
    """A list made by the script."""

    __slots__ = ()


class ScriptMap(dict[str, Any]):
    """An object made by the script."""

    __slots__ = ()


def is_number(value: Json) -> bool:
    """Whether it is a JavaScript number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def type_name(value: Json) -> str:
    """The answer of `typeof`."""
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if value is None or isinstance(value, dict | list) else "function"


def truthy(value: Json) -> bool:
    """Whether `if (value)` takes its branch: false, 0, NaN, '', null and undefined do not."""
    if value is True or value is False:
        return value is True
    if value is None or value is UNDEFINED or value == "":
        return False
    if isinstance(value, int | float):
        return value != 0 and (isinstance(value, int) or not math.isnan(value))
    return True


def to_number(value: Json, charge: Charge) -> float:
    """The number a value counts as in arithmetic."""
    if isinstance(value, bool):
        return 1.0 if value else 0.0
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return _as_float(value)
    if value is None:
        return 0.0
    if value is UNDEFINED:
        return _NAN
    text = (value if isinstance(value, str) else text_of(value, charge)).strip()
    if not text:
        return 0.0
    if _PREFIXED.fullmatch(text):
        return _as_float(int(text, 0)) if len(text) <= 300 else _INFINITY
    if _DECIMAL.fullmatch(text):
        return float(text)
    return {"Infinity": _INFINITY, "+Infinity": _INFINITY, "-Infinity": -_INFINITY}.get(text, _NAN)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return _INFINITY if value > 0 else -_INFINITY


def text_of(value: Json, charge: Charge) -> str:
    """The text of a value, as `String(value)`; lists are joined with commas, objects are `[object Object]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        text = ",".join(_list_texts(value, charge, 0))
        if len(text) > MAX_STRING:
            raise BeyondSubset(f"a text longer than {MAX_STRING:,} characters")
        return text
    return _scalar_text(value)


def _scalar_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if value is UNDEFINED:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**21 else js_number(_as_float(value))
    if isinstance(value, float):
        return js_number(value)
    return "[object Object]" if isinstance(value, dict) else "function"


def _list_texts(value: list[Json], charge: Charge, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise BeyondSubset(f"lists nested deeper than {_MAX_DEPTH} levels")
    for item in value:
        charge(1)
        if isinstance(item, list):
            yield ",".join(_list_texts(item, charge, depth + 1))
        elif item is None or item is UNDEFINED:
            yield ""
        else:
            text = _scalar_text(item)
            charge(len(text) // 1000)
            yield text


def strictly_equal(left: Json, right: Json) -> bool:
    """`===`: same type and value, lists and objects by identity."""
    if is_number(left):
        return is_number(right) and bool(left == right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    return left is right


def loosely_equal(left: Json, right: Json, charge: Charge) -> bool:
    """`==`, with its coercions: null equals undefined, texts and booleans count as numbers, lists as text."""
    nothing = (None, UNDEFINED)
    if left is None or left is UNDEFINED or right is None or right is UNDEFINED:
        return any(left is item for item in nothing) and any(right is item for item in nothing)
    if type_name(left) == type_name(right):
        return strictly_equal(left, right)
    if isinstance(left, dict | list):
        left = text_of(left, charge)
    if isinstance(right, dict | list):
        right = text_of(right, charge)
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    simple = bool | int | float | str
    if not isinstance(left, simple) or not isinstance(right, simple):
        return False
    return to_number(left, charge) == to_number(right, charge)


def less(left: Json, right: Json, charge: Charge) -> bool | None:
    """`left < right`: texts by their UTF-16 units, all else as numbers; None when one of them is not a number."""
    if isinstance(left, dict | list):
        left = text_of(left, charge)
    if isinstance(right, dict | list):
        right = text_of(right, charge)
    if isinstance(left, str) and isinstance(right, str):
        if left.isascii() and right.isascii():
            return left < right
        return left.encode("utf-16-be", "surrogatepass") < right.encode("utf-16-be", "surrogatepass")
    if type(left) is int and type(right) is int:
        return left < right
    first, second = to_number(left, charge), to_number(right, charge)
    return None if math.isnan(first) or math.isnan(second) else first < second


def length_of(text: str) -> int:
    """A text's length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def to_json(value: Json, charge: Charge, depth: int = 0) -> Json:
    """The JSON a script's result becomes: undefined and NaN null, whole numbers integers, functions empty maps.

    Raises ExpressionFailed for infinities, which JSON has no word for, and for deeper nesting than 100.
    """
    if value is UNDEFINED:
        return None
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            raise ExpressionFailed(f"the result is {js_number(value)}, which is not a JSON number")
        return int(value) if value.is_integer() and abs(value) < _SAFE_INTEGER else value
    if isinstance(value, ScriptList | ScriptMap):
        if depth > _MAX_DEPTH:
            raise ExpressionFailed(f"the result is nested deeper than {_MAX_DEPTH} levels")
        charge(len(value) + 1)
        if isinstance(value, ScriptList):
            return [to_json(item, charge, depth + 1) for item in value]
        return {key: to_json(item, charge, depth + 1) for key, item in value.items()}
    return value if value is None or isinstance(value, str | int | dict | list) else {}
