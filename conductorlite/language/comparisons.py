"""Answers of a filter's operators, as Jayway's.

Numbers and texts are equal when they are written alike; everything else equals only its own kind, and only numbers are less than
numbers, texts than texts. What one of its operators cannot be asked is either `Refused`, then the item does not pass, or fails the
whole path. Source of the rules: Jayway JsonPath's README, "Filter Operators", and what its release 2.9.0 answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from operator import ge, gt, le, lt
from typing import Final

import attrs

from conductorlite.language.haste import pace
from conductorlite.language.regexes import BoundedPattern
from conductorlite.language.values import Json, java_double
from conductorlite.model.errors import ExpressionFailed
from conductorlite.model.later import decimal, pattern

__all__ = ["OPERATORS", "Budget", "Compare", "Members", "Refused", "to_decimal"]

_DECIMAL: Final = pattern(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
#: What one evaluation of a path may look at: values, tests of items, and a share of the characters that are searched.
_MAX_WORK: Final = 1_000_000
#: Characters that are searched, and ways of a pattern that are tried, for the price of one value.
_SEARCHED: Final = 100
_TRIED: Final = 50
#: Digits that are read for it, and what it costs to compare two lists or maps.
_DIGITS: Final = 20
_PAIR: Final = 10


class Refused(ExpressionFailed):
    """Question that an operator cannot be asked: the item does not pass, nor when that is negated; internal."""


class Budget:
    """Work that one evaluation may still do, and the document's own values by where they were found."""

    def __init__(self, document: Callable[[], Json]) -> None:
        self._document = document
        self._left = _MAX_WORK
        self._pace = pace()
        #: Answers of paths from the root: the same for every item.
        self.found: dict[int, Json] = {}
        #: Answers about pairs, with the pairs, which keep their ids.
        self._alike: dict[tuple[int, int], tuple[Json, Json, bool]] = {}
        #: Members of the lists that were looked into, with the list, which keeps its id.
        self._members: dict[int, tuple[list[Json], Members]] = {}

    def __call__(self) -> Json:
        """The whole document."""
        return self._document()

    def spend(self, count: int) -> None:
        """Raises ExpressionFailed when the evaluation has looked at too much; in haste TakesLong, sooner."""
        self._left -= count
        if self._pace is not None:
            self._pace.spend(count)
        if self._left < 0:
            raise ExpressionFailed(f"a path looks at more than {_MAX_WORK:,} values")

    def alike(self, left: Json, right: Json) -> bool:
        """Return True if two equal texts, lists or maps are equal to Java too, found out once: both may be of any size."""
        key = (id(left), id(right))
        if key not in self._alike:
            self.spend(_PAIR)
            # 1, 1.0 and true are the same to Python, not to Java.
            same = left == right and (
                isinstance(left, str) or json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
            )
            self._alike[key] = left, right, same
        return self._alike[key][2]

    def members(self, items: list[Json]) -> Members:
        """The members of a list, put in order once."""
        known = self._members.get(id(items))
        if known is None:
            self.spend(len(items))
            known = self._members[id(items)] = items, Members.of(items)
        return known[1]


Compare = Callable[[Json, Json, Budget], bool]


def to_decimal(text: str) -> decimal.Decimal | None:
    """The number a text is, None when it is none."""
    if _DECIMAL.fullmatch(text) is None:
        return None
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)


def _exact(value: int | float | decimal.Decimal) -> int | decimal.Decimal:
    return decimal.Decimal(repr(value)) if isinstance(value, float) else value


def _written(value: int | float | decimal.Decimal) -> str:
    return str(decimal.Decimal(java_double(value))) if isinstance(value, float) else str(value)


@attrs.frozen(kw_only=True, slots=True)
class Members:
    """A list, ready to be asked whether it holds something; Jayway asks item by item."""

    count: int
    texts: frozenset[str]
    numbers: frozenset[int | decimal.Decimal]
    others: frozenset[bool | None]

    @classmethod
    def of(cls, items: list[Json]) -> Members:
        """Raises ExpressionFailed for lists and maps in the list, as Jayway does."""
        if any(isinstance(item, list | dict) for item in items):
            raise ExpressionFailed("a list in a filter holds lists or maps")
        # A text that could be a path is one to Jayway, and equals nothing.
        texts = [item for item in items if isinstance(item, str) and item.strip()[:1] not in ("$", "@")]
        numbers = [item for item in items if _is_number(item)]
        return cls(
            count=len(items),
            texts=frozenset(texts).union(map(_written, numbers)),
            numbers=frozenset(map(_exact, numbers)).union(found for text in texts if (found := to_decimal(text)) is not None),
            others=frozenset(item for item in items if item is None or isinstance(item, bool)),
        )

    def holds(self, value: Json) -> bool:
        """Return True if one of them equals the value."""
        if isinstance(value, str):
            return value in self.texts
        if _is_number(value):
            return _exact(value) in self.numbers
        return (value is None or isinstance(value, bool)) and value in self.others


def _equal(left: Json, right: Json, budget: Budget) -> bool:
    if _is_number(left) and isinstance(right, str):
        budget.spend(len(right) // _DIGITS)
        return _exact(left) == to_decimal(right)
    if isinstance(left, str) and _is_number(right):
        return left == _written(right)
    return _same(left, right, budget)


def _same(left: Json, right: Json, budget: Budget) -> bool:
    if _is_number(left) and _is_number(right):
        return _exact(left) == _exact(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list | dict) or (isinstance(left, str) and len(left) == len(right) > _SEARCHED):
        return budget.alike(left, right)
    return bool(left == right)


def _ordered(compare: Callable[[Json, Json], bool]) -> Compare:
    def test(left: Json, right: Json, budget: Budget) -> bool:
        if _is_number(left) and _is_number(right):
            return compare(_exact(left), _exact(right))
        if not isinstance(left, str) or not isinstance(right, str):
            return False
        if left.isascii() and right.isascii():
            return compare(left, right)
        # Java's texts are ordered by their UTF-16 units.
        budget.spend((len(left) + len(right)) // _SEARCHED)
        return compare(left.encode("utf-16-be", "surrogatepass"), right.encode("utf-16-be", "surrogatepass"))

    return test


def _matches(left: Json, right: Json, budget: Budget) -> bool:
    if isinstance(left, BoundedPattern):
        left, right = right, left
    if not isinstance(right, BoundedPattern) or isinstance(left, BoundedPattern):
        return False
    if not isinstance(left, list):
        return _matched(right, _input(left), budget)
    budget.members(left)
    return any(_matched(right, _input(item), budget) for item in left)


def _matched(pattern: BoundedPattern, text: str, budget: Budget) -> bool:
    budget.spend(1 + pattern.ways(text) // _TRIED)
    return pattern.fullmatch(text)


def _input(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else _written(value) if _is_number(value) else ""


def _listed(value: Json, budget: Budget) -> Members | None:
    if isinstance(value, list):
        return budget.members(value)
    if isinstance(value, dict):
        return None
    raise Refused("a list was expected")


def _in(left: Json, right: Json, budget: Budget) -> bool:
    members = _listed(right, budget)
    return members is not None and members.holds(left)


def _contains(left: Json, right: Json, budget: Budget) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        budget.spend((len(left) + len(right)) // _SEARCHED)
        return right in left
    return isinstance(left, list) and budget.members(left).holds(right)


def _size(left: Json, right: Json, budget: Budget) -> bool:
    if not _is_number(right):
        return False
    if isinstance(left, str):
        if not left.isascii():
            budget.spend(len(left) // _SEARCHED)
        return len(left if left.isascii() else left.encode("utf-16-be", "surrogatepass")[::2]) == int(right)
    return isinstance(left, list | dict) and (len(left) if isinstance(left, list) else -1) == int(right)


def _empty(left: Json, right: Json, budget: Budget) -> bool:
    if isinstance(left, dict):
        raise ExpressionFailed("a filter asks whether a map is empty")
    if not isinstance(left, str | list):
        return False
    if not isinstance(right, bool):
        raise Refused("`empty` is compared with true or false")
    return (not left) is right


def _exists(left: Json, right: Json, budget: Budget) -> bool:
    if not isinstance(left, bool) and not isinstance(right, bool):
        raise ExpressionFailed("a filter asks two values that are no booleans whether they exist")
    if not isinstance(left, bool) or not isinstance(right, bool):
        raise Refused("`exists` is compared with true or false")
    return left is right


def _refused(left: Json, right: Json, budget: Budget) -> bool:
    raise Refused("an operator for filters made in Java")


def _of_lists(test: Callable[[Iterable[bool]], bool]) -> Compare:
    def run(left: Json, right: Json, budget: Budget) -> bool:
        members = _listed(right, budget)
        items = None if members is None else _listed(left, budget)
        if members is None or items is None:
            return False
        budget.spend(items.count)
        return test(members.holds(item) for item in left)

    return run


def _not(compare: Compare) -> Compare:
    return lambda left, right, budget: not compare(left, right, budget)


#: By Jayway's names; words are looked up in lower case.
OPERATORS: Final[Mapping[str, Compare]] = {
    "==": _equal,
    "!=": _not(_equal),
    "===": _same,
    "!==": _not(_same),
    "<": _ordered(lt),
    "<=": _ordered(le),
    ">": _ordered(gt),
    ">=": _ordered(ge),
    "=~": _matches,
    "in": _in,
    "nin": _not(_in),
    "contains": _contains,
    "size": _size,
    "empty": _empty,
    "exists": _exists,
    "subsetof": _of_lists(all),
    "anyof": _of_lists(any),
    "noneof": _of_lists(lambda found: not any(found)),
    "all": _refused,
    "type": _refused,
    "matches": _refused,
}
