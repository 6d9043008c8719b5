"""Budget of one evaluation of an expression: steps of work, and sizes of what it makes.

A step is one round of a comprehension, one item that a function looks at, or one entry of a list or map that is compared or
written as text. The size of a text is its characters, that of a list or map eight for each entry. Whatever could take more time or
memory than its text and its values suggest (`"x" * 10**9`, `sum(range(10**12))`) is counted before it is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from conductorlite.language.haste import Hurry, Leisure, pace

__all__ = ["CONTAINERS", "MAX_BITS", "SCALARS", "Budget", "BudgetSpent"]

#: Steps and sizes of one evaluation.
_STEPS: Final = 1_000_000
_SIZE: Final = 16 * 1024 * 1024
#: What an entry of a list or map takes.
_ENTRY: Final = 8
#: Longest whole number, in bits: seven times what Python writes as text.
MAX_BITS: Final = 100_000
#: Steps after which the pace of the turn counts them, see `haste`.
_STRIDE: Final = 500

#: Types whose values are compared and written in one step.
SCALARS: Final = frozenset({int, str, bool, float, type(None)})
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))
#: Types whose values hold others.
CONTAINERS: Final = frozenset({list, tuple, dict, set, *_VIEWS})


class BudgetSpent(Exception):
    """An evaluation takes more than it may; internal."""


class Budget:
    """Budget left to one evaluation; raises BudgetSpent when nothing is left, and in haste TakesLong."""

    __slots__ = ("_left", "_pace", "_reported", "_size")

    def __init__(self) -> None:
        self._left = _STEPS
        self._size = _SIZE
        self._reported = _STEPS
        self._pace: Hurry | Leisure | None = pace()

    def spend(self, steps: int) -> None:
        """Count steps of work."""
        self._left = left = self._left - steps
        if left < 0:
            raise BudgetSpent(f"the expression takes more than {_STEPS:,} steps")
        if self._pace is not None and self._reported - left >= _STRIDE:
            spent, self._reported = self._reported - left, left
            self._pace.spend(spent)

    def take(self, size: int) -> None:
        """Count the size of what is made, in characters."""
        self._size -= size
        if self._size < 0:
            raise BudgetSpent(f"the expression makes more than {_SIZE // 1024 // 1024} MB")

    def entries(self, count: int) -> None:
        """Count the entries of a list or map that is made, each of which is a step too."""
        if count > 0:
            self.spend(count)
            self.take(_ENTRY * count)

    def number(self, bits: int) -> None:
        """Count a whole number of so many bits that is made."""
        if bits > MAX_BITS:
            raise BudgetSpent(f"the expression makes a whole number of more than {MAX_BITS:,} bits")
        self.spend(bits // 64)

    def weigh(self, value: Any) -> int:
        """Count everything inside a value, and again wherever it occurs again; returns the characters and entries."""
        kind = type(value)
        if kind is str:
            return len(value)
        if kind not in CONTAINERS:
            return _ENTRY
        total = 0
        stack = [value]
        while stack:
            item = stack.pop()
            kind = type(item)
            if kind is str:
                total += len(item)
            elif kind in CONTAINERS:
                self.spend(len(item))
                total += _ENTRY * len(item)
                if kind is dict:
                    stack.extend(item)
                    stack.extend(item.values())
                elif not SCALARS.issuperset(map(type, item)):
                    stack.extend(item)
                else:
                    total += sum([len(text) for text in item if type(text) is str])
        return total

    def all_of(self, value: Any) -> Any:
        """An iterable that is about to be gone through to its end, counted; raises TypeError for what is none."""
        if type(value) is range or type(value) is str or type(value) in CONTAINERS:
            self.spend(len(value))
        return value

    def one_by_one(self, value: Any) -> Iterator[Any]:
        """An iterator that counts each item when it is asked for; raises TypeError for what is not iterable."""
        return self._counted(iter(value))

    def _counted(self, items: Iterator[Any]) -> Iterator[Any]:
        for item in items:
            self.spend(1)
            yield item

    def compared(self, value: Any) -> Any:
        """An iterable whose items are about to be compared with each other, all that is in them counted."""
        if type(value) in CONTAINERS:
            if not SCALARS.issuperset(map(type, value)):
                self.weigh(value)
            else:
                self.spend(len(value))
            return value
        if type(value) is range or type(value) is str:
            self.spend(len(value))
            return value
        return self._weighed(iter(value))

    def _weighed(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if type(item) in CONTAINERS:
                self.weigh(item)
            yield item
