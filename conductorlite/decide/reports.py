"""The worker's side: a task is polled, reported on, its lease extended, given back.

Late, duplicate and stale events are distinguished here and nowhere else. An event about an attempt that is not the last one, or
has ended, or belongs to an ended workflow, is ignored; one that carries another lease than the task's is stale; one without a
lease is accepted while the attempt is open. Source of the rule: the ignored COMPLETED at 32 s of Conductor's task life cycle;
Conductor's `updateTask`.

A task that its holder gives back, or did not live to give back, is offered again as the same attempt: no retry is used up and no
delay counts. A slot that it has it keeps; where a rate limit counts begins, it waits for a place of the window once more. A task
that was held when its holder died is handed out alone from the second death on (`ALONE_AFTER`), so that no other task's fault is
taken for its own; when that kills its holder again, the attempt ends as by its response timeout.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.worker import ask_again, offer, queue_again
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, Task, changed
from conductorlite.model.limits import task_key
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["ALONE_AFTER", "on_extend_lease", "on_give_back", "on_poll", "on_report"]


def _addressed(draft: Draft, event: Event) -> Task | None:
    """The open attempt an event is about, or None when the event is void."""
    if event.ref is None or draft.status.terminal:
        return None
    task = draft.task(event.ref) if event.kind is EventKind.POLL else draft.addressee(event)
    if task is None or task.status.terminal:
        return None
    return task if (task.attempt, task.generation) == (event.attempt, event.generation) else None


def on_poll(draft: Draft, event: Event) -> None:
    """Hand a SCHEDULED task to a worker under a new lease. A message that points at nothing is taken out of the queue."""
    if event.owner != draft.workflow.owner:
        # The message was found before a take-over: it is in the new owner's queue now.
        draft.reply(event, Outcome.IGNORED, "the execution is another engine's now")
        return
    task = _addressed(draft, event)
    if task is None or task.status is not TaskStatus.SCHEDULED:
        # A later attempt that waits has the only message there can be under this reference: that one stays.
        latest = None if draft.status.terminal or event.ref is None else draft.task(event.ref)
        if latest is None or latest.status is not TaskStatus.SCHEDULED:
            draft.drop_message(event.ref or "")
        draft.reply(event, Outcome.IGNORED, "the attempt is not waiting for a worker any more")
        return
    if task.due_at > draft.now:
        draft.reply(event, Outcome.IGNORED, "the task is not due yet")
        return
    said = draft.value(event.data)
    if said.get("holder") and task.deaths >= ALONE_AFTER and not said.get("alone"):
        draft.reply(event, Outcome.ALONE, "the workers that held it died, twice: it is handed out alone")
        return
    node = draft.node(task)
    if not _may_begin(draft, node, task):
        draft.reply(event, Outcome.IGNORED, "it waits for its place in the window")
        return
    task = draft.known(task.ref)
    policy = node.policy
    if task.poll_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.POLL_TIMEOUT}:{task.ref}")
    started = task.started_at or draft.now
    timeout_at = task.timeout_at
    if timeout_at is None and policy.timeout_ms > 0 and not task.started_at:
        timeout_at = started + policy.timeout_ms
    polled = draft.put(
        changed(
            task,
            status=TaskStatus.IN_PROGRESS,
            worker_id=said.get("workerId"),
            limit_key=task.limit_key if node.limit.concurrent else None,
            lease=draft.next_number(),
            holder=said.get("holder"),
            poll_count=task.poll_count + 1,
            started_at=started,
            updated_at=draft.now,
            callback_after_ms=0,
            poll_timeout_at=None,
            timeout_at=timeout_at,
            response_timeout_at=draft.now + policy.response_timeout_ms if policy.response_timeout_ms > 0 else None,
        )
    )
    draft.remove_message(task)
    # Due at one instant, the timer set first fires first: the task's timeout comes before the response's, as in Conductor.
    if timeout_at is not None and task.timeout_at is None:
        draft.set_timer(polled, EventKind.TASK_TIMEOUT, timeout_at, default_ms=policy.default_ms("timeout_ms"))
    if polled.response_timeout_at is not None:
        length = policy.default_ms("response_timeout_ms")
        draft.set_timer(polled, EventKind.RESPONSE_TIMEOUT, polled.response_timeout_at, default_ms=length)


def _may_begin(draft: Draft, node: Node, task: Task) -> bool:
    """Whether the window of its limit has a place for a task that is polled: the one it was offered with, or another one.

    It has none when it was let in by a release that dated admissions, or has moved to another definition since. Then it asks, and
    is PENDING if it has to wait.
    """
    if task.limit_key is not None and not node.limit.concurrent and not node.limit.rate:
        draft.give_back(task.limit_key, [task.task_id], of=task.ref)
    if not node.limit.rate:
        return True
    key = task_key(node.task.name)
    draft.cancel_timer(f"{EventKind.OFFER_ENDS}:{task.ref}")
    if draft.begins(key, task.task_id, of=task.ref):
        return True
    if task.poll_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.POLL_TIMEOUT}:{task.ref}")
    if ask_again(draft, node, attrs.evolve(task, poll_timeout_at=None)):
        return draft.begins(key, task.task_id, of=task.ref)
    draft.remove_message(task)
    return False


def on_report(draft: Draft, event: Event) -> None:
    """Take what a worker, or another caller, says of a task."""
    task = _addressed(draft, event)
    if task is None:
        draft.reply(event, Outcome.IGNORED, "the attempt has ended")
        return
    if draft.field("rate_limited"):
        draft.reply(event, Outcome.CONFLICT, f"task {task.ref!r} has not begun: its execution waits for a slot")
        return
    result = draft.value(event.data)
    if result.get("lease") is not None and result["lease"] != task.lease:
        draft.reply(event, Outcome.STALE, f"lease {result['lease']} of task {task.ref!r} is not held any more")
        return
    status = TaskStatus(result["status"])
    said = {
        "reason": (result.get("reason") or None),
        "worker_id": result.get("workerId") or task.worker_id,
        "traceback": result.get("traceback"),
    }
    given = result.get("output") or {}
    output = draft.payload({**draft.value(task.output), **given} if result.get("merge") else given)
    lost = draft.lost
    if draft.refusal("task_output", output) is not None:
        draft.lost = lost
        draft.close(task, status, output=output, **said)
    elif status is TaskStatus.COMPLETED and _completes_later(draft, task, result):
        _handed_over(draft, task, {**said, "output": output})
    elif status is TaskStatus.IN_PROGRESS:
        _not_yet(draft, task, int(result.get("callbackAfterMs") or 0), {**said, "output": output})
    else:
        check = draft.node(task).output_check if status is TaskStatus.COMPLETED else None
        broken = None if check is None else check.violation(draft.value(output))
        if broken is not None:
            status = TaskStatus.FAILED_WITH_TERMINAL_ERROR
            said["reason"] = f"its output breaks outputSchema: {broken}"
        draft.close(task, status, output=output, **said)


def _completes_later(draft: Draft, task: Task, result: dict[str, Any]) -> bool:
    """Whether the worker only sets something going that another caller will report on (`asyncComplete`).

    As in Conductor it has no meaning for SIMPLE tasks; the report that completes the task carries no lease.
    """
    node = draft.node(task).task
    return node.async_complete and node.type != "SIMPLE" and result.get("lease") is not None


def _handed_over(draft: Draft, task: Task, said: dict[str, Any]) -> None:
    """The worker has done its part: no worker holds the task, and no sign of life is expected any more."""
    if task.response_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.RESPONSE_TIMEOUT}:{task.ref}")
    task = draft.put(attrs.evolve(task, updated_at=draft.now, lease=0, holder=None, response_timeout_at=None, **said))
    _tell(draft, task, TaskStatus.COMPLETED)


def _not_yet(draft: Draft, task: Task, callback_after_ms: int, said: dict[str, Any]) -> None:
    """IN_PROGRESS: a worker's task goes back into its queue, offered again after the callback; an operator's just goes on."""
    node = draft.node(task)
    if node.operator:
        _sign_of_life(draft, attrs.evolve(task, **said))
        _tell(draft, draft.known(task.ref), TaskStatus.IN_PROGRESS)
        return
    if task.response_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.RESPONSE_TIMEOUT}:{task.ref}")
    if task.poll_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.POLL_TIMEOUT}:{task.ref}")
    given = {"updated_at": draft.now, "lease": 0, "holder": None, "callback_after_ms": callback_after_ms, **said}
    task = attrs.evolve(task, response_timeout_at=None, poll_timeout_at=None, **given)
    before = task.status
    task = queue_again(draft, node, task, callback_after_ms)
    if task.status is before:
        _tell(draft, task, TaskStatus.IN_PROGRESS)


def _tell(draft: Draft, task: Task, reported: TaskStatus) -> None:
    """A line for a report that changes no status: what it says may be read by others."""
    draft.journal(
        HistoryKind.REPORT, reported, ref=task.ref, attempt=task.attempt, reason=task.reason, payload=draft.keep(task.output)
    )


def on_extend_lease(draft: Draft, event: Event) -> None:
    """A sign of life: the response timeout starts again, nothing else changes."""
    task = _addressed(draft, event)
    if task is None or task.status is not TaskStatus.IN_PROGRESS:
        draft.reply(event, Outcome.IGNORED, "the attempt is not in progress any more")
        return
    lease = draft.value(event.data).get("lease")
    if lease is not None and lease != task.lease:
        draft.reply(event, Outcome.STALE, f"lease {lease} of task {task.ref!r} is not held any more")
        return
    _sign_of_life(draft, task)


def _sign_of_life(draft: Draft, task: Task) -> None:
    """The task was updated, so its response timeout starts again."""
    at = task.response_timeout_at
    if at is not None:
        span = draft.node(task).policy.response_timeout_ms
        at = draft.now + span if span > 0 else None
        if at is None:  # moved to a definition that has none
            draft.cancel_timer(f"{EventKind.RESPONSE_TIMEOUT}:{task.ref}")
    task = draft.put(attrs.evolve(task, updated_at=draft.now, response_timeout_at=at))
    if at is not None:
        draft.set_timer(task, EventKind.RESPONSE_TIMEOUT, at, default_ms=draft.node(task).policy.default_ms("response_timeout_ms"))


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


def on_give_back(draft: Draft, event: Event) -> None:
    """Offer an attempt again whose holder has it no longer, at its old place in the queue and under a lease to come."""
    said = draft.value(event.data)
    task = None if event.ref is None or draft.status.terminal else draft.addressee(event)
    if (
        task is None
        or task.status is not TaskStatus.IN_PROGRESS
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or said.get("lease", task.lease) != task.lease
    ):
        draft.reply(event, Outcome.IGNORED, "the attempt is not in those hands any more")
        return
    why = said.get("why")
    died = why in _DEATHS
    if died and task.deaths >= ALONE_AFTER:
        number = task.deaths + 1
        reason = f"its worker's process died {number} times, the last time while it ran alone"
        draft.close(task, TaskStatus.TIMED_OUT, reason=f"Task {task.name!r} ({task.ref}): {reason}", deaths=number)
        return
    if task.response_timeout_at is not None:
        draft.cancel_timer(f"{EventKind.RESPONSE_TIMEOUT}:{task.ref}")
    text = _WHY.get(why, _WHY["stopped"]).format(f"worker {task.worker_id!r}" if task.worker_id else "its worker")
    node, given = draft.node(task), _offered(draft, task, task.deaths + died)
    if not node.limit.rate:
        offer(draft, node, draft.put(given, reason=text))
    elif ask_again(draft, node, given, reason=text):
        offer(draft, node, draft.known(task.ref))


def _offered(draft: Draft, task: Task, deaths: int) -> Task:
    return attrs.evolve(
        task,
        status=TaskStatus.SCHEDULED,
        lease=0,
        holder=None,
        deaths=deaths,
        updated_at=draft.now,
        response_timeout_at=None,
        poll_timeout_at=None,
    )
