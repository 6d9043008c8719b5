"""Whether a turn over a definition may run code of somebody else, which may hang or take all memory there is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from conductorlite.definitions import TaskType, WorkflowDef, WorkflowTask

__all__ = ["runs_foreign_code"]

#: Types that run a script, or may be anything.
_SCRIPTS: Final = frozenset(
    {TaskType.INLINE, TaskType.LAMBDA, TaskType.JSON_JQ_TRANSFORM, TaskType.DYNAMIC, TaskType.FORK_JOIN_DYNAMIC}
)

#: Expressions that search their document: filters, wildcards, slices, functions, and what is put together of others. Some that
#: only look so are found too. Nothing is looked at twice: neither `${` nor `[` is passed over on the way.
_SEARCHES: Final = re.compile(r"\$\{(?:[^}$]|\$(?!\{))*?(?:\.\.|\*|\?|\(|\$\{|\[[^\]\['\"]*[:,])")


def runs_foreign_code(definition: WorkflowDef, tasks: Iterable[WorkflowTask], *, checked: bool) -> bool:
    """Whether any task has a script or an expression that searches; `checked` says that schemas are enforced."""
    return checked or _searches(definition.output_parameters) or any(map(_foreign, tasks))


def _foreign(task: WorkflowTask) -> bool:
    if task.type in _SCRIPTS:
        return True
    if task.type == TaskType.SWITCH:
        scripted = (task.evaluator_type or "value-param") != "value-param"
    else:
        scripted = bool((task.case_expression or "").strip() or (task.loop_condition or "").strip())
    merged = None if task.task_definition is None else task.task_definition.input_template
    return scripted or _searches(task.input_parameters) or _searches(merged) or _searches(task.items)


def _searches(template: object) -> bool:
    return bool(template) and _SEARCHES.search(str(template)) is not None
