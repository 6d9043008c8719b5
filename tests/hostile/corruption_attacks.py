"""Databases that are not what they were: bytes flipped at every kind of page, truncated, zeroed, swapped, with a foreign log.

Each begins with a good store full of executions (the golden database of the present schema, and pages of every kind), spoils it,
opens it and uses every verb there is. SQLite keeps no checksums of its pages: what changes only the events of a text stays unseen
unless the text is kept under its hash. Everything else must be StorageCorrupt, or another named error, and never half a write.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

from golden_dump import golden, loaded
from golden_lives import ENDS_AT

from conductorlite import Engine, VirtualClock, WorkflowDef
from conductorlite.errors import ConductorliteError, Conflict
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.schema import VERSION

__all__ = ["CORRUPTED", "MUST_BE_SEEN", "spoilt_and_used"]

#: The files of a store by suffix: "" is the database, "-wal" its log.
Files = dict[str, bytes]
Spoil = Callable[[Files], Files]

#: What the first byte of a page says it is.
KINDS: Final = {2: "interior index", 5: "interior table", 10: "leaf index", 13: "leaf table"}


def good_store() -> Files:
    """A store that was closed properly, with pages of every kind: overflowing ones and free ones too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        loaded(golden(VERSION).read_text(encoding="utf-8"), path)
        with Engine(SQLiteBackend(path, synchronous="NORMAL"), clock=VirtualClock(ENDS_AT)) as engine:
            nothing = {"name": "n", "taskReferenceName": "n", "type": "NOOP"}
            definition = WorkflowDef.from_json({"name": "large", "tasks": [nothing]})
            for workflow_id in ("large", "gone"):
                engine.start(definition, {"x": f"{workflow_id} " * 10_000}, workflow_id=workflow_id)
            engine.admin.remove("gone")
        return {"": path.read_bytes()}


def log_of_another() -> bytes:
    """The log of another store, as it lies while that one is open."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "other.db"
        backend = SQLiteBackend(path, synchronous="NORMAL")
        with Engine(backend, clock=VirtualClock(ENDS_AT)) as engine:
            definition = WorkflowDef.from_json({"name": "other", "tasks": [{"name": "n", "taskReferenceName": "n"}]})
            for number in range(20):
                engine.start(definition, {"x": "other " * 500}, workflow_id=f"other {number}")
            return Path(f"{path}-wal").read_bytes()


# ---------------------------------------------------------------------- where there is what


def page_size(data: bytes) -> int:
    """Bytes of a page."""
    return int.from_bytes(data[16:18]) or 65_536


def pages_by_kind(data: bytes) -> dict[str, list[int]]:
    """Offsets of the pages of each kind."""
    size = page_size(data)
    free = set(_free(data, size))
    found: dict[str, list[int]] = {}
    for number in range(1, len(data) // size + 1):
        start = (number - 1) * size
        kind = "schema" if number == 1 else "free" if number in free else KINDS.get(data[start], "overflow")
        found.setdefault(kind, []).append(start)
    return found


def _free(data: bytes, size: int) -> Iterator[int]:
    trunk = int.from_bytes(data[32:36])
    while trunk:
        yield trunk
        start = (trunk - 1) * size
        count = int.from_bytes(data[start + 4 : start + 8])
        for place in range(count):
            yield int.from_bytes(data[start + 8 + 4 * place : start + 12 + 4 * place])
        trunk = int.from_bytes(data[start : start + 4])


def flipped(kind: str, seed: int, *, heads: bool) -> Spoil:
    """Bits of some pages of a kind turned over: in what says where things are (`heads`), or anywhere."""

    def spoil(files: Files) -> Files:
        data, dice = bytearray(files[""]), random.Random(f"{kind} {seed}")
        size = page_size(data)
        pages = pages_by_kind(bytes(data))[kind]
        for start in dice.sample(pages, min(len(pages), 3)):
            low = start + 100 if start == 0 else start
            for _ in range(24):
                data[dice.randrange(low, low + 12 if heads else start + size)] ^= 1 << dice.randrange(8)
        return {"": bytes(data)}

    return spoil


def changed(at: int, new: bytes) -> Spoil:
    """Some bytes written over."""
    return lambda files: {"": files[""][:at] + new + files[""][at + len(new) :]}


def cut(part: float, extra: int = 0) -> Spoil:
    """Only the first part of the file."""
    return lambda files: {"": files[""][: int(len(files[""]) * part) + extra]}


def swapped(kind: str, other: str) -> Spoil:
    """Two pages in each other's place."""

    def spoil(files: Files) -> Files:
        data = bytearray(files[""])
        size, kinds = page_size(data), pages_by_kind(bytes(data))
        one, two = kinds[kind][0], kinds[other][-1]
        data[one : one + size], data[two : two + size] = data[two : two + size], data[one : one + size]
        return {"": bytes(data)}

    return spoil


def emptied(kind: str) -> Spoil:
    """Every page of a kind all zeros."""

    def spoil(files: Files) -> Files:
        data = bytearray(files[""])
        for start in pages_by_kind(bytes(data))[kind]:
            begin = 100 if start == 0 else 0
            data[start + begin : start + page_size(data)] = bytes(page_size(data) - begin)
        return {"": bytes(data)}

    return spoil


def with_log(make: Callable[[], bytes]) -> Spoil:
    """A log beside it that is not its own."""
    return lambda files: {**files, "-wal": make()}


def told(*statements: str) -> Spoil:
    """Rows changed by hand, past all that SQLite guards."""

    def spoil(files: Files) -> Files:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store.db"
            path.write_bytes(files[""])
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
                connection.execute("PRAGMA writable_schema = 1")
                for statement in statements:
                    connection.execute(statement)
                connection.execute("PRAGMA writable_schema = 0")
            data = path.read_bytes()
        return {"": data[:18] + b"\2\2" + data[20:]}

    return spoil


def _garbage() -> bytes:
    return bytes.fromhex("377f0682") + random.Random(7).randbytes(40_000)


#: Columns of texts by table: of each, what comes of it when a bit of a row's head makes blobs of them.
TEXTS: dict[str, tuple[str, ...]] = {
    "workflows": ("input", "output", "variables", "task_to_domain", "reason", "journal"),
    "tasks": ("input", "output", "reason"),
    "inbox": ("data",),
    "texts": ("text",),
    "definitions": ("text",),
}

#: What nobody may overlook.
MUST_BE_SEEN: dict[str, Spoil] = {
    "a header of zeros": changed(0, bytes(100)),
    "another application's mark": changed(68, b"THEM"),
    "no application's mark": changed(68, bytes(4)),
    "half a page": lambda files: {"": files[""][:2_000]},
    "half a header": lambda files: {"": files[""][:50]},
    "a text file": lambda files: {"": b"to be or not to be\n" * 1_000},
    "half the file": cut(0.5),
    "one page left": lambda files: {"": files[""][: page_size(files[""])]},
    "an odd number of bytes, most gone": cut(0.6, 1_234),
    "all pages but the first of zeros": lambda files: {"": files[""][:4_096].ljust(len(files[""]), b"\0")},
    "a page size of 3": changed(16, b"\0\3"),
    "another page size": changed(16, b"\2\0"),
    "a schema that cannot be read": told("UPDATE sqlite_master SET sql = 'CREATE TABEL x' WHERE name = 'tasks'"),
    "a table that is gone": told("DELETE FROM sqlite_master WHERE name = 'tasks'"),
    "a root page out of reach": told("UPDATE sqlite_master SET rootpage = 99999 WHERE name = 'workflows'"),
    "two tables on one page": told(
        "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'texts') WHERE name = 'tasks'"
    ),
    "a status there is not": told("UPDATE workflows SET status = 99 WHERE workflow_id = 'polled'"),
    "a task's status there is not": told("UPDATE tasks SET status = 99"),
    "an event there is not": told("UPDATE inbox SET kind = 'DREAM'"),
    "a timer there is not": told("UPDATE workflows SET timers = '[[\"DREAM\"]]' WHERE timers IS NOT NULL"),
    "a line there is not": told("UPDATE workflows SET journal = '1,0' || char(30) || 'DREAM'"),
    "a line's status there is not": told("UPDATE workflows SET journal = '1,0' || char(30) || 'TASK DREAMING'"),
    "a journal that does not say where it begins": told("UPDATE workflows SET journal = 'DREAM'"),
    "a journal cut off": told(f"UPDATE workflows SET journal = x'{zlib.compress(b'1,0')[:-1].hex()}'"),
    "a line there is not, on its own": told("INSERT INTO history SELECT execution << 28, created_at, 'DREAM' FROM workflows"),
    "lines that cannot be read": told("INSERT INTO history SELECT execution << 28, created_at, x'c328ff' FROM workflows"),
    "iterations that are no numbers": told("UPDATE tasks SET iterations = 'x' WHERE iterations <> ''"),
    "inputs that are no JSON": told("UPDATE workflows SET input = '{\"x\": '", "UPDATE tasks SET input = '{\"x\": '"),
    "an input of no events": told("UPDATE tasks SET input = ''"),
    "text that is no text": told("UPDATE tasks SET reason = CAST(x'c328ff' AS TEXT)"),
    "payloads that are gone": told("DELETE FROM texts"),
    "payloads with other words": told("UPDATE texts SET text = replace(text, 'large', 'small')"),
    "definitions that are gone": told("DELETE FROM definitions"),
    "definitions with other words": told("UPDATE definitions SET text = replace(text, 'work', 'play')"),
    "definitions that are no JSON": told("UPDATE definitions SET text = '{'"),
    "leaf tables of zeros": emptied("leaf table"),
    "interior tables of zeros": emptied("interior table"),
    "leaf indexes of zeros": emptied("leaf index"),
    "interior indexes of zeros": emptied("interior index"),
    "a leaf in an interior page's place": swapped("leaf table", "interior table"),
    "an index in a table's place": swapped("leaf index", "leaf table"),
    **{
        f"{column} of {table} that is a blob": told(
            f"UPDATE sqlite_master SET sql = replace(sql, 'STRICT', '') WHERE name = '{table}'",
            "PRAGMA writable_schema = RESET",
            f"UPDATE {table} SET {column} = CAST({column} AS BLOB)",
        )
        for table, columns in TEXTS.items()
        for column in columns
    },
}

CORRUPTED: dict[str, Spoil] = {
    **MUST_BE_SEEN,
    "a schema of the future": changed(60, (VERSION + 1).to_bytes(4)),
    "a log of another store": with_log(log_of_another),
    "a log of noise": with_log(_garbage),
    "a log of zeros": with_log(lambda: bytes(40_000)),
    "half a log": with_log(lambda: log_of_another()[:20_001]),
    "two leaves swapped": swapped("leaf table", "leaf table"),
    "overflowing pages of zeros": emptied("overflow"),
    "free pages of zeros": emptied("free"),
    "one byte missing": cut(1.0, -1),
    "a tenth missing": cut(0.9),
    "an index emptied by hand": told("PRAGMA foreign_keys = 0", "DELETE FROM sqlite_master WHERE name = 'tasks_live'"),
    **{
        f"bits flipped in {kind} pages{', their heads' if heads else ''}, seed {seed}": flipped(kind, seed, heads=heads)
        for kind in ("schema", "leaf table", "interior table", "leaf index", "interior index", "overflow", "free")
        for heads in (False, True)
        for seed in (1, 2)
    },
}

# ---------------------------------------------------------------------- use


def _uses(engine: Engine) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every way to read, and some to write."""
    ids: list[str] = []
    yield "list", lambda: ids.extend(engine.admin.workflow_ids())
    ids = ids or ["polled", "looping", "family", "large"]
    yield "find", lambda: engine.executions("polled") + engine.executions(correlation_id="customer 1")
    yield "queues", lambda: (engine.tasks.queue_sizes(), engine.tasks.poll_data(), engine.admin.agenda())
    for workflow_id in ids:
        yield (
            "get",
            lambda one=workflow_id: [  # type: ignore[misc]
                (task.input_data, task.output_data, engine.tasks.logs(task.task_id)) for task in engine.get(one).tasks
            ],
        )
        yield "tell", lambda one=workflow_id: (engine.get(one).input_data, engine.history(one), engine.explain(one))  # type: ignore[misc]
        yield "check", lambda one=workflow_id: engine.admin.check(one)  # type: ignore[misc]
    yield "poll", lambda: [engine.poll(kind, count=5) for kind in ("work_polled", "work_again", "HTTP", "work_spread")]
    yield "start", lambda: engine.start(WorkflowDef.from_json({"name": "new", "tasks": [{"name": "n", "taskReferenceName": "n"}]}))
    for workflow_id in ids[:8]:
        yield "terminate", lambda one=workflow_id: engine.terminate(one)  # type: ignore[misc]
    yield "drive", lambda: engine.advance("3h")


def spoilt_and_used(name: str, folder: Path) -> tuple[str, list[str]]:
    """Spoil a store and use it; the first named error, or what was not seen, and what went wrong beyond naming."""
    files = CORRUPTED[name](good_store())
    path = folder / "store.db"
    for suffix, data in files.items():
        Path(f"{path}{suffix}").write_bytes(data)
    try:
        backend = SQLiteBackend(path, synchronous="NORMAL")
    except ConductorliteError as error:
        untouched = path.read_bytes() == files[""] or "-wal" in files
        return f"opening: {type(error).__name__}: {error}", [] if untouched else ["opening changed the file"]
    errors: list[str] = []
    wrong: list[str] = []
    found = 0
    with Engine(backend, clock=VirtualClock(ENDS_AT)) as engine:
        for verb, use in _uses(engine):
            try:
                answer = use()
                found += len(answer) if verb == "check" and isinstance(answer, list) else 0
            except Conflict:
                pass  # what has ended cannot be terminated
            except ConductorliteError as error:
                errors.append(f"{verb}: {type(error).__name__}: {error}")
            except Exception as error:
                wrong.append(f"{verb}: {type(error).__name__}: {error}")
            if backend._writer is not None and backend._writer.in_transaction:
                wrong.append(f"{verb} left a transaction open")
    seen = sorted(errors, key=lambda text: "StorageCorrupt" not in text)
    return seen[0] if seen else f"opened; {found} laws do not hold" if found else "opened, nothing amiss was met", wrong
