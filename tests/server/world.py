"""An engine with something for every operation of the REST API to act on, and one good request for each."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import count
from typing import Any, Final

import httpx

from conductorlite import (
    Engine,
    EngineConfig,
    EventHandler,
    Semantics,
    Task,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowSchedule,
)
from conductorlite.server.rest import rest_app
from conductorlite.server.rest.operations import Operation

STEP: Final = {"name": "step", "taskReferenceName": "step", "type": "SIMPLE"}
BEGIN: Final = {"name": "begin", "taskReferenceName": "begin", "type": "NOOP"}
GATE: Final = {"name": "gate", "taskReferenceName": "gate", "type": "HUMAN"}
FLOW: Final = {"name": "flow", "version": 1, "tasks": [BEGIN, STEP, GATE], "variables": {"v": 1}, "failureWorkflow": "undo"}
CHILD: Final = {"name": "child", "version": 1, "tasks": [{**STEP, "name": "deep"}]}
SUB: Final = {
    "name": "sub",
    "taskReferenceName": "sub",
    "type": "SUB_WORKFLOW",
    "subWorkflowParam": {"name": "child", "version": 1},
}
PARENT: Final = {"name": "parent", "version": 1, "tasks": [SUB]}
UNDO: Final = {"name": "undo", "version": 1, "tasks": [GATE]}
REQUEST: Final = {"name": "flow", "version": 1, "input": {"x": 1}}
SCHEDULE: Final = {"name": "nightly", "cronExpression": "0 0 2 * * ?", "startWorkflowRequest": REQUEST}
ACTION: Final = {"action": "start_workflow", "start_workflow": {"name": "flow", "version": 1}}
HANDLER: Final = {"name": "handler", "event": "conductor:e", "actions": [ACTION], "active": True}
REPORT: Final = {"workflowInstanceId": "polled", "status": "COMPLETED"}


def world() -> Engine:
    """An engine in memory on a clock that stands still, whose ids are always the same."""
    ids = count()
    config = EngineConfig(semantics=Semantics.OSS, ids=lambda: f"id{next(ids)}")
    engine = Engine(clock=VirtualClock(1_000_000), config=config, environment={"E": "1"})
    engine.register(TaskDef(name="step", retry_count=0), TaskDef(name="deep", retry_count=0))
    engine.register(*map(WorkflowDef.from_json, (FLOW, CHILD, PARENT, UNDO)))
    engine.schedules.save(WorkflowSchedule.from_json({**SCHEDULE, "cronExpression": "* * * * * ?"}))
    engine.events.register(EventHandler.from_json(HANDLER))
    for run in ("polled", "failed", "blocked", "ended", "parent", "waiting", "paused"):
        engine.start("parent" if run == "parent" else "flow", {"x": 1}, workflow_id=run, correlation_id="c")
        engine.settle()
        if run in ("waiting", "paused"):
            continue
        if run == "parent":
            task = engine.poll("deep")[0]
            engine.update_task(_result(task, TaskStatus.FAILED))
            engine.settle()
            continue
        task = engine.poll("step", worker_id="w")[0]
        if task.workflow_id != run:
            raise AssertionError(f"{task.workflow_id} was polled in place of {run}")
        if run != "polled":
            engine.update_task(_result(task, TaskStatus.FAILED if run == "failed" else TaskStatus.COMPLETED))
            engine.settle()
        if run == "ended":
            engine.signal(run, task="gate")
            engine.settle()
    engine.pause("paused")
    engine.advance("2s")
    engine.register(WorkflowDef.from_json({**FLOW, "description": "the latest"}), overwrite=True)
    engine.register(WorkflowDef.from_json({**FLOW, "version": 2, "tasks": [STEP]}))
    engine.schedules.save(
        WorkflowSchedule.from_json({**SCHEDULE, "name": "paused", "paused": True, "startWorkflowRequest": {"name": "x"}})
    )
    engine.events.register(EventHandler.from_json({**HANDLER, "name": "off", "active": False}))
    return engine


def _result(task: Task, status: TaskStatus) -> TaskResult:
    return TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=status, lease=task.lease, logs=["a line"])


#: What stands in the braces of a path, unless it is said for the operation.
_PLACES: Final = {
    "workflowId": "blocked",
    "name": "flow",
    "version": "1",
    "correlationId": "c",
    "tasktype": "step",
    "taskType": "step",
    "taskRefName": "gate",
    "taskReferenceName": "gate",
    "status": "COMPLETED",
    "event": "conductor:e",
    "key": "E",
    "topic": "news",
}

#: Executions in the status that an operation needs, by the end of its path.
_NEEDED: Final = {"resume": "paused", "retry": "failed", "rerun": "failed", "restart": "ended", "remove": "ended"} | {
    "skiptask": "waiting",
    "decide": "waiting",
    "pause": "waiting",
    "stream": "ended",
}

_BODIES: Final[dict[str, Any]] = {
    "/api/workflow": REQUEST,
    "/api/workflow/test": REQUEST,
    "/api/workflow/execute/{name}/{version}": REQUEST,
    "/api/workflow/{name}": {"x": 1},
    "/api/workflow/{name}/correlated": ["c"],
    "/api/tasks/{taskId}/log": "a line",
    "/api/metadata/workflow": {**FLOW, "name": "other"},
    "/api/metadata/workflow/validate": FLOW,
    "/api/event": {**HANDLER, "name": "other"},
    "/api/scheduler/schedules": {**SCHEDULE, "name": "other"},
    "/api/workflow/{workflowId}/fork": {"at": "step", "newId": "copy"},
    "/api/tasks/run/{taskType}": {"input": {"n": 1}},
    "/api/workflow/{workflowId}/fork/plan": {"at": "step"},
    "/api/workflow/{workflowId}/messages/{topic}": {"value": {"x": 1}},
    "/api/workflow/{workflowId}/values/{name}": {"value": {"x": 1}},
}


def request_of(engine: Engine, one: Operation) -> tuple[str, dict[str, Any], Any]:
    """The path, the demanded query parameters and the body of a request that an operation carries out."""
    places = dict(_PLACES)
    ids = {run: engine.get(run).tasks[1].task_id for run in ("polled", "blocked")}
    places["taskId"] = engine.get("blocked").tasks[-1].task_id if "/queue/update/" in one.path else ids["blocked"]
    if one.path.endswith("/emit"):
        places["taskId"] = ids["polled"]
    parts = one.path.split("/")
    needed = next((_NEEDED[part] for part in parts if part in _NEEDED), "blocked")
    places["workflowId"] = needed
    if one.path.startswith("/api/scheduler"):
        places["name"] = "nightly"
    if one.path == "/api/event/{name}":
        places["name"] = "handler"
    path = re.sub(r"\{(\w+)\}", lambda found: places[found[1]], one.path)
    known = {"path": "x", "operation": "READ", "payloadType": "WORKFLOW_INPUT", "taskType": "step", "cronExpression": "0 0 2 * * ?"}
    query: dict[str, Any] = {each.name: known[each.name] for each in one.parameters if each.demanded and each.name in known}
    if one.path.endswith("poll/batch/{tasktype}"):
        query["timeout"] = "0"
    for name in ("waitForSeconds", "timeoutMillis"):  # nothing is waited for
        if any(each.name == name for each in one.parameters):
            query[name] = "-1"
    return path, query, _body_of(one, needed, ids["polled"], engine.get("polled").task("step").lease)


def _body_of(one: Operation, needed: str, task_id: str, lease: int) -> Any:
    if one.path in ("/api/tasks", "/api/tasks/update-v2"):
        return {**REPORT, "taskId": task_id}
    if "/bulk/" in one.path:
        return ["nightly"] if "scheduler" in one.path else [needed]
    if one.path == "/api/tasks/{taskId}/emit":
        return {"lease": lease, "values": [1, 2]}
    body: Any = _BODIES.get(one.path)
    if one.path == "/api/metadata/taskdefs":
        return [{"name": "other"}] if one.method == "POST" else {"name": "step"}
    if one.method == "PUT" and one.path == "/api/metadata/workflow":
        return [body]
    if one.method == "PUT" and one.path == "/api/event":
        return HANDLER
    return body if one.method in ("POST", "PUT") else None


#: Ids of executions that are tried out, and of their tasks, which are drawn by chance.
_OWN_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")


def asked(engine: Engine, method: str, path: str, query: Any, body: Any) -> list[tuple[int, str]]:
    """The answer to a request, and what there is afterwards: statuses and texts."""

    async def main() -> list[tuple[int, str]]:
        transport = httpx.ASGITransport(rest_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            content = None if body is None else body if isinstance(body, str) else json.dumps(body)
            answers = [await client.request(method, path, params=query, content=content)]
            engine.settle()
            looks = ("metadata/workflow", "metadata/taskdefs", "event", "scheduler/schedules", "workflow/search?size=50")
            answers += [await client.get(f"/api/{look}") for look in (*looks, "tasks/queue/polldata/all")]
            ids = [row["workflowId"] for row in answers[5].json()["results"]]
            answers += [await client.get(f"/api/workflow/{run}") for run in ids]
            return [(answer.status_code, _OWN_ID.sub("ID", answer.text)) for answer in answers]

    return asyncio.run(asyncio.wait_for(main(), 30))
