"""Cron expressions and schedules: the next instant at which one comes due, as pure functions of it and an instant.

Six fields are read as Conductor reads them, with Spring's `CronExpression`: second, minute, hour, day of month, month, day of
week; 0 and 7 are Sunday; `?` is `*`; both days must match; `L`, `L-3`, `LW`, `15W`, `FRI#2`, `FRIL` and the macros `@yearly` …
`@hourly` work. Five fields are read as cron(8) reads them: no seconds, and when both days are restricted either may match.

The walk from one time on the wall to the next is APScheduler's `CronTrigger`, in a zone without changes, for what its own walk does
at a change of the clocks depends on the expression: it fires 02:30 that does not exist, but not 00:00, and 01:30 twice. Its fields
are given as lists of numbers, so that its own numbering of weekdays (0 is Monday) and its shorter language never show. Intervals
are integers here, not its `IntervalTrigger`: that one counts in floating seconds, and on a grid that does not begin at a whole
second it passes over instants.

What fires when the clocks change is the rule of Vixie cron, which most people mean by cron. An expression that *names times of
day* fires once for each of them: what falls into a skipped hour fires when that hour would have begun, what falls into a repeated
one fires the first time. An expression that *runs on with the clock* (`*` or a step in its hours, minutes or seconds) just follows
it: nothing in the skipped hour, everything twice in the repeated one, so that "every 15 minutes" stays every 15 minutes. Source of
the rule: cron(8), "Daylight Saving Time and other time changes". A change of more than three hours is treated no differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from conductorlite.model import attrs
from conductorlite.model.definitions import MAX_KEY
from conductorlite.model.errors import InvalidExpression, InvalidInput, Problem
from conductorlite.model.later import calendar, pattern, zoneinfo
from conductorlite.model.scalars import is_integer
from conductorlite.model.schedules import CronSchedule, WorkflowSchedule

__all__ = ["Cron", "crons_of", "following", "latest", "next_after", "next_instant", "parse_cron", "problems", "zone_of"]

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

_PART: Final = pattern(r"(?P<first>\*|[0-9]+|[A-Z]+)(?:-(?P<last>[0-9]+|[A-Z]+))?(?:/(?P<step>[0-9]+))?")

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
        end = calendar.monthrange(day.year, day.month)[1]
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
        return day.day + 7 > calendar.monthrange(day.year, day.month)[1] if nth is None else (day.day - 1) // 7 + 1 == nth

    return rule


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_DAY: Final = 86_400_000

#: Epoch ms of the year 2200, after which nothing comes due.
_END: Final = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MS


@lru_cache(maxsize=256)
def zone_of(zone_id: str) -> zoneinfo.ZoneInfo:
    """A time zone by its IANA name; raises InvalidInput."""
    try:
        return zoneinfo.ZoneInfo(zone_id)
    except (LookupError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {zone_id!r}") from None


def next_instant(cron: Cron, zone: zoneinfo.ZoneInfo, after: int) -> int | None:
    """The first instant after `after` (epoch ms) at which an expression fires in a zone; None when there is none."""
    at = max(after + 1, 0)
    if not cron.running and _skipped_at(cron, zone, at):
        return at
    while at < _END:
        offset = _offset(zone, at)
        wall = cron.next_wall(_wall(at, offset))
        if wall is None:
            return None
        found = (wall.replace(tzinfo=UTC) - _EPOCH) // _MS - offset
        change = _change(zone, at, found)
        if change is None:
            if cron.running or not _repeated(zone, found):
                return found
            at = found + 1
            continue
        if not cron.running and found < change + _offset(zone, change) - offset:
            return change  # the time it names is skipped
        at = change
    return None


def _skipped_at(cron: Cron, zone: zoneinfo.ZoneInfo, at: int) -> bool:
    """Whether the clocks are put forward at this very instant, over a time that the expression names."""
    before, offset = _offset(zone, at - 1), _offset(zone, at)
    wall = cron.next_wall(_wall(at, before)) if offset > before else None
    return wall is not None and wall < _wall(at, offset)


def _offset(zone: zoneinfo.ZoneInfo, at: int) -> int:
    offset = (_EPOCH + at * _MS).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // _MS


def _wall(at: int, offset: int) -> datetime:
    return (_EPOCH + (at + offset) * _MS).replace(tzinfo=None)


def _repeated(zone: zoneinfo.ZoneInfo, at: int) -> bool:
    """Whether the wall showed this time once before."""
    return (_EPOCH + at * _MS).astimezone(zone).fold == 1


def _change(zone: zoneinfo.ZoneInfo, since: int, until: int) -> int | None:
    """The first instant after `since`, up to `until`, at which the offset is another one."""
    low = since
    offset = _offset(zone, low)
    while low < until:
        high = min(low + _DAY, until)
        if _offset(zone, high) != offset:
            while high - low > 1:
                middle = (low + high) // 2
                if _offset(zone, middle) == offset:
                    low = middle
                else:
                    high = middle
            return high
        low = high
    return None


#: What a name may consist of: an execution's id begins with it, and stands in URLs.
_NAME: Final = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

#: Longest name, in characters.
_LONGEST: Final = 200

#: Shortest interval: that of cron.
_SHORTEST_MS: Final = 1000


def crons_of(schedule: WorkflowSchedule) -> Sequence[CronSchedule]:
    """The expressions a schedule follows: those of `cron_schedules`, else its own."""
    if schedule.cron_schedules or schedule.cron_expression is None:
        return schedule.cron_schedules
    return (CronSchedule(cron_expression=schedule.cron_expression, zone_id=schedule.zone_id),)


def next_after(schedule: WorkflowSchedule, after: int) -> int | None:
    """The first instant after `after` at which a schedule comes due, epoch ms; None when there is none any more."""
    start, end = schedule.schedule_start_time, schedule.schedule_end_time
    if start is not None:
        after = max(after, start - 1)
    if schedule.at is not None:
        found: int | None = schedule.at if schedule.at > after else None
    elif schedule.interval_ms is not None:
        origin = start or 0
        found = max(origin, origin + ((after - origin) // schedule.interval_ms + 1) * schedule.interval_ms)
    else:
        instants = (next_instant(parse_cron(one.cron_expression), zone_of(one.zone_id), after) for one in crons_of(schedule))
        found = min((instant for instant in instants if instant is not None), default=None)
    return None if found is None or (end is not None and found > end) else found


def following(schedule: WorkflowSchedule, after: int) -> Iterator[int]:
    """The instants after `after` at which a schedule comes due, in order."""
    instant = next_after(schedule, after)
    while instant is not None:
        yield instant
        instant = next_after(schedule, instant)


def latest(schedule: WorkflowSchedule, first: int, now: int) -> tuple[int, int | None]:
    """The last instant up to `now`, of which `first` is one, and the one after it.

    However many there are between, it takes some forty looks.
    """
    second = next_after(schedule, first)
    if second is None or second > now:
        return first, second
    low, high = second, now
    while low < high:
        middle = (low + high + 1) // 2
        found = next_after(schedule, middle - 1)
        if found is not None and found <= now:
            low = found
        else:
            high = middle - 1
    return low, next_after(schedule, low)


def problems(schedule: WorkflowSchedule) -> list[Problem]:
    """What is wrong with a schedule; an empty list is a valid one."""
    found = [*_identity(schedule), *_timing(schedule)]
    start, end = schedule.schedule_start_time, schedule.schedule_end_time
    if start is not None and end is not None and end < start:
        found.append(Problem(path="$.scheduleEndTime", message=f"{end} is before scheduleStartTime {start}"))
    if not found and next_after(schedule, -1) is None:
        found.append(Problem(path="$", message="never comes due"))
    return found


def _identity(schedule: WorkflowSchedule) -> Iterator[Problem]:
    if not isinstance(schedule.name, str) or not _NAME.fullmatch(schedule.name) or len(schedule.name) > _LONGEST:
        message = f"{schedule.name!r:.80} is not a name of 1 to {_LONGEST} letters, digits and _ . -"
        yield Problem(path="$.name", message=message)
    request = schedule.start_workflow_request
    if not request.name and request.workflow_def is None:
        yield Problem(path="$.startWorkflowRequest.name", message="is missing")
    if not is_integer(request.priority) or not 0 <= request.priority <= 99:
        message = f"{request.priority!r:.60} is not a whole number between 0 and 99"
        yield Problem(path="$.startWorkflowRequest.priority", message=message)
    version, definition = request.version, request.workflow_def
    if version is not None and not is_integer(version):
        yield Problem(path="$.startWorkflowRequest.version", message=f"{version!r:.60} is no whole number")
    elif definition is not None and version not in (None, definition.version):
        message = f"is {version}, and the workflowDef given is version {definition.version}"
        yield Problem(path="$.startWorkflowRequest.version", message=message)
    if request.idempotency_key is not None and not 0 < len(request.idempotency_key) <= MAX_KEY:
        yield Problem(path="$.startWorkflowRequest.idempotencyKey", message=f"is not a text of 1 to {MAX_KEY} characters")
    if str(request.extra.get("externalInputPayloadStoragePath") or "").strip():
        # Kept like any property we do not know, it would start without an input, day by day.
        message = "is not read here, for an upload is swept: give the input itself"
        yield Problem(path="$.startWorkflowRequest.externalInputPayloadStoragePath", message=message)


def _timing(schedule: WorkflowSchedule) -> Iterator[Problem]:
    crons = crons_of(schedule)
    ways = [bool(crons), schedule.interval_ms is not None, schedule.at is not None]
    if sum(ways) != 1:
        yield Problem(path="$", message="needs exactly one of cronExpression (or cronSchedules), intervalSeconds and at")
    if schedule.interval_ms is not None and schedule.interval_ms < _SHORTEST_MS:
        yield Problem(path="$.intervalSeconds", message=f"{schedule.interval_ms} ms is shorter than a second")
    for number, one in enumerate(crons):
        where = f"$.cronSchedules[{number}]" if schedule.cron_schedules else "$"
        try:
            parse_cron(one.cron_expression)
        except InvalidExpression as error:
            yield Problem(path=f"{where}.cronExpression", message=str(error))
        try:
            zone_of(one.zone_id)
        except InvalidInput as error:
            yield Problem(path=f"{where}.zoneId", message=str(error))
