"""Inputs and outputs that are null because a `${…}` found nothing: where each came from, and what is missing there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from conductorlite.canonical import Payload
from conductorlite.definitions import WorkflowTask, step_path
from conductorlite.errors import InvalidExpression
from conductorlite.executions import Task, Workflow
from conductorlite.explain.places import places
from conductorlite.expressions import Reads, compile_template
from conductorlite.plan import unfolded
from conductorlite.texts import did_you_mean

__all__ = ["nulls", "output_nulls"]

#: Nulls told of, and values looked at.
_MOST: Final = 5
_LOOKED_AT: Final = 10_000

#: Characters of a text that are looked at, and the expressions in it.
_LONGEST: Final = 10_000
_EXPRESSION: Final = re.compile(r"(?<!\$)\$\{[^{}]*\}")


def nulls(workflow: Workflow, task: Task) -> tuple[str, ...]:
    """``y came from `${aa.output.y}`, and there is no aa``, for each null in a task's input that an expression has left there."""
    if task.input.absent or task.input.external is not None or workflow.definition is None:
        return ()
    known = {place.task.task_reference_name: place.task for place in places(unfolded(workflow))}
    written = known.get(task.base_ref)
    if written is None or not written.input_parameters:
        return ()
    before = [row for row in workflow.tasks if row.seq < task.seq]
    return _told(workflow, written.input_parameters, task.input.value, known, before)


def output_nulls(workflow: Workflow) -> tuple[str, ...]:
    """The same for the output of an execution that has ended, whose definition says what it is made of."""
    output, definition = workflow.output, workflow.definition
    if output.absent or output.external is not None or definition is None or not workflow.status.terminal:
        return ()
    known = {place.task.task_reference_name: place.task for place in places(unfolded(workflow))}
    return _told(workflow, definition.output_parameters, output.value, known, workflow.tasks)


def _told(
    workflow: Workflow,
    written: Mapping[str, Any],
    given: Mapping[str, Any],
    known: dict[str, WorkflowTask],
    before: Sequence[Task],
) -> tuple[str, ...]:
    found: list[str] = []
    for name, text, whole in _emptied(written, given):
        for expression in [text] if whole else _EXPRESSION.findall(text):
            why = _why(workflow, expression, known, before, sure=not whole)
            if why is not None:
                came = "came from" if whole else "holds the null of"
                found.append(f"{name} {came} `{expression:.200}`, and {why}")
            if len(found) == _MOST:
                return tuple(found)
    return tuple(found)


def _emptied(written: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Places that are one expression and came out null, with the expression; and texts that have expressions in them."""
    waiting: list[tuple[str, Any, Any]] = [(name, value, given[name]) for name, value in written.items() if name in given]
    for looked_at, (name, template, value) in enumerate(waiting):
        if looked_at >= _LOOKED_AT:
            return
        if isinstance(template, str):
            if value is None and template.startswith("${") and template.endswith("}"):
                yield name, template, True
            elif isinstance(value, str) and "${" in template and not _EXPRESSION.fullmatch(template):
                yield name, template[:_LONGEST], False
        elif isinstance(template, Mapping) and isinstance(value, Mapping):
            waiting.extend((step_path(name, key), inner, value[key]) for key, inner in template.items() if key in value)
        elif isinstance(template, list | tuple) and isinstance(value, list | tuple):
            pairs = enumerate(zip(template, value, strict=False))
            waiting.extend((f"{name}[{index}]", inner, out) for index, (inner, out) in pairs)


def _why(workflow: Workflow, text: str, known: dict[str, WorkflowTask], before: Sequence[Task], *, sure: bool) -> str | None:
    """What is missing; None where that cannot be told. `sure`: also where nothing need be missing, for it may not be null."""
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
        if whose is None or key is None or (sure and _has(workflow.input if member == "input" else workflow.variables, key)):
            return None
        return f"{whose} has no {thing}, or it is null"
    rows = [row for row in workflow.tasks if row.base_ref == root]
    if not rows:
        there = root in known
        return f"{root} has not run" if there else f"there is no {root}{did_you_mean(root, sorted((*known, 'workflow')))}"
    seen = [row for row in before if row.base_ref == root]
    if not seen:
        return f"{root} had not run yet"
    last = seen[-1]
    if member == "output" and key is not None and not last.output.absent and last.output.external is None:
        if sure and _has(last.output, key):
            return None
        return f"the output of {root} has {'null there' if key in last.output.value else f'no {key}'}"
    return None if sure else f"{root}, which is {last.status}, has nothing there"


def _has(payload: Payload, key: str) -> bool:
    return payload.absent or payload.external is not None or payload.value.get(key) is not None


def _named(reads: Reads) -> tuple[str | None, str | None, str | None]:
    """Root, member and key of an expression that reads one place."""
    if len(reads.steps) == 1:
        return next(iter(reads.steps))
    return (next(iter(reads.roots)), None, None) if len(reads.roots) == 1 and not reads.steps else (None, None, None)
