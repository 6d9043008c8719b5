"""Conductor's operations, one row each: method, path, and what is called; those on the server itself; their OpenAPI document.

`empty` is the status of an answer without a body (200 unless said). Who polls or changes something needs the role WRITE, who sets
the whole server right ADMIN.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Final, get_args, get_origin

import conductorlite
import conductorlite.server.rest.definitions as definitions
import conductorlite.server.rest.executions as executions
import conductorlite.server.rest.own as own
import conductorlite.server.rest.schedules as schedules
import conductorlite.server.rest.tasks as tasks
from conductorlite.model.errors import InvalidInput, StorageError
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.operations import NO_BODY, Operation, Parameter, Place, Refused, Text, operation, table
from conductorlite.server.safety import Role

__all__ = ["OPERATIONS", "TABLE"]

Json = dict[str, Any]

# ---------------------------------------------------------------------- queues of statuses, administration


#: Statuses for which Conductor has a queue.
_QUEUED: Final = {"COMPLETED": TaskStatus.COMPLETED, "FAILED": TaskStatus.FAILED}


def update_first(engine: Engine, workflow_id: str, task_ref_name: str, status: str, body: Json = NO_BODY) -> None:
    """Report on the open task of a reference."""
    if status not in _QUEUED:
        raise Refused(400, f"There is no queue for handling {status} status")
    engine.signal(workflow_id, body, task=task_ref_name, status=_QUEUED[status])


def update_by_id(engine: Engine, workflow_id: str, task_id: str, status: str, body: Json = NO_BODY) -> None:
    """Report on a task by its id."""
    update_first(engine, workflow_id, task_id, status, body)


def queue_names(engine: Engine) -> Json:
    """The queues of statuses: none, for a report is a verb here."""
    return {}


def queue_status_sizes(engine: Engine) -> Json:
    """Return the sizes of the queues of statuses: always empty."""
    return {}


def admin_config(engine: Engine) -> Json:
    """Return the kind of the engine that answers; no setting that could be a secret."""
    return {"version": conductorlite.__version__, "semantics": engine.config.semantics.value}


def admin_tasks(engine: Engine, tasktype: str, start: int = 0, count: int = 100) -> list[Any]:
    """The open tasks of a type."""
    if "'" in tasktype:
        raise InvalidInput("a task type has no quotation mark")
    query = f"taskDefName = '{tasktype}' AND status IN (SCHEDULED, IN_PROGRESS, PENDING)"
    results: list[Any] = tasks.search_tasks_v2(engine, start, count, query=query)["results"]
    return results


def admin_queues(engine: Engine, verbose: bool = False) -> Json:
    """How many tasks wait in each queue."""
    return tasks.queue_all_verbose(engine) if verbose else {**tasks.queue_all(engine)}


def sweep(engine: Engine, workflow_id: str) -> str:
    """Take an execution's turn, if anything is due."""
    engine.admin.decide(workflow_id)
    return f"true.{workflow_id}"


def repair(engine: Engine, workflow_id: str) -> str:
    """Set right what does not hold of an execution; whether anything was."""
    return "true" if engine.admin.repair(workflow_id).done else "false"


def environment(engine: Engine) -> list[Json]:
    """Return the values of `${workflow.env.NAME}`."""
    return [{"name": name, "value": value} for name, value in sorted(engine.core.turns.lookups.environment.items())]


def environment_value(engine: Engine, key: str) -> str | None:
    """Return the value of one `${workflow.env.NAME}`; nothing if it is not set."""
    return engine.core.turns.lookups.environment.get(key)


def secret_names(engine: Engine) -> list[str]:
    """None: the provider of secrets is asked for one at a time, and not by this server."""
    return []


def health(engine: Engine) -> Json:
    """Report whether the store can be read."""
    try:
        engine.tasks.poll_data("")
        healthy, said = True, {}
    except StorageError as error:
        healthy, said = False, {"error": type(error).__name__}  # it is the answer: what it says in full is not for everybody
    one = {"healthy": healthy, "name": "store", "details": said}
    return {"healthResults": [one], "suppressedHealthResults": [], "healthy": healthy}


def version(engine: Engine) -> str:
    """Return the version of the conductorlite that answers."""
    return conductorlite.__version__


def context(engine: Engine) -> str:
    """Settings for Conductor's own pages: none."""
    return ""


# ---------------------------------------------------------------------- the table

_WRITE: Final = Role.WRITE
_ADMIN: Final = Role.ADMIN

OPERATIONS: Final[tuple[Operation, ...]] = (
    # -- workflow
    operation("POST", "/api/workflow", executions.start),
    operation("PUT", "/api/workflow/bulk/pause", executions.bulk_pause),
    operation("DELETE", "/api/workflow/bulk/remove", executions.bulk_remove),
    operation("POST", "/api/workflow/bulk/restart", executions.bulk_restart),
    operation("PUT", "/api/workflow/bulk/resume", executions.bulk_resume),
    operation("POST", "/api/workflow/bulk/retry", executions.bulk_retry),
    operation("POST", "/api/workflow/bulk/search", executions.bulk_search, role=Role.READ),
    operation("POST", "/api/workflow/bulk/terminate", executions.bulk_terminate),
    operation("DELETE", "/api/workflow/bulk/terminate-remove", executions.bulk_terminate_remove),
    operation("PUT", "/api/workflow/decide/{workflowId}", executions.decide),
    operation("POST", "/api/workflow/execute/{name}/{version}", tasks.execute, empty=200),
    operation("GET", "/api/workflow/external-storage-location", executions.storage_location, role=_WRITE),
    operation("GET", "/api/workflow/externalstoragelocation", executions.storage_location, role=_WRITE),
    operation("GET", "/api/workflow/running/{name}", executions.running),
    operation("GET", "/api/workflow/search", executions.search),
    operation("GET", "/api/workflow/search-by-tasks", executions.search_by_tasks),
    operation("GET", "/api/workflow/search-by-tasks-v2", executions.search_by_tasks_v2),
    operation("GET", "/api/workflow/search-v2", executions.search_v2),
    operation("POST", "/api/workflow/test", executions.try_out),
    operation("POST", "/api/workflow/{name}", executions.start_named),
    operation("POST", "/api/workflow/{name}/correlated", executions.correlated_with, role=Role.READ),
    operation("GET", "/api/workflow/{name}/correlated/{correlationId}", executions.correlated),
    operation("GET", "/api/workflow/{workflowId}", executions.execution),
    operation("DELETE", "/api/workflow/{workflowId}", executions.terminate),
    operation("POST", "/api/workflow/{workflowId}/messages", executions.send_message),
    operation("POST", "/api/workflow/{workflowId}/messages/{topic}", own.send_to_topic),
    operation("POST", "/api/workflow/{workflowId}/fork", own.fork),
    operation("POST", "/api/workflow/{workflowId}/fork/plan", own.plan_fork),
    operation("GET", "/api/workflow/{workflowId}/stream", own.stream),
    operation("GET", "/api/workflow/{workflowId}/values", own.values_of),
    operation("GET", "/api/workflow/{workflowId}/values/{name}", own.value_of),
    operation("PUT", "/api/workflow/{workflowId}/values/{name}", own.set_value),
    operation("POST", "/api/tasks/{taskId}/emit", own.emit),
    operation("POST", "/api/tasks/run/{taskType}", own.run_task),
    operation("PUT", "/api/workflow/{workflowId}/pause", executions.pause),
    operation("DELETE", "/api/workflow/{workflowId}/remove", executions.remove),
    operation("POST", "/api/workflow/{workflowId}/rerun", executions.rerun),
    operation("POST", "/api/workflow/{workflowId}/resetcallbacks", executions.reset_callbacks, empty=204),
    operation("POST", "/api/workflow/{workflowId}/restart", executions.restart, empty=204),
    operation("PUT", "/api/workflow/{workflowId}/resume", executions.resume),
    operation("POST", "/api/workflow/{workflowId}/retry", executions.retry, empty=204),
    operation("PUT", "/api/workflow/{workflowId}/skiptask/{taskReferenceName}", executions.skip_task),
    operation("GET", "/api/workflow/{workflowId}/status", executions.execution_status),
    operation("GET", "/api/workflow/{workflowId}/tasks", executions.execution_tasks),
    operation("DELETE", "/api/workflow/{workflowId}/terminate-remove", executions.terminate_remove),
    # -- tasks
    operation("POST", "/api/tasks", tasks.update_task),
    operation("GET", "/api/tasks/external-storage-location", executions.storage_location, role=_WRITE),
    operation("GET", "/api/tasks/externalstoragelocation", executions.storage_location, role=_WRITE),
    operation("GET", "/api/tasks/poll/batch/{tasktype}", tasks.batch_poll, role=_WRITE),
    operation("GET", "/api/tasks/poll/{tasktype}", tasks.poll, empty=204, role=_WRITE),
    operation("GET", "/api/tasks/queue/all", tasks.queue_all),
    operation("GET", "/api/tasks/queue/all/verbose", tasks.queue_all_verbose),
    operation("GET", "/api/tasks/queue/polldata", tasks.poll_data),
    operation("GET", "/api/tasks/queue/polldata/all", tasks.poll_data_all),
    operation("POST", "/api/tasks/queue/requeue/{taskType}", tasks.requeue),
    operation("GET", "/api/tasks/queue/size", tasks.queue_size),
    operation("GET", "/api/tasks/queue/sizes", tasks.queue_sizes),
    operation("GET", "/api/tasks/search", tasks.search_tasks),
    operation("GET", "/api/tasks/search-v2", tasks.search_tasks_v2),
    operation("POST", "/api/tasks/update-v2", tasks.update_and_poll, empty=204),
    operation("GET", "/api/tasks/{taskId}", tasks.task_by_id),
    operation("GET", "/api/tasks/{taskId}/log", tasks.logs),
    operation("POST", "/api/tasks/{taskId}/log", tasks.log),
    operation("POST", "/api/tasks/{workflowId}/{status}/signal", tasks.signal),
    operation("POST", "/api/tasks/{workflowId}/{status}/signal/sync", tasks.signal_sync),
    operation("POST", "/api/tasks/{workflowId}/{taskRefName}/{status}", tasks.update_by_reference),
    operation("POST", "/api/tasks/{workflowId}/{taskRefName}/{status}/sync", tasks.update_by_reference_sync),
    # -- metadata
    operation("GET", "/api/metadata/taskdefs", definitions.task_defs),
    operation("PUT", "/api/metadata/taskdefs", definitions.update_task_def),
    operation("POST", "/api/metadata/taskdefs", definitions.register_tasks),
    operation("GET", "/api/metadata/taskdefs/{tasktype}", definitions.task_def_named),
    operation("DELETE", "/api/metadata/taskdefs/{tasktype}", definitions.delete_task_def),
    operation("GET", "/api/metadata/workflow", definitions.workflow_defs),
    operation("PUT", "/api/metadata/workflow", definitions.update_workflows),
    operation("POST", "/api/metadata/workflow", definitions.create_workflow),
    operation("GET", "/api/metadata/workflow/latest-versions", definitions.latest_workflows),
    operation("GET", "/api/metadata/workflow/names", definitions.workflow_names),
    operation("GET", "/api/metadata/workflow/names-and-versions", definitions.names_and_versions),
    operation("POST", "/api/metadata/workflow/validate", definitions.validate_workflow, role=Role.READ),
    operation("GET", "/api/metadata/workflow/{name}", definitions.workflow_def_named),
    operation("GET", "/api/metadata/workflow/{name}/versions", definitions.workflow_versions),
    operation("DELETE", "/api/metadata/workflow/{name}/{version}", definitions.delete_workflow),
    # -- event
    operation("GET", "/api/event", definitions.event_handlers),
    operation("PUT", "/api/event", definitions.update_event_handler),
    operation("POST", "/api/event", definitions.add_event_handler),
    operation("GET", "/api/event/{event}", definitions.event_handlers_of),
    operation("DELETE", "/api/event/{name}", definitions.remove_event_handler),
    # -- scheduler
    operation("GET", "/api/scheduler/admin/pause", schedules.pause_all, role=_ADMIN),
    operation("GET", "/api/scheduler/admin/requeue", schedules.requeue_all, role=_ADMIN),
    operation("GET", "/api/scheduler/admin/resume", schedules.resume_all, role=_ADMIN),
    operation("PUT", "/api/scheduler/bulk/pause", schedules.pause_schedules),
    operation("PUT", "/api/scheduler/bulk/resume", schedules.resume_schedules),
    operation("GET", "/api/scheduler/nextFewSchedules", schedules.next_few),
    operation("GET", "/api/scheduler/schedules", schedules.schedules),
    operation("POST", "/api/scheduler/schedules", schedules.save_schedule),
    operation("GET", "/api/scheduler/schedules/search", schedules.search_schedules),
    operation("GET", "/api/scheduler/schedules/{name}", schedules.schedule),
    operation("DELETE", "/api/scheduler/schedules/{name}", schedules.remove_schedule),
    operation("PUT", "/api/scheduler/schedules/{name}/pause", schedules.pause_schedule),
    operation("PUT", "/api/scheduler/schedules/{name}/resume", schedules.resume_schedule),
    operation("GET", "/api/scheduler/search/executions", schedules.schedule_executions),
    # -- queue, admin, and what stands alone
    operation("GET", "/api/queue/", queue_names),
    operation("GET", "/api/queue/size", queue_status_sizes),
    operation("POST", "/api/queue/update/{workflowId}/task/{taskId}/{status}", update_by_id),
    operation("POST", "/api/queue/update/{workflowId}/{taskRefName}/{status}", update_first),
    operation("GET", "/api/admin/config", admin_config, role=_ADMIN),
    operation("POST", "/api/admin/consistency/verifyAndRepair/{workflowId}", repair, role=_ADMIN),
    operation("GET", "/api/admin/queues", admin_queues),
    operation("POST", "/api/admin/sweep/requeue/{workflowId}", sweep),
    operation("GET", "/api/admin/task/{tasktype}", admin_tasks),
    operation("GET", "/api/secrets", secret_names),
    operation("GET", "/api/environment", environment, role=_ADMIN),
    operation("GET", "/api/environment/{key}", environment_value, role=_ADMIN),
    operation("GET", "/api/health", health, prompt=True),
    operation("GET", "/health", health, prompt=True),
    operation("GET", "/api/version", version),
    operation("GET", "/context.js", context),
)

# ---------------------------------------------------------------------- the OpenAPI document, made of signatures

_TYPES: Final = {str: "string", Text: "string", int: "integer", bool: "boolean", dict: "object", list: "array"}


@cache
def _document() -> Json:
    paths: dict[str, Json] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    info = {"title": "Conductor's REST API, by conductorlite", "version": conductorlite.__version__}
    return {"openapi": "3.0.1", "info": info, "paths": paths, "components": {"schemas": {"Error": _ERROR}}}


_ERROR: Final[Json] = {
    "type": "object",
    "required": ["status", "message", "retryable"],
    "properties": {
        "status": {"type": "integer"},
        "message": {"type": "string"},
        "retryable": {"type": "boolean"},
        "validationErrors": {
            "type": "array",
            "items": {"type": "object", "properties": {"path": {"type": "string"}, "message": {"type": "string"}}},
        },
    },
}


def _operation(one: Operation) -> Json:
    group = one.path.removeprefix("/api").strip("/").partition("/")[0]
    said: Json = {
        "tags": [group],
        "operationId": f"{one.name}_{one.method}" if group == "health" else one.name,
        "summary": inspect.getdoc(one.function),
        "parameters": [_parameter(each) for each in one.parameters if each.place is not Place.BODY],
        "responses": {
            "200": {"description": "OK", "content": {"*/*": {"schema": {}}}},
            **({str(one.empty): {"description": "Nothing"}} if one.empty != 200 else {}),
            "default": {
                "description": "What is wrong",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    for body in (each for each in one.parameters if each.place is Place.BODY):
        kind = "text/plain" if body.type is Text else "application/json"
        said["requestBody"] = {"required": body.demanded, "content": {kind: {"schema": _schema(body.type)}}}
    return said


def _parameter(one: Parameter) -> Json:
    schema = {"type": "array", "items": _schema(one.type)} if one.many else _schema(one.type)
    if not one.demanded and one.default is not None and not one.many:
        schema["default"] = one.default
    return {"name": one.name, "in": one.place.value, "required": one.demanded, "schema": schema}


def _schema(kind: Any) -> Json:
    schema: Json = {"type": _TYPES[get_origin(kind) or kind]}
    if schema["type"] == "array":
        schema["items"] = _schema(get_args(kind)[0]) if get_args(kind) and get_args(kind)[0] in _TYPES else {}
    if schema["type"] == "integer":
        schema["format"] = "int64"
    return schema


def api_docs(engine: Engine) -> Json:
    """The OpenAPI document of all operations."""
    return _document()


#: Where the operations are found by their paths, and the document of them, which does not speak of itself.
TABLE: Final = table((*OPERATIONS, operation("GET", "/api-docs", api_docs)))
