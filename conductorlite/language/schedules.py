"""Instants at which a schedule comes due, as a pure function of it and an instant, and what is wrong with one. Epoch ms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from conductorlite.model.definitions import DEBOUNCED, MAX_KEY, debounce_key
from conductorlite.model.errors import InvalidExpression, InvalidInput, Problem
from conductorlite.model.later import functions, pattern
from conductorlite.model.scalars import is_integer
from conductorlite.model.schedules import CronSchedule, WorkflowSchedule

if TYPE_CHECKING:
    from conductorlite.language.cron import parse_cron
    from conductorlite.language.triggers import next_instant, next_of, on_a_grid, zone_of
else:
    # A program without schedules never imports APScheduler.
    (parse_cron,) = functions("conductorlite.language.cron", "parse_cron")
    next_instant, next_of, on_a_grid, zone_of = functions(
        "conductorlite.language.triggers", "next_instant", "next_of", "on_a_grid", "zone_of"
    )

__all__ = ["crons_of", "following", "latest", "next_after", "problems"]

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
        found = on_a_grid(start or 0, schedule.interval_ms, after)
    elif schedule.trigger is not None:
        found = next_of(schedule.trigger, after)
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
    """Return what is wrong with a schedule; an empty list is a valid one."""
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
    elif debounce_key(request.idempotency_key) is not None:
        message = f"begins with {DEBOUNCED!r}, as the keys of debounced starts do"
        yield Problem(path="$.startWorkflowRequest.idempotencyKey", message=message)
    if request.extra.get("debounce") is not None:
        message = "is not read here: a schedule starts each execution at its time"
        yield Problem(path="$.startWorkflowRequest.debounce", message=message)
    if str(request.extra.get("externalInputPayloadStoragePath") or "").strip():
        # Kept like any property we do not know, it would start without an input, day by day.
        message = "is not read here, for an upload is swept: give the input itself"
        yield Problem(path="$.startWorkflowRequest.externalInputPayloadStoragePath", message=message)


def _timing(schedule: WorkflowSchedule) -> Iterator[Problem]:
    crons = crons_of(schedule)
    ways = [bool(crons), schedule.interval_ms is not None, schedule.at is not None, schedule.trigger is not None]
    if sum(ways) != 1:
        message = "needs exactly one of cronExpression (or cronSchedules), intervalSeconds, at and trigger"
        yield Problem(path="$", message=message)
    if schedule.trigger is not None:
        try:
            next_of(schedule.trigger, -1)
        except InvalidInput as error:
            yield Problem(path="$.trigger", message=str(error))
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
