"""Owners in a memory store: `ports.OwnerReads` and `ports.OwnerWrites`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import attrs

from conductorlite.backends.memory.ordered import Ordered
from conductorlite.backends.memory.store import Store
from conductorlite.decisions import Event, Message, queue_prefix
from conductorlite.ports import OwnerRow

__all__ = ["MemoryOwnerReads", "MemoryOwnerWrites"]


class MemoryOwnerReads:
    """Finding owners."""

    _store: Store

    def owners(self) -> Sequence[OwnerRow]:
        """Everybody who owns an execution or a letter, in order of names."""
        letters: dict[str, int] = {}
        executions: dict[str, dict[str, int]] = {}
        for execution in self._store.executions.values():
            for event in execution.inbox.values():
                letters[event.owner] = letters.get(event.owner, 0) + 1
        for name, ids in self._store.owned.items():
            for (workflow_id,) in ids:
                status = self._store.workflows[workflow_id].status.value
                counts = executions.setdefault(name, {})
                counts[status] = counts.get(status, 0) + 1
        letters.pop("", None)
        names = sorted(letters.keys() | executions.keys())
        return [OwnerRow(name=name, executions=executions.get(name, {}), letters=letters.get(name, 0)) for name in names]


class MemoryOwnerWrites:
    """Changing owners."""

    _store: Store

    if TYPE_CHECKING:

        def _put_event(self, event: Event) -> None: ...

        def _put_message(self, message: Message) -> None: ...

    def change_owner(self, old: str, new: str, after: str, limit: int) -> Sequence[str]:
        """Give up to `limit` executions of one owner to another, with their letters and messages, and raise their fences."""
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
            self._put_event(event)
        for ref in list(execution.offered):
            message = store.messages[workflow_id, ref]
            self._put_message(attrs.evolve(message, queue=_renamed(message.queue, old, new)))
        for number, item in list(store.outbox.items()):
            if item.workflow_id == workflow_id and item.outgoing.put:
                put = tuple(attrs.evolve(message, queue=_renamed(message.queue, old, new)) for message in item.outgoing.put)
                store.put(store.outbox, number, attrs.evolve(item, outgoing=attrs.evolve(item.outgoing, put=put)))

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
        """Give an owner's schedules, and its letters to what has not begun, to another."""
        store = self._store
        for execution in list(store.executions.values()):
            for event in list(execution.inbox.values()):
                if event.owner == old:
                    self._put_event(attrs.evolve(event, owner=new))
        for number, item in list(store.outbox.items()):
            if any(event.owner == old for event in item.outgoing.posted):
                posted = tuple(attrs.evolve(e, owner=new) if e.owner == old else e for e in item.outgoing.posted)
                store.put(store.outbox, number, attrs.evolve(item, outgoing=attrs.evolve(item.outgoing, posted=posted)))
        mine = [row for row in store.schedules.values() if row.owner == old]
        for row in mine:
            store.put(store.schedules, row.name, attrs.evolve(row, owner=new, fence=row.fence + 1))
        return len(mine)


def _renamed(queue: str, old: str, new: str) -> str:
    prefix = queue_prefix(old)
    return queue_prefix(new) + queue[len(prefix) :] if queue.startswith(prefix) else queue
