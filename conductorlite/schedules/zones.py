"""From times on the wall to instants: what fires when the clocks change.

The rule is that of Vixie cron, which most people mean by cron: an expression that *names times of day* fires once for each of
them: what falls into a skipped hour fires when that hour would have begun, what falls into a repeated one fires the first time.
An expression that *runs on with the clock* (`*` or a step in its hours, minutes or seconds) just follows it: nothing in the
skipped hour, everything twice in the repeated one, so that "every 15 minutes" stays every 15 minutes. Source of the rule:
cron(8), "Daylight Saving Time and other time changes". A change of more than three hours is treated no differently.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from conductorlite.errors import InvalidInput
from conductorlite.schedules.cron import Cron

__all__ = ["next_instant", "zone_of"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_DAY: Final = 86_400_000

#: Epoch ms of the year 2200, after which nothing comes due.
_END: Final = (datetime(2200, 1, 1, tzinfo=UTC) - _EPOCH) // _MS


@lru_cache(maxsize=256)
def zone_of(zone_id: str) -> ZoneInfo:
    """A time zone by its IANA name; raises InvalidInput."""
    try:
        return ZoneInfo(zone_id)
    except (LookupError, ValueError, OSError):
        raise InvalidInput(f"there is no time zone {zone_id!r}") from None


def next_instant(cron: Cron, zone: ZoneInfo, after: int) -> int | None:
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


def _skipped_at(cron: Cron, zone: ZoneInfo, at: int) -> bool:
    """Whether the clocks are put forward at this very instant, over a time that the expression names."""
    before, offset = _offset(zone, at - 1), _offset(zone, at)
    wall = cron.next_wall(_wall(at, before)) if offset > before else None
    return wall is not None and wall < _wall(at, offset)


def _offset(zone: ZoneInfo, at: int) -> int:
    offset = (_EPOCH + at * _MS).astimezone(zone).utcoffset()
    return 0 if offset is None else offset // _MS


def _wall(at: int, offset: int) -> datetime:
    return (_EPOCH + (at + offset) * _MS).replace(tzinfo=None)


def _repeated(zone: ZoneInfo, at: int) -> bool:
    """Whether the wall showed this time once before."""
    return (_EPOCH + at * _MS).astimezone(zone).fold == 1


def _change(zone: ZoneInfo, since: int, until: int) -> int | None:
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
