"""Copies of a store that is in use: complete, or not there.

The copy is made by SQLite's online backup in one read transaction, which in WAL mode keeps nobody waiting, into a file of
another name beside the target. It is synced and then linked to its name, which fails when there is something already.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing, suppress
from pathlib import Path
from shutil import rmtree
from typing import Final

from conductorlite.model.errors import AlreadyExists, PayloadLost, StorageCorrupt, StorageReadOnly
from conductorlite.store.files import make_private
from conductorlite.store.sqlite.connections import Settings, open_reader, translated

__all__ = ["copy"]

#: How often a copy is made anew because documents it refers to were removed meanwhile.
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
    rmtree(folder, ignore_errors=True)  # of one who had this number and was killed
    try:
        for _ in range(_TRIES):
            part.unlink(missing_ok=True)
            _copy_rows(settings, part)
            if not documents or _copy_documents(settings.path, part, folder):
                break  # else one was removed meanwhile; what is missing every time is missing in the store itself
        if folder.is_dir():
            folder.rename(f"{target}.payloads")
        try:
            os.link(part, target)  # not a rename: that would replace what somebody else has put there meanwhile
        except FileExistsError:
            rmtree(f"{target}.payloads", ignore_errors=True)
            raise
        except OSError:  # a file system without links
            part.rename(target)
        _sync_folder(target.parent)
    except FileExistsError:
        raise AlreadyExists(f"{target}: somebody else has put something there meanwhile") from None
    except OSError as error:
        raise StorageReadOnly(f"{target}: the copy could not be written ({error.strerror or error})") from error
    finally:
        for left in (part, Path(f"{part}-wal"), Path(f"{part}-shm"), Path(f"{part}-journal")):
            with suppress(OSError):
                left.unlink()
        rmtree(folder, ignore_errors=True)


def _copy_rows(settings: Settings, part: Path) -> None:
    make_private(part)
    try:
        with closing(open_reader(settings)) as reader, closing(sqlite3.connect(part, isolation_level=None)) as copied:
            reader.backup(copied)
            found = copied.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise StorageCorrupt(f"{settings.path}: the database is damaged, so is its copy ({found})")
    except sqlite3.Error as error:
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
                whole = False
    return whole


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
