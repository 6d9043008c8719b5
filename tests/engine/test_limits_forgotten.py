"""Limits whose keys are made of an input are forgotten when nobody uses them, and a race with a new asker is harmless."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductorlite import Engine, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import FencedOut
from conductorlite.model.limits import Limit, LimitChange, Member, MemberState
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import FaultyBackend, crash_everywhere, start_once
from conductorlite.testing.faults import lay_empty_store

PER_CUSTOMER = WorkflowDef.from_json(
    {
        "name": "w",
        "rateLimitConfig": {"rateLimitKey": "${workflow.input.customer}", "concurrentExecLimit": 1},
        "tasks": [{"name": "a", "taskReferenceName": "a"}],
    }
)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty store."""
    return MemoryBackend() if request.param == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "s.db"), synchronous="NORMAL")


def rows(store: Backend) -> list[str]:
    """The keys of all limits."""
    with store.reading() as view:
        return [limit.key for limit in view.limits.page("", 1_000)]


def test_nothing_is_left(store: Backend) -> None:
    """A limit per customer, each used by several: while they run it is there, after the last one it is gone."""
    workers = Workers()
    workers.add("a", lambda: {"done": True})
    engine = Engine(store, workers=workers, clock=VirtualClock(0))
    for number in range(30):
        engine.start(PER_CUSTOMER, {"customer": f"c{number % 10}"})
    assert rows(store) == [f"workflow:c{number}" for number in range(10)]
    assert engine.limits.get("workflow:c3").waiting == 2
    engine.run_until_idle()
    assert engine.executions("w", status=WorkflowStatus.COMPLETED, limit=100).__len__() == 30
    assert rows(store) == []
    assert engine.limits.get("workflow:c3").in_use == 0
    assert engine.admin.check() == []
    engine.close()


@pytest.mark.parametrize("verb", ["terminate", "fail", "remove"])
def test_every_way_to_give_back(verb: str, store: Backend) -> None:
    """However an execution ends, holding a slot or waiting for one."""
    engine = Engine(store, clock=VirtualClock(0))
    ids = [engine.start(PER_CUSTOMER, {"customer": "c"}).workflow_id for _ in range(3)]
    for workflow_id in (ids[1], ids[0], ids[2]):
        engine.terminate(workflow_id)
        engine.settle()
        if verb == "remove":
            engine.admin.remove(workflow_id)
    assert rows(store) == []
    if verb == "fail":
        engine.retry(ids[0])
        assert rows(store) == ["workflow:c"]
        engine.terminate(ids[0])
        assert rows(store) == []
    assert engine.admin.check() == []
    engine.close()


def test_an_asker_that_read_it_before_it_went(store: Backend) -> None:
    """Who was to wait behind the last holder decides anew, and has the slot."""
    backend = FaultyBackend(store, keep_open=True)
    engine = Engine(backend, clock=VirtualClock(0))
    other = Engine(FaultyBackend(store, keep_open=True), clock=engine.clock)
    first = engine.start(PER_CUSTOMER, {"customer": "c"})

    def meanwhile() -> None:
        backend.on_writing = None
        other.terminate(first.workflow_id)
        assert rows(store) == []

    engine.register(PER_CUSTOMER)
    backend.on_writing = meanwhile
    second = engine.start("w", {"customer": "c"})
    assert engine.limits.get("workflow:c").holders[0].workflow_id == second.workflow_id
    assert engine.limits.get("workflow:c").waiting == 0
    assert [str(task.status) for task in second.workflow.tasks] == ["SCHEDULED"]
    assert engine.admin.check() == []
    engine.close()


def test_one_that_comes_back_is_another_one(store: Backend) -> None:
    """Whatever was read of a limit that was forgotten since is refused, also when there is one of that key again."""

    def member(holder: str) -> Member:
        asks = {"ref": None, "attempt": 0, "generation": 0, "concurrent": 1}
        return Member(key="workflow:c", holder=holder, workflow_id=holder, state=MemberState.HELD, **asks)  # type: ignore[arg-type]

    def change(holder: str | None, fence: int, gone: str = "") -> LimitChange:
        limit = Limit(key="workflow:c", fence=fence, in_use=int(holder is not None))
        return LimitChange(limit=limit, put=() if holder is None else (member(holder),), gone=(gone,) if gone else ())

    def fence() -> int:
        with store.reading() as view:
            return view.limits.line("workflow:c", 1).limit.fence

    seen = set()
    for number in range(4):
        with store.writing() as tx:
            tx.limits.put_limit(change(f"w{number}", 0))
        read = fence()
        assert read not in seen
        seen.add(read)
        with store.writing() as tx:
            tx.limits.put_limit(change(None, read, f"w{number}"))
        assert fence() == 0
        with pytest.raises(FencedOut), store.writing() as tx:
            tx.limits.put_limit(change("late", read))
    with store.writing() as tx:
        tx.limits.put_limit(change("w9", 0))
    for old in seen:
        with pytest.raises(FencedOut), store.writing() as tx:
            tx.limits.put_limit(change("late", old))
    assert rows(store) == ["workflow:c"]


def test_what_an_earlier_version_left(store: Backend) -> None:
    """Rows of limits that nobody uses are no fault; `repair` forgets them, and keeps those of tasks."""
    with store.writing() as tx:
        tx.limits.put_limit(LimitChange(limit=Limit(key="workflow:old", in_use=1)))
        tx.limits.put_limit(LimitChange(limit=Limit(key="task:a", number=3)))
    with store.writing() as tx:
        tx.limits.put_limit(LimitChange(limit=Limit(key="workflow:old", fence=1, in_use=1, number=1)))
    engine = Engine(store, clock=VirtualClock(0))
    assert any(finding.workflow_id == "workflow:old" for finding in engine.admin.repair().done)
    assert rows(store) == ["task:a"]
    assert engine.admin.check() == []
    assert engine.admin.repair().done == ()
    engine.close()


def test_killed_at_every_write() -> None:
    """What is forgotten and made anew survives a crash before and after each write."""

    def scenario(engine: Engine) -> None:
        for number in range(2):
            start_once(engine, PER_CUSTOMER, {"customer": "c"}, workflow_id=f"w{number}")
        engine.terminate("w0") if not engine.status("w0").terminal else None
        engine.settle()
        engine.terminate("w1") if not engine.status("w1").terminal else None
        engine.settle()

    assert crash_everywhere(scenario, stores=["memory"]) > 20
