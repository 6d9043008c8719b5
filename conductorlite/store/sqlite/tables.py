"""What stands in a SQLite store beside the executions, what is to be indexed of it, and how much it holds.

A turn does nothing for it. `indexed` keeps, by the number of an execution, the fence at which it was indexed last. New ones have
higher numbers than all that were indexed, for that is the order of indexing; of those that had not ended the fences are compared;
and what is rare is put into `pending` by triggers, which stand while a feed is on: removals, archiving, turns on what has ended,
attempts that are dropped or renamed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import Event
from conductorlite.model.errors import FencedOut, InvariantBroken, StorageCorrupt
from conductorlite.model.later import module
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import (
    STATUSES,
    TASK_COLUMNS,
    Row,
    Session,
    inbox_row,
)
from conductorlite.store.tables import (
    Archived,
    Change,
    EventPlace,
    Feed,
    FeedKind,
    OrphanPayload,
    ScheduleRow,
    Size,
    Sizes,
)

if TYPE_CHECKING:
    from conductorlite.model import handlers
    from conductorlite.model.handlers import EventExecution
    from conductorlite.store.sqlite import search
    from conductorlite.store.sqlite.search import SQLiteIndex
else:
    search = module("conductorlite.store.sqlite.search")
    handlers = module("conductorlite.model.handlers")

__all__ = [
    "BEGIN",
    "PEND_ARCHIVED",
    "REMOVE_EXTERNALS",
    "RowArchive",
    "RowDocuments",
    "RowEventHandlers",
    "RowFeeds",
    "RowMetadata",
    "RowSchedules",
    "sizes_of",
]

#: What comes later as new is as if it were removed.
PENDING: Final = (
    "SELECT p.n, p.workflow_id, CASE WHEN t.place IS NULL THEN NULL ELSE w.fence END, w.ended_at IS NULL,"
    " coalesce((SELECT value FROM counters WHERE name = 'removed'), 0) FROM pending AS p"
    " LEFT JOIN workflows AS w ON w.workflow_id = p.workflow_id LEFT JOIN indexed AS t ON t.feed = p.feed AND t.place = w.execution"
    " WHERE p.feed = ? ORDER BY p.n LIMIT ?"
)
MOVED: Final = (
    "SELECT t.place, w.workflow_id, w.fence, w.ended_at IS NULL, t.fence FROM indexed AS t INDEXED BY indexed_live"
    " CROSS JOIN workflows AS w WHERE t.feed = ? AND t.live = 1 AND t.place > ? AND w.execution = t.place AND w.fence <> t.fence"
    " ORDER BY t.place LIMIT ?"
)
NEW: Final = (
    "SELECT execution, workflow_id, fence, ended_at IS NULL, NULL FROM workflows"
    " WHERE execution > max(?, (SELECT coalesce(max(place), 0) FROM indexed WHERE feed = ?)) ORDER BY execution LIMIT ?"
)
IS_PENDING: Final = (
    "SELECT EXISTS (SELECT 1 FROM pending WHERE feed = ? AND workflow_id = ?) OR EXISTS (SELECT 1 FROM workflows AS w"
    " LEFT JOIN indexed AS t ON t.feed = ? AND t.place = w.execution WHERE w.workflow_id = ? AND t.fence IS NOT w.fence)"
)
ATTEMPTS_SINCE: Final = (
    f"SELECT {', '.join(TASK_COLUMNS)} FROM tasks"
    " WHERE execution = (SELECT execution FROM workflows WHERE workflow_id = ?) AND fence > ?"
)
_INDEXED: Final = (
    "INSERT INTO indexed (feed, place, fence, live) SELECT CAST(? AS bigint), execution, CAST(? AS bigint), CAST(? AS bigint)"
    " FROM workflows WHERE workflow_id = ? ON CONFLICT (feed, place) DO UPDATE SET fence = excluded.fence, live = excluded.live"
)
BEGIN: Final = "INSERT INTO feeds (n, reader, position, complete) VALUES (?, ?, 0, 0)"
_PEND: Final = "INSERT INTO pending (feed, workflow_id) VALUES (?, ?)"
PEND_ARCHIVED: Final = "INSERT INTO pending (feed, workflow_id) SELECT CAST(? AS bigint), workflow_id FROM archive"
STORED: Final = "SELECT 1 FROM workflows WHERE workflow_id = ?"


def _pending(row: str) -> str:
    return f"INSERT INTO pending (feed, workflow_id) SELECT n, {row}.workflow_id FROM feeds"


_PEND_EXECUTION: Final = (
    "INSERT INTO pending (feed, workflow_id) SELECT n, workflow_id FROM feeds CROSS JOIN workflows WHERE execution = OLD.execution"
)


_TRIGGERS: Final = {
    "pend_turn_on_ended": ("UPDATE OF fence ON workflows WHEN OLD.ended_at IS NOT NULL", _pending("NEW")),
    "pend_removal": (
        "DELETE ON workflows",
        "DELETE FROM indexed WHERE feed IN (SELECT n FROM feeds) AND place = OLD.execution",
        _pending("OLD"),
    ),
    "pend_rename": ("UPDATE OF ref ON tasks WHEN OLD.ref <> NEW.ref", _PEND_EXECUTION),
    # The attempts of an execution that is deleted go after its row.
    "pend_drop": ("DELETE ON tasks", _PEND_EXECUTION),
    "pend_archiving": ("INSERT ON archive", _pending("NEW")),
    "pend_dropping": ("DELETE ON archive", _pending("OLD")),
}


#: By kind of row: its table, and the columns whose texts are counted.
_KINDS: Final = {
    "executions": ("workflows", ("input", "output", "variables", "task_to_domain", "reason")),
    "tasks": ("tasks", ("input", "output", "reason", "rest")),
    "history": ("history", ("lines",)),
    "texts": ("texts", ("text",)),
    "logs": ("task_logs", ("text",)),
    "events": ("inbox", ("data",)),
    "mailbox": ("mailbox", ("value",)),
    "streams": ("emitted", ("items",)),
    "messages": ("messages", ()),
    "definitions": ("definitions", ("text",)),
    "archive": ("archive", ("document",)),
    "changes": ("pending", ()),
}

#: How rows are counted: the lines of a turn are one of the table, each but the last with a mark behind it.
_ROWS: Final = {"history": "coalesce(sum(1 + length(r.lines) - length(replace(r.lines, '\x1e', ''))), 0)"}

#: Kinds of rows that belong to an execution.
_OWN: Final = ("executions", "tasks", "history", "texts", "logs", "events", "mailbox", "streams")
#: How the execution of a row is found, where not by its id.
_OF_ROW: Final = dict.fromkeys(("executions", "tasks", "texts"), "w.execution = r.execution") | {
    "history": "w.execution = r.place >> 28"
}


def _bytes(length: str, columns: tuple[str, ...]) -> str:
    lengths = " + ".join(f"coalesce({length.format(column)}, 0)" for column in columns)
    return f"coalesce(sum({lengths}), 0)" if lengths else "0"


class RowFeeds:
    """Entries that are to be indexed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def index(self) -> SQLiteIndex:
        """The index in the file."""
        return search.SQLiteIndex(self._session)

    def feed(self, kind: FeedKind) -> Feed | None:
        row = self._session.execute("SELECT reader, position, complete FROM feeds WHERE n = ?", (kind,)).fetchone()
        return None if row is None else Feed(reader=row[0], position=row[1], complete=bool(row[2]))

    def changes(self, kind: FeedKind, after: int, limit: int) -> Sequence[Change]:
        """Return pending entries, then executions that changed after they were indexed, then new ones; four statements."""
        if self.feed(kind) is None:
            return []
        pending: dict[str, Change] = {}
        for n, workflow_id, fence, live, removed in self._session.execute(PENDING, (kind, limit)):
            before = pending[workflow_id].pending if workflow_id in pending else ()
            found = Change(workflow_id=workflow_id, fence=fence, live=bool(live), pending=(*before, n), removed=removed)
            pending[workflow_id] = found
        rows = self._session.execute(MOVED, (kind, after, limit)).fetchall()
        if len(rows) < limit:
            rows += self._session.execute(NEW, (after, kind, limit - len(rows))).fetchall()
        moved = [
            Change(workflow_id=workflow_id, fence=fence, live=bool(live), since=since, place=place)
            for place, workflow_id, fence, live, since in rows
            if since is None or workflow_id not in pending
        ]
        return [*pending.values(), *moved][:limit]

    def behind(self, kind: FeedKind, limit: int) -> int:
        return len(self.changes(kind, 0, limit))

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        return bool(self._session.execute(IS_PENDING, (kind, workflow_id, kind, workflow_id)).fetchone()[0])

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        self.end_feed(kind)
        if kind is FeedKind.OWN:
            self.index().create()
        self._session.execute(BEGIN, (kind, reader))
        self._session.execute(PEND_ARCHIVED, (kind,))
        for name, (when, *statements) in _TRIGGERS.items():
            self._session.execute(
                f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {when} BEGIN {' '.join(f'{one};' for one in statements)} END"
            )

    def mark_pending(self, kind: FeedKind, workflow_ids: Sequence[str]) -> None:
        if self.feed(kind) is not None:
            self._session.dirty = True
            self._session.executemany(_PEND, [(kind, workflow_id) for workflow_id in workflow_ids])

    def mark_indexed(self, kind: FeedKind, changes: Sequence[Change], complete: bool) -> None:
        self._session.dirty = True
        kept = [(kind, one.fence, one.live, one.workflow_id) for one in changes if one.fence is not None]
        self._session.executemany(_INDEXED, kept)
        self._session.executemany("DELETE FROM pending WHERE n = ?", [(n,) for one in changes for n in one.pending])
        self._session.execute("UPDATE feeds SET position = position + 1, complete = complete | ? WHERE n = ?", (complete, kind))

    def end_feed(self, kind: FeedKind) -> None:
        self._session.dirty = True
        if kind is FeedKind.OWN:
            self.index().drop()
        for place in ("feeds WHERE n", "indexed WHERE feed", "pending WHERE feed"):
            self._session.execute(f"DELETE FROM {place} = ?", (kind,))
        if not self._session.execute("SELECT 1 FROM feeds").fetchone():
            for name in _TRIGGERS:
                self._session.execute(f"DROP TRIGGER IF EXISTS {name}")

    def unindex(self, workflow_id: str) -> None:
        """Take an execution that is not stored any more out of the index in the file, if it is used."""
        if self.feed(FeedKind.OWN) is not None and self._session.execute(STORED, (workflow_id,)).fetchone() is None:
            try:
                search.SQLiteIndex(self._session).remove([workflow_id])
            except (sqlite3.Error, StorageCorrupt):
                if not self._session.connection.in_transaction:
                    raise
                self.end_feed(FeedKind.OWN)  # it is damaged, and keeps no one from removing


def sizes_of(session: Session, *, length: str, journals: str, file_bytes: tuple[int, int]) -> Sizes:
    """How much there is; `length` says how many bytes a cell has, `journals` where their lines are."""
    kinds = {}
    own: dict[tuple[str, str], Size] = {}
    for kind, (table, columns) in _KINDS.items():
        of = journals if kind == "history" else table
        counted = f"{_ROWS.get(kind, 'count(*)')}, {_bytes(length, columns)} FROM {of} AS r"
        rows, held = session.execute(f"SELECT {counted}").fetchone()
        kinds[kind] = Size(rows, held)
        if kind not in _OWN:
            continue
        per_name = f"SELECT w.name, w.status, {counted} JOIN workflows AS w"
        own_row = _OF_ROW.get(kind, "w.workflow_id = r.workflow_id")
        for name, number, rows, held in session.execute(f"{per_name} ON {own_row} GROUP BY w.name, w.status"):
            status = STATUSES[number]
            known = own.get((name, status), Size(0, 0))
            own[name, status] = Size(known.rows + (rows if kind == "executions" else 0), known.bytes + held)
    whole, free = file_bytes
    return Sizes(kinds=kinds, executions=own, file_bytes=whole, free_bytes=free)


_ARCHIVED: Final = tuple(field.name for field in attrs.fields(Archived))
ARCHIVED: Final = f"SELECT {', '.join(_ARCHIVED)} FROM archive WHERE workflow_id = ?"
ARCHIVED_IDS: Final = "SELECT workflow_id FROM archive WHERE workflow_id > ? ORDER BY workflow_id LIMIT ?"
# Not OR REPLACE, which deletes without a trigger.
_ARCHIVE: Final = f"INSERT INTO archive ({', '.join(_ARCHIVED)}) VALUES (?, ?, ?, ?, ?, ?, ?)"


_INSERT: Final = "INSERT INTO external_payloads (workflow_id, digest, size, key) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_ALL_OF: Final = "SELECT digest, size, key FROM external_payloads WHERE workflow_id = ? ORDER BY digest"
_OF: Final = (
    "SELECT e.digest, e.size, e.key FROM json_each(?) AS wanted CROSS JOIN external_payloads AS e"
    " WHERE e.workflow_id = ? AND e.digest = wanted.value"
)
_KNOWN: Final = (
    "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM external_payloads WHERE key = value)"
    " OR EXISTS (SELECT 1 FROM loose_payloads WHERE key = value)"
)
#: Walks what is loose, which is little: what uploads under way, crashes and removals have left since the last sweep.
_LOOSE: Final = (
    "SELECT key, workflow_id, at FROM loose_payloads WHERE (key, workflow_id) > (?, ?) AND at <= ?"
    " ORDER BY key, workflow_id LIMIT ?"
)
_LOOSEN: Final = sql.replacing("loose_payloads", ("key", "workflow_id", "at"), ("key", "workflow_id"))
_TIGHTEN_FOR: Final = "DELETE FROM loose_payloads WHERE key = ? AND workflow_id = ?"

#: What an execution leaves in the storage when it is removed is loose, unless it is being put there again.
REMOVE_EXTERNALS: Final = (
    "INSERT INTO loose_payloads (key, workflow_id, at) SELECT DISTINCT key, workflow_id, 0 FROM external_payloads"
    " WHERE workflow_id = ? ON CONFLICT DO NOTHING",
    "DELETE FROM external_payloads WHERE workflow_id = ?",
)


def _schedule_of(row: Row) -> ScheduleRow:
    name, address, text, progress, waits, fence, owner = row
    return ScheduleRow(name=name, address=address, text=text, progress=progress, waits=waits == 1, fence=fence, owner=owner)


_PUT: Final = sql.replacing("schema_defs", ("name", "version", "text"), ("name", "version"))
_ONE: Final = "SELECT text FROM schema_defs WHERE name = ? AND version = ?"
_NEWEST: Final = "SELECT text FROM schema_defs WHERE name = ? ORDER BY version DESC LIMIT 1"


#: Later than every record.
_END: Final[EventPlace] = (2**63 - 1, "", "", "", 0)


def _execution_of(row: tuple[Any, ...]) -> EventExecution:
    name, event, message_id, number, created, status, action, output = row
    return handlers.EventExecution(
        name=name,
        event=event,
        message_id=message_id,
        number=number,
        created=created,
        status=handlers.EventStatus(status),
        action=action,
        output=Payload(output),
    )


class RowMetadata:
    """Definitions and schemas."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def registry_version(self) -> int:
        return self._session.instant(sql.REGISTRY_VERSION) or 0

    def definition(self, digest: str) -> str | None:
        return self._session.text(sql.DEFINITION, digest)

    def workflow_def(self, name: str, version: int | None) -> str | None:
        if version is None:
            return self._session.text(sql.WORKFLOW_DEF_NEWEST, name)
        return self._session.text(sql.WORKFLOW_DEF, name, version)

    def workflow_defs(self) -> Sequence[tuple[str, int]]:
        return [(name, version) for name, version in self._session.execute(sql.WORKFLOW_DEFS)]

    def task_def(self, name: str) -> str | None:
        return self._session.text(sql.TASK_DEF, name)

    def task_defs(self) -> Sequence[str]:
        return [name for (name,) in self._session.execute(sql.TASK_DEFS)]

    def schema_def(self, name: str, version: int | None) -> str | None:
        found = self._session.execute(_NEWEST, (name,)) if version is None else self._session.execute(_ONE, (name, version))
        row = found.fetchone()
        return None if row is None else str(row[0])

    def schema_defs(self) -> Sequence[tuple[str, int]]:
        return [
            (name, version)
            for name, version in self._session.execute("SELECT name, version FROM schema_defs ORDER BY name, version")
        ]

    def embed(self, digest: str, text: str) -> None:
        self._session.many(sql.EMBED, [(digest, text)])

    def put_workflow_def(self, name: str, version: int, text: str) -> None:
        self._session.many(sql.PUT_WORKFLOW_DEF, [(name, version, text)])
        self._session.execute(sql.REGISTRY_CHANGED)

    def drop_workflow_def(self, name: str, version: int) -> None:
        self._session.many(sql.DROP_WORKFLOW_DEF, [(name, version)])
        self._session.execute(sql.REGISTRY_CHANGED)

    def put_task_def(self, name: str, text: str) -> None:
        self._session.many(sql.PUT_TASK_DEF, [(name, text)])
        self._session.execute(sql.REGISTRY_CHANGED)

    def drop_task_def(self, name: str) -> None:
        self._session.many(sql.DROP_TASK_DEF, [(name,)])
        self._session.execute(sql.REGISTRY_CHANGED)

    def put_schema_def(self, name: str, version: int, text: str) -> None:
        self._session.many(_PUT, [(name, version, text)])
        self._session.execute(sql.REGISTRY_CHANGED)


class RowEventHandlers:
    """Event handlers, and what became of messages."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def handler(self, name: str) -> str | None:
        row = self._session.execute(sql.EVENT_HANDLER, (name,)).fetchone()
        return None if row is None else str(row[0])

    def handlers(self, event: str | None, *, active_only: bool) -> Sequence[str]:
        rows = (
            self._session.execute(sql.EVENT_HANDLERS) if event is None else self._session.execute(sql.EVENT_HANDLERS_OF, (event,))
        )
        return [text for text, active in rows if active or not active_only]

    def event_execution(self, name: str, event: str, message_id: str, number: int) -> EventExecution | None:
        row = self._session.execute(sql.EVENT_EXECUTION, (name, event, message_id, number)).fetchone()
        return None if row is None else _execution_of(row)

    def event_executions(
        self, name: str | None, message_id: str | None, after: EventPlace | None, limit: int
    ) -> Sequence[EventExecution]:
        """A page of records, newest first; of both a handler and a message, along the message's."""
        place = after or _END
        if message_id is not None:
            rows = self._session.execute(sql.EVENT_EXECUTIONS_OF_MESSAGE, (message_id, name, *place, limit))
        elif name is not None:
            rows = self._session.execute(sql.EVENT_EXECUTIONS_OF_HANDLER, (name, *place, limit))
        else:
            rows = self._session.execute(sql.EVENT_EXECUTIONS, (*place, limit))
        return [_execution_of(row) for row in rows]

    def put_event_handler(self, name: str, event: str, active: bool, text: str) -> None:
        self._session.write(sql.PUT_EVENT_HANDLER, (name, event, int(active), text))

    def drop_event_handler(self, name: str) -> None:
        self._session.write(sql.DROP_EVENT_HANDLER, (name,))

    def add_event_execution(self, execution: EventExecution) -> None:
        row = (*execution.key, execution.created, execution.status.value, execution.action, execution.output.text)
        if self._session.write(sql.ADD_EVENT_EXECUTION, row) == 0:
            raise InvariantBroken(f"the action {execution.id} of {execution.name!r} was carried out before")

    def drop_event_executions(self, before: int, limit: int, message_id: str | None = None, without: str | None = None) -> int:
        return self._session.write(sql.DROP_EVENT_EXECUTIONS, (before, message_id, without, limit))


class RowSchedules:
    """Schedules, each with an inbox."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def schedule(self, name: str) -> ScheduleRow | None:
        row = self._session.execute(sql.SCHEDULE, (name,)).fetchone()
        return None if row is None else _schedule_of(row)

    def page(self, after: str, limit: int) -> Sequence[ScheduleRow]:
        return [_schedule_of(row) for row in self._session.execute(sql.SCHEDULES, (after, limit))]

    def put_schedule(self, row: ScheduleRow, consumed: Sequence[str], events: Sequence[Event]) -> None:
        """Store a schedule under its fence, and rewrite its inbox; raises FencedOut."""
        cells: Row = (row.text, row.progress, row.waits, row.owner, row.name, row.address)
        statement = sql.UPDATE_SCHEDULE if row.fence else sql.INSERT_SCHEDULE
        refusal = FencedOut(f"schedule {row.name!r}: another process changed it after fence {row.fence} was read")
        self._session.change(statement, (*cells, row.fence) if row.fence else cells, refusal)
        self._session.many(sql.DELETE_EVENT, [(row.address, event_id) for event_id in consumed])
        self._session.many(sql.PUT_INBOX_EVENT, map(inbox_row, events))

    def drop_schedule(self, name: str) -> None:
        gone = self._session.execute(sql.DELETE_SCHEDULE, (name,)).fetchall()
        self._session.many(sql.EMPTY_INBOX, gone)


class RowArchive:
    """Executions that have left the store."""

    def __init__(self, session: Session, *, feeds: RowFeeds) -> None:
        self._session, self._feeds = session, feeds

    def archived(self, workflow_id: str) -> Archived | None:
        row = self._session.execute(ARCHIVED, (workflow_id,)).fetchone()
        if row is None:
            return None
        return Archived(**dict(zip(_ARCHIVED, row, strict=True)))

    def archived_ids(self, after: str, limit: int) -> Sequence[str]:
        return [workflow_id for (workflow_id,) in self._session.execute(ARCHIVED_IDS, (after, limit))]

    def put_archived(self, archived: Archived) -> None:
        self.drop_archived(archived.workflow_id)
        self._session.execute(_ARCHIVE, [getattr(archived, name) for name in _ARCHIVED])

    def drop_archived(self, workflow_id: str) -> bool:
        self._session.dirty = True
        dropped = self._session.execute("DELETE FROM archive WHERE workflow_id = ?", (workflow_id,)).rowcount > 0
        self._feeds.unindex(workflow_id)
        return dropped


class RowDocuments:
    """Documents in the payload storage, and what is loose there."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def externals(self, workflow_id: str, digests: Iterable[str] | None) -> Mapping[str, ExternalPayload]:
        if digests is None:
            rows = self._session.execute(_ALL_OF, (workflow_id,))
        else:
            rows = self._session.execute(_OF, (json.dumps(sorted(digests)), workflow_id))
        return {digest: ExternalPayload(digest=digest, size=size, key=key) for digest, size, key in rows}

    def external_used(self, key: str) -> bool:
        return self._session.execute("SELECT 1 FROM external_payloads WHERE key = ? LIMIT 1", (key,)).fetchone() is not None

    def known_externals(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(key for (key,) in self._session.execute(_KNOWN, (json.dumps(list(keys)),)))

    def loose_payloads(self, until: int, after: tuple[str, str], limit: int) -> Sequence[OrphanPayload]:
        rows = self._session.execute(_LOOSE, (*after, until, limit))
        return [OrphanPayload(key=key, workflow_id=workflow_id, at=at) for key, workflow_id, at in rows]

    def loosened_at(self, key: str) -> int | None:
        at: int | None = self._session.execute("SELECT max(at) FROM loose_payloads WHERE key = ?", (key,)).fetchone()[0]
        return at

    def mark_orphan(self, loose: Sequence[OrphanPayload]) -> None:
        self._session.dirty = True
        self._session.executemany(_LOOSEN, [(one.key, one.workflow_id, one.at) for one in loose])

    def unmark_orphan(self, key: str, until: int) -> None:
        self._session.dirty = True
        self._session.execute("DELETE FROM loose_payloads WHERE key = ? AND at <= ?", (key, until))

    def keep(self, workflow_id: str, externals: Sequence[ExternalPayload]) -> None:
        """Note documents that an execution refers to: loose for it no more."""
        self._session.executemany(_INSERT, [(workflow_id, one.digest, one.size, one.key) for one in externals])
        self._session.executemany(_TIGHTEN_FOR, [(one.key, workflow_id) for one in externals])
