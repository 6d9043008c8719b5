"""Several processes on one store, killed at random (SIGKILL) and started again; then everything is accounted for.

    python tests/processes/kill.py --seconds 60 --processes 4 --executions 500
    python tests/processes/kill.py --store postgresql://… --lock redis://… --disturb "sh tests/servers/postgres again"
    python tests/processes/kill.py --index elasticsearch://… --payloads s3://… --disturb "sh tests/servers/elasticsearch again"

The store is a SQLite file, or another one at a URL. With `--disturb` a command is run again and again meanwhile, ten seconds after
its end, which ends the server of the store, the lock, the index or the payloads and starts it again. In the end the index must be
equal to the store. With `--payloads` every output goes there, past a barrier of 1 KB.

Each execution is a family: a fork of three tasks, a wait, a child with two tasks. Every task acts on the world, which is
another SQLite file (the *ledger*): it notes each call, and books one unit under `TaskContext.idempotency_key`, which the
ledger refuses the second time, as a payment service does. Executions start over the whole time, so that there is always work
when somebody is killed. In the end every execution must be COMPLETED, every task called at least once and booked exactly
once, every law must hold, and SQLite must find no fault with the file. The figures are printed as JSON; what does not hold
ends the command with status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

from conductorlite import Barriers, Engine, EngineConfig, TaskContext, Workers, WorkflowDef, WorkflowStatus
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.errors import LockUnavailable, PayloadUnavailable, StorageUnavailable
from conductorlite.store.locks import SQLiteLock

#: Seconds in which everything must have ended once nobody is killed any more.
PATIENCE = 120.0

#: Outputs of tasks go to the payload storage from 1 KB on.
LOW = Bounds(barriers=Barriers(task_output_payload_size_threshold=1))

#: Seconds between two disturbances.
DISTURB_S = 10.0

#: Tasks of one family that act on the world.
TASKS = 6


def definitions(response_timeout: int = 2) -> tuple[WorkflowDef, WorkflowDef]:
    """The child and the family; tasks that nobody gives back are offered again after so many seconds."""

    def simple(ref: str) -> dict[str, Any]:
        times = {"responseTimeoutSeconds": response_timeout, "timeoutSeconds": 0, "pollTimeoutSeconds": 0}
        task_def = {"name": "act", "retryCount": 50, "retryDelaySeconds": 0, **times}
        return {"name": "act", "taskReferenceName": ref, "taskDefinition": task_def}

    child = {"name": "child", "version": 1, "tasks": [simple("c1"), simple("c2")]}
    family = {
        "name": "family",
        "version": 1,
        "tasks": [
            {
                "name": "fork",
                "taskReferenceName": "fork",
                "type": "FORK_JOIN",
                "forkTasks": [[simple("a")], [simple("b")], [simple("c")]],
            },
            {"name": "join", "taskReferenceName": "join", "type": "JOIN", "joinOn": ["a", "b", "c"]},
            {"name": "wait", "taskReferenceName": "wait", "type": "WAIT", "inputParameters": {"duration": "1s"}},
            {
                "name": "child",
                "taskReferenceName": "child",
                "type": "SUB_WORKFLOW",
                "subWorkflowParam": {"name": "child", "version": 1},
            },
            simple("last"),
        ],
    }
    return WorkflowDef.from_json(child), WorkflowDef.from_json(family)


LEDGER = """
CREATE TABLE calls (workflow_id TEXT NOT NULL, ref TEXT NOT NULL, attempt INTEGER NOT NULL, pid INTEGER NOT NULL);
CREATE TABLE booked (key TEXT PRIMARY KEY NOT NULL, workflow_id TEXT NOT NULL, ref TEXT NOT NULL);
CREATE TABLE account (balance INTEGER NOT NULL);
INSERT INTO account VALUES (0);
"""


def ledger(folder: Path) -> sqlite3.Connection:
    """The world outside: a connection for one thread."""
    return sqlite3.connect(folder / "ledger.db", isolation_level=None, timeout=30)


def workers(folder: Path) -> Workers:
    """The function that acts on the world."""
    made = Workers(concurrency=4)

    @made.task("act")
    def act(context: TaskContext) -> dict[str, Any]:
        with closing(ledger(folder)) as world:
            world.execute("INSERT INTO calls VALUES (?, ?, ?, ?)", (context.workflow_id, context.ref, context.attempt, os.getpid()))
            time.sleep(random.uniform(0.0, 0.05))
            world.execute("BEGIN IMMEDIATE")
            row = (context.idempotency_key, context.workflow_id, context.ref)
            if world.execute("INSERT OR IGNORE INTO booked VALUES (?, ?, ?)", row).rowcount:
                world.execute("UPDATE account SET balance = balance + 1")
            world.execute("COMMIT")
        return {"pid": os.getpid(), "padding": "x" * 1_500}

    return made


def opened(folder: Path, store: str | None, **options: Any) -> Engine:
    """An engine on the store, as soon as its server is there."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return Engine(store or folder / "store.db", **options)
        except (StorageUnavailable, LockUnavailable, PayloadUnavailable):
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def elsewhere(arguments: argparse.Namespace) -> dict[str, Any]:
    """What of an engine is on a server of its own."""
    return {name: url for name in ("index", "payloads") if (url := getattr(arguments, name))}


def drive(folder: Path, arguments: argparse.Namespace) -> None:
    """One of the processes: drives until it is killed, or the one that started it has gone."""

    def orphaned() -> None:
        # Past the buffer of `sys.stdin`, which an interpreter that ends while it is waited for does not get.
        os.read(0, 1)
        os._exit(0)

    threading.Thread(target=orphaned, daemon=True).start()
    lock = SQLiteLock(folder / "locks.db", lease="1s") if arguments.locked else arguments.lock
    name = f"engine-{arguments.number}" if arguments.local else None
    config = EngineConfig(lock=lock, name=name, allocation="local" if arguments.local else "shared", bounds=LOW)
    with opened(folder, arguments.store, workers=workers(folder), config=config, **elsewhere(arguments)) as engine:
        _up(folder, os.getpid()).write_text(engine.core.holding.worker_id)
        engine.run_forever()


def _up(folder: Path, pid: int) -> Path:
    """The file in which a process that drives says so, by its worker's name."""
    return folder / f"up-{pid}.txt"


class Crew:
    """The processes, each of which is started again when it was killed."""

    def __init__(self, folder: Path, number: int, options: list[str], chance: random.Random) -> None:
        self.folder = folder
        self.options = options
        self.chance = chance
        self.kills = 0
        self.errors: list[str] = []
        self.crew = [self._start(one) for one in range(number)]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--drive", str(self.folder), "--number", str(number), *self.options]
        with (self.folder / "errors.txt").open("ab") as errors:
            return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors)

    def kill_one(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Kill one, at once, and start it again."""
        self.kill(self.chance.randrange(len(self.crew)), how)

    def survived(self) -> int:
        """Whom to kill so that the others survive: waits until they drive."""
        number = self.chance.randrange(len(self.crew))
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if all(self.worker(other) for other in range(len(self.crew)) if other != number):
                break
            time.sleep(0.01)
        return number

    def worker(self, number: int) -> str:
        """The worker's name of one that drives; empty as long as it does not."""
        file = _up(self.folder, self.crew[number].pid)
        return file.read_text() if file.exists() else ""

    def kill(self, number: int, how: signal.Signals) -> None:
        """End this one, at once, and start it again."""
        self._end(number, how)
        self.kills += 1
        self.crew[number] = self._start(number)

    def _end(self, number: int, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.crew[number]
        if process.poll() is not None:
            self.errors.append(f"process {number} ended by itself with status {process.returncode}")
        process.send_signal(how)
        process.wait(60)
        if process.stdin is not None:
            process.stdin.close()

    def close(self) -> None:
        """Kill all of them."""
        for number in range(len(self.crew)):
            self._end(number)


def run(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole of it; returns the figures, with what does not hold under `problems`."""
    chance = random.Random(arguments.seed)
    with closing(ledger(folder)) as world:
        world.execute("PRAGMA journal_mode = WAL")
        world.executescript(LEDGER)
    began = time.monotonic()
    with opened(folder, arguments.store, config=EngineConfig(bounds=LOW), **elsewhere(arguments)) as engine:
        engine.register(*definitions(arguments.response_timeout))
        options = [f"--{name}" for name in ("locked", "local") if getattr(arguments, name)]
        servers = {name: getattr(arguments, name) for name in ("store", "lock", "index", "payloads")}
        options += [word for name, url in servers.items() if url for word in (f"--{name}", url)]
        starters = [engine]
        if arguments.local:
            names = [f"engine-{number}" for number in range(arguments.processes)]
            starters = [opened(folder, arguments.store, config=EngineConfig(name=name, allocation="local")) for name in names]
        span = round(arguments.seconds * 1000 * 0.9)
        for number in range(arguments.executions):
            delay = f"{span * number // arguments.executions}ms"
            starters[number % len(starters)].start("family", workflow_id=f"family-{number}", delay=delay)
        crew, disturbances = Crew(folder, arguments.processes, options, chance), 0
        try:
            ends = time.monotonic() + arguments.seconds
            disturbed_at, disturbing = time.monotonic(), None
            while time.monotonic() < ends:
                time.sleep(arguments.every)
                crew.kill_one()
                if disturbing is not None and disturbing.poll() is not None:
                    crew.errors += [f"{arguments.disturb}: status {disturbing.returncode}"] if disturbing.returncode else []
                    disturbing, disturbed_at = None, time.monotonic()
                if arguments.disturb and disturbing is None and time.monotonic() - disturbed_at >= DISTURB_S:
                    disturbing = subprocess.Popen(arguments.disturb, shell=True)
                    disturbances += 1
            if disturbing is not None:
                disturbing.wait(PATIENCE)
            deadline = time.monotonic() + arguments.patience
            while time.monotonic() < deadline and any(engine.admin.workflow_ids(WorkflowStatus.RUNNING)):
                time.sleep(0.1)
        finally:
            crew.close()
        took = time.monotonic() - began
        figures = account(engine, folder, arguments.executions)
        if arguments.index:
            figures["problems"] += indexed(engine)
    figures = {"seconds": round(took, 1), "kills": crew.kills, "disturbances": disturbances, **figures}
    figures["problems"] = [*crew.errors, *figures["problems"]]
    return figures


def indexed(engine: Engine) -> list[str]:
    """What is wrong with an index once it was told everything; that it is equal to the store, `check` has said."""
    health = engine.admin.index_health()
    found = engine.search("status = COMPLETED", size=0).total_hits
    rows = len(list(engine.admin.workflow_ids()))
    good = health is not None and health.complete and not health.behind and found == rows
    return [] if good else [f"the index: {health}, {found} found of {rows}"]


def account(engine: Any, folder: Path, executions: int) -> dict[str, Any]:
    """What has become of every execution and every act."""
    problems: list[str] = []
    engine.admin.relay()
    rows = [engine.core.queries.execution(workflow_id) for workflow_id in engine.admin.workflow_ids()]
    statuses = Counter(str(row.status) for row in rows)
    if statuses != {"COMPLETED": 2 * executions}:
        problems.append(f"executions: {dict(statuses)}, {2 * executions} were to be COMPLETED")
    problems += [str(finding) for finding in engine.admin.check()]
    if engine.admin.agenda() or engine.tasks.queue_sizes():
        problems.append(f"left: {engine.admin.agenda(3)}, {dict(engine.tasks.queue_sizes())}")
    attempts = sum(len(engine.get(row.workflow_id).tasks) for row in rows)
    problems += engine.backend.faults()
    with closing(ledger(folder)) as world:
        calls = Counter(world.execute("SELECT workflow_id, ref FROM calls").fetchall())
        booked = Counter(world.execute("SELECT workflow_id, ref FROM booked").fetchall())
        (balance,) = world.execute("SELECT balance FROM account").fetchone()
    acts = TASKS * executions
    if len(calls) != acts:
        problems.append(f"{len(calls)} tasks were called, {acts} were to be")
    if len(booked) != acts or set(booked.values()) != {1} or balance != acts:
        most = max(booked.values(), default=0)
        problems.append(f"{len(booked)} tasks were booked, {most} times at most, the balance is {balance}")
    return {
        "executions": len(rows),
        "tasks": acts,
        "attempts": attempts,
        "calls": sum(calls.values()),
        "called more than once": sum(number > 1 for number in calls.values()),
        "booked": balance,
        "problems": problems,
    }


def main() -> int:
    """Read the command line and do as it says."""
    parser = argparse.ArgumentParser(description="Kill processes on one file at random, and account for everything.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long somebody is killed every second")
    parser.add_argument("--every", type=float, default=1.0, help="seconds between kills")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--executions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="who is killed when")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds after which what has not ended is a problem")
    parser.add_argument("--response-timeout", type=int, default=2, help="seconds after which a task is offered again")
    parser.add_argument("--locked", action="store_true", help="with a SQLiteLock")
    parser.add_argument("--local", action="store_true", help="each engine keeps its own executions")
    parser.add_argument("--store", metavar="URL", help="another store than a SQLite file; an empty one")
    parser.add_argument("--lock", metavar="URL", help="a lock of Redis or ZooKeeper")
    parser.add_argument("--index", metavar="URL", help="an index of Elasticsearch or OpenSearch")
    parser.add_argument("--payloads", metavar="URL", help="a payload storage")
    parser.add_argument("--disturb", metavar="COMMAND", help="run ten seconds after its last end")
    parser.add_argument("--drive", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.drive is not None:
        drive(Path(arguments.drive), arguments)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        figures = run(Path(folder), arguments)
        lines = (Path(folder) / "errors.txt").read_text().splitlines()
    # A loaded machine stops processes for a while, which each of them warns of.
    errors = "\n".join(line for line in lines if not line.startswith("this process did not run for "))
    print(json.dumps(figures, indent=2))
    if errors:
        print(errors, file=sys.stderr)
    # A server that ends is logged by everybody; a process that ends by it is a problem.
    return 1 if figures["problems"] or (errors and not arguments.disturb) else 0


if __name__ == "__main__":
    sys.exit(main())
