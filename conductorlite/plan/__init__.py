"""Compiled definitions: validated once, indexed once."""

from conductorlite.plan.compile import OPERATOR_TYPES, Node, Plan, compile_plan, split_ref
from conductorlite.plan.graft import ALONE, grafted
from conductorlite.plan.unfolded import unfolded
from conductorlite.plan.validate import validate, validate_event_handler, validate_task_def

__all__ = [
    "ALONE",
    "OPERATOR_TYPES",
    "Node",
    "Plan",
    "compile_plan",
    "grafted",
    "split_ref",
    "unfolded",
    "validate",
    "validate_event_handler",
    "validate_task_def",
]
