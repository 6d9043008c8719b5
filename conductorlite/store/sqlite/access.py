"""The connections to one SQLite file, their nouns, and the blocks in which they are used: statements alone, a view, a change."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, final

import attrs

from conductorlite.model.decisions import Decision
from conductorlite.model.errors import EngineClosed, InvariantBroken, StorageBusy, StorageError, StorageFull, StorageReplaced
from conductorlite.model.later import functions
from conductorlite.model.threads import Block, Mutex
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.connections import (
    FAILURES,
    Settings,
    begin_shared,
    ended,
    is_clean,
    open_reader,
    open_writer,
    translated,
)
from conductorlite.store.sqlite.decisions import Known, SQLiteDecisions
from conductorlite.store.sqlite.disk import Log, Reserve
from conductorlite.store.sqlite.executions import SQLiteExecutions, SQLiteHistory
from conductorlite.store.sqlite.limits import RowLimits, RowOwners, RowTaskHolders
from conductorlite.store.sqlite.mailboxes import NoOutbox, RowPollData, RowQueue, SQLiteInbox
from conductorlite.store.sqlite.own_rows import OwnRows, Parts, is_own
from conductorlite.store.sqlite.rows import STATUSES, Session
from conductorlite.store.sqlite.schema import refuse_newer
from conductorlite.store.sqlite.tables import (
    RowArchive,
    RowDocuments,
    RowEventHandlers,
    RowFeeds,
    RowMetadata,
    RowSchedules,
    sizes_of,
)
from conductorlite.store.sqlite.timers import data_of, entries_of
from conductorlite.store.tables import Size, Sizes

if TYPE_CHECKING:
    from conductorlite.store.sqlite.streams import RowStreams
else:
    (RowStreams,) = functions("conductorlite.store.sqlite.streams", "RowStreams")

__all__ = ["Alone", "Connections", "Reading", "SQLiteTransaction", "Writing"]

#: Where the lines of journals are.
_JOURNALS = (
    "(SELECT place, journal_text(lines) AS lines FROM history UNION ALL"
    " SELECT execution << 28, journal_text(journal) FROM workflows WHERE journal IS NOT NULL)"
)


class SQLiteTransaction:
    """A view or an atomic change on one connection, valid until its block ends. A change sees its own writes."""

    def __init__(self, connection: sqlite3.Connection, path: str, known: dict[str, Known]) -> None:
        self.session = session = Session(connection, path)
        #: What an application writes in the same transaction.
        self.own: OwnRows | None = None
        self.queue = queue = RowQueue(session)
        self.limits = limits = RowLimits(session)
        self.payloads = payloads = RowDocuments(session)
        self.feeds = feeds = RowFeeds(session)
        self.inbox = inbox = SQLiteInbox(session)
        self.executions = SQLiteExecutions(session, feeds=feeds)
        self.decisions = SQLiteDecisions(session, known, queue=queue, limits=limits, payloads=payloads)
        self.history = SQLiteHistory(session)
        self.poll_data = RowPollData(session)
        self.outbox = NoOutbox()
        self.metadata = RowMetadata(session)
        self.event_handlers = RowEventHandlers(session)
        self.schedules = RowSchedules(session)
        self.archive = RowArchive(session, feeds=feeds)
        self.owners = RowOwners(session, inbox=inbox)
        self.task_holders = RowTaskHolders(session)

    @property
    def streams(self) -> RowStreams:
        """See `StreamReads`."""
        return RowStreams(self.session)

    def own_rows(self) -> OwnRows:
        """See `JoinedTransaction`."""
        if self.own is None:
            self.own = OwnRows(self.session.connection, self.session.path)
        return self.own

    def close(self) -> None:
        """Take back what the change was given: it is about to end."""
        self.decisions.end()
        if self.own is not None:
            self.own.close()
            self.own = None

    def sizes(self) -> Sizes:
        """Return the size of everything; reads everything."""
        execute = self.session.execute
        page, pages, free = (execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count"))
        held_by = "length(CAST(r.{} AS BLOB))"
        sizes = sizes_of(self.session, length=held_by, journals=_JOURNALS, file_bytes=(page * pages, page * free))
        kinds, own = {**sizes.kinds}, {**sizes.executions}
        for name, status, cell in execute(sql.KEPT_SIZES):
            entries = entries_of(cell)
            held = sum(len(data_of(entry).encode()) for entry in entries)
            place = (name, STATUSES[status])
            kinds["events"] = Size(kinds["events"].rows + len(entries), kinds["events"].bytes + held)
            own[place] = Size(own[place].rows, own[place].bytes + held)
        return attrs.evolve(sizes, kinds=kinds, executions=own)


#: After so many changes with none of another process between them a store counts as this one's alone.
_ALONE: Final = 64

#: More than the number of a connection, which has 32 bits.
_CONNECTION: Final = 1 << 32

#: Reading connections kept open for the next view.
_IDLE_READERS: Final = 4


class _Current(threading.local):
    """The block this thread is in, and what its next write will store."""

    block: Reading | Writing | None = None
    ready: Sequence[Decision] = ()


class Connections:
    """The connections to one file: one that writes, which threads have in turn, and a few that read."""

    def __init__(self, settings: Settings) -> None:
        #: The database file.
        self.path: Final = settings.path
        #: What was asked of SQLite so far; None unless it is counted.
        self.counts: Final = settings.counts
        self._settings, self._files = settings, settings.files
        self._reserve, self._log = Reserve(self.path), Log(self.path, settings.synchronous)
        self._pid, self._closed = os.getpid(), False
        self._current, self._mutex = _Current(), Mutex()
        #: How many changes were committed, and up to which of them other processes count as writing too.
        self._commits = self._shared = 0
        self._idle: list[SQLiteTransaction] = []
        self._known: dict[str, Known] = {}
        #: The `data_version` at which the schema was looked at last, and its number then: another one after a restore of the file.
        self._version = self.restored = -1
        #: What is added to the number of the present connection: each counts from its own beginning.
        self._versions = 0
        #: None after it was thrown away: the next block opens another one.
        self._writer: sqlite3.Connection | None = self._opened_writer()

    def _check_open(self, *, closing: bool = False) -> None:
        if self._closed:
            raise EngineClosed(f"{self.path}: the engine was closed, and its store with it; open another one")
        if os.getpid() != self._pid:
            raise EngineClosed(f"{self.path}: the process was forked after the backend was opened; open one in the child process")
        if self._files.problem and not closing:
            raise StorageReplaced(self._files.problem)

    def _inside(self) -> Reading | Writing | None:
        """The block that this thread is in."""
        block = self._current.block
        if block is None or block.live:
            return block
        block.undo()  # it was left by an interruption, and its end by another one
        self._current.block = None
        return None

    def _take_writer(self, block: Block[Any], *, closing: bool = False) -> SQLiteTransaction:
        """Have the writing connection for a block of this thread; raises StorageBusy, EngineClosed, what opening raises."""
        self._check_open(closing=closing)
        if self._mutex.enter(block, self._settings.busy_timeout_ms / 1000) is not block:
            raise StorageBusy(f"{self.path}: another thread held the database for {self._settings.busy_timeout_ms} ms")
        return self._taken()

    def _taken(self) -> SQLiteTransaction:
        """The writing connection, for the thread that has the mutex."""
        if self._closed:  # meanwhile
            self._check_open()
        if self._writer is None:
            self._writer = self._opened_writer()
        elif self._writer.in_transaction:
            self._writer.execute("ROLLBACK")  # of one who was interrupted twice
        return self._transaction

    def _give_writer(self, block: Block[Any], *, clean: bool) -> None:
        """Give the writing connection back, if the block has it, with no transaction open."""
        if self._mutex.mine(block):
            if not clean:
                self._files.closing()
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
        #: What blocks on it hand out.
        self._transaction = SQLiteTransaction(writer, self.path, self._known)
        return writer

    def _take_reader(self) -> SQLiteTransaction:
        try:
            return self._idle.pop()
        except IndexError:
            return SQLiteTransaction(open_reader(self._settings), self.path, self._known)

    def _return_reader(self, reader: SQLiteTransaction) -> None:
        if not self._closed and len(self._idle) < _IDLE_READERS:
            self._idle.append(reader)
        else:
            reader.session.connection.close()


@final
class Alone(Block[sqlite3.Connection]):
    """The block of statements that are no transaction."""

    __slots__ = ("_backend", "_closing")

    def __init__(self, backend: Connections, *, closing: bool = False) -> None:
        self._backend, self._closing = backend, closing

    def begin(self) -> sqlite3.Connection:
        if self._backend._inside() is not None:
            self._backend._check_open()
            raise InvariantBroken("inside a transaction of the same thread")
        return self._backend._take_writer(self, closing=self._closing).session.connection

    def end(self, error: BaseException | None) -> None:
        self._backend._give_writer(self, clean=True)
        if isinstance(error, FAILURES):
            raise translated(error, self._backend.path) from error
        if error is None and not self._closing:
            self._backend._files.check()

    def undo(self, error: BaseException | None = None) -> None:
        """End the block after an interruption."""
        self._backend._give_writer(self, clean=True)


@final
class Reading(Block[SQLiteTransaction]):
    """The block of one view."""

    __slots__ = ("_backend", "_reader", "view")
    #: Nobody writes in it.
    parts: Parts | None = None

    def __init__(self, backend: Connections) -> None:
        self._backend = backend
        self._reader: SQLiteTransaction | None = None
        self.view: SQLiteTransaction | None = None

    def begin(self) -> SQLiteTransaction:
        backend = self._backend
        backend._check_open()
        outer = backend._inside()
        if outer is not None and outer.view is not None:
            return outer.view
        backend._current.block = self
        if backend._mutex.take(self, 0):
            view = backend._taken()
        else:
            view = self._reader = backend._take_reader()
        try:
            backend._files.check_folder()
            view.session.execute("BEGIN")
        except FAILURES as error:
            raise translated(error, backend.path) from error
        view.session.dirty = False
        self.view = view
        return view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        failed = isinstance(error, FAILURES) and os.getpid() == backend._pid
        try:
            if failed and self.view is not None:
                with suppress(*FAILURES):  # what it knows of rows is not what they are any more
                    refuse_newer(self.view.session.connection, backend.path)
        finally:
            written = self.view is not None and self.view.session.dirty
            self._over(clean=error is None or is_clean(error))
        if error is None and written:
            raise InvariantBroken(f"{backend.path}: a view was written to: what changes the store is a block of `writing()`")
        if isinstance(error, FAILURES) and failed:
            raise translated(error, backend.path) from error

    def undo(self, error: BaseException | None = None) -> None:
        """End the block after an interruption."""
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
        elif ended(reader.session.connection, clean=clean):
            self._reader = None
            backend._return_reader(reader)


@final
class Writing(Block[SQLiteTransaction]):
    """The block of one change."""

    __slots__ = ("_backend", "parts", "view")

    def __init__(self, backend: Connections, *, joinable: bool = False) -> None:
        self._backend = backend
        self.view: SQLiteTransaction | None = None
        #: The open ones, if others of this thread are parts of it; else None.
        self.parts = Parts() if joinable else None

    def begin(self) -> SQLiteTransaction:
        backend = self._backend
        if backend._current.block is not None and backend._inside() is not None:
            backend._check_open()
            raise InvariantBroken("writing() inside another transaction of the same thread")
        backend._current.block = self
        ready, backend._current.ready = backend._current.ready, ()
        view = backend._take_writer(self)
        writer = view.session.connection
        backend._files.check_folder()
        if backend._commits < backend._shared:
            view.decisions.prepare(ready)
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
        except FAILURES as error:
            raise translated(error, backend.path) from error
        view.decisions.begin(shared=backend._commits < backend._shared)
        view.session.dirty = self.parts is not None  # what came before must not be undone with a decision
        self.view = view
        return view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        if os.getpid() != backend._pid:
            if error is None:
                backend._check_open()
            return  # forked inside the block: the transaction is the parent's
        clean = False  # as long as it may be interrupted: a statement would be left that has not come to its end
        try:
            if self.view is not None:
                self.view.close()
            if error is None:
                self._commit()
            elif isinstance(error, FAILURES if self.parts is None else sqlite3.Error) and not is_own(error):
                raise translated(error, backend.path) from error
            clean = error is None or is_clean(error)
        except FAILURES as failure:
            clean = error is None or is_clean(error)
            raise translated(failure, backend.path) from failure
        finally:
            self._over(clean=clean)

    def undo(self, error: BaseException | None = None) -> None:
        """End the block after an interruption."""
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
        try:
            backend._files.check()
        except StorageReplaced:
            with suppress(sqlite3.Error):  # what the log holds must not be read as the log of another file at the path
                writer.execute("PRAGMA busy_timeout = 0")
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            raise
        backend._reserve.look(writer, backend._commits, size)
