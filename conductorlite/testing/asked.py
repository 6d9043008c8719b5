"""Answers of a simulation's engines, beside an engine on the same store that has kept nothing in memory.

Rows that are kept between turns are compared by what a turn writes, under its fence. What writes nothing is compared by nothing: a
refusal, a report that is ignored, a poll in vain, a driver that finds nothing to do, a result. So it is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from conductorlite.model.decisions import Event
from conductorlite.model.errors import ConductorliteError, StorageBusy
from conductorlite.model.executions import Workflow
from conductorlite.runtime.engine import Engine
from conductorlite.store.ports import Backend
from conductorlite.testing.faults import FaultyBackend

__all__ = ["Waiting", "answer", "answered_otherwise", "has_written", "overdue", "passed_over"]

T = TypeVar("T")

#: Writes that change no execution: who polled, and the ends of blocks.
_NOTES: Final = ("record_polls", "commit")

_MANY: Final = 1_000


def answer(engine: Engine, verb: Callable[[Engine], T]) -> T | ConductorliteError:
    """Return what a verb returns or raises."""
    try:
        return verb(engine)
    except ConductorliteError as refused:
        return refused


def has_written(backend: FaultyBackend, since: int) -> bool:
    """Return True if anything of an execution was written, or was to be, after so many writes."""
    return any(name not in _NOTES for name in backend.journal[since:])


def answered_otherwise(
    said: object, verb: Callable[[Engine], object], inner: Backend, opened: Callable[[FaultyBackend], Engine]
) -> str | None:
    """Return what an engine `opened` now answers, if that is not what was `said` without a write; it cannot write either."""
    fresh = FaultyBackend(inner, keep_open=True, on_write=_refuse)
    again = answer(opened(fresh), verb)
    if has_written(fresh, 0):
        return f"would write {fresh.journal}"
    return None if _words(again) == _words(said) else f"says {_words(again)}"


def _refuse(name: str) -> None:
    raise StorageBusy(f"{name}: this engine is only asked")


def _words(said: object) -> object:
    """An answer or a refusal so that it equals another one that says the same."""
    if isinstance(said, ConductorliteError):
        return f"{type(said).__name__}: {said}"
    return [_words(one) for one in said] if isinstance(said, list | tuple) else said


def overdue(backend: Backend, now: int) -> dict[Event, int]:
    """Every event that is due, and the fence of its execution."""
    with backend.reading() as view:
        due = [event for event in view.inbox.upcoming_events(_MANY) if event.due_at <= now]
        return {event: row.fence for event in due if (row := view.executions.workflow(event.workflow_id)) is not None}


def passed_over(before: Mapping[Event, int], after: Mapping[Event, int]) -> list[str]:
    """Events that were due, of executions that have had a turn since, and are due still: a turn reads first what is due."""
    left = [event for event, fence in before.items() if after.get(event, fence) != fence]
    return [f"a turn of {event.workflow_id} has not read {event.event_id}, which was due" for event in left]


class Waiting:
    """Callers that wait at one engine for results: since just now, and for as long as the execution goes on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._for_long: dict[str, tuple[Callable[[], bool], list[Workflow]]] = {}

    def shown_otherwise(self, stored: Sequence[Workflow]) -> Iterator[str]:
        """Yield the places where the end that they are shown is not the one that is stored."""
        for row in stored:
            rows: list[Workflow] = []
            now = (self._engine.core.queries.ending(row.workflow_id, rows), rows)
            for ended, found in {id(one): one for one in (now, self._for_long.pop(row.workflow_id, now))}.values():
                if ended() != row.status.terminal or found != [row] * row.status.terminal:
                    yield f"{found or 'no end'} is shown for {row!r}"
            if not row.status.terminal:
                self._for_long[row.workflow_id] = now
