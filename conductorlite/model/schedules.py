"""Schedules ⇄ Conductor's JSON, and how far they have come ⇄ the text a store keeps.

Read as leniently as definitions are: scalars are coerced, null counts as absent, unknown properties are kept in `extra`. What
Conductor's server writes itself (`createTime`, `nextRunTime` …) is dropped when read.

What is wanted of a schedule, and what has become of it: frozen attrs.

The names are those of Conductor's scheduler (`WorkflowSchedule`, `CronSchedule`, `StartWorkflowRequest`); what it does not have
(intervals, one instant, misfire grace, overlap) is named after APScheduler and Temporal. Instants are epoch ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model import codec
from conductorlite.model.canonical import canonical, parse
from conductorlite.model.clock import to_instant
from conductorlite.model.codec import document_of
from conductorlite.model.definitions import IdempotencyStrategy, WorkflowDef
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.scalars import Wrong, boolean, choice, duration_ms, integer, json_names, shown, strict_text, text
from conductorlite.model.spans import Milliseconds, to_ms

if TYPE_CHECKING:
    from conductorlite.model.codec import Source

__all__ = [
    "ADDRESS",
    "Backfill",
    "CronSchedule",
    "OverlapPolicy",
    "Progress",
    "Schedule",
    "ScheduleOutcome",
    "ScheduledRun",
    "StartWorkflowRequest",
    "WorkflowSchedule",
    "address_of",
    "name_at",
    "progress_from_text",
    "progress_to_text",
    "schedule_from_json",
    "schedule_text",
    "schedule_to_json",
    "status_to_json",
]

#: What the address of a schedule's inbox begins with; no execution's id does.
ADDRESS: Final = "schedule:"


def address_of(name: str) -> str:
    """The inbox of a schedule."""
    return ADDRESS + name


def name_at(address: str) -> str | None:
    """The schedule whose inbox is at an address; None for an execution's."""
    return address[len(ADDRESS) :] if address.startswith(ADDRESS) else None


class OverlapPolicy(StrEnum):
    """What happens to a start that comes due while what the schedule started before is still running. Temporal's words.

    ALLOW_ALL starts it beside the others (Conductor's way). SKIP drops it. BUFFER_ONE starts it when the other has ended, and
    drops what comes due meanwhile; BUFFER_ALL starts all that came due, one after another. TERMINATE_OTHER terminates the other
    first. Temporal's CANCEL_OTHER is left out: Conductor knows no request to cancel, only the end by force.
    """

    ALLOW_ALL = "ALLOW_ALL"
    SKIP = "SKIP"
    BUFFER_ONE = "BUFFER_ONE"
    BUFFER_ALL = "BUFFER_ALL"
    TERMINATE_OTHER = "TERMINATE_OTHER"


class ScheduleOutcome(StrEnum):
    """What became of an instant of a schedule."""

    #: An execution was started, or existed already.
    EXECUTED = "EXECUTED"
    #: The start was refused; `reason` says why.
    FAILED = "FAILED"
    #: The overlap policy dropped it.
    SKIPPED = "SKIPPED"
    #: It was noticed too late: after the misfire grace, or with later ones due as well and no catch-up.
    MISSED = "MISSED"


def _instant(value: Any) -> int | None:
    # Conductor writes 0 for "not given".
    return None if value is None or value == 0 else to_instant(value)


def _span(value: Milliseconds | None) -> int | None:
    return None if value is None else to_ms(value)


def _zone(value: str | None) -> str:
    return value or "UTC"


@attrs.frozen(kw_only=True, slots=True)
class CronSchedule:
    """A cron expression and the zone of the clock on the wall it is read against."""

    cron_expression: str
    zone_id: str = attrs.field(default="UTC", converter=_zone)


@attrs.frozen(kw_only=True, slots=True)
class StartWorkflowRequest:
    """What a schedule starts: the arguments of `Engine.start` under Conductor's names.

    `name` is a registered workflow (the highest `version` by default, looked up at each start); `workflow_def` is one that
    need not be registered.
    """

    name: str = ""
    version: int | None = None
    workflow_def: WorkflowDef | None = None
    input: Mapping[str, Any] = attrs.field(factory=dict)
    correlation_id: str | None = None
    priority: int = 0
    task_to_domain: Mapping[str, str] = attrs.field(factory=dict)
    created_by: str | None = None
    idempotency_key: str | None = None
    idempotency_strategy: IdempotencyStrategy = attrs.field(default=IdempotencyStrategy.FAIL, converter=IdempotencyStrategy)
    extra: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class WorkflowSchedule:
    """When a workflow is to be started, again and again or once.

    When: exactly one of `cron_expression` (six fields as Spring reads them, or five as cron does) in `zone_id`, several
    `cron_schedules`, an `interval_ms` (counted from `schedule_start_time`, else from 1970-01-01T00:00Z), and one instant `at`;
    only from `schedule_start_time` to `schedule_end_time`, both included.

    After downtime the last instant that was missed is made up for, with `run_catchup_schedule_instances` each of them, in
    order; none that is more than `misfire_grace_ms` late (None: however late). `overlap_policy` says what happens while an
    earlier start still runs. A schedule that is saved `paused` waits for `resume_schedule`.

    Instants may be given as ms, datetimes or ISO text, spans as ms, timedeltas or text such as "90s".
    """

    name: str
    start_workflow_request: StartWorkflowRequest
    description: str | None = None
    cron_expression: str | None = None
    zone_id: str = attrs.field(default="UTC", converter=_zone)
    cron_schedules: tuple[CronSchedule, ...] = attrs.field(default=(), converter=tuple)
    interval_ms: int | None = attrs.field(default=None, converter=_span)
    at: int | None = attrs.field(default=None, converter=_instant)
    schedule_start_time: int | None = attrs.field(default=None, converter=_instant)
    schedule_end_time: int | None = attrs.field(default=None, converter=_instant)
    run_catchup_schedule_instances: bool = False
    misfire_grace_ms: int | None = attrs.field(default=None, converter=_span)
    overlap_policy: OverlapPolicy = attrs.field(default=OverlapPolicy.ALLOW_ALL, converter=OverlapPolicy)
    paused: bool = False
    paused_reason: str | None = None
    created_by: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def from_json(cls, source: Source) -> WorkflowSchedule:
        """Read a schedule from Conductor's JSON: text, bytes, a parsed mapping, or the path of a file.

        Raises InvalidDefinition with all problems at once, InvalidInput for broken JSON, OSError for an unreadable file.
        """
        # The one door up, as in WorkflowDef.from_json.

        return schedule_from_json(source)

    def to_json(self) -> dict[str, Any]:
        """This schedule as Conductor's JSON, fresh: defaults are left out, unknown properties written back."""
        # The same door as in `from_json`.

        return schedule_to_json(self)


@attrs.frozen(kw_only=True, slots=True)
class ScheduledRun:
    """What became of one instant, `scheduled_time`; decided upon at `executed_time`."""

    scheduled_time: int
    executed_time: int
    outcome: ScheduleOutcome
    workflow_id: str | None = None
    reason: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class Backfill:
    """Instants after `after` up to `until` that are still to be started, under a policy of their own (None: the schedule's)."""

    after: int
    until: int
    overlap_policy: OverlapPolicy | None = None


@attrs.frozen(kw_only=True, slots=True)
class Progress:
    """How far a schedule has come; every instant up to `after` is dealt with."""

    created_at: int
    updated_at: int
    after: int
    next_at: int | None = None
    paused: bool = False
    paused_reason: str | None = None
    #: Executions started under a policy that looks at them, which had not ended when last looked at.
    running: tuple[str, ...] = ()
    #: Instants that wait for the end of what is running, in order.
    buffered: tuple[int, ...] = ()
    backfills: tuple[Backfill, ...] = ()
    #: The last decisions, oldest first.
    recent: tuple[ScheduledRun, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class Schedule:
    """A stored schedule: what is wanted, and where it stands."""

    definition: WorkflowSchedule
    paused: bool
    paused_reason: str | None
    #: The next instant, also while paused; None when there is none any more.
    next_run_time: int | None
    create_time: int
    updated_time: int
    #: Executions that the overlap policy still looks at. Under ALLOW_ALL none are.
    running: tuple[str, ...] = ()
    buffered: tuple[int, ...] = ()
    backfills: tuple[Backfill, ...] = ()
    #: What became of the last ten instants that were decided upon, oldest first.
    recent: tuple[ScheduledRun, ...] = ()

    @property
    def name(self) -> str:
        """The schedule's name."""
        return self.definition.name

    def to_json(self) -> dict[str, Any]:
        """Conductor's `WorkflowSchedule` as its REST API answers it, with `recent` and what waits beside it, fresh."""

        return status_to_json(self)


#: Properties that Conductor's server sets, and we with them.
_ANSWERED: Final = frozenset(
    {"createTime", "updatedTime", "updatedBy", "nextRunTime", "running", "buffered", "backfills", "recent"}
)

_SECONDS: Final = {"interval_ms": "intervalSeconds", "misfire_grace_ms": "misfireGraceSeconds"}


def _instant_of(value: object) -> int | str:
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
    "at": _instant_of,
    "schedule_start_time": _instant_of,
    "schedule_end_time": _instant_of,
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
