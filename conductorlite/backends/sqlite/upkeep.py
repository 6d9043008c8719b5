"""How much a SQLite store holds: `ports.UpkeepReads`."""

from __future__ import annotations

import sqlite3
from typing import Final

from conductorlite.ports import Size, Sizes

__all__ = ["SQLiteUpkeepReads"]

#: By kind of row: its table, and the columns whose texts are counted.
_KINDS: Final = {
    "executions": ("workflows", ("input", "output", "variables", "task_to_domain", "reason")),
    "tasks": ("tasks", ("input", "output", "reason", "traceback")),
    "history": ("history", ("payload", "cause", "reason")),
    "texts": ("texts", ("text",)),
    "logs": ("task_logs", ("text",)),
    "events": ("inbox", ("data",)),
    "messages": ("messages", ()),
    "definitions": ("definitions", ("text",)),
    "archive": ("archive", ("document",)),
    "changes": ("changes", ()),
}

#: Kinds of rows that belong to an execution.
_OWN: Final = ("executions", "tasks", "history", "texts", "logs", "events")


def _bytes(columns: tuple[str, ...]) -> str:
    lengths = " + ".join(f"coalesce(length(CAST(r.{column} AS BLOB)), 0)" for column in columns)
    return f"coalesce(sum({lengths}), 0)" if lengths else "0"


class SQLiteUpkeepReads:
    """Measuring."""

    _connection: sqlite3.Connection

    def sizes(self) -> Sizes:
        """How much there is; reads everything."""
        execute = self._connection.execute
        kinds = {}
        own: dict[tuple[str, str], Size] = {}
        for kind, (table, columns) in _KINDS.items():
            rows, held = execute(f"SELECT count(*), {_bytes(columns)} FROM {table} AS r").fetchone()
            kinds[kind] = Size(rows, held)
            if kind not in _OWN:
                continue
            per_name = f"SELECT w.name, w.status, count(*), {_bytes(columns)} FROM {table} AS r JOIN workflows AS w"
            for name, status, rows, held in execute(f"{per_name} ON w.workflow_id = r.workflow_id GROUP BY w.name, w.status"):
                known = own.get((name, status), Size(0, 0))
                own[name, status] = Size(known.rows + (rows if kind == "executions" else 0), known.bytes + held)
        page, pages, free = (execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count"))
        return Sizes(kinds=kinds, executions=own, file_bytes=page * pages, free_bytes=page * free)
