"""A task that several JOINs wait for tells each of them, once."""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple

from conductorlite import WorkflowStatus

ONCE = {"retry_count": 0}


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
@pytest.mark.parametrize("order", ["ab", "ba"])
def test_a_task_in_two_joins(bench: Bench, order: str, status: str) -> None:
    """It ends before the inner JOIN is there, or while both are: each JOIN ends with the last of its own, and not before."""
    inner = [simple("b"), join("jx", "a", "b"), simple("c")]
    bench.start(flow(fork("f", [simple("a", ONCE, optional=True)], inner), join("j", "a", "c"), simple("z")))
    for ref in order:
        assert bench.statuses().get("jx", "IN_PROGRESS") == "IN_PROGRESS"
        bench.do(ref, status if ref == "a" else "COMPLETED")
    well = "COMPLETED" if status == "COMPLETED" else "COMPLETED_WITH_ERRORS"
    assert (bench.statuses()["jx"], bench.statuses()["j"]) == (well, "IN_PROGRESS")
    bench.do("c")
    assert (bench.statuses()["j"], bench.task("j").waiting) == (well, 0)
    bench.do("z")
    assert bench.status_of_workflow() is WorkflowStatus.COMPLETED


@pytest.mark.parametrize("last", ["a", "b", "c"])
def test_a_task_in_three_joins_of_a_loop(bench: Bench, last: str) -> None:
    """All three wait when it ends, in each round: those of its own round are told, whichever branch is the last."""
    branches = [[simple("a")], [simple("b"), join("j1", "a", "b")], [simple("c"), join("j2", "a", "c")]]
    bench.start(flow(rounds("l", [fork("f", *branches), join("j", "a", "j1", "j2")]), simple("z")))
    for number in (1, 2):
        for ref in sorted("abc", key=lambda ref: ref == last):
            assert bench.statuses()[f"j__{number}"] == "IN_PROGRESS"
            bench.do(ref)
        assert {bench.statuses()[f"{ref}__{number}"] for ref in ("j1", "j2", "j")} == {"COMPLETED"}
    assert bench.statuses()["z"] == "SCHEDULED"


@pytest.mark.parametrize("failing", ["a", "b"])
def test_joins_are_told_again_after_a_retry(bench: Bench, failing: str) -> None:
    """What is tried again is counted again by each JOIN, what had ended is not."""
    inner = [simple("b", ONCE), join("jx", "a", "b"), simple("c")]
    bench.start(flow(fork("f", [simple("a", ONCE)], inner), join("j", "a", "c"), simple("z")))
    bench.do("ab".replace(failing, ""))
    bench.do(failing, "FAILED")
    bench.engine.retry(bench.workflow_id)
    bench.healthy()
    assert (bench.statuses()["j"], bench.statuses().get("jx", "IN_PROGRESS")) == ("IN_PROGRESS", "IN_PROGRESS")
    bench.do(failing)
    assert bench.statuses()["jx"] == "COMPLETED"
    bench.do("c")
    assert bench.statuses()["z"] == "SCHEDULED"
