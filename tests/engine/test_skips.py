"""`skip_task`: what the flow passes over, what stands for it, and what is refused; and `update_variables`."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, fork, join, noop, rounds, simple, switch, wait
from rerun_kit import s, stand, sub, work
from run_time_kit import dynamic, forked, node, tried, workflow

from conductorlite import WorkflowDef, WorkflowTask
from conductorlite.errors import Conflict, ExecutionNotFound, InvalidInput, TaskNotFound

# -- every kind of node --------------------------------------------------------------------------------------

INNER = flow(*s("c"), name="inner")


@pytest.mark.parametrize(
    ("skipped", "tasks", "calls", "stands"),
    [
        ("b", s("b"), "a z", "a COMPLETED, b SKIPPED, z COMPLETED"),
        ("b", [wait("b")], "a z", "a COMPLETED, b SKIPPED, z COMPLETED"),
        ("b", [noop("b")], "a z", "a COMPLETED, b SKIPPED, z COMPLETED"),
        ("b", [sub("b", INNER)], "a z", "a COMPLETED, b SKIPPED, z COMPLETED"),
        ("b", [rounds("b", s("x"))], "a z", "a COMPLETED, b SKIPPED, z COMPLETED"),
        ("b", [switch("b", {"x": s("x")}, s("y"))], "a z", "a COMPLETED, b SKIPPED, z COMPLETED"),
        (
            "b",
            [fork("b", s("x"), s("y")), join("j", "x", "y")],
            "a z",
            "a COMPLETED, b SKIPPED, j SKIPPED, z COMPLETED",
        ),
        (
            "b",
            [fork("f", s("b", "x"), s("y")), join("j", "x", "y")],
            "a y x z",
            "a COMPLETED, f COMPLETED, b SKIPPED, y COMPLETED, j COMPLETED, x COMPLETED, z COMPLETED",
        ),
        (
            "x",
            [fork("f", s("b", "x"), s("y")), join("j", "x", "y")],
            "a b y z",
            "a COMPLETED, f COMPLETED, b COMPLETED, y COMPLETED, j COMPLETED, x SKIPPED, z COMPLETED",
        ),
        (
            "x",
            [switch("b", {"x": s("w")}, s("x", "y"))],
            "a y z",
            "a COMPLETED, b COMPLETED, x SKIPPED, y COMPLETED, z COMPLETED",
        ),
        (
            "x",
            [switch("b", {"x": s("w")}, s("x"))],
            "a z",
            "a COMPLETED, b COMPLETED, x SKIPPED, z COMPLETED",
        ),
        (
            "x__1",
            [rounds("b", s("x", "y"))],
            "a y__1 x__2 y__2 z",
            "a COMPLETED, b COMPLETED, x__1 SKIPPED, y__1 COMPLETED, x__2 COMPLETED, y__2 COMPLETED, z COMPLETED",
        ),
        (
            "y__2",
            [rounds("b", s("x", "y"))],
            "a x__1 y__1 x__2 z",
            "a COMPLETED, b COMPLETED, x__1 COMPLETED, y__1 COMPLETED, x__2 COMPLETED, y__2 SKIPPED, z COMPLETED",
        ),
        ("z", s("b"), "a b", "a COMPLETED, b COMPLETED, z SKIPPED"),
    ],
)
def test_the_flow_goes_on_behind_it(bench: Bench, skipped: str, tasks: list[WorkflowTask], calls: str, stands: str) -> None:
    """Heads of branches, cases and rounds, whole forks with their JOIN, loops, sub-workflows: each is passed over.

    Its row is before all others, from when it was skipped; one in a loop has its place in its round.
    """
    bench.start(flow(*s("a"), *tasks, *s("z")))
    bench.engine.skip_task(bench.workflow_id, skipped)
    assert bench.task(skipped).status == "SKIPPED"
    assert bench.workflow.skips == 1
    assert work(bench) == calls
    assert bench.workflow.skips == 0  # it was come to
    rows = stands.split(", ")
    if "__" not in skipped:
        rows.sort(key=lambda row: row != f"{skipped} SKIPPED")
    assert stand(bench) == f"COMPLETED: {', '.join(rows)}"


def test_the_rest_of_a_fork_skipped_ahead(bench: Bench) -> None:
    """Every task of a branch, and of all branches: the JOIN ends with what there is."""
    bench.start(flow(*s("a"), fork("f", s("x"), s("y")), join("j", "x", "y"), *s("z")))
    bench.engine.skip_task(bench.workflow_id, "x", output={"n": 1})
    bench.engine.skip_task(bench.workflow_id, "y")
    assert work(bench) == "a z"
    assert bench.task("j").output_data == {"x": {"n": 1}}
    assert stand(bench) == "COMPLETED: x SKIPPED, y SKIPPED, a COMPLETED, f COMPLETED, j COMPLETED, z COMPLETED"


def test_a_terminate_is_passed_over(bench: Bench) -> None:
    """The end it would have made does not come."""
    stop = WorkflowTask(name="t", task_reference_name="t", type="TERMINATE", input_parameters={"terminationStatus": "FAILED"})
    bench.start(flow(*s("a"), stop, *s("z")))
    bench.engine.skip_task(bench.workflow_id, "t")
    assert work(bench) == "a z"
    assert stand(bench) == "COMPLETED: t SKIPPED, a COMPLETED, z COMPLETED"


def test_what_is_made_at_run_time(bench: Bench) -> None:
    """A DYNAMIC, and a dynamic fork with its JOIN, are passed over unread: their input may be nonsense."""
    bench.start(workflow(node("a"), dynamic(who=None), *forked(tasks="none"), node("z")))
    bench.engine.skip_task(bench.workflow_id, "d", output={"n": 1})
    bench.engine.skip_task(bench.workflow_id, "f")
    assert work(bench) == "a z"
    assert stand(bench) == "COMPLETED: d SKIPPED, f SKIPPED, a COMPLETED, j SKIPPED, z COMPLETED"


# -- what stands for it --------------------------------------------------------------------------------------


def test_its_output_is_read_by_expressions(bench: Bench) -> None:
    """What is given stands for the task's input and output, also for a SWITCH and the workflow's output."""
    choice = switch("s", {"gold": s("g")}, s("d"), value="${b.output.tier}")
    last = simple("z", input_parameters={"all": "${b.output}", "of": "${b.input.why}"})
    bench.start(flow(*s("a", "b"), choice, last, output_parameters={"tier": "${b.output.tier}"}))
    bench.engine.skip_task(bench.workflow_id, "b", input={"why": "known"}, output={"tier": "gold"})
    assert work(bench) == "a g z"
    assert bench.task("z").input_data == {"all": {"tier": "gold"}, "of": "known"}
    assert bench.workflow.output_data == {"tier": "gold"}


def test_it_is_not_compensated(bench: Bench) -> None:
    """What was never done is not undone."""
    bench.start(WorkflowDef.from_json(
        {"name": "undoing", "tasks": [tried("a"), tried("b", compensate=tried("undo")), tried("z")]}
    ))  # fmt: skip
    bench.engine.skip_task(bench.workflow_id, "b")
    assert work(bench, fail=["z"]) == "a z"
    assert stand(bench) == "FAILED: b SKIPPED, a COMPLETED, z FAILED"


def test_a_rerun_takes_it_back(bench: Bench) -> None:
    """A skip behind the task that is run again is gone, before it stays; a restart forgets all."""
    bench.start(flow(*s("a", "b", "c", "d")))
    bench.engine.skip_task(bench.workflow_id, "b")
    bench.engine.skip_task(bench.workflow_id, "d")
    assert work(bench) == "a c"
    bench.engine.rerun(bench.workflow_id, from_task="c")
    assert work(bench) == "c d"
    assert stand(bench) == "COMPLETED: b SKIPPED, a COMPLETED, c COMPLETED, d COMPLETED"
    bench.engine.restart(bench.workflow_id)
    assert work(bench) == "a b c d"


def test_a_retry_keeps_it(bench: Bench) -> None:
    """What was skipped before an execution failed is still passed over when it goes on."""
    bench.start(flow(*s("a", "b", "z")))
    bench.engine.skip_task(bench.workflow_id, "b")
    work(bench, fail=["a"])
    assert bench.status_of_workflow() == "FAILED"
    bench.engine.retry(bench.workflow_id)
    assert work(bench) == "a#1 z"
    assert stand(bench) == "COMPLETED: b SKIPPED, a#1 COMPLETED, z COMPLETED"


# -- what is refused -----------------------------------------------------------------------------------------


def test_what_cannot_be_skipped(bench: Bench) -> None:
    """What has been scheduled, what is not there, the JOIN of a fork, a loop's task without its round; nothing changes."""
    bench.start(flow(*s("a"), rounds("l", s("x")), fork("f", s("p")), join("j", "p")))
    before = bench.journal()
    refused: list[tuple[str, type[Exception], str]] = [
        ("a", Conflict, "'a' has been scheduled already"),
        ("nothing", TaskNotFound, "no task 'nothing'"),
        ("", TaskNotFound, "no task ''"),
        ("a__1", TaskNotFound, "no task 'a__1'"),
        ("j", Conflict, "'j' is the JOIN of a fork: skip the fork"),
        ("x", Conflict, "'x' does not name its round: that is one such as 'x__1'"),
        ("x__1__1", Conflict, "does not name its round"),
    ]
    for ref, error, text in refused:
        with pytest.raises(error, match=text):
            bench.engine.skip_task(bench.workflow_id, ref)
    odd: Any = {"x": object()}
    with pytest.raises(InvalidInput):
        bench.engine.skip_task(bench.workflow_id, "l", output=odd)
    with pytest.raises(ExecutionNotFound):
        bench.engine.skip_task("nobody", "a")
    assert bench.journal() == before
    bench.engine.skip_task(bench.workflow_id, "l")
    with pytest.raises(Conflict, match="'l' has been scheduled already"):
        bench.engine.skip_task(bench.workflow_id, "l")
    bench.engine.pause(bench.workflow_id)
    with pytest.raises(Conflict, match="PAUSED workflow does not come to 'f'"):
        bench.engine.skip_task(bench.workflow_id, "f")
    bench.engine.resume(bench.workflow_id)
    assert work(bench) == "a p"
    with pytest.raises(Conflict, match="COMPLETED workflow does not come to 'f'"):
        bench.engine.skip_task(bench.workflow_id, "f")


# -- variables -----------------------------------------------------------------------------------------------


def test_variables_are_laid_over_those_there_are(bench: Bench) -> None:
    """What is scheduled from then on reads them; those that are not given stay; while paused too."""
    second = simple("b", input_parameters={"v": "${workflow.variables.v}", "w": "${workflow.variables.w}"})
    bench.start(flow(*s("a"), second, variables={"v": 1, "w": 1}))
    bench.engine.update_variables(bench.workflow_id, {"v": 2})
    bench.engine.pause(bench.workflow_id)
    bench.engine.update_variables(bench.workflow_id, {"u": {"x": None}})
    bench.engine.resume(bench.workflow_id)
    assert bench.workflow.variables.value == {"v": 2, "w": 1, "u": {"x": None}}
    work(bench)
    assert bench.task("b").input_data == {"v": 2, "w": 1}


def test_variables_that_cannot_be_set(bench: Bench) -> None:
    """Too many bytes together, no JSON, no execution, or one that has ended; nothing changes."""
    bench.start(flow(*s("a"), variables={"big": "x" * 200_000}))
    with pytest.raises(Conflict, match=r"would have 2700.. bytes, more than 262144"):
        bench.engine.update_variables(bench.workflow_id, {"more": "x" * 70_000})
    bench.engine.update_variables(bench.workflow_id, {"big": "small", "more": "x" * 70_000})
    odd: Any = {"x": object()}
    with pytest.raises(InvalidInput):
        bench.engine.update_variables(bench.workflow_id, odd)
    with pytest.raises(ExecutionNotFound):
        bench.engine.update_variables("nobody", {})
    work(bench)
    with pytest.raises(Conflict, match="variables of a COMPLETED workflow cannot be changed"):
        bench.engine.update_variables(bench.workflow_id, {"v": 1})
