"""When a cron expression fires, found by walking: every minute of the world's clock, looked up in zoneinfo.

It shares nothing with the package: expressions are given as sets of numbers, and the rule for changes of the clocks is applied
minute by minute. What names times of day fires once for each time on the wall: the first time it is shown, or, when it is never
shown, in the minute after the gap. What runs on with the clock fires whenever the wall shows a time that matches.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def every_day(_: datetime) -> bool:
    """No restriction of days."""
    return True


def sundays(wall: datetime) -> bool:
    """Sundays only."""
    return wall.weekday() == 6


def last_days(wall: datetime) -> bool:
    """The last day of each month."""
    return wall.day == monthrange(wall.year, wall.month)[1]


@dataclass(frozen=True, kw_only=True)
class Span:
    """A span of time: the executions that belong into it, and how much of a year it is."""

    start: int
    end: int
    expected: dict[str, int]
    share: float


@dataclass(frozen=True)
class Expected:
    """What an expression says, in sets: `text` is the expression under test, `running` whether it follows the clock."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    running: bool
    days: Callable[[datetime], bool] = every_day

    def matches(self, wall: datetime) -> bool:
        """Whether the wall shows a time that is meant."""
        return wall.minute in self.minutes and wall.hour in self.hours and self.days(wall)


def ms(at: datetime) -> int:
    """Epoch milliseconds."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def walk(expected: Expected, zone_id: str, start: datetime, end: datetime) -> list[int]:
    """The instants from `start` to before `end` (UTC) at which an expression fires, epoch ms."""
    zone = ZoneInfo(zone_id)
    fires: list[int] = []
    at = start
    before = (at - MINUTE).astimezone(zone).replace(tzinfo=None)
    while at < end:
        local = at.astimezone(zone)
        wall = local.replace(tzinfo=None)
        if expected.running:
            fire = expected.matches(wall)
        else:
            fire = expected.matches(wall) and local.fold == 0
            skipped = before + MINUTE
            while skipped < wall:
                fire = fire or expected.matches(skipped)
                skipped += MINUTE
        if fire:
            fires.append(ms(at))
        before = wall
        at += MINUTE
    return fires


def numbers(*given: int) -> frozenset[int]:
    """A set."""
    return frozenset(given)


EVERY_HOUR = frozenset(range(24))
EVERY_MINUTE = frozenset(range(60))

#: What matters around a change of the clocks: each expression with what it means.
EXPRESSIONS = {
    "hourly": Expected("0 0 * * * *", numbers(0), EVERY_HOUR, running=True),
    "half past two": Expected("0 30 2 * * *", numbers(30), numbers(2), running=False),
    "sunday": Expected("45 1 * * SUN", numbers(45), numbers(1), running=False, days=sundays),
    "last day": Expected("0 30 2 L * ?", numbers(30), numbers(2), running=False, days=last_days),
    "quarters": Expected("0 */15 0-3 * * SUN", numbers(0, 15, 30, 45), numbers(0, 1, 2, 3), running=True, days=sundays),
}

#: Five schedules in three zones: an hour that changes in the night to Sunday, an hour that changes on the last day of March
#: 2030, and half an hour, south of the equator.
SCHEDULES = {
    "hourly": ("hourly", "America/New_York"),
    "nightly": ("half past two", "America/New_York"),
    "monthly": ("last day", "Europe/Berlin"),
    "weekly": ("sunday", "Australia/Lord_Howe"),
    "quarters": ("quarters", "Australia/Lord_Howe"),
}

YEAR = (datetime(2030, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC))

#: The clocks of all three zones change in each: on 10 and 31 March and 7 April, on 6 and 27 October and 3 November.
SPRING = (datetime(2030, 3, 9, tzinfo=UTC), datetime(2030, 4, 8, tzinfo=UTC))
AUTUMN = (datetime(2030, 10, 5, tzinfo=UTC), datetime(2030, 11, 4, tzinfo=UTC))


def expected_ids(start: datetime, end: datetime) -> dict[str, int]:
    """The executions of `SCHEDULES` in a span, and the instant each is started at."""
    found = {}
    for name, (key, zone_id) in SCHEDULES.items():
        for instant in walk(EXPRESSIONS[key], zone_id, start + MINUTE, end + MINUTE):
            found[f"{name}-{EPOCH + timedelta(milliseconds=instant):%Y%m%dT%H%M%SZ}"] = instant
    return found
