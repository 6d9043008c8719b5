"""What a plan knows of the tasks that follow: a mapping over its references."""

from __future__ import annotations

import pytest

from conductorlite import WorkflowDef, WorkflowTask
from conductorlite.plan.compile import compile_plan


def test_it_is_a_mapping_of_all_references() -> None:
    """As long as the plan has nodes, in their order; asked for something else it has nothing."""
    tasks = [WorkflowTask(name=ref, task_reference_name=ref, input_parameters={"x": "${a.output.x}"}) for ref in "abc"]
    plan = compile_plan(WorkflowDef(name="w", tasks=tasks))
    assert (len(plan.ahead), list(plan.ahead)) == (3, list("abc"))
    assert "d" not in plan.ahead
    with pytest.raises(KeyError):
        plan.ahead["d"]
