"""INLINE: evaluates a script on its own input and keeps the answer as `result`.

Source of the rule: Conductor's `Inline.execute`. The script is part of the input, so `${…}` in it is substituted before; the
rest of the input is what it reads. A script that fails fails the task for good; one that runs out of time may be retried. The
answer is decided once and kept: what the script may know of clock and chance is the instant of the turn and the task's id.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from conductorlite.draft import Draft
from conductorlite.errors import ExpressionFailed, InvalidExpression, InvalidInput, MissingExtra
from conductorlite.executions import Task, TaskStatus, printed_ref
from conductorlite.expressions import Condition, Json, compile_condition
from conductorlite.expressions.conditions import ScriptTimedOut
from conductorlite.operators.document import rendered
from conductorlite.plan import Node

__all__ = ["schedule_inline"]

#: Scripts by text; a text may differ from one task to the next, so only the latest are kept.
_KEPT: Final = 512


@lru_cache(maxsize=_KEPT)
def _compiled(text: str, evaluator: str) -> Condition:
    return compile_condition(text, evaluator)


def schedule_inline(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Evaluate, and create the row, already over."""
    ref = printed_ref(node.ref, iterations)
    task_id = draft.task_id(ref, 0 if previous is None else previous.attempt + 1)
    values = rendered(draft, node, iterations, task_id)
    reason: str | None = None
    status = TaskStatus.COMPLETED
    try:
        output = draft.payload({"result": _evaluate(values, draft.now, task_id)})
    except (ExpressionFailed, InvalidExpression, InvalidInput, MissingExtra) as error:
        retriable = isinstance(error, ScriptTimedOut)
        status = TaskStatus.FAILED if retriable else TaskStatus.FAILED_WITH_TERMINAL_ERROR
        reason = str(error)
        output = draft.payload({"error": reason})
    task = draft.create(
        node,
        iterations,
        status,
        previous=previous,
        input=draft.payload(values),
        output=output,
        started_at=draft.now,
        ended_at=draft.now,
        reason=reason,
    )
    draft.queue.append(("advance", task.ref))


def _evaluate(values: dict[str, Any], now: int, task_id: str) -> Json:
    evaluator, text = values.get("evaluatorType"), values.get("expression")
    if evaluator is None:
        evaluator = "javascript"
    if not isinstance(evaluator, str):
        raise ExpressionFailed(f"evaluatorType is a {_kind(evaluator)}, not a text")
    if not evaluator.strip():
        raise ExpressionFailed("evaluatorType is empty")
    if not isinstance(text, str):
        raise ExpressionFailed("expression is missing" if text is None else f"expression is a {_kind(text)}, not a text")
    if not text.strip():
        raise ExpressionFailed("expression is empty")
    return _compiled(text, evaluator).evaluate(values, now=now, seed=task_id)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "map" if isinstance(value, dict) else "list" if isinstance(value, list) else "number"
