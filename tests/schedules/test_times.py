"""When schedules come due that are no cron, what was due last, and what is wrong with a schedule."""

from __future__ import annotations

from itertools import islice, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import CronSchedule, StartWorkflowRequest, WorkflowSchedule
from conductorlite.language.schedules import following, latest, next_after, problems

T0 = 1_900_000_000_000
REQUEST = StartWorkflowRequest(name="w")


def schedule(**fields: Any) -> WorkflowSchedule:
    """A schedule of workflow `w`."""
    return WorkflowSchedule(**{"name": "s", "start_workflow_request": REQUEST, **fields})


@given(
    interval=st.integers(1_000, 10**9),
    origin=st.integers(1, 2 * 10**12),
    after=st.integers(0, 4 * 10**12),
)
def test_intervals_are_a_grid(interval: int, origin: int, after: int) -> None:
    """The first point of the grid after an instant, to the millisecond, however far from its beginning."""
    found = next_after(schedule(interval_ms=interval, schedule_start_time=origin), after)
    assert found is not None
    assert (found - origin) % interval == 0
    assert found > after or found == origin
    assert found == origin or found - interval <= after


def test_intervals_without_a_beginning_count_from_1970() -> None:
    """As in Temporal, so that the instants follow from the schedule alone."""
    assert list(islice(following(schedule(interval_ms="1h"), T0), 2)) == [T0 + 800_000, T0 + 4_400_000]


def test_bounds_are_included() -> None:
    """From the start time to the end time."""
    bounds = {"schedule_start_time": T0 + 20_000, "schedule_end_time": T0 + 60_000}
    found = list(following(schedule(cron_expression="*/20 * * * * *", **bounds), 0))
    assert found == [T0 + 20_000, T0 + 40_000, T0 + 60_000]
    assert list(following(schedule(interval_ms=20_000, **bounds), 0)) == found
    assert list(following(schedule(at=T0 + 60_001, schedule_end_time=T0 + 60_000), 0)) == []


def test_one_instant() -> None:
    """`at` comes due once."""
    assert list(following(schedule(at="2030-01-01T12:00:00+01:00"), 0)) == [1_893_495_600_000]


def test_several_expressions_are_one_schedule() -> None:
    """The instants of all of them, each once, in order; `cron_expression` does not count beside them."""
    crons = [CronSchedule(cron_expression="0 0 9 * * *"), CronSchedule(cron_expression="0 0 9,10 * * *", zone_id="Europe/Berlin")]
    found = list(islice(following(schedule(cron_schedules=crons, cron_expression="* * * * *"), 1_893_456_000_000), 3))
    assert [(instant - 1_893_456_000_000) / 3_600_000 for instant in found] == [8, 9, 32]


@given(
    text=st.sampled_from(["*/7 * * * * *", "0 */15 9-17 * * MON-FRI", "0 0 0 L * *", "30 2 * * *", "0 0 29 2 *"]),
    after=st.integers(T0, T0 + 10**10),
    span=st.integers(0, 10**8),
)
def test_the_last_instant_that_was_due(text: str, after: int, span: int) -> None:
    """Found by halving, it is the one found by walking."""
    each = schedule(cron_expression=text, zone_id="Europe/Berlin")
    first = next_after(each, after)
    assert first is not None
    now = first + span
    walked = list(takewhile(lambda instant: instant <= now, following(each, first - 1)))
    assert latest(each, first, now) == (walked[-1], next_after(each, walked[-1]))


def test_the_last_instant_after_years_is_found_at_once() -> None:
    """A schedule that fires every second, and a store that was closed for fifty years."""
    each = schedule(cron_expression="* * * * * *")
    last = T0 + 50 * 31_536_000_000
    assert latest(each, T0, last + 999) == (last, last + 1_000)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cron_expression": "* * * * *"}, []),
        ({}, ["$: needs exactly one of"]),
        ({"cron_expression": "* * * * *", "interval_ms": 1_000}, ["$: needs exactly one of"]),
        ({"cron_expression": "x"}, ["$.cronExpression: cron expression 'x'"]),
        ({"cron_expression": "* * * * *", "zone_id": "Mars/Base"}, ["$.zoneId: there is no time zone 'Mars/Base'"]),
        ({"cron_expression": "* * * * *", "zone_id": "../etc"}, ["$.zoneId: there is no time zone '../etc'"]),
        (
            {"cron_schedules": [CronSchedule(cron_expression="* * * * *"), CronSchedule(cron_expression="y", zone_id="z")]},
            ["$.cronSchedules[1].cronExpression: cron", "$.cronSchedules[1].zoneId: there"],
        ),
        ({"cron_expression": "0 0 30 2 *"}, ["$: never comes due"]),
        ({"interval_ms": 999}, ["$.intervalSeconds: 999 ms is shorter"]),
        ({"interval_ms": 1_000, "name": "a b"}, ["$.name: 'a b' is not a name"]),
        ({"interval_ms": 1_000, "name": "x" * 201}, ["$.name: "]),
        ({"at": 5, "schedule_start_time": 9, "schedule_end_time": 8}, ["$.scheduleEndTime: 8 is before"]),
        ({"at": 5, "start_workflow_request": StartWorkflowRequest()}, ["$.startWorkflowRequest.name: is missing"]),
        (
            {"at": 5, "start_workflow_request": StartWorkflowRequest(name="w", priority=100, idempotency_key="")},
            ["$.startWorkflowRequest.priority: 100", "$.startWorkflowRequest.idempotencyKey: is not"],
        ),
    ],
)
def test_what_is_wrong(fields: dict[str, Any], expected: list[str]) -> None:
    """All problems at once, each with its place."""
    found = [str(problem) for problem in problems(schedule(**fields))]
    assert len(found) == len(expected), found
    assert all(wanted in problem for problem, wanted in zip(found, expected, strict=True)), found
