"""Conductor's RPCs, one row each: its messages, and the operation of the REST API that it is.

An answer is a property of the response's JSON, or the whole of it. Of a stream it is a list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import conductorlite.server.rest.definitions as definitions
import conductorlite.server.rest.executions as executions
import conductorlite.server.rest.tasks as tasks
from conductorlite.model import attrs
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.operations import NO_BODY, Text
from conductorlite.server.safety import Role

__all__ = ["METHODS", "Call", "Method"]

Json = Mapping[str, Any]
Call = Callable[[Engine, Json], Any]


@attrs.frozen(kw_only=True, slots=True)
class Method:
    """One RPC: its service and name, the messages it takes and gives, and what it does with the request's JSON."""

    service: str
    name: str
    takes: str
    gives: str
    #: None: it polls, and waits.
    call: Call | None
    stream: bool = False

    @property
    def role(self) -> Role:
        """The role it needs."""
        return Role.READ if self.name.startswith(("Get", "Search", "Validate", "Check")) else Role.WRITE


def _id(verb: Callable[[Engine, str], Any]) -> Call:
    """A verb of an execution that takes nothing but its id."""
    return lambda engine, asked: verb(engine, asked.get("workflowId", ""))


def _page(search: Callable[..., Any]) -> Call:
    def call(engine: Engine, asked: Json) -> Any:
        names = {"freeText": "free_text"}
        given = {names.get(name, name): value for name, value in asked.items()}
        return search(engine, **{"size": 100, **given})

    return call


def _correlated(engine: Engine, asked: Json) -> Any:
    found = executions.correlated_with(
        engine, asked.get("name", ""), asked.get("correlationId", []), asked["includeClosed"], asked["includeTasks"]
    )
    return {"workflowsById": {one: {"workflows": rows} for one, rows in found.items()}}


def _skip(engine: Engine, asked: Json) -> Any:
    given = asked.get("request", NO_BODY)
    engine.skip_task(
        asked.get("workflowId", ""),
        asked.get("taskReferenceName", ""),
        input=given.get("taskInput"),
        output=given.get("taskOutput"),
    )


_WORKFLOWS: Final = "conductor.grpc.workflows.WorkflowService"
_TASKS: Final = "conductor.grpc.tasks.TaskService"
_METADATA: Final = "conductor.grpc.metadata.MetadataService"
_EVENTS: Final = "conductor.grpc.events.EventService"


def _method(service: str, name: str, call: Call | None, takes: str = "", gives: str = "", *, stream: bool = False) -> Method:
    """A row; messages are named after the RPC unless said, and looked for beside the service."""
    package = service.rpartition(".")[0]
    messages = (takes or f"{name}Request", gives or f"{name}Response")
    asked, answered = (one if one.startswith("conductor.") else f"{package}.{one}" for one in messages)
    return Method(service=service, name=name, takes=asked, gives=answered, call=call, stream=stream)


_SEARCH: Final = "conductor.grpc.search.Request"

METHODS: Final[tuple[Method, ...]] = (
    _method(_METADATA, "CreateWorkflow", lambda e, r: definitions.create_workflow(e, r["workflow"])),
    _method(_METADATA, "ValidateWorkflow", lambda e, r: definitions.validate_workflow(e, r["workflow"])),
    _method(_METADATA, "UpdateWorkflows", lambda e, r: definitions.update_workflows(e, r.get("defs", [])) and None),
    _method(
        _METADATA, "GetWorkflow", lambda e, r: {"workflow": definitions.workflow_def_named(e, r.get("name", ""), r.get("version"))}
    ),
    _method(_METADATA, "CreateTasks", lambda e, r: definitions.register_tasks(e, r.get("defs", []))),
    _method(_METADATA, "UpdateTask", lambda e, r: definitions.update_task_def(e, r["task"])),
    _method(_METADATA, "GetTask", lambda e, r: {"task": definitions.task_def_named(e, r.get("taskType", ""))}),
    _method(_METADATA, "DeleteTask", lambda e, r: e.definitions.unregister_task(r.get("taskType", ""))),
    _method(
        _WORKFLOWS,
        "StartWorkflow",
        lambda e, r: {"workflowId": executions.start(e, dict(r))},
        "conductor.proto.StartWorkflowRequest",
    ),
    _method(_WORKFLOWS, "GetWorkflows", _correlated),
    _method(
        _WORKFLOWS,
        "GetWorkflowStatus",
        lambda e, r: executions.execution(e, r.get("workflowId", ""), r["includeTasks"]),
        gives="conductor.proto.Workflow",
    ),
    _method(_WORKFLOWS, "RemoveWorkflow", lambda e, r: executions.remove(e, r.get("workflodId", ""), r["archiveWorkflow"])),
    _method(
        _WORKFLOWS,
        "GetRunningWorkflows",
        lambda e, r: {
            "workflowIds": executions.running(e, r.get("name", ""), r.get("version", 1), r.get("startTime", 0), r.get("endTime", 0))
        },
    ),
    _method(_WORKFLOWS, "DecideWorkflow", _id(executions.decide)),
    _method(_WORKFLOWS, "PauseWorkflow", _id(executions.pause)),
    _method(_WORKFLOWS, "ResumeWorkflow", _id(lambda e, one: e.resume(one))),
    _method(_WORKFLOWS, "SkipTaskFromWorkflow", _skip, "SkipTaskRequest", "SkipTaskResponse"),
    _method(
        _WORKFLOWS,
        "RerunWorkflow",
        lambda e, r: {"workflowId": executions.rerun(e, r.get("reRunFromWorkflowId", ""), dict(r))},
        "conductor.proto.RerunWorkflowRequest",
    ),
    _method(_WORKFLOWS, "RestartWorkflow", lambda e, r: executions.restart(e, r.get("workflowId", ""), r["useLatestDefinitions"])),
    _method(_WORKFLOWS, "RetryWorkflow", lambda e, r: executions.retry(e, r.get("workflowId", ""), r["resumeSubworkflowTasks"])),
    _method(_WORKFLOWS, "ResetWorkflowCallbacks", _id(executions.reset_callbacks)),
    _method(_WORKFLOWS, "TerminateWorkflow", lambda e, r: executions.terminate(e, r.get("workflowId", ""), r.get("reason"))),
    _method(_WORKFLOWS, "Search", _page(executions.search), _SEARCH, "WorkflowSummarySearchResult"),
    _method(_WORKFLOWS, "SearchByTasks", _page(executions.search_by_tasks), _SEARCH, "WorkflowSummarySearchResult"),
    _method(_WORKFLOWS, "SearchV2", _page(executions.search_v2), _SEARCH, "WorkflowSearchResult"),
    _method(_WORKFLOWS, "SearchByTasksV2", _page(executions.search_by_tasks_v2), _SEARCH, "WorkflowSearchResult"),
    _method(_TASKS, "Poll", None),
    _method(_TASKS, "BatchPoll", None, gives="conductor.proto.Task", stream=True),
    _method(_TASKS, "UpdateTask", lambda e, r: {"taskId": tasks.report(e, r.get("result", NO_BODY))}),
    _method(_TASKS, "AddLog", lambda e, r: tasks.log(e, r.get("taskId", ""), Text(r.get("log", "")))),
    _method(_TASKS, "GetTaskLogs", lambda e, r: {"logs": tasks.logs(e, r.get("taskId", ""))}),
    _method(_TASKS, "GetTask", lambda e, r: {"task": tasks.task_by_id(e, r.get("taskId", ""))}),
    _method(
        _TASKS,
        "GetQueueSizesForTasks",
        lambda e, r: {"queueForTask": tasks.queue_sizes(e, r.get("taskTypes", []))},
        "QueueSizesRequest",
        "QueueSizesResponse",
    ),
    _method(_TASKS, "GetQueueInfo", lambda e, _: {"queues": tasks.queue_all(e)}, "QueueInfoRequest", "QueueInfoResponse"),
    _method(
        _TASKS,
        "GetQueueAllInfo",
        lambda e, _: {"queues": {queue: {"shards": shards} for queue, shards in tasks.queue_all_verbose(e).items()}},
        "QueueAllInfoRequest",
        "QueueAllInfoResponse",
    ),
    _method(_TASKS, "Search", _page(tasks.search_tasks), _SEARCH, "TaskSummarySearchResult"),
    _method(_TASKS, "SearchV2", _page(tasks.search_tasks_v2), _SEARCH, "TaskSearchResult"),
    _method(_EVENTS, "AddEventHandler", lambda e, r: definitions.add_event_handler(e, r["handler"])),
    _method(_EVENTS, "UpdateEventHandler", lambda e, r: definitions.update_event_handler(e, r["handler"])),
    _method(_EVENTS, "RemoveEventHandler", lambda e, r: e.events.unregister(r.get("name", ""))),
    _method(
        _EVENTS, "GetEventHandlers", lambda e, _: definitions.event_handlers(e), gives="conductor.proto.EventHandler", stream=True
    ),
    _method(
        _EVENTS,
        "GetEventHandlersForEvent",
        lambda e, r: definitions.event_handlers_of(e, r.get("event", ""), r["activeOnly"]),
        gives="conductor.proto.EventHandler",
        stream=True,
    ),
    Method(
        service="grpc.health.v1.Health",
        name="Check",
        takes="grpc.health.v1.HealthCheckRequest",
        gives="grpc.health.v1.HealthCheckResponse",
        call=lambda _, __: {"status": "SERVING"},
    ),
)
