"""What the simulations run: small workflows that together use retries, forks, loops, children, timers and limits."""

from __future__ import annotations

from typing import Any

from conductorlite import WorkflowDef

__all__ = ["WORKFLOWS"]

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

PAUSE: Json = {"name": "w", "taskReferenceName": "w", "type": "WAIT", "inputParameters": {"duration": "1 s"}}

CHILD: Json = {
    "name": "s",
    "taskReferenceName": "s",
    "type": "SUB_WORKFLOW",
    "subWorkflowParam": {"workflowDefinition": {"name": "child", "tasks": [node("a"), PAUSE]}},
}

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
]
