"""A view and a change of a SQLite store, inside an open transaction: `ReadingTransaction` and `WritingTransaction`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Decision, Event, Message, MessageKey, Outgoing
from conductorlite.model.errors import InvariantBroken, KeyTaken
from conductorlite.model.executions import HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.later import pattern
from conductorlite.model.limits import LimitChange
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.history import history_of, history_rows
from conductorlite.store.sqlite.limits import LimitReads, LimitWrites
from conductorlite.store.sqlite.own_rows import OwnRows
from conductorlite.store.sqlite.rows import (
    STATUS,
    Row,
    event_of,
    event_row,
    inbox_row,
    mail_of,
    mail_row,
    message_of,
    message_row,
    packed_hex,
    poll_of,
    poll_row,
    stored_text,
    task_of,
    task_row,
    text_of,
    workflow_of,
)
from conductorlite.store.sqlite.tables import REMOVE_EXTERNALS, FeedReads, TableReads, TableWrites
from conductorlite.store.tables import ExecutionFilter, RelayItem

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["OVERREAD", "RowReads", "RowWrites", "in_order"]

#: `due_workflows` reads at most `OVERREAD * (limit + 16)` due events, however many one workflow has.
OVERREAD: Final = 4

#: Later than every execution.
_END: Final = (2**63 - 1, "")


#: How the id of an attempt begins.
_HEAD: Final = pattern("[0-9a-f]{8}")


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events as an inbox is read."""
    return sorted(events, key=lambda event: (event.order, event.event_id))


class RowMailbox:
    """The messages to one execution; valid until the block of its view ends."""

    def __init__(self, view: LimitReads, workflow_id: str) -> None:
        self._execute, self._id = view._execute, workflow_id

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        row = self._execute(sql.MAIL, (self._id, topic, key)).fetchone()
        return None if row is None else mail_of(row)

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        return [mail_of(row) for row in self._execute(sql.UNRECEIVED, (self._id, topic, limit))]

    def messages(self, after: int, limit: int) -> Sequence[WorkflowMessage]:
        return [mail_of(row) for row in self._execute(sql.MAILBOX, (self._id, after, limit))]


class RowReads(LimitReads, TableReads, FeedReads):
    """One consistent view of the store; valid until its block ends."""

    # -- executions ----------------------------------------------------------------------------------------------------

    def workflow(self, workflow_id: str) -> Workflow | None:
        row = self._execute(sql.WORKFLOW, (workflow_id,)).fetchone()
        return None if row is None else workflow_of(row)

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references, in one statement; None for those that do not exist."""
        found: dict[str, Task | None] = dict.fromkeys(refs)
        if len(found) == 1:
            rows = self._execute(sql.TASK_LAST, (workflow_id, *found)).fetchall()
        else:
            rows = self._execute(sql.TASKS_LAST, (json.dumps(sorted(found)), workflow_id)).fetchall()
        for row in rows:
            task = task_of(row, workflow_id)
            found[task.ref] = task
        return found

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        """The rows of definition references that were scheduled last, of any round; a statement or two for each."""
        return {base_ref: self._latest(workflow_id, base_ref) for base_ref in base_refs}

    def live(self, workflow_id: str) -> Sequence[Task]:
        return sorted(self._tasks(sql.TASKS_LIVE, workflow_id), key=lambda task: task.seq)

    def failed(self, workflow_id: str) -> Sequence[Task]:
        return self._tasks(sql.TASKS_FAILED, workflow_id)

    def _tasks(self, statement: str, workflow_id: str) -> list[Task]:
        return [task_of(row, workflow_id) for row in self._execute(statement, (workflow_id,))]

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        # In order of attempts: a later one takes the place of those before it.
        return list({task.ref: task for task in self._tasks(sql.TASKS_ALL, workflow_id)}.values())

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes; one statement."""
        rows = self._execute(sql.TEXTS, (json.dumps(sorted(digests)), workflow_id))
        return {digest: stored_text(digest, text) for digest, text in rows}

    def _latest(self, workflow_id: str, base_ref: str) -> Task | None:
        row = self._execute(sql.TASK_LATEST_IN_LOOP, (workflow_id, base_ref)).fetchone()
        if row is not None:
            return task_of(row, workflow_id)
        # outside every loop the definition's reference is the printed one
        row = self._execute(sql.TASK_LAST, (workflow_id, base_ref)).fetchone()
        if row is None:
            return None
        task = task_of(row, workflow_id)
        return None if task.iterations else task

    def attempts(self, workflow_id: str) -> Sequence[Task]:
        return sorted(self._tasks(sql.TASKS_ALL, workflow_id), key=lambda task: (task.seq, task.attempt))

    def task_by_id(self, task_id: str) -> Task | None:
        if not _HEAD.match(task_id):
            return None
        place = (int(task_id[:8], 16), packed_hex(task_id))
        row = self._execute(sql.LIVE_TASK_BY_ID, place).fetchone() or self._execute(sql.TASK_BY_ID, place).fetchone()
        return None if row is None else task_of(row[1:], row[0])

    def history(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        rows = self._execute(sql.HISTORY_AFTER, (workflow_id, after)) if after else self._execute(sql.HISTORY, (workflow_id,))
        return [line for row in rows for line in history_of(row) if line.n > after]

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        rows = self._execute(sql.LOGS, (task_id,))
        return [TaskLog(task_id=task, at=at, text=text) for task, at, text in rows]

    def mailbox(self, workflow_id: str) -> RowMailbox:
        return RowMailbox(self, workflow_id)

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        if status is None:
            rows = self._execute(sql.WORKFLOW_IDS, (after, limit))
        else:
            rows = self._execute(sql.WORKFLOW_IDS_OF, (after, STATUS[status], limit))
        return [workflow_id for (workflow_id,) in rows]

    def executions(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        """A page of executions, newest first; two statements, or seven where the status is not asked for: those are merged."""
        place = after or _END
        status = None if wanted.status is None else STATUS[wanted.status]
        rest = (wanted.name, status, wanted.correlation_id)
        if wanted.parent_workflow_id is not None:
            keys = self._listed(sql.EXECUTIONS_OF_PARENT, wanted.parent_workflow_id, *rest, *place, limit)
        elif wanted.correlation_id is not None:
            keys = self._listed(sql.EXECUTIONS_CORRELATED, wanted.correlation_id, *rest, *place, limit)
        else:
            statement, name = (sql.EXECUTIONS_IN, ()) if wanted.name is None else (sql.EXECUTIONS_NAMED, (wanted.name,))
            statuses = [STATUS[one] for one in WorkflowStatus] if status is None else [status]
            pages = (self._listed(statement, *name, one, *place, limit) for one in statuses)
            keys = sorted((key for page in pages for key in page), reverse=True)[:limit]
        ids = [workflow_id for _, workflow_id in keys]
        found = {row.workflow_id: row for row in map(workflow_of, self._execute(sql.WORKFLOWS_BY_ID, (json.dumps(ids),)))}
        return [found[workflow_id] for workflow_id in ids]

    def _listed(self, statement: str, *parameters: str | int | None) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def key_holder(self, name: str, key: str) -> str | None:
        return self._text(sql.KEY_HOLDER, name, key)

    # -- inbox ---------------------------------------------------------------------------------------------------------

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        # Of few, all are asked for: their order says which are the first.
        return in_order(map(event_of, self._execute(sql.DUE_EVENTS, sql.numbered(workflow_id, now, max(limit, 8)))))[:limit]

    def inbox(self, workflow_id: str) -> Sequence[Event]:
        return in_order(map(event_of, self._execute(sql.INBOX, (workflow_id,))))

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Workflows with due events, the longest due first; a page cut short by one with very many of them is short."""
        found: dict[str, None] = {}
        for _, workflow_id in self._due(now, limit, owner):
            if workflow_id not in found:
                found[workflow_id] = None
                if len(found) >= limit:
                    break
        return list(found)

    def _due(self, now: int, limit: int, owner: str) -> Iterable[tuple[int, str]]:
        """When events are due, and in which inbox, the longest due first: of so many workflows, or more."""
        return self._execute(sql.DUE_WORKFLOWS, (owner, now, OVERREAD * (limit + 16)))

    def next_event_at(self, owner: str | None = None) -> int | None:
        owners = self._event_owners() if owner is None else [owner]
        instants = [self._instant(sql.NEXT_EVENT_AT, one) for one in owners]
        return min((at for at in instants if at is not None), default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        owners = self._event_owners() if owner is None else [owner]
        found = [event_of(row) for one in owners for row in self._execute(sql.UPCOMING_EVENTS, (one, limit))]
        if len(owners) > 1:
            found.sort(key=lambda event: (event.due_at, event.workflow_id, event.order, event.event_id))
        return found[:limit]

    # -- messages ------------------------------------------------------------------------------------------------------

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first; two statements per distinct priority."""
        found: list[Message] = []
        priority = self._instant(sql.HIGHEST_PRIORITY, queue)
        while priority is not None:
            rows = self._execute(sql.OFFERED, (queue, priority, now, limit - len(found)))
            found.extend(map(message_of, rows))
            if len(found) >= limit:
                break
            priority = self._instant(sql.NEXT_PRIORITY, queue, priority)
        return found

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        if queues is None:
            return self._instant(sql.NEXT_MESSAGE_AT)
        instants: list[int] = []
        for queue in queues:
            priority = self._instant(sql.HIGHEST_PRIORITY, queue)
            while priority is not None:
                instant = self._instant(sql.MESSAGE_AT, queue, priority)
                if instant is not None:
                    instants.append(instant)
                priority = self._instant(sql.NEXT_PRIORITY, queue, priority)
        return min(instants, default=None)

    def _instant(self, statement: str, *parameters: str | int) -> int | None:
        number: int | None = self._execute(statement, parameters).fetchone()[0]
        return number

    def message(self, key: MessageKey) -> Message | None:
        row = self._execute(sql.MESSAGE, key).fetchone()
        return None if row is None else message_of(row)

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any; reads every message's index entry."""
        return dict(self._execute(sql.QUEUE_SIZES))

    def messages(self, limit: int) -> Sequence[Message]:
        return [message_of(row) for row in self._execute(sql.MESSAGES, (limit,))]

    def poll_data(self, task_type: str | None) -> Sequence[PollData]:
        rows = self._execute(sql.POLLS) if task_type is None else self._execute(sql.POLLS_OF, (task_type,))
        return [poll_of(row) for row in rows]

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        """Nothing: the outgoing part is committed with the rest."""
        return []

    # -- definitions ---------------------------------------------------------------------------------------------------

    def registry_version(self) -> int:
        return self._instant(sql.REGISTRY_VERSION) or 0

    def definition(self, digest: str) -> str | None:
        return self._text(sql.DEFINITION, digest)

    def workflow_def(self, name: str, version: int | None) -> str | None:
        if version is None:
            return self._text(sql.WORKFLOW_DEF_NEWEST, name)
        return self._text(sql.WORKFLOW_DEF, name, version)

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        return [(name, version) for name, version in self._execute(sql.WORKFLOW_DEFS)]

    def task_def(self, name: str) -> str | None:
        return self._text(sql.TASK_DEF, name)

    def task_defs(self) -> Sequence[str]:
        return [name for (name,) in self._execute(sql.TASK_DEFS)]

    def _text(self, statement: str, *parameters: str | int) -> str | None:
        row = self._execute(statement, parameters).fetchone()
        return None if row is None else text_of(row)


class RowWrites(RowReads, LimitWrites, TableWrites):
    """One atomic change of the store; sees its own writes. Valid until its block ends."""

    #: What an application writes in the same transaction.
    own: OwnRows | None = None
    #: What a store binds for an empty cell.
    _null: float | None = None

    def own_rows(self) -> OwnRows:
        """See `JoinedTransaction`."""
        if self.own is None:
            self.own = OwnRows(self._connection, self._path)
        return self.own

    # -- executions ----------------------------------------------------------------------------------------------------

    def _claim(self, decision: Decision) -> None:
        """Take the idempotency key, or take it over from the execution the decision names; raises KeyTaken."""
        workflow = decision.workflow
        place = (workflow.name, workflow.idempotency_key)
        if self._execute(sql.CLAIM_KEY, (*place, workflow.workflow_id)).rowcount:
            return
        moved = (workflow.workflow_id, *place, decision.replaces)
        if decision.replaces is not None and self._execute(sql.MOVE_KEY, moved).rowcount:
            return
        holder = self._execute(sql.KEY_HOLDER, place).fetchone()[0]
        raise KeyTaken(holder, f"idempotency key {workflow.idempotency_key!r} of {workflow.name!r} belongs to {holder!r}")

    def _updated(self, decision: Decision, written: sqlite3.Cursor) -> None:
        changed = written.rowcount
        if changed != len(decision.updated):
            raise InvariantBroken(
                f"{decision.workflow.workflow_id}: {len(decision.updated) - changed} of {len(decision.updated)}"
                " updated tasks have no row like it"
            )

    def _rows(self, decision: Decision, execution: int) -> None:
        fence, null = decision.workflow.fence + 1, self._null
        if decision.dropped:
            self._executemany(sql.DELETE_TASK, [(execution, ref) for ref in decision.dropped])
        if decision.updated:
            self._updated(
                decision,
                self._executemany(sql.UPDATE_TASK, [(fence, *task_row(task, null), execution) for task in decision.updated]),
            )
        if decision.inserted:
            self._executemany(sql.INSERT_TASK, [(execution, fence, *task_row(task, null)) for task in decision.inserted])
        if decision.renamed:
            names = [
                (one.new_ref, None if one.new_base_ref == one.new_ref else one.new_base_ref, execution, one.ref)
                for one in decision.renamed
            ]
            self._executemany(sql.RENAME_TASK, names)
        if decision.texts or decision.externals:
            self._texts(decision, execution)
        if decision.messages:
            self._executemany(sql.PUT_MAIL, map(mail_row, decision.messages))
        self._journal(decision, execution)

    def _journal(self, decision: Decision, execution: int) -> None:
        if decision.history:
            self._executemany(sql.INSERT_HISTORY, history_rows(execution, decision.history))

    def _texts(self, decision: Decision, execution: int) -> None:
        if decision.texts:
            texts = [(execution, text.digest, text.text) for text in decision.texts if text.text is not None]
            self._executemany(sql.INSERT_TEXT, texts)
        if decision.externals:
            self._keep_externals(decision.workflow.workflow_id, decision.externals)

    def _events(self, decision: Decision) -> None:
        workflow_id = decision.workflow.workflow_id
        outgoing = decision.outgoing
        gone, own = self._own_events(decision)
        if gone:
            self._executemany(sql.DELETE_EVENT, [(workflow_id, event_id) for event_id in gone])
        if decision.release_held:
            self._execute(sql.RELEASE_HELD, sql.numbered(decision.released_at, workflow_id))
        owner = decision.workflow.owner
        timers = [event if event.owner == owner else attrs.evolve(event, owner=owner) for event in own] if own else own
        if outgoing.posted:
            self._executemany(sql.PUT_INBOX_EVENT, map(inbox_row, (*timers, *outgoing.posted)))
        elif timers:
            self._executemany(sql.PUT_EVENT, map(event_row, timers))
        if outgoing.removed or outgoing.put:
            self._queue(outgoing)

    def _own_events(self, decision: Decision) -> tuple[Sequence[str], Sequence[Event]]:
        """What of an execution's own events is the inbox's: ids to delete, events to put."""
        return decision.consumed + decision.cancelled, decision.timers

    def _queue(self, outgoing: Outgoing) -> None:
        if outgoing.removed:
            self._executemany(sql.DELETE_MESSAGE, outgoing.removed)
        if outgoing.put:
            self._executemany(sql.PUT_MESSAGE, map(message_row, outgoing.put))

    def post(self, events: Iterable[Event]) -> None:
        self._many(sql.PUT_INBOX_EVENT, map(inbox_row, events))

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        self._many(sql.PARK, [sql.numbered(broken_turns, reason, workflow_id)])
        if reason is not None:
            self._many(sql.HOLD, [(workflow_id,)])

    def release(self, workflow_id: str, now: int) -> None:
        self._many(sql.PARK, [sql.numbered(0, None, workflow_id)])
        self._many(sql.RELEASE_HELD, [sql.numbered(now, workflow_id)])

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        self._many(sql.INSERT_LOG, [(workflow_id, entry.task_id, entry.at, entry.text) for entry in entries])

    def remove(self, workflow_id: str) -> None:
        for statement in (*sql.REMOVE, *REMOVE_EXTERNALS):
            self._many(statement, [(workflow_id,)])
        # Its row first: the removal of an attempt of an execution that stays is something else.
        self._execute(sql.REMOVED, (workflow_id,))
        for number in self._execute(sql.REMOVE_WORKFLOW, (workflow_id,)).fetchall():
            for statement in sql.REMOVE_ROWS:
                self._execute(statement, sql.numbered(*number))
        self._unindex(workflow_id)

    def put_limit(self, change: LimitChange) -> None:
        self._dirty = True
        self._change_limits([change])

    # -- messages, relay -----------------------------------------------------------------------------------------------

    def discard(self, messages: Sequence[Message]) -> None:
        self._many(sql.DISCARD_MESSAGE, map(message_row, messages))

    def record_polls(self, polls: Sequence[PollData]) -> None:
        self._many(sql.RECORD_POLL, map(poll_row, polls))

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Nothing: the outgoing part is committed with the rest."""

    # -- definitions ---------------------------------------------------------------------------------------------------

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        self._many(sql.PUT_WORKFLOW_DEF, [(name, version, text)])
        self._execute(sql.REGISTRY_CHANGED)

    def put_task_def(self, name: str, text: str) -> None:
        self._many(sql.PUT_TASK_DEF, [(name, text)])
        self._execute(sql.REGISTRY_CHANGED)

    def drop_workflow_def(self, name: str, version: int) -> None:
        self._many(sql.DROP_WORKFLOW_DEF, [(name, version)])
        self._execute(sql.REGISTRY_CHANGED)

    def drop_task_def(self, name: str) -> None:
        self._many(sql.DROP_TASK_DEF, [(name,)])
        self._execute(sql.REGISTRY_CHANGED)

    def embed(self, digest: str, text: str) -> None:
        self._many(sql.EMBED, [(digest, text)])
