"""Traps in what expressions read and what tasks share."""

from __future__ import annotations

import pytest
from engine_kit import Bench, flow, simple


@pytest.mark.trap("tasks-60")
@pytest.mark.parametrize("name", ["createTime", "startTime", "priority", "name", "taskToDomain"])
def test_what_cannot_be_read_of_the_workflow(bench: Bench, name: str) -> None:
    """As in Conductor these are null, though the execution has them."""
    task = simple("a", input_parameters={"got": f"${{workflow.{name}}}", "type": "${workflow.workflowType}"})
    bench.start(flow(task), priority=5, task_to_domain={"a": "NO_DOMAIN"})
    assert bench.task("a").input_data == {"got": None, "type": "flow"}


@pytest.mark.trap("tasks-68")
def test_keys_are_not_filled_in(bench: Bench) -> None:
    """Expressions are in values; and what a value turns out to be is no expression, even if it looks like one."""
    task = simple("a", input_parameters={"${workflow.input.k}": "${workflow.input.v}"})
    bench.start(flow(task), {"k": "key", "v": "${workflow.input.k}"})
    assert bench.task("a").input_data == {"${workflow.input.k}": "${workflow.input.k}"}


@pytest.mark.trap("tasks-69")
def test_what_a_worker_changes_is_its_own(bench: Bench) -> None:
    """The input that two tasks read from one place is a copy for each of them, and what was reported is a copy, too."""
    both = {"list": "${workflow.input.list}"}
    bench.start(flow(simple("a", input_parameters=both), simple("b", input_parameters=both)), {"list": [1]})
    task = bench.take("a")
    task.input_data["list"].append(2)
    reported = {"list": [3]}
    bench.report(task, output=reported)
    reported["list"].append(4)
    assert bench.task("a").output_data == {"list": [3]}
    assert bench.take("b").input_data == {"list": [1]}
    assert bench.workflow.input_data == {"list": [1]}
