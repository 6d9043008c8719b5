"""Where each task of a definition stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from conductorlite.definitions import WorkflowDef, WorkflowTask

__all__ = ["Place", "places"]


@attrs.define(slots=True)
class Place:
    """Where a task of the definition stands: what it is in, and what comes before it."""

    task: WorkflowTask
    before: WorkflowTask | None
    parent: WorkflowTask | None
    #: The case of the SWITCH around it; None for its default case.
    case: str | None = None
    #: What this task undoes, for a compensation.
    undoes: WorkflowTask | None = None


def places(definition: WorkflowDef | None) -> Iterator[Place]:
    """Every task in document order, each before what it contains. A stack, as in `plan.tree`."""
    waiting = [] if definition is None else _stacked(definition.tasks, None, None)
    while waiting:
        place = waiting.pop()
        yield place
        task = place.task
        if task.compensation is not None and place.undoes is None:
            yield Place(task.compensation, None, None, undoes=task)
        inner = [_stacked(branch, task, name) for name, branch in task.decision_cases.items()]
        inner += [_stacked(branch, task, None) for branch in (task.default_case, *task.fork_tasks, task.loop_over)]
        for branch in reversed(inner):
            waiting.extend(branch)


def _stacked(tasks: Sequence[WorkflowTask], parent: WorkflowTask | None, case: str | None) -> list[Place]:
    before = (None, *tasks)
    return [Place(task, before[index], parent, case) for index, task in enumerate(tasks)][::-1]
