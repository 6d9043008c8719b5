"""`_repr_html_`: what a notebook shows; and pictures as SVG files."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from conductorlite import Engine, TaskDef, VirtualClock, WorkflowDef, flow, task
from conductorlite.flows import wait, when
from conductorlite.pages.graph import picture

HOSTILE = "<script>alert(1)</script>"


@task
def check(amount: int) -> bool:
    """Whether it is large."""
    return amount > 3


@task(retry=0)
def ask(amount: int) -> None:
    """Fails."""
    raise ValueError(HOSTILE)


@flow
def order(amount: int) -> None:
    """Ask for what is large."""
    large = check(amount)
    with when(large):
        ask(amount)
    wait("1 day")


@pytest.fixture
def engine() -> Any:
    """With two executions: one waits, one has failed."""
    with Engine(clock=VirtualClock(0), workers=[order]) as engine:
        engine.start(order.options(workflow_id="small"), amount=1)
        engine.start(order.options(workflow_id="large"), amount=9)
        engine.settle()
        yield engine


def test_a_picture_is_a_file_of_its_own() -> None:
    """XML that loads nothing, the same each time, with each step; its style is for itself."""
    text = picture(order.definition)
    root = ET.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "href" not in text
    assert text == picture(WorkflowDef.from_json(order.definition.to_json()))
    for step in ("check", "ask", "wait"):
        assert f">{step}<" in text
    style = next(root.iter("{http://www.w3.org/2000/svg}style")).text or ""
    selectors = [line.partition("{")[0].strip() for line in style.splitlines() if "{" in line and not line.startswith("@media")]
    assert [one for one in selectors if one and not one.startswith("svg.conductorlite")] == []


def test_everything_has_its_picture_or_table(engine: Engine) -> None:
    """Definitions and flows, executions, their handles, engines, searches."""
    assert order.definition._repr_html_() == order._repr_html_() == picture(order.definition)
    run = engine.run("large")
    shown = run._repr_html_()
    assert shown is not None
    assert "FAILED" in shown
    assert "<svg" in shown
    assert "alert(1)" in shown
    assert "<script" not in shown
    assert run.workflow._repr_html_() == shown
    for table in (engine._repr_html_(), engine.search("workflowType = 'order'")._repr_html_()):
        assert table is not None
        assert table.count("<tr>") == 3
        assert "<script" not in table


def test_what_has_no_picture_is_text(engine: Engine) -> None:
    """A task definition, an empty search."""
    assert TaskDef(name="x")._repr_html_() is None
    assert "0 found" in str(engine.search("workflowType = 'none'")._repr_html_())


def test_progress_reasons_tasks_and_lists_are_tables(engine: Engine) -> None:
    """How far it is, why it ended, each attempt, and the lists that verbs give, which are lists all the same."""
    run = engine.run("large")
    for shown, text in (
        (run.progress(), "<progress"),
        (run.explain(), "<li>"),
        (run.tasks, "<td>"),
        (run.tasks[0], "<td>"),
        (engine.executions(), "<td>large</td>"),
    ):
        html = shown._repr_html_()
        assert html is not None
        assert text in html
        assert "<script" not in html
    assert run.tasks == list(run.workflow.tasks)
    assert isinstance(engine.executions(), list)
    assert engine.executions("nobody")._repr_html_() is None
