"""SWITCH and DECISION: take the one case their expression selects.

Source of the rule: Conductor's `SwitchTaskMapper`: the result is compared as text; a missing value is the text `null`; a case
that is listed but empty selects nothing; the default is for keys that are absent. In the older DECISION (`DecisionTaskMapper`)
the default is for empty cases too. A failing expression fails the task, which is never retried by itself.
"""

from __future__ import annotations

from typing import Any, Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.language.values import to_text
from conductorlite.model.errors import ExpressionFailed
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["CHOOSES", "chosen_head", "schedule_decision", "schedule_switch"]

#: Types that take one of several cases.
CHOOSES: Final = frozenset({"SWITCH", "DECISION"})


def schedule_switch(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Evaluate, create the row, and put the head of the selected case on the work list."""
    values = rendered(draft, node, iterations)
    case = _case(draft, node, iterations, previous, values, node.task.expression)
    if case is not None:
        _take(draft, node, iterations, previous, case, values, {"evaluationResult": [case], "selectedCase": case})


def schedule_decision(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """The same for a DECISION, which keeps of its input nothing but the case."""
    values = rendered(draft, node, iterations)
    script = node.task.case_expression or node.task.case_value_param
    case = _case(draft, node, iterations, previous, values, script)
    if case is not None:
        _take(draft, node, iterations, previous, case, {}, {"caseOutput": [case]})


def _case(
    draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None, values: dict[str, Any], script: str | None
) -> str | None:
    """What the expression selects, as text; None when it failed, and the task with it."""
    try:
        if node.condition is None:
            raise ExpressionFailed(f"the {node.task.type} has no expression")
        task_id = draft.task_id(printed_ref(node.ref, iterations), 0 if previous is None else previous.attempt + 1)
        condition = node.condition
        return to_text(draft.evaluated(task_id, values, lambda: condition.evaluate(values, now=draft.now, seed=task_id)))
    except ExpressionFailed as error:
        draft.create_ended(
            node,
            iterations,
            TaskStatus.FAILED,
            previous=previous,
            input=draft.payload(values),
            reason=f"{node.task.type} expression {script!r} failed: {error}",
        )
        return None


def _take(
    draft: Draft,
    node: Node,
    iterations: tuple[int, ...],
    previous: Task | None,
    case: str,
    values: dict[str, Any],
    output: dict[str, Any],
) -> None:
    head = _head(node, case)
    task = draft.create_ended(
        node,
        iterations,
        TaskStatus.COMPLETED,
        previous=previous,
        input=draft.payload({**values, "case": case} | ({"hasChildren": "true"} if head else {})),
        output=draft.payload(output),
    )
    if head is not None and task.status.successful:
        draft.follow(task, head, iterations)


def _head(node: Node, case: str) -> str | None:
    if node.task.type == "DECISION":
        return node.cases.get(case) or node.default_case
    return node.cases.get(case, node.default_case)


def chosen_head(draft: Draft, task: Task) -> str | None:
    """First node of the case that a finished SWITCH or DECISION took; None when it took none, or is neither."""
    node = draft.node(task)
    if node.task.type not in CHOOSES:
        return None
    output = draft.value(task.output)
    case = output.get("selectedCase") if node.task.type == "SWITCH" else next(iter(output.get("caseOutput", ())), None)
    return None if case is None else _head(node, case)
