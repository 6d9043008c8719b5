"""A sorted set: add, discard, first and ordered walks that stay cheap when it holds a million keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

__all__ = ["Ordered"]

#: Keys per block; a full block is cut in two.
_BLOCK: Final = 1024

K = TypeVar("K", bound=tuple[Any, ...])


class Ordered(Generic[K]):
    """Distinct tuples in ascending order, kept in blocks so that no change moves more than `_BLOCK` of them."""

    __slots__ = ("_blocks", "_changing", "_tops")

    def __init__(self) -> None:
        self._blocks: list[list[K]] = []
        #: The greatest key of each block.
        self._tops: list[K] = []
        #: A change was begun and not ended.
        self._changing = False

    def add(self, key: K) -> None:
        """Put a key in; it must not be there."""
        if self._changing:
            self._mend()
        self._changing = True
        self._add(key)
        self._changing = False

    def _add(self, key: K) -> None:
        if not self._blocks:
            self._blocks.append([key])
            self._tops.append(key)
            return
        at = min(bisect_left(self._tops, key), len(self._blocks) - 1)
        block = self._blocks[at]
        insort(block, key)
        if len(block) > _BLOCK:
            self._blocks.insert(at + 1, block[_BLOCK // 2 :])
            del block[_BLOCK // 2 :]
            self._tops.insert(at, block[-1])
            self._tops[at + 1] = self._blocks[at + 1][-1]
        else:
            self._tops[at] = block[-1]

    def discard(self, key: K) -> None:
        """Take a key out, if it is there."""
        if self._changing:
            self._mend()
        self._changing = True
        self._discard(key)
        self._changing = False

    def _discard(self, key: K) -> None:
        at = bisect_left(self._tops, key)
        if at == len(self._blocks):
            return
        block = self._blocks[at]
        place = bisect_left(block, key)
        if block[place] != key:
            return
        del block[place]
        if block:
            self._tops[at] = block[-1]
        else:
            del self._blocks[at], self._tops[at]

    def _mend(self) -> None:
        """Make the blocks anew after a change that was interrupted: its key is in or not, and no other one is lost."""
        keys = sorted({key for block in self._blocks for key in block})
        blocks = [keys[at : at + _BLOCK // 2] for at in range(0, len(keys), _BLOCK // 2)]
        self._tops = [block[-1] for block in blocks]
        self._blocks = blocks

    def first(self) -> K | None:
        """The least key, or None."""
        return self._blocks[0][0] if self._blocks else None

    def last(self) -> K | None:
        """The greatest key, or None."""
        return self._tops[-1] if self._tops else None

    def after(self, key: tuple[Any, ...]) -> Iterator[K]:
        """The keys greater than `key`, ascending; `key` may be a prefix."""
        at = bisect_right(self._tops, key)
        if at < len(self._blocks):
            block = self._blocks[at]
            yield from block[bisect_right(block, key) :]
            for block in self._blocks[at + 1 :]:
                yield from block

    def before(self, key: tuple[Any, ...] | None) -> Iterator[K]:
        """The keys less than `key` (None: all), descending."""
        at = len(self._tops) if key is None else bisect_left(self._tops, key)
        if key is not None and at < len(self._blocks):
            block = self._blocks[at]
            yield from reversed(block[: bisect_left(block, key)])
        for block in reversed(self._blocks[:at]):
            yield from reversed(block)

    def __iter__(self) -> Iterator[K]:
        for block in self._blocks:
            yield from block

    def __bool__(self) -> bool:
        return bool(self._blocks)
