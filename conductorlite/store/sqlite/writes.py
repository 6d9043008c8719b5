"""Writing a SQLite store inside an open transaction: `WritingTransaction`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import attrs

from conductorlite.model.decisions import Decision, Event, Message, Outgoing
from conductorlite.model.errors import AlreadyExists, FencedOut, InvalidInput, InvariantBroken, KeyTaken
from conductorlite.model.executions import PollData, Task, TaskLog, Workflow
from conductorlite.model.limits import LimitChange
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.connections import translated
from conductorlite.store.sqlite.limits import LimitRowsWritten, SQLiteDrivenWrites, SQLiteHolderWrites, SQLiteOwnerWrites
from conductorlite.store.sqlite.reads import SQLiteReads
from conductorlite.store.sqlite.rows import Row, event_row, history_row, inbox_row, message_row, poll_row, task_row, workflow_row
from conductorlite.store.sqlite.tables import (
    REMOVE_EXTERNALS,
    SQLiteArchiveWrites,
    SQLiteEventWrites,
    SQLitePayloadWrites,
    SQLiteScheduleWrites,
    SQLiteSchemaWrites,
)
from conductorlite.store.tables import RelayItem

__all__ = ["SQLiteWrites"]


class SQLiteWrites(
    SQLiteReads,
    LimitRowsWritten,
    SQLiteEventWrites,
    SQLiteScheduleWrites,
    SQLitePayloadWrites,
    SQLiteArchiveWrites,
    SQLiteSchemaWrites,
    SQLiteOwnerWrites,
    SQLiteDrivenWrites,
    SQLiteHolderWrites,
):
    """One atomic change of the store; sees its own writes. Valid until its block ends."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        super().__init__(connection)
        self._path = path
        self._executemany = connection.executemany
        #: Whether this transaction has written anything that a failing decision must not take along.
        self._dirty = False

    # -- executions ----------------------------------------------------------------------------------------------------

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence: one statement per kind of row.

        Raises FencedOut, AlreadyExists, KeyTaken; InvariantBroken for rows that contradict the store; InvalidInput for text or
        numbers SQLite cannot keep; StorageError. When the disk is full SQLite may have undone the whole transaction:
        then its commit is refused.
        """
        # The first decision of a transaction needs no savepoint: to undo it is to begin the transaction again.
        alone = not self._dirty
        if not alone:
            self._execute("SAVEPOINT decision")
        written = False
        try:
            if decision.created and decision.workflow.idempotency_key is not None:
                self._claim(decision)
                written = self._dirty = True
            self._fenced(decision)
            written = self._dirty = True
            self._rows(decision)
            self._events(decision)
            if decision.limits:
                self._change_limits(decision.limits)
        except BaseException as error:
            if not alone or written:  # a decision that was fenced out has written nothing
                self._undo(alone)
            if isinstance(error, sqlite3.Error):
                raise translated(error, self._path) from error
            if isinstance(error, UnicodeEncodeError | OverflowError):
                raise InvalidInput(f"{decision.workflow.workflow_id}: a value cannot be stored: {error}") from error
            raise
        if not alone:
            self._execute("RELEASE decision")

    def _undo(self, alone: bool) -> None:
        if not self._connection.in_transaction:
            return  # SQLite has already undone everything (disk full): the commit will refuse
        if alone:
            self._execute("ROLLBACK")
            self._dirty = False
            self._execute("BEGIN IMMEDIATE")
        else:
            self._execute("ROLLBACK TO decision")
            self._execute("RELEASE decision")

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

    def _fenced(self, decision: Decision) -> None:
        workflow = decision.workflow
        row = workflow_row(workflow)
        if decision.created:
            try:
                self._execute(sql.INSERT_WORKFLOW, row)
            except sqlite3.IntegrityError:
                if self._execute(sql.WORKFLOW_EXISTS, (workflow.workflow_id,)).fetchone() is None:
                    raise
                raise AlreadyExists(f"an execution {workflow.workflow_id!r} exists already") from None
        elif self._execute(sql.UPDATE_WORKFLOW, (*row[: sql.CHANGING], *row[-5:])).rowcount == 0:
            moved = (*row[: sql.CHANGING], row[-1], *row[-5:-1])
            if self._execute(sql.UPDATE_WORKFLOW_AND_STATUS, moved).rowcount == 0:
                raise FencedOut(f"{workflow.workflow_id}: another turn committed after fence {workflow.fence} was read")

    def _rows(self, decision: Decision) -> None:
        workflow_id, fence = decision.workflow.workflow_id, decision.workflow.fence + 1
        if decision.dropped:
            self._executemany(sql.DELETE_TASK, [(workflow_id, ref) for ref in decision.dropped])
        if decision.updated:
            self._update(decision.workflow, decision.updated)
        if decision.inserted:
            self._executemany(sql.INSERT_TASK, [(fence, *task_row(task)) for task in decision.inserted])
        if decision.renamed:
            names = [(one.new_ref, one.new_base_ref, workflow_id, one.ref) for one in decision.renamed]
            self._executemany(sql.RENAME_TASK, names)
        if decision.texts:
            texts = [(workflow_id, text.digest, text.text) for text in decision.texts if text.text is not None]
            self._executemany(sql.INSERT_TEXT, texts)
        if decision.externals:
            self._keep_externals(workflow_id, decision.externals)
        if decision.history:
            self._executemany(sql.INSERT_HISTORY, [history_row(workflow_id, event) for event in decision.history])

    def _update(self, workflow: Workflow, tasks: Sequence[Task]) -> None:
        changed = self._executemany(sql.UPDATE_TASK, [(workflow.fence + 1, *task_row(task)) for task in tasks]).rowcount
        if changed != len(tasks):
            raise InvariantBroken(
                f"{workflow.workflow_id}: {len(tasks) - changed} of {len(tasks)} updated tasks have no row like it"
            )

    def _events(self, decision: Decision) -> None:
        workflow_id = decision.workflow.workflow_id
        outgoing = decision.outgoing
        gone = decision.consumed + decision.cancelled
        if gone:
            self._executemany(sql.DELETE_EVENT, [(workflow_id, event_id) for event_id in gone])
        if decision.release_held:
            self._execute(sql.RELEASE_HELD, (decision.released_at, workflow_id))
        owner = decision.workflow.owner
        timers = [event if event.owner == owner else attrs.evolve(event, owner=owner) for event in decision.timers]
        if outgoing.posted:
            self._executemany(sql.PUT_LETTER, map(inbox_row, (*timers, *outgoing.posted)))
        elif timers:
            self._executemany(sql.PUT_EVENT, map(event_row, timers))
        if outgoing.removed or outgoing.put:
            self._queue(outgoing)

    def _queue(self, outgoing: Outgoing) -> None:
        if outgoing.removed:
            self._executemany(sql.DELETE_MESSAGE, outgoing.removed)
        if outgoing.put:
            self._executemany(sql.PUT_MESSAGE, map(message_row, outgoing.put))

    def post(self, events: Iterable[Event]) -> None:
        """Put events into inboxes; an event of the same id is replaced. Never touches a fence."""
        self._many(sql.PUT_LETTER, map(inbox_row, events))

    def park(self, workflow_id: str, broken_turns: int, reason: str | None) -> None:
        """Record that turns broke an invariant; with a reason, hold the whole inbox. Never touches a fence."""
        self._many(sql.PARK, [(broken_turns, reason, workflow_id)])
        if reason is not None:
            self._many(sql.HOLD, [(workflow_id,)])

    def release(self, workflow_id: str, now: int) -> None:
        """Date every held event of an inbox `now`, and forget that turns were broken."""
        self._many(sql.PARK, [(0, None, workflow_id)])
        self._many(sql.RELEASE_HELD, [(now, workflow_id)])

    def log(self, workflow_id: str, entries: Sequence[TaskLog]) -> None:
        """Append log lines."""
        self._many(sql.INSERT_LOG, [(workflow_id, entry.task_id, entry.at, entry.text) for entry in entries])

    def remove(self, workflow_id: str) -> None:
        """Delete an execution with all that belongs to it."""
        for statement in (*sql.REMOVE, *REMOVE_EXTERNALS):
            self._many(statement, [(workflow_id,)])
        self._unindex(workflow_id)

    def put_limit(self, change: LimitChange) -> None:
        """Set one limit right; raises FencedOut when its fence differs."""
        self._dirty = True
        self._change_limits([change])

    # -- messages, relay -----------------------------------------------------------------------------------------------

    def discard(self, messages: Sequence[Message]) -> None:
        """Delete messages that still stand exactly as given."""
        self._many(sql.DISCARD_MESSAGE, map(message_row, messages))

    def record_polls(self, polls: Sequence[PollData]) -> None:
        """Keep polls as the last of their type and domain, unless a later one is known."""
        self._many(sql.RECORD_POLL, map(poll_row, polls))

    def deliver(self, items: Sequence[RelayItem]) -> None:
        """Nothing: the outgoing part is committed with the rest."""

    # -- definitions ---------------------------------------------------------------------------------------------------

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        """Register or replace a workflow definition."""
        self._many(sql.PUT_WORKFLOW_DEF, [(name, version, text)])
        self._execute(sql.REGISTRY_CHANGED)

    def put_task_def(self, name: str, text: str) -> None:
        """Register or replace a task definition."""
        self._many(sql.PUT_TASK_DEF, [(name, text)])
        self._execute(sql.REGISTRY_CHANGED)

    def embed(self, digest: str, text: str) -> None:
        """Keep a definition under its content hash; nothing happens when it is there."""
        self._many(sql.EMBED, [(digest, text)])

    def _many(self, statement: str, rows: Iterable[Row]) -> None:
        self._dirty = True
        try:
            self._executemany(statement, rows)
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidInput(f"a value cannot be stored: {error}") from error
