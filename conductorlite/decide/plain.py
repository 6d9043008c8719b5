"""The short way: what mostly happens to a plain task, written out.

A task is plain when its definition asks for nothing special (`Node.plain`, found out when it is compiled). That it is scheduled,
polled, and completed or tried again is most of what ever happens, and the general way through the changeset takes hundreds of calls
for it. What is done here is what that way would do, field by field and in its order. Whatever is not as it mostly is, is left to
it: each function says whether it has done the work, and has changed nothing when it has not. tests/oracle/test_plain.py compares.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

from conductorlite.decide.changeset.rows import Changeset, attempt_id
from conductorlite.decide.changeset.view import SMALL
from conductorlite.decide.operators.document import ExpressionContext
from conductorlite.model.attrs import copied, new
from conductorlite.model.canonical import Payload, encoded
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import HistoryEvent, HistoryKind, Task, Workflow, printed_ref
from conductorlite.model.policies import jitter, retry_delay
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node

__all__ = ["blank", "delay_after", "journalled", "polled", "polled_by", "reported", "reported_with", "scheduled", "usual"]

#: What a report ends a task with, mostly.
_ENDS: Final = {str(one): one for one in (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.FAILED_WITH_TERMINAL_ERROR)}

#: What is asked for in each step: Python finds a global faster than a member of an enumeration.
_SCHEDULED, _IN_PROGRESS, _COMPLETED = TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED
_POLL_TIMEOUT, _TASK_TIMEOUT, _RESPONSE_TIMEOUT = EventKind.POLL_TIMEOUT, EventKind.TASK_TIMEOUT, EventKind.RESPONSE_TIMEOUT
_RUNNING, _TASK, _DONE = WorkflowStatus.RUNNING, HistoryKind.TASK, Outcome.DONE


@cache
def blank() -> Task:
    """A task of which nothing is known: a copy is made faster than a row of that many fields."""
    return Task(workflow_id="", ref="", base_ref="", task_id="", task_type="", name="", status=TaskStatus.SCHEDULED)


@lru_cache(maxsize=256)
def polled_by(worker: str | None) -> str:
    """What a line of the journal says of a poll."""
    return encoded({"kind": str(EventKind.POLL), **({"worker": worker} if worker else {})})


@lru_cache(maxsize=256, typed=True)
def reported_with(worker: str | None, callback: int | None, errors: tuple[str, ...]) -> str:
    """What a line of the journal says of a report."""
    said = {"worker": worker, "callback": callback, "errors": errors}
    return encoded({"kind": str(EventKind.REPORT), **{name: value for name, value in said.items() if value}})


def usual(changeset: Changeset) -> bool:
    """Whether neither the execution nor the turn is in an unusual state."""
    workflow = changeset.workflow
    return not (
        workflow.status is not _RUNNING
        or workflow.rate_limited
        or workflow.skips
        or changeset.clock != changeset.now
        or changeset.plan.limited
        or changeset.reopening
        or changeset.given
        or changeset.lost is not None
        or not changeset.counting
    )


def journalled(changeset: Changeset, task: Task, payload: Payload | None, cause: str | None) -> None:
    """A line of the journal on the status that a task has now."""
    number = changeset.history_seq = changeset.history_seq + 1
    line = new[HistoryEvent](
        n=number,
        at=changeset.now,
        kind=_TASK,
        status=task.status,
        ref=task.ref,
        attempt=task.attempt,
        reason=task.reason if task.status.terminal else None,
        payload=payload,
        cause=cause,
    )
    changeset.history.append(line)


def reported(changeset: Changeset, event: Event) -> Task | None:
    """The plain task that its worker's report has ended; what follows from that is the caller's. None: nothing is done."""
    data, ref = event.data, event.ref
    if event.sender or ref is None or (event.stored and data.text is None) or changeset.cause or not usual(changeset):
        return None
    said = data.value
    task = changeset.task(ref)
    if (
        task is None
        or task.status is not _IN_PROGRESS
        or task.grafts
        or task.limit_key is not None
        or task.sub_workflow_id is not None
        or task.succeeded_before
        or not (event.attempt == task.attempt and event.generation == task.generation == changeset.workflow.generation)
        or said.get("lease", task.lease) != task.lease
        or said["status"] not in _ENDS
        or said.get("merge")
    ):
        return None
    status, node = _ENDS[said["status"]], changeset.plan.nodes[task.base_ref]
    if not node.plain or (node.output_check is not None and status is _COMPLETED):
        return None
    output = Payload.of(said.get("output") or {})
    if output.text is None or (len(output.text) > SMALL and changeset.bounds.barriers.refusal("task_output", output) is not None):
        return None
    row = changeset.last.get(ref)
    if row is None:
        row = changeset.updated[ref, task.attempt] = changeset.last[ref] = copied[Task](task)
    _close(changeset, row, status, output, said)
    changeset.reply(event, _DONE)
    return row


def _close(changeset: Changeset, row: Any, status: TaskStatus, output: Payload, said: dict[str, Any]) -> None:
    if row.timeout_at is not None or row.response_timeout_at is not None or row.total_timeout_at is not None:
        changeset.drop_timers(row)
    worker, errors = said.get("workerId"), said.get("errorTypes")
    row.status, row.reason = status, said.get("reason") or None
    row.ended_at = row.updated_at = changeset.now
    row.lease, row.holder = 0, None
    row.output = changeset.keep(output) if output.large else output
    row.worker_id, row.traceback = worker or row.worker_id, said.get("traceback")
    row.error_types = tuple(errors) if errors else ()
    journalled(changeset, row, output, reported_with(worker, said.get("callbackAfterMs"), row.error_types))


def delay_after(workflow: Workflow, node: Node, task: Task) -> int:
    """How long the attempt after one that has failed is delayed, ms."""
    delay = retry_delay(node.policy, task.attempt - task.first_attempt, workflow.semantics)
    if node.policy.backoff_jitter_ms:
        delay += jitter(node.policy, workflow.seed, task.workflow_id, task.ref, task.attempt, task.generation)
    return delay


def scheduled(changeset: Changeset, node: Node, place: tuple[int, ...], previous: Task | None = None, delay_ms: int = 0) -> bool:
    """Schedule the first attempt at a plain node and offer it at once, or the one after `previous`, offered `delay_ms` from now."""
    workflow = changeset.workflow
    if workflow.task_to_domain.text != "{}" or not usual(changeset) or "used" in changeset.cause:
        return False
    ref = printed_ref(node.ref, place) if place else node.ref
    attempt = 0 if previous is None else previous.attempt + 1
    task_id = attempt_id(workflow, ref, attempt, workflow.generation)
    changeset.strict = True
    try:
        values = node.template.render(ExpressionContext(changeset, node.template.reads, task_id))
        if previous is not None and previous.input.text != "{}":
            values = {**changeset.value(previous.input), **values}
        given = Payload.of(values)
    except InvalidInput:
        return False
    finally:
        changeset.strict = False
    if given.text is None or (len(given.text) > SMALL and changeset.bounds.barriers.refusal("task_input", given) is not None):
        return False
    now, policy = changeset.now, node.policy
    task: Any = copied[Task](blank())
    task.workflow_id, task.ref, task.base_ref, task.task_id = workflow.workflow_id, ref, node.ref, task_id
    task.task_type, task.name, task.iterations = node.task_type, node.task.name, place
    if previous is not None:
        row: Any = changeset.own(previous)
        row.retried = True
        changeset.count(row, -1)
        task.attempt, task.first_attempt, task.domain = attempt, previous.first_attempt, previous.domain
        task.retried_task_id, task.succeeded_before = previous.task_id, previous.executed or previous.succeeded_before
    task.generation, task.seq = workflow.generation, changeset.next_place(ref)
    task.input = changeset.keep(given) if given.large else given
    task.scheduled_at = task.updated_at = now
    task.first_scheduled_at = now if previous is None else previous.first_scheduled_at
    task.due_at, task.start_delay_ms = now + delay_ms, delay_ms
    if policy.poll_timeout_ms > 0:
        task.poll_timeout_at = task.due_at + policy.poll_timeout_ms
    changeset.inserted[ref, attempt] = changeset.last[ref] = task
    changeset.newest[node.ref] = ref
    cause, changeset.cause = changeset.cause, {}
    journalled(changeset, task, given, encoded(cause) if cause else None)
    changeset.count(task, 1)
    if task.poll_timeout_at is not None:
        default = policy.defaults.get("poll_timeout_ms", 0)
        changeset.set_timer(task, _POLL_TIMEOUT, task.poll_timeout_at, default_ms=default)
    changeset.offer(task)
    return True


def polled(changeset: Changeset, event: Event) -> bool:
    """Hand an offered task to the worker that has polled for it."""
    workflow, ref = changeset.workflow, event.ref
    if ref is None or event.owner != workflow.owner or changeset.cause or not usual(changeset):
        return False
    task = changeset.task(ref)
    if (
        task is None
        or task.status is not _SCHEDULED
        or task.grafts
        or task.deaths
        or task.limit_key is not None
        or task.due_at > changeset.now
        or not (event.attempt == task.attempt and event.generation == task.generation)
        or event.data.text is None
    ):
        return False
    said, policy, now = event.data.value, changeset.plan.nodes[task.base_ref].policy, changeset.now
    row: Any = changeset.last.get(ref)
    if row is None:
        row = changeset.updated[ref, task.attempt] = changeset.last[ref] = copied[Task](task)
    if row.poll_timeout_at is not None:
        changeset.cancel_timer(f"POLL_TIMEOUT:{ref}")
    starts = row.timeout_at is None and policy.timeout_ms > 0 and not row.started_at
    row.status, row.poll_count = _IN_PROGRESS, row.poll_count + 1
    row.worker_id, row.holder = said.get("workerId"), said.get("holder")
    row.lease = changeset.next_number()
    row.started_at, row.updated_at = row.started_at or now, now
    row.callback_after_ms, row.poll_timeout_at = 0, None
    row.response_timeout_at = now + policy.response_timeout_ms if policy.response_timeout_ms > 0 else None
    journalled(changeset, row, None, polled_by(row.worker_id))
    changeset.remove_message(row)
    if starts:
        row.timeout_at = row.started_at + policy.timeout_ms
        changeset.set_timer(row, _TASK_TIMEOUT, row.timeout_at, default_ms=policy.defaults.get("timeout_ms", 0))
    if row.response_timeout_at is not None:
        length = policy.defaults.get("response_timeout_ms", 0)
        changeset.set_timer(row, _RESPONSE_TIMEOUT, row.response_timeout_at, default_ms=length)
    changeset.reply(event, _DONE)
    return True
