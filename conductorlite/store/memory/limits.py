"""Limits in memory, a row each, and their lines in order; owners, driven time and holders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from conductorlite.model.decisions import queue_prefix
from conductorlite.model.errors import FencedOut
from conductorlite.model.limits import FORGOTTEN, Limit, LimitChange, Line, Member, MemberState
from conductorlite.store.memory.mailboxes import MemoryInbox, MemoryQueue
from conductorlite.store.memory.rows import (
    Ordered,
    Store,
)
from conductorlite.store.tables import (
    HolderRow,
    Life,
    OwnerRow,
)

if TYPE_CHECKING:
    pass

__all__ = ["MemoryLimits", "MemoryOwners", "MemoryPresence", "MemoryTaskHolders"]


def _waits(member: Member) -> bool:
    return member.state is MemberState.WAITING


class MemoryLimits:
    """Limits: who has a slot, and who waits in line."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def line(self, key: str, heads: int) -> Line:
        lanes = {lane: list(islice(waiting, heads + 1)) for lane, waiting in self._store.limits.lines.get(key, {}).items()}
        members = self._store.limits.members.get(key, {})
        found = [members[place[-1]] for places in lanes.values() for place in places[:heads]]
        return Line(
            limit=self._store.limits.rows.get(key) or Limit(key=key),
            heads=tuple(sorted(found, key=lambda one: one.place)),
            more=frozenset(lane for lane, places in lanes.items() if len(places) > heads),
        )

    def member(self, key: str, holder: str) -> Member | None:
        return self._store.limits.members.get(key, {}).get(holder)

    def members(self, key: str) -> Sequence[Member]:
        found = self._store.limits.members.get(key, {}).values()
        return sorted(found, key=lambda one: (one.state is MemberState.WAITING, one.place if _waits(one) else (one.holder,)))

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        return [
            self._store.limits.members[key][holder] for key, holder in sorted(self._store.limits.members_of.get(workflow_id, {}))
        ]

    def unpolled(self, lane: str) -> Sequence[str]:
        unpolled = self._store.limits.unpolled
        return sorted(key for key in unpolled if lane in self._store.limits.rows[key].unpolled) if unpolled else []

    def page(self, after: str, limit: int) -> Sequence[Limit]:
        return [self._store.limits.rows[key] for key in sorted(key for key in self._store.limits.rows if key > after)[:limit]]

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        found = self._store.limits.members.get(key, {}).values()
        return sorted((one for one in found if not _waits(one) and one.holder > after), key=lambda one: one.holder)[:limit]

    def waiting(self, key: str, before: Member | None = None) -> int:
        lanes = self._store.limits.lines.get(key, {}).values()
        return sum(1 for line in lanes for place in (line if before is None else line.before(before.place)))

    def put_limit(self, change: LimitChange) -> None:
        self.change([change])

    def change(self, changes: Sequence[LimitChange]) -> None:
        """Set limits right, each under its fence; raises FencedOut."""
        store = self._store
        for change in changes:
            key = change.limit.key
            stored = store.limits.rows.get(key)
            if (0 if stored is None else stored.fence) != change.limit.fence:
                raise FencedOut(f"limit {key!r}: another turn committed after fence {change.limit.fence} was read")
            fence = stored.fence if stored is not None else store.limits.rows.get(FORGOTTEN, Limit(key=FORGOTTEN)).fence
            store.put(store.limits.rows, key, attrs.evolve(change.limit, fence=fence + 1))
            if change.limit.unpolled:
                store.put(store.limits.unpolled, key, True)
            else:
                store.drop(store.limits.unpolled, key)
            for holder in change.gone:
                self._drop_member(key, holder)
            for member in change.put:
                self._drop_member(key, member.holder)
                store.put(store.limits.members.setdefault(key, {}), member.holder, member)
                store.put(store.limits.members_of.setdefault(member.workflow_id, {}), (key, member.holder), True)
                if _waits(member):
                    store.add(store.limits.lines.setdefault(key, {}).setdefault(member.lane, Ordered()), member.place)
            if change.unused and not store.limits.members.get(key):
                self._forget_limit(key)

    def _forget_limit(self, key: str) -> None:
        """Delete the row of a limit; a turn that has read it is fenced out, also by one that comes back."""
        store = self._store
        limit = store.drop(store.limits.rows, key)
        if limit is not None:
            known = store.limits.rows.get(FORGOTTEN, Limit(key=FORGOTTEN)).fence
            store.put(store.limits.rows, FORGOTTEN, Limit(key=FORGOTTEN, fence=max(known, limit.fence)))
        store.drop(store.limits.members, key)
        store.drop(store.limits.lines, key)
        store.drop(store.limits.unpolled, key)

    def _drop_member(self, key: str, holder: str) -> None:
        store = self._store
        member = store.drop(store.limits.members.get(key, {}), holder)
        if member is not None:
            store.drop(store.limits.members_of[member.workflow_id], (key, holder))
            if _waits(member):
                store.discard(store.limits.lines[key][member.lane], member.place)

    def drop_members_of(self, workflow_id: str) -> None:
        """Take an execution and its tasks out of all limits."""
        for key, holder in list(self._store.limits.members_of.get(workflow_id, {})):
            self._drop_member(key, holder)


def _renamed(queue: str, old: str, new: str) -> str:
    prefix = queue_prefix(old)
    return queue_prefix(new) + queue[len(prefix) :] if queue.startswith(prefix) else queue


class MemoryPresence:
    """The sign of one holder: among those there are, until it goes, or its engine is forgotten."""

    leased = False

    def __init__(self, present: dict[str, Life], number: int) -> None:
        self._present = present
        self.place = str(number)
        present[self.place] = Life.ALIVE

    def leave(self) -> None:
        self._end(Life.LEFT)

    def die(self) -> None:
        self._end(Life.DEAD)

    def remove(self) -> None:
        self._present.pop(self.place, None)

    def _end(self, life: Life) -> None:
        if self._present.get(self.place) is Life.ALIVE:
            self._present[self.place] = life


class MemoryOwners:
    """The owners of executions, and the instants at which drivers looked at the store."""

    def __init__(self, store: Store, *, inbox: MemoryInbox, queue: MemoryQueue) -> None:
        self._store, self._inbox, self._queue = store, inbox, queue

    def rows(self) -> Sequence[OwnerRow]:
        events: dict[str, int] = {}
        executions: dict[str, dict[str, int]] = {}
        for execution in self._store.executions.values():
            for event in execution.inbox.values():
                events[event.owner] = events.get(event.owner, 0) + 1
        for name, ids in self._store.owned.items():
            for (workflow_id,) in ids:
                status = self._store.workflows[workflow_id].status.value
                counts = executions.setdefault(name, {})
                counts[status] = counts.get(status, 0) + 1
        events.pop("", None)
        names = sorted(events.keys() | executions.keys())
        return [OwnerRow(name=name, executions=executions.get(name, {}), events=events.get(name, 0)) for name in names]

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """The stretches of an owner's drivers that end after `since`."""
        return sorted((begin, end) for (whose, begin), end in self._store.beside.driven.items() if whose == owner and end > since)

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, with their events and messages, and raise their fences."""
        moved = list(islice(self._owned_by(old, after), limit))
        for workflow_id in moved:
            self._own(workflow_id, old, new)
        return moved

    def _owned_by(self, owner: str, after: str) -> Iterator[str]:
        store = self._store
        for (workflow_id,) in (store.owned.get(owner, Ordered()) if owner else store.ids).after((after,)):
            if store.workflows[workflow_id].owner == owner:
                yield workflow_id

    def _own(self, workflow_id: str, old: str, new: str) -> None:
        store = self._store
        row = store.workflows[workflow_id]
        if old:
            store.discard(store.owned[old], (workflow_id,))
        if new:
            store.add(store.owned.setdefault(new, Ordered()), (workflow_id,))
        store.put(store.workflows, workflow_id, attrs.evolve(row, owner=new, fence=row.fence + 1))
        execution = store.execution(workflow_id)
        for event in list(execution.inbox.values()):
            self._inbox.put_event(event)
        for ref in list(execution.offered):
            message = execution.offered[ref]
            self._queue.put_message(attrs.evolve(message, queue=_renamed(message.queue, old, new)))
        for number, item in list(store.outbox.items.items()):
            if item.workflow_id == workflow_id and item.outgoing.put:
                put = tuple(attrs.evolve(message, queue=_renamed(message.queue, old, new)) for message in item.outgoing.put)
                store.put(store.outbox.items, number, attrs.evolve(item, outgoing=attrs.evolve(item.outgoing, put=put)))

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        store = self._store
        for execution in list(store.executions.values()):
            for event in list(execution.inbox.values()):
                if event.owner == old:
                    self._inbox.put_event(attrs.evolve(event, owner=new))
        for number, item in list(store.outbox.items.items()):
            if any(event.owner == old for event in item.outgoing.posted):
                posted = tuple(attrs.evolve(e, owner=new) if e.owner == old else e for e in item.outgoing.posted)
                store.put(store.outbox.items, number, attrs.evolve(item, outgoing=attrs.evolve(item.outgoing, posted=posted)))
        mine = [row for row in store.beside.schedules.values() if row.owner == old]
        for row in mine:
            store.put(store.beside.schedules, row.name, attrs.evolve(row, owner=new, fence=row.fence + 1))
        return len(mine)

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        store = self._store
        store.put(store.beside.driven, (owner, begin), max(end, store.beside.driven.get((owner, begin), end)))

    def forget_driven(self, owner: str, kept: int) -> None:
        known = sorted(key for key in self._store.beside.driven if key[0] == owner)
        for key in known[: max(0, len(known) - kept)]:
            self._store.drop(self._store.beside.driven, key)


class MemoryTaskHolders:
    """Engines whose workers may hold tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def rows(self) -> Sequence[HolderRow]:
        return [row for _, row in sorted(self._store.beside.holders.items())]

    def put_holder(self, row: HolderRow) -> None:
        self._store.put(self._store.beside.holders, row.holder, row)

    def drop_holder(self, holder: str) -> None:
        self._store.drop(self._store.beside.holders, holder)
