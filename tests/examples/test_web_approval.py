"""The approval application, through Starlette's test client; skipped where Starlette or httpx is not installed."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scripts import load

from conductorlite import Engine, VirtualClock, WorkflowStatus
from conductorlite.testing import ScriptedWorkers

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Starlettes that would rather have another httpx
        from starlette.testclient import TestClient
except (ImportError, RuntimeError):  # RuntimeError is what Starlette raises without httpx
    pytest.skip("Starlette's test client is not installed", allow_module_level=True)

APP = load("web_approval/app.py")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The application, started and stopped."""
    with TestClient(APP.create_app(tmp_path / "expenses.db")) as client:
        yield client
        check = client.app.state.engine.admin.check
        assert client.portal is not None
        assert client.portal.call(check) == []


def _hand_in(client: TestClient, who: str = "ann") -> str:
    answer = client.post("/expenses", json={"who": who, "amount": 12})
    assert answer.status_code == 201
    return answer.json()["id"]


def _end_of(client: TestClient, expense: str) -> dict[str, Any]:
    return client.get(f"/expenses/{expense}", params={"wait": 20}).json()


def test_an_approved_expense_is_paid(client: TestClient) -> None:
    """An expense waits until it is approved, and is then paid."""
    expense = _hand_in(client)
    assert client.get(f"/expenses/{expense}").json()["state"] == "waiting"
    assert client.get("/expenses").json() == {"pending": [expense]}
    assert client.post(f"/expenses/{expense}/decision", json={"approved": True}).status_code == 200
    over = _end_of(client, expense)
    assert (over["state"], over["output"]["paid"]) == ("completed", "ann gets 12.00")


def test_a_refused_expense_is_turned_down(client: TestClient) -> None:
    """Whoever is refused is told why."""
    expense = _hand_in(client)
    client.post(f"/expenses/{expense}/decision", json={"approved": False, "why": "no receipt"})
    assert _end_of(client, expense)["output"] == {"paid": None, "turnedDown": "ann gets nothing: no receipt"}


def test_a_decision_is_taken_once(client: TestClient) -> None:
    """The second decision is a conflict and changes nothing; one about nothing is not found."""
    expense = _hand_in(client)
    client.post(f"/expenses/{expense}/decision", json={"approved": True})
    assert client.post(f"/expenses/{expense}/decision", json={"approved": False}).status_code == 409
    assert _end_of(client, expense)["output"]["turnedDown"] is None
    assert client.post("/expenses/none/decision", json={"approved": True}).status_code == 404
    assert client.get("/expenses/none").status_code == 404
    assert client.get("/expenses/none", params={"wait": 1}).status_code == 404


def test_what_is_not_an_expense_is_refused(client: TestClient) -> None:
    """A POST without a name or an amount starts nothing."""
    assert client.post("/expenses", json={"who": "ann"}).status_code == 400
    assert client.get("/expenses").json() == {"pending": []}


def test_an_expense_outlives_the_application(tmp_path: Path) -> None:
    """What waits when the application stops is decided after its next start."""
    store = tmp_path / "expenses.db"
    with TestClient(APP.create_app(store)) as client:
        expense = _hand_in(client)
    with TestClient(APP.create_app(store)) as client:
        assert client.get(f"/expenses/{expense}").json()["state"] == "waiting"
        client.post(f"/expenses/{expense}/decision", json={"approved": True})
        assert _end_of(client, expense)["state"] == "completed"


def test_many_at_once(client: TestClient) -> None:
    """Forty expenses, handed in and decided from eight threads, all come to their end."""

    def one(number: int) -> str:
        expense = _hand_in(client, f"p{number}")
        client.post(f"/expenses/{expense}/decision", json={"approved": number % 2 == 0})
        return _end_of(client, expense)["output"]["paid" if number % 2 == 0 else "turnedDown"]

    with ThreadPoolExecutor(8) as threads:
        told = list(threads.map(one, range(40)))
    assert [text.split(" ")[0] for text in told] == [f"p{number}" for number in range(40)]


@pytest.mark.slow
def test_a_hundred_requests_that_await_five_steps(tmp_path: Path) -> None:
    """100 concurrent requests each start and await a five-step workflow on SQLite; none meets a busy store."""
    import httpx

    async def ask() -> list[httpx.Response]:
        app = APP.create_app(tmp_path / "quotes.db")
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://example", timeout=60) as client,
        ):
            requests = (client.post("/quotes", json={"amount": 100 + number}) for number in range(100))
            answers = await asyncio.gather(*requests)
            assert await app.state.engine.admin.check() == []
            return answers

    answers = asyncio.run(ask())
    assert [answer.status_code for answer in answers] == [200] * 100
    assert answers[0].json() == {"price": 116.47}
    assert len({answer.json()["price"] for answer in answers}) == 100


@pytest.fixture
def workers() -> ScriptedWorkers:
    """The expense's own workers."""
    return ScriptedWorkers().include(APP.expense)


STEPS = [("pay_out", {"approved": True}), ("turn_down", {"approved": False, "why": "no"})]


@pytest.mark.parametrize(("step", "decision"), STEPS)
def test_a_step_that_stays_broken_fails_the_expense(
    engine: Engine, workers: ScriptedWorkers, step: str, decision: dict[str, object]
) -> None:
    """After six attempts, a second and more apart."""
    workers[step].fails()
    run = engine.start(APP.expense, who="Ada", amount=1)
    engine.settle()
    run.signal(decision)
    engine.run_until_idle()
    first, *others = (call.at for call in workers[step].calls)
    assert [at - first for at in others] == [1_000, 2_000, 3_000, 4_000, 5_000]
    assert run.status is WorkflowStatus.FAILED


@pytest.mark.parametrize(("step", "decision"), STEPS)
def test_a_worker_may_be_silent_for_ten_seconds(
    engine: Engine, workers: ScriptedWorkers, step: str, decision: dict[str, object]
) -> None:
    """What is reported after nine counts."""
    workers[step].reports_late("9s", {"message": "done"})
    run = engine.start(APP.expense, who="Ada", amount=1)
    engine.settle()
    run.signal(decision)
    assert "done" in run.result().values()
    assert len(workers[step].calls) == 1


@pytest.mark.parametrize("step", ["fees", "insurance", "discount", "tax", "rounding"])
def test_there_is_no_price_without_one_of_its_steps(step: str) -> None:
    """None of the five may be left out."""
    workers = ScriptedWorkers()
    workers.quote_step.returns({"total": 7}).when(ref=step).fails_terminally("no rates")
    with Engine(workers=workers, clock=VirtualClock(0)) as engine:
        run = engine.start(APP.quote, amount=7.0)
        engine.run_until_idle()
        assert run.status == "FAILED"
