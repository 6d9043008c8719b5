"""`diff`: what tells two definitions apart, in exact words."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite import WorkflowDef, diff


def task(ref: str, kind: str = "SIMPLE", **fields: Any) -> dict[str, Any]:
    """A task as JSON."""
    return {"name": ref, "taskReferenceName": ref, "type": kind, **fields}


def child(*tasks: dict[str, Any]) -> dict[str, Any]:
    """A sub-workflow with its definition inside."""
    return task("c", "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": {"name": "in", "tasks": list(tasks)}})


def flow(*tasks: dict[str, Any], **fields: Any) -> WorkflowDef:
    """A definition out of JSON."""
    return WorkflowDef.from_json({"name": "order", "tasks": list(tasks), **fields})


def text(old: WorkflowDef, new: WorkflowDef) -> list[str]:
    """The lines of a difference, without the first one."""
    return str(diff(old, new)).split("\n")[1:]


def test_nothing() -> None:
    """Equal definitions, versions apart, have no difference."""
    found = diff(flow(task("a")), flow(task("a"), version=2))
    assert not found
    assert str(found) == "order 1 → 2: no difference"


def test_everything_at_once() -> None:
    """Added, removed, changed, moved, the workflow's own fields, a task definition's, in this order."""
    old = flow(
        task("a", inputParameters={"x": 1}),
        task("b", taskDefinition={"name": "b", "retryCount": 1}),
        task("c"),
        task("d", description="d"),
        timeoutSeconds=5,
    )
    new = flow(
        task("c"),
        task("a", inputParameters={"x": 2}, optional=True),
        task("b", taskDefinition={"name": "b", "retryCount": 2, "timeoutSeconds": 9}),
        task("e", "WAIT"),
        outputParameters={"x": 1},
        version=3,
    )
    found = diff(old, new)
    assert (
        str(found)
        == """\
order 1 → 3:
  ~ workflow: outputParameters, timeoutSeconds
  + e
  - d
  ~ a: inputParameters, optional
  ~ b: taskDefinition.retryCount, taskDefinition.timeoutSeconds
  > c: elsewhere in the workflow itself"""
    )
    assert (found.added, found.removed, dict(found.moved)) == (("e",), ("d",), {"c": ("the workflow itself",) * 2})


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        pytest.param(
            flow(task("s", "SWITCH", decisionCases={"x": [task("a")], "y": [task("b")]})),
            flow(task("s", "SWITCH", decisionCases={"x": [task("b")], "z": [task("a")]})),
            [
                "  ~ s: decisionCases",
                "  > b: from case 'y' of 's' to case 'x' of 's'",
                "  > a: from case 'x' of 's' to case 'z' of 's'",
            ],
            id="cases",
        ),
        pytest.param(
            flow(task("f", "FORK_JOIN", forkTasks=[[task("a"), task("x")], [task("b")]]), task("j", "JOIN", joinOn=["x", "b"])),
            flow(
                task("f", "FORK_JOIN", forkTasks=[[task("n")], [task("b"), task("x")], [task("a")]]),
                task("j", "JOIN", joinOn=["n", "x", "a"]),
            ),
            ["  + n", "  ~ f: forkTasks", "  ~ j: joinOn", "  > x: from a branch of 'f' to another branch of 'f'"],
            id="branches",
        ),
        pytest.param(
            flow(task("l", "DO_WHILE", loopOver=[task("a")], loopCondition="false"), task("b")),
            flow(task("l", "DO_WHILE", loopOver=[task("b")], loopCondition="true"), task("a")),
            [
                "  ~ l: loopCondition",
                "  > b: from the workflow itself to the loop 'l'",
                "  > a: from the loop 'l' to the workflow itself",
            ],
            id="loops",
        ),
        pytest.param(
            flow(child(task("x"))),
            flow(child(task("x"), task("y"))),
            ["  ~ c: subWorkflowParam.workflowDefinition", "  c / in 1 → 1:", "  c / + y"],
            id="inline sub-workflow",
        ),
        pytest.param(
            flow(task("c", "SUB_WORKFLOW", subWorkflowParam={"name": "pay", "version": 1})),
            flow(task("c", "SUB_WORKFLOW", subWorkflowParam={"name": "pay", "version": 2}, custom=7)),
            ["  ~ c: custom, subWorkflowParam.version"],
            id="registered sub-workflow",
        ),
        pytest.param(
            flow(task("a", name="charge"), task("w", "WAIT", inputParameters={"duration": "1s"}), task("x")),
            flow(task("b", name="charge"), task("v", "WAIT", inputParameters={"duration": "1s"}), task("y", "WAIT")),
            [*["  + b", "  + v", "  + y", "  - a", "  - w", "  - x"], "  ? a → b: perhaps renamed", "  ? w → v: perhaps renamed"],
            id="renamed",
        ),
    ],
)
def test_one_thing(old: WorkflowDef, new: WorkflowDef, lines: list[str]) -> None:
    """Each kind of container and change has its words."""
    assert text(old, new) == lines
