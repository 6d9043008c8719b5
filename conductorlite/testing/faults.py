"""A backend that dies, or fails, at the n-th write.

A *write* is each call of a writing transaction that changes something, and each commit of a transaction that did.
Writes are counted from 1. A crash ends the process as far as the store knows: the open transaction is not
committed, and the backend object answers nothing any more.

Stores by name, that can be opened again and again: what tests of restarts need.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

from conductorlite.engine.config import EngineConfig
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, InvalidInput, MissingCapability, StorageError
from conductorlite.store.nouns import NOUNS, Watched
from conductorlite.store.ports import (
    Backend,
    Capability,
    JoinableBackend,
    Marks,
    PayloadStorage,
    Presence,
    ReadingTransaction,
    WritingTransaction,
)
from conductorlite.store.tables import Life

if TYPE_CHECKING:
    from conductorlite.store.memory.backend import MemoryBackend

__all__ = ["STORES", "CountedIds", "Crash", "FaultyBackend", "Store", "StoreKind", "lay_empty_store", "some"]

T = TypeVar("T")


class Crash(KeyboardInterrupt):
    """The process has died. Not an Exception: nothing that handles errors may go on after it."""


class FaultyBackend:
    """Any backend, with its writes counted and at most one of them disturbed.

    `crash_before` and `crash_after` raise `Crash` before or after the n-th write; after a commit means that it is
    stored, but no caller was notified. `fail_before` raises `error` (default: a StorageError) instead of the n-th write,
    once, and the backend lives on. `on_crash` is called at the instant of the crash, with the transaction still open;
    `on_commit` after each commit, with its number among the writes; `on_writing` before each writing transaction is
    begun, when what it will write has been decided and nothing is held; `on_write` inside it, before each write, with
    its name; `on_use` before each use of the backend, with the name of its method. What they raise takes the place of what
    would have been done. With `keep_open` closing this backend leaves `inner` open. `journal` lists what was written: names of
    methods, `commit`, and for `apply` the events whose answer the decision carries.
    """

    def __init__(
        self,
        inner: Backend,
        *,
        crash_before: int | None = None,
        crash_after: int | None = None,
        fail_before: int | None = None,
        error: Exception | None = None,
        on_crash: Callable[[], None] | None = None,
        on_commit: Callable[[int], None] | None = None,
        on_writing: Callable[[], None] | None = None,
        on_write: Callable[[str], None] | None = None,
        on_use: Callable[[str], None] | None = None,
        keep_open: bool = False,
    ) -> None:
        self.inner = inner
        self.capabilities = inner.capabilities
        self._written: list[str] = []
        self.dead = False
        self._crash_before = crash_before
        self._crash_after = crash_after
        self._fail_before = fail_before
        self._error = error
        self._on_crash = on_crash
        self._on_commit = on_commit
        self.on_writing = on_writing
        self._on_write = on_write
        self._on_use = on_use
        self._keep_open = keep_open
        self._closed = False
        self._presences: list[Presence] = []
        #: Transactions of the application that are open.
        self._joined = 0

    @property
    def journal(self) -> list[str]:
        """Names of the writes so far."""
        return self._written

    @property
    def writes(self) -> int:
        """Number of writes that were begun."""
        return len(self.journal)

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view of the inner backend."""
        self._check("reading")
        return self.inner.reading()

    def writing(self) -> AbstractContextManager[WritingTransaction]:
        """An atomic change of the inner backend, counted and disturbed."""
        self._check("writing")
        if self.on_writing is not None:
            self.on_writing()
            self._check()
        return _Writing(self, self.inner.writing(), part=self._joined > 0)

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """As in the inner backend."""
        self.inner.prepare(decisions)

    def transaction(self) -> AbstractContextManager[Any]:
        """The inner backend's, counted and disturbed; a part of one commits nothing. For one thread."""
        self._check("transaction")
        inner = self.inner
        if not isinstance(inner, JoinableBackend):
            raise MissingCapability(Capability.TRANSACTIONS, "this store takes no transactions of an application")
        return _Writing(self, inner.transaction(), part=self._joined > 0, joins=True)

    def data_version(self) -> int:
        """The inner backend's."""
        self._check("data_version")
        return self.inner.data_version()

    def commits(self) -> int:
        """The inner backend's."""
        self._check("commits")
        return self.inner.commits()

    def checkpoint(self) -> None:
        """The inner backend's."""
        self._check("checkpoint")
        self.inner.checkpoint()

    def faults(self) -> Sequence[str]:
        """The inner backend's."""
        self._check("faults")
        return self.inner.faults()

    def rebuild_indexes(self) -> None:
        """The inner backend's."""
        self._check("rebuild_indexes")
        self.inner.rebuild_indexes()

    def backup(self, path: str, *, documents: bool = True) -> None:
        """The inner backend's."""
        self._check("backup")
        self.inner.backup(path, documents=documents)

    def payload_storage(self) -> PayloadStorage | None:
        """The inner backend's."""
        return self.inner.payload_storage()

    def marks(self) -> Marks | None:
        """The inner backend's."""
        return self.inner.marks()

    def appear(self) -> Presence:
        """The inner backend's; ended by a crash."""
        self._check()
        presence = self.inner.appear()
        self._presences.append(presence)
        return presence

    def look(self, place: str) -> Life:
        """The inner backend's."""
        self._check()
        return self.inner.look(place)

    def forget(self, place: str) -> None:
        """The inner backend's."""
        self._check()
        self.inner.forget(place)

    def make_room(self) -> bool:
        """The inner backend's."""
        self._check("make_room")
        return self.inner.make_room()

    def compact(self) -> None:
        """The inner backend's."""
        self._check("compact")
        self.inner.compact()

    def close(self) -> None:
        """Release the inner backend, unless it is to be kept open or this one is dead; idempotent."""
        if not (self._closed or self.dead or self._keep_open):
            self.inner.close()
        self._closed = True

    def _check(self, use: str = "") -> None:
        if use and self._on_use is not None:
            self._on_use(use)
        if self.dead:
            raise Crash("the process of this backend has died")
        if self._closed:
            raise EngineClosed("the backend was closed")

    def die_at(self, write: int, *, after: bool = False) -> None:
        """Have the process die at a write to come: 1 is the next one."""
        number = self.writes + write
        self._crash_before, self._crash_after = (None, number) if after else (number, None)

    def fail_at(self, write: int, error: Exception) -> None:
        """Have a write to come fail, once: 1 is the next one."""
        self._fail_before, self._error = self.writes + write, error

    def live_on(self) -> None:
        """Take back a death or a failure that has not come."""
        self._crash_before = self._crash_after = self._fail_before = None

    def _before(self, name: str) -> int:
        self._check()
        self._written.append(name)
        number = len(self._written)
        if self._on_write is not None:
            self._on_write(name)
        if number == self._fail_before:
            raise self._error or StorageError(f"injected: write {number} ({name}) failed")
        if number == self._crash_before:
            self._crash(f"before write {number} ({name})")
        return number

    def _after(self, name: str, number: int) -> None:
        if number == self._crash_after:
            self._crash(f"after write {number} ({name})")

    def _crash(self, where: str) -> None:
        self.dead = True
        for presence in self._presences:
            presence.die()
        if self._on_crash is not None:
            self._on_crash()
        raise Crash(where)


class _Undisturbed(FaultyBackend):
    """A handle on a store in memory that lets the engine have the store itself until a fault, or what was written, is asked for.

    Most tests ask for neither. An engine knows more of a store in memory than of others, and is quicker there for it, but it cannot
    know that of what may fail at any write. Writes are counted from when they are asked for.
    """

    in_memory = True

    def __init__(self, inner: MemoryBackend) -> None:
        super().__init__(inner, keep_open=True)
        self.peek = inner.peek
        vars(self).update({name: getattr(inner, name) for name in _OFTEN})

    @property
    def journal(self) -> list[str]:
        """Lines written since it was asked for first."""
        self._disturb()
        return self._written

    def die_at(self, write: int, *, after: bool = False) -> None:
        """See `FaultyBackend`."""
        self._disturb()
        super().die_at(write, after=after)

    @property
    def on_writing(self) -> Callable[[], None] | None:
        """See `FaultyBackend`."""
        return self._called_on_writing

    @on_writing.setter
    def on_writing(self, called: Callable[[], None] | None) -> None:
        if called is not None:
            self._disturb()
        self._called_on_writing = called

    def close(self) -> None:
        """Release the handle, not the store."""
        self._disturb()
        super().close()

    def _disturb(self) -> None:
        """Put the methods that count and disturb in the place of the store's own."""
        for name in _OFTEN:
            vars(self).pop(name, None)


#: Methods that an engine calls in every turn.
_OFTEN: Final = ("reading", "writing", "transaction", "data_version", "commits")


class _Writing:
    """The block of one change."""

    __slots__ = ("_backend", "_block", "_counted", "_joins", "_part")

    def __init__(
        self, backend: FaultyBackend, block: AbstractContextManager[WritingTransaction], *, part: bool, joins: bool = False
    ) -> None:
        self._backend, self._block = backend, block
        self._part, self._joins = part, joins
        self._counted: _Counted | None = None

    def __enter__(self) -> Any:
        self._counted = _Counted(self._backend, self._block.__enter__())
        self._counted.changed = self._joins
        self._backend._joined += self._joins
        return self._counted

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        backend = self._backend
        backend._joined -= self._joins
        if error is not None or self._part or self._counted is None or not self._counted.changed:
            self._block.__exit__(kind, error, trace)
            return
        try:
            number = backend._before("commit")
        except BaseException as disturbed:
            self._block.__exit__(type(disturbed), disturbed, disturbed.__traceback__)
            raise
        self._block.__exit__(None, None, None)
        if backend._on_commit is not None:
            backend._on_commit(number)
        backend._after("commit", number)


class _Counted:
    """A writing transaction whose changes are counted."""

    def __init__(self, backend: FaultyBackend, inner: Any) -> None:
        self._backend = backend
        self.changed = False
        self.sizes = inner.sizes
        if hasattr(inner, "own_rows"):
            self.own_rows = inner.own_rows
        for noun in NOUNS:
            setattr(self, noun, Watched(noun, getattr(inner, noun), self._counted))

    def _counted(self, noun: str, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            label = _label(name, arguments)
            number = self._backend._before(label)
            self.changed = True
            answer = change(*arguments, **named)
            self._backend._after(label, number)
            return answer

        return counted


def _label(name: str, arguments: tuple[Any, ...]) -> str:
    if name != "apply" or not isinstance(arguments[0], Decision):
        return name
    kinds = [event_id.partition("@")[0].partition(":")[0] for event_id in arguments[0].replies]
    return f"apply {'+'.join(kinds)}" if kinds else "apply"


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


def some(values: Iterable[T], what: str) -> list[T]:
    """Return the values a scenario is tried on; raises InvalidInput when there are none, for then nothing was tried."""
    found = list(values)
    if not found or isinstance(values, str):
        raise InvalidInput(f"a list of {what}s is needed, with one at least, not {values!r:.80}")
    return found


class Store:
    """One store of a kind, with its files in `folder` (made when needed)."""

    def __init__(self, kind: StoreKind, folder: Callable[[], Path]) -> None:
        if isinstance(kind, str) and kind not in STORES:
            raise InvalidInput(f"there is no store {kind!r}; use one of {', '.join(STORES)}, or a function")
        self.kind = kind
        self._folder = folder
        self._memory: MemoryBackend | None = None
        self._deaths = 0

    def open(self) -> Backend:
        """A backend on what is stored. Closing one in memory closes only the handle: its rows stay."""
        inner = self.inner()
        return inner if self._memory is None else _Undisturbed(self._memory)

    @property
    def in_memory(self) -> bool:
        """True if the store is an object of this process."""
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

    def close(self) -> None:
        """Let go what a store in memory holds; a handle on it answers no more. Files stay."""
        if self._memory is not None:
            self._memory.close()

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
    if config is None:
        return EngineConfig(ids=CountedIds(backend))
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
                while page := view.executions.workflow_ids(None, after, 500):
                    numbers = [each.removeprefix(self._prefix) for each in page if each.startswith(self._prefix)]
                    self._last = max([self._last, *(int(number) for number in numbers if number.isdecimal())])
                    after = page[-1]
            self._last += 1
            while view.executions.workflow(f"{self._prefix}{self._last}") is not None:
                self._last += 1
        return f"{self._prefix}{self._last}"
