"""Schedules, and records of what has become of them: frozen attrs, and the text a store keeps.

The names are those of Conductor's scheduler (`WorkflowSchedule`, `CronSchedule`, `StartWorkflowRequest`); what it does not have
(intervals, one instant, misfire grace, overlap) is named after APScheduler and Temporal. Instants are epoch ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import attrs

from conductorlite.model.canonical import canonical, parse, present
from conductorlite.model.codec import Definition, fresh, structured
from conductorlite.model.definitions import StartWorkflowRequest
from conductorlite.model.scalars import NAMES, WRITTEN, DurationMs, InstantMs, in_json
from conductorlite.model.texts import Milliseconds, to_instant, to_ms
from conductorlite.model.triggers import trigger_document

__all__ = [
    "Backfill",
    "CronSchedule",
    "OverlapPolicy",
    "Progress",
    "Schedule",
    "ScheduleExecution",
    "ScheduleOutcome",
    "ScheduledRun",
    "WorkflowSchedule",
    "progress_from_text",
    "progress_to_text",
]


#: What Conductor's server writes into its answers, which says nothing of what is wanted.
_ANSWERED: Final = in_json(
    answered=frozenset({"createTime", "updatedTime", "updatedBy", "nextRunTime", "running", "buffered", "backfills", "recent"})
)


class OverlapPolicy(StrEnum):
    """Policy for a start that comes due while an earlier execution of the schedule still runs; Temporal's names.

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
    """Result of an instant of a schedule."""

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


def _trigger(value: Any) -> Mapping[str, Any] | None:
    return None if value is None else trigger_document(value)


def _zone(value: str | None) -> str:
    return value or "UTC"


@attrs.frozen(kw_only=True, slots=True)
class CronSchedule:
    """A cron expression and the zone of the clock on the wall it is read against."""

    cron_expression: str = attrs.field(metadata=NAMES)
    zone_id: str = attrs.field(default="UTC", converter=_zone)


def _schedules(given: Iterable[CronSchedule]) -> tuple[CronSchedule, ...]:
    return tuple(given)


@attrs.frozen(kw_only=True, slots=True)
class WorkflowSchedule(Definition):
    """Schedule by which a workflow is started, again and again or once.

    When: exactly one of `cron_expression` (six fields as Spring reads them, or five as cron does) in `zone_id`, several
    `cron_schedules`, an `interval_ms` (counted from `schedule_start_time`, else from 1970-01-01T00:00Z), one instant `at`, and a
    `trigger` of APScheduler 3, which is stored by its fields; only from `schedule_start_time` to `schedule_end_time`, both
    included.

    After downtime the last instant that was missed is made up for, with `run_catchup_schedule_instances` each of them, in
    order; none that is more than `misfire_grace_ms` late (None: however late). `overlap_policy` says what happens while an
    earlier start still runs. A schedule that is saved `paused` waits for `schedules.resume`.

    Instants may be given as ms, datetimes with a time zone or ISO text with an offset, spans as ms, timedeltas
    or text such as "90s".
    """

    name: str = attrs.field(metadata=NAMES)
    start_workflow_request: StartWorkflowRequest = attrs.field(metadata=WRITTEN)
    description: str | None = None
    cron_expression: str | None = None
    zone_id: str = attrs.field(default="UTC", converter=_zone)
    cron_schedules: Sequence[CronSchedule] = attrs.field(default=(), converter=_schedules)
    interval_ms: DurationMs | None = attrs.field(default=None, converter=_span)
    at: InstantMs | None = attrs.field(default=None, converter=_instant)
    trigger: Mapping[str, Any] | None = attrs.field(default=None, converter=_trigger)
    schedule_start_time: InstantMs | None = attrs.field(default=None, converter=_instant)
    schedule_end_time: InstantMs | None = attrs.field(default=None, converter=_instant)
    run_catchup_schedule_instances: bool = False
    misfire_grace_ms: DurationMs | None = attrs.field(default=None, converter=_span)
    overlap_policy: OverlapPolicy = attrs.field(default=OverlapPolicy.ALLOW_ALL, converter=OverlapPolicy)
    paused: bool = False
    paused_reason: str | None = None
    created_by: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict, metadata=_ANSWERED)


@attrs.frozen(kw_only=True, slots=True)
class ScheduledRun:
    """Result of one instant, `scheduled_time`; decided upon at `executed_time`."""

    scheduled_time: int
    executed_time: int = attrs.field(metadata=in_json("executionTime"))
    outcome: ScheduleOutcome = attrs.field(metadata=in_json("state"))
    workflow_id: str | None = None
    reason: str | None = None


@attrs.frozen(kw_only=True, slots=True)
class ScheduleExecution:
    """Result of one instant of a schedule, as it is kept for good: Conductor's WorkflowScheduleExecutionModel.

    `workflow_name` and `zone_id` are those that the schedule had then; it may have been changed or removed since.
    """

    schedule_name: str
    scheduled_time: int
    executed_time: int
    outcome: ScheduleOutcome
    workflow_name: str
    zone_id: str = "UTC"
    workflow_id: str | None = None
    reason: str | None = None
    #: Number of the decision, when there are several on one instant in one millisecond.
    number: int = 0

    @property
    def execution_id(self) -> str:
        """Identity: the schedule, the instant, when it was decided upon, and the number of the decision."""
        return f"{self.schedule_name}-{self.scheduled_time}-{self.executed_time}-{self.number}"


@attrs.frozen(kw_only=True, slots=True)
class Backfill:
    """Instants after `after` up to `until` that are still to be started, under a policy of their own (None: the schedule's)."""

    after: int
    until: int
    overlap_policy: OverlapPolicy | None = None


@attrs.frozen(kw_only=True, slots=True)
class Progress:
    """Progress of a schedule; every instant up to `after` is dealt with."""

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

    def decided_since(self, before: Progress | None) -> list[ScheduledRun]:
        """The decisions made since an earlier state of the same schedule, oldest first."""
        known = set() if before is None else set(before.recent)
        return [run for run in self.recent if run not in known]


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
        return present(
            {
                **self.definition.to_json(),
                "paused": self.paused,
                "pausedReason": self.paused_reason,
                "createTime": self.create_time,
                "updatedTime": self.updated_time,
                "nextRunTime": self.next_run_time,
                "running": list(self.running),
                "buffered": list(self.buffered),
                "backfills": fresh(self.backfills),
                "recent": fresh(self.recent),
            }
        )


def progress_to_text(progress: Progress) -> str:
    """Return the progress of a schedule as text for a store."""
    return canonical({field.name: fresh(getattr(progress, field.name)) for field in attrs.fields(Progress)})


def progress_from_text(kept: str) -> Progress:
    """Return the progress that `progress_to_text` has written."""
    document: dict[str, Any] = parse(kept)
    lists = {"running": Sequence[str], "buffered": Sequence[int], "backfills": Sequence[Backfill], "recent": Sequence[ScheduledRun]}
    return Progress(**{**document, **{name: structured(document[name], kind) for name, kind in lists.items()}})
