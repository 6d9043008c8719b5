"""`bulk`: a verb on many executions, whatever becomes of some of them."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, simple
from rerun_kit import s, work

from conductorlite.errors import Conflict, ExecutionNotFound


def started(bench: Bench, *ids: str) -> None:
    """Executions of one definition under these ids."""
    for one in ids:
        bench.start(flow(simple("a", {"retry_count": 0}), *s("z")), workflow_id=one)


def test_errors_of_some_leave_the_others(bench: Bench) -> None:
    """Each id once and in order; an error is kept beside its id, what comes after it is still done."""
    started(bench, "p", "q", "r")
    bench.engine.terminate("q")
    done = bench.engine.admin.bulk(bench.engine.pause, ["p", "q", "nobody", "r", "p"])
    assert done.succeeded == ("p", "r")
    assert {one: type(error) for one, error in done.failed.items()} == {"q": Conflict, "nobody": ExecutionNotFound}
    assert "TERMINATED workflow cannot be paused" in str(done.failed["q"])
    assert [str(bench.engine.status(one)) for one in "pqr"] == ["PAUSED", "TERMINATED", "PAUSED"]


@pytest.mark.parametrize(
    ("verb", "options", "status"),
    [
        ("terminate", {"reason": "enough"}, "TERMINATED"),
        ("retry", {"resume_subworkflow_tasks": True}, "RUNNING"),
        ("restart", {"use_latest_definitions": False}, "RUNNING"),
        ("rerun", {"from_task": "a"}, "RUNNING"),
        ("remove", {}, None),
    ],
)
def test_any_verb(bench: Bench, verb: str, options: dict[str, Any], status: str | None) -> None:
    """Verbs take their own options; each execution is changed in a commit of its own."""
    started(bench, "p", "q")
    if verb != "terminate":
        work(bench, fail=["a"])
    chosen: Any = getattr(bench.engine, verb, None) or getattr(bench.engine.admin, verb)
    done = bench.engine.admin.bulk(chosen, ("p", "q"), **options)
    assert (done.succeeded, dict(done.failed)) == (("p", "q"), {})
    if status is None:
        assert list(bench.engine.admin.workflow_ids()) == []
    else:
        assert [str(bench.engine.status(one)) for one in "pq"] == [status, status]
    work(bench)


def test_arguments_by_position(bench: Bench) -> None:
    """What follows the ids is handed on as it is."""
    started(bench, "p", "q")
    assert bench.engine.admin.bulk(bench.engine.skip_task, ["p", "q"], "z", output={"n": 1}).succeeded == ("p", "q")
    assert bench.engine.admin.bulk(bench.engine.update_variables, iter(["p"]), {"v": 1}).succeeded == ("p",)
    assert bench.engine.admin.bulk(bench.engine.terminate, [], "why") == type(bench.engine.admin.bulk(bench.engine.pause, []))()
    assert work(bench) == "a a"


def test_an_error_of_ours_is_raised(bench: Bench) -> None:
    """What is not about an execution is not swallowed: a mistake in the call ends it."""
    started(bench, "p")
    wrong: Any = {"nonsense": 1}
    with pytest.raises(TypeError):
        bench.engine.admin.bulk(bench.engine.pause, ["p"], **wrong)
    assert bench.engine.status("p") == "RUNNING"
    work(bench)
