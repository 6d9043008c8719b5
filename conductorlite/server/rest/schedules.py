"""Operations on schedules, and on what became of their instants."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import eq, gt, lt
from typing import Annotated, Any, Final

from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.model.errors import ScheduleNotFound
from conductorlite.model.schedules import Schedule, ScheduleExecution, ScheduleOutcome, WorkflowSchedule
from conductorlite.runtime.engine import Engine
from conductorlite.server.rest.documents import in_conductors_types
from conductorlite.server.rest.operations import Refused, done_to_each

Json = dict[str, Any]

__all__ = [
    "next_few",
    "pause_all",
    "pause_schedule",
    "pause_schedules",
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
]


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


#: What schedules are sorted by; all else counts as the name.
_ORDERS: Final = {name: name for name in ("name", "createTime", "updatedTime", "nextRunTime", "paused", "cronExpression")}


def search_schedules(
    engine: Engine,
    workflow_name: str | None = None,
    schedule_name: str | None = None,
    paused: bool | None = None,
    free_text: str = "*",
    start: int = 0,
    size: int = 100,
    sort: str = "",
) -> Json:
    """A page of the schedules whose names hold a text, in order of their names unless another is asked for."""
    words = [text for text in (schedule_name, free_text.strip("*")) if text]
    chosen = [
        _schedule(one)
        for one in engine.schedules.all(workflow_name or None)
        if paused in (None, one.paused) and all(text.lower() in one.name.lower() for text in words)
    ]
    return _page(_sorted(chosen, sort or "name:ASC", _ORDERS, "name"), start, size)


def _page(found: Sequence[Any], start: int, size: int) -> Json:
    start, size = max(0, start), max(0, size)
    return {"totalHits": len(found), "results": list(found[start : start + size])}


def _sorted(found: list[Json], sort: str, orders: Mapping[str, str], otherwise: str) -> list[Json]:
    """In the order of `field:ASC,field:DESC`, descending unless it says so; a field that has no order counts as `otherwise`."""
    asked = [part.partition(":")[::2] for part in sort.split(",") if part.strip()] or [(otherwise, "")]
    for name, direction in reversed(asked):  # by the least important first: equals keep their order
        key = orders.get(name.strip(), otherwise)
        found.sort(key=lambda one: (one.get(key) is not None, one.get(key)), reverse=direction.strip().upper() != "ASC")
    return found


#: What the runs of schedules are sorted by, as on Conductor's server: all else counts as the instant.
_RUN_ORDERS: Final = {name: name for name in ("scheduledTime", "executionTime", "scheduleName", "workflowName", "state")}

#: Clauses of a query of the runs: a property, an operator, a value.
_CLAUSE: Final = re.compile(r"\s*(\w+)\s*(=|<|>|\bIN\b)\s*(.*?)\s*", re.DOTALL)
_AND: Final = re.compile(r"\s+AND\s+")

#: Which operators a property takes, and in which words a refusal says so.
_CLAUSES: Final = {
    **dict.fromkeys(("scheduleName", "state", "workflowName", "executionId"), ("=", "IN")),
    **dict.fromkeys(("scheduledTime", "executionTime"), ("=", "<", ">")),
}


def _condition(query: str) -> Callable[[Json], bool]:
    """Return the conditions of a query of runs, such as `scheduleName IN (a,b) AND state IN (FAILED) AND
    scheduledTime>1700000000000`.
    """
    conditions = [_clause(part.strip()) for part in _AND.split(query) if part.strip()]
    return lambda run: all(condition(run) for condition in conditions)


def _clause(text: str) -> Callable[[Json], bool]:
    found = _CLAUSE.fullmatch(text)
    if found is None and text.replace("-", "").replace(".", "").isalnum():
        return lambda run: run["scheduleName"] == text  # as on Conductor's server: a name by itself
    name, operator, value = ("", "", "") if found is None else found.groups()
    if operator not in _CLAUSES.get(name, ()):
        known = ", ".join(f"{one} {' '.join(operators)}" for one, operators in _CLAUSES.items())
        raise Refused(400, f"query: {text!r:.100} is no clause; there are {known}, joined by AND")
    if name.endswith("Time"):
        return _instant_clause(name, operator, value)
    if operator == "IN":
        if not (value.startswith("(") and value.endswith(")")):
            raise Refused(400, f"query: {text!r:.100} has no list in parentheses")
        value = value[1:-1]
    wanted = [one for each in (value.split(",") if operator == "IN" else [value]) if (one := each.strip().strip("'\""))]
    if not wanted:
        return lambda run: True  # a form was left blank
    if name == "workflowName":
        return lambda run: any(one in run[name] for one in wanted)
    return lambda run: run[name] in wanted or (name == "state" and run["outcome"] in wanted)


def _instant_clause(name: str, operator: str, value: str) -> Callable[[Json], bool]:
    if not value:
        return lambda run: True
    try:
        instant = int(value.strip("'\""))
    except ValueError:
        raise Refused(400, f"query: {name}: {value!r:.60} is no instant in ms") from None
    compare = {"=": eq, "<": lt, ">": gt}[operator]
    return lambda run: bool(compare(run[name], instant))


def schedule_executions(
    engine: Engine, query: str = "", free_text: str = "*", start: int = 0, size: int = 100, sort: str = ""
) -> Json:
    """Search the runs of schedules, also of removed ones, newest first."""
    condition, words = _condition(query), free_text.strip("*").lower()
    chosen = [run for run in _runs(engine) if condition(run) and words in str(run["scheduleName"]).lower()]
    page = _page(_sorted(chosen, sort, _RUN_ORDERS, "scheduledTime"), start, size)
    known = [{name: value for name, value in run.items() if value is not None and name != "outcome"} for run in page["results"]]
    return page | {"results": known}


#: Records of runs that are read at once.
_READ: Final = 1_000


def _runs(engine: Engine) -> Iterator[Json]:
    after: ScheduleExecution | None = None
    while page := engine.schedules.executions(limit=_READ, after=after):
        yield from map(_run, page)
        after = page[-1]


def _run(one: ScheduleExecution) -> Json:
    """Conductor's WorkflowScheduleExecutionModel: what started nothing is FAILED there, and the reason says why."""
    started = one.outcome is ScheduleOutcome.EXECUTED
    passed_over = one.outcome not in (ScheduleOutcome.EXECUTED, ScheduleOutcome.FAILED)
    return {
        "executionId": one.workflow_id or one.execution_id,
        "scheduleName": one.schedule_name,
        "workflowName": one.workflow_name,
        "scheduledTime": one.scheduled_time,
        "executionTime": one.executed_time,
        "workflowId": one.workflow_id,
        "reason": f"{one.outcome}: {one.reason}" if passed_over else one.reason,
        "state": "EXECUTED" if started else "FAILED",
        "outcome": str(one.outcome),
        "zoneId": one.zone_id,
    }


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
