"""Reading a memory store: the queries of `ReadingTransaction`. Every answer is a new list of frozen rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, Message, MessageKey
from conductorlite.model.executions import HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.memory.limits import LimitReads
from conductorlite.store.memory.rows import DueKey, Execution, Ordered
from conductorlite.store.memory.tables import TableReads
from conductorlite.store.tables import ExecutionFilter, RelayItem

__all__ = ["MemoryReads"]

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
        execution = self._of(workflow_id)
        return {ref: self._last(execution, ref) for ref in refs}

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
        return sorted(self._of(workflow_id).attempts.values(), key=lambda task: (task.seq, task.attempt, task.ref))

    def task_by_id(self, task_id: str) -> Task | None:
        place = self._store.task_ids.get(task_id)
        return None if place is None else self._of(place[0]).attempts[place[1], place[2]]

    def history(self, workflow_id: str) -> Sequence[HistoryEvent]:
        return sorted(self._of(workflow_id).history, key=attrgetter("n"))

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        return list(self._store.logs.get(task_id, ()))

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
        return min((key[0] for keys in self._due_of(owner) if (key := keys.first()) is not None), default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        executions = self._store.executions
        places = islice(merge(*self._due_of(owner)), limit)
        return [executions[workflow_id].inbox[event_id] for _, workflow_id, *_, event_id in places]

    # -- messages ------------------------------------------------------------------------------------------------------

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first."""
        found: list[Message] = []
        for _, keys in sorted(self._store.queues.get(queue, {}).items()):
            for due_at, workflow_id, ref in keys:
                if due_at > now or len(found) >= limit:
                    break
                found.append(self._store.messages[workflow_id, ref])
        return found

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        if queues is None:
            firsts = [self._store.messages_due.first()]
        else:
            firsts = [keys.first() for queue in queues for keys in self._store.queues.get(queue, {}).values()]
        return min((key[0] for key in firsts if key is not None), default=None)

    def message(self, key: MessageKey) -> Message | None:
        return self._store.messages.get(key)

    def queue_sizes(self) -> Mapping[str, int]:
        return {queue: size for queue, size in self._store.sizes.items() if size}

    def messages(self, limit: int) -> Sequence[Message]:
        return [self._store.messages[key[1], key[2]] for key in islice(self._store.messages_due, limit)]

    def poll_data(self, task_type: str | None) -> Sequence[PollData]:
        return [poll for key, poll in sorted(self._store.polls.items()) if task_type is None or key[0] == task_type]

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        return [self._store.outbox[item_id] for item_id in islice(sorted(self._store.outbox), limit)]

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
