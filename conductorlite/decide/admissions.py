"""Limits from the side of an execution: it asks for its own slot, its tasks ask for theirs, slots are given and taken away.

An execution that a limit does not let in is RUNNING with its first task PENDING, as Orkes says; nothing else of it is scheduled
before it has its slot, and it keeps the slot until it ends. One that has ended and is to go on where it failed asks again: until
it is let in the verb waits in its inbox, and the execution stays as it ended.
"""

from __future__ import annotations

from typing import Final

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.endings import fail_workflow, leave_limit
from conductorlite.decide.operators import begin_retry
from conductorlite.decide.operators.document import DraftSource
from conductorlite.decide.operators.worker import admitted, ask_again, ask_now, ask_when_resumed, lane_of
from conductorlite.decide.sub_workflows import tell_parent
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


def begin(draft: Draft, event: Event) -> None:
    """Schedule the first task, if the execution is let in; else have it wait, or refuse it."""
    first = draft.plan.first
    if first is None:
        return
    key = _key(draft)
    if key is None:
        draft.stack.append(("schedule", first, []))
    elif key in draft.workflow.outer_keys:
        fail_workflow(draft, WorkflowStatus.FAILED, _OWN_ABOVE.format(key), None, compensate=False)
    elif _ask(draft, key):
        draft.stack.append(("schedule", first, []))
    elif _policy(draft) is RateLimitPolicy.REJECT:
        reason = f"{key!r} has all its {_terms(draft).concurrent} slots in use, and its policy is REJECT"
        draft.reply(event, Outcome.REJECTED, reason)
        fail_workflow(draft, WorkflowStatus.FAILED, reason, None, compensate=False)
    elif draft.task(first) is None:  # else it was skipped already, and that row stands for the beginning
        draft.create(draft.plan.nodes[first], (), TaskStatus.PENDING)


def _key(draft: Draft) -> str | None:
    """The limit an execution belongs to; None when its definition states none, or the key's expression yields nothing."""
    template = draft.plan.rate_limit_key
    if template is None or _terms(draft).concurrent < 1:
        return None
    value = template.render(DraftSource(draft, template.reads))
    return None if value is None or value == "" else workflow_key(to_text(value))


def _terms(draft: Draft) -> Terms:
    config = draft.plan.definition.rate_limit_config
    return Terms() if config is None else Terms(concurrent=config.concurrent_exec_limit)


def _policy(draft: Draft) -> RateLimitPolicy:
    config = draft.plan.definition.rate_limit_config
    return (config and config.policy) or RateLimitPolicy.QUEUE


def _ask(draft: Draft, key: str, *, wait: bool | None = None) -> bool:
    wait = _policy(draft) is RateLimitPolicy.QUEUE if wait is None else wait
    has_slot = draft.ask(key, draft.workflow.workflow_id, _terms(draft), wait=wait)
    if has_slot or wait:
        draft.change(rate_limit_key=key, rate_limited=not has_slot)
    return has_slot


def reopens(draft: Draft, event: Event) -> bool:
    """Whether an ended execution may go on; if it has to wait for a slot, its verb waits in the inbox."""
    if not draft.status.terminal:
        return True
    if draft.workflow.rate_limit_key is not None and not draft.field("rate_limited"):
        draft.was_let_in()
        return True
    if draft.workflow.rate_limit_key is None:
        key = _key(draft)
        if key is not None and key in draft.workflow.outer_keys:
            draft.reply(event, Outcome.CONFLICT, _OWN_ABOVE.format(key))
            return False
        if key is None or _ask(draft, key, wait=True):
            return True
    draft.hold(event)
    return False


def let_in(draft: Draft) -> None:
    """Begin, or go on, with the slot that the execution has been given."""
    draft.change(rate_limited=False)
    if draft.status.terminal:
        draft.release_held()
        return
    first = draft.plan.first
    for task in draft.all_live():
        if task.status is TaskStatus.PENDING:
            first = task.base_ref
            draft.take_place_of(task)
    draft.stack.append(("schedule", first, []))


def withdraw(draft: Draft) -> None:
    """Leave every line: a paused execution holds up no other. What waited asks again when it is resumed."""
    if not draft.plan.limited and not draft.field("rate_limited"):
        return
    waiting = [task for task in draft.all_live() if task.status is TaskStatus.PENDING and task.limit_key is not None]
    keys = dict.fromkeys(str(task.limit_key) for task in waiting)
    for task in waiting:
        if task.poll_timeout_at is not None:
            draft.cancel_timer(f"{EventKind.POLL_TIMEOUT}:{task.ref}")
        draft.put(attrs.evolve(task, limit_key=None, poll_timeout_at=None))
        ask_when_resumed(draft, task)
    for key in keys:
        draft.give_back(key, [task.task_id for task in waiting if task.limit_key == key], of=key)
    if draft.field("rate_limited"):
        draft.give_back(draft.field("rate_limit_key"), [draft.workflow.workflow_id])
        draft.change(rate_limit_key=None)
        ask_when_resumed(draft, None)


# ---------------------------------------------------------------------- events


def on_admission(draft: Draft, event: Event) -> None:
    """A delay is over, or a pause: what is PENDING asks for its slot, and the retry of an operator begins."""
    if draft.status is WorkflowStatus.PAUSED:
        draft.hold(event)
        return
    if event.ref is None:
        key = _key(draft)
        if draft.status.terminal or not draft.field("rate_limited"):
            draft.reply(event, Outcome.IGNORED, "the execution does not wait for a slot")
        elif key is None or _ask(draft, key, wait=True):  # without a key it has moved to a definition without a limit
            let_in(draft)
        return
    task = draft.addressee(event)
    if task is None or draft.status.terminal or (task.attempt, task.generation) != (event.attempt, event.generation):
        draft.reply(event, Outcome.IGNORED, "the attempt does not wait any more")
    elif (task.status, task.limit_key) == (TaskStatus.PENDING, None):
        ask_now(draft, draft.node(task), task)
    elif task.status is TaskStatus.SCHEDULED and draft.node(task).operator:
        begin_retry(draft, task)
    else:
        draft.reply(event, Outcome.IGNORED, "the attempt does not wait for a slot any more")


def on_granted(draft: Draft, event: Event) -> None:
    """A slot was given by the execution that had it before, or when a window moved."""
    said = draft.value(event.data)
    if not draft.take_up(said["key"], said["holder"], said["number"], of=event.ref or ""):
        draft.reply(event, Outcome.IGNORED, "it does not wait for this slot any more")
        return
    if event.ref is None:
        if draft.field("rate_limited"):
            let_in(draft)
        return
    task = draft.addressee(event)
    if task is not None:
        admitted(draft, task.ref)


def on_offer_ends(draft: Draft, event: Event) -> None:
    """No worker has taken what was offered under a rate limit: it goes back to its place in the line, and its lane is passed over.

    Its poll timeout goes on: it waits for a worker, not for the limit.
    """
    task = draft.task(event.ref or "")
    if (
        task is None
        or draft.status.terminal
        or task.limit_key is None
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or task.status not in (TaskStatus.SCHEDULED, TaskStatus.IN_PROGRESS)
    ):
        draft.reply(event, Outcome.IGNORED, "it is not offered any more")
    elif task.status is TaskStatus.IN_PROGRESS:  # taken on a definition that has no window any more
        draft.begins(task.limit_key, task.task_id, of=task.ref)
    elif draft.status is WorkflowStatus.PAUSED:
        if task.poll_timeout_at is not None:
            draft.cancel_timer(f"{EventKind.POLL_TIMEOUT}:{task.ref}")
        draft.remove_message(task)
        ask_again(draft, draft.node(task), attrs.evolve(task, poll_timeout_at=None), reason=_NOT_TAKEN)
    elif draft.not_taken(task.limit_key, task.task_id, lane_of(draft, task), of=task.ref):
        draft.remove_message(task)
        draft.put(attrs.evolve(task, status=TaskStatus.PENDING, updated_at=draft.now), reason=_NOT_TAKEN)
    else:
        draft.reply(event, Outcome.IGNORED, "it has no place in a window")


def on_window_moves(draft: Draft, event: Event) -> None:
    """The head of a line may go: it was blocked by what began a window ago, or its lane was polled at last."""
    said = draft.value(event.data)
    draft.look_again(said["key"], said.get("polled"))


def step_admitted(draft: Draft, ref: str, key: str, holder: str, number: int) -> None:
    """A slot that became free in this execution went to it again: to a task, or (no reference) to itself."""
    task = draft.task(ref) if ref else None
    asker = draft.workflow.workflow_id if not ref else "" if task is None else task.task_id
    if not draft.stands(key, holder, number, asker, of=ref):
        return
    if ref:
        admitted(draft, ref)
    elif draft.field("rate_limited"):
        let_in(draft)


def withdraw_reopening(draft: Draft) -> bool:
    """Have an ended execution that waits for a slot to go on stay ended; whether it did wait."""
    if draft.field("rate_limit_key") is None:
        return False
    leave_limit(draft)
    told = False
    for event in draft.reader.inbox():
        if event.kind in REOPENING or (event.kind is EventKind.CHILD_ENDED and event.held):
            draft.cancel_timer(event.event_id)
            told = told or (event.kind is EventKind.RETRY and bool(draft.value(event.data).get("parent")))
    if told:
        tell_parent(draft)  # it waits for an end: there will be no other
    return True
