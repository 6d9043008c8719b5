"""Messages in and values out: what a message costs beside a signal, what 10,000 emitted values cost, how soon they are read.

    python -m tests.benchmarks talking [--store memory|FILE|URL] [--count 10000] [--rounds 3]

Signals and messages are sent in turn, on executions of the same shape: a loop of WAITs or of PULL_WORKFLOW_MESSAGES. Each figure is
the processor time of this process, median of the rounds. A reader in another process notes when it has each value.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from conductorlite import Engine, TaskContext, Workers, WorkflowDef
from conductorlite.model.streams import StreamItem

#: CPU seconds that 10,000 values of one worker may take, and ms until another process has each.
VALUES_CPU, READ_MS = 1.0, 250
#: How many times what a signal costs a message may cost: equal, and what is noise.
MESSAGE = 1.05

#: Messages that an execution keeps at most.
_KEPT = 1_000

_TEXT = "twenty characters..."


def _loop(kind: str, ref: str, **inputs: Any) -> WorkflowDef:
    body = {"name": ref, "taskReferenceName": ref, "type": kind, "inputParameters": inputs}
    loop = {
        "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "true", "loopOver": [body],
        "inputParameters": {"keepLastN": 2},
    }  # fmt: skip
    return WorkflowDef.from_json({"name": ref, "tasks": [loop]})


SIGNALS, MESSAGES = _loop("WAIT", "w"), _loop("PULL_WORKFLOW_MESSAGES", "p", topic="x")


def signal(engine: Engine, workflow_id: str) -> None:
    """Complete the WAIT that is open."""
    engine.signal(workflow_id, {"text": _TEXT})


def send(engine: Engine, workflow_id: str) -> None:
    """Have the task receive it that waits."""
    engine.send(workflow_id, "x", {"text": _TEXT})


def keep(engine: Engine, workflow_id: str) -> None:
    """Send what no task waits for."""
    engine.send(workflow_id, "y", {"text": _TEXT})


def cost(act: Callable[[Engine, str], None], engine: Engine, ids: Sequence[str]) -> float:
    """CPU microseconds of one, each on the next execution."""
    began = time.process_time()
    for workflow_id in ids:
        act(engine, workflow_id)
    return (time.process_time() - began) / len(ids) * 1e6


def talked(store: Callable[[], str | None], count: int, rounds: int) -> Iterator[tuple[str, float, float]]:
    """Yield the name of a case, what a signal costs in it, and what a message does."""
    cases: dict[str, list[tuple[float, float]]] = {"to one execution": [], "to one of many each": [], "kept for later": []}
    with Engine(store()) as engine:
        for _ in range(rounds):
            one = count // rounds
            pairs = [engine.start(definition).workflow_id for definition in (SIGNALS, MESSAGES)]
            each = _alternated(engine, pairs[:1] * one, pairs[1:] * one, send)
            cases["to one execution"].append(each)
            ids = [engine.start_many(definition, [{}] * one) for definition in (SIGNALS, MESSAGES)]
            cases["to one of many each"].append(_alternated(engine, ids[0], ids[1], send))
            kept = [engine.start(MESSAGES).workflow_id for _ in range(1 + one // _KEPT)]
            cases["kept for later"].append(_alternated(engine, ids[0], [one for one in kept for _ in range(_KEPT)][:one], keep))
    for name, found in cases.items():
        yield name, *(statistics.median(column) for column in zip(*found, strict=True))


def _alternated(
    engine: Engine, signaled: Sequence[str], sent: Sequence[str], act: Callable[[Engine, str], None], parts: int = 10
) -> tuple[float, float]:
    """Signals and messages in ten parts, one after the other; the least of each."""
    size = -(-len(signaled) // parts)
    found = [
        (cost(signal, engine, signaled[at : at + size]), cost(act, engine, sent[at : at + size]))
        for at in range(0, len(signaled), size)
    ]
    return min(one for one, _ in found), min(other for _, other in found)


def emitting(count: int, pause: float = 0.0) -> Workers:
    """A worker that emits so many values of twenty characters, with a pause after each."""
    workers = Workers()

    def says(context: TaskContext) -> None:
        for _ in range(count):
            context.emit(time.time() if pause else _TEXT)
            if pause:
                time.sleep(pause)

    workers.add("says", says)
    return workers


_SAYS = WorkflowDef.from_json({"name": "says", "tasks": [{"name": "says", "taskReferenceName": "says"}]})


def emitted(store: str | None, count: int) -> float:
    """CPU seconds of one execution whose worker emits so many values, without the start."""
    with Engine(store, workers=emitting(count)) as engine:
        run = engine.start(_SAYS)
        began = time.process_time()
        run.result()
        taken = time.process_time() - began
        assert len(engine.streams.items(run.workflow_id, limit=count + 1)) == count
    return taken


def read_late(store: str, count: int) -> list[float]:
    """For each value the ms after which another process has it."""
    with Engine(store, workers=emitting(count, pause=0.005)) as engine:
        run = engine.start(_SAYS, workflow_id="says")
        command = [sys.executable, "-m", "tests.benchmarks", "talking", "--read", store]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        run.result()
        said, _ = reader.communicate(timeout=120)
    return [float(line) for line in said.split()]


def _read(store: str) -> None:
    """Follow the execution of `read_late`, and print how late each value is, in ms."""
    with Engine(store) as engine:
        print("ready", flush=True)
        late = [(time.time() - item.value) * 1_000 for item in engine.run("says").stream() if isinstance(item, StreamItem)]
    print(*late, sep="\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Print each figure beside its goal; 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="file", help="memory, file (default), or the URL of a server")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", metavar="STORE", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.read:
        _read(given.read)
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        number = iter(range(1_000))

        def store() -> str | None:
            if given.store == "file":
                return str(Path(folder) / f"{next(number)}.db")
            return None if given.store == "memory" else str(given.store)

        for name, one, other in talked(store, given.count, given.rounds):
            missed += _said(f"message {name}", other / one, f"signals ({other:.0f} and {one:.0f} µs)", MESSAGE)
        cpu = statistics.median(emitted(store(), given.count) for _ in range(given.rounds))
        missed += _said(f"{given.count} values", cpu, "s of CPU", VALUES_CPU)
        if given.store != "memory":
            late = sorted(read_late(str(store()), min(given.count, 1_000)))
            missed += _said(f"{len(late)} values read, the last", late[-1], f"ms (median {late[len(late) // 2]:.0f})", READ_MS)
    return 1 if missed else 0


def _said(what: str, value: float, unit: str, bound: float) -> bool:
    held = value <= bound
    print(f"{what:<32} {value:8.2f} {unit}, goal {bound:g}: {'held' if held else 'MISSED'}")
    return not held


if __name__ == "__main__":
    sys.exit(main())
