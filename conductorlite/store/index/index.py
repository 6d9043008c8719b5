"""`SQLiteIndex`: an index in a SQLite file of its own, or in memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, final

from conductorlite.model.errors import ConductorliteError, EngineClosed, InvariantBroken, StorageBusy, StorageCorrupt, StorageError
from conductorlite.model.threads import Block, Mutex, within
from conductorlite.store.documents import TASKS, WORKFLOWS, Document, Subject
from conductorlite.store.files import make_private
from conductorlite.store.index.tables import APPLICATION_ID, VERSION, IndexChange, columns, create, drop, rendered
from conductorlite.store.query import Pattern
from conductorlite.store.search import Asked, SearchResult, TaskSummary, WorkflowSummary, task_summary, workflow_summary
from conductorlite.store.sqlite.connections import translated

__all__ = ["SQLiteIndex"]

V = TypeVar("V")

_FAILED: Final = ("failedReferenceTaskNames", "failedTaskNames")
_KNOWN: Final = (
    "SELECT workflow_id FROM workflows WHERE workflow_id > ? UNION SELECT workflow_id FROM tasks WHERE workflow_id > ?"
    " ORDER BY workflow_id LIMIT ?"
)
_JOURNAL_LIMIT: Final = 16 * 1024 * 1024


@final
class SQLiteIndex:
    """An index in the file `path`, which several processes may share, or in memory (None).

    Opening is put off until it is used, so that an index that cannot be opened keeps nobody from opening an engine. A file that
    vanishes or is replaced is noticed and opened anew. Commits are durable at checkpoints only: what a power cut takes from an
    index is noticed by its position, and the index built anew.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        #: The file, or None.
        self.path: Final = None if path is None else str(Path(path).absolute())
        self._connection: sqlite3.Connection | None = None
        self._mutex = Mutex()
        self._file: tuple[int, int] | None = None
        self._pid = os.getpid()
        self._closed = False

    @property
    def _called(self) -> str:
        return self.path or "the index in memory"

    # -- connection ----------------------------------------------------------------------------------------------------

    def _open(self, *, view: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        """The connection, for one thread at a time; with `view` several statements see one state."""
        return within(_Looking(self, view=view))

    def _there(self) -> sqlite3.Connection:
        if self._connection is not None and self._file != self._found():
            self._leave()
        if self._connection is None:
            self._connection = self._connected()
        return self._connection

    def _found(self) -> tuple[int, int] | None:
        """What file is there now."""
        if self.path is None:
            return None
        try:
            stat = os.stat(self.path)  # noqa: PTH116 - once for each search: a Path costs more than the call
        except OSError:
            return (0, 0)
        return stat.st_dev, stat.st_ino

    def _connected(self) -> sqlite3.Connection:
        if self.path is not None:
            make_private(self.path)
        connection = sqlite3.connect(self.path or ":memory:", timeout=0, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA trusted_schema = 0")
            connection.create_function("fits", 2, _fits, deterministic=True)
            self._made(connection)
            if self.path is not None:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_LIMIT}")
        except BaseException:
            connection.close()
            raise
        self._file = self._found()
        return connection

    def _made(self, connection: sqlite3.Connection) -> None:
        """Make the tables, or make them anew when they are of another version; refuse what is not an index."""
        if self._version(connection) == VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self._version(connection) != VERSION:
                drop(connection)
                create(connection)
                connection.execute("INSERT INTO about (identity, position, version) VALUES (?, 0, 0)", (_name(),))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application not in (0, APPLICATION_ID) or (tables and application != APPLICATION_ID):
            raise StorageError(f"{self._called}: this is a database, but not an index: it is left alone")
        return version if tables else 0

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- changing ------------------------------------------------------------------------------------------------------

    def changing(self) -> AbstractContextManager[IndexChange]:
        """A change, one at a time; raises StorageBusy at once, StorageErrors, EngineClosed."""
        return within(_Changing(self, change=True))

    def standing(self) -> tuple[str, int]:
        """Identity and position."""
        with self._open() as connection:
            row = connection.execute("SELECT identity, position FROM about").fetchone()
            if row is None:
                raise StorageCorrupt(f"{self._called}: the index does not say which it is")
            return row[0], row[1]

    def start_over(self) -> str | None:
        """Set a damaged file aside as `….damaged`, in the place of an earlier one; an index in memory is emptied."""
        with self._mutex.held():
            self._leave()
            if self.path is None or not Path(self.path).exists():
                return None
            aside = f"{self.path}.damaged"
            try:
                Path(self.path).replace(aside)
                for suffix in ("-wal", "-shm"):
                    Path(self.path + suffix).unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(f"{self.path}: cannot be set aside ({error.strerror})") from error
            return aside

    def close(self) -> None:
        """Release the file; idempotent."""
        with self._mutex.held():
            if not self._closed and os.getpid() == self._pid:
                self._closed = True
                self._leave()

    # -- searching -----------------------------------------------------------------------------------------------------

    def workflows(self, asked: Asked) -> SearchResult[WorkflowSummary]:
        """The executions that answer a search."""
        with self._open(view=True) as connection:
            total, rows = _page(connection, asked)
            failed = {name: _several(connection, name, [row[0] for row in rows]) for name in _FAILED}
        found = [
            workflow_summary(_fields(WORKFLOWS, row[1:-2]), {name: failed[name].get(row[0], ()) for name in _FAILED}, *row[-2:])
            for row in rows
        ]
        return SearchResult(total_hits=total, results=tuple(found))

    def tasks(self, asked: Asked) -> SearchResult[TaskSummary]:
        """The attempts that answer a search."""
        with self._open(view=True) as connection:
            total, rows = _page(connection, asked)
            ids = sorted({row[1 + list(columns(TASKS)).index("workflowId")] for row in rows})
            above = _above(connection, ids)
        found = []
        for row in rows:
            fields = _fields(TASKS, row[1:-2])
            fields |= above.get(fields["workflowId"], {})
            found.append(task_summary(fields, *row[-2:]))
        return SearchResult(total_hits=total, results=tuple(found))

    def known(self, after: str, limit: int) -> Sequence[str]:
        """Ids of executions of which anything is known."""
        with self._open(view=True) as connection:
            return [workflow_id for (workflow_id,) in connection.execute(_KNOWN, (after, after, limit))]

    def documents(self, workflow_id: str) -> Sequence[Document]:
        """All that is known of an execution, as it was put."""
        with self._open(view=True) as connection:
            above = _above(connection, [workflow_id]).get(workflow_id, {})
            found = _documents(connection, WORKFLOWS, workflow_id, {})
            return [*found, *_documents(connection, TASKS, workflow_id, above)]


class _Use(Block[V]):
    """The block of a few statements on an index."""

    __slots__ = ("_change", "_index", "_view")

    def __init__(self, index: SQLiteIndex, *, change: bool = False, view: bool = False) -> None:
        super().__init__()
        self._index = index
        self._change = change
        self._view = view

    def _begun(self) -> sqlite3.Connection:
        index = self._index
        if index._mutex.owned():
            raise InvariantBroken(f"{index._called}: it is used inside a use of the same thread")
        if not index._mutex.take(self, 0 if self._change else -1):
            raise StorageBusy(f"{index._called}: another thread uses the index")
        if index._closed or os.getpid() != index._pid:
            raise EngineClosed(f"{index._called}: the index was closed, or the process forked after it was opened")
        try:
            connection = index._there()
            if connection.in_transaction:  # of one that was interrupted twice
                connection.execute("ROLLBACK")
            if self._change or self._view:
                connection.execute("BEGIN IMMEDIATE" if self._change else "BEGIN")
        except sqlite3.Error as error:
            raise self._told(error) from error
        return connection

    def end(self, error: BaseException | None) -> None:
        try:
            connection = self._index._connection
            if error is None and self._change and connection is not None:
                connection.execute("COMMIT")
        except sqlite3.Error as failure:
            raise self._told(failure) from failure
        finally:
            self._over(clean=error is None or (isinstance(error, ConductorliteError) and not isinstance(error, StorageError)))
        if isinstance(error, sqlite3.Error):
            raise self._told(error) from error

    def undo(self, error: BaseException | None = None) -> None:
        self._over(clean=isinstance(error, ConductorliteError))

    def _over(self, *, clean: bool) -> None:
        index = self._index
        if index._mutex.mine(self):
            connection = index._connection
            if connection is not None and connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if not clean and index.path is not None:
                index._leave()  # the frames of an exception may keep statements that have not come to their end
            index._mutex.give(self)

    def _told(self, error: sqlite3.Error) -> ConductorliteError:
        if isinstance(error, sqlite3.IntegrityError):
            return StorageCorrupt(f"{self._index._called}: the rows of the index contradict each other ({error})")
        return translated(error, self._index._called)


class _Looking(_Use[sqlite3.Connection]):
    def begin(self) -> sqlite3.Connection:
        return self._begun()


class _Changing(_Use[IndexChange]):
    def begin(self) -> IndexChange:
        return IndexChange(self._begun(), _name)


def _documents(connection: sqlite3.Connection, subject: Subject, workflow_id: str, above: dict[str, Any]) -> Iterator[Document]:
    """The documents of one kind, with what they inherit."""
    wanted = ", ".join(f"d.{place}" for place in columns(subject).values())
    statement = (
        f"SELECT d.id, {wanted}, t.words, t.input, t.output FROM {subject.name} AS d"
        f" JOIN {subject.name}_texts AS t ON t.id = d.id WHERE d.workflow_id = ?"
    )
    values = (
        f"SELECT p.path, v.value FROM {subject.name}_values AS v INDEXED BY idx_{subject.name}_values_id"
        " CROSS JOIN paths AS p ON p.id = v.path WHERE v.id = ?"
    )
    for known, *cells, words, given, output in connection.execute(statement, (workflow_id,)).fetchall():
        fields = _fields(subject, tuple(cells))
        yield Document(
            workflow_id=workflow_id,
            place=(fields["referenceTaskName"], fields["retryCount"]) if subject is TASKS else None,
            fields=fields | above,
            values=tuple(connection.execute(values, (known,)).fetchall()),
            words=words,
            input=given,
            output=output,
        )


def _name() -> str:
    """A name for an index that none had before."""
    return os.urandom(16).hex()


def _page(connection: sqlite3.Connection, asked: Asked) -> tuple[int, list[Any]]:
    """How many rows answer, and those of the page with their shown texts."""
    subject = asked.subject
    table = f"{subject.name} AS d"
    wanted = ", ".join(f"d.{place}" for place in columns(subject).values())
    texts = f"{subject.name}_texts AS t ON t.id = d.id"
    # The rows themselves are read once it is known which: none is sorted with its texts.
    statement = f"SELECT d.id, {wanted}, t.input, t.output FROM {table} JOIN {texts} WHERE d.id = ?"
    total, ids = _ids(connection, asked)
    return total, [connection.execute(statement, (known,)).fetchone() for known in ids]


def _ids(connection: sqlite3.Connection, asked: Asked) -> tuple[int, list[int]]:
    """How many rows answer, and which are on the page: two walks, for they may be along different indexes."""
    sql = rendered(asked)
    table = f"{asked.subject.name} AS d"
    (total,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {sql.condition}", sql.bound).fetchone()
    if asked.start >= total or not asked.size:
        return total, []
    page = f"SELECT d.id FROM {table} WHERE {sql.condition} ORDER BY {sql.order} LIMIT ? OFFSET ?"
    return total, [known for (known,) in connection.execute(page, (*sql.bound, asked.size, asked.start))]


def _fields(subject: Subject, cells: tuple[Any, ...]) -> dict[str, Any]:
    return {name: value for name, value in zip(columns(subject), cells, strict=True) if value is not None}


def _several(connection: sqlite3.Connection, name: str, ids: list[int]) -> dict[int, tuple[str, ...]]:
    """The texts of a field that holds several, by row."""
    found: dict[int, tuple[str, ...]] = {}
    statement = (
        "SELECT v.id, v.value FROM workflows_values AS v INDEXED BY idx_workflows_values_id"
        " WHERE v.id = ? AND v.path = (SELECT p.id FROM paths AS p WHERE p.path = ?)"
    )
    for one in ids:
        for known, value in connection.execute(statement, (one, name)):
            found[known] = (*found.get(known, ()), value)
    return {known: tuple(sorted(texts)) for known, texts in found.items()}


def _above(connection: sqlite3.Connection, ids: list[str]) -> dict[str, dict[str, Any]]:
    """What tasks inherit, by the id of their execution."""
    found: dict[str, dict[str, Any]] = {}
    statement = "SELECT workflow_type, priority, correlation_id FROM workflows WHERE workflow_id = ?"
    for one in ids:
        row = connection.execute(statement, (one,)).fetchone()
        if row is not None:
            fields = dict(zip(("workflowType", "workflowPriority", "correlationId"), row, strict=True))
            found[one] = {name: value for name, value in fields.items() if value is not None}
    return found


def _fits(value: object, parts: str) -> bool:
    """Whether a value is like a pattern, whose parts come joined by NUL."""
    return isinstance(value, str) and Pattern(tuple(parts.split("\0"))).fits(value)
