"""The SQLite schema and its migrations: one EXCLUSIVE transaction, safe when several processes open at once.

The file carries conductorlite's `application_id` and the schema's number as `user_version`. Both are set in the
transaction that creates the tables, and before the file is switched to WAL, so the header of the file itself always
tells whose it is.

Layout. What a turn touches lies together: tasks, history, inbox and messages are WITHOUT ROWID and clustered by
workflow. Rows that may be wide (workflows, texts, definitions) are ordinary tables, because an index b-tree spills
rows over 1 KB into overflow pages. Every secondary index on a hot table is partial or serves a statement of every
turn: each one costs a page in the log of each commit. Those of workflows, along which executions are listed, hold only
what a turn does not change, and the status. Nothing here may run ANALYZE: plans must not depend on what a store held
when it was analysed.

The DDL is plain SQL: sqlite-utils makes STRICT tables, but neither WITHOUT ROWID ones nor partial indexes.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from conductorlite.backends.sqlite.schema_1 import V1
from conductorlite.backends.sqlite.schema_2 import V2
from conductorlite.backends.sqlite.schema_3 import V3
from conductorlite.backends.sqlite.schema_4 import V4
from conductorlite.backends.sqlite.schema_5 import V5
from conductorlite.errors import SchemaTooNew, StorageCorrupt

__all__ = ["APPLICATION_ID", "VERSION", "migrate", "refuse_newer"]

#: "CLTE" as the big-endian number at byte 68 of the file.
APPLICATION_ID: Final = 0x434C5445

#: What takes a store from schema n to n + 1. Never edited once released.
_MIGRATIONS: Final = (V1, V2, V3, V4, V5)

#: The schema this conductorlite writes.
VERSION: Final = len(_MIGRATIONS)


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring the schema up to date; a store that is up to date is only read.

    Raises SchemaTooNew or StorageCorrupt (somebody else's tables) with nothing changed, sqlite3 errors as they come.
    """
    connection.execute("BEGIN")  # one view of mark, number and tables: another process may be creating them
    try:
        found = _version(connection, path)
    finally:
        connection.execute("ROLLBACK")
    if found == VERSION:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for script in _MIGRATIONS[_version(connection, path) :]:  # read again: another process may have been first
            for statement in script.split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
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
