"""Flows that call themselves: by name and version, alone or by way of another one, up to a hundred deep."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, WorkflowFailed, flow, task
from conductorlite.errors import BuildError
from conductorlite.flows import Flow


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the engine keeps its executions; None: in memory."""
    return tmp_path / "flows.db" if request.param == "sqlite" else None


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, logger="conductorlite"):
        yield


@task
def plus(number: int) -> int:
    """Adds one."""
    return number + 1


@task
def halves(number: int) -> list[int]:
    """Two halves."""
    return [number // 2, number - number // 2]


@flow
def factorial(number: int) -> int:
    """Calls itself."""
    if number < 2:
        return plus(0)
    return number * factorial(number - 1)


@flow
def even(number: int) -> bool:
    """Calls another one, which calls this one."""
    return True if number == 0 else odd(number - 1)


@flow
def odd(number: int) -> bool:
    """Calls the other one."""
    return False if number == 0 else even(plus(number) - 2)


@flow
def spread(number: int) -> int:
    """Calls itself twice, at once."""
    if number <= 1:
        return number
    return sum([spread(half) for half in halves(number)])


@flow
def tried(number: int) -> int:
    """Calls itself within a `try`."""
    try:
        if number == 0:
            raise ValueError("bottom")
        inner = tried(number - 1)
        return inner + 1
    except KeyError:
        return 0


@flow
def outer(number: int) -> int:
    """Calls a flow that calls itself."""
    return factorial(number) + 1


@pytest.mark.parametrize(
    ("made", "number", "wanted"),
    [(factorial, 5, 120), (even, 3, False), (odd, 3, True), (spread, 5, 5), (outer, 4, 25), (tried, 3, ValueError("bottom"))],
)
def test_a_recursion(made: Flow[..., Any], number: int, wanted: Any, store: Path | None) -> None:
    """It gives what Python gives."""
    with Engine(store, workers=[made], clock=VirtualClock(0)) as engine:
        run = engine.start(made, number=number)
        engine.run_until_idle()
        if isinstance(wanted, Exception):
            with pytest.raises(WorkflowFailed) as raised:
                run.result()
            assert raised.value.causes[0].reason == f"{type(wanted).__name__}: {wanted}"
        else:
            assert run.result() == wanted


@pytest.mark.parametrize(("number", "status"), [(99, "COMPLETED"), (120, "FAILED")])
def test_how_deep(number: int, status: str) -> None:
    """A hundred deep; beyond, it is a RecursionError."""
    with Engine(workers=[factorial], clock=VirtualClock(0)) as engine:
        run = engine.start(factorial, number=number)
        engine.run_until_idle()
        assert run.status == status
        if status == "FAILED":
            with pytest.raises(WorkflowFailed, match="RecursionError: executions are nested deeper than 100"):
                run.result()


@flow
def loose(number: int):  # type: ignore[no-untyped-def]
    """Does not say what it returns."""
    if number < 2:
        return plus(0)
    return loose(number - 1)


def test_what_it_returns_is_annotated() -> None:
    """Otherwise nobody knows what a call gives."""
    with pytest.raises(BuildError, match="calls itself, so its annotation says what it returns"):
        loose.definition  # noqa: B018
