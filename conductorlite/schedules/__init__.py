"""Schedules: when a workflow is to be started, and what becomes of each instant. Pure, and the only door of APScheduler.

`cron` reads expressions, `zones` knows what fires when the clocks change, `times` when a schedule comes due, `steps` what it
does then. A schedule has an inbox of its own, at `schedule:<name>`; its timer is a letter there like any other.
"""

from __future__ import annotations

from conductorlite.schedules.words import (
    ADDRESS,
    Backfill,
    CronSchedule,
    OverlapPolicy,
    Progress,
    Schedule,
    ScheduledRun,
    ScheduleOutcome,
    StartWorkflowRequest,
    WorkflowSchedule,
    address_of,
    name_at,
)

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
]
