"""The page of a flow with a `try` draws the steps in it in their place, also while they run."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_kit import read

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.engine.pages import Pages
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
    with Engine(store, workers=[pay, twice, many], clock=VirtualClock(0)) as made:
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


def timeline(engine: Engine, workflow_id: str) -> list[str]:
    """The attempts of the page in their order, indented as they are there."""
    page = read(engine.admin.page(workflow_id))
    rows = page.by_id("attempts").all("details", "attempt")
    depths = [re.search(r"margin-left:(\d)rem", one.attributes.get("style", "")) for one in rows]
    refs = [one.all("span", "ref")[0].text for one in rows]
    return [f"{'.' * int(depth[1]) if depth else ''}{ref}" for depth, ref in zip(depths, refs, strict=True)]


def test_the_timeline_has_the_steps_in_place(engine: Engine) -> None:
    """Behind the task that stands for the `try`, while it runs and when it has ended; a place of the picture leads there."""
    run = engine.start(twice, amount=1)
    engine.settle()
    wanted = ["outside", ".inside", "..deep", "..approval"]
    assert timeline(engine, run.workflow_id) == wanted
    page = read(engine.admin.page(run.workflow_id))
    [deep] = [one for one in page.by_id("graph").all("a") if one.text.startswith("deep")]
    assert page.by_id(deep.attributes["href"][1:]).all("span", "ref")[0].text == "deep"
    run.signal({"result": True}, task="approval")
    engine.run_until_idle()
    assert timeline(engine, run.workflow_id)[:4] == wanted


def test_a_failure_leads_to_the_step_that_failed(engine: Engine) -> None:
    """The attempt in the `try` has the line of the program and the traceback, as any other."""
    run = engine.start(pay, amount=9)
    engine.run_until_idle()
    page = read(engine.admin.page(run.workflow_id))
    [row] = [one for one in page.by_id("attempts").all("details", "attempt") if one.all("span", "ref")[0].text == "first"]
    assert "test_attempts_in_place.py:" in row.text
    assert "ValueError: too much" in row.text


@flow
def many(n: int) -> None:
    """A `try` of two steps in a loop."""
    for number in range(n):
        try:
            charge(number)
            note("paid")
        except ValueError:
            note("failed")


def test_a_loop_of_attempts(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round has its steps; of too many, those of the newest."""
    run = engine.start(many, n=8)
    engine.run_until_idle()
    assert [ref for ref in timeline(engine, run.workflow_id) if ref.startswith(".charge")] == [".charge"] * 8
    assert places(engine, run.workflow_id)["charge"].startswith("failed")
    monkeypatch.setattr("conductorlite.engine.pages._IN_PLACE", 5)
    shown = timeline(engine, run.workflow_id)
    assert [ref for ref in shown if ref.startswith(".")] == [".charge", ".note", ".charge", ".charge"]
    assert shown[shown.index(".charge") - 1] == "try__6"


def test_what_waits_in_a_try_is_ended_from_the_page(engine: Engine) -> None:
    """Its form is on the page of the flow, and goes to the execution of the `try`."""
    run = engine.start(twice, amount=1)
    engine.settle()
    page = Pages(engine.core.turns, engine.config, engine.core.queries, engine.core.control).execution(run.workflow_id, "/x/")
    [form] = [one for one in read(page.html()).by_id("actions").all("form") if one.attributes["action"].endswith("/signal")]
    [task_id] = [one.attributes["value"] for one in form.all("input") if one.attributes.get("name") == "task"]
    inner = form.attributes["action"].split("/")[2]
    assert inner != run.workflow_id
    engine.signal(inner, {"result": True}, task=task_id)
    engine.run_until_idle()
    assert run.status == "COMPLETED"
