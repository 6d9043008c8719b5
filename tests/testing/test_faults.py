"""A backend that dies or fails at the n-th write: what is stored, what is not, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kit import flow, task

from conductorlite import Engine, TaskStatus, VirtualClock
from conductorlite.errors import EngineClosed, StorageError, StorageFull
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import Crash, FaultyBackend
from conductorlite.testing.faults import Store

Reopen = Callable[[], Backend]

#: Writes of a start: the definition with its commit, the turn with its commit.
START = ["embed", "apply START", "commit"]


@pytest.fixture(params=["memory", "sqlite"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the one store of the test, again and again."""
    memory = MemoryBackend()
    opened: list[Backend] = []

    def make() -> Backend:
        opened.append(memory if request.param == "memory" else SQLiteBackend(tmp_path / "store.db"))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


def start(backend: Backend) -> None:
    """One execution of one task."""
    Engine(backend, clock=VirtualClock()).start(flow(task("charge")), workflow_id="one")


def stored(backend: Backend) -> tuple[int, list[TaskStatus], int]:
    """Executions, statuses of tasks, and messages."""
    with backend.reading() as view:
        ids = view.executions.workflow_ids(None, "", 10)
        return len(ids), [each.status for each in view.executions.attempts("one")], len(view.queue.messages(10))


def test_writes_are_counted_and_named(reopen: Reopen) -> None:
    """Each change and each commit is a write; reading is none, and neither is a transaction that changes nothing."""
    backend = FaultyBackend(reopen(), keep_open=True)
    start(backend)
    with backend.writing() as tx:
        assert tx.executions.workflow("one") is not None
    assert backend.journal == START
    assert backend.writes == 3


@pytest.mark.parametrize(
    ("fault", "executions"),
    [
        ({"crash_before": 1}, 0),
        ({"crash_before": 2}, 0),
        ({"crash_after": 2}, 0),
        ({"crash_before": 3}, 0),
        ({"crash_after": 3}, 1),
    ],
)
def test_a_crash_stores_what_was_committed(reopen: Reopen, fault: dict[str, int], executions: int) -> None:
    """Before the commit nothing of the turn is stored; after it everything is, although nobody was told."""
    inner = reopen()
    backend = FaultyBackend(inner, keep_open=True, **fault)  # type: ignore[arg-type]
    with pytest.raises(Crash):
        start(backend)
    statuses = [TaskStatus.SCHEDULED] * executions
    assert stored(inner) == (executions, statuses, executions)
    inner = reopen()
    if executions == 0:
        start(inner)
    assert stored(inner) == (1, [TaskStatus.SCHEDULED], 1)
    assert Engine(inner, clock=VirtualClock()).admin.check() == []


def test_the_dead_answer_nothing(reopen: Reopen) -> None:
    """After a crash the backend object refuses everything but being closed, and leaves its inner one alone."""
    inner = reopen()
    backend = FaultyBackend(inner, crash_before=1)
    with pytest.raises(Crash, match=r"before write 1 \(embed\)"):
        start(backend)
    for use in (backend.reading, backend.writing, backend.data_version):
        with pytest.raises(Crash, match="has died"):
            use()
    backend.close()
    assert stored(inner) == (0, [], 0)


def test_a_crash_is_no_exception() -> None:
    """What catches errors does not catch the end of the process."""
    assert not issubclass(Crash, Exception)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_failure_undoes_its_transaction_and_is_over(reopen: Reopen, number: int) -> None:
    """A write that fails raises a StorageError, nothing of its transaction is stored, and the next try succeeds."""
    backend = FaultyBackend(reopen(), fail_before=number, keep_open=True)
    with pytest.raises(StorageError, match=f"write {number}"):
        start(backend)
    assert stored(backend) == (0, [], 0)
    start(backend)
    assert stored(backend) == (1, [TaskStatus.SCHEDULED], 1)


def test_a_failure_of_ones_own(reopen: Reopen) -> None:
    """The error can be chosen, such as a full disk."""
    with pytest.raises(StorageFull, match="no space"):
        start(FaultyBackend(reopen(), fail_before=2, error=StorageFull("no space"), keep_open=True))


def test_closing() -> None:
    """Closing closes the inner backend, once, unless it is to be kept open."""
    inner = MemoryBackend()
    kept = FaultyBackend(inner, keep_open=True)
    kept.close()
    assert stored(inner) == (0, [], 0)
    with pytest.raises(EngineClosed):
        kept.reading()
    whole = FaultyBackend(inner)
    whole.close()
    whole.close()
    with pytest.raises(EngineClosed):
        stored(inner)


def test_who_is_told(reopen: Reopen) -> None:
    """`on_commit` hears of each commit by its number, `on_crash` of the crash while the transaction is open."""
    heard: list[object] = []
    backend = FaultyBackend(reopen(), crash_after=4, on_commit=heard.append, on_crash=lambda: heard.append("crash"), keep_open=True)
    start(backend)
    with pytest.raises(Crash):
        Engine(backend, clock=VirtualClock()).start(flow(task("charge")), workflow_id="two")
    assert heard == [3, "crash"]


@pytest.mark.parametrize("kind", ["memory", "relay"])
def test_a_store_in_memory_is_in_nobodys_way_until_a_fault_is_asked_for(kind: str, tmp_path: Path) -> None:
    """What `Store.open` gives is the store itself to an engine; a death, a count and a hook work from when they are asked for."""
    store = Store(kind, lambda: tmp_path)
    backend = store.open()
    assert isinstance(backend, FaultyBackend)
    inner = store.inner()
    assert type(backend.writing()) is type(inner.writing())
    engine = Engine(backend, clock=VirtualClock())
    assert engine.core.turns.lookups.at_hand
    engine.start(flow(task("charge")), workflow_id="one")
    assert backend.journal == []
    engine.start(flow(task("charge")), workflow_id="two")
    assert backend.writes == len(backend.journal) > 0
    seen: list[int] = []
    other = store.open()
    assert isinstance(other, FaultyBackend)
    other.on_writing = lambda: seen.append(1)
    with other.writing():
        pass
    assert seen == [1]
    backend.die_at(1)
    with pytest.raises(Crash):
        engine.start(flow(task("charge")), workflow_id="three")
    with pytest.raises(Crash):
        engine.get("one")
    assert Engine(store.open(), clock=VirtualClock()).get("two").workflow_id == "two"


def test_a_handle_in_memory_is_closed_and_its_store_is_not(tmp_path: Path) -> None:
    """Of two handles one is closed: only the other one answers."""
    store = Store("memory", lambda: tmp_path)
    first, second = store.open(), store.open()
    start(first)
    first.close()
    first.close()
    for ask in (first.reading, first.writing, first.commits, first.data_version):
        with pytest.raises(EngineClosed):
            ask()
    assert stored(second) == (1, [TaskStatus.SCHEDULED], 1)
