"""Whatever a store writes only its owner may read: the database, what lies beside it, its copies."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductorlite import Barriers, Engine, EngineConfig, Workers, WorkflowDef
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.store.locks import SQLiteLock

W = WorkflowDef.from_json({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]})


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A process that lets everybody read what it makes."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The modes of everything below a folder."""
    return {path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.mark.usefixtures("open_umask")
def test_every_file_is_private(tmp_path: Path) -> None:
    """The database with its log, the locks, documents, archive and backups: found by looking, while all is in use."""
    workers = Workers()
    workers.add("a", lambda: {"text": "y" * 3_000})
    barriers = Barriers(workflow_input_payload_size_threshold=1, task_output_payload_size_threshold=1)
    lock = SQLiteLock(tmp_path / "turns.locks")
    with Engine(tmp_path / "s.db", workers=workers, config=EngineConfig(lock=lock, bounds=Bounds(barriers=barriers))) as engine:
        run = engine.start(W, {"text": "x" * 3_000})
        run.result(timeout="20s")
        engine.search("status = COMPLETED")
        engine.admin.backup(tmp_path / "copy.db")
        engine.admin.archive(run.workflow_id)
        found = modes(tmp_path)
        wide = {name: oct(mode) for name, mode in found.items() if mode != (0o700 if (tmp_path / name).is_dir() else 0o600)}
    assert {"s.db", "s.db-wal", "s.db-shm", "turns.locks", "copy.db"} <= found.keys()
    assert any(name.startswith("s.db.payloads/") for name in found)
    assert any(name.startswith("copy.db.payloads/") for name in found)
    assert wide == {}


@pytest.mark.usefixtures("open_umask")
def test_a_mode_that_was_chosen_stays(tmp_path: Path) -> None:
    """A database that a group shares is shared with it after opening, too; a link leads to a private file."""
    Engine(tmp_path / "s.db").close()
    (tmp_path / "s.db").chmod(0o660)
    with Engine(tmp_path / "s.db") as engine:
        engine.start(W)
        assert {name: mode for name, mode in modes(tmp_path).items() if name.startswith("s.db")} == dict.fromkeys(
            ["s.db", "s.db-wal", "s.db-shm"], 0o660
        )
    (tmp_path / "link.db").symlink_to(tmp_path / "there.db")
    Engine(tmp_path / "link.db").close()
    assert modes(tmp_path)["there.db"] == 0o600
