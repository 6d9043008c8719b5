"""DYNAMIC: a task whose name is known only now, from its input.

The name may be a task's, or that of a built-in type that stands alone. What it turns out to be is embedded as a definition of
its own, with the task definition registered under the resolved name. Source of the rule: Conductor's `DynamicTaskMapper`, which
takes the definition of the placeholder's name instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.language.text import to_text
from conductorlite.model.definitions import TaskType, WorkflowDef
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node
from conductorlite.plan.grafts import ALONE

__all__ = ["resolve_dynamic"]

#: Built-in types that workers carry out.
_WORKERS: Final = frozenset({TaskType.HTTP, TaskType.EVENT, TaskType.KAFKA_PUBLISH})


def resolve_dynamic(
    draft: Draft,
    node: Node,
    iterations: tuple[int, ...],
    previous: Task | None,
    schedule: Callable[[Node], None],
) -> None:
    """Find out what the node stands for and have that scheduled; a name that stands for nothing fails the task for good."""
    values = rendered(draft, node, iterations)
    param = node.task.dynamic_task_name_param or ""
    value = values.get(param)
    problem = None
    name = "" if value is None else to_text(value).strip()
    if not name:
        problem = f"Input {param!r} names no task: it is {'missing' if value is None else 'empty'}"
    elif name in _BUILT_IN and name not in ALONE and name not in _WORKERS:
        problem = f"Input {param!r} is {name!r}, a task type that cannot stand alone"
    if problem is None:
        kind = name if name in ALONE or name in _WORKERS else str(TaskType.SIMPLE)
        task = attrs.evolve(node.task, name=name, type=kind, dynamic_task_name_param=None)
        definition = WorkflowDef(name=draft.workflow.name, tasks=[task])
        attempt = 0 if previous is None else previous.attempt + 1
        found = draft.embed(f"{printed_ref(node.ref, iterations)}#{attempt}", definition)
        if found.digest is not None:
            schedule(draft.plan_of((*node.grafts, found.digest)).nodes[node.ref])
            return
        shown = found.problem.replace("$.tasks[0]", "the task")
        problem = f"Input {param!r} is {name!r}, which cannot be scheduled: {shown}"
    draft.create_ended(
        node,
        iterations,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        previous=previous,
        input=draft.payload(values),
        reason=problem,
    )


_BUILT_IN: Final = frozenset(str(kind) for kind in TaskType)
