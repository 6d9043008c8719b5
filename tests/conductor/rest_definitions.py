"""Requests about what is kept: definitions, event handlers, schedules."""

from __future__ import annotations

from typing import Any, Final

from cases import OWN, task, workflow
from rest_requests import Story, delete, get, post, put

_FLOWS: Final = (
    workflow(task("a"), task("b"), name="w", outputParameters={"o": "${b.output.o}"}),
    workflow(task("wait", "WAIT"), task("b"), name="waits"),
    workflow(task("s", "SUB_WORKFLOW", subWorkflowParam={"name": f"{OWN}w", "version": 1}), name="parent"),
    workflow(task("set", "SET_VARIABLE", inputParameters={"x": "${workflow.input.x}"}), name="sets", outputParameters={"x": 1}),
)
GIVEN: Final = (
    post(
        "/metadata/taskdefs",
        [{"name": f"{OWN}{ref}", "ownerEmail": "a@example.org", "retryCount": 1, "retryDelaySeconds": 0} for ref in "ab"],
    ),
    put("/metadata/workflow", list(_FLOWS)),
)


def quoted(text: str) -> str:
    return "".join(each if each.isalnum() or each == OWN else f"%{ord(each):02X}" for each in text)


# ---------------------------------------------------------------------- definitions

_A: Final = task("a")
_FULL: Final = {
    "name": f"{OWN}full",
    "description": "all of it",
    "ownerEmail": "a@example.org",
    "retryCount": 2,
    "retryLogic": "EXPONENTIAL_BACKOFF",
    "retryDelaySeconds": 5,
    "backoffScaleFactor": 3,
    "timeoutSeconds": 100,
    "timeoutPolicy": "ALERT_ONLY",
    "responseTimeoutSeconds": 50,
    "pollTimeoutSeconds": 70,
    "concurrentExecLimit": 4,
    "rateLimitPerFrequency": 9,
    "rateLimitFrequencyInSeconds": 60,
    "inputKeys": ["x"],
    "outputKeys": ["y"],
    "inputTemplate": {"x": 1},
    "unknown": True,
}


def task_definitions() -> Story:
    def named(**more: Any) -> list[dict[str, Any]]:
        return [{"name": f"{OWN}bad", "ownerEmail": "a@example.org", **more}]

    bad: tuple[list[dict[str, Any]], ...] = (
        [{"ownerEmail": "a@example.org"}],
        named(retryCount=-1),
        named(retryCount="x"),
        named(retryLogic="SOMETIMES"),
        named(timeoutPolicy="NEVER"),
        named(timeoutSeconds=-1),
        named(timeoutSeconds=5, responseTimeoutSeconds=10),
        named(responseTimeoutSeconds=0),
        named(backoffScaleFactor=0),
        named(inputKeys="x"),
        named(inputTemplate=[]),
        named(ownerEmail="nobody"),
        named(name=""),
        named(name=None),
    )
    taskdefs = "/metadata/taskdefs"
    return Story(
        "definitions/tasks",
        (
            post(taskdefs, [_FULL, {"name": f"{OWN}small"}]),
            get(f"{taskdefs}/{OWN}full"),
            get(f"{taskdefs}/{OWN}small"),
            get(taskdefs),
            put(taskdefs, {**_FULL, "retryCount": 7}),
            get(f"{taskdefs}/{OWN}full"),
            post(taskdefs, [_FULL]),
            put(taskdefs, {"name": f"{OWN}nobody"}),
            put(taskdefs, {"name": f"{OWN}full", "retryCount": -1}),
            *(post(taskdefs, each) for each in bad),
            get(f"{taskdefs}/{OWN}bad"),
            delete(f"{taskdefs}/{OWN}full"),
            delete(f"{taskdefs}/{OWN}full"),
            get(f"{taskdefs}/{OWN}full"),
        ),
    )


def workflow_definitions() -> Story:
    flows = "/metadata/workflow"
    shaped = workflow(
        _A,
        task("s", "SWITCH", evaluatorType="value-param", expression="x", inputParameters={"x": "${workflow.input.x}"})
        | {"decisionCases": {"y": [task("b")]}, "defaultCase": [task("c")]},
        task("f", "FORK_JOIN", forkTasks=[[task("d")], [task("e")]]),
        task("j", "JOIN", joinOn=["d", "e"]),
        task("w", "DO_WHILE", loopCondition="false", loopOver=[task("l")]),
        name="shaped",
        description="shapes",
        outputParameters={"o": "${a.output.o}"},
        inputParameters=["x"],
        failureWorkflow=f"{OWN}none",
        timeoutPolicy="ALERT_ONLY",
    )
    bad: tuple[dict[str, Any], ...] = (
        workflow(name="bad"),
        workflow(_A, _A, name="bad"),
        workflow({"name": "a", "type": "SIMPLE"}, name="bad"),
        workflow({"taskReferenceName": "a", "type": "SIMPLE"}, name="bad"),
        workflow(_A, name="bad", schemaVersion=1),
        workflow(_A, name="bad", version="x"),
        workflow(_A, name="bad", timeoutPolicy="NEVER"),
        workflow(_A, name="bad", timeoutSeconds=-1),
        workflow(_A, name="bad", ownerEmail="nobody"),
        workflow(_A, name="bad", outputParameters=[]),
        workflow(_A, name="bad", tasks={}),
        workflow(task("a", "SWITCH"), name="bad"),
        workflow(task("a", "FORK_JOIN"), name="bad"),
        workflow(task("a", "FORK_JOIN", forkTasks=[[task("d")], [task("e")]]), task("n", "NOOP"), name="bad"),
        workflow(task("a", "DO_WHILE"), name="bad"),
        workflow(task("a", "SUB_WORKFLOW"), name="bad"),
        workflow(task("a", "DYNAMIC"), name="bad"),
        workflow(task("a", "EVENT"), name="bad"),
        workflow(task("a", inputParameters={"x": "${nobody.output.x}"}), name="bad"),
        {**workflow(_A), "name": ""},
        {**workflow(_A), "name": "a/b"},
    )
    return Story(
        "definitions/workflows",
        (
            post(flows, workflow(_A, name="w")),
            post(flows, workflow(_A, name="w")),
            post(f"{flows}?overwrite=true", workflow(_A, name="w", description="again")),
            post(flows, workflow(_A, name="w", version=3)),
            get(f"{flows}/{OWN}w"),
            get(f"{flows}/{OWN}w?version=1"),
            get(f"{flows}/{OWN}w?version=2"),
            get(f"{flows}/{OWN}w/versions"),
            get(f"{flows}/{OWN}nobody/versions"),
            put(flows, [workflow(_A, name="w"), workflow(_A, name="v"), shaped]),
            get(f"{flows}/{OWN}shaped"),
            get(f"{flows}/names"),
            get(f"{flows}/names-and-versions"),
            get(f"{flows}/latest-versions"),
            get(flows),
            post(f"{flows}/validate", workflow(_A, name="w")),
            put(flows, [workflow(_A, name="good"), workflow(name="bad")]),
            get(f"{flows}/{OWN}good"),
            *(post(f"{flows}/validate", each) for each in bad),
            *(post(flows, each) for each in bad[:3]),
            put(flows, []),
            delete(f"{flows}/{OWN}w/3"),
            delete(f"{flows}/{OWN}w/3"),
            get(f"{flows}/{OWN}w"),
        ),
    )


# ---------------------------------------------------------------------- events, schedules


def events() -> Story:
    def handler(**more: Any) -> dict[str, Any]:
        begins = {"action": "start_workflow", "start_workflow": {"name": f"{OWN}w", "input": {"x": "${x}"}}}
        return {"name": f"{OWN}h", "event": f"conductor:{OWN}e", "actions": [begins], **more}

    bad = (
        handler(name=""),
        handler(event=""),
        handler(actions=[]),
        handler(actions=[{}]),
        handler(actions=[{"action": "dance"}]),
        handler(actions=[{"action": "start_workflow"}]),
        handler(active="x"),
        handler(event="nothing"),
    )
    return Story(
        "events/handlers",
        (
            post("/event", handler()),
            post("/event", handler()),
            get("/event"),
            get(f"/event/conductor%3A{OWN}e"),
            get(f"/event/conductor%3A{OWN}e?activeOnly=false"),
            put("/event", handler(active=True, condition="$.x > 1")),
            get(f"/event/conductor%3A{OWN}e?activeOnly=true"),
            get("/event/nobody"),
            *(post("/event", each) for each in bad),
            put("/event", handler(name=f"{OWN}nobody")),
            delete(f"/event/{OWN}h"),
            delete(f"/event/{OWN}h"),
            get(f"/event/conductor%3A{OWN}e?activeOnly=false"),
        ),
    )


def schedules() -> Story:
    at = "/scheduler/schedules"

    def one(**more: Any) -> dict[str, Any]:
        known = {"name": f"{OWN}s", "cronExpression": "0 0 9 1 1 ?", "startWorkflowRequest": {"name": f"{OWN}w", "version": 1}}
        return {**known, "paused": True, **more}

    bad = (
        one(name=""),
        one(cronExpression=""),
        one(cronExpression="x"),
        one(startWorkflowRequest=None),
        one(startWorkflowRequest={}),
        one(zoneId="Nowhere/Land"),
        one(paused="x"),
        one(scheduleStartTime=-1),
    )
    instants = "scheduleStartTime=1700000000000"
    return Story(
        "schedules/kept",
        (
            *GIVEN,
            post(at, one()),
            get(f"{at}/{OWN}s"),
            get(at),
            get(f"{at}?workflowName={OWN}w"),
            get(f"{at}?workflowName={OWN}nobody"),
            get(f"{at}/search?scheduleName={OWN}s"),
            get(f"{at}/search?workflowName={OWN}w&paused=true&size=1"),
            get(f"{at}/search?workflowName={OWN}w&paused=false"),
            put(f"{at}/{OWN}s/resume"),
            get(f"{at}/{OWN}s"),
            put(f"{at}/{OWN}s/pause?reason=why"),
            get(f"{at}/{OWN}s"),
            put("/scheduler/bulk/resume", [f"{OWN}s", "nobody"]),
            put("/scheduler/bulk/pause", [f"{OWN}s", "nobody"]),
            post(at, one(description="again", zoneId="Europe/Berlin")),
            get(f"{at}/{OWN}s"),
            *(post(at, each) for each in bad),
            *(
                get(f"/scheduler/nextFewSchedules?cronExpression={quoted(cron)}&{instants}&limit={limit}")
                for cron, limit in (("0 0 9 * * ?", 3), ("0 0/5 * * * *", 2), ("x", 1), ("0 0 9 31 2 ?", 1), ("0 0 9 * * ?", 0))
            ),
            get("/scheduler/search/executions?size=1"),
            get("/scheduler/admin/requeue"),
            delete(f"{at}/{OWN}s"),
            delete(f"{at}/{OWN}s"),
            get(f"{at}/{OWN}s"),
        ),
    )
