"""Histories as text."""

from __future__ import annotations

import pytest
from kit import flow, task

from conductorlite import Engine, WorkflowTask
from conductorlite.errors import ExecutionNotFound, InvalidInput
from conductorlite.testing import ScriptedWorkers, assert_history, render_history, timeline

LOOP = WorkflowTask(
    name="loop",
    task_reference_name="loop",
    type="DO_WHILE",
    loop_condition="$.loop['iteration'] < 2",
    loop_over=[WorkflowTask(name="noop", task_reference_name="step", type="NOOP")],
)


def test_a_timeline(engine: Engine, workers: ScriptedWorkers) -> None:
    """Seconds since the start, reference, attempt from 1, status, reason; rounds of loops; payloads if asked for."""
    workers.charge.takes("2.5s").fails(1, reason="503\n  try later").then.returns({"id": 1})
    run = engine.start(flow(task("charge"), LOOP), {"order": 7})
    run.result()
    lines = timeline(engine, run.workflow_id, payloads=True).splitlines()
    assert lines[0] == '+0s        workflow RUNNING {"order":7}'
    assert lines[3] == "+2.5s      charge #1 FAILED: 503 try later {}"
    assert '+10s       charge #2 COMPLETED {"id":1}' in lines
    assert "+10s       loop round 2" in lines
    assert "503" not in timeline(engine, run.workflow_id, reasons=False)
    assert render_history([]) == ""


def test_an_alert(engine: Engine, workers: ScriptedWorkers) -> None:
    """A deadline that only alerts is a line of its own."""
    definition = flow(task("charge"), timeout_ms=5_000)
    workers.charge.takes("7s").returns()
    run = engine.start(definition)
    run.result()
    assert "+5s workflow ALERT workflow_timeout:" in " ".join(timeline(engine, run.workflow_id).split())


def test_the_expected_text_may_be_indented(engine: Engine) -> None:
    """Blank lines and spaces do not matter; a run, an id, or an engine with one execution will do."""
    run = engine.start(flow(WorkflowTask(name="noop", task_reference_name="n", type="NOOP")))
    expected = """
        +0s workflow RUNNING
        +0s     n #1 COMPLETED

        +0s workflow COMPLETED
    """
    assert_history(run, expected)
    assert_history(engine, expected)
    assert_history(engine, expected, "wf-1")


def test_a_difference_is_shown(engine: Engine) -> None:
    """What was expected, what was found, and the whole history to copy."""
    run = engine.start(flow(WorkflowTask(name="noop", task_reference_name="n", type="NOOP")))
    with pytest.raises(AssertionError) as caught:
        assert_history(run, "+0s workflow RUNNING\n+0s n #1 FAILED\n+0s workflow COMPLETED")
    text = str(caught.value)
    assert "-+0s n #1 FAILED" in text
    assert "++0s n #1 COMPLETED" in text
    assert "+0s        n #1 COMPLETED" in text.partition("the whole history:")[2]


def test_which_execution(engine: Engine) -> None:
    """With none or several executions it must be said which is meant."""
    with pytest.raises(InvalidInput, match="holds 0 executions"):
        assert_history(engine, "")
    with pytest.raises(ExecutionNotFound):
        timeline(engine, "nobody")
