"""Definitions of any size, and the runs on which costs are counted."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from conductorlite import Engine, EngineConfig, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.store.sqlite.backend import SQLiteBackend

Json = dict[str, Any]


def simple(ref: str, **parameters: str) -> Json:
    """A task of the one worker."""
    return {"name": "step", "taskReferenceName": ref, "type": "SIMPLE", "inputParameters": parameters}


def workflow(name: str, *tasks: Json, **fields: Any) -> WorkflowDef:
    """A definition of these tasks."""
    return WorkflowDef.from_json({"name": name, "version": 1, "tasks": list(tasks), **fields})


def chain(count: int) -> WorkflowDef:
    """Tasks one after another, each reading the one before."""
    refs = [f"t{n}" for n in range(count)]
    before = ["${workflow.input.x}", *(f"${{{ref}.output.x}}" for ref in refs)]
    return workflow("chain", *(simple(ref, x=read) for ref, read in zip(refs, before, strict=False)))


def fork(count: int) -> WorkflowDef:
    """As many branches as tasks, and the JOIN behind them."""
    refs = [f"t{n}" for n in range(count)]
    branches = [[simple(ref, x="${workflow.input.x}")] for ref in refs]
    return workflow("fork", *forked("fork", "join", branches, refs))


def forked(fork_ref: str, join_ref: str, branches: list[list[Json]], join_on: list[str]) -> list[Json]:
    """A FORK_JOIN and its JOIN."""
    return [
        {"name": fork_ref, "taskReferenceName": fork_ref, "type": "FORK_JOIN", "forkTasks": branches},
        {"name": join_ref, "taskReferenceName": join_ref, "type": "JOIN", "joinOn": join_on},
    ]


def switched(case: str, **cases: Json) -> Json:
    """A SWITCH on a value."""
    return {
        "name": "switch",
        "taskReferenceName": "switch",
        "type": "SWITCH",
        "evaluatorType": "value-param",
        "expression": "case",
        "inputParameters": {"case": case},
        **cases,
    }


def loop(count: int) -> WorkflowDef:
    """One task in a loop, each round reading the round before."""
    return workflow("loop", looped("loop", count, simple("t", x="${t.output.x}", n="${loop.output.iteration}")))


def sorted_loop(count: int) -> WorkflowDef:
    """The same with a SWITCH behind the task, of which no case has anything to do."""
    switch = switched("${t.output.x}", decisionCases={"1": [], "2": [simple("other")]})
    return workflow("sorted", looped("loop", count, simple("t", x="${t.output.x}", n="${loop.output.iteration}"), switch))


def looped(ref: str, rounds: int, *body: Json) -> Json:
    """A DO_WHILE of so many rounds."""
    condition = f"$.{ref}['iteration'] < {rounds}"
    return {
        "name": ref,
        "taskReferenceName": ref,
        "type": "DO_WHILE",
        "loopCondition": f"if ({condition}) {{ true; }} else {{ false; }}",
        "loopOver": list(body),
    }


def mix(count: int) -> WorkflowDef:
    """Rounds of five tasks: a SWITCH that takes turns, a fork of two in one case, a NOOP and a task that reads them all."""
    pair = [[simple("left", x="${head.output.x}")], [simple("right", x="${head.output.x}"), simple("right2")]]
    cases = {"true": forked("fork", "join", pair, ["left", "right2"])}
    switch = switched("${head.output.even}", decisionCases=cases, defaultCase=[simple("a"), simple("b"), simple("c")])
    noop = {"name": "noop", "taskReferenceName": "noop", "type": "NOOP"}
    head = simple("head", n="${loop.output.iteration}")
    tail = simple("tail", x="${head.output.x}", case="${switch.output.selectedCase}", left="${left.output.x}")
    return workflow("mix", looped("loop", count // 5, head, switch, noop, tail))


def dynamic_fork(count: int) -> WorkflowDef:
    """As many branches of one task as tasks, known at run time only, and the JOIN behind them."""
    inputs = {"forkTaskName": "step", "forkTaskInputs": [{"x": n} for n in range(count)]}
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN_DYNAMIC", "inputParameters": inputs}
    return workflow("dynamic_fork", fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN"})


def dynamic_sequences(count: int) -> WorkflowDef:
    """Branches of two tasks that follow each other, the second of which reads the first."""
    branches = [[simple(f"a{n}"), simple(f"b{n}", x=f"$${{a{n}.output.x}}")] for n in range(count // 2)]
    fork = {
        "name": "fork",
        "taskReferenceName": "fork",
        "type": "FORK_JOIN_DYNAMIC",
        "dynamicForkTasksParam": "tasks",
        "dynamicForkTasksInputParamName": "inputs",
        "inputParameters": {"tasks": branches, "inputs": {}},
    }
    return workflow("dynamic_sequences", fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN"})


#: Per name, the definition that makes so many worker tasks.
SHAPES: dict[str, Callable[[int], WorkflowDef]] = {
    "chain": chain,
    "fork": fork,
    "loop": loop,
    "mix": mix,
    "dynamic_fork": dynamic_fork,
    "dynamic_sequences": dynamic_sequences,
}


@attrs.frozen(kw_only=True, slots=True)
class Cost:
    """What one run of `tasks` worker tasks took, start and end included."""

    tasks: int
    statements: int
    rows_read: int
    commits: int
    #: Characters of every statement with its values, and of every cell read; 0 unless asked for.
    text_written: int
    text_read: int
    #: Bytes appended to the log.
    logged: int
    by_sql: Counter[str]

    def per_task(self, name: str) -> float:
        """One of the numbers, per task."""
        return float(getattr(self, name)) / self.tasks


_BLOB: Final = re.compile(r"x'[0-9a-f]*'", re.IGNORECASE)


class Meter:
    """Watches the writing connection of a backend, on which a single thread also reads."""

    def __init__(self, backend: SQLiteBackend, *, texts: bool) -> None:
        assert backend.counts is not None
        self.backend = backend
        self.texts = texts
        self.counts = backend.counts
        self.written = self.read = 0
        self.log = Path(backend.path + "-wal")

    @contextmanager
    def on(self) -> Iterator[None]:
        """Count from here; the log is not moved into the file meanwhile, so that its size tells what was written."""
        connection = self.backend._writer
        factory: Any = connection.row_factory
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        look = self.backend._reserve.look
        self.backend._reserve.look = lambda *_: None  # type: ignore[method-assign]

        def row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Any:
            self.read += sum(len(value) for value in values if type(value) is str)
            return factory(cursor, values)

        def statement(text: str) -> None:
            # The last lines of a journal, compressed: as long as they may be in some turns, in others short.
            self.written += len(_BLOB.sub("", text))

        if self.texts:
            connection.row_factory = row
            connection.set_trace_callback(statement)
        self.counts.reset()
        try:
            yield
        finally:
            self.backend._reserve.look = look  # type: ignore[method-assign]
            connection.set_trace_callback(None)
            connection.row_factory = factory

    def cost(self, tasks: int) -> Cost:
        """What was counted, over so many tasks."""
        return Cost(
            tasks=tasks,
            statements=self.counts.statements,
            rows_read=self.counts.rows_read,
            commits=self.counts.commits,
            text_written=self.written,
            text_read=self.read,
            logged=self.log.stat().st_size,
            by_sql=Counter(self.counts.statements_by_sql),
        )


def step(x: object = None, n: int = 0) -> Json:
    """The worker: hands on what it was given."""
    return {"x": x, "even": n % 2 == 0}


def engine_on(path: Path, resident_bytes: int = 0) -> Engine:
    """An engine with the one worker, on a counting store in a file; by default it keeps no rows in memory."""
    workers = Workers()
    workers.task("step")(step)
    backend = SQLiteBackend(path, synchronous="NORMAL", counting=True)
    # With rows kept in memory the first tasks would cost less than those after them.
    config = EngineConfig(ids=iter(f"w{n:06}" for n in range(10**6)).__next__, resident_bytes=resident_bytes)
    return Engine(backend, workers=workers, clock=VirtualClock(), config=config)


def run(path: Path, definition: WorkflowDef, tasks: int, *, texts: bool = False, given: Json | None = None) -> Cost:
    """Run one execution to its end and count everything from its start on; `texts` also counts characters."""
    with closing(engine_on(path)) as engine:
        meter = Meter(engine.backend, texts=texts)  # type: ignore[arg-type]
        with meter.on():
            handle = engine.start(definition, given or {"x": 1}, workflow_id=definition.name)
            while engine.tick():
                pass
        cost = meter.cost(tasks)
        assert handle.status is WorkflowStatus.COMPLETED, handle.workflow.reason
        done = sum(task.task_type == "step" for task in handle.workflow.tasks)
        assert done == tasks, f"the shape makes {done} worker tasks, not {tasks}"
    return cost
