"""Which exceptions a worker raised: kept with the attempt, searched for, archived and exported."""

from __future__ import annotations

import json

import pytest
from engine_kit import T0, Bench, flow, simple

from conductorlite import Engine, TaskFailedTerminally, VirtualClock, Workers
from conductorlite.errors import WorkflowFailed
from conductorlite.model.documents import task_to_json
from conductorlite.store.ports import Backend
from conductorlite.testing import replay

QUIET = {"retry_count": 1, "retry_delay_s": 1}

HERE = f"{__name__}."


class Refused(Exception):
    """Raised by a worker."""


def _chained() -> None:
    try:
        raise ConnectionResetError("by peer")
    except OSError as error:
        raise Refused("no") from error


def _meanwhile() -> None:
    try:
        raise KeyError("a")
    except KeyError:
        raise TaskFailedTerminally("b")  # noqa: B904  what was being handled is told too


def _hidden() -> None:
    try:
        raise KeyError("a")
    except KeyError:
        raise Refused("b") from None


def _group() -> None:
    raise ExceptionGroup("both", [ValueError("a"), ExceptionGroup("more", [Refused("b")])])


def _circle() -> None:
    error = Refused("a")
    error.__context__ = ValueError("b")
    error.__context__.__context__ = error
    raise error


def _odd() -> None:
    raise type("Odd", (Exception,), {"__module__": "x" * 1_000})


def _many() -> None:
    error: Exception = ValueError("first")
    for _ in range(100):
        error, error.__cause__ = TypeError("next"), error
    raise error


FAILURES = {
    _chained: (f"{HERE}Refused", "ConnectionResetError"),
    _meanwhile: ("conductorlite.model.errors.TaskFailedTerminally", "KeyError"),
    _hidden: (f"{HERE}Refused",),
    _group: ("ExceptionGroup", "ValueError", "ExceptionGroup", f"{HERE}Refused"),
    _circle: (f"{HERE}Refused", "ValueError"),
}


@pytest.mark.parametrize("function", FAILURES, ids=lambda one: one.__name__.strip("_"))
def test_what_was_raised_is_kept(function: object, store: Backend) -> None:
    """Outermost first, with what it came from, as a traceback names it; the next attempt has none; archived, it is the same."""
    workers = Workers()
    failures = [FAILURES[function]]  # type: ignore[index]

    @workers.task("t", retry_count=1, retry_delay_seconds=1)
    def t() -> None:
        if failures:
            failures.pop()
            function()  # type: ignore[operator]

    with Engine(store, workers=workers, clock=VirtualClock(T0)) as engine:
        run = engine.start(flow(simple("t")))
        engine.run_until_idle()
        wanted = FAILURES[function]  # type: ignore[index]
        kept = [task.error_types for task in run.tasks]
        assert kept == [wanted, ()][: len(kept)]
        assert (run.tasks[0].error_type, run.tasks[-1].error_type) == (wanted[0], wanted[0] if len(kept) == 1 else None)
        assert task_to_json(run.tasks[0])["errorTypes"] == list(wanted)
        engine.admin.archive(run.workflow_id)
        assert engine.get(run.workflow_id).tasks[0].error_types == wanted


@pytest.mark.parametrize("function", [_chained, _meanwhile, _group, None])
def test_what_the_driver_was_handling_is_left_out(function: object, store: Backend) -> None:
    """An engine that is driven while its caller handles an error keeps the same of a failure, its traceback too."""
    workers = Workers()

    @workers.task("t", retry_count=0)
    def t() -> None:
        if callable(function):
            function()
        raise Refused("plain")

    with Engine(store, workers=workers, clock=VirtualClock(T0)) as engine:
        run = engine.start(flow(simple("t")))
        try:
            raise LookupError("of the caller")
        except LookupError:
            engine.run_until_idle()
        assert run.tasks[0].error_types == FAILURES.get(function, (f"{HERE}Refused",))  # type: ignore[call-overload]
        with pytest.raises(WorkflowFailed) as failed:
            run.result()
        assert "of the caller" not in (failed.value.causes[0].traceback or "of the caller")


@pytest.mark.parametrize(("function", "shown"), [(_odd, 1), (_many, 20)])
def test_names_are_bounded(function: object, shown: int, store: Backend) -> None:
    """A long name is cut, and of a long chain the first are kept."""
    workers = Workers()
    workers.task("t", retry_count=0)(function)  # type: ignore[call-overload]
    with Engine(store, workers=workers, clock=VirtualClock(T0)) as engine:
        run = engine.start(flow(simple("t")))
        with pytest.raises(WorkflowFailed) as failed:
            run.result()
        names = run.tasks[0].error_types
        assert len(names) == shown
        assert max(map(len, names)) <= 200
        assert failed.value.causes[0].error_types == names


def test_they_are_searched_for(bench: Bench) -> None:
    """Among tasks, and executions that have one; any of the chain, with the operators of texts; and as words."""
    bench.start(flow(simple("t", QUIET)), workflow_id="w")
    bench.do("t", "FAILED", reason="x", error_types=["shop.Refused", "ConnectionResetError"])
    engine = bench.engine

    def found(query: str, text: str = "") -> list[int]:
        return [row.retry_count for row in engine.tasks.search(query, free_text=text).results]

    assert (
        found("errorType = 'shop.Refused'") == found("errorType = ConnectionResetError") == found("errorType = '*.Refused'") == [0]
    )
    assert found("errorType STARTS_WITH Conn AND status = FAILED") == found("", "connectionreseterror") == [0]
    assert found("errorType = Refused") == []
    assert found("errorType IS NULL") == [1]
    assert [row.workflow_id for row in engine.tasks.search_workflows("errorType IS NOT NULL").results] == ["w"]


def test_an_export_has_them(store: Backend) -> None:
    """Lived again, the attempt has failed of the same."""
    workers = Workers()
    workers.task("t", retry_count=0)(_chained)
    with Engine(store, workers=workers, clock=VirtualClock(T0)) as engine:
        run = engine.start(flow(simple("t")))
        engine.run_until_idle()
        again = replay(json.dumps(engine.admin.export(run.workflow_id)))
    assert again.engine.get(run.workflow_id).tasks[0].error_types == FAILURES[_chained]
