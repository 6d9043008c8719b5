"""What a deadline does when it passes.

Each deadline is one event, so it fires once and never early. Poll, task and total timeouts follow the task's `timeoutPolicy`; a
response timeout always leads to the retry rules, because it means a dead worker (Conductor ignores the policy there too).
While the workflow is paused only its own timeout and the end of a WAIT take effect; the others are held until it resumes.
Poll, response and task timeouts that no definition sets count only time in which the store was driven: one that comes due too early
is dated again, and the journal records it.
"""

from __future__ import annotations

from typing import Any

from conductorlite.decide.changeset.mailboxes import counted
from conductorlite.decide.changeset.rows import Changeset
from conductorlite.decide.endings import fail_workflow, in_seconds
from conductorlite.decide.operators.do_while import with_rounds
from conductorlite.decide.operators.worker import lane_of
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.definitions import TimeoutPolicy, WorkflowTimeoutPolicy
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import HistoryKind, Task
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = ["on_poll_timeout", "on_response_timeout", "on_task_timeout", "on_total_timeout", "on_wait_ends", "on_workflow_timeout"]


def _due(changeset: Changeset, event: Event, deadline: str) -> Task | None:
    """The open attempt whose deadline has come; None when the event is void or has to wait."""
    task = changeset.task(event.ref or "")
    if (
        task is None
        or changeset.workflow.status.terminal
        or task.status.terminal
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or getattr(task, deadline) is None
    ):
        changeset.reply(event, Outcome.IGNORED, "the deadline does not hold any more")
        return None
    if getattr(task, deadline) > changeset.now:
        raise InvariantBroken(f"{event.kind} of task {task.ref!r} fires {getattr(task, deadline) - changeset.now} ms early")
    if changeset.workflow.status is WorkflowStatus.PAUSED and event.kind is not EventKind.WAIT_ENDS:
        changeset.hold(event)
        return None
    return task


def _expired(changeset: Changeset, event: Event, deadline: str) -> Task | None:
    """The open attempt whose time is over; None when the event is void, has to wait, or is dated again.

    What no definition sets counts only time in which the store was driven: what is left of it is put off.
    """
    task = _due(changeset, event, deadline)
    left = 0 if task is None or counted(event) is None else changeset.reader.left(event)
    if task is None or left <= 0:
        return task
    at = changeset.now + left
    moved: dict[str, Any] = {deadline: at}
    task = changeset.put(task, **moved)
    changeset.set_timer(task, event.kind, at, default_ms=left)
    name = deadline.removesuffix("_at")
    reason = f"it counts driven time, of which {_seconds(left)} are left"
    changeset.journal(HistoryKind.POSTPONED, name, ref=task.ref, attempt=task.attempt, number=left, reason=reason)
    return None


def on_wait_ends(changeset: Changeset, event: Event) -> None:
    """A WAIT is over."""
    task = _due(changeset, event, "wait_until")
    if task is not None:
        # What was signalled to it while it waited is its output.
        changeset.close(task, TaskStatus.COMPLETED)


def on_poll_timeout(changeset: Changeset, event: Event) -> None:
    """No worker came for the task in time."""
    task = _expired(changeset, event, "poll_timeout_at")
    if task is not None and _waits_for_its_limit(changeset, task):
        changeset.put(task, poll_timeout_at=None)
    elif task is not None:
        limit = changeset.node(task).policy.poll_timeout_ms
        _apply_policy(
            changeset, task, "poll_timeout_at", _timed_out(changeset, task, "poll_timeout_at", limit, "Task poll", "Poll timeout")
        )


def _waits_for_its_limit(changeset: Changeset, task: Task) -> bool:
    """Whether a task that no worker took when it was offered is in its line again, because its queue was polled since."""
    key = task.limit_key
    return task.status is TaskStatus.PENDING and (
        key is None or not changeset.is_unpolled(key, lane_of(changeset, task), of=task.ref)
    )


def on_task_timeout(changeset: Changeset, event: Event) -> None:
    """The attempt did not end in time, counted from its first poll."""
    task = _expired(changeset, event, "timeout_at")
    if task is not None:
        limit = changeset.node(task).policy.timeout_ms
        _apply_policy(changeset, task, "timeout_at", _timed_out(changeset, task, "timeout_at", limit, "Task", "Timeout"))


def on_total_timeout(changeset: Changeset, event: Event) -> None:
    """All attempts together took too long, counted from the first scheduling."""
    task = _due(changeset, event, "total_timeout_at")
    if task is not None:
        policy = changeset.node(task).policy
        text = (
            f"Task {task.name}/{task.task_id} exceeded total timeout of {in_seconds(policy.total_timeout_ms)} seconds "
            f"(elapsed {(changeset.now - task.first_scheduled_at) // 1000} seconds across all attempts including retry delays). "
            f"Timeout policy: {policy.timeout_policy}"
        )
        _apply_policy(changeset, task, "total_timeout_at", text)


def on_response_timeout(changeset: Changeset, event: Event) -> None:
    """The worker gave no sign of life in time. What no worker holds has such a deadline from an earlier version: it is void."""
    task = _expired(changeset, event, "response_timeout_at")
    if task is not None and changeset.node(task).operator:
        changeset.put(task, response_timeout_at=None)
    elif task is not None:
        limit = in_seconds(changeset.node(task).policy.response_timeout_ms)
        text = f"responseTimeout: {limit} exceeded for the taskId: {task.task_id} with Task Definition: {task.name}"
        changeset.close(task, TaskStatus.TIMED_OUT, reason=text)


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1000:g} s"


def _timed_out(changeset: Changeset, task: Task, deadline: str, limit_ms: int, what: str, which: str) -> str:
    """In Conductor's words, which people look for."""
    elapsed = (changeset.now - getattr(task, deadline) + limit_ms) // 1000
    policy = changeset.node(task).policy.timeout_policy
    configured = f"{which} configured as {in_seconds(limit_ms)} seconds. Timeout policy configured to {policy}"
    return f"{what} timed out after {elapsed} seconds. {configured}"


def _apply_policy(changeset: Changeset, task: Task, deadline: str, reason: str) -> None:
    policy = changeset.node(task).policy.timeout_policy
    if policy is TimeoutPolicy.ALERT_ONLY:
        passed: dict[str, Any] = {deadline: None}
        changeset.put(task, **passed)
        changeset.journal(HistoryKind.ALERT, deadline.removesuffix("_at"), ref=task.ref, attempt=task.attempt, reason=reason)
        return
    task = changeset.close(with_rounds(changeset, task), TaskStatus.TIMED_OUT, reason=reason)
    if policy is not TimeoutPolicy.RETRY:
        fail_workflow(changeset, WorkflowStatus.TIMED_OUT, reason, task)


def on_workflow_timeout(changeset: Changeset, event: Event) -> None:
    """The workflow took too long, counted from its start, its last resumption or its last retry."""
    at = changeset.workflow.timeout_at
    if changeset.workflow.status.terminal or at is None:
        changeset.reply(event, Outcome.IGNORED, "the deadline does not hold any more")
        return
    if at > changeset.now:
        raise InvariantBroken(f"workflow timeout fires {at - changeset.now} ms early")
    definition = changeset.plan.definition
    policy = definition.timeout_policy or WorkflowTimeoutPolicy.ALERT_ONLY
    elapsed = (changeset.now - at + definition.timeout_ms) // 1000
    configured = f"Timeout configured as {in_seconds(definition.timeout_ms)} seconds. Timeout policy configured to {policy}"
    reason = f"Workflow timed out after {elapsed} seconds. {configured}"
    changeset.change(timeout_at=None)
    if policy is WorkflowTimeoutPolicy.TIME_OUT_WF:
        fail_workflow(changeset, WorkflowStatus.TIMED_OUT, reason, None)
    else:
        changeset.journal(HistoryKind.ALERT, "workflow_timeout", reason=reason)
