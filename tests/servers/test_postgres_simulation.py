"""Engines, workers and clocks that fail, on a store in PostgreSQL; every way of guarding its turns, under two engines at once."""

from __future__ import annotations

import runpy
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from places import dropped, own_schema, url_of

from conductorlite import Engine, EngineConfig, Workers, WorkflowDef
from conductorlite.store.ports import Backend
from conductorlite.testing import simulate

SCENARIOS = runpy.run_path(str(Path(__file__).parents[1] / "simulation" / "scenarios.py"))
CHAIN = WorkflowDef.from_json({"name": "chain", "tasks": [{"name": name, "taskReferenceName": name} for name in ("a", "b", "c")]})


@pytest.fixture
def stores(postgres_url: str) -> Iterator[Callable[[Path], Backend]]:
    """Opens the store that belongs to a folder."""
    from conductorlite.ext.postgres import PostgresBackend

    urls: dict[Path, str] = {}
    yield lambda folder: PostgresBackend(urls.setdefault(folder, own_schema(postgres_url)))
    for url in urls.values():
        dropped(url)


@pytest.mark.parametrize("options", [{}, {"locked": True}, {"local": True}], ids=str)
def test_nothing_lost_nothing_twice(stores: Callable[[Path], Backend], options: dict[str, bool]) -> None:
    """A seed each: without a lock, with one, and with engines that keep to themselves and take each other over."""
    seeds = [3]
    told = simulate(SCENARIOS["WORKFLOWS"], registered=SCENARIOS["REGISTERED"], seeds=seeds, store=stores, **options)
    assert told.seeds == len(seeds)
    assert told.counts["crashed"] > 0


def guards() -> Iterator[Any]:
    """No lock with the fence, and each lock with the fence and without it."""
    yield pytest.param(None, True, id="the fence alone")
    for lock in ("advisory", "redis", "zookeeper"):
        for fencing in (True, False):
            yield pytest.param(lock, fencing, id=f"{lock}{' and the fence' if fencing else ' alone'}")


@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
@pytest.mark.parametrize(("lock", "fencing"), list(guards()))
def test_each_guard_on_each_store(kind: str, lock: str | None, fencing: bool, tmp_path: Path) -> None:
    """Two engines that drive the same executions: each function is called once for a task, every execution ends, the laws hold."""
    if kind == "sqlite" and lock == "advisory":
        pytest.skip("a file has no advisory lock")
    with ExitStack() as made:
        store: Any = tmp_path / "store.db"
        if kind == "postgres":
            store = own_schema(url_of("postgres"))
            made.callback(dropped, store)
        place = url_of(lock) if lock in ("redis", "zookeeper") else lock
        called: list[str] = []
        workers = Workers()
        for name in ("a", "b", "c"):
            workers.add(name, noted(called))
        config = EngineConfig(fencing=fencing)
        engines = [made.enter_context(Engine(store, lock=place, workers=workers, config=config)) for _ in range(2)]
        for n in range(6):
            engines[n % 2].start(CHAIN, workflow_id=f"w{n}")
        threads = [threading.Thread(target=engine.run_until_idle, args=("60s",)) for engine in engines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(90)
        engines[0].run_until_idle("60s")
        assert [str(engines[1].status(f"w{n}")) for n in range(6)] == ["COMPLETED"] * 6
        assert len(called) == 18
        assert engines[0].admin.check() == []


def noted(called: list[str]) -> Callable[[], dict[str, bool]]:
    """A function that notes that it was called."""

    def function() -> dict[str, bool]:
        called.append("")
        return {"done": True}

    return function
