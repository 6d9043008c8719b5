"""Opening a file without touching one that is not ours, and naming what went wrong in the words of `errors`."""

from __future__ import annotations

import os
import sqlite3
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import attrs

from conductorlite.model.errors import (
    ConductorliteError,
    EngineClosed,
    InvariantBroken,
    SchemaTooNew,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    TooManyOpenFiles,
)
from conductorlite.model.later import functions
from conductorlite.model.threads import NO_FILE, Mutex, Waiter
from conductorlite.store.payloads import make_private
from conductorlite.store.sqlite.callbacks import callback, raise_interruption
from conductorlite.store.sqlite.history import journal_text
from conductorlite.store.sqlite.identity import OpenFiles
from conductorlite.store.sqlite.schema import APPLICATION_ID, VERSION, migrate, refuse_newer
from conductorlite.store.sqlite.statements import Counts, counting_connection

if TYPE_CHECKING:
    from conductorlite.store.query import fits
else:
    (fits,) = functions("conductorlite.store.query", "fits")

__all__ = ["FAILURES", "Settings", "begin_shared", "open_reader", "open_writer", "release", "translated"]

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
#: How a rollback journal begins; bytes 16 to 19 of it are the pages the database had before.
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_HEADER_BYTES: Final = 28
#: The log is cut back to this size after a checkpoint, bytes.
_JOURNAL_LIMIT: Final = 16 * 1024 * 1024
_WAL_TRIES: Final = 50
#: The byte of the shared index of the log that a writer locks.
_WRITE_LOCK: Final = 120
#: How long an opening waits at least for another one that is making the same store, ms: synced, on a busy disk.
_MAKING_MS: Final = 30_000

#: How soon a file that others write too is asked for again, seconds, how much later each time, and how late at most.
_PAUSE_S: Final = 0.0005
_SLOWER: Final = 1.02
_PAUSE_MOST_S: Final = 0.01

_MEANING: Final[dict[int, tuple[type[ConductorliteError], str]]] = {
    sqlite3.SQLITE_BUSY: (StorageBusy, "{holder} holds the database"),
    sqlite3.SQLITE_LOCKED: (StorageBusy, "{holder} holds a table of the database"),
    sqlite3.SQLITE_FULL: (StorageFull, "the disk or the quota of the database is full"),
    sqlite3.SQLITE_IOERR_SHMSIZE: (StorageFull, "there is no room for what processes share of the database"),
    sqlite3.SQLITE_READONLY: (StorageReadOnly, "the database cannot be written"),
    sqlite3.SQLITE_PERM: (StorageReadOnly, "the database cannot be written"),
    sqlite3.SQLITE_CANTOPEN: (StorageReadOnly, "the database or its folder cannot be opened for writing"),
    sqlite3.SQLITE_CORRUPT: (StorageCorrupt, "the database is damaged"),
    sqlite3.SQLITE_NOTADB: (StorageCorrupt, "this is not a SQLite database"),
    sqlite3.SQLITE_CONSTRAINT: (InvariantBroken, "rows contradict the store"),
    sqlite3.SQLITE_MISUSE: (EngineClosed, "the engine was closed, and its store with it; open another one"),
}

#: What SQLite, and Python's module for it, say without a code of their own about a file that is not as it was made.
_DAMAGE: Final = (
    *("Could not decode to UTF-8", "malformed database schema", "no such table", "no such column", "no such index"),
    "user-defined function raised exception",
)


@attrs.frozen(kw_only=True, slots=True)
class Settings:
    """How connections to one file are opened."""

    path: str
    synchronous: Literal["FULL", "NORMAL"]
    busy_timeout_ms: int
    max_size_bytes: int | None
    counts: Counts | None
    files: OpenFiles


class _Opened:
    """The databases that this process has open. Closing any other descriptor of one drops the locks that SQLite holds on it.

    POSIX locks are the process's, and so is this. A store that no engine keeps any more is not counted, closed or not.
    """

    def __init__(self) -> None:
        self._forked()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.mutex = Mutex()  # another thread of the parent may have held it
        self._files: dict[tuple[int, int], list[weakref.ref[Settings]]] = {}

    def add(self, settings: Settings) -> None:
        with suppress(OSError):  # no file any more: nobody can open it a second time
            self._files.setdefault(_key(settings.path), []).append(weakref.ref(settings))

    def has(self, path: str) -> bool:
        try:
            known = self._files.get(_key(path), [])
        except OSError:
            return False  # no file there, so none that is open
        return any(settings() is not None for settings in known)

    def discard(self, settings: Settings | None) -> None:
        """Forget a store, and those that no longer exist."""
        for key, known in list(self._files.items()):
            known[:] = [one for one in known if one() is not None and one() is not settings]
            if not known:
                del self._files[key]


def _key(path: str) -> tuple[int, int]:
    seen = Path(path).stat()
    return seen.st_dev, seen.st_ino


def release(settings: Settings) -> None:
    """Note that every connection made with these settings is closed."""
    with _opened.mutex.held():
        _opened.discard(settings)


#: What Python's module for SQLite raises; the second of what is damaged so that no message can be made of it.
FAILURES: Final = (sqlite3.Error, UnicodeDecodeError)

#: So many files a connection has, and a copy of a store, at most.
_NEEDED: Final = 8


def translated(error: sqlite3.Error | UnicodeDecodeError, path: str) -> ConductorliteError:
    """Return the public error for a failure of SQLite; its text names the file.

    Raises an interruption of a function that SQLite has called, as Ctrl-C.
    """
    if isinstance(error, UnicodeDecodeError):
        return StorageCorrupt(f"{path}: the database is damaged (a text is not UTF-8: {error})")
    raise_interruption(error)
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None and "closed" in str(error):  # raised by the sqlite3 module itself, without a code
        return EngineClosed(f"{path}: the engine was closed, and its store with it; open another one")
    code = code or 0
    kind, meaning = _MEANING.get(code) or _MEANING.get(code & 0xFF, (StorageError, "the database could not be used"))
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN and _is_out_of_files():
        kind, meaning = TooManyOpenFiles, "the system opens no further file for it"
    if kind is StorageError and str(error).startswith(_DAMAGE):
        kind, meaning = StorageCorrupt, "the database is damaged"
    elif kind is StorageBusy:
        meaning = meaning.format(holder=_holder(path))
    return kind(f"{path}: {meaning} ({error})")


def _holder(path: str) -> str:
    """Return the processes that hold the lock of a database, where the system lists them: Linux does, by file and bytes."""
    pids: set[int] = set()
    for name in (path, f"{path}-shm"):
        with suppress(OSError, ValueError, IndexError):  # another system, or no such file
            inode = Path(name).stat().st_ino
            for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
                # 1: POSIX  ADVISORY  WRITE 1234 08:01:5678 120 120
                if " -> " in line:
                    continue  # one who waits for the lock above
                _, kind, _, access, pid, file, first, last = line.split()[:8]
                writes = name == path or (int(first) <= _WRITE_LOCK and last in (str(_WRITE_LOCK), "EOF"))
                if kind == "POSIX" and access == "WRITE" and writes and int(file.rpartition(":")[2]) == inode:
                    pids.add(int(pid))
    if not pids:
        return "another process, or another connection of this one,"
    if pids == {os.getpid()}:
        return "another connection of this process"
    others = sorted(pids - {os.getpid()})
    return f"another process ({others[0]})" if others[0] > 0 else "another process"


def _is_out_of_files() -> bool:
    """Return True if the few files that a connection needs cannot be opened: SQLite does not say why it could not."""
    opened: list[int] = []
    try:
        for _ in range(_NEEDED):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:  # that is the answer
        return error.errno in NO_FILE
    finally:
        for file in opened:
            os.close(file)
    return False


def open_writer(settings: Settings) -> sqlite3.Connection:
    """The connection that writes: the file checked, its schema brought up to date, in WAL mode.

    While a store is being made, another process that opens it waits up to 30 s, or the busy timeout if that is longer.
    Raises StorageReadOnly, StorageCorrupt, SchemaTooNew with nothing changed; StorageBusy, StorageFull, StorageError.
    """
    path = settings.path
    settings.files.opening()  # before a file is made where the opened one was deleted
    _check_writable(path)
    with _opened.mutex.held():  # no thread of this process opens the file between the look at it and its entry
        made = not _opened.has(path) and _check_header(path)
        make_private(path)
        settings.files.opening()
        _opened.discard(settings)
        _opened.add(settings)
    try:
        connection = _connect(settings)
        try:
            if not made:
                connection.execute(f"PRAGMA busy_timeout = {max(_MAKING_MS, settings.busy_timeout_ms)}")
            migrate(connection, path)
            _enter_wal(connection, path)
            # Reads once more: SQLite takes a table that was renamed for locked till then, and checkpoints nothing.
            refuse_newer(connection, path)
            connection.execute(f"PRAGMA busy_timeout = {settings.busy_timeout_ms}")
            connection.execute(f"PRAGMA synchronous = {settings.synchronous}")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
            if settings.max_size_bytes is not None:
                page_size = connection.execute("PRAGMA page_size").fetchone()[0]
                connection.execute(f"PRAGMA max_page_count = {max(1, settings.max_size_bytes // page_size)}")
            settings.files.opened()
        except BaseException:
            connection.close()
            raise
    except FAILURES as error:
        raise translated(error, path) from error
    return connection


_opened: Final = _Opened()


def begin_shared(connection: sqlite3.Connection, busy_timeout_ms: int) -> None:
    """Begin a change of a file that others write too; raises sqlite3.OperationalError when another writer held it for so long.

    It is tried again soon: SQLite pauses for longer each time, up to 100 ms, and mostly looks when the next writer has begun.
    """
    pause, waited = _PAUSE_S, 0.0
    connection("PRAGMA busy_timeout = 0")  # it takes effect when it is compiled: a statement that is remembered would not
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited * 1000 >= busy_timeout_ms:
                    raise
            Waiter().wait(pause)
            waited += pause
            pause = min(pause * _SLOWER, _PAUSE_MOST_S)
    finally:
        connection(f"PRAGMA busy_timeout = {busy_timeout_ms}")


def open_reader(settings: Settings) -> sqlite3.Connection:
    """A connection that only reads, beside the writer's; raises StorageReplaced, sqlite3 errors as they come."""
    connection = _connect(settings)
    try:
        connection.execute("PRAGMA query_only = 1")
        settings.files.check()  # it was opened by its path
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(settings: Settings) -> sqlite3.Connection:
    connection = sqlite3.connect(
        settings.path,
        timeout=settings.busy_timeout_ms / 1000,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=sqlite3.Connection if settings.counts is None else counting_connection(settings.counts),
    )
    connection.execute("PRAGMA trusted_schema = 0")
    connection.create_function("fits", 2, callback(fits), deterministic=True)
    connection.create_function("journal_text", 1, callback(journal_text), deterministic=True)
    return connection


def _check_writable(path: str) -> None:
    file = Path(path)
    folder = file.parent
    try:
        is_folder, folder_exists = file.is_dir(), folder.is_dir()
    except PermissionError as error:
        raise StorageReadOnly(f"{path}: it cannot be reached ({error})") from error
    if is_folder:
        raise StorageReadOnly(f"{path}: this is a folder, not a database file")
    if not folder_exists:
        raise StorageReadOnly(f"{path}: the folder {folder} does not exist")
    # The folder too: SQLite keeps the log beside the file.
    for place in (folder, file):
        if place.exists() and not os.access(place, os.W_OK):
            raise StorageReadOnly(f"{path}: {place} cannot be written")


def _check_header(path: str) -> bool:
    """Return True if the file is a store that is made: up to date and in WAL mode.

    Reads the first bytes without SQLite, which could roll back or checkpoint what is not ours.
    """
    try:
        with Path(path).open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return False
    except OSError as error:
        kind = TooManyOpenFiles if error.errno in NO_FILE else StorageReadOnly
        raise kind(f"{path}: {error.strerror}") from error
    if not header or _unborn(path):
        return False
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StorageCorrupt(f"{path}: this is not a SQLite database")
    application = int.from_bytes(header[68:72])
    version = int.from_bytes(header[60:64])
    in_wal_mode = header[18] == 2
    if application == APPLICATION_ID:
        if version > VERSION:
            raise SchemaTooNew(f"{path}: written with schema {version}; this conductorlite knows up to {VERSION}")
    elif application or in_wal_mode:  # our own are marked before they enter WAL mode
        raise StorageCorrupt(f"{path}: this is the database of another application (application_id {application})")
    return version == VERSION and in_wal_mode


def _unborn(path: str) -> bool:
    """Return True if the power was cut while the file was first written: its journal says that it was empty before.

    The system may then have kept later pages and not the first. SQLite rolls it back to the empty file it was.
    """
    try:
        with Path(f"{path}-journal").open("rb") as file:
            journal = file.read(_JOURNAL_HEADER_BYTES)
    except OSError:
        return False  # no journal; SQLite itself reports one that cannot be read
    return len(journal) == _JOURNAL_HEADER_BYTES and journal.startswith(_JOURNAL_MAGIC) and not any(journal[16:20])


def _enter_wal(connection: sqlite3.Connection, path: str) -> None:
    """Switch to WAL; when others open the file too, SQLite may refuse at once, whatever the busy timeout."""
    mode = ""
    for attempt in range(_WAL_TRIES):
        try:
            mode = str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or attempt == _WAL_TRIES - 1:
                raise
            connection.execute("BEGIN EXCLUSIVE")  # waits for the others, within the busy timeout
            connection.execute("ROLLBACK")
        else:
            break
    if mode != "wal":
        raise StorageError(f"{path}: the file system does not support WAL (mode {mode!r}; a network folder?)")


def ended(connection: sqlite3.Connection, *, clean: bool) -> bool:
    """End whatever transaction is open; False when the connection is closed then.

    One whose block was not left in a `clean` way is of no use any more: the frames of the exception may keep a statement that has
    not come to its end, and with it a view of the file after which no one could write.
    """
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if not clean:
            connection.close()
    except sqlite3.Error:
        return clean  # what is wrong with it, the next statement shows
    return clean


def is_clean(error: BaseException) -> bool:
    """Return True if an error leaves no statement behind: not one that came from the middle of reading."""
    return isinstance(error, ConductorliteError) and not isinstance(error, StorageError)
