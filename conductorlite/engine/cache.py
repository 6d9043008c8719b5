"""What an engine remembers of what never changes: definitions, plans, large payloads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Cache"]

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A bounded dict that forgets what was not used for longest. Thread-safe.

    It holds at most `size` values, and, if it can `weigh` them, no more than `budget` together, save for a single one.
    """

    def __init__(self, size: int, *, weigh: Callable[[V], int] | None = None, budget: int = 0) -> None:
        self._size = size
        self._weigh = weigh
        self._budget = budget
        self._weight = 0
        self._held: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        with self._lock:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Keep a value."""
        with self._lock:
            self._forget(self._held.pop(key, None))
            self._held[key] = value
            self._weight += 0 if self._weigh is None else self._weigh(value)
            while len(self._held) > self._size or (self._weight > self._budget and len(self._held) > 1):
                self._forget(self._held.popitem(last=False)[1])

    def drop(self, key: K) -> None:
        """Forget a value."""
        with self._lock:
            self._forget(self._held.pop(key, None))

    def _forget(self, value: V | None) -> None:
        if value is not None and self._weigh is not None:
            self._weight -= self._weigh(value)
