"""The other operations: schedules, queues, administration, health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import conductorlite
from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.model.errors import InvalidInput, ScheduleNotFound, StorageError
from conductorlite.model.schedules import Schedule, WorkflowSchedule
from conductorlite.model.statuses import TaskStatus
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.operations import NO_BODY, Refused
from conductorlite.server.rest.tasks import queue_all, queue_all_verbose, search_tasks_v2

__all__ = [
    "admin_config",
    "admin_queues",
    "admin_tasks",
    "context",
    "environment",
    "environment_value",
    "health",
    "next_few",
    "pause_all",
    "pause_schedule",
    "pause_schedules",
    "queue_names",
    "queue_status_sizes",
    "remove_schedule",
    "repair",
    "requeue_all",
    "resume_all",
    "resume_schedule",
    "resume_schedules",
    "save_schedule",
    "schedule",
    "schedule_executions",
    "schedules",
    "search_schedules",
    "secret_names",
    "sweep",
    "update_by_id",
    "update_first",
    "version",
]

Json = dict[str, Any]

# ---------------------------------------------------------------------- schedules


def save_schedule(engine: Engine, body: Json) -> Json:
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
    return document | {"startWorkflowRequest": request}


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


def _each(names: Sequence[str], verb: Callable[[str], Any]) -> Json:
    failed, done = {}, []
    for name in names:
        try:
            verb(name)
            done.append(name)
        except ScheduleNotFound as error:
            failed[name] = str(error)
    return {"bulkErrorResults": failed, "bulkSuccessfulResults": done}


def pause_schedules(engine: Engine, body: list[str]) -> Json:
    """Pause schedules."""
    return _each(body, engine.schedules.pause)


def resume_schedules(engine: Engine, body: list[str]) -> Json:
    """Resume schedules."""
    return _each(body, engine.schedules.resume)


def _names(engine: Engine) -> list[str]:
    return [one.name for one in engine.schedules.all()]


def pause_all(engine: Engine) -> Json:
    """Pause every schedule."""
    return _each(_names(engine), engine.schedules.pause)


def resume_all(engine: Engine) -> Json:
    """Resume every schedule."""
    return _each(_names(engine), engine.schedules.resume)


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
    """What waits in the queues of statuses: nothing."""
    return {}


def admin_config(engine: Engine) -> Json:
    """What kind of engine answers; no setting that could be a secret."""
    return {"version": conductorlite.__version__, "semantics": engine.config.semantics.value}


def admin_tasks(engine: Engine, tasktype: str, start: int = 0, count: int = 100) -> list[Any]:
    """The open tasks of a type."""
    if "'" in tasktype:
        raise InvalidInput("a task type has no quotation mark")
    query = f"taskDefName = '{tasktype}' AND status IN (SCHEDULED, IN_PROGRESS, PENDING)"
    results: list[Any] = search_tasks_v2(engine, start, count, query=query)["results"]
    return results


def admin_queues(engine: Engine, verbose: bool = False) -> Json:
    """How many tasks wait in each queue."""
    return queue_all_verbose(engine) if verbose else {**queue_all(engine)}


def sweep(engine: Engine, workflow_id: str) -> str:
    """Take an execution's turn, if anything is due."""
    engine.admin.decide(workflow_id)
    return f"true.{workflow_id}"


def repair(engine: Engine, workflow_id: str) -> str:
    """Set right what does not hold of an execution; whether anything was."""
    return "true" if engine.admin.repair(workflow_id).done else "false"


def environment(engine: Engine) -> list[Json]:
    """What `${workflow.env.NAME}` stands for."""
    return [{"name": name, "value": value} for name, value in sorted(engine.core.turns.environment.items())]


def environment_value(engine: Engine, key: str) -> str | None:
    """What one `${workflow.env.NAME}` stands for; nothing if it is not set."""
    return engine.core.turns.environment.get(key)


def secret_names(engine: Engine) -> list[str]:
    """None: the provider of secrets is asked for one at a time, and not by this server."""
    return []


def health(engine: Engine) -> Json:
    """Whether the store can be read."""
    try:
        engine.tasks.poll_data("")
        healthy, said = True, {}
    except StorageError as error:
        healthy, said = False, {"error": type(error).__name__}
    one = {"healthy": healthy, "name": "store", "details": said}
    return {"healthResults": [one], "suppressedHealthResults": [], "healthy": healthy}


def version(engine: Engine) -> str:
    """Which conductorlite answers."""
    return conductorlite.__version__


def context(engine: Engine) -> str:
    """Settings for Conductor's own pages: none."""
    return ""
