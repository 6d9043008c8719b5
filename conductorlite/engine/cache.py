"""What an engine remembers of what never changes: definitions, plans, large payloads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

from conductorlite.model.threads import Mutex

__all__ = ["Cache"]

K = TypeVar("K")
V = TypeVar("V")


class _Held(Generic[V]):
    """A value, how much it weighs, and when it was used last."""

    __slots__ = ("used", "value", "weight")

    def __init__(self, value: V, weight: int, used: int) -> None:
        self.value = value
        self.weight = weight
        self.used = used


class Cache(Generic[K, V]):
    """A bounded dict that forgets what was not used for longest. Thread-safe.

    It holds at most `size` values, and, if it can `weigh` them, no more than `budget` together, except for a single one.
    """

    def __init__(self, size: int, *, weigh: Callable[[V], int] | None = None, budget: int = 0) -> None:
        self._size = size
        self._weigh = weigh
        self._budget = budget
        self._held: dict[K, _Held[V]] = {}
        self._uses = count()
        self._changing = Mutex()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        held = self._held.get(key)
        if held is None:
            return None
        held.used = next(self._uses)
        return held.value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        weight = 0 if self._weigh is None else self._weigh(value)
        with self._changing.held():
            self._held[key] = _Held(value, weight, next(self._uses))
            # Added up each time: a sum that is kept would go wrong with the first change that is interrupted.
            while len(self._held) > self._size or (self._weigh is not None and len(self._held) > 1 and self._heavy()):
                del self._held[min(self._held, key=lambda known: self._held[known].used)]

    def _heavy(self) -> bool:
        return sum(held.weight for held in self._held.values()) > self._budget

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._changing.held():
            self._held.pop(key, None)
