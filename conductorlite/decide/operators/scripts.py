"""The operators that evaluate a script on their own input: SWITCH, DECISION, INLINE, LAMBDA, JSON_JQ_TRANSFORM.

A script is asked through the changeset, which asks the reader: what it answers is decided once. What it may know of clock and
chance
is the instant of the turn and the task's id.

SWITCH, DECISION: the result is compared as text; a missing value is the text `null`. A case that is listed but empty selects
nothing, the default is for keys that are absent; in a DECISION the default is for empty cases too. An expression that fails fails
the task, which is never retried by itself. Source of the rules: Conductor's `SwitchTaskMapper`, `DecisionTaskMapper`.

INLINE, SWITCH: an expression of Python that stands beside its JavaScript (`language.expressions`) is answered here and now, by its
values alone. What it raises is the reason, and its type is recorded as that of a worker's exception is.

INLINE, LAMBDA: the answer is kept as `result`. The script is part of the input, so `${…}` in it is filled in before; the rest of
the input is what it reads. An INLINE whose script fails has failed for good, unless it ran out of time; a LAMBDA, whose script is
the body of a function, may always be retried. Source of the rules: Conductor's `Inline.execute`, `Lambda.execute`.

JSON_JQ_TRANSFORM: the first result is `result` (null when there is none), all of them are `resultList`. A program that fails, also
at being compiled, fails the task, which may be retried. Source of the rule: Conductor's `JsonJqTransform.start`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators.document import rendered
from conductorlite.language.conditions import compile_condition, compile_function
from conductorlite.language.jq import compile_jq
from conductorlite.language.processes import ScriptTimedOut
from conductorlite.language.values import Json, to_text
from conductorlite.model.canonical import Payload
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, InvalidInput, MissingExtra, raised_by
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node
from conductorlite.plan.tree import CHOOSES

__all__ = [
    "chosen_head",
    "schedule_decision",
    "schedule_inline",
    "schedule_lambda",
    "schedule_switch",
    "schedule_transform",
    "script_of",
    "settle_at_once",
]

#: Scripts by text; a text may differ from one task to the next, so only the latest are kept.
_KEPT: Final = 512
_compiled: Final = lru_cache(maxsize=_KEPT)(compile_condition)
_function: Final = lru_cache(maxsize=_KEPT)(compile_function)
_program: Final = lru_cache(maxsize=_KEPT)(compile_jq)


def schedule_inline(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Evaluate, and create the row, already over."""

    condition = node.condition

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        return {"result": _evaluate(values, changeset.moment.now, task_id)}

    def ask(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        return {"result": changeset.documents.answer(condition, values, task_id)} if condition is not None else {}

    if condition is not None:
        settle_at_once(changeset, node, iterations, previous, ask, lambda error: False, scripted=False)
    else:
        settle_at_once(changeset, node, iterations, previous, evaluate, lambda error: isinstance(error, ScriptTimedOut))


def schedule_lambda(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Call the function whose body the script is, and create the row, already over."""

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        return {"result": _call(values, changeset.moment.now, task_id)}

    settle_at_once(changeset, node, iterations, previous, evaluate, lambda error: True)


def settle_at_once(
    changeset: Changeset,
    node: Node,
    iterations: tuple[int, ...],
    previous: Task | None,
    evaluate: Callable[[dict[str, Any], str], dict[str, Json]],
    retriable: Callable[[Exception], bool],
    *,
    scripted: bool = True,
) -> None:
    """Create a row that is over already, with what `evaluate` makes of its input and id as output.

    An expression that fails fails the task, with its words as the reason and as `error`; `retriable` says whether for good. What a
    script answers is asked once and kept; without `scripted` nothing but the values decides what `evaluate` gives.
    """
    ref = printed_ref(node.ref, iterations)
    task_id = changeset.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(changeset, node, iterations, task_id)
    reason: str | None = None
    raised: dict[str, tuple[str, ...]] = {}
    status = TaskStatus.COMPLETED
    try:
        found = (
            changeset.documents.evaluated(task_id, values, lambda: evaluate(values, task_id))
            if scripted
            else evaluate(values, task_id)
        )
        output = changeset.documents.payload(found)
    except (ExpressionFailed, InvalidExpression, InvalidInput, MissingExtra) as error:
        raised = raised_by(error)
        status = TaskStatus.FAILED if retriable(error) else TaskStatus.FAILED_WITH_TERMINAL_ERROR
        reason = str(error)
        output = changeset.documents.payload({"error": reason})
    changeset.create_ended(
        node,
        iterations,
        status,
        previous=previous,
        input=changeset.documents.payload(values),
        output=output,
        reason=reason,
        **raised,
    )


def _evaluate(values: dict[str, Any], now: int, task_id: str) -> Json:
    evaluator = values.get("evaluatorType")
    if evaluator is None:
        evaluator = "javascript"
    if not isinstance(evaluator, str):
        raise ExpressionFailed(f"evaluatorType is a {_kind(evaluator)}, not a text")
    if not evaluator.strip():
        raise ExpressionFailed("evaluatorType is empty")
    return _compiled(script_of(values, "expression"), evaluator).evaluate(values, now=now, seed=task_id)


def _call(values: dict[str, Any], now: int, task_id: str) -> Json:
    return _function(script_of(values, "scriptExpression")).evaluate(values, now=now, seed=task_id)


def script_of(values: dict[str, Any], name: str) -> str:
    """The text under a name of the input; raises ExpressionFailed when it is missing, no text, or blank."""
    text = values.get(name)
    if not isinstance(text, str):
        raise ExpressionFailed(f"{name} is missing" if text is None else f"{name} is a {_kind(text)}, not a text")
    if not text.strip():
        raise ExpressionFailed(f"{name} is empty")
    return text


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "map" if isinstance(value, dict) else "list" if isinstance(value, list) else "number"


def schedule_transform(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Run the program, and create the row, already over."""

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        results = _program(script_of(values, "queryExpression")).evaluate(values, now=changeset.moment.now, seed=task_id)
        return {"result": results[0] if results else None, "resultList": results}

    settle_at_once(changeset, node, iterations, previous, evaluate, lambda error: True)


#: Longest case of which what a SWITCH puts out is kept.
_SHORT: Final = 64


def _selection(case: str) -> dict[str, Any]:
    return {"evaluationResult": [case], "selectedCase": case}


@lru_cache(maxsize=_KEPT)
def _selected(case: str) -> Payload:
    return Payload.of(_selection(case))


def schedule_switch(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Evaluate, create the row, and put the head of the selected case on the work list."""
    values = rendered(changeset, node, iterations)
    case = _case(changeset, node, iterations, previous, values, node.task.expression)
    if case is not None:
        output = _selected(case) if len(case) <= _SHORT else changeset.documents.payload(_selection(case))
        _take(changeset, node, iterations, previous, case, values, output)


def schedule_decision(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Schedule a DECISION, which keeps of its input nothing but the case."""
    values = rendered(changeset, node, iterations)
    script = node.task.case_expression or node.task.case_value_param
    case = _case(changeset, node, iterations, previous, values, script)
    if case is not None:
        _take(changeset, node, iterations, previous, case, {}, changeset.documents.payload({"caseOutput": [case]}))


def _case(
    changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None, values: dict[str, Any], script: str | None
) -> str | None:
    """Return the text that the expression selects; None when it failed, and the task with it."""
    try:
        if node.condition is None:
            raise ExpressionFailed(f"the {node.task.type} has no expression")
        task_id = changeset.task_id(printed_ref(node.ref, iterations), 0 if previous is None else previous.attempt + 1)
        return to_text(changeset.documents.answer(node.condition, values, task_id))
    except ExpressionFailed as error:
        changeset.create_ended(
            node,
            iterations,
            TaskStatus.FAILED,
            previous=previous,
            input=changeset.documents.payload(values),
            reason=str(error) if error.error_types else f"{node.task.type} expression {script!r} failed: {error}",
            **raised_by(error),
        )
        return None


def _take(
    changeset: Changeset,
    node: Node,
    iterations: tuple[int, ...],
    previous: Task | None,
    case: str,
    values: dict[str, Any],
    output: Payload,
) -> None:
    head = _head(node, case)
    task = changeset.create_ended(
        node,
        iterations,
        TaskStatus.COMPLETED,
        previous=previous,
        input=changeset.documents.payload({**values, "case": case} | ({"hasChildren": "true"} if head else {})),
        output=output,
    )
    if head is not None and task.status.successful:
        changeset.follow(task, head, iterations)


def _head(node: Node, case: str) -> str | None:
    if node.task.type == "DECISION":
        return node.cases.get(case) or node.default_case
    return node.cases.get(case, node.default_case)


def chosen_head(changeset: Changeset, task: Task) -> str | None:
    """First node of the case that a finished SWITCH or DECISION took; None when it took none, or is neither."""
    node = changeset.rows.node(task)
    if node.task.type not in CHOOSES:
        return None
    output = changeset.documents.value(task.output)
    case = output.get("selectedCase") if node.task.type == "SWITCH" else next(iter(output.get("caseOutput", ())), None)
    return None if case is None else _head(node, case)
