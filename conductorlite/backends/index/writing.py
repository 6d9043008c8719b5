"""Changing the index inside an open transaction: `ports.IndexWrites`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence

from conductorlite.backends.index.schema import columns, create, drop
from conductorlite.errors import StorageCorrupt
from conductorlite.search import TASKS, WORKFLOWS, Document, Subject
from conductorlite.search.fields import Cell

__all__ = ["IndexChange"]


class IndexChange:
    """One atomic change; valid until its block ends."""

    def __init__(self, connection: sqlite3.Connection, new_name: Callable[[], str]) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._new_name = new_name
        self._paths: dict[str, int] = {}
        row = self._execute("SELECT identity, position FROM about").fetchone()
        if row is None:
            raise StorageCorrupt("the index does not say which it is")
        self.identity: str = row[0]
        self.position: int = row[1]

    def put(self, documents: Iterable[Document]) -> None:
        """Index executions and attempts, in the place of what was known of them."""
        for document in documents:
            subject = WORKFLOWS if document.place is None else TASKS
            self._values(subject, self._row(subject, document), document)

    def _row(self, subject: Subject, document: Document) -> int:
        """Write the fields and the words; the number of the row."""
        places = columns(subject)
        cells = [document.fields.get(name) for name in places]
        known = self._known(subject, document.workflow_id, document.place)
        if known is None:
            marks = ", ".join("?" * len(places))
            statement = f"INSERT INTO {subject.name} ({', '.join(places.values())}) VALUES ({marks})"
            known = self._execute(statement, cells).lastrowid or 0
            statement = f"INSERT INTO {subject.name}_texts (words, input, output, id) VALUES (?, ?, ?, ?)"
            self._execute(statement, (document.words, document.input, document.output, known))
            self._add_words(subject, known, document.words)
            return known
        setting = ", ".join(f"{place} = ?" for place in places.values())
        self._execute(f"UPDATE {subject.name} SET {setting} WHERE id = ?", (*cells, known))
        (old,) = self._execute(f"SELECT words FROM {subject.name}_texts WHERE id = ?", (known,)).fetchone()
        statement = f"UPDATE {subject.name}_texts SET words = ?, input = ?, output = ? WHERE id = ?"
        self._execute(statement, (document.words, document.input, document.output, known))
        if old != document.words:  # they are the dearest to write
            self._drop_words(subject, known, old)
            self._add_words(subject, known, document.words)
        return known

    def _add_words(self, subject: Subject, known: int, words: str) -> None:
        self._execute(f"INSERT INTO {subject.name}_texts_fts (rowid, words) VALUES (?, ?)", (known, words))

    def _drop_words(self, subject: Subject, known: int, words: str) -> None:
        """The full-text index holds no texts: it is told what it was told."""
        table = f"{subject.name}_texts_fts"
        self._execute(f"INSERT INTO {table} ({table}, rowid, words) VALUES ('delete', ?, ?)", (known, words))

    def _known(self, subject: Subject, workflow_id: str, place: tuple[str, int] | None) -> int | None:
        if place is None:
            row = self._execute("SELECT id FROM workflows WHERE workflow_id = ?", (workflow_id,)).fetchone()
        else:
            condition = "workflow_id = ? AND reference_task_name = ? AND retry_count = ?"
            row = self._execute(f"SELECT id FROM tasks WHERE {condition}", (workflow_id, *place)).fetchone()
        return None if row is None else int(row[0])

    def _values(self, subject: Subject, known: int, document: Document) -> None:
        table = f"{subject.name}_values"
        # By kind too: 1 and 1.0 are one value, 1 and true are not, and a set would hold one of them.
        wanted: dict[tuple[int, Cell], None] = {(self._path(path), value): None for path, value in document.values}
        stored = {(path, value) for path, value in self._execute(f"SELECT path, value FROM {table} WHERE id = ?", (known,))}
        gone = stored - wanted.keys()
        if gone:
            statement = f"DELETE FROM {table} WHERE path = ? AND value = ? AND id = ?"
            self._connection.executemany(statement, [(*one, known) for one in gone])
        new = [one for one in wanted if one not in stored]
        if new:
            statement = f"INSERT OR IGNORE INTO {table} (path, value, id) VALUES (?, ?, ?)"
            self._connection.executemany(statement, [(*one, known) for one in new])

    def _path(self, path: str) -> int:
        number = self._paths.get(path)
        if number is None:
            row = self._execute("SELECT id FROM paths WHERE path = ?", (path,)).fetchone()
            if row is None:
                number = self._execute("INSERT INTO paths (path) VALUES (?)", (path,)).lastrowid or 0
            else:
                number = int(row[0])
            self._paths[path] = number
        return number

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """Forget executions with all their attempts."""
        for workflow_id in workflow_ids:
            for subject in (WORKFLOWS, TASKS):
                rows = self._execute(f"SELECT id FROM {subject.name} WHERE workflow_id = ?", (workflow_id,)).fetchall()
                self._drop(subject, rows)

    def remove_tasks(self, workflow_id: str, places: Sequence[tuple[str, int]]) -> None:
        """Forget attempts of an execution."""
        rows = [(known,) for place in places if (known := self._known(TASKS, workflow_id, place)) is not None]
        self._drop(TASKS, rows)

    def _drop(self, subject: Subject, rows: Sequence[tuple[int]]) -> None:
        for (known,) in rows:
            (words,) = self._execute(f"SELECT words FROM {subject.name}_texts WHERE id = ?", (known,)).fetchone()
            self._drop_words(subject, known, words)
        if rows:
            for table in (f"{subject.name}_values", f"{subject.name}_texts", subject.name):
                self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", rows)

    def settle(self, position: int) -> None:
        """Keep how often the index was fed."""
        self.position = position
        self._execute("UPDATE about SET position = ?", (position,))

    def clear(self) -> None:
        """Forget everything, the position too; the index has a new name then."""
        drop(self._connection)
        create(self._connection)
        self._paths.clear()
        self.identity, self.position = self._new_name(), 0
        self._execute("INSERT INTO about (identity, position, version) VALUES (?, 0, 0)", (self.identity,))
