"""`SQLiteBackend`: one file, one writing connection, a few reading ones.

Threads of one process take turns on the writing connection under a lock; processes take turns by `BEGIN IMMEDIATE`. A
view is read on the writing connection when no thread uses it, which costs nothing, else on a pooled reader, which never
waits.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final, Literal, final

from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, InvalidInput, InvariantBroken, StorageBusy, StorageError, StorageFull
from conductorlite.model.texts import Milliseconds, to_ms
from conductorlite.model.threads import Block, Mutex, within
from conductorlite.store.ports import Capability, PayloadStorage
from conductorlite.store.sqlite.changes import Known, SQLiteReads
from conductorlite.store.sqlite.connections import (
    Settings,
    begin_shared,
    ended,
    is_clean,
    open_reader,
    open_writer,
    release,
    translated,
)
from conductorlite.store.sqlite.disk import LARGE, Log, Reserve, copy
from conductorlite.store.sqlite.groups import GroupWrites
from conductorlite.store.sqlite.own_rows import Part, is_own
from conductorlite.store.sqlite.processes import FileMarks, Presences, SQLitePresence
from conductorlite.store.sqlite.schema import refuse_newer
from conductorlite.store.sqlite.statements import Counts
from conductorlite.store.tables import Life

__all__ = ["SQLiteBackend"]

#: More than the number of a connection, which has 32 bits.
_CONNECTION: Final = 1 << 32

#: Reading connections kept open for the next view.
_IDLE_READERS: Final = 4
#: After so many changes with none of another process between them a store counts as this one's alone.
_ALONE: Final = 64


class _Current(threading.local):
    """The block this thread is in, and what its next write will store."""

    block: _Reading | _Writing | None = None
    ready: Sequence[Decision] = ()


@final
class SQLiteBackend:
    """A store in one SQLite file, durable at every commit (`synchronous="FULL"`) or at every checkpoint ("NORMAL").

    NORMAL never loses consistency, but a power cut may lose the newest commits. `busy_timeout_ms` bounds every wait
    for another writer, `max_size_bytes` the file. `counting=True` fills `counts`. `kernel` distinguishes the running kernel from
    others (default: its boot id): engines that name the same one see by a lock whether another one's process is alive.
    Opening raises StorageReadOnly, StorageCorrupt, SchemaTooNew, StorageBusy, StorageFull or StorageError, each with the
    file unchanged.
    """

    capabilities: frozenset[Capability] = frozenset(Capability)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_timeout_ms: Milliseconds = 5000,
        max_size_bytes: int | None = None,
        counting: bool = False,
        kernel: str | None = None,
    ) -> None:
        if (name := os.fspath(path)) in ("", ":memory:"):
            raise InvalidInput("SQLiteBackend needs a file; a store in memory is MemoryBackend()")
        if synchronous not in ("FULL", "NORMAL"):
            raise InvalidInput(f"synchronous is FULL or NORMAL, not {synchronous!r}")
        #: The database file.
        self.path: Final = str(Path(name).absolute())
        #: What was asked of SQLite so far; None unless `counting`.
        self.counts: Final = Counts() if counting else None
        self._settings = Settings(
            path=self.path,
            synchronous=synchronous,
            busy_timeout_ms=to_ms(busy_timeout_ms),
            max_size_bytes=max_size_bytes,
            counts=self.counts,
        )
        self._marks, self._reserve, self._log = FileMarks(self.path), Reserve(self.path), Log(self.path, synchronous)
        self._presences = Presences(f"{self.path}.holders", kernel)
        self._appeared: list[SQLitePresence] = []
        self._pid, self._closed = os.getpid(), False
        self._current, self._mutex = _Current(), Mutex()
        #: How many changes were committed, and up to which of them other processes count as writing too.
        self._commits = self._shared = 0
        self._idle: list[sqlite3.Connection] = []
        self._known: dict[str, Known] = {}
        #: The `data_version` at which the schema was looked at last, and its number then: another one after a restore of the file.
        self._version = self.restored = -1
        #: What is added to the number of the present connection: each counts from its own beginning.
        self._versions = 0
        #: None after it was thrown away: the next block opens another one.
        self._writer: sqlite3.Connection | None = self._opened_writer()
        if (size := Path(self.path).stat().st_size) >= LARGE:
            self._reserve.keep(size)

    def reading(self) -> AbstractContextManager[SQLiteReads]:
        """A consistent view; inside another transaction of this thread, that one's view."""
        return within(_Reading(self))

    def writing(self) -> AbstractContextManager[GroupWrites]:
        """An atomic change; inside one of `transaction`, in its thread, a part of that.

        Raises InvariantBroken inside another transaction of this thread.
        """
        outer = self._current.block
        if outer is not None and outer.joinable and outer.live and isinstance(outer.view, GroupWrites):
            return within(Part(outer.view, outer.view._connection, self.path))
        return within(_Writing(self))

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Have the next write of this thread, which will store them, work out what it can before other processes wait for it."""
        self._current.ready = decisions

    def transaction(self) -> AbstractContextManager[GroupWrites]:
        """An atomic change of the application's, in which other changes of this thread are parts."""
        outer = self._current.block
        return self.writing() if outer is not None and outer.joinable and outer.live else within(_Writing(self, joinable=True))

    def data_version(self) -> int:
        """A number that changes when another connection or process has committed."""
        self._check_open()
        inside = self._current.block
        if isinstance(inside, _Writing) and inside.view is not None and inside.live:
            return self._version
        if self._writer is not None and self._mutex.owned():
            return self._data_version(self._writer)
        with within(_Alone(self)) as writer:
            return self._data_version(writer)

    def _data_version(self, writer: sqlite3.Connection) -> int:
        try:
            return self._versions + int(writer.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error as error:
            raise translated(error, self.path) from error

    def payload_storage(self) -> PayloadStorage:
        """A folder beside the database, of its whole name: `orders.db.payloads` for `orders.db`; made when it is needed.

        Of the whole name, for `orders.sqlite` beside it is another store, and would take these for files without an owner.
        """
        from conductorlite.store.payloads import LocalPayloads

        return LocalPayloads(f"{self.path}.payloads")

    def marks(self) -> FileMarks:
        """A folder beside the database, `orders.db.marks` for `orders.db`; made when it is needed."""
        return self._marks

    def appear(self) -> SQLitePresence:
        """The presence of an engine that is about to hand out tasks: a locked file in `orders.db.holders` beside the database."""
        self._check_open()
        presence = self._presences.appear()
        self._appeared.append(presence)
        return presence

    def look(self, place: str) -> Life:
        """What is known of a holder by the place of its presence."""
        return self._presences.look(place)

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder that is no more."""
        self._presences.forget(place)

    def commits(self) -> int:
        """How many changes were committed through this object."""
        return self._commits

    def checkpoint(self) -> None:
        """Move what the log holds into the file, as far as no view reads it; for idle moments."""
        with within(_Alone(self)) as writer:
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def make_room(self) -> bool:
        """Give back the room kept for removals and reuse the log; whether there may be more room now.

        Raises InvariantBroken inside a transaction of this thread.
        """
        with within(_Alone(self)) as writer:
            return self._reserve.make_room(writer)

    def compact(self) -> None:
        """Write the file again without the space of what was deleted; needs as much room again for as long as it lasts.

        Raises StorageBusy when others use the file, InvariantBroken inside a transaction of this thread.
        """
        with within(_Alone(self)) as writer:
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._commits += 1

    def faults(self) -> Sequence[str]:
        """What SQLite's integrity check finds, at most 100 lines; writers go on meanwhile."""
        self._check_open()
        reader = self._take_reader()
        try:
            found = [str(text) for (text,) in reader.execute("PRAGMA integrity_check")]
        except sqlite3.Error as error:
            raise translated(error, self.path) from error
        finally:
            self._return_reader(reader)
        return () if found == ["ok"] else found

    def rebuild_indexes(self) -> None:
        """Rebuild every index from its table, in one transaction."""
        with within(_Alone(self)) as writer:
            writer.execute("REINDEX")
            self._commits += 1

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Copy the store into a new file at `path`, with `documents` those beside it; no other process waits for it.

        Raises AlreadyExists when there is something at `path`, StorageReadOnly, StorageFull, StorageError.
        """
        self._check_open()
        copy(self._settings, path, documents=documents)

    def close(self) -> None:
        """Checkpoint and release the file; idempotent. Raises StorageBusy while another thread is writing."""
        if self._closed or os.getpid() != self._pid:
            return  # a forked child must leave the parent's connections alone
        if self._inside() is not None:
            raise InvariantBroken("close() inside a transaction of the same thread")
        try:
            with suppress(EngineClosed), within(_Alone(self)) as writer:
                with suppress(sqlite3.Error):  # another process still reads or writes: its checkpoint will do
                    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._release()
                writer.close()
                release(self._settings)
        except StorageBusy:
            raise
        except StorageError:  # the writing connection was thrown away, and the file cannot be opened any more
            self._release()
            release(self._settings)

    def _release(self) -> None:
        self._closed = True
        self._marks.close()
        for presence in self._appeared:
            presence.leave()
        while self._idle:
            self._idle.pop().close()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed(f"{self.path}: the backend was closed")
        if os.getpid() != self._pid:
            raise EngineClosed(f"{self.path}: the process was forked after the backend was opened; open one in the child process")

    def _inside(self) -> _Reading | _Writing | None:
        """The block that this thread is in."""
        block = self._current.block
        if block is None or block.live:
            return block
        block.undo()  # it was left by an interruption, and its end by another one
        self._current.block = None
        return None

    def _take_writer(self, block: Block[Any]) -> sqlite3.Connection:
        """Have the writing connection for a block of this thread; raises StorageBusy, EngineClosed, what opening raises."""
        self._check_open()
        if self._mutex.enter(block, self._settings.busy_timeout_ms / 1000) is not block:
            raise StorageBusy(f"{self.path}: another thread held the database for {self._settings.busy_timeout_ms} ms")
        return self._taken()

    def _taken(self) -> sqlite3.Connection:
        """The writing connection, for the thread that has the mutex."""
        if self._closed:  # meanwhile
            self._check_open()
        if self._writer is None:
            self._writer = self._opened_writer()
        elif self._writer.in_transaction:
            self._writer.execute("ROLLBACK")  # of one who was interrupted twice
        return self._writer

    def _give_writer(self, block: Block[Any], *, clean: bool) -> None:
        """Give the writing connection back, if the block has it, with no transaction open."""
        if self._mutex.mine(block):
            if self._writer is not None and not ended(self._writer, clean=clean):
                self._writer = None
            self._mutex.give(block)

    def _opened_writer(self) -> sqlite3.Connection:
        self._version = -1
        self._versions += _CONNECTION
        try:
            writer = open_writer(self._settings)
        except StorageFull:
            if not self._reserve.lower():
                raise
            writer = open_writer(self._settings)
        self._reserve.opened(writer)
        return writer

    def _take_reader(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return open_reader(self._settings)

    def _return_reader(self, reader: sqlite3.Connection) -> None:
        if not self._closed and len(self._idle) < _IDLE_READERS:
            self._idle.append(reader)
        else:
            reader.close()


@final
class _Alone(Block[sqlite3.Connection]):
    """The block of statements that are no transaction."""

    __slots__ = ("_backend",)

    def __init__(self, backend: SQLiteBackend) -> None:
        self._backend = backend

    def begin(self) -> sqlite3.Connection:
        if self._backend._inside() is not None:
            self._backend._check_open()
            raise InvariantBroken("inside a transaction of the same thread")
        return self._backend._take_writer(self)

    def end(self, error: BaseException | None) -> None:
        self._backend._give_writer(self, clean=True)
        if isinstance(error, sqlite3.Error):
            raise translated(error, self._backend.path) from error

    def undo(self, error: BaseException | None = None) -> None:
        self._backend._give_writer(self, clean=True)


@final
class _Reading(Block[SQLiteReads]):
    """The block of one view."""

    __slots__ = ("_backend", "_reader", "view")
    joinable = False

    def __init__(self, backend: SQLiteBackend) -> None:
        self._backend = backend
        self._reader: sqlite3.Connection | None = None
        self.view: SQLiteReads | None = None

    def begin(self) -> SQLiteReads:
        backend = self._backend
        backend._check_open()
        outer = backend._inside()
        if outer is not None and outer.view is not None:
            return outer.view
        backend._current.block = self
        if backend._mutex.take(self, 0):
            connection = backend._taken()
        else:
            connection = self._reader = backend._take_reader()
        try:
            connection.execute("BEGIN")
        except sqlite3.Error as error:
            raise translated(error, backend.path) from error
        self.view = SQLiteReads(connection)
        return self.view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        failed = isinstance(error, sqlite3.Error) and os.getpid() == backend._pid
        try:
            if failed and self.view is not None:
                with suppress(sqlite3.Error):  # what it knows of rows is not what they are any more
                    refuse_newer(self.view._connection, backend.path)
        finally:
            self._over(clean=error is None or is_clean(error))
        if isinstance(error, sqlite3.Error) and failed:
            raise translated(error, backend.path) from error

    def undo(self, error: BaseException | None = None) -> None:
        self._over(clean=self.view is None)

    def _over(self, *, clean: bool) -> None:
        backend = self._backend
        if os.getpid() != backend._pid:
            return  # forked inside the block: the transaction is the parent's
        if backend._current.block is self:
            backend._current.block = None
        reader = self._reader
        if reader is None:
            backend._give_writer(self, clean=clean)
        elif ended(reader, clean=clean):
            self._reader = None
            backend._return_reader(reader)


@final
class _Writing(Block[GroupWrites]):
    """The block of one change."""

    __slots__ = ("_backend", "joinable", "view")

    def __init__(self, backend: SQLiteBackend, *, joinable: bool = False) -> None:
        self._backend = backend
        self.view: GroupWrites | None = None
        #: Whether others of this thread are parts of it.
        self.joinable = joinable

    def begin(self) -> GroupWrites:
        backend = self._backend
        if backend._current.block is not None and backend._inside() is not None:
            backend._check_open()
            raise InvariantBroken("writing() inside another transaction of the same thread")
        backend._current.block = self
        ready, backend._current.ready = backend._current.ready, ()
        writer = backend._take_writer(self)
        view = GroupWrites(writer, backend.path, backend._known)
        if backend._commits < backend._shared:
            view.prepare(ready)
        try:
            if backend._commits < backend._shared:
                begin_shared(writer, backend._settings.busy_timeout_ms)
            else:
                writer.execute("BEGIN IMMEDIATE")
            # Inside the transaction: a newer process may have migrated the file while it is open here.
            version = backend._versions + writer.execute("PRAGMA data_version").fetchone()[0]
            if version != backend._version:
                refuse_newer(writer, backend.path)
                backend.restored = int(writer.execute("PRAGMA schema_version").fetchone()[0])
                backend._shared = backend._commits + _ALONE if backend._version >= 0 else 0
                backend._version = version
        except sqlite3.Error as error:
            raise translated(error, backend.path) from error
        view.shared = backend._commits < backend._shared
        view._dirty = self.joinable  # what came before must not be undone with a decision
        self.view = view
        return view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        if os.getpid() != backend._pid:
            if error is None:
                backend._check_open()
            return  # forked inside the block: the transaction is the parent's
        try:
            own = None if self.view is None else self.view.own
            if own is not None:
                own.close()
            if error is None:
                self._commit()
            elif isinstance(error, sqlite3.Error) and not is_own(error):
                raise translated(error, backend.path) from error
        except sqlite3.Error as failure:
            raise translated(failure, backend.path) from failure
        finally:
            self._over(clean=error is None or is_clean(error))

    def undo(self, error: BaseException | None = None) -> None:
        if os.getpid() == self._backend._pid:
            self._over(clean=self.view is None)

    def _over(self, *, clean: bool) -> None:
        backend = self._backend
        if backend._current.block is self:
            backend._current.block = None
        backend._give_writer(self, clean=clean)

    def _commit(self) -> None:
        backend = self._backend
        writer = backend._writer
        if writer is None or not writer.in_transaction:
            raise StorageError(f"{backend.path}: the transaction was undone by an earlier error")
        backend._commits += 1  # also when it is interrupted here: a reader that compares looks once too often
        try:
            size = backend._reserve.measured(writer)
            backend._log.grow(backend._commits)
            writer.execute("COMMIT")
        except sqlite3.Error:
            backend._commits -= 1
            raise
        if backend.counts is not None:
            backend.counts.commits += 1
        backend._reserve.look(writer, backend._commits, size)
