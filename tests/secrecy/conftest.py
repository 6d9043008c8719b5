"""Every test here runs on each kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductorlite.backends.memory import MemoryBackend
from conductorlite.backends.sqlite import SQLiteBackend
from conductorlite.ports import Backend


@pytest.fixture(params=["memory", pytest.param("memory-relay", marks=pytest.mark.slow), "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """An empty store."""
    if request.param == "sqlite":
        return SQLiteBackend(tmp_path / "store.db")
    return MemoryBackend(relay=request.param == "memory-relay")
