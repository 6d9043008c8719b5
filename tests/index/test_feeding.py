"""The index beside the executions: killed, damaged, locked, absent or slow, it stops nobody, and comes to agree again."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from orders import ORDER, agrees, answers, engine, place

from conductorlite import Engine, InvalidInput, StorageError, VirtualClock
from conductorlite.engine import index_feed as feeding
from conductorlite.store.index.index import SQLiteIndex
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import Crash, FaultyBackend


def test_an_index_follows(store: Backend) -> None:
    """Starts, progress, ends, removals, archiving and a second life of an id are found at once, as the store has them."""
    with engine(store) as one:
        place(one, 0, 6)
        agrees(one)
        one.run_until_idle()
        agrees(one)
        one.retry("o0")
        agrees(one)
        one.run_until_idle()
        one.remove("o0")
        agrees(one)
        one.archive("o1")
        agrees(one)
        place(one, 0, 2)  # o1 is back, and archived too: the one in the store is found
        agrees(one)
        one.run_until_idle()
        one.remove("o1")
        agrees(one)
        assert [row.archived for row in one.search("workflowId = o1").results] == [True]
        one.remove("o1")
        agrees(one)
        assert one.search("workflowId = o1").total_hits == 0


def test_a_removed_and_started_again_id_between_two_meals(store: Backend) -> None:
    """No attempt of the execution that was removed is left, though the index never saw it go."""
    with engine(store) as one:
        place(one, 0, 1)
        one.run_until_idle()
        one.remove("o0")
        one.start(ORDER, {"amount": 7, "city": "Rome"}, workflow_id="o0")
        agrees(one)
        assert one.search_tasks().total_hits == 1


def test_an_index_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored before, archived executions included, is told too; while that lasts searches look at the store."""
    with engine(SQLiteBackend(tmp_path / "store.db"), index=None) as one:
        place(one, 0, 60)
        one.run_until_idle()
        assert one.prune("0s", archive=True, limit=30).failed == {}
        before = answers(one)
    monkeypatch.setattr(feeding, "_NOTES", 7)
    monkeypatch.setattr(feeding, "_STORED", 5)
    with engine(SQLiteBackend(tmp_path / "store.db"), index=tmp_path / "late.db") as one:
        assert one.search("status = COMPLETED", size=0).total_hits == before[1][0]  # not complete after its first meals
        assert one.index_health() is not None
        assert not one.index_health().complete  # type: ignore[union-attr]
        assert one.relay() > 0
        agrees(one)
        assert answers(one) == before


@contextmanager
def damaged(one: Engine, how: str) -> Iterator[None]:
    """Do something to the file of an index that is open."""
    path = Path(one.feeder.index.path)  # type: ignore[union-attr]
    if how == "deleted":
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    elif how == "another file":
        path.with_suffix(".new").write_bytes(b"not a database, " * 500)
        path.with_suffix(".new").replace(path)
    elif how == "an older copy":
        shutil.copy(path.with_suffix(".copy"), path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    elif how == "pages overwritten":
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        with path.open("r+b") as file:
            file.seek(4096)
            file.write(os.urandom(1) * (path.stat().st_size - 4096))
    yield


@pytest.mark.parametrize("how", ["deleted", "another file", "an older copy", "pages overwritten"])
def test_a_file_that_is_gone_or_damaged(tmp_path: Path, how: str) -> None:
    """Executions go on, searches answer from the store, and the index is set aside and built anew, without being asked."""
    clock = VirtualClock(1_000)
    with engine(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL"), index=tmp_path / "i.db", clock=clock) as one:
        place(one, 0, 8)
        one.run_until_idle()
        agrees(one)
        with sqlite3.connect(tmp_path / "i.db") as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        shutil.copy(tmp_path / "i.db", tmp_path / "i.copy")
        place(one, 8, 12)
        one.run_until_idle()
        with damaged(one, how):
            expected = answers(one, looking=True)
            assert answers(one) == expected
            place(one, 12, 16)
            assert one.run_until_idle()
            assert [row.status for row in one.executions()] == [one.status(row.workflow_id) for row in one.executions()]
            assert answers(one) == answers(one, looking=True)
        clock.move_to(clock.now() + 120_000)
        one.run_until_idle()
        agrees(one)
        health = one.index_health()
        assert health is not None
        if how in ("another file", "pages overwritten"):
            assert health.damaged == str(tmp_path / "i.db.damaged")


def test_ids_are_indexed_as_they_are(store: Backend) -> None:
    """Ids with a NUL, and long ones that begin alike, are told, told again, found by, and removed as the ones they are."""
    ids = ["n\0l", "n\ufffdl", "x" * 1_500 + "y", "x" * 1_500 + "z"]
    with engine(store) as one:
        for workflow_id in ids:
            one.start(ORDER, {"amount": 7, "city": "Rome"}, workflow_id=workflow_id)
        agrees(one)
        one.run_until_idle()
        agrees(one)
        for workflow_id in ids:
            assert [row.workflow_id for row in one.search(f"workflowId = '{workflow_id}'").results] == [workflow_id]
        one.remove(ids[0])
        one.archive(ids[2])
        agrees(one)
        assert one.check() == []


def test_rows_that_contradict_each_other(tmp_path: Path) -> None:
    """An index whose rows do not fit together is damaged: nobody is stopped, it is set aside and built anew."""
    with engine(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL"), tmp_path / "i.db") as one:
        place(one, 0, 2)
        one.run_until_idle()
        agrees(one)
        with sqlite3.connect(tmp_path / "i.db") as raw:
            raw.execute("DELETE FROM workflows")
        raw.close()
        place(one, 2, 3)
        assert one.run_until_idle()
        assert one.relay() > 0
        agrees(one)
        assert (tmp_path / "i.db.damaged").exists()


def test_a_store_from_a_backup(tmp_path: Path) -> None:
    """An index that knows more than its store is emptied."""
    path = tmp_path / "store.db"
    with engine(SQLiteBackend(path), index=tmp_path / "i.db") as one:
        place(one, 0, 3)
        one.run_until_idle()
    shutil.copy(path, tmp_path / "backup.db")
    with engine(SQLiteBackend(path), index=tmp_path / "i.db") as one:
        for n in range(3, 8):
            place(one, n, n + 1)
            one.run_until_idle()
        agrees(one)
    shutil.copy(tmp_path / "backup.db", path)
    with engine(SQLiteBackend(path), index=tmp_path / "i.db") as one:
        one.relay()
        agrees(one)
        assert one.search().total_hits == 3


@attrs.define
class Troubled:
    """An index in memory of which every use fails, or dies at the n-th step of a change."""

    inner: SQLiteIndex
    error: BaseException | None = None
    dies_at: int = 0
    steps: int = 0

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.dies_at:
            raise Crash("the process died while the index was fed")
        if self.error is not None:
            raise self.error

    @contextmanager
    def changing(self) -> Iterator[Any]:
        """A change whose every part is a step."""
        self._step()
        with self.inner.changing() as tx:
            yield tx
            self._step()
        self._step()

    def __getattr__(self, name: str) -> Any:
        if self.error is not None and name in ("workflows", "tasks", "standing"):
            raise self.error
        return getattr(self.inner, name)


@pytest.mark.parametrize("error", [StorageError("no"), OSError("no"), ValueError("no"), RuntimeError("no"), sqlite3.Error("no")])
def test_an_index_of_which_everything_fails(store: Backend, error: Exception) -> None:
    """Whatever it raises, verbs, driver and searches go on; it is tried again ever less often, and told all when it is back."""
    index = Troubled(SQLiteIndex(), error=error)
    clock = VirtualClock(1_000)
    with engine(store, index, clock) as one:
        place(one, 0, 5)
        assert one.run_until_idle()
        assert answers(one) == answers(one, looking=True)
        health = one.index_health()
        assert health is not None
        assert "no" in str(health.error)
        assert health.retry_at is not None
        tries = index.steps
        for _ in range(50):
            one.settle()
        assert index.steps <= tries + 2
        with pytest.raises(type(error)):
            one.rebuild_index()
        index.error = None
        clock.move_to(clock.now() + 120_000)
        one.run_until_idle()
        agrees(one)


def test_a_locked_index_is_not_waited_for(tmp_path: Path) -> None:
    """While another process writes to the index, nothing waits; searches answer, and say how far they are behind."""
    clock = VirtualClock(1_000)
    with engine(SQLiteBackend(tmp_path / "store.db"), index=tmp_path / "i.db", clock=clock) as one:
        place(one, 0, 3)
        one.run_until_idle()
        agrees(one)
        other = sqlite3.connect(tmp_path / "i.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        place(one, 3, 6)
        assert one.run_until_idle()
        result = one.search()
        assert result.total_hits == 3
        assert result.behind > 3
        other.execute("ROLLBACK")
        other.close()
        clock.move_to(clock.now() + 1_000)
        agrees(one)


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    """A database that is not an index is neither set aside nor written to."""
    with sqlite3.connect(tmp_path / "theirs.db") as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = (tmp_path / "theirs.db").read_bytes()
    with engine(MemoryBackend(), tmp_path / "theirs.db") as one:
        place(one, 0, 2)
        assert one.run_until_idle()
        assert answers(one) == answers(one, looking=True)
        assert "left alone" in str(one.index_health())
    assert (tmp_path / "theirs.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theirs.db"]


def _scenario(one: Engine) -> None:
    """Every kind of change, each repeatable."""
    place(one, 0, 3)
    one.run_until_idle()
    if any(one.workflow_ids()) and "o1" in set(one.workflow_ids()) and one.status("o1").terminal:
        one.archive("o1")
    if "o2" in set(one.workflow_ids()) and one.status("o2").terminal:
        one.remove("o2")
    one.run_until_idle()


@pytest.mark.parametrize(
    ("kind", "every"),
    [("sqlite", 11), *(pytest.param(kind, 1, marks=pytest.mark.slow) for kind in ("memory", "memory-relay", "sqlite"))],
)
def test_a_crash_at_every_write_of_the_store(tmp_path: Path, kind: str, every: int) -> None:
    """Killed before and after each write, from the commit of a turn to the forgetting of what was told, the next one agrees."""

    def life(name: str, **crash: int) -> FaultyBackend:
        memory = MemoryBackend(relay=kind == "memory-relay")

        def opened() -> Backend:
            return SQLiteBackend(tmp_path / f"{name}.db", synchronous="NORMAL") if kind == "sqlite" else memory

        clock = VirtualClock(1_000)
        faulty = FaultyBackend(opened(), **crash)  # type: ignore[arg-type]
        one = engine(faulty, tmp_path / f"{name}.index.db", clock)
        try:
            _scenario(one)
            agrees(one)
            one.close()  # gives back what it holds, which is a write too
        except Crash:
            one.feeder.index.close()  # type: ignore[union-attr]
            faulty.inner.close() if kind == "sqlite" else None
            clock.move_to(clock.now() + 4_000_000)
            with engine(FaultyBackend(opened(), keep_open=kind != "sqlite"), tmp_path / f"{name}.index.db", clock) as again:
                again.run_until_idle()
                again.relay()
                agrees(again)
        return faulty

    writes = life("calm").writes
    assert writes > 30
    for number in range(1, writes + 1, every):
        # In a file every third is killed after, the others before: a commit lies between any two.
        if kind == "memory" or number % 3 == 0:
            life(f"after{number}", crash_after=number)
        if kind == "memory" or number % 3:
            life(f"before{number}", crash_before=number)


def test_a_crash_at_every_step_of_a_meal() -> None:
    """Killed before, inside and after a change of the index, before the store has forgotten what was told, the next one agrees."""
    steps = 0
    while True:
        steps += 1
        store, index = MemoryBackend(), Troubled(SQLiteIndex(), dies_at=steps)
        clock = VirtualClock(1_000)
        one = engine(store, index, clock)
        try:
            _scenario(one)
        except Crash:
            index.dies_at = 0
            clock.move_to(clock.now() + 4_000_000)
            again = engine(store, index, clock)
            again.run_until_idle()
            again.relay()
            agrees(again)
        else:
            assert index.steps < steps
            break
    assert steps > 10


def test_two_engines_feed_one_index(tmp_path: Path) -> None:
    """Whoever has time feeds it; both find what either has done."""
    clock = VirtualClock(1_000)
    one, other = (engine(SQLiteBackend(tmp_path / "s.db"), tmp_path / "i.db", clock) for _ in range(2))
    for n in range(6):
        place((one, other)[n % 2], n, n + 1)
        (one, other)[n % 2].run_until_idle()
        agrees(one)
        agrees(other)
    one.close()
    other.close()


def test_an_engine_without_an_index_notes_for_the_others(tmp_path: Path) -> None:
    """Changes made without an index are told later; forget_index ends the noting, and the next index is built anew."""
    with engine(SQLiteBackend(tmp_path / "s.db"), tmp_path / "i.db") as one:
        place(one, 0, 2)
        one.run_until_idle()
        agrees(one)
    with engine(SQLiteBackend(tmp_path / "s.db"), None) as one:
        place(one, 2, 4)
        one.run_until_idle()
        assert one.size_report().kinds["changes"].rows == 5  # two executions, three attempts
        assert one.index_health() is None
        assert one.relay() == 0
        with pytest.raises(InvalidInput, match="no index"):
            one.rebuild_index()
    with engine(SQLiteBackend(tmp_path / "s.db"), tmp_path / "i.db") as one:
        agrees(one) if one.relay() else None
        one.forget_index()
        place(one, 4, 6)
        assert one.size_report().kinds["changes"].rows == 0
        one.run_until_idle()
        agrees(one)


def test_a_busy_driver_feeds_too(store: Backend) -> None:
    """With something ready all the time the index is fed at every so many units of work, so it is never far behind."""
    with engine(store) as one:
        place(one, 0, 150)
        worst = 0
        for _ in range(800):
            one.tick()
            worst = max(worst, one.feeder.behind())  # type: ignore[union-attr]
        assert 0 < worst < 1_000
        assert one.feeder.index.standing()[1] > 0  # type: ignore[union-attr]


def test_where_an_index_lies(tmp_path: Path) -> None:
    """True is a file beside the store, or memory; a path is a file; False is none."""
    cases = [(tmp_path / "orders.db", True, "orders.index.db"), (None, True, None), (None, tmp_path / "x.db", "x.db")]
    for store, index, name in cases:
        with Engine(store, index=index) as one:
            assert one.feeder is not None
            found = one.feeder.index.path  # type: ignore[attr-defined]
            assert (None if found is None else Path(found).name) == name
    with Engine(index=False) as one:
        assert one.feeder is None
        assert one.search().total_hits == 0
