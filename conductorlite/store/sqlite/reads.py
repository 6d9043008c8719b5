"""Reading a SQLite store inside an open transaction: the queries of `ReadingTransaction`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import Event, Message, MessageKey
from conductorlite.model.executions import HistoryEvent, PollData, Task, TaskLog, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.feed import SQLiteChangeReads, SQLiteUpkeepReads
from conductorlite.store.sqlite.limits import LimitRows, SQLiteDrivenReads, SQLiteHolderReads, SQLiteOwnerReads
from conductorlite.store.sqlite.rows import Row, event_of, history_of, message_of, poll_of, stored_text, task_of, workflow_of
from conductorlite.store.sqlite.tables import (
    SQLiteArchiveReads,
    SQLiteEventReads,
    SQLitePayloadReads,
    SQLiteScheduleReads,
    SQLiteSchemaReads,
)
from conductorlite.store.tables import ExecutionFilter, RelayItem

__all__ = ["OVERREAD", "SQLiteReads"]

#: `due_workflows` reads at most `OVERREAD * (limit + 16)` due events, however many one workflow has.
OVERREAD: Final = 4

#: Later than every execution.
_END: Final = (2**63 - 1, "")


class SQLiteReads(
    LimitRows,
    SQLiteEventReads,
    SQLiteScheduleReads,
    SQLitePayloadReads,
    SQLiteChangeReads,
    SQLiteArchiveReads,
    SQLiteUpkeepReads,
    SQLiteSchemaReads,
    SQLiteOwnerReads,
    SQLiteDrivenReads,
    SQLiteHolderReads,
):
    """One consistent view of the store; valid until its block ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    # -- executions ----------------------------------------------------------------------------------------------------

    def workflow(self, workflow_id: str) -> Workflow | None:
        """The row of an execution, or None."""
        row = self._execute(sql.WORKFLOW, (workflow_id,)).fetchone()
        return None if row is None else workflow_of(row)

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references, in one statement; None for those that do not exist."""
        found: dict[str, Task | None] = dict.fromkeys(refs)
        if len(found) == 1:
            rows = self._execute(sql.TASK_LAST, (workflow_id, *found)).fetchall()
        else:
            rows = self._execute(sql.TASKS_LAST, (json.dumps(sorted(found)), workflow_id, workflow_id)).fetchall()
        for row in rows:
            task = task_of(row)
            found[task.ref] = task
        return found

    def latest(self, workflow_id: str, base_refs: Collection[str]) -> Mapping[str, Task | None]:
        """The rows of definition references that were scheduled last, of any round; a statement or two for each."""
        return {base_ref: self._latest(workflow_id, base_ref) for base_ref in base_refs}

    def live(self, workflow_id: str) -> Sequence[Task]:
        """Every live last attempt."""
        return [task_of(row) for row in self._execute(sql.TASKS_LIVE, (workflow_id,))]

    def failed(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt that ended in failure."""
        return [task_of(row) for row in self._execute(sql.TASKS_FAILED, (workflow_id,))]

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every last attempt."""
        # In order of attempts: a later one takes the place of those before it.
        return list({task.ref: task for task in map(task_of, self._execute(sql.TASKS_ALL, (workflow_id,)))}.values())

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes; one statement."""
        rows = self._execute(sql.TEXTS, (json.dumps(sorted(digests)), workflow_id))
        return {digest: stored_text(digest, text) for digest, text in rows}

    def _latest(self, workflow_id: str, base_ref: str) -> Task | None:
        row = self._execute(sql.TASK_LATEST_IN_LOOP, (workflow_id, base_ref)).fetchone()
        if row is not None:
            return task_of(row)
        # outside every loop the definition's reference is the printed one
        row = self._execute(sql.TASK_LAST, (workflow_id, base_ref)).fetchone()
        if row is None:
            return None
        task = task_of(row)
        return None if task.iterations else task

    def attempts(self, workflow_id: str) -> Sequence[Task]:
        """Every attempt of an execution, in order of scheduling, then attempt."""
        tasks = [task_of(row) for row in self._execute(sql.TASKS_ALL, (workflow_id,))]
        tasks.sort(key=lambda task: (task.seq, task.attempt))
        return tasks

    def task_by_id(self, task_id: str) -> Task | None:
        """The attempt with that id, of any execution, or None."""
        row = self._execute(sql.TASK_BY_ID, (task_id,)).fetchone()
        return None if row is None else task_of(row)

    def history(self, workflow_id: str) -> Sequence[HistoryEvent]:
        """The journal of an execution, in order."""
        return [history_of(row) for row in self._execute(sql.HISTORY, (workflow_id,))]

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        """What workers logged for an attempt, in order of arrival."""
        rows = self._execute(sql.LOGS, (task_id,))
        return [TaskLog(task_id=task, at=at, text=text) for task, at, text in rows]

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        """A page of workflow ids in ascending order, greater than `after`, of one status or all."""
        if status is None:
            rows = self._execute(sql.WORKFLOW_IDS, (after, limit))
        else:
            rows = self._execute(sql.WORKFLOW_IDS_OF, (status.value, after, limit))
        return [workflow_id for (workflow_id,) in rows]

    def executions(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
        """A page of executions, newest first; two statements, or seven for a name alone: its statuses are merged."""
        place = after or _END
        rest = (wanted.name, wanted.status, wanted.correlation_id)
        if wanted.parent_workflow_id is not None:
            keys = self._listed(sql.EXECUTIONS_OF_PARENT, wanted.parent_workflow_id, *rest, *place, limit)
        elif wanted.correlation_id is not None:
            keys = self._listed(sql.EXECUTIONS_CORRELATED, wanted.correlation_id, *rest, *place, limit)
        elif wanted.name is not None:
            statuses = WorkflowStatus if wanted.status is None else (wanted.status,)
            pages = (self._listed(sql.EXECUTIONS_NAMED, wanted.name, status, *place, limit) for status in statuses)
            keys = sorted((key for page in pages for key in page), reverse=True)[:limit]
        elif wanted.status is not None:
            keys = self._listed(sql.EXECUTIONS_IN, wanted.status, *place, limit)
        else:
            keys = self._listed(sql.EXECUTIONS, *place, limit)
        ids = [workflow_id for _, workflow_id in keys]
        found = {row.workflow_id: row for row in map(workflow_of, self._execute(sql.WORKFLOWS_BY_ID, (json.dumps(ids),)))}
        return [found[workflow_id] for workflow_id in ids]

    def _listed(self, statement: str, *parameters: str | int | None) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def key_holder(self, name: str, key: str) -> str | None:
        """Id of the execution that holds an idempotency key of a workflow name, or None."""
        return self._text(sql.KEY_HOLDER, name, key)

    # -- inbox ---------------------------------------------------------------------------------------------------------

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        """Events of one inbox that are due at `now` and not held, in inbox order."""
        return [event_of(row) for row in self._execute(sql.DUE_EVENTS, (workflow_id, now, limit))]

    def inbox(self, workflow_id: str) -> Sequence[Event]:
        """Every event of one inbox, held ones too, in inbox order."""
        events = [event_of(row) for row in self._execute(sql.INBOX, (workflow_id,))]
        events.sort(key=lambda event: (event.order, event.event_id))
        return events

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Workflows with due events, the longest due first; a page cut short by one with very many of them is short."""
        rows = self._execute(sql.DUE_WORKFLOWS, (owner, now, OVERREAD * (limit + 16)))
        found: dict[str, None] = {}
        for (workflow_id,) in rows:
            if workflow_id not in found:
                found[workflow_id] = None
                if len(found) >= limit:
                    break
        return list(found)

    def next_event_at(self, owner: str | None = None) -> int | None:
        """The earliest `due_at` of any event of an owner (None: of all) that is not held, or None."""
        owners = self._event_owners() if owner is None else [owner]
        instants = [self._instant(sql.NEXT_EVENT_AT, one) for one in owners]
        return min((at for at in instants if at is not None), default=None)

    def upcoming_events(self, limit: int, owner: str | None = None) -> Sequence[Event]:
        """The next events of an owner (None: of all) that are not held, in order of `due_at`."""
        owners = self._event_owners() if owner is None else [owner]
        found = [event_of(row) for one in owners for row in self._execute(sql.UPCOMING_EVENTS, (one, limit))]
        if len(owners) > 1:
            found.sort(key=lambda event: (event.due_at, event.workflow_id, event.event_id))
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
        """The earliest `due_at` in these queues (None: in any), or None."""
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
        """One message by its key."""
        row = self._execute(sql.MESSAGE, key).fetchone()
        return None if row is None else message_of(row)

    def queue_sizes(self) -> Mapping[str, int]:
        """Number of messages per queue that has any; reads every message's index entry."""
        return dict(self._execute(sql.QUEUE_SIZES))

    def messages(self, limit: int) -> Sequence[Message]:
        """The next messages of all queues in order of `due_at`."""
        return [message_of(row) for row in self._execute(sql.MESSAGES, (limit,))]

    def poll_data(self, task_type: str | None) -> Sequence[PollData]:
        """The last polls of a task type (None: of all), in order of type and domain, no domain first."""
        rows = self._execute(sql.POLLS) if task_type is None else self._execute(sql.POLLS_OF, (task_type,))
        return [poll_of(row) for row in rows]

    def outbox(self, limit: int) -> Sequence[RelayItem]:
        """Nothing: the outgoing part is committed with the rest."""
        return []

    # -- definitions ---------------------------------------------------------------------------------------------------

    def registry_version(self) -> int:
        """A number that grows with every change of a registered definition."""
        return self._instant(sql.REGISTRY_VERSION) or 0

    def definition(self, digest: str) -> str | None:
        """An embedded definition by its hash."""
        return self._text(sql.DEFINITION, digest)

    def workflow_def(self, name: str, version: int | None) -> str | None:
        """A registered workflow definition; version None is the highest."""
        if version is None:
            return self._text(sql.WORKFLOW_DEF_NEWEST, name)
        return self._text(sql.WORKFLOW_DEF, name, version)

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        """Names and versions of the registered workflow definitions, in order."""
        return [(name, version) for name, version in self._execute(sql.WORKFLOW_DEFS)]

    def task_def(self, name: str) -> str | None:
        """A registered task definition."""
        return self._text(sql.TASK_DEF, name)

    def task_defs(self) -> Sequence[str]:
        """Names of the registered task definitions, in order."""
        return [name for (name,) in self._execute(sql.TASK_DEFS)]

    def _text(self, statement: str, *parameters: str | int) -> str | None:
        row = self._execute(statement, parameters).fetchone()
        if row is None:
            return None
        text: str = row[0]
        return text
