"""Rows of a store for people: what a query in SQL answers, asked by sqlite-utils, without a way to change anything."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from conductorlite.model.errors import InvalidInput

__all__ = ["answer_of"]


@contextmanager
def answer_of(
    path: Path, sql: str, parameters: Mapping[str, str]
) -> Iterator[tuple[tuple[str, ...], Iterator[tuple[object, ...]]]]:
    """Names of columns, and rows as they are read; raises InvalidInput, also while they are read, with what SQLite says."""
    from sqlite_utils import Database

    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            cursor = Database(connection, execute_plugins=False).execute(sql, dict(parameters))
            yield tuple(column for column, *_ in cursor.description or ()), iter(cursor)
    except sqlite3.Error as error:
        raise InvalidInput(f"the query has no answer: {error}") from None
