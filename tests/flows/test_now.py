"""The time in flows, and the time of compiling."""

from __future__ import annotations

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.errors import BuildError
from conductorlite.flows import now, wait


@task
def noted(at: float) -> float:
    """Gives it back."""
    return at


@flow
def timed(limit: float) -> list[float]:
    """Asks for the time before and after a wait."""
    began = now()
    wait("90s")
    took = now() - began
    if now() > began + limit:
        took = -took
    return [began, took, noted(now())]


@pytest.mark.parametrize(("limit", "took"), [(100, 90.0), (10, -90.0)])
def test_the_time_when_it_runs(limit: float, took: float) -> None:
    """Each call is a step, whose time it is."""
    with Engine(workers=[timed], clock=VirtualClock(1_000)) as engine:
        run = engine.start(timed, limit=limit)
        engine.run_until_idle()
        assert run.result() == [1.0, took, 91.0]


def test_outside_of_a_flow() -> None:
    """It is the clock's."""
    assert now() > 1_600_000_000
    assert now("a") == "a"


@flow(by_calls=True)
def built() -> float:
    """Is carried out when it is built."""
    return noted(now())


def test_in_a_flow_that_is_built_by_calls() -> None:
    """It would be the time of building."""
    with pytest.raises(BuildError, match="have a task return it"):
        built.definition  # noqa: B018
