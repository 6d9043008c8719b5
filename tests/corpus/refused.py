"""Types this release reads, validates and writes, and refuses to start by name."""

from __future__ import annotations

from make import J, entry, flow, given, node, seq


def refused() -> list[J]:
    """One definition per way to use such a type."""
    joined = node("join", "JOIN")
    dynamic = {"dynamicForkTasksParam": "tasks", "dynamicForkTasksInputParamName": "inputs"}
    same = {"forkTaskName": "resize", "forkTaskInputs": [{"w": 1}, {"w": 2}]}
    spread = {"forkTaskWorkflow": "one", "forkTaskWorkflowVersion": "1", "forkTaskInputs": "${workflow.input.all}"}
    return [
        entry("DYNAMIC", flow("dynamic", [node("d", "DYNAMIC", dynamicTaskNameParam="who", inputParameters={"who": "a"})])),
        entry(
            "two parameters",
            flow(
                "fork_two",
                [
                    node(
                        "f",
                        "FORK_JOIN_DYNAMIC",
                        inputParameters={"tasks": "${workflow.input.t}", "inputs": "${workflow.input.i}"},
                        **dynamic,
                    ),
                    joined,
                ],
            ),
        ),
        entry(
            "the legacy parameter",
            flow(
                "fork_legacy",
                [
                    node(
                        "f", "FORK_JOIN_DYNAMIC", inputParameters={"all": "${workflow.input.all}"}, dynamicForkJoinTasksParam="all"
                    ),
                    joined,
                ],
            ),
        ),
        entry("one task many times", flow("fork_same", [given("f", "FORK_JOIN_DYNAMIC", **same), joined])),
        entry("one workflow many times", flow("fork_workflows", [given("f", "FORK_JOIN_DYNAMIC", **spread), joined])),
        entry(
            "a dynamic fork, its JOIN and the next",
            flow("fork_then", [given("FD", "FORK_JOIN_DYNAMIC", **same), joined, *seq("z")]),
        ),
    ]
