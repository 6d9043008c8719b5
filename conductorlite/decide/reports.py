"""The worker's side: a task is polled, reported on, its lease extended, given back.

Late, duplicate and stale events are distinguished here and nowhere else. An event about an attempt that is not the last one, or
has ended, or belongs to an ended workflow, is ignored; one that carries another lease than the task's is stale; one without a
lease is accepted while the attempt is open. Source of the rule: the ignored COMPLETED at 32 s of Conductor's task life cycle;
Conductor's `updateTask`.

A task that its holder gives back, or did not live to give back, is offered again as the same attempt: no retry is used up and no
delay counts. A slot that it has it keeps; where a rate limit counts begins, it waits for a place of the window once more. A task
that was held when its holder died is handed out alone from the second death on (`ALONE_AFTER`), so that no other task's fault is
taken for its own; when that kills its holder again, the attempt ends as by its response timeout.

What a deadline does when it passes: each is one event, so it fires once and never early. Poll, task and total timeouts follow the
task's `timeoutPolicy`; a response timeout always leads to the retry rules, because it means a dead worker (Conductor ignores the
policy there too). While the workflow is paused only its own timeout and the end of a WAIT take effect; the others are held until it
resumes. Poll, response and task timeouts that no definition sets count only time in which the store was driven: one that comes due
too early is dated again, and the journal records it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.changeset.events import counted
from conductorlite.decide.endings import fail_workflow
from conductorlite.decide.operators.do_while import with_rounds
from conductorlite.decide.operators.worker import ask_again, lane_of, offer, queue_again
from conductorlite.decide.reasons import in_seconds, response_timeout, total_timeout
from conductorlite.decide.transitions import (
    drop_default_timeout,
    drop_response_timeout,
    extend_lease,
    record_report,
    release_attempt,
    take_attempt,
)
from conductorlite.model.canonical import Payload
from conductorlite.model.decisions import TIMERS, Event, EventKind, Outcome
from conductorlite.model.definitions import TimeoutPolicy, WorkflowTimeoutPolicy
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import TIMED_OUT, HistoryKind, Task
from conductorlite.model.later import functions
from conductorlite.model.limits import NO_LIMIT, task_key
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node

if TYPE_CHECKING:
    from conductorlite.decide.streams import take_emitted
else:
    (take_emitted,) = functions("conductorlite.decide.streams", "take_emitted")

__all__ = [
    "ALONE_AFTER",
    "due_attempt",
    "held_attempt",
    "on_extend_lease",
    "on_give_back",
    "on_poll",
    "on_poll_timeout",
    "on_report",
    "on_response_timeout",
    "on_task_timeout",
    "on_total_timeout",
    "on_workflow_timeout",
    "take_report",
]

_STATUSES: Final = {str(status): status for status in TaskStatus}


def _recipients(changeset: Changeset, event: Event) -> Task | None:
    """The open attempt an event is about, or None when the event is void."""
    if event.ref is None or changeset.workflow.status.terminal:
        return None
    # A renaming begins a generation: only an event of an earlier one can be about an attempt of another name.
    named = event.kind is EventKind.POLL or event.generation == changeset.workflow.generation
    task = (changeset.rows.last.get(event.ref) or changeset.rows.task(event.ref)) if named else changeset.addressee(event)
    if task is None or task.status.terminal:
        return None
    return task if (task.attempt, task.generation) == (event.attempt, event.generation) else None


def on_poll(changeset: Changeset, event: Event) -> None:
    """Hand a SCHEDULED task to a worker under a new lease. A message that points at nothing is taken out of the queue."""
    if event.owner != changeset.workflow.owner:
        # The message was found before a take-over: it is in the new owner's queue now.
        changeset.reply(event, Outcome.IGNORED, "the execution is another engine's now")
        return
    task = _recipients(changeset, event)
    if task is None or task.status is not TaskStatus.SCHEDULED:
        # A later attempt that waits has the only message there can be under this reference: that one stays.
        latest = None if changeset.workflow.status.terminal or event.ref is None else changeset.rows.task(event.ref)
        if latest is None or latest.status is not TaskStatus.SCHEDULED:
            changeset.queues.drop(event.ref or "")
        changeset.reply(event, Outcome.IGNORED, "the attempt is not waiting for a worker any more")
        return
    if task.due_at > changeset.moment.now:
        changeset.reply(event, Outcome.IGNORED, "the task is not due yet")
        return
    said = changeset.documents.value(event.data) if event.stored else event.data.value
    if said.get("holder") and task.deaths >= ALONE_AFTER and not said.get("alone"):
        changeset.reply(event, Outcome.ALONE, "the workers that held it died, twice: it is handed out alone")
        return
    node = changeset.rows.node(task) if task.grafts else changeset.plan.nodes[task.base_ref]
    if node.limit is not NO_LIMIT or task.limit_key is not None:
        if not _may_begin(changeset, node, task):
            changeset.reply(event, Outcome.IGNORED, "it waits for its place in the window")
            return
        task = changeset.rows.known(task.ref)
    row, before = changeset.rows.opened(task)
    take_attempt(row, node.policy, said, changeset.events.next_number(), changeset.moment.now)
    if not node.limit.concurrent:
        row.limit_key = None
    changeset.settle(row, before)
    changeset.queues.remove(row)


def _may_begin(changeset: Changeset, node: Node, task: Task) -> bool:
    """Return True if the window of its limit has a place for a polled task: the one it was offered with, or another one.

    It has none when it was let in by a release that dated admissions, or has moved to another definition since. Then it asks, and
    is PENDING if it has to wait.
    """
    if task.limit_key is not None and not node.limit.concurrent and not node.limit.rate:
        changeset.limits.give_back(task.limit_key, [task.task_id], of=task.ref)
    if not node.limit.rate:
        return True
    key = task_key(node.task.name)
    changeset.events.cancel(f"{EventKind.OFFER_ENDS}:{task.ref}")
    if changeset.limits.begins(key, task.task_id, of=task.ref):
        return True
    row, before = changeset.rows.opened(task)
    row.poll_timeout_at = None
    if ask_again(changeset, node, row, before):
        return changeset.limits.begins(key, task.task_id, of=task.ref)
    changeset.queues.remove(task)
    return False


def on_report(changeset: Changeset, event: Event) -> None:
    """Take what a worker, or another caller, says of a task."""
    task = _recipients(changeset, event)
    if task is None:
        changeset.reply(event, Outcome.IGNORED, "the attempt has ended")
        return
    if changeset.workflow.rate_limited:
        changeset.reply(event, Outcome.CONFLICT, f"task {task.ref!r} has not begun: its execution waits for a slot")
        return
    result = changeset.documents.value(event.data) if event.stored else event.data.value
    lease = result.get("lease")
    if lease is not None and lease != task.lease:
        changeset.reply(event, Outcome.STALE, f"lease {lease} of task {task.ref!r} is not held any more")
        return
    take_report(changeset, task, result)


def take_report(changeset: Changeset, task: Task, result: Mapping[str, Any]) -> None:
    """Do what is reported on an open attempt."""
    if "emitted" in result:
        take_emitted(changeset, task, result["emitted"])
    node = changeset.rows.node(task) if task.grafts else changeset.plan.nodes[task.base_ref]
    status, reason = _STATUSES[result["status"]], result.get("reason") or None
    given = result.get("output") or {}
    output = Payload.of({**changeset.documents.value(task.output), **given} if result.get("merge") else given)
    check = node.output_check if status is TaskStatus.COMPLETED else None
    if status.terminal and check is None and not node.task.async_complete:
        changeset.close(task, status, output=output, reason=reason, report=result)
        return
    lost = changeset.documents.lost
    if changeset.documents.refusal("task_output", output) is not None:
        changeset.documents.lost = lost
    elif status is TaskStatus.COMPLETED and node.task.async_complete and _completes_later(node, result):
        _complete_later(changeset, task, result, output)
        return
    elif status is TaskStatus.IN_PROGRESS:
        _put_back(changeset, task, result, output)
        return
    else:
        broken = None if check is None else check.violation(changeset.documents.value(output))
        if broken is not None:
            status, reason = TaskStatus.FAILED_WITH_TERMINAL_ERROR, f"its output breaks outputSchema: {broken}"
    changeset.close(task, status, output=output, reason=reason, report=result)


def _completes_later(node: Node, result: Mapping[str, Any]) -> bool:
    """Return True if the worker only starts something that another caller will report on (`asyncComplete`).

    As in Conductor it has no meaning for SIMPLE tasks; the report that completes the task carries no lease.
    """
    return node.task.type != "SIMPLE" and result.get("lease") is not None


def _complete_later(changeset: Changeset, task: Task, result: Mapping[str, Any], output: Payload) -> None:
    """Keep the report of a worker that has done its part: it does not hold the task, and no sign of life is expected any more."""
    row, before = changeset.rows.opened(task)
    record_report(row, result)
    release_attempt(row, changeset.moment.now)
    drop_default_timeout(row, changeset.rows.node(task).policy)
    row.output = changeset.documents.keep(output)
    changeset.settle(row, before)
    _record_report(changeset, row, TaskStatus.COMPLETED)


def _put_back(changeset: Changeset, task: Task, result: Mapping[str, Any], output: Payload) -> None:
    """IN_PROGRESS: a worker's task goes back into its queue, offered again after the callback; an operator's just goes on."""
    node, status = changeset.rows.node(task), task.status
    row, before = changeset.rows.opened(task)
    record_report(row, result)
    row.output = changeset.documents.keep(output)
    if node.operator:
        extend_lease(row, node.policy, changeset.moment.now)
        changeset.settle(row, before)
    else:
        delay = row.callback_after_ms = int(result.get("callbackAfterMs") or 0)
        release_attempt(row, changeset.moment.now)
        if delay > 0:
            drop_default_timeout(row, node.policy)
        row.poll_timeout_at = None
        queue_again(changeset, node, row, before, delay)
    if row.status is status:
        _record_report(changeset, row, TaskStatus.IN_PROGRESS)


def _record_report(changeset: Changeset, task: Task, reported: TaskStatus) -> None:
    """A line for a report that changes no status: what it says may be read by others."""
    changeset.journal.add(
        HistoryKind.REPORT,
        reported,
        ref=task.ref,
        attempt=task.attempt,
        reason=task.reason,
        payload=changeset.documents.keep(task.output),
    )


def on_extend_lease(changeset: Changeset, event: Event) -> None:
    """A sign of life: the response timeout starts again, and what the call says that it has emitted is kept."""
    task = _recipients(changeset, event)
    if task is None or task.status is not TaskStatus.IN_PROGRESS:
        changeset.reply(event, Outcome.IGNORED, "the attempt is not in progress any more")
        return
    said = changeset.documents.value(event.data)
    lease = said.get("lease")
    if lease is not None and lease != task.lease:
        changeset.reply(event, Outcome.STALE, f"lease {lease} of task {task.ref!r} is not held any more")
        return
    row, before = changeset.rows.opened(task)
    extend_lease(row, changeset.rows.node(row).policy, changeset.moment.now)
    changeset.settle(row, before)
    if "emitted" in said:
        take_emitted(changeset, row, said["emitted"])


#: Deaths of its holders after which an attempt is handed out alone.
ALONE_AFTER: Final = 2

#: Why a task is given back, as the event says it, in words for the journal.
_WHY: Final = {
    "stopped": "given back: {} stopped before it was done",
    "died": "given back: the process of {} died",
    "silent": "given back: nothing was heard from the process of {} within its lease",
}

#: Those after which no worker gave it back.
_DEATHS: Final = frozenset({"died", "silent"})


def held_attempt(changeset: Changeset, event: Event) -> Task | None:
    """The attempt in the hands of the holder that an event names; None, with a reply, when it is not in those hands any more."""
    task = None if event.ref is None or changeset.workflow.status.terminal else changeset.addressee(event)
    if (
        task is None
        or task.status is not TaskStatus.IN_PROGRESS
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or changeset.documents.value(event.data).get("lease", task.lease) != task.lease
    ):
        changeset.reply(event, Outcome.IGNORED, "the attempt is not in those hands any more")
        return None
    return task


def on_give_back(changeset: Changeset, event: Event) -> None:
    """Offer an attempt again whose holder has it no longer, at its old place in the queue and under a lease to come."""
    task = held_attempt(changeset, event)
    if task is None:
        return
    why = changeset.documents.value(event.data).get("why")
    died = why in _DEATHS
    if died and task.deaths >= ALONE_AFTER:
        number = task.deaths + 1
        reason = f"its worker's process died {number} times, the last time while it ran alone"
        changeset.close(
            task, TaskStatus.TIMED_OUT, error_types=(TIMED_OUT,), reason=f"Task {task.name!r} ({task.ref}): {reason}", deaths=number
        )
        return
    text = _WHY.get(why, _WHY["stopped"]).format(f"worker {task.worker_id!r}" if task.worker_id else "its worker")
    node = changeset.rows.node(task)
    row, before = changeset.rows.opened(task)
    if row.emitted:
        changeset.emissions.drop_call(row)
    release_attempt(row, changeset.moment.now)
    row.deaths, row.poll_timeout_at = row.deaths + died, None
    if node.limit.rate:
        if not ask_again(changeset, node, row, before, reason=text):
            return
    else:
        row.status = TaskStatus.SCHEDULED
        changeset.settle(row, before, because=text)
    offer(changeset, node, row)


def due_attempt(changeset: Changeset, event: Event, deadline: str) -> Task | None:
    """The open attempt whose deadline has come; None when the event is void or has to wait."""
    task = changeset.rows.task(event.ref or "")
    if (
        task is None
        or changeset.workflow.status.terminal
        or task.status.terminal
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or getattr(task, deadline) is None
    ):
        changeset.reply(event, Outcome.IGNORED, "the deadline does not hold any more")
        return None
    if getattr(task, deadline) > changeset.moment.now:
        raise InvariantBroken(f"{event.kind} of task {task.ref!r} fires {getattr(task, deadline) - changeset.moment.now} ms early")
    if changeset.workflow.status is WorkflowStatus.PAUSED and event.kind is not EventKind.WAIT_ENDS:
        changeset.events.hold(event)
        return None
    return task


def _expired(changeset: Changeset, event: Event, deadline: str) -> Task | None:
    """The open attempt whose time is over; None when the event is void, has to wait, or is dated again.

    What no definition sets counts only time in which the store was driven: what is left of it is put off.
    """
    task = due_attempt(changeset, event, deadline)
    left = 0 if task is None or counted(event) is None else changeset.reader.left(event)
    if task is None or left <= 0:
        return task
    at = changeset.moment.now + left
    moved: dict[str, Any] = {deadline: at}
    task = changeset.put(task, **moved)
    changeset.events.shorten(event, left)
    name = deadline.removesuffix("_at")
    reason = f"it counts driven time, of which {_seconds(left)} are left"
    changeset.journal.add(HistoryKind.POSTPONED, name, ref=task.ref, attempt=task.attempt, number=left, reason=reason)
    return None


def on_poll_timeout(changeset: Changeset, event: Event) -> None:
    """No worker came for the task in time."""
    task = _expired(changeset, event, "poll_timeout_at")
    if task is not None and _waits_for_its_limit(changeset, task):
        changeset.put(task, poll_timeout_at=None)
    elif task is not None:
        limit = changeset.rows.node(task).policy.poll_timeout_ms
        _apply_policy(
            changeset, task, "poll_timeout_at", _timed_out(changeset, task, "poll_timeout_at", limit, "Task poll", "Poll timeout")
        )


def _waits_for_its_limit(changeset: Changeset, task: Task) -> bool:
    """Return True if a task that no worker took when it was offered is in its line again, because its queue was polled since."""
    key = task.limit_key
    return task.status is TaskStatus.PENDING and (
        key is None or not changeset.limits.is_unpolled(key, lane_of(changeset, task), of=task.ref)
    )


def on_task_timeout(changeset: Changeset, event: Event) -> None:
    """The attempt did not end in time, counted from its first poll."""
    task = _expired(changeset, event, "timeout_at")
    if task is not None and _waits_beyond_default(changeset, task):
        row, before = changeset.rows.opened(task)
        drop_default_timeout(row, changeset.rows.node(task).policy)
        changeset.settle(row, before)
    elif task is not None:
        limit = changeset.rows.node(task).policy.timeout_ms
        _apply_policy(changeset, task, "timeout_at", _timed_out(changeset, task, "timeout_at", limit, "Task", "Timeout"))


def _waits_beyond_default(changeset: Changeset, task: Task) -> bool:
    """True if no worker holds the task and a default that an earlier version has set would end its wait."""
    waits = task.callback_after_ms > 0 or (task.status is TaskStatus.IN_PROGRESS and not task.lease)
    node = changeset.rows.node(task)
    return waits and not node.operator and EventKind.TASK_TIMEOUT in node.policy.default_ms


def on_total_timeout(changeset: Changeset, event: Event) -> None:
    """All attempts together took too long, counted from the first scheduling."""
    task = due_attempt(changeset, event, "total_timeout_at")
    if task is not None:
        _apply_policy(changeset, task, "total_timeout_at", *total_timeout(changeset, task))


def on_response_timeout(changeset: Changeset, event: Event) -> None:
    """The worker gave no sign of life in time. What no worker holds has such a deadline from an earlier version: it is void."""
    task = _expired(changeset, event, "response_timeout_at")
    if task is not None and changeset.rows.node(task).operator:
        row, before = changeset.rows.opened(task)
        drop_response_timeout(row)
        changeset.settle(row, before)
    elif task is not None:
        is_default = EventKind.RESPONSE_TIMEOUT in changeset.rows.node(task).policy.default_ms
        reason, sentence = response_timeout(changeset, task, f" ({_default(changeset)})" if is_default else "")
        changeset.close(task, TaskStatus.TIMED_OUT, error_types=(TIMED_OUT,), reason=reason, conductor_reason=sentence)


def _seconds(span_ms: int) -> str:
    return f"{span_ms / 1000:g} s"


def _timed_out(changeset: Changeset, task: Task, deadline: str, limit_ms: int, what: str, which: str) -> str:
    """In Conductor's words, which people look for; a default is not called configured."""
    elapsed = (changeset.moment.now - getattr(task, deadline) + limit_ms) // 1000
    policy = changeset.rows.node(task).policy
    if TIMERS[deadline] in policy.default_ms:
        rule = f"{which} is {in_seconds(limit_ms)} seconds: {_default(changeset)}"
    else:
        rule = f"{which} configured as {in_seconds(limit_ms)} seconds"
    return f"{what} timed out after {elapsed} seconds. {rule}. Timeout policy configured to {policy.timeout_policy}"


def _default(changeset: Changeset) -> str:
    """Return the words that say whose default applies, for a timeout that no definition sets."""
    return f"the default of {changeset.workflow.semantics} semantics, as no definition sets it"


def _apply_policy(changeset: Changeset, task: Task, deadline: str, reason: str, conductor_reason: str | None = None) -> None:
    policy = changeset.rows.node(task).policy.timeout_policy
    if policy is TimeoutPolicy.ALERT_ONLY:
        passed: dict[str, Any] = {deadline: None}
        changeset.put(task, **passed)
        changeset.journal.add(HistoryKind.ALERT, deadline.removesuffix("_at"), ref=task.ref, attempt=task.attempt, reason=reason)
        return
    task = changeset.close(
        with_rounds(changeset, task),
        TaskStatus.TIMED_OUT,
        error_types=(TIMED_OUT,),
        reason=reason,
        conductor_reason=conductor_reason,
    )
    if policy is not TimeoutPolicy.RETRY:
        fail_workflow(changeset, WorkflowStatus.TIMED_OUT, reason, task, conductor_reason=conductor_reason)


def on_workflow_timeout(changeset: Changeset, event: Event) -> None:
    """The workflow took too long, counted from its start, its last resumption or its last retry."""
    at = changeset.workflow.timeout_at
    if changeset.workflow.status.terminal or at is None:
        changeset.reply(event, Outcome.IGNORED, "the deadline does not hold any more")
        return
    if at > changeset.moment.now:
        raise InvariantBroken(f"workflow timeout fires {at - changeset.moment.now} ms early")
    definition = changeset.plan.definition
    policy = definition.timeout_policy or WorkflowTimeoutPolicy.ALERT_ONLY
    elapsed = (changeset.moment.now - at + definition.timeout_ms) // 1000
    configured = f"Timeout configured as {in_seconds(definition.timeout_ms)} seconds. Timeout policy configured to {policy}"
    reason = f"Workflow timed out after {elapsed} seconds. {configured}"
    changeset.change(timeout_at=None)
    if policy is WorkflowTimeoutPolicy.TIME_OUT_WF:
        fail_workflow(changeset, WorkflowStatus.TIMED_OUT, reason, None)
    else:
        changeset.journal.add(HistoryKind.ALERT, "workflow_timeout", reason=reason)
