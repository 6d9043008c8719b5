"""Inputs that are null because a `${…}` found nothing: where each came from, and what is missing there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from conductorlite.definitions import WorkflowTask, step_path
from conductorlite.errors import InvalidExpression
from conductorlite.executions import Task, Workflow
from conductorlite.explain.places import places
from conductorlite.expressions import Reads, compile_template
from conductorlite.plan import unfolded
from conductorlite.texts import did_you_mean

__all__ = ["nulls"]

#: Nulls told of, and values looked at.
_MOST: Final = 5
_LOOKED_AT: Final = 10_000


def nulls(workflow: Workflow, task: Task) -> tuple[str, ...]:
    """``y came from `${aa.output.y}`, and there is no aa``, for each null in a task's input that an expression has left there."""
    if task.input.absent or task.input.external is not None or workflow.definition is None:
        return ()
    known = {place.task.task_reference_name: place.task for place in places(unfolded(workflow))}
    written = known.get(task.base_ref)
    if written is None or not written.input_parameters:
        return ()
    found: list[str] = []
    for name, text in _emptied(written, task):
        why = _why(workflow, task, text, known)
        if why is not None:
            found.append(f"{name} came from `{text:.200}`, and {why}")
        if len(found) == _MOST:
            break
    return tuple(found)


def _emptied(written: WorkflowTask, task: Task) -> Iterator[tuple[str, str]]:
    """Places of the input that are one expression and came out null, with the expression."""
    given = task.input.value
    waiting: list[tuple[str, Any, Any]] = [
        (name, value, given[name]) for name, value in written.input_parameters.items() if name in given
    ]
    for looked_at, (name, template, value) in enumerate(waiting):
        if looked_at >= _LOOKED_AT:
            return
        if isinstance(template, str):
            if value is None and template.startswith("${") and template.endswith("}"):
                yield name, template
        elif isinstance(template, dict) and isinstance(value, dict):
            waiting.extend((step_path(name, key), inner, value[key]) for key, inner in template.items() if key in value)
        elif isinstance(template, list | tuple) and isinstance(value, list):
            pairs = enumerate(zip(template, value, strict=False))
            waiting.extend((f"{name}[{index}]", inner, out) for index, (inner, out) in pairs)


def _why(workflow: Workflow, task: Task, text: str, known: dict[str, WorkflowTask]) -> str | None:
    """What is missing; None where that cannot be told."""
    try:
        reads = compile_template(text).reads
    except InvalidExpression:
        return None
    root, member, key = _named(reads)
    if root is None:
        return None
    if root == "workflow":
        whose = {"input": "the workflow's input", "variables": "the workflow"}.get(member or "")
        thing = {"input": key, "variables": f"variable {key}"}.get(member or "")
        return None if whose is None or key is None else f"{whose} has no {thing}, or it is null"
    rows = [row for row in workflow.tasks if row.base_ref == root]
    if not rows:
        there = root in known
        return f"{root} has not run" if there else f"there is no {root}{did_you_mean(root, sorted((*known, 'workflow')))}"
    before = [row for row in rows if row.seq < task.seq]
    if not before:
        return f"{root} had not run yet"
    last = before[-1]
    if member == "output" and key is not None and not last.output.absent and last.output.external is None:
        return f"the output of {root} has {'null there' if key in last.output.value else f'no {key}'}"
    return f"{root}, which is {last.status}, has nothing there"


def _named(reads: Reads) -> tuple[str | None, str | None, str | None]:
    """Root, member and key of an expression that reads one place."""
    if len(reads.steps) == 1:
        return next(iter(reads.steps))
    return (next(iter(reads.roots)), None, None) if len(reads.roots) == 1 and not reads.steps else (None, None, None)
