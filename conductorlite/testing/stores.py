"""Stores by name, that can be opened again and again: what tests of restarts need."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from conductorlite.engine.config import EngineConfig
from conductorlite.model import attrs
from conductorlite.model.errors import InvalidInput
from conductorlite.store.ports import Backend
from conductorlite.testing.faults import FaultyBackend

__all__ = ["STORES", "CountedIds", "Store", "StoreKind", "lay_empty_store"]

#: Names of stores: in memory, in memory with outgoing parts relayed, in an SQLite file.
STORES: Final = ("memory", "relay", "sqlite")

#: A name, or a function that opens a backend in a folder, for the first time and again.
StoreKind = str | Callable[[Path], Backend]


def lay_empty_store(path: Path) -> Path:
    """Put an SQLite store with nothing in it where no file is yet; returns the path.

    Copied from one that was made first: to make the tables takes longer than most tests.
    """
    if not path.exists():
        path.write_bytes(_empty_store())
    return path


@cache
def _empty_store() -> bytes:
    # Imported on use: a program that tests in memory never pays for sqlite3.
    from conductorlite.store.sqlite.backend import SQLiteBackend

    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        SQLiteBackend(path).close()
        return path.read_bytes()


class Store:
    """One store of a kind, with its files in `folder` (made when needed)."""

    def __init__(self, kind: StoreKind, folder: Callable[[], Path]) -> None:
        if isinstance(kind, str) and kind not in STORES:
            raise InvalidInput(f"there is no store {kind!r}; use one of {', '.join(STORES)}, or a function")
        self.kind = kind
        self._folder = folder
        self._memory: Backend | None = None
        self._deaths = 0

    def open(self) -> Backend:
        """A backend on what is stored. Closing one in memory closes only the handle: its rows stay."""
        return FaultyBackend(self.inner(), keep_open=True) if self.in_memory else self.inner()

    @property
    def in_memory(self) -> bool:
        """Whether the store is an object of this process."""
        return self.kind in ("memory", "relay")

    def inner(self) -> Backend:
        """The backend itself: for a store in memory always the same one."""
        if callable(self.kind):
            return self.kind(self._folder())
        # Imported on use, like the engine does: a program that tests in memory never pays for sqlite3.
        if self.in_memory:
            from conductorlite.store.memory.backend import MemoryBackend

            self._memory = self._memory or MemoryBackend(relay=self.kind == "relay")
            return self._memory
        from conductorlite.store.sqlite.backend import SQLiteBackend

        # A killed process loses nothing that NORMAL has committed; only a power cut could.
        return SQLiteBackend(lay_empty_store(self._file), synchronous="NORMAL")

    @property
    def _file(self) -> Path:
        return self._folder() / ("store.db" if not self._deaths else f"store-{self._deaths}.db")

    def killed(self) -> None:
        """Keep the files as they are at this instant; `inner` opens that copy from now on.

        What a dead process leaves behind is not what a closed connection does: its log is neither rolled back nor
        merged.
        """
        if self.kind != "sqlite":
            return
        # Opening the file here drops the locks of the dying connection: no other process has the file, and nothing uses it again.
        before = self._file
        self._deaths += 1
        for suffix in ("", "-wal"):
            if Path(f"{before}{suffix}").exists():
                shutil.copyfile(f"{before}{suffix}", f"{self._file}{suffix}")
        if Path(f"{before}.payloads").exists():
            shutil.copytree(f"{before}.payloads", f"{self._file}.payloads")


def counted(backend: Backend, config: EngineConfig | None) -> EngineConfig:
    """A configuration whose ids of executions are counted in the store, unless it has others."""
    config = config or EngineConfig()
    return attrs.evolve(config, ids=config.ids or CountedIds(backend))


class CountedIds:
    """Ids wf-1, wf-2, … that go on where the store left off."""

    def __init__(self, backend: Backend, prefix: str = "wf-") -> None:
        self._backend = backend
        self._prefix = prefix
        self._last: int | None = None

    def __call__(self) -> str:
        with self._backend.reading() as view:
            if self._last is None:
                self._last, after = 0, ""
                while page := view.workflow_ids(None, after, 500):
                    numbers = [each.removeprefix(self._prefix) for each in page if each.startswith(self._prefix)]
                    self._last = max([self._last, *(int(number) for number in numbers if number.isdecimal())])
                    after = page[-1]
            self._last += 1
            while view.workflow(f"{self._prefix}{self._last}") is not None:
                self._last += 1
        return f"{self._prefix}{self._last}"
