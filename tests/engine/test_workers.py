"""Worker functions in real threads on the machine's clock. Every wait is for an event and bounded; nothing sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from engine_kit import PATIENCE, Bench, flow, fork, join, simple

from conductorlite import (
    Engine,
    ResultTimeout,
    TaskContext,
    TaskFailedTerminally,
    TaskResult,
    TaskStatus,
    Workers,
    WorkflowDef,
    WorkflowFailed,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import AlreadyExists, InvalidInput
from conductorlite.store.ports import Backend

TIMEOUT = f"{PATIENCE}s"
NEVER_RETRIED = {"retry_count": 0}


@contextmanager
def engine_on(store: Backend, workers: Workers) -> Iterator[Engine]:
    """An engine on the machine's clock, healthy at the end."""
    with Engine(store, workers=workers) as engine:
        yield engine
        engine.settle()
        assert engine.admin.check() == []


@contextmanager
def driven(engine: Engine) -> Iterator[threading.Thread]:
    """The engine driven by a thread of its own meanwhile."""
    thread = threading.Thread(target=engine.run_forever, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        engine.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "run_forever did not return"


def listed(engine: Engine, wanted: Callable[[Any], bool]) -> threading.Event:
    """Set once a history line is committed for which `wanted` holds."""
    seen = threading.Event()
    engine.listen(lambda _, history: seen.set() if any(wanted(line) for line in history) else None)
    return seen


def wide(count: int, name: str = "t", **inputs: Any) -> WorkflowDef:
    """A fork of so many tasks of one type."""
    tasks = [WorkflowTask(name=name, task_reference_name=f"{name}{n}", input_parameters={"n": n, **inputs}) for n in range(count)]
    return flow(fork("f", *[[task] for task in tasks]), join("j", *[task.task_reference_name for task in tasks]))


# -- calls ---------------------------------------------------------------------------------------------------


def test_arguments_and_result(store: Backend) -> None:
    """Arguments come from the input by name, superfluous ones are left out, defaults count; the dict is the output."""
    workers = Workers()

    @workers.task("add")
    def add(a: int, b: int = 10) -> dict[str, int]:
        return {"sum": a + b}

    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("add", input_parameters={"a": "${workflow.input.a}", "c": 1})), {"a": 1})
        assert run.result(timeout=TIMEOUT) == {"sum": 11}


def test_any_keywords(store: Backend) -> None:
    """A function with `**inputs` gets the whole input."""
    workers = Workers()
    workers.task("all")(lambda **inputs: inputs)
    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("all", input_parameters={"a": 1, "b": [2]})))
        assert run.result(timeout=TIMEOUT) == {"a": 1, "b": [2]}


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (None, {}),
        ({}, {}),
        ({"a": [1, None]}, {"a": [1, None]}),
        (7, {"result": 7}),
        ("text", {"result": "text"}),
        ([1, 2], {"result": [1, 2]}),
        (False, {"result": False}),
        ((1, 2), {"result": [1, 2]}),
    ],
)
def test_return_kinds(store: Backend, returned: object, output: dict[str, Any]) -> None:
    """A dict is the output, None none, any other JSON value goes under `result`."""
    workers = Workers()
    workers.task("t")(lambda: returned)
    with engine_on(store, workers) as engine:
        assert engine.start(flow(simple("t"))).result(timeout=TIMEOUT) == output


def test_task_result_as_return_value(store: Backend) -> None:
    """A function may return a whole report, for instance to be called again."""
    workers = Workers()

    @workers.task("t")
    def t(context: TaskContext) -> TaskResult:
        again = context.task.poll_count < 3
        status = TaskStatus.IN_PROGRESS if again else TaskStatus.COMPLETED
        return TaskResult(workflow_id="", task_id="", status=status, output_data={"polls": context.task.poll_count})

    with engine_on(store, workers) as engine:
        assert engine.start(flow(simple("t"))).result(timeout=TIMEOUT) == {"polls": 3}


@pytest.mark.parametrize("returned", [{object()}, {"x": object()}, {"x": complex(1)}, {(1, 2): "a"}, {"x": "\ud800"}])
def test_what_is_not_json(store: Backend, returned: object) -> None:
    """A return value that is not JSON fails the task for good, with a reason that names the task."""
    workers = Workers()
    workers.task("t")(lambda: returned)
    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("t")))
        with pytest.raises(WorkflowFailed, match="'t' returned something that is not JSON"):
            run.result(timeout=TIMEOUT)
        assert run.workflow.task("t").status is TaskStatus.FAILED_WITH_TERMINAL_ERROR


def test_missing_input(store: Backend) -> None:
    """An input without a required argument fails the task for good, naming it; the function is not called."""
    workers, called = Workers(), []
    workers.task("t")(lambda a, b, c: called.append(1))
    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("t", input_parameters={"b": 1})))
        with pytest.raises(WorkflowFailed, match=r"no 'a', 'c'"):
            run.result(timeout=TIMEOUT)
        assert run.workflow.task("t").status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
    assert called == []


def test_exceptions(store: Backend) -> None:
    """An exception fails the attempt, its type and text as reason, its traceback kept; then the retry rules apply."""
    workers = Workers()

    @workers.task("t", retry_count=1, retry_delay_seconds=0)
    def unlucky_function(context: TaskContext) -> None:
        raise KeyError(f"attempt {context.attempt}")

    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("t")))
        with pytest.raises(WorkflowFailed, match="attempt 1"):
            run.result(timeout=TIMEOUT)
        tasks = run.workflow.tasks
        assert [(task.status, task.reason) for task in tasks] == [
            ("FAILED", "KeyError: 'attempt 0'"),
            ("FAILED", "KeyError: 'attempt 1'"),
        ]
        assert all("in unlucky_function" in (task.traceback or "") for task in tasks)


def test_terminal_failure(store: Backend) -> None:
    """TaskFailedTerminally is not retried; its text is the reason."""
    workers = Workers()

    @workers.task("t", retry_count=5, retry_delay_seconds=0)
    def t() -> None:
        raise TaskFailedTerminally("give up")

    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("t")))
        with pytest.raises(WorkflowFailed):
            run.result(timeout=TIMEOUT)
        assert [(task.status, task.reason) for task in run.workflow.tasks] == [("FAILED_WITH_TERMINAL_ERROR", "give up")]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_even_these_do_not_kill_the_driver(store: Backend, error: BaseException) -> None:
    """Whatever a function raises in its thread fails its task, and the driver goes on."""
    workers = Workers()

    @workers.task("t", retry_count=0)
    def t() -> None:
        raise error

    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("t")))
        with pytest.raises(WorkflowFailed, match=type(error).__name__):
            run.result(timeout=TIMEOUT)


def test_context(store: Backend) -> None:
    """The context tells the attempt and where it is, logs, and has one idempotency key over all attempts."""
    workers = Workers()
    seen: list[tuple[int, str, str]] = []

    @workers.task("t", retry_count=2, retry_delay_seconds=0)
    def t(context: TaskContext, n: int) -> None:
        assert (context.ref, context.input, context.workflow_id) == ("t", {"n": n}, context.task.workflow_id)
        assert context.heartbeat() is True
        context.log(f"attempt {context.attempt}")
        seen.append((context.attempt, context.task_id, context.idempotency_key))
        if context.attempt < 2:
            raise ValueError("again")

    with engine_on(store, workers) as engine:
        runs = [engine.start(flow(simple("t", input_parameters={"n": 1}))) for _ in range(2)]
        for run in runs:
            run.result(timeout=TIMEOUT)
            for task in run.workflow.tasks:
                assert [line.text for line in engine.tasks.logs(task.task_id)] == [f"attempt {task.attempt}"]
    assert sorted(attempt for attempt, _, _ in seen) == [0, 0, 1, 1, 2, 2]
    assert len({task_id for _, task_id, _ in seen}) == 6
    assert len({key for _, _, key in seen}) == 2


def test_registering_workers() -> None:
    """Two functions of one type (one may come twice), a bad bound and an unknown option are refused by name."""
    workers = Workers()
    workers.task("t")(lambda: None)
    with pytest.raises(AlreadyExists, match="'t'"):
        workers.task("t")(lambda: None)
    other = Workers()
    other.task("t")(lambda: None)
    with pytest.raises(AlreadyExists, match="'t'"):
        Workers().include(workers, other)
    assert [worker.task_type for worker in Workers().include(workers, workers)] == ["t"]

    with pytest.raises(InvalidInput, match="does not show what it takes"):
        workers.add("u", min)
    with pytest.raises(InvalidInput, match="0 is below 1"):
        workers.task("u", concurrency=0)(lambda: None)
    with pytest.raises(InvalidInput, match="retry_cuont"):
        workers.task("u", retry_cuont=3)(lambda: None)


# -- threads -------------------------------------------------------------------------------------------------


class Gauge:
    """Counts how many run at once; each waits until `together` were seen or it is told to go on."""

    def __init__(self, together: int) -> None:
        self.now = self.most = 0
        self.together = together
        self.reached = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, n: int) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now >= self.together:
                self.reached.set()
        self.reached.wait(PATIENCE)
        with self._lock:
            self.now -= 1


def test_functions_run_side_by_side(store: Backend) -> None:
    """Tasks of one type run at the same time, as many as there are."""
    workers, gauge = Workers(), Gauge(4)
    workers.task("t")(gauge.__call__)
    with engine_on(store, workers) as engine:
        engine.start(wide(4)).result(timeout=TIMEOUT)
    assert gauge.most == 4


def test_concurrency_of_a_type(store: Backend) -> None:
    """A bound per type is reached and never passed."""
    workers, gauge = Workers(), Gauge(2)
    workers.task("t", concurrency=2)(gauge.__call__)
    with engine_on(store, workers) as engine:
        engine.start(wide(12)).result(timeout=TIMEOUT)
    assert gauge.most == 2


def test_concurrency_in_all(store: Backend) -> None:
    """The bound on all functions together is reached and never passed; no type starves."""
    workers, gauge = Workers(concurrency=3), Gauge(3)
    for name in ("t", "u"):
        workers.task(name)(gauge.__call__)
    with engine_on(store, workers) as engine:
        runs = [engine.start(wide(6, name)) for name in ("t", "u")]
        for run in runs:
            run.result(timeout=TIMEOUT)
    assert gauge.most == 3


def test_graceful_drain(store: Backend) -> None:
    """A stopped engine waits for running functions, reports them, and takes no new tasks meanwhile."""
    workers, entered, go = Workers(concurrency=1), threading.Event(), threading.Event()

    @workers.task("t")
    def t(n: int) -> dict[str, int]:
        entered.set()
        go.wait(PATIENCE)
        return {"n": n}

    with engine_on(store, workers) as engine:
        run = engine.start(wide(2))
        thread = threading.Thread(target=engine.run_forever, daemon=True)
        thread.start()
        assert entered.wait(PATIENCE)
        engine.stop()
        go.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        statuses = sorted(task.status for task in run.workflow.tasks if task.base_ref.startswith("t"))
        assert statuses == ["COMPLETED", "SCHEDULED"]


def test_what_is_handed_over_as_the_driver_is_stopped_is_given_back(store: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn of a report gives its worker the next task: it is not begun any more."""
    workers, called = Workers(concurrency=1), list[bool]()
    workers.task("t")(lambda n: {"n": n})
    with engine_on(store, workers) as engine:
        run, driver = engine.start(wide(2)), engine.driver
        real = driver.results.collect

        def collect() -> bool:
            if driver.results.finished() and not called:
                called.append(True)
                engine.stop()
            return real()

        monkeypatch.setattr(driver.results, "collect", collect)
        engine.run_forever()
        statuses = sorted(task.status for task in run.workflow.tasks if task.base_ref.startswith("t"))
        assert statuses == ["COMPLETED", "SCHEDULED"]


def test_a_function_that_never_returns(store: Backend) -> None:
    """Without signs of life its lease runs out: the attempt is TIMED_OUT, the next succeeds, the log says so."""
    workers, release = Workers(concurrency=1, heartbeat=False), threading.Event()

    @workers.task("t", response_timeout_seconds=0.3, retry_delay_seconds=0, timeout_seconds=0)
    def t(context: TaskContext) -> dict[str, int]:
        if context.attempt == 0:
            context.log("entered")
            release.wait(PATIENCE)
        return {"attempt": context.attempt}

    try:
        with engine_on(store, workers) as engine:
            run = engine.start(flow(simple("t")))
            assert run.result(timeout=TIMEOUT) == {"attempt": 1}
            first = run.workflow.tasks[0]
            assert first.status is TaskStatus.TIMED_OUT
            texts = [line.text for line in engine.tasks.logs(first.task_id)]
            assert texts[0] == "entered"
            assert any("abandoned" in text for text in texts)
    finally:
        release.set()


def test_a_slow_function_with_a_task_timeout(store: Backend) -> None:
    """With signs of life `timeoutSeconds` ends a function that never returns: its thread is abandoned and said so."""
    workers, release = Workers(concurrency=1), threading.Event()

    @workers.task("t", timeout_seconds=0.4, response_timeout_seconds=0.2, retry_delay_seconds=0, timeout_policy="RETRY")
    def t(context: TaskContext) -> dict[str, int]:
        if context.attempt == 0:
            release.wait(PATIENCE)
        return {"attempt": context.attempt}

    try:
        with engine_on(store, workers) as engine:
            run = engine.start(flow(simple("t")))
            assert run.result(timeout=TIMEOUT) == {"attempt": 1}
            first = run.workflow.tasks[0]
            assert first.status is TaskStatus.TIMED_OUT
            assert "Task timed out after" in (first.reason or "")
            assert any("abandoned" in line.text for line in engine.tasks.logs(first.task_id))
    finally:
        release.set()


@pytest.mark.parametrize("heartbeat", [True, False])
def test_a_hung_function_without_a_response_timeout(store: Backend, heartbeat: bool) -> None:
    """Also where nobody has to respond, a function whose task timed out gives up its slot."""
    workers, release = Workers(concurrency=1, heartbeat=heartbeat), threading.Event()

    @workers.task("t", timeout_seconds=0.2, response_timeout_seconds=0, retry_delay_seconds=0, timeout_policy="RETRY")
    def t(context: TaskContext) -> dict[str, int]:
        if context.attempt == 0:
            release.wait(PATIENCE)
        return {"attempt": context.attempt}

    try:
        with engine_on(store, workers) as engine:
            assert engine.start(flow(simple("t"))).result(timeout=TIMEOUT) == {"attempt": 1}
    finally:
        release.set()


def test_leases_are_extended(store: Backend) -> None:
    """While a function runs its lease is extended by itself, past several response timeouts."""
    workers, beats = Workers(), threading.Event()
    count = 0

    @workers.task("t", response_timeout_seconds=0.3, retry_count=0)
    def t() -> dict[str, bool]:
        return {"heard": beats.wait(PATIENCE)}

    with engine_on(store, workers) as engine:
        extend = engine.tasks.extend_lease

        def counted(task: Any) -> bool:
            nonlocal count
            count += 1
            if count >= 4:
                beats.set()
            return extend(task)

        engine.tasks.extend_lease = counted  # type: ignore[method-assign]
        run = engine.start(flow(simple("t")))
        assert run.result(timeout=TIMEOUT) == {"heard": True}
        assert [task.status for task in run.workflow.tasks] == ["COMPLETED"]
    assert count >= 4


def test_late_return_of_an_abandoned_function(store: Backend) -> None:
    """What an abandoned function returns at last is dropped."""
    workers = Workers(heartbeat=False)
    release, returned = threading.Event(), threading.Event()

    @workers.task("t", response_timeout_seconds=0.2, retry_delay_seconds=0)
    def t(context: TaskContext) -> dict[str, int]:
        if context.attempt == 0:
            release.wait(PATIENCE)
            returned.set()
        return {"attempt": context.attempt}

    with engine_on(store, workers) as engine:
        run = engine.start(flow(simple("t")))
        assert run.result(timeout=TIMEOUT) == {"attempt": 1}
        before = run.workflow
        release.set()
        assert returned.wait(PATIENCE)
        engine.run_until_idle(timeout=TIMEOUT)
        assert run.workflow == before


def test_run_forever_takes_later_starts(store: Backend) -> None:
    """An engine that is driven in another thread runs what is started meanwhile; results are awaited beside it."""
    workers = Workers()
    workers.task("t")(lambda n: {"n": n})
    with engine_on(store, workers) as engine, driven(engine):
        runs = [engine.start(flow(simple("t", input_parameters={"n": n}))) for n in range(5)]
        assert [run.result(timeout=TIMEOUT) for run in runs] == [{"n": n} for n in range(5)]


def test_results_in_several_threads(store: Backend) -> None:
    """Several threads may wait for results at once: one of them drives, all get theirs."""
    workers = Workers()
    workers.task("t")(lambda n: {"n": n})
    results: dict[int, object] = {}
    with engine_on(store, workers) as engine:
        runs = [engine.start(flow(simple("t", input_parameters={"n": n}), simple("t2"))) for n in range(6)]
        workers.task("t2")(lambda: {"done": True})

        def ask(n: int) -> None:
            try:
                results[n] = runs[n].result(timeout=TIMEOUT)
            except Exception as error:
                results[n] = error

        threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert results == {key: {"done": True} for key in range(6)}


def test_result_times_out(store: Backend) -> None:
    """A result that does not come in time is ResultTimeout, which says what it waits for; the execution goes on."""
    with engine_on(store, Workers()) as engine:
        run = engine.start(flow(simple("t")))
        with pytest.raises(ResultTimeout, match=r"did not end in time: RUNNING, t \(t\) is SCHEDULED"):
            run.result(timeout="50ms")
        assert run.status is WorkflowStatus.RUNNING


def test_stop_ends_the_wait_for_a_result(store: Backend) -> None:
    """A thread that waits for a result returns with ResultTimeout when the engine is told to stop; nothing is lost."""
    said: list[str] = []
    with engine_on(store, Workers()) as engine:
        run = engine.start(flow(simple("t")))

        def wait() -> None:
            with pytest.raises(ResultTimeout, match="asked to stop") as refused:
                run.result()
            said.append(str(refused.value))

        thread = threading.Thread(target=wait)
        thread.start()
        driven = False
        while not driven:
            with engine.driver.drive(timeout=0) as mine:
                driven = not mine
        engine.stop()
        thread.join(PATIENCE)
        assert len(said) == 1
        assert run.status is WorkflowStatus.RUNNING


def test_two_engines_in_one_process(new_store: Callable[[], Backend]) -> None:
    """Two engines live side by side and know nothing of each other."""
    sets = [Workers(), Workers()]
    for number, workers in enumerate(sets):
        workers.task("t")(lambda number=number: {"engine": number})
    with engine_on(new_store(), sets[0]) as one, engine_on(new_store(), sets[1]) as two, driven(one), driven(two):
        runs = [engine.start(flow(simple("t"))) for engine in (one, two, one, two)]
        assert [run.result(timeout=TIMEOUT) for run in runs] == [{"engine": n} for n in (0, 1, 0, 1)]
        assert len(list(one.admin.workflow_ids())) == len(list(two.admin.workflow_ids())) == 2


def test_long_poll_is_woken_by_a_start(store: Backend) -> None:
    """A long poll returns as soon as another thread starts something, long before its timeout."""
    with engine_on(store, Workers()) as engine, driven(engine):
        polled: list[Any] = []
        thread = threading.Thread(target=lambda: polled.extend(engine.poll("t", timeout="1h")), daemon=True)
        thread.start()
        run = engine.start(flow(simple("t")))
        thread.join(PATIENCE)
        assert not thread.is_alive()
        assert [task.workflow_id for task in polled] == [run.workflow_id]
        engine.update_task(TaskResult(workflow_id=run.workflow_id, task_id=polled[0].task_id, status=TaskStatus.COMPLETED))


def test_long_poll_times_out(store: Backend) -> None:
    """A long poll that finds nothing returns an empty list when its time is up."""
    with engine_on(store, Workers()) as engine:
        assert engine.poll("t", timeout="30ms") == []


def test_real_timers(store: Backend) -> None:
    """On the machine's clock a WAIT and a retry delay end by themselves."""
    workers = Workers()
    calls: list[int] = []

    @workers.task("t", retry_delay_seconds=0.05)
    def t(context: TaskContext) -> None:
        calls.append(context.attempt)
        if not context.attempt:
            raise ValueError("once")

    with engine_on(store, workers) as engine:
        pause = WorkflowTask(name="w", task_reference_name="w", type="WAIT", input_parameters={"duration": "1s"})
        run = engine.start(flow(pause, simple("t")))
        run.result(timeout=TIMEOUT)
        workflow = run.workflow
        assert workflow.task("w").ended_at - workflow.task("w").started_at >= 1_000
        first, second = (task for task in workflow.tasks if task.ref == "t")
        assert second.started_at - first.ended_at >= 50
    assert calls == [0, 1]


def test_closing_while_driven(store: Backend) -> None:
    """Closing an engine stops the thread that drives it."""
    engine = Engine(store, workers=Workers())
    thread = threading.Thread(target=engine.run_forever, daemon=True)
    ready = listed(engine, lambda line: line.ref == "n")
    thread.start()
    engine.start(flow(WorkflowTask(name="n", task_reference_name="n", type="NOOP")))
    assert ready.wait(PATIENCE)
    engine.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    engine.close()


def test_closing_without_driving_starts_no_thread(store: Backend) -> None:
    """No thread is started by making, using and closing an engine that is never driven."""
    before = set(threading.enumerate())
    with Engine(store, workers=Workers()) as engine:
        engine.start(flow(simple("t")))
        assert set(threading.enumerate()) <= before


def test_a_late_poll_leaves_the_next_attempt_in_its_queue(bench: Bench) -> None:
    """Whoever read a message before somebody else took and failed the task gets nothing, and takes nothing away."""
    bench.start(flow(simple("a", {"retry_count": 1, "retry_delay_s": 0})))
    bench.engine.settle()
    with bench.engine.backend.reading() as view:
        message = view.queue.message((bench.workflow_id, "a"))
    assert message is not None
    bench.do("a", "FAILED")
    assert bench.engine.core.polling.take_message(message, "late") is None
    bench.healthy()
    assert bench.take("a").attempt == 1
