"""Bad input, tried: each a clear error that names the thing, and a store that is as it was."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import PATIENCE, Bench, flow, rounds, simple, switch

from conductorlite import (
    ConductorliteError,
    Engine,
    InvalidDefinition,
    TaskFailedTerminally,
    TaskResult,
    TaskStatus,
    Workers,
    WorkflowDef,
    WorkflowStatus,
)
from conductorlite.errors import (
    InvalidInput,
    SchemaTooNew,
    StaleLease,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
)
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend


def dump(path: Path) -> list[str]:
    """Every row of a database file, as a connection of its own sees them."""
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a database will be."""
    return tmp_path / "orders.db"


@pytest.fixture
def bench(path: Path) -> Any:
    """A bench on SQLite with one execution under way, which must go on unharmed after the test."""
    bench = Bench(SQLiteBackend(path, synchronous="NORMAL"))
    bench.start(flow(simple("a", {"retry_count": 0}), simple("z")), {"n": 1})
    yield bench
    bench.do("a")
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    bench.healthy()
    bench.engine.close()


# -- documents and values ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "error", "named"),
    [
        ("{", InvalidInput, "JSON"),
        ('{"name": "x", "tasks": 7}', InvalidDefinition, r"\$\.tasks"),
        ('{"name": 7, "tasks": []}', InvalidDefinition, r"\$\.name"),
        ("[]", InvalidDefinition, r"\$"),
        ('{"name": "x", "tasks": [{"name": "a", "type": "SIMPLE"}]}', InvalidDefinition, r"\$\.tasks\[0\]"),
    ],
)
def test_bad_documents(bench: Bench, path: Path, document: str, error: type[Exception], named: str) -> None:
    """A document that is no JSON, or no definition, is refused with the path of what is wrong."""
    before = dump(path)
    with pytest.raises(error, match=named):
        bench.engine.register(WorkflowDef.from_json(document))
    assert dump(path) == before


@pytest.mark.parametrize(
    ("input", "named"),
    [
        ({"x": {object()}}, "x"),
        ({"x": object()}, "x"),
        ({"deep": [{"x": complex(1)}]}, r"deep\[0\]\.x"),
        ({(1, 2): "a"}, r"\(1, 2\)"),
        ({1: "a", "1": "b"}, 'two keys are "1" as texts'),
        ({"x": "\ud800"}, "x"),
    ],
)
def test_bad_workflow_input(bench: Bench, path: Path, input: Any, named: str) -> None:
    """An input that is not JSON is refused with the path of what is not; nothing is stored."""
    before = dump(path)
    with pytest.raises(InvalidInput, match=named):
        bench.engine.start(flow(simple("other")), input)
    assert dump(path) == before


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ({"x": {2, 1}}, {"x": [1, 2]}),
        ({"deep": [{"x": float("nan")}]}, {"deep": [{"x": "NaN"}]}),
        ({"x": float("-inf")}, {"x": "-Infinity"}),
        ({1: "a"}, {"1": "a"}),
        ({"x": b"bytes"}, {"x": "Ynl0ZXM="}),
    ],
)
def test_input_and_output_that_have_a_form_in_json(bench: Bench, value: Any, stored: Any) -> None:
    """They are stored as the table of types says: see docs/reference/types.md."""
    run = bench.engine.start(flow(simple("other")), value)
    assert run.workflow.input.value == stored
    bench.engine.terminate(run.workflow_id)
    bench.report(bench.task("a"), "IN_PROGRESS", value, lease=False)
    assert bench.task("a").output.value == stored


@pytest.mark.parametrize("output", [{"x": object()}, {"x": {object()}}, {2: 1, "2": 1}, {"x": "\udfff"}])
def test_bad_output(bench: Bench, path: Path, output: Any) -> None:
    """A report that is not JSON is refused, naming the task; nothing is stored."""
    task = bench.task("a")
    before = dump(path)
    with pytest.raises(InvalidInput, match="'a'"):
        bench.report(task, "COMPLETED", output, lease=False)
    assert dump(path) == before


@pytest.mark.parametrize("output", [[1], "text", 7])
def test_output_of_the_wrong_kind(bench: Bench, path: Path, output: Any) -> None:
    """A report whose output is no dict is refused, naming the task and the kind."""
    before = dump(path)
    with pytest.raises(InvalidInput, match=rf"'a'.*{type(output).__name__}"):
        bench.report(bench.task("a"), "COMPLETED", output, lease=False)
    assert dump(path) == before


@pytest.mark.parametrize(
    "definition",
    [
        flow(rounds("l", [simple("b")], loop_condition="$.l['iteration' < 3")),
        flow(switch("S", {"x": [simple("b")]}, evaluator_type="javascript", expression="if (")),
        flow(switch("S", {"x": [simple("b")]}, evaluator_type="klingon", expression="x")),
    ],
)
def test_bad_expressions(bench: Bench, path: Path, definition: WorkflowDef) -> None:
    """A condition that cannot be read is refused when the definition is, with its path; nothing is stored."""
    before = dump(path)
    for attempt in (bench.engine.register, bench.engine.start):
        with pytest.raises(InvalidDefinition, match=r"\$\.tasks\[0\]"):
            attempt(definition)
    assert dump(path) == before


def test_stale_report_changes_nothing(bench: Bench, path: Path) -> None:
    """A refused report leaves every row as it was."""
    first = bench.take("a")
    bench.report(first, "IN_PROGRESS")
    before = dump(path)
    with pytest.raises(StaleLease):
        bench.report(first, "COMPLETED", logs=["x"])
    assert dump(path) == before


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: {"x": object()}, "not JSON"),
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda missing: None, "'missing'"),
    ],
)
def test_bad_workers(function: Callable[..., object], reason: str) -> None:
    """A worker that raises, returns what is not JSON, or lacks its input fails its task, in virtual time too."""
    workers = Workers()
    workers.task("bad", retry_count=0)(function)
    bench = Bench(MemoryBackend(), workers=workers)
    bench.start(flow(simple("bad")))
    bench.engine.run_until_idle()
    assert bench.status_of_workflow() is WorkflowStatus.FAILED
    assert reason in (bench.task("bad").reason or "")
    bench.healthy()


def test_terminal_failure_on_a_virtual_clock() -> None:
    """TaskFailedTerminally works the same in virtual time."""
    workers = Workers()

    @workers.task("bad", retry_count=5)
    def bad() -> None:
        raise TaskFailedTerminally("no use")

    bench = Bench(MemoryBackend(), workers=workers)
    bench.start(flow(simple("bad")))
    bench.engine.run_until_idle()
    assert bench.journal()[-2:] == ["0 bad FAILED_WITH_TERMINAL_ERROR", "0 workflow FAILED"]


# -- files ---------------------------------------------------------------------------------------------------


def test_full_disk(path: Path) -> None:
    """When the file may not grow, the verb that needs space is StorageFull, naming the file; every row is as it was."""
    backend = SQLiteBackend(path, synchronous="NORMAL")
    bench = Bench(backend)
    bench.start(flow(simple("a"), simple("z")))
    task = bench.take("a")
    pages = backend._writer.execute("PRAGMA page_count").fetchone()[0]
    backend._writer.execute(f"PRAGMA max_page_count = {pages}")
    before = dump(path)
    with pytest.raises(StorageFull, match=r"orders\.db"):
        bench.report(task, output={"big": "x" * 200_000})
    assert dump(path) == before
    # The bound was the connection's, which is thrown away with the block that failed.
    bench.report(task, output={"big": "x" * 200_000})
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    bench.healthy()
    bench.engine.close()


def test_full_disk_at_start(path: Path) -> None:
    """A start for which there is no room leaves no row at all, the embedded definition included."""
    backend = SQLiteBackend(path, synchronous="NORMAL")
    bench = Bench(backend)
    bench.start(flow(simple("a"), simple("z")))
    pages = backend._writer.execute("PRAGMA page_count").fetchone()[0]
    backend._writer.execute(f"PRAGMA max_page_count = {pages}")
    before = dump(path)
    with pytest.raises(StorageFull, match=r"orders\.db"):
        bench.engine.start(flow(simple("a")), {"big": "x" * 200_000})
    assert bench.engine.admin.check() == []
    after = dump(path)
    bench.engine.close()
    assert after == before


def test_full_disk_while_driven(path: Path) -> None:
    """A disk that fills up while workers run surfaces as StorageFull, and the work goes on once there is room."""
    workers = Workers()
    workers.task("a")(lambda: {"big": "x" * 200_000})
    backend = SQLiteBackend(path, synchronous="NORMAL")
    bench = Bench(backend, workers=workers)
    bench.start(flow(simple("a", {"response_timeout_s": 10, "retry_delay_s": 0})))
    pages = backend._writer.execute("PRAGMA page_count").fetchone()[0]
    backend._writer.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StorageFull, match=r"orders\.db"):
        bench.engine.run_until_idle()
    assert bench.engine.admin.check() == []
    backend._writer.execute("PRAGMA max_page_count = 1000000")
    bench.engine.run_until_idle()
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    bench.healthy()
    bench.engine.close()


def not_a_database(path: Path) -> None:
    """A file that is something else."""
    path.write_bytes(b"this is an event, not a database\n" * 100)


def somebody_elses(path: Path) -> None:
    """A database of another program."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE workflows (x)")
    connection.execute("INSERT INTO workflows VALUES (1)")
    connection.commit()
    connection.close()


def newer(path: Path) -> None:
    """A store of a newer conductorlite."""
    Engine(path).close()
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("make", "error"), [(not_a_database, StorageCorrupt), (somebody_elses, StorageCorrupt), (newer, SchemaTooNew)]
)
def test_files_that_cannot_be_opened(path: Path, make: Callable[[Path], None], error: type[StorageError]) -> None:
    """A file that is no store of ours, or a newer one, is refused by name, and not a byte of it is changed."""
    make(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(error, match=r"orders\.db"):
        Engine(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["orders.db"]


def test_a_folder(tmp_path: Path) -> None:
    """A folder is refused by name."""
    with pytest.raises(StorageError, match="this is a folder"):
        Engine(tmp_path)


def test_read_only_database(path: Path) -> None:
    """A store that may only be read refuses every verb that writes, by name, and answers those that read."""
    backend = SQLiteBackend(path)
    bench = Bench(backend)
    bench.start(flow(simple("a")))
    backend._writer.execute("PRAGMA query_only = 1")
    before = dump(path)
    engine = bench.engine
    verbs: list[Callable[[], object]] = [
        lambda: engine.start(flow(simple("b"))),
        lambda: engine.register(flow(simple("b"))),
        lambda: engine.poll("a"),
        lambda: engine.pause("w1"),
        lambda: engine.terminate("w1"),
        lambda: bench.report(bench.task("a"), lease=False),
        lambda: engine.tasks.log(bench.task("a"), "text"),
    ]
    for verb in verbs:
        with pytest.raises(StorageReadOnly, match=r"orders\.db"):
            verb()
    assert dump(path) == before
    assert bench.statuses() == {"a": "SCHEDULED"}
    assert engine.admin.check() == []
    backend._writer.execute("PRAGMA query_only = 0")
    bench.do("a")
    engine.close()


# -- two engines on one file ---------------------------------------------------------------------------------


def test_two_engines_take_turns(path: Path) -> None:
    """Two engines on one file interleave their work: each task is handed out once, every execution completes."""
    first, second = (Bench(SQLiteBackend(path, synchronous="NORMAL")) for _ in range(2))
    ids = [first.start(flow(simple("a"), simple("b"), simple("c")), {"n": n}).workflow_id for n in range(4)]
    handed: list[str] = []
    turn = 0
    while any(not first.engine.status(workflow_id).terminal for workflow_id in ids):
        bench = (first, second)[turn % 2]
        turn += 1
        assert turn < 100
        for task in [task for ref in "abc" for task in bench.engine.poll(ref, count=1)]:
            handed.append(task.task_id)
            # The other engine reports what this one polled.
            (first, second)[turn % 2].report(task, output={"by": turn})
    assert len(handed) == len(set(handed)) == 12
    assert first.engine.admin.check() == second.engine.admin.check() == []
    first.engine.close()
    second.engine.close()


def test_two_engines_drive_at_once(path: Path) -> None:
    """Two engines with workers on one file, each in its thread, complete all work once."""
    calls: list[str] = []
    engines = []
    for _ in range(2):
        workers = Workers(concurrency=2)
        workers.task("a")(lambda n: calls.append(f"a{n}"))
        workers.task("b")(lambda n: calls.append(f"b{n}"))
        engines.append(Engine(path, workers=workers))
    inputs = {"n": "${workflow.input.n}"}
    definition = flow(simple("a", input_parameters=inputs), simple("b", input_parameters=inputs))
    runs = [engines[n % 2].start(definition, {"n": n}) for n in range(10)]
    threads = [threading.Thread(target=engine.run_forever, daemon=True) for engine in engines]
    for thread in threads:
        thread.start()
    try:
        for run in runs:
            run.result(timeout=f"{PATIENCE}s")
    finally:
        for engine in engines:
            engine.stop()
        for thread in threads:
            thread.join(PATIENCE)
    assert sorted(calls) == sorted(f"{ref}{n}" for ref in "ab" for n in range(10))
    assert engines[0].admin.check() == []
    for engine in engines:
        engine.close()


def test_busy_is_bounded(path: Path) -> None:
    """While another holds the file, a verb gives up with StorageBusy after the busy timeout; nothing is changed."""
    backend = SQLiteBackend(path, busy_timeout_ms=50)
    bench = Bench(backend)
    bench.start(flow(simple("a")))
    task = bench.take("a")
    before = dump(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for verb in (lambda: bench.report(task), lambda: bench.engine.start(flow(simple("b")))):
        with pytest.raises(StorageBusy, match=r"orders\.db"):
            verb()
    # Who only reads does not wait.
    assert bench.statuses() == {"a": "IN_PROGRESS"}
    other.execute("ROLLBACK")
    other.close()
    assert dump(path) == before
    bench.report(task)
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED
    bench.engine.close()


def test_closed_engine(path: Path) -> None:
    """A closed engine says so, whatever is asked of it."""
    bench = Bench(SQLiteBackend(path))
    bench.start(flow(simple("a")))
    task = bench.task("a")
    bench.engine.close()
    result = TaskResult(workflow_id="w1", task_id=task.task_id, status=TaskStatus.COMPLETED)
    verbs: list[Callable[[], object]] = [
        lambda: bench.engine.get("w1"),
        lambda: bench.engine.poll("a"),
        lambda: bench.engine.update_task(result),
        lambda: bench.engine.start(flow(simple("a"))),
    ]
    for verb in verbs:
        with pytest.raises(ConductorliteError, match="closed"):
            verb()


def test_clock_that_is_behind(path: Path) -> None:
    """An engine whose clock is behind does not run time back within an execution, and fires nothing early."""
    bench = Bench(SQLiteBackend(path))
    bench.at(100)
    bench.start(flow(simple("a"), simple("b")))
    late = Bench(bench.engine.backend)
    late.workflow_id = bench.workflow_id
    assert late.poll("a") is None
    late.report(late.task("a"), lease=False)
    assert late.journal()[-1].startswith("100 b SCHEDULED")
    late.healthy()
