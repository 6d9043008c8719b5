"""An engine interrupted at random instants, and awaited verbs canceled at random ones; then everything is accounted for.

    python tests/processes/interrupts.py --interrupts 10000 --store sqlite
    python tests/processes/interrupts.py --cancellations 10000

An interrupt is a KeyboardInterrupt, a MemoryError or an exception of a program's own before an instruction that is drawn from a run
without any (`conductorlite.testing.interrupts`), in one of five programs: one driven in virtual time, one that does by hand what
workers and operators do, one that starts in a transaction of its own, and two in real time, whose workers run in threads or are
coroutines. Each time, with the exception still kept, somebody else must be able to write to the store; then the same program goes
on with the same engine to its end, in virtual time without a second of it passing, and no law may be broken. A cancellation is one
of an awaited verb, after a time that is drawn, and, for each verb, at each of the places at which it awaits something; in the end
every task in progress must be one that some caller has, and every execution must come to its end. The figures are printed as JSON;
what does not hold is told with its seed and ends the command with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import json
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any

from conductorlite import (
    AsyncEngine,
    Engine,
    Task,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import start_once
from conductorlite.testing.faults import lay_empty_store
from conductorlite.testing.interrupts import Instants

#: Seconds in which one program must have come to its end.
PATIENCE = 60

_TASK = {"retryCount": 50, "retryDelaySeconds": 0, "responseTimeoutSeconds": 600, "timeoutSeconds": 0, "pollTimeoutSeconds": 0}


def _simple(ref: str) -> dict[str, Any]:
    return {"name": "act", "taskReferenceName": ref, "taskDefinition": {"name": "act", **_TASK}}


FORK = WorkflowDef.from_json(
    {
        "name": "fork",
        "tasks": [
            _simple("a"),
            {"name": "f", "taskReferenceName": "f", "type": "FORK_JOIN", "forkTasks": [[_simple("b")], [_simple("c")]]},
            {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["b", "c"]},
        ],
    }
)
CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [_simple("a"), _simple("b")]})


class Alarm(KeyboardInterrupt):
    """What a program's own signal handler raises. (Any other exception may be taken for one of a worker's function.)"""


ERRORS: tuple[Callable[[], BaseException], ...] = (KeyboardInterrupt, MemoryError, Alarm)


def driven(engine: Engine) -> None:
    """Executions that are driven to their end."""
    start_once(engine, FORK, workflow_id="one")
    engine.run_until_idle(timeout="30s")


class ByHand:
    """Verbs without a driver. What it was given by a poll it has, and reports again when it was interrupted meanwhile."""

    def __init__(self) -> None:
        self.held: list[Task] = []

    def __call__(self, engine: Engine) -> None:
        """Once through."""
        start_once(engine, CHAIN, workflow_id="one")
        if not engine.status("one").terminal:
            engine.update_variables("one", {"n": 1})
        for _ in range(4):
            self.held += engine.poll("act", count=2)
            for task in self.held:
                engine.update_task(_done(task.workflow_id, task.task_id, task.lease))
            self.held.clear()
        engine.history("one")


def in_a_transaction(engine: Engine) -> None:
    """An execution that is started in a transaction of the application, and driven to its end."""
    with engine.transaction():
        start_once(engine, CHAIN, workflow_id="one")
    engine.run_until_idle(timeout="30s")


def _done(workflow_id: str, task_id: str, lease: int) -> TaskResult:
    return TaskResult(workflow_id=workflow_id, task_id=task_id, status=TaskStatus.COMPLETED, lease=lease)


#: Name, what is done, whether time is virtual, and how much of the interrupts it gets.
PROGRAMS: tuple[tuple[str, Callable[[], Callable[[Engine], None]], bool, int], ...] = (
    ("driven", lambda: driven, True, 5),
    ("by hand", ByHand, True, 2),
    ("transaction", lambda: in_a_transaction, True, 1),
    ("threads", lambda: driven, False, 2),
    ("coroutines", lambda: driven, False, 1),
)


class Fuzz:
    """Interrupts of one kind of store."""

    def __init__(self, store: str, seed: int, folder: Path) -> None:
        self.store = store
        self.seed = seed
        self.folder = folder
        self.figures: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._instructions: dict[str, int] = {}

    def run(self, interrupts: int) -> None:
        """As many programs, each interrupted once."""
        draw = random.Random(f"{self.seed}:{self.store}")
        for name, program, virtual, _ in PROGRAMS:
            for _ in range(3):  # what is imported and compiled on first use is known from then on, a definition's text after two
                self._instructions[name] = self._life(name, program, virtual, None, KeyboardInterrupt, "")
        weights = [weight for *_, weight in PROGRAMS]
        for number in range(interrupts):
            name, program, virtual, _ = draw.choices(PROGRAMS, weights)[0]
            at, error = draw.randrange(self._instructions[name]), draw.choice(ERRORS)
            self._life(name, program, virtual, at, error, f"{name} #{number} instruction {at} {error.__name__}")
            self.figures[name] += 1
            if number % 500 == 499:
                print(f"{number + 1} interrupts, {len(self.wrong)} wrong", file=sys.stderr, flush=True)

    def _life(
        self,
        name: str,
        made: Callable[[], Callable[[Engine], None]],
        virtual: bool,
        at: int | None,
        error: Callable[[], BaseException],
        label: str,
    ) -> int:
        program = made()
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        path = lay_empty_store(self.folder / f"{self.figures.total()}.db") if self.store == "sqlite" else None
        engine = self._engine(path, virtual, _nothing_awaited if name == "coroutines" else _nothing)
        kept: BaseException | None = None
        told = ""
        variables = dict(copy_context())
        with Instants(at, error) as instants:
            try:
                program(engine)
            except BaseException as raised:
                kept = raised
        try:
            if path is not None:
                _other_writes(path)
            if at is not None and dict(copy_context()) != variables:
                raise AssertionError(f"context variables: {dict(copy_context())}")
            if at is not None:
                self.figures["raised"] += instants.where is not None
                self.figures["came out"] += kept is not None
                program(engine)
                told = self._look(engine, virtual)
        except BaseException as wrong:
            told = f"{type(wrong).__name__}: {wrong}"
        if told:
            self.wrong.append(f"{label} at {instants.where}: {kept!r}, then {told}")
            print(self.wrong[-1], file=sys.stderr, flush=True)
        del kept
        engine.close()
        for left in self.folder.glob("*.db*"):
            if left.is_file():
                left.unlink()
        faulthandler.cancel_dump_traceback_later()
        return instants.number

    def _engine(self, path: Path | None, virtual: bool, act: Callable[[], Any]) -> Engine:
        workers = Workers(concurrency=2)
        workers.task("act", retry_count=50, retry_delay_seconds=0)(act)
        store = None if path is None else SQLiteBackend(path, synchronous="NORMAL", busy_timeout_ms=1_000)
        return Engine(store, workers=workers, clock=VirtualClock(0) if virtual else None)

    def _look(self, engine: Engine, virtual: bool) -> str:
        if not virtual and engine.status("one") is WorkflowStatus.RUNNING:
            engine.run_until_idle(timeout="30s")
        broken = [str(finding) for finding in engine.admin.check()]
        if broken:
            return f"laws: {broken}"
        if engine.status("one") is not WorkflowStatus.COMPLETED:
            return f"{engine.status('one')}: {[(task.ref, str(task.status)) for task in engine.get('one').tasks]}"
        if virtual and engine.clock.now():
            return f"{engine.clock.now()} ms were waited"
        return ""


def _nothing() -> dict[str, Any]:
    return {}


async def _nothing_awaited() -> dict[str, Any]:
    return {}


def _other_writes(path: Path) -> None:
    """Somebody else writes to the file at once."""
    other = sqlite3.connect(path, timeout=0.5, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    finally:
        other.close()


class Steps:
    """Awaits a verb, and cancels the task that does at the place at which it suspends for the `at`-th time."""

    def __init__(self, verb: Coroutine[Any, Any, Any], at: int) -> None:
        self.verb, self.at, self.number = verb, at, 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self.verb.__await__()
        go_on: Callable[[], Any] = partial(steps.send, None)
        while True:
            try:
                awaited = go_on()
            except StopIteration as ended:
                return ended.value
            self.number += 1
            task = asyncio.current_task()
            if self.number == self.at and task is not None:
                task.cancel()
            try:
                go_on = partial(steps.send, (yield awaited))
            except BaseException as error:
                go_on = partial(steps.throw, error)


class Cancellations:
    """Awaited verbs that are canceled."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.figures: Counter[str] = Counter()
        self.wrong: list[str] = []
        #: Ids of the tasks that somebody has.
        self.held: set[str] = set()

    async def run(self, cancellations: int) -> None:
        """Rounds of verbs, most of them canceled; then what is left is done."""
        workers = Workers()
        workers.task("own", retry_count=50, retry_delay_seconds=0)(_nothing)
        own = WorkflowDef.from_json({"name": "own", "tasks": [{"name": "own", "taskReferenceName": "own"}]})
        ext = WorkflowDef.from_json({"name": "ext", "tasks": [{"name": "ext", "taskReferenceName": "ext"}]})
        async with AsyncEngine(workers=workers) as engine:
            number = 0
            while self.figures["canceled"] < cancellations:
                number += 1
                run = await engine.start(ext, workflow_id=f"e{number}")
                await self._canceled(self._poll(engine))
                await self._canceled(engine.get(run.workflow_id))
                mine = await engine.start(own, workflow_id=f"o{number}")
                await self._canceled(mine.result())
                if number % 10 == 1:
                    await self._at_each_await(engine, number, own, ext)
                if number % 50 == 0:
                    await self._look(engine)
            await self._look(engine)
            self.figures["executions"] = 2 * number

    async def _at_each_await(self, engine: AsyncEngine, number: int, own: WorkflowDef, ext: WorkflowDef) -> None:
        """Cancel each verb at the first place at which it awaits something, then at the second, until it ends before that."""
        await engine.start(ext, workflow_id=f"e{number}-verbs")
        name = iter(range(1_000_000))
        verbs: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "start": lambda: engine.start(own, workflow_id=f"o{number}-{next(name)}"),
            "start_and_wait": lambda: engine.start_and_wait(own, workflow_id=f"o{number}-{next(name)}", timeout="20s"),
            "get": lambda: engine.get(f"e{number}-verbs"),
            "search": lambda: engine.search(f"workflowId = 'e{number}-verbs'"),
            "poll": lambda: self._poll(engine),
            "transaction": lambda: engine.in_transaction(lambda tx: tx.engine.start(own, workflow_id=f"o{number}-{next(name)}")),
            "update_variables": lambda: engine.update_variables(f"e{number}-verbs", {"n": 1}),
            "settle": lambda: engine.settle(),
            "a noun": lambda: engine.admin.check(),
        }
        for verb in verbs.values():
            for at in range(1, 100):
                steps = Steps(verb(), at)
                try:
                    await asyncio.ensure_future(_awaited(steps))
                except asyncio.CancelledError:
                    self.figures["canceled"] += 1
                    self.figures["canceled where it awaits"] += 1
                if steps.number < at:
                    break

    async def _poll(self, engine: AsyncEngine) -> None:
        taken = await engine.poll("ext", count=2, timeout=self.draw.choice(["0s", "5ms"]))
        self.held |= {task.task_id for task in taken}

    async def _canceled(self, verb: Any) -> None:
        task = asyncio.ensure_future(verb)
        for _ in range(self.draw.randrange(12)):
            await asyncio.sleep(self.draw.choice([0, 0, 0.0002]))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            self.figures["canceled"] += 1

    async def _look(self, engine: AsyncEngine) -> None:
        """Everything that is open is either with a caller or can be had, and comes to its end."""
        async for workflow_id in engine.admin.workflow_ids(WorkflowStatus.RUNNING):
            if workflow_id[0] == "o":
                await (await engine.run(workflow_id)).result(timeout="20s")
        for _ in range(1_000):
            lost = [
                task.task_id
                for workflow_id in [each async for each in engine.admin.workflow_ids(WorkflowStatus.RUNNING)]
                for task in (await engine.get(workflow_id)).tasks
                if task.status is TaskStatus.IN_PROGRESS and task.task_id not in self.held
            ]
            if not lost:
                break
            await asyncio.sleep(0.01)  # what came for nobody is being given back
        else:
            self.wrong.append(f"held by nobody: {lost}")
        while taken := await engine.poll("ext", count=50):
            self.held |= {task.task_id for task in taken}
        async for workflow_id in engine.admin.workflow_ids(WorkflowStatus.RUNNING):
            for task in (await engine.get(workflow_id)).tasks:
                await engine.update_task(_done(workflow_id, task.task_id, task.lease))
        self.wrong += [str(finding) for finding in await engine.admin.check()]


async def _awaited(steps: Steps) -> None:
    await steps


def main() -> int:
    """Do as told on the command line."""
    parser = argparse.ArgumentParser(description="Interrupts and cancellations at random instants.")
    parser.add_argument("--interrupts", type=int, default=0)
    parser.add_argument("--store", choices=("sqlite", "memory"), default="sqlite")
    parser.add_argument("--cancellations", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    began = time.monotonic()
    threading.excepthook = lambda _: None  # exceptions in threads of ours are what is tried
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(told.store, told.seed, Path(folder))
        fuzz.run(told.interrupts) if told.interrupts else None
    cancellations = Cancellations(told.seed)
    if told.cancellations:
        asyncio.run(cancellations.run(told.cancellations))
    wrong = fuzz.wrong + cancellations.wrong
    figures = {"store": told.store, "seed": told.seed, **fuzz.figures, **cancellations.figures}
    print(json.dumps({**figures, "wrong": len(wrong), "seconds": round(time.monotonic() - began, 1)}))
    for text in wrong[:20]:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
