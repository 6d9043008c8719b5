"""Marks of turns under way, in a folder beside the database: `Marks`.

Each backend that marks anything has one file there, locked for as long as its process lives: the kernel drops such a lock with the
process, whatever ended it, and a forked child does not inherit it. A mark is 32 bytes written into the file, without a sync. A file
that can be locked is of a process that has died, and what is marked in it is what it died in.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conductorlite.model.threads import Mutex

__all__ = ["FileMarks"]

_SIZE: Final = 32
_FREE: Final = bytes(_SIZE)

#: Files that one process may have: one for each backend that marks anything.
_TRIES: Final = 1_000

#: What a process that died has left is kept for so long, seconds: nobody has come to that turn again.
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
        """How many files of dead processes have the mark."""
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
                with contextlib.suppress(OSError):
                    for place, found in enumerate(marks):
                        if found == mark:
                            os.pwrite(file, _FREE, place * _SIZE)
                    if all(found in (mark, _FREE) for found in marks):
                        path.unlink()

    def close(self) -> None:
        """Remove the own file, and the folder when nobody else has one; in a forked child nothing."""
        with self._lock.held():
            file, self._file, self._useless = self._file, None, True
            self._slots.clear()
            if file is None or os.getpid() != self._pid:
                return
            with contextlib.suppress(OSError):
                (self._folder / self._name).unlink()
            os.close(file)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    # -- files ---------------------------------------------------------------------------------------------------------

    def _mark(self, key: str) -> bytes:
        # A copy of the database has another inode, and nobody has died in its turns.
        return hashlib.sha256(f"{self._store}\0{key}".encode()).digest()

    def _write(self, place: int) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk: this turn goes unmarked
                os.pwrite(self._file, self._slots[place], place * _SIZE)

    def _ready(self) -> bool:
        if self._file is not None or self._useless:
            return not self._useless and os.getpid() == self._pid
        try:
            self._process, self._store = _process(), str(Path(self._path).stat().st_ino)
            if any(self._made(number) for number in range(_TRIES)):
                self._sweep()
                return True
            problem = "its files cannot be locked"
        except (OSError, ImportError) as error:
            problem = str(error)
        self._useless = True
        told = "%s: turns cannot be marked (%s); one that ends its process will be taken again whenever it is due"
        with contextlib.suppress(Exception):  # a handler of the user's that raises
            logging.getLogger("conductorlite").warning(told, self._folder, problem)
        return False

    def _made(self, number: int) -> bool:
        """Whether a file was made, and locked before anybody took it away; not when another backend has that number."""
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
            with contextlib.suppress(OSError):
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
            return []

    def _sweep(self) -> None:
        """Remove what the dead have left in which nothing is marked, or that is old."""
        for path, file, marks in self._dead(None):
            with contextlib.suppress(OSError):
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
        return False
    return True


def _process() -> str:
    """What tells this process from all that live; a number alone may be another's in another container."""
    try:
        begun = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
        return f"{os.getpid()}-{begun}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except (OSError, IndexError):
        return str(os.getpid())
