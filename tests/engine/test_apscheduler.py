"""APScheduler beside an engine: its triggers as schedules, its jobs that start flows, its scheduler that drives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from queue import Queue
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from engine_kit import T0, Bench, flow, noop

from conductorlite import Engine, InvalidDefinition, StartWorkflowRequest, VirtualClock, WorkflowSchedule, WorkflowStatus
from conductorlite.errors import InvalidInput
from conductorlite.store.ports import Backend

ZERO = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=T0)
REQUEST = StartWorkflowRequest(workflow_def=flow(noop("n"), name="quick"))


def after(seconds: float) -> datetime:
    """A second of the test."""
    return ZERO + timedelta(seconds=seconds)


def scheduled(trigger: Any, **fields: Any) -> WorkflowSchedule:
    """A schedule by a trigger."""
    return WorkflowSchedule(name="s", trigger=trigger, start_workflow_request=REQUEST, **fields)


#: A trigger of each class, and the seconds of the first hour at which it fires (the test begins at 17:46:40 UTC).
TRIGGERS = {
    "cron": (CronTrigger(minute="0,20", timezone=UTC), [800, 2_000]),
    "interval": (IntervalTrigger(minutes=25, start_date=after(10), timezone=UTC), [10, 1_510, 3_010]),
    "date": (DateTrigger(after(60)), [60]),
    "calendar interval": (CalendarIntervalTrigger(days=1, hour=18, start_date="2030-01-01", timezone=UTC), [800]),
    "and": (AndTrigger([CronTrigger(minute="*/10", timezone=UTC), CronTrigger(minute="0,30,31", timezone=UTC)]), [800, 2_600]),
    "or": (OrTrigger([DateTrigger(after(60)), CronTrigger(minute=0, timezone=UTC)]), [60, 800]),
}


@pytest.mark.parametrize("kind", TRIGGERS)
def test_a_trigger_starts_its_flow_at_each_instant(bench: Bench, kind: str) -> None:
    """Once each, at its own instant; a program that starts again saves the same schedule, and changes nothing."""
    trigger, seconds = TRIGGERS[kind]
    bench.engine.schedules.save(scheduled(trigger))
    for second in (0, 900, 1_800, 3_600):
        bench.at(second)
        assert bench.engine.schedules.save(scheduled(trigger)).create_time == T0
    found = sorted(bench.engine.get(one).created_at for one in bench.engine.admin.workflow_ids())
    assert found == [T0 + second * 1_000 for second in seconds]


def test_what_was_missed_is_made_up_for(bench: Bench) -> None:
    """By the rules of any schedule: the bounds of the schedule count beside those of the trigger, and each instant is started."""
    trigger = IntervalTrigger(minutes=1, start_date=after(0), timezone=UTC)
    bench.engine.schedules.save(scheduled(trigger, run_catchup_schedule_instances=True, schedule_end_time=T0 + 200_000))
    bench.clock.move_to(T0 + 400_000)
    bench.engine.settle()
    recent = bench.engine.schedules.get("s").recent
    assert [(run.scheduled_time - T0, str(run.outcome)) for run in recent] == [
        (60_000, "EXECUTED"),
        (120_000, "EXECUTED"),
        (180_000, "EXECUTED"),
    ]
    assert bench.engine.schedules.get("s").next_run_time is None


def test_on_the_systems_clock(new_store: Callable[[], Backend]) -> None:
    """Instants of the past are started by a backfill, each once."""
    with Engine(new_store()) as engine:
        engine.schedules.save(scheduled(CalendarIntervalTrigger(days=1, start_date="2026-01-01", timezone=UTC)))
        assert engine.schedules.backfill("s", "2026-02-01T00:00:00Z", "2026-02-03T00:00:00Z") == 3
        engine.settle()
        assert engine.schedules.backfill("s", "2026-02-03T00:00:00Z", "2026-02-04T00:00:00Z") == 2
        engine.settle()
        assert sorted(engine.admin.workflow_ids()) == [f"s-2026020{day}T000000Z" for day in (1, 2, 3, 4)]


def test_a_trigger_that_is_refused_changes_nothing(bench: Bench) -> None:
    """What is stored stays as it is."""
    saved = bench.engine.schedules.save(scheduled(CronTrigger(hour=1, timezone=UTC)))
    with pytest.raises(InvalidDefinition, match="timezone is missing"):
        bench.engine.schedules.save(scheduled({"type": "cron", "hour": 2}))
    with pytest.raises(InvalidInput, match="jitter"):
        bench.engine.schedules.save(scheduled(CronTrigger(hour=2, timezone=UTC, jitter=3)))
    assert bench.engine.schedules.get("s") == saved


@pytest.mark.parametrize("virtual", [True, False])
def test_a_job_starts_a_flow_once_for_each_instant(new_store: Callable[[], Backend], virtual: bool) -> None:
    """Two schedulers run the same job for the same three instants: its key is the instant, so each has one execution."""
    started: Queue[str] = Queue()
    trigger = IntervalTrigger(days=1, start_date="2026-01-01", end_date="2026-01-03", timezone=UTC)
    with Engine(new_store(), clock=VirtualClock(T0) if virtual else None) as engine:
        engine.register(flow(noop("n"), name="quick"))

        def start(event: JobExecutionEvent) -> None:
            key = f"{event.job_id} {event.scheduled_run_time.isoformat()}"
            run = engine.start("quick", {"day": event.retval}, idempotency_key=key, idempotency_strategy="RETURN_EXISTING")
            started.put(run.workflow_id)

        schedulers = [BackgroundScheduler(timezone=UTC) for _ in range(2)]
        for scheduler in schedulers:
            scheduler.add_listener(start, EVENT_JOB_EXECUTED)
            past = {"next_run_time": trigger.start_date, "misfire_grace_time": None, "coalesce": False}
            scheduler.add_job(lambda: "a day", trigger, id="job", **past)
            scheduler.start()
        try:
            runs = [started.get(timeout=60) for _ in range(6)]
        finally:
            for scheduler in schedulers:
                scheduler.shutdown()
        assert len(set(runs)) == 3
        assert sorted(engine.admin.workflow_ids()) == sorted(set(runs))


@pytest.mark.parametrize("virtual", [True, False])
def test_their_scheduler_drives_an_engine(new_store: Callable[[], Backend], virtual: bool) -> None:
    """A job that settles, or advances a virtual clock, takes the place of a thread that drives; a timer comes due on the way."""
    ended = threading.Event()
    engine = Engine(new_store(), clock=VirtualClock(T0) if virtual else None)
    engine.listen(lambda workflow, _: ended.set() if workflow.status.terminal else None)
    scheduler = BackgroundScheduler(timezone=UTC)
    drive: Callable[[], object] = (lambda: engine.advance("1s")) if virtual else engine.settle
    scheduler.add_job(drive, "interval", seconds=0.05, max_instances=1, coalesce=True)
    scheduler.start()
    try:
        run = engine.start(flow(noop("n"), name="timed"), delay=timedelta(seconds=5) if virtual else timedelta(milliseconds=50))
        assert ended.wait(timeout=60)
        assert engine.status(run.workflow_id) is WorkflowStatus.COMPLETED
    finally:
        scheduler.shutdown()
        engine.close()
