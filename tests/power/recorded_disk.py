"""A disk that remembers: every write, truncation, removal and sync that SQLite asks of the operating system, in order.

A power cut leaves of each file what was synced, and of what came later any part in any order: the system may have written the
last block and not the first. `images` gives such remains. Recording puts a layer (SQLite's word: a VFS) around the one the
process uses; it needs the shared library that Python's sqlite3 itself is linked to.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import attrs

__all__ = ["SECTOR", "Op", "files_after", "recorded", "recording_works"]

#: What a disk writes whole, bytes; larger writes may be torn between them.
SECTOR: Final = 512

_VFS_WORDS: Final = 22
_METHODS_WORDS: Final = 19
# Places in sqlite3_vfs and sqlite3_io_methods, in words; the first int of each struct takes one word with its padding.
_NEXT, _NAME, _OPEN, _DELETE = 2, 3, 5, 6
_WRITE, _TRUNCATE, _SYNC = 3, 4, 5

_P, _I, _L, _S = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p
_OPENER: Final = ctypes.CFUNCTYPE(_I, _P, _P, _P, _I, _P)
_DELETER: Final = ctypes.CFUNCTYPE(_I, _P, _P, _I)
_WRITER: Final = ctypes.CFUNCTYPE(_I, _P, _P, _I, _L)
_TRUNCATER: Final = ctypes.CFUNCTYPE(_I, _P, _L)
_SYNCER: Final = ctypes.CFUNCTYPE(_I, _P, _I)

#: What SQLite may still call when a connection outlives its recording.
_KEPT: Final[list[Any]] = []

_MAIN_FILES: Final = 0x100 | 0x800 | 0x80000  # SQLITE_OPEN_MAIN_DB, _MAIN_JOURNAL, _WAL


@attrs.frozen
class Op:
    """One thing that was asked of the disk; or, as `told`, that the engine had been told of its n-th commit."""

    kind: Literal["write", "truncate", "sync", "delete", "told"]
    file: str
    #: Offset of a write, size of a truncation, number of a commit.
    at: int = 0
    data: bytes = b""


def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(_sqlite3.__file__)
        library.sqlite3_vfs_find.restype = _P
        library.sqlite3_vfs_find.argtypes = [_S]
        library.sqlite3_vfs_register.argtypes = [_P, _I]
        library.sqlite3_vfs_unregister.argtypes = [_P]
    except (AttributeError, OSError):
        return None
    return library


def recording_works() -> bool:
    """Whether SQLite's functions can be reached here."""
    return ctypes.sizeof(_P) == 8 and _library() is not None


def _words(address: int, count: int) -> Any:
    return (ctypes.c_uint64 * count).from_buffer_copy(ctypes.string_at(address, 8 * count))


@contextmanager
def recorded() -> Iterator[list[Op]]:
    """Record what connections opened in the block ask for; files by their last name."""
    library = _library()
    assert library is not None
    found = library.sqlite3_vfs_find(None)
    vfs, ops = _words(found, _VFS_WORDS), list[Op]()
    names: dict[int, str] = {}
    kept: list[Any] = [ctypes.create_string_buffer(b"recorded")]
    methods: dict[int, Any] = {}
    open_, delete = _OPENER(vfs[_OPEN]), _DELETER(vfs[_DELETE])

    def around(address: int) -> Any:
        """The methods of a file with those that change it replaced."""
        made = _words(address, _METHODS_WORDS)
        write, truncate, sync = _WRITER(made[_WRITE]), _TRUNCATER(made[_TRUNCATE]), _SYNCER(made[_SYNC])

        def on_write(file: int, data: int, size: int, at: int) -> int:
            ops.append(Op("write", names[file], at, ctypes.string_at(data, size)))
            return int(write(file, data, size, at))

        def on_truncate(file: int, size: int) -> int:
            ops.append(Op("truncate", names[file], size))
            return int(truncate(file, size))

        def on_sync(file: int, flags: int) -> int:
            ops.append(Op("sync", names[file]))
            return int(sync(file, flags))

        callbacks = _WRITER(on_write), _TRUNCATER(on_truncate), _SYNCER(on_sync)
        kept.extend(callbacks)
        for place, callback in zip((_WRITE, _TRUNCATE, _SYNC), callbacks, strict=True):
            made[place] = ctypes.cast(callback, _P).value
        return made

    def on_open(_vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        answer = int(open_(found, name, file, flags, out))
        if answer == 0 and name and flags & _MAIN_FILES:
            names[file] = Path(ctypes.string_at(name).decode()).name
            pointer = ctypes.cast(file, ctypes.POINTER(ctypes.c_uint64))
            if pointer[0] not in methods:
                methods[pointer[0]] = around(pointer[0])
            pointer[0] = ctypes.addressof(methods[pointer[0]])
        return answer

    def on_delete(_vfs: int, name: int, sync_folder: int) -> int:
        ops.append(Op("delete", Path(ctypes.string_at(name).decode()).name, sync_folder))
        return int(delete(found, name, sync_folder))

    outer = _OPENER(on_open), _DELETER(on_delete)
    _KEPT.append((vfs, outer, methods, kept, open_, delete))
    vfs[_NAME] = ctypes.addressof(kept[0])
    vfs[_OPEN], vfs[_DELETE] = (ctypes.cast(one, _P).value for one in outer)
    library.sqlite3_vfs_register(ctypes.addressof(vfs), 1)
    try:
        yield ops
    finally:
        library.sqlite3_vfs_unregister(ctypes.addressof(vfs))
        library.sqlite3_vfs_register(found, 1)


# ---------------------------------------------------------------------- what is left


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "truncate":
        del content[op.at :]
        return
    if len(content) < op.at:
        content.extend(bytes(op.at - len(content)))
    content[op.at : op.at + len(op.data)] = op.data


def _torn(op: Op, dice: random.Random) -> list[Op]:
    """The sectors of a write that reached the disk."""
    if op.kind != "write" or len(op.data) <= SECTOR:
        return [op]
    parts = [Op("write", op.file, op.at + start, op.data[start : start + SECTOR]) for start in range(0, len(op.data), SECTOR)]
    return [part for part in parts if dice.random() < 0.5]


def _durable(ops: Sequence[Op]) -> list[bool]:
    """For each op whether no power cut undoes it any more.

    What was written to a file is safe with the file's next sync. That a file was removed is safe when the folder is synced:
    SQLite does so when it first syncs a journal or log it has made.
    """
    last_sync: dict[str, int] = {}
    made: set[str] = set()
    folder = -1
    for number, op in enumerate(ops):
        if op.kind == "delete":
            made.discard(op.file)
            folder = number if op.at else folder
        elif op.kind == "sync":
            last_sync[op.file] = number
            if not op.file.endswith(".db") and op.file not in made:
                made.add(op.file)
                folder = number
    return [number <= (folder if op.kind == "delete" else last_sync.get(op.file, -1)) for number, op in enumerate(ops)]


def files_after(ops: Sequence[Op], how: str) -> Mapping[str, bytes]:
    """The files after a power cut that comes when these things had been asked for.

    Of what was not synced `how` keeps: `all` (as when only the process dies), `none`, or, as `some 7`, a part that the number
    chooses, with torn writes.
    """
    dice = random.Random(how)
    files: dict[str, bytearray] = {}
    back: set[str] = set()
    for op, durable in zip(ops, _durable(ops), strict=True):
        if op.kind in ("told", "sync") or op.file in back:
            continue
        if op.kind == "delete":
            if durable or how == "all" or (how != "none" and dice.random() < 0.5):
                files.pop(op.file, None)
            else:
                back.add(op.file)  # what is made under that name later is lost with its name
        elif durable or how == "all":
            _apply(files.setdefault(op.file, bytearray()), op)
        elif how != "none" and dice.random() < 0.6:
            for part in _torn(op, dice):
                _apply(files.setdefault(op.file, bytearray()), part)
    return {name: bytes(content) for name, content in files.items()}
