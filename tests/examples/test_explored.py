"""What may happen to the examples, searched for what must not."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts import EXAMPLES as FOLDER
from scripts import load

from conductorlite import WorkflowDef
from conductorlite.plan.tree import walk
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


def _agent(_: Path, **options: Any) -> Explored:
    turns = [{"tool": tool, "argument": "x"} for tool in ("weather", "answer")]
    may = {"ask_model": [*turns, "fails"], "weather": [{"result": []}, "acts_then_crashes"]}
    return explore(load("agent/agent.py").agent, {"question": "?"}, may=may, **options)


def _approval(_: Path, **options: Any) -> Explored:
    signals = {"manager": [{"approved": True}, "never"], "director": [{"approved": False}, "never"]}
    flow, given = load("approval/approval.py").purchase, {"item": "x", "amount": 1, "manager": "a", "director": "b"}
    return explore(flow, given, signals=signals, may={"notify": ["ok", "fails"]}, **options)


def _billing(_: Path, **options: Any) -> Explored:
    rules = [whenever("close_account", "COMPLETED").and_run("COMPLETED").then("charge")]
    flow, may = load("billing/billing.py").subscription, {"charge": ["ok", "fails_for_good", "acts_then_crashes"]}
    return explore(flow, {"customer": "a", "amount": 1}, may=may, invariants=rules, **options)


def _crawler(_: Path, **options: Any) -> Explored:
    return explore(load("crawler/crawler.py").crawl, {"pages": [1, 2]}, may={"fetch": [{"result": 1}, "fails", "late"]}, **options)


def _report(_: Path, **options: Any) -> Explored:
    may = {"count_sales": [{"result": 1}, "fails"], "send": [{"result": "x"}, "acts_then_crashes"]}
    return explore(load("cron_report/cron_report.py").nightly_report, {"shop": "x"}, may=may, **options)


def _migration(_: Path, **options: Any) -> Explored:
    may = {"write": [{"result": "x"}, "fails"], "publish": [{"result": "x"}, "fails_for_good"]}
    return explore(load("migration/migration.py").second, {"topic": "x"}, may=may, signals={"look": [{}, "twice"]}, **options)


def _orders(_: Path, **options: Any) -> Explored:
    may = {"reserve": [{"result": "x"}, "acts_then_crashes"], "EVENT": [{}, "fails_for_good"], "release": ["ok"]}
    rules = [whenever("reserve").and_run("FAILED").then("reserve_undo")]
    flow, signals = load("orders/orders.py").order, {"paid": [{"amount": 1}, "never"]}
    return explore(flow, {"order": "7", "item": "x"}, may=may, signals=signals, invariants=rules, **options)


def _pipeline(_: Path, **options: Any) -> Explored:
    may = {"build": [{"result": "x"}, "fails"], "test_on": [{"result": "x"}, "fails_for_good"], "roll_back": ["ok"]}
    may["deploy"] = [{"result": "x"}, "fails_for_good"]
    rules = [whenever("staging").and_run("FAILED").then("staging_undo")]
    return explore(load("pipeline/pipeline.py").pipeline, {"commit": "x"}, may=may, invariants=rules, **options)


def _job(_: Path, **options: Any) -> Explored:
    may = {
        "hand_in": [{"result": "j"}, "acts_then_crashes"],
        "rendered": [{"result": "https://x"}, "late"],
        "publish": ["ok", "fails"],
    }
    return explore(load("poll_job/poll_job.py").render, {"video": "x"}, may=may, **options)


def _transfer(_: Path, **options: Any) -> Explored:
    taken = {"account": "a", "amount": 1}
    may = {"withdraw": [taken, "fails_for_good"], "deposit": ["ok", "fails_for_good", "acts_then_crashes"], "give_back": ["ok"]}
    rules = [whenever("withdraw").and_run("FAILED").then("withdraw_undo")]
    flow = load("transfer/transfer.py").transfer
    return explore(flow, {"source": "a", "target": "b", "amount": 1}, may=may, invariants=rules, **options)


OTHERS = [_agent, _approval, _billing, _crawler, _report, _migration, _orders, _pipeline, _job, _transfer]
EXAMPLES: list[Callable[..., Explored]] = [_saga, _booking, _batch, _expense, _etl, _index, *OTHERS]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.__name__.strip("_"))
def test_nothing_goes_wrong_with_the_examples(example: Callable[..., Explored], tmp_path: Path) -> None:
    """The ordinary course, and forty near it: each ends, and breaks no rule."""
    explored = example(tmp_path, schedules=40)
    assert explored.schedules > 5
    assert explored.problems == ()


#: Their flows are made of another library's agents and graphs, or while the script runs; their own tests carry them out.
ADAPTED = {"langgraph_triage", "mcp_tools", "pydantic_agent"}


def _definitions() -> Iterator[tuple[str, Path]]:
    """Every workflow below `examples/`, with its file: of a JSON definition, and of a flow that has none."""
    for path in (path for path in FOLDER.rglob("*.py") if path.parent.name not in ADAPTED):
        for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(one, ast.FunctionDef) and any(ast.unparse(by).partition("(")[0] == "flow" for by in one.decorator_list):
                yield one.name, path
    for path in FOLDER.rglob("*.json"):
        yield json.loads(path.read_text(encoding="utf-8"))["name"], path


#: A later file is the same workflow as JSON.
DEFINITIONS = dict(_definitions())
assert len({path.parent for path in DEFINITIONS.values()}) == len({path.parent for _, path in _definitions()}), (
    "one name in two folders"
)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_nothing_hangs_in_any_definition(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tasks that succeed or fail for good, and every signal sent: each run ends, near the ordinary course as well."""
    monkeypatch.chdir(tmp_path)  # a script that is loaded runs
    path = DEFINITIONS[name]
    if path.suffix == ".json":
        workflow = definition = WorkflowDef.from_json(path.read_text(encoding="utf-8"))
    else:
        workflow = getattr(load(str(path.relative_to(FOLDER))), name)
        definition = workflow.definition
    signals = {one.ref: [{}] for one in walk(definition) if one.task.type in ("HUMAN", "WAIT")}
    given = {key: 2 if key == "count" else [1, 2] for key in definition.input_parameters}
    explored = explore(workflow, given, signals=signals, schedules=15)
    assert explored.schedules > 1


def test_every_example_has_a_workflow_that_is_explored() -> None:
    """No other folder of examples is left out."""
    folders = {path.relative_to(FOLDER).parts[0] for path in FOLDER.rglob("*.py")} - ADAPTED
    assert {path.relative_to(FOLDER).parts[0] for path in DEFINITIONS.values()} == folders
