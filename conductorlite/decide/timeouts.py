"""What a deadline does when it passes.

Each deadline is one event, so it fires once and never early. Poll, task and total timeouts follow the task's `timeoutPolicy`; a
response timeout always leads to the retry rules, because it means a dead worker (Conductor ignores the policy there too).
While the workflow is paused only its own timeout and the end of a WAIT take effect; the others are held until it resumes.
Poll, response and task timeouts that no definition sets count only time in which the store was driven: one that comes due too early
is dated again, and the journal records it.
"""

from __future__ import annotations

from typing import Any

import attrs

from conductorlite.decide.draft.mailboxes import counted
from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.endings import fail_workflow, in_seconds
from conductorlite.decide.operators.do_while import with_rounds
from conductorlite.decide.operators.worker import lane_of
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.definitions import TimeoutPolicy, WorkflowTimeoutPolicy
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import HistoryKind, Task
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = ["on_poll_timeout", "on_response_timeout", "on_task_timeout", "on_total_timeout", "on_wait_ends", "on_workflow_timeout"]


def _due(draft: Draft, event: Event, deadline: str) -> Task | None:
    """The open attempt whose deadline has come; None when the event is void or has to wait."""
    task = draft.task(event.ref or "")
    if (
        task is None
        or draft.status.terminal
        or task.status.terminal
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or getattr(task, deadline) is None
    ):
        draft.reply(event, Outcome.IGNORED, "the deadline does not hold any more")
        return None
    if getattr(task, deadline) > draft.now:
        raise InvariantBroken(f"{event.kind} of task {task.ref!r} fires {getattr(task, deadline) - draft.now} ms early")
    if draft.status is WorkflowStatus.PAUSED and event.kind is not EventKind.WAIT_ENDS:
        draft.hold(event)
        return None
    return task


def _expired(draft: Draft, event: Event, deadline: str) -> Task | None:
    """The open attempt whose time is over; None when the event is void, has to wait, or is dated again.

    What no definition sets counts only time in which the store was driven: what is left of it is put off.
    """
    task = _due(draft, event, deadline)
    left = 0 if task is None or counted(event) is None else draft.reader.left(event)
    if task is None or left <= 0:
        return task
    at = draft.now + left
    moved: dict[str, Any] = {deadline: at}
    task = draft.put(attrs.evolve(task, **moved))
    draft.set_timer(task, event.kind, at, default_ms=left)
    name = deadline.removesuffix("_at")
    reason = f"it counts driven time, of which {_seconds(left)} are left"
    draft.journal(HistoryKind.POSTPONED, name, ref=task.ref, attempt=task.attempt, number=left, reason=reason)
    return None


def on_wait_ends(draft: Draft, event: Event) -> None:
    """A WAIT is over."""
    task = _due(draft, event, "wait_until")
    if task is not None:
        # What was signalled to it while it waited is its output.
        draft.close(task, TaskStatus.COMPLETED)


def on_poll_timeout(draft: Draft, event: Event) -> None:
    """No worker came for the task in time."""
    task = _expired(draft, event, "poll_timeout_at")
    if task is not None and _waits_for_its_limit(draft, task):
        draft.put(attrs.evolve(task, poll_timeout_at=None))
    elif task is not None:
        limit = draft.node(task).policy.poll_timeout_ms
        _apply_policy(
            draft, task, "poll_timeout_at", _timed_out(draft, task, "poll_timeout_at", limit, "Task poll", "Poll timeout")
        )


def _waits_for_its_limit(draft: Draft, task: Task) -> bool:
    """Whether a task that no worker took when it was offered is in its line again, because its queue was polled since."""
    key = task.limit_key
    return task.status is TaskStatus.PENDING and (key is None or not draft.is_unpolled(key, lane_of(draft, task), of=task.ref))


def on_task_timeout(draft: Draft, event: Event) -> None:
    """The attempt did not end in time, counted from its first poll."""
    task = _expired(draft, event, "timeout_at")
    if task is not None:
        limit = draft.node(task).policy.timeout_ms
        _apply_policy(draft, task, "timeout_at", _timed_out(draft, task, "timeout_at", limit, "Task", "Timeout"))


def on_total_timeout(draft: Draft, event: Event) -> None:
    """All attempts together took too long, counted from the first scheduling."""
    task = _due(draft, event, "total_timeout_at")
    if task is not None:
        policy = draft.node(task).policy
        text = (
            f"Task {task.name}/{task.task_id} exceeded total timeout of {in_seconds(policy.total_timeout_ms)} seconds "
            f"(elapsed {(draft.now - task.first_scheduled_at) // 1000} seconds across all attempts including retry delays). "
            f"Timeout policy: {policy.timeout_policy}"
        )
        _apply_policy(draft, task, "total_timeout_at", text)


def on_response_timeout(draft: Draft, event: Event) -> None:
    """The worker gave no sign of life in time. What no worker holds has such a deadline from an earlier version: it is void."""
    task = _expired(draft, event, "response_timeout_at")
    if task is not None and draft.node(task).operator:
        draft.put(attrs.evolve(task, response_timeout_at=None))
    elif task is not None:
        limit = in_seconds(draft.node(task).policy.response_timeout_ms)
        text = f"responseTimeout: {limit} exceeded for the taskId: {task.task_id} with Task Definition: {task.name}"
        draft.close(task, TaskStatus.TIMED_OUT, reason=text)


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1000:g} s"


def _timed_out(draft: Draft, task: Task, deadline: str, limit_ms: int, what: str, which: str) -> str:
    """In Conductor's words, which people look for."""
    elapsed = (draft.now - getattr(task, deadline) + limit_ms) // 1000
    policy = draft.node(task).policy.timeout_policy
    configured = f"{which} configured as {in_seconds(limit_ms)} seconds. Timeout policy configured to {policy}"
    return f"{what} timed out after {elapsed} seconds. {configured}"


def _apply_policy(draft: Draft, task: Task, deadline: str, reason: str) -> None:
    policy = draft.node(task).policy.timeout_policy
    if policy is TimeoutPolicy.ALERT_ONLY:
        passed: dict[str, Any] = {deadline: None}
        draft.put(attrs.evolve(task, **passed))
        draft.journal(HistoryKind.ALERT, deadline.removesuffix("_at"), ref=task.ref, attempt=task.attempt, reason=reason)
        return
    task = draft.close(with_rounds(draft, task), TaskStatus.TIMED_OUT, reason=reason)
    if policy is not TimeoutPolicy.RETRY:
        fail_workflow(draft, WorkflowStatus.TIMED_OUT, reason, task)


def on_workflow_timeout(draft: Draft, event: Event) -> None:
    """The workflow took too long, counted from its start, its last resumption or its last retry."""
    at = draft.field("timeout_at")
    if draft.status.terminal or at is None:
        draft.reply(event, Outcome.IGNORED, "the deadline does not hold any more")
        return
    if at > draft.now:
        raise InvariantBroken(f"workflow timeout fires {at - draft.now} ms early")
    definition = draft.plan.definition
    policy = definition.timeout_policy or WorkflowTimeoutPolicy.ALERT_ONLY
    elapsed = (draft.now - at + definition.timeout_ms) // 1000
    configured = f"Timeout configured as {in_seconds(definition.timeout_ms)} seconds. Timeout policy configured to {policy}"
    reason = f"Workflow timed out after {elapsed} seconds. {configured}"
    draft.change(timeout_at=None)
    if policy is WorkflowTimeoutPolicy.TIME_OUT_WF:
        fail_workflow(draft, WorkflowStatus.TIMED_OUT, reason, None)
    else:
        draft.journal(HistoryKind.ALERT, "workflow_timeout", reason=reason)
