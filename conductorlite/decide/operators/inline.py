"""INLINE and LAMBDA: evaluate a script on their own input and keep the answer as `result`.

Source of the rule: Conductor's `Inline.execute` and `Lambda.execute`. The script is part of the input, so `${…}` in it is
substituted before; the rest of the input is what it reads. An INLINE whose script fails has failed for good, unless it ran out
of time; a LAMBDA, whose script is the body of a function, may always be retried. The answer is decided once and kept: what the
script may know of clock and chance is the instant of the turn and the task's id.

JSON_JQ_TRANSFORM: a jq program over the task's own input, `queryExpression` included.

Source of the rule: Conductor's `JsonJqTransform.start`: the first result is `result` (null when there is none), all of them
are `resultList`. A program that fails, also at being compiled, fails the task, which may be retried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.language.conditions import Condition, compile_condition, compile_function
from conductorlite.language.jq import JqProgram, compile_jq
from conductorlite.language.processes import ScriptTimedOut
from conductorlite.language.values import Json
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, InvalidInput, MissingExtra
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["schedule_inline", "schedule_lambda", "schedule_transform", "script_of", "settle_at_once"]

#: Scripts by text; a text may differ from one task to the next, so only the latest are kept.
_KEPT: Final = 512


@lru_cache(maxsize=_KEPT)
def _compiled(text: str, evaluator: str) -> Condition:
    return compile_condition(text, evaluator)


@lru_cache(maxsize=_KEPT)
def _function(text: str) -> Condition:
    return compile_function(text)


def schedule_inline(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Evaluate, and create the row, already over."""

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        return {"result": _evaluate(values, draft.now, task_id)}

    settle_at_once(draft, node, iterations, previous, evaluate, lambda error: isinstance(error, ScriptTimedOut))


def schedule_lambda(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Call the function whose body the script is, and create the row, already over."""

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        return {"result": _call(values, draft.now, task_id)}

    settle_at_once(draft, node, iterations, previous, evaluate, lambda error: True)


def settle_at_once(
    draft: Draft,
    node: Node,
    iterations: tuple[int, ...],
    previous: Task | None,
    evaluate: Callable[[dict[str, Any], str], dict[str, Json]],
    retriable: Callable[[Exception], bool],
) -> None:
    """Create a row that is over already, with what `evaluate` makes of its input and id as output.

    An expression that fails fails the task, with its words as the reason and as `error`; `retriable` says whether for good.
    """
    ref = printed_ref(node.ref, iterations)
    task_id = draft.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(draft, node, iterations, task_id)
    reason: str | None = None
    status = TaskStatus.COMPLETED
    try:
        output = draft.payload(draft.evaluated(task_id, values, lambda: evaluate(values, task_id)))
    except (ExpressionFailed, InvalidExpression, InvalidInput, MissingExtra) as error:
        status = TaskStatus.FAILED if retriable(error) else TaskStatus.FAILED_WITH_TERMINAL_ERROR
        reason = str(error)
        output = draft.payload({"error": reason})
    draft.create_ended(
        node,
        iterations,
        status,
        previous=previous,
        input=draft.payload(values),
        output=output,
        reason=reason,
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


#: Programs by text; a text may differ from one task to the next, so only the latest are kept.
_KEPT_PROGRAMS: Final = 512


@lru_cache(maxsize=_KEPT_PROGRAMS)
def _program(text: str) -> JqProgram:
    return compile_jq(text)


def schedule_transform(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Run the program, and create the row, already over."""

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        results = _program(script_of(values, "queryExpression")).evaluate(values, now=draft.now, seed=task_id)
        return {"result": results[0] if results else None, "resultList": results}

    settle_at_once(draft, node, iterations, previous, evaluate, lambda error: True)
