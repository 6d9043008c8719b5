"""`MemoryBackend`: transactions over a `Store`, serialised by one lock."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import final

from conductorlite.backends.memory.reads import MemoryReads
from conductorlite.backends.memory.store import Store
from conductorlite.backends.memory.writes import MemoryWrites
from conductorlite.errors import EngineClosed, InvalidInput, InvariantBroken
from conductorlite.payloads.memory import MemoryPayloads
from conductorlite.ports import PayloadStorage

__all__ = ["MemoryBackend"]


@final
class MemoryBackend:
    """A store in memory; with `relay=True` one that cannot commit the outgoing part with the rest."""

    def __init__(self, *, relay: bool = False) -> None:
        #: Whether `apply` carries out the outgoing part at once.
        self.one_commit = not relay
        self._store = Store()
        self._lock = threading.RLock()
        self._view: MemoryReads | None = None
        self._reads = MemoryReads(self._store)
        self._commits = 0
        self._closed = False
        self._payloads = MemoryPayloads()

    def reading(self) -> _Reading:
        """A consistent view; inside another transaction of this thread, that one's view."""
        return _Reading(self)

    def writing(self) -> _Writing:
        """An atomic change; raises InvariantBroken inside another transaction of this thread."""
        return _Writing(self)

    def data_version(self) -> int:
        """Number of commits so far."""
        return self._commits

    def commits(self) -> int:
        """Number of commits so far."""
        return self._commits

    def checkpoint(self) -> None:
        """Nothing: there is no file."""

    def faults(self) -> Sequence[str]:
        """None: there is no file that could be damaged."""
        return ()

    def rebuild_indexes(self) -> None:
        """Nothing: they are changed with their rows, in one process."""

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Raises InvalidInput: a store in memory has no form that could be copied."""
        raise InvalidInput(f"{path}: a store in memory cannot be copied into a file; open the engine on a file instead")

    def payload_storage(self) -> PayloadStorage:
        """One in memory, that belongs to this store."""
        return self._payloads

    def compact(self) -> None:
        """Nothing: what was deleted is gone."""

    def close(self) -> None:
        """Refuse every further transaction; idempotent."""
        self._closed = True

    def _enter(self) -> None:
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise EngineClosed("the memory backend was closed")


class _Reading:
    """The block of one view."""

    __slots__ = ("_backend", "_outer")

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._outer: MemoryReads | None = None

    def __enter__(self) -> MemoryReads:
        backend = self._backend
        backend._enter()
        self._outer = backend._view
        view = self._outer or backend._reads
        backend._view = view
        return view

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._backend._view = self._outer
        self._backend._lock.release()


class _Writing:
    """The block of one change."""

    __slots__ = ("_backend",)

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend

    def __enter__(self) -> MemoryWrites:
        backend = self._backend
        backend._enter()
        if backend._view is not None:
            backend._lock.release()
            raise InvariantBroken("writing() inside another transaction of the same thread")
        view = MemoryWrites(backend._store, relay=not backend.one_commit)
        backend._view = view
        return view

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        backend = self._backend
        if error is None:
            backend._store.keep()
            backend._commits += 1
        else:
            backend._store.undo()
        backend._view = None
        backend._lock.release()
