"""The functions of paths, as Jayway's release 2.9.0 answers them. Source: its README, "Functions"."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from conductorlite.errors import ExpressionFailed
from conductorlite.expressions.sources import Json
from conductorlite.expressions.text import to_text

__all__ = ["call"]

#: Where Java's search for the largest and the smallest number begins.
_LEAST: Final = 5e-324
_MOST: Final = 1.7976931348623157e308


def call(name: str, node: Json, arguments: list[Json]) -> Json:
    """What a function answers of a value and its arguments.

    Raises ExpressionFailed when it is not made for such a value, IndexError when there is no such item.
    """
    if name in ("length", "size"):
        return len(node) if isinstance(node, dict | list) else None
    if name == "keys":
        return list(node) if isinstance(node, dict) else None
    if name == "append":
        return [*node, *arguments] if isinstance(node, list) else node
    items = node if isinstance(node, list) else []
    if name == "concat":
        return "".join([item for item in items if isinstance(item, str)] + [to_text(item) for item in _all(arguments)])
    if name in ("first", "last", "index"):
        if not isinstance(node, list):
            raise ExpressionFailed(f".{name}() needs a list")
        return _item(node, {"first": 0, "last": -1}[name] if name != "index" else _numbers(_all(arguments))[0])
    return _aggregate(name, [_double(number) for number in _numbers([*items, *_all(arguments)])])


def _all(arguments: list[Json]) -> list[Json]:
    """The arguments, and what the lists among them hold."""
    return [item for each in arguments for item in (each if isinstance(each, list) else [each]) if item is not None]


def _numbers(items: Iterable[Json]) -> list[int | float]:
    return [item for item in items if isinstance(item, int | float) and not isinstance(item, bool)]


def _item(items: list[Json], index: float) -> Json:
    at = int(index)
    if at < 0 and len(items) + at <= 0:  # Jayway does not reach the first item from the end
        raise ExpressionFailed(f"there is no item {at} in a list of {len(items)}")
    return items[at]


def _double(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _aggregate(name: str, numbers: list[float]) -> Json:
    if not numbers:
        raise ExpressionFailed(f".{name}() found no numbers")
    total = squares = 0.0
    for number in numbers:  # not sum(), which is more exact than Java from Python 3.12 on
        total += number
        squares += number * number
    count = len(numbers)
    if name == "sum":
        return _written(total)
    if name == "min":
        return _written(min(_MOST, *numbers))
    if name == "max":
        return _written(max(_LEAST, *numbers))
    if name == "avg":
        return _written(total / count)
    variance = squares / count - total * total / count / count
    return _written(math.sqrt(variance) if variance >= 0 else math.nan)


def _written(number: float) -> Json:
    """As Conductor's JSON has it: what is no number there is a text."""
    if math.isfinite(number):
        return number
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
