"""JSON_JQ_TRANSFORM: a jq program over the task's own input, `queryExpression` included.

Source of the rule: Conductor's `JsonJqTransform.start`: the first result is `result` (null when there is none), all of them
are `resultList`. A program that fails, also at being compiled, fails the task, which may be retried.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.inline import script_of, settle_at_once
from conductorlite.language.jq import JqProgram, compile_jq
from conductorlite.language.sources import Json
from conductorlite.model.executions import Task
from conductorlite.plan.compile import Node

__all__ = ["schedule_transform"]

#: Programs by text; a text may differ from one task to the next, so only the latest are kept.
_KEPT: Final = 512


@lru_cache(maxsize=_KEPT)
def _compiled(text: str) -> JqProgram:
    return compile_jq(text)


def schedule_transform(draft: Draft, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Run the program, and create the row, already over."""

    def evaluate(values: dict[str, Any], task_id: str) -> dict[str, Json]:
        results = _compiled(script_of(values, "queryExpression")).evaluate(values, now=draft.now, seed=task_id)
        return {"result": results[0] if results else None, "resultList": results}

    settle_at_once(draft, node, iterations, previous, evaluate, lambda error: True)
