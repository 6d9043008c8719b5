"""Tests of searches run on each kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest
from partitions_kit import MemoryPartitions

from conductorlite.ext.cassandra.backend import SplitBackend
from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing import MemoryIndex
from conductorlite.testing.faults import lay_empty_store


@pytest.fixture(params=["own", "external"])
def index(request: pytest.FixtureRequest) -> MemoryIndex | None:
    """An external index, or none: then the store's own is asked, and in memory every execution is looked at."""
    return MemoryIndex() if request.param == "external" else None


@pytest.fixture(params=["memory", *(pytest.param(one, marks=pytest.mark.slow) for one in ("memory-relay", "split")), "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty store."""
    if request.param == "sqlite":
        return SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")
    if request.param == "split":
        return SplitBackend(MemoryPartitions(), SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL"))
    return MemoryBackend(relay=request.param == "memory-relay")
