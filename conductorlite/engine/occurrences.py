"""The next step of a schedule: one step at a time, each about one instant, so that work in a turn is bounded.

Pure: the service of schedules says which executions are still running, carries out the start, and commits the result with it.

Also here: the id and the input of an execution that a schedule starts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import attrs

from conductorlite.language.schedules import crons_of, latest, next_after
from conductorlite.model.schedules import Backfill, OverlapPolicy, Progress, ScheduledRun, ScheduleOutcome, WorkflowSchedule

__all__ = ["ScheduleStep", "id_of", "input_of", "noted", "started", "step", "waits_for_an_end", "wakes_at"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def id_of(name: str, instant: int) -> str:
    """The id of the execution a schedule starts for an instant: its name and the instant, such as `nightly-20300310T073000Z`."""
    at = _EPOCH + timedelta(milliseconds=instant)
    return f"{name}-{at:%Y%m%dT%H%M%S}{f'{instant % 1000:03d}' if instant % 1000 else ''}Z"


def input_of(schedule: WorkflowSchedule, instant: int, now: int, workflow_id: str) -> dict[str, Any]:
    """The input of that execution: what the schedule gives, and what Conductor's scheduler puts beside it."""
    added = {
        "_startedByScheduler": schedule.name,
        "_scheduledTime": instant,
        "_executedTime": now,
        "_executionId": workflow_id,
    }
    crons = crons_of(schedule)
    for one in crons:
        alone = WorkflowSchedule(
            name=schedule.name,
            start_workflow_request=schedule.start_workflow_request,
            cron_expression=one.cron_expression,
            zone_id=one.zone_id,
        )
        if len(crons) == 1 or next_after(alone, instant - 1) == instant:
            added["_schedulerCron"] = f"{one.cron_expression} {one.zone_id}"
            break
    return {**schedule.start_workflow_request.input, **added}


#: Decisions a schedule remembers.
_RECENT: Final = 10

#: Instants that wait under BUFFER_ALL, at most.
_BUFFER: Final = 1000


@attrs.frozen(kw_only=True, slots=True)
class ScheduleStep:
    """The state of the schedule after a step.

    It names the instant to start for (None: none), what is to be terminated before, and whether what is started has to be looked
    at later.
    """

    progress: Progress
    start: int | None = None
    terminate: tuple[str, ...] = ()
    tracked: bool = False


def step(schedule: WorkflowSchedule, progress: Progress, now: int, running: tuple[str, ...]) -> ScheduleStep:
    """The next step at `now`, when of the executions in `progress.running` these are still running."""
    progress = attrs.evolve(progress, running=running)
    if not progress.paused and progress.next_at is not None and progress.next_at <= now:
        return _due(schedule, progress, progress.next_at, now)
    if progress.buffered and not progress.paused and not running:
        rest = attrs.evolve(progress, buffered=progress.buffered[1:])
        return ScheduleStep(
            progress=rest, start=progress.buffered[0], tracked=schedule.overlap_policy is not OverlapPolicy.ALLOW_ALL
        )
    if progress.backfills and not _held(schedule, progress):
        return _filled(schedule, progress, progress.backfills[0], now)
    return ScheduleStep(progress=progress)


def _due(schedule: WorkflowSchedule, progress: Progress, first: int, now: int) -> ScheduleStep:
    """An instant has come due, or several."""
    grace = schedule.misfire_grace_ms
    if schedule.run_catchup_schedule_instances:
        if grace is not None and first < now - grace:
            progress = _passed(progress, first, now, f"more than {grace} ms late")
            late = now - grace - 1
            return ScheduleStep(progress=attrs.evolve(progress, after=late, next_at=next_after(schedule, late)))
        instant, following = first, next_after(schedule, first)
    else:
        instant, following = latest(schedule, first, now)
        if instant > first:
            progress = _passed(progress, first, now, "later ones were due as well")
        if grace is not None and instant < now - grace:
            progress = _passed(progress, instant, now, f"more than {grace} ms late")
            return ScheduleStep(progress=attrs.evolve(progress, after=instant, next_at=following))
    return _accepted(schedule.overlap_policy, attrs.evolve(progress, after=instant, next_at=following), instant, now)


def _accepted(policy: OverlapPolicy, progress: Progress, instant: int, now: int) -> ScheduleStep:
    """Apply the overlap policy to an instant."""
    if policy is OverlapPolicy.ALLOW_ALL:
        return ScheduleStep(progress=progress, start=instant)
    if policy is OverlapPolicy.TERMINATE_OTHER:
        return ScheduleStep(progress=attrs.evolve(progress, running=()), start=instant, terminate=progress.running, tracked=True)
    if not progress.running and not progress.buffered:
        return ScheduleStep(progress=progress, start=instant, tracked=True)
    if policy is OverlapPolicy.SKIP:
        return ScheduleStep(progress=_passed(progress, instant, now, "an earlier one was still running", ScheduleOutcome.SKIPPED))
    if len(progress.buffered) >= (_BUFFER if policy is OverlapPolicy.BUFFER_ALL else 1):
        return ScheduleStep(progress=_passed(progress, instant, now, "the buffer was full", ScheduleOutcome.SKIPPED))
    return ScheduleStep(progress=attrs.evolve(progress, buffered=tuple(sorted((*progress.buffered, instant)))))


def _filled(schedule: WorkflowSchedule, progress: Progress, backfill: Backfill, now: int) -> ScheduleStep:
    """The next instant of the first backfill."""
    instant = next_after(schedule, backfill.after)
    rest = progress.backfills[1:]
    if instant is None or instant > backfill.until:
        return ScheduleStep(progress=attrs.evolve(progress, backfills=rest))
    progress = attrs.evolve(progress, backfills=(attrs.evolve(backfill, after=instant), *rest))
    return _accepted(_policy(schedule, backfill), progress, instant, now)


def _policy(schedule: WorkflowSchedule, backfill: Backfill) -> OverlapPolicy:
    return backfill.overlap_policy or schedule.overlap_policy


def _held(schedule: WorkflowSchedule, progress: Progress) -> bool:
    """Return True if the first backfill waits for its turn: its instants are their own buffer."""
    policy = _policy(schedule, progress.backfills[0])
    return policy is OverlapPolicy.BUFFER_ALL and bool(progress.running or progress.buffered)


def wakes_at(schedule: WorkflowSchedule, progress: Progress, now: int) -> int | None:
    """Return when a schedule is to be looked at again by itself; None: when another turn writes to it."""
    goes_on = progress.buffered and not progress.paused and not progress.running
    if goes_on or (progress.backfills and not _held(schedule, progress)):
        return now
    return None if progress.paused else progress.next_at


def waits_for_an_end(progress: Progress) -> bool:
    """Return True if the end of an execution may let the schedule go on."""
    return bool(progress.running and (progress.buffered or progress.backfills))


def started(progress: Progress, run: ScheduledRun, *, tracked: bool) -> Progress:
    """With the execution that was started."""
    running = progress.running
    if tracked and run.workflow_id is not None and run.workflow_id not in running:
        running = (*running, run.workflow_id)
    return attrs.evolve(noted(progress, run), running=running)


def noted(progress: Progress, run: ScheduledRun) -> Progress:
    """With one decision more to remember."""
    return attrs.evolve(progress, recent=(*progress.recent, run)[-_RECENT:])


def _passed(progress: Progress, instant: int, now: int, reason: str, outcome: ScheduleOutcome = ScheduleOutcome.MISSED) -> Progress:
    """With an instant for which nothing was started."""
    return noted(progress, ScheduledRun(scheduled_time=instant, executed_time=now, outcome=outcome, reason=reason))
