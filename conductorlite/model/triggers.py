"""Triggers of APScheduler as JSON: the alias of a trigger's class, and the arguments that make such a trigger again.

`CronTrigger(hour=9, timezone="Europe/Berlin")` is `{"type": "cron", "hour": "9", "timezone": "Europe/Berlin"}`: the names are those
of `scheduler.add_job(job, "cron", hour=9, …)`. What is kept says when the trigger fires and nothing else, so a jitter, which makes
the instants depend on chance, is refused, and so is a class of which we do not know the fields. APScheduler is not imported here:
who has a trigger has imported it. `language.triggers` makes triggers of these documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, tzinfo
from typing import Any, Final

from conductorlite.model.errors import InvalidInput

__all__ = ["trigger_document"]


def trigger_document(trigger: Any) -> Mapping[str, Any]:
    """The fields of a trigger of APScheduler 3, as JSON; a mapping is such a document already.

    Raises InvalidInput for what is no trigger, has a jitter, or has a time zone without a name.
    """
    if isinstance(trigger, Mapping):
        return trigger
    kind = type(trigger)
    known = _FIELDS.get(f"{kind.__module__}.{kind.__qualname__}")
    if known is None:
        wanted = ", ".join(name.rpartition(".")[2] for name in _FIELDS)
        raise InvalidInput(f"a {kind.__qualname__} is no trigger that can be stored by its fields: give a {wanted}, or its JSON")
    if getattr(trigger, "jitter", None):
        raise InvalidInput(
            f"the {kind.__qualname__} has a jitter of {trigger.jitter} s: a schedule has the same instants each time"
        )
    alias, fields = known
    found = {"type": alias, **fields(trigger)}
    return {name: value for name, value in found.items() if value is not None}


def _cron(trigger: Any) -> dict[str, Any]:
    said = {field.name: str(field) for field in trigger.fields if not field.is_default}
    return {**said, **_bounds(trigger), "timezone": _zone_id(trigger.timezone)}


def _interval(trigger: Any) -> dict[str, Any]:
    seconds = trigger.interval.total_seconds()
    return {
        "seconds": int(seconds) if seconds.is_integer() else seconds,
        **_bounds(trigger),
        "timezone": _zone_id(trigger.timezone),
    }


def _calendar_interval(trigger: Any) -> dict[str, Any]:
    spans = {name: getattr(trigger, name) for name in ("years", "months", "weeks", "days")}
    times = dict(zip(("hour", "minute", "second"), trigger.__getstate__()["time"], strict=True))
    said = {name: value for name, value in {**spans, **times}.items() if value}
    return {**said, **_bounds(trigger), "timezone": _zone_id(trigger.timezone)}


def _date(trigger: Any) -> dict[str, Any]:
    return {"run_date": trigger.run_date.isoformat(), "timezone": _zone_id(trigger.run_date.tzinfo)}


def _combined(trigger: Any) -> dict[str, Any]:
    return {"triggers": [trigger_document(each) for each in trigger.triggers]}


def _bounds(trigger: Any) -> dict[str, str | None]:
    return {"start_date": _iso(trigger.start_date), "end_date": _iso(trigger.end_date)}


def _iso(at: date | None) -> str | None:
    return None if at is None else at.isoformat()


def _zone_id(zone: tzinfo) -> str:
    """The IANA name of a zone, or its offset."""
    name: str | None = getattr(zone, "key", None) or zone.tzname(None)
    if name is None:
        raise InvalidInput(f"the time zone {zone!r} has no name to store: give one of zoneinfo's")
    return name.removeprefix("UTC") or "UTC"


#: What is read of each class: the alias by which APScheduler's `add_job` knows it, and its arguments.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    "apscheduler.triggers.cron.CronTrigger": ("cron", _cron),
    "apscheduler.triggers.interval.IntervalTrigger": ("interval", _interval),
    "apscheduler.triggers.date.DateTrigger": ("date", _date),
    "apscheduler.triggers.calendarinterval.CalendarIntervalTrigger": ("calendarinterval", _calendar_interval),
    "apscheduler.triggers.combining.AndTrigger": ("and", _combined),
    "apscheduler.triggers.combining.OrTrigger": ("or", _combined),
}
