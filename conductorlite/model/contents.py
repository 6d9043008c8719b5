"""Contents of the maps and lists of a definition: while they are the same, so is what was made of it. Nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from itertools import chain
from operator import attrgetter, is_
from typing import Any, Final

import attrs

from conductorlite.model.definitions import WorkflowDef

__all__ = ["Contents"]

#: Maps and lists that are remembered at most; also the end of what contains itself.
_MANY: Final = 100_000

#: How a frozen object answers who would change it.
_REFUSED: Final[Any] = WorkflowDef.__setattr__

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


@cache
def _fields(kind: Any) -> Callable[[Any], Iterable[Any]]:
    """Return a function that reads all fields of a class at once."""
    return attrgetter("__doc__", *attrs.fields_dict(kind))  # of one field alone it would make no tuple


class Contents:
    """The maps and lists in a definition, and what they hold, each one the very same object: `True` is no `1` here."""

    __slots__ = ("_full", "_held", "_lists", "_maps", "_sizes")

    def __init__(self, maps: list[dict[Any, Any]], lists: list[list[Any]]) -> None:
        self._maps, self._lists, self._full = maps, lists, [one for one in maps if one]
        self._sizes, self._held = self._look()

    @classmethod
    def of(cls, definition: WorkflowDef) -> Contents | None:
        """Return the contents of a definition; None for one with something in it that may change in other ways."""
        maps: list[dict[Any, Any]] = []
        lists: list[list[Any]] = []
        pending: list[Any] = [definition]
        while pending:
            one = pending.pop()
            kind: Any = type(one)
            if kind is dict:
                maps.append(one)
                inside = one.values()
            elif kind is list or kind is tuple:
                inside = one
                if kind is list:
                    lists.append(one)
            elif kind.__setattr__ is _REFUSED:
                inside = _fields(kind)(one)
            elif issubclass(kind, Enum):
                continue
            else:
                return None
            pending += [entry for entry in inside if type(entry) not in _SCALARS]
            if len(maps) + len(lists) > _MANY:
                return None
        return cls(maps, lists)

    def _look(self) -> tuple[list[int], list[Any]]:
        full, lists, each = self._full, self._lists, chain.from_iterable
        return [*map(len, self._maps), *map(len, lists)], [*each(full), *each(map(dict.values, full)), *each(lists)]

    def hold(self) -> bool:
        """Return True if all is as it was."""
        sizes, held = self._look()
        return sizes == self._sizes and all(map(is_, held, self._held))
