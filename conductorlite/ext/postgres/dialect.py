"""The statements of the SQLite store in PostgreSQL's words.

Both stores keep the same rows and ask the same of them, so what is asked stands once, with the SQLite store. Most of it differs by
rules: parameters are numbered, `IS` compares with null, a list is unnested, a row is replaced by its key. What a rule does not
reach stands here by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

from conductorlite.ext.postgres.schema import KEYS
from conductorlite.store.sqlite import limits, tables
from conductorlite.store.sqlite import statements as sql
from conductorlite.store.sqlite.rows import EVENT_COLUMNS

__all__ = ["postgres_text"]

#: Parts of statements, in the words of each.
_PARTS: Final[Sequence[tuple[str, str]]] = (
    (r"\bINDEXED BY \w+", ""),
    (r"json_each\((\?|\w+)\) AS (\w+)", r"jsonb_array_elements_text(\1::jsonb) AS \2(value)"),
    (r"json_each\((\?|\w+)\)", r"jsonb_array_elements_text(\1::jsonb) AS one(value)"),
    (r"\bIS NOT (?=\w+\.)", "IS DISTINCT FROM "),
    (r"\bIS (?=\?|coalesce\()", "IS NOT DISTINCT FROM "),
    (r"\bLIMIT \?", "LIMIT nullif(?::bigint, -1)"),
    (r"\bOFFSET \?", "OFFSET ?::bigint"),
    (r"length\(CAST\((r\.\w+) AS BLOB\)\)", r"octet_length(\1)"),
    (r"\bchar\(30\)", "chr(30)"),
    (r"\b0xFFFFFFF\b", "268435455"),
    (r"\bmax\((?=(due_at|excluded|\?))", "greatest("),
    (r"VALUES \(\?\)\)", "VALUES (?::bigint))"),
    (r", \? \+ 1\b", ", ?::bigint + 1"),
    (r"\+ \(\? IS NOT NULL\)", "+ (?::text IS NOT NULL)::int"),
    (r"parked = \?, fence", "parked = ?::text, fence"),
    (r"SET queue = \? \|\|", "SET queue = ?::text ||"),
    (r"length\(\?\)", "length(?::text)"),
)

#: `value` is a column of two rows where one that is there is changed.
_UPSERTS: Final = re.compile(r"DO UPDATE SET (\w+) = max\((\w+), excluded\.(\w+)\)")

_REPLACE: Final = re.compile(r"INSERT OR REPLACE INTO (\w+) \(([^)]*)\)(.*)", re.DOTALL)

_EVENT: Final = ", ".join(EVENT_COLUMNS)

_WHOLE: Final = {
    sql.DUE_EVENTS: (
        f"SELECT {_EVENT} FROM inbox WHERE workflow_id = :inbox AND held = 0 AND due_at <= :now"
        " ORDER BY due_at, posted_at, coalesce(sender, workflow_id), sender_seq, event_id LIMIT :most"
    ),
    sql.RECORD_POLL: (
        "INSERT INTO polls (task_type, domain, worker_id, polled_at) VALUES (?, ?, ?, ?) ON CONFLICT (task_type, domain)"
        " DO UPDATE SET worker_id = excluded.worker_id, polled_at = excluded.polled_at WHERE excluded.polled_at >= polls.polled_at"
    ),
    tables._COUNT: "UPDATE feeds SET position = position + 1, complete = greatest(complete, ?) WHERE n = ?",
    tables._ARCHIVE: tables._ARCHIVE.replace("?, ?)", "?, decode(?, 'hex'))"),
    tables._INDEXED: (
        "INSERT INTO indexed (feed, place, fence, live) SELECT ?::bigint, execution, ?::bigint, ?::bigint FROM workflows"
        " WHERE workflow_id = ? ON CONFLICT (feed, place) DO UPDATE SET fence = excluded.fence, live = excluded.live"
    ),
    tables.NEW: (
        "SELECT execution, workflow_id, fence, ended_at IS NULL, NULL::bigint FROM workflows WHERE execution > greatest(?::bigint,"
        " (SELECT coalesce(max(place), 0) FROM indexed WHERE feed = ?)) ORDER BY execution LIMIT ?"
    ),
    tables._PEND_ARCHIVED: "INSERT INTO pending (feed, workflow_id) SELECT ?::bigint, workflow_id FROM archive",
    limits.UNPOLLED: ("SELECT key FROM limits WHERE unpolled IS NOT NULL AND unpolled::jsonb @> to_jsonb(?::text) ORDER BY key"),
}


@cache
def postgres_text(text: str) -> tuple[str, tuple[str, ...]]:
    """A statement in PostgreSQL's words, and the names of its parameters, in the order of their numbers."""
    text = _WHOLE.get(text, text)
    replaced = _REPLACE.fullmatch(text)
    if replaced is not None:
        table, columns, rest = replaced.groups()
        keys = KEYS[table]
        others = [column for column in columns.split(", ") if column not in keys.split(", ")]
        setting = ", ".join(f"{column} = excluded.{column}" for column in others)
        text = f"INSERT INTO {table} ({columns}){rest} ON CONFLICT ({keys}) DO UPDATE SET {setting}"
    text = _UPSERTS.sub(_upserted(text), text)
    for pattern, words in _PARTS:
        text = re.sub(pattern, words, text)
    return _numbered(text)


def _upserted(text: str) -> str:
    table = re.match(r"INSERT INTO (\w+)", text)
    return rf"DO UPDATE SET \1 = greatest({table[1]}.\2, excluded.\3)" if table else ""


def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        if match[0] == "?":
            count += 1
            return f"${count}"
        name = match[1]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    # Not in a text, and not the `::` of a cast.
    parts = re.split(r"('[^']*')", text)
    parts[::2] = [re.sub(r"\?|(?<!:):([a-z]+)\b", number, part) for part in parts[::2]]
    return "".join(parts), tuple(names)
