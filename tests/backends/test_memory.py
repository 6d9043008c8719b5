"""The memory backend keeps the contract, committing everything at once."""

from __future__ import annotations

from pathlib import Path

from conductorlite.backends.memory import MemoryBackend
from conductorlite.ports import Backend
from conductorlite.testing.conformance import BackendConformance


class TestMemory(BackendConformance):
    """The conformance suite."""

    def make_backend(self, folder: Path) -> Backend:
        """A store in memory."""
        return MemoryBackend()
