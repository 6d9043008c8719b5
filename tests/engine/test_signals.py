"""`signal`: what it finds, what it says to it, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, rounds, wait
from rerun_kit import child, s, stand, sub, work

from conductorlite import TaskStatus, WorkflowTask
from conductorlite.errors import Conflict, ExecutionNotFound, InvalidInput, TaskNotFound


def human(ref: str, **fields: Any) -> WorkflowTask:
    """A HUMAN."""
    return WorkflowTask(name=ref, task_reference_name=ref, type="HUMAN", **fields)


@pytest.mark.parametrize("waiting", [wait("w"), wait("w", duration="1 hour"), human("w")])
def test_what_blocks_is_found(bench: Bench, waiting: WorkflowTask) -> None:
    """Without a name the WAIT or HUMAN that is open is meant, timed or not; the task is returned as it is then."""
    bench.start(flow(waiting, *s("z")))
    told = bench.engine.signal(bench.workflow_id, {"said": "yes"})
    assert (told.ref, told.status, told.output_data) == ("w", "COMPLETED", {"said": "yes"})
    assert work(bench) == "z"
    assert stand(bench) == "COMPLETED: w COMPLETED, z COMPLETED"


def test_the_first_that_waits(bench: Bench) -> None:
    """Of several that wait it is the one scheduled first, again and again until there is none."""
    bench.start(flow(fork("f", [wait("u")], [human("v")], [wait("w")]), join("j", "u", "v", "w"), *s("z")))
    assert [bench.engine.signal(bench.workflow_id).ref for _ in range(3)] == ["u", "v", "w"]
    with pytest.raises(TaskNotFound, match="no WAIT or HUMAN task that waits"):
        bench.engine.signal(bench.workflow_id)
    assert work(bench) == "z"


def test_the_deepest_child(bench: Bench) -> None:
    """Where nothing waits in the execution itself, its children are asked, depth first and in order."""
    inner = flow(wait("deep"), name="inner")
    middle = flow(sub("m", inner), name="middle")
    beside = flow(human("beside"), name="beside")
    bench.start(flow(fork("f", [sub("c", middle)], [sub("d", beside)]), join("j", "c", "d"), *s("z")))
    bench.engine.settle()
    told = bench.engine.signal(bench.workflow_id, {"n": 1})
    assert (told.ref, told.workflow_id) == ("deep", child(bench, "c", "m"))
    assert bench.engine.signal(bench.workflow_id).ref == "beside"
    assert work(bench) == "z"
    assert bench.status_of_workflow() == "COMPLETED"


def test_by_id_and_by_reference(bench: Bench) -> None:
    """A task id, a printed reference, or the definition's for its first open round; a worker's task too, lease or not."""
    body = [fork("f", [wait("w")], s("x")), join("j", "w", "x")]
    bench.start(flow(rounds("l", body, 3), *s("z")))
    bench.engine.signal(bench.workflow_id, task=bench.task("w__1").task_id)
    held = bench.take("x")
    told = bench.engine.signal(bench.workflow_id, {"by": "hand"}, task="x")
    assert (told.task_id, told.ref, told.output_data) == (held.task_id, "x__1", {"by": "hand"})
    bench.engine.signal(bench.workflow_id, task="w__2")
    assert bench.engine.signal(bench.workflow_id, task="x__2").status == "COMPLETED"
    assert bench.engine.signal(bench.workflow_id, task="w").ref == "w__3"
    assert work(bench) == "x__3 z"
    assert bench.status_of_workflow() == "COMPLETED"


def test_output_is_laid_over_what_there_is(bench: Bench) -> None:
    """Keys that are not given stay; IN_PROGRESS leaves the task waiting."""
    bench.start(flow(human("h"), *s("z")))
    told = bench.engine.signal(bench.workflow_id, {"a": 1, "b": 1}, status=TaskStatus.IN_PROGRESS)
    assert (told.status, told.output_data) == ("IN_PROGRESS", {"a": 1, "b": 1})
    told = bench.engine.signal(bench.workflow_id, {"b": 2})
    assert (told.status, told.output_data) == ("COMPLETED", {"a": 1, "b": 2})
    work(bench)


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        (TaskStatus.FAILED, "FAILED: w FAILED"),
        (TaskStatus.FAILED_WITH_TERMINAL_ERROR, "FAILED: w FAILED_WITH_TERMINAL_ERROR"),
        (TaskStatus.CANCELED, "TERMINATED: w CANCELED"),
    ],
)
def test_bad_news(bench: Bench, status: TaskStatus, ends: str) -> None:
    """A signal may say that it failed, and why."""
    bench.start(flow(wait("w"), *s("z")))
    told = bench.engine.signal(bench.workflow_id, status=status, reason="nobody came")
    assert (told.status, told.reason) == (status, "nobody came")
    assert stand(bench) == ends
    assert "nobody came" in (bench.workflow.reason or "")


def test_a_signal_while_paused(bench: Bench) -> None:
    """It is taken; what follows from it waits for the resumption."""
    bench.start(flow(wait("w"), *s("z")))
    bench.engine.pause(bench.workflow_id)
    assert bench.engine.signal(bench.workflow_id).status == "COMPLETED"
    assert stand(bench) == "PAUSED: w COMPLETED"
    bench.engine.resume(bench.workflow_id)
    assert work(bench) == "z"


def test_what_cannot_be_signaled(bench: Bench) -> None:
    """No such execution, none that runs, no such task, one that has ended, a status or an output that is none."""
    with pytest.raises(ExecutionNotFound):
        bench.engine.signal("nobody")
    bench.start(flow(*s("a"), wait("w")))
    other = bench.workflow_id
    with pytest.raises(TaskNotFound, match="no WAIT or HUMAN task that waits"):
        bench.engine.signal(bench.workflow_id)
    work(bench)
    for wanted in ("a", "nothing", bench.task("a").task_id):
        with pytest.raises(TaskNotFound, match="no open task"):
            bench.engine.signal(bench.workflow_id, task=wanted)
    before = bench.journal()
    odd: Any = {"x": object()}
    with pytest.raises(InvalidInput):
        bench.engine.signal(bench.workflow_id, odd)
    with pytest.raises(InvalidInput, match="SCHEDULED"):
        bench.engine.signal(bench.workflow_id, status=TaskStatus.SCHEDULED)
    unknown: Any = "DONE"
    with pytest.raises(InvalidInput, match="DONE"):
        bench.engine.signal(bench.workflow_id, status=unknown)
    assert bench.journal() == before
    waiting = bench.task("w").task_id
    bench.start(flow(wait("w")))
    with pytest.raises(TaskNotFound, match="no open task"):
        bench.engine.signal(bench.workflow_id, task=waiting)  # another execution's
    for one in (bench.workflow_id, other):
        bench.engine.signal(one)
        with pytest.raises(Conflict, match="COMPLETED workflow waits for no signal"):
            bench.engine.signal(one)
