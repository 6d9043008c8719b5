"""What a person, or a program in their place, tells a workflow: start, pause, resume, terminate, retry; and the cut turn's rest.

A verb that does not fit the status is refused with a reply, never with an exception. Source of the rules: Conductor's
`WorkflowExecutorOps`; where it forgets to reset something, see the compatibility page.
"""

from __future__ import annotations

from typing import Final

import attrs

from conductorlite.canonical import EMPTY
from conductorlite.decider.compensation import was_compensated
from conductorlite.decider.endings import complete_workflow, fail_workflow, set_workflow_timeout
from conductorlite.decisions import Event, EventKind, Outcome
from conductorlite.draft import Draft
from conductorlite.executions import Task, TaskStatus, WorkflowStatus, printed_ref
from conductorlite.operators import (
    chosen_head,
    recount_join,
    reopened_loop,
    reschedule,
    resume_fork,
    resume_loop,
    start_deadlines,
)

__all__ = ["on_continue", "on_pause", "on_resume", "on_retry", "on_start", "on_terminate"]


def on_start(draft: Draft, event: Event) -> None:
    """Begin: now, or at the instant the event names (`at`, epoch ms)."""
    first_time = draft.workflow.history_seq == 0
    if first_time:
        draft.move_workflow(WorkflowStatus.RUNNING, payload=draft.keep(draft.workflow.input))
        draft.keep(draft.workflow.variables)
        at = draft.value(event.data).get("at")
        if at is not None and at > draft.now:
            draft.post(EventKind.START, EventKind.START, at)
            return
    if draft.status.terminal or draft.workflow.started_at:
        draft.reply(event, Outcome.IGNORED, "the workflow has begun already")
        return
    if draft.status is WorkflowStatus.PAUSED:
        draft.hold(event)
        return
    draft.change(started_at=draft.now)
    set_workflow_timeout(draft)
    if draft.plan.first is None:
        complete_workflow(draft)
    else:
        draft.stack.append(("schedule", draft.plan.first, []))


def on_pause(draft: Draft, event: Event) -> None:
    """Schedule nothing more until resumed. Tasks in the queue or with a worker are not touched, reports are accepted."""
    if draft.status.terminal:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow cannot be paused")
    elif draft.status is WorkflowStatus.PAUSED:
        draft.reply(event, Outcome.IGNORED, "the workflow is paused already")
    else:
        draft.move_workflow(WorkflowStatus.PAUSED)


def on_resume(draft: Draft, event: Event) -> None:
    """Take up what was held while paused. The workflow's timeout starts again, as in Conductor."""
    if draft.status is not WorkflowStatus.PAUSED:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow cannot be resumed: it is not paused")
        return
    draft.move_workflow(WorkflowStatus.RUNNING)
    draft.change(last_retried_at=draft.now)
    if draft.workflow.started_at:
        set_workflow_timeout(draft)
    draft.release_held()


def on_terminate(draft: Draft, event: Event) -> None:
    """End the workflow TERMINATED: open tasks are canceled, no failure workflow is started."""
    if draft.status is WorkflowStatus.TERMINATED:
        draft.reply(event, Outcome.IGNORED, "the workflow is terminated already")
    elif draft.status.terminal:
        draft.reply(event, Outcome.CONFLICT, f"a {draft.status} workflow cannot be terminated")
    else:
        if not draft.workflow.started_at:
            draft.cancel_timer(EventKind.START)
        reason = draft.value(event.data).get("reason")
        fail_workflow(draft, WorkflowStatus.TERMINATED, reason, None, compensate=False)


def on_continue(draft: Draft, event: Event) -> None:
    """Take up what a cut turn, or a pause, has left."""
    if draft.status.terminal or event.generation != draft.field("generation"):
        draft.reply(event, Outcome.IGNORED, "what was left belongs to an earlier run")
        return
    if draft.status is WorkflowStatus.PAUSED:
        # Paused between two turns of one piece of work: the rest of it waits as a whole.
        draft.hold(event)
        return
    work = draft.value(event.data)
    draft.stack.extend(tuple(item) for item in work.get("stack", ()))
    draft.queue.extend(tuple(item) for item in work.get("queue", ()))
    draft.reopening = draft.reopening or bool(work.get("reopening"))


# ---------------------------------------------------------------------- retry

#: Reopened as the row they are; every other type gets a new attempt.
_IN_PLACE: Final = frozenset({"JOIN", "DO_WHILE"})


def on_retry(draft: Draft, event: Event) -> None:
    """Reopen an ended workflow where it failed: every reference that failed or was canceled gets a new attempt, at once.

    JOINs and loops are reopened in place. Retry budgets, total timeouts and the workflow's timeout start again. What had ended
    but not been followed up when the workflow ended is followed up now.
    """
    status = draft.status
    if not status.terminal or status is WorkflowStatus.COMPLETED:
        draft.reply(event, Outcome.CONFLICT, f"a {status} workflow cannot be retried")
        return
    rows = draft.everything()
    if was_compensated(draft, rows):
        draft.reply(event, Outcome.CONFLICT, f"the {status} workflow was compensated; restart or rerun it")
        return
    canceled = (task for task in rows if task.status is TaskStatus.CANCELED)
    reopened = [task for task in rows if task.failed]
    reopened += [task for task in canceled if not (task.executed and _left_behind(draft, task))]
    reopened.sort(key=lambda task: task.seq)
    left = [task for task in rows if task.live and task.status.successful]
    not_begun = not rows and draft.plan.first is not None
    if not reopened and not left and not not_begun and status is not WorkflowStatus.TIMED_OUT:
        draft.reply(event, Outcome.CONFLICT, "the workflow has no failed or canceled task to retry")
        return
    draft.change(
        generation=draft.field("generation") + 1,
        last_retried_at=draft.now,
        ended_at=0,
        output=EMPTY,
        reason=None,
        failed_refs=(),
        failed_task_names=(),
        failed_task_id=None,
        started_at=draft.workflow.started_at or draft.now,
    )
    draft.move_workflow(WorkflowStatus.RUNNING, verb=True)
    set_workflow_timeout(draft)
    draft.reopening = True
    if not_begun:
        draft.stack.append(("schedule", draft.plan.first, []))
    _forgive(draft, reopened)
    # What is reopened in place goes first: whether a loop is open decides who counts the tasks inside it.
    for task in sorted(reopened, key=lambda task: draft.node(task).task.type not in _IN_PLACE):
        _reopen(draft, task)
    _recount(draft)
    for task in draft.everything():
        if task.ref in {row.ref for row in left}:
            _follow_up(draft, task)
        elif task.status is TaskStatus.IN_PROGRESS and draft.node(task).task.type == "DO_WHILE":
            resume_loop(draft, task)


def _left_behind(draft: Draft, task: Task) -> bool:
    """Whether a loop around a task ended well without it: then the task stays canceled."""
    loops = enumerate(draft.node(task).loops)
    return any(draft.known(printed_ref(loop, task.iterations[:depth])).status.successful for depth, loop in loops)


def _forgive(draft: Draft, reopened: list[Task]) -> None:
    """Failures that were only permitted until the end, and are tried again, do not count any more."""
    counted = sum(
        task.executed and draft.node(task).task.permissive and not draft.node(task).task.optional
        for task in reopened
    )
    draft.change(permitted_failures=draft.field("permitted_failures") - counted)


def _reopen(draft: Draft, task: Task) -> None:
    node = draft.node(task)
    if node.task.type not in _IN_PLACE:
        fresh = attrs.evolve(task, first_attempt=task.attempt + 1, first_scheduled_at=draft.now)
        reschedule(draft, node, draft.put(fresh), 0)
        return
    fields = {
        "status": TaskStatus.IN_PROGRESS,
        "generation": draft.field("generation"),
        "ended_at": 0,
        "updated_at": draft.now,
        "reason": None,
        "executed": False,
        "succeeded_before": task.succeeded_before or task.executed,
    }
    if node.task.type == "DO_WHILE":
        fields |= reopened_loop(draft, task)
    else:
        fields["output"] = EMPTY
    start_deadlines(draft, node, draft.put(attrs.evolve(task, **fields), verb=True))


def _recount(draft: Draft) -> None:
    """The counters of JOINs follow the rows: what is tried again has to arrive again."""
    for task in draft.everything():
        if draft.node(task).task.type == "JOIN" and not task.status.terminal:
            draft.put(attrs.evolve(task, waiting=recount_join(draft, task)))


def _follow_up(draft: Draft, task: Task) -> None:
    """Schedule what a finished task had not scheduled yet when its turn was cut or its workflow paused."""
    kind = draft.node(task).task.type
    if kind == "FORK_JOIN":
        resume_fork(draft, task)
        return
    draft.queue.append(("advance", task.ref))
    head = chosen_head(draft, task) if kind == "SWITCH" else None
    if head is not None:
        draft.stack.append(("schedule", head, list(task.iterations)))
