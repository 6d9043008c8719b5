"""What comes due while an execution is paused, and is read in the very turn that resumes it: it goes on like all else."""

from __future__ import annotations

import pytest
from engine_kit import T0, Bench, flow, noop, wait


@pytest.mark.parametrize("late_s", [0, 5])
def test_a_wait_that_ends_in_the_turn_of_the_resumption(bench: Bench, late_s: int) -> None:
    """Nobody drove the engine meanwhile: the end of the WAIT and the RESUME are one turn, and what follows is done."""
    run = bench.start(flow(wait("w", duration="10s"), noop("n")))
    bench.engine.pause(run.workflow_id)
    bench.clock.move_to(T0 + (10 + late_s) * 1000)
    bench.engine.resume(run.workflow_id)
    bench.engine.settle()
    second = 10 + late_s
    assert bench.journal()[-2:] == [f"{second} n COMPLETED", f"{second} workflow COMPLETED"]


def test_a_beginning_in_the_turn_of_the_resumption(bench: Bench) -> None:
    """An execution that was to begin later, paused, begins when it is resumed."""
    run = bench.start(flow(noop("n")), delay="10s")
    bench.engine.pause(run.workflow_id)
    bench.clock.move_to(T0 + 20_000)
    bench.engine.resume(run.workflow_id)
    bench.engine.settle()
    assert bench.journal()[-2:] == ["20 n COMPLETED", "20 workflow COMPLETED"]
