"""A view and a change of a store in PostgreSQL: the nouns of the SQLite store, but for what one round trip less is worth.

The rows of a turn are sent without a look at what became of each. A statement that may find another turn to have been first fails
then by itself, so that those after it are not carried out, whatever was sent already.

An application's own rows are written in one commit with what the engine writes. Its statements end no transaction and change no
table of ours, which are in a schema of their own. One that fails is undone by itself. They are psycopg's: `%s` for parameters, its
types, its errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, final

import psycopg

from conductorlite.ext.postgres.schema import (
    EVENTS,
    FENCED,
    FILE_BYTES,
    FIRST,
    INSERT_WORKFLOW,
    MESSAGE_AT,
    OFFERED,
    TASKS,
    UPDATE_WORKFLOW,
    WORKFLOW,
)
from conductorlite.ext.postgres.search import UNINDEX, PostgresIndex, key_of_document
from conductorlite.ext.postgres.session import PostgresSession
from conductorlite.ext.postgres.wire import Connection, Cursor
from conductorlite.model.canonical import attempt_head
from conductorlite.model.decisions import Decision, Event, Message
from conductorlite.model.errors import AlreadyExists, FencedOut, InvalidInput, InvariantBroken
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.threads import Block, clean_up
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.decisions import RowDecisions
from conductorlite.store.sqlite.executions import RowExecutions, RowHistory
from conductorlite.store.sqlite.limits import RowLimits, RowOwners, RowTaskHolders
from conductorlite.store.sqlite.mailboxes import NoOutbox, RowInbox, RowPollData, RowQueue
from conductorlite.store.sqlite.rows import Row, event_of, message_of, task_of, workflow_of, workflow_row
from conductorlite.store.sqlite.streams import RowStreams
from conductorlite.store.sqlite.tables import (
    BEGIN,
    PEND_ARCHIVED,
    RowArchive,
    RowDocuments,
    RowEventHandlers,
    RowFeeds,
    RowMetadata,
    RowSchedules,
    sizes_of,
)
from conductorlite.store.tables import FeedKind, Parameters, Rows, Sizes

__all__ = ["OwnRows", "Part", "PostgresTransaction"]

#: So many events and tasks of an execution are read ahead, and so many messages of a queue.
_FEW: Final = 16
_HEADS: Final = 32


class PostgresExecutions(RowExecutions):
    """The executions, read together with the rows that a turn asks for next, in one round trip."""

    _session: PostgresSession

    def workflow(self, workflow_id: str) -> Workflow | None:
        """An execution's row; its number comes along, and with the first row of a view what a turn asks for next."""
        session = self._session
        found = session.execute(WORKFLOW, (workflow_id,))
        if session.ahead and session.asked is None:
            events, tasks = session.sent(EVENTS, (workflow_id, _FEW + 1)), session.sent(TASKS, (workflow_id, _FEW + 1))
            session.asked = (workflow_id, events, tasks)
        row = found.fetchone()
        if row is None:
            return None
        session.remember(workflow_id, row[-1])
        return workflow_of(row[:-1])

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references; one statement, or none where all tasks came with the row."""
        asked = self._session.asked
        if asked is None or asked[0] != workflow_id or len(rows := asked[2].fetchall()) > _FEW:
            return super().tasks(workflow_id, refs)
        found: dict[str, Task | None] = dict.fromkeys(refs)
        for task in (task_of(row, workflow_id) for row in rows):
            known = found.get(task.ref)
            if task.ref in found and (known is None or known.attempt < task.attempt):
                found[task.ref] = task
        return found


class PostgresInbox(RowInbox):
    """The inbox, with events that came along with a row, and the own share first."""

    _session: PostgresSession

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        """Events that are due, in order; one statement, or none where they came with the row."""
        asked = self._session.asked
        if asked is not None and asked[0] == workflow_id:
            events = [event_of(row) for row in asked[1].fetchall()]
            due = [event for event in events if event.due_at <= now]
            if len(events) <= _FEW or len(due) < len(events):
                return due[:limit]
        return super().due_events(workflow_id, now, limit)

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Executions with events that are due, the earliest first, of these the own share."""
        session = self._session
        return session.peers.own_first(list(super().due_workflows(now, limit * session.shares, owner)), str)[:limit]


class PostgresQueue(RowQueue):
    """The queues, each read in one statement, and of each priority the own share first."""

    _session: PostgresSession

    def __init__(self, session: PostgresSession) -> None:
        super().__init__(session)
        #: The first messages of queues, due or not: no one changes them in this view.
        self._first: dict[str, list[Message]] = {}

    def came(self, queue: str, messages: Iterable[Row]) -> None:
        """Keep the first messages of a queue, which were read before anyone asked for them."""
        self._first[queue] = [message_of(row) for row in messages]

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first, of each priority the own share; one statement, or none."""
        first, count = self._first.get(queue), self._session.shares
        if first is not None:
            due = [message for message in first if message.due_at <= now]
            if len(first) < _HEADS * count or len(due) >= limit * count:
                return self._own_first(due)[:limit]
        rows = self._session.execute(OFFERED, (queue, now, limit * count))
        return self._own_first([message_of(row) for row in rows])[:limit]

    def _own_first(self, messages: list[Message]) -> list[Message]:
        return self._session.peers.own_first(messages, attrgetter("workflow_id"), lambda message: -message.priority)

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues; one statement, or none where they were read as a whole."""
        if queues is None:
            return super().next_message_at(None)
        read = [self._first.get(queue) for queue in queues]
        if all(first is not None and len(first) < _HEADS * self._session.shares for first in read):
            return min((message.due_at for first in read for message in first or ()), default=None)
        return self._session.instant(MESSAGE_AT, json.dumps(list(queues)))


class PostgresLimits(RowLimits):
    """The limits, read together with the messages that are asked for next."""

    _session: PostgresSession

    def __init__(self, session: PostgresSession, *, queue: PostgresQueue) -> None:
        super().__init__(session)
        self._queue = queue

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane; who asks wants its messages next, which come with the same answer."""
        first = self._session.execute(FIRST, (lane, _HEADS * self._session.shares))
        keys = super().unpolled(lane)
        if self._session.ahead:
            self._queue.came(lane, first)
        return keys


class PostgresFeeds(RowFeeds):
    """The feeds of indexes; tables and triggers exist from the beginning."""

    _session: PostgresSession

    def index(self) -> Any:
        """The index in the store's schema."""
        return PostgresIndex(self._session)

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        """Begin to index everything."""
        self.end_feed(kind)
        self._session.execute(BEGIN, (kind, reader))
        self._session.execute(PEND_ARCHIVED, (kind,))

    def end_feed(self, kind: FeedKind) -> None:
        """Keep nothing for it any more."""
        self._session.dirty = True
        if kind is FeedKind.OWN and self.feed(kind) is not None:
            self.index().drop()
        for place in ("feeds WHERE n", "indexed WHERE feed", "pending WHERE feed"):
            self._session.execute(f"DELETE FROM {place} = ?", (kind,))

    def unindex(self, workflow_id: str) -> None:
        """Take an execution that is not stored any more out of the index in the store's schema."""
        for statement in UNINDEX:
            self._session.execute(statement, (key_of_document(workflow_id, None), workflow_id))


class PostgresDecisions(RowDecisions):
    """Decisions, sent without a look at what became of each row."""

    _session: PostgresSession

    def __init__(self, session: PostgresSession, *, queue: RowQueue, limits: RowLimits, payloads: RowDocuments) -> None:
        super().__init__(session, queue=queue, limits=limits, payloads=payloads)
        self._begun: list[tuple[str, Cursor]] = []

    def defer(self) -> None:
        """Raise the refusal of a decision when the block ends, as everything is sent with the commit."""
        self._session.late = True

    def fenced(self, fences: Mapping[str, int]) -> Collection[str]:
        """Those of some executions whose fences are not these; one statement, or none where nobody else has written of late."""
        if self._session.alone:
            return ()
        return {workflow_id for (workflow_id,) in self._session.execute(FENCED, (json.dumps(dict(fences)),))}

    def learn(self) -> None:
        """Note the numbers of the executions that were begun; all answers are there."""
        for workflow_id, begun in self._begun:
            for (number,) in begun.rows:
                self._session.remember(workflow_id, number)

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence; awaited here unless the change is deferred."""
        if self._session.late:
            return self._store(decision)
        wire = self._session.wire
        wire.execute("SAVEPOINT decision")
        try:
            self._store(decision)
            wire.execute("RELEASE decision").fetchall()
        except BaseException:
            wire.abandon("ROLLBACK TO decision", "RELEASE decision")
            raise

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """See `DecisionDAO`."""
        for decision in decisions:
            self.apply(decision)

    def apply_some(self, decisions: Sequence[Decision]) -> Collection[str]:
        """None: one by one costs nothing more."""
        return ()

    def _store(self, decision: Decision) -> None:
        self._session.dirty = True
        if decision.created and decision.workflow.idempotency_key is not None:
            self._claim(decision)
        self._rows(decision, self._fenced(decision))
        self._events(decision)
        if decision.limits:
            self._limits.change(decision.limits)

    def _fenced(self, decision: Decision) -> int:
        workflow, session = decision.workflow, self._session
        workflow_id, row = workflow.workflow_id, workflow_row(workflow)
        if decision.created:
            begun = session.sent(INSERT_WORKFLOW, (*row, int(attempt_head(workflow_id), 16)))
            begun.refusal = AlreadyExists(f"an execution {workflow_id!r} exists already")
            self._begun.append((workflow_id, begun))
            return session.present_number(workflow_id) if decision.updated or decision.renamed or decision.dropped else 0
        number = session.number(workflow_id)
        written = session.sent(UPDATE_WORKFLOW, (*row[: sql.CHANGING], *row[-2:], *row[-6:-2], number))
        written.refusal = FencedOut(f"{workflow_id}: another turn committed after fence {workflow.fence} was read")
        return number

    def _updated(self, decision: Decision, written: Any) -> None:
        written.refusal = InvariantBroken(f"{decision.workflow.workflow_id}: an updated task has no row like it")


class PostgresTransaction:
    """A view, or an atomic change, which sees its own writes; until its block ends."""

    def __init__(self, session: PostgresSession, *, schema: str) -> None:
        self.session, self._schema = session, schema
        self.queue = queue = PostgresQueue(session)
        self.limits = limits = PostgresLimits(session, queue=queue)
        self.payloads = payloads = RowDocuments(session)
        self.feeds = feeds = PostgresFeeds(session)
        self.inbox = inbox = PostgresInbox(session)
        self.executions = PostgresExecutions(session, feeds=feeds)
        self.decisions = PostgresDecisions(session, queue=queue, limits=limits, payloads=payloads)
        self.history = RowHistory(session)
        self.poll_data = RowPollData(session)
        self.outbox = NoOutbox()
        self.metadata = RowMetadata(session)
        self.event_handlers = RowEventHandlers(session)
        self.schedules = RowSchedules(session)
        self.archive = RowArchive(session, feeds=feeds)
        self.owners = RowOwners(session, inbox=inbox)
        self.task_holders = RowTaskHolders(session)

    @property
    def streams(self) -> RowStreams:
        """See `StreamReads`."""
        return RowStreams(self.session)

    def own_rows(self) -> OwnRows:
        """See `JoinedTransaction`."""
        return OwnRows(self.session.wire, self._schema)

    def sizes(self) -> Sizes:
        """Return the size of everything; reads everything."""
        whole = self.session.execute(FILE_BYTES).fetchone()[0]
        return sizes_of(self.session, length="octet_length(r.{})", journals="history", file_bytes=(whole, 0))


#: Where the application's tables are looked for.
_THEIRS: Final = 'SET LOCAL search_path = "$user", public'

_NEVER: Final = {
    **dict.fromkeys(("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT"), "the transaction is the block's to end"),
    **dict.fromkeys(("SAVEPOINT", "RELEASE"), "a part that is undone by itself is a block of `transaction()` inside this one"),
    **dict.fromkeys(("SET", "RESET", "DISCARD", "PREPARE", "DEALLOCATE", "LISTEN", "UNLISTEN"), "the connection is the engine's"),
}
_COMMENTS: Final = re.compile(r"\s+|--[^\n]*|/\*.*?\*/", re.DOTALL)
_CHANGES: Final = re.compile(r"\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|ALTER|DROP|CREATE|GRANT|REVOKE|LOCK|COPY)\b", re.IGNORECASE)


@final
class OwnRows:
    """An application's statements in one transaction."""

    __slots__ = ("_ours", "_schema", "_wire")

    def __init__(self, wire: Connection, schema: str) -> None:
        self._wire, self._schema = wire, schema
        self._ours = re.compile(rf'(?<![\w"$])("{schema}"|{schema})\s*\.', re.IGNORECASE)

    def execute(self, statement: str, parameters: Parameters = ()) -> Rows:
        """Carry out one statement; raises InvalidInput for one that is not the application's, and what psycopg raises."""
        # A text without parameters may be several statements, unless the answer is to be in bytes.
        binary = not parameters and ";" in statement
        return self._carried_out(statement, lambda cursor: cursor.execute(statement, parameters or None, binary=binary or None))

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Rows:
        """Run the statement once for each of several sets of parameters."""
        return self._carried_out(statement, lambda cursor: cursor.executemany(statement, list(parameters)))

    def _carried_out(self, statement: str, carry_out: Callable[[psycopg.Cursor[Any]], object]) -> Rows:
        begins = 0
        while (blank := _COMMENTS.match(statement, begins)) is not None:
            begins = blank.end()
        word = re.split(r"\W", statement[begins:], maxsplit=1)[0].upper()
        if word in _NEVER:
            raise InvalidInput(f"{word} cannot be carried out here: {_NEVER[word]}")
        if self._ours.search(statement) and _CHANGES.search(statement):
            raise InvalidInput(f"the tables of the schema {self._schema!r} are the engine's")
        with self._wire.plain() as connection, connection.transaction(), connection.cursor() as cursor:
            cursor.execute(_THEIRS)
            carry_out(cursor)
            rows = Rows(
                cursor.fetchall() if cursor.description else (),
                rowcount=-1 if cursor.description else cursor.rowcount,
                lastrowid=None,
                columns=[column.name for column in cursor.description or ()],
            )
            cursor.execute(f"SET LOCAL search_path = {self._schema}".encode())
        return rows


@final
class Part(Block[Any]):
    """The block of a change inside an application's transaction."""

    __slots__ = ("_open", "_wire", "_writes")

    def __init__(self, writes: Any, wire: Connection) -> None:
        self._writes, self._wire, self._open = writes, wire, False

    def begin(self) -> Any:
        """Set the savepoint."""
        self._open = True
        self._wire.execute("SAVEPOINT part")
        return self._writes

    def end(self, error: BaseException | None) -> None:
        """Keep the part for the commit of the whole, or undo it; raises for the first of its statements that failed."""
        try:
            if error is None:
                self._wire.execute("RELEASE part").fetchall()
                self._open = False
        except BaseException as failure:
            error = failure
            raise
        finally:
            clean_up(error, "undoing a part of a transaction", self.undo)
            del error  # or this frame and the exception would keep one another

    def undo(self, error: BaseException | None = None) -> None:
        """Undo it, unless it has ended."""
        if self._open:
            self._open = False
            self._wire.abandon("ROLLBACK TO part", "RELEASE part")
