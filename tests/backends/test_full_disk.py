"""A disk that is full can be emptied by `remove`, `archive` and `prune`, whatever has become of the process that filled it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from conductorlite import Engine, WorkflowDef, WorkflowStatus
from conductorlite.errors import StorageFull
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite import disk as keeping
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.sqlite.disk import Reserve

W = WorkflowDef.from_json({"name": "w", "tasks": [{"name": "a", "taskReferenceName": "a"}]})


#: Tried whenever the tests run; the others, and larger disks, when CI does.
_FAST = [("3m", "remove", 20, "open"), ("3m", "remove", 300, "closed"), ("3m", "prune", 20, "another")]
_TRIED = [
    pytest.param(*case, marks=() if case in _FAST else pytest.mark.slow)
    for case in [
        (size, how, kilobytes, state)
        for size in ("3m", "8m")
        for how, kilobytes in (("remove", 20), ("remove", 300), ("prune", 20), ("prune", 300), ("archive", 20))
        for state in ("open", "closed", "killed", "another")
    ]
]


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own, of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "none", str(place)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, timeout=10)


def filled(engine: Engine, kilobytes: int) -> list[str]:
    """Executions that have ended, as many as there is room for."""
    ids: list[str] = []
    with suppress(StorageFull):
        while True:
            run = engine.start(W, {"text": os.urandom(kilobytes * 512).hex()})
            engine.terminate(run.workflow_id)
            ids.append(run.workflow_id)
    return ids


def fill(path: Path) -> None:
    """Somebody else takes whatever room is left."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.parametrize(("disk", "how", "kilobytes", "state"), _TRIED, indirect=["disk"])
def test_a_full_disk_is_emptied(disk: Path, how: str, kilobytes: int, state: str) -> None:
    """Everything that has ended can be removed, and the next execution has room again."""
    path = disk / "s.db"
    engine = Engine(path)
    ids = filled(engine, kilobytes)
    assert ids
    fill(disk / "log")
    if state in ("closed", "killed"):
        engine.close()
        fill(disk / "more of the log")
    if state == "killed":
        script = "import sys, os; from conductorlite import Engine; e = Engine(sys.argv[1]); os.kill(os.getpid(), 9)"
        subprocess.run([sys.executable, "-c", script, path], check=False, timeout=20)
    other = engine if state == "open" else Engine(path)
    if how == "prune":
        assert sorted(other.admin.prune("0s").removed) == sorted(ids)
    else:
        for workflow_id in ids:
            (other.admin.remove if how == "remove" else other.admin.archive)(workflow_id)
    other.terminate(other.start(W, {"text": "x"}, workflow_id="next").workflow_id)
    assert other.admin.check() == []
    other.close()
    engine.close()
    with Engine(path) as again:
        assert not {row.workflow_id for row in again.executions()} & set(ids)
        assert again.status("next") is WorkflowStatus.TERMINATED


def test_the_reserve_grows_with_the_store_and_is_made_again(tmp_path: Path) -> None:
    """A private file that a small store does not have, given back when it is asked for, kept anew with later commits."""
    path = tmp_path / "s.db"
    SQLiteBackend(path).close()
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]
    with Engine(path) as engine:
        reserve = Path(f"{path}.reserve")
        for _ in range(3):
            engine.start(W, {"text": "x" * 200_000})
        small = reserve.stat().st_size
        assert stat.S_IMODE(reserve.stat().st_mode) == 0o600
        for _ in range(40):
            engine.start(W, {"text": "x" * 200_000})
        assert small < reserve.stat().st_size <= 4 * 1024 * 1024
        assert engine.backend.make_room()
        assert not reserve.exists()
        engine.start(W)
        assert reserve.exists()
    reserve.unlink()
    with Engine(path):
        assert reserve.exists()  # a store as large as this has something to remove
    assert MemoryBackend().make_room() is False


def test_a_reserve_is_what_commits_ask_for(tmp_path: Path) -> None:
    """A store that grows by little at a time has a small one, a tenth of it; one large commit, and it covers another like that."""
    path = tmp_path / "s.db"
    with Engine(path) as engine:
        reserve = Path(f"{path}.reserve")
        while path.stat().st_size < 8 * 1024 * 1024:
            engine.start_many(W, [{"text": "x" * 1_000}] * 50)
        assert reserve.stat().st_size <= 1024 * 1024
        engine.start(W, {"text": "x" * 1_500_000})
        engine.start(W)
        assert reserve.stat().st_size >= 1_500_000


@pytest.mark.parametrize("disk", ["8m"], indirect=True)
def test_a_full_disk_stays_full_until_there_is_room(disk: Path) -> None:
    """Who tries again on a full disk makes it no fuller than what is kept for removals covers; with room it goes on by itself."""
    text = os.urandom(500 * 1024).hex()
    (disk / "theirs").write_bytes(bytes(2_000_000))
    with Engine(disk / "s.db") as engine:
        ids = filled(engine, 300)
        fill(disk / "log")
        for _ in range(10):
            with pytest.raises(StorageFull):
                engine.start(W, {"text": text})
        engine.admin.remove(ids[0])
        (disk / "theirs").unlink()
        assert engine.status(engine.start(W, {"text": text}).workflow_id) is WorkflowStatus.RUNNING


def test_a_long_view_lets_the_store_grow(tmp_path: Path) -> None:
    """What the log holds cannot be moved into the file meanwhile; with room on the disk that bounds nothing."""
    backend = SQLiteBackend(tmp_path / "s.db")
    with Engine(backend) as engine, closing(sqlite3.connect(backend.path)) as other:
        engine.start(W)
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM workflows").fetchone()
        for _ in range(40):
            engine.start(W, {"text": "x" * 200_000})
        assert Path(f"{backend.path}-wal").stat().st_size > 8_000_000


def test_what_has_the_name_of_the_reserve_is_left_alone(tmp_path: Path) -> None:
    """A file of somebody else's is neither overwritten nor removed."""
    path = tmp_path / "s.db"
    theirs = Path(f"{path}.reserve")
    theirs.write_text("mine")
    with Engine(path) as engine:
        for _ in range(20):
            engine.start(W, {"text": "x" * 100_000})
        engine.backend.make_room()
    assert theirs.read_text() == "mine"


def test_a_reserve_takes_no_more_than_it_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With little room left there is a small one, or none."""
    reserve = Reserve(str(tmp_path / "s.db"))
    monkeypatch.setattr(keeping, "_free", lambda _: 600 * 1024)
    assert reserve.keep(10 * 1024 * 1024) == 256 * 1024
    monkeypatch.setattr(keeping, "_free", lambda _: 100 * 1024)
    assert reserve.keep(10 * 1024 * 1024) == 256 * 1024
    assert reserve.lower()
    assert reserve.keep(0) == 128 * 1024
    assert reserve.lower()
    assert not reserve.lower()
    assert reserve.keep(0) == 0
