"""Tasks and definitions in Conductor's JSON, for what is made at run time."""

from __future__ import annotations

from typing import Any

from conductorlite import WorkflowDef

Json = dict[str, Any]


def node(ref: str, type: str = "SIMPLE", **fields: Any) -> Json:
    """A task; its name is its reference unless given."""
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


def forked(ref: str = "f", join: str = "j", tasks: Any = "${workflow.input.t}", inputs: Any = None, **fields: Any) -> list[Json]:
    """A FORK_JOIN_DYNAMIC over a list of tasks, and its JOIN."""
    given = {"t": tasks, "i": {} if inputs is None else inputs}
    names = {"dynamicForkTasksParam": "t", "dynamicForkTasksInputParamName": "i"}
    return [node(ref, "FORK_JOIN_DYNAMIC", inputParameters=given, **names, **fields), node(join, "JOIN")]


def same(inputs: Any, ref: str = "f", join: str = "j", **given: Any) -> list[Json]:
    """A FORK_JOIN_DYNAMIC of one task for each input, and its JOIN."""
    return [node(ref, "FORK_JOIN_DYNAMIC", inputParameters={"forkTaskInputs": inputs, **given}), node(join, "JOIN")]


def loop(ref: str, *body: Json, times: int = 2) -> Json:
    """A DO_WHILE of so many rounds."""
    return node(ref, "DO_WHILE", loopCondition=f"$.{ref}['iteration'] < {times}", loopOver=list(body))


def switched(ref: str, case: str, **cases: list[Json]) -> Json:
    """A SWITCH that takes one of its cases."""
    how = {"evaluatorType": "value-param", "expression": "case", "inputParameters": {"case": case}}
    return node(ref, "SWITCH", decisionCases=cases, **how)


def static(ref: str, join: str, *branches: list[Json]) -> list[Json]:
    """A FORK_JOIN and its JOIN."""
    last = [branch[-1]["taskReferenceName"] for branch in branches]
    return [node(ref, "FORK_JOIN", forkTasks=list(branches)), node(join, "JOIN", joinOn=last)]


def tried(ref: str, retries: int = 0, **fields: Any) -> Json:
    """A task that is tried again at once so many times."""
    return node(ref, taskDefinition={"name": ref, "retryCount": retries, "retryDelaySeconds": 0}, **fields)


def dynamic(ref: str = "d", who: Any = "${workflow.input.who}", inputs: Json | None = None, **fields: Any) -> Json:
    """A DYNAMIC."""
    return node(ref, "DYNAMIC", dynamicTaskNameParam="who", inputParameters={"who": who, **(inputs or {})}, **fields)


def starting(request: Any, ref: str = "s", **fields: Any) -> Json:
    """A START_WORKFLOW."""
    return node(ref, "START_WORKFLOW", inputParameters={"startWorkflow": request}, **fields)


def workflow(*tasks: Json, **fields: Any) -> WorkflowDef:
    """A definition of these tasks."""
    return WorkflowDef.from_json({"name": "flow", "tasks": list(tasks), **fields})
