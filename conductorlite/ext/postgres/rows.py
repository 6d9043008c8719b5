"""A view and a change of a store in PostgreSQL: those of the SQLite store, but for what one round trip less is worth.

A turn's rows are sent without a look at what became of each; `apply` awaits all answers at once, and then says which fence was not
the one that was read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, cast

from conductorlite.ext.postgres.wire import Connection, Cursor
from conductorlite.model.canonical import attempt_head
from conductorlite.model.decisions import Decision, Message
from conductorlite.model.errors import AlreadyExists, FencedOut
from conductorlite.model.limits import LimitChange
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite import tables
from conductorlite.store.sqlite.rows import MESSAGE_COLUMNS, Row, message_of, workflow_row
from conductorlite.store.sqlite.transactions import SQLiteReads, SQLiteWrites
from conductorlite.store.tables import FeedKind

__all__ = ["PostgresReads", "PostgresWrites"]

_INSERT_WORKFLOW: Final = f"{sql.INSERT_WORKFLOW} ON CONFLICT DO NOTHING RETURNING execution"
#: So many messages of a queue are read ahead.
_HEADS: Final = 32

_MESSAGE: Final = ", ".join(MESSAGE_COLUMNS)
_FIRST: Final = f"SELECT {_MESSAGE} FROM messages WHERE queue = ? ORDER BY priority DESC, due_at, workflow_id, ref LIMIT ?"
_OFFERED: Final = _FIRST.replace("queue = ?", "queue = ? AND due_at <= ?")
_MESSAGE_AT: Final = (
    "SELECT min(at) FROM json_each(?) AS wanted CROSS JOIN LATERAL (SELECT min(due_at) AS at FROM messages"
    " WHERE queue = wanted.value) AS of_one"
)
_FILE_BYTES: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c JOIN pg_namespace AS n"
    " ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'"
)


class PostgresReads(SQLiteReads):
    """One consistent view of the store; valid until its block ends."""

    #: Whether answers stay true as long as the block lasts.
    _ahead = True

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)  # type: ignore[arg-type]
        #: The first messages of queues, due or not: no one changes them in this view.
        self._first: dict[str, list[Message]] = {}

    def unpolled(self, lane: str) -> Sequence[str]:
        """Keys of the limits that pass over a lane; who asks wants its messages next, which come with the same answer."""
        first = self._execute(_FIRST, (lane, _HEADS))
        keys = super().unpolled(lane)
        if self._ahead:
            self._first[lane] = [message_of(row) for row in first]
        return keys

    def offered(self, queue: str, now: int, limit: int) -> Sequence[Message]:
        """Messages of a queue due at `now`, best first; one statement, or none where the first ones are known."""
        first = self._first.get(queue)
        if first is not None:
            due = [message for message in first if message.due_at <= now][:limit]
            if len(first) < _HEADS or len(due) == limit:
                return due
        return [message_of(row) for row in self._execute(_OFFERED, (queue, now, limit))]

    def next_message_at(self, queues: Sequence[str] | None) -> int | None:
        """The earliest `due_at` in these queues; one statement, or none where they were read as a whole."""
        if queues is None:
            return super().next_message_at(None)
        read = [self._first.get(queue) for queue in queues]
        if all(first is not None and len(first) < _HEADS for first in read):
            return min((message.due_at for first in read for message in first or ()), default=None)
        return self._instant(_MESSAGE_AT, json.dumps(list(queues)))

    def index(self) -> Any:
        """None: documents are matched one by one."""
        return None

    def _file_bytes(self) -> tuple[int, int]:
        return self._execute(_FILE_BYTES).fetchone()[0], 0


class PostgresWrites(PostgresReads, SQLiteWrites):
    """One atomic change of the store; sees its own writes. Valid until its block ends."""

    _ahead = False

    def __init__(self, connection: Connection, path: str, numbers: dict[str, int], begin: Sequence[str]) -> None:
        SQLiteWrites.__init__(self, connection, path, numbers)  # type: ignore[arg-type]
        self._wire = connection
        self._first = {}
        self._begin = begin

    def _undo(self, alone: bool) -> None:
        if alone:
            self._wire.post("ROLLBACK", *self._begin)
            self._dirty = False
        else:
            self._wire.post("ROLLBACK TO decision", "RELEASE decision")

    def _fenced(self, decision: Decision) -> int:
        workflow = decision.workflow
        workflow_id, row = workflow.workflow_id, workflow_row(workflow)
        number = self._created(workflow_id, row) if decision.created else self._changed(decision, row)
        self._remember(workflow_id, number)
        return number

    def _changed(self, decision: Decision, row: Row) -> int:
        workflow = decision.workflow
        number = self._numbers.get(workflow.workflow_id) or self._number(workflow.workflow_id)
        changed = self._execute(sql.UPDATE_WORKFLOW_AND_STATUS, (*row[: sql.CHANGING], *row[-2:], *row[-6:-2]))

        def compare() -> None:
            found = changed.fetchone()
            if found is None or found[0] != number:
                self._numbers.pop(workflow.workflow_id, None)
                raise FencedOut(f"{workflow.workflow_id}: another turn committed after fence {workflow.fence} was read")

        self._wire.check(cast(Cursor, changed), compare)
        return number

    def _created(self, workflow_id: str, row: Row) -> int:
        found = self._execute(_INSERT_WORKFLOW, (*row, int(attempt_head(workflow_id), 16))).fetchone()
        if found is None:
            raise AlreadyExists(f"an execution {workflow_id!r} exists already")
        return int(found[0])

    def _updated(self, decision: Decision, changed: Any) -> None:
        def compare() -> None:
            super(PostgresWrites, self)._updated(decision, changed)

        self._wire.check(cast(Cursor, changed), compare)

    def _events(self, decision: Decision) -> None:
        super()._events(decision)
        if not decision.limits:
            self._wire.sync()

    def _change_limits(self, changes: Sequence[LimitChange]) -> None:
        super()._change_limits(changes)
        self._wire.sync()

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        """Begin to index everything; the triggers stand already."""
        self.end_feed(kind)
        self._execute(tables._BEGIN, (kind, reader))
        self._execute(tables._PEND_ARCHIVED, (kind,))

    def end_feed(self, kind: FeedKind) -> None:
        """Keep nothing for it any more."""
        self._dirty = True
        for place in ("feeds WHERE n", "indexed WHERE feed", "pending WHERE feed"):
            self._execute(f"DELETE FROM {place} = ?", (kind,))

    def _unindex(self, workflow_id: str) -> None:
        """Nothing: there is no index in the store."""
