"""A view and a change: what is an execution's own is read from its partitions, all else from the queue store."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final
from uuid import uuid4

from conductorlite.engine.turn_types import pages
from conductorlite.ext.cassandra.partitions import (
    REMOVED,
    SHARDS,
    Asked,
    Cell,
    Head,
    Item,
    Partitions,
    Turn,
    fields_of,
    item_text,
    shard_of,
    task_cell,
    task_from,
    thin,
    workflow_cell,
    workflow_from,
)
from conductorlite.model import attrs
from conductorlite.model.attrs import changed
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, EventKind, Message
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.executions import HistoryEvent, Task, Workflow
from conductorlite.model.handlers import EventExecution
from conductorlite.store.ports import ReadingTransaction, WritingTransaction
from conductorlite.store.sqlite.history import history_of, history_rows
from conductorlite.store.sqlite.rows import event_row, stored_text
from conductorlite.store.tables import ExecutionFilter, FeedKind, ScheduleRow, Size, Sizes

__all__ = ["SplitReads", "SplitWrites", "held_queue"]

#: From so many scheduled tasks on, or changed rows in one turn, an execution is wide: its rows go to shards.
_WIDE: Final = 1_000
_MANY: Final = 500

#: When a message comes due that only says who has a task.
_NEVER: Final = 2**53 - 1
_HELD: Final = "~held/"
_ALL: Final = 10_000_000

_order: Final = attrgetter("seq", "attempt", "ref")
_identity: Final = attrgetter("task_id", "base_ref", "iterations", "grafts")


def held_queue(holder: str) -> str:
    """The queue of what a holder has: messages in flight."""
    return _HELD + holder


def _key(ref: str, attempt: int) -> str:
    return f"{ref}\x1f{attempt:06d}"


def _loop_key(task: Task) -> str:
    return f"{task.base_ref}\x1f{task.seq:010d}\x1f{task.attempt:06d}\x1f{task.ref}"


class SplitReads:
    """A view of the queue store, and the partitions as they are. What it does not answer itself, the queue store does."""

    def __init__(self, view: ReadingTransaction, partitions: Partitions, behind: set[str]) -> None:
        self._view = view
        self._partitions = partitions
        #: Executions whose outbox may not have been delivered; shared by all of one backend.
        self._behind = behind
        self._heads: dict[str, Head | None] = {}
        #: What this change has written: by execution, entity and key.
        self._new: dict[str, dict[tuple[str, str], Cell]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    # -- partitions ----------------------------------------------------------------------------------------------------

    def _head(self, workflow_id: str) -> Head | None:
        if workflow_id not in self._heads:
            self._heads[workflow_id] = self._partitions.heads([workflow_id]).get(workflow_id)
        return self._heads[workflow_id]

    def _joined(self, workflow_id: str, head: Head | None, listed: Workflow | None) -> Workflow | None:
        """The row of an execution: its head's, under the fence of the queue store, which no turn is committed without."""
        if head is None or (listed is None and head.turn == REMOVED):
            if (head is None) is not (listed is None):
                self._behind.add(workflow_id)
            return None
        row, _, _ = workflow_from(head.text)
        if listed is None or listed.fence < head.fence:
            self._behind.add(workflow_id)
        if listed is None:
            return changed(row, fence=0)
        return changed(row, fence=listed.fence, owner=listed.owner, parked=listed.parked, broken_turns=listed.broken_turns)

    def _shards(self, workflow_id: str) -> bool | None:
        """Whether an execution is wide; None when there is none."""
        head = self._head(workflow_id)
        return None if head is None else bool(workflow_from(head.text)[1])

    def _read(self, asked: Iterable[Asked]) -> dict[tuple[str, str], Cell]:
        """Rows by entity and key: of two in different shards the newer one."""
        found: dict[tuple[str, str], Cell] = {}
        questions = list(asked)
        for cells in self._partitions.read(questions) if questions else ():
            for cell in cells:
                known = found.get((cell.entity, cell.key))
                if known is None or known.fence < cell.fence:
                    found[cell.entity, cell.key] = cell
        return found

    def _cells(self, workflow_id: str, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], Cell]:
        """Rows that are there, by their entities and keys."""
        new = self._new.get(workflow_id, {})
        keys = list(dict.fromkeys(keys))
        missing = [key for key in keys if key not in new]
        wide = self._shards(workflow_id) if missing else None
        shards: dict[int, list[tuple[str, str]]] = {} if wide is None or not missing else {0: missing}
        for key in missing if wide else ():
            shards.setdefault(shard_of(key[1]), []).append(key)
        asked = (Asked(workflow_id=workflow_id, shard=shard, keys=tuple(some)) for shard, some in shards.items())
        found = self._read(asked)
        found |= {key: new[key] for key in keys if key in new}
        return {key: cell for key, cell in found.items() if cell.text is not None}

    def _range(self, workflow_id: str, entity: str, prefix: str | None = None, begin: str = "") -> list[Cell]:
        """Rows of an entity in order of their keys: those that begin with a prefix, or from a key on."""
        wide = self._shards(workflow_id)
        low, high = (begin, "\U0010ffff") if prefix is None else (f"{prefix}\x1f", f"{prefix}\x20")
        shards = [] if wide is None else [0]
        if wide:
            shards += range(1, SHARDS + 1) if prefix is None else [shard_of(prefix)]
        asked = (Asked(workflow_id=workflow_id, shard=shard, entity=entity, begin=low, end=high) for shard in shards)
        found = self._read(asked)
        new = self._new.get(workflow_id, {})
        found |= {key: cell for key, cell in new.items() if key[0] == entity and low <= key[1] < high}
        return [found[key] for key in sorted(found) if found[key].text is not None]

    def _task(self, cell: Cell, workflow_id: str) -> Task:
        return task_from(cell.text or "", workflow_id)

    # -- executions ----------------------------------------------------------------------------------------------------

    def workflow(self, workflow_id: str) -> Workflow | None:
        """The row of an execution, or None."""
        return self._joined(workflow_id, self._head(workflow_id), self._view.workflow(workflow_id))

    def executions(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        """A page of executions, newest first."""
        listed = self._view.executions(wanted, after, limit)
        unread = [row.workflow_id for row in listed if row.workflow_id not in self._heads]
        heads = self._partitions.heads(unread) if unread else {}
        self._heads |= {workflow_id: heads.get(workflow_id) for workflow_id in unread}
        return [self._joined(row.workflow_id, self._heads[row.workflow_id], row) or row for row in listed]

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references."""
        first = self._cells(workflow_id, [key for ref in refs for key in (("task", _key(ref, 0)), ("again", ref))])
        last = {ref: int(cell.text or 0) for ref in refs if (cell := first.get(("again", ref))) is not None}
        if last:
            first |= self._cells(workflow_id, [("task", _key(ref, attempt)) for ref, attempt in last.items()])
        found = {ref: first.get(("task", _key(ref, last.get(ref, 0)))) for ref in refs}
        return {ref: None if cell is None else self._task(cell, workflow_id) for ref, cell in found.items()}

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        """The rows of definition references that were scheduled last, of any round."""
        wide = self._shards(workflow_id)
        new = self._new.get(workflow_id, {})
        if new:  # rows that this change has deleted may have been the last
            loops = {ref: cells[-1] for ref in base_refs if (cells := self._range(workflow_id, "loop", ref))}
        else:
            asked = {
                (ref, shard): Asked(
                    workflow_id=workflow_id, shard=shard, entity="loop", begin=f"{ref}\x1f", end=f"{ref}\x20", last=True
                )
                for ref in (base_refs if wide is not None else ())
                for shard in ((0, shard_of(ref)) if wide else (0,))
            }
            loops = {}
            for (ref, _), last in zip(asked, self._partitions.read(list(asked.values())) if asked else (), strict=True):
                for cell in last:
                    known = loops.get(ref)
                    loops[ref] = cell if known is None or known.key < cell.key else known
        places = {ref: cell.key.split("\x1f") for ref, cell in loops.items()}
        rows = self._cells(workflow_id, [("task", _key(place[3], int(place[2]))) for place in places.values()])
        plain = self.tasks(workflow_id, [ref for ref in base_refs if ref not in places])
        found: dict[str, Task | None] = {}
        for ref in base_refs:
            if ref in places:
                row = rows.get(("task", _key(places[ref][3], int(places[ref][2]))))
                found[ref] = None if row is None else self._task(row, workflow_id)
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
        return sorted((self._task(cell, workflow_id) for cell in self._range(workflow_id, "task")), key=_order)

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        """The attempts that turns have changed after that fence; reads all there are."""
        return [self._task(cell, workflow_id) for cell in self._range(workflow_id, "task") if cell.fence > fence]

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes."""
        new = self._new.get(workflow_id, {})
        shards: dict[int, list[tuple[str, str]]] = {}
        for digest in dict.fromkeys(digests):
            if ("text", digest) not in new and self._head(workflow_id) is not None:
                shards.setdefault(shard_of(digest), []).append(("text", digest))
        asked = (Asked(workflow_id=workflow_id, shard=shard, keys=tuple(some)) for shard, some in shards.items())
        found = self._read(asked) | {key: cell for key, cell in new.items() if key[0] == "text"}
        return {
            digest: stored_text(digest, cell.text)
            for digest in digests
            if (cell := found.get(("text", digest))) is not None and cell.text is not None
        }

    def task_by_id(self, task_id: str) -> Task | None:
        """The attempt with that id, of any execution."""
        for workflow_id in {*self._partitions.registered(task_id[:8]), *self._new}:
            cell = self._cells(workflow_id, [("id", task_id)]).get(("id", task_id))
            row = None if cell is None else self._cells(workflow_id, [("task", cell.text or "")]).get(("task", cell.text or ""))
            if row is not None and self.workflow(workflow_id) is not None:
                return self._task(row, workflow_id)
        return None

    def history(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        """The journal of an execution, in order: the lines with a greater number than `after`."""
        cells = self._range(workflow_id, "line", begin=f"{after + 1:010d}")
        return [line for cell in cells for line in history_of(tuple(json.loads(cell.text or ""))) if line.n > after]

    def sizes(self) -> Sizes:
        """How much there is; reads everything."""
        found = self._view.sizes()
        kinds, own = dict(found.kinds), dict(found.executions)
        ids = (one for page in pages(lambda after, size: self.workflow_ids(None, after, size), "", str) for one in page)
        for workflow_id in ids:
            row, held = self.workflow(workflow_id), 0
            for entity, kind in (("task", "tasks"), ("line", "history"), ("text", "texts")):
                cells = self._range(workflow_id, entity)
                size = sum(len((cell.text or "").encode()) for cell in cells)
                kinds[kind] = Size(kinds[kind].rows + len(cells), kinds[kind].bytes + size)
                held += size
            if row is not None:
                known = own.get((row.name, row.status.value), Size(0, 0))
                own[row.name, row.status.value] = Size(known.rows, known.bytes + held)
        return attrs.evolve(found, kinds=kinds, executions=own)

    # -- who has what --------------------------------------------------------------------------------------------------

    def held_by(self, holder: str) -> Sequence[Task]:
        """What a holder has: the messages in flight say it."""
        held = self._view.offered(held_queue(holder), _NEVER, _ALL)
        found = []
        for message in held:
            cells = self._cells(message.workflow_id, [("task", message.ref[1:])])
            found += [self._task(cell, message.workflow_id) for cell in cells.values()]
        return sorted((task for task in found if task.holder == holder), key=attrgetter("workflow_id", "ref", "attempt"))

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any."""
        return {queue: size for queue, size in self._view.queue_sizes().items() if not queue.startswith(_HELD)}

    def messages(self, limit: int) -> Sequence[Message]:
        """The next messages of all queues in order of `due_at`."""
        return [message for message in self._view.messages(limit) if message.due_at != _NEVER]

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues (None: in any), or None."""
        at = self._view.next_message_at(queues)
        return None if at == _NEVER else at


@attrs.define(slots=True, kw_only=True)
class _Pending:
    """What a change will do to one partition."""

    created: bool
    #: The stored fence must be less than this.
    limit: int
    head: Head
    cells: dict[tuple[str, str], Cell] = attrs.field(factory=dict)
    texts: list[tuple[int, Cell]] = attrs.field(factory=list)
    items: list[Item] = attrs.field(factory=list)


class SplitWrites(SplitReads):
    """A change: applied in the queue store at once, in the partitions at its end."""

    _view: WritingTransaction

    def __init__(self, view: WritingTransaction, partitions: Partitions, behind: set[str]) -> None:
        super().__init__(view, partitions, behind)
        self.pending: dict[str, _Pending] = {}
        #: Executions that are removed, with the fences of their heads.
        self.removed: dict[str, Head] = {}
        self.kept: list[tuple[str, str, str | None]] = []

    # -- executions ----------------------------------------------------------------------------------------------------

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence; on any error it alone is undone."""
        workflow = decision.workflow
        workflow_id = workflow.workflow_id
        listed = self._view.workflow(workflow_id)
        head = self._head(workflow_id)
        made = _Made(self, decision, head)
        fits = listed is None if decision.created else listed is not None and listed.fence == workflow.fence
        if fits and head is not None and decision.created and workflow_id not in self.removed:
            self._behind.add(workflow_id)
            raise FencedOut(f"{workflow_id}: a start that was not delivered is there")
        if fits and made.problem:
            raise InvariantBroken(f"{workflow_id}: rows contradict the store: {made.problem}")
        small = thin(decision)
        outgoing = small.outgoing
        small = changed(
            small, outgoing=changed(outgoing, removed=(*outgoing.removed, *made.freed), put=(*outgoing.put, *made.held))
        )
        try:
            self._view.apply(small)
        except FencedOut:
            self._behind.add(workflow_id)
            raise
        if decision.dropped or decision.renamed:
            for kind in FeedKind:
                self._view.mark_pending(kind, [workflow_id])
        row = self._view.workflow(workflow_id)
        self._pend(decision, small, made, workflow.fence + 1 if row is None else row.fence)

    def _pend(self, decision: Decision, small: Decision, made: _Made, fence: int) -> None:
        workflow_id = decision.workflow.workflow_id
        cells = {place: Cell(*place, text, fence) for place, text in made.new.items()}
        outer = tuple((shard_of(cell.key), cell) for cell in cells.values()) if made.wide else ()
        known = self.pending.get(workflow_id)
        pending = known or _Pending(created=decision.created, limit=fence, head=Head(fence=fence, text=""))
        pending.items.append(Item(fence=fence, decision=small, cells=outer))
        pending.head = Head(fence=fence, text=workflow_cell(decision.workflow, wide=made.wide, lines=made.lines))
        # Of a wide execution what is deleted may be in the partition of its head, too.
        pending.cells |= {place: cell for place, cell in cells.items() if cell.text is None or not made.wide}
        texts = [Cell("text", one.digest, one.text, fence) for one in decision.texts if one.text is not None]
        pending.texts += [(shard_of(cell.key), cell) for cell in texts]
        self.pending[workflow_id] = pending
        self._heads[workflow_id] = pending.head
        self._new.setdefault(workflow_id, {}).update(cells | {("text", cell.key): cell for cell in texts})

    def turns(self) -> list[Turn]:
        """The transactions of this change."""
        return [
            Turn(
                workflow_id=workflow_id,
                created=one.created,
                fence=one.limit,
                head=changed(one.head, item=item_text(one.items), turn=uuid4().hex),
                cells=tuple(one.cells.values()),
            )
            for workflow_id, one in self.pending.items()
        ]

    def remove(self, workflow_id: str) -> None:
        """Delete an execution with all that belongs to it."""
        self._view.remove(workflow_id)
        head = self._head(workflow_id)
        known = self.pending.pop(workflow_id, None)
        if head is not None and (known is None or not known.created):
            self.removed[workflow_id] = head
        self._heads[workflow_id] = None
        self._new.pop(workflow_id, None)

    # -- what is kept in Cassandra as well, for the sweep --------------------------------------------------------------

    def embed(self, digest: str, text: str) -> None:
        """Keep a definition under its content hash; nothing happens when it is there."""
        if self._view.definition(digest) is None:
            self._view.embed(digest, text)
            self._keep("embed", digest, text)

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a workflow definition."""
        self._view.put_workflow_def(name, version, text)
        self._keep("put_workflow_def", name, version, text)

    def put_task_def(self, name: str, text: str) -> None:
        """Register or replace a task definition."""
        self._view.put_task_def(name, text)
        self._keep("put_task_def", name, text)

    def drop_workflow_def(self, name: str, version: int) -> None:
        """Delete a registered workflow definition."""
        self._view.drop_workflow_def(name, version)
        self._keep("put_workflow_def", name, version, None)

    def drop_task_def(self, name: str) -> None:
        """Delete a registered task definition."""
        self._view.drop_task_def(name)
        self._keep("put_task_def", name, None)

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a schema."""
        self._view.put_schema_def(name, version, text)
        self._keep("put_schema_def", name, version, text)

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        """Register or replace an event handler."""
        self._view.put_event_handler(name, event, active, text)
        self.kept.append(("definitions", f"put_event_handler\x1f{name}", json.dumps([name, event, active, text])))

    def drop_event_handler(self, name: str) -> None:
        """Delete an event handler."""
        self._view.drop_event_handler(name)
        self.kept.append(("definitions", f"put_event_handler\x1f{name}", None))

    def add_event_execution(self, execution: EventExecution) -> None:
        """Keep a record of what became of a message."""
        self._view.add_event_execution(execution)
        said = [*execution.key, execution.status.value, execution.action, execution.created, execution.output.text]
        self.kept.append(("event_executions", json.dumps(execution.key), json.dumps(said)))

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Any]) -> None:
        """Store a schedule under its fence."""
        self._view.put_schedule(row, consumed, events)
        said = [row.name, row.address, row.text, row.progress, row.waits, row.owner, [event_row(event) for event in events]]
        self.kept.append(("definitions", f"put_schedule\x1f{row.name}", json.dumps(said)))

    def drop_schedule(self, name: str) -> None:
        """Delete a schedule with its inbox."""
        self._view.drop_schedule(name)
        self.kept.append(("definitions", f"put_schedule\x1f{name}", None))

    def _keep(self, verb: str, *said: str | int | None) -> None:
        key = "\x1f".join(map(str, (verb, *said[:-1])))
        self.kept.append(("definitions", key, None if said[-1] is None else json.dumps(said)))


class _Made:
    """The rows of one decision, made of those that are stored; what contradicts them is a `problem`."""

    def __init__(self, reads: SplitWrites, decision: Decision, head: Head | None) -> None:
        self._reads = reads
        self._id = decision.workflow.workflow_id
        self.problem = ""
        #: Rows by entity and key, None: deleted.
        self.new: dict[tuple[str, str], str | None] = {}
        self.held: list[Message] = []
        self.freed: list[tuple[str, str]] = []
        _, wide, self.lines = (None, False, 0) if head is None or decision.created else workflow_from(head.text)
        changes = len(decision.updated) + len(decision.inserted)
        self.wide = wide or decision.workflow.task_seq > _WIDE or changes > _MANY
        self._drop(decision.dropped)
        self._put(decision)
        for renamed in decision.renamed:
            self._rename(renamed.ref, renamed.new_ref, renamed.new_base_ref)
        self._journal(decision.history)
        for one in decision.externals:
            self.new["far", one.digest] = json.dumps([one.digest, one.size, one.key])
        for change in decision.limits:
            self.new |= {("slot", f"{change.limit.key}\x1f{holder}"): None for holder in change.gone}
            mine = (member for member in change.put if member.workflow_id == self._id)
            self.new |= {("slot", f"{change.limit.key}\x1f{member.holder}"): json.dumps(fields_of(member)) for member in mine}
        for event in decision.outgoing.posted:
            if event.kind is EventKind.START:
                self.new["sent", event.workflow_id] = json.dumps(event_row(event), ensure_ascii=False)

    def _stored(self, ref: str) -> list[Task]:
        """The attempts at a reference, with what this decision has made of them."""
        rows = {cell.key: cell.text for cell in self._reads._range(self._id, "task", ref)}
        rows |= {key: text for (entity, key), text in self.new.items() if entity == "task" and key.startswith(f"{ref}\x1f")}
        return [task_from(text, self._id) for _, text in sorted(rows.items()) if text is not None]

    def _drop(self, refs: Sequence[str]) -> None:
        for ref in refs:
            for task in self._stored(ref):
                self._forget(task)
            self.new["again", ref] = None

    def _forget(self, task: Task) -> None:
        self.new["task", _key(task.ref, task.attempt)] = self.new["id", task.task_id] = None
        if task.iterations:
            self.new["loop", _loop_key(task)] = None
        if task.holder is not None:
            self.freed.append((task.workflow_id, "~" + _key(task.ref, task.attempt)))

    def _put(self, decision: Decision) -> None:
        asked = [("task", _key(task.ref, task.attempt)) for task in (*decision.updated, *decision.inserted)]
        asked += [place for task in decision.inserted for place in (("id", task.task_id), ("again", task.ref))]
        cells = self._reads._cells(self._id, [place for place in asked if place not in self.new]) if not decision.created else {}
        known = {place: cell.text for place, cell in cells.items()}
        for task in decision.updated:
            place = ("task", _key(task.ref, task.attempt))
            text = self.new.get(place, known.get(place))
            old = None if text is None else task_from(text, self._id)
            if old is None or _identity(old) != _identity(task):
                self.problem = f"an updated task has no row of that identity: {task.ref}"
                return
            self._set(old, task)
        for task in decision.inserted:
            places = ("task", _key(task.ref, task.attempt)), ("id", task.task_id)
            if any(self.new.get(place, known.get(place)) is not None for place in places):
                self.problem = f"{task.ref} exists"
                return
            again = self.new.get(("again", task.ref), known.get(("again", task.ref)))
            if task.attempt > int(again or 0):
                self.new["again", task.ref] = str(task.attempt)
            self._set(None, task)

    def _set(self, old: Task | None, new: Task) -> None:
        key = _key(new.ref, new.attempt)
        self.new["task", key] = task_cell(new)
        if old is None:
            self.new["id", new.task_id] = key
        elif old.iterations and old.seq != new.seq:
            self.new["loop", _loop_key(old)] = None
        if new.iterations and (old is None or old.seq != new.seq):
            self.new["loop", _loop_key(new)] = ""
        if new.holder is not None and (old is None or old.holder != new.holder):
            message = Message(
                queue=held_queue(new.holder),
                workflow_id=new.workflow_id,
                ref="~" + key,
                attempt=new.attempt,
                generation=0,
                task_id=new.task_id,
                due_at=_NEVER,
            )
            self.held.append(message)
        elif new.holder is None and old is not None and old.holder is not None:
            self.freed.append((new.workflow_id, "~" + key))

    def _rename(self, ref: str, new_ref: str, new_base_ref: str) -> None:
        if self._stored(new_ref):
            self.problem = self.problem or f"{new_ref} exists"
            return
        rows = self._stored(ref)
        for task in rows:
            self._forget(task)
        self.new["again", ref] = None
        for task in rows:
            self._set(None, attrs.evolve(task, ref=new_ref, base_ref=new_base_ref))
        if rows and rows[-1].attempt:
            self.new["again", new_ref] = str(rows[-1].attempt)

    def _journal(self, lines: Sequence[HistoryEvent]) -> None:
        if lines and lines[0].n <= self.lines:
            self.problem = self.problem or f"line {lines[0].n} exists"
        for first, at, texts in history_rows(0, lines) if lines else ():
            self.lines = first + texts.count("\x1e")
            self.new["line", f"{self.lines:010d}"] = json.dumps([first, at, texts], ensure_ascii=False)
