"""Event handlers and their records in a memory store: `ports.EventReads` and `ports.EventWrites`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from conductorlite.backends.memory.ordered import Ordered
from conductorlite.backends.memory.store import Store
from conductorlite.errors import InvariantBroken
from conductorlite.handlers import EventExecution
from conductorlite.ports import EventPlace

__all__ = ["MemoryEventReads", "MemoryEventWrites"]


class MemoryEventReads:
    """Reading what there is of events."""

    _store: Store

    def event_handler(self, name: str) -> str | None:
        """The event handler of that name, or None."""
        found = self._store.event_handlers.get(name)
        return None if found is None else found[2]

    def event_handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        """The event handlers of an event (None: of all), in order of their names."""
        return [
            text
            for _, (its_event, active, text) in sorted(self._store.event_handlers.items())
            if (event is None or its_event == event) and (active or not active_only)
        ]

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        """What became of one action for one message, or None when nothing did yet."""
        return self._store.event_executions.get((name, event, message_id, number))

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first."""
        index = ("message", message_id) if message_id is not None else ("name", name) if name is not None else ("all", "")
        places = self._store.event_places.get((index[0], index[1] or ""))
        rows = (self._store.event_executions[place[1:]] for place in (() if places is None else places.before(after)))
        return list(islice((row for row in rows if name is None or row.name == name), limit))


class MemoryEventWrites(MemoryEventReads):
    """Changing it."""

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        """Register or replace an event handler."""
        self._store.put(self._store.event_handlers, name, (event, active, text))

    def drop_event_handler(self, name: str) -> None:
        """Delete an event handler; nothing happens when there is none."""
        self._store.drop(self._store.event_handlers, name)

    def add_event_execution(self, execution: EventExecution) -> None:
        """Keep a record; raises InvariantBroken when there is one of that identity."""
        store = self._store
        if execution.key in store.event_executions:
            raise InvariantBroken(f"the action {execution.id} of {execution.name!r} was carried out before")
        store.put(store.event_executions, execution.key, execution)
        for index in _indexes(execution):
            store.add(store.event_places.setdefault(index, Ordered()), execution.place)

    def drop_event_executions(self, before: int, limit: int) -> int:
        """Delete the oldest records created before an instant, at most `limit`; returns how many that were."""
        store = self._store
        places = list(islice(store.event_places.get(("all", ""), Ordered()), limit))
        places = [place for place in places if place[0] < before]
        for place in places:
            execution = store.event_executions[place[1:]]
            store.drop(store.event_executions, execution.key)
            for index in _indexes(execution):
                store.discard(store.event_places[index], place)
        return len(places)


def _indexes(execution: EventExecution) -> tuple[tuple[str, str], ...]:
    return (("all", ""), ("name", execution.name), ("message", execution.message_id))
