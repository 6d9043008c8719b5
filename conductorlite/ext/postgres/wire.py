"""A connection to PostgreSQL in pipeline mode: statements are sent as they come, and answers awaited when they are looked at.

Each text is prepared once a connection. A statement costs no round trip by itself; what is asked of its `Cursor` does, for all that
were sent before it. The first that fails is raised where answers are awaited, translated into the errors of `errors`.

What it follows: the documentation of libpq, "Pipeline Mode"; the SQLSTATEs of PostgreSQL's appendix A.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from conductorlite.ext.postgres.schema import numbered, text_of
from conductorlite.model.errors import (
    AccessDenied,
    ConductorliteError,
    InvalidInput,
    InvariantBroken,
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)
from conductorlite.model.texts import Milliseconds, to_ms

__all__ = ["Connection", "Cursor", "connect", "milliseconds", "parted"]

Row = tuple[Any, ...]

#: What an SQLSTATE, or its class, means to the user.
_MEANING: Final[dict[str, tuple[type[ConductorliteError], str]]] = {
    "55P03": (StorageBusy, "another writer held the store for too long"),
    "40P01": (StorageBusy, "writers waited for each other"),
    "40001": (StorageBusy, "another writer was first"),
    "53": (StorageUnavailable, "the server has no room for another connection, or no memory"),
    "53100": (StorageFull, "the disk of the server is full"),
    "25006": (StorageReadOnly, "the server takes no writes"),
    "42501": (AccessDenied, "the user may not do that"),
    "28": (AccessDenied, "the server refuses the user or the password"),
    "3D000": (StorageUnavailable, "there is no such database"),
    "42P01": (StorageCorrupt, "a table is missing"),
    "42703": (StorageCorrupt, "a column is missing"),
    "XX001": (StorageCorrupt, "the database is damaged"),
    "XX002": (StorageCorrupt, "an index of the database is damaged"),
    "22003": (InvalidInput, "a number cannot be stored"),
    "22": (InvalidInput, "a value cannot be stored"),
    "23": (InvariantBroken, "rows contradict the store"),
    "57": (StorageUnavailable, "the server ends"),
    "08": (StorageUnavailable, "the connection was lost"),
}


def meaning(state: str, text: str, place: str) -> ConductorliteError:
    """Return the public error for a failure of the server; its text names the store."""
    kind, words = _MEANING.get(state) or _MEANING.get(state[:2]) or (StorageError, "the database could not be used")
    return kind(f"{place}: {words} ({text})")


def _hex(data: bytes) -> bytes:
    return bytes.fromhex(data[2:].decode())


#: How a cell is read, by the type of its column; any other is a text.
_READ: Final[dict[int, Callable[[bytes], Any]]] = {16: b"t".__eq__, 17: _hex, 20: int, 21: int, 23: int, 1700: int}


def _cell(value: Any) -> bytes | None:
    """A parameter as text: what is kept in bytes elsewhere is kept as hex digits here."""
    if value is None:
        return None
    if isinstance(value, str):
        data = value.encode()
        if b"\0" in data:
            raise InvalidInput("a value cannot be stored: PostgreSQL keeps no text with a NUL character")
        return data
    if isinstance(value, bytes):
        return value.hex().encode()
    return b"%d" % value


def _rows(result: Any) -> list[Row]:
    columns = range(result.nfields)
    readers = [_READ.get(result.ftype(column)) for column in columns]
    value = result.get_value
    rows = []
    for row in range(result.ntuples):
        cells = []
        for column, read in zip(columns, readers, strict=True):
            cell = value(row, column)
            cells.append(None if cell is None else str(cell, "utf-8") if read is None else read(bytes(cell)))
        rows.append(tuple(cells))
    return rows


class Cursor:
    """The answer to one statement, or to one of each of several rows; awaited when it is looked at."""

    __slots__ = ("_connection", "_place", "done", "refusal", "rowcount_", "rows")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._place = 0
        self.done = False
        #: What is raised when a statement of it has found no row to change, or one in its place.
        self.refusal: ConductorliteError | None = None
        self.rows: list[Row] = []
        self.rowcount_ = 0

    def _awaited(self) -> list[Row]:
        if not self.done:
            self._connection.sync()
        return self.rows

    @property
    def rowcount(self) -> int:
        """How many rows were written, or found."""
        self._awaited()
        return self.rowcount_

    def fetchone(self) -> Row | None:
        """The next row, None after the last."""
        rows, place = self._awaited(), self._place
        self._place += 1
        return rows[place] if place < len(rows) else None

    def fetchall(self) -> list[Row]:
        """Every row."""
        return self._awaited()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._awaited())


#: An answer that is expected: the cursor it belongs to (None: nobody's), the text it prepares, whether it is the cursor's last, and
#: whether it matters that it failed.
_Expected = tuple[Cursor | None, str | None, bool, bool]

#: No row was found to be changed (see `statements.guarded`), or there is one in its place.
_REFUSED: Final = frozenset({"22012", "23505"})


class Connection:
    """One connection; used by one thread at a time. Raises the errors of `meaning`."""

    def __init__(self, place: str, connection: psycopg.Connection[Any], count: Callable[[], None], answer_timeout_ms: int) -> None:
        self.place = place
        #: How long the server may say nothing while an answer is awaited, ms; None: as long as it takes.
        self.answer_timeout_ms: int | None = answer_timeout_ms
        self._kept = connection
        self._pg = connection.pgconn
        self._pg.enter_pipeline_mode()
        self._pg.nonblocking = 1
        self._poll = select.poll()
        self._fd = self._pg.socket
        self._names: dict[str, bytes] = {}
        self._expected: deque[_Expected | None] = deque()
        self._number = 0
        self._count = count
        #: Answers that nobody awaits any more, before the next sync.
        self._unsynced = False

    @property
    def usable(self) -> bool:
        """True if the server is still there, as far as is known here without asking it."""
        try:
            self._poll.register(self._fd, select.POLLIN)
            while self._poll.poll(0):  # what it says at its end stands before the end
                self._pg.consume_input()
        except (psycopg.Error, OSError, ValueError):
            return False  # the caller connects again, and raises what is wrong then
        return bool(self._pg.status == pq.ConnStatus.OK)

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Cursor:
        """Send a statement: one of the SQLite store's, or of `statements`."""
        cursor = Cursor(self)
        self._send(sql, parameters, cursor, last=True)
        return cursor

    def ask(self, sql: str, parameters: Sequence[Any]) -> Cursor:
        """Send a statement that is put together for once: its plan is made for its parameters, and dropped."""
        cursor = Cursor(self)
        try:
            self._pg.send_query_params(numbered(sql).encode(), [_cell(value) for value in parameters])
        except psycopg.Error as error:
            raise self._lost(error) from error
        self._expected.append((cursor, None, True, True))
        self._unsynced = True
        return cursor

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        """Send a statement for each row."""
        cursor = Cursor(self)
        sent = list(rows)
        for n, row in enumerate(sent, 1):
            self._send(sql, row, cursor, last=n == len(sent))
        cursor.done = not sent
        return cursor

    def _send(self, sql: str, parameters: Sequence[Any] | dict[str, Any], cursor: Cursor | None, *, last: bool) -> None:
        text = text_of(sql)
        cells = [_cell(value) for value in (parameters.values() if isinstance(parameters, dict) else parameters)]
        try:
            name = self._names.get(text)
            if name is None:
                self._number += 1
                name = b"s%d" % self._number
                self._pg.send_prepare(name, text.encode())
                self._names[text] = name
                self._expected.append((None, text, False, True))
            self._pg.send_query_prepared(name, cells)
            self._expected.append((cursor, text, last, True))
        except psycopg.Error as error:
            raise self._lost(error) from error
        self._unsynced = True

    def post(self, *texts: str) -> None:
        """Send statements whose answers nobody looks at; they are carried out at once, and awaited with the next ones."""
        for text in texts:
            self._send(text, (), None, last=True)
        self._mark()

    def abandon(self, *texts: str) -> None:
        """Let nobody hear of what is under way, and send what ends it."""
        if self._unsynced:
            self._mark()
        self._expected = deque(one and (None, one[1], True, False) for one in self._expected)
        self.post(*texts)

    def _mark(self) -> None:
        try:
            self._pg.pipeline_sync()
            self._expected.append(None)
            self._flush()
        except psycopg.Error as error:
            raise self._lost(error) from error
        self._unsynced = False

    def sync(self) -> None:
        """Await every answer; raises for the first statement that failed. One round trip."""
        if self._unsynced:
            self._mark()
        if not self._expected:
            return
        self._count()
        failed: ConductorliteError | None = None
        try:
            while self._expected:
                wrong = self._answer(self._expected[0])
                self._expected.popleft()
                failed = failed or wrong
        except psycopg.Error as error:
            raise self._lost(error) from error
        if failed is not None:
            raise failed

    def _answer(self, expected: _Expected | None) -> ConductorliteError | None:
        """Take one answer; what it says went wrong."""
        result = self._result()
        if expected is None:
            while result is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
                result = self._result()
            return None
        cursor, text, last, heeded = expected
        while (extra := self._result()) is not None:
            result = result or extra
        if result is None:
            return StorageUnavailable(f"{self.place}: the server gave no answer")
        status = result.status
        if status == pq.ExecStatus.TUPLES_OK and cursor is not None:
            cursor.rows += _rows(result)
            cursor.rowcount_ += result.ntuples
        elif status == pq.ExecStatus.COMMAND_OK and cursor is not None:
            cursor.rowcount_ += result.command_tuples or 0
        if status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            if cursor is not None:
                cursor.done = cursor.done or last
            return None
        if cursor is None and text is not None:
            self._names.pop(text, None)  # it was not prepared
        if status == pq.ExecStatus.PIPELINE_ABORTED or not heeded:
            return None
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if cursor is not None and cursor.refusal is not None and state in _REFUSED:
            return cursor.refusal
        message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")
        return meaning(state, message or result.get_error_message().strip(), self.place)

    def _result(self) -> Any:
        while self._pg.is_busy():
            self._wait(select.POLLIN)
            self._pg.consume_input()
        return self._pg.get_result()

    def _flush(self) -> None:
        while self._pg.flush():
            if self._wait(select.POLLIN | select.POLLOUT) & select.POLLIN:
                self._pg.consume_input()

    def _wait(self, events: int) -> int:
        self._poll.register(self._fd, events)
        found = self._poll.poll(self.answer_timeout_ms)
        if not found:  # it hangs, or the way to it does: nothing more is expected of this connection
            self._kept.close()
            raise psycopg.OperationalError(f"the server said nothing for {self.answer_timeout_ms} ms")
        return found[0][1]

    def _lost(self, error: psycopg.Error) -> ConductorliteError:
        self._expected.clear()
        self._unsynced = False
        if not self.usable:
            return StorageUnavailable(f"{self.place}: the connection was lost ({str(error).strip()})")
        return StorageError(f"{self.place}: the database could not be used ({str(error).strip()})")

    @contextmanager
    def plain(self) -> Iterator[psycopg.Connection[Any]]:
        """psycopg's own connection for a while, all answers awaited."""
        self.sync()
        self._pg.exit_pipeline_mode()
        self._pg.nonblocking = 0
        try:
            yield self._kept
        except psycopg.OperationalError as error:
            if self.usable:
                raise
            raise self._lost(error) from error
        finally:
            if self._pg.status == pq.ConnStatus.OK:
                self._pg.enter_pipeline_mode()
                self._pg.nonblocking = 1

    def notices(self) -> list[bytes]:
        """Return the notifications of other connections since the last call, without a wait; raises StorageUnavailable when the
        server is gone.
        """
        found = []
        try:
            self._poll.register(self._fd, select.POLLIN)
            while self._poll.poll(0):
                self._pg.consume_input()
            while (notify := self._pg.notifies()) is not None:
                found.append(notify.extra)
        except psycopg.Error as error:
            raise self._lost(error) from error
        return found

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the server says something."""
        self._poll.register(self._fd, select.POLLIN)
        self._poll.poll(seconds * 1_000)

    def close(self, *, wait: bool = False) -> None:
        """Leave the server; with `wait` it knows when this returns, or after a second."""
        kept = os.dup(self._fd) if wait and self.usable else -1
        self._kept.close()
        if kept >= 0:
            ended = select.poll()
            ended.register(kept, select.POLLIN)
            ended.poll(1_000)
            os.close(kept)


def parted(url: str, *own: str) -> tuple[str, dict[str, str], str]:
    """A URL as libpq takes it, those of its options that are `own`, and what messages show: no option, and no password."""
    split = urlsplit(url)
    options = [(part, *part.partition("=")) for part in split.query.split("&")]
    kept = "&".join(part for part, name, _, _ in options if name not in own)
    account, at, hosts = split.netloc.rpartition("@")
    shown = split._replace(netloc=f"{account.partition(':')[0]}{at}{hosts}", query="").geturl()
    return split._replace(query=kept).geturl(), {name: unquote(value) for _, name, _, value in options if name in own}, shown


def connect(url: str, place: str, name: str, count: Callable[[], None], *, answer_timeout_ms: int, **options: str) -> Connection:
    """A connection that the server lists under `name`; raises StorageUnavailable, AccessDenied, InvalidInput."""
    try:
        given = conninfo_to_dict(url)
        settings = " ".join([str(given.pop("options", "")), *(f"-c {name}={value}" for name, value in options.items())])
        known: dict[str, Any] = {"application_name": name, "connect_timeout": 10, **given, "options": settings}
        made = psycopg.connect(autocommit=True, **known)
    except psycopg.ProgrammingError as error:
        raise InvalidInput(f"{place}: {str(error).strip()}") from error
    except psycopg.Error as error:
        text = str(error).strip()
        raise meaning(getattr(error, "sqlstate", None) or _state(text), text, place) from error
    made.prepare_threshold = None  # when it forgets what it has prepared, it has the server forget ours too
    return Connection(place, made, count, answer_timeout_ms)


def milliseconds(options: dict[str, str], name: str, default: Milliseconds) -> int:
    """An option of a URL that is a length of time, as text or as a number of ms; raises InvalidInput."""
    text = options.get(name, "")
    return to_ms(int(text) if text.isdecimal() else text or default)


def _state(text: str) -> str:
    """Return the state of a failed connection, for which the library gives no SQLSTATE."""
    if any(words in text for words in ("authentication failed", "no password supplied", "pg_hba.conf", 'role "')):
        return "28000"
    return "3D000" if "does not exist" in text else "08006"
