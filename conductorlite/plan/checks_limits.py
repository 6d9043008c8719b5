"""Limits that cannot work: on executions, and on tasks."""

from __future__ import annotations

from typing import Final

from conductorlite.definitions import RateLimitConfig, TaskDef, TaskType, WorkflowDef, WorkflowTask
from conductorlite.plan.checks_findings import Findings, is_expression
from conductorlite.plan.types import OPERATOR_TYPES

__all__ = ["check_task_limits", "check_workflow_limit", "constant_key"]

#: What stands in a DYNAMIC task's definition goes to the task that it turns out to be.
_UNLIMITED: Final = OPERATOR_TYPES - {TaskType.DYNAMIC}

_LIMITS: Final = {"concurrent_exec_limit": "concurrentExecLimit", "rate_limit_per_frequency": "rateLimitPerFrequency"}


def check_workflow_limit(defn: WorkflowDef, path: str, held: dict[str, str], findings: Findings) -> dict[str, str]:
    """Add what is wrong with the limit on executions of `defn`; returns the constant keys that its sub-workflows may not need.

    `held` are the keys that the definitions around an inline one hold while it runs, with their paths.
    """
    config = defn.rate_limit_config
    if config is None:
        return held
    where = f"{path}.rateLimitConfig"
    if config.concurrent_exec_limit < 1:
        findings.error(f"{where}.concurrentExecLimit", "must be at least 1")
        return held
    key = constant_key(defn.name, config)
    if key is None:
        return held
    at = f"{where}.rateLimitKey"
    if key in held:
        message = f"{key!r} is the key of {held[key]}, whose slot is held until this sub-workflow has ended: it would never begin"
        findings.error(at, message)
    return {**held, key: at}


def constant_key(name: str, config: RateLimitConfig) -> str | None:
    """The key of a limit on executions, as far as it is known before they start; without one it is the workflow's name."""
    key = config.rate_limit_key or name
    return None if is_expression(key) else key.replace("$${", "${")


def check_task_limits(task: WorkflowTask, definition: TaskDef, path: str, findings: Findings) -> None:
    """Add limits in a task's definition that have no effect."""
    for field, name in _LIMITS.items():
        if task.type in _UNLIMITED and (getattr(definition, field) or 0) > 0:
            findings.warn(f"{path}.{name}", f"has no effect: {task.type} is carried out by the engine, and limits are for workers")
    if (definition.rate_limit_per_frequency or 0) > 0 and definition.rate_limit_frequency_ms == 0:
        findings.warn(f"{path}.rateLimitFrequencyInSeconds", "is 0, so rateLimitPerFrequency has no effect")
