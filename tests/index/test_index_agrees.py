"""The index of a store's own file answers as every index must; so does the one in memory, the example of an external one."""

from __future__ import annotations

from pathlib import Path

import pytest
from own_index_kit import OwnConformance, OwnIndex

from conductorlite.store.ports import IndexDAO
from conductorlite.testing import IndexConformance, MemoryIndex


class TestOwnIndex(OwnConformance):
    """What is asked of it; its changes are those of the store."""

    def make_index(self, folder: Path) -> IndexDAO:
        """The index in a file of a folder."""
        return OwnIndex(folder / "some.db")  # type: ignore[return-value]


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
