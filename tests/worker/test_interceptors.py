"""What a program puts around worker functions and around starts; functions as sinks and sources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import attrs
import pytest

from conductorlite import Engine, EngineConfig, EventHandler, StartWorkflowRequest, TaskContext, VirtualClock, Workers, WorkflowDef
from conductorlite.errors import InvalidInput, TaskFailedTerminally
from conductorlite.ext.sinks import checked_sinks
from conductorlite.ext.workers import system_workers
from conductorlite.runtime.calls import current_task
from conductorlite.store.ports import EventMessage

ONE = WorkflowDef.from_json({"name": "one", "tasks": [{"name": "t", "taskReferenceName": "t"}]})


def _engine(workers: Workers, **config: Any) -> Engine:
    return Engine(workers=workers, clock=VirtualClock(0), config=EngineConfig(**config))


def _around(name: str, seen: list[str]) -> Callable[[TaskContext], Any]:
    @contextmanager
    def around(context: TaskContext) -> Iterator[None]:
        assert current_task() is context.task
        seen.append(f"{name} before {context.ref}")
        try:
            yield
        finally:
            seen.append(f"{name} after {context.ref}")

    return around


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_the_first_one_is_outermost(kind: str) -> None:
    """The engine's in their order, those of the set in theirs, the function; what returns nothing has been called before."""
    seen: list[str] = []
    workers = Workers(interceptors=[_around("own", seen)])
    if kind == "function":
        workers.task("t")(lambda: seen.append("called"))
    else:

        @workers.task("t")
        async def t() -> None:
            seen.append("called")

    each = [_around("a", seen), lambda context: seen.append(f"told of {context.ref}"), _around("b", seen)]
    with _engine(Workers().include(workers), task_interceptors=each) as engine:
        engine.start_and_wait(ONE)
    wanted = ["a before t", "told of t", "b before t", "own before t", "called", "own after t", "b after t", "a after t"]
    assert seen == wanted


@contextmanager
def _translating(_: TaskContext) -> Iterator[None]:
    try:
        yield
    except LookupError as error:
        raise TaskFailedTerminally("there is no such thing") from error


@contextmanager
def _swallowing(_: TaskContext) -> Iterator[None]:
    with suppress(LookupError):
        yield


def _refusing(_: TaskContext) -> None:
    raise PermissionError("not here")


@asynccontextmanager
async def _awaited(_: TaskContext) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("interceptor", "status", "reason"),
    [
        (_translating, "FAILED_WITH_TERMINAL_ERROR", "there is no such thing"),
        (_swallowing, "COMPLETED", None),
        (_refusing, "FAILED", "PermissionError: not here"),
        (_awaited, "FAILED", "it must be one for `with`"),
    ],
)
def test_what_an_interceptor_raises_is_the_functions(interceptor: Any, status: str, reason: str | None) -> None:
    """Before it or after it; the exception of the function may be another one, or none."""
    workers = Workers()

    @workers.task("t", retry_count=0)
    def t() -> None:
        raise KeyError("x")

    with _engine(workers, task_interceptors=[interceptor]) as engine:
        run = engine.start(ONE)
        engine.run_until_idle()
        (task,) = run.tasks
        assert (task.status, task.output_data) == (status, {})
        assert (task.reason or "").endswith(reason or "")


def _by_ada(request: StartWorkflowRequest) -> StartWorkflowRequest:
    return attrs.evolve(request, created_by="Ada", input={**request.input, "tenant": 7})


def test_starts_are_changed_timed_and_refused() -> None:
    """A request that is returned, or given by a block, is started instead; what is raised reaches the caller."""
    seen: list[str] = []

    @contextmanager
    def timed(request: StartWorkflowRequest) -> Iterator[StartWorkflowRequest]:
        seen.append(f"{request.created_by} starts {request.name} with {dict(request.input)}")
        if "forbidden" in request.input:
            raise PermissionError("not that")
        yield attrs.evolve(request, correlation_id="timed")
        seen.append("begun")

    with _engine(Workers(), start_interceptors=[_by_ada, timed]) as engine:
        row = engine.start(ONE, {"n": 1}).workflow
        assert (row.created_by, row.correlation_id, row.input_data) == ("Ada", "timed", {"n": 1, "tenant": 7})
        with pytest.raises(PermissionError):
            engine.start(ONE, {"forbidden": 1})
        with pytest.raises(PermissionError):
            engine.start_many(ONE, [{"n": 2}, {"forbidden": 1}])
        assert len(engine.executions()) == 1
        ids = engine.start_many(ONE, [{"n": 2}, {"n": 3}])
        assert [engine.get(one).input_data for one in ids] == [{"n": 2, "tenant": 7}, {"n": 3, "tenant": 7}]
    assert seen[:2] == ["Ada starts one with {'n': 1, 'tenant': 7}", "begun"]


def test_what_a_start_may_not_do() -> None:
    """Swallow why nothing was started; make another workflow of one of many."""

    @contextmanager
    def swallowing(_: StartWorkflowRequest) -> Iterator[None]:
        with suppress(InvalidInput):
            yield

    with _engine(Workers(), start_interceptors=[swallowing]) as engine:
        for start in (lambda: engine.start(ONE, priority=100), lambda: engine.start_many(ONE, [{"a": object()}])):
            with pytest.raises(InvalidInput, match="swallowed"):
                start()
    with _engine(Workers(), start_interceptors=[lambda request: attrs.evolve(request, name="other")]) as engine:
        with pytest.raises(InvalidInput, match=r"inputs\[0\]: an interceptor has made 'other' of 'one'"):
            engine.start_many(ONE, [{}])
        assert engine.executions() == []
    for wrong in (_coroutine, 5):
        for made in (lambda: EngineConfig(start_interceptors=[wrong]), lambda: Workers(interceptors=[wrong])):  # noqa: B023
            with pytest.raises(InvalidInput, match="an interceptor is a function"):
                made()


# ---------------------------------------------------------------------- functions as sinks and sources

NOTIFY = {"name": "n", "taskReferenceName": "n", "type": "EVENT", "sink": "chat:team", "inputParameters": {"text": "hello"}}


def test_a_function_is_a_sink() -> None:
    """It is called with what it names; what it raises fails the task."""
    said: list[tuple[str, str]] = []

    def tell(destination: str, payload: Any) -> None:
        said.append((destination, payload["text"]))
        if len(said) > 1:
            raise ConnectionError("nobody listens")

    with _engine(system_workers(sinks={"chat": tell})) as engine:
        notify = WorkflowDef.from_json({"name": "notify", "tasks": [NOTIFY]})
        engine.start_and_wait(notify)
        run = engine.start(notify)
        engine.run_until_idle()
        assert [task.error_type for task in run.tasks] == ["ConnectionError"]
    assert said == [("chat:team", "hello")] * 2


async def _coroutine(payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "wrong"), [(lambda text: text, "needs text"), (_coroutine, "is a coroutine function"), (5, "has no publish")]
)
def test_what_is_no_sink(function: Any, wrong: str) -> None:
    """Refused when it is given, not when the first message comes."""
    with pytest.raises(InvalidInput, match=wrong):
        checked_sinks({"chat": function})


def test_a_function_is_a_source() -> None:
    """What it gives is handled, once for each id; what it raises is waited out."""
    given = [EventMessage(event="e", payload={"n": n}, message_id=f"m{n // 2}") for n in range(4)]
    asked: list[int] = []

    def poll(limit: int) -> Iterator[EventMessage]:
        asked.append(limit)
        if len(asked) == 1:
            raise ConnectionError("no broker yet")
        while given:
            yield given.pop(0)

    action = {"action": "start_workflow", "start_workflow": {"name": "one", "input": {"n": "${n}"}}}
    with _engine(Workers(), event_sources=[poll]) as engine:
        engine.register(ONE)
        engine.events.register(EventHandler.from_json({"name": "h", "event": "e", "active": True, "actions": [action]}))
        engine.advance("5s")
        assert sorted(row.input_data["n"] for row in engine.executions()) == [0, 2]
    assert given == []
