"""What lies in the storage is what executions refer to: removal, uploads without their commit, strange objects, crashes."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest
from payload_kit import KB, SMALL, Bench, flow, simple, sized

from conductorlite import Barriers, Engine, EngineConfig, SubWorkflowParams, VirtualClock, WorkflowTask
from conductorlite.decide.changeset.reader import Bounds
from conductorlite.engine.payloads import PayloadSweep
from conductorlite.errors import Conflict, PayloadUnavailable
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.payloads import LocalPayloads, MemoryPayloads
from conductorlite.store.ports import Backend, PayloadStorage
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import ScriptedWorkers, crash_everywhere, start_once
from conductorlite.testing.faults import Crash, FaultyBackend, lay_empty_store

BIG = sized(3 * KB)
OTHER = sized(3 * KB, "other")


def key_of(document_text: str) -> str:
    """Key of a document's object."""
    digest = hashlib.sha256(document_text.encode()).hexdigest()
    return f"{digest[:2]}/{digest}.json"


def referred(engine: Engine) -> list[str]:
    """Keys of what executions refer to."""
    with engine.backend.reading() as view:
        found = [view.payloads.externals(workflow_id, None) for workflow_id in view.executions.workflow_ids(None, "", 1000)]
    return sorted({one.key for externals in found for one in externals.values()})


def test_content_is_shared(new_bench: Any, storage: PayloadStorage) -> None:
    """The same document is one object, however many tasks and executions refer to it."""
    bench: Bench = new_bench(storage)
    definition = flow(simple("a", input_parameters={"x": "${workflow.input.x}"}))
    for _ in range(3):
        bench.start(definition, BIG)
        bench.do("a", BIG)
    assert len(bench.keys()) == 1
    assert bench.workflow.output_data == BIG


def test_removal_deletes_what_only_it_used(new_bench: Any, storage: PayloadStorage) -> None:
    """Removing an execution deletes its objects at once, save those that another one refers to."""
    bench: Bench = new_bench(storage)
    definition = flow(simple("a"))
    first = bench.start(definition, BIG).workflow_id
    bench.do("a", OTHER)
    second = bench.start(definition, BIG).workflow_id
    with pytest.raises(Conflict):
        bench.engine.admin.remove(second)
    assert len(bench.keys()) == 2
    bench.engine.admin.remove(first)
    assert bench.keys() == referred(bench.engine) != []
    bench.do("a")
    assert bench.workflow.input_data == BIG
    bench.engine.admin.remove(second)
    assert bench.keys() == []


def test_an_upload_without_its_commit_is_swept(new_bench: Any, storage: PayloadStorage) -> None:
    """What a turn put that was never committed stays for the grace time, then goes; what is referred to stays."""
    bench: Bench = new_bench(storage)
    bench.start(flow(simple("a")), BIG)
    apply = bench.engine.core.turns.committer.before_apply

    def dying(*arguments: Any) -> None:
        raise Crash("between the upload and the commit")

    bench.engine.core.turns.committer.before_apply = dying  # type: ignore[method-assign]
    with pytest.raises(Crash):
        bench.engine.start(flow(simple("a")), OTHER, workflow_id="never")
    bench.engine.core.turns.committer.before_apply = apply  # type: ignore[method-assign]
    assert len(bench.keys()) == 2
    bench.engine.advance("59m")
    assert bench.engine.payloads.sweep("1h") == PayloadSweep(deleted=0, found=0)
    bench.engine.advance("1m")
    assert bench.engine.payloads.sweep("1h") == PayloadSweep(deleted=1, found=0)
    assert bench.keys() == referred(bench.engine) != []
    assert bench.engine.payloads.sweep(0) == PayloadSweep()


def test_a_put_renews_the_grace(new_bench: Any) -> None:
    """An old left-over that is put again for another execution is not swept before its commit, nor after it."""
    bench: Bench = new_bench()
    apply = bench.engine.core.turns.committer.before_apply
    sweeps: list[PayloadSweep] = []

    def dying(*arguments: Any) -> None:
        raise Crash("between the upload and the commit")

    turns: Any = bench.engine.core.turns
    turns.committer.before_apply = dying
    with pytest.raises(Crash):
        bench.engine.start(flow(simple("a")), BIG, workflow_id="never")
    bench.engine.advance("2d")
    put = turns.lookups.payload_store.put

    def put_and_sweep(*arguments: Any) -> Any:
        answer = put(*arguments)
        sweeps.append(bench.engine.payloads.sweep("1d"))
        return answer

    turns.committer.before_apply, turns.lookups.payload_store.put = apply, put_and_sweep
    bench.start(flow(simple("a")), BIG)
    turns.lookups.payload_store.put = put
    assert sweeps == [PayloadSweep()]
    bench.engine.advance("2d")
    assert bench.engine.payloads.sweep("1d") == PayloadSweep()
    assert bench.workflow.input_data == BIG


def test_a_removal_between_a_put_and_its_commit(new_bench: Any) -> None:
    """Whoever removes the last execution that uses a document does not delete what another one is about to refer to."""
    bench: Bench = new_bench()
    first = bench.start(flow(simple("a")), BIG).workflow_id
    bench.do("a")
    turns: Any = bench.engine.core.turns
    put = turns.lookups.payload_store.put

    def put_and_remove(*arguments: Any) -> Any:
        answer = put(*arguments)
        turns.lookups.payload_store.put = put
        bench.engine.admin.remove(first)
        return answer

    turns.lookups.payload_store.put = put_and_remove
    bench.start(flow(simple("a")), BIG)
    assert list(bench.engine.admin.workflow_ids()) == [bench.workflow_id]
    assert bench.keys() == referred(bench.engine) != []
    assert bench.workflow.input_data == BIG


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_threads_that_start_remove_and_sweep_at_once(tmp_path: Path, kind: str) -> None:
    """Engines that start and remove executions with the same documents, and sweep, never lose one that is referred to."""
    backend: Backend = (
        MemoryBackend() if kind == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "o.db"), synchronous="NORMAL")
    )
    storage = MemoryPayloads()
    problems: list[BaseException] = []

    def work(name: str) -> None:
        try:
            engine = Engine(
                FaultyBackend(backend, keep_open=True),
                payloads=storage,
                config=EngineConfig(bounds=Bounds(barriers=Barriers(**SMALL))),
            )
            for number in range(25):
                one = engine.start(flow(simple("a")), BIG, workflow_id=f"{name}-{number}").workflow_id
                assert engine.get(one).input_data == BIG
                if number % 5:
                    engine.terminate(one)
                    engine.admin.remove(one)
                else:
                    engine.payloads.sweep("1h")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("u", "v", "w")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    with Engine(backend, payloads=storage) as engine:
        assert len(list(engine.admin.workflow_ids())) == 15
        assert all(engine.get(one).input_data == BIG for one in engine.admin.workflow_ids())
        engine.payloads.sweep(0)
        assert sorted(one.key for one in storage.list()) == referred(engine) != []


def test_strange_objects_are_noticed_then_swept(new_bench: Any, storage: PayloadStorage) -> None:
    """An object nothing knows of (the database is an older copy) is noticed by one sweep and deleted by a later one."""
    bench: Bench = new_bench(storage)
    bench.start(flow(simple("a")), BIG)
    stranger, not_ours = key_of("nobody"), "readme.txt"
    bench.storage.put(stranger, b"nobody")
    bench.storage.put(not_ours, b"of somebody else")
    assert bench.engine.payloads.sweep("1h") == PayloadSweep(found=1)
    bench.engine.advance("30m")
    assert bench.engine.payloads.sweep("1h") == PayloadSweep()
    bench.engine.advance("30m")
    assert bench.engine.payloads.sweep("1h") == PayloadSweep(deleted=1)
    assert bench.keys() == sorted([*referred(bench.engine), not_ours])


def test_a_removal_whose_deletion_fails_is_finished_by_a_sweep(new_bench: Any, storage: PayloadStorage) -> None:
    """When the storage refuses a deletion the removal stands, and the next sweep, which says when it fails, deletes."""
    bench: Bench = new_bench(storage)
    workflow_id = bench.start(flow(simple("a")), BIG).workflow_id
    bench.do("a")

    class Refusing:
        def __getattr__(self, name: str) -> Any:
            return getattr(storage, name)

        def delete(self, key: str) -> None:
            raise PayloadUnavailable("no")

    payload_store = bench.engine.core.turns.lookups.payload_store
    payload_store.storage = Refusing()  # type: ignore[assignment]
    bench.engine.admin.remove(workflow_id)
    with pytest.raises(PayloadUnavailable):
        bench.engine.payloads.sweep()
    payload_store.storage = storage
    assert len(bench.keys()) == 1
    assert bench.engine.payloads.sweep() == PayloadSweep(deleted=1)
    assert bench.keys() == []


def test_many_are_swept_page_by_page(new_bench: Any) -> None:
    """More than a page of strange objects, and of left-overs, are all found and deleted."""
    bench: Bench = new_bench()
    for number in range(450):
        bench.storage.put(key_of(str(number)), b"x")
    assert bench.engine.payloads.sweep(0) == PayloadSweep(deleted=450, found=450)
    assert bench.keys() == []


def test_interrupted_writes_are_swept(tmp_path: Path) -> None:
    """What a process that died while it wrote a file has left is noticed and swept like any strange object."""
    storage = LocalPayloads(tmp_path / "p")
    key = key_of("x")
    storage.put(key, b"x")
    part = tmp_path / "p" / f"{key}.part-1-2-3"
    part.write_bytes(b"ha")
    with Engine(payloads=storage) as engine:
        assert engine.payloads.sweep(0) == PayloadSweep(deleted=2, found=2)
    assert not part.exists()


# ---------------------------------------------------------------------- crashes


def _again(ref: str, **fields: Any) -> WorkflowTask:
    """A SIMPLE task that is tried again when its worker died."""
    return WorkflowTask(name=ref, task_reference_name=ref, **fields)


def _alone(engine: Engine) -> None:
    """Large documents everywhere: given, reported, joined, put out; and an execution that is removed."""
    fork = WorkflowTask(name="f", task_reference_name="f", type="FORK_JOIN", fork_tasks=[[_again("c")], [_again("d")]])
    join = WorkflowTask(name="s", task_reference_name="s", type="JOIN", join_on=["c", "d"])
    _live(engine, fork, join, result="${s.output.c.x}")


def _family(engine: Engine) -> None:
    """The same with a child."""
    engine.register(flow(_again("c"), name="child"))
    sub = WorkflowTask(
        name="s",
        task_reference_name="s",
        type="SUB_WORKFLOW",
        sub_workflow_param=SubWorkflowParams(name="child"),
        input_parameters={"x": "${a.output.x}"},
    )
    _live(engine, sub, result="${s.output.x}")


def _live(engine: Engine, *tasks: WorkflowTask, result: str) -> None:
    first = _again("a", input_parameters={"x": "${workflow.input.x}"})
    run = start_once(engine, flow(first, *tasks, output_parameters={"y": result}, name="parent"), BIG, workflow_id="parent-1")
    engine.run_until_idle()
    assert run.result() == {"y": BIG["x"]}
    if not _was_removed(engine):
        start_once(engine, flow(_again("a"), name="gone"), OTHER, workflow_id="gone-1")
        engine.run_until_idle()
        engine.admin.remove("gone-1")
        engine.register(flow(_again("a"), name="removed"))
    engine.payloads.sweep(0)
    payload_store = engine.core.turns.lookups.payload_store
    assert payload_store.storage is not None
    assert sorted(one.key for one in payload_store.storage.list()) == referred(engine)


def _was_removed(engine: Engine) -> bool:
    return any(name == "removed" for name, _ in engine.definitions.workflows())


def _script(workers: ScriptedWorkers) -> None:
    workers["a"].returns(BIG)
    workers["c"].returns(BIG)
    workers["d"].returns({"small": True})


@pytest.mark.parametrize(
    ("kind", "every"),
    [("memory", 3), ("relay", 5), *(pytest.param(kind, 1, marks=pytest.mark.deep) for kind in ("memory", "relay", "sqlite"))],
)
def test_a_crash_at_every_write(kind: str, every: int) -> None:
    """Killed before and after each write, an execution ends as it would have, and the storage holds what is referred to."""
    assert (
        crash_everywhere(
            _alone, _script, stores=[kind], every=every, config=EngineConfig(bounds=Bounds(barriers=Barriers(**SMALL)))
        )
        > 60 // every
    )


class _Dying:
    """A storage that dies at its n-th operation that changes something, before or after it."""

    def __init__(self, inner: PayloadStorage, number: int, after: bool) -> None:
        self.inner = inner
        self.left = number
        self.after = after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put(self, key: str, data: bytes) -> None:
        self._strike(lambda: self.inner.put(key, data))

    def delete(self, key: str) -> None:
        self._strike(lambda: self.inner.delete(key))

    def _strike(self, act: Any) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Crash("before")
        act()
        if self.left == 0:
            raise Crash("after")


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_crash_at_every_change_of_the_storage(tmp_path: Path, kind: str, after: bool) -> None:
    """Killed before or after each put and delete, the same."""
    deaths = 0
    for number in range(1, 100):
        backend: Backend = (
            MemoryBackend() if kind == "memory" else SQLiteBackend(lay_empty_store(tmp_path / f"{number}-{after}.db"))
        )
        storage = backend.payload_storage()
        assert storage is not None
        workers = ScriptedWorkers()
        _script(workers)

        def life(place: Any, backend: Backend = backend, workers: ScriptedWorkers = workers) -> None:
            held = FaultyBackend(backend, keep_open=True)
            with Engine(
                held,
                clock=VirtualClock(0),
                workers=workers,
                payloads=place,
                config=EngineConfig(bounds=Bounds(barriers=Barriers(**SMALL))),
            ) as engine:
                _family(engine)

        try:
            life(_Dying(storage, number, after))
        except Crash:
            deaths += 1
            for call in tuple(workers.calls):
                workers[call.task_type].give_back(call)
            life(storage)
        else:
            break
        backend.close()
    assert deaths > 4
