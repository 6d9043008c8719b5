"""Retry delays, timeouts and derived identities: arithmetic on values.

`TaskPolicy` is a task definition with nothing left open: every default filled in by the `Semantics` of the execution.

Sources of the rules. Retry: Orkes, "Handling Failures": FIXED `delay`, LINEAR_BACKOFF `delay x scale x attempt`,
EXPONENTIAL_BACKOFF `delay x scale ^ attempt`, attempts counted from 1; Conductor OSS counts the exponent from 0 on base 2. The cap
(`maxRetryDelaySeconds`) applies to all three, the jitter is added after it, products saturate instead of wrapping. Defaults:
Orkes 600/3600/3600 s for response, poll and task timeouts; OSS 3600 s/none/none.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import attrs

from conductorlite.model.definitions import RetryLogic, Semantics, TaskDef, TaskType, TimeoutPolicy, WorkflowTask
from conductorlite.model.later import hashlib
from conductorlite.model.limits import NO_LIMIT, Terms

__all__ = ["LONGEST_DELAY_MS", "TaskPolicy", "derive_id", "jitter", "retry_delay", "task_limit", "task_policy"]

#: Largest delay: Conductor's 32-bit seconds. Longer products saturate here.
LONGEST_DELAY_MS: Final = 2_147_483_647_000

_HOUR: Final = 3_600_000


@attrs.frozen(kw_only=True, slots=True, repr=False)
class TaskPolicy:
    """Rules by which one node's tasks are retried and timed out. Milliseconds; 0 means no timeout, no cap, no jitter."""

    retry_count: int
    retry_logic: RetryLogic
    retry_delay_ms: int
    backoff_scale_factor: int
    max_retry_delay_ms: int
    backoff_jitter_ms: int
    timeout_ms: int
    total_timeout_ms: int
    response_timeout_ms: int
    poll_timeout_ms: int
    timeout_policy: TimeoutPolicy
    #: The timers of timeouts that no definition sets, and their lengths: they count only time in which the store was driven.
    default_ms: Mapping[str, int] = attrs.field(factory=dict, hash=False)


def task_policy(task: WorkflowTask, semantics: Semantics, *, operator: bool) -> TaskPolicy:
    """The policy of a node from the definition embedded in it.

    An *operator* (a task the decider itself carries out, such as WAIT) without a definition of its name never times out, and
    one with a definition only has the timeouts that are written there: the defaults are meant for workers. It has no response
    timeout in any case: no worker holds it, and Conductor writes 3600 s into every definition it exports. Without a definition
    only SIMPLE tasks are retried: Conductor makes one with `retryCount` 0 for every other type.
    """
    given = task.task_definition
    if given is None:
        return _without_definition(task.retry_count, 3 if task.type == TaskType.SIMPLE else 0, semantics, operator)
    return _policy(given, task.retry_count, 3, semantics, operator)


@lru_cache(maxsize=64)
def _without_definition(retry_count: int | None, retries: int, semantics: Semantics, operator: bool) -> TaskPolicy:
    return _policy(TaskDef(name=""), retry_count, retries, semantics, operator)


def _policy(given: TaskDef, retry_count: int | None, retries: int, semantics: Semantics, operator: bool) -> TaskPolicy:
    """`retry_count` is the task's own, `retries` are those if neither it nor the definition says how many."""
    orkes = semantics is Semantics.ORKES
    timeout = _given(given.timeout_ms, 0 if operator or not orkes else _HOUR)
    poll = _given(given.poll_timeout_ms, 0 if operator or not orkes else _HOUR)
    # The default stays what the documents say, also above a shorter timeout: that one comes first unless it only alerts.
    response = 0 if operator else _given(given.response_timeout_ms, 600_000 if orkes else _HOUR)
    defaults = {
        "TASK_TIMEOUT": timeout if given.timeout_ms is None else 0,
        "RESPONSE_TIMEOUT": response if given.response_timeout_ms is None else 0,
        "POLL_TIMEOUT": poll if given.poll_timeout_ms is None else 0,
    }
    return TaskPolicy(
        retry_count=max(0, _given(retry_count, _given(given.retry_count, retries))),
        retry_logic=given.retry_logic or RetryLogic.FIXED,
        retry_delay_ms=max(0, _given(given.retry_delay_ms, 60_000)),
        backoff_scale_factor=max(1, _given(given.backoff_scale_factor, 1)),
        max_retry_delay_ms=_given(given.max_retry_delay_ms, 0),
        backoff_jitter_ms=_given(given.backoff_jitter_ms, 0),
        timeout_ms=timeout,
        total_timeout_ms=_given(given.total_timeout_ms, 0),
        response_timeout_ms=response,
        poll_timeout_ms=poll,
        timeout_policy=given.timeout_policy or TimeoutPolicy.TIME_OUT_WF,
        default_ms={name: length for name, length in defaults.items() if length > 0},
    )


def task_limit(task: WorkflowTask) -> Terms:
    """Return the limits of the definition embedded in a worker's task; a rate without a window is per second, as Conductor's."""
    given = task.task_definition
    if given is None:
        return NO_LIMIT
    rate, window = max(0, given.rate_limit_per_frequency or 0), _given(given.rate_limit_frequency_ms, 1_000)
    if window <= 0:
        rate = 0
    return Terms(concurrent=max(0, given.concurrent_exec_limit or 0), rate=rate, window_ms=window if rate else 0)


def _given(value: int | None, default: int) -> int:
    return default if value is None else value


def retry_delay(policy: TaskPolicy, retries: int, semantics: Semantics) -> int:
    """Milliseconds before the next attempt, without jitter; `retries` is how many retries came before (0: none)."""
    attempt = retries + 1
    delay = policy.retry_delay_ms
    if policy.retry_logic is RetryLogic.LINEAR_BACKOFF:
        delay *= policy.backoff_scale_factor * attempt
    elif policy.retry_logic is RetryLogic.EXPONENTIAL_BACKOFF:
        if semantics is Semantics.ORKES:
            delay *= _power(policy.backoff_scale_factor, attempt)
        else:
            delay *= _power(2, retries)
    delay = min(delay, LONGEST_DELAY_MS)
    if policy.max_retry_delay_ms > 0:
        delay = min(delay, policy.max_retry_delay_ms)
    return delay


def _power(base: int, exponent: int) -> int:
    # Past 2^62 every delay of a millisecond or more has saturated; without the bound a late attempt builds a huge integer.
    power: int = base ** min(exponent, 62)
    return power


def jitter(policy: TaskPolicy, *identity: object) -> int:
    """Milliseconds from 0 to `backoffJitterMs` inclusive, derived from an identity: the same there is the same here."""
    if policy.backoff_jitter_ms <= 0:
        return 0
    return int(derive_id("jitter", *identity)[:16], 16) % (policy.backoff_jitter_ms + 1)


def derive_id(*identity: object) -> str:
    """32 hex digits that stand for an identity: opaque, URL-safe, the same on every machine."""
    text = "\x1f".join(map(str, identity))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
