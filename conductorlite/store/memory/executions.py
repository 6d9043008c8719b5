"""Executions in memory, read and removed. Every answer is a new list of frozen rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Outgoing
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.memory.limits import MemoryLimits
from conductorlite.store.memory.mailboxes import MemoryInbox, MemoryQueue
from conductorlite.store.memory.rows import (
    MISSING,
    NOBODY,
    Execution,
    Store,
    ordered,
)
from conductorlite.store.memory.tables import MemoryDocuments, MemoryFeeds
from conductorlite.store.tables import (
    ExecutionFilter,
)

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["MemoryExecutions"]

#: Statuses of executions in which a task may be held.
_GOING: Final = [status.value for status in WorkflowStatus if not status.terminal]


#: What may change, beside its status, of that under which an execution is listed.
_named: Final = attrgetter("name", "correlation_id")


def _indexes(workflow: Workflow | None) -> dict[tuple[str, str], tuple[int, str]]:
    """Under what an execution is listed, and its place there."""
    if workflow is None:
        return {}
    found = [("all", ""), ("name", workflow.name), ("status", workflow.status.value)]
    if workflow.correlation_id is not None:
        found.append(("correlation", workflow.correlation_id))
    if workflow.parent_workflow_id is not None:
        found.append(("parent", workflow.parent_workflow_id))
    return dict.fromkeys(found, (workflow.created_at, workflow.workflow_id))


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


class MemoryExecutions:
    """Rows of executions and of their attempts."""

    def __init__(
        self,
        store: Store,
        *,
        inbox: MemoryInbox,
        queue: MemoryQueue,
        limits: MemoryLimits,
        payloads: MemoryDocuments,
        feeds: MemoryFeeds,
    ) -> None:
        self._store, self._inbox, self._queue = store, inbox, queue
        self._limits, self._payloads, self._feeds = limits, payloads, feeds

    def workflow(self, workflow_id: str) -> Workflow | None:
        return self._store.workflows.get(workflow_id)

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        execution = self._store.executions.get(workflow_id, NOBODY)
        last, attempts = execution.last, execution.attempts
        found: dict[str, Task | None] = {}
        for ref in refs:
            found[ref] = attempts[ref, last[ref]] if ref in last else None
        return found

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        execution = self._store.of(workflow_id)
        return {base_ref: self._latest(execution, base_ref) for base_ref in base_refs}

    def live(self, workflow_id: str) -> Sequence[Task]:
        execution = self._store.of(workflow_id)
        return [execution.attempts[key] for key in execution.live]

    def failed(self, workflow_id: str) -> Sequence[Task]:
        execution = self._store.of(workflow_id)
        return [execution.attempts[key] for key in execution.failed]

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        execution = self._store.of(workflow_id)
        return [execution.attempts[key] for key in execution.last.items()]

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        texts = self._store.of(workflow_id).texts
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
        return sorted(self._store.of(workflow_id).attempts.values(), key=attrgetter("seq", "attempt", "ref"))

    def task_by_id(self, task_id: str) -> Task | None:
        place = self._store.task_ids.get(task_id)
        return None if place is None else self._store.of(place[0]).attempts[place[1], place[2]]

    def mailbox(self, workflow_id: str) -> MemoryMailbox:
        return MemoryMailbox(self._store.of(workflow_id))

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        ids = self._store.ids if status is None else self._store.by_status.get(status.value)
        return [] if ids is None else [workflow_id for (workflow_id,) in islice(ids.after((after,)), limit)]

    def page(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
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

    def held_by(self, holder: str) -> Sequence[Task]:
        store = self._store
        ids = sorted(workflow_id for status in _GOING for (workflow_id,) in store.by_status.get(status, ()))
        rows = (
            execution.attempts[place] for execution in map(store.executions.__getitem__, ids) for place in sorted(execution.live)
        )
        return [task for task in rows if task.holder == holder]

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        execution = self._store.executions.get(workflow_id)
        attempts = {} if execution is None else execution.attempts
        return [task for place, task in attempts.items() if execution is not None and execution.fences[place] > fence]

    def put_workflow(self, old: Workflow | None, new: Workflow | None) -> None:
        """Store the row of an execution in the place of an older one; None: there is none."""
        store = self._store
        if old is not None and (new is None or new.status is not old.status):
            store.discard(store.by_status[old.status.value], (old.workflow_id,))
        if old is not None and new is None:
            store.drop(store.workflows, old.workflow_id)
            store.discard(store.ids, (old.workflow_id,))
            if old.owner:
                store.discard(store.owned[old.owner], (old.workflow_id,))
        if old is None or new is None or new.status is not old.status or _named(old) != _named(new):
            before, after = _indexes(old), _indexes(new)
            for index, key in before.items() - after.items():
                store.discard(store.created[index], key)
            for index, key in after.items() - before.items():
                store.add(ordered(store.created, index), key)
        if new is not None:
            store.note((store.workflows, new.workflow_id, MISSING if old is None else old))
            store.workflows[new.workflow_id] = new
            if old is None:
                store.add(store.ids, (new.workflow_id,))
                if new.owner:
                    store.add(ordered(store.owned, new.owner), (new.workflow_id,))
            if old is None or new.status is not old.status:
                store.add(ordered(store.by_status, str(new.status)), (new.workflow_id,))

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        workflow = self._store.workflows.get(workflow_id)
        if workflow is not None:
            fence = workflow.fence + (reason is not None)
            parked = attrs.evolve(workflow, broken_turns=broken_turns, parked=reason, fence=fence)
            self._store.put(self._store.workflows, workflow_id, parked)
        if reason is not None:
            for event in list(self._store.of(workflow_id).inbox.values()):
                if not event.held:
                    self._inbox.put_event(attrs.evolve(event, held=True))

    def release(self, workflow_id: str, now: int) -> None:
        self.park(workflow_id, 0, None)
        self._inbox.release_held(self._store.of(workflow_id), now)

    def remove(self, workflow_id: str) -> None:
        store = self._store
        self._limits.drop_members_of(workflow_id)
        row = store.workflows.get(workflow_id)
        self.put_workflow(row, None)
        if row is not None:
            store.put(store.counters, "removed", max(store.counters["removed"], row.fence))
            self._feeds.pend(workflow_id)
            for kind in store.feeds.rows:
                store.drop(store.feeds.indexed, (kind, workflow_id))
        place = store.drop(store.key_of, workflow_id)
        if place is not None:
            store.drop(store.keys, place)
        execution = self._store.of(workflow_id)
        for task in execution.attempts.values():
            store.drop(store.task_ids, task.task_id)
        for ref in list(execution.offered):
            self._queue.drop_message((workflow_id, ref))
        for event_id in list(execution.inbox):
            self._inbox.drop_event(execution, event_id)
        for task_id in execution.logged:
            store.drop(store.beside.logs, task_id)
        for item in [item for item in store.outbox.items.values() if item.workflow_id == workflow_id]:
            # what it wrote to others still goes out; its own messages are removed
            store.put(store.outbox.items, item.item_id, attrs.evolve(item, outgoing=Outgoing(posted=item.outgoing.posted)))
        self._payloads.forget(workflow_id)
        store.drop(store.executions, workflow_id)
