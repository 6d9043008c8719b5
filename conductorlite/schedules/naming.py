"""What an execution is called that a schedule starts, and what it is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from conductorlite.schedules.times import crons_of, next_after
from conductorlite.schedules.words import WorkflowSchedule

__all__ = ["id_of", "input_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def id_of(name: str, instant: int) -> str:
    """The id of the execution a schedule starts for an instant: its name and the instant, such as `nightly-20300310T073000Z`."""
    at = _EPOCH + timedelta(milliseconds=instant)
    return f"{name}-{at:%Y%m%dT%H%M%S}{f'{instant % 1000:03d}' if instant % 1000 else ''}Z"


def input_of(schedule: WorkflowSchedule, instant: int, now: int, workflow_id: str) -> dict[str, Any]:
    """The input of that execution: what the schedule gives, and what Conductor's scheduler puts beside it."""
    told = {
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
            told["_schedulerCron"] = f"{one.cron_expression} {one.zone_id}"
            break
    return {**schedule.start_workflow_request.input, **told}
