"""What explain says of slots, deadlines, events that are held, and executions that were run again.

Why somebody waits for a slot of a limit, in words.

When a task runs into its next deadline, in words.

What lines of the journal tell about an execution that was run again or moved, and of attempts that were given back.

What events that are held stand for, in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from conductorlite.decide.reports import ALONE_AFTER
from conductorlite.engine.causes import span_in_words
from conductorlite.model.decisions import DEADLINES, Event, EventKind
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task
from conductorlite.model.limits import Limit, Member, MemberState, admission

__all__ = [
    "REOPENED_BY",
    "TAKEN_BACK",
    "DrivenLeft",
    "Standing",
    "deaths",
    "dropped",
    "given_back",
    "held_event",
    "is_taken_back",
    "next_deadline",
    "versions",
    "why_it_waits",
]


@attrs.frozen(kw_only=True, slots=True)
class Standing:
    """How somebody stands to a limit: the limit, itself, how many come before it in the line, and the line's head."""

    limit: Limit
    member: Member
    before: int = 0
    head: Member | None = None


def why_it_waits(standing: Standing | None, key: str | None, now: int) -> str:
    """What is in the way of a slot, and the place in the line; what is not known is not told."""
    if standing is None:
        return f"it waits for a slot of {key}"
    limit, member = standing.limit, standing.member
    if member.state is not MemberState.WAITING:
        return f"it was given a slot of {limit.key} and has not taken it up: drive the engine"
    if member.lane in limit.unpolled:
        return f"nobody takes what {limit.key} offers in queue {member.lane!r}; its line goes on there with the next poll"
    place = "it is next in the line" if not standing.before else f"it is number {standing.before + 1} in the line"
    return f"{_in_the_way(standing, now)}; {place}{_moving(standing, now)}"


def _in_the_way(standing: Standing, now: int) -> str:
    limit, terms = standing.limit, standing.member.terms
    if terms.concurrent and limit.in_use == terms.concurrent:
        return f"{limit.in_use} of {terms.concurrent} {_slots(terms.concurrent)} of {limit.key} {_are(limit.in_use)} in use"
    if terms.concurrent and limit.in_use > terms.concurrent:
        return f"{limit.in_use} slots of {limit.key} are in use, and its definition allows {terms.concurrent}"
    begun = limit.reserved + sum(1 for at in limit.log if at > now - terms.window_ms)
    if terms.rate and begun >= terms.rate:
        many = f"{begun} of {terms.rate}" if begun == terms.rate else f"{begun}, where its definition allows {terms.rate},"
        offered = " or are offered" if limit.reserved else ""
        return f"{many} of {limit.key} have begun within {span_in_words(terms.window_ms)}{offered}"
    return f"the line of {limit.key} is strict, and the first in it waits"


def _moving(standing: Standing, now: int) -> str:
    """When the first in the line may go, if that is known."""
    if standing.head is None:
        return ""
    at = admission(standing.limit, standing.head.terms, now)
    return f", and the window moves in {span_in_words(at - now)}" if at is not None and at > now else ""


def _slots(number: int) -> str:
    return "slot" if number == 1 else "slots"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


#: How much driven time is left of deadlines that nobody wrote, ms, by execution and id of the timer.
DrivenLeft = Mapping[tuple[str, str], int]

_NAMES: Final = {
    "poll_timeout_at": "poll timeout",
    "response_timeout_at": "response timeout",
    "timeout_at": "task timeout",
    "total_timeout_at": "total timeout",
}


def next_deadline(task: Task, now: int, left: DrivenLeft) -> str:
    """The next deadline of a task; nothing when it has none."""
    instants = []
    for field, name in _NAMES.items():
        at: int | None = getattr(task, field)
        if at is not None:
            driven = left.get((task.workflow_id, f"{DEADLINES[field]}:{task.ref}"))
            instants.append((at if driven is None else now + driven, name, "" if driven is None else " of driven time"))
    if not instants:
        return ""
    at, name, counts = min(instants)
    if at > now:
        return f"; its {name} comes in {span_in_words(at - now)}{counts}"
    return f"; its {name} is {'now' if at == now else f'overdue for {span_in_words(now - at)}'}"


#: Verbs that take back what an execution has done, in words.
TAKEN_BACK: Final = {"RERUN": "rerun", "RESTART": "restarted"}


#: How the reason of a line begins by which an attempt is offered once more.
_GIVEN_BACK: Final = "given back: "


def is_taken_back(line: HistoryEvent) -> bool:
    """Whether a line tells that a verb has taken back what was done."""
    return line.kind is HistoryKind.VERB and line.status in TAKEN_BACK


def dropped(line: HistoryEvent) -> Sequence[str]:
    """References of which a line says that every attempt is gone."""
    telling = (is_taken_back(line) or line.status == "DROPPED") and line.payload is not None
    found: Sequence[str] = line.payload.value.get("dropped", ()) if telling and line.payload is not None else ()
    return found


def versions(line: HistoryEvent) -> str:
    """Between which versions a MIGRATED line tells of a move."""
    said = {} if line.payload is None else line.payload.value
    return f"from version {said['from']['version']} to {said['to']['version']}"


def given_back(task: Task, history: Sequence[HistoryEvent]) -> str:
    """That an offered attempt was given back, by whom and why, and what follows from deaths."""
    of_it = (line for line in reversed(history) if line.kind is HistoryKind.TASK and line.ref == task.ref)
    line = next((line for line in of_it if line.attempt == task.attempt), None)
    why = "" if line is None or not (line.reason or "").startswith(_GIVEN_BACK) else f", {line.reason}"
    return f"{why}{deaths(task)}"


def deaths(task: Task) -> str:
    """How often the process of its worker has died with an attempt in hand, and whether it is therefore alone."""
    if not task.deaths:
        return ""
    alone = "alone, " if task.deaths >= ALONE_AFTER else ""
    return f", {alone}after {task.deaths} death{'s' if task.deaths > 1 else ''} of its worker's process"


#: What an ended execution is to do once it has a slot, by the event that waits for it.
REOPENED_BY: Final = {
    EventKind.RETRY: "retried",
    EventKind.RERUN: "rerun",
    EventKind.CHILD_REOPENED: "reopened with the sub-workflow it had waited for",
}

_HELD: Final = {
    EventKind.POLL_TIMEOUT: "the poll timeout of",
    EventKind.RESPONSE_TIMEOUT: "the response timeout of",
    EventKind.TASK_TIMEOUT: "the task timeout of",
    EventKind.TOTAL_TIMEOUT: "the total timeout of",
    EventKind.CONTINUE: "what follows",
    EventKind.ADMISSION: "the slot or the retry of",
}


def held_event(event: Event) -> str:
    """One held event."""
    if event.ref is not None:
        return f"{_HELD.get(event.kind, str(event.kind))} {event.ref}"
    if event.kind is EventKind.ADMISSION:
        return "its own slot"
    return "its first task" if event.kind is EventKind.START else "the rest of a cut turn"
