"""What the examples' own runs do not show of their workflows: silence, failures, time that passes, who is handed what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from scripts import EXAMPLES, load

from conductorlite import Engine, VirtualClock, WorkflowDef, WorkflowFailed
from conductorlite.runtime.engine import Run
from conductorlite.testing import ScriptedWorkers


@contextmanager
def engine_of(workers: ScriptedWorkers, *flows: Any) -> Iterator[Engine]:
    """An engine in virtual time, on which flows run with these workers in the place of their own."""
    with Engine(workers=workers.include(*flows), clock=VirtualClock(0)) as engine:
        yield engine


def failing(engine: Engine, run: Run[Any]) -> str:
    """Why an execution failed."""
    engine.run_until_idle()
    assert run.status == "FAILED"
    return run.workflow.reason or ""


def test_an_agent_that_finds_no_answer_fails() -> None:
    """After eight turns."""
    agent, workers = load("agent/agent.py").agent, ScriptedWorkers()
    workers.ask_model.returns({"tool": "weather", "argument": "Rome"})
    workers.weather.returns([])
    with engine_of(workers, agent) as engine:
        assert "no answer after eight turns" in failing(engine, engine.start(agent, question="?"))
    assert len(workers.ask_model.calls) == 8


def test_an_article_that_nobody_looks_at_is_published() -> None:
    """After thirty days, not before."""
    second = load("migration/migration.py").second
    with engine_of(ScriptedWorkers(), second) as engine:
        run = engine.start(second, topic="rain")
        engine.advance("29d 23h")
        assert run.status == "RUNNING"
        engine.advance("2h")
        assert run.result() == "published: a fine page about rain"


def test_a_greeting_is_tried_four_times(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second after each failure; a fourth ends it."""
    monkeypatch.chdir(tmp_path)
    hello = load("hello/hello.py").hello
    for failures, status in ((3, "COMPLETED"), (4, "FAILED")):
        workers = ScriptedWorkers()
        workers.greet.fails(failures).then.returns("Hello")
        with engine_of(workers, hello) as engine:
            run = engine.start(hello, name="Ada")
            engine.run_until_idle()
            assert run.status == status
        at = [one.at for one in workers.greet.calls]
        assert [later - at[0] for later in at] == [0, 1_000, 2_000, 3_000]


def test_an_order_that_nobody_pays_is_released() -> None:
    """After a week, with the shelf that was reserved."""
    order, workers = load("orders/orders.py").order, ScriptedWorkers()
    workers.reserve.returns("shelf of tea")
    workers.release.returns()
    with engine_of(workers, order) as engine:
        run = engine.start(order, order="7", item="tea")
        engine.advance("6d 23h")
        assert run.status == "RUNNING"
        assert "nobody has paid" in failing(engine, run)
    assert workers.release.inputs == [{"shelf": "shelf of tea"}]


def test_an_order_that_is_paid_at_once_waits_for_its_shelf() -> None:
    """The mail says which one it is."""
    order, workers = load("orders/orders.py").order, ScriptedWorkers()
    workers.reserve.takes("5m").returns("shelf of tea")
    workers.EVENT.returns()
    with engine_of(workers, order) as engine:
        run = engine.start(order, order="7", item="tea")
        engine.settle()
        run.signal({"amount": 12}, task="paid")
        assert run.result() == "shelf of tea"
    assert workers.EVENT.inputs[0]["shelf"] == "shelf of tea"


@pytest.mark.parametrize(("slow", "times"), [("scan", 1), ("test_on", 3)])
def test_nothing_is_deployed_before_tests_and_scan_have_ended(slow: str, times: int) -> None:
    """Whichever is last; all of it may take more than an hour, and what was built comes out."""
    module, workers = load("pipeline/pipeline.py"), ScriptedWorkers()
    workers.build.takes("9m").returns("app.tar")
    for name in ("scan", "test_on"):
        workers[name].takes("19m" if name == slow else "1s").returns(f"{name} is green")
    workers.deploy.returns("there")
    with engine_of(workers, module.pipeline) as engine:
        run = engine.start(module.pipeline, commit="f00d")
        assert run.result() == "app.tar"
        assert not [line for line in engine.history(run.workflow_id) if line.kind == "ALERT"]  # it was given two hours
        below = [one for one in engine.get(run.workflow_id).tasks if one.sub_workflow_id is not None]
        assert engine.result(below[0].sub_workflow_id or "")["result"] == ["test_on is green"] * 3
    assert len(workers[slow].calls) == times
    assert min(one.at for one in workers.deploy.calls) >= (9 + 19) * 60_000


def test_a_silent_manager_is_asked_three_days_long_then_the_director() -> None:
    """Who decides, is asked for by name, and their word holds."""
    purchase = load("approval/approval.py").purchase
    for answer, said in ((True, "approved"), (False, "turned down")):
        with engine_of(ScriptedWorkers(), purchase) as engine:
            run = engine.start(purchase, item="a car", amount=300.0, manager="Mia", director="Dan")
            engine.advance("2d 23h")
            (manager,) = [one for one in run.workflow.tasks if one.ref == "manager" and one.status == "IN_PROGRESS"]
            assert (manager.attempt, manager.input_data["assignee"]) == (2, "Mia")
            engine.advance("2h")
            director = run.workflow.task("director")
            assert (director.status, director.input_data["assignee"]) == ("IN_PROGRESS", "Dan")
            run.signal({"approved": answer})
            assert run.result() == said


@pytest.mark.parametrize("ref", ["escalate", "answer"])
def test_a_purchase_nobody_can_be_told_of_fails(ref: str) -> None:
    """Neither the director nor the applicant may be left out."""
    purchase, workers = load("approval/approval.py").purchase, ScriptedWorkers()
    workers.notify.when(ref=ref).fails_terminally("no mail")
    with engine_of(workers, purchase) as engine:
        run = engine.start(purchase, item="a car", amount=300.0, manager="Mia", director="Dan")
        engine.settle()
        if ref == "answer":
            run.signal({"approved": True})
        assert "no mail" in failing(engine, run)


def test_a_year_is_counted_and_an_account_closed() -> None:
    """Twelve months; or the customer, and why."""
    subscription = load("billing/billing.py").subscription
    workers = ScriptedWorkers()
    workers.charge.returns("x")
    with engine_of(workers, subscription) as engine:
        assert engine.start(subscription, customer="Ada", amount=1).result() == 12
    workers = ScriptedWorkers()
    workers.charge.fails_terminally("no money")
    workers.close_account.returns()
    with engine_of(workers, subscription) as engine:
        assert "could not be charged" in failing(engine, engine.start(subscription, customer="Ada", amount=1))
    (given,) = workers.close_account.inputs
    assert given["customer"] == "Ada"
    assert "no money" in given["why"]


def test_a_trip_hands_on_what_each_language_has_found() -> None:
    """Nights, the price, the booking, the text; and no step may be left out."""
    trip = WorkflowDef.from_json((EXAMPLES / "polyglot" / "trip.json").read_text(encoding="utf-8"))
    workers = ScriptedWorkers()
    workers.quote.returns({"price": 70})
    workers.book.returns({"booking": "B7"})
    workers.receipt.returns({"text": "70 for B7"})
    with engine_of(workers) as engine:
        assert engine.start(trip, {"nights": 2}).result() == {"text": "70 for B7"}
    assert [one.input for one in workers.calls] == [{"nights": 2}, {"price": 70}, {"booking": "B7"}]
    for name in ("quote", "book", "receipt"):
        workers = ScriptedWorkers()
        for one in ("quote", "book", "receipt"):
            workers[one].returns()
        workers[name].forget().fails_terminally("broken")
        with engine_of(workers) as engine, pytest.raises(WorkflowFailed):
            engine.start(trip, {"nights": 2}).result()
