"""Mailboxes in memory: inboxes, with the order in which events are due, and queues, with who polled them last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.decisions import Decision, Event, Message, MessageKey, Outgoing
from conductorlite.model.executions import PollData
from conductorlite.store.memory.rows import (
    ADDED,
    DISCARDED,
    MISSING,
    DueKey,
    Execution,
    Ordered,
    Store,
    ordered,
)
from conductorlite.store.tables import (
    RelayItem,
)

if TYPE_CHECKING:
    pass

__all__ = ["MemoryInbox", "MemoryOutbox", "MemoryPollData", "MemoryQueue"]

#: `due_workflows` reads at most `_OVERREAD * (limit + 16)` due events, as the SQLite backend does.
_OVERREAD: Final = 4

#: So many events of an inbox are looked through; of more, those that are due are found along the index of what is.
_FEW: Final = 8

_place: Final = attrgetter("order", "event_id")


#: A `DueKey`.
_due_key: Final = attrgetter("due_at", "workflow_id", "posted_at", "sender", "sender_seq", "event_id")


class MemoryInbox:
    """Events that wait for their executions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        inbox = self._store.of(workflow_id).inbox
        if len(inbox) > _FEW:
            return [inbox[event_id] for event_id in islice(self._due_ids(workflow_id, now), limit)]
        due = [event for event in inbox.values() if event.due_at <= now and not event.held]
        return sorted(due, key=_place)[:limit] if len(due) > 1 else due[:limit]

    def _due_ids(self, workflow_id: str, now: int) -> Iterator[str]:
        """Ids of the events of an execution, of each instant that is due for its owner."""
        row = self._store.workflows.get(workflow_id)
        owner = next(iter(self._store.of(workflow_id).inbox.values())).owner if row is None else row.owner
        keys = self._store.due.get(owner, Ordered[DueKey]())
        first = keys.first()
        while first is not None and first[0] <= now:
            place = (first[0], workflow_id)
            for key in keys.after(place):
                if key[:2] != place:
                    break
                yield key[-1]
            first = next(keys.after((place[0] + 1,)), None)

    def events(self, workflow_id: str) -> Sequence[Event]:
        return sorted(self._store.of(workflow_id).inbox.values(), key=_place)

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Workflows with due events, the longest due first; a page cut short by one with very many of them is short."""
        found: dict[str, None] = {}
        for due_at, workflow_id, *_ in islice(self._store.due.get(owner, ()), _OVERREAD * (limit + 16)):
            if due_at > now or len(found) >= limit:
                break
            found[workflow_id] = None
        return list(found)

    def next_event(self, owner: str = "") -> tuple[int, str] | None:
        keys = self._store.due.get(owner)
        key = None if keys is None else keys.first()
        return None if key is None else (key[0], key[1])

    def _due_of(self, owner: str | None) -> list[Ordered[DueKey]]:
        due = self._store.due
        return list(due.values()) if owner is None else [due[owner]] if owner in due else []

    def next_event_at(self, owner: str | None = None) -> int | None:
        return min([key[0] for keys in self._due_of(owner) if (key := keys.first()) is not None], default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        executions = self._store.executions
        due = self._due_of(owner)
        places = due[0].head(limit) if len(due) == 1 else islice(merge(*due), limit)
        return [executions[place[1]].inbox[place[-1]] for place in places]

    def post(self, events: Iterable[Event]) -> None:
        for event in events:
            self.put_event(event)

    def put_event(self, event: Event) -> None:
        """Put an event into the inbox of its address."""
        store = self._store
        row = store.workflows.get(event.workflow_id)
        # An event to an execution that is there is its owner's.
        self.put(store.execution(event.workflow_id), event, event.owner if row is None else row.owner)

    def put(self, execution: Execution, event: Event, owner: str) -> None:
        """Put an event of an owner into an inbox."""
        store, inbox, event_id = self._store, execution.inbox, event.event_id
        old = inbox.get(event_id)
        if old is not None:
            self.unlist(execution, old)
        if not event.stored or event.owner != owner:
            event = attrs.evolve(event, stored=True, owner=owner)
        store.note((inbox, event_id, MISSING if old is None else old))
        inbox[event_id] = event
        if event.held:
            store.put(execution.held, event_id, True)
        else:
            due = store.due[owner] if owner in store.due else ordered(store.due, owner)
            key = _due_key(event)
            store.note((due, key, ADDED))
            due.add(key)

    def drop_event(self, execution: Execution, event_id: str) -> None:
        """Take an event away, if it is there."""
        event = execution.inbox.get(event_id)
        if event is not None:
            self._store.note((execution.inbox, event_id, event))
            del execution.inbox[event_id]
            self.unlist(execution, event)

    def unlist(self, execution: Execution, event: Event) -> None:
        """Take an event out of what is due, or held."""
        store = self._store
        if event.held:
            store.drop(execution.held, event.event_id)
        else:
            due = store.due[event.owner]
            key = _due_key(event)
            store.note((due, key, DISCARDED))
            due.discard(key)

    def release_held(self, execution: Execution, at: int) -> None:
        """Let every held event of an execution go, due at an instant or at its own later one."""
        for event_id in list(execution.held):
            event = execution.inbox[event_id]
            self.put_event(attrs.evolve(event, due_at=max(event.due_at, at), held=False))

    def empty(self, workflow_id: str) -> None:
        """Take every event away, of what is no execution."""
        execution = self._store.of(workflow_id)
        for event_id in list(execution.inbox):
            self.drop_event(execution, event_id)
        self._store.drop(self._store.executions, workflow_id)


class MemoryQueue:
    """The workers' mailbox."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first."""
        found: list[Message] = []
        priorities, executions = self._store.queues.get(queue, {}), self._store.executions
        for priority in priorities if len(priorities) == 1 else sorted(priorities):
            for due_at, workflow_id, _, ref in priorities[priority]:
                if due_at > now or len(found) >= limit:
                    break
                found.append(executions[workflow_id].offered[ref])
        return found

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        at: int | None = None
        for queue in self._store.queues if queues is None else queues:
            for keys in self._store.queues.get(queue, {}).values():
                key = keys.first()
                if key is not None and (at is None or key[0] < at):
                    at = key[0]
        return at

    def message(self, key: MessageKey) -> Message | None:
        return self._store.of(key[0]).offered.get(key[1])

    def queue_sizes(self) -> Mapping[str, int]:
        sizes = {queue: sum(map(len, priorities.values())) for queue, priorities in self._store.queues.items()}
        return {queue: size for queue, size in sizes.items() if size}

    def messages(self, limit: int) -> Sequence[Message]:
        places = merge(*(keys for priorities in self._store.queues.values() for keys in priorities.values()))
        return [self._store.of(workflow_id).offered[ref] for _, workflow_id, _, ref in islice(places, limit)]

    def drop_message(self, key: MessageKey) -> None:
        """Take a message away, if it is there."""
        store = self._store
        if key[0] not in store.executions:
            return
        message = store.drop(store.executions[key[0]].offered, key[1])
        if message is not None:
            store.discard(store.queues[message.queue][-message.priority], (message.due_at, key[0], len(key[1]), key[1]))

    def put_message(self, message: Message) -> None:
        """Offer a task, in the place of what was offered of it."""
        store, ref = self._store, message.ref
        offered = store.execution(message.workflow_id).offered
        if ref in offered:
            self.drop_message(message.key)
        store.note((offered, ref, MISSING))
        offered[ref] = message
        try:
            keys = store.queues[message.queue][-message.priority]
        except KeyError:
            keys = ordered(store.queues.setdefault(message.queue, {}), -message.priority)
        store.add(keys, (message.due_at, message.workflow_id, len(ref), ref))

    def discard(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self._store.of(message.workflow_id).offered.get(message.ref) == message:
                self.drop_message(message.key)


class MemoryPollData:
    """The last poll of each task type, domain and worker."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def polls(self, task_type: str | None) -> Sequence[PollData]:
        return [poll for key, poll in sorted(self._store.beside.polls.items()) if task_type is None or key[0] == task_type]

    def record_polls(self, polls: Sequence[PollData]) -> None:
        store = self._store
        for poll in polls:
            key = (poll.queue_name, poll.domain or "")
            known = store.beside.polls.get(key)
            if known is None or known.last_poll_time <= poll.last_poll_time:
                store.put(store.beside.polls, key, poll)


class MemoryOutbox:
    """Outgoing parts: carried out at once, or kept until they are delivered."""

    def __init__(self, store: Store, *, inbox: MemoryInbox, queue: MemoryQueue) -> None:
        self._store, self._inbox, self._queue = store, inbox, queue

    def items(self, limit: int) -> Sequence[RelayItem]:
        outbox = self._store.outbox.items
        return [outbox[item_id] for item_id in sorted(outbox)[:limit]] if outbox else []

    def add(self, decision: Decision) -> None:
        """Keep the outgoing part of a decision until it is delivered."""
        store = self._store
        store.outbox.number += 1  # not undone: a number is never used twice
        item = RelayItem(item_id=store.outbox.number, workflow_id=decision.workflow.workflow_id, outgoing=decision.outgoing)
        store.put(store.outbox.items, item.item_id, item)

    def carry_out(self, outgoing: Outgoing) -> None:
        """Take messages away, offer others, post events."""
        for key in outgoing.removed:
            self._queue.drop_message(key)
        for message in outgoing.put:
            self._queue.put_message(message)
        self._inbox.post(outgoing.posted)

    def deliver(self, items: Sequence[RelayItem]) -> None:
        for item in items:
            waiting = self._store.drop(self._store.outbox.items, item.item_id)
            if waiting is not None:
                self.carry_out(waiting.outgoing)
