"""A project that uses every public name of the root and of `conductorlite.flows`: only read by type checkers, never run.

`test_types.py` has mypy and pyright read it, and looks that no name is missing. What is revealed is pinned there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, assert_type, reveal_type

import conductorlite
from conductorlite import (
    AsyncEngine,
    AsyncRun,
    Barriers,
    Bounds,
    Clock,
    ConductorliteError,
    CronSchedule,
    Engine,
    EngineConfig,
    EnvironmentSecrets,
    EventAction,
    EventHandler,
    Explanation,
    HistoryEvent,
    IdempotencyStrategy,
    InvalidDefinition,
    OverlapPolicy,
    Problem,
    RateLimitConfig,
    RateLimitPolicy,
    ResultTimeout,
    RetryLogic,
    Run,
    SchemaDef,
    Semantics,
    StartWorkflowRequest,
    SubWorkflowParams,
    SystemClock,
    Task,
    TaskContext,
    TaskDef,
    TaskFailedTerminally,
    TaskLog,
    TaskLogFilter,
    TaskLogHandler,
    TaskResult,
    TaskStatus,
    TaskType,
    TimeoutPolicy,
    Transaction,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowDef,
    WorkflowFailed,
    WorkflowSchedule,
    WorkflowStatus,
    WorkflowTask,
    WorkflowTimeoutPolicy,
    current_task,
    diff,
    flow,
    mermaid,
    task,
    validate,
    validate_event_handler,
    validate_task_def,
)
from conductorlite.flows import (
    Attempt,
    Backoff,
    Flow,
    Loop,
    Match,
    Parallel,
    TaskFunction,
    as_is,
    attempt,
    converter,
    each,
    emit,
    event,
    human,
    inline,
    join,
    match,
    node,
    now,
    otherwise,
    over,
    parallel,
    reason,
    receive,
    repeat,
    set_variables,
    start,
    status,
    sub,
    terminate,
    to_python,
    variable,
    wait,
    when,
)


@task(retry=Backoff(3, first="1s"), timeout="30s", on_timeout=TimeoutPolicy.RETRY, check=True)
def quote(room: int, context: TaskContext = TaskContext.given) -> float:
    """With the context, which a flow does not give."""
    held = current_task()
    context.log(f"{context.attempt} {held.ref if held is not None else ''}")
    if room < 0:
        raise TaskFailedTerminally("no such room")
    return room * 1.5


@contextmanager
def timed(context: TaskContext) -> Iterator[None]:
    """Around every worker function."""
    yield
    print(context.ref)


def named(request: StartWorkflowRequest) -> StartWorkflowRequest:
    """Before every start."""
    return request


@task
def book(room: int, tx: Transaction = Transaction.given) -> str:
    """With rows of its own, and another execution."""
    names: list[tuple[object, ...]] = tx.execute("SELECT name FROM app_rooms WHERE id = ?", (room,))
    assert_type(tx.engine.start(stay, rooms=[room]), Run[list[float]])
    return f"{names}"


@task
def release(name: str) -> None:
    """Undoes `book`."""


@task
async def notify(text: str) -> None:
    """A coroutine."""
    await asyncio.sleep(0)


@flow(check=True)
def stay(rooms: list[int]) -> list[float]:
    """Every form once."""
    assert_type(book.options(undo=release)(rooms[0]), str)
    prices = each(rooms, quote)
    assert_type(prices, list[float])
    first, second = parallel(quote(1), book(2))
    assert_type((first, second), tuple[float, str])
    fork = parallel()
    assert_type(fork, Parallel)
    with fork as both, both.branch():
        notify("x")
    with when(first > 3), attempt() as tried:
        assert_type(tried, Attempt)
        notify("y")
    with otherwise():
        terminate("FAILED", "too cheap")
    with repeat(3) as loop:
        assert_type(loop, Loop)
        notify("z")
    with over(rooms) as room:
        assert_type(room, int)
        quote.options(name="again")(room)
    kind = match(status(first))
    assert_type(kind, Match)
    with kind.case("COMPLETED"):
        set_variables(total=variable("total"), why=reason(second), odd=as_is("${workflow.input.x}"))
    wait("1 day")
    human("approval", dict, assignee="Ada")
    assert_type(receive("news", str, timeout="1 hour"), str)
    sub("other", x=1)
    start("other", x=1)
    event("kafka:orders", id=1)
    emit({"seen": 1}, "news")
    inline("$.a + 1", a=now(1))
    join(first)
    node(WorkflowTask(name="n", task_reference_name="n", type=TaskType.NOOP))
    return prices


flows: list[Flow[..., list[float]]] = [stay]


def listener(workflow: Workflow, history: Sequence[HistoryEvent], /) -> None:
    """Hears of commits."""
    assert_type([one.status for one in workflow.tasks], list[TaskStatus])
    print(history)


def hooks() -> None:
    """How a class of one's own is carried."""
    converter().register_unstructure_hook(Path, str)


def program(path: Path) -> None:
    """An engine, all day."""
    clock: Clock = VirtualClock() if path.suffix else SystemClock()
    bounds = Bounds(barriers=Barriers())
    workers = Workers(concurrency=3).include(stay)
    secrets = EnvironmentSecrets("APP_")
    config = EngineConfig(semantics=Semantics.ORKES, bounds=bounds, start_interceptors=[named], task_interceptors=[timed])
    with Engine(path, workers=workers, clock=clock, secrets=secrets, config=config) as engine:
        engine.listen(listener)
        run = engine.start(stay.options(idempotency_strategy=IdempotencyStrategy.RETURN_EXISTING), rooms=[1])
        reveal_type(run.result())
        assert_type(engine.start_and_wait(stay, rooms=[1]), list[float])
        assert_type(engine.start_and_wait(stay.definition, {"a": 1}, timeout="5s", idempotency_key="k"), dict[str, Any])
        assert_type(engine.run_task(quote, 1, idempotency_key="k"), Run[float])
        assert_type(quote.start(engine, room=1), Run[float])
        assert_type(quote.map(engine, [1, 2], priority=3).result(), list[float])
        explanation: Explanation = run.explain()
        tasks: Sequence[Task] = run.tasks
        logs: Sequence[TaskLog] = engine.tasks.logs(tasks[0].task_id)
        print(explanation, logs, run.status is WorkflowStatus.COMPLETED)
        done = TaskResult(workflow_id=run.workflow_id, task_id=tasks[0].task_id, status=TaskStatus.COMPLETED)
        with engine.transaction() as tx:
            assert_type(tx, Transaction)
            engine.update_task(done)
        assert_type(engine.in_transaction(lambda tx: tx.executemany("INSERT INTO app_t VALUES (?)", [(1,)]).rowcount), int)
        try:
            run.result("5s")
        except (ResultTimeout, WorkflowFailed, ConductorliteError) as error:
            print(error)


def definitions() -> None:
    """What is written by hand."""
    step = WorkflowTask(name="a", task_reference_name="a", sub_workflow_param=SubWorkflowParams(name="b"))
    limit = RateLimitConfig(rate_limit_key="k", concurrent_exec_limit=1, policy=RateLimitPolicy.QUEUE)
    written = WorkflowDef(
        name="w",
        tasks=[step],
        timeout_policy=WorkflowTimeoutPolicy.TIME_OUT_WF,
        input_schema=SchemaDef(name="s"),
        rate_limit_config=limit,
    )
    kept = TaskDef(name="a", retry_logic=RetryLogic.EXPONENTIAL_BACKOFF)
    handler = EventHandler(name="h", event="e", actions=[EventAction(action="start_workflow")])
    schedule = WorkflowSchedule(
        name="s",
        cron_schedules=[CronSchedule(cron_expression="0 0 * * * *")],
        start_workflow_request=StartWorkflowRequest(name="w"),
        overlap_policy=OverlapPolicy.SKIP,
    )
    problems: list[Problem] = [*validate(written), *validate_task_def(kept), *validate_event_handler(handler)]
    try:
        print(mermaid(written), diff(written, stay.definition), to_python(written), schedule, problems)
    except InvalidDefinition:
        logging.getLogger().addHandler(TaskLogHandler())
        logging.getLogger().handlers[0].addFilter(TaskLogFilter())


async def awaited(engine: AsyncEngine) -> None:
    """The same, awaited."""
    run: AsyncRun[list[float]] = await engine.start(stay, rooms=[1])
    reveal_type(await run.result())
    assert_type(await engine.start_and_wait(stay, rooms=[1]), list[float])
    assert_type(await engine.run_task(quote, 1), AsyncRun[float])
    assert_type(await quote.start(engine, room=1), AsyncRun[float])
    assert_type(await (await quote.map(engine, [1, 2])).result(), list[float])
    assert_type(await engine.in_transaction(lambda tx: tx.engine.start(stay, rooms=[2]).workflow_id), str)


functions: list[TaskFunction[[int], float]] = []
version: str = conductorlite.__version__
