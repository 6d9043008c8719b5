"""The root causes of an execution that failed, or what one that is open waits for, down through its sub-workflows.

Here too: which inputs and outputs are null because a `${…}` found nothing, and what is missing there; and how lists read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from conductorlite.errors import Cause
from conductorlite.language.jsonpath import Reads
from conductorlite.language.templates import compile_template
from conductorlite.model.canonical import Payload
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.later import pattern
from conductorlite.model.scalars import step_path
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.model.texts import did_you_mean
from conductorlite.plan.grafts import unfolded
from conductorlite.plan.tree import positions

__all__ = ["SHOWN", "causes_of", "listed", "nulls", "output_nulls"]

#: How many open tasks, references and failures are named one by one.
SHOWN: Final = 5


def listed(words: Sequence[str]) -> str:
    """`a, b and c`; of many the first ones, and how many more there are."""
    shown = list(words[:SHOWN])
    if len(words) > SHOWN:
        shown.append(f"{len(words) - SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


#: Most nulls that are reported, and most values that are looked at.
_MOST_NULLS: Final = 5
_LOOKED_AT: Final = 10_000

#: Characters of a text that are looked at, and the expressions in it.
_LONGEST: Final = 10_000
_EXPRESSION: Final = pattern(r"(?<!\$)\$\{[^{}]*\}")


def nulls(workflow: Workflow, task: Task) -> tuple[str, ...]:
    """``y came from `${aa.output.y}`, and there is no aa``, for each null in a task's input that an expression has left there."""
    # A null reads `null` in a text, too: without that word there is none, and a wide definition is not unfolded for each task.
    if task.input.absent or task.input.external is not None or workflow.definition is None or "null" not in task.input.shown:
        return ()
    known = positions(unfolded(workflow), compensations=True)
    written = known[task.base_ref].task if task.base_ref in known else None
    if written is None or not written.input_parameters:
        return ()
    before = [row for row in workflow.tasks if row.seq < task.seq]
    return _found(workflow, written.input_parameters, task.input.value, known, before)


def output_nulls(workflow: Workflow) -> tuple[str, ...]:
    """Return the same as `nulls` for the output of an ended execution, whose definition says what it is made of."""
    output, definition = workflow.output, workflow.definition
    if output.absent or output.external is not None or definition is None or not workflow.status.terminal:
        return ()
    known = positions(unfolded(workflow), compensations=True)
    return _found(workflow, definition.output_parameters, output.value, known, workflow.tasks)


def _found(
    workflow: Workflow,
    written: Mapping[str, Any],
    given: Mapping[str, Any],
    known: Collection[str],
    before: Sequence[Task],
) -> tuple[str, ...]:
    found: list[str] = []
    for name, text, whole in _emptied(written, given):
        for expression in [text] if whole else _EXPRESSION.findall(text):
            why = _why(workflow, expression, known, before, sure=not whole)
            if why is not None:
                came = "came from" if whole else "holds the null of"
                found.append(f"{name} {came} `{expression:.200}`, and {why}")
            if len(found) == _MOST_NULLS:
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


def _why(workflow: Workflow, text: str, known: Collection[str], before: Sequence[Task], *, sure: bool) -> str | None:
    """Return what is missing; None where that is not known. `sure`: also where nothing need be missing, for it may not be null."""
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


#: Tasks that fail, or wait, because of one in them or before them.
_CONTAINERS: Final = frozenset({TaskType.DO_WHILE, TaskType.JOIN, TaskType.EXCLUSIVE_JOIN})

#: Most causes that are reported, and deepest execution that is looked into.
_MOST_CAUSES: Final = 20
_DEEPEST: Final = 100


def causes_of(
    workflow: Workflow, child: Callable[[str], Workflow | None], line_of: Callable[[str, str], str | None] | None = None
) -> tuple[Cause, ...]:
    """Return the causes of a failure, the root cause first and optional failures last; of an open execution what it waits for.

    `child` gives an execution by its id, with its tasks, or None when it is not there; `line_of` where a step of a workflow is
    written. At most 20 are given.
    """
    found: list[Cause] = []
    # Depth first: what a cause leads to comes before its neighbours.
    pending: list[tuple[Workflow, tuple[str, ...], bool]] = [(workflow, (workflow.name,), False)]
    while pending and len(found) < _MOST_CAUSES:
        row, address, optional = pending.pop()
        below: list[tuple[Workflow, tuple[str, ...], bool]] = []
        tasks = (_blamed(row) if row.status.terminal else _open(row))[:_MOST_CAUSES]
        for task in tasks:
            lesser = optional or task.status is TaskStatus.COMPLETED_WITH_ERRORS
            inner = None if task.sub_workflow_id is None or len(address) > _DEEPEST else child(task.sub_workflow_id)
            if inner is not None and _leads_on(task, inner):
                below.append((inner, (*address, task.ref), lesser))
            else:
                found.append(
                    _cause(row, task, address, None if line_of is None else line_of(row.name, task.base_ref), optional=lesser)
                )
        if not tasks and row.status is not WorkflowStatus.COMPLETED:
            reason = f"is parked: {row.parked}" if row.parked is not None else row.reason
            found.append(Cause(address=address, workflow_id=row.workflow_id, status=row.status, reason=reason, optional=optional))
        pending.extend(reversed(below))
    return tuple(sorted(found, key=lambda cause: cause.optional))


def _leads_on(task: Task, inner: Workflow) -> bool:
    """Return True if the execution below a task explains the task's end: not if the task ended by a timeout of its own, say."""
    ended_alike = inner.status.terminal == task.status.terminal and inner.status is not WorkflowStatus.COMPLETED
    return ended_alike and task.status is not TaskStatus.TIMED_OUT


def _cause(row: Workflow, task: Task, address: tuple[str, ...], line: str | None, *, optional: bool) -> Cause:
    ended = task if task.status.terminal else _attempt_before(row, task) or task
    reason = ended.reason
    if ended is not task:
        reason = f"{ended.reason or ended.status} (attempt {_number(ended)}; attempt {_number(task)} is {task.status})"
    return Cause(
        address=(*address, task.ref),
        workflow_id=row.workflow_id,
        status=task.status,
        reason=reason,
        traceback=ended.traceback,
        error_types=ended.error_types,
        ref=task.ref,
        task_id=task.task_id,
        attempt=task.attempt,
        optional=optional,
        line=line,
        nulls=nulls(row, task) if task.status.terminal or ended is not task else (),
    )


def _number(task: Task) -> int:
    return task.attempt - task.first_attempt + 1


def _attempt_before(row: Workflow, task: Task) -> Task | None:
    """The last attempt before this one that has failed."""
    if task.attempt == task.first_attempt:
        return None
    attempts = (one for one in row.tasks if one.ref == task.ref and task.first_attempt <= one.attempt < task.attempt)
    failed = [one for one in attempts if one.status.terminal and not one.status.successful]
    return max(failed, key=lambda one: one.attempt, default=None)


def _blamed(row: Workflow) -> list[Task]:
    """Failed tasks, the first to fail first and those that were optional last; not those that failed because of another here."""
    failed = [task for task in row.tasks if not task.retried and (task.failed or task.status is TaskStatus.COMPLETED_WITH_ERRORS)]
    failed.sort(key=lambda task: (task.status is TaskStatus.COMPLETED_WITH_ERRORS, task.ended_at, task.seq))
    return _without_containers(failed)


def _open(row: Workflow) -> list[Task]:
    return _without_containers([task for task in row.tasks if not task.retried and not task.status.terminal])


def _without_containers(tasks: Iterable[Task]) -> list[Task]:
    """Loops and JOINs fail, or wait, because of others, if there are others that are not optional."""
    known = list(tasks)
    if any(task.task_type not in _CONTAINERS and task.status is not TaskStatus.COMPLETED_WITH_ERRORS for task in known):
        return [task for task in known if task.task_type not in _CONTAINERS]
    return known
