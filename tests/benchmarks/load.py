"""A hundred thousand executions of five tasks in one file: memory, time per execution, and the file once they are gone again.

    python tests/benchmarks/load.py                          100,000 executions, a quarter of an hour; exit 1 unless the aims hold
    python tests/benchmarks/load.py --executions 10000       fewer
    python tests/benchmarks/load.py --full                   synchronous="FULL" instead of "NORMAL"

Executions are begun and ended in batches. Aims: the memory of the process after the last batch is within 10 % of that after the
first; an execution of the last ten batches takes at most 1.2 times what one of the first ten took (of the process's own time,
which other programs do not disturb; medians); and when all but the last batch have been removed and the file is compacted, it
is at most 1.2 times a fresh one that has only ever held one batch.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import attrs

from conductorlite import Engine, EngineConfig, VirtualClock, Workers, WorkflowDef
from conductorlite.store.sqlite.backend import SQLiteBackend

#: Tasks of each execution.
TASKS = 5

#: What the last figures may be of the first ones.
MEMORY, TIME, FILE = 1.10, 1.20, 1.20

#: Batches whose median stands for the first and for the last ones.
_SOME = 10


@attrs.frozen(kw_only=True)
class Batch:
    """What was measured after so many executions. Milliseconds are those of one execution."""

    executions: int
    cpu_ms: float
    wall_ms: float
    memory_mb: float
    file_mb: float


@attrs.frozen(kw_only=True)
class Load:
    """All that was measured; ratios are last to first, and kept file to fresh file."""

    batches: Sequence[Batch]
    memory: float
    time: float
    removed_ms: float
    full_mb: float
    kept_mb: float
    fresh_mb: float

    @property
    def file(self) -> float:
        """How much larger the file is than one that never held more."""
        return self.kept_mb / self.fresh_mb

    @property
    def fine(self) -> bool:
        """Whether the aims hold."""
        return self.memory <= MEMORY and self.time <= TIME and self.file <= FILE


def memory_mb() -> float:
    """What the process holds at this moment; where the system does not tell, the most it has ever held."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def chain() -> WorkflowDef:
    """Five tasks one after another, each reading the one before."""
    reads = ["${workflow.input.x}", *(f"${{t{n}.output.x}}" for n in range(TASKS - 1))]
    tasks = [
        {"name": "step", "taskReferenceName": f"t{n}", "type": "SIMPLE", "inputParameters": {"x": read}}
        for n, read in enumerate(reads)
    ]
    return WorkflowDef.from_json({"name": "load", "version": 1, "tasks": tasks})


def opened(path: Path, synchronous: Literal["FULL", "NORMAL"]) -> Engine:
    """An engine with the one worker there is."""
    workers = Workers()
    workers.task("step")(lambda x: {"x": x})
    numbers = iter(range(10**9))
    backend = SQLiteBackend(path, synchronous=synchronous)
    return Engine(backend, workers=workers, clock=VirtualClock(), config=EngineConfig(ids=lambda: f"load-{next(numbers):09d}"))


def run_batch(engine: Engine, definition: WorkflowDef, size: int) -> tuple[float, float]:
    """Begin and end so many executions; returns milliseconds of one, of the process and on the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    runs = [engine.start(definition, {"x": n}) for n in range(size)]
    engine.run_until_idle()
    spent = (time.process_time() - cpu) / size * 1000, (time.perf_counter() - wall) / size * 1000
    if not all(run.status == "COMPLETED" for run in runs):
        raise RuntimeError("an execution did not complete")
    return spent


def prune(engine: Engine, keep: int) -> None:
    """Remove what has ended, all but the newest `keep`."""
    ids = list(engine.admin.workflow_ids())
    for workflow_id in ids[: len(ids) - keep]:
        engine.admin.remove(workflow_id)


def compact(path: Path) -> None:
    """Give back to the file system what the file does not use; nobody else may have it open."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def size_mb(path: Path) -> float:
    """The size of a store that is closed, or of its main file."""
    return path.stat().st_size / 2**20


def fresh_mb(path: Path, batch: int, synchronous: Literal["FULL", "NORMAL"]) -> float:
    """The size of a store that has only ever held one batch."""
    with opened(path, synchronous) as engine:
        run_batch(engine, chain(), batch)
    return size_mb(path)


def measure(folder: Path, *, executions: int, batch: int, synchronous: Literal["FULL", "NORMAL"], tell: bool = True) -> Load:
    """Run all of it in a folder."""
    path, definition = folder / "load.db", chain()
    batches: list[Batch] = []
    with opened(path, synchronous) as engine:
        for number in range(1, executions // batch + 1):
            cpu_ms, wall_ms = run_batch(engine, definition, batch)
            engine.advance("1s")
            batches.append(Batch(executions=number * batch, cpu_ms=cpu_ms, wall_ms=wall_ms,
                                 memory_mb=memory_mb(), file_mb=size_mb(path)))  # fmt: skip
            if tell and (number % 10 == 0 or number == 1):
                last = batches[-1]
                print(f"  {last.executions:7,} executions  {last.cpu_ms:6.3f} ms each ({last.wall_ms:6.3f} on the wall)  "
                      f"{last.memory_mb:6.1f} MB  file {last.file_mb:7.1f} MB", flush=True)  # fmt: skip
        full_mb, begun = size_mb(path), time.perf_counter()
        prune(engine, batch)
        removed_ms = (time.perf_counter() - begun) * 1000 / max(1, executions - batch)
    compact(path)
    some = max(1, min(_SOME, len(batches) // 2))
    first, last_ones = batches[:some], batches[-some:]
    return Load(
        batches=batches,
        memory=batches[-1].memory_mb / batches[0].memory_mb,
        time=statistics.median(one.cpu_ms for one in last_ones) / statistics.median(one.cpu_ms for one in first),
        removed_ms=removed_ms,
        full_mb=full_mb,
        kept_mb=size_mb(path),
        fresh_mb=fresh_mb(folder / "fresh.db", batch, synchronous),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, and say whether the aims hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executions", type=int, default=100_000, help="default: 100000")
    parser.add_argument("--batch", type=int, default=1_000, help="default: 1000")
    parser.add_argument("--full", action="store_true", help='synchronous="FULL"')
    parser.add_argument("--folder", type=Path, help="where the file lies; default: a temporary folder")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        synchronous: Literal["FULL", "NORMAL"] = "FULL" if given.full else "NORMAL"
        print(f"{given.executions:,} executions of {TASKS} tasks, SQLite {synchronous}")
        load = measure(Path(folder), executions=given.executions, batch=given.batch, synchronous=synchronous)
    first, last = load.batches[0], load.batches[-1]
    print(f"  memory             {first.memory_mb:7.1f} → {last.memory_mb:7.1f} MB   ratio {load.memory:.3f} (at most {MEMORY})")
    print(f"  time per execution {first.cpu_ms:7.3f} → {last.cpu_ms:7.3f} ms   ratio {load.time:.3f} (at most {TIME})")
    print(f"  file               {load.fresh_mb:7.1f} fresh, {load.kept_mb:.1f} MB kept of {load.full_mb:.1f}   "
          f"ratio {load.file:.3f} (at most {FILE})")  # fmt: skip
    print(f"  removing           {load.removed_ms:7.3f} ms each")
    if given.json is not None:
        figures: dict[str, Any] = {**attrs.asdict(load), "file": load.file, "fine": load.fine}
        given.json.write_text(json.dumps(figures, indent=2) + "\n")
    print("fine" if load.fine else "NOT FINE")
    return 0 if load.fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
