"""Schedules on the engine's clock: starts, overlaps, what was missed, pauses, backfills, restarts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from engine_kit import T0, Bench, flow, noop, simple, wait

from conductorlite import (
    Engine,
    EventHandler,
    IdempotencyStrategy,
    InvalidDefinition,
    OverlapPolicy,
    ResultTimeout,
    StartWorkflowRequest,
    TaskDef,
    VirtualClock,
    WorkflowSchedule,
    WorkflowStatus,
    WorkflowTask,
)
from conductorlite.errors import Conflict, DefinitionNotFound, InvalidInput, ScheduleNotFound
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend

QUICK = flow(noop("n"), name="quick")
#: Runs for 150 s.
LONG = flow(wait("w", duration="150s"), name="long")


def every(seconds: int = 60, workflow: Any = QUICK, name: str = "s", **fields: Any) -> WorkflowSchedule:
    """A schedule of an inline workflow: every so many seconds, counted from second 0 of the test."""
    request = fields.pop("request", StartWorkflowRequest(workflow_def=workflow))
    start = {"schedule_start_time": T0}
    return WorkflowSchedule(name=name, interval_ms=seconds * 1000, start_workflow_request=request, **{**start, **fields})


def starts(bench: Bench) -> list[float]:
    """The seconds at which executions were created, in order."""
    return sorted((bench.engine.get(one).created_at - T0) / 1000 for one in bench.engine.admin.workflow_ids())


def told(bench: Bench, name: str = "s") -> list[tuple[float, str]]:
    """What became of instants: the second, and the outcome."""
    recent = bench.engine.schedules.get(name).recent
    return [((run.scheduled_time - T0) / 1000, str(run.outcome)) for run in recent]


def asleep(bench: Bench, until: float) -> None:
    """Let time pass while nobody drives."""
    bench.clock.move_to(T0 + round(until * 1000))


# ---------------------------------------------------------------------------------------------------------------- starts


def test_a_schedule_starts_its_workflow_at_each_instant(bench: Bench) -> None:
    """From the first instant after it was saved, each at its own instant."""
    saved = bench.engine.schedules.save(every(60))
    assert (saved.next_run_time, saved.create_time, saved.paused) == (T0 + 60_000, T0, False)
    bench.at(59)
    assert starts(bench) == []
    bench.at(200)
    assert starts(bench) == [60, 120, 180]
    assert told(bench) == [(60, "EXECUTED"), (120, "EXECUTED"), (180, "EXECUTED")]
    assert bench.engine.schedules.get("s").next_run_time == T0 + 240_000


def test_what_an_execution_is_told(bench: Bench) -> None:
    """The request's fields, and in its input what Conductor's scheduler puts there; its id follows from name and instant."""
    request = StartWorkflowRequest(
        workflow_def=flow(simple("a"), name="told"),
        input={"report": "daily", "_scheduledTime": "mine"},
        correlation_id="c-${scheduledTime}",
        priority=7,
        task_to_domain={"*": "d"},
        created_by="ann",
    )
    bench.engine.schedules.save(
        WorkflowSchedule(name="nightly", cron_expression="0 0 18 * * *", zone_id="Europe/Berlin", start_workflow_request=request)
    )
    bench.engine.advance(to="2030-03-18T17:00:01Z")
    (row,) = [bench.engine.get(one) for one in bench.engine.admin.workflow_ids()]
    assert row.workflow_id == "nightly-20300318T170000Z"
    assert (row.name, row.correlation_id, row.priority, row.created_by) == ("told", "c-${scheduledTime}", 7, "ann")
    assert (row.event, row.task("a").domain) == ("schedule:nightly", "d")
    assert row.input_data == {
        "report": "daily",
        "_startedByScheduler": "nightly",
        "_scheduledTime": row.created_at,
        "_executedTime": row.created_at,
        "_executionId": "nightly-20300318T170000Z",
        "_schedulerCron": "0 0 18 * * * Europe/Berlin",
    }


def test_one_instant_comes_once(bench: Bench) -> None:
    """`at`: once, also when it is now; afterwards the schedule is over, and saving it again starts nothing."""
    later = WorkflowSchedule(name="later", at=T0 + 5_000, start_workflow_request=StartWorkflowRequest(workflow_def=QUICK))
    now = attrs.evolve(later, name="now", at=T0)
    for schedule in (later, now):
        bench.engine.schedules.save(schedule)
    bench.at(10)
    assert starts(bench) == [0, 5]
    assert [one.next_run_time for one in bench.engine.schedules.all()] == [None, None]
    bench.engine.schedules.save(later)
    bench.at(20)
    assert starts(bench) == [0, 5]
    assert bench.engine.admin.agenda() == []


def test_the_registered_definition_is_looked_up_at_each_start(bench: Bench) -> None:
    """By name the highest version counts; one that is not registered fails that start alone."""
    bench.engine.schedules.save(every(60, request=StartWorkflowRequest(name="f")))
    bench.at(61)
    bench.engine.register(flow(noop("n"), name="f", version=1))
    bench.at(121)
    bench.engine.register(flow(noop("n"), name="f", version=2))
    bench.at(181)
    assert [bench.engine.get(one).version for one in sorted(bench.engine.admin.workflow_ids())] == [1, 2]
    assert told(bench) == [(60, "FAILED"), (120, "EXECUTED"), (180, "EXECUTED")]
    failed = bench.engine.schedules.get("s").recent[0]
    assert (failed.reason, failed.workflow_id) == ("no workflow 'f' is registered", None)
    with pytest.raises(DefinitionNotFound):
        bench.engine.definitions.workflow("g")


def test_a_definition_that_needs_what_is_missing_fails_the_start(bench: Bench) -> None:
    """An invalid inline definition is told, and the schedule goes on."""
    bench.engine.schedules.save(every(60, workflow=flow(simple("a"), simple("a"), name="twice")))
    bench.at(121)
    assert told(bench) == [(60, "FAILED"), (120, "FAILED")]
    assert "taskReferenceName" in (bench.engine.schedules.get("s").recent[0].reason or "")


def test_idempotency_keys(bench: Bench) -> None:
    """A key that is taken refuses the start, or stands for the one that exists."""
    for name, strategy in (("fails", IdempotencyStrategy.FAIL), ("returns", IdempotencyStrategy.RETURN_EXISTING)):
        request = StartWorkflowRequest(workflow_def=flow(noop("n"), name=name), idempotency_key="k", idempotency_strategy=strategy)
        bench.engine.schedules.save(every(60, name=name, request=request))
    bench.at(121)
    assert told(bench, "fails") == [(60, "EXECUTED"), (120, "FAILED")]
    assert told(bench, "returns") == [(60, "EXECUTED"), (120, "EXECUTED")]
    one, two = bench.engine.schedules.get("returns").recent
    assert one.workflow_id == two.workflow_id
    assert len(starts(bench)) == 2


def test_an_execution_of_that_id_stands_for_the_start(bench: Bench) -> None:
    """A second start for an instant is harmless, whoever made the first."""
    bench.engine.schedules.save(every(60))
    (instant,) = bench.engine.schedules.preview("s", 1)
    assert instant == T0 + 60_000
    bench.start(QUICK, workflow_id="s-20300317T174740Z")
    bench.at(61)
    assert starts(bench) == [0]
    (run,) = bench.engine.schedules.get("s").recent
    assert (str(run.outcome), run.reason, run.workflow_id) == ("EXECUTED", "existed already", "s-20300317T174740Z")


def test_the_inbox_of_a_schedule_is_no_id(bench: Bench) -> None:
    """No execution can be given the address of a schedule."""
    with pytest.raises(InvalidInput, match="inbox of a schedule"):
        bench.start(QUICK, workflow_id="schedule:s")


def test_workers_of_the_engine_carry_out_what_is_started(new_store: Callable[[], Backend]) -> None:
    """Task definitions of decorators count, also of functions added after the engine was made."""
    engine = Engine(new_store(), clock=VirtualClock(T0))
    with engine:
        engine.schedules.save(every(60, workflow=flow(simple("late"), name="f")))

        @engine.workers.task("late", retry_count=1, retry_delay_seconds=1)
        def late(_scheduledTime: int = 0) -> dict[str, int]:  # noqa: N803
            return {"n": 1}

        engine.advance("90s")
        (row,) = [engine.get(one) for one in engine.admin.workflow_ids()]
        assert (row.status, row.definition is not None) == (WorkflowStatus.COMPLETED, True)
        definition = row.definition.tasks[0].task_definition if row.definition else None
        assert isinstance(definition, TaskDef)
        assert definition.retry_count == 1


# ------------------------------------------------------------------------------------------------------------- overlaps


@pytest.mark.parametrize(
    ("policy", "expected", "outcomes"),
    [
        ("ALLOW_ALL", [60, 120, 180, 240, 300], "EEEEE"),
        ("SKIP", [60, 240], "ESSES"),
        ("BUFFER_ONE", [60, 210, 360], "ESESE"),
        ("BUFFER_ALL", [60, 210, 360, 510, 660], "EEEEE"),
        ("TERMINATE_OTHER", [60, 120, 180, 240, 300], "EEEEE"),
    ],
)
def test_overlaps(bench: Bench, policy: str, expected: list[float], outcomes: str) -> None:
    """Every minute a workflow that takes two and a half, five times; then the schedule ends."""
    bench.engine.schedules.save(every(60, workflow=LONG, overlap_policy=policy, schedule_end_time=T0 + 300_000))
    bench.at(2_000)
    assert starts(bench) == expected
    assert "".join(outcome[0] for _, outcome in told(bench)) == outcomes
    ended = {bench.engine.status(one) for one in list(bench.engine.admin.workflow_ids())[:-1]}
    assert ended == {WorkflowStatus.TERMINATED if policy == "TERMINATE_OTHER" else WorkflowStatus.COMPLETED}
    status = bench.engine.schedules.get("s")
    assert (status.running, status.buffered, status.next_run_time) == ((), (), None)
    assert bench.engine.admin.agenda() == []


def test_what_is_terminated_says_why(bench: Bench) -> None:
    """The reason names the schedule."""
    bench.engine.schedules.save(every(60, workflow=LONG, overlap_policy=OverlapPolicy.TERMINATE_OTHER))
    bench.at(121)
    first, second = sorted(bench.engine.admin.workflow_ids())
    assert bench.engine.get(first).reason == "schedule 's' has started the next one"
    assert bench.engine.schedules.get("s").running == (second,)


def test_a_buffered_start_waits_for_the_end_however_it_comes(bench: Bench) -> None:
    """The end of the running one, by a verb of another engine or a failure, starts the next at once."""
    work = flow(simple("a"), name="f")
    bench.engine.schedules.save(every(60, workflow=work, overlap_policy="BUFFER_ONE", schedule_end_time=T0 + 180_000))
    bench.at(130)
    status = bench.engine.schedules.get("s")
    assert (len(status.running), status.buffered) == (1, (T0 + 120_000,))
    bench.engine.terminate(status.running[0])
    assert bench.engine.settle() > 0
    assert starts(bench)[-1] == bench.second
    status = bench.engine.schedules.get("s")
    assert status.buffered == ()
    bench.engine.admin.remove(sorted(bench.engine.admin.workflow_ids())[0])
    assert bench.engine.schedules.get("s").running == status.running


def test_the_buffer_is_bounded(bench: Bench) -> None:
    """Under BUFFER_ALL a thousand instants wait; what comes then is dropped, and told."""
    work = flow(simple("a"), name="f")
    fields = {"overlap_policy": "BUFFER_ALL", "run_catchup_schedule_instances": True}
    bench.engine.schedules.save(every(1, workflow=work, **fields))
    bench.at(1_003)
    assert len(bench.engine.schedules.get("s").buffered) == 1_000
    assert told(bench)[-1] == (1_003, "SKIPPED")
    bench.engine.schedules.remove("s")


# --------------------------------------------------------------------------------------------------- what was not in time


def test_after_downtime_the_last_instant_is_made_up_for(bench: Bench) -> None:
    """Without catch-up: one start, for the last of those that were due."""
    bench.engine.schedules.save(every(60))
    asleep(bench, 330)
    bench.engine.settle()
    assert told(bench) == [(60, "MISSED"), (300, "EXECUTED")]
    assert starts(bench) == [330]
    (row,) = [bench.engine.get(one) for one in bench.engine.admin.workflow_ids()]
    assert (row.workflow_id, row.input_data["_scheduledTime"], row.input_data["_executedTime"]) == (
        "s-20300317T175140Z",
        T0 + 300_000,
        T0 + 330_000,
    )
    bench.at(360)
    assert starts(bench) == [330, 360]


def test_with_catch_up_each_instant_is_made_up_for(bench: Bench) -> None:
    """In order, one start a turn."""
    bench.engine.schedules.save(every(60, run_catchup_schedule_instances=True))
    asleep(bench, 330)
    for count in range(1, 6):
        assert bench.engine.tick()
        assert len(starts(bench)) == count
    bench.engine.settle()
    assert told(bench) == [(second, "EXECUTED") for second in (60, 120, 180, 240, 300)]
    assert starts(bench) == [330] * 5


@pytest.mark.parametrize(("catch_up", "expected"), [(False, []), (True, [])])
def test_nothing_is_started_that_is_too_late(bench: Bench, catch_up: bool, expected: list[float]) -> None:
    """Twenty-one seconds late with a grace of twenty; the next one comes in time."""
    schedule = every(60, run_catchup_schedule_instances=catch_up, misfire_grace_ms="20s")
    bench.engine.schedules.save(schedule)
    asleep(bench, 321)
    bench.engine.settle()
    assert starts(bench) == expected
    assert {outcome for _, outcome in told(bench)} == {"MISSED"}
    bench.at(360)
    assert starts(bench) == [360]


def test_within_the_grace_it_is_started(bench: Bench) -> None:
    """Exactly as late as may be; with catch-up those that are older are passed over at once."""
    bench.engine.schedules.save(every(60, name="last", misfire_grace_ms=20_000))
    bench.engine.schedules.save(every(60, name="each", misfire_grace_ms=80_000, run_catchup_schedule_instances=True))
    asleep(bench, 320)
    bench.engine.settle()
    assert told(bench, "last") == [(60, "MISSED"), (300, "EXECUTED")]
    assert told(bench, "each") == [(60, "MISSED"), (240, "EXECUTED"), (300, "EXECUTED")]


def test_years_of_downtime_are_passed_over_in_one_turn(bench: Bench) -> None:
    """Every second for ten years: three turns, not three hundred million."""
    bench.engine.schedules.save(
        WorkflowSchedule(name="s", cron_expression="* * * * * *", start_workflow_request=StartWorkflowRequest(workflow_def=QUICK))
    )
    asleep(bench, 10 * 31_536_000)
    assert bench.engine.settle() <= 3
    assert told(bench) == [(1, "MISSED"), (10 * 31_536_000, "EXECUTED")]


# ---------------------------------------------------------------------------------------------------------------- verbs


def test_a_paused_schedule_starts_nothing(bench: Bench) -> None:
    """What comes due in the pause is passed over; afterwards it goes on from then."""
    bench.engine.schedules.save(every(60))
    bench.at(61)
    bench.engine.schedules.pause("s", "holiday")
    status = bench.engine.schedules.get("s")
    assert (status.paused, status.paused_reason, status.next_run_time) == (True, "holiday", T0 + 120_000)
    assert bench.engine.admin.agenda() == []
    bench.at(200)
    bench.engine.schedules.resume("s")
    bench.engine.schedules.resume("s")
    assert bench.engine.schedules.get("s").paused is False
    bench.at(241)
    assert starts(bench) == [60, 240]
    assert told(bench) == [(60, "EXECUTED"), (240, "EXECUTED")]


def test_a_buffered_start_outlives_a_pause(bench: Bench) -> None:
    """It was accepted before; it begins when the pause is over."""
    bench.engine.schedules.save(every(60, workflow=LONG, overlap_policy="BUFFER_ONE", schedule_end_time=T0 + 120_000))
    bench.at(121)
    bench.engine.schedules.pause("s")
    bench.at(400)
    assert starts(bench) == [60]
    bench.engine.schedules.resume("s")
    bench.at(401)
    assert starts(bench) == [60, 400]


def test_saving_again(bench: Bench) -> None:
    """The same schedule: nothing changes, a pause stays. Another one: it goes on from now, and a pause still stays."""
    bench.engine.schedules.save(every(60))
    bench.at(61)
    bench.engine.schedules.pause("s", "by hand")
    before = bench.engine.schedules.get("s")
    assert bench.engine.schedules.save(every(60)) == before
    changed = bench.engine.schedules.save(every(50, description="new"))
    assert (changed.paused, changed.paused_reason, changed.next_run_time) == (True, "by hand", T0 + 100_000)
    assert (changed.create_time, changed.updated_time, changed.recent) == (T0, T0 + 61_000, before.recent)
    bench.engine.schedules.resume("s")
    bench.engine.schedules.save(every(50, paused=True, paused_reason="as written"))
    assert bench.engine.schedules.get("s").paused_reason == "as written"
    bench.engine.schedules.save(every(50))
    bench.at(101)
    assert starts(bench) == [60, 100]


def test_saved_paused(bench: Bench) -> None:
    """It waits for `resume_schedule`."""
    bench.engine.schedules.save(every(60, paused=True, paused_reason="not yet"))
    bench.at(100)
    bench.engine.schedules.resume("s")
    bench.at(121)
    assert starts(bench) == [120]


def test_removing(bench: Bench) -> None:
    """It is gone, with its timer; what it has started goes on."""
    bench.engine.schedules.save(every(60, workflow=LONG))
    bench.at(61)
    bench.engine.schedules.remove("s")
    assert bench.engine.schedules.all() == []
    bench.at(400)
    assert starts(bench) == [60]
    assert bench.engine.status(next(bench.engine.admin.workflow_ids())) is WorkflowStatus.COMPLETED
    calls: list[Callable[[], object]] = [
        lambda: bench.engine.schedules.get("s"),
        lambda: bench.engine.schedules.pause("s"),
        lambda: bench.engine.schedules.resume("s"),
        lambda: bench.engine.schedules.remove("s"),
        lambda: bench.engine.schedules.preview("s"),
        lambda: bench.engine.schedules.backfill("s", T0, T0),
    ]
    for call in calls:
        with pytest.raises(ScheduleNotFound, match="no schedule 's'"):
            call()


def test_an_invalid_schedule_is_refused_whole(bench: Bench) -> None:
    """All problems at once, and nothing is stored."""
    with pytest.raises(InvalidDefinition) as caught:
        bench.engine.schedules.save(every(0, name="a b"))
    assert [problem.path for problem in caught.value.problems] == ["$.name", "$.intervalSeconds"]
    with pytest.raises(InvalidInput, match=r"(?i)nan"):
        bench.engine.schedules.save(every(60, request=StartWorkflowRequest(name="w", input={"x": float("nan")})))
    assert bench.engine.schedules.all() == []


def test_schedules_of_a_workflow(bench: Bench) -> None:
    """In order of names; by the workflow they start, inline or registered."""
    bench.engine.schedules.save(every(60, name="c"))
    bench.engine.schedules.save(every(60, name="a", request=StartWorkflowRequest(name="other")))
    bench.engine.schedules.save(every(60, name="b"))
    assert [one.name for one in bench.engine.schedules.all()] == ["a", "b", "c"]
    assert [one.name for one in bench.engine.schedules.all("quick")] == ["b", "c"]
    assert [one.name for one in bench.engine.schedules.all("other")] == ["a"]


def test_preview(bench: Bench) -> None:
    """The next instants of a stored schedule, of one that is not, and of an expression; nothing is stored or started."""
    bench.engine.schedules.save(every(60, paused=True))
    assert bench.engine.schedules.preview("s", 2) == [T0 + 60_000, T0 + 120_000]
    assert bench.engine.schedules.preview(every(60, schedule_end_time=T0 + 70_000), 2) == [T0 + 60_000]
    assert bench.engine.schedules.preview("0 0 9 * * *", 1, zone_id="Asia/Tokyo", after=T0) == bench.engine.schedules.preview(
        "0 0 0 * * *", 1
    )
    assert bench.engine.schedules.preview("@daily", 1, after="2030-01-01T00:00Z") == [1_893_542_400_000]
    with pytest.raises(InvalidInput, match="count 0"):
        bench.engine.schedules.preview("s", 0)
    with pytest.raises(InvalidDefinition, match="not between 0 and 59"):
        bench.engine.schedules.preview("99 * * * *")
    assert starts(bench) == []


def test_backfill(bench: Bench) -> None:
    """Instants of the past, each once: those that were started already are not started again."""
    bench.engine.schedules.save(every(60))
    bench.at(125)
    bench.engine.schedules.pause("s")
    bench.at(300)
    assert bench.engine.schedules.backfill("s", T0 + 120_000, T0 + 240_000) == 3
    assert starts(bench) == [60, 120]
    bench.engine.settle()
    assert starts(bench) == [60, 120, 300, 300]
    assert [run.reason for run in bench.engine.schedules.get("s").recent] == [None, None, "existed already", None, None]
    assert bench.engine.schedules.get("s").backfills == ()
    assert bench.engine.schedules.backfill("s", T0 + 61_000, T0 + 62_000) == 0
    assert bench.engine.settle() == 0


def test_a_backfill_one_after_another(bench: Bench) -> None:
    """With a policy of its own: each waits for the one before, and none is dropped."""
    bench.engine.schedules.save(every(60, workflow=LONG, paused=True))
    bench.at(300)
    bench.engine.schedules.backfill("s", T0 + 60_000, T0 + 180_000, overlap_policy=OverlapPolicy.BUFFER_ALL)
    bench.engine.settle()
    assert starts(bench) == [300]
    bench.at(2_000)
    assert starts(bench) == [300, 450, 600]


def test_a_backfill_under_the_schedules_own_policy(bench: Bench) -> None:
    """SKIP drops all but the first; that is told."""
    bench.engine.schedules.save(every(60, workflow=LONG, paused=True, overlap_policy="SKIP"))
    bench.at(300)
    bench.engine.schedules.backfill("s", T0 + 60_000, T0 + 180_000)
    bench.at(301)
    assert told(bench) == [(60, "EXECUTED"), (120, "SKIPPED"), (180, "SKIPPED")]


def test_backfills_are_bounded(bench: Bench) -> None:
    """Neither too many, nor backwards, nor ahead of time."""
    bench.engine.schedules.save(every(1, paused=True))
    bench.at(20_000)
    for start, end, problem in ((1, 20_000, "more than 10000"), (9, 8, "before the start"), (0, 20_001, "in the future")):
        with pytest.raises(InvalidInput, match=problem):
            bench.engine.schedules.backfill("s", T0 + start * 1000, T0 + end * 1000)


# -------------------------------------------------------------------------------------------------------------- driving


def test_the_next_start_is_on_the_agenda(bench: Bench) -> None:
    """With the schedule's name and its inbox; the driver wakes for it."""
    bench.engine.schedules.save(every(60))
    (entry,) = bench.engine.admin.agenda()
    assert (entry.at, entry.kind, entry.workflow_id, entry.ref) == (T0 + 60_000, "SCHEDULE", "schedule:s", "s")
    assert bench.engine.admin.next_wakeup() == T0 + 60_000


def test_schedules_alone_do_not_keep_an_engine_busy(bench: Bench) -> None:
    """`run_until_idle` ends when all that was started has; until then schedules fire on the way."""
    for n in range(20):  # more than are looked at in one go
        bench.engine.schedules.save(every(60, name=f"s{n}", schedule_end_time=T0 + 3_600_000 if n else None))
    assert bench.engine.run_until_idle() is True
    assert bench.second == 0
    bench.start(LONG)
    assert bench.engine.run_until_idle() is True
    assert bench.second == 150
    assert len(starts(bench)) == 1 + 20 * 2
    bench.engine.run_forever()
    assert bench.second == 150


def test_a_result_that_never_comes_is_told_beside_a_schedule(bench: Bench) -> None:
    """Waiting for a task that nobody does is given up, though the schedule could go on for ever."""
    bench.engine.schedules.save(every(60))
    run = bench.start(flow(wait("w", duration="90s"), WorkflowTask(name="h", task_reference_name="h", type="HUMAN")))
    with pytest.raises(ResultTimeout, match="cannot go on by itself"):
        run.result()
    assert bench.second == 90


def test_everything_survives_a_restart(new_store: Callable[[], Backend], store: Backend) -> None:
    """Another engine on the same store goes on: the timer, the buffer, what runs, the pause."""
    clock = VirtualClock(T0)
    first = Engine(store, clock=clock)
    first.schedules.save(every(60, workflow=LONG, overlap_policy="BUFFER_ALL", schedule_end_time=T0 + 180_000))
    first.schedules.save(every(60, name="paused", paused=True))
    first.advance("130s")
    second = Engine(store, clock=clock)
    assert second.schedules.all() == first.schedules.all()
    second.advance("2000s")
    ids = list(second.admin.workflow_ids())
    assert [(second.get(one).created_at - T0) / 1000 for one in ids] == [60, 210, 360]
    assert second.admin.check() == []
    second.close()


def test_a_schedule_that_changes_under_a_verb(bench: Bench) -> None:
    """A verb that is fenced out reads again; after many times it says so."""
    bench.engine.schedules.save(every(60))
    other = Engine(bench.engine.backend, clock=bench.clock)
    keep = bench.engine.core.timetable.keep
    left = 3

    def overtaken(*arguments: Any) -> Any:
        nonlocal left
        if left > 0:
            left -= 1
            other.schedules.pause("s", f"other {left}")
        return keep(*arguments)

    bench.engine.core.timetable.keep = overtaken  # type: ignore[method-assign]
    bench.engine.schedules.pause("s", "at last")
    assert bench.engine.schedules.get("s").paused_reason == "at last"
    left = 100
    with pytest.raises(Conflict, match="others changed it 8 times"):
        bench.engine.schedules.pause("s", "never")


def test_two_engines_start_each_instant_once(store: Backend) -> None:
    """Both see the instant due, one commits; the other stores nothing. With a lock likewise."""
    clock = VirtualClock(T0)
    engines = [Engine(store, clock=clock) for _ in range(2)]
    engines[0].schedules.save(every(60))
    begun: list[str] = []
    for number, engine in enumerate(engines):
        engine.listen(lambda workflow, _, number=number: begun.append(f"{number} {workflow.workflow_id}"))  # type: ignore[misc]
    late = engines[1]
    begin = late.core.timetable._begin_for

    def overtaken(*arguments: Any) -> None:
        engines[0].settle()
        begin(*arguments)

    late.core.timetable._begin_for = overtaken  # type: ignore[method-assign]
    clock.move_to(T0 + 60_000)
    late.settle()
    assert begun == ["0 s-20300317T174740Z"]
    assert [str(run.outcome) for run in late.schedules.get("s").recent] == ["EXECUTED"]
    assert late.admin.agenda()[0].at == T0 + 120_000


def test_a_zone_that_is_not_known_any_more_pauses_the_schedule(bench: Bench) -> None:
    """Say, on another machine: the driver goes on, and the schedule says why it does not."""
    request = StartWorkflowRequest(workflow_def=QUICK)
    bench.engine.schedules.save(WorkflowSchedule(name="s", cron_expression="* * * * *", start_workflow_request=request))
    with bench.engine.backend.writing() as tx:
        row = tx.schedules.schedule("s")
        assert row is not None
        text = row.text.replace('"cronExpression"', '"zoneId":"Mars/Base","cronExpression"')
        tx.schedules.put_schedule(attrs.evolve(row, text=text), [], [])
    bench.at(120)
    assert bench.engine.schedules.get("s").paused_reason == "cannot be computed: there is no time zone 'Mars/Base'"


def test_nothing_of_it_costs_an_engine_without_schedules() -> None:
    """No event, no row, and the library that computes times is not even imported."""
    engine = Engine(MemoryBackend(), clock=VirtualClock(T0))
    engine.start(QUICK).result()
    assert engine.schedules.all() == []
    assert engine.admin.agenda() == []


# --------------------------------------------------------------------------------------------------------------- records


def test_every_decision_is_kept(bench: Bench) -> None:
    """More than the last ten, newest first, page by page; also of a schedule that was removed; until they are removed by age."""
    bench.engine.schedules.save(every(60, name="s"))
    bench.engine.schedules.save(every(60, LONG, name="t", overlap_policy="SKIP"))
    bench.at(15 * 60 + 1)
    bench.engine.schedules.remove("s")
    executions = bench.engine.schedules.executions
    assert len(bench.engine.schedules.get("t").recent) == 10
    own = executions("s")
    assert [(one.scheduled_time - T0) / 60_000 for one in own] == [15 - number for number in range(15)]
    assert {(one.schedule_name, one.workflow_name, str(one.outcome)) for one in own} == {("s", "quick", "EXECUTED")}
    assert all(bench.engine.get(one.workflow_id or "").name == "quick" for one in own)
    assert [str(one.outcome) for one in executions("t")][-4:] == ["EXECUTED", "SKIPPED", "SKIPPED", "EXECUTED"]
    whole, pages, after = executions(limit=100), [], None
    while page := executions(limit=4, after=after):
        pages += page
        after = page[-1]
    assert pages == whole
    assert len({one.execution_id for one in whole}) == len(whole) == 30
    assert bench.engine.events.executions() == []  # no message came
    assert bench.engine.events.remove_executions(T0 + 10 * 60_000) == 0
    assert executions(limit=100) == whole
    assert bench.engine.schedules.remove_executions(T0 + 10 * 60_000) == 18
    assert min(one.executed_time for one in executions(limit=100)) == T0 + 10 * 60_000
    with pytest.raises(InvalidInput):
        executions(limit=0)


def test_one_instant_decided_twice_is_kept_twice(bench: Bench) -> None:
    """What is backfilled again in the same millisecond has a record of its own."""
    bench.engine.schedules.save(every(60, name="s", paused=True))
    bench.at(120)
    for _ in range(2):
        bench.engine.schedules.backfill("s", T0 + 60_000, T0 + 60_000)
        bench.engine.settle()
    first, second = bench.engine.schedules.executions("s")
    assert (first.reason, second.reason, first.executed_time) == ("existed already", None, second.executed_time)


def test_messages_and_instants_are_listed_apart(bench: Bench) -> None:
    """Records of messages fill a page, however many of schedules stand between them."""
    bench.engine.schedules.save(every(1, name="s"))
    handler = {"name": "h", "event": "conductor:e", "active": True}
    action = {"action": "start_workflow", "start_workflow": {"name": "quick"}}
    bench.engine.register(QUICK)
    bench.engine.events.register(EventHandler.from_json({**handler, "actions": [action]}))
    for second in range(1, 4):
        bench.at(5 * second)
        bench.engine.events.publish("conductor:e", {}, message_id=f"m{second}")
    assert [one.message_id for one in bench.engine.events.executions(limit=2)] == ["m3", "m2"]
    assert len(bench.engine.events.executions()) == 3
    assert len(bench.engine.schedules.executions(limit=100)) == 15
    assert bench.engine.events.remove_executions(T0 + 10_001) == 2
    assert bench.engine.schedules.remove_executions(T0 + 10_001) == 10
    assert (len(bench.engine.events.executions()), len(bench.engine.schedules.executions())) == (1, 5)
