"""The clock is set, or the process does not run: lengths of time are as long as they were, instants stay what they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from engine_kit import T0, Bench, NewBench
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import (
    Engine,
    Run,
    SystemClock,
    TaskContext,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.engine.config import EngineConfig
from conductorlite.errors import ResultTimeout, SourceError
from conductorlite.model.clock import Wakeup
from conductorlite.model.debounce import Debounce
from conductorlite.model.definitions import RetryLogic, TimeoutPolicy, WorkflowTimeoutPolicy
from conductorlite.model.executions import HistoryKind
from conductorlite.model.schedules import StartWorkflowRequest, WorkflowSchedule
from conductorlite.store.locks import InProcessLock, SQLiteLock
from conductorlite.store.ports import Backend
from conductorlite.testing import replay

HOUR = 3_600_000
#: By how much the clock is set, ms.
STEPS = [-HOUR, HOUR, -25 * HOUR, 25 * HOUR, -1_500, 1_500]


def task(name: str = "t", kind: str = "SIMPLE", **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=name, task_reference_name=name, type=kind, **fields)


def defined(**fields: Any) -> WorkflowTask:
    """A worker's task with a definition of its own, without retries."""
    return task(task_definition=TaskDef(name="t", **{"retry_count": 0, **fields}))


def flow(*tasks: WorkflowTask, **fields: Any) -> WorkflowDef:
    return WorkflowDef(name="w", tasks=list(tasks), **fields)


def waiting(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(task("w", "WAIT", input_parameters={"duration": "10 s"})))
    return lambda: run.status == "COMPLETED"


def delayed(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(task("n", "NOOP")), delay="10s")
    return lambda: run.status == "COMPLETED"


def debounced(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(task("n", "NOOP")), debounce=Debounce("10s", key="k"))
    return lambda: run.status == "COMPLETED"


def retried(bench: Bench) -> Callable[[], bool]:
    retry = {"retry_count": 1, "retry_delay_ms": 10_000, "retry_logic": RetryLogic.FIXED}
    bench.start(flow(defined(**retry)))
    report(bench, TaskStatus.FAILED)
    return lambda: bench.poll("t") is not None


def called_back(bench: Bench) -> Callable[[], bool]:
    bench.start(flow(defined()))
    report(bench, TaskStatus.IN_PROGRESS, callback_after_ms=10_000)
    return lambda: bench.poll("t") is not None


def report(bench: Bench, status: TaskStatus, **fields: Any) -> None:
    held = bench.take("t")
    bench.engine.update_task(
        TaskResult(workflow_id=held.workflow_id, task_id=held.task_id, lease=held.lease, status=status, **fields)
    )


def unanswered(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(defined(response_timeout_ms=10_000)))
    assert bench.poll("t")
    return lambda: run.status == "TIMED_OUT"


def late(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(defined(timeout_ms=10_000, timeout_policy=TimeoutPolicy.TIME_OUT_WF)))
    assert bench.poll("t")
    return lambda: run.status == "TIMED_OUT"


def late_in_all(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(defined(total_timeout_ms=10_000, timeout_policy=TimeoutPolicy.TIME_OUT_WF)))
    assert bench.poll("t")
    return lambda: run.status == "TIMED_OUT"


def unpolled(bench: Bench) -> Callable[[], bool]:
    run = bench.start(flow(defined(poll_timeout_ms=10_000, timeout_policy=TimeoutPolicy.TIME_OUT_WF)))
    return lambda: run.status == "TIMED_OUT"


def by_default(bench: Bench) -> Callable[[], bool]:
    """A timeout that no definition sets counts driven time, which is elapsed time too."""
    run = bench.start(flow(task("d")))
    assert bench.poll("d")
    bench.at(bench.second + 590)  # of 600
    return lambda: bench.task("d", 0).status == "TIMED_OUT" and run.status == "RUNNING"


def too_long(bench: Bench) -> Callable[[], bool]:
    policy = WorkflowTimeoutPolicy.TIME_OUT_WF
    run = bench.start(flow(task("h", "HUMAN"), timeout_ms=10_000, timeout_policy=policy))
    return lambda: run.status == "TIMED_OUT"


def put_off(bench: Bench) -> Callable[[], bool]:
    """The retry of an operator waits for its delay as a worker's does."""
    definition = TaskDef(name="h", retry_count=1, retry_delay_ms=10_000, timeout_policy=TimeoutPolicy.RETRY)
    bench.start(flow(task("h", "HUMAN", task_definition=definition)))
    held = bench.task("h")
    bench.engine.update_task(TaskResult(workflow_id=held.workflow_id, task_id=held.task_id, status=TaskStatus.FAILED))
    return lambda: bench.task("h").status == "IN_PROGRESS"


def child(bench: Bench) -> Callable[[], bool]:
    inner = flow(task("w", "WAIT", input_parameters={"duration": "10s"})).to_json()
    sub = {"name": "c", "taskReferenceName": "c", "type": "SUB_WORKFLOW", "subWorkflowParam": {"workflowDefinition": inner}}
    run = bench.start(WorkflowDef.from_json({"name": "w", "tasks": [sub]}))
    bench.engine.settle()
    return lambda: run.status == "COMPLETED"


LENGTHS = [
    waiting, delayed, debounced, retried, called_back, unanswered, late, late_in_all, unpolled, by_default, too_long, put_off,
    child,
]  # fmt: skip


def pass_time(bench: Bench, span: int) -> None:
    bench.engine.advance(f"{span}ms")


@pytest.mark.parametrize("by", STEPS)
@pytest.mark.parametrize("begin", LENGTHS, ids=lambda begin: begin.__name__)
def test_a_length_of_time_is_as_long_as_it_was(begin: Callable[[Bench], Callable[[], bool]], by: int, new_bench: NewBench) -> None:
    """Ten seconds, of which four have passed when the clock is set: over after six more, to the millisecond."""
    bench = new_bench()
    over = begin(bench)
    pass_time(bench, 4_000)
    bench.clock.set_to(bench.clock.now() + by)
    pass_time(bench, 5_999)
    assert not over()
    pass_time(bench, 1)
    assert over()


@pytest.mark.parametrize("by", STEPS)
@pytest.mark.parametrize("begin", LENGTHS, ids=lambda begin: begin.__name__)
def test_what_begins_after_it_counts_from_there(begin: Callable[[Bench], Callable[[], bool]], by: int, new_bench: NewBench) -> None:
    """In an engine that has lived through it, beside an execution that has too."""
    bench = new_bench()
    bench.start(flow(task("h", "HUMAN")))
    pass_time(bench, 1_000)
    bench.clock.set_to(bench.clock.now() + by)
    over = begin(bench)
    pass_time(bench, 9_999)
    assert not over()
    pass_time(bench, 1)
    assert over()


@pytest.mark.parametrize("by", STEPS)
def test_a_task_that_follows_after_it_counts_from_there(by: int, new_bench: NewBench) -> None:
    """The execution's own time goes on with the clock: what it begins later is neither late nor early."""
    bench = new_bench()
    wait = task("w", "WAIT", input_parameters={"duration": "10 s"})
    run = bench.start(flow(task("h", "HUMAN"), wait))
    pass_time(bench, 1_000)
    bench.clock.set_to(bench.clock.now() + by)
    pass_time(bench, 1_000)
    bench.engine.signal(run.workflow_id, {})
    assert bench.task("w").scheduled_at == bench.clock.now()
    pass_time(bench, 9_999)
    assert run.status == "RUNNING"
    pass_time(bench, 1)
    assert run.status == "COMPLETED"


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_instants_follow_the_clock(by: int, new_bench: NewBench) -> None:
    """A WAIT's `until`, a start `at` and a schedule come when the clock reads it."""
    bench = new_bench()
    engine, at = bench.engine, T0 // 60_000 * 60_000 + 2 * HOUR
    until = bench.start(flow(task("w", "WAIT", input_parameters={"until": minute(at)})))
    start = bench.start(flow(task("n", "NOOP")), at=at)
    request = StartWorkflowRequest(workflow_def=flow(task("n", "NOOP")), name="w")
    engine.schedules.save(WorkflowSchedule(name="s", at=at, start_workflow_request=request))
    pass_time(bench, 10_000)
    bench.clock.set_to(bench.clock.now() + by)

    def over() -> list[bool]:
        return [until.status == "COMPLETED", start.status == "COMPLETED", bool(engine.schedules.get("s").recent)]

    engine.advance(to=at - 1)
    assert over() == [False] * 3
    engine.advance(to=at)
    assert over() == [True] * 3


def minute(at: int) -> str:
    from conductorlite.language.durations import until_text

    return until_text(at)


def test_the_record_says_so(new_bench: NewBench) -> None:
    """A line of the journal, a sentence of `explain`, one warning; the store is sound, and a replay comes to the same lines."""
    bench = new_bench()
    run = bench.start(flow(task("w", "WAIT", input_parameters={"duration": "10 s"})))
    pass_time(bench, 4_000)
    bench.clock.set_to(bench.clock.now() - HOUR)
    bench.engine.settle()
    [line] = [line for line in bench.engine.history(run.workflow_id) if line.kind is HistoryKind.CLOCK]
    assert (line.status, line.number, line.at) == ("SET", -HOUR, T0 + 4_000 - HOUR)
    assert "the clock was set back by 1 h; lengths of time are as long as they were" in str(run.explain())
    assert bench.engine.admin.check() == []
    pass_time(bench, 6_000)
    assert run.status == "COMPLETED"
    assert bench.engine.admin.check() == []
    replayed = replay(bench.engine.admin.export(run.workflow_id))
    assert replayed.lines == len(bench.engine.history(run.workflow_id))
    replayed.engine.close()


def test_it_is_logged_once(new_bench: NewBench, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each time the clock was set, none for a fraction of a second."""
    bench = new_bench()
    for by in (-HOUR, 400, HOUR, -400):
        bench.clock.set_to(bench.clock.now() + by)
        pass_time(bench, 1_000)
    said = [record.getMessage() for record in caplog.records if "the clock was set" in record.getMessage()]
    assert len(said) == 2
    assert said[0].startswith("the clock was set back by 1 h; ")


def test_fractions_add_up(new_bench: NewBench) -> None:
    """What the clock is set by in small steps is put right once it is a second."""
    bench = new_bench()
    over = waiting(bench)
    for _ in range(10):
        bench.clock.set_to(bench.clock.now() - 300)
        pass_time(bench, 400)
    pass_time(bench, 6_000 + 800)  # what is below a second is left
    assert over()


def test_compensations_keep_their_order(new_bench: NewBench) -> None:
    """What ended last is undone first, also when it ended earlier by the clock."""
    undone: list[str] = []
    workers = Workers()

    def do() -> dict[str, Any]:
        return {}

    def undo(context: TaskContext) -> dict[str, Any]:
        undone.append(context.task.task_type)
        return {}

    def fail() -> None:
        raise ValueError("no")

    for name in ("a", "b", "c"):
        workers.add(name, do)
        workers.add(f"undo_{name}", undo)
    workers.task("fail", retry_count=0)(fail)
    bench = new_bench(workers=workers)
    steps = []
    for name in ("a", "b", "c"):
        steps += [task(name, compensate=task(f"undo_{name}")), task(f"h_{name}", "HUMAN")]
    run = bench.start(flow(*steps, task("fail")))
    for by in (-HOUR, 2 * HOUR, -3 * HOUR):
        bench.engine.run_until_idle()
        bench.clock.set_to(bench.clock.now() + by)
        bench.engine.signal(run.workflow_id, {})
    bench.engine.run_until_idle()
    assert (run.status, undone) == ("FAILED", ["undo_c", "undo_b", "undo_a"])


def test_a_rate_limit_lets_through_what_it_allows(new_bench: NewBench) -> None:
    """A window is as long as it was: nobody waits for an hour, and nobody gets through early."""
    for by in (-HOUR, HOUR):
        bench = new_bench()
        limited = defined(rate_limit_per_frequency=1, rate_limit_frequency_ms=10_000)
        for _ in range(2):
            bench.start(flow(limited))
        bench.engine.settle()  # where what is offered is relayed
        assert len(bench.engine.poll("t", count=5)) == 1
        pass_time(bench, 4_000)
        bench.clock.set_to(bench.clock.now() + by)
        pass_time(bench, 6_000)
        bench.engine.settle()
        assert len(bench.engine.poll("t", count=5)) == 1


def test_paused_and_ended_executions(new_bench: NewBench) -> None:
    """A paused one goes on as long as it has left; an ended one is left as it is."""
    bench = new_bench()
    ended = bench.start(flow(task("n", "NOOP")))
    lines = bench.engine.history(ended.workflow_id)
    run = bench.start(flow(task("w", "WAIT", input_parameters={"duration": "10 s"})))
    bench.engine.pause(run.workflow_id)
    pass_time(bench, 4_000)
    bench.clock.set_to(bench.clock.now() - HOUR)
    pass_time(bench, 1_000)
    bench.engine.resume(run.workflow_id)
    pass_time(bench, 4_999)
    assert run.status == "RUNNING"
    pass_time(bench, 1)
    assert run.status == "COMPLETED"
    assert bench.engine.history(ended.workflow_id) == lines


@pytest.mark.parametrize("verb", ["retry", "rerun", "restart"])
def test_what_is_reopened_after_it_counts_from_there(verb: str, new_bench: NewBench) -> None:
    """An execution that ended before the clock was set back is in the future; reopened, it goes on with the clock."""
    bench = new_bench()
    run = bench.start(flow(task("w", "WAIT", input_parameters={"duration": "10 s"}), task("h", "HUMAN")))
    pass_time(bench, 10_000)
    bench.engine.terminate(run.workflow_id)
    bench.clock.set_to(bench.clock.now() - HOUR)
    pass_time(bench, 1_000)
    getattr(bench.engine, verb)(run.workflow_id)
    bench.engine.settle()
    now = bench.clock.now()
    assert bench.workflow.updated_at == now
    if verb == "retry":
        assert bench.task("h").scheduled_at == now
    else:
        pass_time(bench, 9_999)
        assert bench.task("w").status == "IN_PROGRESS"
        pass_time(bench, 1)
        assert bench.task("w").status == "COMPLETED"
    assert bench.engine.admin.check() == []
    replay(bench.engine.admin.export(run.workflow_id)).engine.close()


@given(st.lists(st.tuples(st.integers(0, 40_000), st.sampled_from([*STEPS, 7 * HOUR])), max_size=6))
def test_any_steps_leave_elapsed_time_as_it_was(steps: list[tuple[int, int]]) -> None:
    """Whatever the clock is set to and when: the same lines come at the same elapsed instants as if it never was."""

    def lived(steps: list[tuple[int, int]]) -> list[tuple[int, str]]:
        clock, calls = VirtualClock(T0), iter(range(100))
        workers = Workers()

        @workers.task("t", retry_count=3, retry_delay_seconds=7, response_timeout_seconds=5)
        def t() -> dict[str, Any]:
            if next(calls) % 3 != 2:
                raise ConnectionError("not yet")
            return {}

        loop = WorkflowTask(
            name="l", task_reference_name="l", type="DO_WHILE", loop_condition="$.l['iteration'] < 3",
            loop_over=[task("t"), task("w", "WAIT", input_parameters={"duration": "4 s"})],
        )  # fmt: skip
        seen: list[tuple[int, str]] = []
        with Engine(workers=workers, clock=clock) as engine:
            engine.listen(lambda _, lines: seen.extend((clock.elapsed(), line.words) for line in lines))
            engine.start(flow(loop, timeout_ms=600_000, timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF), workflow_id="w")
            passed = 0
            for after, by in sorted(steps):
                engine.advance(f"{after - passed}ms")
                passed = after
                clock.set_to(clock.now() + by)
            engine.run_until_idle()
            assert engine.admin.check() == []
            assert engine.status("w") == "COMPLETED"
        return [(at, words) for at, words in seen if "CLOCK" not in words]

    assert lived(steps) == lived([])


# ---------------------------------------------------------------------- a machine's clock


class Machine(SystemClock):
    """A machine's clock set by hand: waiting takes no real time, but what is waited for may come first."""

    def __init__(self) -> None:
        self.passed = 0
        self.ahead = T0
        #: How long the next wait takes longer than it was meant to, ms.
        self.stops = 0
        self.mutex = threading.Lock()

    def now(self) -> int:
        return self.passed + self.ahead

    def elapsed(self) -> int:
        return self.passed

    def wait(self, wakeup: Wakeup, until: int | None) -> None:
        with self.mutex:
            stops, self.stops = self.stops, 0
            self.passed += stops
        if not stops and not wakeup.wait(0.002) and until is not None:
            with self.mutex:
                self.passed = max(self.passed, until - self.ahead)


@pytest.fixture
def store(new_store: Callable[[], Backend]) -> Iterator[Backend]:
    backend = new_store()
    yield backend
    with suppress(Exception):
        backend.close()


@pytest.mark.parametrize("by", [-HOUR, HOUR])
def test_a_machine_whose_clock_is_set_while_it_waits(by: int, store: Backend) -> None:
    """The driver notices between two looks, and `result` waits for as long as it was told to."""
    clock = Machine()
    with Engine(store, clock=clock) as engine:
        run = engine.start(flow(task("w", "WAIT", input_parameters={"duration": "20 s"})))
        with pytest.raises(ResultTimeout):
            run.result("5s")
        clock.ahead += by
        begun = clock.passed
        with pytest.raises(ResultTimeout):
            run.result("10s")
        assert 10_000 <= clock.passed - begun < 12_000
        assert run.result("10s") == {}
        assert 20_000 <= clock.passed < 22_000


@pytest.mark.parametrize("stops", [1_000, 6_000, 100_000, 10 * HOUR])
def test_a_process_that_did_not_run_keeps_what_its_worker_has_done(stops: int, store: Backend) -> None:
    """It cannot have heard of its worker: neither response nor task nor total timeout counts that time."""
    clock, calls = Machine(), []
    workers = Workers()

    @workers.task("slow", response_timeout_seconds=2, timeout_seconds=5, retry_count=0)
    def slow(context: TaskContext) -> dict[str, Any]:
        calls.append(context.attempt)
        clock.stops = stops
        begun = clock.elapsed()
        while clock.elapsed() < begun + stops + 1_500:
            threading.Event().wait(0.001)
        return {"calls": len(calls)}

    with Engine(store, clock=clock, workers=workers) as engine:
        run = engine.start(flow(task("slow")))
        assert run.result() == {"calls": 1}
        lines = [line for line in engine.history(run.workflow_id) if line.kind is HistoryKind.CLOCK]
        assert [(line.status, line.ref) for line in lines] == [("SUSPENDED", "slow")]
        assert abs((lines[0].number or 0) - stops) < 1_000
        assert engine.admin.check() == []
        replay(engine.admin.export(run.workflow_id)).engine.close()


def test_a_deadline_that_is_far_away_stays(store: Backend) -> None:
    """A driver that was late by a second on a busy machine writes nothing to tasks that have an hour."""
    clock, workers = Machine(), Workers()

    @workers.task("slow", response_timeout_seconds=3_600, timeout_seconds=7_200)
    def slow() -> dict[str, Any]:
        clock.stops = 1_000
        begun = clock.elapsed()
        while clock.elapsed() < begun + 2_500:
            threading.Event().wait(0.001)
        return {}

    with Engine(store, clock=clock, workers=workers) as engine:
        run = engine.start(flow(task("slow")))
        assert run.result() == {}
        assert not [line for line in engine.history(run.workflow_id) if line.kind is HistoryKind.CLOCK]


def test_a_task_polled_by_hand_has_its_time_too(store: Backend) -> None:
    """A deadline that passed while the process did not run is later by that, whoever holds the task."""
    clock = Machine()
    with Engine(store, clock=clock) as engine:
        run = engine.start(flow(defined(response_timeout_ms=20_000)))
        engine.settle()  # where what is offered is relayed
        [held] = engine.poll("t")
        with pytest.raises(ResultTimeout):
            run.result("10s")
        clock.stops = 60_000
        with pytest.raises(ResultTimeout):
            run.result("65s")
        assert run.status == "RUNNING"
        engine.update_task(
            TaskResult(workflow_id=held.workflow_id, task_id=held.task_id, lease=held.lease, status=TaskStatus.COMPLETED)
        )
        assert run.status == "COMPLETED"


def test_of_several_engines_one_puts_the_clock_right(new_store: Callable[[], Backend], tmp_path: Any) -> None:
    """Each notices it; each execution gets one event."""
    path, clock = tmp_path / "s.db", Machine()
    with Engine(path, clock=clock) as first, Engine(path, clock=clock) as second:
        runs: list[Run[Any]] = [first.start(flow(task("w", "WAIT", input_parameters={"duration": "20 s"}))) for _ in range(5)]
        clock.ahead -= HOUR
        second.settle()
        first.settle()
        second.settle()
        for run in runs:
            lines = [line for line in first.history(run.workflow_id) if line.kind is HistoryKind.CLOCK]
            assert [line.number for line in lines] == [-HOUR]
        clock.ahead += HOUR
        assert runs[0].result("30s") == {}
        lines = [line for line in first.history(runs[0].workflow_id) if line.kind is HistoryKind.CLOCK]
        assert [line.number for line in lines] == [-HOUR, HOUR]


def test_a_source_that_failed_is_asked_again_though_the_clock_was_set_back(store: Backend) -> None:
    """It is left alone for a second, not for an hour."""
    clock, asked = Machine(), []

    class Source:
        def poll(self, limit: int) -> Any:
            asked.append(clock.passed)
            raise SourceError("not there")

        def ack(self, message: Any) -> None: ...

        def reject(self, message: Any, reason: str) -> None: ...

    with Engine(store, clock=clock, config=EngineConfig(event_sources=[Source()])) as engine:
        engine.settle()
        clock.ahead -= HOUR
        clock.passed += 1_000
        engine.settle()
    assert asked == [0, 1_000]


@pytest.mark.parametrize("make", [lambda _: InProcessLock(), lambda folder: SQLiteLock(folder / "locks.db")])
def test_a_lease_of_the_dead_is_over_though_the_clock_was_set_back(make: Callable[[Any], Any], tmp_path: Any) -> None:
    """A lock that was taken in what is now the future is free: the fence refuses whoever still holds it."""
    lock = make(tmp_path)
    assert lock.try_acquire("w", T0) is not None
    assert lock.try_acquire("w", T0 + 59_999) is None
    assert lock.try_acquire("w", T0 - 1_000) is None
    assert lock.try_acquire("w", T0 - HOUR) is not None
    lock.close()


def test_what_was_just_stored_is_no_day_old(tmp_path: Any) -> None:
    """The grace time of the payload storage is a length of time."""
    clock = VirtualClock(T0)
    with Engine(tmp_path / "s.db", clock=clock, payloads=tmp_path / "payloads") as engine:
        location = engine.payloads.location(operation="WRITE", payload_type="WORKFLOW_INPUT")
        (tmp_path / "payloads" / location.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "payloads" / location.path).write_bytes(b"{}")
        clock.set_to(T0 + 25 * HOUR)
        assert engine.payloads.sweep().deleted == 0
        engine.advance("25h")
        assert engine.payloads.sweep().deleted == 1


def test_who_notices_two_steps_at_once_puts_right_what_is_left(tmp_path: Any) -> None:
    """Another engine has put the first one right; the second one is for this one, and for it alone."""
    path, clock = tmp_path / "s.db", Machine()
    with Engine(path, clock=clock) as first, Engine(path, clock=clock) as second:
        run = first.start(flow(task("w", "WAIT", input_parameters={"duration": "20 s"})))
        clock.passed += 1_000
        clock.ahead -= HOUR
        first.settle()
        clock.passed += 1_000
        clock.ahead -= 2 * HOUR
        second.settle()
        first.settle()
        lines = [line for line in first.history(run.workflow_id) if line.kind is HistoryKind.CLOCK]
        assert [line.number for line in lines] == [-HOUR, -2 * HOUR]
        assert run.result("30s") == {}
        assert 20_000 <= clock.passed < 22_000


def test_a_step_while_nobody_looked_is_nobodys(tmp_path: Any) -> None:
    """What an engine has begun after such a step is moved by the steps that it sees."""
    path, clock = tmp_path / "s.db", Machine()
    with Engine(path, clock=clock) as engine:
        clock.ahead -= HOUR
        engine.settle()
        engine.start(flow(task("h", "HUMAN")))
        clock.ahead += HOUR
        engine.settle()
    clock.passed += 10_000
    clock.ahead += 5 * HOUR
    with Engine(path, clock=clock) as engine:
        clock.passed += 10_000
        run = engine.start(flow(task("w", "WAIT", input_parameters={"duration": "20 s"})))
        clock.ahead -= 2 * HOUR
        begun = clock.passed
        assert run.result("30s") == {}
        assert 20_000 <= clock.passed - begun < 22_000


def test_a_clock_without_elapsed_time_is_taken_at_its_word(store: Backend) -> None:
    """A clock of the user's own that tells nothing but its time runs as it says."""

    class Own:
        virtual = False
        at = T0

        def now(self) -> int:
            return self.at

        def wait(self, wakeup: Wakeup, until: int | None) -> None:
            self.at = max(self.at, until or 0)

    clock = Own()
    with Engine(store, clock=clock) as engine:
        run = engine.start(flow(task("w", "WAIT", input_parameters={"duration": "1 h"})))
        clock.at += HOUR
        engine.settle()
        assert run.status == "COMPLETED"
