"""Which instants an expression means in a zone: against a walk over every minute, around every kind of change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from brute_force import AUTUMN, EVERY_HOUR, EXPRESSIONS, MINUTE, SPRING, YEAR, Expected, ms, walk
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import StartWorkflowRequest, WorkflowSchedule
from conductorlite.language.schedules import following
from conductorlite.language.triggers import zone_of

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")

#: Noon before a change, by zone: an hour forward and back, half an hour, at midnight, a whole day that never was.
CHANGES = {
    "forward": ("America/New_York", datetime(2030, 3, 9, 12, tzinfo=UTC)),
    "back": ("America/New_York", datetime(2030, 11, 2, 12, tzinfo=UTC)),
    "half an hour forward": ("Australia/Lord_Howe", datetime(2030, 10, 5, 2, tzinfo=UTC)),
    "half an hour back": ("Australia/Lord_Howe", datetime(2030, 4, 6, 2, tzinfo=UTC)),
    "midnight is skipped": ("America/Santiago", datetime(2030, 9, 7, 12, tzinfo=UTC)),
    "midnight is shown twice": ("America/Havana", datetime(2029, 11, 3, 12, tzinfo=UTC)),
    "a day is skipped": ("Pacific/Apia", datetime(2011, 12, 29, 12, tzinfo=UTC)),
}
#: Those around which any expression is looked at in the fast run.
FAST = {"forward", "back", "midnight is skipped"}


def fired(text: str, zone_id: str, start: datetime, end: datetime) -> list[int]:
    """What the package says, from `start` to before `end`."""
    request = StartWorkflowRequest(name="w")
    schedule = WorkflowSchedule(name="s", cron_expression=text, zone_id=zone_id, start_workflow_request=request)
    return list(takewhile(lambda instant: instant < ms(end), following(schedule, ms(start) - 1)))


@pytest.mark.parametrize("zone_id", ZONES)
@pytest.mark.parametrize("key", [key for key in EXPRESSIONS if key != "hourly"])
@pytest.mark.parametrize(
    "span",
    [
        pytest.param(SPRING, id="spring"),
        pytest.param(AUTUMN, id="autumn", marks=pytest.mark.slow),
        pytest.param(YEAR, id="year", marks=pytest.mark.deep),
    ],
)
def test_named_times(span: tuple[datetime, datetime], key: str, zone_id: str) -> None:
    """Around both changes of the clocks, and all of a year, in three zones."""
    expected = EXPRESSIONS[key]
    assert fired(expected.text, zone_id, *span) == walk(expected, zone_id, *span)


@pytest.mark.parametrize("change", CHANGES)
def test_every_quarter_of_an_hour_around_a_change(change: str) -> None:
    """What runs on with the clock keeps its distance: 96 quarters in 24 hours, whatever the wall shows."""
    zone_id, start = CHANGES[change]
    expected = Expected("*/15 * * * *", frozenset({0, 15, 30, 45}), EVERY_HOUR, running=True)
    found = fired(expected.text, zone_id, start, start + timedelta(days=1))
    assert found == walk(expected, zone_id, start, start + timedelta(days=1))
    assert len(found) == 96


@pytest.mark.parametrize("change", [pytest.param(one, marks=() if one in FAST else pytest.mark.slow) for one in CHANGES])
@given(data=st.data())
def test_any_expression_around_a_change(change: str, data: st.DataObject) -> None:
    """Any list of minutes and hours, or `*`, or a step: the same instants as the walk says."""
    zone_id, start = CHANGES[change]
    minutes = data.draw(st.sets(st.integers(0, 59), min_size=1, max_size=4), label="minutes")
    hours = data.draw(st.sets(st.integers(0, 23), min_size=1, max_size=6), label="hours")
    step = data.draw(st.sampled_from([None, "*", "*/2", "1/3"]), label="step")
    meant = {None: hours, "*": EVERY_HOUR, "*/2": range(0, 24, 2), "1/3": range(1, 24, 3)}[step]
    said = step or ",".join(map(str, sorted(hours)))
    text = f"0 {','.join(map(str, sorted(minutes)))} {said} * * *"
    expected = Expected(text, frozenset(minutes), frozenset(meant), running=step is not None)
    end = start + timedelta(days=2)
    assert fired(text, zone_id, start, end) == walk(expected, zone_id, start, end)


def test_a_time_that_is_skipped_fires_after_the_gap() -> None:
    """02:30 in New York on 10 March 2030: the wall goes from 01:59 to 03:00, and it fires then."""
    start = datetime(2030, 3, 10, 5, tzinfo=UTC)
    found = fired("0 30 2 * * *", "America/New_York", start, start + timedelta(hours=12))
    assert found == [ms(datetime(2030, 3, 10, 7, tzinfo=UTC))]


def test_all_times_in_the_gap_fire_once() -> None:
    """Three times of day that are skipped, and one at the end of the gap, are one instant."""
    start = datetime(2030, 3, 10, 5, tzinfo=UTC)
    found = fired("0 0,30 2,3 * * *", "America/New_York", start, start + timedelta(hours=12))
    assert found == [ms(datetime(2030, 3, 10, 7, tzinfo=UTC)), ms(datetime(2030, 3, 10, 7, 30, tzinfo=UTC))]


def test_a_time_that_is_shown_twice_fires_the_first_time() -> None:
    """01:30 in New York on 3 November 2030 is shown at 05:30 and at 06:30 UTC."""
    start = datetime(2030, 11, 3, 4, tzinfo=UTC)
    assert fired("30 1 * * *", "America/New_York", start, start + timedelta(hours=12)) == [
        ms(datetime(2030, 11, 3, 5, 30, tzinfo=UTC))
    ]
    # Asked between the two it is over.
    assert fired("30 1 * * *", "America/New_York", start + timedelta(hours=2), start + timedelta(hours=12)) == []


def test_seconds() -> None:
    """Six fields have seconds; the first is one that is still to come."""
    start = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(milliseconds=1)
    found = fired("*/20 * * * * *", "UTC", start, start + MINUTE)
    assert [instant - ms(datetime(2030, 1, 1, tzinfo=UTC)) for instant in found] == [20_000, 40_000, 60_000]


@pytest.mark.deep
@pytest.mark.parametrize("zone_id", [*ZONES, "Africa/Casablanca", "Asia/Tehran", "America/Sao_Paulo", "Antarctica/Troll"])
def test_ten_years(zone_id: str) -> None:
    """Every quarter of an hour and every named night hour, from 2010 on."""
    span = (datetime(2010, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC))
    for expected in (
        Expected("*/15 * * * *", frozenset({0, 15, 30, 45}), EVERY_HOUR, running=True),
        Expected("0,30 0,1,2,3,4 * * *", frozenset({0, 30}), frozenset(range(5)), running=False),
    ):
        assert fired(expected.text, zone_id, *span) == walk(expected, zone_id, *span)


@pytest.mark.parametrize(("zone_id", "minutes"), [("+05:30", 330), ("-05:30", -330), ("-00:15", -15), ("+00:00", 0)])
def test_an_offset_is_a_zone(zone_id: str, minutes: int) -> None:
    """East of Greenwich, or west of it."""
    assert zone_of(zone_id).utcoffset(None) == timedelta(minutes=minutes)
