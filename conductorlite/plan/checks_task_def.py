"""One task definition: its numbers are in range and do not contradict each other."""

from __future__ import annotations

from typing import Final

from conductorlite.definitions import RetryLogic, TaskDef, TimeoutPolicy, property_name
from conductorlite.plan.checks_findings import Findings
from conductorlite.plan.checks_names import check_task_def_extras

__all__ = ["check_task_def"]

_NOT_NEGATIVE: Final = (
    "retry_count",
    "retry_delay_ms",
    "max_retry_delay_ms",
    "backoff_jitter_ms",
    "timeout_ms",
    "total_timeout_ms",
    "response_timeout_ms",
    "poll_timeout_ms",
    "concurrent_exec_limit",
    "rate_limit_per_frequency",
    "rate_limit_frequency_ms",
)


def check_task_def(task_def: TaskDef, path: str, findings: Findings, *, embedded: bool) -> None:
    """Add what is wrong with a task definition.

    Timeouts that contradict each other are refused when it is registered, as Conductor's `TaskTimeoutConstraint` does; *embedded*
    in a task they are accepted as there: whichever is shorter comes first.
    """
    if not task_def.name.strip():
        findings.error(f"{path}.name", "is empty")
    for field in _NOT_NEGATIVE:
        value = getattr(task_def, field)
        if value is not None and value < 0:
            findings.error(f"{path}.{property_name(field)}", "is negative")
    scale = task_def.backoff_scale_factor
    if scale is not None and scale < 1:
        findings.error(f"{path}.backoffScaleFactor", f"is {scale}, but must be at least 1")
    elif task_def.retry_logic is RetryLogic.EXPONENTIAL_BACKOFF and scale in (None, 1):
        findings.warn(f"{path}.backoffScaleFactor", "is 1, so the delays of EXPONENTIAL_BACKOFF never grow")
    if not embedded and task_def.timeout_policy is not TimeoutPolicy.ALERT_ONLY:
        _check_timeouts(task_def, path, findings)
    check_task_def_extras(task_def, path, findings)


def _check_timeouts(task_def: TaskDef, path: str, findings: Findings) -> None:
    """One that would never take effect. (Where timeouts only alert, each does, one after another.)"""
    timeout, total = task_def.timeout_ms or 0, task_def.total_timeout_ms or 0
    if 0 < timeout < (task_def.response_timeout_ms or 0):
        findings.error(f"{path}.responseTimeoutSeconds", "is longer than timeoutSeconds, which would always come first")
    if 0 < total < timeout:
        findings.error(f"{path}.timeoutSeconds", "is longer than totalTimeoutSeconds, which would always come first")
