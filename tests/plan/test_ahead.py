"""What a plan knows of the tasks that follow, by reference."""

from __future__ import annotations

import pytest

from conductorlite import WorkflowDef, WorkflowTask
from conductorlite.plan.compile import compile_plan


def test_it_answers_for_every_reference() -> None:
    """What follows each node, found once; asked for something else it has nothing."""
    tasks = [WorkflowTask(name=ref, task_reference_name=ref, input_parameters={"x": "${a.output.x}"}) for ref in "abc"]
    plan = compile_plan(WorkflowDef(name="w", tasks=tasks))
    assert [plan.ahead[ref].members for ref in "abc"] == [{("a", "output")}, {("a", "output")}, frozenset()]
    assert plan.ahead["a"] is plan.ahead["a"]
    with pytest.raises(KeyError):
        plan.ahead["d"]
