"""Priorities, 0 to 99: the higher goes first, in families too; among equals the longest due."""

from __future__ import annotations

from typing import Any

import pytest
from engine_kit import Bench, flow, simple

from conductorlite import SubWorkflowParams, WorkflowTask
from conductorlite.errors import InvalidInput


def taken(bench: Bench) -> list[str]:
    """Executions in the order in which their tasks `a` are handed out."""
    found: list[str] = []
    while task := bench.poll("a"):
        found.append(task.workflow_id)
    return found


def start(bench: Bench, name: str, priority: int = 0, **options: Any) -> None:
    """Start an execution of one task `a`."""
    bench.start(flow(simple("a")), workflow_id=name, priority=priority, **options)


@pytest.mark.trap("core-39")
def test_the_higher_goes_first(bench: Bench) -> None:
    """Tasks are handed out by priority, whatever came first."""
    for name, priority in (("low", 0), ("top", 99), ("mid", 50), ("one", 1)):
        start(bench, name, priority)
    assert taken(bench) == ["top", "mid", "one", "low"]


@pytest.mark.trap("core-39")
def test_among_equals_the_longest_due(bench: Bench) -> None:
    """Of one priority the task due first goes first, not the execution started first; then by id."""
    start(bench, "delayed", 7, delay="3s")
    bench.at(1)
    start(bench, "z", 7)
    start(bench, "y", 7)
    bench.at(2)
    start(bench, "a", 7)
    bench.at(4)
    start(bench, "last", 7)
    assert taken(bench) == ["y", "z", "a", "delayed", "last"]


def test_what_is_not_due_does_not_stand_in_the_way(bench: Bench) -> None:
    """A task of a high priority that is delayed is handed out when it is due; until then the lower ones go."""
    start(bench, "high", 99, delay="5s")
    start(bench, "low")
    assert taken(bench) == ["low"]
    start(bench, "low2")
    bench.at(5)
    assert taken(bench) == ["high", "low2"]


def test_a_retry_keeps_its_priority(bench: Bench) -> None:
    """The next attempt is offered with the priority of its execution."""
    failing = flow(simple("a", {"retry_count": 1, "retry_delay_s": 1}))
    bench.start(failing, workflow_id="high", priority=9)
    bench.do("a", "FAILED")
    start(bench, "low")
    bench.at(1)
    assert taken(bench) == ["high", "low"]


def test_children_have_their_parents_priority_or_their_own(bench: Bench) -> None:
    """A child goes with its parent's priority unless its subWorkflowParam gives one."""

    def parent(name: str, priority: int, own: int | None = None) -> str:
        definition = flow(simple("a"), name="inner")
        inner = SubWorkflowParams(name="inner", workflow_definition=definition, priority=own)
        task = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=inner)
        bench.start(flow(task, name="outer"), workflow_id=name, priority=priority)
        bench.engine.settle()
        return bench.engine.get(name).task("s").sub_workflow_id or ""

    lowered = parent("p1", 90, own=1)
    inherited = parent("p2", 50)
    raised = parent("p3", 0, own=99)
    start(bench, "alone", 20)
    assert taken(bench) == [raised, inherited, "alone", lowered]
    assert [bench.engine.get(child).priority for child in (raised, inherited, lowered)] == [99, 50, 1]


@pytest.mark.parametrize("priority", [-1, 100])
def test_out_of_range(bench: Bench, priority: int) -> None:
    """A priority below 0 or above 99 is refused and nothing is started."""
    with pytest.raises(InvalidInput, match=f"priority {priority} is not a whole number between 0 and 99"):
        start(bench, "w", priority)
    assert list(bench.engine.admin.workflow_ids()) == []
