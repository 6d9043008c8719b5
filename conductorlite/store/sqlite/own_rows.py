"""An application's own rows in the store's file, written in one commit with what the engine writes.

What it guarantees. The application's statements end no transaction and change no table of ours: an authorizer refuses both while
SQLite prepares them. It is there only from the first of them in a transaction on, so that no other transaction pays for it.

Parts of such a transaction: a savepoint each, undone by itself.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, TypeVar, final

from conductorlite.model.errors import InvalidInput, StorageError
from conductorlite.model.threads import Block
from conductorlite.store.sqlite.callbacks import callback, raise_interruption
from conductorlite.store.sqlite.connections import translated
from conductorlite.store.tables import Parameters, Rows

__all__ = ["OwnRows", "Part", "Parts", "is_own"]

W = TypeVar("W")

#: What changes rows: the table is named first. What makes and drops something on a table: it is named second.
_ROWS: Final = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE)
_ON: Final = (
    *(sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX),
    *(sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_DROP_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_TRIGGER),
)
_NEVER: Final = {
    sqlite3.SQLITE_TRANSACTION: "the transaction is the block's to end",
    sqlite3.SQLITE_SAVEPOINT: "a part that is undone by itself is a block of `transaction()` inside this one",
    sqlite3.SQLITE_ATTACH: "other files have no part in the commit",
    sqlite3.SQLITE_DETACH: "other files have no part in the commit",
}

#: What shows tables and changes nothing.
_PRAGMAS: Final = frozenset(
    {"foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"}
)


@cache
def _ours() -> frozenset[str]:
    """The tables and views of the schema, and the table of its steps; what the index is made of begins with `search_`."""
    from conductorlite.store.sqlite.declarations import SCHEMA

    return frozenset({"_sqlite_migrations", *re.findall(r"CREATE (?:TABLE|VIEW) (\w+)", SCHEMA)})


#: What an error of a statement of the application is known by.
_MARK: Final = "_of_application"


@final
class OwnRows:
    """An application's statements in one transaction."""

    __slots__ = ("_asking", "_connection", "_path", "_refusal")

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._connection, self._path = connection, path
        self._asking = False
        self._refusal: str | None = None
        connection.set_authorizer(callback(self._authorized))

    def execute(self, statement: str, parameters: Parameters = ()) -> Rows:
        """Carry out one statement; raises InvalidInput for one that is not the application's, and what sqlite3 raises."""
        return self._carried_out(lambda cursor: cursor.execute(statement, parameters))

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Rows:
        """Run the statement once for each of several sets of parameters."""
        return self._carried_out(lambda cursor: cursor.executemany(statement, parameters))

    def close(self) -> None:
        """The transaction is about to end."""
        self._connection.set_authorizer(None)

    def _carried_out(self, carry_out: Callable[[sqlite3.Cursor], sqlite3.Cursor]) -> Rows:
        if not self._connection.in_transaction:
            raise StorageError(f"{self._path}: the transaction was undone by an earlier error")
        self._refusal, self._asking = None, True
        try:
            cursor = carry_out(self._connection.cursor())
            self._asking = False
            return Rows(cursor.fetchall(), cursor.rowcount, cursor.lastrowid, [column[0] for column in cursor.description or ()])
        except sqlite3.Error as error:
            if self._refusal is not None:
                raise InvalidInput(self._refusal) from None
            raise_interruption(error)
            setattr(error, _MARK, True)
            raise
        finally:
            self._asking = False

    def _authorized(self, action: int, one: str | None, two: str | None, _: str | None, __: str | None) -> int:
        if self._asking:
            table = one if action in _ROWS else two if action in _ON else None
            if action in _NEVER:
                self._refusal = f"{(one or 'this statement').upper()} cannot be carried out here: {_NEVER[action]}"
            elif action == sqlite3.SQLITE_PRAGMA and one not in _PRAGMAS:
                self._refusal = f"PRAGMA {one} cannot be carried out here: the connection is the engine's"
            elif table is not None and (table in _ours() or table.startswith("search_")):
                self._refusal = f"the table {table!r} is the engine's: call yours otherwise, app_{table} for one"
            else:
                return sqlite3.SQLITE_OK
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


def is_own(error: BaseException | None) -> bool:
    """Return True if it is what SQLite says about a statement of the application: theirs to read."""
    return getattr(error, _MARK, False) is True


class Parts:
    """The number of parts of a transaction that are open, one inside the other."""

    __slots__ = ("depth",)

    def __init__(self) -> None:
        self.depth = 0


@final
class Part(Block[W]):
    """The block of a change inside an application's transaction.

    Its savepoint is named by its depth: one that was interrupted before it had a savepoint must not undo the part around it.
    """

    __slots__ = ("_connection", "_open", "_outer", "_parts", "_path", "_writes")

    def __init__(self, writes: W, connection: sqlite3.Connection, path: str, parts: Parts) -> None:
        self._writes, self._connection, self._path, self._parts = writes, connection, path, parts
        #: The parts around it.
        self._outer = 0
        self._open = False

    def begin(self) -> W:
        """Set the savepoint; raises StorageError when the whole was undone."""
        connection = self._connection
        if not connection.in_transaction:
            raise StorageError(f"{self._path}: the transaction was undone by an earlier error")
        self._outer, self._open = self._parts.depth, True
        self._parts.depth = self._outer + 1
        try:
            connection.execute(f"SAVEPOINT part{self._outer}")
        except sqlite3.Error as failure:
            raise translated(failure, self._path) from failure
        return self._writes

    def end(self, error: BaseException | None) -> None:
        """Keep the part for the commit of the whole, or undo it."""
        try:
            if error is None:
                self._connection.execute(f"RELEASE part{self._outer}")
                self._open, self._parts.depth = False, self._outer
        except sqlite3.Error as failure:
            raise translated(failure, self._path) from failure
        finally:
            self.undo()
        if isinstance(error, sqlite3.Error) and not is_own(error):
            raise translated(error, self._path) from error

    def undo(self, error: BaseException | None = None) -> None:
        """Undo it, unless it has ended."""
        if not self._open:
            return
        if self._connection.in_transaction:
            try:
                self._connection.execute(f"ROLLBACK TO part{self._outer}")
                self._connection.execute(f"RELEASE part{self._outer}")
            except sqlite3.OperationalError as failure:
                if "no such savepoint" not in str(failure):  # it was interrupted before it had one, or after it gave it back
                    raise
        self._open, self._parts.depth = False, self._outer
