"""The index in the store's own schema: the tables of the SQLite store's index, asked in SQL that needs no extension of the server.

A text is compared by its beginning (`left(…, 100)`), which an index can hold however long it is, and then as a whole if what is
compared with it is as long as that. A value inside a payload is kept as a text that sorts as values do: numbers, texts, the rest.
Words are found by lexemes of a full-text index; that they follow one another is seen in the words themselves.

What is put is sent without a look at what becomes of it: the change it belongs to awaits it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

from conductorlite.ext.postgres.session import PostgresSession
from conductorlite.ext.search_queries import number_key, number_of
from conductorlite.model.errors import StorageCorrupt
from conductorlite.store.documents import BREAK, TASKS, WORKFLOWS, Cell, Document, Kind, Phrase, Subject
from conductorlite.store.query import Pattern
from conductorlite.store.search import (
    FAILED,
    Asked,
    SearchResult,
    TaskSummary,
    WorkflowSummary,
    column,
    task_summary,
    workflow_summary,
)
from conductorlite.store.sqlite import search
from conductorlite.store.sqlite.search import columns

__all__ = ["PostgresIndex"]

#: Raised whenever what is indexed, or how, is changed: older indexes are then rebuilt.
_FORM: Final = "postgres 1"

#: Characters of a text that an index of the server holds, and bytes of lexemes that it takes of one document.
_HEAD: Final = 100
_LEXEMES: Final = 500_000

_NUMBERS: Final = (Kind.NUMBER, Kind.TIME)

#: Fields of an execution under the name by which its tasks know them.
_ABOVE: Final = {"workflowType": "workflow_type", "workflowPriority": "priority", "correlationId": "correlation_id"}

_KNOWN: Final = (
    "SELECT workflow_id FROM search_workflows WHERE workflow_id > ?1 UNION SELECT workflow_id FROM search_tasks"
    " WHERE workflow_id > ?1 ORDER BY workflow_id LIMIT ?2"
)


#: A server's text has no NUL: both are written with `\1`, and sort as before.
_PACKED: Final = str.maketrans({"\0": "\1\1", "\1": "\1\2"})


def packed(text: str) -> str:
    """A text as the server can keep it."""
    return text.translate(_PACKED) if "\0" in text or "\1" in text else text


def unpacked(text: str) -> str:
    """The text that was packed."""
    return text.replace("\1\1", "\0").replace("\1\2", "\1") if "\1" in text else text


def bounded(text: str) -> str:
    """A text that stands for another one and is short."""
    return text if len(text) <= _HEAD else text[:_HEAD] + sha256(text.encode()).hexdigest()


def key_of(value: Cell) -> str:
    """A value as a text that sorts as values do: `0` and a number, `1` and a text, `2` and what compares with itself alone."""
    if isinstance(value, str):
        return "1" + value
    if isinstance(value, bytes):
        return "2" + value.decode()
    near, rest = number_key(value)
    return f"0{near}{f'{rest:03x}' if rest else ''}"


def value_of(key: str) -> Cell:
    """The value of such a text; a whole number is an int."""
    kind, text = key[0], key[1:]
    if kind == "1":
        return text
    return text.encode() if kind == "2" else number_of(text)


def key_of_document(workflow_id: str, place: tuple[str, int] | None) -> str:
    """Return the key of a document, a short text."""
    return bounded(packed(workflow_id) if place is None else json.dumps([workflow_id, *place]))


def _fields_of(subject: Subject) -> str:
    """The columns of a subject with their types, as the server takes them out of JSON."""
    return ", ".join(
        f"{place} {'bigint' if subject.fields[name] in _NUMBERS else 'text'}" for name, place in columns(subject).items()
    )


def _putting(subject: Subject) -> tuple[str, ...]:
    """Rows; the values of documents that are new or other ones: the old go, the new come; the texts of those documents."""
    table = f"search_{subject.name}"
    places = list(columns(subject).values())
    own = ["key", *(["execution_key"] if subject is TASKS else [])]
    given = "jsonb_to_recordset(CAST(? AS jsonb)) AS g (key text, digest text"
    documents = f' FROM {given}, "values" jsonb) JOIN {table} AS d ON d.key = g.key LEFT JOIN {table}_texts AS t ON t.id = d.id'
    changed = " WHERE t.digest IS DISTINCT FROM g.digest"
    return (
        f"INSERT INTO {table} ({', '.join(own + places)}) SELECT {', '.join('g.' + one for one in own + places)}"
        f" FROM jsonb_to_recordset(CAST(? AS jsonb)) AS g ({', '.join(f'{one} text' for one in own)}, {_fields_of(subject)})"
        f" ON CONFLICT (key) DO UPDATE SET {', '.join(f'{one} = excluded.{one}' for one in places)}",
        f"DELETE FROM {table}_values WHERE id IN (SELECT d.id{documents}{changed})",
        f"INSERT INTO {table}_values (path, value, whole, id) SELECT p.id, v.value, v.whole, d.id{documents}"
        ' CROSS JOIN LATERAL jsonb_to_recordset(g."values") AS v (path text, value text, whole text)'
        f" JOIN search_paths AS p ON p.key = v.path{changed}",
        f"INSERT INTO {table}_texts AS t (id, digest, words, input, output, lexemes)"
        f" SELECT d.id, g.digest, g.words, g.input, g.output, CAST(g.lexemes AS tsvector) FROM {given},"
        f" words text, input text, output text, lexemes text) JOIN {table} AS d ON d.key = g.key"
        " ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, words = excluded.words, input = excluded.input,"
        " output = excluded.output, lexemes = excluded.lexemes WHERE t.digest <> excluded.digest",
    )


_PUT: Final = {subject.name: _putting(subject) for subject in (WORKFLOWS, TASKS)}
_PATHS: Final = (
    "INSERT INTO search_paths (key, path) SELECT g.key, g.path FROM jsonb_to_recordset(CAST(? AS jsonb)) AS g (key text, path text)"
    " ON CONFLICT DO NOTHING"
)


def _removal(subject: Subject, which: str) -> str:
    table = f"search_{subject.name}"
    return (
        f"WITH gone AS (DELETE FROM {table} WHERE {which} RETURNING id), v AS (DELETE FROM {table}_values"
        f" USING gone WHERE {table}_values.id = gone.id) DELETE FROM {table}_texts USING gone WHERE {table}_texts.id = gone.id"
    )


#: What is known of executions, by their ids; of one that is not stored any more.
_REMOVE: Final = tuple(
    _removal(subject, f"{key} IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))")
    for subject, key in ((WORKFLOWS, "key"), (TASKS, "execution_key"))
)
UNINDEX: Final = tuple(
    _removal(subject, f"{key} = ?1 AND NOT EXISTS (SELECT 1 FROM workflows WHERE workflow_id = ?2)")
    for subject, key in ((WORKFLOWS, "key"), (TASKS, "execution_key"))
)


class PostgresIndex:
    """The index of one store; valid until the transaction ends whose connection this is."""

    form: Final = _FORM

    def __init__(self, session: PostgresSession) -> None:
        self._session, self._connection = session, session.wire
        self._ask = session.wire.ask

    def drop(self) -> None:
        """Forget everything. Row by row: a view that was opened before still finds what it knew."""
        self._session.dirty = True
        for subject in (WORKFLOWS, TASKS):
            for rest in ("_values", "_texts", ""):
                self._connection.execute(f"DELETE FROM search_{subject.name}{rest}")
        self._connection.execute("DELETE FROM search_paths")

    def put(self, documents: Sequence[Document]) -> None:
        """Take documents in the place of what was known of each."""
        self._session.dirty = True
        for subject, wanted in ((WORKFLOWS, []), (TASKS, list[Document]())):
            wanted += [one for one in documents if (one.place is None) is (subject is WORKFLOWS)]
            if wanted:
                self._put(subject, wanted)

    def _put(self, subject: Subject, documents: Sequence[Document]) -> None:
        execute = self._connection.execute
        # The last of several about one thing: a statement changes a row once.
        found = {key_of_document(one.workflow_id, one.place): one for one in documents}
        rows = [_row(subject, key, one) for key, one in found.items()]
        texts = [_texts(key, one) for key, one in found.items()]
        paths = sorted({path for one in found.values() for path, _ in one.values})
        if paths:
            execute(_PATHS, (json.dumps([{"key": bounded(path), "path": path} for path in paths]),))
        put_rows, *put_rest = _PUT[subject.name]
        execute(put_rows, (json.dumps(rows),))
        for statement in put_rest:
            execute(statement, (json.dumps(texts),))

    def remove(self, workflow_ids: Sequence[str]) -> None:
        """Forget executions with all their attempts."""
        self._session.dirty = True
        keys = json.dumps([key_of_document(one, None) for one in workflow_ids])
        for statement in _REMOVE:
            self._connection.execute(statement, (keys,))

    # -- searching -----------------------------------------------------------------------------------------------------

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        several = ", ".join(_several(name) for name in FAILED)
        total, rows = self._page(asked, several, (), [bounded(name) for name in FAILED])
        found = []
        for row in rows:
            failed = {
                name: tuple(sorted(str(value_of(one)) for one in json.loads(said or "[]")))
                for name, said in zip(FAILED, row[-2:], strict=True)
            }
            found.append(workflow_summary(_fields(WORKFLOWS, row[:-4]), failed, *row[-4:-2]))
        return SearchResult(total_hits=total, results=tuple(found))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        above = ", ".join(f"w.{place}" for place in _ABOVE.values())
        total, rows = self._page(asked, above, (" LEFT JOIN search_workflows AS w ON w.key = d.execution_key",), ())
        found = [task_summary(_fields(TASKS, row[:-5]) | _present(zip(_ABOVE, row[-3:], strict=True)), *row[-5:-3]) for row in rows]
        return SearchResult(total_hits=total, results=tuple(found))

    def _page(self, asked: Asked, more: str, joined: Iterable[str], bound: Iterable[str]) -> tuple[int, list[Any]]:
        """How many rows answer, and those of the page with their shown texts: one round trip."""
        sql = Rendered(asked)
        table = f"search_{asked.subject.name}"
        wanted = ", ".join(f"d.{place}" for place in columns(asked.subject).values())
        count = self._ask(f"SELECT count(*) FROM {table} AS d WHERE {sql.condition}", sql.texts)
        page = self._ask(
            f"SELECT {wanted}, t.input, t.output, {more}, t.id FROM (SELECT * FROM {table} AS d WHERE {sql.condition}"
            f" ORDER BY {sql.order} LIMIT CAST(? AS bigint) OFFSET CAST(? AS bigint)) AS d"
            f" LEFT JOIN {table}_texts AS t ON t.id = d.id{''.join(joined)} ORDER BY {sql.order}",
            self._in_order(sql.texts, asked, bound),
        )
        rows = page.fetchall()
        if any(row[-1] is None for row in rows):
            raise StorageCorrupt("the rows of the index contradict each other: texts are missing")
        return count.fetchall()[0][0], [row[:-1] for row in rows]

    @staticmethod
    def _in_order(texts: Sequence[str], asked: Asked, bound: Iterable[str]) -> list[Any]:
        """Return the values that a page binds, in the order of its statement: shown columns come first."""
        return [*bound, *texts, asked.size, asked.start]

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids of executions of which anything is known."""
        return [unpacked(workflow_id) for (workflow_id,) in self._ask(_KNOWN, (packed(after), limit))]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution."""
        key = key_of_document(workflow_id, None)
        inherited = self._ask(f"SELECT {', '.join(_ABOVE.values())} FROM search_workflows WHERE key = ?", (key,)).fetchone()
        above = _present(zip(_ABOVE, inherited or (None,) * len(_ABOVE), strict=True))
        return [*self._documents(WORKFLOWS, "key", key, {}), *self._documents(TASKS, "execution_key", key, above)]

    def _documents(self, subject: Subject, by: str, key: str, above: dict[str, Any]) -> Iterator[Document]:
        """The documents of one kind, with what they inherit."""
        table = f"search_{subject.name}"
        wanted = ", ".join(f"d.{place}" for place in columns(subject).values())
        of_one = (
            "SELECT jsonb_agg(jsonb_build_array(p.path, coalesce(v.whole, v.value)))::text"
            f" FROM {table}_values AS v JOIN search_paths AS p ON p.id = v.path WHERE v.id = d.id"
        )
        statement = (
            f"SELECT {wanted}, t.words, t.input, t.output, ({of_one}) FROM {table} AS d"
            f" JOIN {table}_texts AS t ON t.id = d.id WHERE d.{by} = ?"
        )
        for *cells, words, given, output, values in self._ask(statement, (key,)):
            fields = _fields(subject, cells)
            yield Document(
                workflow_id=str(fields["workflowId"]),
                place=(fields["referenceTaskName"], fields["retryCount"]) if subject is TASKS else None,
                fields=fields | above,
                values=tuple((path, value_of(value)) for path, value in json.loads(values or "[]")),
                words=words,
                input=given,
                output=output,
            )


def _row(subject: Subject, key: str, document: Document) -> dict[str, object]:
    cells = {place: document.fields.get(name) for name, place in columns(subject).items()}
    found = {place: packed(_text(cell)) if isinstance(cell, str | bytes) else cell for place, cell in cells.items()}
    return {"key": key, "execution_key": key_of_document(document.workflow_id, None), **found}


def _texts(key: str, document: Document) -> dict[str, object]:
    """Return the texts that are only found, or only shown, with their digest: an unchanged text is not written again."""
    values = []
    for path, value in dict.fromkeys(document.values):
        text = key_of(value)
        values.append({"path": bounded(path), "value": text[:_HEAD], "whole": text if len(text) >= _HEAD else None})
    words = " ".join(sorted(set(document.words.split()) - {BREAK}))
    texts = {"words": document.words, "input": document.input, "output": document.output, "values": values}
    digest = sha256(json.dumps(texts).encode()).hexdigest()
    return {"key": key, "digest": digest, "lexemes": words if len(words) <= _LEXEMES else None, **texts}


def _several(name: str) -> str:
    """The texts of a field that holds several, of a row `d`."""
    path = "(SELECT id FROM search_paths WHERE key = ?)"
    values = "SELECT jsonb_agg(coalesce(v.whole, v.value))::text FROM search_workflows_values AS v"
    return f"({values} WHERE v.id = d.id AND v.path = {path}) AS {column(name)}"


def _fields(subject: Subject, cells: Sequence[Any]) -> dict[str, Any]:
    """Fields that are there, by name; a flag is kept as a text."""
    found = _present(zip(columns(subject), cells, strict=True))
    return {name: value.encode() if subject.fields[name] is Kind.FLAG else value for name, value in found.items()}


def _present(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: unpacked(value) if isinstance(value, str) else value for name, value in fields if value is not None}


def _text(value: Cell) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Rendered(search.Rendered):
    """A condition as the server takes it."""

    _direction = (" NULLS FIRST", " DESC NULLS LAST")

    def __init__(self, asked: Asked) -> None:
        self._numbers = {
            f"{row}.{column(name)}"
            for row, subject in (("d", asked.subject), ("w", WORKFLOWS))
            for name, kind in subject.fields.items()
            if kind in _NUMBERS
        }
        super().__init__(asked)

    @property
    def texts(self) -> list[str]:
        """Return the bound texts."""
        return [str(one) for one in self.bound]

    def _said(self, phrases: Sequence[Phrase]) -> str:
        """Of what has too many words to be indexed, all is read."""
        parts = []
        for phrase in phrases:
            *words, last = phrase.words
            self.bound.append(" & ".join([*(f"'{word}'" for word in words), f"'{last}'{':*' if phrase.open else ''}"]))
            whole = "(t.lexemes IS NOT NULL" if not words else "(FALSE"
            self.bound.append(f" {' '.join(phrase.words)}{'' if phrase.open else ' '}")
            parts.append(
                f"(t.lexemes @@ CAST(? AS tsquery) OR t.lexemes IS NULL) AND {whole} OR position(? in ' ' || t.words || ' ') > 0)"
            )
        return f"d.id IN (SELECT t.id FROM search_{self._subject.name}_texts AS t WHERE {' AND '.join(parts)})"

    def _path(self, path: str) -> str:
        self.bound.append(bounded(path))
        return "p.key = ?"

    def _stands(self, place: str, operator: str, value: Cell) -> str:
        """How what is in a place stands to a value: its beginning first, which an index has."""
        if place in self._numbers:
            self.bound.append(value if isinstance(value, int) else exact(value))
            return f"{place} {operator} CAST(? AS {'bigint' if isinstance(value, int) else 'numeric'})"
        if place == "v.value":
            head, whole, text = "v.value", "coalesce(v.whole, v.value)", key_of(value)
        elif isinstance(value, bytes) and operator == "<":
            return "TRUE"  # past all texts
        else:
            head, whole, text = f"left({place}, {_HEAD})", place, packed(_text(value))
        if len(text) < _HEAD:
            self.bound.append(text)
            return f"{head} {operator} ?"
        self.bound += [text[:_HEAD], text]
        return f"({head} {'<=' if operator == '<' else '>=' if operator == '>' else operator} ? AND {whole} {operator} ?)"

    def _equal(self, place: str, values: Sequence[Cell]) -> str:
        return f"({' OR '.join(self._stands(place, '=', value) for value in values)})"

    def _like(self, place: str, pattern: Pattern) -> str:
        inside = place == "v.value"  # which is not packed
        parts = [(part if inside else packed(part)).translate(_ESCAPED) for part in pattern.parts]
        self.bound.append(("1" if inside else "") + "%".join(parts))
        return f"{'coalesce(v.whole, v.value)' if inside else place} LIKE ?"


_ESCAPED: Final = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


def exact(value: Cell) -> str:
    """A double as the server reads it, as what it is."""
    if not isinstance(value, float):
        return str(value)
    if math.isinf(value):
        return "1e400" if value > 0 else "-1e400"  # more than there is
    return str(int(value)) if value.is_integer() else repr(value)
