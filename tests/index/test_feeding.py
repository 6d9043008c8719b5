"""The index beside the executions: killed, damaged, locked, absent or slow, it stops nobody, and comes to agree again."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import attrs
import pytest
from orders import ORDER, agrees, answers, engine, place

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowStatus
from conductorlite.engine import index_feed
from conductorlite.engine import index_feed as feeding
from conductorlite.errors import InvalidInput, StorageError, StorageUnavailable
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend, IndexEntry
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.store.tables import FeedKind
from conductorlite.testing import MemoryIndex
from conductorlite.testing.faults import Crash, FaultyBackend, lay_empty_store


def test_an_index_follows(store: Backend, index: MemoryIndex | None) -> None:
    """Starts, progress, ends, removals, archiving and a second life of an id are found at once, as the store has them."""
    with engine(store, index) as one:
        place(one, 0, 6)
        agrees(one)
        one.run_until_idle()
        agrees(one)
        one.retry("o0")
        agrees(one)
        one.run_until_idle()
        one.admin.remove("o0")
        agrees(one)
        one.admin.archive("o1")
        agrees(one)
        place(one, 0, 2)  # o1 is back, and archived too: the one in the store is found
        agrees(one)
        one.run_until_idle()
        one.admin.remove("o1")
        agrees(one)
        assert [row.archived for row in one.search("workflowId = o1").results] == [True]
        one.admin.remove("o1")
        agrees(one)
        assert one.search("workflowId = o1").total_hits == 0


def test_a_batch_of_another_thread_is_no_trouble(store: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who searches meanwhile gets what is indexed, and how far that is behind; the index is not left alone for that."""
    monkeypatch.setattr(feeding, "_PATIENCE_S", 0.01)
    with engine(store, MemoryIndex()) as one:
        place(one, 0, 2)
        agrees(one)
        place(one, 2, 3)
        feeder, held, over = one.core.searching.feeder, threading.Event(), threading.Event()
        assert feeder is not None

        def hold() -> None:
            with feeder._mutex.held():
                held.set()
                over.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(30)
        found = one.search()
        over.set()
        thread.join()
        assert (found.total_hits, found.behind, feeder.trouble) == (2, 1, None)
        agrees(one)


def test_a_removed_and_started_again_id_between_two_searches(store: Backend, index: MemoryIndex | None) -> None:
    """No attempt of the execution that was removed is left, though the index never saw it go."""
    with engine(store, index) as one:
        place(one, 0, 1)
        one.run_until_idle()
        agrees(one)
        one.admin.remove("o0")
        one.start(ORDER, {"amount": 7, "city": "Rome"}, workflow_id="o0")
        agrees(one)
        assert one.tasks.search().total_hits == 1


def test_what_ended_and_goes_on_between_two_searches(store: Backend, index: MemoryIndex | None) -> None:
    """One that had ended when it was indexed, was retried, and has ended again; and a loop that dropped its rounds."""
    loop = WorkflowDef.from_json(
        {
            "name": "loop",
            "tasks": [
                {
                    "name": "l", "taskReferenceName": "l", "type": "DO_WHILE", "loopCondition": "$.l.iteration < 5",
                    "inputParameters": {"keepLastN": 2},
                    "loopOver": [{"name": "charge", "taskReferenceName": "c", "inputParameters": {"amount": 1}}],
                }
            ],
        }
    )  # fmt: skip
    with engine(store, index) as one:
        place(one, 0, 3)
        run = one.start(loop)
        one.tick()
        agrees(one)
        one.run_until_idle()
        agrees(one)
        assert run.status is WorkflowStatus.COMPLETED
        one.retry("o2")
        one.run_until_idle()
        one.restart("o1")
        one.run_until_idle()
        agrees(one)
        assert one.tasks.search("workflowId = o2").total_hits == len(one.get("o2").tasks) == 2


@pytest.mark.parametrize("batch", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_an_index_that_comes_later(tmp_path: Path, index: MemoryIndex | None, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored before, archived executions included, is indexed too; searches answer rightly from the first on."""
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")) as one:
        place(one, 0, 20)
        one.run_until_idle()
        assert one.admin.prune("0s", archive=True, limit=9).failed == {}
        before = answers(one, looking=True)
        assert one.admin.size_report().kinds["changes"].rows == 0
        assert one.admin.index_health() == feeding.IndexHealth(complete=False, behind=0)
    monkeypatch.setattr(feeding, "_BATCH", batch)
    monkeypatch.setattr(feeding, "_DOCUMENTS", 3)
    monkeypatch.setattr(index_feed, "_AT_ONCE", 2)
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL"), index=index) as one:
        assert one.search("status = COMPLETED", size=0).total_hits == before[1][0]
        health = one.admin.index_health()
        assert health is not None
        assert health.complete is (index is None)  # an external one is not complete after its first batches
        assert (one.admin.relay() > 0) is (index is not None)
        agrees(one)
        assert answers(one) == before


def test_an_external_index_that_is_another_copy(tmp_path: Path) -> None:
    """An older copy, an empty one and that of another store are noticed and built anew, without being asked."""
    index = MemoryIndex()
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL"), index) as one:
        place(one, 0, 4)
        one.run_until_idle()
        agrees(one)
        older = deepcopy(index.held)
        place(one, 4, 8)
        one.run_until_idle()
        agrees(one)
        place(one, 8, 9)
        one.run_until_idle()
        agrees(one)
        for held in (older, type(older)(), type(older)("another", 7)):
            index._shared.indexes, index._shared.searched = {held.identity: held}, held.identity
            assert answers(one) == answers(one, looking=True)
            place(one, 12, 13)
            assert one.run_until_idle()
            agrees(one)
            one.admin.remove("o12")


def test_ids_are_indexed_as_they_are(store: Backend, index: MemoryIndex | None) -> None:
    """Ids with a NUL, and long ones that begin alike, are indexed, found by, and removed as the ones they are."""
    ids = ["n\0l", "n\ufffdl", "x" * 1_500 + "y", "x" * 1_500 + "z"]
    with engine(store, index) as one:
        for workflow_id in ids:
            one.start(ORDER, {"amount": 7, "city": "Rome"}, workflow_id=workflow_id)
        agrees(one)
        one.run_until_idle()
        agrees(one)
        for workflow_id in ids:
            assert [row.workflow_id for row in one.search(f"workflowId = '{workflow_id}'").results] == [workflow_id]
        one.admin.remove(ids[0])
        one.admin.archive(ids[2])
        agrees(one)
        assert one.admin.check() == []


#: What no search comes upon.
SILENT = ("DELETE FROM search_workflows", "DELETE FROM search_tasks_values")


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM search_workflows",
        pytest.param("DELETE FROM search_workflows_texts", marks=pytest.mark.slow),
        pytest.param("DELETE FROM search_tasks_values", marks=pytest.mark.slow),
        pytest.param("DROP TABLE search_tasks_values", marks=pytest.mark.slow),
        "DROP TABLE search_paths",
        pytest.param("DROP TABLE search_workflows_texts_fts", marks=pytest.mark.slow),
        "UPDATE feeds SET reader = 'of another form'",
    ],
)
def test_damage_to_the_stores_own_index(tmp_path: Path, damage: str) -> None:
    """Executions go on and are removed; it is made anew, at once or, where nothing but a comparison shows it, by `repair`."""
    for searched_first in (False, True):
        path = tmp_path / f"{searched_first}.db"
        with engine(SQLiteBackend(lay_empty_store(path), synchronous="NORMAL")) as one:
            place(one, 0, 3)
            one.run_until_idle()
            one.search()
            with one.backend.writing() as tx:
                tx.session.execute(damage)  # type: ignore[attr-defined]
            if searched_first and damage not in SILENT:
                assert answers(one) == answers(one, looking=True)
            one.admin.remove("o1")
            place(one, 3, 4)
            assert one.run_until_idle()
            if damage not in SILENT:
                assert answers(one) == answers(one, looking=True)
            one.admin.repair()
            assert one.admin.check() == []
            agrees(one)


def test_a_store_from_a_backup(tmp_path: Path, index: MemoryIndex | None) -> None:
    """An index that knows more than its store is emptied."""
    path = tmp_path / "store.db"
    with engine(SQLiteBackend(lay_empty_store(path)), index) as one:
        place(one, 0, 3)
        one.run_until_idle()
    shutil.copy(path, tmp_path / "backup.db")
    with engine(SQLiteBackend(lay_empty_store(path)), again(index)) as one:
        for n in range(3, 8):
            place(one, n, n + 1)
            one.run_until_idle()
        agrees(one)
    shutil.copy(tmp_path / "backup.db", path)
    with engine(SQLiteBackend(lay_empty_store(path)), again(index)) as one:
        one.admin.relay()
        agrees(one)
        assert one.search().total_hits == 3


def again(index: MemoryIndex | None) -> MemoryIndex | None:
    """Another handle."""
    return None if index is None else MemoryIndex(index)


def test_a_compacted_store(tmp_path: Path) -> None:
    """What was indexed is found, and what comes after is indexed."""
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")) as one:
        place(one, 0, 9)
        agrees(one)
        for n in (0, 4, 8):
            one.terminate(f"o{n}")
            one.admin.remove(f"o{n}")
        one.admin.compact()
        place(one, 20, 22)
        one.run_until_idle()
        agrees(one)
        assert one.admin.check() == []


@attrs.define
class Troubled:
    """An index in memory of which every use fails, or dies at the n-th step of a change."""

    inner: MemoryIndex
    error: BaseException | None = None
    dies_at: int = 0
    steps: int = 0
    #: What others do before a batch.
    before: Callable[[], object] | None = None
    #: What was asked of it.
    asked: list[str] = attrs.field(factory=list)

    def _step(self) -> None:
        act, self.before = self.before, None
        if act is not None:
            act()
        self.steps += 1
        if self.steps == self.dies_at:
            raise Crash("the process died while the index was fed")
        if self.error is not None:
            raise self.error

    def feed(self, identity: str, position: int, entries: Iterable[IndexEntry]) -> None:
        """A batch, each entry of which is a step."""
        self._step()
        for entry in entries:
            self.inner.feed(identity, 0, [entry])
            self._step()
        self.inner.feed(identity, position, [])
        self._step()

    def begin(self) -> str:
        """Another index."""
        self._step()
        made = self.inner.begin()
        self._step()
        return made

    def switch(self, identity: str) -> None:
        """Another index in the place of the one that is searched."""
        self._step()
        self.inner.switch(identity)
        self._step()

    def __getattr__(self, name: str) -> Any:
        self.asked.append(name)
        if self.error is not None and name in ("workflows", "tasks", "standing"):
            raise self.error
        return getattr(self.inner, name)


@pytest.mark.parametrize("error", [StorageError("no"), OSError("no"), ValueError("no"), RuntimeError("no"), sqlite3.Error("no")])
def test_an_index_of_which_everything_fails(store: Backend, error: Exception) -> None:
    """Whatever it raises, verbs, driver and searches go on; it is tried again ever less often, and told all when it is back."""
    index = Troubled(MemoryIndex(), error=error)
    clock = VirtualClock(1_000)
    with engine(store, index, clock) as one:
        place(one, 0, 5)
        assert one.run_until_idle()
        assert answers(one) == answers(one, looking=True)
        health = one.admin.index_health()
        assert health is not None
        assert "no" in str(health.error)
        assert health.retry_at is not None
        tries = index.steps
        for _ in range(50):
            one.settle()
        assert index.steps <= tries + 2
        with pytest.raises(type(error)):
            one.admin.rebuild_index()
        index.error = None
        clock.move_to(clock.now() + 120_000)
        one.run_until_idle()
        agrees(one)


def test_a_search_leaves_alone_what_is_out_of_reach(store: Backend) -> None:
    """One that could not be reached is not asked by each search, which would wait for it, but when it is time to try again."""
    index = Troubled(MemoryIndex(), error=StorageUnavailable("nobody is there"))
    clock = VirtualClock(1_000)
    with engine(store, index, clock) as one:
        place(one, 0, 3)
        one.run_until_idle()
        index.asked.clear()
        for _ in range(5):
            assert one.search().total_hits == 3
        assert not index.asked
        index.error = None
        clock.move_to(clock.now() + 60_000)
        agrees(one)
        assert index.asked


def test_another_that_feeds_is_not_waited_for(tmp_path: Path) -> None:
    """What another engine indexed first is not indexed again by one that was slower; searches say how far they are behind."""
    clock, index = VirtualClock(1_000), Troubled(MemoryIndex())
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db")), index, clock) as one:
        place(one, 0, 3)
        one.run_until_idle()
        agrees(one)
        place(one, 3, 6)
        one.terminate("o3")
        with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db")), index.inner, clock) as other:
            index.before = lambda: (place(other, 6, 7), other.admin.remove("o3"), other.admin.relay())
            result = one.search()
            assert (result.total_hits, result.behind) == (6, 1)
            assert "another engine feeds the index" in str(one.admin.index_health())
            clock.move_to(clock.now() + 1_000)
            agrees(one)
            assert one.admin.check() == []


def test_a_full_store_is_looked_at(tmp_path: Path) -> None:
    """A search that cannot write looks at every execution; when there is room again the index goes on."""
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")) as one:
        place(one, 0, 30)

        def pages(statement: str) -> None:
            with one.backend.writing() as tx:
                tx.session.execute(f"PRAGMA max_page_count = {statement}")  # type: ignore[attr-defined]

        pages("1")  # no more than there are
        assert answers(one) == answers(one, looking=True)
        pages("1000000")
        agrees(one)
        assert one.admin.check() == []


def test_a_locked_store_is_looked_at(tmp_path: Path) -> None:
    """While another process writes to the store, its own index cannot be fed: a search looks at every execution."""
    path = tmp_path / "store.db"
    with engine(SQLiteBackend(lay_empty_store(path), busy_timeout_ms=0)) as one:
        place(one, 0, 3)
        agrees(one)
        place(one, 3, 4)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert one.search().total_hits == 4
        assert one.tasks.search_workflows("taskType = charge").total_hits == 4
        other.execute("ROLLBACK")
        other.close()
        agrees(one)


def _scenario(one: Engine) -> None:
    """Every kind of change, each repeatable."""
    place(one, 0, 3)
    one.run_until_idle()
    if any(one.admin.workflow_ids()) and "o1" in set(one.admin.workflow_ids()) and one.status("o1").terminal:
        one.admin.archive("o1")
    if "o2" in set(one.admin.workflow_ids()) and one.status("o2").terminal:
        one.admin.remove("o2")
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
            return SQLiteBackend(lay_empty_store(tmp_path / f"{name}.db"), synchronous="NORMAL") if kind == "sqlite" else memory

        clock = VirtualClock(1_000)
        faulty = FaultyBackend(opened(), **crash)  # type: ignore[arg-type]
        index = None if kind == "sqlite" else MemoryIndex()
        one = engine(faulty, index, clock)
        try:
            _scenario(one)
            agrees(one)
            one.close()  # gives back what it holds, which is a write too
        except Crash:
            faulty.inner.close() if kind == "sqlite" else None
            clock.move_to(clock.now() + 4_000_000)
            with engine(FaultyBackend(opened(), keep_open=kind != "sqlite"), again(index), clock) as after:
                after.run_until_idle()
                after.admin.relay()
                agrees(after)
        return faulty

    writes = life("calm").writes
    assert writes > 30
    for number in range(1, writes + 1, every):
        # In a file every third is killed after, the others before: a commit lies between any two.
        if kind == "memory" or number % 3 == 0:
            life(f"after{number}", crash_after=number)
        if kind == "memory" or number % 3:
            life(f"before{number}", crash_before=number)


def test_a_crash_at_every_step_of_a_batch() -> None:
    """Killed before, inside and after a change of the index, before the store has kept what was indexed, the next one agrees."""
    steps = 0
    while True:
        steps += 1
        store, index = MemoryBackend(), Troubled(MemoryIndex(), dies_at=steps)
        clock = VirtualClock(1_000)
        one = engine(store, index, clock)
        try:
            _scenario(one)
        except Crash:
            index.dies_at = 0
            clock.move_to(clock.now() + 4_000_000)
            again = engine(store, index, clock)
            again.run_until_idle()
            again.admin.relay()
            agrees(again)
        else:
            assert index.steps < steps
            break
    assert steps > 8


def test_two_engines_feed_one_index(tmp_path: Path, index: MemoryIndex | None) -> None:
    """Whoever has time feeds it; both find what either has done."""
    clock = VirtualClock(1_000)
    one, other = (engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db")), again(index), clock) for _ in range(2))
    for n in range(6):
        place((one, other)[n % 2], n, n + 1)
        (one, other)[n % 2].run_until_idle()
        agrees(one)
        agrees(other)
    one.close()
    other.close()


def test_an_engine_that_does_not_search(tmp_path: Path, index: MemoryIndex | None) -> None:
    """What it changes is indexed later by one that does; forget_index leaves nothing, and the next search begins anew."""
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db")), index) as one:
        place(one, 0, 2)
        one.run_until_idle()
        agrees(one)
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db"))) as one:
        place(one, 2, 4)
        one.run_until_idle()
        one.admin.archive("o0")
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db")), again(index)) as one:
        agrees(one) if one.admin.relay() else None
        one.admin.forget_index()
        place(one, 4, 6)
        one.admin.remove("o1")
        assert one.admin.size_report().kinds["changes"].rows == 0
        with one.backend.reading() as view:
            assert {view.feeds.feed(kind) for kind in FeedKind} == {None}
        one.run_until_idle()
        agrees(one)


def test_a_busy_driver_feeds_too() -> None:
    """With something ready all the time the index is fed at every so many units of work, so it is never far behind."""
    with engine(MemoryBackend(), MemoryIndex()) as one:
        place(one, 0, 150)
        worst = 0
        for _ in range(800):
            one.tick()
            worst = max(worst, one.admin.index_health().behind)  # type: ignore[union-attr]
        assert 0 < worst < 1_000
        assert one.core.searching.feeder.index.standing()[1] > 0  # type: ignore[union-attr]


def test_a_driver_feeds_what_is_searched(tmp_path: Path) -> None:
    """From the first search on an idle driver indexes, so that the next search finds little to do; before it does nothing."""
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db"), synchronous="NORMAL")) as one:
        place(one, 0, 3)
        one.run_until_idle()
        with one.backend.reading() as view:
            assert view.feeds.feed(FeedKind.OWN) is None
        one.search()
        place(one, 3, 6)
        one.run_until_idle()
        health = one.admin.index_health()
        assert health is not None
        assert (health.complete, health.behind) == (True, 0)


def test_nothing_of_a_removed_execution_is_left(tmp_path: Path) -> None:
    """Its documents go in the commit that removes it, those of an archived one too."""
    with engine(SQLiteBackend(lay_empty_store(tmp_path / "s.db"), synchronous="NORMAL")) as one:
        for city in ("Oslo", "Rome"):
            one.start(ORDER, {"amount": 7, "city": city}, workflow_id=city)
        one.run_until_idle()
        one.admin.archive("Rome")
        agrees(one)
        one.admin.remove("Oslo")
        one.admin.remove("Rome")
        with one.backend.reading() as view:
            index = view.feeds.index()
            assert index is not None
            assert [index.known("", 9), index.documents("Oslo"), index.documents("Rome")] == [[], [], []]


def test_what_is_no_index(tmp_path: Path) -> None:
    """A path, or True, as it once was, is refused by name; a store in memory has no index to make anew."""
    for index, problem in ((True, "no IndexDAO"), (tmp_path / "i.db", "no IndexDAO"), ("i.db", "begins with elasticsearch://")):
        with pytest.raises(InvalidInput, match=problem):
            Engine(index=index)  # type: ignore[arg-type]
    with Engine() as one:
        assert (one.admin.index_health(), one.admin.relay(), one.search().total_hits) == (None, 0, 0)
        one.admin.forget_index()
        with pytest.raises(InvalidInput, match="no index"):
            one.admin.rebuild_index()
