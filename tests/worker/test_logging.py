"""What goes to `logging`: one record for one thing, after the commit, with whose it is; and what a worker's own records carry."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conductorlite import (
    AsyncEngine,
    Engine,
    EnvironmentSecrets,
    SubWorkflowParams,
    SystemClock,
    TaskContext,
    TaskDef,
    TaskLogFilter,
    TaskLogHandler,
    TimeoutPolicy,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowSchedule,
    WorkflowTask,
    WorkflowTimeoutPolicy,
    current_task,
)
from conductorlite.errors import InvariantBroken
from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import ScriptedWorkers
from conductorlite.testing.faults import lay_empty_store


def simple(ref: str, **fields: Any) -> WorkflowTask:
    return WorkflowTask(name=ref, task_reference_name=ref, **fields)


def flow(*tasks: WorkflowTask, name: str = "w", **fields: Any) -> WorkflowDef:
    return WorkflowDef(name=name, tasks=tasks, **fields)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Both stores."""
    return MemoryBackend() if request.param == "memory" else SQLiteBackend(lay_empty_store(tmp_path / "x.db"), synchronous="NORMAL")


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Callable[[], list[logging.LogRecord]]:
    """The warnings of conductorlite so far."""
    caplog.set_level(logging.WARNING, logger="conductorlite")
    return lambda: [one for one in caplog.records if one.name.split(".")[0] == "conductorlite"]


def boom() -> None:
    raise ValueError("boom")


def texts(records: list[logging.LogRecord]) -> list[str]:
    return [one.getMessage().splitlines()[0].partition("): ")[2] for one in records]


def failing(**options: Any) -> Workers:
    workers = Workers()
    workers.task("t", retry_delay_seconds=0, **options)(boom)
    return workers


def test_each_failed_attempt_is_one_warning(store: Any, records: Any) -> None:
    """With the ids as attributes, the first of a kind with its traceback; not again for what fails because of it."""
    child = flow(simple("t"), name="child")
    sub = simple("s", type="SUB_WORKFLOW", sub_workflow_param=SubWorkflowParams(workflow_definition=child))
    loop = simple("l", type="DO_WHILE", loop_condition="$.l.iteration < 2", loop_over=[sub])
    fork = simple("f", type="FORK_JOIN", fork_tasks=[[loop], [simple("n", type="NOOP")]])
    with Engine(store, workers=failing(retry_count=1), clock=VirtualClock()) as engine:
        run = engine.start(flow(fork, simple("j", type="JOIN", join_on=["l", "n"])))
        engine.run_until_idle()
        assert run.status.value == "FAILED"
        below = engine.admin.children(run.workflow_id)[0].workflow_id
    found = records()
    again = "t, attempt 2, FAILED: ValueError: boom (failure 2 of this kind; the traceback is logged with the first)"
    assert texts(found) == ["t, attempt 1, FAILED: ValueError: boom", again]
    assert ["Traceback" in one.getMessage() and "raise ValueError" in one.getMessage() for one in found] == [True, False]
    assert [(one.workflow_id, one.task_ref, one.attempt) for one in found] == [(below, "t", 0), (below, "t", 1)]


LINE = 'File "'


@pytest.mark.parametrize("virtual", [True, False], ids=["virtual", "real"])
def test_a_kind_of_failure_has_one_traceback(store: Any, records: Any, *, virtual: bool) -> None:
    """However many executions and attempts fail in the same way; each has its line, also where its reason has several."""

    def charge(order: int) -> None:
        raise ValueError(f"order {order}\n\n  is not\r\n{'known ' * 400}")

    def ship(order: int) -> None:
        raise ValueError("elsewhere") if order % 2 else KeyError("another kind")

    workers = Workers()
    for function in (charge, ship):
        workers.task(function.__name__, retry_count=2, retry_delay_seconds=0)(function)
    given = {"order": "${workflow.input.order}"}
    with Engine(store, workers=workers, clock=VirtualClock() if virtual else None) as engine:
        for name in ("charge", "ship"):
            engine.start_many(flow(simple(name, input_parameters=given), name=name), [{"order": order} for order in range(10)])
        engine.run_until_idle()
        attempts = [task for run in engine.search().results for task in engine.get(run.workflow_id).tasks]
    assert len(attempts) == 60
    found = [record.getMessage() for record in records()]
    assert len(found) == 60
    whole = [text for text in found if LINE in text]
    kinds = ("ValueError: order", "ValueError: elsewhere", "KeyError: ")
    assert [sum(kind in text for text in whole) for kind in kinds] == [1, 1, 1] == [len(whole) // 3] * 3
    assert all(len(text.splitlines()) == 1 for text in found if LINE not in text)
    assert all(len(text) < 1_500 for text in found if LINE not in text)
    for kind in kinds:
        numbers = [one.failures for one in records() if kind in one.getMessage()]
        assert numbers == list(range(1, len(numbers) + 1))


def test_each_engine_has_the_traceback_once(records: Any) -> None:
    """One that is opened later logs it again: its reader may not have seen the first."""
    for _ in range(2):
        with Engine(workers=failing(retry_count=2), clock=VirtualClock()) as engine:
            engine.start(flow(simple("t")))
            engine.run_until_idle()
    assert [LINE in one.getMessage() for one in records()] == [True, False, False] * 2


def test_a_listener_that_always_raises_has_one_traceback(records: Any) -> None:
    """It is called at each commit."""
    workers = Workers()
    workers.task("t")(lambda: None)
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        engine.listen(lambda *_: boom())
        engine.start(flow(simple("t"))).result()
    first, *others = records()
    assert first.exc_info is not None
    assert "ValueError: boom" in first.getMessage()
    assert others
    assert all(one.exc_info is None and "failure" in one.getMessage() for one in others)


@pytest.mark.parametrize("kind", [ZeroDivisionError, InvariantBroken, RecursionError])
def test_an_exception_inside_a_decision_is_logged(
    store: Any, records: Any, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """With its traceback, as an error, once for each turn that it broke, whatever raised it."""

    def broken(*_: Any, **__: Any) -> Any:
        raise kind("of the decider")

    with Engine(store, clock=VirtualClock()) as engine:
        run = engine.start(flow(simple("t", type="WAIT", input_parameters={"duration": "1 s"})))
        monkeypatch.setattr("conductorlite.engine.decisions.decide", broken)
        with pytest.raises(InvariantBroken, match="of the decider"):
            engine.pause(run.workflow_id)
    first, *others = records()
    assert first.levelname == "ERROR"
    assert f"{kind.__name__}: of the decider" in first.getMessage()
    assert first.exc_info[1].args == ("of the decider",)
    assert [other for other in others if other.exc_info] == []


def test_a_handler_that_raises_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    """Its error is printed, as `logging` does, and the engine goes on."""

    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the log server is down")

    handler = Raising()
    logging.getLogger("conductorlite").addHandler(handler)
    try:
        with Engine(workers=failing(retry_count=0), clock=VirtualClock()) as engine:
            run = engine.start(flow(simple("t")))
            engine.run_until_idle()
            assert run.status.value == "FAILED"
    finally:
        logging.getLogger("conductorlite").removeHandler(handler)
    assert "the log server is down" in capsys.readouterr().err


def test_a_failure_that_is_permitted_is_told(records: Any) -> None:
    """Once: that it became COMPLETED_WITH_ERRORS is the same thing."""
    with Engine(workers=failing(retry_count=0), clock=VirtualClock()) as engine:
        engine.start(flow(simple("t", optional=True))).result()
    assert texts(records()) == ["t, attempt 1, FAILED: ValueError: boom"]


@pytest.mark.parametrize("policy", TimeoutPolicy)
@pytest.mark.parametrize("which", ["poll_timeout_ms", "response_timeout_ms", "timeout_ms", "total_timeout_ms"])
def test_each_timeout_is_one_warning(store: Any, records: Any, policy: TimeoutPolicy, which: str) -> None:
    """Of whatever kind and policy; the end of the execution that it causes is not told again."""
    options: dict[str, Any] = {"response_timeout_ms": 0, "poll_timeout_ms": 0, "retry_count": 0, which: 5_000}
    definition = TaskDef(name="t", timeout_policy=policy, **options)
    with Engine(store, clock=VirtualClock()) as engine:
        engine.start(flow(simple("t", task_definition=definition)))
        if which != "poll_timeout_ms":
            engine.poll("t")
        engine.advance("10s")
    (one,) = records()
    assert "Timeout policy" in one.getMessage() or "responseTimeout: 5 exceeded" in one.getMessage()
    assert ": t, attempt 1, " in one.getMessage()
    assert one.task_ref == "t"


@pytest.mark.parametrize("policy", WorkflowTimeoutPolicy)
def test_the_timeout_of_a_workflow_is_one_warning(records: Any, policy: WorkflowTimeoutPolicy) -> None:
    """Ended by it or only alerted."""
    with Engine(clock=VirtualClock()) as engine:
        run = engine.start(flow(simple("t"), timeout_ms=5_000, timeout_policy=policy))
        engine.advance("10s")
    (one,) = records()
    assert "Workflow timed out after 5 seconds" in one.getMessage()
    assert one.workflow_id == run.workflow_id


def test_a_parked_execution_is_one_warning(store: Any, records: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an error for each turn that was broken."""
    with Engine(store, clock=VirtualClock()) as engine:
        run = engine.start(flow(simple("t", type="WAIT", input_parameters={"duration": "1 s"})))

        def broken(*_: Any, **__: Any) -> Any:
            raise InvariantBroken("thirteen")

        monkeypatch.setattr(engine.core.turns.decider, "decide", broken)
        engine.advance("10s")
        assert run.workflow.parked == "thirteen"
    *broken_turns, parked = records()
    assert [one.levelname for one in broken_turns] == ["ERROR"] * 3
    assert "is parked" in parked.getMessage()
    assert {one.workflow_id for one in (*broken_turns, parked)} == {run.workflow_id}


@pytest.mark.parametrize("removed", [False, True])
def test_a_report_that_nobody_waits_for_is_one_warning(store: Any, records: Any, *, removed: bool) -> None:
    """The execution has ended, or is gone, while the function ran."""
    workers = Workers()
    with Engine(store, workers=workers, clock=VirtualClock()) as engine:
        other = Engine(store, clock=engine.clock)

        @workers.task
        def t(context: TaskContext) -> None:
            other.terminate(context.workflow_id)
            if removed:
                other.admin.remove(context.workflow_id)

        engine.start(flow(simple("t")))
        engine.run_until_idle()
    (one,) = records()
    assert "its report" in one.getMessage()
    assert one.task_ref == "t"


def test_a_lost_lease_is_one_warning(store: Any, records: Any) -> None:
    """The attempt has timed out while the function ran; what it reports in the end is not told again."""
    workers = ScriptedWorkers()
    workers.t.takes("1m").returns({}, times=1).then.takes("0s").returns({})
    definition = TaskDef(name="t", retry_delay_ms=0, timeout_ms=20_000, timeout_policy=TimeoutPolicy.RETRY)
    with Engine(store, workers=workers, clock=VirtualClock()) as engine:
        engine.start(flow(simple("t", task_definition=definition))).result()
        engine.advance("5m")
    timed_out, lost = records()
    assert "Task timed out" in timed_out.getMessage()
    assert "has lost its lease" in lost.getMessage()
    assert (lost.task_ref, lost.attempt) == ("t", 0)


def test_a_missed_start_is_one_warning(store: Any, records: Any) -> None:
    """Of a schedule, told with its name, and once."""
    with Engine(store, clock=VirtualClock()) as engine:
        engine.register(flow(simple("t")))
        engine.schedules.save(
            WorkflowSchedule(
                name="s",
                start_workflow_request=StartWorkflowRequest(name="w"),
                interval_ms="1h",
                misfire_grace_ms=timedelta(minutes=1),
            )
        )
        clock = engine.clock
        assert isinstance(clock, VirtualClock)
        clock.move_to(clock.now() + 90 * 60_000)  # nobody drives meanwhile
        engine.settle()
        engine.settle()
    (one,) = [one for one in records() if one.name == "conductorlite.schedules"]
    assert "schedule s: the start at" in one.getMessage()
    assert "MISSED" in one.getMessage()


def test_a_refused_start_is_one_warning(records: Any) -> None:
    """A schedule of a workflow that nobody has registered."""
    with Engine(clock=VirtualClock()) as engine:
        engine.register(flow(simple("t")))
        engine.schedules.save(
            WorkflowSchedule(
                name="s",
                start_workflow_request=StartWorkflowRequest(name="w", version=7),
                interval_ms="1h",
            )
        )
        engine.advance("61m")
    (one,) = [one for one in records() if one.name == "conductorlite.schedules"]
    assert "FAILED" in one.getMessage()


def test_turns_are_told_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """One record a turn, and nothing is made of it when nobody asks."""
    caplog.set_level(logging.DEBUG, logger="conductorlite.turns")
    with Engine(clock=VirtualClock()) as engine:
        run = engine.start(flow(simple("t", type="NOOP")))
    (one,) = caplog.records
    assert (one.levelname, one.name, one.workflow_id) == ("DEBUG", "conductorlite.turns", run.workflow_id)
    assert "WORKFLOW COMPLETED" in one.getMessage()


def test_nothing_is_configured() -> None:
    """No handler, level or filter of ours anywhere below `conductorlite`."""
    names = ["conductorlite", *(name for name in logging.root.manager.loggerDict if name.startswith("conductorlite."))]
    assert len(names) > 3
    for name in names:
        one = logging.getLogger(name)
        assert (one.handlers, one.level, one.filters, one.propagate) == ([], logging.NOTSET, [], True)


class Raising(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise ZeroDivisionError("handler")


def test_a_handler_that_raises_stops_nothing() -> None:
    """Not the turn, which is committed, nor the driver."""
    handler = Raising()
    logging.getLogger("conductorlite").addHandler(handler)
    try:
        with Engine(workers=failing(retry_count=0), clock=VirtualClock()) as engine:
            run = engine.start(flow(simple("t", optional=True)))
            engine.run_until_idle()
            assert run.status.value == "COMPLETED"
    finally:
        logging.getLogger("conductorlite").removeHandler(handler)


@pytest.mark.parametrize("heard", ["", "handler", "above", "filter", "apart"])
def test_no_record_is_made_that_nothing_looks_at(heard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a library's logger has only the handler that does nothing; one is made for whatever else there is."""
    made: list[str] = []
    logger, tasks = logging.getLogger("conductorlite"), logging.getLogger("conductorlite.tasks")
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.Handler()] if heard == "above" else [])
    monkeypatch.setattr(logger, "handlers", [logging.NullHandler(), *([logging.Handler()] if heard == "handler" else [])])
    monkeypatch.setattr(tasks, "filters", [lambda _: False] if heard == "filter" else [])
    monkeypatch.setattr(tasks, "propagate", heard != "apart")
    monkeypatch.setattr(logging.Handler, "handle", lambda *_: None)
    monkeypatch.setattr(logging, "lastResort", None)
    real = tasks.makeRecord
    monkeypatch.setattr(tasks, "makeRecord", lambda name, *rest, **more: made.append(name) or real(name, *rest, **more))
    with Engine(workers=failing(retry_count=0), clock=VirtualClock()) as engine:
        engine.start(flow(simple("t")))
        engine.run_until_idle()
    assert made == (["conductorlite.tasks"] if heard else [])


def test_it_is_told_after_the_commit(store: Any, records: Any) -> None:
    """A handler that looks sees what it is told of."""
    seen: list[str] = []

    class Looking(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(engine.get(record.workflow_id).tasks[0].status.value)  # type: ignore[attr-defined]

    handler = Looking()
    logging.getLogger("conductorlite").addHandler(handler)
    try:
        with Engine(store, workers=failing(retry_count=0), clock=VirtualClock()) as engine:
            engine.start(flow(simple("t")))
            engine.run_until_idle()
    finally:
        logging.getLogger("conductorlite").removeHandler(handler)
    assert seen == ["FAILED"]


def test_secrets_are_taken_out(records: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is logged is what was stored: scrubbed, also in the traceback."""
    monkeypatch.setenv("SECRET_KEY", "xyzzy-plugh-42")
    workers = Workers()

    @workers.task("t", retry_count=0)
    def t(key: str) -> None:
        raise ValueError(f"wrong key {key}")

    with Engine(workers=workers, clock=VirtualClock(), secrets=EnvironmentSecrets("SECRET_")) as engine:
        engine.start(flow(simple("t", input_parameters={"key": "${workflow.secrets.KEY}"})))
        engine.run_until_idle()
    (one,) = records()
    assert "wrong key ***" in one.getMessage()
    assert "plugh" not in one.getMessage()


# -- the worker's own records --------------------------------------------------------------------------------


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """What a handler with the filter writes of the user's own logger."""
    written: list[str] = []

    class Writing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(self.format(record))

    handler = Writing()
    handler.addFilter(TaskLogFilter())
    handler.setFormatter(logging.Formatter("%(workflow_id)s %(task_ref)s %(task_type)s %(attempt)s %(message)s"))
    logger = logging.getLogger("users.own")
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)


def work(attempt: int) -> None:
    logging.getLogger("users.own").warning("hello")
    assert current_task() is not None
    if not attempt:
        raise ValueError("again")


EXPECTED = ["one t t 0 hello", "one t t 1 hello"]


@pytest.mark.parametrize("clock", [VirtualClock, SystemClock])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_records_of_a_worker_carry_its_task(lines: list[str], kind: str, clock: Any) -> None:
    """In this thread, in threads of the pool, and on a loop; each of its own task, and nobody else's afterwards."""
    workers = Workers()
    if kind == "function":

        @workers.task("t", retry_delay_seconds=0)
        def t(context: TaskContext) -> None:
            work(context.attempt)
    else:

        @workers.task("t", retry_delay_seconds=0)
        async def t_async(context: TaskContext) -> None:
            await asyncio.sleep(0)
            await asyncio.create_task(asyncio.to_thread(work, context.attempt))

    with Engine(workers=workers, clock=clock()) as engine:
        engine.start(flow(simple("t")), workflow_id="one").result(timeout="20s")
    logging.getLogger("users.own").warning("outside")
    assert lines == [*EXPECTED, "- - - - outside"]
    assert current_task() is None


def test_coroutines_side_by_side_know_their_own() -> None:
    """On the caller's loop of an AsyncEngine."""
    seen: dict[str, str] = {}
    workers = Workers()
    together = asyncio.Barrier(3)

    @workers.task("t")
    async def t(context: TaskContext) -> None:
        await together.wait()
        task = current_task()
        assert task is not None
        seen[context.workflow_id] = task.workflow_id

    async def live() -> None:
        async with AsyncEngine(workers=workers) as engine:
            runs = [await engine.start(flow(simple("t")), workflow_id=str(number)) for number in range(3)]
            for run in runs:
                await run.result(timeout="20s")

    asyncio.run(live())
    assert seen == {"0": "0", "1": "1", "2": "2"}


def test_a_thread_of_its_own_knows_nothing() -> None:
    """It inherits no context; what the function hands it does."""
    workers = Workers()
    seen: list[Any] = []

    @workers.task
    def t() -> None:
        thread = threading.Thread(target=lambda: seen.append(current_task()))
        thread.start()
        thread.join(20)

    with Engine(workers=workers, clock=VirtualClock()) as engine:
        engine.start(flow(simple("t"))).result()
    assert seen == [None]


# -- lines in the task's own log -----------------------------------------------------------------------------


@pytest.fixture
def kept() -> Iterator[logging.Logger]:
    """A logger of the user's whose records are kept with the task."""
    handler = TaskLogHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("users.kept")
    logger.addHandler(handler)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)


@pytest.mark.parametrize("clock", [VirtualClock, SystemClock])
@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_lines_are_kept_with_their_attempt(kept: logging.Logger, kind: str, clock: Any, tmp_path: Path) -> None:
    """Of a call that failed and of one that did not, in order, in the store, on the page; none of a record made elsewhere."""
    workers = Workers()

    def log(attempt: int) -> None:
        kept.warning("attempt %s <b>", attempt)
        kept.warning("the end")
        if not attempt:
            raise ValueError("again")

    if kind == "function":

        @workers.task("t", retry_delay_seconds=0)
        def t(context: TaskContext) -> None:
            log(context.attempt)
    else:

        @workers.task("t", retry_delay_seconds=0)
        async def t_async(context: TaskContext) -> None:
            await asyncio.to_thread(log, context.attempt)

    with Engine(tmp_path / "log.db", workers=workers, clock=clock()) as engine:
        kept.warning("outside")
        run = engine.start(flow(simple("t")), workflow_id="one")
        run.result(timeout="20s")
        found = [[line.text for line in engine.tasks.logs(task.task_id)] for task in run.tasks]
        assert found == [["WARNING attempt 0 <b>", "WARNING the end"], ["WARNING attempt 1 <b>", "WARNING the end"]]
        assert "WARNING attempt 1 &lt;b&gt;" in run.page()


def test_lines_of_a_long_call_are_there_meanwhile(kept: logging.Logger) -> None:
    """They are stored while the function runs, once, and what it says last comes with its report."""
    workers, seen = Workers(), threading.Event()

    @workers.task("t")
    def t() -> None:
        kept.warning("begun")
        assert seen.wait(20)
        kept.warning("ended")

    with Engine(workers=workers) as engine:
        run = engine.start(flow(simple("t")), workflow_id="one")
        driver = threading.Thread(target=engine.run_until_idle)
        driver.start()
        waiter = threading.Event()
        while not (run.tasks and engine.tasks.logs(run.tasks[0].task_id)):
            waiter.wait(0.01)
        assert run.status.value == "RUNNING"
        seen.set()
        driver.join(20)
        assert [line.text for line in engine.tasks.logs(run.tasks[0].task_id)] == ["WARNING begun", "WARNING ended"]


def test_lines_are_bounded(kept: logging.Logger) -> None:
    """Of very many the first, with a line that says so, and a long one is cut."""
    workers = Workers()

    @workers.task("t")
    def t() -> None:
        kept.warning("x" * 1_000_000)
        for number in range(5_000):
            kept.warning("%s", number)

    with Engine(workers=workers, clock=VirtualClock()) as engine:
        run = engine.start(flow(simple("t")), workflow_id="one")
        run.result()
        found = [line.text for line in engine.tasks.logs(run.tasks[0].task_id)]
    assert len(found[0]) < 100_000
    assert (found[999], found[1_000].startswith("… more than 1000 lines"), len(found)) == ("WARNING 998", True, 1_001)
