"""TERMINATE: ends the workflow with the status, reason and output it names, whatever else is running.

The row ends COMPLETED; ending the workflow is what follows from it. Source of the rule: Conductor's `Terminate`.
"""

from __future__ import annotations

from typing import Any, Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node

__all__ = ["schedule_terminate"]

_STATUSES: Final = (WorkflowStatus.COMPLETED, WorkflowStatus.FAILED, WorkflowStatus.TERMINATED)


def schedule_terminate(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the row, already over."""
    task_id = draft.task_id(printed_ref(node.ref, iterations), 0 if previous is None else previous.attempt + 1)
    values = rendered(draft, node, iterations, task_id)
    status = values.get("terminationStatus")
    problem = None
    if status not in _STATUSES:
        problem = f"given termination status is not valid: {status!r} is none of {', '.join(_STATUSES)}"
    draft.create_ended(
        node,
        iterations,
        TaskStatus.FAILED if problem else TaskStatus.COMPLETED,
        previous=previous,
        input=draft.payload(values),
        output=draft.payload({} if problem else _output(values.get("workflowOutput"))),
        reason=problem,
    )


def _output(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, dict) else {"output": value}
