"""Golden databases: a store of each schema there ever was is opened, migrated and gone on with, to the same ends.

`golden_dump.py` writes the one of the present schema, `golden_lives.py` says what is in it. When this test says that the schema
has changed: while that schema is not released, `python tests/golden/golden_dump.py`; once it is, the change belongs into a schema
of its own.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from golden_dump import FOLDER, ddl, dumped, golden, loaded
from golden_lives import EMITTED, ENDS_AT, FLOWS, KEY, LARGE, LIMITED, MESSAGED, PULL, STARTS_AT, begin, finish, outcome

from conductorlite import Engine, IdempotencyStrategy, VirtualClock
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.tree import OPERATOR_TYPES
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.migrations import STEPS
from conductorlite.store.sqlite.schema import VERSION

pytest.importorskip("jq", reason="one of the executions needs the extra jq")

#: A task in a definition: its reference and type.
_NODE = re.compile(r'"taskReferenceName": "(\w+)", "type": "(\w+)"')

SCHEMAS = range(1, VERSION + 1)

#: Reasons as they were told before schema 5, and since: what is stored keeps its words.
REWORDED = (
    (r"workflow timeout: it did not end within (\d+) s; timeout policy (\w+)", "Workflow timed out", "Timeout"),
    (
        r"Task '\w+' \(\w+\) poll timeout: no worker polled \w+ within (\d+) s; timeout policy (\w+)",
        "Task poll timed out",
        "Poll timeout",
    ),
    (r"Task '\w+' \S+ timeout: it did not end within (\d+) s of its start; timeout policy (\w+)", "Task timed out", "Timeout"),
)


# From the oldest every step is taken; those between begin later on the same way.
@pytest.fixture(params=[pytest.param(one, marks=[] if one in (1, VERSION) else pytest.mark.slow) for one in SCHEMAS])
def schema(request: pytest.FixtureRequest) -> int:
    """Each schema there is."""
    number: int = request.param
    return number


@pytest.fixture
def path(schema: int, tmp_path: Path) -> Path:
    """The golden database of the schema, as a file."""
    path = tmp_path / "golden.db"
    loaded(golden(schema).read_text(encoding="utf-8"), path)
    return path


@pytest.fixture
def engine(path: Path) -> Iterator[Engine]:
    """The present engine on it, at the instant at which it was left."""
    with Engine(SQLiteBackend(path), clock=VirtualClock(ENDS_AT)) as engine:
        yield engine


def in_todays_words(told: dict[str, Any]) -> dict[str, Any]:
    """An outcome with its reasons as they are worded today."""
    text = json.dumps(told)
    for before, what, which in REWORDED:
        text = re.sub(before, rf"{what} after \1 seconds. {which} configured as \1 seconds. Timeout policy configured to \2", text)
    reworded: dict[str, Any] = json.loads(text)
    # Before, Conductor's sentence alone was kept.
    sentence = re.fullmatch(r"Task \S+ failed with status: \S+ and reason: '(.*)'", reworded["reason"] or "")
    if sentence is not None:
        failed = next(key.partition("#")[0] for key, (status, _, _) in reworded["tasks"].items() if status.startswith("FAILED"))
        reworded["reason"] = f"{failed} failed: {sentence[1]}"
    return reworded


def test_every_schema_has_its_golden_database() -> None:
    """There is one for each number, and none that no migration leads to."""
    assert sorted(FOLDER.glob("*.sql")) == sorted(golden(number) for number in SCHEMAS)
    for number in SCHEMAS:
        assert f"PRAGMA user_version = {number};" in golden(number).read_text(encoding="utf-8").splitlines()[:2]


def test_the_present_schema_is_the_golden_one(tmp_path: Path) -> None:
    """A schema does not change without a new golden database, which is a file in every review."""
    loaded(golden(VERSION).read_text(encoding="utf-8"), tmp_path / "golden.db")
    SQLiteBackend(tmp_path / "fresh.db").close()
    assert ddl(tmp_path / "golden.db") == ddl(tmp_path / "fresh.db"), "run: python tests/golden/golden_dump.py"


def test_it_is_migrated_to_the_present_schema(schema: int, path: Path, tmp_path: Path) -> None:
    """Opened, it has the tables and indexes of a fresh store, and is whole."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (schema,)
    SQLiteBackend(path).close()
    SQLiteBackend(tmp_path / "fresh.db").close()
    assert ddl(path) == ddl(tmp_path / "fresh.db")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_file_keeps_which_steps_ran(path: Path, tmp_path: Path) -> None:
    """Each once, in order, as sqlite-utils keeps migrations: migrated or new, and when the store is opened again."""
    names = [name for name, _ in STEPS]
    assert len(names) == len(set(names)) == VERSION
    for file in (path, tmp_path / "fresh.db", path):
        SQLiteBackend(file).close()
        with closing(sqlite3.connect(file)) as connection:
            kept = connection.execute("SELECT migration_set, name, applied_at FROM _sqlite_migrations ORDER BY id").fetchall()
        # No instant: two stores that were made alike are alike.
        assert kept == [("conductorlite", name, "") for name in names]


def test_people_read_its_views(engine: Engine, path: Path) -> None:
    """Statuses by name, instants, whole payloads: what the verbs answer."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        workflows = {row["workflow_id"]: row for row in connection.execute("SELECT * FROM conductor_workflows")}
        tasks = {(row["workflow_id"], row["task_id"]): row for row in connection.execute("SELECT * FROM conductor_tasks")}
    assert sorted(workflows) == sorted(engine.admin.workflow_ids())
    for workflow_id, row in workflows.items():
        found = engine.get(workflow_id)
        assert (row["name"], row["status"], row["created_at"]) == (found.name, found.status, found.created_at)
        assert (row["ended_at"] or 0, row["reason"]) == (found.ended_at, found.reason)
        assert (json.loads(row["input"]), json.loads(row["output"])) == (found.input.fresh(), found.output.fresh())
        for task in found.tasks:
            seen = tasks.pop((workflow_id, task.task_id))
            assert (seen["reference_task_name"], seen["attempt"], seen["name"]) == (task.ref, task.attempt, task.name)
            assert (seen["status"], seen["started_at"] or 0, seen["ended_at"] or 0) == (task.status, task.started_at, task.ended_at)
            assert (json.loads(seen["input"]), json.loads(seen["output"])) == (task.input.fresh(), task.output.fresh())
    assert tasks == {}


def test_it_stands_as_it_was_left(engine: Engine, schema: int) -> None:
    """No law is broken, and each execution stands as one does that was begun today."""
    assert engine.admin.check() == []
    with Engine(MemoryBackend(), clock=VirtualClock(STARTS_AT)) as today:
        begin(today, schema)
        ids = list(today.admin.workflow_ids())
        assert list(engine.admin.workflow_ids()) == ids
        for workflow_id in ids:
            assert in_todays_words(outcome(engine, workflow_id)) == outcome(today, workflow_id)


def test_it_comes_to_the_same_ends(engine: Engine, schema: int) -> None:
    """Gone on with, every execution ends like one that never saw another schema, and keeps the journal it had."""
    told = {workflow_id: list(engine.history(workflow_id)) for workflow_id in engine.admin.workflow_ids()}
    with Engine(MemoryBackend(), clock=VirtualClock(STARTS_AT)) as today:
        begin(today, schema)
        finish(today)
        finish(engine)
        assert list(engine.admin.workflow_ids()) == list(today.admin.workflow_ids())
        for workflow_id in today.admin.workflow_ids():
            assert engine.status(workflow_id).terminal
            assert in_todays_words(outcome(engine, workflow_id)) == outcome(today, workflow_id)
    for workflow_id, lines in told.items():
        assert list(engine.history(workflow_id))[: len(lines)] == lines
    assert engine.admin.check() == []


def test_an_attempt_that_is_live_is_found_by_its_id(engine: Engine, schema: int) -> None:
    """Also one of a schema in which ids did not begin as those of other attempts of the same execution."""
    live = 0
    with engine.backend.reading() as view:
        for workflow_id in engine.admin.workflow_ids():
            for task in view.executions.live(workflow_id):
                found = view.executions.task_by_id(task.task_id)
                assert found is not None
                assert (found.workflow_id, found.ref, found.attempt) == (workflow_id, task.ref, task.attempt)
                live += 1
    assert live > 10, schema


def test_what_stands_beside_executions_is_kept(engine: Engine) -> None:
    """Registry, idempotency keys, logs, polls, large payloads, events that are held, tasks of a domain."""
    assert engine.definitions.workflows() == [("keyed", 1), ("mourn", 1)]
    held = engine.start("keyed", idempotency_key=KEY, idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING)
    assert held.workflow_id == "keyed"
    polled = engine.get("polled")
    assert polled.input.fresh() == {"x": LARGE}
    assert [line.text for line in engine.tasks.logs(polled.task("a").task_id)] == ["began", "half done"]
    assert "work_polled" in {poll.queue_name for poll in engine.tasks.poll_data()}
    assert engine.tasks.queue_sizes()["mars:far"] == 1
    with engine.backend.reading() as view:
        assert any(event.held for event in view.inbox.events("paused"))
        assert all(event.held for event in view.inbox.events("parked"))


def test_it_has_something_of_everything(engine: Engine, schema: int) -> None:
    """Every status, but PENDING before there were limits; and, once gone on with, every type of task the decider knew then."""
    rows = [engine.get(workflow_id) for workflow_id in engine.admin.workflow_ids()]
    assert {row.status for row in rows} == set(WorkflowStatus)
    missing = set(TaskStatus) - {task.status for row in rows for task in row.tasks}
    assert missing == ({TaskStatus.PENDING} if schema < LIMITED else set())
    finish(engine)
    came_by = {task.base_ref for workflow_id in engine.admin.workflow_ids() for task in engine.get(workflow_id).tasks}
    later = {*([PULL] if schema < MESSAGED else []), *(["EMIT"] if schema < EMITTED else [])}
    nodes = [found.groups() for found in _NODE.finditer(json.dumps(FLOWS)) if found[2] not in later]
    assert {kind for _, kind in nodes} >= {str(one) for one in OPERATOR_TYPES} - later
    assert {ref for ref, kind in nodes if kind in OPERATOR_TYPES} <= came_by


def test_a_dump_is_the_store(path: Path, tmp_path: Path) -> None:
    """Writing it down and reading it again loses nothing."""
    again = tmp_path / "again.db"
    loaded(dumped(path), again)
    assert dumped(again) == dumped(path)


def test_it_is_searched(engine: Engine) -> None:
    """The first search makes the index; it finds what looking at every execution finds, and goes on with it."""
    ids = sorted([*engine.admin.workflow_ids(), *engine.admin.archived_ids()])
    for _ in range(2):
        assert sorted(row.workflow_id for row in engine.search(size=1_000).results) == ids
        running = engine.search("status = RUNNING", size=0).total_hits
        assert running == sum(engine.status(one) is WorkflowStatus.RUNNING for one in engine.admin.workflow_ids())
        assert [finding for finding in engine.admin.check() if finding.law == "the_index_agrees"] == []
        engine.run_until_idle()


def test_a_store_of_which_every_change_was_noted(tmp_path: Path) -> None:
    """Up to schema 5 an index was fed by triggers on each change: they go with what they had noted, and nothing trips over them."""
    path = tmp_path / "golden.db"
    loaded(golden(5).read_text(encoding="utf-8"), path)
    noting = "INSERT OR IGNORE INTO changes (workflow_id, ref, attempt) VALUES (NEW.workflow_id, '', -1)"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TRIGGER note_turn AFTER UPDATE OF fence ON workflows BEGIN {noting}; END")
        connection.execute(f"CREATE TRIGGER note_progress AFTER UPDATE ON tasks BEGIN {noting}; END")
        connection.execute("INSERT INTO feed VALUES (0, 'an index', 3, 0, NULL, 0)")
        connection.commit()
    with Engine(SQLiteBackend(path), clock=VirtualClock(ENDS_AT)) as engine:
        engine.run_until_idle()
        assert engine.search(size=0).total_hits == len([*engine.admin.workflow_ids(), *engine.admin.archived_ids()])
    assert [sql for sql in ddl(path) if "note_" in sql] == []
