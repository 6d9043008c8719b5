"""Reading a memory store: the queries of `ReadingTransaction`. Every answer is a new list of frozen rows.

Limits, owners, holders and driven time in memory; presences are objects of this process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, Message, MessageKey, queue_prefix
from conductorlite.model.errors import FencedOut
from conductorlite.model.executions import HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.limits import FORGOTTEN, Limit, LimitChange, Line, Member, MemberState
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.memory.rows import BaseReads, BaseWrites, DueKey, Execution, Ordered, unpacked
from conductorlite.store.memory.tables import TableReads
from conductorlite.store.tables import ExecutionFilter, HolderRow, Life, OwnerRow, RelayItem

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["LimitReads", "LimitWrites", "MemoryPresence", "MemoryReads"]


#: Statuses of executions in which a task may be held.
_GOING: Final = [status.value for status in WorkflowStatus if not status.terminal]


def _waits(member: Member) -> bool:
    return member.state is MemberState.WAITING


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


class MemoryMailbox:
    """The messages to one execution."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        return self._execution.mailbox.get(self._execution.mail_keys.get((topic, key), 0))

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        found = self._execution.unreceived.get(topic, ())
        return [self._execution.mailbox[number] for (number,) in islice(found, limit)]

    def messages(self, after: int, limit: int) -> Sequence[WorkflowMessage]:
        mailbox = self._execution.mailbox
        return [mailbox[number] for number in sorted(number for number in mailbox if number > after)[:limit]]


class LimitReads(BaseReads):
    """Limits, and whose work is whose, read."""

    # -- limits --------------------------------------------------------------------------------------------------------

    def line(self, key: str, heads: int) -> Line:
        lanes = {lane: list(islice(waiting, heads + 1)) for lane, waiting in self._store.lines.get(key, {}).items()}
        members = self._store.members.get(key, {})
        found = [members[place[-1]] for places in lanes.values() for place in places[:heads]]
        return Line(
            limit=self._store.limits.get(key) or Limit(key=key),
            heads=tuple(sorted(found, key=lambda one: one.place)),
            more=frozenset(lane for lane, places in lanes.items() if len(places) > heads),
        )

    def member(self, key: str, holder: str) -> Member | None:
        return self._store.members.get(key, {}).get(holder)

    def members(self, key: str) -> Sequence[Member]:
        found = self._store.members.get(key, {}).values()
        return sorted(found, key=lambda one: (one.state is MemberState.WAITING, one.place if _waits(one) else (one.holder,)))

    def members_of(self, workflow_id: str) -> Sequence[Member]:
        return [self._store.members[key][holder] for key, holder in sorted(self._store.members_of.get(workflow_id, {}))]

    def unpolled(self, lane: str) -> Sequence[str]:
        unpolled = self._store.unpolled
        return sorted(key for key in unpolled if lane in self._store.limits[key].unpolled) if unpolled else []

    def limits(self, after: str, limit: int) -> Sequence[Limit]:
        return [self._store.limits[key] for key in sorted(key for key in self._store.limits if key > after)[:limit]]

    def holders(self, key: str, after: str, limit: int) -> Sequence[Member]:
        found = self._store.members.get(key, {}).values()
        return sorted((one for one in found if not _waits(one) and one.holder > after), key=lambda one: one.holder)[:limit]

    def waiting(self, key: str, before: Member | None = None) -> int:
        lanes = self._store.lines.get(key, {}).values()
        return sum(1 for line in lanes for place in (line if before is None else line.before(before.place)))

    # -- owners --------------------------------------------------------------------------------------------------------

    def owners(self) -> Sequence[OwnerRow]:
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

    # -- holders -------------------------------------------------------------------------------------------------------

    def task_holders(self) -> Sequence[HolderRow]:
        return [row for _, row in sorted(self._store.holders.items())]

    def held_by(self, holder: str) -> Sequence[Task]:
        store = self._store
        ids = sorted(workflow_id for status in _GOING for (workflow_id,) in store.by_status.get(status, ()))
        rows = (
            execution.attempts[place] for execution in map(store.executions.__getitem__, ids) for place in sorted(execution.live)
        )
        return [task for task in rows if task.holder == holder]

    # -- driven time ---------------------------------------------------------------------------------------------------

    def driven(self, owner: str, since: int) -> Sequence[tuple[int, int]]:
        """The stretches of an owner's drivers that end after `since`."""
        return sorted((begin, end) for (whose, begin), end in self._store.driven.items() if whose == owner and end > since)


class LimitWrites(LimitReads, BaseWrites):
    """Limits, and whose work is whose, written."""

    # -- limits --------------------------------------------------------------------------------------------------------

    def _change_limits(self, changes: Sequence[LimitChange]) -> None:
        store = self._store
        for change in changes:
            key = change.limit.key
            stored = store.limits.get(key)
            if (0 if stored is None else stored.fence) != change.limit.fence:
                raise FencedOut(f"limit {key!r}: another turn committed after fence {change.limit.fence} was read")
            fence = stored.fence if stored is not None else store.limits.get(FORGOTTEN, Limit(key=FORGOTTEN)).fence
            store.put(store.limits, key, attrs.evolve(change.limit, fence=fence + 1))
            if change.limit.unpolled:
                store.put(store.unpolled, key, True)
            else:
                store.drop(store.unpolled, key)
            for holder in change.gone:
                self._drop_member(key, holder)
            for member in change.put:
                self._drop_member(key, member.holder)
                store.put(store.members.setdefault(key, {}), member.holder, member)
                store.put(store.members_of.setdefault(member.workflow_id, {}), (key, member.holder), True)
                if _waits(member):
                    store.add(store.lines.setdefault(key, {}).setdefault(member.lane, Ordered()), member.place)
            if change.unused and not store.members.get(key):
                self._forget_limit(key)

    def _forget_limit(self, key: str) -> None:
        """Delete the row of a limit; a turn that has read it is fenced out, also by one that comes back."""
        store = self._store
        limit = store.drop(store.limits, key)
        if limit is not None:
            known = store.limits.get(FORGOTTEN, Limit(key=FORGOTTEN)).fence
            store.put(store.limits, FORGOTTEN, Limit(key=FORGOTTEN, fence=max(known, limit.fence)))
        store.drop(store.members, key)
        store.drop(store.lines, key)
        store.drop(store.unpolled, key)

    def _drop_member(self, key: str, holder: str) -> None:
        store = self._store
        member = store.drop(store.members.get(key, {}), holder)
        if member is not None:
            store.drop(store.members_of[member.workflow_id], (key, holder))
            if _waits(member):
                store.discard(store.lines[key][member.lane], member.place)

    def _drop_members_of(self, workflow_id: str) -> None:
        for key, holder in list(self._store.members_of.get(workflow_id, {})):
            self._drop_member(key, holder)

    # -- owners --------------------------------------------------------------------------------------------------------

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
            self._put_event(event)
        for ref in list(execution.offered):
            message = execution.offered[ref]
            self._put_message(attrs.evolve(message, queue=_renamed(message.queue, old, new)))
        for number, item in list(store.outbox.items()):
            if item.workflow_id == workflow_id and item.outgoing.put:
                put = tuple(attrs.evolve(message, queue=_renamed(message.queue, old, new)) for message in item.outgoing.put)
                store.put(store.outbox, number, attrs.evolve(item, outgoing=attrs.evolve(item.outgoing, put=put)))

    def change_owner_of_the_rest(self, old: str, new: str) -> int:
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

    # -- holders -------------------------------------------------------------------------------------------------------

    def put_holder(self, row: HolderRow) -> None:
        self._store.put(self._store.holders, row.holder, row)

    def drop_holder(self, holder: str) -> None:
        self._store.drop(self._store.holders, holder)

    # -- driven time ---------------------------------------------------------------------------------------------------

    def note_driven(self, owner: str, begin: int, end: int) -> None:
        store = self._store
        store.put(store.driven, (owner, begin), max(end, store.driven.get((owner, begin), end)))

    def forget_driven(self, owner: str, kept: int) -> None:
        known = sorted(key for key in self._store.driven if key[0] == owner)
        for key in known[: max(0, len(known) - kept)]:
            self._store.drop(self._store.driven, key)


#: `due_workflows` reads at most `_OVERREAD * (limit + 16)` due events, as the SQLite backend does.
_OVERREAD: Final = 4

#: So many events of an inbox are looked through; of more, those that are due are found along the index of what is.
_FEW: Final = 8

_place: Final = attrgetter("order", "event_id")

_NOBODY: Final = Execution("")


class MemoryReads(LimitReads, TableReads):
    """One consistent view: the backend's lock is held while its block lasts."""

    def _of(self, workflow_id: str) -> Execution:
        return self._store.executions.get(workflow_id, _NOBODY)

    # -- executions ----------------------------------------------------------------------------------------------------

    def workflow(self, workflow_id: str) -> Workflow | None:
        return self._store.workflows.get(workflow_id)

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        execution = self._store.executions.get(workflow_id, _NOBODY)
        last, attempts = execution.last, execution.attempts
        found: dict[str, Task | None] = {}
        for ref in refs:
            found[ref] = attempts[ref, last[ref]] if ref in last else None
        return found

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        execution = self._of(workflow_id)
        return {base_ref: self._latest(execution, base_ref) for base_ref in base_refs}

    def live(self, workflow_id: str) -> Sequence[Task]:
        execution = self._of(workflow_id)
        return [execution.attempts[key] for key in execution.live]

    def failed(self, workflow_id: str) -> Sequence[Task]:
        execution = self._of(workflow_id)
        return [execution.attempts[key] for key in execution.failed]

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        execution = self._of(workflow_id)
        return [execution.attempts[key] for key in execution.last.items()]

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        texts = self._of(workflow_id).texts
        return {digest: Payload(texts[digest], digest=digest) for digest in digests if digest in texts}

    def _last(self, execution: Execution, ref: str) -> Task | None:
        attempt = execution.last.get(ref)
        return None if attempt is None else execution.attempts[ref, attempt]

    def _latest(self, execution: Execution, base_ref: str) -> Task | None:
        rows = execution.loops.get(base_ref)
        key = rows.last() if rows is not None else None
        if key is not None:
            return execution.attempts[key[2], key[1]]
        task = self._last(execution, base_ref)  # outside every loop the definition's reference is the printed one
        return None if task is None or task.iterations else task

    def attempts(self, workflow_id: str) -> Sequence[Task]:
        return sorted(self._of(workflow_id).attempts.values(), key=attrgetter("seq", "attempt", "ref"))

    def task_by_id(self, task_id: str) -> Task | None:
        place = self._store.task_ids.get(task_id)
        return None if place is None else self._of(place[0]).attempts[place[1], place[2]]

    def history(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        return unpacked(sorted([line for line in self._of(workflow_id).history if line[0] > after]))

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        return list(self._store.logs.get(task_id, ()))

    def mailbox(self, workflow_id: str) -> MemoryMailbox:
        return MemoryMailbox(self._of(workflow_id))

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        ids = self._store.ids if status is None else self._store.by_status.get(status.value)
        return [] if ids is None else [workflow_id for (workflow_id,) in islice(ids.after((after,)), limit)]

    def executions(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        return list(islice(self._listed(wanted, after), limit))

    def _listed(self, wanted: ExecutionFilter, after: tuple[int, str] | None) -> Iterator[Workflow]:
        """Along the index that promises the fewest, the rest compared row by row."""
        asked = {"parent": wanted.parent_workflow_id, "correlation": wanted.correlation_id}
        asked |= {"name": wanted.name, "status": None if wanted.status is None else wanted.status.value}
        index = next(((kind, value) for kind, value in asked.items() if value is not None), ("all", ""))
        for _, workflow_id in self._store.created[index].before(after) if index in self._store.created else ():
            row = self._store.workflows[workflow_id]
            found = {"parent": row.parent_workflow_id, "correlation": row.correlation_id}
            found |= {"name": row.name, "status": row.status.value}
            if all(value is None or found[kind] == value for kind, value in asked.items()):
                yield row

    def key_holder(self, name: str, key: str) -> str | None:
        return self._store.keys.get((name, key))

    # -- inbox ---------------------------------------------------------------------------------------------------------

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        inbox = self._of(workflow_id).inbox
        if len(inbox) > _FEW:
            return [inbox[event_id] for event_id in islice(self._due_ids(workflow_id, now), limit)]
        due = [event for event in inbox.values() if event.due_at <= now and not event.held]
        return sorted(due, key=_place)[:limit] if len(due) > 1 else due[:limit]

    def _due_ids(self, workflow_id: str, now: int) -> Iterator[str]:
        """Ids of the events of an execution, of each instant that is due for its owner."""
        row = self._store.workflows.get(workflow_id)
        owner = next(iter(self._of(workflow_id).inbox.values())).owner if row is None else row.owner
        keys = self._store.due.get(owner, Ordered[DueKey]())
        first = keys.first()
        while first is not None and first[0] <= now:
            place = (first[0], workflow_id)
            for key in keys.after(place):
                if key[:2] != place:
                    break
                yield key[-1]
            first = next(keys.after((place[0] + 1,)), None)

    def inbox(self, workflow_id: str) -> Sequence[Event]:
        return sorted(self._of(workflow_id).inbox.values(), key=_place)

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Workflows with due events, the longest due first; a page cut short by one with very many of them is short."""
        found: dict[str, None] = {}
        for due_at, workflow_id, *_ in islice(self._store.due.get(owner, ()), _OVERREAD * (limit + 16)):
            if due_at > now or len(found) >= limit:
                break
            found[workflow_id] = None
        return list(found)

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

    # -- messages ------------------------------------------------------------------------------------------------------

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
        return self._of(key[0]).offered.get(key[1])

    def queue_sizes(self) -> Mapping[str, int]:
        sizes = {queue: sum(map(len, priorities.values())) for queue, priorities in self._store.queues.items()}
        return {queue: size for queue, size in sizes.items() if size}

    def messages(self, limit: int) -> Sequence[Message]:
        places = merge(*(keys for priorities in self._store.queues.values() for keys in priorities.values()))
        return [self._of(workflow_id).offered[ref] for _, workflow_id, _, ref in islice(places, limit)]

    def poll_data(self, task_type: str | None) -> Sequence[PollData]:
        return [poll for key, poll in sorted(self._store.polls.items()) if task_type is None or key[0] == task_type]

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        outbox = self._store.outbox
        return [outbox[item_id] for item_id in sorted(outbox)[:limit]] if outbox else []

    # -- definitions ---------------------------------------------------------------------------------------------------

    def registry_version(self) -> int:
        return self._store.counters["registry"]

    def definition(self, digest: str) -> str | None:
        return self._store.definitions.get(digest)

    def workflow_def(self, name: str, version: int | None) -> str | None:
        if version is None:
            versions = self._store.workflow_versions.get(name)
            newest = versions.last() if versions is not None else None
            if newest is None:
                return None
            version = newest[0]
        return self._store.workflow_defs.get((name, version))

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        return sorted(self._store.workflow_defs)

    def task_def(self, name: str) -> str | None:
        return self._store.task_defs.get(name)

    def task_defs(self) -> Sequence[str]:
        return sorted(self._store.task_defs)
