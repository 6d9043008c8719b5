"""The processes at work on a store: whether they live, and what they died in. Files beside the database, each locked by its owner.

Presence: the sign that a holder is alive: a lock on a file of its own, which the kernel drops with its process.

Never on the database: to close any descriptor of that drops SQLite's own locks. A POSIX lock (`lockf`) is its process's, and no
forked child's; it is dropped too when its process closes any other descriptor of the file, so a process never opens a second time
what it has locked itself. The lock says nothing to another kernel, or through another mount of the same storage: a place names
the kernel, the device and the file's number, and a process that does not see the same three cannot look there.

Marks: marks of turns under way, in a folder beside the database: `Marks`.

Each backend that marks anything has one file there, locked for as long as its process lives: the kernel drops such a lock with the
process, whatever ended it, and a forked child does not inherit it. A mark is 32 bytes written into the file, without a sync. A file
that can be locked is of a process that has died, and what is marked in it is what it died in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from conductorlite.model.later import hashlib
from conductorlite.model.threads import Mutex
from conductorlite.store.tables import Life

__all__ = ["FileMarks", "Presences", "SQLitePresence", "this_kernel"]

if sys.platform != "win32":
    import fcntl


#: What a file says whose holder went of its own will.
_LEFT: Final = b"left\n"

_SUFFIX: Final = ".lock"

#: How often a file is made again in a folder that another process has just removed because it was empty.
_TRIES: Final = 16


class _Own:
    """The files that this process has locked. Locks belong to the process, so this does too."""

    def __init__(self) -> None:
        self.files: set[tuple[int, int]] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        # A new set: presences of the parent, copied into the child, keep the old one, and know by that whose they are.
        self.files = set()


_own: Final = _Own()


def this_kernel() -> str:
    """Return a text that identifies the running kernel until its restart; empty: not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # another system than Linux
        return _boot_session() if sys.platform == "darwin" else ""


def _boot_session() -> str:
    """Return the boot session on macOS, as `this_kernel` does."""
    import ctypes

    try:
        text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return ""  # not known: only the holder's lease counts
    return "" if failed else text.value.decode("ascii", "replace")


class SQLitePresence:
    """One locked file. Without a lock (no `fcntl`, a folder that cannot be written) only the holder's lease counts."""

    leased = True

    def __init__(self, folder: Path, kernel: str) -> None:
        self._path: Path | None = None
        self._file = -1
        #: Those of the process that made it: a forked child has others.
        self._files = _own.files
        self.place = ""
        if not kernel or sys.platform == "win32":
            return
        with suppress(OSError):  # without it the lease counts, which needs no file
            self._file, self._path = _made(folder)
            seen = os.fstat(self._file)
            self._key = (seen.st_dev, seen.st_ino)
            # From before it is locked: no thread of this process may open it any more.
            self._files.add(self._key)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.place = f"{kernel}/{seen.st_dev}/{seen.st_ino}/{self._path.name}"
        if not self.place:
            self.remove()

    def leave(self) -> None:
        """End it, recording that the holder ended by itself; in a forked child, nothing."""
        if self._file >= 0 and self._files is _own.files:
            with suppress(OSError):  # then it is taken for one that died: what it held is given back all the same
                os.write(self._file, _LEFT)
            self.die()

    def die(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
            self._files.discard(self._key)

    def remove(self) -> None:
        if self._files is _own.files:
            path, self._path = self._path, None
            if path is not None:
                _removed(path)
            self.die()


def _made(folder: Path) -> tuple[int, Path]:
    for _ in range(_TRIES):
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            path = folder / f"{os.urandom(8).hex()}{_SUFFIX}"
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), path
    raise FileNotFoundError(folder)


def _removed(path: Path) -> None:
    """Remove a file, and its folder when that is empty."""
    with suppress(OSError):  # another process has a file in it, or has removed it
        path.unlink(missing_ok=True)
        path.parent.rmdir()


class Presences:
    """The holders of one store, as far as they can be seen from here. `kernel` names the one this process runs on."""

    def __init__(self, folder: str, kernel: str | None) -> None:
        self._folder = Path(folder)
        self._kernel = kernel

    @property
    def kernel(self) -> str:
        """The running kernel; asked for once."""
        if self._kernel is None:
            self._kernel = this_kernel()
        return self._kernel

    def appear(self) -> SQLitePresence:
        """The presence of a new holder."""
        return SQLitePresence(self._folder, self.kernel)

    def look(self, place: str) -> Life:
        kernel, _, rest = place.partition("/")
        device, _, rest = rest.partition("/")
        number, _, name = rest.partition("/")
        if sys.platform == "win32" or not kernel or kernel != self.kernel or not device.isdecimal() or not number.isdecimal():
            return Life.ELSEWHERE
        key = (int(device), int(number))
        if key in _own.files:
            return Life.ALIVE
        path = self._folder / name
        try:
            # Looked at before it is opened: to close a file that this process has locked would free it.
            seen = path.stat()
            if (seen.st_dev, seen.st_ino) in _own.files:
                return Life.ALIVE
            if (seen.st_dev, seen.st_ino) != key:
                return Life.ELSEWHERE
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return Life.MISSING
        except OSError:
            return Life.ELSEWHERE  # it cannot be looked at from here: its lease decides
        try:
            # Shared: two that look at once do not take each other for the holder.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return Life.LEFT if os.read(file, len(_LEFT)) == _LEFT else Life.DEAD
        except BlockingIOError:
            return Life.ALIVE
        except OSError as error:  # locked by another user's process, or on a file system that cannot say
            return Life.ALIVE if isinstance(error, PermissionError) else Life.ELSEWHERE
        finally:
            os.close(file)

    def forget(self, place: str) -> None:
        name = place.rpartition("/")[2]
        if name.endswith(_SUFFIX):
            _removed(self._folder / name)


_SIZE: Final = 32
_FREE: Final = bytes(_SIZE)

#: Files that one process may have: one for each backend that marks anything.
_MOST_FILES: Final = 1_000

#: What a process that died has left is kept for so long, seconds: no process has come to that turn again.
_KEPT_S: Final = 30 * 86_400


class FileMarks:
    """The marks of one backend, and those of the dead. Does nothing where there is no `fcntl`, or nothing can be written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listed = f"{path}.marks"
        self._folder = Path(self._listed)
        self._pid = os.getpid()
        self._lock = Mutex()
        self._file: int | None = None
        self._name = self._process = self._store = ""
        self._slots: list[bytes] = []
        self._useless = False

    def deaths(self, key: str) -> int:
        """Return how many files of dead processes have the mark."""
        with self._lock.held():
            return sum(1 for _ in self._dead(self._mark(key))) if self._ready() else 0

    def begin(self, key: str) -> None:
        """Write the mark into a free place of the file."""
        with self._lock.held():
            if self._ready() and self._mark(key) not in self._slots:  # else it was left there by an interruption
                place = self._slots.index(_FREE) if _FREE in self._slots else len(self._slots)
                self._slots[place : place + 1] = [self._mark(key)]
                self._write(place)

    def end(self, key: str) -> None:
        """Free the place of the mark."""
        with self._lock.held():
            mark = self._mark(key)
            if mark in self._slots:
                place = self._slots.index(mark)
                self._slots[place] = _FREE
                self._write(place)

    def forget(self, key: str) -> None:
        """Take the mark out of the files of the dead; one without any other goes."""
        with self._lock.held():
            mark = self._mark(key)
            for path, file, marks in self._dead(mark) if self._ready() else ():
                with suppress(OSError):  # the mark counts once more, which parks an execution sooner, with its reason
                    for place, found in enumerate(marks):
                        if found == mark:
                            os.pwrite(file, _FREE, place * _SIZE)
                    if all(found in (mark, _FREE) for found in marks):
                        path.unlink()

    def close(self) -> None:
        """Remove the own file, and the folder when no other process has one; in a forked child nothing."""
        with self._lock.held():
            file, self._file, self._useless = self._file, None, True
            self._slots.clear()
            if file is None or os.getpid() != self._pid:
                return
            with suppress(OSError):  # the next process that opens the store sweeps it away
                (self._folder / self._name).unlink()
            os.close(file)
            with suppress(OSError):  # other processes have files in it
                self._folder.rmdir()

    # -- files ---------------------------------------------------------------------------------------------------------

    def _mark(self, key: str) -> bytes:
        # A copy of the database has another inode, and no process has died in its turns.
        return hashlib.sha256(f"{self._store}\0{key}".encode()).digest()

    def _write(self, place: int) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk: this turn goes unmarked
                os.pwrite(self._file, self._slots[place], place * _SIZE)

    def _ready(self) -> bool:
        if self._file is not None or self._useless:
            return not self._useless and os.getpid() == self._pid
        try:
            self._process, self._store = _process(), str(Path(self._path).stat().st_ino)
            if any(self._made(number) for number in range(_MOST_FILES)):
                self._sweep()
                return True
            problem = "its files cannot be locked"
        except (OSError, ImportError) as error:
            problem = str(error)
        self._useless = True
        warning = "%s: turns cannot be marked (%s); one that ends its process will be taken again whenever it is due"
        with suppress(Exception):  # a handler of the user's that raises
            import logging

            logging.getLogger("conductorlite").warning(warning, self._folder, problem)
        return False

    def _made(self, number: int) -> bool:
        """Return True if a file was made, and locked before another process removed it; False when a backend has that number."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._name = f"{self._process}.{number}"
        path = self._folder / self._name
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except (FileExistsError, FileNotFoundError):  # taken, or the folder went with the last one who had a file in it
            return False
        if _locked(file) and path.exists():
            self._file = file
            return True
        os.close(file)
        path.unlink(missing_ok=True)
        return False

    def _dead(self, mark: bytes | None) -> Iterator[tuple[Path, int, list[bytes]]]:
        """Files of the dead, open and locked, with their marks; given a mark, only those that have it."""
        # A file of this process must not be opened again: closing it would drop the lock that another backend has on it.
        mine = f"{self._process}."
        for name in self._names():
            if name.startswith(mine):
                continue
            path = self._folder / name
            with suppress(OSError):  # its process has just removed it
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    marks = _marks(file)
                    if (mark is None or mark in marks) and _locked(file):
                        yield path, file, marks
                finally:
                    os.close(file)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._listed)  # noqa: PTH208 - at every turn of foreign code, and a Path for each name costs more
        except OSError:
            return []  # there is no folder: nobody has marked anything

    def _sweep(self) -> None:
        """Remove what the dead have left in which nothing is marked, or that is old."""
        for path, file, marks in self._dead(None):
            with suppress(OSError):  # the next process that opens the store tries again
                old = os.fstat(file).st_mtime + _KEPT_S < (self._folder / self._name).stat().st_mtime
                if old or all(mark == _FREE for mark in marks):
                    path.unlink()


def _marks(file: int) -> list[bytes]:
    data = os.pread(file, os.fstat(file).st_size, 0)
    return [data[at : at + _SIZE] for at in range(0, len(data), _SIZE)]


def _locked(file: int) -> bool:
    import fcntl  # not on Windows

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # another process holds it
    return True


def _process() -> str:
    """Return a text that distinguishes this process from all that live. Another container may use the same process number."""
    try:
        begun = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
        return f"{os.getpid()}-{begun}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except (OSError, IndexError):  # another system than Linux
        return str(os.getpid())
