"""SET_VARIABLE: puts its input into the workflow's variables.

Top-level keys replace what was there; the rest stays. Source of the rule: Conductor's `SetVariable`, with its limit: variables
that would grow past it fail the task for good and stay as they were.
"""

from __future__ import annotations

from typing import Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.model.executions import Task
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["VARIABLES_LIMIT", "schedule_set_variable"]

#: Bytes of JSON that all variables of a workflow may have together.
VARIABLES_LIMIT: Final = 256 * 1024


def schedule_set_variable(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the row, already over, and change the variables."""
    values = rendered(draft, node, iterations)
    variables = draft.payload({**draft.value(draft.field("variables")), **values})
    size = len((variables.text or "").encode())
    problem = None
    if size > VARIABLES_LIMIT:
        told = f"The variables payload size: {size} of workflow: {draft.workflow.workflow_id}"
        problem = f"{told} is greater than the permissible limit: {VARIABLES_LIMIT // 1024} kilobytes"
    draft.create_ended(
        node,
        iterations,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR if problem else TaskStatus.COMPLETED,
        previous=previous,
        input=draft.payload(values),
        reason=problem,
    )
    if problem is None:
        draft.change(variables=variables)
