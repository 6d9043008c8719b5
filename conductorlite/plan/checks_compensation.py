"""Compensations: what may undo a task, and what may be undone."""

from __future__ import annotations

from typing import Final

from conductorlite.definitions import TaskType
from conductorlite.plan.checks_findings import Findings, input_value
from conductorlite.plan.tree import Place

__all__ = ["check_compensation"]

#: Types that steer the flow: a compensation is one step and nothing follows it.
_STEERING: Final = frozenset(
    {
        TaskType.DECISION,
        TaskType.DO_WHILE,
        TaskType.DYNAMIC,
        TaskType.EXCLUSIVE_JOIN,
        TaskType.FORK_JOIN,
        TaskType.FORK_JOIN_DYNAMIC,
        TaskType.JOIN,
        TaskType.SWITCH,
        TaskType.TERMINATE,
    }
)


def check_compensation(node: Place, findings: Findings) -> None:
    """A compensation is a single step that cannot itself be undone; what is undone can have been done."""
    task = node.task
    if node.compensates is not None:
        if task.type in _STEERING:
            findings.error(f"{node.path}.type", f"{task.type} steers the flow and cannot be a compensation")
        if task.compensate is not None:
            findings.error(f"{node.path}.compensate", "is given, but a compensation cannot itself be compensated")
        if task.permissive:
            findings.error(f"{node.path}.permissive", "is true: a compensation can be optional, but not permissive")
        return
    if isinstance(task.compensate, str) and not task.compensate.strip():
        findings.error(f"{node.path}.compensate", "is empty: it must be a task or the name of one")
    if task.type == TaskType.TERMINATE:
        findings.error(f"{node.path}.compensate", "is given, but a TERMINATE task does nothing that could be undone")
    for loop in node.loops:
        if input_value(loop, "keepLastN") is not None:
            text = f"the loop {loop.task_reference_name!r} drops rounds (keepLastN), and what is dropped is not compensated"
            findings.warn(f"{node.path}.compensate", text)
