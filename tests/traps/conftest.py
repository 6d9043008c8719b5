"""The traps are tried on both kinds of store, and every law is looked at when a test ends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from engine_kit import Bench

from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store


@pytest.fixture(params=["memory", "sqlite"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A bench with Orkes' semantics on either store; it must be healthy when the test ends."""
    sqlite = request.param == "sqlite"
    made = Bench(SQLiteBackend(lay_empty_store(tmp_path / "traps.db"), synchronous="NORMAL") if sqlite else MemoryBackend())
    yield made
    made.healthy()
    made.engine.close()
