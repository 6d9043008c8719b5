"""Steps per second: chains of 10, a fork of 1,000 and a loop of 1,000, next to bare sqlite3.

A step is one worker task from scheduled to completed. The bare step is what any durable engine must do at least: insert a
row, update it, commit.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from harness import Case, Figure, arguments, compare, publish

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef
from conductorlite.store.sqlite.backend import SQLiteBackend

Json = dict[str, Any]
Mode = Literal["FULL", "NORMAL"]


def _step(ref: str, read: str) -> Json:
    return {"name": "step", "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": {"x": read}}


def _definition(name: str, tasks: list[Json]) -> WorkflowDef:
    return WorkflowDef.from_json({"name": name, "version": 1, "tasks": tasks})


def chain(length: int) -> WorkflowDef:
    """Tasks one after another."""
    reads = ["${workflow.input.x}", *(f"${{t{n}.output.x}}" for n in range(length - 1))]
    return _definition("chain", [_step(f"t{n}", read) for n, read in enumerate(reads)])


def fork(width: int) -> WorkflowDef:
    """So many branches and their JOIN."""
    refs = [f"t{n}" for n in range(width)]
    branches = [[_step(ref, "${workflow.input.x}")] for ref in refs]
    join = {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": refs}
    return _definition("fork", [{"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN", "forkTasks": branches}, join])


def loop(rounds: int) -> WorkflowDef:
    """One task so many times."""
    condition = f"if ($.loop['iteration'] < {rounds}) {{ true; }} else {{ false; }}"
    return _definition(
        "loop",
        [
            {
                "name": "loop",
                "taskReferenceName": "loop",
                "type": "DO_WHILE",
                "loopCondition": condition,
                "loopOver": [_step("t", "${loop.output.iteration}")],
            }
        ],
    )


def drive(definition: WorkflowDef, executions: int, steps: int, mode: Mode | None) -> int:
    """Run so many executions to their end on memory (`mode` None) or SQLite; returns the number of steps."""
    workers = Workers()
    workers.task("step")(lambda x: {"x": x})
    with tempfile.TemporaryDirectory() as folder:
        backend = None if mode is None else SQLiteBackend(Path(folder) / "store.db", synchronous=mode)
        with Engine(backend, workers=workers, clock=VirtualClock()) as engine:
            runs = [engine.start(definition, {"x": n}) for n in range(executions)]
            engine.run_until_idle()
            if not all(run.status == "COMPLETED" for run in runs):
                raise RuntimeError("an execution did not complete")
    return executions * steps


def bare(steps: int, mode: Mode) -> int:
    """Insert, update and commit one row per step, with nothing around it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder) / "store.db", isolation_level=None)) as connection,
    ):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {mode}")
        connection.execute("CREATE TABLE steps (n INTEGER PRIMARY KEY, status TEXT, output TEXT)")
        for n in range(steps):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO steps VALUES (?, 'SCHEDULED', NULL)", (n,))
            connection.execute("UPDATE steps SET status = 'COMPLETED', output = '{}' WHERE n = ?", (n,))
            connection.execute("COMMIT")
    return steps


def measure(*, rounds: int, size: int) -> list[tuple[str, list[Figure]]]:
    """The figures of this benchmark, one list per durability, each with its own baseline."""
    shapes = {
        f"{max(1, size // 10)} chains of 10": (chain(10), max(1, size // 10), 10),
        f"fork of {size}": (fork(size), 1, size),
        f"loop of {size}": (loop(size), 1, size),
    }
    listed = []
    modes: dict[str, Mode | None] = {"memory": None, "SQLite NORMAL": "NORMAL", "SQLite FULL": "FULL"}
    for title, mode in modes.items():
        cases = [
            Case(name, partial(drive, definition, executions, steps, mode))
            for name, (definition, executions, steps) in shapes.items()
        ]
        base = "bare sqlite3"
        cases.insert(0, Case(base, partial(bare, size, mode or "NORMAL")))
        listed.append((title, compare(cases, rounds=rounds, baseline=base)))
    return listed


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = arguments(__doc__, rounds=5, size=1000).parse_args(argv)
    for title, figures in measure(rounds=given.rounds, size=given.size):
        path = given.json and given.json.with_stem(f"{given.json.stem}-{title.lower().replace(' ', '-')}")
        publish(f"Throughput, {title}", "steps", figures, path)


if __name__ == "__main__":
    main()
