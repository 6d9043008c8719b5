"""`rerun` and `restart`: from where, of what, with which input, and what is refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from engine_kit import Bench, flow, fork, join, rounds, simple, switch, wait
from rerun_kit import child, s, stand, sub, work
from run_time_kit import dynamic, forked, loop, node, static, tried, workflow

from conductorlite import WorkflowDef, WorkflowTask, WorkflowTimeoutPolicy
from conductorlite.errors import Conflict, DefinitionNotFound, ExecutionNotFound, InvalidInput, TaskNotFound
from conductorlite.model.executions import HistoryKind

# -- from the start ------------------------------------------------------------------------------------------

PLAIN = flow(
    simple("a", {"retry_count": 0}, input_parameters={"n": "${workflow.input.n}", "v": "${workflow.variables.v}"}),
    simple("b", {"retry_count": 0}),
    input_template={"n": 1, "m": 2},
    variables={"v": "first"},
    output_parameters={"n": "${a.output.n}"},
)


def end(bench: Bench, how: str) -> None:
    """Bring the execution of PLAIN to one of the places a verb may find it at."""
    if how == "COMPLETED":
        work(bench, {"a": {"n": 5}})
    elif how == "TERMINATED":
        work(bench, leave=["b"])
        bench.engine.terminate(bench.workflow_id)
    elif how == "FAILED":
        work(bench, fail=["b"])
    elif how == "TIMED_OUT":
        work(bench, leave=["b"])
        bench.at(60)
    elif how == "RUNNING":
        work(bench, leave=["b"])
    assert bench.status_of_workflow() == how


LIMIT: dict[str, Any] = {"timeout_ms": 60_000, "timeout_policy": WorkflowTimeoutPolicy.TIME_OUT_WF}
TIMED = attrs.evolve(PLAIN, **LIMIT)
ENDED = ["COMPLETED", "TERMINATED", "FAILED", "TIMED_OUT"]


@pytest.mark.parametrize("how", [*ENDED, "RUNNING"])
def test_rerun_from_the_start(bench: Bench, how: str) -> None:
    """Wherever it stands, an execution begins anew under its id: tasks, variables, output and failure are as at a start."""
    bench.start(TIMED, {"m": 7}, correlation_id="c1")
    bench.engine.update_variables(bench.workflow_id, {"v": "changed"})
    end(bench, how)
    before = bench.task("a").task_id
    bench.at(70)
    bench.engine.rerun(bench.workflow_id)
    assert stand(bench) == "RUNNING: a SCHEDULED"
    row = bench.workflow
    assert (row.reason, row.failed_refs, row.failed_task_id, row.output_data, row.ended_at) == (None, (), None, {}, 0)
    assert (row.variables.value, row.input_data, row.correlation_id) == ({"v": "first"}, {"n": 1, "m": 7}, "c1")
    assert (row.started_at, row.timeout_at, row.tasks[0].seq) == (bench.clock.now(), bench.clock.now() + 60_000, 1)
    assert row.tasks[0].task_id != before
    assert row.tasks[0].input_data == {"n": 1, "v": "first"}
    assert work(bench, {"a": {"n": 6}}) == "a b"
    assert stand(bench) == "COMPLETED: a COMPLETED, b COMPLETED"
    assert bench.workflow.output_data == {"n": 6}


def test_rerun_with_another_input(bench: Bench) -> None:
    """The input given replaces the old one, the template of the definition fills what it leaves open; so for the correlation id."""
    bench.start(PLAIN, {"n": 5, "m": 7}, correlation_id="c1")
    work(bench)
    bench.engine.rerun(bench.workflow_id, input={"n": 6}, correlation_id="c2")
    assert (bench.workflow.input_data, bench.workflow.correlation_id) == ({"n": 6, "m": 2}, "c2")
    assert bench.task("a").input_data["n"] == 6
    assert [row.workflow_id for row in bench.engine.admin.correlated("flow", "c2")] == [bench.workflow_id]
    work(bench)


def test_the_history_goes_on(bench: Bench) -> None:
    """What was taken back is still told: the verb has a line that names it, and everything before stays."""
    bench.start(PLAIN)
    work(bench)
    before = bench.journal()
    bench.engine.rerun(bench.workflow_id, from_task="b", task_input={"x": 1})
    after = bench.journal()
    assert after[: len(before)] == before
    line = next(line for line in bench.engine.history(bench.workflow_id) if line.kind is HistoryKind.VERB)
    assert (line.status, line.ref) == ("RERUN", "b")
    assert line.payload is not None
    assert line.payload.value == {"taskInput": {"x": 1}, "dropped": ["b"]}
    assert after[len(before) + 1 :] == ["0 workflow RUNNING", "0 b SCHEDULED"]


# -- from a task ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [*ENDED, "RUNNING"])
def test_rerun_from_a_task(bench: Bench, how: str) -> None:
    """What comes after the task is taken back, what stands before it stays, and the timeout of one that had ended begins anew."""
    bench.start(flow(simple("zero"), *TIMED.tasks, **LIMIT))
    bench.do("zero", output={"kept": 1})
    end(bench, how)
    ended = bench.workflow.status.terminal
    at = bench.second
    bench.at(at + 10)
    bench.engine.rerun(bench.workflow_id, from_task="a")
    assert stand(bench) == "RUNNING: zero COMPLETED, a SCHEDULED"
    assert bench.task("zero").output_data == {"kept": 1}
    assert bench.workflow.timeout_at == (bench.clock.now() if ended else bench.workflow.started_at) + 60_000
    assert work(bench) == "a b"
    assert stand(bench) == "COMPLETED: zero COMPLETED, a COMPLETED, b COMPLETED"


@pytest.mark.parametrize("name", ["by reference", "by id"])
def test_rerun_with_a_tasks_input(bench: Bench, name: str) -> None:
    """The input given is the task's; its next attempt by a retry is rendered from the definition again."""
    bench.start(PLAIN, {"n": 5})
    work(bench)
    wanted = "a" if name == "by reference" else bench.task("a").task_id
    bench.engine.rerun(bench.workflow_id, from_task=wanted, task_input={"n": 9, "more": True})
    assert bench.task("a").input_data == {"n": 9, "more": True}
    assert work(bench) == "a b"


def test_a_round_is_named_as_printed(bench: Bench) -> None:
    """The definition's reference means the newest round, the printed one means its own."""
    bench.start(flow(rounds("l", s("x"), 3)))
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task="x")
    assert stand(bench) == "RUNNING: l IN_PROGRESS, x__1 COMPLETED, x__2 COMPLETED, x__3 SCHEDULED"
    bench.engine.rerun(bench.workflow_id, from_task="x__1")
    assert stand(bench) == "RUNNING: l IN_PROGRESS, x__1 SCHEDULED"
    assert work(bench) == "x__1 x__2 x__3"
    assert bench.task("l").output_data["iteration"] == 3


NESTED = flow(rounds("l", [rounds("m", s("x", "y"), 2), *s("e")], 2), *s("z"))


@pytest.mark.parametrize(
    ("from_task", "kept", "calls"),
    [
        ("x__1__2", "m__1 x__1__1 y__1__1", "x__1__2 y__1__2 e__1 x__2__1 y__2__1 x__2__2 y__2__2 e__2 z"),
        ("y__2__1", "m__1 x__1__1 y__1__1 x__1__2 y__1__2 e__1 m__2 x__2__1", "y__2__1 x__2__2 y__2__2 e__2 z"),
        ("m__2", "m__1 x__1__1 y__1__1 x__1__2 y__1__2 e__1 m__2", "x__2__1 y__2__1 x__2__2 y__2__2 e__2 z"),
        ("m__1", "m__1", "x__1__1 y__1__1 x__1__2 y__1__2 e__1 x__2__1 y__2__1 x__2__2 y__2__2 e__2 z"),
        ("e__1", "m__1 x__1__1 y__1__1 x__1__2 y__1__2", "e__1 x__2__1 y__2__1 x__2__2 y__2__2 e__2 z"),
        ("l", "m__1", "x__1__1 y__1__1 x__1__2 y__1__2 e__1 x__2__1 y__2__1 x__2__2 y__2__2 e__2 z"),
    ],
)
def test_rerun_in_nested_loops(bench: Bench, from_task: str, kept: str, calls: str) -> None:
    """Rounds after the task's go, of every loop around it; rounds before stay, and their output with them."""
    bench.start(NESTED)
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task=from_task)
    assert bench.order() == ["l", *kept.split(), calls.split()[0]]
    assert stand(bench).startswith("RUNNING: l IN_PROGRESS")
    assert stand(bench).endswith(f"{calls.split()[0]} SCHEDULED")
    assert work(bench) == calls
    assert bench.status_of_workflow() == "COMPLETED"
    assert {ref: task["iteration"] for ref in ("l", "m__1", "m__2") for task in [bench.task(ref).output_data]} == {
        "l": 2,
        "m__1": 2,
        "m__2": 2,
    }


def test_a_round_that_is_not_kept(bench: Bench) -> None:
    """A loop that keeps one round has no other to be run again from."""
    bench.start(flow(rounds("l", s("x"), 3, input_parameters={"keepLastN": 1}), *s("z")))
    work(bench)
    with pytest.raises(TaskNotFound, match="no task 'x__1'"):
        bench.engine.rerun(bench.workflow_id, from_task="x__1")
    bench.engine.rerun(bench.workflow_id, from_task="x__3")
    assert work(bench) == "x__3 z"


def test_a_branch_of_a_round_that_is_not_kept(bench: Bench) -> None:
    """What a dynamic fork has made stays when its round is dropped, as in Conductor; there is no JOIN that it could come to."""
    bench.start(workflow(loop("l", *forked(), times=3) | {"inputParameters": {"keepLastN": 1}}, node("z")), {"t": [tried("a")]})
    work(bench)
    assert "a__1 COMPLETED" in stand(bench)
    with pytest.raises(Conflict, match="'a__1' is of a round whose fork `keepLastN` has dropped"):
        bench.engine.rerun(bench.workflow_id, from_task="a__1")
    bench.engine.rerun(bench.workflow_id, from_task="a__3")
    assert work(bench) == "a__3 z"


def test_rerun_from_a_join(bench: Bench) -> None:
    """A JOIN goes on as the row it is; branches that failed are tried again, the others are joined as they are."""
    bench.start(flow(fork("f", s("a"), s("b")), join("j", "a", "b"), *s("z")))
    work(bench, {"a": {"n": 1}}, fail=["b"])
    bench.engine.rerun(bench.workflow_id, from_task="j")
    assert stand(bench) == "RUNNING: f COMPLETED, a COMPLETED, j IN_PROGRESS, b#1 SCHEDULED"
    assert work(bench, {"b": {"n": 2}}) == "b#1 z"
    assert bench.task("j").output_data == {"a": {"n": 1}, "b": {"n": 2}}
    bench.engine.rerun(bench.workflow_id, from_task="j")
    assert stand(bench) == "RUNNING: f COMPLETED, a COMPLETED, j COMPLETED, b#1 COMPLETED, z SCHEDULED"
    assert work(bench) == "z"


def test_rerun_from_an_exclusive_join(bench: Bench) -> None:
    """An EXCLUSIVE_JOIN chooses again among the branches as they stand."""
    either = WorkflowTask(name="e", task_reference_name="e", type="EXCLUSIVE_JOIN", join_on=("x", "y"))
    bench.start(flow(switch("s", {"x": s("x")}, s("y")), either, *s("z")), {"case": "x"})
    work(bench, {"x": {"n": 1}})
    bench.engine.rerun(bench.workflow_id, from_task="e")
    assert stand(bench) == "RUNNING: s COMPLETED, x COMPLETED, e COMPLETED, z SCHEDULED"
    assert bench.task("e").output_data == {"n": 1}
    bench.engine.rerun(bench.workflow_id, from_task="s", input={"case": "other"})
    assert work(bench, {"y": {"n": 2}}) == "y z"
    assert bench.task("e").output_data == {"n": 2}
    work(bench)


def test_rerun_from_a_fork(bench: Bench) -> None:
    """A FORK_JOIN runs with all of its branches, those that had completed too."""
    bench.start(flow(fork("f", s("a", "b"), s("c")), join("j", "b", "c"), *s("z")))
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task="f")
    assert stand(bench) == "RUNNING: f COMPLETED, a SCHEDULED, c SCHEDULED, j IN_PROGRESS"
    assert work(bench) == "a c b z"


def test_rerun_in_a_dynamic_fork(bench: Bench) -> None:
    """From a task of a branch made at run time: its branch goes on from there, the others stay as they are."""
    bench.start(workflow(*forked(), node("z")), {"t": [tried("a"), tried("b"), tried("c")]})
    work(bench, {ref: {"first": ref} for ref in "abc"})
    bench.engine.rerun(bench.workflow_id, from_task="b")
    assert stand(bench) == "RUNNING: f COMPLETED, a COMPLETED, c COMPLETED, j IN_PROGRESS, b SCHEDULED"
    assert work(bench, {"b": {"second": "b"}}) == "b z"
    assert bench.task("j").output_data == {"a": {"first": "a"}, "b": {"second": "b"}, "c": {"first": "c"}}


def test_rerun_from_a_dynamic_task(bench: Bench) -> None:
    """A DYNAMIC asks its input again what it stands for."""
    bench.start(workflow(dynamic(), node("z")), {"who": "one"})
    work(bench)
    assert bench.task("d").task_type == "one"
    bench.engine.rerun(bench.workflow_id, from_task="d", input={"who": "two"})
    assert bench.task("d").task_type == "two"
    assert work(bench) == "d z"


def test_rerun_beside_running_branches(bench: Bench) -> None:
    """In a running execution the other branches go on untouched, also what a worker holds there."""
    bench.start(flow(fork("f", s("a1", "a2"), s("b")), join("j", "a2", "b"), *s("z")))
    held = bench.take("b")
    work(bench)
    bench.engine.rerun(bench.workflow_id, from_task="a1")
    assert stand(bench) == "RUNNING: f COMPLETED, b IN_PROGRESS, j IN_PROGRESS, a1 SCHEDULED"
    assert bench.task("b").task_id == held.task_id
    bench.report(held)
    assert work(bench) == "a1 a2 z"


def test_a_running_wait_loses_its_timer(bench: Bench) -> None:
    """What is run again while its timer runs is not ended by that timer."""
    bench.start(flow(wait("w", duration="10 seconds"), *s("z")))
    bench.at(6)
    bench.engine.rerun(bench.workflow_id, from_task="w")
    bench.at(15.999)
    assert stand(bench) == "RUNNING: w IN_PROGRESS"
    bench.at(16)
    assert work(bench) == "z"


def test_rerun_of_a_sub_workflow_task(bench: Bench) -> None:
    """A SUB_WORKFLOW task run again starts a new execution with the input given; the old one is ended if it runs."""
    bench.start(flow(sub("c", flow(*s("x"), name="inner")), *s("z")))
    first = child(bench, "c")
    bench.engine.rerun(bench.workflow_id, from_task="c", task_input={"n": 3})
    second = child(bench, "c")
    assert stand(bench, first) == "TERMINATED: x CANCELED"
    assert bench.engine.get(second).input_data == {"n": 3}
    assert work(bench) == "x z"
    assert stand(bench) == "COMPLETED: c COMPLETED, z COMPLETED"
    bench.engine.rerun(bench.workflow_id, from_task="c")
    assert stand(bench) == "RUNNING: c IN_PROGRESS"
    assert (work(bench), bench.engine.status(second)) == ("x z", "COMPLETED")


def test_rerun_of_a_task_below(bench: Bench) -> None:
    """A task id may be that of a task in any execution below; one from elsewhere is not found."""
    middle = flow(sub("m", flow(*s("x", "y"), name="inner")), name="middle")
    bench.start(flow(sub("c", middle), *s("z")))
    top = bench.workflow_id
    work(bench)
    deep = bench.engine.get(child(bench, "c", "m")).task("y").task_id
    bench.engine.rerun(top, from_task=deep)
    assert stand(bench) == "RUNNING: c IN_PROGRESS, z COMPLETED"
    assert stand(bench, child(bench, "c", "m")) == "RUNNING: x COMPLETED, y SCHEDULED"
    assert work(bench) == "y"
    with pytest.raises(TaskNotFound, match="has no task"):
        bench.engine.rerun(top, from_task=deep)  # it is another one now
    deep = bench.engine.get(child(bench, "c", "m")).task("y").task_id
    bench.start(flow(*s("other")))
    with pytest.raises(TaskNotFound, match="nor an execution below it"):
        bench.engine.rerun(bench.workflow_id, from_task=deep)
    work(bench)


# -- what is refused -----------------------------------------------------------------------------------------


def test_what_cannot_be_rerun(bench: Bench) -> None:
    """A paused execution, a task it has not come to, no task at all, an input that is no JSON: each is said, nothing changes."""
    with pytest.raises(ExecutionNotFound):
        bench.engine.rerun("nobody")
    bench.start(PLAIN)
    before = bench.journal()
    for wanted in ("b", "nothing", ""):
        with pytest.raises(TaskNotFound, match=f"no task '{wanted}'"):
            bench.engine.rerun(bench.workflow_id, from_task=wanted)
    odd: Any = {"x": object()}
    with pytest.raises(InvalidInput):
        bench.engine.rerun(bench.workflow_id, input=odd)
    assert bench.journal() == before
    bench.engine.pause(bench.workflow_id)
    for task in (None, "a"):
        with pytest.raises(Conflict, match="PAUSED workflow cannot be rerun: resume it first"):
            bench.engine.rerun(bench.workflow_id, from_task=task)
    bench.engine.resume(bench.workflow_id)
    work(bench)


def test_what_was_skipped_is_not_rerun(bench: Bench) -> None:
    """What was skipped before the flow has come to it is not run from; what it has passed over is; the JOIN goes with its fork."""
    bench.start(flow(*s("a", "b"), fork("f", s("x")), join("j", "x"), *s("z")))
    bench.engine.skip_task(bench.workflow_id, "b")
    bench.engine.skip_task(bench.workflow_id, "f")
    with pytest.raises(Conflict, match="does not come to 'b'"):
        bench.engine.rerun(bench.workflow_id, from_task="b")
    work(bench, leave=["z"])
    with pytest.raises(Conflict, match="'j' was skipped with its fork: rerun the fork"):
        bench.engine.rerun(bench.workflow_id, from_task="j")
    bench.engine.rerun(bench.workflow_id, from_task="b")
    assert work(bench) == "b x z"


def test_what_was_compensated_is_not_rerun_from_a_task(bench: Bench) -> None:
    """Behind what was undone nothing can go on; from the start it can."""
    undo = WorkflowDef.from_json(
        {"name": "undoing", "tasks": [tried("a", compensate=tried("undo")), tried("b"), *static("f", "j", [tried("c")])]}
    )
    bench.start(undo)
    assert work(bench, fail=["b"]) == "a b undo"
    assert stand(bench) == "FAILED: a COMPLETED, b FAILED, undo COMPLETED"
    with pytest.raises(Conflict, match="was compensated"):
        bench.engine.rerun(bench.workflow_id, from_task="b")
    bench.engine.rerun(bench.workflow_id)
    assert work(bench) == "a b c"
    assert stand(bench) == "COMPLETED: a COMPLETED, b COMPLETED, f COMPLETED, c COMPLETED, j COMPLETED"


# -- restart -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ENDED)
def test_restart(bench: Bench, how: str) -> None:
    """An ended execution runs again on the definition it began with, also when there is a newer one."""
    bench.engine.register(attrs.evolve(TIMED, version=1))
    bench.start("flow", {"n": 4})
    end(bench, how)
    bench.engine.register(attrs.evolve(TIMED, version=2, tasks=tuple(s("new"))))
    bench.at(80)
    bench.engine.restart(bench.workflow_id)
    assert stand(bench) == "RUNNING: a SCHEDULED"
    row = bench.workflow
    assert (row.failed_refs, row.failed_task_names, row.failed_task_id, row.reason) == ((), (), None, None)
    assert (bench.workflow.version, bench.workflow.input_data, bench.workflow.timeout_at) == (
        1,
        {"n": 4, "m": 2},
        bench.clock.now() + 60_000,
    )
    assert work(bench) == "a b"
    assert stand(bench) == "COMPLETED: a COMPLETED, b COMPLETED"


def test_restart_with_the_latest_definition(bench: Bench) -> None:
    """The highest version registered now, its template and its variables; the input that was given keeps its say."""
    bench.engine.register(attrs.evolve(PLAIN, version=1))
    bench.start("flow", {"n": 4})
    end(bench, "FAILED")
    newest = attrs.evolve(
        PLAIN, version=3, tasks=tuple(s("new")), input_template={"n": 9, "k": 5}, variables={"w": "other"}, output_parameters={}
    )
    bench.engine.register(newest)
    bench.engine.restart(bench.workflow_id, use_latest_definitions=True)
    row = bench.workflow
    assert (row.version, row.input_data, row.variables.value) == (3, {"n": 4, "m": 2, "k": 5}, {"w": "other"})
    assert work(bench) == "new"
    assert stand(bench) == "COMPLETED: new COMPLETED"


def test_what_cannot_be_restarted(bench: Bench) -> None:
    """One that runs or is paused, one whose definition forbids it, one whose name is not registered if the latest is wanted."""
    bench.start(attrs.evolve(PLAIN, restartable=False))
    with pytest.raises(Conflict, match="RUNNING workflow cannot be restarted: terminate it first"):
        bench.engine.restart(bench.workflow_id)
    bench.engine.pause(bench.workflow_id)
    with pytest.raises(Conflict, match="PAUSED workflow cannot be restarted"):
        bench.engine.restart(bench.workflow_id)
    bench.engine.resume(bench.workflow_id)
    end(bench, "FAILED")
    with pytest.raises(DefinitionNotFound, match="flow"):
        bench.engine.restart(bench.workflow_id, use_latest_definitions=True)
    bench.engine.restart(bench.workflow_id)
    end(bench, "COMPLETED")
    with pytest.raises(Conflict, match="COMPLETED workflow is not restartable"):
        bench.engine.restart(bench.workflow_id)
    with pytest.raises(ExecutionNotFound):
        bench.engine.restart("nobody")


def test_restart_before_the_first_task(bench: Bench) -> None:
    """An execution that was terminated before it began starts at once when restarted, and one without tasks ends again."""
    bench.start(PLAIN, delay="100ms")
    bench.engine.terminate(bench.workflow_id)
    bench.engine.restart(bench.workflow_id)
    assert stand(bench) == "RUNNING: a SCHEDULED"
    work(bench)
