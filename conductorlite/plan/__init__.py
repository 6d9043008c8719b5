"""Compiled definitions: validated once, indexed once."""

from conductorlite.plan.checks_schemas import enforced, schema_problems
from conductorlite.plan.compile import Node, Plan, compile_plan, split_ref
from conductorlite.plan.graft import ALONE, grafted
from conductorlite.plan.types import OPERATOR_TYPES
from conductorlite.plan.unfolded import unfolded
from conductorlite.plan.validate import validate, validate_event_handler, validate_task_def

__all__ = [
    "ALONE",
    "OPERATOR_TYPES",
    "Node",
    "Plan",
    "compile_plan",
    "enforced",
    "grafted",
    "schema_problems",
    "split_ref",
    "unfolded",
    "validate",
    "validate_event_handler",
    "validate_task_def",
]
