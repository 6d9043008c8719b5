"""What the index keeps: for executions and for tasks a narrow table of fields, the values inside payloads, and the words.

The narrow tables are what conditions walk; texts that are only shown lie apart. Values are keyed by path and value, so that a
comparison is one range. There is no migration: an index of another version is emptied and fed anew.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from conductorlite.search import TASKS, WORKFLOWS, Subject
from conductorlite.search.fields import Kind

__all__ = ["APPLICATION_ID", "VERSION", "column", "columns", "create", "drop"]

#: "CLIX" as the big-endian number at byte 68 of the file.
APPLICATION_ID: Final = 0x434C4958

#: Raised whenever what is indexed, or how, is changed: older indexes are then built anew.
VERSION: Final = 3

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
    ("workflows", "workflows_walked_0", "100000 2 1"),
    ("workflows", "workflows_walked_1", "100000 25000 2 1"),
    ("workflows", "workflows_walked_2", "100000 10000 2 1"),
    ("workflows", "workflows_walked_3", "100000 10 2 1"),
    ("workflows", "workflows_walked_4", "100000 10 2 1"),
    ("workflows", "workflows_walked_5", "100000 2 1"),
    ("workflows", "workflows_walked_6", "100000 2 1"),
    ("workflows", "idx_workflows_workflow_id", "100000 1"),
    ("workflows_values", "workflows_values", "1000000 50000 50 1"),
    ("workflows_values", "idx_workflows_values_id", "1000000 10 1 1"),
    ("tasks", "tasks_walked_0", "500000 2 1 1 1"),
    ("tasks", "tasks_walked_1", "500000 100000 2 1 1 1"),
    ("tasks", "tasks_walked_2", "500000 25000 2 1 1 1"),
    ("tasks", "tasks_walked_3", "500000 1"),
    ("tasks", "idx_tasks_workflow_id_reference_task_name_retry_count", "500000 5 1 1"),
    ("tasks_values", "tasks_values", "5000000 100000 50 1"),
    ("tasks_values", "idx_tasks_values_id", "5000000 10 1 1"),
)


def column(name: str) -> str:
    """The column of a field of `search.fields`: nothing a user wrote ever becomes one."""
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)


def columns(subject: Subject) -> dict[str, str]:
    """Columns by field, of those that are kept in the narrow table."""
    return {name: column(name) for name, kind in subject.fields.items() if kind is not Kind.MANY and name not in subject.inherited}


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, in the caller's transaction."""
    # Imported on use: who has no index never pays for it.
    from sqlite_utils import Database

    database = Database(connection, execute_plugins=False)
    database.table("about").create({"identity": str, "position": int, "version": int})
    connection.execute("CREATE TABLE paths (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE)")
    for subject in (WORKFLOWS, TASKS):
        name = subject.name
        kinds = {place: str if subject.fields[field] is Kind.TEXT else int for field, place in columns(subject).items()}
        database.table(name).create({"id": int, **kinds}, pk="id")
        database.table(name).create_index([column(key) for key in subject.key], unique=True)
        for n, walked in enumerate(_WALKED[name]):
            connection.execute(f"CREATE INDEX {name}_walked_{n} ON {name} ({', '.join(walked)})")
        # No type: a value keeps the one it has.
        connection.execute(
            f"CREATE TABLE {name}_values (path INTEGER NOT NULL, value, id INTEGER NOT NULL,"
            " PRIMARY KEY (path, value, id)) WITHOUT ROWID"
        )
        database.table(f"{name}_values").create_index(["id"])
        database.table(f"{name}_texts").create({"id": int, "words": str, "input": str, "output": str}, pk="id")
        # Words come as ASCII, folded and split. No triggers: a schema that is not trusted may not write to virtual tables.
        database.table(f"{name}_texts").enable_fts(["words"], fts_version="FTS5", tokenize="ascii")
    # Not what is measured but what is typical, so that SQLite goes about a search alike whatever the index holds.
    connection.execute("ANALYZE")
    connection.executemany("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)", _TYPICAL)
    connection.execute("ANALYZE sqlite_schema")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def drop(connection: sqlite3.Connection) -> None:
    """Delete every table, in the caller's transaction."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    names = [name for (name,) in tables.fetchall()]
    # A full-text table takes its own with it.
    for name in sorted(names, key=lambda name: not name.endswith("_fts")):
        quoted = name.replace('"', '""')
        connection.execute(f'DROP TABLE IF EXISTS "{quoted}"')
