"""The index in the store's own file: documents of executions and attempts, by which they are searched.

For executions and for tasks a narrow table of fields, the values inside payloads, and the words. The narrow tables are what
conditions walk; texts that are only shown are stored apart. Values are keyed by path and value, so that a comparison is one range.
The tables are made when a store is searched first; an index of another form is rebuilt. A search becomes SQL: names of tables and
columns come from `store.documents`, everything a user wrote is bound.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from conductorlite.model.errors import StorageCorrupt
from conductorlite.store.documents import TASKS, WORKFLOWS, Cell, Document, Field, Kind, Phrase, Subject
from conductorlite.store.query import And, Compare, Condition, Not, Or, Pattern
from conductorlite.store.search import (
    FAILED,
    Asked,
    SearchResult,
    TaskSummary,
    WorkflowSummary,
    column,
    task_summary,
    text_after,
    workflow_summary,
)
from conductorlite.store.sqlite.rows import Session

__all__ = ["Rendered", "SQLiteIndex"]

#: Raised whenever what is indexed, or how, is changed: older indexes are then rebuilt.
_FORM: Final = "1"

#: Along which columns a search is likely to walk: all with the default sort behind them.
_WALKED: Final = {
    "workflows": (
        ("start_time DESC", "workflow_id"),
        ("status", "start_time DESC", "workflow_id"),
        ("workflow_type", "start_time DESC", "workflow_id"),
        ("correlation_id", "start_time DESC", "workflow_id"),
        ("parent_workflow_id", "start_time DESC", "workflow_id"),
        ("end_time DESC", "workflow_id"),
        ("update_time DESC", "workflow_id"),
    ),
    "tasks": (
        ("scheduled_time DESC", "workflow_id", "reference_task_name", "retry_count"),
        ("status", "scheduled_time DESC", "workflow_id", "reference_task_name", "retry_count"),
        ("task_def_name", "scheduled_time DESC", "workflow_id", "reference_task_name", "retry_count"),
        ("task_id",),
    ),
}

#: Rows of each index, and how many have the same first column, the same first two, …
_TYPICAL: Final = (
    ("search_workflows", "search_workflows_walked_0", "100000 2 1"),
    ("search_workflows", "search_workflows_walked_1", "100000 25000 2 1"),
    ("search_workflows", "search_workflows_walked_2", "100000 10000 2 1"),
    ("search_workflows", "search_workflows_walked_3", "100000 10 2 1"),
    ("search_workflows", "search_workflows_walked_4", "100000 10 2 1"),
    ("search_workflows", "search_workflows_walked_5", "100000 2 1"),
    ("search_workflows", "search_workflows_walked_6", "100000 2 1"),
    ("search_workflows", "idx_search_workflows_workflow_id", "100000 1"),
    ("search_workflows_values", "search_workflows_values", "1000000 50000 50 1"),
    ("search_workflows_values", "idx_search_workflows_values_id", "1000000 10 1 1"),
    ("search_tasks", "search_tasks_walked_0", "500000 2 1 1 1"),
    ("search_tasks", "search_tasks_walked_1", "500000 100000 2 1 1 1"),
    ("search_tasks", "search_tasks_walked_2", "500000 25000 2 1 1 1"),
    ("search_tasks", "search_tasks_walked_3", "500000 1"),
    ("search_tasks", "idx_search_tasks_workflow_id_reference_task_name_retry_count", "500000 5 1 1"),
    ("search_tasks_values", "search_tasks_values", "5000000 100000 50 1"),
    ("search_tasks_values", "idx_search_tasks_values_id", "5000000 10 1 1"),
)

_KNOWN: Final = (
    "SELECT workflow_id FROM search_workflows WHERE workflow_id > ?"
    " UNION SELECT workflow_id FROM search_tasks WHERE workflow_id > ? ORDER BY workflow_id LIMIT ?"
)


def columns(subject: Subject) -> dict[str, str]:
    """Columns by field, of those that are kept in the narrow table."""
    return {name: column(name) for name, kind in subject.fields.items() if kind is not Kind.MANY and name not in subject.inherited}


class SQLiteIndex:
    """The index of one store; valid until the transaction ends whose connection this is."""

    form: Final = _FORM

    def __init__(self, session: Session) -> None:
        self._session, self._connection = session, session.connection
        self._execute = session.execute
        self._paths: dict[str, int] = {}

    def create(self) -> None:
        """Make the tables."""
        self._session.dirty = True
        # Imported on use: a program that never searches never pays for it.
        from sqlite_utils import Database

        database = Database(self._connection, execute_plugins=False)
        self._execute("CREATE TABLE search_paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE)")
        for subject in (WORKFLOWS, TASKS):
            name = f"search_{subject.name}"
            kinds = {place: str if subject.fields[field] is Kind.TEXT else int for field, place in columns(subject).items()}
            database.table(name).create({"id": int, **kinds}, pk="id")
            database.table(name).create_index([column(key) for key in subject.key], unique=True)
            for n, walked in enumerate(_WALKED[subject.name]):
                self._execute(f"CREATE INDEX {name}_walked_{n} ON {name} ({', '.join(walked)})")
            # No type: a value keeps the one it has.
            self._execute(
                f"CREATE TABLE {name}_values (path INTEGER NOT NULL, value, id INTEGER NOT NULL,"
                " PRIMARY KEY (path, value, id)) WITHOUT ROWID"
            )
            database.table(f"{name}_values").create_index(["id"])
            database.table(f"{name}_texts").create({"id": int, "words": str, "input": str, "output": str}, pk="id")
            # Words come as ASCII, folded and split. No triggers: a schema that is not trusted may not write to virtual tables.
            database.table(f"{name}_texts").enable_fts(["words"], fts_version="FTS5", tokenize="ascii")
        # Not what is measured but what is typical, so that SQLite goes about a search alike whatever the index holds; of the
        # other tables of the store nothing is said.
        self._execute("ANALYZE search_paths")
        self._connection.executemany("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", _TYPICAL)
        self._execute("ANALYZE sqlite_schema")

    def drop(self) -> None:
        """Take the tables out of the file."""
        self._session.dirty = True
        found = self._execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'search\\_%' ESCAPE '\\'"
        ).fetchall()
        # A full-text table takes its own with it.
        for name in sorted((name for (name,) in found), key=lambda name: not name.endswith("_fts")):
            self._execute(f"DROP TABLE IF EXISTS {name}")

    def put(self, documents: Sequence[Document]) -> None:
        self._session.dirty = True
        try:
            for document in documents:
                subject = WORKFLOWS if document.place is None else TASKS
                self._values(subject, self._row(subject, document), document)
        except sqlite3.IntegrityError as error:
            raise StorageCorrupt(f"the rows of the index contradict each other ({error})") from error

    def _row(self, subject: Subject, document: Document) -> int:
        """Write the fields and the words; the number of the row."""
        places = columns(subject)
        cells = [document.fields.get(name) for name in places]
        known = self._known(subject, document.workflow_id, document.place)
        if known is None:
            marks = ", ".join("?" * len(places))
            statement = f"INSERT INTO search_{subject.name} ({', '.join(places.values())}) VALUES ({marks})"
            known = self._execute(statement, cells).lastrowid or 0
            statement = f"INSERT INTO search_{subject.name}_texts (words, input, output, id) VALUES (?, ?, ?, ?)"
            self._execute(statement, (document.words, document.input, document.output, known))
            self._add_words(subject, known, document.words)
            return known
        setting = ", ".join(f"{place} = ?" for place in places.values())
        self._execute(f"UPDATE search_{subject.name} SET {setting} WHERE id = ?", (*cells, known))
        old = self._words(subject, known)
        statement = f"UPDATE search_{subject.name}_texts SET words = ?, input = ?, output = ? WHERE id = ?"
        self._execute(statement, (document.words, document.input, document.output, known))
        if old != document.words:  # they are the dearest to write
            self._drop_words(subject, known, old)
            self._add_words(subject, known, document.words)
        return known

    def _add_words(self, subject: Subject, known: int, words: str) -> None:
        self._execute(f"INSERT INTO search_{subject.name}_texts_fts (rowid, words) VALUES (?, ?)", (known, words))

    def _words(self, subject: Subject, known: int) -> str:
        row = self._execute(f"SELECT words FROM search_{subject.name}_texts WHERE id = ?", (known,)).fetchone()
        if row is None:
            raise StorageCorrupt("the rows of the index contradict each other: words are missing")
        words: str = row[0]
        return words

    def _drop_words(self, subject: Subject, known: int, words: str) -> None:
        """The full-text index holds no texts: a deletion gives it the texts that were inserted."""
        table = f"search_{subject.name}_texts_fts"
        self._execute(f"INSERT INTO {table} ({table}, rowid, words) VALUES ('delete', ?, ?)", (known, words))

    def _known(self, subject: Subject, workflow_id: str, place: tuple[str, int] | None) -> int | None:
        if place is None:
            row = self._execute("SELECT id FROM search_workflows WHERE workflow_id = ?", (workflow_id,)).fetchone()
        else:
            condition = "workflow_id = ? AND reference_task_name = ? AND retry_count = ?"
            row = self._execute(f"SELECT id FROM search_tasks WHERE {condition}", (workflow_id, *place)).fetchone()
        return None if row is None else int(row[0])

    def _values(self, subject: Subject, known: int, document: Document) -> None:
        table = f"search_{subject.name}_values"
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
            row = self._execute("SELECT id FROM search_paths WHERE path = ?", (path,)).fetchone()
            if row is None:
                number = self._execute("INSERT INTO search_paths (path) VALUES (?)", (path,)).lastrowid or 0
            else:
                number = int(row[0])
            self._paths[path] = number
        return number

    def remove(self, workflow_ids: Sequence[str]) -> None:
        self._session.dirty = True
        for workflow_id in workflow_ids:
            for subject in (WORKFLOWS, TASKS):
                rows = self._execute(f"SELECT id FROM search_{subject.name} WHERE workflow_id = ?", (workflow_id,)).fetchall()
                self._drop(subject, rows)

    def _drop(self, subject: Subject, rows: Sequence[tuple[int]]) -> None:
        for (known,) in rows:
            self._drop_words(subject, known, self._words(subject, known))
        if rows:
            for table in (f"search_{subject.name}_values", f"search_{subject.name}_texts", f"search_{subject.name}"):
                self._connection.executemany(f"DELETE FROM {table} WHERE id = ?", rows)

    # -- searching -----------------------------------------------------------------------------------------------------

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        total, rows = self._page(asked)
        failed = {name: self._several(name, [row[0] for row in rows]) for name in FAILED}
        found = [
            workflow_summary(_fields(WORKFLOWS, row[1:-2]), {name: failed[name].get(row[0], ()) for name in FAILED}, *row[-2:])
            for row in rows
        ]
        return SearchResult(total_hits=total, results=tuple(found))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        total, rows = self._page(asked)
        above = self._above(sorted({row[1 + list(columns(TASKS)).index("workflowId")] for row in rows}))
        found = []
        for row in rows:
            fields = _fields(TASKS, row[1:-2])
            fields |= above.get(fields["workflowId"], {})
            found.append(task_summary(fields, *row[-2:]))
        return SearchResult(total_hits=total, results=tuple(found))

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids of executions of which anything is known."""
        return [workflow_id for (workflow_id,) in self._execute(_KNOWN, (after, after, limit))]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        above = self._above([workflow_id]).get(workflow_id, {})
        return [*self._documents(WORKFLOWS, workflow_id, {}), *self._documents(TASKS, workflow_id, above)]

    def _documents(self, subject: Subject, workflow_id: str, above: dict[str, Any]) -> Iterator[Document]:
        """The documents of one kind, with what they inherit."""
        wanted = ", ".join(f"d.{place}" for place in columns(subject).values())
        statement = (
            f"SELECT d.id, {wanted}, t.words, t.input, t.output FROM search_{subject.name} AS d"
            f" JOIN search_{subject.name}_texts AS t ON t.id = d.id WHERE d.workflow_id = ?"
        )
        values = (
            f"SELECT p.path, v.value FROM search_{subject.name}_values AS v INDEXED BY idx_search_{subject.name}_values_id"
            " CROSS JOIN search_paths AS p ON p.id = v.path WHERE v.id = ?"
        )
        for known, *cells, words, given, output in self._execute(statement, (workflow_id,)).fetchall():
            fields = _fields(subject, tuple(cells))
            yield Document(
                workflow_id=workflow_id,
                place=(fields["referenceTaskName"], fields["retryCount"]) if subject is TASKS else None,
                fields=fields | above,
                values=tuple(self._execute(values, (known,)).fetchall()),
                words=words,
                input=given,
                output=output,
            )

    def _page(self, asked: Asked) -> tuple[int, list[Any]]:
        """How many rows answer, and those of the page with their shown texts."""
        subject = asked.subject
        table = f"search_{subject.name} AS d"
        wanted = ", ".join(f"d.{place}" for place in columns(subject).values())
        texts = f"search_{subject.name}_texts AS t ON t.id = d.id"
        # The rows themselves are read once it is known which: none is sorted with its texts.
        statement = f"SELECT d.id, {wanted}, t.input, t.output FROM {table} JOIN {texts} WHERE d.id = ?"
        total, ids = self._ids(asked)
        rows = [self._execute(statement, (known,)).fetchone() for known in ids]
        if None in rows:
            raise StorageCorrupt("the rows of the index contradict each other: texts are missing")
        return total, rows

    def _ids(self, asked: Asked) -> tuple[int, list[int]]:
        """How many rows answer, and which are on the page: two walks, for they may be along different indexes."""
        sql = Rendered(asked)
        table = f"search_{asked.subject.name} AS d"
        (total,) = self._execute(f"SELECT count(*) FROM {table} WHERE {sql.condition}", sql.bound).fetchone()
        if asked.start >= total or not asked.size:
            return total, []
        page = f"SELECT d.id FROM {table} WHERE {sql.condition} ORDER BY {sql.order} LIMIT ? OFFSET ?"
        return total, [known for (known,) in self._execute(page, (*sql.bound, asked.size, asked.start))]

    def _several(self, name: str, ids: list[int]) -> dict[int, tuple[str, ...]]:
        """The texts of a field that holds several, by row."""
        found: dict[int, tuple[str, ...]] = {}
        statement = (
            "SELECT v.id, v.value FROM search_workflows_values AS v INDEXED BY idx_search_workflows_values_id"
            " WHERE v.id = ? AND v.path = (SELECT p.id FROM search_paths AS p WHERE p.path = ?)"
        )
        for one in ids:
            for known, value in self._execute(statement, (one, name)):
                found[known] = (*found.get(known, ()), value)
        return {known: tuple(sorted(texts)) for known, texts in found.items()}

    def _above(self, ids: list[str]) -> dict[str, dict[str, Any]]:
        """Return the fields that tasks inherit, by the id of their execution."""
        found: dict[str, dict[str, Any]] = {}
        statement = "SELECT workflow_type, priority, correlation_id FROM search_workflows WHERE workflow_id = ?"
        for one in ids:
            row = self._execute(statement, (one,)).fetchone()
            if row is not None:
                fields = dict(zip(("workflowType", "workflowPriority", "correlationId"), row, strict=True))
                found[one] = {name: value for name, value in fields.items() if value is not None}
        return found


def _fields(subject: Subject, cells: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(columns(subject), cells, strict=True) if value is not None}


#: Fields of an execution under the name by which its tasks know them.
_INHERITED: Final = {"workflowPriority": "priority"}

#: SQLite's order of values is numbers, texts, bytes: where one kind ends the next begins.
_FIRST_TEXT: Final = ""
_FIRST_BYTES: Final = b""


class Rendered:
    """A condition, with what is bound in it, and an order."""

    def __init__(self, asked: Asked) -> None:
        self.bound: list[Cell] = []
        self._subject = asked.subject
        parts: list[str] = []
        if asked.condition is not None:
            parts.append(self._condition(asked.condition))
        if asked.phrases:
            parts.append(self._said(asked.phrases))
        if asked.with_task is not None:
            inner = type(self)(asked.with_task)
            self.bound += inner.bound
            parts.append(f"d.workflow_id IN (SELECT d.workflow_id FROM search_tasks AS d WHERE {inner.condition})")
        self.condition: str = " AND ".join(parts) or "TRUE"
        self.order = ", ".join(f"d.{column(name)}{self._direction[down]}" for name, down in asked.order.items())

    #: What is said behind a column by which rows ascend and descend; what is absent comes before everything.
    _direction: tuple[str, str] = ("", " DESC")

    def _said(self, phrases: Sequence[Phrase]) -> str:
        """That a document holds all of some phrases."""
        self.bound.append(" AND ".join(map(_matched, phrases)))
        texts = f"search_{self._subject.name}_texts_fts"
        return f"d.id IN (SELECT rowid FROM {texts} WHERE {texts} MATCH ?)"

    def _condition(self, condition: Condition, *, negated: bool = False) -> str:
        """A condition or its contrary; NOT goes down to the comparisons, for SQLite's parser stands few levels."""
        if isinstance(condition, Not):
            return self._condition(condition.part, negated=not negated)
        if isinstance(condition, And | Or):
            word = " AND " if isinstance(condition, And) is not negated else " OR "
            return f"({word.join(self._condition(part, negated=negated) for part in condition.parts)})"
        # A comparison with what is absent is NULL, which is false here, and its contrary true.
        return f"({self._comparison(condition)}) IS NOT TRUE" if negated else self._comparison(condition)

    def _comparison(self, condition: Compare) -> str:
        field = condition.field
        if field.kind in (Kind.PATH, Kind.MANY):
            return self._inside(condition, field)
        if field.name in self._subject.inherited:
            name = _INHERITED.get(field.name, field.name)
            compared = self._compared(f"w.{column(name)}", condition, typed=True)
            return f"d.workflow_id IN (SELECT w.workflow_id FROM search_workflows AS w WHERE {compared})"
        return self._compared(f"d.{column(field.name)}", condition, typed=True)

    def _inside(self, condition: Compare, field: Field) -> str:
        """A comparison with values inside payloads: a range of them."""
        path = f"(SELECT p.id FROM search_paths AS p WHERE {self._path(field.path)})"
        compared = self._compared("v.value", condition, typed=False)
        return f"d.id IN (SELECT v.id FROM search_{self._subject.name}_values AS v WHERE v.path = {path} AND {compared})"

    def _path(self, path: str) -> str:
        """Return the condition on a path."""
        self.bound.append(path)
        return "p.path = ?"

    def _compared(self, place: str, condition: Compare, *, typed: bool) -> str:
        """A comparison of one place; `typed`: it holds one kind of values, or nothing."""
        operator = condition.operator
        if operator == "EXISTS":
            return f"{place} IS NOT NULL"
        if operator == "IN":
            return self._among(place, condition)
        value = condition.values[0]
        if operator == "STARTS_WITH":
            return self._beginning(place, value if isinstance(value, str) else "")
        if operator == "BETWEEN":
            low, high = (one for one in condition.values if not isinstance(one, Pattern))
            return self._range(place, low, "<=", high)
        compared = self._stands(place, operator, value if not isinstance(value, Pattern) else "")
        if typed:
            return compared
        if isinstance(value, str):
            other = (">=", _FIRST_TEXT) if operator in ("<", "<=") else ("<", _FIRST_BYTES)
        elif operator in ("<", "<="):
            return compared
        else:
            other = ("<", _FIRST_TEXT)
        return f"({compared} AND {self._stands(place, *other)})"

    def _stands(self, place: str, operator: str, value: Cell) -> str:
        """How what is in a place stands to a value."""
        self.bound.append(value)
        return f"{place} {operator} ?"

    def _range(self, place: str, first: Cell, operator: str, last: Cell) -> str:
        return f"({self._stands(place, '>=', first)} AND {self._stands(place, operator, last)})"

    def _equal(self, place: str, values: Sequence[Cell]) -> str:
        """Return the condition that one of these values stands at a path."""
        if len(values) == 1:
            return self._stands(place, "=", values[0])
        self.bound += values
        return f"{place} IN ({', '.join('?' * len(values))})"

    def _like(self, place: str, pattern: Pattern) -> str:
        """Return the condition that a text matches a pattern; its beginning is compared elsewhere."""
        self.bound.append("\0".join(pattern.parts))
        return f"fits({place}, ?)"

    def _among(self, place: str, condition: Compare) -> str:
        exact = [value for value in condition.values if not isinstance(value, Pattern)]
        parts = [self._equal(place, exact)] if exact else []
        for value in condition.patterns:
            beginning = self._beginning(place, value.parts[0])
            if len(value.parts) == 2 and not value.parts[1]:
                parts.append(beginning)
            else:
                parts.append(f"({beginning} AND {self._like(place, value)})")
        return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"

    def _beginning(self, place: str, text: str) -> str:
        """Texts that begin with one are a range."""
        after = text_after(text)
        return self._range(place, text, "<", _FIRST_BYTES if after is None else after)


def _matched(phrase: Phrase) -> str:
    """A phrase as FTS5 takes it: words consist of alphabetic ASCII characters and digits."""
    return f'"{" ".join(phrase.words)}"' + ("*" if phrase.open else "")
