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

    @pytest.mark.slow
    def test_agrees_with_the_memory_backend(self) -> None:
        """Two of them do the same; that SQLite does is looked at in the fast run."""
        super().test_agrees_with_the_memory_backend()
