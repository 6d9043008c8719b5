"""Where documents are stored that are too large for the store: bytes by key, and no opinion on what they are.

In this process's memory, where nothing survives it; or in a folder, one file each, written whole, then put in its place. A key
becomes the path of a file, so it is looked at.

Files that only their owner may read: what a store keeps may be anything.

A file that is there keeps its mode, and so do those that SQLite makes beside it, which take the database's.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Final, final

from conductorlite.model.errors import InvalidInput, PayloadLost, PayloadUnavailable
from conductorlite.model.later import pattern
from conductorlite.store.ports import PayloadStorage
from conductorlite.store.tables import ExternalStorageLocation, StoredPayload

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "PRIVATE",
    "PRIVATE_FOLDER",
    "LocalPayloads",
    "MemoryPayloads",
    "checked_key",
    "checked_operation",
    "make_private",
    "open_payloads",
    "sync_folder",
]

PRIVATE: Final = 0o600
PRIVATE_FOLDER: Final = 0o700


def make_private(path: str | os.PathLike[str]) -> None:
    """Make an empty file that only its owner may read and write, unless there is one; where it cannot be made nothing happens."""
    # Of a link that points nowhere the place it points to. Never opens what is there: closing it would drop SQLite's locks.
    with suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), PRIVATE))


_KEY: Final = pattern(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


def checked_key(key: str) -> str:
    """A key that names a place inside the storage; raises InvalidInput."""
    if not _KEY.fullmatch(key) or len(key) > 255:
        raise InvalidInput(f"{key[:80]!r} is not a key of a payload storage")
    return key


def checked_operation(operation: str) -> str:
    """READ or WRITE; raises InvalidInput."""
    if operation not in ("READ", "WRITE"):
        raise InvalidInput(f"operation {operation!r} is neither READ nor WRITE")
    return operation


@final
class MemoryPayloads:
    """A payload storage in memory. Thread-safe, for each call is one step of a dict."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes in place of what was there."""
        self._held[checked_key(key)] = bytes(data)

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        try:
            return self._held[key]
        except KeyError:
            raise PayloadLost(key, "is missing in memory") from None

    def size(self, key: str) -> int:
        """Return how many bytes there are; raises PayloadLost when there are none."""
        try:
            return len(self._held[key])
        except KeyError:
            raise PayloadLost(key, "is missing in memory") from None

    def delete(self, key: str) -> None:
        """Forget the bytes, if there are any."""
        self._held.pop(key, None)

    def list(self) -> Iterator[StoredPayload]:
        """Every object there is."""
        return iter([StoredPayload(key=key, size=len(data)) for key, data in self._held.copy().items()])

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """A URI that only names the object: no other program can reach it."""
        checked_operation(operation)
        return ExternalStorageLocation(uri=f"memory://{checked_key(path)}", path=path)


@final
class LocalPayloads:
    """A payload storage in a folder, which is made when the first payload is put there; several processes may use it at once."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from pathlib import Path

        self.folder = Path(folder).absolute()
        self._writes = itertools.count()

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes in place of what was there: written beside, flushed to the disk, then renamed."""
        path = self._path(key)
        part = path.with_name(f"{path.name}.part-{os.getpid()}-{threading.get_ident()}-{next(self._writes)}")
        with self._tried(f"payload {key} cannot be written in"):
            self._make(path.parent)
            try:
                with open(part, "xb", opener=_private) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            except BaseException:
                with suppress(OSError):  # a sweep deletes it; what went wrong is raised
                    part.unlink()
                raise
            sync_folder(path.parent)

    @contextmanager
    def _tried(self, what: str) -> Iterator[None]:
        """Raise a failure of the system as PayloadUnavailable, which is retried."""
        try:
            yield
        except OSError as error:
            raise PayloadUnavailable(f"{what} {self.folder}: {error.strerror or error}") from error

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it, each lasting."""
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            sync_folder(one.parent)

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        with self._tried(f"payload {key} cannot be read in"):
            try:
                return self._path(key).read_bytes()
            except FileNotFoundError:
                raise PayloadLost(key, f"is missing in {self.folder}") from None

    def size(self, key: str) -> int:
        """Return how many bytes the file has; raises PayloadLost when there is none, or a link that leads elsewhere."""
        path = self._path(key)
        with self._tried(f"payload {key} cannot be read in"):
            if not path.is_file() or path.resolve() != self.folder.resolve() / key:
                raise PayloadLost(key, f"is missing in {self.folder}")
            return path.stat().st_size

    def delete(self, key: str) -> None:
        """Forget the bytes, if there are any."""
        path = self._path(key)
        with self._tried(f"payload {key} cannot be deleted in"):
            path.unlink(missing_ok=True)

    def list(self) -> Iterator[StoredPayload]:
        """Every file there is, those of interrupted writes included."""
        try:
            for path in sorted(self.folder.rglob("*")):
                with suppress(FileNotFoundError):  # deleted since
                    if path.is_file():
                        key = path.relative_to(self.folder).as_posix()
                        yield StoredPayload(key=key, size=path.stat().st_size)
        except OSError as error:
            raise PayloadUnavailable(f"{self.folder} cannot be listed: {error.strerror or error}") from error

    def location(self, operation: str, path: str) -> ExternalStorageLocation:
        """A `file:` URI; to WRITE there, the folder of the file is made."""
        place = self._path(path)
        if checked_operation(operation) == "WRITE":
            with self._tried(f"payload {path} cannot be written in"):
                self._make(place.parent)
        return ExternalStorageLocation(uri=place.as_uri(), path=path)

    def _path(self, key: str) -> Path:
        return self.folder / checked_key(key)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def sync_folder(folder: Path) -> None:
    """Make the entries of a folder last; systems that cannot open one do it by themselves."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_payloads(place: str | os.PathLike[str] | PayloadStorage) -> PayloadStorage:
    """The storage at a place: a folder, a URL (`s3://bucket/folder`), or a storage, which is returned as it is.

    Raises MissingExtra and InvalidInput as `FsspecPayloads` does.
    """
    if isinstance(place, str) and "://" in place:
        # An adapter to the world is loaded by its URL: nothing below the room of adapters imports one.
        remote: PayloadStorage = import_module("conductorlite.ext.fsspec").FsspecPayloads(place)
        return remote
    if isinstance(place, str | os.PathLike):
        return LocalPayloads(place)
    return place
