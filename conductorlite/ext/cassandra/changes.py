"""A change: tried in the queue store at once, carried out in both at its end. And the rows of a decision."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from inspect import signature
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final

import attrs

from conductorlite.ext.cassandra.delivery import said
from conductorlite.ext.cassandra.partitions import (
    Asked,
    Cell,
    Head,
    Item,
    Turn,
    delivered,
    fields_of,
    item_text,
    marked,
    shard_of,
    task_cell,
    task_from,
    thin,
    workflow_cell,
    workflow_from,
)
from conductorlite.ext.cassandra.rows import NEVER, Parts, SplitExecutions, SplitTransaction, held_queue, task_key
from conductorlite.model.decisions import Decision, Event, EventKind, Message
from conductorlite.model.errors import FencedOut, InvariantBroken
from conductorlite.model.executions import HistoryEvent, Task
from conductorlite.model.handlers import EventExecution
from conductorlite.store.nouns import CHANGES, NOUNS, QUESTIONS, Watched
from conductorlite.store.sqlite.history import history_rows
from conductorlite.store.sqlite.rows import event_row, mail_row
from conductorlite.store.tables import FeedKind, ScheduleRow
from conductorlite.store.transactions import QueueReads, WritingTransaction

__all__ = ["Change", "SplitChange"]

#: From so many scheduled tasks on, or changed rows in one turn, an execution is wide: its rows go to shards.
_WIDE: Final = 1_000
_MANY: Final = 500

_identity: Final = attrgetter("task_id", "base_ref", "iterations", "grafts")


def _loop_key(task: Task) -> str:
    return f"{task.base_ref}\x1f{task.seq:010d}\x1f{task.attempt:06d}\x1f{task.ref}"


#: What another write may come between, and then must be undone: not without the queue store's lock.
_ALONE: Final = frozenset({"put_limit", "put_schedule", "drop_schedule", "remove", "put_archived", "change_owner", "park"})


def _kept(verb: str, *said: str | int | None) -> tuple[str, str, str | None]:
    key = "\x1f".join(map(str, (verb, *said[:-1])))
    return "definitions", key, None if said[-1] is None else json.dumps(said)


def _kept_handler(name: str, event: str, active: bool, text: str) -> tuple[str, str, str | None]:
    return "definitions", f"put_event_handler\x1f{name}", json.dumps([name, event, active, text])


def _kept_record(execution: EventExecution) -> tuple[str, str, str | None]:
    said = [*execution.key, execution.status.value, execution.action, execution.created, execution.output.text]
    return "event_executions", json.dumps(execution.key), json.dumps(said)


def _kept_schedule(row: ScheduleRow, _: Sequence[str], events: Sequence[Event]) -> tuple[str, str, str | None]:
    said = [row.name, row.address, row.text, row.progress, row.waits, row.owner, [event_row(event) for event in events]]
    return "definitions", f"put_schedule\x1f{row.name}", json.dumps(said)


#: What is kept in Cassandra as well, for the sweep: by the change of the queue store that it follows.
_KEPT: Final[dict[str, Callable[..., tuple[str, str, str | None]]]] = {
    "embed": partial(_kept, "embed"),
    "put_workflow_def": partial(_kept, "put_workflow_def"),
    "drop_workflow_def": lambda name, version: _kept("put_workflow_def", name, version, None),
    "put_task_def": partial(_kept, "put_task_def"),
    "drop_task_def": lambda name: _kept("put_task_def", name, None),
    "put_schema_def": partial(_kept, "put_schema_def"),
    "put_event_handler": _kept_handler,
    "drop_event_handler": lambda name: _kept("put_event_handler", name, None),
    "add_event_execution": _kept_record,
    "put_schedule": _kept_schedule,
    "drop_schedule": lambda name: _kept("put_schedule", name, None),
}


@attrs.define(slots=True, kw_only=True)
class _Pending:
    """The pending changes to one partition."""

    created: bool
    #: The head that is stored; None: there must be none.
    before: Head | None
    head: Head
    cells: dict[tuple[str, str], Cell] = attrs.field(factory=dict)
    texts: list[tuple[int, Cell]] = attrs.field(factory=list)
    items: list[Item] = attrs.field(factory=list)
    #: Rows that must not be there, of which nothing is known yet, and whether they would be in shards.
    unseen: list[tuple[str, str]] = attrs.field(factory=list)
    was_wide: bool = False


class Change:
    """The change that one block makes: tried in the queue store at once, carried out in both stores at its end."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        #: What the queue store was asked to do, so that it can be asked again: nouns, names of changes, what was given.
        self.notes: list[tuple[str, str, tuple[Any, ...]]] = []
        self.pending: dict[str, _Pending] = {}
        #: In which order items were made: of which execution, and which of its items.
        self.order: list[tuple[str, int]] = []
        #: Executions that are removed, with their heads.
        self.removed: dict[str, Head] = {}
        self.kept: list[tuple[str, str, str | None]] = []
        #: Definitions that are new: who finds a turn before it is delivered needs them.
        self.embedded: list[tuple[str, str]] = []
        #: What need not outlive its process, by the item that it is written after; None: before any.
        self._extras: list[tuple[tuple[str, int] | None, tuple[str, str], tuple[Any, ...]]] = []

    def noted(self, noun: str, name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        """A change of the queue store that is noted, and what the sweep needs of it kept."""

        def noted(*given: Any, **named: Any) -> Any:
            answer = change(*given, **named)
            if named:  # a note holds what is given by its place
                asked = signature(change).bind(*given, **named)
                asked.apply_defaults()
                given = asked.args
            self.notes.append((noun, name, given))
            if name in _KEPT:
                self.kept.append(_KEPT[name](*given))
            return answer

        return noted

    def settled(self) -> None:
        """Put what was written beside decisions into their items; once, when there is no more to come."""
        last: tuple[str, int] | None = None
        for item, noun, verb, given in self._asked():
            if verb == "apply":
                last = item or last
            elif verb == "embed":
                self.embedded.append(given)
            elif last is None or (text := said(verb, given)) is None:
                self._extras.append((last, (noun, verb), given))
            else:
                items, number = self.pending[last[0]].items, last[1]
                items[number] = attrs.evolve(items[number], beside=(*items[number].beside, text))

    def _asked(self) -> Iterator[tuple[tuple[str, int] | None, str, str, tuple[Any, ...]]]:
        """Return the requests to the queue store, in order; with the item of a decision, unless its execution was removed later."""
        gone = {given[0]: number for number, (_, verb, given) in enumerate(self.notes) if verb == "remove"}
        counts = dict.fromkeys(self.pending, 0)
        for number, (noun, verb, given) in enumerate(self.notes):
            item = None
            if verb == "apply" and number > gone.get(workflow_id := given[0].workflow.workflow_id, -1):
                item = (workflow_id, counts[workflow_id])
                counts[workflow_id] += 1
            yield item, noun, verb, given

    @property
    def limited(self) -> list[Item]:
        """The turns that change limits."""
        return [item for pending in self.pending.values() for item in pending.items if item.decision.limits]

    @property
    def alone(self) -> bool:
        """True if the queue store's lock is to be held while the partitions are asked: limits, schedules, removals."""
        return bool(self.limited) or any(verb in _ALONE for _, verb, _ in self.notes)

    @property
    def foreseen(self) -> bool:
        """True if what was tried can be committed as it is.

        Not what is announced first, nor where the queue store has given an execution another fence than its row says.
        """
        items = [item for one in self.pending.values() for item in one.items]
        return not self.limited and all(item.decision.workflow.fence + 1 == item.fence for item in items)

    def again(self, tx: WritingTransaction) -> None:
        """Ask the queue store once more for all of it; raises what it did when it was tried."""
        for item, noun, verb, given in self._asked():
            getattr(getattr(tx, noun), verb)(*(given if item is None else (self.pending[item[0]].items[item[1]].decision,)))

    def write_extras(self, tx: WritingTransaction, after: tuple[str, int] | None) -> None:
        """Write what was written after an item and before the next one, or before any."""
        for item, (noun, verb), given in self._extras:
            if item == after:
                getattr(getattr(tx, noun), verb)(*given)

    def contradicted(self) -> Collection[str]:
        """Executions in which another turn has made a row since that one of this change would make.

        Raises InvariantBroken for one that was there before, and nothing has happened since.
        """
        asked: list[Asked] = []
        for workflow_id, pending in self.pending.items():
            shards: dict[int, list[tuple[str, str]]] = {0: pending.unseen} if pending.unseen else {}
            for place in pending.unseen if pending.was_wide else ():
                shards.setdefault(shard_of(place[1]), []).append(place)
            asked += [Asked(workflow_id=workflow_id, shard=shard, keys=tuple(keys)) for shard, keys in shards.items()]
        found = self.parts.partitions.read(asked) if asked else ()
        there = {one.workflow_id: cells[0].key for one, cells in zip(asked, found, strict=True) if cells}
        heads = self.parts.partitions.heads(list(there)) if there else {}
        for workflow_id, key in there.items():
            if heads.get(workflow_id) is not None and heads[workflow_id].fence == self.turn_of(workflow_id).expected:
                raise InvariantBroken(f"{workflow_id}: rows contradict the store: {key} exists")
        return there.keys()

    def committed(self, stored: Iterable[str]) -> None:
        """Keep what executions are now."""
        for workflow_id in stored:
            pending = self.pending[workflow_id]
            rows: dict[tuple[str, str], Cell | None] = dict(self.parts.before[workflow_id])
            rows.update((key, None if cell.text is None else cell) for key, cell in self.parts.new.get(workflow_id, {}).items())
            self.parts.memory.keep(workflow_id, pending.head, rows)
        for workflow_id in self.removed.keys() - self.pending.keys():
            self.parts.memory.forget(workflow_id)

    def turn_of(self, workflow_id: str) -> Turn:
        """The transaction of an execution."""
        pending = self.pending[workflow_id]
        return Turn(
            workflow_id=workflow_id,
            expected=None if pending.before is None else pending.before.fence,
            head=attrs.evolve(pending.head, item=item_text(pending.items), turn=os.urandom(16).hex()),
            cells=tuple(pending.cells.values()),
        )

    def pend(self, decision: Decision, small: Decision, made: _Made, fence: int) -> None:
        """Have a decision taken at the end."""
        workflow_id = decision.workflow.workflow_id
        cells = {place: Cell(*place, text, fence) for place, text in made.new.items()}
        outer = tuple((shard_of(cell.key), cell) for cell in cells.values()) if made.wide else ()
        head = self.parts.head(workflow_id)
        self.parts.before.setdefault(workflow_id, {} if decision.created else dict(self.parts.rows(workflow_id)))
        before = None if decision.created else head
        pending = self.pending.get(workflow_id) or _Pending(
            created=decision.created, before=before, head=Head(fence=fence, text=""), was_wide=made.was_wide
        )
        pending.items.append(Item(fence=fence, decision=marked(small, fence), cells=outer))
        self.order.append((workflow_id, len(pending.items) - 1))
        pending.head = Head(fence=fence, text=workflow_cell(decision.workflow, wide=made.wide, lines=made.lines))
        pending.unseen += made.unseen
        # Of a wide execution what is deleted may be in the partition of its head, too.
        pending.cells |= {place: cell for place, cell in cells.items() if cell.text is None or not made.wide}
        texts = [Cell("text", one.digest, one.text, fence) for one in decision.texts if one.text is not None]
        pending.texts += [(shard_of(cell.key), cell) for cell in texts]
        self.pending[workflow_id] = pending
        self.parts.heads[workflow_id] = pending.head
        self.parts.new.setdefault(workflow_id, {}).update(cells | {("text", cell.key): cell for cell in texts})

    def remove(self, workflow_id: str) -> None:
        """Have an execution removed at the end."""
        head = self.parts.head(workflow_id)
        known = self.pending.pop(workflow_id, None)
        self.parts.before.pop(workflow_id, None)
        before = head if known is None else known.before
        if before is not None:
            self.removed[workflow_id] = before
        self.parts.heads[workflow_id] = None
        self.parts.new.pop(workflow_id, None)


class SplitDecisions:
    """Decisions: tried in the queue store at once, thin, and taken at the end."""

    def __init__(self, inner: Any, change: Change) -> None:
        self._inner, self._change, self._parts = inner, change, change.parts
        self.fenced = inner.decisions.fenced

    def defer(self) -> None:
        """Nothing: what refuses a decision must be known before the partitions are asked."""

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """See `DecisionDAO`."""
        for decision in decisions:
            self.apply(decision)

    def apply_some(self, decisions: Sequence[Decision]) -> Collection[str]:
        """None: each has a commit of its own."""
        return ()

    def apply(self, decision: Decision) -> None:
        """Try a decision under its fence; on any error it alone is undone."""
        workflow = decision.workflow
        workflow_id = workflow.workflow_id
        listed = self._inner.executions.workflow(workflow_id)
        if decision.created:  # its transaction finds out whether there is one: the lock is held here
            self._parts.heads.setdefault(workflow_id, None)
        head = self._parts.head(workflow_id)
        fits = listed is None if decision.created else listed is not None and listed.fence == workflow.fence
        known = workflow_id in self._change.pending or workflow_id in self._change.removed
        if fits and head is not None and not known and (listed is None or delivered(listed) < head.fence):
            self._parts.behind.add(workflow_id)
            raise FencedOut(f"{workflow_id}: what its last turn has sent was not delivered")
        made = _Made(self._parts, decision, head)
        if fits and made.problem:
            raise InvariantBroken(f"{workflow_id}: rows contradict the store: {made.problem}")
        small = thin(decision)
        outgoing = small.outgoing
        small = attrs.evolve(
            small, outgoing=attrs.evolve(outgoing, removed=(*outgoing.removed, *made.freed), put=(*outgoing.put, *made.held))
        )
        self._inner.decisions.apply(marked(small, workflow.fence + 1))
        if decision.dropped or decision.renamed:
            for kind in FeedKind:
                self._inner.feeds.mark_pending(kind, [workflow_id])
        row = self._inner.executions.workflow(workflow_id)
        self._change.pend(decision, small, made, workflow.fence + 1 if row is None else row.fence)


class SplitChanges(SplitExecutions):
    """The changes of a split store, with removals, which are carried out at the end."""

    def __init__(self, inner: Any, change: Change, queue: QueueReads) -> None:
        super().__init__(inner, change.parts, queue)
        self.park, self.release = inner.park, inner.release
        self._changes, self._change = inner, change

    def remove(self, workflow_id: str) -> None:
        """Delete an execution with all that belongs to it."""
        self._changes.remove(workflow_id)
        self._change.remove(workflow_id)


class SplitMetadata:
    """Definitions; one that is there already is not kept again."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        for name in (*QUESTIONS["metadata"], *CHANGES["metadata"]):
            if name != "embed":
                setattr(self, name, getattr(inner, name))

    def embed(self, digest: str, text: str) -> None:
        """Keep a definition under its content hash; nothing happens when it is there."""
        if self._inner.definition(digest) is None:
            self._inner.embed(digest, text)


class SplitChange:
    """A change: the nouns of the queue store, each change of which is noted, and those of the partitions."""

    def __init__(self, inner: WritingTransaction, parts: Parts) -> None:
        self.change = change = Change(parts)
        watched: Any = SimpleNamespace(
            **{noun: Watched(noun, getattr(inner, noun), change.noted) for noun in NOUNS}, sizes=inner.sizes
        )
        view = SplitTransaction(watched, parts)
        self._view = view
        self.executions = SplitChanges(watched.executions, change, watched.queue)
        self.decisions = SplitDecisions(watched, change)
        self.history, self.queue, self.payloads = view.history, view.queue, view.payloads
        self.metadata = SplitMetadata(watched.metadata)
        self.inbox, self.poll_data, self.outbox, self.limits = watched.inbox, watched.poll_data, watched.outbox, watched.limits
        self.streams = watched.streams
        self.event_handlers, self.schedules, self.feeds = watched.event_handlers, watched.schedules, watched.feeds
        self.archive, self.owners, self.task_holders = watched.archive, watched.owners, watched.task_holders
        self.history.log, self.queue.discard = watched.history.log, watched.queue.discard
        self.payloads.mark_orphan, self.payloads.unmark_orphan = watched.payloads.mark_orphan, watched.payloads.unmark_orphan
        self.sizes = view.sizes


class _Made:
    """The rows of one decision, made of those that are stored; what contradicts them is a `problem`."""

    def __init__(self, parts: Parts, decision: Decision, head: Head | None) -> None:
        self._parts = parts
        self._id = decision.workflow.workflow_id
        self.problem = ""
        #: Rows by entity and key, None: deleted.
        self.new: dict[tuple[str, str], str | None] = {}
        self.held: list[Message] = []
        self.freed: list[tuple[str, str]] = []
        #: Rows that must not be there, of which nothing is known yet.
        self.unseen: list[tuple[str, str]] = []
        _, self.was_wide, self.lines = (None, False, 0) if head is None or decision.created else workflow_from(head.text)
        changes = len(decision.updated) + len(decision.inserted)
        self.wide = self.was_wide or decision.workflow.task_seq > _WIDE or changes > _MANY
        self._drop(decision.dropped)
        self._put(decision)
        for renamed in decision.renamed:
            self._rename(renamed.ref, renamed.new_ref, renamed.new_base_ref)
        self._journal(decision.history)
        for one in decision.externals:
            self.new["far", one.digest] = json.dumps([one.digest, one.size, one.key])
        for message in decision.messages:
            number = f"{message.number:010d}"
            self.new["mail", number] = json.dumps(mail_row(message), ensure_ascii=False)
            self.new["mailkey", f"{message.topic}\x1f{message.key}"] = number
            self.new["unreceived", f"{message.topic}\x1f{number}"] = "" if message.receiver is None else None
        for change in decision.limits:
            self.new |= {("slot", f"{change.limit.key}\x1f{holder}"): None for holder in change.gone}
            mine = (member for member in change.put if member.workflow_id == self._id)
            self.new |= {("slot", f"{change.limit.key}\x1f{member.holder}"): json.dumps(fields_of(member)) for member in mine}
        for event in decision.outgoing.posted:
            if event.kind is EventKind.START:
                self.new["sent", event.workflow_id] = json.dumps(event_row(event), ensure_ascii=False)

    def _stored(self, ref: str) -> list[Task]:
        """The attempts at a reference, with what this decision has made of them."""
        rows = {cell.key: cell.text for cell in self._parts.range(self._id, "task", ref)}
        rows |= {key: text for (entity, key), text in self.new.items() if entity == "task" and key.startswith(f"{ref}\x1f")}
        return [task_from(text, self._id) for _, text in sorted(rows.items()) if text is not None]

    def _drop(self, refs: Sequence[str]) -> None:
        for ref in refs:
            for task in self._stored(ref):
                self._forget(task)
            self.new["again", ref] = None

    def _forget(self, task: Task) -> None:
        self.new["task", task_key(task.ref, task.attempt)] = self.new["id", task.task_id] = None
        if task.iterations:
            self.new["loop", _loop_key(task)] = None
        if task.holder is not None:
            self.freed.append((task.workflow_id, "~" + task_key(task.ref, task.attempt)))

    def _put(self, decision: Decision) -> None:
        asked = [("task", task_key(task.ref, task.attempt)) for task in decision.updated]
        asked += [("again", task.ref) for task in decision.inserted if task.attempt]
        cells = self._parts.cells(self._id, [place for place in asked if place not in self.new]) if not decision.created else {}
        known = {place: cell.text for place, cell in cells.items()}
        for task in () if decision.created else decision.inserted:
            for place in (("task", task_key(task.ref, task.attempt)), ("id", task.task_id)):
                seen, cell = self._parts.seen(self._id, place)
                if cell is not None:
                    known[place] = cell.text
                elif not seen and place not in self.new:
                    self.unseen.append(place)
        for task in decision.updated:
            place = ("task", task_key(task.ref, task.attempt))
            text = self.new.get(place, known.get(place))
            old = None if text is None else task_from(text, self._id)
            if old is None or _identity(old) != _identity(task):
                self.problem = f"an updated task has no row of that identity: {task.ref}"
                return
            self._set(old, task)
        for task in decision.inserted:
            places = ("task", task_key(task.ref, task.attempt)), ("id", task.task_id)
            if any(self.new.get(place, known.get(place)) is not None for place in places):
                self.problem = f"{task.ref} exists"
                return
            again = self.new.get(("again", task.ref), known.get(("again", task.ref))) if task.attempt else "0"
            if task.attempt > int(again or 0):
                self.new["again", task.ref] = str(task.attempt)
            self._set(None, task)

    def _set(self, old: Task | None, new: Task) -> None:
        key = task_key(new.ref, new.attempt)
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
                due_at=NEVER,
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
