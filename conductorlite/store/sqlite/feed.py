"""What is to be indexed of a SQLite store, and how much it holds.

A turn does nothing for it. `indexed` keeps, by the number of an execution, the fence at which it was indexed last. New ones have
higher numbers than all that were indexed, for that is the order of indexing; of those that had not ended the fences are compared;
and what is rare is put into `pending` by triggers, which stand while a feed is on: removals, archiving, turns on what has ended,
attempts that are dropped or renamed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from conductorlite.model.errors import StorageCorrupt
from conductorlite.model.executions import Task
from conductorlite.store.sqlite.rows import STATUSES, TASK_COLUMNS, BaseReads, BaseWrites, task_of
from conductorlite.store.sqlite.search import SQLiteIndex
from conductorlite.store.tables import Change, Feed, FeedKind, Size, Sizes

__all__ = ["FeedReads", "FeedWrites"]

FEED: Final = "SELECT reader, position, complete FROM feeds WHERE n = ?"
#: What comes later as new is as if it were removed.
PENDING: Final = (
    "SELECT p.n, p.workflow_id, CASE WHEN t.place IS NULL THEN NULL ELSE w.fence END, w.ended_at IS NULL FROM pending AS p"
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
    "INSERT OR REPLACE INTO indexed (feed, place, fence, live) SELECT ?, execution, ?, ? FROM workflows WHERE workflow_id = ?"
)
_COUNT: Final = "UPDATE feeds SET position = position + 1, complete = max(complete, ?) WHERE n = ?"
_BEGIN: Final = "INSERT INTO feeds (n, reader, position, complete) VALUES (?, ?, 0, 0)"
_PEND: Final = "INSERT INTO pending (feed, workflow_id) VALUES (?, ?)"
_PEND_ARCHIVED: Final = "INSERT INTO pending (feed, workflow_id) SELECT ?, workflow_id FROM archive"
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
    "messages": ("messages", ()),
    "definitions": ("definitions", ("text",)),
    "archive": ("archive", ("document",)),
    "changes": ("pending", ()),
}

#: How rows are counted: the lines of a turn are one of the table, each but the last with a mark behind it.
_ROWS: Final = {"history": "coalesce(sum(1 + length(r.lines) - length(replace(r.lines, char(30), ''))), 0)"}

#: Kinds of rows that belong to an execution.
_OWN: Final = ("executions", "tasks", "history", "texts", "logs", "events")
#: How the execution of a row is found, where not by its id.
_OF: Final = dict.fromkeys(("executions", "tasks", "texts"), "w.execution = r.execution") | {
    "history": "w.execution = r.place >> 28"
}


def _bytes(columns: tuple[str, ...]) -> str:
    lengths = " + ".join(f"coalesce(length(CAST(r.{column} AS BLOB)), 0)" for column in columns)
    return f"coalesce(sum({lengths}), 0)" if lengths else "0"


class FeedReads(BaseReads):
    """What is to be indexed, and how much there is."""

    # -- what is to be indexed -----------------------------------------------------------------------------------------

    def index(self) -> SQLiteIndex:
        """The index in the file."""
        return SQLiteIndex(self._connection)

    def feed(self, kind: FeedKind) -> Feed | None:
        row = self._connection.execute(FEED, (kind,)).fetchone()
        return None if row is None else Feed(reader=row[0], position=row[1], complete=bool(row[2]))

    def changes(self, kind: FeedKind, after: int, limit: int) -> Sequence[Change]:
        """What is pending, then executions that were indexed and moved on, then new ones; four statements."""
        if self.feed(kind) is None:
            return []
        pending: dict[str, Change] = {}
        for n, workflow_id, fence, live in self._connection.execute(PENDING, (kind, limit)):
            before = pending[workflow_id].pending if workflow_id in pending else ()
            pending[workflow_id] = Change(workflow_id=workflow_id, fence=fence, live=bool(live), pending=(*before, n))
        rows = self._connection.execute(MOVED, (kind, after, limit)).fetchall()
        if len(rows) < limit:
            rows += self._connection.execute(NEW, (after, kind, limit - len(rows))).fetchall()
        moved = [
            Change(workflow_id=workflow_id, fence=fence, live=bool(live), since=since, place=place)
            for place, workflow_id, fence, live, since in rows
            if since is None or workflow_id not in pending
        ]
        return [*pending.values(), *moved][:limit]

    def behind(self, kind: FeedKind, limit: int) -> int:
        return len(self.changes(kind, 0, limit))

    def is_pending(self, kind: FeedKind, workflow_id: str) -> bool:
        """Whether an execution is among the changes."""
        return bool(self._connection.execute(IS_PENDING, (kind, workflow_id, kind, workflow_id)).fetchone()[0])

    def attempts_since(self, workflow_id: str, fence: int) -> Sequence[Task]:
        return [task_of(row, workflow_id) for row in self._connection.execute(ATTEMPTS_SINCE, (workflow_id, fence))]

    # -- how much there is ---------------------------------------------------------------------------------------------

    def sizes(self) -> Sizes:
        execute = self._connection.execute
        kinds = {}
        own: dict[tuple[str, str], Size] = {}
        for kind, (table, columns) in _KINDS.items():
            counted = f"{_ROWS.get(kind, 'count(*)')}, {_bytes(columns)} FROM {table} AS r"
            rows, held = execute(f"SELECT {counted}").fetchone()
            kinds[kind] = Size(rows, held)
            if kind not in _OWN:
                continue
            per_name = f"SELECT w.name, w.status, {counted} JOIN workflows AS w"
            own_row = _OF.get(kind, "w.workflow_id = r.workflow_id")
            for name, number, rows, held in execute(f"{per_name} ON {own_row} GROUP BY w.name, w.status"):
                status = STATUSES[number]
                known = own.get((name, status), Size(0, 0))
                own[name, status] = Size(known.rows + (rows if kind == "executions" else 0), known.bytes + held)
        page, pages, free = (execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count"))
        return Sizes(kinds=kinds, executions=own, file_bytes=page * pages, free_bytes=page * free)


class FeedWrites(FeedReads, BaseWrites):
    """Keeping what was indexed."""

    # -- what is to be indexed -----------------------------------------------------------------------------------------

    def index(self) -> SQLiteIndex:
        """The index in the file, to be changed."""
        self._dirty = True
        return super().index()

    def begin_feed(self, kind: FeedKind, reader: str) -> None:
        self.end_feed(kind)
        execute = self._connection.execute
        if kind is FeedKind.OWN:
            self.index().create()
        execute(_BEGIN, (kind, reader))
        execute(_PEND_ARCHIVED, (kind,))
        for name, (when, *statements) in _TRIGGERS.items():
            execute(f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {when} BEGIN {' '.join(f'{one};' for one in statements)} END")

    def mark_pending(self, kind: FeedKind, workflow_ids: Sequence[str]) -> None:
        if self.feed(kind) is not None:
            self._dirty = True
            self._connection.executemany(_PEND, [(kind, workflow_id) for workflow_id in workflow_ids])

    def mark_indexed(self, kind: FeedKind, changes: Sequence[Change], complete: bool) -> None:
        self._dirty = True
        kept = [(kind, one.fence, one.live, one.workflow_id) for one in changes if one.fence is not None]
        self._connection.executemany(_INDEXED, kept)
        self._connection.executemany("DELETE FROM pending WHERE n = ?", [(n,) for one in changes for n in one.pending])
        self._connection.execute(_COUNT, (complete, kind))

    def end_feed(self, kind: FeedKind) -> None:
        self._dirty = True
        if kind is FeedKind.OWN:
            self.index().drop()
        for place in ("feeds WHERE n", "indexed WHERE feed", "pending WHERE feed"):
            self._connection.execute(f"DELETE FROM {place} = ?", (kind,))
        if not self._connection.execute("SELECT 1 FROM feeds").fetchone():
            for name in _TRIGGERS:
                self._connection.execute(f"DROP TRIGGER IF EXISTS {name}")

    def _unindex(self, workflow_id: str) -> None:
        """Take an execution that is not stored any more out of the index in the file, if it is used."""
        execute = self._connection.execute
        if self.feed(FeedKind.OWN) is not None and execute(STORED, (workflow_id,)).fetchone() is None:
            try:
                SQLiteIndex(self._connection).remove([workflow_id])
            except (sqlite3.Error, StorageCorrupt):
                if not self._connection.in_transaction:
                    raise
                self.end_feed(FeedKind.OWN)  # it is damaged, and keeps no one from removing
