"""The statements of PostgreSQL's own; every other one stands with the SQLite store, in words that both understand.

Parameters are `?`, in their order, or `?1`, by their number.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from conductorlite.store.sqlite import limits, tables
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import EVENT_COLUMNS, MESSAGE_COLUMNS, TASK_COLUMNS, TASK_FIXED, WORKFLOW_COLUMNS

__all__ = ["numbered", "text_of"]

_EVENT: Final = ", ".join(EVENT_COLUMNS)
_MESSAGE: Final = ", ".join(MESSAGE_COLUMNS)
_LISTED: Final = "jsonb_array_elements_text(CAST(? AS jsonb)) AS wanted(value)"


def guarded(statement: str) -> str:
    """A change that fails where it finds no row: nothing after it is carried out, a COMMIT that was sent with it neither."""
    return f"WITH changed AS ({statement} RETURNING 1) SELECT 1 / count(*) FROM changed"


#: The number of the execution that the same change has begun just before (it is given as 0).
_BEGUN: Final = "currval('workflows_execution_seq')"
_NUMBER: Final = f"coalesce(nullif(CAST(? AS bigint), 0), {_BEGUN})"

WORKFLOW: Final = sql.WORKFLOW.replace(" FROM", ", execution FROM")
#: What is asked of an execution with its row: its first events that are not held, and its first tasks.
EVENTS: Final = (
    f"SELECT {_EVENT} FROM inbox WHERE workflow_id = ? AND held = 0"
    " ORDER BY due_at, posted_at, coalesce(sender, workflow_id), sender_seq, event_id LIMIT ?"
)
TASKS: Final = (
    f"SELECT {', '.join(TASK_COLUMNS)} FROM tasks WHERE execution = (SELECT execution FROM workflows WHERE workflow_id = ?) LIMIT ?"
)
INSERT_WORKFLOW: Final = f"{sql.INSERT_WORKFLOW} RETURNING execution"
UPDATE_WORKFLOW: Final = guarded(
    f"UPDATE workflows SET {', '.join(f'{column} = ?' for column in WORKFLOW_COLUMNS[: sql.CHANGING])}, fence = fence + 1,"
    " status = ?, definition_hash = ?, name = ?, correlation_id = ? WHERE workflow_id = ? AND fence = ? AND execution = ?"
)
#: Those of some executions whose fences are not the given ones.
FENCED: Final = (
    "SELECT wanted.key FROM jsonb_each_text(CAST(? AS jsonb)) AS wanted LEFT JOIN workflows AS w ON w.workflow_id = wanted.key"
    " WHERE w.fence IS DISTINCT FROM CAST(wanted.value AS bigint)"
)
FIRST: Final = f"SELECT {_MESSAGE} FROM messages WHERE queue = ? ORDER BY priority DESC, due_at, workflow_id, ref LIMIT ?"
OFFERED: Final = FIRST.replace("queue = ?", "queue = ? AND due_at <= ?")
MESSAGE_AT: Final = (
    f"SELECT min(at) FROM {_LISTED} CROSS JOIN LATERAL"
    " (SELECT min(due_at) AS at FROM messages WHERE queue = wanted.value) AS of_one"
)
FILE_BYTES: Final = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c JOIN pg_namespace AS n"
    " ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'"
)


def _optional(condition: str) -> str:
    """Executions of one family, newest first; what is not asked for is null."""
    return (
        (
            f"SELECT created_at, workflow_id FROM workflows WHERE {condition} = ?1 AND (?2 IS NULL OR name = ?2)"
            " AND (CAST(?3 AS bigint) IS NULL OR status = ?3) AND (?4 IS NULL OR correlation_id = ?4)"
            " AND (created_at, workflow_id) < (?5, ?6) ORDER BY created_at DESC, workflow_id DESC LIMIT ?7"
        )
        .replace("?2 IS", "CAST(?2 AS text) IS")
        .replace("?4 IS", "CAST(?4 AS text) IS")
    )


#: By the statement of the SQLite store.
_OWN: Final = {
    sql.UPDATE_TASK: guarded(
        f"UPDATE tasks SET fence = ?, {', '.join(f'{column} = ?' for column in TASK_COLUMNS[:-TASK_FIXED])} WHERE "
        + " AND ".join(f"{column} IS NOT DISTINCT FROM ?" for column in TASK_COLUMNS[-TASK_FIXED:])
        + " AND execution = ?"
    ),
    sql.INSERT_TASK: sql.INSERT_TASK.replace("VALUES (?", f"VALUES ({_NUMBER}"),
    sql.INSERT_TEXT: sql.INSERT_TEXT.replace("VALUES (?", f"VALUES ({_NUMBER}"),
    sql.INSERT_HISTORY: (
        f"INSERT INTO history (place, at, lines) VALUES (CAST(?1 AS bigint)"
        f" + CASE WHEN CAST(?1 AS bigint) < 268435456 THEN {_BEGUN} << 28 ELSE 0 END, ?2, ?3)"
    ),
    sql.WORKFLOWS_BY_ID: (
        f"SELECT {', '.join('w.' + column for column in WORKFLOW_COLUMNS)} FROM {_LISTED}"
        " JOIN workflows AS w ON w.workflow_id = wanted.value"
    ),
    sql.EXECUTIONS_CORRELATED: _optional("correlation_id"),
    sql.EXECUTIONS_OF_PARENT: _optional("parent_workflow_id"),
    sql.TASKS_LAST: (
        f"SELECT {', '.join('t.' + column for column in TASK_COLUMNS)} FROM {_LISTED} CROSS JOIN LATERAL (SELECT * FROM tasks"
        " WHERE execution = (SELECT execution FROM workflows WHERE workflow_id = ?) AND ref = wanted.value"
        " ORDER BY attempt DESC LIMIT 1) AS t"
    ),
    sql.TEXTS: (
        f"SELECT t.digest, t.text FROM {_LISTED} JOIN workflows AS w ON w.workflow_id = ?"
        " JOIN texts AS t ON t.execution = w.execution AND t.digest = wanted.value"
    ),
    sql.DUE_EVENTS: (
        f"SELECT {_EVENT} FROM inbox WHERE workflow_id = ? AND held = 0 AND due_at <= ?"
        " ORDER BY due_at, posted_at, coalesce(sender, workflow_id), sender_seq, event_id LIMIT ?"
    ),
    limits.UNPOLLED: (
        "SELECT key FROM limits WHERE unpolled IS NOT NULL AND CAST(unpolled AS jsonb) @> to_jsonb(CAST(? AS text)) ORDER BY key"
    ),
    tables.MOVED: tables.MOVED.replace(" INDEXED BY indexed_live", ""),
    tables.NEW: tables.NEW.replace("max(?,", "greatest(CAST(? AS bigint),"),
    tables.IS_PENDING: tables.IS_PENDING.replace("IS NOT w.", "IS DISTINCT FROM w."),
    tables._ARCHIVE: tables._ARCHIVE.replace("?, ?)", "?, decode(?, 'hex'))"),
    tables._OF: (
        f"SELECT e.digest, e.size, e.key FROM {_LISTED} JOIN external_payloads AS e ON e.workflow_id = ? AND e.digest = value"
    ),
    tables._KNOWN: tables._KNOWN.replace("json_each(?)", _LISTED),
}


@cache
def text_of(statement: str) -> str:
    """A statement as the server reads it, its parameters numbered."""
    return numbered(_OWN.get(statement, statement))


def numbered(statement: str) -> str:
    """A statement of PostgreSQL's own, its parameters numbered."""
    text, *parts = statement.split("?")
    for number, part in enumerate(parts, 1):
        text += f"${part}" if part[:1].isdigit() else f"${number}{part}"
    return text
