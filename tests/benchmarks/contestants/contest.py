"""What every contestant shares. The standard library only: it is imported in the environments of peers, too.

A contestant is a program: `CONTESTANT WORK --store full|normal|memory --count N --folder FOLDER [--url URL] [--beside]`; the last
line that it prints is one JSON object. A step is a function that returns `{"i": i, "ok": True}`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_RESULT = json.dumps({"x": "y" * 180})


def yardstick(store: str, folder: Path, seconds: float = 0.15) -> float:
    """Durable steps a second with bare sqlite3: insert a step of 200 bytes, update its workflow, commit.

    F is `full`, N `normal` (both with a write-ahead log), M `memory`.
    """
    path = folder / f"yardstick-{os.getpid()}.db"
    connection = sqlite3.connect(":memory:" if store == "memory" else path, isolation_level=None)
    run = connection.execute
    run("PRAGMA journal_mode = WAL")
    run(f"PRAGMA synchronous = {'OFF' if store == 'memory' else store}")
    run("CREATE TABLE workflow (id TEXT PRIMARY KEY, status TEXT, n INTEGER, updated REAL) WITHOUT ROWID")
    run("CREATE TABLE step (w TEXT, seq INTEGER, name TEXT, status TEXT, out TEXT, at REAL, PRIMARY KEY (w, seq)) WITHOUT ROWID")
    n, begun, name = 0, time.perf_counter(), ""
    while n % 8 or time.perf_counter() - begun < seconds:
        if n % 10 == 0:
            name = f"w{n:08}"
            run("INSERT INTO workflow VALUES (?, 'R', 0, 0)", (name,))
        run("BEGIN IMMEDIATE")
        run("INSERT INTO step VALUES (?, ?, 's', 'DONE', ?, 0)", (name, n, _RESULT))
        run("UPDATE workflow SET n = ?, updated = 0 WHERE id = ?", (n, name))
        run("COMMIT")
        n += 1
    rate = n / (time.perf_counter() - begun)
    connection.close()
    for file in folder.glob(f"{path.name}*"):
        file.unlink()
    return rate


class Contest:
    """The arguments of a contestant, what it has measured, and where its store lies."""

    def __init__(self) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("work")
        parser.add_argument("--store", default="full", choices=["full", "normal", "memory"])
        parser.add_argument("--count", type=int, default=1)
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--processes", type=int, default=1)
        parser.add_argument("--url", help="a store on a server instead of a file")
        parser.add_argument("--beside", action="store_true", help="one of several: wait for the file `go` before what is measured")
        given = parser.parse_args()
        self.work: str = given.work
        self.store: str = given.store
        self.count: int = given.count
        self.folder: Path = given.folder
        self.processes: int = given.processes
        self.url: str | None = given.url
        self.beside: bool = given.beside
        self.path = str(given.folder / "store.db")
        self.found: dict[str, object] = {}

    @contextmanager
    def measured(self, units: int) -> Iterator[None]:
        """Seconds, and the processor's seconds of this process, of so many units; the yardstick just before and just after."""
        before = yardstick(self.store, self.folder)
        if self.beside:
            (self.folder / f"ready-{os.getpid()}").touch()
            while not (self.folder / "go").exists():
                time.sleep(0.002)
        began = time.time()
        cpu, begun = time.process_time(), time.perf_counter()
        yield
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        self.found.update(began=began, ended=time.time())
        after = yardstick(self.store, self.folder)
        self.found.update(units=units, seconds=seconds, cpu=cpu, yardstick=(before + after) / 2)

    def tell(self, **found: object) -> None:
        """Print what was found, and end at once: threads of a peer are not waited for."""
        print(json.dumps({**self.found, **found}), flush=True)
        os._exit(0)

    def disk(self) -> int:
        """Bytes of the store, its log moved into it as far as that goes."""
        connection = sqlite3.connect(self.path)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return sum(file.stat().st_size for file in self.folder.glob("store.db*") if file.is_file())


def resident() -> int:
    """Bytes of memory that the process holds."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def step(i: int) -> dict[str, object]:
    """The step of every contestant."""
    return {"i": i, "ok": True}


def gated(folder: Path, i: int) -> dict[str, object]:
    """A step. The fifth notes that it has begun, and waits until there is a file `gate`: a kill comes upon all of them there."""
    if i == 4:
        with (folder / "waiting").open("ab") as file:
            file.write(b".")
        while not (folder / "gate").exists():
            time.sleep(0.05)
    return step(i)
