"""The numbers of a task definition are in range and do not contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from conductorlite.model.definitions import RetryLogic, TaskDef
from conductorlite.model.errors import Severity
from conductorlite.plan.validate import validate_task_def


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"timeout_ms": 60_000},
        {"timeout_ms": 60_000, "response_timeout_ms": 60_000},
        {"timeout_ms": 0, "response_timeout_ms": 60_000},
        {"timeout_ms": 60_000, "total_timeout_ms": 60_000},
        {"timeout_ms": 60_000, "total_timeout_ms": 0},
        {"response_timeout_ms": 0},
        {"retry_logic": RetryLogic.EXPONENTIAL_BACKOFF, "backoff_scale_factor": 2},
        {"retry_logic": RetryLogic.LINEAR_BACKOFF, "backoff_scale_factor": 1},
    ],
)
def test_a_good_task_definition_has_no_problems(fields: dict[str, Any]) -> None:
    """Defaults, equal timeouts and zeros for "none" are fine."""
    assert validate_task_def(TaskDef(name="t", **fields)) == []


@pytest.mark.parametrize(
    ("fields", "severity", "path"),
    [
        ({"name": " "}, Severity.ERROR, "$.name"),
        ({"retry_count": -1}, Severity.ERROR, "$.retryCount"),
        ({"retry_delay_ms": -1}, Severity.ERROR, "$.retryDelaySeconds"),
        ({"max_retry_delay_ms": -1}, Severity.ERROR, "$.maxRetryDelaySeconds"),
        ({"backoff_jitter_ms": -1}, Severity.ERROR, "$.backoffJitterMs"),
        ({"timeout_ms": -1}, Severity.ERROR, "$.timeoutSeconds"),
        ({"total_timeout_ms": -1}, Severity.ERROR, "$.totalTimeoutSeconds"),
        ({"response_timeout_ms": -1}, Severity.ERROR, "$.responseTimeoutSeconds"),
        ({"poll_timeout_ms": -1}, Severity.ERROR, "$.pollTimeoutSeconds"),
        ({"concurrent_exec_limit": -1}, Severity.ERROR, "$.concurrentExecLimit"),
        ({"rate_limit_per_frequency": -1}, Severity.ERROR, "$.rateLimitPerFrequency"),
        ({"rate_limit_frequency_ms": -1}, Severity.ERROR, "$.rateLimitFrequencyInSeconds"),
        ({"backoff_scale_factor": 0}, Severity.ERROR, "$.backoffScaleFactor"),
        ({"timeout_ms": 1000, "response_timeout_ms": 1001}, Severity.ERROR, "$.responseTimeoutSeconds"),
        ({"timeout_ms": 1001, "total_timeout_ms": 1000}, Severity.ERROR, "$.timeoutSeconds"),
        ({"retry_logic": RetryLogic.EXPONENTIAL_BACKOFF}, Severity.WARNING, "$.backoffScaleFactor"),
        (
            {"retry_logic": RetryLogic.EXPONENTIAL_BACKOFF, "backoff_scale_factor": 1},
            Severity.WARNING,
            "$.backoffScaleFactor",
        ),
        ({"extra": {"a b": 1}}, Severity.WARNING, "$['a b']"),
    ],
)
def test_a_rule_is_reported_alone(fields: dict[str, Any], severity: Severity, path: str) -> None:
    """Each broken rule is one problem at the property that breaks it."""
    [problem] = validate_task_def(TaskDef(**{"name": "t", **fields}))
    assert (problem.severity, problem.path) == (severity, path)


def test_paths_start_where_the_caller_says() -> None:
    """A list of task definitions can be reported as one."""
    [problem] = validate_task_def(TaskDef(name=""), "$[3]")
    assert str(problem) == "$[3].name: is empty"
