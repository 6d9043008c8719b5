"""`start_and_wait`: an execution's result, and with a key the same one's, however often it is asked for."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from engine_kit import T0, flow, simple

from conductorlite import AsyncEngine, Engine, VirtualClock, Workers
from conductorlite import flow as as_flow
from conductorlite import task as as_task
from conductorlite.errors import BuildError, KeyTaken, ResultTimeout, WorkflowFailed
from conductorlite.flows import Backoff
from conductorlite.store.ports import Backend

CALLS: Counter[str] = Counter()


@as_task(retry=Backoff(0))
def double(n: int) -> int:
    CALLS["double"] += 1
    if n < 0:
        raise ValueError(n)
    return 2 * n


@as_flow
def doubling(n: int, timeout: str = "-") -> dict[str, int | str]:
    return {"n": double(n), "timeout": timeout}


@pytest.fixture(autouse=True)
def _uncalled() -> None:
    CALLS.clear()


def test_a_key_belongs_to_one_result(store: Backend) -> None:
    """A second call gets the first one's result or failure; what is started without a key, or with another one, is its own."""
    with Engine(store, clock=VirtualClock(T0)) as engine:
        once = doubling.options(idempotency_key="k")
        assert engine.start_and_wait(once, 4) == engine.start_and_wait(once, 5) == {"n": 8, "timeout": "-"}
        assert engine.start_and_wait(doubling, 5, timeout="mine") == {"n": 10, "timeout": "mine"}
        assert CALLS["double"] == 2
        wrong = doubling.options(idempotency_key="w")
        for _ in range(2):
            with pytest.raises(WorkflowFailed, match="ValueError: -1"):
                engine.start_and_wait(wrong, -1)
        assert CALLS["double"] == 3
        with pytest.raises(KeyTaken):
            engine.start_and_wait(doubling.options(idempotency_key="k", idempotency_strategy="FAIL"), 4)
        with pytest.raises(BuildError):
            engine.start_and_wait(doubling, m=4)  # type: ignore[call-arg]


def test_a_definition_and_a_timeout(store: Backend) -> None:
    """After ResultTimeout it goes on, and is waited for again."""
    definition = flow(simple("t"))
    with Engine(store, clock=VirtualClock(T0)) as engine:
        for _ in range(2):
            with pytest.raises(ResultTimeout):
                engine.start_and_wait(definition, {"a": 1}, idempotency_key="k", timeout="5s")
        (row,) = engine.executions()
        workers = Workers()
        workers.task("t")(lambda: {"b": 2})
        engine.workers.include(workers)
        assert engine.start_and_wait(definition, idempotency_key="k") == {"b": 2}
        assert [one.workflow_id for one in engine.executions()] == [row.workflow_id]


def test_awaited() -> None:
    """Ten at once with one key: one execution, ten results."""

    async def main() -> None:
        async with AsyncEngine() as engine:
            once = doubling.options(idempotency_key="k")
            found = await asyncio.gather(*(engine.start_and_wait(once, n) for n in range(10)))
            assert len({one["n"] for one in found}) == 1
            with pytest.raises(ResultTimeout):
                await engine.start_and_wait(flow(simple("t")), timeout="1ms")

    asyncio.run(main())
    assert CALLS["double"] == 1
