"""Every test here runs on each kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store


@pytest.fixture(params=["memory", pytest.param("memory-relay", marks=pytest.mark.slow), "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty store."""
    if request.param == "sqlite":
        return SQLiteBackend(lay_empty_store(tmp_path / "store.db"), synchronous="NORMAL")
    return MemoryBackend(relay=request.param == "memory-relay")
