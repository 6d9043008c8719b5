"""Compiled definitions: validated once, indexed once."""

from conductorlite.plan.checks_schemas import enforced, schema_problems
from conductorlite.plan.checks_served import unserved, worker_types
from conductorlite.plan.compile import Node, Plan, compile_plan, split_ref
from conductorlite.plan.graft import ALONE, grafted
from conductorlite.plan.types import OPERATOR_TYPES, SHIPPED_TYPES
from conductorlite.plan.unfolded import unfolded
from conductorlite.plan.validate import validate, validate_event_handler, validate_task_def

__all__ = [
    "ALONE",
    "OPERATOR_TYPES",
    "SHIPPED_TYPES",
    "Node",
    "Plan",
    "compile_plan",
    "enforced",
    "grafted",
    "schema_problems",
    "split_ref",
    "unfolded",
    "unserved",
    "validate",
    "validate_event_handler",
    "validate_task_def",
    "worker_types",
]
