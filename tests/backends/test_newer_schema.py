"""A newer process migrates a file that an older one has open: the older one writes nothing more, and says why."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import SchemaTooNew
from conductorlite.store.sqlite.schema import VERSION

W = WorkflowDef.from_json({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]})


def migrated(path: Path, *statements: str) -> str:
    """Change a store as a newer conductorlite would; returns all that is in it."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for statement in (*statements, f"PRAGMA user_version = {VERSION + 1}"):
        other.execute(statement)
    other.execute("COMMIT")
    other.close()
    return dump(path)


def dump(path: Path) -> str:
    """All that is in a store."""
    with sqlite3.connect(path) as other:
        return "\n".join(other.iterdump())


VERBS: dict[str, Callable[[Engine], object]] = {
    "start": lambda engine: engine.start(W),
    "register": lambda engine: engine.register(W),
    "pause": lambda engine: engine.pause("w"),
    "poll": lambda engine: engine.poll("a"),
    "terminate": lambda engine: engine.terminate("w"),
    "run_until_idle": lambda engine: engine.run_until_idle(),
    "result": lambda engine: engine.result("w"),
}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_nothing_is_written_after_a_migration(verb: str, tmp_path: Path) -> None:
    """Each verb that would write is SchemaTooNew, and every row is as the newer process left it."""
    path = tmp_path / "s.db"
    workers = Workers()
    workers.add("a", lambda: {"x": 1})
    with Engine(path, workers=workers, clock=VirtualClock(0)) as engine:
        engine.start(W, workflow_id="w")
        before = migrated(path, "ALTER TABLE workflows ADD COLUMN novel TEXT DEFAULT 'new'")
        with pytest.raises(SchemaTooNew, match=rf"s\.db: migrated to schema {VERSION + 1}"):
            VERBS[verb](engine)
        assert dump(path) == before


def test_in_real_time(tmp_path: Path) -> None:
    """It is no outage that is waited out: the driver ends."""
    path = tmp_path / "s.db"
    workers = Workers()

    @workers.task("a")
    def a() -> dict[str, int]:
        migrated(path)
        return {"x": 1}

    with Engine(path, workers=workers) as engine:
        engine.start(W)
        with pytest.raises(SchemaTooNew):
            engine.run_until_idle("20s")


def test_a_read_that_finds_nothing_where_it_was(tmp_path: Path) -> None:
    """What a newer schema has moved is not called damage."""
    path = tmp_path / "s.db"
    with Engine(path, clock=VirtualClock(0)) as engine:
        engine.start(W, workflow_id="w")
        migrated(path, "ALTER TABLE workflows RENAME TO elsewhere")
        with pytest.raises(SchemaTooNew):
            engine.get("w")
