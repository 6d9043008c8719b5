"""SWITCH: takes the one case its expression selects.

Source of the rule: Conductor's `SwitchTaskMapper`: the result is compared as text; a missing value is the text `null`; a case
that is listed but empty selects nothing; the default is for keys that are absent. A failing expression fails the task, which
is never retried by itself.
"""

from __future__ import annotations

from conductorlite.draft import Draft
from conductorlite.errors import ExpressionFailed
from conductorlite.executions import Task, TaskStatus, printed_ref
from conductorlite.expressions import to_text
from conductorlite.operators.document import rendered
from conductorlite.plan import Node

__all__ = ["chosen_head", "schedule_switch"]


def schedule_switch(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Evaluate, create the row, and put the head of the selected case on the work list."""
    values = rendered(draft, node, iterations)
    try:
        if node.condition is None:
            raise ExpressionFailed("the SWITCH has no expression")
        task_id = draft.task_id(printed_ref(node.ref, iterations), 0 if previous is None else previous.attempt + 1)
        case = to_text(node.condition.evaluate(values, now=draft.now, seed=task_id))
    except ExpressionFailed as error:
        task = draft.create(
            node,
            iterations,
            TaskStatus.FAILED,
            previous=previous,
            input=draft.payload(values),
            started_at=draft.now,
            ended_at=draft.now,
            reason=f"SWITCH expression {node.task.expression!r} failed: {error}",
        )
        draft.queue.append(("advance", task.ref))
        return
    head = _head(node, case)
    task = draft.create(
        node,
        iterations,
        TaskStatus.COMPLETED,
        previous=previous,
        input=draft.payload({**values, "case": case} | ({"hasChildren": "true"} if head else {})),
        output=draft.payload({"evaluationResult": [case], "selectedCase": case}),
        started_at=draft.now,
        ended_at=draft.now,
    )
    draft.queue.append(("advance", task.ref))
    if head is not None:
        draft.follow(task, head, iterations)


def _head(node: Node, case: str) -> str | None:
    return node.cases.get(case, node.default_case)


def chosen_head(draft: Draft, task: Task) -> str | None:
    """First node of the case that a finished SWITCH took; None when it took none."""
    case = draft.value(task.output).get("selectedCase")
    return None if case is None else _head(draft.node(task), case)
