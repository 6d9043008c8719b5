"""Writing a memory store: `WritingTransaction`. Rows are kept as a file would give them back: thin and bare."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.decisions import Decision, Event, Message, MessageKey, Outgoing, Renamed
from conductorlite.model.errors import AlreadyExists, FencedOut, InvalidInput, InvariantBroken, KeyTaken
from conductorlite.model.executions import PollData, Task, TaskLog, Workflow, stored_task, stored_workflow
from conductorlite.model.limits import LimitChange
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.memory.reads import LimitWrites, MemoryReads
from conductorlite.store.memory.rows import ADDED, APPENDED, DISCARDED, MISSING, Execution, Ordered, Store, packed
from conductorlite.store.memory.tables import TableWrites
from conductorlite.store.ports import OwnRows
from conductorlite.store.tables import RelayItem

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["MemoryWrites"]

_identity: Final = attrgetter("task_id", "base_ref", "iterations", "grafts")


_COMPLETED: Final = TaskStatus.COMPLETED
_OPEN: Final = frozenset({TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS})

#: A `DueKey`.
_due_key: Final = attrgetter("due_at", "workflow_id", "posted_at", "sender", "sender_seq", "event_id")


def _ordered(tables: dict[Any, Ordered[Any]], key: object) -> Ordered[Any]:
    """The index under a key, made on first use."""
    if key not in tables:
        tables[key] = Ordered()
    return tables[key]


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


class MemoryWrites(MemoryReads, LimitWrites, TableWrites):
    """One atomic change; sees its own writes."""

    def __init__(self, store: Store, *, relay: bool) -> None:
        super().__init__(store)
        self._relay = relay

    def own_rows(self) -> OwnRows:
        """Raises InvalidInput: there are no tables."""
        raise InvalidInput("a store in memory has no tables for rows of your own: open the engine on a file")

    # -- executions ----------------------------------------------------------------------------------------------------

    def defer(self) -> None:
        """Nothing: what refuses a decision is known at once."""

    def fenced(self, fences: Mapping[str, int]) -> Collection[str]:
        """None: `apply` says so."""
        return ()

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence; on any error it alone is undone.

        Raises FencedOut, AlreadyExists, KeyTaken; InvariantBroken for rows that contradict the store.
        """
        store = self._store
        mark = len(store.undo_log)
        try:
            if decision.created and decision.workflow.idempotency_key is not None:
                self._claim(decision.workflow, decision.workflow.idempotency_key, decision.replaces)
            self._fenced(decision)
            workflow_id = decision.workflow.workflow_id
            execution = store.executions.get(workflow_id) or store.execution(workflow_id)
            self._rows(decision, execution)
            self._events(decision, execution)
            if decision.limits:
                self._change_limits(decision.limits)
        except BaseException:
            store.undo(mark)
            raise

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """See `WritingTransaction`."""
        for decision in decisions:
            self.apply(decision)

    def apply_some(self, decisions: Sequence[Decision]) -> Collection[str]:
        """None: one by one costs nothing more."""
        return ()

    def _claim(self, workflow: Workflow, key: str, replaced: str | None) -> None:
        """Take the idempotency key, or take it over from the execution that is to be replaced; raises KeyTaken."""
        store = self._store
        place = (workflow.name, key)
        holder = store.keys.get(place)
        if holder is not None and holder != replaced:
            raise KeyTaken(holder, f"idempotency key {key!r} of {workflow.name!r} belongs to {holder!r}")
        if holder is not None:
            store.drop(store.key_of, holder)
        store.put(store.keys, place, workflow.workflow_id)
        store.put(store.key_of, workflow.workflow_id, place)

    def _fenced(self, decision: Decision) -> None:
        workflow = decision.workflow
        workflow_id = workflow.workflow_id
        stored = self._store.workflows.get(workflow_id)
        if decision.created:
            if stored is not None:
                raise AlreadyExists(f"an execution {workflow_id!r} exists already")
        elif stored is None or stored.fence != workflow.fence:
            raise FencedOut(f"{workflow_id}: another turn committed after fence {workflow.fence} was read")
        thin = stored_workflow(workflow)
        if stored is not None and stored.ended_at and self._store.feeds:
            self._pend(workflow_id)
        if decision.created and self._store.counters["removed"]:
            thin = attrs.evolve(thin, fence=thin.fence + self._store.counters["removed"])
        # A turn never changes whose an execution is.
        self._put_workflow(stored, thin if stored is None or stored.owner == thin.owner else attrs.evolve(thin, owner=stored.owner))

    def _put_workflow(self, old: Workflow | None, new: Workflow | None) -> None:
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
                store.add(_ordered(store.created, index), key)
        if new is not None:
            store.note((store.workflows, new.workflow_id, MISSING if old is None else old))
            store.workflows[new.workflow_id] = new
            if old is None:
                store.add(store.ids, (new.workflow_id,))
                if new.owner:
                    store.add(_ordered(store.owned, new.owner), (new.workflow_id,))
            if old is None or new.status is not old.status:
                store.add(_ordered(store.by_status, str(new.status)), (new.workflow_id,))

    def _rows(self, decision: Decision, execution: Execution) -> None:
        store = self._store
        fence = decision.workflow.fence + 1
        for ref in decision.dropped:
            self._drop_task(execution, ref)
        if decision.dropped or decision.renamed:
            self._pend(execution.workflow_id)
        for task in decision.updated:
            old = execution.attempts.get((task.ref, task.attempt))
            if old is None or _identity(old) != _identity(task):
                raise InvariantBroken(f"{task.workflow_id}: an updated task has no row of that identity: {task.ref}")
            self._put_task(execution, old, task, fence)
        for task in decision.inserted:
            if (task.ref, task.attempt) in execution.attempts or task.task_id in store.task_ids:
                raise InvariantBroken(f"{task.workflow_id}: rows contradict the store: {task.ref} exists")
            self._put_task(execution, None, task, fence)
        for renamed in decision.renamed:
            self._rename_task(execution, renamed, fence)
        for text in decision.texts:
            if text.text is not None and text.digest not in execution.texts:
                store.put(execution.texts, text.digest, text.text)
        if decision.externals:
            self._keep_externals(execution.workflow_id, decision.externals)
        for message in decision.messages:
            self._put_mail(execution, message)
        lines = execution.history
        if lines and decision.history and decision.history[0].n <= lines[-1][0]:
            raise InvariantBroken(f"{execution.workflow_id}: rows contradict the store: line {decision.history[0].n} exists")
        store.note((lines, len(lines), APPENDED))
        lines.extend(packed(decision.history))

    def _put_mail(self, execution: Execution, message: WorkflowMessage) -> None:
        store, number = self._store, message.number
        old, place = execution.mailbox.get(number), (message.topic, message.key)
        if execution.mail_keys.get(place, number) != number:
            raise InvariantBroken(f"{execution.workflow_id}: rows contradict the store: two messages of {place} exist")
        if old is not None:
            store.drop(execution.mail_keys, (old.topic, old.key))
        if old is not None and old.receiver is None:
            store.discard(execution.unreceived[old.topic], (number,))
        store.put(execution.mailbox, number, attrs.evolve(message, value=message.value.stored()))
        store.put(execution.mail_keys, place, number)
        if message.receiver is None:
            store.add(_ordered(execution.unreceived, message.topic), (number,))

    def _drop_task(self, execution: Execution, ref: str) -> None:
        store = self._store
        for attempt in range(execution.last.get(ref, -1) + 1):
            key = (ref, attempt)
            old = store.drop(execution.attempts, key)
            if old is None:
                continue
            store.drop(store.task_ids, old.task_id)
            store.drop(execution.fences, key)
            for keys in (execution.live, execution.failed):
                if key in keys:
                    store.drop(keys, key)
            if old.iterations:
                store.discard(execution.loops[old.base_ref], (old.seq, old.attempt, old.ref))
        store.drop(execution.last, ref)

    def _rename_task(self, execution: Execution, renamed: Renamed, fence: int) -> None:
        if renamed.new_ref in execution.last:
            raise InvariantBroken(f"{execution.workflow_id}: rows contradict the store: {renamed.new_ref} exists")
        attempts = range(execution.last.get(renamed.ref, -1) + 1)
        rows = [execution.attempts[(renamed.ref, attempt)] for attempt in attempts]
        self._drop_task(execution, renamed.ref)
        for row in rows:
            self._put_task(execution, None, attrs.evolve(row, ref=renamed.new_ref, base_ref=renamed.new_base_ref), fence)

    def _put_task(self, execution: Execution, old: Task | None, new: Task, fence: int) -> None:
        store = self._store
        note, key = store.note, (new.ref, new.attempt)
        if new.input.large or new.output.large:
            new = stored_task(new)
        note((execution.attempts, key, MISSING if old is None else old))
        execution.attempts[key] = new
        execution.fences[key] = fence  # not undone: what is asked for by a fence may be more than was changed
        if old is None:
            note((store.task_ids, new.task_id, MISSING))
            store.task_ids[new.task_id] = (new.workflow_id, *key)
            before = execution.last.get(new.ref, MISSING)
            if before is MISSING or before < new.attempt:
                note((execution.last, new.ref, before))
                execution.last[new.ref] = new.attempt
        # An open attempt is live as long as no other one has followed it, and has not failed.
        live, failed = not new.retried, False
        if live and new.status not in _OPEN:
            live, failed = (False, False) if new.executed and new.status is _COMPLETED else (new.live, new.failed)
        if live is not (key in execution.live):
            self._list(execution.live, key)
        if failed is not (key in execution.failed):
            self._list(execution.failed, key)
        if new.iterations and (old is None or old.seq != new.seq):
            rows = execution.loops.setdefault(new.base_ref, Ordered())
            if old is not None:
                store.discard(rows, (old.seq, old.attempt, old.ref))
            store.add(rows, (new.seq, new.attempt, new.ref))

    def _list(self, keys: dict[tuple[str, int], bool], key: tuple[str, int]) -> None:
        """List what was not listed, or the other way round."""
        if key in keys:
            self._store.note((keys, key, True))
            del keys[key]
        else:
            self._store.note((keys, key, MISSING))
            keys[key] = True

    # -- inbox ---------------------------------------------------------------------------------------------------------

    def _events(self, decision: Decision, execution: Execution) -> None:
        inbox, note = execution.inbox, self._store.note
        for event_id in decision.consumed + decision.cancelled:
            dropped = inbox.get(event_id)
            if dropped is not None:
                note((inbox, event_id, dropped))
                del inbox[event_id]
                self._unlist(execution, dropped)
        if decision.release_held:
            self._release_held(execution, decision.released_at)
        owner = decision.workflow.owner
        for event in decision.timers:
            self._put(execution, event, owner)
        outgoing = decision.outgoing
        if not (outgoing.removed or outgoing.put or outgoing.posted):
            return
        if self._relay:
            self._to_outbox(decision)
        else:
            self._carry_out(decision.outgoing)

    def _release_held(self, execution: Execution, at: int) -> None:
        for event_id in list(execution.held):
            event = execution.inbox[event_id]
            self._put_event(attrs.evolve(event, due_at=max(event.due_at, at), held=False))

    def _drop_event(self, execution: Execution, event_id: str) -> None:
        event = execution.inbox.get(event_id)
        if event is not None:
            self._store.note((execution.inbox, event_id, event))
            del execution.inbox[event_id]
            self._unlist(execution, event)

    def _unlist(self, execution: Execution, event: Event) -> None:
        """Take an event out of what is due, or held."""
        store = self._store
        if event.held:
            store.drop(execution.held, event.event_id)
        else:
            due = store.due[event.owner]
            key = _due_key(event)
            store.note((due, key, DISCARDED))
            due.discard(key)

    def _put_event(self, event: Event) -> None:
        store = self._store
        row = store.workflows.get(event.workflow_id)
        # An event to an execution that is there is its owner's.
        self._put(store.execution(event.workflow_id), event, event.owner if row is None else row.owner)

    def _put(self, execution: Execution, event: Event, owner: str) -> None:
        store, inbox, event_id = self._store, execution.inbox, event.event_id
        old = inbox.get(event_id)
        if old is not None:
            self._unlist(execution, old)
        if not event.stored or event.owner != owner:
            event = attrs.evolve(event, stored=True, owner=owner)
        store.note((inbox, event_id, MISSING if old is None else old))
        inbox[event_id] = event
        if event.held:
            store.put(execution.held, event_id, True)
        else:
            due = store.due[owner] if owner in store.due else _ordered(store.due, owner)
            key = _due_key(event)
            store.note((due, key, ADDED))
            due.add(key)

    def post(self, events: Iterable[Event]) -> None:
        for event in events:
            self._put_event(event)

    def put_limit(self, change: LimitChange) -> None:
        self._change_limits([change])

    # -- outgoing ------------------------------------------------------------------------------------------------------

    def _to_outbox(self, decision: Decision) -> None:
        store = self._store
        store.outbox_seq += 1  # not undone: a number is never used twice
        item = RelayItem(item_id=store.outbox_seq, workflow_id=decision.workflow.workflow_id, outgoing=decision.outgoing)
        store.put(store.outbox, item.item_id, item)

    def _carry_out(self, outgoing: Outgoing) -> None:
        for key in outgoing.removed:
            self._drop_message(key)
        for message in outgoing.put:
            self._put_message(message)
        self.post(outgoing.posted)

    def _drop_message(self, key: MessageKey) -> None:
        store = self._store
        if key[0] not in store.executions:
            return
        message = store.drop(store.executions[key[0]].offered, key[1])
        if message is not None:
            store.discard(store.queues[message.queue][-message.priority], (message.due_at, key[0], len(key[1]), key[1]))

    def _put_message(self, message: Message) -> None:
        store, ref = self._store, message.ref
        offered = store.execution(message.workflow_id).offered
        if ref in offered:
            self._drop_message(message.key)
        store.note((offered, ref, MISSING))
        offered[ref] = message
        try:
            keys = store.queues[message.queue][-message.priority]
        except KeyError:
            keys = _ordered(store.queues.setdefault(message.queue, {}), -message.priority)
        store.add(keys, (message.due_at, message.workflow_id, len(ref), ref))

    def deliver(self, items: Sequence[RelayItem]) -> None:
        for item in items:
            waiting = self._store.drop(self._store.outbox, item.item_id)
            if waiting is not None:
                self._carry_out(waiting.outgoing)

    def discard(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self._of(message.workflow_id).offered.get(message.ref) == message:
                self._drop_message(message.key)

    def record_polls(self, polls: Sequence[PollData]) -> None:
        store = self._store
        for poll in polls:
            key = (poll.queue_name, poll.domain or "")
            known = store.polls.get(key)
            if known is None or known.last_poll_time <= poll.last_poll_time:
                store.put(store.polls, key, poll)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        workflow = self._store.workflows.get(workflow_id)
        if workflow is not None:
            fence = workflow.fence + (reason is not None)
            parked = attrs.evolve(workflow, broken_turns=broken_turns, parked=reason, fence=fence)
            self._store.put(self._store.workflows, workflow_id, parked)
        if reason is not None:
            for event in list(self._of(workflow_id).inbox.values()):
                if not event.held:
                    self._put_event(attrs.evolve(event, held=True))

    def release(self, workflow_id: str, now: int) -> None:
        self.park(workflow_id, 0, None)
        self._release_held(self._of(workflow_id), now)

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        store = self._store
        for entry in entries:
            if entry.task_id not in store.logs:
                store.put(store.logs, entry.task_id, [])
            store.extend(store.logs[entry.task_id], [entry])
            store.put(store.execution(workflow_id).logged, entry.task_id, True)

    def remove(self, workflow_id: str) -> None:
        store = self._store
        self._drop_members_of(workflow_id)
        row = store.workflows.get(workflow_id)
        self._put_workflow(row, None)
        if row is not None:
            store.put(store.counters, "removed", max(store.counters["removed"], row.fence))
            self._pend(workflow_id)
            for kind in store.feeds:
                store.drop(store.indexed, (kind, workflow_id))
        place = store.drop(store.key_of, workflow_id)
        if place is not None:
            store.drop(store.keys, place)
        execution = self._of(workflow_id)
        for task in execution.attempts.values():
            store.drop(store.task_ids, task.task_id)
        for ref in list(execution.offered):
            self._drop_message((workflow_id, ref))
        for event_id in list(execution.inbox):
            self._drop_event(execution, event_id)
        for task_id in execution.logged:
            store.drop(store.logs, task_id)
        for item in [item for item in store.outbox.values() if item.workflow_id == workflow_id]:
            # what it wrote to others still goes out; its own messages are removed
            store.put(store.outbox, item.item_id, attrs.evolve(item, outgoing=Outgoing(posted=item.outgoing.posted)))
        self._remove_externals(workflow_id)
        store.drop(store.executions, workflow_id)

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        store = self._store
        if (name, version) not in store.workflow_defs:
            store.add(store.workflow_versions.setdefault(name, Ordered()), (version,))
        store.put(store.workflow_defs, (name, version), text)
        self._registry_changed()

    def _registry_changed(self) -> None:
        counters = self._store.counters
        self._store.put(counters, "registry", counters["registry"] + 1)

    def put_task_def(self, name: str, text: str) -> None:
        self._store.put(self._store.task_defs, name, text)
        self._registry_changed()

    def drop_workflow_def(self, name: str, version: int) -> None:
        store = self._store
        if store.drop(store.workflow_defs, (name, version)) is not None:
            store.discard(store.workflow_versions[name], (version,))
        self._registry_changed()

    def drop_task_def(self, name: str) -> None:
        self._store.drop(self._store.task_defs, name)
        self._registry_changed()

    def embed(self, digest: str, text: str) -> None:
        if digest not in self._store.definitions:
            self._store.put(self._store.definitions, digest, text)
