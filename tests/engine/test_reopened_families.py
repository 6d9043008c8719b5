"""What retry, restart and rerun of one execution mean for those above and below it, and what late reports mean for any."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple
from rerun_kit import child, s, stand, sub, work
from run_time_kit import forked, node, workflow

from conductorlite import Task, WorkflowDef
from conductorlite.errors import StaleLease, TaskNotFound

INNER = flow(*s("x", "y"), name="inner")
MIDDLE = flow(fork("f2", [sub("m", INNER)], s("b2")), join("j2", "m", "b2"), name="middle")
TOP = flow(fork("f1", [sub("c", MIDDLE)], s("b1")), join("j1", "c", "b1"), *s("z"))

Verb = Callable[[Bench, str], None]

VERBS: dict[str, Verb] = {
    "retry": lambda bench, one: bench.engine.retry(one),
    "restart": lambda bench, one: bench.engine.restart(one),
    "rerun": lambda bench, one: bench.engine.rerun(one),
    "rerun from a task": lambda bench, one: bench.engine.rerun(one, from_task="y"),
}


def levels(bench: Bench) -> tuple[str, str, str]:
    """The three executions of TOP."""
    return bench.workflow_id, child(bench, "c"), child(bench, "c", "m")


# -- three levels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "verb"),
    # What has COMPLETED cannot be retried.
    [(how, verb) for how in ("FAILED", "TERMINATED", "COMPLETED") for verb in VERBS if (how, verb) != ("COMPLETED", "retry")],
)
def test_the_innermost_goes_on(bench: Bench, verb: str, how: str) -> None:
    """Everything above waits for it again; what was canceled beside is tried again, what had completed is not, nor what follows."""
    bench.start(TOP)
    if how == "COMPLETED":
        work(bench)
    elif how == "FAILED":
        work(bench, leave=["b1", "b2"], fail=["y"])
    else:
        work(bench, leave=["b1", "y"])
        bench.engine.terminate(bench.workflow_id)
    top, middle, inner = levels(bench)
    VERBS[verb](bench, inner)
    begins = {"retry": "x COMPLETED, y#1 SCHEDULED", "rerun from a task": "x COMPLETED, y SCHEDULED"}
    assert stand(bench, inner) == f"RUNNING: {begins.get(verb, 'x SCHEDULED')}"
    done = how == "COMPLETED"
    assert (
        stand(bench, middle)
        == {
            "COMPLETED": "RUNNING: f2 COMPLETED, m IN_PROGRESS, b2 COMPLETED, j2 COMPLETED",
            "FAILED": "RUNNING: f2 COMPLETED, m IN_PROGRESS, j2 IN_PROGRESS, b2#1 SCHEDULED",
            "TERMINATED": "RUNNING: f2 COMPLETED, m IN_PROGRESS, b2 COMPLETED, j2 IN_PROGRESS",
        }[how]
    )
    assert stand(bench, top) == (
        "RUNNING: f1 COMPLETED, c IN_PROGRESS, b1 COMPLETED, j1 COMPLETED, z COMPLETED"
        if done
        else "RUNNING: f1 COMPLETED, c IN_PROGRESS, j1 IN_PROGRESS, b1#1 SCHEDULED"
    )
    calls = {"retry": ["y#1"], "rerun from a task": ["y"]}.get(verb, ["x", "y"])
    calls += {"COMPLETED": [], "FAILED": ["b1#1", "b2#1", "z"], "TERMINATED": ["b1#1", "z"]}[how]
    assert sorted(work(bench).split()) == sorted(calls)
    assert [str(bench.engine.status(one)) for one in (top, middle, inner)] == ["COMPLETED"] * 3


def test_resume_from_the_top(bench: Bench) -> None:
    """A retry with `resume_subworkflow_tasks` goes down where it failed; without it new executions are started."""
    bench.start(TOP)
    work(bench, leave=["b1"], fail=["y"])
    before = levels(bench)
    bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)
    assert levels(bench) == before
    assert sorted(work(bench, fail=["y"], leave=["b1"]).split()) == ["y#1"]
    bench.engine.retry(bench.workflow_id)
    assert levels(bench)[1:] != before[1:]
    assert sorted(work(bench).split()) == ["b1#2", "b2", "x", "y", "z"]
    assert [str(bench.engine.status(one)) for one in before] == ["COMPLETED", "FAILED", "FAILED"]


def test_every_failed_child_is_resumed(bench: Bench) -> None:
    """Not the first one only: all sub-workflow tasks that failed or were canceled go on where they stood."""
    bench.start(flow(fork("f", [sub("p", INNER)], [sub("q", INNER)]), join("j", "p", "q"), *s("z")))
    assert work(bench, fail=["y"], leave=["x"]) == ""
    first = bench.take("x")
    bench.report(first)
    bench.do("y", "FAILED")
    assert stand(bench) == "FAILED: f COMPLETED, p FAILED, q CANCELED, j CANCELED"
    p, q = child(bench, "p"), child(bench, "q")
    bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)
    assert stand(bench) == "RUNNING: f COMPLETED, p IN_PROGRESS, q IN_PROGRESS, j IN_PROGRESS"
    assert (stand(bench, p), stand(bench, q)) == ("RUNNING: x COMPLETED, y#1 SCHEDULED", "RUNNING: x#1 SCHEDULED")
    assert sorted(work(bench).split()) == ["x#1", "y", "y#1", "z"]


def test_a_resumed_child_that_cannot_be_retried(bench: Bench) -> None:
    """A child that was rerun to its end meanwhile tells its end again, and the parent goes on with that."""
    bench.start(flow(sub("c", INNER, optional=True), *s("z")))
    work(bench, fail=["y", "z"])
    inner = child(bench, "c")
    assert stand(bench) == "FAILED: c COMPLETED_WITH_ERRORS, z FAILED"
    bench.engine.restart(inner)
    assert work(bench) == "x y"
    bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)
    assert stand(bench) == "RUNNING: c COMPLETED_WITH_ERRORS, z#1 SCHEDULED"
    assert work(bench) == "z#1"


# -- who is left alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_an_optional_child_goes_on_by_itself(bench: Bench, verb: str) -> None:
    """A failure that did not matter is not waited for: the parent stays as it is."""
    bench.start(flow(sub("c", INNER, optional=True), *s("z")))
    work(bench, fail=["y"])
    before = bench.journal()
    VERBS[verb](bench, child(bench, "c"))
    assert stand(bench) == "COMPLETED: c COMPLETED_WITH_ERRORS, z COMPLETED"
    work(bench)
    assert bench.engine.status(child(bench, "c")) == "COMPLETED"
    assert bench.journal() == before


@pytest.mark.parametrize("verb", VERBS)
def test_a_permissive_child_makes_its_parent_wait(bench: Bench, verb: str) -> None:
    """A failure that was borne to the end is taken back; what had followed from it is not done again."""
    bench.start(flow(sub("c", INNER, permissive=True), *s("z")))
    work(bench, fail=["y"])
    assert stand(bench) == "FAILED: c FAILED, z COMPLETED"
    VERBS[verb](bench, child(bench, "c"))
    assert stand(bench) == "RUNNING: c IN_PROGRESS, z COMPLETED"
    assert "z" not in work(bench).split()
    assert stand(bench) == "COMPLETED: c COMPLETED, z COMPLETED"


@pytest.mark.parametrize("verb", VERBS)
def test_a_superseded_child_goes_on_by_itself(bench: Bench, verb: str) -> None:
    """The child of an attempt that has been followed by another is of no interest to its parent."""
    bench.start(flow(sub("c", INNER, retry_count=1), *s("z")))
    first = child(bench, "c")
    assert work(bench, fail=["y"]) == "x y"
    bench.at(60)
    assert child(bench, "c") != first
    before = bench.journal()
    VERBS[verb](bench, first)
    bench.healthy()
    assert bench.journal() == before
    work(bench)
    assert bench.status_of_workflow() == "COMPLETED"


@pytest.mark.parametrize("verb", ["restart", "rerun", "rerun from a task"])
@pytest.mark.parametrize("kind", ["loop", "dynamic fork"])
def test_a_child_in_what_is_over_goes_on_by_itself(bench: Bench, kind: str, verb: str) -> None:
    """A loop or dynamic fork that has ended well is not opened again for one of its sub-workflows."""
    if kind == "loop":
        bench.start(flow(rounds("l", [sub("c", INNER)], 1), *s("z")))
    else:
        params = {"name": "inner", "workflowDefinition": INNER.to_json()}
        bench.start(workflow(*forked(tasks=[node("c", "SUB_WORKFLOW", subWorkflowParam=params)]), node("z")))
    work(bench)
    before = bench.journal()
    inner = child(bench, "c__1" if kind == "loop" else "c")
    VERBS[verb](bench, inner)
    assert work(bench) in ("x y", "y")
    assert bench.engine.status(inner) == "COMPLETED"
    assert bench.journal() == before


def test_a_resumed_child_that_was_removed(bench: Bench) -> None:
    """It begins anew, and hears of the end of what it had started before: nothing waits for ever."""
    bench.start(TOP)
    bench.engine.terminate(bench.workflow_id)
    top, middle, inner = levels(bench)
    bench.engine.admin.remove(middle)
    bench.engine.retry(top, resume_subworkflow_tasks=True)
    bench.engine.settle()
    assert [str(bench.engine.status(one)) for one in (top, middle, inner)] == ["TERMINATED"] * 3
    bench.engine.retry(top)
    work(bench)
    assert bench.status_of_workflow() == "COMPLETED"
    assert bench.engine.admin.check() == []


def test_a_running_parent_takes_its_child_back(bench: Bench) -> None:
    """A parent that still runs, having borne a permissive child's failure, waits for the child's second end."""
    bench.start(flow(fork("f", [sub("c", INNER, permissive=True)], s("b")), join("j", "c", "b"), *s("z")))
    work(bench, fail=["y"], leave=["b"])
    assert stand(bench) == "RUNNING: f COMPLETED, c FAILED, b SCHEDULED, j IN_PROGRESS"
    bench.engine.retry(child(bench, "c"))
    assert stand(bench) == "RUNNING: f COMPLETED, c IN_PROGRESS, b SCHEDULED, j IN_PROGRESS"
    assert sorted(work(bench).split()) == ["b", "y#1", "z"]
    assert stand(bench) == "COMPLETED: f COMPLETED, c COMPLETED, b COMPLETED, j COMPLETED, z COMPLETED"


def test_a_child_of_a_loops_round(bench: Bench) -> None:
    """A child of the round the loop stands in is waited for again, the round goes on from there."""
    bench.start(flow(rounds("l", [sub("c", INNER), *s("e")], 2), *s("z")))
    work(bench, leave=["e__2"])
    inner = child(bench, "c__2")
    bench.engine.terminate(bench.workflow_id)
    bench.engine.rerun(inner, from_task="y")
    assert stand(bench) == "RUNNING: l IN_PROGRESS, c__1 COMPLETED, e__1 COMPLETED, c__2 IN_PROGRESS, e__2#1 SCHEDULED"
    assert sorted(work(bench).split()) == ["e__2#1", "y", "z"]


def test_a_child_reopened_while_its_parent_is_paused(bench: Bench) -> None:
    """A paused parent hears of it, and stays paused."""
    bench.start(flow(fork("f", [sub("c", INNER, permissive=True)], s("b")), join("j", "c", "b"), *s("z")))
    work(bench, fail=["y"], leave=["b"])
    bench.engine.pause(bench.workflow_id)
    bench.engine.restart(child(bench, "c"))
    assert work(bench) == "x y b"
    assert bench.status_of_workflow() == "PAUSED"
    bench.engine.resume(bench.workflow_id)
    assert work(bench) == "z"
    assert stand(bench) == "COMPLETED: f COMPLETED, c COMPLETED, b COMPLETED, j COMPLETED, z COMPLETED"


# -- late reports --------------------------------------------------------------------------------------------

SLOW: WorkflowDef = flow(simple("a", {"retry_count": 1, "retry_delay_s": 0}), *s("b"))


def late(bench: Bench, old: list[Task]) -> None:
    """Report on attempts of earlier runs, with their lease and without; nothing may change."""
    before = bench.journal()
    rows = bench.workflow.tasks
    for task in old:
        for status in ("COMPLETED", "FAILED", "IN_PROGRESS"):
            for lease in (True, False):
                with suppress(StaleLease, TaskNotFound):
                    bench.report(task, status, {"late": True}, lease=lease)
    assert bench.journal() == before
    assert bench.workflow.tasks == rows
    bench.healthy()


@pytest.mark.parametrize("verb", ["retry", "restart", "rerun", "rerun from a task"])
def test_late_reports_change_nothing(bench: Bench, verb: str) -> None:
    """Whoever still works for an earlier run is not heard, after one such verb as after several, polled again or not."""
    bench.start(SLOW)
    old = [bench.take("a")]
    bench.report(attrs.evolve(old[0]), "FAILED")
    old.append(bench.take("a"))
    for _ in range(3):
        bench.engine.terminate(bench.workflow_id)
        late(bench, old)
        if verb == "rerun from a task":
            bench.engine.rerun(bench.workflow_id, from_task="a")
        else:
            VERBS[verb](bench, bench.workflow_id)
        late(bench, old)
        old.append(bench.take("a"))
        late(bench, old[:-1])
    assert len({task.task_id for task in old}) == len(old)
    bench.report(old[-1])
    late(bench, old)
    assert work(bench) == "b"
    assert bench.status_of_workflow() == "COMPLETED"


def test_a_late_end_of_an_earlier_child_changes_nothing(bench: Bench) -> None:
    """The child that a run before the rerun had started is ended; what it says afterwards is not heard."""
    bench.start(flow(sub("c", INNER), *s("z")))
    old = child(bench, "c")
    held = bench.take("x")
    bench.engine.rerun(bench.workflow_id)
    new = child(bench, "c")
    assert (new != old, stand(bench, old)) == (True, "TERMINATED: x CANCELED")
    bench.report(held, lease=False)
    bench.engine.restart(old)
    assert work(bench, leave=["z"]).count("x") == 2
    assert stand(bench) == "RUNNING: c COMPLETED, z SCHEDULED"
    assert work(bench) == "z"


def test_gone_on_before_its_child_has_heard_that_it_was_ended(bench: Bench) -> None:
    """What the child writes on its end, that its parent had asked for, is not taken for an end of the child that goes on."""
    bench.start(flow(sub("c", INNER), *s("z")))
    bench.engine.terminate(bench.workflow_id)
    bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)
    bench.engine.settle()
    assert stand(bench, bench.workflow_id) == "RUNNING: c IN_PROGRESS"
    assert work(bench).split() == ["x#1", "y", "z"]
    assert str(bench.status_of_workflow()) == "COMPLETED"


def test_ended_before_it_has_heard_that_its_child_is_run_again(bench: Bench) -> None:
    """The child that goes on is ended too, and its parent, which has gone on for it, hears of that."""
    bench.start(flow(sub("c", INNER), *s("z")))
    bench.engine.rerun(child(bench, "c"))
    bench.engine.terminate(bench.workflow_id)
    bench.engine.settle()
    assert str(bench.status_of_workflow()) == "TERMINATED"
    assert str(bench.engine.status(child(bench, "c"))) == "TERMINATED"
