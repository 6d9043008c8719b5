"""The timers of an execution in a cell of its own row, and back: those that it sets for itself, as the inbox would have them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from conductorlite.model.decisions import Event, EventKind
from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.scalars import encoded
from conductorlite.store.sqlite.rows import payload_of

__all__ = ["MARK", "SHORT", "Entry", "Timers", "data_of", "entries_of", "event_of_entry", "first_of", "timer_of", "timers_of"]

#: Events of these kinds an execution sends only to itself: the id is the kind, or that and the reference.
_KINDS: Final = {
    "A": EventKind.ADMISSION,
    "F": EventKind.WORKFLOW_TIMEOUT,
    "O": EventKind.TOTAL_TIMEOUT,
    "P": EventKind.POLL_TIMEOUT,
    "R": EventKind.RESPONSE_TIMEOUT,
    "T": EventKind.TASK_TIMEOUT,
    "W": EventKind.WAIT_ENDS,
}
SHORT: Final = {kind.value: short for short, kind in _KINDS.items()}

#: A timer has at most so many characters of data.
_MOST_DATA: Final = 256

#: The cell of an execution that has, or had, timers in the inbox begins with it.
MARK: Final = "+"

#: The data of a default timeout: since when it counts, and how long.
_DRIVEN: Final = '{"since":%d,"span":%d}'

_quoted: Final = json.encoder.encode_basestring

#: A timer as a cell has it: kind, due, since when, number, reference, attempt, generation, data; 1 is the data of a default
#: timeout, which counts driven time.
Entry = list[Any]

#: The timers of a cell by their ids: when each is due, and its text.
Timers = dict[str, tuple[int, str]]


def entries_of(cell: str | None) -> list[Entry]:
    """The timers in a cell; raises StorageCorrupt."""
    if cell is None or cell == MARK:
        return []
    try:
        found: Any = json.loads(cell.removeprefix(MARK))
        if type(found) is not list:
            raise ValueError("no timers")
        for kind, due, since, number, ref, attempt, generation, *data in found:
            whole = type(due) is type(since) is type(number) is type(attempt) is type(generation) is int
            if (
                not whole
                or kind not in _KINDS
                or not isinstance(ref, str | None)
                or (data not in ([], [1]) and type(data[0]) is not str)
            ):
                raise ValueError("no timer")
    except (ValueError, TypeError, AttributeError) as error:
        raise StorageCorrupt(f"the database is damaged: a row cannot be read ({type(error).__name__}: {error})") from error
    entries: list[Entry] = found
    return entries


def _event_id(entry: Entry) -> str:
    kind = _KINDS[entry[0]]._value_
    return kind if entry[4] is None else f"{kind}:{entry[4]}"


def timers_of(cell: str | None) -> Timers:
    """Return timers by their ids."""
    return {_event_id(entry): (entry[1], encoded(entry)) for entry in entries_of(cell)}


def timer_of(event: Event) -> tuple[int, str] | None:
    """When a timer is due, and its text as a cell has it; None for what is kept in the inbox."""
    data = event.data.text
    if event.held or data is None or len(data) > _MOST_DATA or event.sender != event.workflow_id:
        return None
    kind, ref = event.kind._value_, event.ref
    if event.event_id != (kind if ref is None else f"{kind}:{ref}"):
        return None
    due, span, quoted = event.due_at, event.due_at - event.posted_at, "null" if ref is None else _quoted(ref)
    said = "" if data == "{}" else ",1" if data == _DRIVEN % (due - span, span) else f",{_quoted(data)}"
    return due, f'["{SHORT[kind]}",{due},{span},{event.sender_seq},{quoted},{event.attempt},{event.generation}{said}]'


def event_of_entry(workflow_id: str, owner: str, entry: Entry) -> Event:
    """The event that a timer is."""
    kind, due, span, number, ref, attempt, generation = entry[:7]
    return Event(
        workflow_id=workflow_id,
        event_id=_event_id(entry),
        kind=_KINDS[kind],
        due_at=due,
        posted_at=due - span,
        sender=workflow_id,
        sender_seq=number,
        ref=ref,
        attempt=attempt,
        generation=generation,
        data=payload_of(data_of(entry)),
        owner=owner,
        stored=True,
    )


def data_of(entry: Entry) -> str:
    """The data of a timer."""
    text: str = "{}" if len(entry) == 7 else entry[7] if entry[7] != 1 else _DRIVEN % (entry[1] - entry[2], entry[2])
    return text


def first_of(entries: Iterable[Entry]) -> int:
    """When the first of some timers is due."""
    at: int = min(entry[1] for entry in entries)
    return at
