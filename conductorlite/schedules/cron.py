"""Cron expressions: what they say, and the next time on the wall they say.

Six fields are read as Conductor reads them, with Spring's `CronExpression`: second, minute, hour, day of month, month, day of
week; 0 and 7 are Sunday; `?` is `*`; both days must match; `L`, `L-3`, `LW`, `15W`, `FRI#2`, `FRIL` and the macros `@yearly` …
`@hourly` work. Five fields are read as cron(8) reads them: no seconds, and when both days are restricted either may match.

The walk from one time to the next is APScheduler's `CronTrigger`, in a zone without changes, for what its own walk does at a
change of the clocks depends on the expression: it fires 02:30 that does not exist, but not 00:00, and 01:30 twice. Where the
clocks change is the business of `zones`. Its fields are given as lists of numbers, so that its own numbering of weekdays (0 is
Monday) and its shorter language never show.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import attrs

from conductorlite.errors import InvalidExpression

__all__ = ["Cron", "parse_cron"]

_MACROS: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}

_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

#: The last year with a next time; what has none until then never comes due.
_LAST_YEAR: Final = 2199

_PART: Final = re.compile(r"(?P<first>\*|[0-9]+|[A-Z]+)(?:-(?P<last>[0-9]+|[A-Z]+))?(?:/(?P<step>[0-9]+))?")

#: Whether a date is meant by a word such as `LW`.
_DayRule = Callable[[date], bool]


@attrs.frozen(slots=True)
class _Field:
    """The numbers a field names, the rules that cannot be said in numbers, and whether it is `*`."""

    numbers: frozenset[int]
    rules: tuple[_DayRule, ...] = ()
    free: bool = False
    #: Whether it runs on with the clock: `*`, a step, or every number there is.
    running: bool = False

    def has(self, number: int, day: date) -> bool:
        return number in self.numbers or any(rule(day) for rule in self.rules)


@attrs.frozen(slots=True, eq=False)
class Cron:
    """A cron expression, read. `running`: it follows the clock, having `*` or a step in its hours, minutes or seconds; else it
    names times of day."""

    text: str
    running: bool
    _trigger: Any
    #: What decides on days when the trigger cannot.
    _days: _DayRule | None

    def next_wall(self, wall: datetime) -> datetime | None:
        """The first time not before `wall` (naive; a time on the wall), to the second; None when there is none."""
        at = wall.replace(tzinfo=UTC)
        while True:
            found: datetime | None = self._trigger.get_next_fire_time(None, at)
            if found is None or self._days is None or self._days(found.date()):
                return None if found is None else found.replace(tzinfo=None)
            at = found.replace(hour=0, minute=0, second=0) + timedelta(days=1)


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Cron:
    """Read an expression; raises InvalidExpression."""
    given = _MACROS.get(text.strip().lower(), text)
    words = given.upper().split()
    if len(words) not in (5, 6):
        raise InvalidExpression(f"cron expression {text!r}: expected six fields (or five, without seconds), got {len(words)}")
    either = len(words) == 5
    if either:
        words = ["0", *words]
    try:
        second, minute, hour = (_field(word, 0, top) for word, top in zip(words, (59, 59, 23), strict=False))
        day = _field(words[3], 1, 31, rule=_month_day_rule)
        month = _field(words[4], 1, 12, names=_MONTHS)
        weekday = _field(words[5], 0, 7, names=_DAYS, rule=_weekday_rule)
    except ValueError as error:
        raise InvalidExpression(f"cron expression {text!r}: {error}") from None
    weekday = attrs.evolve(weekday, numbers=frozenset(number % 7 for number in weekday.numbers))
    either = either and not day.free and not weekday.free
    times = {"month": month, "hour": hour, "minute": minute, "second": second}
    decides = None
    if day.rules or weekday.rules or either:
        decides = _decides(day, weekday, either=either)
    else:
        # APScheduler's week begins on Monday.
        shifted = attrs.evolve(weekday, numbers=frozenset((number - 1) % 7 for number in weekday.numbers))
        times |= {"day": day, "day_of_week": shifted}
    running = second.running or minute.running or hour.running
    return Cron(text, running, _trigger({name: _listed(field) for name, field in times.items()}), decides)


def _trigger(fields: dict[str, str]) -> Any:
    # Imported on use: a program without schedules never pays for it.
    from apscheduler.triggers.cron import CronTrigger

    begin = datetime(1970, 1, 1, tzinfo=UTC)
    return CronTrigger(year=f"1970-{_LAST_YEAR}", start_date=begin, timezone=UTC, **{"day": "*", **fields})


def _listed(field: _Field) -> str:
    return "*" if field.free else ",".join(map(str, sorted(field.numbers)))


def _decides(day: _Field, weekday: _Field, *, either: bool) -> _DayRule:
    def decide(at: date) -> bool:
        by_date = day.has(at.day, at)
        by_weekday = weekday.has(at.isoweekday() % 7, at)
        return by_date or by_weekday if either else by_date and by_weekday

    return decide


# -- fields ------------------------------------------------------------------------------------------------------------


def _field(
    word: str, low: int, high: int, *, names: tuple[str, ...] = (), rule: Callable[[str], _DayRule | None] | None = None
) -> _Field:
    numbers: set[int] = set()
    rules: list[_DayRule] = []
    if word == "?" and rule is not None:
        word = "*"
    for part in word.split(","):
        special = rule(part) if rule is not None else None
        if special is not None:
            rules.append(special)
        else:
            numbers.update(_numbers(part, low, high, names))
    every = set(range(low, high + 1)) <= numbers or (names == _DAYS and {number % 7 for number in numbers} == set(range(7)))
    return _Field(frozenset(numbers), tuple(rules), free=every, running=every or "/" in word)


def _numbers(part: str, low: int, high: int, names: tuple[str, ...]) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not understood")
    first, last, step = match["first"], match["last"], match["step"]
    if first == "*":
        if last is not None:
            raise ValueError(f"{part!r} is not understood")
        begin, end = low, 6 if names == _DAYS else high
    else:
        begin = _number(first, names, low)
        end = _number(last, names, low) if last is not None else high if step is not None else begin
        if names == _DAYS and last is not None and end == 0:
            end = 7  # SAT-SUN
        elif names == _DAYS and last is None and step is not None:
            end = 6
    if not low <= begin <= high or not low <= end <= high:
        raise ValueError(f"{part!r} is not between {low} and {high}")
    if begin > end:
        raise ValueError(f"{part!r} runs backwards")
    if step is not None and int(step) == 0:
        raise ValueError(f"{part!r} has a step of 0")
    return range(begin, end + 1, int(step or 1))


def _number(word: str, names: tuple[str, ...], low: int) -> int:
    if word.isdigit():
        return int(word)
    if word not in names:
        raise ValueError(f"{word!r} is no number{' and no name here' if names else ''}")
    return names.index(word) + low


def _month_day_rule(part: str) -> _DayRule | None:
    """`L`, `L-n`, `LW` and `nW`."""
    match = re.fullmatch(r"L(?:-(?P<back>[0-9]{1,2}))?(?P<last>W)?|(?P<day>[0-9]{1,2})W", part)
    if match is None:
        return None
    back, wanted = int(match["back"] or 0), None if match["day"] is None else int(match["day"])
    if back > 30 or (wanted is not None and not 1 <= wanted <= 31):
        raise ValueError(f"{part!r} is no day of a month")

    def rule(day: date) -> bool:
        end = monthrange(day.year, day.month)[1]
        target = end - back if wanted is None else wanted
        if not 1 <= target <= end:
            return False
        if match["last"] or wanted is not None:
            target = _nearest_working_day(day, target, end)
        return day.day == target

    return rule


def _nearest_working_day(day: date, target: int, end: int) -> int:
    """Monday to Friday, in the same month."""
    weekday = day.replace(day=target).weekday()
    if weekday == 5:
        return target - 1 if target > 1 else target + 2
    if weekday == 6:
        return target + 1 if target < end else target - 2
    return target


def _weekday_rule(part: str) -> _DayRule | None:
    """`FRI#2` (the second Friday) and `FRIL` (the last one)."""
    match = re.fullmatch(r"(?P<name>[0-7]|[A-Z]{3})(?:#(?P<nth>[0-9])|(?P<last>L))", part)
    if match is None:
        return None
    weekday = _number(match["name"], _DAYS, 0) % 7
    nth = None if match["last"] else int(match["nth"])
    if nth is not None and not 1 <= nth <= 5:
        raise ValueError(f"{part!r}: a month has no such week")

    def rule(day: date) -> bool:
        if day.isoweekday() % 7 != weekday:
            return False
        return day.day + 7 > monthrange(day.year, day.month)[1] if nth is None else (day.day - 1) // 7 + 1 == nth

    return rule
