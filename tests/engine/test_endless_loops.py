"""Loops that never wait for anything: the machine would be theirs for ever, so they fail."""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, noop, rounds, simple, wait

from conductorlite import Bounds
from conductorlite.decide.operators import do_while

MOST = 30


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rounds than the 10,000 that are allowed, so that the test is short."""
    monkeypatch.setattr(do_while, "_MOST_AT_ONCE", MOST)


@pytest.mark.parametrize("rows", [5_000, 7, 1])
def test_a_loop_that_never_waits_fails(new_bench: type[Bench], rows: int) -> None:
    """After that many rounds, however its turns are cut; what it has done until then is kept."""
    bench = new_bench(bounds=Bounds(rows=rows))
    bench.start(flow(rounds("l", [noop("n")], loop_condition="true"), *[noop("z")]))
    bench.engine.run_until_idle()
    assert bench.status_of_workflow() == "FAILED"
    assert bench.task("l").status == "FAILED_WITH_TERMINAL_ERROR"
    assert bench.task("l").reason == f"{MOST} rounds without anything to wait for"
    assert bench.task("l").round == MOST
    assert bench.task(f"n__{MOST}").status == "COMPLETED"


@pytest.mark.parametrize("rows", [5_000, 1])
def test_loops_count_together(new_bench: type[Bench], rows: int) -> None:
    """One inside another: six rounds of seven are more than thirty."""
    bench = new_bench(bounds=Bounds(rows=rows))
    bench.start(flow(rounds("o", [rounds("i", [noop("n")], times=7)], times=6)))
    bench.engine.run_until_idle()
    assert bench.status_of_workflow() == "FAILED"
    assert bench.task("o").status == "CANCELED"
    assert bench.workflow.reason is not None
    assert "without anything to wait for" in bench.workflow.reason


@pytest.mark.parametrize("body", ["worker", "wait"])
def test_a_loop_that_waits_may_go_on(new_bench: type[Bench], body: str) -> None:
    """With a task for a worker or a WAIT in each round there may be any number of them."""
    bench = new_bench(bounds=Bounds(rows=3))
    inner = simple("t") if body == "worker" else wait("w", duration="1s")
    bench.start(flow(rounds("l", [noop("n"), inner], times=2 * MOST)))
    while bench.status_of_workflow() == "RUNNING":
        if body == "worker":
            bench.do("t")
        else:
            bench.at(bench.second + 1)
    assert bench.status_of_workflow() == "COMPLETED"
    assert bench.task("l").round == 2 * MOST
