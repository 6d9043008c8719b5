"""APScheduler's triggers, asked as pure functions of an instant, and corrected where one of their answers is wrong.

A schedule asks "which is your first instant from this one on?", without the instant before, which APScheduler's own scheduler
gives as well. So each class here derives from one of APScheduler's and corrects what its answer to that question gets wrong;
`tests/schedules/test_triggers.py` shows the wrong answer beside the right one.

**The clocks change.** The walk of CronTrigger through a zone passes over the midnight after a change, and fires a skipped 02:30 an
hour late. So it walks over times on a wall, in UTC, where nothing changes, and `next_instant` puts these into the zone by the rule
of Vixie cron. An expression that *names times of day* fires once for each of them: what falls into a skipped hour fires when that
hour would have begun, what falls into a repeated one fires the first time. An expression that *runs on with the clock* (`*` or a
step in its hours, minutes or seconds) follows it: nothing in the skipped hour, everything twice in the repeated one, so that "every
15 minutes" stays every 15 minutes. Source of the rule: cron(8), "Daylight Saving Time and other time changes". A change of more
than three hours is treated no differently.

Instants are epoch ms. None comes after the year 2199.
"""

from __future__ import annotations

import re
import zoneinfo
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, ClassVar, Final

from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import AndTrigger, OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.cron.expressions import AllExpression, WeekdayPositionExpression
from apscheduler.triggers.cron.fields import BaseField, DayOfMonthField
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from apscheduler.util import convert_to_datetime

from conductorlite.model.canonical import canonical, parse
from conductorlite.model.errors import InvalidInput

__all__ = ["Walls", "next_instant", "next_of", "on_a_grid", "zone_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_DAY: Final = 86_400_000

#: Epoch ms of the year 2200, after which nothing comes due.
_END: Final = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MS

#: How many instants an AndTrigger looks at, for one on which its triggers agree.
_LOOKED_AT: Final = 5_000

#: How deeply triggers may be combined.
_DEPTH: Final = 10


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // _MS


def _at(instant: int) -> datetime:
    return _EPOCH + instant * _MS


@lru_cache(maxsize=256)
def zone_of(zone_id: str) -> tzinfo:
    """A time zone by its IANA name, or by an offset such as `+02:00`; raises InvalidInput."""
    offset = re.fullmatch(r"([+-])([01][0-9]|2[0-3]):([0-5][0-9])", zone_id)
    if offset is not None:
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-span if offset[1] == "-" else span)
    try:
        return zoneinfo.ZoneInfo(zone_id)
    except (LookupError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {zone_id!r}") from None


# -- cron --------------------------------------------------------------------------------------------------------------


class _MonthDay(AllExpression):  # type: ignore[misc]
    """`last`, `last-3` (the third day before it), `lastw` and `15w` (the nearest day of Monday to Friday, in the same month)."""

    value_re = re.compile(r"(?:last(?:-(?P<back>[0-9]+))?|(?P<day>[0-9]+)(?=w))(?P<working>w)?$", re.IGNORECASE)

    def __init__(self, back: str | None, day: str | None, working: str | None) -> None:
        super().__init__(None)
        self.back, self.day, self.working = int(back or 0), int(day or 0), working is not None

    def validate_range(self, field_name: str) -> None:
        if self.back > 30 or self.day > 31:
            raise ValueError("a month has no such day")

    def get_next_value(self, at: datetime, field: BaseField) -> int | None:
        first, end = monthrange(at.year, at.month)
        day = self.day or end - self.back
        if not 1 <= day <= end:
            return None
        weekday = (first + day - 1) % 7
        if self.working and weekday == 5:
            day += -1 if day > 1 else 2
        elif self.working and weekday == 6:
            day += 1 if day < end else -2
        return day if day >= at.day else None


class _DayOfMonthField(DayOfMonthField):  # type: ignore[misc]
    COMPILERS = (*BaseField.COMPILERS, WeekdayPositionExpression, _MonthDay)


class _And(AndTrigger):  # type: ignore[misc]
    """It looks for ever where its triggers never agree."""

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        for _ in range(_LOOKED_AT):
            found = [trigger.get_next_fire_time(None, now) for trigger in self.triggers]
            times: list[datetime] = [time for time in found if time is not None]
            if len(times) < len(found):
                return None
            if min(times) == max(times):
                return min(times)
            now = max(times)
        return None


class _WallTrigger(CronTrigger):  # type: ignore[misc]
    FIELDS_MAP: ClassVar = {**CronTrigger.FIELDS_MAP, "day": _DayOfMonthField}


class Walls:
    """The times on a wall, where no clock is changed, that match all triggers of one of the choices.

    Each trigger is given by the fields of a CronTrigger; its days may be `last-3` and `15w` too. `running`: they run on with the
    clock, as the module says. Raises ValueError for what CronTrigger does not understand.
    """

    __slots__ = ("_trigger", "running")

    def __init__(self, choices: Sequence[Sequence[Mapping[str, str]]], *, running: bool | None = None) -> None:
        triggers = [[_WallTrigger(end_date=_at(_END), timezone=UTC, **fields) for fields in choice] for choice in choices]
        alternatives = [each[0] if len(each) == 1 else _And(each) for each in triggers]
        self._trigger = alternatives[0] if len(alternatives) == 1 else OrTrigger(alternatives)
        times = [field for field in triggers[0][0].fields if field.name in ("hour", "minute", "second")]
        self.running = any(map(_runs, times)) if running is None else running

    def next_wall(self, after: datetime) -> datetime | None:
        """The first time from `after` on, both without a zone; None when there is none."""
        found: datetime | None = self._trigger.get_next_fire_time(None, after.replace(tzinfo=UTC))
        return None if found is None else found.replace(tzinfo=None)


def next_instant(walls: Walls, zone: tzinfo, after: int) -> int | None:
    """The first instant after `after` at which a wall in a zone shows one of these times; None when there is none."""
    # As though no clock were changed any more; up to the change, if there is one.
    at, offset = max(after, -1) + 1, _offset(zone, max(after, -1))
    while at < _END:
        wall = walls.next_wall(_at(at + offset).replace(tzinfo=None))
        if wall is None:
            return None
        found = _ms(wall.replace(tzinfo=UTC)) - offset
        change = _change(zone, offset, at, found)
        if change is None:
            if walls.running or _at(found).astimezone(zone).fold == 0:
                return found
            at = found + 1
        elif not walls.running and found < change + _offset(zone, change) - offset:
            return change  # the time it names is skipped
        else:
            at, offset = change, _offset(zone, change)
    return None


def _offset(zone: tzinfo, at: int) -> int:
    return (_at(at).astimezone(zone).utcoffset() or timedelta()) // _MS


def _change(zone: tzinfo, offset: int, since: int, until: int) -> int | None:
    """The first instant from `since` to `until` at which a zone has another offset than this one."""
    for day in range(since, until + 1, _DAY):
        instants = range(day, min(day + _DAY, until + 1))
        if _offset(zone, instants[-1]) != offset:
            return instants[bisect_left(instants, True, key=lambda at: _offset(zone, at) != offset)]
    return None


class _Cron(BaseTrigger):  # type: ignore[misc]
    """A CronTrigger in its zone."""

    __slots__ = ("end", "start", "walls", "zone")

    def __init__(self, timezone: tzinfo, start_date: str | None = None, end_date: str | None = None, **fields: str) -> None:
        self.walls, self.zone = Walls([[fields]]), timezone
        bounds = (convert_to_datetime(start_date, timezone, "start_date"), convert_to_datetime(end_date, timezone, "end_date"))
        self.start, self.end = (None if bound is None else _ms(bound) for bound in bounds)

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        at = _ms(now) if self.start is None else max(_ms(now), self.start)
        found = next_instant(self.walls, self.zone, at - 1)
        return None if found is None or (self.end is not None and found > self.end) else _at(found)


def _runs(field: BaseField) -> bool:
    """Return True if a field of a time of day has `*`, a step, or every number that there is."""
    every = range(field.get_max(_EPOCH) + 1)
    walls = (datetime(1970, 1, 1, **{field.name: number}) for number in every)  # type: ignore[arg-type]
    return "/" in str(field) or all(field.get_next_value(wall) == field.get_value(wall) for wall in walls)


# -- the others --------------------------------------------------------------------------------------------------------


def on_a_grid(origin: int, step: int, after: int) -> int:
    """The first instant after `after` on a grid of steps that begins at `origin`; all ms."""
    return max(origin, origin + ((after - origin) // step + 1) * step)


class _Interval(IntervalTrigger):  # type: ignore[misc]
    """It counts in floating seconds, and passes over instants; here in whole milliseconds."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        given = any(fields.get(name) for name in ("weeks", "days", "hours", "minutes", "seconds"))
        if not given or self.interval < timedelta(seconds=1) or self.interval % _MS:
            raise ValueError("weeks, days, hours, minutes and seconds are together no second at least, in whole milliseconds")

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        found = on_a_grid(_ms(self.start_date), self.interval // _MS, _ms(now) - 1)
        return None if found >= _END or (self.end_date is not None and found > _ms(self.end_date)) else _at(found)


class _Date(DateTrigger):  # type: ignore[misc]
    """Its date, also when that is over."""

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        found = _ms(self.run_date)
        return _at(found) if _ms(now) <= found < _END else None


class _CalendarInterval(CalendarIntervalTrigger):  # type: ignore[misc]
    """Its first date, also when that is over, unless it is given the one before."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        spans = (self.years, self.months, self.weeks, self.days)
        # Past the last year of datetime, its walk has no end.
        if not all(isinstance(span, int) and span >= 0 for span in spans) or self.years * 12 + self.months > 2_400:
            raise ValueError("its years, months, weeks and days are no whole numbers up to 200 years")
        if not isinstance(self.start_date, date):
            raise ValueError(f"start_date {self.start_date!r:.60} is no date in ISO form")

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        before: date | None = None
        if self.years == self.months == 0:
            # Days may be many, and all are alike: the walk begins close to the one that is wanted.
            days = self.weeks * 7 + self.days
            passed = (now.astimezone(self.timezone).date() - self.start_date).days // days - 1
            before = self.start_date + timedelta(passed * days) if passed > 0 else None
        while True:
            found: datetime | None = super().get_next_fire_time(before, now)
            if found is None or _ms(found) >= _END:
                return None
            if found >= now:
                return found.astimezone(UTC)
            before = found


# -- documents ---------------------------------------------------------------------------------------------------------


def next_of(document: Mapping[str, Any], after: int) -> int | None:
    """The first instant after `after` at which the trigger of a document fires; None when there is none any more.

    A document is what `model.triggers.trigger_document` makes of a trigger. Raises InvalidInput for one that is none.
    """
    found = _trigger_of(canonical(document)).get_next_fire_time(None, _at(max(after, -1) + 1))
    return None if found is None else _ms(found)


@lru_cache(maxsize=256)
def _trigger_of(text: str) -> BaseTrigger:
    return _made(parse(text), _DEPTH)


def _made(document: Any, depth: int) -> BaseTrigger:
    """The trigger of a document, checked by APScheduler's class and, for what that takes without a look, here."""
    if not isinstance(document, dict) or str(document.get("type")) not in _KINDS:
        raise InvalidInput(f"{document!r:.80} is no object with a type of {', '.join(_KINDS)}")
    if depth == 0:
        raise InvalidInput(f"more than {_DEPTH} triggers stand one in the other")
    kind, fields = document["type"], {name: value for name, value in document.items() if name != "type"}
    try:
        if "triggers" in fields:
            fields["triggers"] = [_made(each, depth - 1) for each in fields["triggers"]]
        if "timezone" in fields:
            fields["timezone"] = zone_of(fields["timezone"])
        needed, make = _KINDS[kind]
        missing = [name for name in needed if not fields.get(name)]
        if missing:
            raise ValueError(f"{missing[0]} is missing")
        if "jitter" in fields:
            raise ValueError("a jitter makes the instants depend on chance")
        return make(**fields)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidInput(f"a trigger of type {kind}: {error}") from None


#: What a trigger of each type must be given, where APScheduler takes the present or the zone of the machine instead.
_KINDS: Final[Mapping[str, tuple[tuple[str, ...], type[BaseTrigger]]]] = {
    "cron": (("timezone",), _Cron),
    "interval": (("start_date", "timezone"), _Interval),
    "date": (("run_date", "timezone"), _Date),
    "calendarinterval": (("start_date", "timezone"), _CalendarInterval),
    "and": (("triggers",), _And),
    "or": (("triggers",), OrTrigger),
}
