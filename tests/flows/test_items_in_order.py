"""Items of a list begin in their order, however few at a time."""

from pathlib import Path
from typing import Any

import pytest

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import each


@pytest.mark.parametrize(
    ("options", "real"),
    [
        ({}, False),
        ({"rate": (1, "1s")}, False),
        *((one, real) for one in ({"concurrency": 1}, {"limit": 1}) for real in (False, True)),
    ],
    ids=str,
)
@pytest.mark.parametrize("stored", [False, True])
def test_items_begin_in_order(options: dict[str, Any], real: bool, stored: bool, tmp_path: Path) -> None:
    """On each store and either clock, under a limit of the worker, of the store, or a rate."""
    order: list[int] = []

    @task(**options)
    def work(item: int) -> int:
        order.append(item)
        return item

    @flow
    def job(items: list[int]) -> list[int]:
        return each(items, work)

    clock = None if real else VirtualClock(0)
    with Engine(tmp_path / "s.db" if stored else None, workers=[job], clock=clock) as engine:
        assert engine.start(job, items=list(range(25))).result() == list(range(25))
    assert order == list(range(25))
