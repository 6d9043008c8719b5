"""What crosses to another process by pickle, and is copied: every error, every value, tasks and flows; handles say what to send."""

from __future__ import annotations

import ast
import concurrent.futures
import copy
import functools
import importlib
import multiprocessing
import pickle
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import conductorlite
from conductorlite import (
    AsyncEngine,
    Engine,
    Explanation,
    ResultTimeout,
    Run,
    Task,
    TaskContext,
    TaskDef,
    VirtualClock,
    Workers,
    Workflow,
    WorkflowDef,
    WorkflowFailed,
    flow,
    task,
    validate,
)
from conductorlite.errors import (
    AlreadyExists,
    ConductorliteError,
    ConductorServerError,
    ExecutionArchived,
    FencedOut,
    InvalidDefinition,
    InvalidQuery,
    KeyTaken,
    MissingCapability,
    MissingExtra,
    PayloadLost,
    ReplayDiverged,
    StorageCorrupt,
    TaskFailedTerminally,
)
from conductorlite.ext.cassandra.limits import Undelivered
from conductorlite.language.expressions.expression import ExpressionRaised
from conductorlite.language.expressions.grammar import ExpressionRefused
from conductorlite.language.python import PythonRaised, PythonRefused
from conductorlite.model.documents import workflow_to_json
from conductorlite.model.errors import Problem
from conductorlite.testing import ExplorationFailed, Explored, SimulationFailed

ONE = WorkflowDef.from_json(
    {
        "name": "one",
        "tasks": [
            {"name": "divide", "taskReferenceName": "t", "inputParameters": {"by": "${workflow.input.by}"}},
            {"name": "nobody", "taskReferenceName": "n"},
        ],
    }
)

workers = Workers()


@workers.task(retry_count=0)
def divide(by: int) -> dict[str, float]:
    """A function that `Workers.task` leaves as it is."""
    return {"half": 1 / by}


def _loudly(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return called


@workers.task("loud")
@_loudly
def loud() -> None:
    """A function with a decorator of the application's own."""


@task(retry=0)
def greet(name: str) -> str:
    """A function that is replaced by what the decorator makes."""
    return f"Hello, {name}"


@flow
def greeting(name: str) -> str:
    """A flow."""
    return greet(name)


def _plainly() -> str:
    return "plainly"


PLAINLY = task("plainly")(_plainly)


class Strict(TaskFailedTerminally):
    """An error of an application, whose `__init__` takes something else than a text."""

    def __init__(self, code: int, *, source: str) -> None:
        super().__init__(f"{source} answered {code}")
        self.code, self.source = code, source


def _engine() -> Engine:
    return Engine(workers=workers, clock=VirtualClock(0))


def _failed() -> WorkflowFailed:
    with _engine() as engine, pytest.raises(WorkflowFailed) as caught:
        engine.start(ONE, {"by": 0}).result()
    return caught.value


def _late() -> ResultTimeout:
    with _engine() as engine, pytest.raises(ResultTimeout) as caught:
        engine.start(ONE, {"by": 1}).result("5s")
    return caught.value


def _of(error: BaseException, *notes: str, cause: BaseException | None = None) -> BaseException:
    for note in notes:
        error.add_note(note)
    error.__cause__ = cause
    return error


#: One of each class with an `__init__` of its own.
SAMPLES: dict[type[BaseException], Callable[[], BaseException]] = {
    ConductorServerError: lambda: ConductorServerError(503, "away"),
    ExecutionArchived: lambda: ExecutionArchived("w-1"),
    ExplorationFailed: lambda: ExplorationFailed(
        Explored(schedules=2, moments=9, exhausted=True, unreached=("a",), longest_ms=None, most_calls=3)
    ),
    ExpressionRaised: lambda: ExpressionRaised(("builtins.KeyError", "builtins.LookupError"), "'x'"),
    ExpressionRefused: lambda: ExpressionRefused(ast.parse("x + y").body[0], "odd", "write z"),
    FencedOut: lambda: FencedOut("another turn", stored=frozenset({"w-1"})),
    InvalidDefinition: lambda: InvalidDefinition([Problem(path="$.tasks[0]", message="odd"), Problem(path="$", message="empty")]),
    InvalidQuery: lambda: InvalidQuery("odd", 7),
    KeyTaken: lambda: KeyTaken("w-1", "the key is taken"),
    MissingCapability: lambda: MissingCapability("transactions", "there are none"),
    MissingExtra: lambda: MissingExtra("jq", "jq_transform"),
    PayloadLost: lambda: PayloadLost("abc", "is not there"),
    PythonRaised: lambda: PythonRaised("by zero", 3),
    ReplayDiverged: lambda: ReplayDiverged("w-1", "a line", None),
    ResultTimeout: _late,
    SimulationFailed: lambda: SimulationFailed(7, "broken", [1, 2], ["start", "poll"]),
    Undelivered: lambda: Undelivered(["w-1"]),
    WorkflowFailed: _failed,
}


def _exceptions() -> list[type[BaseException]]:
    """Every exception class of the package that leaves its module: those without an underscore."""
    found: dict[str, type[BaseException]] = {}
    for module in pkgutil.walk_packages(conductorlite.__path__, "conductorlite."):
        if not module.name.endswith((".__main__", ".language.child")):
            for name, kind in vars(importlib.import_module(module.name)).items():
                if isinstance(kind, type) and issubclass(kind, ConductorliteError | AssertionError) and kind.__name__ == name:
                    found |= {f"{kind.__module__}.{name}": kind} if kind.__module__.startswith("conductorlite") else {}
    return [found[name] for name in sorted(found)]


def _sample(kind: type[BaseException]) -> BaseException:
    for base in kind.__mro__:
        if "__init__" in base.__dict__ and base.__module__.startswith("conductorlite"):
            made = SAMPLES[base]()
            made.__class__ = kind
            return made
    return kind("a text")


WAYS: dict[str, Callable[[Any], Any]] = {
    **{f"pickle {number}": lambda thing, n=number: pickle.loads(pickle.dumps(thing, n)) for number in (2, pickle.HIGHEST_PROTOCOL)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def _same_error(other: BaseException, error: BaseException) -> None:
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert other.args == error.args
    assert vars(other) == vars(error)
    assert repr(other) == repr(error)
    if isinstance(error, ImportError):
        assert (other.msg, other.name, other.path) == (error.msg, error.name, error.path)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", _exceptions(), ids=lambda kind: kind.__name__)
def test_every_error_crosses(kind: type[BaseException]) -> None:
    """With its text, its fields and its notes, once and again."""
    error = _of(_sample(kind), "seen at noon")
    for way in WAYS.values():
        _same_error(way(error), error)
        _same_error(way(way(error)), error)


def test_errors_of_applications_cross() -> None:
    """Whatever their `__init__` takes."""
    error = Strict(404, source="the bank")
    for way in WAYS.values():
        _same_error(way(error), error)


def test_causes_cross_where_every_process_can_read_them() -> None:
    """Ours, and Python's own; one of another kind is left out, as Python leaves out all of them."""

    class Local(Exception):
        """A class that no other process knows."""

    ours = _of(StorageCorrupt("damaged"), cause=_of(InvalidQuery("odd", 7), cause=ValueError("raw")))
    for way in WAYS.values():
        other = way(ours)
        _same_error(other.__cause__, ours.__cause__)  # type: ignore[arg-type]
        assert repr(other.__cause__.__cause__) == "ValueError('raw')"
        for foreign in (Local("unknown"), ValueError(object())):
            assert way(_of(KeyTaken("w", "taken"), cause=foreign)).__cause__ is None


def test_values_cross() -> None:
    """What verbs return is equal to what it was."""
    with _engine() as engine:
        run = engine.start(ONE, {"by": 2})
        engine.run_until_idle(timeout="1s")
        values: list[Any] = [
            ONE, TaskDef(name="x"), run.workflow, run.tasks, run.history(), run.explain(), run.progress(), engine.search(),
            engine.poll("nobody"), validate(ONE), engine.admin.agenda(), run.status, conductorlite.diff(ONE, ONE),
        ]  # fmt: skip
        assert any(isinstance(value, Workflow | Explanation) for value in values)
    for value in values:
        for way in WAYS.values():
            assert way(value) == value


def test_tasks_and_flows_cross_by_name() -> None:
    """The same object in the process that has imported its module; one with options has those."""
    for one in (greet, greeting):
        for way in WAYS.values():
            assert way(one) is one
    for way in WAYS.values():
        named = way(greeting.options(workflow_id="g-1"))
        called = way(greet.options(name="hello", undo=greet))
        again = way(PLAINLY)
        with Engine(workers=[way(greeting), greet, again], clock=VirtualClock(0)) as engine:
            assert engine.start(named, "Ada").result() == "Hello, Ada"
            assert engine.status("g-1").terminal
        assert called._options.name == "hello"
        assert called._options.undo is greet
        assert again() == "plainly"


def test_workers_cross_by_the_names_of_their_functions() -> None:
    """Also those below a decorator; with the original ones they are the same workers."""
    of_all = Workers(concurrency=3).include(workers, greet, greeting)
    for way in WAYS.values():
        other = way(of_all)
        assert list(other) == list(of_all)
        assert other.concurrency == 3
        with Engine(workers=other.include(workers, greet), clock=VirtualClock(0)) as engine:
            assert engine.start(greeting, "Ada").result() == "Hello, Ada"


def test_functions_without_a_name_are_refused() -> None:
    """They can be copied; another process cannot find them."""
    own = Workers()
    own.add("t", lambda: None)

    @task
    def inner() -> None:
        """A task of a function."""

    @flow
    def around() -> None:
        inner()

    for one, text in (
        (own, "the worker for 't' cannot be sent"),
        (inner, "<task inner> cannot be"),
        (around, "<flow around> cannot"),
    ):
        with pytest.raises(TypeError, match=text):
            pickle.dumps(one)
    assert list(copy.deepcopy(own)) == list(own)
    assert copy.copy(inner) is inner
    assert copy.deepcopy(around) is around


def test_handles_say_what_to_send_instead() -> None:
    """An engine, its nouns and handles are refused by pickle, each with a sentence; a copy of one is the same."""
    contexts: list[TaskContext] = []
    own = Workers()

    @own.task("divide")
    def note(context: TaskContext) -> None:
        contexts.append(context)

    with Engine(workers=own, clock=VirtualClock(0)) as engine:
        run = engine.start(ONE, {"by": 1}, workflow_id="w-1")
        engine.tick()
        engine.tick()
        aio = AsyncEngine()
        handles: list[tuple[Any, str]] = [
            (run, r"call `run\(workflow_id\)` of an engine on"), (engine, "same store"), (engine.admin, "same store"),
            (aio, "same store"), (aio.schedules, "same store"), (contexts[0], "idempotency_key"),
        ]  # fmt: skip
        for handle, text in handles:
            with pytest.raises(TypeError, match=f"{type(handle).__name__} cannot be sent to another process: .*{text}"):
                pickle.dumps(handle)
            assert copy.copy(handle) is handle
            assert copy.deepcopy([handle])[0] is handle
        aio._engine.close()


def fail() -> None:
    """Fail as a program does that runs a workflow in a process of a pool."""
    with _engine() as engine:
        engine.start(ONE, {"by": 0}).result()


def taken(error: BaseException) -> None:
    """Raise an error that was sent here."""
    raise error


def carried_out(one: Any, of: Workers) -> Any:
    """Run a flow that was sent here."""
    with Engine(workers=of, clock=VirtualClock(0)) as engine:
        return engine.start(one, "Ada").result()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_through_a_pool_of_processes(method: str) -> None:
    """Errors come back whole, and flows are carried out there."""
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        with pytest.raises(WorkflowFailed, match="division by zero") as caught:
            pool.submit(fail).result(timeout=60)
        assert caught.value.task is not None
        assert caught.value.causes[0].address == ("one", "t")
        for error in (KeyTaken("w-1", "taken"), InvalidQuery("odd", 7), SAMPLES[InvalidDefinition]()):
            with pytest.raises(type(error)) as back:
                pool.submit(taken, error).result(timeout=60)
            assert (str(back.value), back.value.args) == (str(error), error.args)
        assert pool.submit(carried_out, greeting.options(priority=3), Workers().include(greet)).result(timeout=60) == "Hello, Ada"
    with multiprocessing.get_context(method).Pool(1) as others, pytest.raises(AlreadyExists, match="taken"):
        others.apply(taken, (KeyTaken("w-1", "taken"),))


def test_through_execnet() -> None:
    """pytest-xdist sends what is made of Python's own types: results and the JSON of executions are."""
    execnet = pytest.importorskip("execnet")
    with Engine(workers=[greet], clock=VirtualClock(0)) as engine:
        run: Run[str] = engine.start(greeting, "Ada")
        for value in (
            {"returned": run.result()},
            engine.result(run.workflow_id),
            workflow_to_json(run.workflow),
            greeting.definition.to_json(),
        ):
            assert execnet.loads(execnet.dumps(value)) == value


def test_a_task_is_equal() -> None:
    """The attempt that a failure carries is the one that was stored."""
    failed = _failed()
    other = pickle.loads(pickle.dumps(failed))
    assert isinstance(other.task, Task)
    assert other.task == failed.task
    assert other.workflow == failed.workflow


def test_the_other_errors_need_no_sample() -> None:
    """A sample stands for a class with an `__init__` of its own, and for those that inherit it."""
    assert {PythonRefused} <= set(_exceptions())
    assert all("__init__" in kind.__dict__ for kind in SAMPLES)
