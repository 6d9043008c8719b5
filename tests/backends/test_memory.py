"""The memory backend keeps the contract, committing everything at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.testing.conformance import BackendConformance


class TestMemory(BackendConformance):
    """The conformance suite."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in memory."""
        return MemoryBackend()

    def test_a_closed_one_holds_nothing(self) -> None:
        """What it held is let go when it is closed, not when the collector finds it; one that is being read keeps it."""
        backend, read = MemoryBackend(), MemoryBackend()
        for store in (backend, read):
            with store.writing() as tx:
                tx.metadata.put_task_def("t", "{}")
        backend.close()
        assert not backend._store.metadata.task_defs
        with read.reading() as view:
            read.close()
            assert view.metadata.task_def("t") == "{}"

    @pytest.mark.slow
    def test_agrees_with_the_memory_backend(self) -> None:
        """Two of them do the same; that SQLite does is looked at in the fast run."""
        super().test_agrees_with_the_memory_backend()
