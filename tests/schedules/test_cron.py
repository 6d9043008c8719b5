"""The language of cron expressions: Spring's six fields, and the five of cron."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.errors import InvalidExpression
from conductorlite.language.cron import parse_cron


def days(text: str, count: int = 4, start: str = "2030-01-01") -> list[str]:
    """The next days on which an expression fires."""
    found: list[str] = []
    at = datetime.fromisoformat(start)
    cron = parse_cron(text)
    while len(found) < count and (wall := cron.next_wall(at)) is not None:
        found.append(f"{wall:%m-%d}")
        at = wall.replace(hour=0, minute=0, second=0) + timedelta(days=1)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 9 * * MON-FRI", ["01-01", "01-02", "01-03", "01-04"]),
        ("0 0 9 ? * 6,0", ["01-05", "01-06", "01-12", "01-13"]),
        ("0 0 9 * * 7", ["01-06", "01-13", "01-20", "01-27"]),
        ("0 0 9 * * SAT-SUN", ["01-05", "01-06", "01-12", "01-13"]),
        ("0 0 9 * * SUN-TUE", ["01-01", "01-06", "01-07", "01-08"]),
        ("0 0 9 * * 1/2", ["01-02", "01-04", "01-07", "01-09"]),
        ("0 0 9 1 JAN-MAR *", ["01-01", "02-01", "03-01", "01-01"]),
        ("0 0 9 L * *", ["01-31", "02-28", "03-31", "04-30"]),
        ("0 0 9 L-2 * *", ["01-29", "02-26", "03-29", "04-28"]),
        ("0 0 9 LW * *", ["01-31", "02-28", "03-29", "04-30"]),
        ("0 0 9 15W * *", ["01-15", "02-15", "03-15", "04-15"]),
        ("0 0 9 1W JUN,SEP,DEC *", ["06-03", "09-02", "12-02", "06-02"]),
        ("0 0 9 31W MAR,AUG *", ["03-29", "08-30", "03-31", "08-29"]),
        ("0 0 9 * * FRI#2", ["01-11", "02-08", "03-08", "04-12"]),
        ("0 0 9 * * MON#5", ["04-29", "07-29", "09-30", "12-30"]),
        ("0 0 9 * * FRIL", ["01-25", "02-22", "03-29", "04-26"]),
        ("0 0 9 * * 0L", ["01-27", "02-24", "03-31", "04-28"]),
        ("0 0 9 29 2 *", ["02-29", "02-29", "02-29", "02-29"]),
        ("0 0 0 13 * FRI", ["09-13", "12-13", "06-13", "02-13"]),
        ("0 0 13 * FRI", ["01-04", "01-11", "01-13", "01-18"]),
        ("0 0 13 * *", ["01-13", "02-13", "03-13", "04-13"]),
        ("0 0 * * FRI", ["01-04", "01-11", "01-18", "01-25"]),
        ("0 0 L * FRI", ["01-04", "01-11", "01-18", "01-25"]),
        ("@yearly", ["01-01", "01-01", "01-01", "01-01"]),
        ("@monthly", ["01-01", "02-01", "03-01", "04-01"]),
        ("@WEEKLY", ["01-06", "01-13", "01-20", "01-27"]),
        ("0 0 0 30 2 *", []),
    ],
)
def test_days(text: str, expected: list[str]) -> None:
    """Days of the month and of the week, by number, name and special word."""
    assert days(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "six fields"),
        ("* * * *", "got 4"),
        ("* * * * * * *", "got 7"),
        ("60 * * * * *", "not between 0 and 59"),
        ("0 0 24 * * *", "not between 0 and 23"),
        ("0 0 0 0 * *", "not between 1 and 31"),
        ("0 0 0 * 13 *", "not between 1 and 12"),
        ("0 0 0 * * 8", "not between 0 and 7"),
        ("0 5-1 * * * *", "runs backwards"),
        ("0 */0 * * * *", "step of 0"),
        ("0 ? * * * *", "not understood"),
        ("0 1,, * * * *", "not understood"),
        ("0 *-5 * * * *", "not understood"),
        ("0 0 0 * FOO *", "no name here"),
        ("0 0 0 * * FRI#6", "no such week"),
        ("0 0 0 32W * *", "no day of a month"),
        ("0 0 0 L-31 * *", "no day of a month"),
        ("0 0 x * * *", "no number"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    """The message quotes the expression and says what is wrong."""
    with pytest.raises(InvalidExpression, match=problem) as caught:
        parse_cron(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "running"),
    [
        ("0 30 2 * * *", False),
        ("30 2 * * *", False),
        ("0 0,30 1-5 * * *", False),
        ("0 0 * * * *", True),
        ("0 */10 2 * * *", True),
        ("0 0/10 2 * * *", True),
        ("0 30 0-23 * * *", True),
        ("*/5 30 2 * * *", True),
        ("@daily", False),
        ("@hourly", True),
    ],
)
def test_what_runs_on_with_the_clock(text: str, running: bool) -> None:
    """`*`, a step, or all there is, in hours, minutes or seconds; everything else names times of day."""
    assert parse_cron(text).running is running


@given(
    second=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    minute=st.sets(st.integers(0, 59), min_size=1, max_size=3),
    hour=st.sets(st.integers(0, 23), min_size=1, max_size=3),
    day=st.sets(st.integers(1, 31), min_size=1, max_size=4),
    weekday=st.sets(st.integers(0, 6), min_size=1, max_size=4),
    start=st.datetimes(datetime(2025, 1, 1), datetime(2035, 1, 1)),
)
def test_the_next_time_matches_and_none_is_passed_over(
    second: set[int], minute: set[int], hour: set[int], day: set[int], weekday: set[int], start: datetime
) -> None:
    """Found day by day, with the times of a matching day in order: the same time."""
    fields = [",".join(map(str, sorted(numbers))) for numbers in (second, minute, hour, day)]
    found = parse_cron(f"{' '.join(fields)} * {','.join(map(str, sorted(weekday)))}").next_wall(start)
    expected, date = None, start.replace(hour=0, minute=0, second=0, microsecond=0)
    while expected is None:
        if date.day in day and date.isoweekday() % 7 in weekday:
            times = (date.replace(hour=h, minute=m, second=s) for h in sorted(hour) for m in sorted(minute) for s in sorted(second))
            expected = next((time for time in times if time >= start), None)
        date += timedelta(days=1)
    assert found == expected
