"""A view and a change of a store in PostgreSQL: those of the SQLite store, but for what one round trip less is worth.

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
from typing import Any, Final, cast, final

import psycopg

from conductorlite.ext.postgres.presence import Peers
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
    guarded,
)
from conductorlite.ext.postgres.search import UNINDEX, PostgresIndex, key_of_document
from conductorlite.ext.postgres.wire import Connection, Cursor
from conductorlite.model.canonical import attempt_head
from conductorlite.model.decisions import Decision, Event, Message
from conductorlite.model.errors import AlreadyExists, ConductorliteError, FencedOut, InvalidInput, InvariantBroken
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.threads import Block, clean_up
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite import tables
from conductorlite.store.sqlite.rows import Row, event_of, message_of, task_of, workflow_of, workflow_row
from conductorlite.store.sqlite.transactions import RowReads, RowWrites
from conductorlite.store.tables import FeedKind, Parameters, Rows

__all__ = ["OwnRows", "Part", "PostgresReads", "PostgresWrites"]

#: Numbers of so many executions are remembered.
_NUMBERS: Final = 10_000

#: So many events and tasks of an execution are read ahead, and so many messages of a queue.
_FEW: Final = 16
_HEADS: Final = 32


class PostgresReads(RowReads):
    """One consistent view of the store; valid until its block ends."""

    #: Whether answers stay true as long as the block lasts.
    _ahead = True
    _length = "octet_length(r.{})"

    def __init__(self, connection: Connection, numbers: dict[str, int], peers: Peers) -> None:
        super().__init__(connection)  # type: ignore[arg-type]
        #: Numbers of executions as they were once: each is compared before it is used.
        self._numbers = numbers
        self._peers, self._shares = peers, peers.share.count
        #: The first messages of queues, due or not: no one changes them in this view.
        self._first: dict[str, list[Message]] = {}
        #: The execution that was asked for first, with its first events and its first tasks, which came with its row.
        self._asked: tuple[str, Cursor, Cursor] | None = None

    def workflow(self, workflow_id: str) -> Workflow | None:
        """An execution's row; its number comes along, and with the first row of a view what a turn asks for next."""
        found = self._execute(WORKFLOW, (workflow_id,))
        if self._ahead and self._asked is None:
            events, tasks = self._execute(EVENTS, (workflow_id, _FEW + 1)), self._execute(TASKS, (workflow_id, _FEW + 1))
            self._asked = (workflow_id, cast("Cursor", events), cast("Cursor", tasks))
        row = found.fetchone()
        if row is None:
            return None
        self._remember(workflow_id, row[-1])
        return workflow_of(row[:-1])

    def due_events(self, workflow_id: str, now: int, limit: int) -> Sequence[Event]:
        """Events that are due, in order; one statement, or none where they came with the row."""
        if self._asked is not None and self._asked[0] == workflow_id:
            events = [event_of(row) for row in self._asked[1].fetchall()]
            due = [event for event in events if event.due_at <= now]
            if len(events) <= _FEW or len(due) < len(events):
                return due[:limit]
        return super().due_events(workflow_id, now, limit)

    def tasks(self, workflow_id: str, refs: Collection[str]) -> Mapping[str, Task | None]:
        """The last attempts at printed references; one statement, or none where all tasks came with the row."""
        if self._asked is None or self._asked[0] != workflow_id or len(rows := self._asked[2].fetchall()) > _FEW:
            return super().tasks(workflow_id, refs)
        found: dict[str, Task | None] = dict.fromkeys(refs)
        for task in (task_of(row, workflow_id) for row in rows):
            known = found.get(task.ref)
            if task.ref in found and (known is None or known.attempt < task.attempt):
                found[task.ref] = task
        return found

    def _remember(self, workflow_id: str, number: int) -> None:
        if len(self._numbers) >= _NUMBERS:
            self._numbers.clear()
        self._numbers[workflow_id] = number

    def _number(self, workflow_id: str) -> int:
        row = self._execute(sql.NUMBER, (workflow_id,)).fetchone()
        return 0 if row is None else int(row[0])

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane; who asks wants its messages next, which come with the same answer."""
        first = self._execute(FIRST, (lane, _HEADS * self._shares))
        keys = super().unpolled(lane)
        if self._ahead:
            self._first[lane] = [message_of(row) for row in first]
        return keys

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first, of each priority the own share; one statement, or none."""
        first, count = self._first.get(queue), self._shares
        if first is not None:
            due = [message for message in first if message.due_at <= now]
            if len(first) < _HEADS * count or len(due) >= limit * count:
                return self._own_first(due)[:limit]
        rows = self._execute(OFFERED, (queue, now, limit * count))
        return self._own_first([message_of(row) for row in rows])[:limit]

    def _own_first(self, messages: list[Message]) -> list[Message]:
        return self._peers.own_first(messages, attrgetter("workflow_id"), lambda message: -message.priority)

    def due_workflows(self, now: int, limit: int, owner: str = "") -> Sequence[str]:
        """Executions with events that are due, the earliest first, of these the own share."""
        return self._peers.own_first(list(super().due_workflows(now, limit * self._shares, owner)), str)[:limit]

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues; one statement, or none where they were read as a whole."""
        if queues is None:
            return super().next_message_at(None)
        read = [self._first.get(queue) for queue in queues]
        if all(first is not None and len(first) < _HEADS * self._shares for first in read):
            return min((message.due_at for first in read for message in first or ()), default=None)
        return self._instant(MESSAGE_AT, json.dumps(list(queues)))

    def index(self) -> Any:
        """The index in the store's schema."""
        return PostgresIndex(cast("Connection", self._connection))

    def _file_bytes(self) -> tuple[int, int]:
        return self._execute(FILE_BYTES).fetchone()[0], 0


class PostgresWrites(PostgresReads, RowWrites):
    """One atomic change of the store; sees its own writes. Valid until its block ends."""

    _ahead = False

    def __init__(
        self, connection: Connection, path: str, numbers: dict[str, int], peers: Peers, *, schema: str, alone: bool
    ) -> None:
        RowWrites.__init__(self, connection, path)  # type: ignore[arg-type]
        self._peers, self._shares = peers, peers.share.count
        self._schema, self._alone = schema, alone
        self._wire = connection
        self._numbers = numbers
        self._first, self._asked = {}, None
        self._late = False
        self._begun: list[tuple[str, Cursor]] = []

    def own_rows(self) -> OwnRows:  # type: ignore[override]
        """See `JoinedTransaction`."""
        return OwnRows(self._wire, self._schema)

    def defer(self) -> None:
        """What refuses a decision is raised when the block ends: everything is sent with the commit."""
        self._late = True

    def fenced(self, fences: Mapping[str, int]) -> Collection[str]:
        """Those of some executions whose fences are not these; one statement, or none where nobody else has written of late."""
        if self._alone:
            return ()
        return {workflow_id for (workflow_id,) in self._execute(FENCED, (json.dumps(dict(fences)),))}

    def learn(self) -> None:
        """Note the numbers of the executions that were begun; all answers are there."""
        for workflow_id, begun in self._begun:
            for (number,) in begun.rows:
                self._remember(workflow_id, number)

    def apply(self, decision: Decision) -> None:
        """Store a decision under its fence; awaited here unless the change is deferred."""
        if self._late:
            return self._store(decision)
        self._wire.execute("SAVEPOINT decision")
        try:
            self._store(decision)
            self._wire.execute("RELEASE decision").fetchall()
        except BaseException:
            self._wire.abandon("ROLLBACK TO decision", "RELEASE decision")
            raise

    def apply_all(self, decisions: Sequence[Decision]) -> None:
        """See `WritingTransaction`."""
        for decision in decisions:
            self.apply(decision)

    def _store(self, decision: Decision) -> None:
        self._dirty = True
        if decision.created and decision.workflow.idempotency_key is not None:
            self._claim(decision)
        self._rows(decision, self._fenced(decision))
        self._events(decision)
        if decision.limits:
            self._change_limits(decision.limits)

    def _fenced(self, decision: Decision) -> int:
        workflow = decision.workflow
        workflow_id, row = workflow.workflow_id, workflow_row(workflow)
        if decision.created:
            begun = self._sent(INSERT_WORKFLOW, (*row, int(attempt_head(workflow_id), 16)))
            begun.refusal = AlreadyExists(f"an execution {workflow_id!r} exists already")
            self._begun.append((workflow_id, begun))
            return self._number(workflow_id) if decision.updated or decision.renamed or decision.dropped else 0
        number = self._numbers.get(workflow_id) or self._number(workflow_id)
        written = self._sent(UPDATE_WORKFLOW, (*row[: sql.CHANGING], *row[-2:], *row[-6:-2], number))
        written.refusal = FencedOut(f"{workflow_id}: another turn committed after fence {workflow.fence} was read")
        return number

    def _sent(self, statement: str, row: Row) -> Cursor:
        return cast("Cursor", self._execute(statement, row))

    def _change(self, statement: str, row: Row, refusal: ConductorliteError) -> None:
        self._dirty = True
        if self._late:
            self._sent(guarded(statement), row).refusal = refusal
        elif not self._sent(statement, row).rowcount:  # refused, it refuses itself only: the transaction goes on
            raise refusal

    def _updated(self, decision: Decision, written: Any) -> None:
        written.refusal = InvariantBroken(f"{decision.workflow.workflow_id}: an updated task has no row like it")

    def index(self) -> Any:
        """The index in the store's schema, to be changed."""
        self._dirty = True
        return super().index()

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        """Begin to index everything; tables and triggers stand already."""
        self.end_feed(kind)
        self._execute(tables._BEGIN, (kind, reader))
        self._execute(tables._PEND_ARCHIVED, (kind,))

    def end_feed(self, kind: FeedKind) -> None:
        """Keep nothing for it any more."""
        self._dirty = True
        if kind is FeedKind.OWN and self.feed(kind) is not None:
            self.index().drop()
        for place in ("feeds WHERE n", "indexed WHERE feed", "pending WHERE feed"):
            self._execute(f"DELETE FROM {place} = ?", (kind,))

    def _unindex(self, workflow_id: str) -> None:
        """Take an execution that is not stored any more out of the index in the store's schema."""
        for statement in UNINDEX:
            self._execute(statement, (key_of_document(workflow_id, None), workflow_id))


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
        """The same for each of several parameters."""
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
