"""What an index is told of a SQLite store: `ChangeReads` and `ChangeWrites`.

Triggers fill `changes`, so that the turns know nothing of it, and so that every process notes, also one that has no index and one
of an older conductorlite. A note that is there already is not written again: an execution that moves on before the index has
looked costs one look-up.

How much a SQLite store holds: `UpkeepReads`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Final

from conductorlite.model.executions import Task
from conductorlite.store.bookkeeping import Change, Feed, Size, Sizes
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import TASK_COLUMNS, task_of

__all__ = ["SQLiteChangeReads", "SQLiteChangeWrites", "SQLiteUpkeepReads"]

#: The row of the execution itself, and its deletion, have no reference.
_ROW: Final = "'', -1"
_GONE: Final = "'', -2"

FEED: Final = "SELECT reader, position, removals, noting, until FROM feed"
CHANGES: Final = "SELECT n, workflow_id, ref, attempt FROM changes ORDER BY n LIMIT ?"
BEHIND: Final = "SELECT count(*) FROM (SELECT 1 FROM changes LIMIT ?)"
_NOTED: Final = "SELECT DISTINCT workflow_id FROM changes WHERE workflow_id IN"
FENCE: Final = "SELECT fence FROM workflows WHERE workflow_id = ?"
ATTEMPTS_AT: Final = (
    f"SELECT {', '.join('t.' + column for column in TASK_COLUMNS)} FROM json_each(?) AS wanted CROSS JOIN tasks AS t"
    " WHERE t.workflow_id = ? AND t.ref = json_extract(wanted.value, '$[0]') AND t.attempt = json_extract(wanted.value, '$[1]')"
)
_FORGET: Final = "DELETE FROM changes WHERE n = ?"
_TOLD: Final = "UPDATE feed SET position = position + 1"
_CAUGHT_UP: Final = (
    "UPDATE feed SET until = 0 WHERE until > 0 AND noting IS NULL AND NOT EXISTS (SELECT 1 FROM changes WHERE n <= until)"
)
_NOTING: Final = "UPDATE feed SET noting = ?, until = (SELECT coalesce(max(n), 0) FROM changes)"
_BEGIN: Final = "INSERT OR REPLACE INTO feed (id, reader, position, removals, noting, until) VALUES (0, ?, 0, 0, ?, 0)"
_NOTE: Final = f"INSERT OR IGNORE INTO changes (workflow_id, ref, attempt) VALUES (?, {_ROW})"
_NOTE_GONE: Final = f"INSERT OR IGNORE INTO changes (workflow_id, ref, attempt) VALUES (?, {_GONE})"
_NOTE_ATTEMPTS: Final = (
    "INSERT OR IGNORE INTO changes (workflow_id, ref, attempt) SELECT workflow_id, ref, attempt FROM tasks WHERE workflow_id = ?"
)
_ARCHIVED_IDS: Final = "SELECT workflow_id FROM archive WHERE workflow_id > ? ORDER BY workflow_id LIMIT ?"


def _trigger(name: str, when: str, *statements: str) -> str:
    return f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {when} BEGIN {' '.join(f'{one};' for one in statements)} END"


def _noting(workflow_id: str, place: str) -> str:
    return f"INSERT OR IGNORE INTO changes (workflow_id, ref, attempt) VALUES ({workflow_id}, {place})"


_REMOVED: Final = "UPDATE feed SET removals = removals + 1"
_TRIGGERS: Final = {
    "note_start": ("INSERT ON workflows", _noting("NEW.workflow_id", _ROW)),
    # What is archived under the id is not found any more.
    "note_return": (
        "INSERT ON workflows WHEN EXISTS (SELECT 1 FROM archive WHERE workflow_id = NEW.workflow_id)",
        _noting("NEW.workflow_id", _GONE),
    ),
    "note_turn": ("UPDATE OF fence ON workflows", _noting("NEW.workflow_id", _ROW)),
    "note_removal": ("DELETE ON workflows", _noting("OLD.workflow_id", _GONE), _REMOVED),
    "note_attempt": ("INSERT ON tasks", _noting("NEW.workflow_id", "NEW.ref, NEW.attempt")),
    "note_progress": ("UPDATE ON tasks", _noting("NEW.workflow_id", "NEW.ref, NEW.attempt")),
    "note_rename": ("UPDATE OF ref ON tasks WHEN OLD.ref <> NEW.ref", _noting("OLD.workflow_id", "OLD.ref, OLD.attempt")),
    # The attempts of an execution that is deleted go with its row, which is deleted first.
    "note_drop": (
        "DELETE ON tasks WHEN EXISTS (SELECT 1 FROM workflows WHERE workflow_id = OLD.workflow_id)",
        _noting("OLD.workflow_id", "OLD.ref, OLD.attempt"),
    ),
    "note_archiving": ("INSERT ON archive", _noting("NEW.workflow_id", _ROW)),
    "note_dropping": ("DELETE ON archive", _noting("OLD.workflow_id", _ROW), _REMOVED),
}

#: What is noted first when a feed begins, and what then; with the last id that was noted.
_STORED: Final = "stored:"
_ARCHIVED: Final = "archived:"


class SQLiteChangeReads:
    """What was noted."""

    _connection: sqlite3.Connection

    def feed(self) -> Feed | None:
        """The feed, or None when nothing is noted."""
        row = self._connection.execute(FEED).fetchone()
        if row is None:
            return None
        return Feed(reader=row[0], position=row[1], removals=row[2], noting=row[3], until=row[4])

    def changes(self, limit: int) -> Sequence[Change]:
        """What the oldest notes tell, by execution."""
        numbers: dict[str, list[int]] = {}
        places: dict[str, list[tuple[str, int]]] = {}
        removed: set[str] = set()
        for n, workflow_id, ref, attempt in self._connection.execute(CHANGES, (limit,)):
            numbers.setdefault(workflow_id, []).append(n)
            if attempt >= 0:
                places.setdefault(workflow_id, []).append((ref, attempt))
            elif attempt < -1:
                removed.add(workflow_id)
        return [
            Change(
                workflow_id=workflow_id,
                fence=self._fence(workflow_id),
                places=tuple(places.get(workflow_id, ())),
                removed=workflow_id in removed,
                numbers=tuple(noted),
            )
            for workflow_id, noted in numbers.items()
        ]

    def _fence(self, workflow_id: str) -> int | None:
        row = self._connection.execute(FENCE, (workflow_id,)).fetchone()
        return None if row is None else int(row[0])

    def behind(self, limit: int) -> int:
        """Notes there are, counted up to `limit`."""
        return int(self._connection.execute(BEHIND, (limit,)).fetchone()[0])

    def noted(self, workflow_ids: Sequence[str]) -> frozenset[str]:
        """Those of the executions of which there are notes."""
        marks = ", ".join("?" * len(workflow_ids))
        return frozenset(row[0] for row in self._connection.execute(f"{_NOTED} ({marks})", workflow_ids))

    def attempts_at(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> Sequence[Task]:
        """The attempts at those places that exist."""
        rows = self._connection.execute(ATTEMPTS_AT, (json.dumps(places), workflow_id))
        return [task_of(row) for row in rows]


class SQLiteChangeWrites(SQLiteChangeReads):
    """Noting."""

    _dirty: bool

    def begin_feed(self, reader: str) -> None:
        """From now on note changes for this reader, and begin to note all that is stored and archived."""
        self._dirty = True
        execute = self._connection.execute
        execute("DELETE FROM changes")
        execute(_BEGIN, (reader, _STORED))
        for name, (when, *statements) in _TRIGGERS.items():
            execute(_trigger(name, when, *statements))

    def note_stored(self, limit: int) -> None:
        """Note up to `limit` more of the executions that were there before, with all their attempts."""
        feed = self.feed()
        if feed is None or feed.noting is None:
            return
        self._dirty = True
        stored = feed.noting.startswith(_STORED)
        after = feed.noting.removeprefix(_STORED if stored else _ARCHIVED)
        ids = self._connection.execute(sql.WORKFLOW_IDS if stored else _ARCHIVED_IDS, (after, limit)).fetchall()
        self._connection.executemany(_NOTE, ids)
        if stored:
            self._connection.executemany(_NOTE_ATTEMPTS, ids)
        if len(ids) == limit:
            noting = (_STORED if stored else _ARCHIVED) + ids[-1][0]
        else:
            noting = _ARCHIVED if stored else None
        self._connection.execute(_NOTING, (noting,))

    def note_again(self, workflow_ids: Sequence[str]) -> None:
        """Note executions as if each had been deleted and begun anew."""
        if self.feed() is not None:
            self._dirty = True
            self._connection.executemany(_NOTE_GONE, [(workflow_id,) for workflow_id in workflow_ids])

    def forget(self, changes: Sequence[Change], feed: Feed) -> None:
        """Drop what the reader of `feed` was told, and count it, if the feed still stands where it stood."""
        now = self.feed()
        if now is None or (now.reader, now.position) != (feed.reader, feed.position):
            return
        self._dirty = True
        self._connection.execute(_TOLD)
        if now.removals == feed.removals:
            told = [change for change in changes if self._fence(change.workflow_id) == change.fence]
            self._connection.executemany(_FORGET, [(n,) for change in told for n in change.numbers])
            self._connection.execute(_CAUGHT_UP)

    def end_feed(self) -> None:
        """Note nothing more, and drop what was noted."""
        self._dirty = True
        for name in _TRIGGERS:
            self._connection.execute(f"DROP TRIGGER IF EXISTS {name}")
        self._connection.execute("DELETE FROM feed")
        self._connection.execute("DELETE FROM changes")


#: By kind of row: its table, and the columns whose texts are counted.
_KINDS: Final = {
    "executions": ("workflows", ("input", "output", "variables", "task_to_domain", "reason")),
    "tasks": ("tasks", ("input", "output", "reason", "traceback")),
    "history": ("history", ("payload", "cause", "reason")),
    "texts": ("texts", ("text",)),
    "logs": ("task_logs", ("text",)),
    "events": ("inbox", ("data",)),
    "messages": ("messages", ()),
    "definitions": ("definitions", ("text",)),
    "archive": ("archive", ("document",)),
    "changes": ("changes", ()),
}

#: Kinds of rows that belong to an execution.
_OWN: Final = ("executions", "tasks", "history", "texts", "logs", "events")


def _bytes(columns: tuple[str, ...]) -> str:
    lengths = " + ".join(f"coalesce(length(CAST(r.{column} AS BLOB)), 0)" for column in columns)
    return f"coalesce(sum({lengths}), 0)" if lengths else "0"


class SQLiteUpkeepReads:
    """Measuring."""

    _connection: sqlite3.Connection

    def sizes(self) -> Sizes:
        """How much there is; reads everything."""
        execute = self._connection.execute
        kinds = {}
        own: dict[tuple[str, str], Size] = {}
        for kind, (table, columns) in _KINDS.items():
            rows, held = execute(f"SELECT count(*), {_bytes(columns)} FROM {table} AS r").fetchone()
            kinds[kind] = Size(rows, held)
            if kind not in _OWN:
                continue
            per_name = f"SELECT w.name, w.status, count(*), {_bytes(columns)} FROM {table} AS r JOIN workflows AS w"
            for name, status, rows, held in execute(f"{per_name} ON w.workflow_id = r.workflow_id GROUP BY w.name, w.status"):
                known = own.get((name, status), Size(0, 0))
                own[name, status] = Size(known.rows + (rows if kind == "executions" else 0), known.bytes + held)
        page, pages, free = (execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count"))
        return Sizes(kinds=kinds, executions=own, file_bytes=page * pages, free_bytes=page * free)
