"""Whatever a function raises, returns, logs or reports: nothing gets out of the driver, and what may be retried is."""

from __future__ import annotations

import asyncio
import collections
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from conductorlite import (
    Engine,
    SystemClock,
    Task,
    TaskContext,
    TaskFailedTerminally,
    TaskResult,
    TaskStatus,
    VirtualClock,
    Workers,
    WorkflowDef,
    WorkflowTask,
)
from conductorlite.errors import InvalidInput
from conductorlite.store.sqlite.backend import SQLiteBackend

#: More than a document may hold.
HUGE = 17_000_000


class RaisingText(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError("no text")

    __repr__ = __str__


class ExitingText(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value] # noqa: PLE0307


class Own(BaseException):
    """Neither an Exception nor one of Python's own."""


class OddNotes(Exception):
    __notes__ = types.MappingProxyType({})  # type: ignore[assignment]


class OddSyntax(SyntaxError):
    @property
    def text(self) -> str:  # type: ignore[override]
        raise RuntimeError("no text")

    lineno = 1
    filename = "x"
    msg = "bad"


class Meta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class OddType(Exception, metaclass=Meta):
    pass


class HugeText(str):
    def __len__(self) -> int:
        return 1

    def __str__(self) -> str:
        raise RuntimeError("no text")


def chained() -> Exception:
    first = error = ValueError("0")
    for number in range(300):
        error.__cause__ = ValueError(str(number))
        error = error.__cause__
    error.__cause__ = first
    return first


def deep(levels: int = 5_000) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def endless() -> None:
    endless()


def thrown(error: BaseException) -> Callable[[], Any]:
    def function() -> Any:
        raise error

    return function


def nested() -> Exception:
    error: Exception = ValueError("x")
    for _ in range(200):
        error = ExceptionGroup("g", [error])
    return error


RAISED: dict[str, Callable[[], Any]] = {
    "huge message": lambda: thrown(ValueError("x" * HUGE))(),
    "str subclass": lambda: thrown(ValueError(HugeText("x" * 20_000)))(),
    "raising text": thrown(RaisingText()),
    "exiting text": thrown(ExitingText()),
    "no text": thrown(NoText()),
    "surrogate": thrown(ValueError("a\ud800b")),
    "NUL": thrown(ValueError("a\0b")),
    "exit": thrown(SystemExit(3)),
    "generator exit": thrown(GeneratorExit()),
    "own": thrown(Own("own")),
    "cancelled": thrown(asyncio.CancelledError("cancelled")),
    "memory": thrown(MemoryError()),
    "stop iteration": thrown(StopIteration(5)),
    "recursion": endless,
    "group": thrown(ExceptionGroup("g", [ValueError(str(n)) for n in range(200)])),
    "base group": thrown(BaseExceptionGroup("g", [Own("x"), RaisingText()])),
    "deep group": thrown(nested()),
    "cycle of causes": lambda: thrown(chained())(),
    "odd notes": thrown(OddNotes("x")),
    "odd syntax": thrown(OddSyntax("x")),
    "odd type": thrown(OddType("x")),
}


class RaisingDict(dict[str, Any]):
    def items(self) -> Any:
        raise ZeroDivisionError("no items")

    keys = values = __iter__ = __len__ = get = items  # type: ignore[assignment]


class ExitingDict(dict[str, Any]):
    def items(self) -> Any:
        raise SystemExit(3)


class FickleDict(dict[str, Any]):
    """Gives something else whenever it is asked."""

    asked = 0

    def items(self) -> Any:
        self.asked += 1
        return {"a": self.asked}.items()


class RaisingClass:
    @property
    def __class__(self) -> Any:
        raise ZeroDivisionError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Model:
    def model_dump(self, **_: Any) -> Any:
        raise Own("no dump")


@attrs.define
class Record:
    """A record in itself."""

    inner: Any = None


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def cyclic_record() -> Record:
    value = Record()
    value.inner = value
    return value


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> int:
    return 1


#: What cannot be an output, or not as it is: refused for good with a text, since trying again would not mend it.
RETURNED: dict[str, Callable[[], Any]] = {
    "raising dict": lambda: RaisingDict(a=1),
    "exiting dict": lambda: ExitingDict(a=1),
    "within": lambda: {"x": [RaisingDict(a=1)]},
    "raising class": RaisingClass,
    "model": Model,
    "surrogate": lambda: {"x": "a\ud800"},
    "surrogate key": lambda: {"\ud800": 1},
    "huge": lambda: {"x": "x" * HUGE},
    "huge str subclass": lambda: {"x": HugeText("x" * HUGE)},
    "huge number": lambda: {"x": 10**5_000},
    "deep": deep,
    "cyclic": cyclic,
    "cyclic record": cyclic_record,
    "generator": generator,
    "coroutine": coroutine,
    "object": object,
    "odd key": lambda: {(1, 2): 3},
    "two keys of one text": lambda: {1: 2, "1": 3},
    "cyclic record within": lambda: {"x": [cyclic_record()]},
}

KEPT: dict[str, tuple[Callable[[], Any], Any]] = {
    "fickle dict": (lambda: FickleDict(a=1), {"a": 2}),
    "NUL": (lambda: {"x": "a\0b"}, {"x": "a\0b"}),
    "ordered": (lambda: collections.OrderedDict(a=1), {"a": 1}),
    "user dict": (lambda: {"x": collections.UserDict({1: 2})}, {"x": {"1": 2}}),
    "NaN": (lambda: {"x": float("nan")}, {"x": "NaN"}),
    "bytes": (lambda: b"x", {"result": "eA=="}),
    "keys that are numbers": (lambda: {1: 2, 1.5: 3, False: 4}, {"1": 2, "1.5": 3, "false": 4}),
}


def result(context: TaskContext, **fields: Any) -> TaskResult:
    task = context.task
    return TaskResult(**{"workflow_id": task.workflow_id, "task_id": task.task_id, "status": TaskStatus.COMPLETED, **fields})


@pytest.fixture(params=["inline", "inline on SQLite", "thread", "coroutine"])
def way(request: pytest.FixtureRequest) -> str:
    """Where a function runs."""
    return str(request.param)


Case = Callable[[TaskContext], Any]


def carried_out(way: str, cases: Mapping[str, Case], tmp_path: Path) -> dict[str, list[Task]]:
    """The attempts of one task per case, whose first attempt is the case's function; the second returns nothing.

    All in one engine, so that nothing that one does may reach the others.
    """
    workers = Workers(drain="0s")

    def first(context: TaskContext) -> Any:
        return cases[context.input["case"]](context) if not context.attempt else {}

    async def awaited(context: TaskContext) -> Any:
        return first(context)

    workers.task("t", retry_count=1, retry_delay_seconds=0)(awaited if "coroutine" in way else first)
    clock = VirtualClock() if "inline" in way else SystemClock()
    task = WorkflowTask(name="t", task_reference_name="t", input_parameters={"case": "${workflow.input.case}"})
    store = SQLiteBackend(tmp_path / "x.db", synchronous="NORMAL") if "SQLite" in way else None
    with Engine(store, workers=workers, clock=clock) as engine:
        runs = {case: engine.start(WorkflowDef(name="w", tasks=[task]), {"case": case}) for case in cases}
        assert engine.run_until_idle(timeout="60s")
        assert engine.admin.check() == []
        found = {case: list(run.workflow.tasks) for case, run in runs.items()}
        for case, tasks in found.items():
            for one in tasks:
                lines = [line.text for line in engine.tasks.logs(one.task_id)]
                assert len(one.reason or "") <= 500, case
                assert len(one.traceback or "") <= 20_000, case
                assert all(len(line) <= 10_000 for line in lines), case
                assert len(lines) <= 1_001, case
                for text in (one.reason or "", one.traceback or "", *lines):
                    assert "\0" not in text, case
                    text.encode()
        return found


def of_each(cases: Mapping[str, Callable[[], Any]]) -> dict[str, Case]:
    return {name: lambda context, make=make: make() for name, make in cases.items()}  # type: ignore[misc]


def test_what_is_raised_is_retried(way: str, tmp_path: Path) -> None:
    """With a reason and a traceback of bounded length, and the next attempt completes."""
    for case, tasks in carried_out(way, of_each(RAISED), tmp_path).items():
        assert [task.status.value for task in tasks] == ["FAILED", "COMPLETED"], case
        assert tasks[0].reason, case
        assert tasks[0].traceback, case


def test_what_is_no_output_is_refused(way: str, tmp_path: Path) -> None:
    """For good, with a text that names the task."""
    for case, tasks in carried_out(way, of_each(RETURNED), tmp_path).items():
        assert [task.status.value for task in tasks] == ["FAILED_WITH_TERMINAL_ERROR"], case
        assert (tasks[0].reason or "").startswith("task 't' returned "), case


def test_what_can_be_kept_is(way: str, tmp_path: Path) -> None:
    """As it was when it was returned, whatever becomes of the value later."""
    shared: dict[str, Any] = {"n": 1}
    cases = {**of_each({case: make for case, (make, _) in KEPT.items()}), "shared": lambda context: shared}
    found = carried_out(way, cases, tmp_path)
    shared["n"] = object()
    kept = {case: value for case, (_, value) in KEPT.items()} | {"shared": {"n": 1}}
    assert {case: [task.output_data for task in tasks] for case, tasks in found.items()} == {
        case: [value] for case, value in kept.items()
    }


FIELDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "status": ({"status": "DONE"}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "no status": ({"status": None}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "unhashable status": ({"status": []}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "long status": ({"status": "x" * 20_000}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "text of a status": ({"status": "COMPLETED"}, ["COMPLETED"]),
    "output": ({"output_data": RaisingDict(a=1)}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "no output": ({"output_data": None}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "output of a failure": ({"status": "FAILED", "output_data": {"x": object()}, "reason": "why"}, ["FAILED", "COMPLETED"]),
    "output of progress": ({"status": "IN_PROGRESS", "output_data": {"x": object()}}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "callback": ({"status": "IN_PROGRESS", "callback_after_ms": float("nan")}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "callback before": ({"status": "IN_PROGRESS", "callback_after_ms": -1}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "callback never": ({"status": "IN_PROGRESS", "callback_after_ms": 2**70}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "reason": ({"status": "FAILED", "reason": 5}, ["FAILED", "COMPLETED"]),
    "long reason": ({"status": "FAILED", "reason": "x" * 20_000}, ["FAILED", "COMPLETED"]),
    "odd reason": ({"status": "FAILED", "reason": "\ud800\0"}, ["FAILED", "COMPLETED"]),
    "raising reason": ({"status": "FAILED", "reason": RaisingText()}, ["FAILED", "COMPLETED"]),
    "huge traceback": ({"status": "FAILED", "traceback": "x" * HUGE}, ["FAILED", "COMPLETED"]),
    "odd traceback": ({"status": "FAILED", "traceback": ["\ud800"]}, ["FAILED", "COMPLETED"]),
    "worker": ({"worker_id": "\ud800" * 20_000}, ["COMPLETED"]),
    "other task": ({"workflow_id": None, "task_id": object(), "lease": "no"}, ["COMPLETED"]),
    "lines": ({"logs": ["x" * HUGE, "\ud800\0", 5, RaisingText(), HugeText("y")]}, ["COMPLETED"]),
    "many lines": ({"logs": ["x"] * 5_000}, ["COMPLETED"]),
    "one line": ({"logs": "a line"}, ["COMPLETED"]),
    "no lines": ({"logs": None}, ["COMPLETED"]),
    "odd lines": ({"logs": 5}, ["FAILED_WITH_TERMINAL_ERROR"]),
    "raising lines": ({"logs": RaisingDict(a=1)}, ["FAILED_WITH_TERMINAL_ERROR"]),
}


def test_a_report_of_its_own(way: str, tmp_path: Path) -> None:
    """Each field of a TaskResult that a function returns: cut, or refused with a text; a failure stays one that is retried."""
    cases: dict[str, Case] = {
        case: lambda context, fields=fields: result(context, **fields)  # type: ignore[misc]
        for case, (fields, _) in FIELDS.items()
    }
    for case, tasks in carried_out(way, cases, tmp_path).items():
        assert [task.status.value for task in tasks] == FIELDS[case][1], case
        assert all(task.reason for task in tasks if task.status is TaskStatus.FAILED_WITH_TERMINAL_ERROR), case


def test_a_line_of_the_log_is_no_reason_to_fail(way: str, tmp_path: Path) -> None:
    """`context.log` takes anything, and cuts it."""
    lines = ["x" * HUGE, "\ud800", "a\0b", 5, None, RaisingText(), HugeText("x" * 20_000)]
    cases: dict[str, Case] = {
        str(number): lambda context, line=line: context.log(line)  # type: ignore[misc]
        for number, line in enumerate(lines)
    }
    for case, tasks in carried_out(way, cases, tmp_path).items():
        assert [task.status.value for task in tasks] == ["COMPLETED"], case


def test_a_group_with_one_that_is_terminal_is_terminal(way: str, tmp_path: Path) -> None:
    """However deep in the group: the function has said that there is no use in trying again."""
    inner = ExceptionGroup("inner", [TaskFailedTerminally("no use")])
    cases = of_each({"group": thrown(ExceptionGroup("outer", [ValueError("x"), inner]))})
    (tasks,) = carried_out(way, cases, tmp_path).values()
    assert [task.status.value for task in tasks] == ["FAILED_WITH_TERMINAL_ERROR"]


def test_ctrl_c_in_a_function_that_runs_inline_is_the_users() -> None:
    """KeyboardInterrupt reaches whoever drives, and the attempt is not reported on."""
    workers = Workers()
    workers.task("t")(thrown(KeyboardInterrupt()))
    with Engine(workers=workers, clock=VirtualClock()) as engine:
        run = engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t")]))
        with pytest.raises(KeyboardInterrupt):
            engine.settle()
        task = run.workflow.tasks[0]
        assert (task.status, task.attempt, task.deaths) == (TaskStatus.SCHEDULED, 0, 0), "nobody works at it any more"


@pytest.mark.parametrize("field", [name for name, (_, statuses) in FIELDS.items() if "TERMINAL" in statuses[0]])
def test_the_same_report_from_outside_is_refused(field: str) -> None:
    """`update_task` raises InvalidInput, and nothing is changed."""
    with Engine(clock=VirtualClock()) as engine:
        engine.start(WorkflowDef(name="w", tasks=[WorkflowTask(name="t", task_reference_name="t")]))
        (task,) = engine.poll("t")
        report = attrs.evolve(
            TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED), **FIELDS[field][0]
        )
        with pytest.raises(InvalidInput):
            engine.update_task(report)
        assert engine.tasks.get(task.task_id).status is TaskStatus.IN_PROGRESS
