"""Rate and concurrency limits, judged by who is called: processes on one file, killed at random, under a clock that jumps by 8 s.

    python tests/processes/begins.py [--count 10000] [--seed 1] [--processes 3] [--seconds 600]

The workers of each process write a line to one file when their function begins and ends, with the instants at which they looked for
work and were called, by a clock that the engine does not read; nor does it know of that file. The engine's clock is one number
shared by all processes. It runs, and jumps to and fro by up to 8 s every now and then. Processes end by SIGKILL, with tasks in
hand, and others take their place.

Judged afterwards: more begins than the rate that lie in one window beyond doubt (a poll lies between its two instants), and more
functions at work at once than the slots. A call that was cut off by a kill counts as at work until its attempt is called again.
Printed as JSON; what does not hold ends the command with status 1.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite import Engine, TaskContext, TaskDef, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import StorageBusy
from conductorlite.model.clock import Wakeup
from conductorlite.store.sqlite.backend import SQLiteBackend

__all__ = ["Begin", "above", "judged", "main", "run"]

#: The limits.
SLOTS, RATE, WINDOW_MS = 4, 5, 200

#: How far the clock jumps at most, ms; seconds between jumps, and between kills.
JUMP_MS, JUMP_EVERY, KILL_EVERY = 8_000, 2.0, 4.0

#: Calls of one execution.
ROUNDS: Final = 50


class SharedClock:
    """A clock that all processes read from one file; who runs it sets it."""

    virtual = False

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._cell = mmap.mmap(file.fileno(), 8)

    def now(self) -> int:
        """What it reads, epoch ms."""
        (instant,) = struct.unpack("<q", self._cell[:8])
        return int(instant)

    def set(self, instant: int) -> None:
        """Have it read something else."""
        self._cell[:8] = struct.pack("<q", instant)

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        """Wait a little: it may be set at any moment."""
        wakeup.wait(0.005)


def _instant() -> float:
    """A clock of the machine that never jumps and that all processes share, ms."""
    return time.monotonic_ns() / 1_000_000


def definition() -> WorkflowDef:
    """A loop of limited calls."""
    limits: dict[str, Any] = {
        "concurrent_exec_limit": SLOTS,
        "rate_limit_per_frequency": RATE,
        "rate_limit_frequency_ms": WINDOW_MS,
    }
    limited = TaskDef(name="call", retry_count=100, retry_delay_ms=0, response_timeout_ms=3_600_000, timeout_ms=0, **limits)
    call = WorkflowTask(name="call", task_reference_name="call", task_definition=limited)
    again = f"$.loop['iteration'] < {ROUNDS}"
    return WorkflowDef(
        name="calls",
        tasks=[WorkflowTask(name="loop", task_reference_name="loop", type="DO_WHILE", loop_condition=again, loop_over=[call])],
    )


def work(folder: Path) -> None:
    """One process: drive the store until killed, and write down every call."""
    clock = SharedClock(folder / "clock")
    told = os.open(folder / "told", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    looked: dict[tuple[str, int], int] = {}
    workers = Workers(concurrency=3)

    @workers.task("call")
    def call(context: TaskContext) -> dict[str, Any]:
        task = context.task
        line = ["begin", task.task_id, looked.pop((task.task_id, task.lease)), _instant()]
        os.write(told, json.dumps(line).encode() + b"\n")
        time.sleep(0.004)
        os.write(told, json.dumps(["end", task.task_id]).encode() + b"\n")
        return {}

    engine = Engine(SQLiteBackend(folder / "store.db", synchronous="NORMAL", busy_timeout_ms=20_000), clock=clock, workers=workers)
    take = engine.core.polling.take_offered

    def taking(*given: Any, **named: Any) -> Any:
        before = _instant()
        found = take(*given, **named)
        for task in found:
            looked[task.task_id, task.lease] = before
        return found

    engine.core.polling.take_offered = taking  # type: ignore[method-assign]
    engine.run_forever()


@attrs.frozen(kw_only=True)
class Begin:
    """One call: instants before the poll that took it, and when the function began."""

    first: float
    last: float


def above(begins: Sequence[Begin], window_ms: int) -> int:
    """The most calls that lie in one window beyond doubt: begun less than a window after somebody looked for the first of them."""
    spans = sorted((one.first, one.last) for one in begins)
    most = 0
    for place, (first, _) in enumerate(spans):
        memo = itertools.takewhile(lambda span: span[0] < first + window_ms, spans[place:])  # noqa: B023 - used at once
        most = max(most, sum(last < first + window_ms for _, last in memo))
    return most


def judged(lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What the observer saw."""
    begins = [Begin(first=line[2], last=line[3]) for line in lines if line[0] == "begin"]
    at_work: set[str] = set()
    most_at_work = again = 0
    for kind, task, *_ in lines:
        if kind == "begin":
            again += task in at_work
            at_work.add(task)
            most_at_work = max(most_at_work, len(at_work))
        else:
            at_work.discard(task)
    return {
        "begins": len(begins),
        "begun again after a kill": again,
        "most in a window": above(begins, WINDOW_MS),
        "rate": RATE,
        "most at once": most_at_work,
        "slots": SLOTS,
    }


def _lines(folder: Path) -> list[list[Any]]:
    with suppress(FileNotFoundError):
        text = (folder / "told").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]
    return []


class _Count:
    """How many lines tell of a begin so far."""

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path = path
        self._read = self.begins = 0

    def look(self) -> int:
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        self.begins += new.count(b"begin")
        return self.begins


@contextlib.contextmanager
def _processes(folder: Path, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    running = [_process(folder) for _ in range(count)]
    try:
        yield running
    finally:
        for one in running:
            one.kill()
            one.wait()


def _process(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--work", str(folder)], stderr=subprocess.DEVNULL)


def run(
    folder: Path, count: int, seed: int, processes: int, *, jump_every: float, kill_every: float, seconds: float = 1e9
) -> dict[str, Any]:
    """Have them make so many calls, and judge."""
    chance = random.Random(seed)
    (folder / "clock").write_bytes(struct.pack("<q", 1_900_000_000_000))
    clock = SharedClock(folder / "clock")
    with Engine(SQLiteBackend(folder / "store.db", synchronous="NORMAL"), clock=clock) as engine:
        for number in range(count // ROUNDS + 4 * SLOTS):
            engine.start(definition(), workflow_id=f"calls-{number}")
    kills, jumps, back = 0, 0, False
    told = _Count(folder / "told")
    began = jumped = killed = before = time.monotonic()
    with _processes(folder, processes) as running:
        while told.look() < count and time.monotonic() - began < seconds:
            time.sleep(0.01)
            now = time.monotonic()
            instant = clock.now() + round((now - before) * 1000)
            before = now
            # Set back, it stands still for all that was dated before: not for long.
            if now - jumped > jump_every / (4 if back else 1):
                length = chance.randint(JUMP_MS // 2, JUMP_MS)
                back = not back and chance.random() < 0.5
                instant += -length if back else length
                jumped, jumps = now, jumps + 1
            clock.set(instant)
            if now - killed > kill_every and told.begins:
                place = chance.randrange(processes)
                running[place].send_signal(signal.SIGKILL)
                running[place].wait()
                running[place] = _process(folder)
                killed, kills = now, kills + 1
    seen = judged(_lines(folder))
    with suppress(StorageBusy), Engine(SQLiteBackend(folder / "store.db"), clock=clock) as engine:
        seen["laws broken"] = [str(finding) for finding in engine.admin.check()]
    return {**seen, "kills": kills, "jumps": jumps, "seconds": round(time.monotonic() - began, 1)}


def main(argv: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9, help="judge what there is by then")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.work is not None:
        work(asked.work)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        every = {"jump_every": JUMP_EVERY, "kill_every": KILL_EVERY, "seconds": asked.seconds}
        found = run(Path(folder), asked.count, asked.seed, asked.processes, **every)
    print(json.dumps(found, indent=2))
    return int(found["most in a window"] > RATE or found["most at once"] > SLOTS or bool(found["laws broken"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
