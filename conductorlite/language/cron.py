"""Cron expressions, translated into APScheduler's CronTrigger.

Six fields are read as Conductor reads them, with Spring's `CronExpression`: second, minute, hour, day of month, month, day of
week; 0 and 7 are Sunday; `?` is `*`; both days must match; `L`, `L-3`, `LW`, `15W`, `FRI#2`, `FRIL` and the macros `@yearly` …
`@hourly` work. Five fields are read as cron(8) reads them: no seconds, and when both days are restricted either may match.

Numbers, names, ranges and steps become lists of numbers, so that APScheduler's own numbering of weekdays (0 is Monday) and its
shorter language never show. Special days become words: `FRI#2` is its `2nd fri`, and `15W` is the `15w` of `triggers`. These stand
in the field of the day of month, so what has to match beside a day of month is a trigger of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from conductorlite.language.triggers import Walls
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.later import pattern

__all__ = ["parse_cron"]

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

#: The fields in their order, by APScheduler's names: the smallest number, the largest, and names for some.
_FIELDS: Final = {
    "second": (0, 59, ()),
    "minute": (0, 59, ()),
    "hour": (0, 23, ()),
    "day": (1, 31, ()),
    "month": (1, 12, _MONTHS),
    "day_of_week": (0, 7, _DAYS),
}

_PART: Final = pattern(r"(?P<first>\*|[0-9]+|[A-Z]+)(?:-(?P<last>[0-9]+|[A-Z]+))?(?:/(?P<step>[0-9]+))?")

#: `L`, `L-n`, `LW` and `nW`.
_MONTH_DAY: Final = pattern(r"L(?:-(?P<back>[0-9]{1,2}))?(?P<last>W)?|(?P<day>[0-9]{1,2})W")

#: `FRI#2` (the second Friday) and `FRIL` (the last one).
_WEEKDAY: Final = pattern(r"(?P<name>[0-7]|[A-Z]{3})(?:#(?P<nth>[0-9])|L)")


class _Field(NamedTuple):
    """A field as APScheduler says it: its numbers (`*`: all of them), special days, and whether it runs on with the clock."""

    numbers: str
    special: str
    running: bool


@lru_cache(maxsize=256)
def parse_cron(text: str) -> Walls:
    """The times on a wall that an expression names; raises InvalidExpression with it and what is wrong."""
    words = _MACROS.get(text.strip().lower(), text).upper().split()
    if len(words) not in (5, 6):
        raise InvalidExpression(f"cron expression {text!r}: expected six fields (or five, without seconds), got {len(words)}")
    either = len(words) == 5
    try:
        said = dict(zip(_FIELDS, map(_field, _FIELDS, ["0", *words] if either else words), strict=True))
    except ValueError as error:
        raise InvalidExpression(f"cron expression {text!r}: {error}") from None
    times = {name: said[name].numbers for name in ("second", "minute", "hour", "month")}
    running = any(said[name].running for name in ("second", "minute", "hour"))
    day, weekday = said["day"], said["day_of_week"]
    dates = [] if day.numbers == "*" else [{"day": ",".join(filter(None, day[:2]))}]
    weekdays = [{"day_of_week": weekday.numbers}, {"day": weekday.special}]
    weekdays = [] if weekday.numbers == "*" else [each for each in weekdays if any(each.values())]
    if either and dates and weekdays:
        choices = [[each] for each in (*dates, *weekdays)]
    else:
        choices = [[date, each] for date in dates or [{}] for each in weekdays or [{}]]
    return Walls([[{**times, **each} for each in choice] for choice in choices], running=running)


def _field(name: str, word: str) -> _Field:
    low, high, names = _FIELDS[name]
    numbers: set[int] = set()
    special: list[str] = []
    for part in ("*" if word == "?" and name.startswith("day") else word).split(","):
        day = _SPECIAL[name](part) if name in _SPECIAL else None
        if day is None:
            numbers.update(_numbers(part, low, high, names))
        else:
            special.append(day)
    if names == _DAYS:
        numbers = {(number - 1) % 7 for number in numbers}  # APScheduler's week begins on Monday
    every = len(numbers) == (7 if names == _DAYS else high + 1 - low)
    return _Field("*" if every else ",".join(map(str, sorted(numbers))), ",".join(special), every or "/" in word)


def _numbers(part: str, low: int, high: int, names: tuple[str, ...]) -> range:
    match = _PART.fullmatch(part)
    if match is None or (match["first"] == "*" and match["last"] is not None):
        raise ValueError(f"{part!r} is not understood")
    last, step, top = match["last"], match["step"], 6 if names == _DAYS else high
    begin = low if match["first"] == "*" else _number(match["first"], names, low)
    if last is not None:
        end = _number(last, names, low) or (7 if names == _DAYS else 0)  # SAT-SUN
    else:
        end = top if match["first"] == "*" or step is not None else begin
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


def _month_day(part: str) -> str | None:
    match = _MONTH_DAY.fullmatch(part)
    if match is None:
        return None
    if int(match["back"] or 0) > 30 or not 1 <= int(match["day"] or 1) <= 31:
        raise ValueError(f"{part!r} is no day of a month")
    return part.replace("L", "last").lower()


def _weekday(part: str) -> str | None:
    match = _WEEKDAY.fullmatch(part)
    if match is None:
        return None
    name = _DAYS[_number(match["name"], _DAYS, 0) % 7].lower()
    if match["nth"] not in _POSITIONS:
        raise ValueError(f"{part!r}: a month has no such week")
    return f"{_POSITIONS[match['nth']]} {name}"


_POSITIONS: Final = {None: "last", "1": "1st", "2": "2nd", "3": "3rd", "4": "4th", "5": "5th"}

_SPECIAL: Final = {"day": _month_day, "day_of_week": _weekday}
