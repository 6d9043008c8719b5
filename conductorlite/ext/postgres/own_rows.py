"""An application's own rows in the store's database, written in one commit with what the engine writes.

What it guarantees. The application's statements end no transaction and change no table of ours, which are in a schema of their own.
One that fails is undone by itself. They are psycopg's: `%s` for parameters, its types, its errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final, final

import psycopg

from conductorlite.ext.postgres.wire import Connection
from conductorlite.model.errors import InvalidInput
from conductorlite.model.threads import Block
from conductorlite.store.tables import Parameters, Rows

__all__ = ["OwnRows", "Part"]

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
        finally:
            self.undo()

    def undo(self, error: BaseException | None = None) -> None:
        """Undo it, unless it has ended."""
        if self._open:
            self._open = False
            self._wire.abandon("ROLLBACK TO part", "RELEASE part")
