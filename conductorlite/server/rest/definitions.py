"""Operations on what is registered: workflows, tasks, event handlers, schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TypeVar

from conductorlite.model import attrs
from conductorlite.model.codec import several_from_json
from conductorlite.model.definitions import StartWorkflowRequest, TaskDef, WorkflowDef
from conductorlite.model.errors import DefinitionNotFound, InvalidDefinition, ScheduleNotFound
from conductorlite.model.handlers import EventHandler
from conductorlite.model.schedules import Schedule, WorkflowSchedule
from conductorlite.plan.validate import validate, validate_event_handler
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.documents import in_conductors_types, task_def, workflow_def
from conductorlite.server.rest.operations import Refused, done_to_each

Json = dict[str, Any]
T = TypeVar("T")
D = TypeVar("D", TaskDef, WorkflowDef)

__all__ = [
    "add_event_handler",
    "create_workflow",
    "delete_task_def",
    "delete_workflow",
    "event_handlers",
    "event_handlers_of",
    "latest_workflows",
    "names_and_versions",
    "next_few",
    "pause_all",
    "pause_schedule",
    "pause_schedules",
    "register_tasks",
    "remove_event_handler",
    "remove_schedule",
    "requeue_all",
    "resume_all",
    "resume_schedule",
    "resume_schedules",
    "save_schedule",
    "schedule",
    "schedule_executions",
    "schedules",
    "search_schedules",
    "task_def_named",
    "task_defs",
    "update_event_handler",
    "update_task_def",
    "update_workflows",
    "validate_workflow",
    "workflow_def_named",
    "workflow_defs",
    "workflow_names",
    "workflow_versions",
]


def create_workflow(engine: Engine, body: Annotated[Json, WorkflowDef], overwrite: bool = False) -> None:
    """Register a workflow definition; one of that version is there already: 409, unless it is to be overwritten."""
    definition = WorkflowDef.from_json(body)
    engine.register(attrs.evolve(definition, create_time=engine.clock.now()), overwrite=overwrite)


def update_workflows(engine: Engine, body: Annotated[list[Any], WorkflowDef]) -> Json:
    """Register or replace workflow definitions, all or none."""
    definitions = _several(WorkflowDef, body)
    engine.register(*(attrs.evolve(one, update_time=engine.clock.now()) for one in definitions))
    return {"bulkErrorResults": {}, "bulkSuccessfulResults": [one.name for one in definitions]}


def _several(kind: type[D], body: list[Any]) -> tuple[D, ...]:
    if not body:
        raise Refused(400, f"{kind.__name__} list cannot be empty")
    return several_from_json(kind, body)


def validate_workflow(engine: Engine, body: Annotated[Json, WorkflowDef]) -> None:
    """Say what is wrong with a workflow definition: 400 with every error of it."""
    errors = [problem for problem in validate(WorkflowDef.from_json(body)) if problem.severity == "error"]
    if errors:
        raise InvalidDefinition(errors)


def workflow_def_named(engine: Engine, name: str, version: int | None = None) -> Json:
    """A registered workflow definition, the highest version by default."""
    try:
        return workflow_def(engine.definitions.workflow(name, version or None))
    except DefinitionNotFound:
        raise Refused(404, f"No such workflow found by name: {name}, version: {version or 'null'}") from None


def _all(engine: Engine) -> list[WorkflowDef]:
    return [engine.definitions.workflow(name, version) for name, version in engine.definitions.workflows()]


def workflow_defs(engine: Engine) -> list[Json]:
    """Every version of every registered workflow definition."""
    return [workflow_def(one) for one in _all(engine)]


def latest_workflows(engine: Engine) -> list[Json]:
    """The highest version of every registered workflow definition."""
    return [workflow_def(engine.definitions.workflow(name)) for name in dict.fromkeys(workflow_names(engine))]


def workflow_names(engine: Engine) -> list[str]:
    """The names of the registered workflow definitions."""
    return list(dict.fromkeys(name for name, _ in engine.definitions.workflows()))


def _version(definition: WorkflowDef) -> Json:
    times = {"createTime": definition.create_time or 0, "updateTime": definition.update_time or 0}
    return {"name": definition.name, "version": definition.version, **times}


def names_and_versions(engine: Engine) -> Json:
    """Names and versions of the registered workflow definitions, with their times."""
    found: dict[str, list[Json]] = {}
    for one in _all(engine):
        found.setdefault(one.name, []).append(_version(one))
    return found


def workflow_versions(engine: Engine, name: str) -> list[Json]:
    """The versions of one workflow definition."""
    versions = [version for one, version in engine.definitions.workflows() if one == name]
    known = [_version(engine.definitions.workflow(name, version)) for version in versions]
    return [one if one["updateTime"] else {key: each for key, each in one.items() if key != "updateTime"} for one in known]


def delete_workflow(engine: Engine, name: str, version: int) -> None:
    """Delete a version of a workflow definition; executions keep theirs."""
    _gone(f"No such workflow definition: {name} version: {version}", engine.definitions.unregister, name, version)


def _gone(message: str, verb: Callable[..., T], *args: Any) -> T:
    """Delete what may not be there, for which Conductor's answer is 500."""
    try:
        return verb(*args)
    except DefinitionNotFound:
        raise Refused(500, message) from None


def register_tasks(engine: Engine, body: Annotated[list[Any], TaskDef]) -> None:
    """Register or replace task definitions, all or none."""
    definitions = _several(TaskDef, body)
    engine.register(*(attrs.evolve(one, create_time=engine.clock.now(), created_by=one.created_by or "") for one in definitions))


def update_task_def(engine: Engine, body: Annotated[Json, TaskDef]) -> None:
    """Replace a task definition that is there."""
    definition = TaskDef.from_json(body)
    try:
        old = engine.definitions.task(definition.name)
    except DefinitionNotFound:
        raise Refused(404, f"No such task by name {definition.name}") from None
    made: dict[str, Any] = {"create_time": old.create_time, "created_by": old.created_by}
    engine.register(attrs.evolve(definition, **made, update_time=engine.clock.now(), updated_by=definition.updated_by or ""))


def task_def_named(engine: Engine, tasktype: str) -> Json:
    """A registered task definition."""
    try:
        return task_def(engine.definitions.task(tasktype), engine.config.semantics)
    except DefinitionNotFound:
        raise Refused(404, f"No such taskType found by name: {tasktype}") from None


def task_defs(engine: Engine) -> list[Json]:
    """Every registered task definition."""
    return [task_def(engine.definitions.task(name), engine.config.semantics) for name in engine.definitions.tasks()]


def delete_task_def(engine: Engine, tasktype: str) -> None:
    """Delete a task definition; what runs keeps it."""
    _gone("No such task definition", engine.definitions.unregister_task, tasktype)


# ---------------------------------------------------------------------- event handlers


def event_handlers(engine: Engine) -> list[Json]:
    """Every event handler."""
    return [_handler(one) for one in engine.events.all()]


def event_handlers_of(engine: Engine, event: str, active_only: bool = True) -> list[Json]:
    """The handlers of an event."""
    return [_handler(one) for one in engine.events.all(event, active_only=active_only)]


def _handler(handler: EventHandler) -> Json:
    actions = [{"expandInlineJSON": False, **action} for action in handler.to_json().get("actions", [])]
    for action in actions:
        if "start_workflow" in action:
            action["start_workflow"] = {"input": {}, **action["start_workflow"]}
    return in_conductors_types({"active": False, **handler.to_json(), "actions": actions}, EventHandler)


def add_event_handler(engine: Engine, body: Annotated[Json, EventHandler]) -> None:
    """Register an event handler whose name is not taken."""
    engine.events.register(EventHandler.from_json(body), overwrite=False)


def update_event_handler(engine: Engine, body: Annotated[Json, EventHandler]) -> None:
    """Replace an event handler that is there."""
    handler = EventHandler.from_json(body)
    errors = [problem for problem in validate_event_handler(handler) if problem.severity == "error"]
    if errors:
        raise InvalidDefinition(errors)
    engine.events.get(handler.name)
    engine.events.register(handler)


def remove_event_handler(engine: Engine, name: str) -> None:
    """Delete an event handler."""
    _gone(f"EventHandler with name {name} not found!", engine.events.unregister, name)


# ---------------------------------------------------------------------- schedules


def save_schedule(engine: Engine, body: Annotated[Json, WorkflowSchedule]) -> Json:
    """Store a schedule, or replace the one of its name."""
    return _schedule(engine.schedules.save(WorkflowSchedule.from_json(body)))


#: What Conductor's schedule does not have; `recent` is answered by itself, as its executions.
_OWN: Final = ("running", "buffered", "backfills", "recent")


def _schedule(one: Schedule) -> Json:
    document: Json = {"runCatchupScheduleInstances": False, "zoneId": "UTC", "createdBy": "", "updatedBy": "", "cronSchedules": []}
    document |= {name: value for name, value in one.to_json().items() if name not in _OWN}
    if one.paused:
        document.pop("nextRunTime", None)
    request = {"input": {}, "priority": 0, "taskToDomain": {}, **document["startWorkflowRequest"]}
    return in_conductors_types(document | {"startWorkflowRequest": request}, WorkflowSchedule)


def schedule(engine: Engine, name: str) -> Json:
    """A schedule and where it stands."""
    return _schedule(engine.schedules.get(name))


def schedules(engine: Engine, workflow_name: str | None = None) -> list[Json]:
    """All schedules, or those of a workflow."""
    return [_schedule(one) for one in engine.schedules.all(workflow_name or None)]


def search_schedules(
    engine: Engine,
    workflow_name: str | None = None,
    schedule_name: str | None = None,
    paused: bool | None = None,
    free_text: str = "*",
    start: int = 0,
    size: int = 100,
) -> Json:
    """A page of the schedules whose names hold a text, in order of their names."""
    words = [text for text in (schedule_name, free_text.strip("*")) if text]
    chosen = [
        one
        for one in engine.schedules.all(workflow_name or None)
        if paused in (None, one.paused) and all(text.lower() in one.name.lower() for text in words)
    ]
    return _page([_schedule(one) for one in chosen], start, size)


def _page(found: Sequence[Any], start: int, size: int) -> Json:
    start, size = max(0, start), max(0, size)
    return {"totalHits": len(found), "results": list(found[start : start + size])}


def schedule_executions(engine: Engine, query: str = "", free_text: str = "*", start: int = 0, size: int = 100) -> Json:
    """What became of the last instants of each schedule, newest first."""
    runs = [
        {
            "executionId": run.workflow_id or f"{one.name}-{run.scheduled_time}",
            "scheduleName": one.name,
            "workflowName": one.definition.start_workflow_request.name,
            "scheduledTime": run.scheduled_time,
            "executionTime": run.executed_time,
            "workflowId": run.workflow_id,
            "reason": run.reason,
            "state": run.outcome.value,
            "zoneId": one.definition.zone_id,
        }
        for one in engine.schedules.all()
        for run in one.recent
    ]
    words = free_text.strip("*").lower()
    chosen = [run for run in runs if words in str(run["scheduleName"]).lower()]
    chosen.sort(key=lambda run: -int(str(run["scheduledTime"])))
    return _page([{name: value for name, value in run.items() if value is not None} for run in chosen], start, size)


def remove_schedule(engine: Engine, name: str) -> None:
    """Delete a schedule, if it is there."""
    with suppress(ScheduleNotFound):
        engine.schedules.remove(name)


def pause_schedule(engine: Engine, name: str, reason: str | None = None) -> None:
    """Start nothing more by a schedule."""
    engine.schedules.pause(name, reason)


def resume_schedule(engine: Engine, name: str) -> None:
    """Go on with a schedule."""
    engine.schedules.resume(name)


def pause_schedules(engine: Engine, body: list[str]) -> Json:
    """Pause schedules."""
    return done_to_each(body, engine.schedules.pause)


def resume_schedules(engine: Engine, body: list[str]) -> Json:
    """Resume schedules."""
    return done_to_each(body, engine.schedules.resume)


def _names(engine: Engine) -> list[str]:
    return [one.name for one in engine.schedules.all()]


def pause_all(engine: Engine) -> Json:
    """Pause every schedule."""
    return done_to_each(_names(engine), engine.schedules.pause)


def resume_all(engine: Engine) -> Json:
    """Resume every schedule."""
    return done_to_each(_names(engine), engine.schedules.resume)


def requeue_all(engine: Engine) -> Json:
    """Nothing: the timer of a schedule and the schedule are one commit."""
    return {}


def next_few(
    engine: Engine, cron_expression: str, schedule_start_time: int = 0, schedule_end_time: int = 0, limit: int = 5
) -> list[int]:
    """The next instants of a cron expression."""
    if limit < 1:
        return []
    request = StartWorkflowRequest(name="preview")
    schedule = WorkflowSchedule(name="preview", cron_expression=cron_expression, start_workflow_request=request)
    instants = engine.schedules.preview(schedule, limit, after=schedule_start_time or None)
    return [one for one in instants if not schedule_end_time or one <= schedule_end_time]
