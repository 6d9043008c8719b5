"""The sign that a holder is alive: a lock on a file of its own, which the kernel drops with its process.

Never on the database: to close any descriptor of that drops SQLite's own locks. A POSIX lock (`lockf`) is its process's, and no
forked child's; it is dropped too when its process closes any other descriptor of the file, so a process never opens a second time
what it has locked itself. The lock says nothing to another kernel, or through another mount of the same storage: a place names
the kernel, the device and the file's number, and whoever does not see the same three cannot look there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from conductorlite.store.tables import Life

__all__ = ["Presences", "SQLitePresence", "this_kernel"]

if sys.platform != "win32":
    import fcntl


#: What a file says whose holder went of its own will.
_LEFT: Final = b"left\n"

_SUFFIX: Final = ".lock"

#: How often a file is made again in a folder that somebody has just removed because it was empty.
_TRIES: Final = 16


class _Own:
    """Which files this process has locked. Locks are the process's, so this is too."""

    def __init__(self) -> None:
        self.files: set[tuple[int, int]] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        # A new set: presences of the parent, copied into the child, keep the old one, and know by that whose they are.
        self.files = set()


_own: Final = _Own()


def this_kernel() -> str:
    """What tells the running kernel from every other one, and from itself before it was started anew; empty: not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return _boot_session() if sys.platform == "darwin" else ""


def _boot_session() -> str:
    """The same on macOS."""
    import ctypes

    try:
        text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
        failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (OSError, AttributeError):
        return ""
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
        with suppress(OSError):
            self._file, self._path = _made(folder)
            seen = os.fstat(self._file)
            self._key = (seen.st_dev, seen.st_ino)
            # From before it is locked: nobody in this process may open it any more.
            self._files.add(self._key)
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.place = f"{kernel}/{seen.st_dev}/{seen.st_ino}/{self._path.name}"
        if not self.place:
            self.remove()

    def leave(self) -> None:
        """End it, telling that the holder went of its own will; in a forked child, nothing."""
        if self._file >= 0 and self._files is _own.files:
            with suppress(OSError):
                os.write(self._file, _LEFT)
            self.die()

    def die(self) -> None:
        """End it as the death of its process would."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
            self._files.discard(self._key)

    def remove(self) -> None:
        """End it and leave no trace."""
        if self._files is _own.files:
            path, self._path = self._path, None
            if path is not None:
                _removed(path)
            self.die()


def _made(folder: Path) -> tuple[int, Path]:
    for _ in range(_TRIES):
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            file, name = tempfile.mkstemp(suffix=_SUFFIX, dir=folder)
            return file, Path(name)
    raise FileNotFoundError(folder)


def _removed(path: Path) -> None:
    """Remove a file, and its folder when that is empty."""
    with suppress(OSError):
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
        """What is known of a holder by its place."""
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
            return Life.ELSEWHERE
        try:
            # Shared: two that look at once do not take each other for the holder.
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return Life.LEFT if os.read(file, len(_LEFT)) == _LEFT else Life.DEAD
        except BlockingIOError:
            return Life.ALIVE
        except OSError as error:
            return Life.ALIVE if isinstance(error, PermissionError) else Life.ELSEWHERE
        finally:
            os.close(file)

    def forget(self, place: str) -> None:
        """Remove what a holder that is no more has left."""
        name = place.rpartition("/")[2]
        if name.endswith(_SUFFIX):
            _removed(self._folder / name)
