"""What a task costs, as counts: the same in the fiftieth as in the ten-thousandth, however full the store is.

Counts, never seconds. A run's fixed costs (its start and end) are left in: they make the small run dearer per task, so a
ratio above one can only come from something that grows. The large runs are compared with each other as well, lest the
fixed costs hide it.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

import attrs
import pytest
from shapes import SHAPES, Cost, Meter, engine_on, forked, looped, run, simple, workflow

from conductorlite import Bounds, Engine, EngineConfig, TaskDef, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite import decide as decider
from conductorlite.decide.transitions import attempt_id
from conductorlite.engine.decisions import TurnDecider
from conductorlite.engine.reader import StoreReader
from conductorlite.model.canonical import attempt_head

#: Dearest a task may be in a run ten or a hundred times as long.
RATIO: Final = 1.05

#: Tasks of the run that is looked at more closely.
TASKS: Final = 80

COUNTS: Final = ("statements", "rows_read", "commits")


@pytest.fixture(scope="session")
def costs(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Runs each shape and size once and keeps what it cost."""
    folder = tmp_path_factory.mktemp("costs")

    @cache
    def of(shape: str, tasks: int) -> Cost:
        return run(folder / f"{shape}{tasks}.db", SHAPES[shape](tasks), tasks)

    return of


@pytest.mark.parametrize(
    "sizes",
    [
        (20, 40, TASKS),
        pytest.param((30, 60, 120), marks=pytest.mark.slow),
        pytest.param((100, 1_000, 10_000), marks=pytest.mark.deep),
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_last_task_costs_what_the_first_do(costs: object, shape: str, sizes: tuple[int, int, int]) -> None:
    """Rows read, statements and commits per task do not grow with the tasks of one execution.

    One test for all three: as three, they may run in several processes, and each of those would run all the tasks.
    """
    runs = [costs(shape, tasks) for tasks in sizes]  # type: ignore[operator]
    for counted in COUNTS:
        few, more, many = (run.per_task(counted) for run in runs)
        assert many / few <= RATIO, (counted, few, more, many)
        assert many / more <= 1.005, (counted, few, more, many)
    cost: Cost = runs[-1]
    cut = cost.tasks // Bounds().rows  # a start that makes more rows than one turn writes takes another one
    assert 2 * cost.tasks <= cost.commits <= 2 * cost.tasks + 2 + cut, "one when it is polled, one when it is reported"


@pytest.mark.parametrize(
    # Below 2,000 tasks the text that an execution reads once, and the shorter rows of its last tasks, weigh more than the ratio.
    "sizes",
    [pytest.param((100, 400), marks=pytest.mark.slow), pytest.param((2_000, 6_000), marks=pytest.mark.deep)],
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_stay_linear(tmp_path: Path, shape: str, sizes: tuple[int, int]) -> None:
    """Text bound and read per task does not grow: a JOIN of thousands is neither read nor written again at each arrival."""
    few, many = (run(tmp_path / f"{tasks}.db", SHAPES[shape](tasks), tasks, texts=True) for tasks in sizes)
    for counted in ("text_written", "text_read"):
        assert many.per_task(counted) / few.per_task(counted) <= RATIO, counted
    # Pages grow with the height of the trees, which is the logarithm of what they hold; not with its size.
    assert many.per_task("logged") / few.per_task("logged") <= 1.35


def test_fork_whose_branches_are_all_read_at_the_end_stays_linear(tmp_path: Path) -> None:
    """Output parameters that read every branch are read once, at the end, not at the end of each branch."""

    def definition(count: int) -> WorkflowDef:
        refs = [f"t{n}" for n in range(count)]
        tasks = forked("fork", "join", [[simple(ref)] for ref in refs], refs)
        return workflow("fork", *tasks, outputParameters={ref: f"${{{ref}.output.x}}" for ref in refs})

    few, many = (run(tmp_path / f"{n}.db", definition(n), n) for n in (50, 250))
    assert many.per_task("rows_read") / few.per_task("rows_read") <= RATIO


@pytest.mark.parametrize("sizes", [(60, 180), pytest.param((300, 3_000), marks=pytest.mark.deep)], ids=str)
def test_loop_over_a_list_stays_linear(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """The list a loop runs over, and what its rounds put out, are not read again in every round."""

    def definition(count: int) -> WorkflowDef:
        over = looped("loop", count, simple("t", item="${loop.output.loopItem}"))
        del over["loopCondition"]
        return workflow("items", {**over, "items": "${workflow.input.items}"})

    few, many = (
        run(tmp_path / f"{n}.db", definition(n), n, texts=True, given={"items": [f"item {i}" for i in range(n)]}) for n in sizes
    )
    for counted in (*COUNTS, "text_written", "text_read"):
        assert many.per_task(counted) / few.per_task(counted) <= RATIO, counted


# ---------------------------------------------------------------------------------------------------- a full store

WAITING: Final = workflow("parked", simple("before"), {"name": "wait", "taskReferenceName": "wait", "type": "WAIT"})


def park(engine: Engine, count: int) -> None:
    """Bring one execution into a WAIT of a year and copy its rows until the store holds so many."""
    year = {**WAITING.to_json()["tasks"][1], "inputParameters": {"duration": "365 days"}}
    run = engine.start(workflow("parked", simple("before"), year), workflow_id="parked")
    while engine.tick():
        pass
    assert [task.status for task in run.workflow.tasks] == ["COMPLETED", "IN_PROGRESS"]
    # One more that a worker never takes: its queue holds as many messages as the store executions.
    engine.start(workflow("offered", {**simple("t"), "name": "nobody"}), workflow_id="offered")
    with closing(sqlite3.connect(engine.backend.path)) as connection:  # type: ignore[attr-defined]
        for original in ("parked", "offered"):
            row = engine.core.queries.execution(original)
            connection.create_function("unhexed", 1, bytes.fromhex)
            connection.create_function("head_of", 1, lambda name: int(attempt_head(name), 16))
            connection.create_function(
                "id_of", 3, lambda name, ref, attempt, row=row: attempt_id(attrs.evolve(row, workflow_id=name), ref, attempt, 0)
            )
            for table in ("tasks", "history", "texts", "inbox", "messages", "workflows"):
                _clone(connection, table, original, count // 2)
        connection.commit()


def _clone(connection: sqlite3.Connection, table: str, original: str, count: int) -> None:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    name = "'x' || copy || :original"
    task_id = f"id_of({name}, ref, attempt)"
    unique = {"workflow_id": name, "execution": "execution + 1000000 * copy", "head": f"head_of({name})"}
    unique["task_id"] = task_id if table == "messages" else f"unhexed({task_id})"
    unique |= {"place": "place + ((1000000 * copy) << 28)"}
    values = ", ".join(unique.get(column, column) for column in columns)
    number = "(SELECT execution FROM workflows WHERE workflow_id = :original)"
    keys = {"workflow_id": "workflow_id = :original", "execution": f"execution = {number}", "place": f"place >> 28 = {number}"}
    key = next(keys[column] for column in ("execution", "place", "workflow_id") if column in columns)
    connection.execute(
        "WITH RECURSIVE copies (copy) AS (SELECT 1 UNION ALL SELECT copy + 1 FROM copies WHERE copy < :count)"
        f" INSERT INTO {table} SELECT {values} FROM {table}, copies WHERE {key}",
        {"original": original, "count": count - 1},
    )


@pytest.fixture(scope="session", params=[600, pytest.param(50_000, marks=pytest.mark.deep)])
def crowded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with so many executions that wait for a year."""
    path = tmp_path_factory.mktemp("crowded") / "store.db"
    with closing(engine_on(path)) as engine:
        park(engine, request.param)
        assert sum(1 for _ in engine.admin.workflow_ids()) == request.param
        assert engine.admin.check("x7parked") == engine.admin.check("x9offered") == []
    yield path
    path.unlink()


@pytest.mark.parametrize("shape", SHAPES)
def test_parked_executions_cost_nothing(costs: object, crowded: Path, shape: str) -> None:
    """With thousands of executions waiting in the file, a run takes exactly the statements and commits of one alone, and its rows.

    One row more is that which says when the first of them is due.
    """
    alone: Cost = costs(shape, TASKS)  # type: ignore[operator]
    among = run(crowded, SHAPES[shape](TASKS), TASKS)
    assert among.by_sql == alone.by_sql
    assert (among.statements, among.commits) == (alone.statements, alone.commits)
    assert among.rows_read - alone.rows_read in (0, 1)


def test_no_hot_statement_scans(costs: object, crowded: Path) -> None:
    """Every statement of these runs searches by a key or an index; only a list of references given to it is walked."""
    seen = {sql for shape in SHAPES for sql in costs(shape, TASKS).by_sql}  # type: ignore[operator]
    seen = {sql for sql in seen if sql.split()[0] in {"SELECT", "INSERT", "UPDATE", "DELETE"}}
    assert len(seen) > 12
    with closing(sqlite3.connect(crowded)) as connection:
        for sql in seen:
            marks = re.findall(r"\?\d*", sql)
            values = [None] * (len(set(marks)) if "?1" in marks else len(marks))
            plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, values)]
            # `json_each` unfolds an argument: its rows are the references asked for, none of them in the store. Holders are the
            # engines that drive the store: all are looked at, whatever the store holds.
            # Limits that pass over a queue are few: only they are in that index.
            allowed = ("SCAN wanted VIRTUAL TABLE INDEX 1:", "SCAN holders", "SCAN limits USING INDEX limits_unpolled")
            allowed += ("SCAN json_each VIRTUAL TABLE INDEX 1:",)
            # What a statement makes itself.
            allowed += ("SCAN h", "SCAN CONSTANT ROW", "SCAN whose", "SCAN instants")
            scans = [line for line in plan if "SCAN" in line and line not in allowed and "(subquery-" not in line]
            assert not scans, (sql, plan)
            assert not any("TEMP B-TREE" in line for line in plan), (sql, plan)


# ---------------------------------------------------------------------------------------------- turns that are cut


def test_cut_turn_reads_all_it_needs_in_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide fork of pure operators is cut and resumed; a turn decides once, and reads a few times, whatever it carries over."""
    refs = [f"t{n}" for n in range(600)]
    branches = [[{"name": "noop", "taskReferenceName": ref, "type": "NOOP"}] for ref in refs]
    done = Counter[str]()

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def counting(*arguments: object) -> object:
            done[name] += 1
            return real(*arguments)

        return counting

    monkeypatch.setattr(StoreReader, "_read", counted("reads", StoreReader._read))
    monkeypatch.setattr(TurnDecider, "decide", counted("decisions", TurnDecider.decide))
    with Engine(clock=VirtualClock(), config=EngineConfig(bounds=Bounds(steps=500, rows=100))) as engine:
        handle = engine.start(workflow("noops", *forked("fork", "join", branches, refs)))
        engine.run_until_idle()
        assert handle.status is WorkflowStatus.COMPLETED
        assert engine.core.turns.committed.number > 5
        assert done["decisions"] == engine.core.turns.committed.number
        assert done["reads"] <= 2 * engine.core.turns.committed.number


def pure(kind: str, count: int) -> WorkflowDef:
    """A fork of NOOPs, in the definition or made at run time."""
    refs = [f"t{n}" for n in range(count)]
    if kind == "fork":
        branches = [[{"name": "noop", "taskReferenceName": ref, "type": "NOOP"}] for ref in refs]
        return workflow(kind, *forked("fork", "join", branches, refs))
    inputs = {"forkTaskType": "NOOP", "forkTaskInputs": refs}
    fork = {"name": "fork", "taskReferenceName": "fork", "type": "FORK_JOIN_DYNAMIC", "inputParameters": inputs}
    return workflow(kind, fork, {"name": "join", "taskReferenceName": "join", "type": "JOIN"})


@pytest.mark.parametrize("kind", ["fork", "dynamic_fork"])
def test_what_a_cut_turn_does_is_not_done_for_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step is taken twice: a fork cut into many turns takes hardly more steps than one that is not cut."""
    taken = Counter[str]()

    def counted(name: str, step: Callable[..., None]) -> Callable[..., None]:
        def counting(*arguments: object) -> None:
            taken[name] += 1
            step(*arguments)

        return counting

    monkeypatch.setattr(decider, "_STEPS", {name: counted(name, step) for name, step in decider._STEPS.items()})

    def steps(bounds: Bounds) -> int:
        taken.clear()
        with Engine(clock=VirtualClock(), config=EngineConfig(bounds=bounds)) as engine:
            handle = engine.start(pure(kind, 600))
            engine.run_until_idle()
            assert handle.status is WorkflowStatus.COMPLETED
            assert bounds == Bounds() or engine.core.turns.committed.number > 5
        return taken.total()

    whole, cut = steps(Bounds()), steps(Bounds(steps=500, rows=100))
    assert cut <= 1.05 * whole, (cut, whole)


def test_a_registered_task_definition_is_read_once_for_all_its_tasks(tmp_path: Path) -> None:
    """A start reads what is registered under a name once, however many tasks of that name there are."""
    with closing(engine_on(tmp_path / "store.db")) as engine:
        engine.register(TaskDef(name="step", retry_count=1))
        meter = Meter(engine.backend, texts=False)  # type: ignore[arg-type]
        with meter.on():
            handle = engine.start(SHAPES["chain"](100))
        assert meter.cost(100).by_sql["SELECT text FROM task_defs WHERE name = ?"] == 1
        definition = handle.workflow.definition
        assert definition is not None
        assert {task.task_definition.retry_count for task in definition.tasks if task.task_definition} == {1}
        assert all(task.task_definition for task in definition.tasks)
