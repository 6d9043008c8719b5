"""The index of a store's own file answers as every index must; so does the one in memory, the example of an external one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from own_index import OwnIndex

from conductorlite.store.documents import TASKS, Document
from conductorlite.store.ports import IndexDAO
from conductorlite.store.search import asked
from conductorlite.testing import IndexConformance, MemoryIndex
from conductorlite.testing.conformance.documents import AnswerConformance, Shelf, attempts_agree, written
from conductorlite.testing.conformance.samples import task, workflow


class TestOwnIndex(AnswerConformance):
    """What is asked of it; its changes are those of the store."""

    def make_index(self, folder: Path) -> IndexDAO:
        """The index in a file of a folder."""
        return OwnIndex(folder / "some.db")  # type: ignore[return-value]

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


class TestMemoryIndex(IndexConformance):
    """Two handles as of two processes. It answers by looking, so what is drawn of that is slow and shows little."""

    test_executions_are_found_as_by_looking = pytest.mark.slow(IndexConformance.test_executions_are_found_as_by_looking)
    test_attempts_are_found_as_by_looking = pytest.mark.slow(IndexConformance.test_attempts_are_found_as_by_looking)
    test_any_order = pytest.mark.slow(IndexConformance.test_any_order)
    test_only_what_is_there_now_is_found = pytest.mark.slow(IndexConformance.test_only_what_is_there_now_is_found)

    made: dict[Path, MemoryIndex] = {}  # noqa: RUF012 - by folder, for all handles

    def make_index(self, folder: Path) -> IndexDAO:
        """A handle on the index of a folder."""
        index = MemoryIndex(self.made.get(folder))
        self.made.setdefault(folder, index)
        return index
