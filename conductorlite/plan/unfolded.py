"""unfolded(): an execution's definition with what was made at run time in its place, for whoever reads or draws it.

A dynamic fork gets its branches as `fork_tasks`, its JOIN the references it collects; a DYNAMIC becomes what it stands for. Of
what is made anew in every round of a loop the newest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from conductorlite.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.executions import Workflow

__all__ = ["unfolded"]

#: Per place (the hashes around it, its reference) the hash of what was made of it.
_Grown = Mapping[tuple[tuple[str, ...], str], str]


def unfolded(workflow: Workflow) -> WorkflowDef | None:
    """The definition of an execution as `Engine.get` returns it, with its `made` put in place; None without a definition."""
    definition = workflow.definition
    if definition is None or not workflow.made:
        return definition
    grown = {
        (task.grafts[:depth], workflow.made[digest].tasks[0].task_reference_name): digest
        for task in workflow.tasks
        for depth, digest in enumerate(task.grafts)
        if digest in workflow.made
    }
    return attrs.evolve(definition, tasks=_sequence(definition.tasks, (), grown, workflow.made))


def _sequence(
    tasks: Iterable[WorkflowTask], grafts: tuple[str, ...], grown: _Grown, made: Mapping[str, WorkflowDef]
) -> tuple[WorkflowTask, ...]:
    """The same list unfolded. Depth is bounded by the validator, and by that of what an execution has made."""

    def inner(listed: Iterable[WorkflowTask], below: tuple[str, ...] = grafts) -> tuple[WorkflowTask, ...]:
        return _sequence(listed, below, grown, made)

    found: list[WorkflowTask] = []
    joined: list[str] | None = None
    for task in tasks:
        digest = grown.get((grafts, task.task_reference_name))
        fields: dict[str, object] = {} if joined is None else {"join_on": joined}
        joined = None
        if digest is not None and task.type == TaskType.DYNAMIC:
            found.append(made[digest].tasks[0])
            continue
        if digest is not None and task.type == TaskType.FORK_JOIN_DYNAMIC:
            branches = [inner(branch, (*grafts, digest)) for branch in made[digest].tasks[0].fork_tasks]
            joined = [branch[-1].task_reference_name for branch in branches]
            fields["fork_tasks"] = branches
        elif task.fork_tasks:
            fields["fork_tasks"] = [inner(branch) for branch in task.fork_tasks]
        if task.decision_cases:
            fields["decision_cases"] = {case: inner(listed) for case, listed in task.decision_cases.items()}
        if task.default_case:
            fields["default_case"] = inner(task.default_case)
        if task.loop_over:
            fields["loop_over"] = inner(task.loop_over)
        found.append(attrs.evolve(task, **fields) if fields else task)  # type: ignore[arg-type]
    return tuple(found)
