"""Schedules ⇄ Conductor's JSON, and how far they have come ⇄ the text a store keeps.

Read as leniently as definitions are: scalars are coerced, null counts as absent, unknown properties are kept in `extra`. What
Conductor's server writes itself (`createTime`, `nextRunTime` …) is dropped when read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from conductorlite import codec
from conductorlite.canonical import canonical, parse
from conductorlite.codec.names import json_names
from conductorlite.codec.scalars import Wrong, boolean, choice, duration_ms, integer, shown, strict_text, text
from conductorlite.codec.sources import document_of
from conductorlite.definitions import IdempotencyStrategy, Problem, WorkflowDef
from conductorlite.errors import InvalidDefinition, InvalidInput
from conductorlite.schedules.words import (
    Backfill,
    CronSchedule,
    OverlapPolicy,
    Progress,
    Schedule,
    ScheduledRun,
    ScheduleOutcome,
    StartWorkflowRequest,
    WorkflowSchedule,
)

__all__ = [
    "progress_from_text",
    "progress_to_text",
    "schedule_from_json",
    "schedule_text",
    "schedule_to_json",
    "status_to_json",
]

#: Properties that Conductor's server sets, and we with them.
_ANSWERED: Final = frozenset(
    {"createTime", "updatedTime", "updatedBy", "nextRunTime", "running", "buffered", "backfills", "recent"}
)

_SECONDS: Final = {"interval_ms": "intervalSeconds", "misfire_grace_ms": "misfireGraceSeconds"}


def _instant(value: object) -> int | str:
    return value if isinstance(value, str) and not value.strip().lstrip("-").isdigit() else integer(value)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Wrong(f"expected an object, got {shown(value)}")
    return value


def _domains(value: object) -> dict[str, str]:
    return {key: text(domain) for key, domain in _mapping(value).items()}


def _strategy(value: object) -> IdempotencyStrategy:
    return choice(value, IdempotencyStrategy)


def _overlap(value: object) -> OverlapPolicy:
    return choice(value, OverlapPolicy)


def _read_with(
    reads: Mapping[str, Callable[[object], Any]], document: Mapping[str, Any], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields of `reads` that a document has, with what the document has beyond them in `extra`."""
    found: dict[str, Any] = {}
    errors = [Problem(path=f"$.{name}", message="is missing") for name in required if document.get(name) is None]
    names = {_SECONDS.get(field, name): field for name, field in _FIELDS.items() if field in reads}
    for name, value in document.items():
        if name in names and value is not None:
            try:
                found[names[name]] = reads[names[name]](value)
            except Wrong as wrong:
                errors.append(Problem(path=f"$.{name}", message=str(wrong)))
            except InvalidDefinition as error:
                errors += [attrs.evolve(each, path=f"$.{name}{each.path[1:]}") for each in error.problems]
    found["extra"] = {name: value for name, value in document.items() if name not in names and name not in _ANSWERED}
    if errors:
        raise InvalidDefinition(errors)
    return found


def _request(value: object) -> StartWorkflowRequest:
    return StartWorkflowRequest(**_read_with(_REQUEST, _mapping(value)))


def _cron_schedules(value: object) -> tuple[CronSchedule, ...]:
    if not isinstance(value, list):
        raise Wrong(f"expected a list, got {shown(value)}")
    made = []
    for number, entry in enumerate(value):
        fields = _mapping(entry)
        if not isinstance(fields.get("cronExpression"), str):
            raise Wrong(f"entry {number} has no cronExpression")
        made.append(CronSchedule(cron_expression=fields["cronExpression"], zone_id=text(fields.get("zoneId") or "UTC")))
    return tuple(made)


_REQUEST: Final[dict[str, Callable[[object], Any]]] = {
    "name": strict_text,
    "version": integer,
    "workflow_def": lambda value: codec.workflow_def_from_json(_mapping(value)),
    "input": _mapping,
    "correlation_id": text,
    "priority": integer,
    "task_to_domain": _domains,
    "created_by": text,
    "idempotency_key": text,
    "idempotency_strategy": _strategy,
}

_SCHEDULE: Final[dict[str, Callable[[object], Any]]] = {
    "name": strict_text,
    "description": text,
    "cron_expression": text,
    "zone_id": text,
    "cron_schedules": _cron_schedules,
    "interval_ms": duration_ms,
    "at": _instant,
    "schedule_start_time": _instant,
    "schedule_end_time": _instant,
    "run_catchup_schedule_instances": boolean,
    "misfire_grace_ms": duration_ms,
    "overlap_policy": _overlap,
    "paused": boolean,
    "paused_reason": text,
    "created_by": text,
    "start_workflow_request": _request,
}

_FIELDS: Final = {name: field for kind in (WorkflowSchedule, StartWorkflowRequest) for field, name in json_names(kind).items()}


def schedule_from_json(source: codec.Source) -> WorkflowSchedule:
    """Read a schedule; raises InvalidDefinition with all problems at once, InvalidInput for broken JSON, OSError."""
    document = document_of(source)
    if not isinstance(document, dict):
        raise InvalidDefinition([Problem(path="$", message=f"expected an object, got {shown(document)}")])
    found = _read_with(_SCHEDULE, document, ("name", "startWorkflowRequest"))
    try:
        return WorkflowSchedule(**found)
    except InvalidInput as error:  # an instant that is none
        raise InvalidDefinition([Problem(path="$", message=str(error))]) from None


def schedule_to_json(schedule: WorkflowSchedule) -> dict[str, Any]:
    """The schedule as Conductor's JSON, fresh."""
    document = _written(schedule, {"name", "start_workflow_request"})
    for name in ("schedule_start_time", "schedule_end_time"):
        if getattr(schedule, name) is not None:
            document[json_names(WorkflowSchedule)[name]] = getattr(schedule, name)
    return document


def _written(thing: Any, always: frozenset[str] | set[str]) -> dict[str, Any]:
    kind: Any = type(thing)
    defaults = {field.name: field.default for field in attrs.fields(kind)}
    document: dict[str, Any] = {}
    for field, name in json_names(kind).items():
        value = getattr(thing, field)
        default = defaults[field]
        plain = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
        if field in always or value != plain:
            document[_SECONDS.get(field, name)] = _plain(field, value)
    return {**document, **getattr(thing, "extra", {})}


def _plain(field: str, value: Any) -> Any:
    if field in _SECONDS:
        return value // 1000 if value % 1000 == 0 else value / 1000
    if isinstance(value, WorkflowDef):
        return value.to_json()
    if isinstance(value, StartWorkflowRequest):
        return _written(value, {"name"})
    if isinstance(value, tuple):
        return [_written(each, {"cron_expression"}) if attrs.has(type(each)) else each for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return str(value) if isinstance(value, OverlapPolicy | IdempotencyStrategy) else value


def schedule_text(schedule: WorkflowSchedule) -> str:
    """The canonical text a store keeps; raises InvalidInput for an input that is no JSON."""
    return canonical(schedule_to_json(schedule))


def status_to_json(status: Schedule) -> dict[str, Any]:
    """Where a schedule stands, as Conductor's REST API answers it."""
    document = {
        **schedule_to_json(status.definition),
        "paused": status.paused,
        "pausedReason": status.paused_reason,
        "createTime": status.create_time,
        "updatedTime": status.updated_time,
        "nextRunTime": status.next_run_time,
        "running": list(status.running),
        "buffered": list(status.buffered),
        "backfills": [_backfill(each) for each in status.backfills],
        "recent": [_run(each) for each in status.recent],
    }
    return {name: value for name, value in document.items() if value is not None}


def _run(run: ScheduledRun) -> dict[str, Any]:
    document = {
        "scheduledTime": run.scheduled_time,
        "executionTime": run.executed_time,
        "state": str(run.outcome),
        "workflowId": run.workflow_id,
        "reason": run.reason,
    }
    return {name: value for name, value in document.items() if value is not None}


def _backfill(backfill: Backfill) -> dict[str, Any]:
    policy = backfill.overlap_policy
    return {"after": backfill.after, "until": backfill.until, **({} if policy is None else {"overlapPolicy": str(policy)})}


def progress_to_text(progress: Progress) -> str:
    """How far a schedule has come, as text for a store."""
    return canonical(
        {
            **{field.name: getattr(progress, field.name) for field in attrs.fields(Progress)},
            "running": list(progress.running),
            "buffered": list(progress.buffered),
            "backfills": [_backfill(each) for each in progress.backfills],
            "recent": [_run(each) for each in progress.recent],
        }
    )


def progress_from_text(kept: str) -> Progress:
    """What `progress_to_text` has written."""
    document: dict[str, Any] = parse(kept)
    backfills = [
        Backfill(after=each["after"], until=each["until"], overlap_policy=_policy(each.get("overlapPolicy")))
        for each in document.pop("backfills")
    ]
    recent = [
        ScheduledRun(
            scheduled_time=each["scheduledTime"],
            executed_time=each["executionTime"],
            outcome=ScheduleOutcome(each["state"]),
            workflow_id=each.get("workflowId"),
            reason=each.get("reason"),
        )
        for each in document.pop("recent")
    ]
    running, buffered = document.pop("running"), document.pop("buffered")
    return Progress(**document, running=tuple(running), buffered=tuple(buffered), backfills=tuple(backfills), recent=tuple(recent))


def _policy(name: str | None) -> OverlapPolicy | None:
    return None if name is None else OverlapPolicy(name)
