"""Scenarios in which Conductor is known to go wrong, by the names of its own disabled tests, in our words and definitions.

Each states where every task stands, which workers are called again and which are not, and runs to the end.
"""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple, switch, wait
from rerun_kit import child, s, stand, sub, work
from run_time_kit import forked, node, tried, workflow

from conductorlite import WorkflowDef, WorkflowTask

# -- dynamic forks and their retries -------------------------------------------------------------------------


def test_task_dynamic_fork_retry_count(bench: Bench) -> None:
    """A JOIN waits for a branch that is tried again: two failures of three attempts fail nothing."""
    bench.start(workflow(*forked(), node("z")), {"t": [tried("a", 2), tried("b")]})
    assert work(bench, leave=["a"]) == "b"
    bench.do("a", "FAILED")
    assert stand(bench) == "RUNNING: f COMPLETED, b COMPLETED, j IN_PROGRESS, a#1 SCHEDULED"
    bench.do("a", "FAILED")
    assert stand(bench) == "RUNNING: f COMPLETED, b COMPLETED, j IN_PROGRESS, a#2 SCHEDULED"
    assert work(bench, {"a": {"n": 1}}) == "a#2 z"
    assert stand(bench) == "COMPLETED: f COMPLETED, b COMPLETED, j COMPLETED, a#2 COMPLETED, z COMPLETED"
    assert bench.task("j").output_data == {"a": {"n": 1}}


def test_correct_task_id_on_retries(bench: Bench) -> None:
    """Every attempt has an id of its own and names the one before it; what failed the execution is the last one."""
    bench.start(workflow(*forked(), node("z")), {"t": [tried("a", 2), tried("b")]})
    ids = [bench.do("a", "FAILED").task_id for _ in range(3)]
    assert len(set(ids)) == 3
    rows = [task for task in bench.workflow.tasks if task.ref == "a"]
    assert [(task.attempt, task.task_id, task.retried_task_id) for task in rows] == [
        (0, ids[0], None),
        (1, ids[1], ids[0]),
        (2, ids[2], ids[1]),
    ]
    assert bench.workflow.failed_task_id == ids[2]
    assert stand(bench) == "FAILED: f COMPLETED, b CANCELED, j CANCELED, a#2 FAILED"
    bench.engine.retry(bench.workflow_id)
    assert stand(bench) == "RUNNING: f COMPLETED, j IN_PROGRESS, b#1 SCHEDULED, a#3 SCHEDULED"
    assert work(bench) == "b#1 a#3 z"
    assert stand(bench) == "COMPLETED: f COMPLETED, j COMPLETED, b#1 COMPLETED, a#3 COMPLETED, z COMPLETED"


# -- rerun and forks -----------------------------------------------------------------------------------------

FORKED = flow(fork("f", s("a1", "a2"), s("b1", "b2")), join("j", "a2", "b2"), *s("z"))


@pytest.mark.parametrize("from_task", ["a1", "b2"])
def test_rerun_fork_join_workflow(bench: Bench, from_task: str) -> None:
    """From a completed task of one branch the other's failed and canceled tasks are tried again too, completed ones are not."""
    bench.start(FORKED)
    work(bench, leave=["b2", "a2"])
    bench.do("b2", "FAILED")
    assert stand(bench) == "FAILED: f COMPLETED, a1 COMPLETED, b1 COMPLETED, j CANCELED, a2 CANCELED, b2 FAILED"
    bench.engine.rerun(bench.workflow_id, from_task=from_task)
    again = {
        "a1": "RUNNING: f COMPLETED, b1 COMPLETED, j IN_PROGRESS, b2#1 SCHEDULED, a1 SCHEDULED",
        "b2": "RUNNING: f COMPLETED, a1 COMPLETED, b1 COMPLETED, j IN_PROGRESS, a2#1 SCHEDULED, b2 SCHEDULED",
    }
    assert stand(bench) == again[from_task]
    assert work(bench) == {"a1": "b2#1 a1 a2 z", "b2": "a2#1 b2 z"}[from_task]
    assert bench.status_of_workflow() == "COMPLETED"


def test_rerun_fork_join_workflow_with_loop_task(bench: Bench) -> None:
    """From a loop behind a fork: the loop begins at its first round, the fork stays as it is."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a", "b"), rounds("l", s("x", "y"), 2), *s("z")))
    work(bench, fail=["y__2"])
    assert stand(bench) == (
        "FAILED: f COMPLETED, a COMPLETED, b COMPLETED, j COMPLETED, l CANCELED, x__1 COMPLETED, "
        "y__1 COMPLETED, x__2 COMPLETED, y__2 FAILED"
    )
    bench.engine.rerun(bench.workflow_id, from_task="l")
    assert stand(bench) == ("RUNNING: f COMPLETED, a COMPLETED, b COMPLETED, j COMPLETED, l IN_PROGRESS, x__1 SCHEDULED")
    assert work(bench) == "x__1 y__1 x__2 y__2 z"
    assert stand(bench) == (
        "COMPLETED: f COMPLETED, a COMPLETED, b COMPLETED, j COMPLETED, l COMPLETED, x__1 COMPLETED, "
        "y__1 COMPLETED, x__2 COMPLETED, y__2 COMPLETED, z COMPLETED"
    )


def test_rerun_fork_join_workflow_with_loop_task_2(bench: Bench) -> None:
    """From a loop inside a branch: it begins anew, the other branch's failure is tried again, the JOIN waits for both."""
    bench.start(flow(fork("f", [rounds("l", s("x"), 2)], s("b", "c")), join("j", "l", "c"), *s("z")))
    work(bench, fail=["c"], leave=["x__2"])
    assert stand(bench) == ("FAILED: f COMPLETED, l CANCELED, b COMPLETED, j CANCELED, x__1 COMPLETED, c FAILED, x__2 CANCELED")
    bench.engine.rerun(bench.workflow_id, from_task="l")
    assert stand(bench) == ("RUNNING: f COMPLETED, b COMPLETED, j IN_PROGRESS, c#1 SCHEDULED, l IN_PROGRESS, x__1 SCHEDULED")
    assert work(bench) == "c#1 x__1 x__2 z"
    assert stand(bench) == (
        "COMPLETED: f COMPLETED, b COMPLETED, j COMPLETED, c#1 COMPLETED, l COMPLETED, x__1 COMPLETED, x__2 COMPLETED, z COMPLETED"
    )


def test_rerun_fork_join_workflow_with_loop_over_task(bench: Bench) -> None:
    """From a task of a loop's first round inside a branch: later rounds are taken back and run again, the other branch stays."""
    bench.start(flow(fork("f", [rounds("l", s("x", "y"), 2)], s("b")), join("j", "l", "b"), *s("z")))
    assert work(bench) == "b x__1 y__1 x__2 y__2 z"
    assert stand(bench) == (
        "COMPLETED: f COMPLETED, l COMPLETED, b COMPLETED, j COMPLETED, x__1 COMPLETED, y__1 COMPLETED, "
        "x__2 COMPLETED, y__2 COMPLETED, z COMPLETED"
    )
    bench.engine.rerun(bench.workflow_id, from_task="y__1")
    assert stand(bench) == ("RUNNING: f COMPLETED, l IN_PROGRESS, b COMPLETED, j IN_PROGRESS, x__1 COMPLETED, y__1 SCHEDULED")
    assert bench.task("l").output_data == {"iteration": 1}
    assert work(bench) == "y__1 x__2 y__2 z"
    assert stand(bench) == (
        "COMPLETED: f COMPLETED, l COMPLETED, b COMPLETED, j COMPLETED, x__1 COMPLETED, y__1 COMPLETED, "
        "x__2 COMPLETED, y__2 COMPLETED, z COMPLETED"
    )


@pytest.mark.parametrize("end", ["still waiting", "terminated", "completed"])
def test_rerun_from_wait_task(bench: Bench, end: str) -> None:
    """A WAIT is waited for again, whether the execution still runs, was terminated or has completed."""
    bench.start(flow(*s("a"), wait("w"), *s("z")))
    work(bench)
    if end == "terminated":
        bench.engine.terminate(bench.workflow_id)
    if end == "completed":
        bench.engine.signal(bench.workflow_id)
        assert work(bench) == "z"
    before = bench.task("w").task_id
    bench.engine.rerun(bench.workflow_id, from_task="w")
    assert stand(bench) == "RUNNING: a COMPLETED, w IN_PROGRESS"
    assert bench.task("w").task_id != before
    bench.engine.signal(bench.workflow_id, {"said": "go"})
    assert work(bench) == "z"
    assert stand(bench) == "COMPLETED: a COMPLETED, w COMPLETED, z COMPLETED"


@pytest.mark.parametrize("running", [True, False])
def test_rerun_from_switch_task_in_do_while(bench: Bench, running: bool) -> None:
    """A SWITCH of a loop's round decides again, of an execution that runs as of one that has failed."""
    body = [switch("s", {"1": s("x")}, s("y"), value="${l.output.iteration}"), *s("t")]
    bench.start(flow(rounds("l", body, 2), *s("z")))
    assert work(bench, leave=["t__2"]) == "x__1 t__1 y__2"
    if not running:
        bench.do("t", "FAILED")
    bench.engine.rerun(bench.workflow_id, from_task="s__2")
    assert stand(bench) == (
        "RUNNING: l IN_PROGRESS, s__1 COMPLETED, x__1 COMPLETED, t__1 COMPLETED, s__2 COMPLETED, y__2 SCHEDULED"
    )
    assert work(bench) == "y__2 t__2 z"
    assert stand(bench) == (
        "COMPLETED: l COMPLETED, s__1 COMPLETED, x__1 COMPLETED, t__1 COMPLETED, s__2 COMPLETED, "
        "y__2 COMPLETED, t__2 COMPLETED, z COMPLETED"
    )


INNER = flow(*s("c1", "c2"), name="inner")


def test_rerun_sub_workflow_inside_fork(bench: Bench) -> None:
    """From a task of a child in a branch: the child goes on from there, its parent waits for it, the sibling is tried again."""
    bench.start(flow(fork("f", [sub("c", INNER)], s("b")), join("j", "c", "b"), *s("z")))
    work(bench, fail=["b"], leave=["c2"])
    inner = child(bench, "c")
    assert stand(bench) == "FAILED: f COMPLETED, c CANCELED, b FAILED, j CANCELED"
    assert stand(bench, inner) == "TERMINATED: c1 COMPLETED, c2 CANCELED"
    bench.engine.rerun(bench.workflow_id, from_task=bench.engine.get(inner).task("c2").task_id)
    assert stand(bench, inner) == "RUNNING: c1 COMPLETED, c2 SCHEDULED"
    assert stand(bench) == "RUNNING: f COMPLETED, c IN_PROGRESS, j IN_PROGRESS, b#1 SCHEDULED"
    assert work(bench) == "c2 b#1 z"
    assert stand(bench) == "COMPLETED: f COMPLETED, c COMPLETED, j COMPLETED, b#1 COMPLETED, z COMPLETED"
    assert child(bench, "c") == inner


def test_rerun_sub_workflow_inside_fork_sequential_branch(bench: Bench) -> None:
    """The same where the SUB_WORKFLOW stands between others in its branch: what follows it there waits for it."""
    bench.start(flow(fork("f", [*s("a"), sub("c", INNER), *s("d")], s("b")), join("j", "d", "b"), *s("z")))
    work(bench, fail=["c2"], leave=["b"])
    inner = child(bench, "c")
    assert stand(bench) == "FAILED: f COMPLETED, a COMPLETED, b CANCELED, j CANCELED, c FAILED"
    bench.engine.rerun(bench.workflow_id, from_task=bench.engine.get(inner).task("c1").task_id)
    assert stand(bench, inner) == "RUNNING: c1 SCHEDULED"
    assert stand(bench) == "RUNNING: f COMPLETED, a COMPLETED, j IN_PROGRESS, c IN_PROGRESS, b#1 SCHEDULED"
    assert work(bench) == "c1 c2 b#1 d z"
    assert stand(bench) == (
        "COMPLETED: f COMPLETED, a COMPLETED, j COMPLETED, c COMPLETED, b#1 COMPLETED, d COMPLETED, z COMPLETED"
    )


def test_rerun_fork_join_with_wait_and_switch_tasks(bench: Bench) -> None:
    """Beside a WAIT that was canceled, from a task of a SWITCH's case: the WAIT waits again, the SWITCH is not asked again."""
    branch = [switch("s", {"x": s("x1", "x2")}, s("y"))]
    bench.start(flow(fork("f", [wait("w")], branch), join("j", "w", "s"), *s("z")), {"case": "x"})
    work(bench, fail=["x2"])
    assert stand(bench) == "FAILED: f COMPLETED, w CANCELED, s COMPLETED, x1 COMPLETED, j CANCELED, x2 FAILED"
    bench.engine.rerun(bench.workflow_id, from_task="x1", input={"case": "other"})
    assert stand(bench) == "RUNNING: f COMPLETED, s COMPLETED, j IN_PROGRESS, w#1 IN_PROGRESS, x1 SCHEDULED"
    assert work(bench) == "x1 x2"
    assert stand(bench) == ("RUNNING: f COMPLETED, s COMPLETED, j IN_PROGRESS, w#1 IN_PROGRESS, x1 COMPLETED, x2 COMPLETED")
    bench.engine.signal(bench.workflow_id)
    assert work(bench) == "z"
    assert stand(bench) == (
        "COMPLETED: f COMPLETED, s COMPLETED, j COMPLETED, w#1 COMPLETED, x1 COMPLETED, x2 COMPLETED, z COMPLETED"
    )


# -- rerun of loops and switches -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("from_task", "calls"), [("x__1", "x__1 y__1 x__2 y__2 z"), ("y", "y__2 z"), ("l", "x__1 y__1 x__2 y__2 z")]
)
def test_do_while_rerun(bench: Bench, from_task: str, calls: str) -> None:
    """A completed loop runs again from a round, from its newest one, or as a whole; what stood before is not called again."""
    bench.start(flow(*s("a"), rounds("l", s("x", "y"), 2), *s("z")))
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task=from_task)
    assert bench.status_of_workflow() == "RUNNING"
    assert bench.statuses()["l"] == "IN_PROGRESS"
    assert work(bench) == calls
    assert stand(bench).startswith("COMPLETED: a COMPLETED, l COMPLETED")


def test_switch_task_rerun(bench: Bench) -> None:
    """A SWITCH that is run again may choose another case; what the first choice had done is taken back."""
    bench.start(flow(*s("a"), switch("s", {"x": s("x"), "y": s("y")}), *s("z")), {"case": "x"})
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task="s", input={"case": "y"})
    assert stand(bench) == "RUNNING: a COMPLETED, s COMPLETED, y SCHEDULED"
    assert work(bench) == "y z"
    assert stand(bench) == "COMPLETED: a COMPLETED, s COMPLETED, y COMPLETED, z COMPLETED"


def test_switch_rerun_issue(bench: Bench) -> None:
    """From a task before a SWITCH of a terminated execution: the SWITCH is asked again and nothing is left canceled."""
    bench.start(flow(*s("a"), switch("s", {"x": s("x1", "x2")}, s("y"), value="${a.output.go}"), *s("z")))
    work(bench, {"a": {"go": "x"}}, leave=["x2"])
    bench.engine.terminate(bench.workflow_id)
    assert stand(bench) == "TERMINATED: a COMPLETED, s COMPLETED, x1 COMPLETED, x2 CANCELED"
    bench.engine.rerun(bench.workflow_id, from_task="a")
    assert stand(bench) == "RUNNING: a SCHEDULED"
    assert work(bench, {"a": {"go": "elsewhere"}}) == "a y z"
    assert stand(bench) == "COMPLETED: a COMPLETED, s COMPLETED, y COMPLETED, z COMPLETED"


def test_switch_rerun_issue_2(bench: Bench) -> None:
    """From a task inside nested SWITCHes: both count as over, the flow goes on behind the outer one."""
    inner = switch("t", {"x": s("x1", "x2")})
    bench.start(flow(switch("s", {"x": [inner, *s("n")]}), *s("z")), {"case": "x"})
    work(bench, fail=["n"])
    assert stand(bench) == "FAILED: s COMPLETED, t COMPLETED, x1 COMPLETED, x2 COMPLETED, n FAILED"
    bench.engine.rerun(bench.workflow_id, from_task="x2")
    assert stand(bench) == "RUNNING: s COMPLETED, t COMPLETED, x1 COMPLETED, x2 SCHEDULED"
    assert work(bench) == "x2 n z"
    assert stand(bench) == ("COMPLETED: s COMPLETED, t COMPLETED, x1 COMPLETED, x2 COMPLETED, n COMPLETED, z COMPLETED")


def test_rerun_from_http_task_in_do_while_with_nested_tasks(bench: Bench) -> None:
    """From an HTTP task of a round with a SWITCH and a fork behind it: that round and the later ones run again."""
    http = WorkflowTask(
        name="call", task_reference_name="h", type="HTTP", input_parameters={"http_request": {"uri": "http://x", "method": "GET"}}
    )
    nested = switch("s", {"f": [fork("f", s("a"), s("b")), join("j", "a", "b")]}, value="f")
    bench.start(flow(rounds("l", [http, nested, *s("e")], 3), *s("z")))
    work(bench, fail=["b__3"])
    assert stand(bench) == (
        "FAILED: l CANCELED, h__1 COMPLETED, s__1 COMPLETED, f__1 COMPLETED, a__1 COMPLETED, b__1 COMPLETED, "
        "j__1 COMPLETED, e__1 COMPLETED, h__2 COMPLETED, s__2 COMPLETED, f__2 COMPLETED, a__2 COMPLETED, "
        "b__2 COMPLETED, j__2 COMPLETED, e__2 COMPLETED, h__3 COMPLETED, s__3 COMPLETED, f__3 COMPLETED, "
        "a__3 COMPLETED, b__3 FAILED, j__3 CANCELED"
    )
    bench.engine.rerun(bench.workflow_id, from_task="h__2")
    assert stand(bench) == (
        "RUNNING: l IN_PROGRESS, h__1 COMPLETED, s__1 COMPLETED, f__1 COMPLETED, a__1 COMPLETED, "
        "b__1 COMPLETED, j__1 COMPLETED, e__1 COMPLETED, h__2 SCHEDULED"
    )
    assert work(bench) == "h__2 a__2 b__2 e__2 h__3 a__3 b__3 e__3 z"
    assert stand(bench) == (
        "COMPLETED: l COMPLETED, h__1 COMPLETED, s__1 COMPLETED, f__1 COMPLETED, a__1 COMPLETED, "
        "b__1 COMPLETED, j__1 COMPLETED, e__1 COMPLETED, h__2 COMPLETED, s__2 COMPLETED, f__2 COMPLETED, "
        "a__2 COMPLETED, b__2 COMPLETED, j__2 COMPLETED, e__2 COMPLETED, h__3 COMPLETED, s__3 COMPLETED, "
        "f__3 COMPLETED, a__3 COMPLETED, b__3 COMPLETED, j__3 COMPLETED, e__3 COMPLETED, z COMPLETED"
    )


@pytest.mark.parametrize("running", [True, False])
def test_rerun_from_dynamic_fork_task_itself_respawns_all_branches(bench: Bench, running: bool) -> None:
    """From a FORK_JOIN_DYNAMIC: its branches are made anew, of what its input says now; those of the first time are gone."""
    bench.start(workflow(node("a"), *forked(), node("z")), {"t": [tried("b"), tried("c")]})
    work(bench, leave=["c"])
    if not running:
        bench.do("c", "FAILED")
    bench.engine.rerun(bench.workflow_id, from_task="f", input={"t": [tried("c"), tried("d"), tried("e")]})
    assert stand(bench) == "RUNNING: a COMPLETED, f COMPLETED, c SCHEDULED, d SCHEDULED, e SCHEDULED, j IN_PROGRESS"
    assert work(bench, {ref: {"of": ref} for ref in "bcde"}) == "c d e z"
    assert stand(bench) == ("COMPLETED: a COMPLETED, f COMPLETED, c COMPLETED, d COMPLETED, e COMPLETED, j COMPLETED, z COMPLETED")
    assert bench.task("j").output_data == {ref: {"of": ref} for ref in "cde"}


# -- families ------------------------------------------------------------------------------------------------


def test_rerun_failed_sub_workflow_task_in_parent_reschedules_cancelled_sibling(bench: Bench) -> None:
    """From a SUB_WORKFLOW task that failed: a new execution is started, and the canceled sibling is tried again."""
    bench.start(flow(fork("f", [sub("c", INNER)], s("b")), join("j", "c", "b"), *s("z")))
    work(bench, fail=["c1"], leave=["b"])
    first = child(bench, "c")
    assert stand(bench) == "FAILED: f COMPLETED, c FAILED, b CANCELED, j CANCELED"
    bench.engine.rerun(bench.workflow_id, from_task="c")
    assert stand(bench) == "RUNNING: f COMPLETED, j IN_PROGRESS, b#1 SCHEDULED, c IN_PROGRESS"
    assert child(bench, "c") != first
    assert work(bench) == "c1 c2 b#1 z"
    assert stand(bench) == "COMPLETED: f COMPLETED, j COMPLETED, b#1 COMPLETED, c COMPLETED, z COMPLETED"
    assert stand(bench, first) == "FAILED: c1 FAILED"


def nested() -> WorkflowDef:
    """Three levels, each with a fork of a sub-workflow and a worker's task."""
    definition = flow(fork("f3", s("x"), s("y")), join("j3", "x", "y"), name="level3")
    for level in (2, 1):
        branches = [sub(f"c{level}", definition)], s(f"b{level}")
        definition = flow(fork(f"f{level}", *branches), join(f"j{level}", f"c{level}", f"b{level}"), name=f"level{level}")
    return definition


@pytest.mark.parametrize("how", ["retry the child", "resume from the top"])
def test_retry_nested_sub_workflows_reschedules_siblings_at_every_level(bench: Bench, how: str) -> None:
    """A retry of the innermost, or of the outermost with its children, tries what was canceled on every level again, once."""
    bench.start(nested())
    work(bench, fail=["x"], leave=["y", "b1", "b2"])
    two, three = child(bench, "c1"), child(bench, "c1", "c2")
    assert stand(bench) == "FAILED: f1 COMPLETED, c1 FAILED, b1 CANCELED, j1 CANCELED"
    assert stand(bench, two) == "FAILED: f2 COMPLETED, c2 FAILED, b2 CANCELED, j2 CANCELED"
    assert stand(bench, three) == "FAILED: f3 COMPLETED, x FAILED, y CANCELED, j3 CANCELED"
    if how == "retry the child":
        bench.engine.retry(three)
    else:
        bench.engine.retry(bench.workflow_id, resume_subworkflow_tasks=True)
    assert stand(bench) == "RUNNING: f1 COMPLETED, c1 IN_PROGRESS, j1 IN_PROGRESS, b1#1 SCHEDULED"
    assert stand(bench, two) == "RUNNING: f2 COMPLETED, c2 IN_PROGRESS, j2 IN_PROGRESS, b2#1 SCHEDULED"
    assert stand(bench, three) == "RUNNING: f3 COMPLETED, j3 IN_PROGRESS, x#1 SCHEDULED, y#1 SCHEDULED"
    assert sorted(work(bench).split()) == ["b1#1", "b2#1", "x#1", "y#1"]
    assert [str(bench.engine.status(one)) for one in (bench.workflow_id, two, three)] == ["COMPLETED"] * 3
    assert (child(bench, "c1"), child(bench, "c1", "c2")) == (two, three)


# -- queues and defaults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["poll timeout", "terminate"])
def test_poll_timeout(bench: Bench, end: str) -> None:
    """A task nobody polls is given up at its second, and its queue is empty from then on; after a retry it is offered once."""
    bench.start(flow(simple("a", {"poll_timeout_s": 10, "retry_count": 0, "timeout_policy": "TIME_OUT_WF"}), *s("z")))
    bench.at(9.999)
    assert stand(bench) == "RUNNING: a SCHEDULED"
    if end == "terminate":
        bench.engine.terminate(bench.workflow_id)
    bench.at(10)
    ended = {"poll timeout": "TIMED_OUT: a TIMED_OUT", "terminate": "TERMINATED: a CANCELED"}
    assert stand(bench) == ended[end]
    assert bench.engine.tasks.queue_sizes() == {}
    assert bench.poll("a") is None
    bench.engine.retry(bench.workflow_id)
    assert stand(bench) == "RUNNING: a#1 SCHEDULED"
    assert work(bench) == "a#1 z"
    assert stand(bench) == "COMPLETED: a#1 COMPLETED, z COMPLETED"


@pytest.mark.parametrize("case", ["unknown", "", None, 7])
def test_switch_negative(bench: Bench, case: Any) -> None:
    """A value that no case has takes the default one, in the turn that asked; without a default the flow just goes on."""
    bench.start(flow(switch("s", {"x": s("x")}, s("y")), switch("t", {"x": s("u")}), *s("z")), {"case": case})
    assert stand(bench) == "RUNNING: s COMPLETED, y SCHEDULED"
    assert work(bench) == "y z"
    assert stand(bench) == "COMPLETED: s COMPLETED, y COMPLETED, t COMPLETED, z COMPLETED"
