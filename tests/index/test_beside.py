"""On real time an external index is fed by a thread of its own: one that hangs keeps nobody waiting but who searches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from orders import ORDER, agrees, place, workers

from conductorlite import Engine
from conductorlite.errors import InvariantBroken
from conductorlite.runtime import external
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import MemoryIndex
from conductorlite.testing.faults import lay_empty_store

THREAD = "conductorlite-index"


class Hanging:
    """An index on a server that answers nobody who feeds it until it is let go."""

    def __init__(self) -> None:
        self.inner = MemoryIndex()
        self.asked, self.free = threading.Event(), threading.Event()

    def feed(self, *batch: Any) -> None:
        """Take a batch, some day."""
        self.asked.set()
        assert self.free.wait(60)
        self.inner.feed(*batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
def index() -> Iterator[Hanging]:
    """One that is let go in the end."""
    index = Hanging()
    yield index
    index.free.set()


@contextmanager
def real(store: Any, index: Any) -> Iterator[Engine]:
    """An engine on the clock of the system."""
    with Engine(store, workers=workers(), index=index) as one:
        yield one


def feeders() -> list[threading.Thread]:
    """The threads that feed."""
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def until_asked(one: Engine, index: Hanging) -> None:
    """Drive until the thread waits for the server."""
    for _ in range(10_000):
        if index.asked.is_set():
            return
        one.run_until_idle("5ms")
    raise AssertionError("nobody feeds it")


def test_turns_go_on_while_the_server_hangs(store: Backend, index: Hanging) -> None:
    """Executions are carried out, by one driver after another, with one thread and one batch; it is fed when the server is back."""
    with real(store, index) as one:
        one.start(ORDER, {"amount": 50, "city": "Oslo"})
        until_asked(one, index)
        for n in range(1, 8):
            assert one.start(ORDER, {"amount": n, "city": "Rome"}).result("60s") == {"to": "Rome"}
            assert not one.run_until_idle("1ms")  # not idle before what has changed is indexed
        assert len(feeders()) == 1
        health = one.admin.index_health()
        assert health is not None
        assert health.behind == 8
        index.free.set()
        assert one.run_until_idle()
        health = one.admin.index_health()
        assert health is not None
        assert (health.complete, health.behind, health.error) == (True, 0, None)
        agrees(one)
    assert feeders() == []


class ByThread(Counter[str]):
    """Statements, with who makes them how often."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, Counter[str]] = {"driver": Counter(), "feeder": Counter()}

    def __setitem__(self, sql: str, count: int) -> None:
        self.of["feeder" if threading.current_thread().name == THREAD else "driver"][sql] += 1
        super().__setitem__(sql, count)


def written(statements: Counter[str]) -> dict[str, int]:
    """Those that change something."""
    return {sql: count for sql, count in statements.items() if sql.split()[0] in ("INSERT", "UPDATE", "DELETE")}


def test_feeding_costs_the_path_of_a_turn_no_statement(tmp_path: Path) -> None:
    """The thread that drives writes what it writes without an index, and asks nothing that feeding asks; another thread does."""
    made = {}
    for name, index in (("without", None), ("with", MemoryIndex())):
        backend = SQLiteBackend(lay_empty_store(tmp_path / f"{name}.db"), synchronous="NORMAL", counting=True)
        assert backend.counts is not None
        with real(backend, index) as one:
            one.register(ORDER)
            backend.counts.statements_by_sql = by_thread = ByThread()
            for n in range(1, 20):  # one after another: what is driven together shares statements as it comes
                one.start(ORDER, {"amount": n, "city": "Oslo"}).result("60s")
            assert one.run_until_idle()
            made[name] = by_thread.of
    assert not made["without"]["feeder"]
    assert written(made["with"]["driver"]) == written(made["without"]["driver"])
    feeding_alone = made["with"]["feeder"].keys() - made["without"]["driver"].keys()
    assert any("feeds" in sql for sql in feeding_alone)
    assert not made["with"]["driver"].keys() & feeding_alone


def test_closing_does_not_wait_for_a_server_that_hangs(tmp_path: Path, index: Hanging, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch in hand is left: the index may know it or not, and the next feeder goes on from there."""
    monkeypatch.setattr(external, "_LEAVES_S", 0)
    path = lay_empty_store(tmp_path / "store.db")
    with real(path, index) as one:
        place(one, 1, 3)
        until_asked(one, index)
    index.free.set()
    for thread in feeders():
        thread.join(60)
    assert feeders() == []
    with real(path, MemoryIndex(index.inner)) as one:
        assert one.run_until_idle()
        agrees(one)
        assert one.admin.check() == []


@pytest.mark.parametrize("quick", [False, True])
def test_a_broken_invariant_ends_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    """What the thread has found wrong with the store is raised where the engine is driven; then it feeds again.

    So it is when the thread has found it before the driver, which has nothing else to do, asks whether it is done.
    """
    look = external.Feeding.look

    def waited(feeding: external.Feeding, *, busy: bool) -> bool:
        done = look(feeding, busy=busy)
        until = time.monotonic() + 60
        while not busy and feeding._fed is not feeding._work:
            assert time.monotonic() < until
            time.sleep(0)
        return done

    class Broken(Hanging):
        """One that is asked once to feed what cannot be."""

        def feed(self, *batch: Any) -> None:
            """Raise it."""
            if self.free.is_set():
                self.free.clear()
                raise InvariantBroken("two of one id")
            self.inner.feed(*batch)

    with real(lay_empty_store(tmp_path / "store.db"), index := Broken()) as one:
        place(one, 1, 3)
        assert one.run_until_idle()
        one.start(ORDER, {"amount": 1, "city": "Oslo"}, workflow_id="o3")
        one.terminate("o3")
        index.free.set()
        if quick:
            monkeypatch.setattr(external.Feeding, "look", waited)
        with pytest.raises(InvariantBroken, match="two of one id"):
            one.run_until_idle()
        assert one.run_until_idle()
        agrees(one)


def test_a_thread_that_has_nothing_to_do_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is begun again when there is something; where none can be begun, the index is fed later."""
    monkeypatch.setattr(external, "_STAYS_S", 0)
    with real(lay_empty_store(tmp_path / "store.db"), MemoryIndex()) as one:
        for n in range(1, 4):
            place(one, n, n + 1)
            assert one.run_until_idle()
            agrees(one)
            for thread in feeders():
                thread.join(60)
        place(one, 4, 5)
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", _no_room)
            assert one.run_until_idle()
        assert one.admin.index_health().behind == 1  # type: ignore[union-attr]
        assert one.run_until_idle()
        assert one.admin.index_health().behind == 0  # type: ignore[union-attr]


def _no_room(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
