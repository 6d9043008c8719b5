"""Why somebody waits for a slot of a limit, in words."""

from __future__ import annotations

import attrs

from conductorlite.explain.words import span_in_words
from conductorlite.limits import Limit, Member, MemberState, admission

__all__ = ["Standing", "why_it_waits"]


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
