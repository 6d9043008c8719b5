"""Executions that several threads begin at once: in one commit, each answered when it is made, and none lost or begun twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from engine_kit import flow, simple

from conductorlite import Engine
from conductorlite.engine.starts import Starts
from conductorlite.errors import StorageBusy
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import FaultyBackend

ONE = flow(simple("a"), name="one")


def at_once(engine: Engine, *starts: Callable[[], Any]) -> list[Any]:
    """What becomes of starts that all come while another thread begins one."""
    turns = engine.core.starts
    found: list[Any] = [None] * len(starts)

    def begin(number: int) -> None:
        try:
            found[number] = starts[number]().workflow_id
        except BaseException as error:
            found[number] = error

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(len(starts))]
    with turns._beginning.held():
        for number, thread in enumerate(threads):
            thread.start()
            while len(turns._coming) <= number and thread.is_alive():
                thread.join(0.001)
    for thread in threads:
        thread.join()
    return found


def starts(engine: Engine, count: int = 5) -> Sequence[Callable[[], Any]]:
    """So many that are alike."""
    return [lambda: engine.start(ONE)] * count


def stored(engine: Engine) -> list[str]:
    """The executions there are."""
    return sorted(engine.admin.workflow_ids())


def test_threads_that_begin_executions_at_once_share_a_commit(tmp_path: Path) -> None:
    """Each has its own, which is there when it is answered."""
    with Engine(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL")) as engine:
        engine.start(ONE)
        before, ids = engine.backend.commits(), stored(engine)
        found = at_once(engine, *starts(engine))
        assert engine.backend.commits() - before == 1
        assert sorted([*ids, *found]) == stored(engine)
        assert len(engine.poll("a", worker_id="w", count=9)) == 6
        assert engine.admin.check() == []


def test_a_commit_that_fails_is_each_ones_own(tmp_path: Path) -> None:
    """What was to be begun together is begun one by one."""
    writes: list[int] = []

    def fails() -> None:
        writes.append(1)
        if writes == [1, 1]:
            raise StorageBusy("not now")

    backend = FaultyBackend(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL"))
    with Engine(backend) as engine:
        engine.start(ONE)
        before, writes[:], backend.on_writing = backend.inner.commits(), [1], fails
        found = at_once(engine, *starts(engine))
        assert not [one for one in found if isinstance(one, BaseException)]
        assert backend.inner.commits() - before == 5
        assert len(stored(engine)) == 6


def test_what_nobody_else_may_begin_with_them_is_begun_alone(tmp_path: Path) -> None:
    """An id or a key of the caller's: another one may have it, which refuses that one only."""
    with Engine(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL")) as engine:
        engine.start(ONE, workflow_id="w", idempotency_key="k")
        same = [lambda: engine.start(ONE, workflow_id="w"), lambda: engine.start(ONE, idempotency_key="k")]
        found = at_once(engine, *same, *starts(engine, 2))
        assert [type(one).__name__ for one in found] == ["AlreadyExists", "KeyTaken", "str", "str"]
        assert len(stored(engine)) == 3


@pytest.mark.parametrize("committed", [True, False])
def test_who_begins_for_others_may_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> None:
    """Before the commit the others begin their own, after it they find that they have begun."""
    real = Starts._begin_together

    def interrupted(turns: Starts, firsts: Any) -> None:
        if committed:
            real(turns, firsts)
        raise KeyboardInterrupt

    with Engine(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL")) as engine:
        engine.start(ONE)
        monkeypatch.setattr(Starts, "_begin_together", interrupted)
        found = at_once(engine, *starts(engine))
        begun = [one for one in found if isinstance(one, str)]
        assert [type(one) for one in found if one not in begun] == [KeyboardInterrupt]
        assert len(begun) == 4
        assert set(begun) <= set(stored(engine))
        assert len(stored(engine)) == (6 if committed else 5)


def test_a_listener_may_wait_for_another_start(tmp_path: Path) -> None:
    """Nothing that it waits for waits for it."""
    with Engine(SQLiteBackend(tmp_path / "store.db", synchronous="NORMAL")) as engine:
        found: list[str] = []

        def listener(*_: object) -> None:
            if not found:
                found.append("")
                thread = threading.Thread(target=lambda: found.append(engine.start(ONE).workflow_id))
                thread.start()
                thread.join()

        engine.listen(listener)
        engine.start(ONE)
        assert len(found) == 2
        assert len(stored(engine)) == 2
