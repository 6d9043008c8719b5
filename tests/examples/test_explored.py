"""What may happen to the examples, searched for what must not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripts import load

from conductorlite.testing import Explored, explore, never, whenever

pytestmark = pytest.mark.slow

#: What nobody may see: shipped without having been charged.
SHIPPED = never(lambda run: run.acts("ship") > 0 and run.acts("charge") == 0, "shipped, and never charged")


def _saga(_: Path, **options: Any) -> Explored:
    may = {step: ["ok", "fails_for_good", "acts_then_crashes"] for step in ("reserve", "charge", "ship")}
    rules = [SHIPPED, whenever("ship", "FAILED_WITH_TERMINAL_ERROR").then("refund")]
    return explore(load("order_saga/order_saga.py").order_saga, {"order": "x", "amount": 1}, may=may, invariants=rules, **options)


def _booking(_: Path, **options: Any) -> Explored:
    may = {
        "book_flight": [{"result": "12A"}, "fails_for_good"],
        "book_hotel": [{"result": 7}, "fails_for_good", "acts_then_crashes"],
        "cancel_flight": ["ok"],
    }
    signals = {"approval": [{"result": True}, {"result": False}, "never", "after book_hotel"]}
    rules = [whenever("book_flight").and_run("FAILED").then("book_flight_undo")]
    flow = load("booking_saga/booking_saga.py").booking
    return explore(flow, {"to": "Rome", "amount": 3}, may=may, signals=signals, invariants=rules, **options)


def _batch(folder: Path, **options: Any) -> Explored:
    flow = load("nightly_batch/nightly_batch.py").nightly_batch
    may = {"collect": [{"sales": []}, "fails", "late"]}
    return explore(flow, {"day": "2030-01-01", "folder": str(folder)}, may=may, **options)


def _expense(_: Path, **options: Any) -> Explored:
    rules = [never(lambda run: run.acts("pay_out") > 0 and run.acts("turn_down") > 0, "paid and turned down")]
    signals = {"approval": [{"approved": True}, {"approved": False}, "twice"]}
    return explore(load("web_approval/app.py").expense, {"who": "Ada", "amount": 1}, signals=signals, invariants=rules, **options)


def _etl(_: Path, **options: Any) -> Explored:
    may = {"list_items": [{"result": ["a", "b"]}, {"result": []}], "transform": [{"result": "x"}, "fails", "acts_then_crashes"]}
    return explore(load("etl/etl.py").etl, {"count": 2}, may=may, **options)


def _index(folder: Path, **options: Any) -> Explored:
    share = [{"package": "p", "root": "r", "files": ["f"]}]
    may = {"list_packages": [{"shares": [share, [], [], []], "files": 1, "vanishing": "v"}, "fails_for_good"]}
    flow = load("index_stdlib/index_stdlib.py").job_for(folder)
    given = {"source": "s", "broken": "b", "limit": None}
    return explore(flow, given, may=may, **options)


EXAMPLES: list[Callable[..., Explored]] = [_saga, _booking, _batch, _expense, _etl, _index]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.__name__.strip("_"))
def test_nothing_goes_wrong_with_the_examples(example: Callable[..., Explored], tmp_path: Path) -> None:
    """The ordinary course, and forty near it: each ends, and breaks no rule."""
    explored = example(tmp_path, schedules=40)
    assert explored.schedules > 5
    assert explored.problems == ()
