"""What the page of a store says first: that nothing drives it, the executions, and who waits for a person."""

from pathlib import Path
from typing import Any

import pytest
from page_kit import read

from conductorlite import Engine, VirtualClock, flow, task
from conductorlite.flows import human, parallel, wait


@task
def greet(name: str) -> str:
    """The one task."""
    return name


@flow
def ask(name: str) -> Any:
    """Asks a person."""
    greet(name)
    return human("approval")


@flow
def rest() -> None:
    """Waits for a day."""
    wait("1d")


@flow
def wide(name: str) -> None:
    """Three steps side by side."""
    parallel(greet.options(name="a")(name), greet.options(name="b")(name), greet.options(name="c")(name))


@pytest.fixture(params=["memory", "sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store with one that waits for a person, and one that waits for a day."""
    store = tmp_path / "runs.db" if request.param == "sqlite" else None
    with Engine(store, workers=[ask, rest], clock=VirtualClock(0)) as made:
        made.start(ask.options(workflow_id="a"), name="x")
        made.start(rest.options(workflow_id="r"))
        made.settle()
        yield made


def test_who_waits_for_a_person(engine: Engine) -> None:
    """Executions come first, each with the step that waits for a person; then those steps."""
    engine.advance("1h")
    page = read(str(engine.admin.page()))
    assert [one.attributes["id"] for one in page.all("section")][:2] == ["executions", "people"]
    (row,) = page.by_id("people").all("tr")[1:]
    assert [cell.text for cell in (*row.all("th"), *row.all("td"))] == ["a", "ask v1", "approval", "1 h"]
    assert "waits for a person: approval" in page.by_id("executions").text
    assert page.by_id("executions").text.count("waits for a person") == 1


def test_when_no_process_drives(engine: Engine) -> None:
    """A day later nobody has taken the turn: the page says so, and what to do."""
    assert "Nothing drives" not in engine.admin.page()
    clock = engine.clock
    assert isinstance(clock, VirtualClock)
    clock.move_to(86_400_000 * 2)
    said = read(str(engine.admin.page())).by_id("undriven").text
    assert "1 turn is due, the first for 1 day" in said
    assert "run_forever" in said
    engine.settle()
    assert "Nothing drives" not in engine.admin.page()


def test_a_wide_graph_says_that_it_scrolls(engine: Engine) -> None:
    """A narrow one says nothing."""
    engine.start(wide.options(workflow_id="w"), name="x")
    engine.settle()
    text = "it scrolls sideways"
    assert (text in engine.admin.page("w"), text in engine.admin.page("a")) == (True, False)
