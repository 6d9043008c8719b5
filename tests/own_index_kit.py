"""The index that a store keeps in its file, by itself: put and asked without a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from conductorlite.store.documents import TASKS, Document
from conductorlite.store.query import fits
from conductorlite.store.search import asked
from conductorlite.store.sqlite.rows import Session
from conductorlite.store.sqlite.search import SQLiteIndex
from conductorlite.testing import IndexConformance
from conductorlite.testing.conformance.documents import AnswerConformance, Shelf, attempts_agree, written
from conductorlite.testing.conformance.samples import task, workflow


class OwnIndex:
    """One in a file, or in memory; it can be asked whatever an index can, and changed."""

    def __init__(self, path: Path | str = ":memory:", *documents: Document) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self._session = Session(self.connection, str(path))
        self.connection.execute("PRAGMA trusted_schema = 0")
        self.connection.create_function("fits", 2, fits, deterministic=True)
        if not self.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search_paths'").fetchone():
            SQLiteIndex(self._session).create()
        SQLiteIndex(self._session).put(documents)

    @contextmanager
    def changing(self) -> Iterator[SQLiteIndex]:
        """A change of its documents, undone when the block raises."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield SQLiteIndex(self._session)
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def __getattr__(self, name: str) -> Any:
        return getattr(SQLiteIndex(self._session), name)

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


class OwnConformance(AnswerConformance):
    """What is asked of the index of a store; its changes are those of the store."""

    def put(self, index: Any, documents: Sequence[Document], *removed: str) -> None:
        """One change."""
        with index.changing() as tx:
            tx.remove([*(one.workflow_id for one in documents), *removed])
            tx.put(documents)

    def test_attempts_inherit(self, tmp_path: Path) -> None:
        """What attempts have of their execution changes with it, without them being put again."""
        row = workflow("w", correlation_id="old", priority=1)
        with self.opened(tmp_path, *written(row, task("a"))) as index:
            again = attrs.evolve(row, correlation_id="new", priority=7, name="other")
            with index.changing() as tx:  # type: ignore[attr-defined]
                tx.put(written(again))
            shelf = Shelf()
            shelf.put(written(again, task("a")))
            shelf.agrees(index)
            for query in ("correlationId = new", "correlationId = old", "workflowPriority > 3", "workflowType = other"):
                attempts_agree(index, shelf.attempts, asked(TASKS, query, "*", 0, 9, ""))

    test_put_again_and_removed = IndexConformance.test_put_again_and_removed
    test_known_is_read_in_pages = IndexConformance.test_known_is_read_in_pages
    test_reopened = IndexConformance.test_reopened
    test_only_what_is_there_now_is_found = IndexConformance.test_only_what_is_there_now_is_found
