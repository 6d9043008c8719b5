"""Debounced starts: calls with one key become one execution, with the last one's input, once none has come for a while."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from crash_kit import STORES
from engine_kit import T0, Bench, flow, simple
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import AsyncEngine, Engine, EngineConfig, VirtualClock, Workers, WorkflowDef, WorkflowStatus
from conductorlite.errors import InvalidInput, Parked, StorageBusy
from conductorlite.model.debounce import Debounce
from conductorlite.model.decisions import EventKind
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import ScriptedWorkers, crash_everywhere, replay

FORM = flow(simple("save", input_parameters={"x": "${workflow.input.x}"}), name="form")
QUIET = Debounce("30s", key="f7", max_wait="100s")


def call(bench: Bench, x: int, debounce: Debounce = QUIET, definition: WorkflowDef | str = FORM, **options: Any) -> str:
    """One call of the debounced start; its execution is the one under test."""
    return bench.start(definition, {"x": x}, debounce=debounce, **options).workflow_id


def ids(bench: Bench) -> list[str]:
    """Every execution there is."""
    return list(bench.engine.admin.workflow_ids())


def test_calls_of_a_burst_are_one_execution(bench: Bench) -> None:
    """It begins 30 s after the last call, with that one's input, and only then is a task offered."""
    found = set()
    for number in range(3):
        bench.at(20 * number)
        found.add(call(bench, number))
    assert ids(bench) == [*found]
    bench.at(69.999)
    assert bench.workflow.tasks == ()
    bench.at(70)
    assert [task.input_data for task in bench.workflow.tasks] == [{"x": 2}]
    assert (bench.workflow.input_data, bench.workflow.started_at) == ({"x": 2}, T0 + 70_000)
    assert bench.workflow.idempotency_key == "debounce:f7"


def test_it_begins_at_the_latest_when_the_longest_wait_is_over(bench: Bench) -> None:
    """However often it is called; a call at that very instant is one of the next burst."""
    first = call(bench, 0)
    for second in range(20, 100, 20):
        bench.at(second)
        assert call(bench, second) == first
    bench.at(100)
    assert bench.workflow.started_at == T0 + 100_000
    assert bench.workflow.input_data == {"x": 80}
    second = call(bench, 100)
    assert second != first
    bench.at(130)
    assert bench.workflow.started_at == T0 + 130_000


def test_without_a_longest_wait_calls_put_it_off_for_ever(bench: Bench) -> None:
    """`max_wait` is that of the call, counted from the first one: a later call may say that it has been long enough."""
    patient = Debounce("30s", key="f7")
    first = call(bench, 0, patient)
    for second in range(20, 400, 20):
        bench.at(second)
        assert call(bench, second, patient) == first
    assert call(bench, 7) == first
    bench.at(380)
    assert (bench.workflow.started_at, bench.workflow.input_data) == (T0 + 380_000, {"x": 7})


def test_a_call_after_the_deadline_that_nobody_drove_is_of_the_next_burst(bench: Bench) -> None:
    """The process slept: what is due begins first, with the input it had, and the call stores another."""
    first = call(bench, 1)
    bench.clock.move_to(T0 + 31_000)
    second = call(bench, 2)
    assert (first != second, len(ids(bench))) == (True, 2)
    assert bench.engine.get(first).input_data == {"x": 1}
    assert [task.ref for task in bench.engine.get(first).tasks] == ["save"]
    assert bench.workflow.tasks == ()


def test_keys_and_names_are_apart(bench: Bench) -> None:
    """Another key, another workflow, and an idempotency key of the same text have executions of their own."""
    other = attrs.evolve(FORM, name="other")
    found = [
        call(bench, 1),
        call(bench, 2, Debounce("30s", key="f8")),
        call(bench, 3, definition=other),
        bench.start(FORM, idempotency_key="f7").workflow_id,
    ]
    assert len({*found}) == 4
    assert call(bench, 5) == found[0]


def test_the_last_call_says_how_it_is_started(bench: Bench) -> None:
    """Definition, input template, correlation id, priority and domains are of the last call; id and creation of the first."""
    bench.engine.register(FORM)
    call(bench, 1, definition="form", correlation_id="one", created_by="me")
    bench.at(10)
    later = attrs.evolve(FORM, version=2, variables={"v": 2}, input_template={"more": True}, tasks=[simple("keep")])
    bench.engine.register(later)
    call(bench, 2, definition="form", correlation_id="two", priority=9, task_to_domain={"keep": "eu"})
    bench.at(40)
    row = bench.workflow
    assert (row.version, row.input_data, row.variables.value) == (2, {"x": 2, "more": True}, {"v": 2})
    assert (row.correlation_id, row.priority, row.created_by, row.created_at) == ("two", 9, "me", T0)
    assert [(task.ref, task.domain) for task in row.tasks] == [("keep", "eu")]
    assert [one.queue for one in bench.engine.tasks.queues()] == ["eu:keep"]


def test_what_it_says_can_be_replayed(bench: Bench) -> None:
    """The journal has each call, and the export leads to the same rows again."""
    bench.engine.register(FORM)
    call(bench, 1, definition="form")
    bench.at(20)
    bench.engine.register(attrs.evolve(FORM, version=2, input_template={"more": True}))
    call(bench, 2, definition="form", correlation_id="two", priority=9)
    bench.at(50)
    bench.do("save")
    lines = [line for line in bench.engine.history(bench.workflow_id) if line.status == "DEBOUNCE"]
    assert [line.payload.value["input"] for line in lines if line.payload is not None] == [{"x": 2, "more": True}]
    replay(bench.engine.admin.export(bench.workflow_id))


@pytest.mark.parametrize("end", ["terminate", "remove"])
def test_one_that_ended_before_it_began_is_over(bench: Bench, end: str) -> None:
    """The next call stores another."""
    first = call(bench, 1)
    bench.engine.terminate(first)
    if end == "remove":
        bench.engine.admin.remove(first)
    second = call(bench, 2)
    assert first != second
    bench.at(30)
    assert [task.input_data for task in bench.workflow.tasks] == [{"x": 2}]


def test_a_paused_one_is_put_off(bench: Bench) -> None:
    """Past its deadline it has not begun: a call replaces its input, and it begins once it is resumed and the call is old."""
    first = call(bench, 1)
    bench.engine.pause(first)
    bench.at(60)
    assert call(bench, 2) == first
    bench.at(100)
    assert bench.workflow.tasks == ()
    bench.engine.resume(first)
    bench.at(101)
    assert [task.input_data for task in bench.workflow.tasks] == [{"x": 2}]


def test_a_parked_one_is_refused(bench: Bench) -> None:
    """A call raises Parked, and changes nothing."""
    first = call(bench, 1)
    with bench.engine.backend.writing() as tx:
        tx.executions.park(first, 3, "broken")
    with pytest.raises(Parked, match="broken"):
        call(bench, 2)
    assert ids(bench) == [first]


def test_one_that_is_restarted_has_begun(bench: Bench) -> None:
    """A later run of the same execution is not put off."""
    first = call(bench, 1)
    bench.at(30)
    bench.do("save")
    bench.engine.restart(first)
    assert call(bench, 2) != first


@pytest.mark.parametrize("by", [-3_600_000, 3_600_000, -1_500, 1_500])
def test_it_waits_as_long_when_the_clock_is_set(bench: Bench, by: int) -> None:
    """The quiet time and the longest wait are lengths of time, and are over after as much by a clock that was set."""
    call(bench, 0, Debounce("80s", key="f7", max_wait="100s"))
    bench.at(60)
    if "CONDUCTORLITE_TEST_STORE" in os.environ:
        pytest.skip("on a store that several machines use, timers keep their instants when a clock is set")
    bench.clock.set_to(bench.clock.now() + by)
    bench.engine.advance("10s")
    call(bench, 1, Debounce("80s", key="f7", max_wait="100s"))
    bench.engine.advance("29999ms")
    assert bench.workflow.tasks == ()
    bench.engine.advance("1ms")
    assert [task.input_data for task in bench.workflow.tasks] == [{"x": 1}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"idempotency_key": "k"}, "not both"),
        ({"workflow_id": "w"}, "workflow_id"),
        ({"at": T0 + 5}, "at"),
        ({"delay": "5s"}, "delay"),
        ({"debounce": "30s"}, "Debounce"),
        ({"debounce": ("30s", "k")}, "Debounce"),
    ],
)
def test_what_does_not_go_with_it_is_refused(bench: Bench, options: dict[str, Any], said: str) -> None:
    """Nothing is stored."""
    with pytest.raises(InvalidInput, match=said):
        bench.engine.start(FORM, {"x": 1}, **{"debounce": QUIET, **options})
    assert ids(bench) == []


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Debounce("0s", key="k"), "quiet is 0"),
        (lambda: Debounce(30, key="k"), "unit"),  # type: ignore[arg-type]
        (lambda: Debounce("-1s", key="k"), "negative|length"),
        (lambda: Debounce("1s", key=""), "1 to 255"),
        (lambda: Debounce("1s", key="k" * 256), "1 to 255"),
        (lambda: Debounce("1s", key=7), "1 to 255"),  # type: ignore[arg-type]
        (lambda: Debounce("1m", key="k", max_wait="5s"), "shorter"),
        (lambda: Debounce.from_json({"quiet": "1s"}), "key is missing"),
        (lambda: Debounce.from_json({"key": "k"}), "quiet is missing"),
        (lambda: Debounce.from_json({"quiet": "1s", "key": "k", "maxwait": "1m"}), "maxWait"),
        (lambda: Debounce.from_json(["1s"]), "no map"),
    ],
)
def test_a_wrong_debounce_is_refused(made: Callable[[], object], said: str) -> None:
    """The message says what to write."""
    with pytest.raises(InvalidInput, match=said):
        made()


def test_its_document_is_read_again() -> None:
    """Lengths of time are text with a unit."""
    for one in (QUIET, Debounce("90ms", key="ü")):
        assert Debounce.from_json(one.to_json()) == one


def test_no_idempotency_key_is_one_of_a_debounced_start(bench: Bench) -> None:
    """Keys that begin as its own are refused wherever one is given, so that neither takes the other's execution."""
    first = call(bench, 1)
    with pytest.raises(InvalidInput, match="'debounce:'"):
        bench.engine.start(FORM, idempotency_key="debounce:f7")
    with pytest.raises(InvalidInput, match="'debounce:'"):
        bench.engine.fork(first, at="save", idempotency_key="debounce:f7")
    bench.engine.register(FORM)
    for said, problem in (({"idempotencyKey": "debounce:f7"}, "begins with"), ({"debounce": {}}, "debounce is not read")):
        starter = {"startWorkflow": {"name": "form", **said}}
        begin = attrs.evolve(simple("begin"), type="START_WORKFLOW", input_parameters=starter)
        run = bench.start(flow(begin, name="starter"))
        bench.engine.settle()
        assert problem in (run.tasks[0].reason or "")


def test_an_input_that_is_refused_changes_nothing(bench: Bench) -> None:
    """The execution stays as the call before has left it."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    checked = WorkflowDef.from_json(
        {**FORM.to_json(), "inputSchema": {"name": "s", "version": 1, "type": "JSON", "data": schema}, "enforceSchema": True}
    )
    call(bench, 1, definition=checked)
    bench.at(20)
    with pytest.raises(InvalidInput, match="inputSchema"):
        bench.engine.start(checked, {"x": "no"}, debounce=QUIET)
    bench.at(30)
    assert [task.input_data for task in bench.workflow.tasks] == [{"x": 1}]


def test_explain_and_the_page_say_when_it_begins(bench: Bench) -> None:
    """And by which call it is put off."""
    call(bench, 1)
    said = "(in 30 s), unless it is started again with the key 'f7' before"
    assert said in str(bench.engine.explain(bench.workflow_id))
    assert "unless it is started again with the key" in bench.engine.admin.page(bench.workflow_id)
    assert [entry.at for entry in bench.engine.admin.agenda()] == [T0 + 30_000]


def test_a_lock_that_another_turn_holds_leaves_no_call_behind(store: Backend) -> None:
    """It is said, and not read when the execution has begun."""

    class Held:
        def __init__(self) -> None:
            self.held = ""

        def try_acquire(self, workflow_id: str, now: int) -> int | None:
            return None if self.held == workflow_id else 1

        def renew(self, workflow_id: str, token: int, now: int) -> bool:
            return True

        def release(self, workflow_id: str, token: int) -> None:
            return None

        def close(self) -> None:
            return None

    lock = Held()
    engine = Engine(store, clock=VirtualClock(T0), config=EngineConfig(lock=lock))  # type: ignore[arg-type]
    run = engine.start(FORM, {"x": 1}, debounce=QUIET)
    lock.held = run.workflow_id
    with pytest.raises(StorageBusy, match="nothing was changed"):
        engine.start(FORM, {"x": 2}, debounce=QUIET)
    lock.held = ""
    with store.reading() as view:
        assert [event.kind for event in view.inbox.events(run.workflow_id)] == [EventKind.START]
    assert run.workflow.input_data == {"x": 1}
    engine.close()


def test_check_finds_a_key_that_another_one_holds(bench: Bench) -> None:
    """Of those that have not begun only one has the key, or a call would put off the wrong one."""
    first = call(bench, 1)
    bench.at(30)
    second = call(bench, 2)
    assert bench.engine.admin.check() == []
    row = bench.engine.get(first)
    lost = attrs.evolve(row, workflow_id="lost", started_at=0, fence=0, tasks=(), definition=None)
    from conductorlite.engine.records import keys_are_held

    with bench.engine.backend.reading() as view:
        audit = type("Audit", (), {"workflow": lost, "history": ()})()
        (found,) = keys_are_held(view, audit)
    assert repr(second) in found


@pytest.mark.parametrize("files", [1, 2])
def test_of_many_threads_one_execution_comes(tmp_path: Path, new_store: Callable[[], Backend], files: int) -> None:
    """Twelve threads, each with calls of its own: one execution of a burst, which begins with the input of a last call."""
    file = tmp_path / "store.db"
    backends = [new_store()] * 2 if files == 1 else [SQLiteBackend(file, synchronous="NORMAL") for _ in range(2)]
    clock = VirtualClock(T0)
    engines = [Engine(backend, clock=clock) for backend in backends]
    gate = threading.Barrier(12)
    found: list[str] = []

    def begin(number: int) -> None:
        gate.wait()
        for again in range(3):
            found.append(engines[number % 2].start(FORM, {"x": [number, again]}, debounce=QUIET).workflow_id)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 36
    (one,) = {*found}
    assert list(engines[0].admin.workflow_ids()) == [one]
    engines[0].advance("30s")
    row = engines[0].get(one)
    assert row.input_data["x"][1] == 2
    assert [task.input_data for task in row.tasks] == [row.input_data]
    assert engines[0].admin.check() == []
    for engine in engines:
        engine.close()


def _call_from_a_process(file: str, number: int, gate: Any, found: Any) -> None:
    with Engine(file) as engine:
        gate.wait()
        for again in range(5):
            found.put(engine.start(FORM, {"x": [number, again]}, debounce=Debounce("1h", key="f7")).workflow_id)


@pytest.mark.slow
def test_of_many_processes_one_execution_comes(tmp_path: Path) -> None:
    """Four processes on one file."""
    context = multiprocessing.get_context("spawn")
    file, gate, found = str(tmp_path / "store.db"), context.Barrier(4), context.Queue()
    Engine(file).close()
    processes = [context.Process(target=_call_from_a_process, args=(file, number, gate, found)) for number in range(4)]
    for process in processes:
        process.start()
    ids = {found.get(timeout=60) for _ in range(20)}
    for process in processes:
        process.join()
    with Engine(file) as engine:
        assert [*ids] == list(engine.admin.workflow_ids())
        assert engine.status(*ids) is WorkflowStatus.RUNNING
        assert engine.admin.check() == []


#: A call: seconds after the one before, its key, its quiet time and how much longer its longest wait is (0: none).
CALL = st.tuples(st.integers(0, 25), st.sampled_from("ab"), st.integers(1, 20), st.integers(0, 30))


@given(st.lists(CALL, min_size=1, max_size=12))
def test_as_a_page_of_arithmetic_says(calls: list[tuple[int, str, int, int]]) -> None:
    """Random calls: how many executions there are, when each begins and with which input, beside a model of ten lines."""
    bench, second = Bench(MemoryBackend()), 0
    pending: dict[str, tuple[int, int, int]] = {}
    begun: list[tuple[int, int]] = []
    for x, (pause, key, quiet, more) in enumerate(calls):
        second += pause
        bench.at(second)
        for one in [one for one, (_, at, _) in pending.items() if at <= second]:
            begun.append(pending.pop(one)[1:])
        first = pending[key][0] if key in pending else second
        latest = max(second, first + quiet + more) if more else second + quiet
        pending[key] = (first, min(second + quiet, latest), x)
        call(bench, x, Debounce(f"{quiet}s", key=key, max_wait=f"{quiet + more}s" if more else None))
    begun += [one[1:] for one in pending.values()]
    bench.at(second + 60)
    rows = [bench.engine.get(one) for one in ids(bench)]
    assert sorted(((row.started_at - T0) // 1000, row.input_data["x"]) for row in rows) == sorted(begun)
    assert [len(row.tasks) for row in rows] == [1] * len(begun)
    assert bench.engine.admin.check() == []
    bench.engine.close()


#: Where the clock of a life begins.
BEGAN = VirtualClock().now()


def burst(engine: Engine) -> None:
    """Three calls, each made unless it is stored, and what follows."""
    for x in range(3):
        if (later := BEGAN + 20_000 * x) > engine.clock.now():
            engine.advance(to=later)
        if [engine.get(one).input_data["x"] for one in engine.admin.workflow_ids()] < [x]:
            engine.start(FORM, {"x": x}, debounce=QUIET)
    engine.run_until_idle()


def saved(workers: ScriptedWorkers) -> None:
    """Script the only worker."""
    workers.save.does(lambda x: {"x": x})


@pytest.mark.parametrize(("store", "every"), [("memory", 1), ("sqlite", 3), *STORES])
def test_a_death_at_any_write_leaves_one_execution_of_the_burst(store: Any, every: int) -> None:
    """A process that dies before or after any write, and does again what it had not done: there is one id for all."""
    config = EngineConfig(ids=lambda: "only")
    assert crash_everywhere(burst, saved, stores=(store,), every=every, config=config) >= 10 // every


def test_on_the_clock_of_the_machine_and_awaited() -> None:
    """Calls from coroutines; the driver begins it when they have ended, and each caller waits for the one result."""
    workers = Workers()

    @workers.task("save")
    def save(x: int) -> dict[str, int]:
        return {"saved": x}

    async def burst() -> list[Any]:
        async with AsyncEngine(workers=workers) as engine:
            runs = [await engine.start(FORM, {"x": x}, debounce=Debounce("50ms", key="f7")) for x in range(5)]
            assert len({run.workflow_id for run in runs}) == 1
            return await asyncio.gather(*(run.result("20s") for run in runs))

    assert asyncio.run(burst()) == [{"saved": 4}] * 5


def test_in_a_transaction_of_the_application(tmp_path: Path) -> None:
    """What is rolled back was not called."""
    with Engine(str(tmp_path / "store.db"), clock=VirtualClock(T0)) as engine:
        run = engine.start(FORM, {"x": 1}, debounce=QUIET)
        with pytest.raises(ZeroDivisionError):
            rolled_back(engine)
        assert run.workflow.input_data == {"x": 1}
        with engine.transaction():
            engine.start(FORM, {"x": 4}, debounce=QUIET)
        engine.advance("30s")
        assert [task.input_data for task in run.tasks] == [{"x": 4}]
        assert list(engine.admin.workflow_ids()) == [run.workflow_id]


def rolled_back(engine: Engine) -> None:
    """Call twice in a transaction that does not end well."""
    with engine.transaction():
        engine.start(FORM, {"x": 2}, debounce=QUIET)
        engine.start(FORM, {"x": 3}, debounce=Debounce("30s", key="f8"))
        raise ZeroDivisionError
