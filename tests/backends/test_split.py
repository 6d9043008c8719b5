"""A store in two parts: executions in partitions, their queue in an ordered store; every death between the two."""

from __future__ import annotations

from pathlib import Path

from partitions_kit import MemoryPartitions

from conductorlite.ext.cassandra.backend import SplitBackend
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.testing.conformance import BackendConformance


class TestSplit(BackendConformance):
    """What every backend promises, of two parts in memory."""

    def make_backend(self, folder: Path) -> Backend:
        """A new, empty store."""
        return SplitBackend(MemoryPartitions(), MemoryBackend())
