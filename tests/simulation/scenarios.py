"""What the simulations run: small workflows that together use every operator that schedules, timers, limits and compensation."""

from __future__ import annotations

from typing import Any

from conductorlite import WorkflowDef

__all__ = ["REGISTERED", "TALKING", "WORKFLOWS"]

Json = dict[str, Any]


def node(name: str, **definition: Any) -> Json:
    """A worker's task that is retried, and whose worker may be given up."""
    policy = {"retryCount": 2, "retryDelaySeconds": 1, "responseTimeoutSeconds": 3, "timeoutSeconds": 20}
    policy |= {"timeoutPolicy": "RETRY", "pollTimeoutSeconds": 0}
    return {"name": name, "taskReferenceName": name, "taskDefinition": {"name": name, **policy, **definition}}


def workflow(name: str, *tasks: Json, **fields: Any) -> WorkflowDef:
    """A definition."""
    return WorkflowDef.from_json({"name": name, "tasks": list(tasks), **fields})


FORK: list[Json] = [
    {
        "name": "f",
        "taskReferenceName": "f",
        "type": "FORK_JOIN",
        "forkTasks": [[node("a")], [node("b"), node("c")]],
    },
    {"name": "j", "taskReferenceName": "j", "type": "JOIN", "joinOn": ["a", "c"]},
]

LOOP: Json = {
    "name": "l",
    "taskReferenceName": "l",
    "type": "DO_WHILE",
    "loopCondition": "$.l['iteration'] < 3",
    "loopOver": [node("a"), node("b")],
}


def of(ref: str, type: str, **fields: Any) -> Json:
    """A task that the engine carries out."""
    return {"name": ref, "taskReferenceName": ref, "type": type, **fields}


PAUSE = of("w", "WAIT", inputParameters={"duration": "1 s"})


def child(ref: str, *tasks: Json) -> Json:
    """A SUB_WORKFLOW with its definition inside."""
    return of(ref, "SUB_WORKFLOW", subWorkflowParam={"workflowDefinition": {"name": f"child of {ref}", "tasks": list(tasks)}})


CHILD = child("s", node("a"), PAUSE)

DYNAMIC_FORK = [
    of(
        "d",
        "FORK_JOIN_DYNAMIC",
        dynamicForkTasksParam="tasks",
        dynamicForkTasksInputParamName="inputs",
        inputParameters={"tasks": [node("x"), node("y")], "inputs": {}},
    ),
    of("dj", "JOIN"),
]

SWITCH = of(
    "sw",
    "SWITCH",
    evaluatorType="value-param",
    expression="x",
    inputParameters={"x": "${a.output.said}"},
    decisionCases={"1": [node("b")], "2": [node("c")]},
    defaultCase=[node("d")],
)


def undone(ref: str) -> Json:
    """A task with a compensation, that fails for good."""
    return {**node(ref, retryCount=0), "compensate": "undo"}


#: Workflows that others refer to by name.
REGISTERED: list[WorkflowDef] = [workflow("cleanup", node("n"))]

#: Each with the input it is started with; one of them is kept apart from its row, for its size.
WORKFLOWS: list[tuple[WorkflowDef, Json]] = [
    (workflow("chain", node("a"), node("b"), node("c")), {"note": "large " * 400}),
    (workflow("fork", *FORK), {}),
    (workflow("loop", LOOP), {}),
    (workflow("parent", CHILD, node("b")), {}),
    (
        workflow(
            "limited",
            node("a"),
            node("few", concurrentExecLimit=1),
            node("slow", rateLimitPerFrequency=1, rateLimitFrequencyInSeconds=2),
            rateLimitConfig={"rateLimitKey": "k", "concurrentExecLimit": 1},
        ),
        {},
    ),
    (workflow("timed", node("a"), PAUSE, node("b"), timeoutSeconds=3, timeoutPolicy="TIME_OUT_WF"), {}),
    (workflow("dynamic", *DYNAMIC_FORK, node("b")), {}),
    (workflow("choice", {**node("a"), "optional": True}, SWITCH, of("h", "HUMAN"), node("z")), {}),
    (
        workflow(
            "saga",
            undone("a"),
            of("f", "FORK_JOIN", forkTasks=[[undone("b")], [undone("c")]]),
            of("j", "JOIN", joinOn=["b", "c"]),
            node("e", retryCount=0),
        ),
        {},
    ),
    (workflow("nested", of("l", "DO_WHILE", loopCondition="$.l['iteration'] < 2", loopOver=[CHILD, *DYNAMIC_FORK])), {}),
    (
        workflow(
            "fails",
            node("a", retryCount=0),
            node("b", retryLogic="EXPONENTIAL_BACKOFF", timeoutPolicy="TIME_OUT_WF", pollTimeoutSeconds=4),
            failureWorkflow="cleanup",
        ),
        {},
    ),
    (
        workflow("family", CHILD, child("t", CHILD, node("q")), rateLimitConfig={"rateLimitKey": "k", "concurrentExecLimit": 1}),
        {},
    ),
]


def receives(ref: str, topic: str, **inputs: Any) -> Json:
    """A task that waits for messages of a topic, two seconds at most."""
    return of(ref, "PULL_WORKFLOW_MESSAGES", inputParameters={"topic": topic, "duration": "2 s", **inputs})


EMITS = of("e", "EMIT", inputParameters={"value": {"flow": "${workflow.workflowId}"}, "stream": "x"})

#: Workflows that receive messages, and emit values beside those of their workers.
TALKING: list[tuple[WorkflowDef, Json]] = [
    (workflow("asks", node("a"), receives("p", "x"), EMITS, receives("q", "y", batchSize=3), node("b")), {}),
    (
        workflow(
            "both",
            of("f", "FORK_JOIN", forkTasks=[[receives("p", "x"), node("b")], [node("a"), receives("q", "x")]]),
            of("j", "JOIN", joinOn=["b", "q"]),
            node("c"),
        ),
        {},
    ),
    (
        workflow(
            "hears",
            of("l", "DO_WHILE", loopCondition="$.l['iteration'] < 3", loopOver=[receives("p", "x", batchSize=2), node("a")]),
        ),
        {},
    ),
    (workflow("family", child("s", node("a"), receives("p", "y"), EMITS), node("b")), {}),
    (workflow("works", node("a"), node("b"), of("h", "HUMAN"), node("c", retryCount=0)), {}),
]
