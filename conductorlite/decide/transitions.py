"""Transitions of the row of an attempt, and of an execution, stated once.

Each function writes the fields of one transition into a row that the turn owns, and nothing else. The caller opens the row with
`Changeset.opened` and settles it with `Changeset.settle`, which checks the transition, writes the journal's line and counts what is
live. The timers follow from the row's deadlines at the end of the turn. No other function of `decide` assigns a lease, a holder, a
worker, a number of polls, a response timeout, a beginning or an end (`tests/house/test_transitions.py`).

Source of the rules: Conductor's task life cycle (`Task.Status`, `WorkflowExecutorOps.updateTask`, `ExecutionService.poll`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.model.canonical import EMPTY, attempt_head
from conductorlite.model.decisions import DEADLINES
from conductorlite.model.executions import Task, Workflow, own_task
from conductorlite.model.later import hashlib
from conductorlite.model.policies import TaskPolicy, derive_id, jitter, retry_delay
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = [
    "attempt_id",
    "begin_attempt",
    "cancel_attempt",
    "copy_attempt",
    "delay_of_retry",
    "drop_default_timeout",
    "drop_response_timeout",
    "end_attempt",
    "end_workflow",
    "extend_lease",
    "make_attempt",
    "move_deadlines",
    "move_instants",
    "move_workflow_instants",
    "record_report",
    "release_attempt",
    "reopen_attempt",
    "reopen_workflow",
    "reset_workflow",
    "retry_attempt",
    "skip_ahead",
    "start_workflow",
    "started_id",
    "take_attempt",
]

#: Python finds a global faster than a member of an enumeration.
_IN_PROGRESS = TaskStatus.IN_PROGRESS


def attempt_id(workflow: Workflow, ref: str, attempt: int, generation: int) -> str:
    """Derive the id of an attempt. It begins with the head of the workflow's id."""
    workflow_id = workflow.workflow_id
    identity = f"{workflow.seed}\x1f{workflow_id}\x1f{ref}\x1f{attempt}\x1f{generation}"  # as `derive_id` joins its parts
    return attempt_head(workflow_id) + hashlib.sha256(identity.encode()).hexdigest()[:24]


def started_id(workflow: Workflow, task: Task) -> str:
    """Derive the id of the execution that an attempt of START_WORKFLOW starts."""
    return derive_id("started", workflow.seed, workflow.workflow_id, task.ref, task.attempt, task.generation)


# ---------------------------------------------------------------------- attempts


def make_attempt(node: Node, workflow: Workflow, ref: str, iterations: tuple[int, ...], status: TaskStatus, now: int) -> Any:
    """Make the row of the first attempt at a node.

    An operator that is IN_PROGRESS from its scheduling on has started; one that is over from its scheduling on has ended too.
    """
    row: Any = own_task(node.blank)
    row.workflow_id, row.ref, row.base_ref = workflow.workflow_id, ref, node.ref
    row.generation, row.status, row.iterations = workflow.generation, status, iterations
    if node.grafts:
        row.grafts = node.grafts
    row.scheduled_at = row.first_scheduled_at = row.updated_at = now
    if status is _IN_PROGRESS:
        row.started_at = now
    elif status.terminal:
        row.started_at = row.ended_at = now
    return row


def begin_attempt(row: Any, status: TaskStatus, now: int) -> None:
    """Begin an attempt whose row has waited for its delay; `status` is what it begins as, or has ended as already."""
    if status.terminal:
        end_attempt(row, status, row.reason, now, row.conductor_reason)
    row.status, row.updated_at, row.started_at = status, now, now


def skip_ahead(row: Any) -> None:
    """Mark an attempt that is skipped before the flow comes to it: it has not started."""
    row.started_at = 0


def retry_attempt(row: Any, previous: Any) -> None:
    """Make a new row the attempt after `previous`, which is superseded by it."""
    previous.retried = True
    row.attempt, row.first_attempt = previous.attempt + 1, previous.first_attempt
    row.first_scheduled_at, row.retried_task_id = previous.first_scheduled_at, previous.task_id
    row.succeeded_before = previous.executed or previous.succeeded_before


def delay_of_retry(workflow: Workflow, node: Node, task: Task) -> int:
    """Return the delay of the attempt after one that has failed, in ms."""
    delay = retry_delay(node.policy, task.attempt - task.first_attempt, workflow.semantics)
    if node.policy.backoff_jitter_ms:
        delay += jitter(node.policy, workflow.seed, task.workflow_id, task.ref, task.attempt, task.generation)
    return delay


def take_attempt(row: Any, policy: TaskPolicy, poll: Mapping[str, Any], lease: int, now: int) -> None:
    """Give an offered attempt to the worker that has polled for it, under a new lease.

    The task timeout starts with the first poll, the response timeout with each one. One that is a default starts again with
    the poll after a callback (`drop_default_timeout`).
    """
    begins = row.timeout_at is None and not row.started_at
    if policy.timeout_ms > 0 and (begins or (row.callback_after_ms > 0 and "TASK_TIMEOUT" in policy.default_ms)):
        row.timeout_at = now + policy.timeout_ms
    row.status, row.poll_count = _IN_PROGRESS, row.poll_count + 1
    row.worker_id, row.holder, row.lease = poll.get("workerId"), poll.get("holder"), lease
    row.started_at, row.updated_at = row.started_at or now, now
    row.callback_after_ms, row.poll_timeout_at = 0, None
    row.response_timeout_at = now + policy.response_timeout_ms if policy.response_timeout_ms > 0 else None


def extend_lease(row: Any, policy: TaskPolicy, now: int) -> None:
    """Start the response timeout of an attempt again, if it has one: there was a sign of life."""
    row.updated_at = now
    if row.response_timeout_at is not None:
        span = policy.response_timeout_ms  # 0 after a migration to a definition that has none
        row.response_timeout_at = now + span if span > 0 else None


def drop_response_timeout(row: Any) -> None:
    """Take the response timeout from an attempt that no worker holds."""
    row.response_timeout_at = None


def record_report(row: Any, report: Mapping[str, Any]) -> None:
    """Keep what a report says of an attempt: who made it, why, and what was raised."""
    row.reason, row.conductor_reason, row.traceback = report.get("reason") or None, None, report.get("traceback")
    row.worker_id = report.get("workerId") or row.worker_id
    row.error_types = tuple(report.get("errorTypes") or ())
    row.error_bases = tuple(report.get("errorBases") or ())


def release_attempt(row: Any, now: int) -> None:
    """Take an open attempt out of the hands of its worker."""
    row.lease, row.holder, row.response_timeout_at = 0, None, None
    row.updated_at = now


def drop_default_timeout(row: Any, policy: TaskPolicy) -> None:
    """Take the task timeout from an attempt that is to wait for a callback or for another caller's report, if it is a default."""
    if "TASK_TIMEOUT" in policy.default_ms:
        row.timeout_at = None


def end_attempt(row: Any, status: TaskStatus, reason: str | None, now: int, conductor_reason: str | None = None) -> None:
    """End an attempt: nobody holds it, and it has no deadlines any more. The second reason is in Conductor's words, if they differ.

    The instant that a WAIT waited for is kept: a retry of the execution waits for the same one.
    """
    row.status, row.reason, row.conductor_reason = status, reason, conductor_reason
    row.ended_at = row.updated_at = now
    row.lease, row.holder = 0, None
    row.total_timeout_at = row.timeout_at = row.poll_timeout_at = row.response_timeout_at = None


def cancel_attempt(row: Any, now: int) -> None:
    """End an open attempt because what is around it ends. The reason of its last report stays."""
    end_attempt(row, TaskStatus.CANCELED, row.reason, now, row.conductor_reason)


def reopen_attempt(row: Any, now: int, *, lease: int = 0) -> None:
    """Reopen an ended attempt as the row it is. What has followed from it is not done again."""
    row.succeeded_before = row.succeeded_before or row.executed
    row.status, row.executed, row.reason, row.conductor_reason = _IN_PROGRESS, False, None, None
    row.ended_at, row.updated_at, row.lease = 0, now, lease


def move_deadlines(row: Any, by: int) -> None:
    """Put off the deadlines that an attempt has."""
    for name in DEADLINES:
        at = getattr(row, name)
        if at is not None:
            setattr(row, name, at + by)


def move_instants(row: Any, by: int, *, wait: bool) -> None:
    """Put every instant of an attempt to what a clock would have read that goes by so much more; with `wait` the end of a WAIT."""
    for name in ("scheduled_at", "first_scheduled_at", "due_at", "started_at", "updated_at", "ended_at"):
        at = getattr(row, name)
        if at:
            setattr(row, name, at + by)
    move_deadlines(row, by)
    if wait and row.wait_until is not None:
        row.wait_until += by


def copy_attempt(row: Any, workflow: Workflow) -> None:
    """Make a row that was copied from another execution one of this execution; what is the other one's alone is not in it.

    An execution below stays named only where it ended well; one that is open begins again, so that a WAIT waits its whole length.
    """
    if not row.status.terminal:
        row.wait_until = None
    if not row.status.successful:
        row.sub_workflow_id = None
    row.task_id, row.emitted = attempt_id(workflow, row.ref, row.attempt, 0), ()
    row.retried_task_id = attempt_id(workflow, row.ref, row.attempt - 1, 0) if row.attempt else None


# ---------------------------------------------------------------------- executions


def move_workflow_instants(row: Any, by: int) -> None:
    """Put the instants of an execution to what a clock would have read that goes by so much more, but for its creation."""
    for name in ("started_at", "last_retried_at", "timeout_at"):
        at = getattr(row, name)
        if at:
            setattr(row, name, at + by)


def start_workflow(row: Any, now: int) -> None:
    """Begin an execution, unless it has begun before."""
    row.started_at = row.started_at or now


def end_workflow(row: Any, reason: str | None, now: int, conductor_reason: str | None = None) -> None:
    """End an execution; its status and its output are set by their own functions. The second reason is as of an attempt."""
    row.reason, row.conductor_reason, row.ended_at, row.compensating = reason, conductor_reason, now, None


def reopen_workflow(row: Any) -> None:
    """Take back what reported the end of an execution."""
    row.ended_at, row.output, row.reason, row.conductor_reason = 0, EMPTY, None, None
    row.failed_refs, row.failed_task_names, row.failed_task_id = (), (), None


def reset_workflow(row: Any) -> None:
    """Take an execution back to where nothing of it has begun."""
    row.started_at, row.timeout_at, row.skips = 0, None, 0
    row.compensating, row.permitted_failures = None, 0
