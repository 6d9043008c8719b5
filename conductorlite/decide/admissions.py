"""Limits from the side of an execution: it asks for its own slot, its tasks ask for theirs, slots are given and taken away.

An execution that a limit does not let in is RUNNING with its first task PENDING, as Orkes says; nothing else of it is scheduled
before it has its slot, and it keeps the slot until it ends. One that has ended and is to go on where it failed asks again: until
it is let in the verb waits in its inbox, and the execution stays as it ended.
"""

from __future__ import annotations

from typing import Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.endings import fail_workflow, leave_limit
from conductorlite.decide.operators import begin_retry
from conductorlite.decide.operators.document import ExpressionContext
from conductorlite.decide.operators.worker import admitted, ask_again, ask_now, ask_when_resumed, lane_of
from conductorlite.decide.sub_workflows import notify_parent
from conductorlite.language.values import to_text
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.definitions import RateLimitPolicy
from conductorlite.model.limits import OFFER_MS, Terms, workflow_key
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "REOPENING",
    "begin",
    "let_in",
    "on_admission",
    "on_granted",
    "on_offer_ends",
    "on_window_moves",
    "reopens",
    "step_admitted",
    "withdraw",
    "withdraw_reopening",
]

#: Verbs by which an execution that has ended may go on where it was.
REOPENING: Final = frozenset({EventKind.RETRY, EventKind.RERUN, EventKind.CHILD_REOPENED})

_NOT_TAKEN: Final = f"no worker polled for it within {OFFER_MS // 1000} s of its offer"

_OWN_ABOVE: Final = "it needs a slot of {!r}, which an execution above it holds until this one has ended"


def begin(changeset: Changeset, event: Event) -> None:
    """Schedule the first task, if the execution is let in; else have it wait, or refuse it."""
    first, key = changeset.plan.first, _key(changeset)
    if key is None:
        changeset.work.stack.append(("schedule", first, []))
    elif key in changeset.workflow.outer_keys:
        fail_workflow(changeset, WorkflowStatus.FAILED, _OWN_ABOVE.format(key), None, compensate=False)
    elif _ask(changeset, key):
        changeset.work.stack.append(("schedule", first, []))
    elif _policy(changeset) is RateLimitPolicy.REJECT:
        reason = f"{key!r} has all its {_terms(changeset).concurrent} slots in use, and its policy is REJECT"
        changeset.reply(event, Outcome.REJECTED, reason)
        fail_workflow(changeset, WorkflowStatus.FAILED, reason, None, compensate=False)
    elif changeset.rows.task(first) is None:  # else it was skipped already, and that row stands for the beginning
        changeset.create(changeset.plan.nodes[first], (), TaskStatus.PENDING)


def _key(changeset: Changeset) -> str | None:
    """The limit an execution belongs to; None when its definition states none, or the key's expression yields nothing."""
    template = changeset.plan.rate_limit_key
    if template is None or _terms(changeset).concurrent < 1:
        return None
    value = template.render(ExpressionContext(changeset, template.reads))
    return None if value is None or value == "" else workflow_key(to_text(value))


def _terms(changeset: Changeset) -> Terms:
    config = changeset.plan.definition.rate_limit_config
    return Terms() if config is None else Terms(concurrent=config.concurrent_exec_limit)


def _policy(changeset: Changeset) -> RateLimitPolicy:
    config = changeset.plan.definition.rate_limit_config
    return (config and config.policy) or RateLimitPolicy.QUEUE


def _ask(changeset: Changeset, key: str, *, wait: bool | None = None) -> bool:
    wait = _policy(changeset) is RateLimitPolicy.QUEUE if wait is None else wait
    has_slot = changeset.limits.ask(key, changeset.workflow.workflow_id, _terms(changeset), wait=wait)
    if has_slot or wait:
        changeset.change(rate_limit_key=key, rate_limited=not has_slot)
    return has_slot


def reopens(changeset: Changeset, event: Event) -> bool:
    """Return True if an ended execution may go on; if it has to wait for a slot, its verb waits in the inbox."""
    if not changeset.workflow.status.terminal:
        return True
    if changeset.workflow.rate_limit_key is not None and not changeset.workflow.rate_limited:
        changeset.limits.was_let_in()
        return True
    if changeset.workflow.rate_limit_key is None:
        key = _key(changeset)
        if key is not None and key in changeset.workflow.outer_keys:
            changeset.reply(event, Outcome.CONFLICT, _OWN_ABOVE.format(key))
            return False
        if key is None or _ask(changeset, key, wait=True):
            return True
    changeset.events.hold(event)
    return False


def let_in(changeset: Changeset) -> None:
    """Begin, or go on, with the slot that the execution has been given."""
    changeset.change(rate_limited=False)
    if changeset.workflow.status.terminal:
        changeset.events.release_held()
        return
    first = changeset.plan.first
    for task in changeset.rows.all_live():
        if task.status is TaskStatus.PENDING:
            first = task.base_ref
            changeset.take_place_of(task)
    changeset.work.stack.append(("schedule", first, []))


def withdraw(changeset: Changeset) -> None:
    """Leave every line: a paused execution holds up no other. What waited asks again when it is resumed."""
    if not changeset.plan.limited and not changeset.workflow.rate_limited:
        return
    waiting = [task for task in changeset.rows.all_live() if task.status is TaskStatus.PENDING and task.limit_key is not None]
    ids: dict[str, list[str]] = {}
    for task in waiting:
        ids.setdefault(str(task.limit_key), []).append(task.task_id)
        changeset.put(task, limit_key=None, poll_timeout_at=None)
        ask_when_resumed(changeset, task)
    for limit, holders in ids.items():
        changeset.limits.give_back(limit, holders, of=limit)
    key = changeset.workflow.rate_limit_key
    if changeset.workflow.rate_limited and key is not None:
        changeset.limits.give_back(key, [changeset.workflow.workflow_id])
        changeset.change(rate_limit_key=None)
        ask_when_resumed(changeset, None)


# ---------------------------------------------------------------------- events


def on_admission(changeset: Changeset, event: Event) -> None:
    """A delay is over, or a pause: what is PENDING asks for its slot, and the retry of an operator begins."""
    if changeset.workflow.status is WorkflowStatus.PAUSED:
        changeset.events.hold(event)
        return
    if event.ref is None:
        key = _key(changeset)
        if changeset.workflow.status.terminal or not changeset.workflow.rate_limited:
            changeset.reply(event, Outcome.IGNORED, "the execution does not wait for a slot")
        elif key is None or _ask(changeset, key, wait=True):  # without a key it has moved to a definition without a limit
            let_in(changeset)
        return
    task = changeset.addressee(event)
    if task is None or changeset.workflow.status.terminal or (task.attempt, task.generation) != (event.attempt, event.generation):
        changeset.reply(event, Outcome.IGNORED, "the attempt does not wait any more")
    elif (task.status, task.limit_key) == (TaskStatus.PENDING, None):
        ask_now(changeset, changeset.rows.node(task), task)
    elif task.status is TaskStatus.SCHEDULED and changeset.rows.node(task).operator:
        begin_retry(changeset, task)
    else:
        changeset.reply(event, Outcome.IGNORED, "the attempt does not wait for a slot any more")


def on_granted(changeset: Changeset, event: Event) -> None:
    """A slot was given by the execution that had it before, or when a window moved."""
    said = changeset.documents.value(event.data)
    if not changeset.limits.take_up(said["key"], said["holder"], said["number"], of=event.ref or ""):
        changeset.reply(event, Outcome.IGNORED, "it does not wait for this slot any more")
        return
    if event.ref is None:
        if changeset.workflow.rate_limited:
            let_in(changeset)
        return
    task = changeset.addressee(event)
    if task is not None:
        admitted(changeset, task.ref)


def on_offer_ends(changeset: Changeset, event: Event) -> None:
    """No worker has taken what was offered under a rate limit: it goes back to its place in the line, and its lane is passed over.

    Its poll timeout goes on: it waits for a worker, not for the limit.
    """
    task = changeset.rows.task(event.ref or "")
    if (
        task is None
        or changeset.workflow.status.terminal
        or task.limit_key is None
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or task.status not in (TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS)
    ):
        changeset.reply(event, Outcome.IGNORED, "it is not offered any more")
    elif task.status is TaskStatus.IN_PROGRESS:  # taken on a definition that has no window any more
        changeset.limits.begins(task.limit_key, task.task_id, of=task.ref)
    elif changeset.workflow.status is WorkflowStatus.PAUSED:
        changeset.queues.remove(task)
        row, before = changeset.rows.opened(task)
        row.poll_timeout_at = None
        ask_again(changeset, changeset.rows.node(task), row, before, reason=_NOT_TAKEN)
    elif changeset.limits.not_taken(task.limit_key, task.task_id, lane_of(changeset, task), of=task.ref):
        changeset.queues.remove(task)
        changeset.put(task, because=_NOT_TAKEN, status=TaskStatus.PENDING, updated_at=changeset.moment.now)
    else:
        changeset.reply(event, Outcome.IGNORED, "it has no place in a window")


def on_window_moves(changeset: Changeset, event: Event) -> None:
    """The head of a line may go: it was blocked by what began a window ago, or its lane was polled at last."""
    said = changeset.documents.value(event.data)
    changeset.limits.look_again(said["key"], said.get("polled"))


def step_admitted(changeset: Changeset, ref: str, key: str, holder: str, number: int) -> None:
    """A slot that became free in this execution went to it again: to a task, or (no reference) to itself."""
    task = changeset.rows.task(ref) if ref else None
    asker = changeset.workflow.workflow_id if not ref else "" if task is None else task.task_id
    if not changeset.limits.stands(key, holder, number, asker, of=ref):
        return
    if ref:
        admitted(changeset, ref)
    elif changeset.workflow.rate_limited:
        let_in(changeset)


def withdraw_reopening(changeset: Changeset) -> bool:
    """Have an ended execution that waits for a slot to go on stay ended; whether it did wait."""
    if changeset.workflow.rate_limit_key is None:
        return False
    leave_limit(changeset)
    reopened = False
    for event in changeset.reader.inbox():
        if event.kind in REOPENING or (event.kind is EventKind.CHILD_ENDED and event.held):
            changeset.events.cancel(event.event_id)
            reopened = reopened or (event.kind is EventKind.RETRY and bool(changeset.documents.value(event.data).get("parent")))
    if reopened:
        notify_parent(changeset)  # it waits for an end: there will be no other
    return True
