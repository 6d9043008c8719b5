"""The page of a flow with a `try` draws the steps in it in their place, also while they run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from page_kit import read

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import attempt, human


@task(retry=0)
def charge(amount: int) -> int:
    """Fails for much."""
    if amount > 5:
        raise ValueError("too much")
    return amount


@task
def note(why: str) -> str:
    """Keeps a word."""
    return why


@flow
def pay(amount: int) -> str:
    """Tries two steps, and asks a person in between."""
    try:
        charge.options(name="first")(amount)
        human("approval", bool)
        charge.options(name="second")(amount)
    except ValueError:
        return note("failed")
    return note("paid")


@flow
def twice(amount: int) -> None:
    """An attempt in an attempt."""
    with attempt(name="outside"), attempt(name="inside"):
        charge.options(name="deep")(amount)
        human("approval", bool)


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine on each store."""
    store = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(store, workers=[pay, twice], clock=VirtualClock(0)) as made:
        yield made


def places(engine: Engine, workflow_id: str) -> dict[str, str]:
    """The steps of the graph with what each of them says."""
    page = read(engine.admin.page(workflow_id))
    found = [one.text for one in page.by_id("graph").all("title")]
    return {text.split(" · ")[0]: text.rpartition(" · ")[2] for text in found}


def test_while_it_runs(engine: Engine) -> None:
    """What is done in the `try`, what waits, and what comes."""
    run = engine.start(pay, amount=1)
    engine.settle()
    shown = places(engine, run.workflow_id)
    assert shown["first"].startswith("completed")
    assert shown["approval"].startswith("in progress")
    assert shown["second"] == "not run"
    run.signal({"result": True}, task="approval")
    engine.run_until_idle()
    assert places(engine, run.workflow_id)["second"].startswith("completed")
    assert run.result() == "paid"


def test_when_it_has_failed(engine: Engine) -> None:
    """The step that failed is the one that shows it."""
    run = engine.start(pay, amount=9)
    engine.run_until_idle()
    shown = places(engine, run.workflow_id)
    assert shown["first"].startswith("failed")
    assert run.result() == "failed"


def test_one_in_another(engine: Engine) -> None:
    """However deep."""
    run = engine.start(twice, amount=1)
    engine.settle()
    shown = places(engine, run.workflow_id)
    assert shown["deep"].startswith("completed")
    assert shown["approval"].startswith("in progress")


def test_a_definition_by_itself(engine: Engine) -> None:
    """The picture of a flow has the steps too, of which none has run."""
    html = pay._repr_html_()
    assert html is not None
    assert ">second<" in html
