"""What a search asks, read and checked: query, free text, sort, page."""

from __future__ import annotations

from typing import Final

import attrs

from conductorlite.errors import InvalidInput, InvalidQuery
from conductorlite.search.fields import Kind, Subject
from conductorlite.search.query import Condition, parse_query
from conductorlite.search.words import Phrase, free_text
from conductorlite.texts import printable

__all__ = ["MAX_SIZE", "Asked", "asked"]

#: Results of one page: Conductor's limit.
MAX_SIZE: Final = 5_000

#: A page may begin here at the latest, and a sort have so many fields.
_MAX_START: Final = 2**31
_MAX_FIELDS: Final = 10

_DEFAULT: Final = {"workflows": (("startTime", True),), "tasks": (("scheduledTime", True),)}


@attrs.frozen(kw_only=True, slots=True)
class Asked:
    """A search as an index takes it: `sort` are names of fields, each with whether it descends; ties ascend by what identifies."""

    subject: Subject
    condition: Condition | None = None
    phrases: tuple[Phrase, ...] = ()
    sort: tuple[tuple[str, bool], ...] = ()
    #: Only executions that have a task that answers this.
    with_task: Asked | None = None
    start: int = 0
    size: int = 100


def asked(subject: Subject, query: str, free: str, start: int, size: int, sort: str) -> Asked:
    """Read a search. Raises InvalidQuery, and InvalidInput for what is no text and for a page out of range."""
    for what, text in (("query", query), ("free text", free), ("sort", sort)):
        if not isinstance(text, str):
            raise InvalidInput(f"the {what} {printable(text, 80)} is no text")
    for what, number, most in (("start", start, _MAX_START), ("size", size, MAX_SIZE)):
        # What is no whole number would look to an index like a file that is damaged.
        if not isinstance(number, int) or not 0 <= number <= most:
            raise InvalidInput(f"{what} {printable(number, 80)} is not a whole number between 0 and {most}")
    return Asked(
        subject=subject,
        condition=parse_query(query, subject),
        phrases=free_text(free),
        sort=_sort(sort, subject) or _DEFAULT[subject.name],
        start=start,
        size=size,
    )


def _sort(text: str, subject: Subject) -> tuple[tuple[str, bool], ...]:
    """`field:ASC|field:DESC`; without a direction ascending."""
    found: list[tuple[str, bool]] = []
    at = 0
    for part in text.split("|") if text.strip() else ():
        name, _, direction = (piece.strip() for piece in part.partition(":"))
        field = subject.field(name)
        if field is None or field.kind is Kind.MANY or field.name in subject.inherited:
            raise InvalidQuery(f"{subject.name} are not sorted by {name[:40]!r}", at)
        if direction.upper() not in ("", "ASC", "DESC"):
            raise InvalidQuery(f"{direction[:40]!r} is neither ASC nor DESC", at)
        found.append((field.name, direction.upper() == "DESC"))
        if len(found) > _MAX_FIELDS:
            raise InvalidQuery(f"the sort has more than {_MAX_FIELDS} fields", at)
        at += len(part) + 1
    return tuple(found)
