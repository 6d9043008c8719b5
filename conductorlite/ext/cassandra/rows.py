"""A view: what is an execution's own is read from its partitions, all else from the queue store."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Final

import attrs

from conductorlite.engine.turn_types import pages
from conductorlite.ext.cassandra.partitions import (
    REMOVED,
    SHARDS,
    Asked,
    Cell,
    Head,
    Partitions,
    delivered,
    shard_of,
    task_from,
    workflow_from,
)
from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Message
from conductorlite.model.executions import HistoryEvent, Task, TaskLog, Workflow
from conductorlite.model.mailbox import WorkflowMessage
from conductorlite.store.sqlite.history import history_of
from conductorlite.store.sqlite.rows import mail_of, stored_text
from conductorlite.store.tables import ExecutionFilter, OrphanPayload, Size, Sizes
from conductorlite.store.transactions import ExecutionReads, HistoryReads, PayloadReads, QueueReads, ReadingTransaction

__all__ = [
    "HELD",
    "NEVER",
    "Memory",
    "Parts",
    "SplitDocuments",
    "SplitExecutions",
    "SplitHistory",
    "SplitQueue",
    "SplitTransaction",
    "held_queue",
    "task_key",
]

#: When a message comes due that only says who has a task.
NEVER: Final = 2**53 - 1
#: How the names of queues begin that say who has what.
HELD: Final = "~held/"
_ALL: Final = 10_000_000

#: Executions of which something is known, and rows of one.
_KNOWN: Final = 500
_CELLS: Final = 500

_order: Final = attrgetter("seq", "attempt", "ref")


def held_queue(holder: str) -> str:
    """The queue of what a holder has: messages in flight."""
    return HELD + holder


def task_key(ref: str, attempt: int) -> str:
    """The key of an attempt."""
    return f"{ref}\x1f{attempt:06d}"


class Memory:
    """The cache of one backend of executions at their present fences: heads, and rows that it has read or written.

    It is right when the queue store has got the turn of that fence, and no later one; never asked otherwise. Thread-safe.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, Head, dict[tuple[str, str], Cell | None]]] = {}

    def at(self, workflow_id: str, fence: int) -> tuple[Head, dict[tuple[str, str], Cell | None]] | None:
        """Return the cached rows of an execution at a fence; callers may add rows."""
        known = self._known.get(workflow_id)
        return None if known is None or known[0] != fence else known[1:]

    def keep(self, workflow_id: str, head: Head, cells: dict[tuple[str, str], Cell | None]) -> None:
        """Keep what an execution is at the fence of its head."""
        self._known.pop(workflow_id, None)
        self._known[workflow_id] = (head.fence, head, cells if len(cells) < _CELLS else {})
        while len(self._known) > _KNOWN:
            with suppress(KeyError, RuntimeError, StopIteration):  # another thread was first
                del self._known[next(iter(self._known))]

    def forget(self, workflow_id: str) -> None:
        """Know nothing of it any more."""
        self._known.pop(workflow_id, None)


def _task(cell: Cell, workflow_id: str) -> Task:
    return task_from(cell.text or "", workflow_id)


class Parts:
    """The view of one block on executions: the partitions as they are, and its own writes."""

    def __init__(self, listed: ExecutionReads, partitions: Partitions, behind: set[str], memory: Memory) -> None:
        #: Executions as the queue store has them.
        self._listed = listed
        self.memory, self.partitions = memory, partitions
        #: Executions whose outbox may not have been delivered; shared by all of one backend.
        self.behind = behind
        self.heads: dict[str, Head | None] = {}
        #: What this change has written: by execution, entity and key.
        self.new: dict[str, dict[tuple[str, str], Cell]] = {}
        #: What was known before, of executions that are changed.
        self.before: dict[str, dict[tuple[str, str], Cell | None]] = {}

    def head(self, workflow_id: str) -> Head | None:
        """The head of an execution; None where there is none."""
        if workflow_id not in self.heads:
            # First what the view of the queue store says, which is fixed from then on: an older head would pass for that turn's.
            listed = self._listed.workflow(workflow_id)
            known = None if listed is None else self.memory.at(workflow_id, delivered(listed))
            if known is None:
                head = self.partitions.heads([workflow_id]).get(workflow_id)
                if head is not None and listed is not None and head.fence == delivered(listed):
                    self.memory.keep(workflow_id, head, {})
                self.heads[workflow_id] = head
            else:
                self.heads[workflow_id] = known[0]
        return self.heads[workflow_id]

    def rows(self, workflow_id: str) -> dict[tuple[str, str], Cell | None]:
        """Rows that are known, None: not there; what is found out may be added.

        As before this change: what it has made of them since is asked first.
        """
        before = self.before.get(workflow_id)
        if before is not None:
            return before
        head = self.head(workflow_id)
        known = None if head is None else self.memory.at(workflow_id, head.fence)
        return {} if known is None or known[0] is not head else known[1]

    def joined(self, workflow_id: str, head: Head | None, listed: Workflow | None) -> Workflow | None:
        """The row of an execution: its head's, under the fence of the queue store, which no turn is committed without."""
        if head is None or (listed is None and head.turn == REMOVED):
            if (head is None) is not (listed is None):
                self.behind.add(workflow_id)
            return None
        row, _, _ = workflow_from(head.text)
        if listed is None or delivered(listed) < head.fence:
            self.behind.add(workflow_id)
        if listed is None:
            return attrs.evolve(row, fence=0)
        return attrs.evolve(row, fence=listed.fence, owner=listed.owner, parked=listed.parked, broken_turns=listed.broken_turns)

    def shards(self, workflow_id: str) -> bool | None:
        """Return True if an execution is wide, False if not; None when there is no execution."""
        head = self.head(workflow_id)
        return None if head is None else bool(workflow_from(head.text)[1])

    def read(self, asked: Iterable[Asked]) -> dict[tuple[str, str], Cell]:
        """Rows by entity and key: of two in different shards the newer one."""
        found: dict[tuple[str, str], Cell] = {}
        questions = list(asked)
        for cells in self.partitions.read(questions) if questions else ():
            for cell in cells:
                known = found.get((cell.entity, cell.key))
                if known is None or known.fence < cell.fence:
                    found[cell.entity, cell.key] = cell
        return found

    def cells(self, workflow_id: str, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Cell]:
        """Rows that are there, by their entities and keys."""
        new = self.new.get(workflow_id, {})
        keys = list(dict.fromkeys(keys))
        known = self.rows(workflow_id) if any(key not in new for key in keys) else {}
        missing = [key for key in keys if key not in new and key not in known]
        wide = self.shards(workflow_id) if missing else None
        shards: dict[int, list[tuple[str, str]]] = {} if wide is None or not missing else {0: missing}
        for key in missing if wide else ():
            shards.setdefault(shard_of(key[1]), []).append(key)
        asked = (Asked(workflow_id=workflow_id, shard=shard, keys=tuple(some)) for shard, some in shards.items())
        found = self.read(asked)
        remembered = {key: cell for key in keys if (cell := known.get(key)) is not None}
        known.update((key, found.get(key)) for key in missing)
        found |= remembered | {key: new[key] for key in keys if key in new}
        return {key: cell for key, cell in found.items() if cell.text is not None}

    def seen(self, workflow_id: str, key: tuple[str, str]) -> tuple[bool, Cell | None]:
        """Return whether a row has been read or written here, and the row if it exists."""
        new = self.new.get(workflow_id, {})
        if key in new:
            return True, new[key]
        known = self.rows(workflow_id)
        return key in known, known.get(key)

    def range(self, workflow_id: str, entity: str, prefix: str | None = None, begin: str = "") -> list[Cell]:
        """Rows of an entity in order of their keys: those that begin with a prefix, or from a key on."""
        wide = self.shards(workflow_id)
        low, high = (begin, "\U0010ffff") if prefix is None else (f"{prefix}\x1f", f"{prefix}\x20")
        shards = [] if wide is None else [0]
        if wide:
            shards += range(1, SHARDS + 1) if prefix is None else [shard_of(prefix)]
        asked = (Asked(workflow_id=workflow_id, shard=shard, entity=entity, begin=low, end=high) for shard in shards)
        found = self.read(asked)
        new = self.new.get(workflow_id, {})
        found |= {key: cell for key, cell in new.items() if key[0] == entity and low <= key[1] < high}
        return [found[key] for key in sorted(found) if found[key].text is not None]

    def is_mixed(self) -> bool:
        """Return True if an execution that was read has moved on since, or had not been delivered."""
        heads = self.partitions.heads(list(self.heads))
        for workflow_id, head in self.heads.items():
            listed, now = self._listed.workflow(workflow_id), heads.get(workflow_id)
            stored = [None if one is None else one.fence for one in (head, now)]
            if stored != [None if listed is None else delivered(listed)] * 2:
                return True
        return False


class SplitMailbox:
    """The messages to one execution. What stands under a topic that a message has no more is not found by it."""

    def __init__(self, parts: Parts, workflow_id: str) -> None:
        self._parts, self._id = parts, workflow_id

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        place = ("mailkey", f"{topic}\x1f{key}")
        cell = self._parts.cells(self._id, [place]).get(place)
        found = () if cell is None else self._of([cell.text or ""])
        return next((message for message in found if (message.topic, message.key) == (topic, key)), None)

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        cells = self._parts.range(self._id, "unreceived", topic)
        found = self._of([cell.key.rpartition("\x1f")[2] for cell in cells])
        return [message for message in found if message.topic == topic and message.receiver is None][:limit]

    def messages(self, after: int, limit: int) -> Sequence[WorkflowMessage]:
        cells = self._parts.range(self._id, "mail", begin=f"{after + 1:010d}")
        return [mail_of(tuple(json.loads(cell.text or ""))) for cell in cells[:limit]]

    def _of(self, numbers: Sequence[str]) -> list[WorkflowMessage]:
        cells = self._parts.cells(self._id, [("mail", number) for number in numbers])
        return [mail_of(tuple(json.loads(cells["mail", number].text or ""))) for number in numbers if ("mail", number) in cells]


class SplitExecutions:
    """Executions: listed by the queue store, read from their partitions."""

    def __init__(self, inner: ExecutionReads, parts: Parts, queue: QueueReads) -> None:
        self._inner, self._parts, self._queue = inner, parts, queue
        self.workflow_ids, self.key_holder = inner.workflow_ids, inner.key_holder

    def workflow(self, workflow_id: str) -> Workflow | None:
        """The row of an execution, or None."""
        return self._parts.joined(workflow_id, self._parts.head(workflow_id), self._inner.workflow(workflow_id))

    def page(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        """A page of executions, newest first."""
        listed = self._inner.page(wanted, after, limit)
        unread = [row.workflow_id for row in listed if row.workflow_id not in self._parts.heads]
        heads = self._parts.partitions.heads(unread) if unread else {}
        self._parts.heads |= {workflow_id: heads.get(workflow_id) for workflow_id in unread}
        return [self._parts.joined(row.workflow_id, self._parts.heads[row.workflow_id], row) or row for row in listed]

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references."""
        first = self._parts.cells(workflow_id, [key for ref in refs for key in (("task", task_key(ref, 0)), ("again", ref))])
        last = {ref: int(cell.text or 0) for ref in refs if (cell := first.get(("again", ref))) is not None}
        if last:
            first |= self._parts.cells(workflow_id, [("task", task_key(ref, attempt)) for ref, attempt in last.items()])
        found = {ref: first.get(("task", task_key(ref, last.get(ref, 0)))) for ref in refs}
        return {ref: None if cell is None else _task(cell, workflow_id) for ref, cell in found.items()}

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        """The rows of definition references that were scheduled last, of any round."""
        wide = self._parts.shards(workflow_id)
        new = self._parts.new.get(workflow_id, {})
        if new:  # rows that this change has deleted may have been the last
            loops = {ref: cells[-1] for ref in base_refs if (cells := self._parts.range(workflow_id, "loop", ref))}
        else:
            asked = {
                (ref, shard): Asked(
                    workflow_id=workflow_id, shard=shard, entity="loop", begin=f"{ref}\x1f", end=f"{ref}\x20", last=True
                )
                for ref in (base_refs if wide is not None else ())
                for shard in ((0, shard_of(ref)) if wide else (0,))
            }
            loops = {}
            for (ref, _), last in zip(asked, self._parts.partitions.read(list(asked.values())) if asked else (), strict=True):
                for cell in last:
                    known = loops.get(ref)
                    loops[ref] = cell if known is None or known.key < cell.key else known
        places = {ref: cell.key.split("\x1f") for ref, cell in loops.items()}
        rows = self._parts.cells(workflow_id, [("task", task_key(place[3], int(place[2]))) for place in places.values()])
        plain = self.tasks(workflow_id, [ref for ref in base_refs if ref not in places])
        found: dict[str, Task | None] = {}
        for ref in base_refs:
            if ref in places:
                row = rows.get(("task", task_key(places[ref][3], int(places[ref][2]))))
                found[ref] = None if row is None else _task(row, workflow_id)
            else:
                task = plain[ref]
                found[ref] = None if task is None or task.iterations else task
        return found

    def live(self, workflow_id: str) -> Sequence[Task]:
        """Every live attempt; reads all there are."""
        return [task for task in self.attempts(workflow_id) if task.live]

    def failed(self, workflow_id: str) -> Sequence[Task]:
        """Every attempt that ended in failure and was not tried again; reads all there are."""
        return [task for task in self.attempts(workflow_id) if task.failed]

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt."""
        return list({task.ref: task for task in sorted(self.attempts(workflow_id), key=attrgetter("attempt"))}.values())

    def attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every attempt of an execution, in order of scheduling, then attempt."""
        return sorted((_task(cell, workflow_id) for cell in self._parts.range(workflow_id, "task")), key=_order)

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        """The attempts that turns have changed after that fence; reads all there are."""
        return [_task(cell, workflow_id) for cell in self._parts.range(workflow_id, "task") if cell.fence > fence]

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes."""
        new = self._parts.new.get(workflow_id, {})
        shards: dict[int, list[tuple[str, str]]] = {}
        for digest in dict.fromkeys(digests):
            if ("text", digest) not in new and self._parts.head(workflow_id) is not None:
                shards.setdefault(shard_of(digest), []).append(("text", digest))
        asked = (Asked(workflow_id=workflow_id, shard=shard, keys=tuple(some)) for shard, some in shards.items())
        found = self._parts.read(asked) | {key: cell for key, cell in new.items() if key[0] == "text"}
        return {
            digest: stored_text(digest, cell.text)
            for digest in digests
            if (cell := found.get(("text", digest))) is not None and cell.text is not None
        }

    def task_by_id(self, task_id: str) -> Task | None:
        """The attempt with that id, of any execution."""
        for workflow_id in {*self._parts.partitions.registered(task_id[:8]), *self._parts.new}:
            cell = self._parts.cells(workflow_id, [("id", task_id)]).get(("id", task_id))
            row = (
                None if cell is None else self._parts.cells(workflow_id, [("task", cell.text or "")]).get(("task", cell.text or ""))
            )
            if row is not None and self.workflow(workflow_id) is not None:
                return _task(row, workflow_id)
        return None

    def mailbox(self, workflow_id: str) -> SplitMailbox:
        """The messages to an execution."""
        return SplitMailbox(self._parts, workflow_id)

    def held_by(self, holder: str) -> Sequence[Task]:
        """Return the tasks of a holder, by the messages in flight."""
        held = self._queue.offered(held_queue(holder), NEVER, _ALL)
        found = []
        for message in held:
            cells = self._parts.cells(message.workflow_id, [("task", message.ref[1:])])
            found += [_task(cell, message.workflow_id) for cell in cells.values()]
        return sorted((task for task in found if task.holder == holder), key=attrgetter("workflow_id", "ref", "attempt"))


class SplitHistory:
    """Journals, from the partitions of their executions; what workers logged, from the queue store."""

    #: Of a change only.
    log: Callable[[str, Sequence[TaskLog]], None]

    def __init__(self, inner: HistoryReads, parts: Parts) -> None:
        self._parts, self.logs = parts, inner.logs

    def lines(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        """The journal of an execution, in order: the lines with a greater number than `after`."""
        cells = self._parts.range(workflow_id, "line", begin=f"{after + 1:010d}")
        return [line for cell in cells for line in history_of(tuple(json.loads(cell.text or ""))) if line.n > after]


class SplitQueue:
    """The queue store's queues, without the messages that only say who has a task."""

    #: Of a change only.
    discard: Callable[[Sequence[Message]], None]

    def __init__(self, inner: QueueReads) -> None:
        self._inner = inner
        self.offered, self.message = inner.offered, inner.message

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any."""
        return {queue: size for queue, size in self._inner.queue_sizes().items() if not queue.startswith(HELD)}

    def messages(self, limit: int) -> Sequence[Message]:
        """The next messages of all queues in order of `due_at`."""
        return [message for message in self._inner.messages(limit) if message.due_at != NEVER]

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues (None: in any), or None."""
        at = self._inner.next_message_at(queues)
        return None if at == NEVER else at


class SplitDocuments:
    """Documents in the payload storage, those of a turn too that was not delivered."""

    #: Of a change only.
    mark_orphan: Callable[[Sequence[OrphanPayload]], None]
    unmark_orphan: Callable[[str, int], None]

    def __init__(self, inner: PayloadReads, parts: Parts) -> None:
        self._inner, self._parts = inner, parts
        self.external_used, self.known_externals = inner.external_used, inner.known_externals
        self.loose_payloads, self.loosened_at = inner.loose_payloads, inner.loosened_at

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        """Documents in the payload storage, by hash: those of the last turn also before it is delivered."""
        wanted = None if digests is None else list(digests)
        found = dict(self._inner.externals(workflow_id, wanted))
        if wanted is None:
            cells = self._parts.range(workflow_id, "far")
        else:
            missing = [("far", digest) for digest in wanted if digest not in found]
            cells = list(self._parts.cells(workflow_id, missing).values()) if missing else []
        for cell in cells:
            digest, size, key = json.loads(cell.text or "")
            found.setdefault(digest, ExternalPayload(digest=digest, size=size, key=key))
        return found


class SplitTransaction:
    """A view of the queue store, and the partitions as they are. What it does not answer itself, the queue store does."""

    def __init__(self, inner: ReadingTransaction, parts: Parts) -> None:
        self._inner, self.parts = inner, parts
        self.executions = SplitExecutions(inner.executions, parts, inner.queue)
        self.history = SplitHistory(inner.history, parts)
        self.queue = SplitQueue(inner.queue)
        self.payloads = SplitDocuments(inner.payloads, parts)
        self.inbox, self.poll_data, self.outbox, self.limits = inner.inbox, inner.poll_data, inner.outbox, inner.limits
        self.streams = inner.streams
        self.metadata, self.event_handlers, self.schedules = inner.metadata, inner.event_handlers, inner.schedules
        self.feeds, self.archive, self.owners, self.task_holders = inner.feeds, inner.archive, inner.owners, inner.task_holders

    def sizes(self) -> Sizes:
        """Return the size of everything; reads everything."""
        found = self._inner.sizes()
        kinds, own = dict(found.kinds), dict(found.executions)
        ids = (one for page in pages(lambda after, size: self.executions.workflow_ids(None, after, size), "", str) for one in page)
        for workflow_id in ids:
            row, held = self.executions.workflow(workflow_id), 0
            texts = [Asked(workflow_id=workflow_id, shard=shard, entity="text") for shard in range(1, SHARDS + 1)]
            cells = {"tasks": self.parts.range(workflow_id, "task"), "history": self.parts.range(workflow_id, "line")}
            cells["mailbox"] = self.parts.range(workflow_id, "mail")
            cells["texts"] = list(self.parts.read(texts).values())
            for kind, found_cells in cells.items():
                size = sum(len((cell.text or "").encode()) for cell in found_cells)
                count = len(self.history.lines(workflow_id)) if kind == "history" else len(found_cells)
                kinds[kind] = Size(kinds[kind].rows + count, kinds[kind].bytes + size)
                held += size
            if row is not None:
                known = own.get((row.name, row.status.value), Size(0, 0))
                own[row.name, row.status.value] = Size(known.rows, known.bytes + held)
        return attrs.evolve(found, kinds=kinds, executions=own)
