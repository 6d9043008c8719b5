"""Idempotency keys: one execution per key of a workflow name, however often and from wherever it is started."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from engine_kit import T0, Bench, flow, simple

from conductorlite import Engine, EngineConfig, IdempotencyStrategy, TaskStatus, VirtualClock, WorkflowDef, WorkflowTask
from conductorlite.errors import AlreadyExists, InvalidInput, KeyTaken
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.documents import workflow_to_json
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import Crash, FaultyBackend

ORDER = flow(simple("a"), name="order")
EXISTING = IdempotencyStrategy.RETURN_EXISTING
UNLESS_RUNNING = IdempotencyStrategy.FAIL_ON_RUNNING
ANSWER = {"ref": "begin", "attempt": 2, "generation": 1}


def ids(bench: Bench) -> list[str]:
    """Every execution there is."""
    return list(bench.engine.admin.workflow_ids())


def test_a_second_start_is_refused(bench: Bench) -> None:
    """FAIL, the default, raises KeyTaken, an AlreadyExists, with the id of the execution that holds the key."""
    first = bench.start(ORDER, idempotency_key="k")
    with pytest.raises(KeyTaken, match=f"'k'.*{first.workflow_id}.*RUNNING") as refused:
        bench.engine.start(ORDER, idempotency_key="k")
    assert isinstance(refused.value, AlreadyExists)
    assert refused.value.workflow_id == first.workflow_id
    bench.do("a")
    with pytest.raises(KeyTaken, match="COMPLETED"):
        bench.engine.start(ORDER, idempotency_key="k")
    assert ids(bench) == [first.workflow_id]


def test_the_existing_execution_is_returned(bench: Bench) -> None:
    """RETURN_EXISTING returns the execution that holds the key, running or ended, and starts nothing."""
    first = bench.start(ORDER, {"n": 1}, idempotency_key="k")
    assert bench.engine.start(ORDER, {"n": 2}, idempotency_key="k", idempotency_strategy=EXISTING) == first
    bench.do("a")
    again = bench.engine.start(ORDER, idempotency_key="k", idempotency_strategy=EXISTING).workflow_id
    assert (again, ids(bench)) == (first.workflow_id, [first.workflow_id])
    assert bench.workflow.input_data == {"n": 1}


def test_the_key_moves_on_when_its_execution_has_ended(bench: Bench) -> None:
    """FAIL_ON_RUNNING is refused while the holder is RUNNING or PAUSED; after its end the new execution holds the key."""
    first = bench.start(ORDER, idempotency_key="k", idempotency_strategy=UNLESS_RUNNING)
    for status in ("RUNNING", "PAUSED"):
        with pytest.raises(KeyTaken, match=status):
            bench.engine.start(ORDER, idempotency_key="k", idempotency_strategy=UNLESS_RUNNING)
        if status == "RUNNING":
            bench.engine.pause(first.workflow_id)
    bench.engine.terminate(first.workflow_id)
    second = bench.engine.start(ORDER, idempotency_key="k", idempotency_strategy=UNLESS_RUNNING)
    assert second != first
    assert bench.engine.start(ORDER, idempotency_key="k", idempotency_strategy=EXISTING) == second
    assert first.workflow.idempotency_key == second.workflow.idempotency_key == "k"


def test_a_key_is_a_name_s_own(bench: Bench) -> None:
    """The same key may be used for another workflow; without a key nothing is unique; the JSON shows it."""
    bench.start(ORDER, idempotency_key="k")
    bench.start(flow(simple("a"), name="other"), idempotency_key="k")
    bench.start(ORDER)
    bench.start(ORDER)
    assert len(ids(bench)) == 4
    assert workflow_to_json(bench.engine.get("w1"))["idempotencyKey"] == "k"
    assert "idempotencyKey" not in workflow_to_json(bench.engine.get("w3"))


@pytest.mark.parametrize("key", ["", "x" * 256, 7])
def test_bad_keys(bench: Bench, key: Any) -> None:
    """An empty key, one of more than 255 characters and one that is no text are refused; so is a strategy nobody knows."""
    with pytest.raises(InvalidInput, match="idempotency key"):
        bench.engine.start(ORDER, idempotency_key=key)
    with pytest.raises(InvalidInput, match=r"NEVER.*FAIL, RETURN_EXISTING, FAIL_ON_RUNNING"):
        bench.engine.start(ORDER, idempotency_key="k", idempotency_strategy="NEVER")  # type: ignore[arg-type]
    bench.start(ORDER, idempotency_key="x" * 255)


def test_a_taken_id_leaves_the_key_free(bench: Bench) -> None:
    """A start that is refused because of its id does not use the key up."""
    bench.start(ORDER, workflow_id="w1")
    with pytest.raises(AlreadyExists, match="'w1' exists"):
        bench.engine.start(ORDER, workflow_id="w1", idempotency_key="k")
    bench.start(ORDER, workflow_id="w2", idempotency_key="k")


@pytest.mark.trap("tasks-44")
@pytest.mark.parametrize("kind", ["memory", "sqlite", "two sqlite connections"])
def test_of_many_at_once_one_begins(tmp_path: Path, kind: str) -> None:
    """Twelve threads that start with one key begin one execution, and all get its id."""
    file = tmp_path / "store.db"
    shared: Backend = MemoryBackend() if kind == "memory" else SQLiteBackend(file, synchronous="NORMAL")
    backends = [shared, SQLiteBackend(file, synchronous="NORMAL") if kind.startswith("two") else shared]
    engines = [Engine(backend) for backend in backends]
    gate = threading.Barrier(12)
    found: list[str] = []

    def begin(engine: Engine) -> None:
        gate.wait()
        found.append(engine.start(ORDER, idempotency_key="k", idempotency_strategy=EXISTING).workflow_id)

    threads = [threading.Thread(target=begin, args=(engines[n % 2],)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    assert set(found) == set(engines[0].admin.workflow_ids())
    assert len(set(found)) == 1
    assert engines[0].admin.check() == []
    for engine in engines:
        engine.close()


def test_a_crash_at_any_write_leaves_one_or_none(new_store: Callable[[], Backend]) -> None:
    """A process that dies before or after any write of a start, and starts again with the key, has begun one execution."""
    for side in ("crash_before", "crash_after"):
        for number in range(1, 20):
            inner = new_store()
            faulty = FaultyBackend(inner, keep_open=True, **{side: number})  # type: ignore[arg-type]
            clock = VirtualClock(T0)
            numbers = iter(range(1, 9))
            try:
                Engine(faulty, clock=clock, config=EngineConfig(ids=lambda n=numbers: f"w{next(n)}")).start(
                    ORDER, idempotency_key="k"
                )
                crashed = False
            except Crash:
                crashed = True
            engine = Engine(inner, clock=clock, config=EngineConfig(ids=lambda n=numbers: f"w{next(n)}"))
            run = engine.start(ORDER, idempotency_key="k", idempotency_strategy=EXISTING)
            assert list(engine.admin.workflow_ids()) == [run.workflow_id], (side, number)
            assert engine.admin.check() == []
            assert [task.ref for task in run.workflow.tasks] == ["a"]
            engine.close()
            if not crashed:
                break
        else:
            raise AssertionError("the start has more writes than were tried")


# ---------------------------------------------------------------------- begun by a START_WORKFLOW


def asker(strategy: str | None = None, key: str = "k") -> WorkflowDef:
    """A workflow that starts an order with a key, and then has a task `z`."""
    request = {"name": "order", "idempotencyKey": key, "idempotencyStrategy": strategy}
    begin = WorkflowTask(
        name="begin", task_reference_name="begin", type="START_WORKFLOW", input_parameters={"startWorkflow": request}
    )
    return flow(begin, simple("z"), name="asker")


@pytest.mark.parametrize("strategy", [*IdempotencyStrategy, None])
def test_a_start_workflow_whose_key_is_taken(bench: Bench, strategy: IdempotencyStrategy | None) -> None:
    """Its task ends with the execution there is, or fails and says which one has the key; nothing is created."""
    bench.engine.register(ORDER)
    first = bench.engine.start("order", idempotency_key="k")
    bench.start(asker(strategy))
    bench.engine.settle()
    begin = bench.task("begin")
    if strategy is EXISTING:
        assert (begin.status, begin.output_data) == (TaskStatus.COMPLETED, {"workflowId": first.workflow_id})
        assert bench.task("z").status is TaskStatus.SCHEDULED
    else:
        assert begin.status is TaskStatus.FAILED
        assert f"{first.workflow_id!r}, which is RUNNING" in (begin.reason or "")
    assert ids(bench) == [first.workflow_id, bench.workflow_id]


@pytest.mark.trap("tasks-44")
def test_a_start_workflow_claims_its_key(bench: Bench) -> None:
    """The execution it begins holds the key, from one that has ended if the strategy says so; an empty key is none."""
    bench.engine.register(ORDER)
    first = bench.engine.start("order", idempotency_key="k")
    bench.engine.terminate(first.workflow_id)
    bench.start(asker("FAIL_ON_RUNNING"))
    bench.engine.settle()
    begun = bench.task("begin").output_data["workflowId"]
    assert bench.engine.get(begun).idempotency_key == "k"
    assert bench.engine.start("order", idempotency_key="k", idempotency_strategy=EXISTING).workflow_id == begun
    for _ in range(2):
        bench.start(asker(key=""))
        bench.engine.settle()
        assert bench.engine.get(bench.task("begin").output_data["workflowId"]).idempotency_key is None


def test_an_event_without_a_wish_for_an_answer_is_dropped(bench: Bench) -> None:
    """When nobody asked to be told, nobody is; the driver does not stumble over it."""
    run = bench.start(ORDER, idempotency_key="k")
    event_to(bench, "child", idempotencyKey="k")
    bench.engine.settle()
    with bench.engine.backend.reading() as view:
        assert view.inbox.events("child") == []
    assert ids(bench) == [run.workflow_id]


def event_to(bench: Bench, child: str, **said: Any) -> None:
    """Post the start of `child`, an execution like the one under test."""
    row = bench.workflow
    data = {
        "definitionHash": row.definition_hash,
        "name": row.name,
        "version": row.version,
        "input": {},
        "priority": 0,
        "semantics": "ORKES",
        "seed": "",
        "depth": 1,
        **said,
    }
    start = Event(
        workflow_id=child,
        event_id="START",
        kind=EventKind.START,
        due_at=T0,
        posted_at=T0,
        sender="asker",
        data=Payload.of(data),
    )
    with bench.engine.backend.writing() as tx:
        tx.inbox.post([start])


class Overtaken:
    """A backend before whose first write something else happens."""

    def __init__(self, inner: Backend, before: Callable[[], object]) -> None:
        self._inner = inner
        self._before: Callable[[], object] | None = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def writing(self) -> Any:
        """The inner backend's, after what happens before."""
        before, self._before = self._before, None
        if before is not None:
            before()
        return self._inner.writing()


def test_a_key_that_is_taken_between_reading_and_writing(store: Backend) -> None:
    """A start whose key is claimed by another one after it has looked is refused by the write, and leaves nothing."""
    clock = VirtualClock(T0)
    other = Engine(store, clock=clock)
    engine = Engine(Overtaken(store, lambda: other.start(ORDER, workflow_id="first", idempotency_key="k")), clock=clock)  # type: ignore[arg-type]
    assert engine.start(ORDER, idempotency_key="k", idempotency_strategy=EXISTING).workflow_id == "first"
    assert list(engine.admin.workflow_ids()) == ["first"]


def test_an_event_whose_key_is_taken_meanwhile(store: Backend) -> None:
    """An execution begun by an event loses the same race: it is not created, its sender is answered."""
    bench = Bench(store)
    bench.engine.register(ORDER)
    bench.start(asker("RETURN_EXISTING"))
    bench.engine.terminate(bench.workflow_id)
    event_to(bench, "child", idempotencyKey="k", idempotencyStrategy="RETURN_EXISTING", answer=ANSWER)
    late = Overtaken(store, lambda: bench.engine.start(asker(key=""), workflow_id="first", idempotency_key="k"))
    taken = Engine(late, clock=bench.clock).core.turns.run_turn("child")  # type: ignore[arg-type]
    assert (taken.decision, taken.answered) == (None, ("asker",))
    with store.reading() as view:
        assert view.executions.workflow("child") is None
    store.close()
