"""Mailboxes as a store in SQL has them: inboxes, with the timers that stand in rows of executions, and queues.

Who asks what is due first reads the cells of `workflows.timers` too; see `decisions`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from conductorlite.model.decisions import Event, Message, MessageKey, Outgoing
from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.executions import PollData
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import (
    Row,
    Session,
    event_of,
    event_row,
    inbox_row,
    message_of,
    message_row,
    poll_of,
    poll_row,
)
from conductorlite.store.sqlite.timers import (
    MARK,
    Entry,
    entries_of,
    event_of_entry,
    first_of,
)
from conductorlite.store.tables import (
    RelayItem,
)

if TYPE_CHECKING:
    pass

__all__ = ["OVERREAD", "NoOutbox", "RowInbox", "RowPollData", "RowQueue", "SQLiteInbox", "kept_timers", "mark_timers"]

#: `due_workflows` reads at most `OVERREAD * (limit + 16)` due events, however many one workflow has.
OVERREAD: Final = 4


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events as an inbox is read."""
    return sorted(events, key=lambda event: (event.order, event.event_id))


def _when(event: Event) -> tuple[int, str, tuple[int, int, str, int], str]:
    return (event.due_at, event.workflow_id, event.order, event.event_id)


class RowInbox:
    """Events that wait for their executions."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        # Of few, all are asked for: their order says which are the first.
        return in_order(map(event_of, self._session.execute(sql.DUE_EVENTS, sql.numbered(workflow_id, now, max(limit, 8)))))[:limit]

    def events(self, workflow_id: str) -> Sequence[Event]:
        return in_order(map(event_of, self._session.execute(sql.INBOX, (workflow_id,))))

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Workflows with due events, the longest due first; a page cut short by one with very many of them is short."""
        found: dict[str, None] = {}
        for _, workflow_id in self._due(now, limit, owner):
            if workflow_id not in found:
                found[workflow_id] = None
                if len(found) >= limit:
                    break
        return list(found)

    def _due(self, now: int, limit: int, owner: str) -> Iterable[tuple[int, str]]:
        """When events are due, and in which inbox, the longest due first: of so many workflows, or more."""
        return self._session.execute(sql.DUE_WORKFLOWS, (owner, now, OVERREAD * (limit + 16)))

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        found: tuple[int, str] | None = self._session.execute(sql.NEXT_EVENT, (owner,)).fetchone()
        return found

    def next_event_at(self, owner: str | None = None) -> int | None:
        owners = self.owners() if owner is None else [owner]
        instants = [self._session.instant(sql.NEXT_EVENT_AT, one) for one in owners]
        return min((at for at in instants if at is not None), default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        owners = self.owners() if owner is None else [owner]
        found = [event_of(row) for one in owners for row in self._session.execute(sql.UPCOMING_EVENTS, (one, limit))]
        if len(owners) > 1:
            found.sort(key=lambda event: (event.due_at, event.workflow_id, event.order, event.event_id))
        return found[:limit]

    def owners(self) -> list[str]:
        """Return the owners of events that are not held, found along the index of due events."""
        found: list[str] = []
        row = self._session.execute(sql.FIRST_EVENT_OWNER).fetchone()
        while row[0] is not None:
            found.append(row[0])
            row = self._session.execute(sql.NEXT_EVENT_OWNER, row).fetchone()
        return found

    def counts(self) -> dict[str, int]:
        """How many events there are of each owner."""
        return dict(self._session.execute(sql.OWNERS_OF_EVENTS))

    def post(self, events: Iterable[Event]) -> None:
        self._session.many(sql.PUT_INBOX_EVENT, map(inbox_row, events))


class SQLiteInbox(RowInbox):
    """The inbox of a store that keeps timers in rows of executions."""

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        found = super().due_events(workflow_id, now, limit)
        row = self._session.execute(sql.KEPT_DUE, (workflow_id, now)).fetchone()
        if row is None:
            return found
        kept = [event_of_entry(workflow_id, row[0], entry) for entry in entries_of(row[1]) if entry[1] <= now]
        return in_order([*found, *kept])[:limit]

    def events(self, workflow_id: str) -> Sequence[Event]:
        row = self._session.execute(sql.KEPT_OF, (workflow_id,)).fetchone()
        kept = () if row is None else [event_of_entry(workflow_id, row[0], entry) for entry in entries_of(row[1])]
        return in_order([*super().events(workflow_id), *kept])

    def _alarms(self, owner: str) -> Iterator[tuple[int, str, list[Entry]]]:
        """Executions of an owner with timers, and these, in order of alarms and ids."""
        for alarm, workflow_id, cell in self._session.execute(sql.ALARMS, (owner,)):
            entries = entries_of(cell)
            if not entries or alarm > first_of(entries):
                raise StorageCorrupt(f"the database is damaged: the alarm of {workflow_id} is not that of its timers; repair it")
            yield alarm, workflow_id, entries

    def _due(self, now: int, limit: int, owner: str) -> Iterable[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for alarm, workflow_id, entries in self._alarms(owner):
            if alarm > now or (len(found) >= limit and (alarm, workflow_id) >= found[limit - 1]):
                break
            if (at := first_of(entries)) <= now:
                insort(found, (at, workflow_id))
        return sorted([*super()._due(now, limit, owner), *found]) if found else super()._due(now, limit, owner)

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        found = super().next_event(owner)
        for alarm, workflow_id, entries in self._alarms(owner):
            kept = (first_of(entries), workflow_id)
            found = kept if found is None else min(found, kept)
            if found <= (alarm, workflow_id):
                break
        return found

    def next_event_at(self, owner: str | None = None) -> int | None:
        found = [self.next_event(one) for one in (self.owners() if owner is None else [owner])]
        return min((event[0] for event in found if event is not None), default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        found = list(super().upcoming_events(limit, owner))
        for one in self.owners() if owner is None else [owner]:
            kept: list[Event] = []
            for alarm, workflow_id, entries in self._alarms(one):
                if len(kept) >= limit and (alarm, workflow_id) >= (kept[limit - 1].due_at, kept[limit - 1].workflow_id):
                    break
                kept += [event_of_entry(workflow_id, one, entry) for entry in entries]
                kept.sort(key=_when)
            found += kept
        return sorted(found, key=_when)[:limit]

    def owners(self) -> list[str]:
        found = {*super().owners()}
        row = self._session.execute(sql.FIRST_ALARM_OWNER).fetchone()
        while row[0] is not None:
            found.add(row[0])
            row = self._session.execute(sql.NEXT_ALARM_OWNER, row).fetchone()
        return sorted(found)

    def counts(self) -> dict[str, int]:
        """How many events there are of each owner."""
        found = super().counts()
        for owner, number in self._session.execute(sql.OWNERS_OF_ALARMS):
            found[owner] = found.get(owner, 0) + number
        return found


def kept_timers(session: Session) -> Iterator[Row]:
    """Every timer that stands in the row of its execution, as the inbox would have it."""
    for workflow_id, owner, cell in session.execute(sql.KEPT):
        yield from (event_row(event_of_entry(workflow_id, owner, entry)) for entry in entries_of(cell))


def mark_timers(session: Session) -> None:
    """Have every execution that has events in the inbox look for its timers there."""
    session.write(sql.MARK, (MARK,))


class RowQueue:
    """The workers' mailbox."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first; two statements per distinct priority."""
        found: list[Message] = []
        priority = self._session.instant(sql.HIGHEST_PRIORITY, queue)
        while priority is not None:
            rows = self._session.execute(sql.OFFERED, (queue, priority, now, limit - len(found)))
            found.extend(map(message_of, rows))
            if len(found) >= limit:
                break
            priority = self._session.instant(sql.NEXT_PRIORITY, queue, priority)
        return found

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        if queues is None:
            return self._session.instant(sql.NEXT_MESSAGE_AT)
        instants: list[int] = []
        for queue in queues:
            priority = self._session.instant(sql.HIGHEST_PRIORITY, queue)
            while priority is not None:
                instant = self._session.instant(sql.MESSAGE_AT, queue, priority)
                if instant is not None:
                    instants.append(instant)
                priority = self._session.instant(sql.NEXT_PRIORITY, queue, priority)
        return min(instants, default=None)

    def message(self, key: MessageKey) -> Message | None:
        row = self._session.execute(sql.MESSAGE, key).fetchone()
        return None if row is None else message_of(row)

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any; reads every message's index entry."""
        return dict(self._session.execute(sql.QUEUE_SIZES))

    def messages(self, limit: int) -> Sequence[Message]:
        return [message_of(row) for row in self._session.execute(sql.MESSAGES, (limit,))]

    def discard(self, messages: Sequence[Message]) -> None:
        self._session.many(sql.DISCARD_MESSAGE, map(message_row, messages))

    def carry_out(self, outgoing: Outgoing) -> None:
        """Take messages away, and put others there."""
        if outgoing.removed:
            self._session.executemany(sql.DELETE_MESSAGE, outgoing.removed)
        if outgoing.put:
            self._session.executemany(sql.PUT_MESSAGE, map(message_row, outgoing.put))


class RowPollData:
    """The last poll of each task type, domain and worker."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def polls(self, task_type: str | None) -> Sequence[PollData]:
        rows = self._session.execute(sql.POLLS) if task_type is None else self._session.execute(sql.POLLS_OF, (task_type,))
        return [poll_of(row) for row in rows]

    def record_polls(self, polls: Sequence[PollData]) -> None:
        self._session.many(sql.RECORD_POLL, map(poll_row, polls))


class NoOutbox:
    """The outgoing part is committed with the rest."""

    def items(self, limit: int) -> Sequence[RelayItem]:
        """Nothing: the outgoing part is committed with the rest."""
        return []

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Nothing: the outgoing part is committed with the rest."""
