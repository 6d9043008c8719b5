"""The SQLite schema and its migrations: one EXCLUSIVE transaction, safe when several processes open at once.

What a store consists of is declared in `declarations`; `migrations` makes a new one of it, and says what has to be done to an older
one. A store of the present schema is opened without either.

The file carries conductorlite's `application_id` and the schema's number as `user_version`. Both are set in the
transaction that creates the tables, and before the file is switched to WAL, so the header of the file itself always
says whose it is.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

from conductorlite.model.errors import SchemaTooNew, StorageCorrupt
from conductorlite.model.threads import clean_up

__all__ = ["APPLICATION_ID", "VERSION", "migrate", "refuse_newer"]

#: "CLTE" as the big-endian number at byte 68 of the file.
APPLICATION_ID: Final = 0x434C5445

#: The schema this conductorlite writes.
VERSION: Final = 16


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date; a store that is up to date is only read.

    Raises SchemaTooNew or StorageCorrupt (another program's tables) with nothing changed, sqlite3 errors as they come.
    """
    connection.execute("BEGIN")  # one view of mark, number and tables: another process may be creating them
    try:
        found = _version(connection, path)
    except BaseException as error:
        clean_up(error, "ending a view of the schema", partial(connection.execute, "ROLLBACK"))
        raise
    connection.execute("ROLLBACK")
    if found == VERSION:
        return
    # Imported while the file is free: it takes long.
    from conductorlite.store.sqlite.migrations import bring_up_to_date

    connection.execute("BEGIN EXCLUSIVE")
    try:
        present = _version(connection, path)  # read again: another process may have been first
        if present != VERSION:
            bring_up_to_date(connection, present)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            clean_up(error, "undoing a migration", partial(connection.execute, "ROLLBACK"))
        raise


def _version(connection: sqlite3.Connection, path: str) -> int:
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application == APPLICATION_ID:
        if version > VERSION:
            raise SchemaTooNew(f"{path}: written with schema {version}; this conductorlite knows up to {VERSION}")
        return version
    if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
        raise StorageCorrupt(f"{path}: this is the database of another application (application_id {application})")
    return 0


def refuse_newer(connection: sqlite3.Connection, path: str) -> None:
    """Raise SchemaTooNew when a newer process has migrated the file since it was opened; in the transaction that would write."""
    version = _number(connection, "PRAGMA user_version")
    if version > VERSION:
        raise SchemaTooNew(f"{path}: migrated to schema {version} since it was opened; this conductorlite knows up to {VERSION}")


def _number(connection: sqlite3.Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])
