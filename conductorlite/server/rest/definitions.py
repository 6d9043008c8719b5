"""Operations on what is registered: workflows, tasks, event handlers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import attrs

from conductorlite.model.codec import several_from_json
from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.errors import DefinitionNotFound, InvalidDefinition
from conductorlite.model.handlers import EventHandler
from conductorlite.plan.validate import validate, validate_event_handler
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.documents import in_conductors_types, task_def, workflow_def
from conductorlite.server.rest.operations import Refused

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
    "register_tasks",
    "remove_event_handler",
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
