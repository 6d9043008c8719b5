"""What a store does with the disk: room kept for removals, a log that grows in steps, and copies of it.

Room kept beside the database, `orders.db.reserve` for `orders.db`, so that a full disk can be emptied by `remove`.

To delete a row SQLite writes pages to its log first, and to reuse the log it has to let the file grow by what the log has that the
file has no place for: the debt. As much as that takes is kept by a file of its own, which is removed when a removal finds no room,
and made again when there is some. A debt that is larger than usual is paid at once, so that the reserve is small: it covers that,
what one commit may add to it, and a removal. Where it cannot be paid, because the disk is all but full, the store may not grow
beyond what the reserve covers.

A log that grows with each commit has its length written by each sync, besides what is in it. So where commits are synced it is made
longer by many commits at once, with zeros: no frame begins with them, and SQLite reads no further than its frames go on. At the
length at which SQLite starts it again it stays.

Copies of a store that is in use: complete, or not there.

The copy is made by SQLite's online backup in one read transaction, which in WAL mode keeps no process waiting, into a file of
another name beside the target. It is synced and then linked to its name, which fails when there is something already.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import Final, Literal

from conductorlite.model.errors import AlreadyExists, PayloadLost, StorageCorrupt, StorageReadOnly
from conductorlite.model.later import shutil
from conductorlite.store.payloads import PRIVATE, make_private, sync_folder
from conductorlite.store.sqlite.connections import FAILURES, Settings, open_reader, translated

__all__ = ["Log", "Reserve", "copy"]

#: How the file begins; whatever else has its name is left alone.
_MAGIC: Final = b"conductorlite: room for removals\n"

#: It grows in steps of so many bytes.
_STEP: Final = 128 * 1024

#: Bytes at most: what the log holds when SQLite moves it into the file by itself, so what the file may still have to grow by.
_MOST: Final = 4 * 1024 * 1024

#: A debt of so many bytes waits until SQLite pays it by itself; it is looked at when the store has grown by as many.
_DEBT: Final = 64 * 1024

#: What opening the file and a removal take, bytes, and what part of the store besides: a removal changes more pages of a large one.
_REMOVAL: Final = 160 * 1024
_PART: Final = 64

#: Bytes given back to open the file: what SQLite needs to share the log between processes.
_OPENING: Final = _STEP

#: A file of so many bytes has something to remove, so it gets a reserve when it is opened; another one when it is written.
LARGE: Final = 1024 * 1024


#: After so many commits it is looked whether the reserve is still there.
_LOOK: Final = 16

_WRITING: Final = os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

#: The log is made longer when it has so many bytes, to a multiple of so many, and up to what SQLite starts it again at.
_GROWS: Final = 128 * 1024
_FURTHER: Final = 256 * 1024
_LONG: Final = 4 * 1024 * 1024

#: Not where the file system has fewer bytes left: there are better uses for them.
_ROOMY: Final = 16 * _LONG

#: How long it is is asked after so many commits; after more when so many times there was nothing to do. It is not asked by `stat`:
#: of a file whose times somebody has seen, Linux changes them at the next write, and the sync writes them, too.
_OFTEN: Final = 3
_SELDOM: Final = 32
_IN_VAIN: Final = 64


class Reserve:
    """The room kept for the removals of one store."""

    def __init__(self, path: str) -> None:
        self._path = Path(f"{path}.reserve")
        self._database = os.path.realpath(path)
        #: How large the store was after the last commit, and when it was last looked; what one commit has added to it at most.
        self._size = self._seen = self._commit = 0
        #: What asks for it, of one connection, and how many bytes a page has.
        self._cursor: sqlite3.Cursor | None = None
        self._page = 0
        #: How many pages it may have when it is not bounded for want of room; None when it is not.
        self._pages: int | None = None
        #: How long the file was when it was last seen to be ours.
        self._ours = 0
        #: The room is given back, and not kept again yet; there is too little for all that should be kept.
        self._tight = self._short = False

    def measured(self, writer: sqlite3.Connection) -> int:
        """Return how many bytes the store has, the log included: asked before a commit, which has the locks that this needs."""
        if self._cursor is None or self._cursor.connection is not writer:
            self._cursor, self._page = sqlite3.Cursor(writer), _number(writer, "page_size")
        pages: int = self._cursor.execute("PRAGMA page_count").fetchone()[0]  # not counted
        return self._page * pages

    def look(self, writer: sqlite3.Connection, commits: int, size: int) -> None:
        """After a commit: have the reserve grow with the store, and never fall behind what the log has for it."""
        try:
            if size > self._size:
                if not self._size:
                    self._size = self._seen = min(size, _bytes(self._database))
                self._commit = max(self._commit, size - self._size)
                self._size = size
            if size < self._seen + _DEBT and commits % _LOOK and not (self._tight or self._short or self._pages):
                return
            self._seen = size
            held = self.keep(size)
            if held and self._tight:
                self._tight = False
                sqlite3.Cursor(writer).execute("PRAGMA wal_autocheckpoint = 1000")
            debt = size - _bytes(self._database)
            if self._tight or self._short or debt > _DEBT:
                self._reuse_log(writer)
                debt = size - _bytes(self._database)
            if debt > _DEBT and debt > _free(self._path.parent):  # else it waits for a long view
                self._confine(writer, max(size, size - debt + held - _REMOVAL))
            elif self._pages is not None:
                self._confine(writer, None)
        except (OSError, sqlite3.Error):
            return  # the commit is done

    def opened(self, writer: sqlite3.Connection) -> None:
        """Bound a connection that stands for one that failed, if there is still no more room than it had."""
        if self._pages is not None:
            with suppress(sqlite3.Error):  # the next commit looks again
                self.look(writer, 0, self.measured(writer))

    def make_room(self, writer: sqlite3.Connection) -> bool:
        """Give the room back and reuse the log; whether there may be more room now. sqlite3 errors as they come."""
        if self._pages is not None:
            self._confine(writer, None)
        made = self.release()
        self._tight |= made
        if self._tight:
            # It would not look for the room that it needs before it takes what there is.
            writer.execute("PRAGMA wal_autocheckpoint = 0")
        # Else what is deleted is written once more as zeros, wherever SQLite was built so.
        writer.execute("PRAGMA secure_delete = FAST")
        return self._reuse_log(writer) or made

    def _confine(self, writer: sqlite3.Connection, size: int | None) -> None:
        """Have the store not grow beyond so many bytes, or do as it did before."""
        most = self._pages or _number(writer, "max_page_count")
        _number(writer, f"max_page_count = {most if size is None else min(most, size // _number(writer, 'page_size'))}")
        self._pages = None if size is None else most

    def _reuse_log(self, writer: sqlite3.Connection) -> bool:
        """Have the log start again where there is room for what the file grows by; else it would take what there is, and fail."""
        if self.measured(writer) - _bytes(self._database) > _free(self._path.parent):
            return False
        return int(sqlite3.Cursor(writer).execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[2]) > 0

    def keep(self, size: int) -> int:
        """Keep enough for a store of `size` bytes, never more than stays free beside it; how many bytes are kept."""
        need = 2 * _DEBT + _REMOVAL + self._commit + size // _PART if size else 0
        wanted = min(_MOST, (need // _STEP + 1) * _STEP)
        try:
            if wanted <= self._ours == _bytes(str(self._path)):
                return self._ours
        except OSError:
            pass  # it is not there, or cannot be looked at
        held = self._held()
        self._ours = held or 0
        if held is not None and held < wanted:
            allowed = min(wanted, (_free(self._path.parent) + held) // 2 // _STEP * _STEP)
            if held < allowed:
                with suppress(OSError):  # what it has then is measured below
                    self._grow(allowed)
            self._ours = self._held() or 0
        self._short = held is not None and self._ours < wanted
        return self._ours

    def _grow(self, wanted: int) -> None:
        file = os.open(self._path, _WRITING | os.O_CREAT, PRIVATE)
        try:
            at = held = os.fstat(file).st_size
            os.lseek(file, held, os.SEEK_SET)
            while at < wanted:
                # By chance, or a file system that compresses would keep no room for it.
                data = os.urandom(min(_STEP, wanted - at))
                written = os.write(file, data if at else _MAGIC + data[len(_MAGIC) :])
                at += written
                if written < len(data):  # another program took the room
                    os.ftruncate(file, held)
                    break
        finally:
            os.close(file)

    def release(self) -> bool:
        """Give all of it back; whether there was any."""
        if not self._held():
            return False
        with suppress(OSError):  # the caller raises that the disk is full
            self._path.unlink()
            return True
        return False

    def lower(self) -> bool:
        """Give back what it takes to open the store; whether there was any."""
        held = self._held()
        if not held:
            return False
        if held <= _OPENING:
            return self.release()
        with suppress(OSError):  # the caller raises that the disk is full
            os.truncate(self._path, held - _OPENING)
            return True
        return False

    def _held(self) -> int | None:
        """How many bytes it has; None when the file is another program's."""
        try:
            size = self._path.stat().st_size
            if size == 0:
                return 0
            with self._path.open("rb") as file:
                return size if file.read(len(_MAGIC)) == _MAGIC else None
        except FileNotFoundError:
            return 0
        except OSError:
            return None  # not to be read: it is left alone, as another program's is


class Log:
    """The log of one store: where commits are not synced, it grows as it does."""

    def __init__(self, path: str, synchronous: Literal["FULL", "NORMAL"]) -> None:
        self._path = f"{path}-wal"
        self._folder = Path(path).parent
        #: Before so many commits it is not looked at again; how many looks have found nothing to do.
        self._next: float = 0 if synchronous == "FULL" else inf
        self._in_vain = 0

    def grow(self, commits: int) -> None:
        """Make it longer when a commit has; before a commit, in its write: nobody else adds to it meanwhile."""
        if commits < self._next:
            return
        self._next = commits + (_OFTEN if self._in_vain < _IN_VAIN else _SELDOM)
        self._in_vain += 1
        try:
            file = os.open(self._path, _WRITING | os.O_APPEND)
        except OSError:
            return  # the commit says what is wrong
        try:
            size = os.lseek(file, 0, os.SEEK_END)
            # SQLite has it end behind a frame, so a multiple is what it was made.
            if _GROWS <= size < _LONG and size % _FURTHER and _free(self._folder) >= _ROOMY:
                os.write(file, bytes((size + _FURTHER // 2) // _FURTHER * _FURTHER + _FURTHER - size))
                self._in_vain = 0
        except OSError:
            pass  # it only saves time; the commit reports what is wrong
        finally:
            os.close(file)


def _free(folder: Path) -> int:
    """Return how many bytes the file system of a folder has left."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0  # not known: nothing is taken


def _bytes(path: str) -> int:
    return os.stat(path).st_size  # noqa: PTH116 - at every commit, and a Path costs more


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    """Return the number that a pragma reports; not counted as a statement."""
    return int(sqlite3.Cursor(connection).execute(f"PRAGMA {pragma}").fetchone()[0])


#: How often a copy is made again because documents it refers to were removed meanwhile.
_TRIES: Final = 3


def copy(settings: Settings, path: str, *, documents: bool) -> None:
    """Copy the store and its documents; see `SQLiteBackend.backup` for what is raised."""
    target = Path(path).absolute()
    for place in (target, Path(f"{target}.payloads")):
        if os.path.lexists(place):
            raise AlreadyExists(f"{place}: there is something already; a copy never replaces anything")
    if not target.parent.is_dir():
        raise StorageReadOnly(f"{target}: the folder {target.parent} does not exist")
    part = target.with_name(f"{target.name}.part-{os.getpid()}-{threading.get_ident()}")
    folder = Path(f"{part}.payloads")
    shutil.rmtree(folder, ignore_errors=True)  # of one who had this number and was killed
    try:
        for _ in range(_TRIES):
            part.unlink(missing_ok=True)
            _copy_rows(settings, part)
            if not documents or _copy_documents(settings.path, part, folder):
                break  # else one was removed meanwhile; what is missing every time is missing in the store itself
        if folder.is_dir():
            folder.rename(f"{target}.payloads")
        try:
            os.link(part, target)  # not a rename: that would replace what another program has put there meanwhile
        except FileExistsError:
            shutil.rmtree(f"{target}.payloads", ignore_errors=True)
            raise
        except OSError:  # a file system without links
            part.rename(target)
        sync_folder(target.parent)
    except FileExistsError:
        raise AlreadyExists(f"{target}: another program has put something there meanwhile") from None
    except OSError as error:
        raise StorageReadOnly(f"{target}: the copy could not be written ({error.strerror or error})") from error
    finally:
        for left in (part, Path(f"{part}-wal"), Path(f"{part}-shm"), Path(f"{part}-journal")):
            with suppress(OSError):  # mostly it was never there
                left.unlink()
        shutil.rmtree(folder, ignore_errors=True)


def _copy_rows(settings: Settings, part: Path) -> None:
    make_private(part)
    try:
        with closing(open_reader(settings)) as reader, closing(sqlite3.connect(part, isolation_level=None)) as copied:
            reader.backup(copied)
            found = copied.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StorageCorrupt(f"{settings.path}: the database is damaged, so is its copy ({found})")
    except FAILURES as error:
        raise translated(error, settings.path) from error
    with part.open("rb+") as file:
        os.fsync(file.fileno())


def _copy_documents(path: str, part: Path, folder: Path) -> bool:
    """Copy what the rows of the copy refer to; whether nothing was missing."""
    from conductorlite.store.payloads import LocalPayloads

    source = Path(f"{path}.payloads")
    whole = True
    held, copied = LocalPayloads(source), LocalPayloads(folder)
    with closing(sqlite3.connect(f"file:{part}?immutable=1", uri=True)) as rows:
        for (key,) in rows.execute("SELECT DISTINCT key FROM external_payloads ORDER BY key"):
            try:
                copied.put(key, held.get(key))
            except PayloadLost:
                whole = False  # the caller copies again, as often as that may help
    return whole
