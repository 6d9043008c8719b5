"""`PostgresBackend`: connections, a block of each thread on one of them, and what is a store's own beside its rows."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, final

from conductorlite.engine.logs import log_store
from conductorlite.ext.postgres.lock import PostgresLock
from conductorlite.ext.postgres.presence import Peers, PostgresPresence, Presences
from conductorlite.ext.postgres.rows import Part, PostgresTransaction
from conductorlite.ext.postgres.schema import MIGRATIONS, VERSION, lock_of
from conductorlite.ext.postgres.session import PostgresSession
from conductorlite.ext.postgres.wire import Connection, connect, milliseconds, parted
from conductorlite.model.decisions import Decision
from conductorlite.model.errors import (
    ConductorliteError,
    EngineClosed,
    InvalidInput,
    InvariantBroken,
    MissingCapability,
    SchemaTooNew,
    StorageError,
)
from conductorlite.model.texts import Milliseconds
from conductorlite.model.threads import Block, Mutex, started, within
from conductorlite.store.ports import Capability, JoinedTransaction, ReadingTransaction
from conductorlite.store.tables import Life

__all__ = ["PostgresBackend"]

#: Connections kept open for the next block.
_IDLE: Final = 8

#: How long who was notified of a commit is left alone then, and how long a thread waits before it looks whether the store is open.
_BETWEEN_S: Final = 0.01
_AGAIN_S: Final = 0.25

_SCHEMA: Final = re.compile("[a-z_][a-z0-9_]{0,40}")
_VIEW: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Current(threading.local):
    """The block this thread is in."""

    block: _Transaction | None = None


@final
class PostgresBackend:
    """A store in a PostgreSQL database, in the schema `schema`, which is made when it is missing.

    `url` is `postgresql://user:password@host:port/database` with libpq's parameters; `?schema=`, `?busy_timeout_ms=` and
    `?answer_timeout_ms=` may stand there too. `busy_timeout_ms` bounds every wait for another writer, `answer_timeout_ms` how
    long the server may say nothing to a statement: StorageUnavailable then. A connection that is lost is opened again by the next
    block.
    Opening raises StorageUnavailable, AccessDenied, SchemaTooNew, StorageCorrupt, InvalidInput, StorageError, with nothing changed.
    """

    #: What is offered is each process's own share first.
    shares_heads = True
    capabilities: frozenset[Capability] = frozenset(Capability) - {Capability.BACKUP, Capability.SERIAL, Capability.ONE_CLOCK}

    def __init__(
        self,
        url: str,
        *,
        schema: str = "conductorlite",
        busy_timeout_ms: Milliseconds = 5_000,
        answer_timeout_ms: Milliseconds = 60_000,
    ) -> None:
        self._url, options, shown = parted(url, "schema", "busy_timeout_ms", "answer_timeout_ms")
        self.schema: Final = options.get("schema", schema)
        if not _SCHEMA.fullmatch(self.schema):
            raise InvalidInput(f"a schema is 1 to 41 lower-case letters, digits and `_`, not {self.schema!r:.80}")
        #: The URL without its password, for messages.
        self.path: Final = shown
        self._answer_timeout_ms = milliseconds(options, "answer_timeout_ms", answer_timeout_ms)
        self._settings = {
            "search_path": self.schema,
            "lock_timeout": str(milliseconds(options, "busy_timeout_ms", busy_timeout_ms)),
            "default_transaction_isolation": r"read\ committed",
        }
        #: How often an answer of the server was awaited.
        self.round_trips = 0
        lock = lock_of(self.schema)
        self._begin = ("BEGIN", f"SELECT pg_advisory_xact_lock({lock})")
        self._token = os.urandom(6).hex()
        self._notify = f"SELECT pg_notify('{self.schema}', '{self._token}')"
        self._peers = Peers(self._token.encode())
        self._pid = os.getpid()
        self._closed = False
        self._current = _Current()
        self._idle: list[Connection] = []
        self._commits = 0
        self._foreign = self._lapses = 0
        #: What `data_version` was when a change was begun last.
        self._others = -1
        self._numbers: dict[str, int] = {}
        self._mutex = Mutex()
        self._listener: Connection | None = None
        self._watchers: list[weakref.WeakMethod[Callable[[], object]]] = []
        self._presences = Presences(self._connected)
        connection = self._connected()
        try:
            self._migrate(connection, lock)
        except BaseException:
            connection.close()
            raise
        connection.answer_timeout_ms = self._answer_timeout_ms
        self._idle.append(connection)

    def reading(self) -> AbstractContextManager[ReadingTransaction]:
        """A consistent view; inside another transaction of this thread, that one's view."""
        return within(_Reading(self))

    def writing(self) -> AbstractContextManager[JoinedTransaction]:
        """An atomic change; inside one of `transaction`, in its thread, a part of that.

        Raises InvariantBroken inside another transaction of this thread.
        """
        outer = self._inside()
        if isinstance(outer, _Writing) and outer.joinable and outer.connection is not None:
            return within(Part(outer.view, outer.connection))
        return within(_Writing(self))

    def prepare(self, decisions: Sequence[Decision]) -> None:
        """Nothing: the server has each execution wait for itself only."""

    def transaction(self) -> AbstractContextManager[JoinedTransaction]:
        """An atomic change of the application's, in which other changes of this thread are parts."""
        outer = self._inside()
        if isinstance(outer, _Writing) and outer.joinable:
            return self.writing()
        return within(_Writing(self, joinable=True))

    def data_version(self) -> int:
        """A number that changes when another connection has committed, as far as the server has said; costs no round trip."""
        self._check_open()
        with self._mutex.held():
            if self._listener is not None:
                try:
                    self._foreign += self._peers.heard(self._listener.notices())
                    return self._foreign
                except StorageError:  # it is opened again below; what is wrong then is raised
                    self._listener.close()
                    self._listener = None
            self._foreign += 1  # of what was committed before, nobody was notified
            self._lapses += 1
            listener = self._connected()
            listener.execute(f"LISTEN {self.schema}").fetchall()
            self._listener = listener
            return self._foreign

    def lapses(self) -> int:
        """How often it was out of touch with the server, as `data_version` last saw it: the store may have been restored since."""
        return self._lapses

    def watch(self, changed: Callable[[], object]) -> None:
        """Have a method called soon after another connection has committed, for as long as its object is there.

        By a thread of the store's own, at most a hundred times a second; also when it has been out of touch. Raises NoThread.
        """
        self._check_open()
        with self._mutex.held():
            self._watchers.append(weakref.WeakMethod(changed))
            if len(self._watchers) == 1:
                started(_watch, weakref.ref(self), name="conductorlite-postgres")

    def _notify_watchers(self) -> None:
        with self._mutex.held():
            self._foreign += 1
            watchers = [watcher() for watcher in self._watchers]
        for changed in watchers:
            if changed is not None:
                changed()

    def advisory_lock(self) -> PostgresLock:
        """A lock on the server's own, for who wants one beside the fence: `Engine(store, lock="advisory")`."""
        return PostgresLock(f"{self._url}{'&' if '?' in self._url else '?'}schema={self.schema}")

    def commits(self) -> int:
        """Number of changes committed through this object."""
        return self._commits

    def checkpoint(self) -> None:
        """Nothing: the server does it by itself."""

    def faults(self) -> Sequence[str]:
        """Nothing: the server checks its pages where it is set to."""
        return ()

    def rebuild_indexes(self) -> None:
        """Rebuild every index of the schema; others wait meanwhile."""
        self._alone(f"REINDEX SCHEMA {self.schema}")

    def backup(self, path: str, *, documents: bool = True) -> None:
        """Raises MissingCapability: `pg_dump --schema` makes a copy, and `conductorlite copy` one in a file."""
        text = f"{self.path}: copy it with pg_dump --schema={self.schema}, or with `conductorlite copy`"
        raise MissingCapability(Capability.BACKUP, text)

    def payload_storage(self) -> None:
        """None: what is not given another storage is kept in the store."""

    def marks(self) -> None:
        """None: turns are not marked."""

    def appear(self) -> PostgresPresence:
        """The presence of an engine: a connection of its own, which the system ends with the process."""
        return self._presences.appear()

    def look(self, place: str) -> Life:
        """Return the state of a holder: whether its connection is there."""
        return self._presences.look(place)

    def forget(self, place: str) -> None:
        """Remove what is left of the presence of a holder that is no more."""
        self._presences.forget(place)

    def make_room(self) -> bool:
        """False: the server keeps no room for removals."""
        self._outside("make_room")
        return False

    def compact(self) -> None:
        """Have the server reuse the space of what was deleted."""
        self._alone("VACUUM")

    def close(self) -> None:
        """Release the connections; idempotent."""
        if self._closed or os.getpid() != self._pid:
            return
        if self._inside() is not None:
            raise InvariantBroken("close() inside a transaction of the same thread")
        self._closed = True
        self._presences.close()
        with self._mutex.held():
            if self._listener is not None:
                self._listener.close()
        while self._idle:
            self._idle.pop().close()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        """Another connection, for the caller to close."""
        return connect(
            self._url,
            self.path,
            f"conductorlite {self.schema}",
            self._count,
            answer_timeout_ms=self._answer_timeout_ms,
            **self._settings,
        )

    def _count(self) -> None:
        self.round_trips += 1

    def _migrate(self, connection: Connection, lock: str) -> None:
        """Bring the schema up to date; a store that is up to date is only read."""
        asked = f"SELECT to_regclass('{self.schema}.schema_version')::text"
        found = connection.execute(asked).fetchone()
        version = connection.execute("SELECT version FROM schema_version").fetchone() if found and found[0] else None
        if version is None or version[0] < VERSION:
            connection.answer_timeout_ms = None  # a table of any size may get an index, and another process may be at it
            connection.post("BEGIN", f"SELECT pg_advisory_xact_lock({lock})", f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)").fetchall()
            version = connection.execute("SELECT version FROM schema_version").fetchone()  # another process may have been first
            for number, texts in enumerate(MIGRATIONS[version[0] if version else 0 :]):
                for text in texts:
                    connection.execute(text)
                done = (version[0] if version else 0) + number + 1
                connection.execute("DELETE FROM schema_version").fetchall()
                connection.execute("INSERT INTO schema_version VALUES (?)", (done,)).fetchall()
            connection.execute("COMMIT").fetchall()
        elif version[0] > VERSION:
            raise SchemaTooNew(f"{self.path}: written with schema {version[0]}; this conductorlite knows up to {VERSION}")

    def _check_open(self) -> None:
        if self._closed:
            raise EngineClosed(f"{self.path}: the backend was closed")
        if os.getpid() != self._pid:
            raise EngineClosed(f"{self.path}: the process was forked after the backend was opened; open one in the child process")

    def _inside(self) -> _Transaction | None:
        """The block that this thread is in."""
        block = self._current.block
        if block is None or block.live:
            return block
        block.undo()  # it was left by an interruption, and its end by another one
        self._current.block = None
        return None

    def _outside(self, verb: str) -> None:
        self._check_open()
        if self._inside() is not None:
            raise InvariantBroken(f"{verb}() inside a transaction of the same thread")

    def _alone(self, text: str) -> None:
        self._outside(text.split()[0].lower())
        connection = self._connected()
        try:
            connection.execute(text).fetchall()
            self._commits += 1
        finally:
            connection.close()

    def _take(self) -> Connection:
        self._check_open()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connected()
            if connection.usable:
                return connection
            connection.close()

    def _give(self, connection: Connection, *, clean: bool) -> None:
        if clean and connection.usable and not self._closed and len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            connection.close()


def _watch(of: weakref.ref[PostgresBackend]) -> None:
    """Pass notifications on to a store, for as long as it is open."""
    connection: Connection | None = None
    never = threading.Event()
    while (backend := of()) is not None and not backend._closed:
        try:
            if connection is None:
                connection = backend._connected()
                connection.execute(f"LISTEN {backend.schema}").fetchall()
                changed = True
            else:
                changed = any(token != backend._token.encode() for token in connection.notices())
        except StorageError as error:
            if connection is not None:  # once until it is connected again
                log_store("PostgreSQL does not notify of commits any more, the driver looks by itself meanwhile", error)
                connection.close()
            changed, connection = False, None
        if changed:
            backend._notify_watchers()
        del backend
        if connection is None or changed:
            never.wait(_BETWEEN_S if changed else _AGAIN_S)
        else:
            connection.pause(_AGAIN_S)
    if connection is not None:
        connection.close()


def _clean(error: BaseException | None) -> bool:
    """Return True if an error, or none, leaves no answer half-read."""
    return error is None or isinstance(error, ConductorliteError)


class _Transaction(Block[PostgresTransaction]):
    """The common part of a view and a change."""

    __slots__ = ("_backend", "connection", "view")

    def __init__(self, backend: PostgresBackend) -> None:
        self._backend = backend
        self.connection: Connection | None = None
        self.view: PostgresTransaction | None = None

    def undo(self, error: BaseException | None = None) -> None:
        self._over(clean=False)

    def _over(self, *, clean: bool, ended: bool = False) -> None:
        backend = self._backend
        if os.getpid() != backend._pid:
            return  # forked inside the block: the transaction is the parent's
        if backend._current.block is self:
            backend._current.block = None
        connection, self.connection = self.connection, None
        if connection is None:
            return
        if clean and not ended:
            try:
                connection.abandon("ROLLBACK")
            except StorageError:
                clean = False  # the connection is thrown away; the next one shows what is wrong
        backend._give(connection, clean=clean)


@final
class _Reading(_Transaction):
    """The block of one view."""

    __slots__ = ()

    def begin(self) -> PostgresTransaction:
        backend = self._backend
        backend._check_open()
        outer = backend._inside()
        if outer is not None and outer.view is not None:
            return outer.view
        backend._current.block = self
        self.connection = connection = backend._take()
        connection.execute(_VIEW)
        session = PostgresSession(connection, backend.path, backend._numbers, backend._peers, ahead=True)
        self.view = PostgresTransaction(session, schema=backend.schema)
        return self.view

    def end(self, error: BaseException | None) -> None:
        self._over(clean=_clean(error))


@final
class _Writing(_Transaction):
    """The block of one change."""

    __slots__ = ("joinable",)

    def __init__(self, backend: PostgresBackend, *, joinable: bool = False) -> None:
        super().__init__(backend)
        #: Whether others of this thread are parts of it.
        self.joinable = joinable

    def begin(self) -> PostgresTransaction:
        backend = self._backend
        if backend._inside() is not None:
            backend._check_open()
            raise InvariantBroken("writing() inside another transaction of the same thread")
        backend._current.block = self
        self.connection = connection = backend._take()
        for text in backend._begin:
            connection.execute(text)
        others, backend._others = backend._others, backend.data_version()
        # Of what is committed while this one waits for its turn to write, nothing is known yet.
        alone = others == backend._others and backend._peers.share.count == 1
        backend._peers.changed()
        session = PostgresSession(connection, backend.path, backend._numbers, backend._peers, ahead=False, alone=alone)
        self.view = view = PostgresTransaction(session, schema=backend.schema)
        return view

    def end(self, error: BaseException | None) -> None:
        backend = self._backend
        if os.getpid() != backend._pid:
            if error is None:
                backend._check_open()
            return
        clean = ended = False
        try:
            connection = self.connection
            if error is None and connection is not None:
                connection.execute(backend._notify)
                connection.execute("COMMIT")
                backend._commits += 1  # also when it is interrupted here: a reader that compares looks once too often
                connection.sync()
                clean = ended = True
                if self.view is not None:
                    self.view.decisions.learn()
        except ConductorliteError:
            clean = True
            backend._numbers.clear()  # they may be those of executions that are no more
            raise
        finally:
            self._over(clean=clean or (error is not None and _clean(error)), ended=ended)
