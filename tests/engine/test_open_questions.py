"""What Conductor's documents leave open, or its server does by accident, as it was decided here: each has a row that says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, TaskResult, TaskStatus, VirtualClock, WorkflowDef
from conductorlite.errors import DefinitionNotFound
from conductorlite.model.documents import workflow_to_json

T0 = 1_900_000_000_000


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a virtual clock."""
    with Engine(str(tmp_path / "a.db") if request.param == "sqlite" else None, clock=VirtualClock(T0)) as made:
        yield made


def task(ref: str, kind: str = "SIMPLE", **fields: Any) -> dict[str, Any]:
    """A task in JSON; a worker's is not retried."""
    limit = {"taskDefinition": {"name": ref, "retryCount": 0}} if kind == "SIMPLE" else {}
    return {"name": ref, "taskReferenceName": ref, "type": kind, **limit, **fields}


def flow(*tasks: dict[str, Any], name: str = "w", **fields: Any) -> WorkflowDef:
    """A definition of tasks in JSON."""
    return WorkflowDef.from_json({"name": name, "tasks": tasks, **fields})


def report(engine: Engine, ref: str, output: dict[str, Any] | None = None, status: TaskStatus = TaskStatus.COMPLETED) -> None:
    """Have a worker end the task of a type."""
    (polled,) = engine.poll(ref)
    result = TaskResult(
        workflow_id=polled.workflow_id, task_id=polled.task_id, status=status, lease=polled.lease, output_data=output or {}
    )
    engine.update_task(result)


def test_a_failure_workflow_is_told_everything(engine: Engine) -> None:
    """`failedWorkflow` is the execution as its JSON shows it once it has ended, with what it puts out."""
    engine.register(flow(task("z", "HUMAN"), name="undo"))
    definition = flow(
        task("a"),
        task("b"),
        name="w",
        failureWorkflow="undo",
        outputParameters={"paid": "${a.output.paid}"},
        description="it",
        variables={"v": 1},
    )
    run = engine.start(definition, {"n": 7}, priority=3, correlation_id="c", task_to_domain={"q": "d"})
    report(engine, "a", {"paid": True})
    engine.advance("5s")
    report(engine, "b", {"half": 1}, TaskStatus.FAILED)
    engine.settle()
    (undo,) = engine.executions("undo")
    told = engine.get(undo.workflow_id).input_data["failedWorkflow"]
    shown = workflow_to_json(run.workflow)
    assert shown["output"].pop("conductor.failure_workflow") == undo.workflow_id
    assert told.pop("failedTaskId") == run.workflow.failed_task_id
    assert told["workflowDefinition"]["description"] == "it"
    assert (told["output"], told["failedTaskNames"], told["priority"]) == ({"paid": True}, ["b"], 3)
    bare = [{key: each.get(key) for key in told["tasks"][0]} for each in shown.pop("tasks")]
    for mine, theirs in zip(told.pop("tasks"), bare, strict=True):
        # What a task repeats of its execution, and whether its successors have their rows, is not told.
        assert {**mine, "executed": None} == {**theirs, "executed": None}
    assert told == {key: value for key, value in shown.items() if key in told}
    assert set(shown) - set(told) <= {"createdBy"}


def test_a_rerun_renders_its_input_anew(engine: Engine) -> None:
    """What stands before the task now is its input, unless one is given."""
    run = engine.start(flow(task("a", inputParameters={"v": "${workflow.variables.v}"}), variables={"v": 1}))
    report(engine, "a")
    engine.rerun(run.workflow_id, from_task="a")
    assert run.workflow.task("a").input_data == {"v": 1}
    engine.update_variables(run.workflow_id, {"v": 2})
    engine.rerun(run.workflow_id, from_task="a")
    assert run.workflow.task("a").input_data == {"v": 2}
    engine.rerun(run.workflow_id, from_task="a", task_input={"v": 3})
    assert run.workflow.task("a").input_data == {"v": 3}


def test_a_join_that_is_retried_is_the_row_it_was(engine: Engine) -> None:
    """A FAILED JOIN that goes on has the same id and retryCount: it was not tried again, what it waits for was."""
    fork = task("f", "FORK_JOIN", forkTasks=[[task("a", permissive=True)], [task("b")]])
    run = engine.start(flow(fork, task("j", "JOIN", joinOn=["a", "b"])))
    report(engine, "a", status=TaskStatus.FAILED)
    report(engine, "b")
    before = run.workflow.task("j")
    assert (str(run.status), str(before.status)) == ("FAILED", "FAILED")
    engine.retry(run.workflow_id)
    after = run.workflow.task("j")
    assert (str(after.status), after.task_id, after.attempt) == ("IN_PROGRESS", before.task_id, 0)


def test_the_definition_of_an_operator_has_its_name(engine: Engine) -> None:
    """`taskDefName` is the name in the definition, for every type."""
    cases = {"evaluatorType": "value-param", "expression": "x", "decisionCases": {"1": [task("h", "HUMAN")]}}
    fork = task("f", "FORK_JOIN", forkTasks=[[task("s", "SWITCH", inputParameters={"x": 1}, **cases)]])
    run = engine.start(flow(fork, task("j", "JOIN", joinOn=["s"])))
    shown = workflow_to_json(run.workflow)["tasks"]
    names = {each["referenceTaskName"]: (each["taskType"], each["taskDefName"]) for each in shown}
    assert names == {"f": ("FORK", "f"), "s": ("SWITCH", "s"), "h": ("HUMAN", "h"), "j": ("JOIN", "j")}


@pytest.mark.parametrize("end", ["timeout", "terminate", "failure"])
def test_an_ended_execution_puts_out_how_its_tasks_ended(engine: Engine, end: str) -> None:
    """`${a.status}` of what was open is CANCELED, as the task itself says."""
    fork = task("f", "FORK_JOIN", forkTasks=[[task("a")], [task("b")]])
    timeout = {"timeoutSeconds": 60, "timeoutPolicy": "TIME_OUT_WF"}
    run = engine.start(flow(fork, task("j", "JOIN", joinOn=["a", "b"]), outputParameters={"a": "${a.status}"}, **timeout))
    if end == "failure":
        report(engine, "b", status=TaskStatus.FAILED)
    elif end == "terminate":
        engine.terminate(run.workflow_id)
    else:
        engine.advance("60s")
    assert run.workflow.output_data == {"a": "CANCELED"} == {"a": str(run.workflow.task("a").status)}


def test_when_keep_last_n_drops_a_round(engine: Engine) -> None:
    """With the end of a later round: until then as many that have ended are there, beside the one at work."""
    body = [task("a")]
    run = engine.start(
        flow(task("l", "DO_WHILE", loopCondition="$.l.iteration < 4", loopOver=body, inputParameters={"keepLastN": 2}))
    )
    seen = []
    for _ in range(4):
        seen.append([each.ref for each in run.workflow.tasks if each.base_ref == "a"])
        report(engine, "a")
    assert seen == [["a__1"], ["a__1", "a__2"], ["a__1", "a__2", "a__3"], ["a__2", "a__3", "a__4"]]
    assert [each.ref for each in run.workflow.tasks if each.base_ref == "a"] == ["a__3", "a__4"]
    assert sorted(run.workflow.task("l").output_data) == ["3", "4", "iteration"]


@pytest.mark.parametrize("version", [{}, {"version": 7}])
def test_a_sub_workflow_that_is_not_there(engine: Engine, version: dict[str, int]) -> None:
    """The start is refused, whether the name or the version is not registered; without a version the latest counts."""
    child = task("s", "SUB_WORKFLOW", subWorkflowParam={"name": "c", **version})
    with pytest.raises(DefinitionNotFound, match="'c'"):
        engine.start(flow(child))
    engine.register(flow(task("x", "HUMAN"), name="c"), flow(task("y", "HUMAN"), name="c", version=2))
    if version:
        with pytest.raises(DefinitionNotFound, match="7"):
            engine.start(flow(child))
    else:
        run = engine.start(flow(child))
        engine.settle()
        assert engine.admin.children(run.workflow_id)[0].version == 2


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("'' + $.m", "[object Object]"),
        ("'' + $.l", "1,2,[object Object]"),
        ("[$.m, $.l].join(' ')", "[object Object] 1,2,[object Object]"),
        ("JSON.stringify($.m)", '{"a":1}'),
        ("JSON.stringify($.l)", '[1,2,{"b":null}]'),
        ("Object.keys($.m)", ["a"]),
        ("0/0", "NaN"),
        ("-1/0", "-Infinity"),
        ("({n: 0/0, l: [1/0]})", {"n": "NaN", "l": ["Infinity"]}),
    ],
)
def test_how_values_print_in_scripts(script: str, result: Any) -> None:
    """A map and a list are JavaScript's own; what JSON has no number for is its text."""
    with Engine(clock=VirtualClock(T0)) as engine:
        given = {"expression": script, "evaluatorType": "javascript", "m": {"a": 1}, "l": [1, 2, {"b": None}]}
        run = engine.start(flow(task("i", "INLINE", inputParameters=given)))
        assert run.workflow.task("i").output_data == {"result": result}
