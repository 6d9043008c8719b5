"""`SQLiteBackend`: one file, one writing connection, a few reading ones.

Threads of one process take turns on the writing connection under a lock; processes take turns by `BEGIN IMMEDIATE`. A
view is read on the writing connection when no thread uses it, which costs nothing, else on a pooled reader, which never
waits.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Literal, final

from conductorlite.model.decisions import Decision
from conductorlite.model.errors import (
    EngineClosed,
    InvalidInput,
    InvariantBroken,
    StorageBusy,
    StorageError,
    StorageReplaced,
)
from conductorlite.model.texts import Milliseconds, to_ms
from conductorlite.model.threads import within
from conductorlite.store.ports import Capability, JoinedTransaction, PayloadStorage, ReadingTransaction
from conductorlite.store.sqlite.access import Alone, Connections, Reading, SQLiteTransaction, Writing
from conductorlite.store.sqlite.connections import FAILURES, Settings, ended, release, translated
from conductorlite.store.sqlite.disk import LARGE, copy
from conductorlite.store.sqlite.identity import OpenFiles
from conductorlite.store.sqlite.own_rows import Part
from conductorlite.store.sqlite.processes import FileMarks, Presences, SQLitePresence
from conductorlite.store.sqlite.soundness import faults_of_rows, mend
from conductorlite.store.sqlite.statements import Counts
from conductorlite.store.tables import Life

__all__ = ["SQLiteBackend"]


@final
class SQLiteBackend(Connections):
    """A store in one SQLite file, durable at every commit (`synchronous="FULL"`) or at every checkpoint ("NORMAL").

    NORMAL never loses consistency, but a power cut may lose the newest commits. `busy_timeout_ms` bounds every wait
    for another writer, `max_size_bytes` the file. `counting=True` fills `counts`. `kernel` distinguishes the running kernel from
    others (default: its boot id): engines that name the same one see by a lock whether another one's process is alive.
    Opening raises StorageReadOnly, StorageCorrupt, SchemaTooNew, StorageBusy, StorageFull or StorageError, each with the
    file unchanged. Once the file at the path is another one than was opened, everything but `close` raises StorageReplaced.
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
        super().__init__(
            Settings(
                path=(path := str(Path(name).absolute())),
                synchronous=synchronous,
                busy_timeout_ms=to_ms(busy_timeout_ms),
                max_size_bytes=max_size_bytes,
                counts=Counts() if counting else None,
                files=OpenFiles(path),
            )
        )
        self._marks = FileMarks(path)
        self._presences = Presences(f"{path}.holders", kernel)
        self._appeared: list[SQLitePresence] = []
        if (size := Path(self.path).stat().st_size) >= LARGE:
            self._reserve.keep(size)

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view; inside another transaction of this thread, that one's view."""
        return within(Reading(self))

    def writing(self) -> AbstractContextManager[JoinedTransaction]:
        """An atomic change; inside one of `transaction`, in its thread, a part of that.

        Raises InvariantBroken inside another transaction of this thread.
        """
        outer = self._current.block
        if outer is not None and outer.parts is not None and outer.live and isinstance(outer.view, SQLiteTransaction):
            return within(Part(outer.view, outer.view.session.connection, self.path, outer.parts))
        return within(Writing(self))

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Have the next write of this thread, which will store them, work out what it can before other processes wait for it."""
        self._current.ready = decisions

    def transaction(self) -> AbstractContextManager[JoinedTransaction]:
        """An atomic change of the application's, in which other changes of this thread are parts."""
        outer = self._current.block
        if outer is not None and outer.parts is not None and outer.live:
            return self.writing()
        return within(Writing(self, joinable=True))

    def data_version(self) -> int:
        """A number that changes when another connection or process has committed."""
        self._check_open()
        inside = self._current.block
        if isinstance(inside, Writing) and inside.view is not None and inside.live:
            return self._version
        if self._writer is not None and self._mutex.owned():
            return self._data_version(self._writer)
        with within(Alone(self)) as writer:
            return self._data_version(writer)

    def _data_version(self, writer: sqlite3.Connection) -> int:
        try:
            return self._versions + int(writer.execute("PRAGMA data_version").fetchone()[0])
        except FAILURES as error:
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
        """Return the state of a holder, by the place of its presence."""
        return self._presences.look(place)

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder that is no more."""
        self._presences.forget(place)

    def commits(self) -> int:
        """Number of changes committed through this object."""
        return self._commits

    def checkpoint(self) -> None:
        """Move what the log holds into the file, as far as no view reads it; for idle moments."""
        with within(Alone(self)) as writer:
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def make_room(self) -> bool:
        """Give back the room kept for removals and reuse the log; whether there may be more room now.

        Raises InvariantBroken inside a transaction of this thread.
        """
        with within(Alone(self)) as writer:
            return self._reserve.make_room(writer)

    def compact(self) -> None:
        """Write the file again without the space of what was deleted; needs as much room again for as long as it lasts.

        Raises StorageBusy when others use the file, InvariantBroken inside a transaction of this thread.
        """
        with within(Alone(self)) as writer:
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._commits += 1

    def faults(self) -> Sequence[str]:
        """Return the findings of SQLite's integrity check, at most 100 lines, and rows that contradict each other; writers continue
        meanwhile.
        """
        self._check_open()
        view = self._take_reader()
        reader = view.session.connection
        try:
            self._files.check()
            reader.execute("BEGIN")
            found = [str(text) for (text,) in reader.execute("PRAGMA integrity_check")]
            return (*(() if found == ["ok"] else found), *faults_of_rows(reader))
        except FAILURES as error:
            raise translated(error, self.path) from error
        finally:
            if ended(reader, clean=True):
                self._return_reader(view)

    def rebuild_indexes(self) -> None:
        """Rebuild every index from its table, and every column that follows from others, in one transaction."""
        with within(Alone(self)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("REINDEX")
            mend(writer)
            writer.execute("COMMIT")
            self._known.clear()
            self._commits += 1

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Copy the store into a new file at `path`, with `documents` those beside it; no other process waits for it.

        Raises AlreadyExists when there is something at `path`, StorageReadOnly, StorageFull, StorageError.
        """
        self._check_open()
        copy(self._settings, path, documents=documents)

    def close(self) -> None:
        """Checkpoint and release the file; idempotent. Raises StorageBusy while another thread is writing.

        Raises StorageReplaced, with all released, when the file at the path is not the open one any more.
        """
        if self._closed or os.getpid() != self._pid:
            return  # a forked child must leave the parent's connections alone
        if self._inside() is not None:
            raise InvariantBroken("close() inside a transaction of the same thread")
        try:
            with suppress(EngineClosed), within(Alone(self, closing=True)) as writer:
                with suppress(StorageReplaced):  # raised below, when all is released
                    self._files.check()
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
        if self._files.problem:
            raise StorageReplaced(self._files.problem)

    def _release(self) -> None:
        self._closed = True
        self._files.closing()
        self._marks.close()
        for presence in self._appeared:
            presence.leave()
        while self._idle:
            self._idle.pop().session.connection.close()
