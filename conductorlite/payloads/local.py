"""Payloads as files of a folder: one file each, written whole, then put in its place."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

from conductorlite.errors import PayloadLost, PayloadUnavailable
from conductorlite.files import PRIVATE, PRIVATE_FOLDER
from conductorlite.payloads.keys import checked_key, checked_operation
from conductorlite.ports import ExternalStorageLocation, StoredPayload

__all__ = ["LocalPayloads"]


@final
class LocalPayloads:
    """A payload storage in a folder, which is made when the first payload is put there; several processes may use it at once."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        self._writes = itertools.count()

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes in place of what was there: written beside, flushed to the disk, then renamed."""
        path = self._path(key)
        part = path.with_name(f"{path.name}.part-{os.getpid()}-{threading.get_ident()}-{next(self._writes)}")
        try:
            self._make(path.parent)
            try:
                with open(part, "xb", opener=_private) as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            except BaseException:
                with suppress(OSError):
                    part.unlink()
                raise
            _flush(path.parent)
        except OSError as error:
            raise PayloadUnavailable(f"payload {key} cannot be written in {self.folder}: {error.strerror or error}") from error

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it, each lasting."""
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            _flush(one.parent)

    def get(self, key: str) -> bytes:
        """The bytes; raises PayloadLost when there are none."""
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            raise PayloadLost(key, f"is missing in {self.folder}") from None
        except OSError as error:
            raise PayloadUnavailable(f"payload {key} cannot be read in {self.folder}: {error.strerror or error}") from error

    def size(self, key: str) -> int:
        """How many bytes the file has; raises PayloadLost when there is none, or a link that leads elsewhere."""
        path = self._path(key)
        try:
            if not path.is_file() or path.resolve() != self.folder.resolve() / key:
                raise PayloadLost(key, f"is missing in {self.folder}")
            return path.stat().st_size
        except OSError as error:
            raise PayloadUnavailable(f"payload {key} cannot be read in {self.folder}: {error.strerror or error}") from error

    def delete(self, key: str) -> None:
        """Forget the bytes, if there are any."""
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise PayloadUnavailable(f"payload {key} cannot be deleted in {self.folder}: {error.strerror or error}") from error

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
            try:
                self._make(place.parent)
            except OSError as error:
                raise PayloadUnavailable(f"payload {path} cannot be written in {self.folder}: {error.strerror or error}") from error
        return ExternalStorageLocation(uri=place.as_uri(), path=path)

    def _path(self, key: str) -> Path:
        return self.folder / checked_key(key)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def _flush(folder: Path) -> None:
    """Make the entries of a folder last; systems that cannot open one do it by themselves."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
