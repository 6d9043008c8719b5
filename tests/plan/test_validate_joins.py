"""What is forked is joined, and no JOIN waits for what can never end before it."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite.model.definitions import WorkflowDef
from conductorlite.model.errors import Severity
from conductorlite.plan.validate import validate


def task(ref: str, type_: str = "SIMPLE", **properties: Any) -> dict[str, Any]:
    """A task as JSON."""
    return {"name": ref, "taskReferenceName": ref, "type": type_, **properties}


def join(*refs: str, ref: str = "j", **properties: Any) -> dict[str, Any]:
    """A JOIN on those references."""
    return task(ref, "JOIN", joinOn=list(refs), **properties)


def loop(ref: str, *body: dict[str, Any]) -> dict[str, Any]:
    """A DO_WHILE around a body."""
    return task(ref, "DO_WHILE", loopCondition="false", loopOver=list(body))


def switch(ref: str, *, default: tuple[dict[str, Any], ...] = (), **cases: list[dict[str, Any]]) -> dict[str, Any]:
    """A SWITCH over those cases."""
    properties = {"evaluatorType": "value-param", "expression": "x", "inputParameters": {"x": 1}}
    return task(ref, "SWITCH", decisionCases=cases, defaultCase=list(default), **properties)


def fork(*branches: list[dict[str, Any]], ref: str = "f") -> dict[str, Any]:
    """A FORK_JOIN with those branches."""
    return task(ref, "FORK_JOIN", forkTasks=list(branches))


def found(*tasks: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(`E` or `W`, path, message) of all that is wrong with a workflow of those tasks."""
    problems = validate(WorkflowDef.from_json({"name": "w", "tasks": list(tasks)}))
    return [("E" if each.severity is Severity.ERROR else "W", each.path, each.message) for each in problems]


A, B = task("a"), task("b")


@pytest.mark.parametrize(
    "tasks",
    [
        [fork([A], [B]), join("a", "b")],
        [fork([A, B], [fork([task("c")], ref="g"), join("c", ref="k")]), join("b", "k")],
        [A, join("a")],
        [loop("l", fork([A], [B]), join("a", "b"))],
        [fork([loop("l", A)], [B]), join("l", "b")],
        [switch("s", x=[fork([A], [B]), join("a", "b")])],
        [fork([switch("s", x=[A])], [B]), join("s", "b")],
        [switch("s", x=[A], y=[B]), task("e", "EXCLUSIVE_JOIN", joinOn=["a", "b"])],
        [switch("s", x=[A]), task("e", "EXCLUSIVE_JOIN", defaultExclusiveJoinTask=["a"])],
        [fork([A], [B, join("a")]), join("j", ref="k")],
    ],
)
def test_a_join_that_can_complete_is_accepted(tasks: list[dict[str, Any]]) -> None:
    """Joins on branches, earlier tasks, whole loops and whole switches are all in order."""
    assert found(*tasks) == []


BAD: list[tuple[list[dict[str, Any]], str, str, str]] = [
    ([fork([A], []), join("a")], "E", "$.tasks[0].forkTasks[1]", "each branch needs"),
    ([A, fork(), join("a")], "E", "$.tasks[1].forkTasks", "at least one branch"),
    ([fork([A])], "E", "$.tasks[0]", "not by nothing"),
    ([fork([A]), B], "E", "$.tasks[0]", "not by a SIMPLE"),
    ([fork([A]), task("e", "EXCLUSIVE_JOIN", joinOn=["a"])], "E", "$.tasks[0]", "not by a EXCLUSIVE_JOIN"),
    ([task("f", "FORK_JOIN_DYNAMIC", inputParameters={"forkTaskInputs": []})], "E", "$.tasks[0]", "not by nothing"),
    ([task("f", "FORK_JOIN_DYNAMIC"), join()], "E", "$.tasks[0]", "needs inputParameters.forkTaskInputs"),
    ([task("f", "FORK_JOIN_DYNAMIC", dynamicForkTasksParam="x"), join()], "E", "$.tasks[0]", "needs inputParameters"),
    (
        [task("f", "FORK_JOIN_DYNAMIC", dynamicForkTasksParam="x", dynamicForkJoinTasksParam="y"), join()],
        "E",
        "$.tasks[0]",
        "has both",
    ),
    ([A, join()], "E", "$.tasks[1].joinOn", "is empty"),
    ([A, join("a", "zz")], "E", "$.tasks[1].joinOn[1]", "'zz' is not the reference"),
    ([A, join("a", "a")], "W", "$.tasks[1].joinOn[1]", "listed twice"),
    ([join("j")], "E", "$.tasks[0].joinOn[0]", "is the join itself"),
    ([join("a"), A], "E", "$.tasks[0].joinOn[0]", "comes after the join"),
    ([join("a"), switch("s", x=[A])], "E", "$.tasks[0].joinOn[0]", "comes after the join"),
    ([switch("s", x=[join("a")]), A], "E", "$.tasks[0].decisionCases.x[0].joinOn[0]", "comes after the join"),
    ([loop("l", A), join("a")], "E", "$.tasks[1].joinOn[0]", "is in the loop 'l', and the join is not"),
    ([A, loop("l", join("a"))], "E", "$.tasks[1].loopOver[0].joinOn[0]", "is not in the join's loop"),
    ([loop("l", A), loop("m", join("a"))], "E", "$.tasks[1].loopOver[0].joinOn[0]", "is not in the join's loop"),
    ([loop("l", A, join("l"))], "E", "$.tasks[0].loopOver[1].joinOn[0]", "is the loop this join is in"),
    ([loop("l", loop("m", A), join("a"))], "E", "$.tasks[0].loopOver[1].joinOn[0]", "in the loop 'm'"),
    ([switch("s", x=[A], y=[join("a")])], "E", "$.tasks[0].decisionCases.y[0].joinOn[0]", "another case of the same"),
    (
        [switch("s", x=[A], default=(join("a"),))],
        "E",
        "$.tasks[0].defaultCase[0].joinOn[0]",
        "another case of the same",
    ),
    ([fork([switch("s", x=[A])], [B]), join("a", "b")], "W", "$.tasks[1].joinOn[0]", "only in one case of 's'"),
    ([task("e", "EXCLUSIVE_JOIN")], "E", "$.tasks[0].joinOn", "is empty"),
    ([task("e", "EXCLUSIVE_JOIN", joinOn=["a"]), A], "E", "$.tasks[0].joinOn[0]", "comes after the join"),
    (
        [A, task("e", "EXCLUSIVE_JOIN", joinOn=["a"], defaultExclusiveJoinTask=["zz"])],
        "E",
        "$.tasks[1].defaultExclusiveJoinTask[0]",
        "'zz' is not the reference",
    ),
]


@pytest.mark.trap("tasks-13")
@pytest.mark.parametrize(("tasks", "severity", "path", "message"), BAD)
def test_a_join_that_cannot_complete_is_reported(tasks: list[dict[str, Any]], severity: str, path: str, message: str) -> None:
    """Each bad fork or join is one problem, at the reference that causes it."""
    rows = found(*tasks)
    assert [row[:2] for row in rows] == [(severity, path)]
    assert message in rows[0][2]
