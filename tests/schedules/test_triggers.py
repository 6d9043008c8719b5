"""APScheduler's triggers as schedules: what they answer when they are asked as functions of an instant, and their JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from hypothesis import given
from hypothesis import strategies as st

from conductorlite import StartWorkflowRequest, WorkflowSchedule
from conductorlite.errors import InvalidInput
from conductorlite.language.schedules import following, latest, next_after, problems

NEW_YORK = ZoneInfo("America/New_York")
SANTIAGO = ZoneInfo("America/Santiago")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)


def utc(*given: int) -> datetime:
    """An instant."""
    year, month, day, *time = given
    return datetime(year, month, day, tzinfo=UTC) + timedelta(**dict(zip(("hours", "minutes", "seconds"), time, strict=False)))


def schedule(trigger: Any) -> WorkflowSchedule:
    """A schedule by a trigger."""
    return WorkflowSchedule(name="s", trigger=trigger, start_workflow_request=StartWorkflowRequest(name="w"))


def ours(trigger: Any, since: datetime) -> datetime | None:
    """The first instant from `since` on, as a schedule has it."""
    found = next_after(schedule(trigger), (since - EPOCH) // MS - 1)
    return None if found is None else EPOCH + found * MS


def theirs(trigger: BaseTrigger, since: datetime) -> datetime | None:
    """The same as APScheduler has it."""
    found: datetime | None = trigger.get_next_fire_time(None, since)
    return None if found is None else found.astimezone(UTC)


#: Where APScheduler is wrong: the trigger, the instant from which it is asked, its answer, and the right one.
WRONG = {
    "the midnight after a change is passed over": (
        CronTrigger(hour=0, timezone=NEW_YORK),
        utc(2030, 3, 10, 5, 30),
        utc(2030, 3, 12, 4),
        utc(2030, 3, 11, 4),
    ),
    "a skipped time fires an hour late": (
        CronTrigger(hour=2, minute=30, timezone=NEW_YORK),
        utc(2030, 3, 10, 5),
        utc(2030, 3, 10, 7, 30),
        utc(2030, 3, 10, 7),
    ),
    "a day whose midnight is skipped is left out": (
        CronTrigger(hour=0, timezone=SANTIAGO),
        utc(2030, 9, 7, 12),
        utc(2030, 9, 9, 3),
        utc(2030, 9, 8, 4),
    ),
    "a repeated time fires twice": (
        CronTrigger(hour=1, minute=30, timezone=NEW_YORK),
        utc(2030, 11, 3, 5, 31),
        utc(2030, 11, 3, 6, 30),
        utc(2030, 11, 4, 6, 30),
    ),
    "an instant is passed over by floating seconds": (
        IntervalTrigger(seconds=1.1, start_date=utc(2030, 1, 1, 9), timezone=UTC),
        utc(2030, 1, 1, 9) + timedelta(seconds=2.2),
        utc(2030, 1, 1, 9) + timedelta(seconds=3.3),
        utc(2030, 1, 1, 9) + timedelta(seconds=2.2),
    ),
    "a date that is over fires": (DateTrigger(utc(2030, 1, 2)), utc(2030, 1, 3), utc(2030, 1, 2), None),
    "one that is over hides what it is combined with": (
        OrTrigger([DateTrigger(utc(2030, 1, 2)), CronTrigger(hour=6, timezone=UTC)]),
        utc(2030, 1, 3),
        utc(2030, 1, 2),
        utc(2030, 1, 3, 6),
    ),
    "the first day fires for ever": (
        CalendarIntervalTrigger(days=2, hour=6, start_date="2020-01-01", timezone=UTC),
        utc(2030, 1, 1),
        utc(2020, 1, 1, 6),
        utc(2030, 1, 2, 6),
    ),
}


@pytest.mark.parametrize("key", WRONG)
def test_what_apscheduler_gets_wrong(key: str) -> None:
    """Its own answer is wrong still; when it is right, the correction in `language.triggers` can go."""
    trigger, since, wrong, right = WRONG[key]
    assert theirs(trigger, since) == wrong
    assert ours(trigger, since) == right


def test_what_never_agrees_is_not_looked_for_without_end() -> None:
    """APScheduler's AndTrigger goes on until its triggers agree; ours gives up, and the schedule is refused."""

    class Counted(CronTrigger):  # type: ignore[misc]
        asked = 0

        def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
            Counted.asked += 1
            if Counted.asked > 20_000:
                raise TimeoutError
            return super().get_next_fire_time(previous, now)  # type: ignore[no-any-return]

    even = {"second": "*/2", "timezone": UTC}
    with pytest.raises(TimeoutError):
        AndTrigger([Counted(**even), CronTrigger(second="1-59/2", timezone=UTC)]).get_next_fire_time(None, utc(2030, 1, 1))
    never = schedule(AndTrigger([CronTrigger(**even), CronTrigger(second="1-59/2", timezone=UTC)]))
    assert [str(problem) for problem in problems(never)] == ["$: never comes due"]


FIRES = {
    "cron": (
        CronTrigger(day="2nd fri", hour="9-17/4", timezone=UTC),
        {"type": "cron", "day": "2nd fri", "hour": "9-17/4", "timezone": "UTC"},
        [utc(2030, 1, 11, 9), utc(2030, 1, 11, 13), utc(2030, 1, 11, 17)],
    ),
    "cron within bounds": (
        CronTrigger(month="jan-mar", start_date=utc(2030, 2, 1), end_date=utc(2030, 3, 1), timezone="Europe/Berlin"),
        {
            "type": "cron", "month": "jan-mar", "start_date": "2030-02-01T00:00:00+00:00",
            "end_date": "2030-03-01T00:00:00+00:00", "timezone": "Europe/Berlin",
        },
        [utc(2030, 2, 28, 23)],
    ),
    "cron by its week": (
        CronTrigger(week=3, day_of_week="mon", timezone=timezone(timedelta(hours=2))),
        {"type": "cron", "week": "3", "day_of_week": "mon", "timezone": "+02:00"},
        [utc(2030, 1, 13, 22), utc(2031, 1, 12, 22)],
    ),
    "interval": (
        IntervalTrigger(hours=36, start_date=utc(2029, 12, 31), end_date=utc(2030, 1, 3), timezone=NEW_YORK),
        {
            "type": "interval", "seconds": 129_600, "start_date": "2029-12-31T00:00:00+00:00",
            "end_date": "2030-01-03T00:00:00+00:00", "timezone": "America/New_York",
        },
        [utc(2030, 1, 1, 12), utc(2030, 1, 3)],
    ),
    "date": (
        DateTrigger("2030-01-05 09:00:00", timezone=NEW_YORK),
        {"type": "date", "run_date": "2030-01-05T09:00:00-05:00", "timezone": "America/New_York"},
        [utc(2030, 1, 5, 14)],
    ),
    "calendar interval": (
        CalendarIntervalTrigger(months=1, days=1, hour=8, start_date=date(2029, 12, 1), timezone="Europe/Berlin"),
        {
            "type": "calendarinterval", "months": 1, "days": 1, "hour": 8, "start_date": "2029-12-01",
            "timezone": "Europe/Berlin",
        },
        [utc(2030, 1, 2, 7), utc(2030, 2, 3, 7), utc(2030, 3, 4, 7), utc(2030, 4, 5, 6)],
    ),
    "and": (
        AndTrigger([CronTrigger(day=13, timezone=UTC), CronTrigger(day_of_week="fri", timezone=UTC)]),
        {
            "type": "and",
            "triggers": [
                {"type": "cron", "day": "13", "timezone": "UTC"},
                {"type": "cron", "day_of_week": "fri", "timezone": "UTC"},
            ],
        },
        [utc(2030, 9, 13), utc(2030, 12, 13)],
    ),
    "or": (
        OrTrigger([DateTrigger(utc(2030, 1, 2)), CalendarIntervalTrigger(weeks=52, start_date="2020-01-01", timezone=UTC)]),
        {
            "type": "or",
            "triggers": [
                {"type": "date", "run_date": "2030-01-02T00:00:00+00:00", "timezone": "UTC"},
                {"type": "calendarinterval", "weeks": 52, "start_date": "2020-01-01", "timezone": "UTC"},
            ],
        },
        [utc(2030, 1, 2), utc(2030, 12, 18)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("key", FIRES)
def test_a_trigger_is_stored_by_its_fields(key: str) -> None:
    """Its JSON is what `add_job` is given, comes back from a schedule's JSON, and fires at the same instants."""
    trigger, document, expected = FIRES[key]
    given = schedule(trigger)
    assert given.trigger == document
    assert given.to_json()["trigger"] == document
    assert WorkflowSchedule.from_json(given.to_json()) == given == schedule(document)
    assert problems(given) == []
    instants = islice(following(given, (utc(2030, 1, 1) - EPOCH) // MS - 1), len(expected))
    assert [EPOCH + instant * MS for instant in instants] == expected


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    sets = st.sets(st.integers(low, high), min_size=1, max_size=3)
    return st.just("*") | sets.map(lambda numbers: ",".join(map(str, sorted(numbers))))


def _whole_ms(instant: datetime) -> datetime:
    """An instant of an engine: a clock counts whole milliseconds."""
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


@given(
    fields=st.fixed_dictionaries(
        {"minute": _numbers(0, 59), "hour": _numbers(0, 23)},
        optional={"day": _numbers(1, 28) | st.sampled_from(["last", "1st mon"]), "day_of_week": _numbers(0, 6)},
    ),
    since=st.datetimes(datetime(2025, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)).map(_whole_ms),
)
def test_where_no_clock_is_changed_it_fires_as_apscheduler_says(fields: dict[str, str], since: datetime) -> None:
    """CronTrigger's own walk, in UTC."""
    trigger = CronTrigger(**fields, timezone=UTC)
    assert ours(trigger, since) == theirs(trigger, since)


@given(
    spans=st.sampled_from(
        [{"days": 1}, {"weeks": 2, "days": 3}, {"months": 1}, {"months": 2, "days": 5}, {"years": 1, "weeks": 1}]
    ),
    zone=st.sampled_from(["UTC", "America/New_York", "Pacific/Apia"]),
    since=st.datetimes(datetime(2009, 1, 1), datetime(2014, 1, 1), timezones=st.just(UTC)).map(_whole_ms),
)
def test_a_calendar_interval_fires_as_apscheduler_walks(spans: dict[str, int], zone: str, since: datetime) -> None:
    """Found from close by, it is what its own walk from the first day comes to, from one instant to the next."""
    trigger = CalendarIntervalTrigger(**spans, hour=2, minute=30, start_date="2008-01-31", timezone=zone)
    walked = theirs(trigger, since)
    before = trigger.get_next_fire_time(None, since)
    while walked is not None and walked < since:
        before = trigger.get_next_fire_time(before, since)
        walked = before.astimezone(UTC)
    assert ours(trigger, since) == walked


def test_the_last_instant_of_a_trigger_after_years_is_found_at_once() -> None:
    """However long nobody drove the engine."""
    each = schedule(CalendarIntervalTrigger(days=1, hour=6, start_date="2000-01-01", timezone="UTC"))
    first = next_after(each, 0)
    assert first is not None
    last, now = utc(2150, 1, 1, 6), utc(2150, 1, 1, 7)
    assert latest(each, first, (now - EPOCH) // MS)[0] == (last - EPOCH) // MS


class Own(CronTrigger):  # type: ignore[misc]
    """A class of the application's own."""


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        pytest.param(
            Own(hour=1, timezone="UTC"), "a Own is no trigger that can be stored by its fields", id="of a class of their own"
        ),
        pytest.param("0 0 * * *", "a str is no trigger", id="text"),
        pytest.param(CronTrigger(hour=1, timezone="UTC", jitter=5), "a jitter of 5 s", id="jitter"),
        pytest.param(OrTrigger([CronTrigger(hour=1, timezone="UTC", jitter=5)]), "a jitter of 5 s", id="jitter in a combination"),
    ],
)
def test_what_cannot_be_stored(trigger: Any, message: str) -> None:
    """Refused where it is given."""
    with pytest.raises(InvalidInput, match=message):
        schedule(trigger)


START = {"start_date": "2030-01-01T00:00:00Z", "timezone": "UTC"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "is no object with a type of cron, interval, date, calendarinterval, and, or"),
        ({"type": "solar"}, "is no object with a type of"),
        ({"type": ["cron"]}, "is no object with a type of"),
        ({"type": "cron", "hour": 1}, "type cron: timezone is missing"),
        ({"type": "cron", "hour": 1, "timezone": "Mars/Base"}, "there is no time zone 'Mars/Base'"),
        ({"type": "cron", "hour": 1, "timezone": 5}, "type cron: expected string"),
        ({"type": "cron", "hours": 1, "timezone": "UTC"}, "unexpected keyword argument 'hours'"),
        ({"type": "cron", "hour": "25", "timezone": "UTC"}, "higher than the maximum value"),
        ({"type": "cron", "hour": [1], "timezone": "UTC"}, "Unrecognized expression"),
        ({"type": "cron", "day": "32w", "timezone": "UTC"}, "a month has no such day"),
        ({"type": "cron", "hour": 1, "start_date": "soon", "timezone": "UTC"}, "Invalid date string"),
        ({"type": "cron", "hour": 1, "timezone": "UTC", "jitter": 3}, "a jitter makes"),
        ({"type": "interval", "seconds": 5, "timezone": "UTC"}, "type interval: start_date is missing"),
        ({"type": "interval", "seconds": 0.5, **START}, "no second at least"),
        ({"type": "interval", "seconds": 1.0005, **START}, "whole milliseconds"),
        ({"type": "interval", **START}, "no second at least"),
        ({"type": "interval", "weeks": 10**12, **START}, "type interval:"),
        ({"type": "date", "timezone": "UTC"}, "run_date is missing"),
        ({"type": "calendarinterval", "days": 1, "timezone": "UTC"}, "start_date is missing"),
        ({"type": "calendarinterval", **START, "start_date": "2030-01-01"}, "at least 1 day"),
        ({"type": "calendarinterval", "years": 9_000, **START, "start_date": "2030-01-01"}, "up to 200 years"),
        ({"type": "calendarinterval", "months": -1, **START, "start_date": "2030-01-01"}, "no whole numbers"),
        ({"type": "calendarinterval", "days": 1, **START, "start_date": 5}, "no date in ISO form"),
        ({"type": "and", "triggers": []}, "triggers is missing"),
        ({"type": "or", "triggers": 5}, "not iterable"),
        ({"type": "or", "triggers": [{"type": "date", "timezone": "UTC"}]}, "type or: a trigger of type date: run_date is missing"),
    ],
)  # fmt: skip
def test_what_is_no_trigger(document: dict[str, Any], message: str) -> None:
    """Refused with the schedule, at its place."""
    found = [str(problem) for problem in problems(schedule(document))]
    assert found[0].startswith("$.trigger: ")
    assert message in found[0]


def test_triggers_are_combined_so_deeply_and_no_deeper() -> None:
    """Ten are read; more are refused, not recursed into."""
    document: dict[str, Any] = {"type": "date", "run_date": "2030-01-01", "timezone": "UTC"}
    for _ in range(9):
        document = {"type": "or", "triggers": [document]}
    assert problems(schedule(document)) == []
    found = [str(problem) for problem in problems(schedule({"type": "or", "triggers": [document]}))]
    assert "more than 10 triggers stand one in the other" in found[0]


def test_a_trigger_beside_a_cron_expression_is_refused() -> None:
    """There is one way to say when."""
    both = WorkflowSchedule(
        name="s",
        cron_expression="@daily",
        trigger=CronTrigger(hour=1, timezone="UTC"),
        start_workflow_request=StartWorkflowRequest(name="w"),
    )
    assert str(problems(both)[0]).startswith("$: needs exactly one of")
