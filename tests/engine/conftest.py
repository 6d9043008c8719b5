"""Every test of the engine runs on each kind of store, and ends with a look at every law."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from engine_kit import Bench, NewBench

from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store

NewStore = Callable[[], Backend]


@pytest.fixture(params=["memory", pytest.param("memory-relay", marks=pytest.mark.slow), "sqlite"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> NewStore:
    """Makes empty stores of one kind."""
    made = iter(range(1_000))

    def make() -> Backend:
        if request.param == "sqlite":
            return SQLiteBackend(lay_empty_store(tmp_path / f"store{next(made)}.db"), synchronous="NORMAL")
        return MemoryBackend(relay=request.param == "memory-relay")

    return make


@pytest.fixture
def store(new_store: NewStore) -> Backend:
    """An empty store."""
    return new_store()


@pytest.fixture
def new_bench(new_store: NewStore) -> Iterator[NewBench]:
    """Makes benches on stores of their own; each must be healthy when the test ends."""
    with ExitStack() as stack:
        benches: list[Bench] = []

        def make(**options: Any) -> Bench:
            bench = Bench(new_store(), **options)
            stack.callback(bench.engine.close)
            benches.append(bench)
            return bench

        yield make
        for bench in benches:
            bench.healthy()


@pytest.fixture
def bench(new_bench: NewBench) -> Bench:
    """A bench with Orkes' semantics."""
    return new_bench()
