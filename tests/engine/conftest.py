"""Every test of the engine runs on each kind of store, and ends with a look at every law."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from engine_kit import Bench, NewBench

from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend
from conductorlite.testing.faults import lay_empty_store

NewStore = Callable[[], Backend]


#: The URL of a server for all stores of these tests: see tests/servers/run.
SERVER = os.environ.get("CONDUCTORLITE_TEST_STORE")


@pytest.fixture(params=["server"] if SERVER else ["memory", pytest.param("memory-relay", marks=pytest.mark.slow), "sqlite"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Makes empty stores of one kind."""
    with on_server() if request.param == "server" else nullcontext(locally(request.param, tmp_path)) as make:
        yield make


def locally(kind: str, folder: Path) -> NewStore:
    """Makes empty stores in memory, or in files of a folder."""
    made = iter(range(1_000))

    def make() -> Backend:
        if kind == "sqlite":
            return SQLiteBackend(lay_empty_store(folder / f"store{next(made)}.db"), synchronous="NORMAL")
        return MemoryBackend(relay=kind == "memory-relay")

    return make


@contextmanager
def on_server() -> Iterator[NewStore]:
    """Makes empty stores on the server, each in a schema of its own, which are removed at the end."""
    if (SERVER or "").startswith("cassandra://"):
        from tests.servers.places import cassandra_of

        with ExitStack() as stack:
            yield lambda: stack.enter_context(closing(cassandra_of(Path(uuid.uuid4().hex))))
        return
    from conductorlite.ext.postgres import PostgresBackend
    from tests.servers.places import dropped, own_schema

    urls: list[str] = []
    made: list[Backend] = []

    def make() -> Backend:
        urls.append(own_schema(SERVER or ""))
        made.append(PostgresBackend(urls[-1]))
        return made[-1]

    yield make
    for backend in made:
        backend.close()
    for url in urls:
        dropped(url)


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
