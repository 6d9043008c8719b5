"""Executions, their attempts and their journals, as a store in SQL has them; every statement finds its rows by an index."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from conductorlite.model.canonical import Payload
from conductorlite.model.executions import HistoryEvent, Task, TaskLog, Workflow
from conductorlite.model.later import pattern
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.history import history_of, tail_of
from conductorlite.store.sqlite.rows import (
    STATUS,
    Row,
    Session,
    event_row,
    mail_of,
    packed_hex,
    stored_text,
    task_of,
    workflow_of,
)
from conductorlite.store.sqlite.tables import ATTEMPTS_SINCE, REMOVE_EXTERNALS, RowFeeds
from conductorlite.store.sqlite.timers import (
    MARK,
    entries_of,
    event_of_entry,
)
from conductorlite.store.tables import (
    ExecutionFilter,
)

if TYPE_CHECKING:
    from conductorlite.model.mailbox import WorkflowMessage

__all__ = ["RowExecutions", "RowHistory", "SQLiteExecutions", "SQLiteHistory", "kept_lines"]

#: Later than every execution.
_END: Final = (2**63 - 1, "")


#: How the id of an attempt begins.
_HEAD: Final = pattern("[0-9a-f]{8}")


class RowMailbox:
    """The messages to one execution; valid until the block of its view ends."""

    def __init__(self, session: Session, workflow_id: str) -> None:
        self._execute, self._id = session.execute, workflow_id

    def message(self, topic: str, key: str) -> WorkflowMessage | None:
        row = self._execute(sql.MAIL, (self._id, topic, key)).fetchone()
        return None if row is None else mail_of(row)

    def unreceived(self, topic: str, limit: int) -> Sequence[WorkflowMessage]:
        return [mail_of(row) for row in self._execute(sql.UNRECEIVED, (self._id, topic, limit))]

    def messages(self, after: int, limit: int) -> Sequence[WorkflowMessage]:
        return [mail_of(row) for row in self._execute(sql.MAILBOX, (self._id, after, limit))]


class RowExecutions:
    """Rows of executions and of their attempts."""

    def __init__(self, session: Session, *, feeds: RowFeeds) -> None:
        self._session, self._feeds = session, feeds

    def workflow(self, workflow_id: str) -> Workflow | None:
        row = self._session.execute(sql.WORKFLOW, (workflow_id,)).fetchone()
        return None if row is None else workflow_of(row)

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references, in one statement; None for those that do not exist."""
        found: dict[str, Task | None] = dict.fromkeys(refs)
        if len(found) == 1:
            rows = self._session.execute(sql.TASK_LAST, (workflow_id, *found)).fetchall()
        else:
            rows = self._session.execute(sql.TASKS_LAST, (json.dumps(sorted(found)), workflow_id)).fetchall()
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
        return [task_of(row, workflow_id) for row in self._session.execute(statement, (workflow_id,))]

    def last_attempts(self, workflow_id: str) -> Sequence[Task]:
        # In order of attempts: a later one takes the place of those before it.
        return list({task.ref: task for task in self._tasks(sql.TASKS_ALL, workflow_id)}.values())

    def payloads(self, workflow_id: str, digests: Collection[str]) -> Mapping[str, Payload]:
        """Large payloads of an execution with their texts, by their hashes; one statement."""
        rows = self._session.execute(sql.TEXTS, (json.dumps(sorted(digests)), workflow_id))
        return {digest: stored_text(digest, text) for digest, text in rows}

    def _latest(self, workflow_id: str, base_ref: str) -> Task | None:
        row = self._session.execute(sql.TASK_LATEST_IN_LOOP, (workflow_id, base_ref)).fetchone()
        if row is not None:
            return task_of(row, workflow_id)
        # outside every loop the definition's reference is the printed one
        row = self._session.execute(sql.TASK_LAST, (workflow_id, base_ref)).fetchone()
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
        row = (
            self._session.execute(sql.LIVE_TASK_BY_ID, place).fetchone() or self._session.execute(sql.TASK_BY_ID, place).fetchone()
        )
        return None if row is None else task_of(row[1:], row[0])

    def mailbox(self, workflow_id: str) -> RowMailbox:
        return RowMailbox(self._session, workflow_id)

    def workflow_ids(self, status: WorkflowStatus | None, after: str, limit: int) -> Sequence[str]:
        if status is None:
            rows = self._session.execute(sql.WORKFLOW_IDS, (after, limit))
        else:
            rows = self._session.execute(sql.WORKFLOW_IDS_OF, (after, STATUS[status], limit))
        return [workflow_id for (workflow_id,) in rows]

    def page(self, wanted: ExecutionFilter, after: tuple[int, str] | None, limit: int) -> Sequence[Workflow]:
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
        found = {row.workflow_id: row for row in map(workflow_of, self._session.execute(sql.WORKFLOWS_BY_ID, (json.dumps(ids),)))}
        return [found[workflow_id] for workflow_id in ids]

    def _listed(self, statement: str, *parameters: str | int | None) -> list[Row]:
        return self._session.execute(statement, parameters).fetchall()

    def key_holder(self, name: str, key: str) -> str | None:
        return self._session.text(sql.KEY_HOLDER, name, key)

    def held_by(self, holder: str) -> Sequence[Task]:
        held = [task_of(row[1:], row[0]) for row in self._session.execute(sql.HELD_BY, (holder,))]
        return sorted(held, key=lambda task: (task.workflow_id, task.ref, task.attempt))

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        return [task_of(row, workflow_id) for row in self._session.execute(ATTEMPTS_SINCE, (workflow_id, fence))]

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        self._session.many(sql.PARK, [sql.numbered(broken_turns, reason, workflow_id)])
        if reason is not None:
            self._session.many(sql.HOLD, [(workflow_id,)])

    def release(self, workflow_id: str, now: int) -> None:
        self._session.many(sql.PARK, [sql.numbered(0, None, workflow_id)])
        self._session.many(sql.RELEASE_HELD, [sql.numbered(now, workflow_id)])

    def remove(self, workflow_id: str) -> None:
        for statement in (*sql.REMOVE, *REMOVE_EXTERNALS):
            self._session.many(statement, [(workflow_id,)])
        # Its row first: the removal of an attempt of an execution that stays is something else.
        self._session.execute(sql.REMOVED, (workflow_id,))
        for number in self._session.execute(sql.REMOVE_WORKFLOW, (workflow_id,)).fetchall():
            for statement in sql.REMOVE_ROWS:
                self._session.execute(statement, sql.numbered(*number))
        self._feeds.unindex(workflow_id)


class SQLiteExecutions(RowExecutions):
    """The executions of a store that keeps timers in rows of executions."""

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        """See `RowExecutions`; what is held stands in the inbox."""
        row = None if reason is None else self._session.execute(sql.KEPT_OF, (workflow_id,)).fetchone()
        if row is not None and (entries := entries_of(row[1])):
            self._session.many(sql.PUT_EVENT, [event_row(event_of_entry(workflow_id, row[0], entry)) for entry in entries])
            self._session.execute(sql.SPILL, (MARK, workflow_id))
        super().park(workflow_id, broken_turns, reason)


class RowHistory:
    """Journals of executions, and what workers logged."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def lines(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        rows = (
            self._session.execute(sql.HISTORY_AFTER, (workflow_id, after))
            if after
            else self._session.execute(sql.HISTORY, (workflow_id,))
        )
        return [line for row in rows for line in history_of(row) if line.n > after]

    def logs(self, task_id: str) -> Sequence[TaskLog]:
        rows = self._session.execute(sql.LOGS, (task_id,))
        return [TaskLog(task_id=task, at=at, text=text) for task, at, text in rows]

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        self._session.many(sql.INSERT_LOG, [(workflow_id, entry.task_id, entry.at, entry.text) for entry in entries])


class SQLiteHistory(RowHistory):
    """The journal of a store that keeps the last lines in the row of their execution."""

    def lines(self, workflow_id: str, after: int = 0) -> Sequence[HistoryEvent]:
        """The journal of an execution, its last lines from its row."""
        found = super().lines(workflow_id, after)
        row = self._session.execute(sql.LAST_LINES, (workflow_id,)).fetchone()
        if row is None:
            return found
        first, at, _, text, _ = tail_of(row)
        return [*found, *(line for line in history_of((first, at, text)) if line.n > after)] if text else found


def kept_lines(session: Session) -> Iterator[Row]:
    """The last lines of every journal, which stand in the row of their execution, as `history` would have them."""
    for number, *row in session.execute(sql.LINES):
        first, at, _, text, _ = tail_of(tuple(row))
        if text:
            yield (number << 28) + first, at, text
