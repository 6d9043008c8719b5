"""Decisions stored in memory. Rows are kept as a file would give them back: thin and bare."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.decisions import Decision, Renamed
from conductorlite.model.errors import AlreadyExists, FencedOut, InvariantBroken, KeyTaken
from conductorlite.model.executions import Task, Workflow, stored_task, stored_workflow
from conductorlite.model.later import functions
from conductorlite.model.statuses import TaskStatus
from conductorlite.store.memory.executions import MemoryExecutions
from conductorlite.store.memory.limits import MemoryLimits
from conductorlite.store.memory.mailboxes import MemoryInbox, MemoryOutbox
from conductorlite.store.memory.rows import (
    APPENDED,
    MISSING,
    Execution,
    Ordered,
    Store,
    ordered,
    packed,
)
from conductorlite.store.memory.tables import MemoryDocuments, MemoryFeeds

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage
    from conductorlite.store.memory.streams import put_emitted
else:
    (put_emitted,) = functions("conductorlite.store.memory.streams", "put_emitted")

__all__ = ["MemoryDecisions"]

_identity: Final = attrgetter("task_id", "base_ref", "iterations", "grafts")


_COMPLETED: Final = TaskStatus.COMPLETED
_OPEN: Final = frozenset({TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS})


class MemoryDecisions:
    """Decisions, stored as a file would give them back: thin and bare."""

    def __init__(
        self,
        store: Store,
        *,
        executions: MemoryExecutions,
        inbox: MemoryInbox,
        outbox: MemoryOutbox,
        limits: MemoryLimits,
        payloads: MemoryDocuments,
        feeds: MemoryFeeds,
        relay: bool,
    ) -> None:
        self._store, self._executions, self._inbox, self._outbox = store, executions, inbox, outbox
        self._limits, self._payloads, self._feeds = limits, payloads, feeds
        self._relay = relay

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
                self._limits.change(decision.limits)
        except BaseException:
            store.undo(mark)
            raise

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """See `DecisionDAO`."""
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
        if stored is not None and stored.ended_at and self._store.feeds.rows:
            self._feeds.pend(workflow_id)
        if decision.created and self._store.counters["removed"]:
            thin = attrs.evolve(thin, fence=thin.fence + self._store.counters["removed"])
        # A turn never changes whose an execution is.
        self._executions.put_workflow(
            stored, thin if stored is None or stored.owner == thin.owner else attrs.evolve(thin, owner=stored.owner)
        )

    def _rows(self, decision: Decision, execution: Execution) -> None:
        store = self._store
        fence = decision.workflow.fence + 1
        for ref in decision.dropped:
            self._drop_task(execution, ref)
        if decision.dropped or decision.renamed:
            self._feeds.pend(execution.workflow_id)
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
            self._payloads.keep(execution.workflow_id, decision.externals)
        for message in decision.messages:
            self._put_mail(execution, message)
        if decision.emissions or decision.values:
            put_emitted(store, execution, decision)
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
        store.put(
            execution.mailbox, number, attrs.evolve(message, value=message.value.stored()) if message.value.large else message
        )
        store.put(execution.mail_keys, place, number)
        if message.receiver is None:
            store.add(ordered(execution.unreceived, message.topic), (number,))

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

    def _events(self, decision: Decision, execution: Execution) -> None:
        inbox, note = execution.inbox, self._store.note
        for event_id in decision.consumed + decision.cancelled:
            dropped = inbox.get(event_id)
            if dropped is not None:
                note((inbox, event_id, dropped))
                del inbox[event_id]
                self._inbox.unlist(execution, dropped)
        if decision.release_held:
            self._inbox.release_held(execution, decision.released_at)
        owner = decision.workflow.owner
        for event in decision.timers:
            self._inbox.put(execution, event, owner)
        outgoing = decision.outgoing
        if not (outgoing.removed or outgoing.put or outgoing.posted):
            return
        if self._relay:
            self._outbox.add(decision)
        else:
            self._outbox.carry_out(decision.outgoing)
