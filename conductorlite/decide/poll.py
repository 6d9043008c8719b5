"""The poll: an offered task is handed to a worker, and nothing else happens in the turn.

With many executions at once this is every other turn, so it is written out as a whole: the Decision is made of the two rows that
change, without a changeset. What is decided is what the general way would decide, field by field and in its order; whatever is not
as it mostly is, is left to that way. tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from typing import Any

from conductorlite.decide.changeset.mailboxes import REPLIES, timer_event
from conductorlite.decide.plain import polled_by
from conductorlite.decide.step import Rows
from conductorlite.model.attrs import copied, new
from conductorlite.model.decisions import Decision, Event, EventKind, Outcome, Outgoing
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Plan

__all__ = ["poll", "take_row"]

#: What is asked for in each turn: Python finds a global faster than a member of an enumeration.
_SCHEDULED, _IN_PROGRESS, _RUNNING = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, WorkflowStatus.RUNNING
_TASK_TIMEOUT, _RESPONSE_TIMEOUT = EventKind.TASK_TIMEOUT, EventKind.RESPONSE_TIMEOUT
_TASK, _DONE = HistoryKind.TASK, REPLIES[Outcome.DONE]


def poll(plan: Plan, reader: Rows, event: Event, now: int) -> Decision | None:
    """The decision of such a turn; None for any other."""
    row, ref = reader.workflow, event.ref
    if (
        ref is None
        or event.sender
        or event.stored
        or event.posted_at > now
        or event.data.text is None
        or event.owner != row.owner
        or plan.limited
        or row.updated_at > now
        or row.status is not _RUNNING
        or row.rate_limited
        or row.skips
        or row.history_seq == 0
    ):
        return None
    task = reader.task(ref)
    if (
        task is None
        or task.status is not _SCHEDULED
        or task.grafts
        or task.deaths
        or task.limit_key is not None
        or task.due_at > now
        or event.attempt != task.attempt
        or event.generation != task.generation
    ):
        return None
    workflow: Any = copied[Workflow](row)
    taken: Any = copied[Task](task)
    timers = take_row(plan, workflow, taken, event, now)
    workflow.history_seq = number = row.history_seq + 1
    workflow.updated_at, workflow.broken_turns, workflow.parked = now, 0, None
    taken.__class__, workflow.__class__ = Task, Workflow
    said = new[HistoryEvent](
        n=number,
        at=now,
        kind=_TASK,
        status=_IN_PROGRESS,
        ref=ref,
        attempt=task.attempt,
        reason=None,
        payload=None,
        cause=polled_by(taken.worker_id),
    )
    return new[Decision](
        workflow=workflow,
        updated=(taken,),
        history=(said,),
        cancelled=() if task.poll_timeout_at is None else (f"POLL_TIMEOUT:{ref}",),
        timers=timers,
        released_at=now,
        outgoing=new[Outgoing](removed=((row.workflow_id, ref),)),
        replies={event.event_id: _DONE},
    )


def take_row(plan: Plan, workflow: Any, row: Any, event: Event, now: int) -> tuple[Event, ...]:
    """Write into a row, which can be written still, that it is in its worker's hands; the timers that are set for it."""
    said, policy, ref, before = event.data.value, plan.nodes[row.base_ref].policy, row.ref, row.started_at
    row.status, row.poll_count = _IN_PROGRESS, row.poll_count + 1
    row.worker_id, row.holder = said.get("workerId"), said.get("holder")
    row.lease = workflow.sequence = workflow.sequence + 1
    row.started_at, row.updated_at = before or now, now
    row.callback_after_ms, row.poll_timeout_at = 0, None
    timers: list[Event] = []
    if row.timeout_at is None and policy.timeout_ms > 0 and not before:
        row.timeout_at = row.started_at + policy.timeout_ms
        workflow.sequence = number = workflow.sequence + 1
        default = policy.defaults.get("timeout_ms", 0)
        timer = (ref, row.attempt, row.generation, _TASK_TIMEOUT, row.timeout_at, default, number, now)
        timers.append(timer_event(workflow, f"TASK_TIMEOUT:{ref}", timer))
    row.response_timeout_at = None
    if policy.response_timeout_ms > 0:
        row.response_timeout_at = now + policy.response_timeout_ms
        workflow.sequence = number = workflow.sequence + 1
        default = policy.defaults.get("response_timeout_ms", 0)
        timer = (ref, row.attempt, row.generation, _RESPONSE_TIMEOUT, row.response_timeout_at, default, number, now)
        timers.append(timer_event(workflow, f"RESPONSE_TIMEOUT:{ref}", timer))
    return tuple(timers)
