"""Compiled definitions: validated once, indexed once."""

from conductorlite.plan.compile import OPERATOR_TYPES, Node, Plan, compile_plan
from conductorlite.plan.validate import validate, validate_task_def

__all__ = ["OPERATOR_TYPES", "Node", "Plan", "compile_plan", "validate", "validate_task_def"]
