"""WAIT's two ways to say when: a duration (`1d 2h 5m 30s`) and an instant (`2025-06-01 10:00 PST`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from conductorlite.model.errors import InvalidExpression, InvalidInput
from conductorlite.model.later import pattern, zoneinfo

__all__ = ["parse_duration", "parse_until", "until_text"]

_INT_MAX: Final = 2**31 - 1
#: Milliseconds that JSON numbers carry exactly, and that a 64-bit column holds with room to spare.
_MS_MAX: Final = 2**53 - 1
_MAX_LENGTH: Final = 100
_DAY_MS: Final = 86_400_000

# Java's \s, which is ASCII. Runs are made one blank first: optional groups between `\s*` would try each blank in all.
_BLANKS: Final = pattern(r"[ \t\n\x0b\f\r]+")
_DURATION: Final = pattern(
    r"(?:([0-9]+) ?(?:days|day|d))? ?"
    r"(?:([0-9]+) ?(?:hours|hour|hrs|hr|h))? ?"
    r"(?:([0-9]+) ?(?:minutes|minute|mins|min|m))? ?"
    r"(?:([0-9]+) ?(?:seconds|second|secs|sec|s))?",
    re.IGNORECASE | re.ASCII,
)
_UNIT_MS: Final = (_DAY_MS, 3_600_000, 60_000, 1_000)

_UNTIL: Final = pattern(r"\s*([0-9]+)-\s*([0-9]+)-\s*([0-9]+)(?: \s*([0-9]+):\s*([0-9]+)(?: (\S.*))?)?", re.ASCII)
_OFFSET: Final = pattern(r"([+-])([0-9]{2})([0-9]{2})|GMT([+-])([0-9]{1,2}):([0-9]{2})", re.ASCII | re.IGNORECASE)

#: Minutes east of Greenwich. A name fixes its offset whatever the season, as in Java: `PST` in June is still -8.
_ZONES: Final = {
    "utc": 0, "gmt": 0, "coordinated universal time": 0, "greenwich mean time": 0,
    "est": -300, "edt": -240, "eastern standard time": -300, "eastern daylight time": -240,
    "cst": -360, "cdt": -300, "central standard time": -360, "central daylight time": -300,
    "mst": -420, "mdt": -360, "mountain standard time": -420, "mountain daylight time": -360,
    "pst": -480, "pdt": -420, "pacific standard time": -480, "pacific daylight time": -420,
    "akst": -540, "akdt": -480, "alaska standard time": -540, "alaska daylight time": -480,
    "hst": -600, "hawaii standard time": -600,
    "wet": 0, "west": 60, "western european time": 0, "western european summer time": 60,
    "cet": 60, "cest": 120, "central european time": 60, "central european summer time": 120,
    "eet": 120, "eest": 180, "eastern european time": 120, "eastern european summer time": 180,
    "bst": 60, "british summer time": 60, "msk": 180, "moscow standard time": 180,
    "sast": 120, "south africa standard time": 120, "ist": 330, "india standard time": 330,
    "sgt": 480, "singapore time": 480, "hkt": 480, "hong kong time": 480,
    "jst": 540, "japan standard time": 540, "kst": 540, "korean standard time": 540,
    "awst": 480, "acst": 570, "acdt": 630, "aest": 600, "aedt": 660, "nzst": 720, "nzdt": 780,
}  # fmt: skip


@lru_cache(maxsize=256)
def parse_duration(text: str) -> int:
    """Milliseconds of `N d N h N m N s` (each part optional, in this order, whole numbers, any case); blank is 0.

    Raises InvalidExpression quoting the text when it has another form or a number is beyond 32 bits.
    """
    found = _DURATION.fullmatch(_BLANKS.sub(" ", text).strip(" ")) if len(text) <= _MAX_LENGTH else None
    if found is None:
        raise InvalidExpression(f"Not valid duration: {text[:_MAX_LENGTH]}")
    total = 0
    for digits, unit in zip(found.groups(), _UNIT_MS, strict=True):
        if digits is not None:
            if int(digits) > _INT_MAX:
                raise InvalidExpression(f"Not valid duration: {text} ({digits} is beyond 32 bits)")
            total += int(digits) * unit
    if total > _MS_MAX:
        raise InvalidExpression(f"Not valid duration: {text} (too long)")
    return total


def parse_until(text: str, zone: tzinfo | str) -> int:
    """Epoch milliseconds of `yyyy-MM-dd`, `yyyy-MM-dd HH:mm` or `yyyy-MM-dd HH:mm z`; `zone` counts where z is absent.

    Fields out of range roll over (`2025-13-01` is 1 January 2026), dates before 15 October 1582 are Julian, a time that
    a change of clocks skips or repeats is read as standard time: all as in Java. Raises InvalidExpression quoting the
    text when it has another form, the zone is unknown, or the instant is beyond 2^53 ms.
    """
    found = _UNTIL.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        raise _bad_until(text)
    year, month, day, hour, minute = (int(field or 0) for field in found.groups()[:5])
    if max(year, month, day, hour, minute) > _INT_MAX:
        raise _bad_until(text)
    local = _days(year, month, day) * _DAY_MS + hour * 3_600_000 + minute * 60_000
    if abs(local) > _MS_MAX - _DAY_MS:
        raise _bad_until(text)
    name = found.group(6)
    if name is None:
        return local - _offset_ms(local, _zone(zone))
    offset = _named_offset(name)
    if offset is None:
        raise _bad_until(text)
    return local - offset


def until_text(at: int) -> str:
    """An instant as `parse_until` reads it; raises InvalidInput when it is no whole minute of the years 1 to 9999."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    except OverflowError:
        raise InvalidInput(f"{at} ms is beyond the calendar") from None
    text = f"{moment.year:04}-{moment:%m-%d %H:%M} UTC"
    if at % 60_000 or parse_until(text, UTC) != at:
        raise InvalidInput(f"{moment.isoformat()} is no whole minute, and a WAIT's `until` is one: round it, or give a duration")
    return text


def _bad_until(text: str) -> InvalidExpression:
    return InvalidExpression(f"Invalid/Unsupported Wait Until format.  Provided: {text[:_MAX_LENGTH]}")


def _named_offset(name: str) -> int | None:
    found = _OFFSET.fullmatch(name)
    if found is None:
        minutes = _ZONES.get(name.lower())
        return None if minutes is None else minutes * 60_000
    sign, hours, minute = [part for part in found.groups() if part is not None]
    if int(hours) > 23 or int(minute) > 59:
        return None
    return (int(hours) * 60 + int(minute)) * (60_000 if sign == "+" else -60_000)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a date whose month and day may be out of range."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    shifted = year - (month <= 2)
    months = (153 * ((month + 9) % 12) + 2) // 5
    gregorian = shifted * 365 + shifted // 4 - shifted // 100 + shifted // 400 + months + day - 719_469
    if gregorian >= _CUTOVER:
        return gregorian
    julian = shifted * 365 + shifted // 4 + months + day - 719_471
    return min(julian, _CUTOVER - 1) if year == 1582 else julian


#: 1582-10-15, the first Gregorian day, in days since 1970-01-01.
_CUTOVER: Final = -141_427


def _zone(zone: tzinfo | str) -> tzinfo:
    if isinstance(zone, tzinfo):
        return zone
    if zone == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(zone)
    except (LookupError, ValueError, OSError):
        raise InvalidExpression(f"Unknown time zone: {zone[:_MAX_LENGTH]}") from None


def _offset_ms(local: int, zone: tzinfo) -> int:
    """Offset from UTC of a wall-clock reading, standard time where a change of clocks makes it doubtful."""
    days, rest = divmod(local, _DAY_MS)
    # The calendar repeats every 400 years (146,097 days): that brings years that `datetime` cannot hold into its range.
    # Before 1900 Java knows no local mean time: it uses the zone's first standard offset.
    if days < _FIRST_DAY:
        days, rest = _FIRST_DAY, 0
    elif days >= _LAST_DAY:
        days = _LAST_DAY - 146_097 + (days - _LAST_DAY) % 146_097
    wall = datetime(1970, 1, 1) + timedelta(days=days, milliseconds=rest)
    offsets = [wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
    return min(offsets) // timedelta(milliseconds=1)


_FIRST_DAY: Final = -25_567 + 366
_LAST_DAY: Final = 2_932_896
