"""Executions that have ended and go on: `retry`, and what a child's reopening means for its parent.

What is tried again gets a new attempt; JOINs, loops and, where the child itself goes on, SUB_WORKFLOW tasks are reopened as the
rows they are. Everything is loaded. Sources of the rules: Conductor's `WorkflowExecutorOps.retry` and `updateAndPushParents`;
where it forgets to reset something, see the compatibility page.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from conductorlite.decide.admissions import reopens
from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.elapsed import follow_clock
from conductorlite.decide.endings import set_workflow_timeout, was_compensated
from conductorlite.decide.operators import reschedule
from conductorlite.decide.operators.do_while import reopened_loop, resume_loop
from conductorlite.decide.operators.join import recount_join, resume_fork
from conductorlite.decide.operators.scripts import chosen_head
from conductorlite.decide.operators.sub_workflow import start_child
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.decide.sub_workflows import notify_parent
from conductorlite.decide.transitions import reopen_attempt
from conductorlite.model.canonical import EMPTY
from conductorlite.model.decisions import Event, EventKind, Outcome
from conductorlite.model.executions import HistoryKind, Task, printed_ref
from conductorlite.model.statuses import TaskStatus, WorkflowStatus

__all__ = [
    "follow_up_all",
    "go_on",
    "notify_parent_reopened",
    "on_child_reopened",
    "on_retry",
    "recount",
    "reopen",
    "reopen_workflow",
]

#: Reopened as the row they are; every other type gets a new attempt.
_IN_PLACE: Final = frozenset({"JOIN", "EXCLUSIVE_JOIN", "DO_WHILE"})


def on_retry(changeset: Changeset, event: Event) -> None:
    """Reopen an ended workflow where it failed: every reference that failed or was canceled gets a new attempt, at once.

    JOINs and loops are reopened in place. Retry budgets, total timeouts and the workflow's timeout start again. What had ended
    but not been followed up when the workflow ended is followed up now. With `resume` the executions that failed sub-workflow
    tasks have started are retried themselves, instead of new ones being started.
    """
    said = changeset.documents.value(event.data)
    problem = _not_retriable(changeset)
    if problem:
        changeset.reply(event, Outcome.CONFLICT, problem)
        if said.get("parent") and changeset.workflow.status.terminal:
            notify_parent(changeset)  # it waits for an end: there will be no other
        return
    if not reopens(changeset, event):
        return
    resume = bool(said.get("resume"))
    if resume:
        changeset.journal.add(HistoryKind.VERB, "RETRY", payload=changeset.documents.keep(event.data))
    _reopen_where_it_failed(changeset, _resumed(changeset) if resume else frozenset())
    if not said.get("parent"):
        notify_parent_reopened(changeset)


def _not_retriable(changeset: Changeset) -> str:
    """Why an execution cannot be retried; the empty text when it can."""
    status = changeset.workflow.status
    if not status.terminal or status is WorkflowStatus.COMPLETED:
        return f"a {status} workflow cannot be retried"
    rows = changeset.rows.everything()
    if was_compensated(changeset, rows):
        return f"the {status} workflow was compensated; restart or rerun it"
    ended_by = _terminate_task(changeset, rows)
    if ended_by is not None:
        return f"its TERMINATE task {ended_by.ref!r} ended the workflow, and would again; restart or rerun it"
    left = any(task.live and task.status.successful for task in rows)
    if not _failed(changeset) and not left and rows and status is not WorkflowStatus.TIMED_OUT:
        return "the workflow has no failed or canceled task to retry"
    return ""


def _terminate_task(changeset: Changeset, rows: Collection[Task]) -> Task | None:
    """The TERMINATE that ended an execution; None if what it only brought to light, a permitted failure, may be tried again."""
    for task in rows:
        node = changeset.rows.placed(task) if task.live and task.status is TaskStatus.COMPLETED else None
        if node is not None and node.task.type == "TERMINATE":
            completed = changeset.documents.value(task.input).get("terminationStatus") == WorkflowStatus.COMPLETED
            return None if completed and changeset.workflow.permitted_failures else task
    return None


def _failed(changeset: Changeset) -> list[Task]:
    """Every task that failed or was canceled, in order of scheduling."""
    rows = changeset.rows.everything()
    canceled = (task for task in rows if task.status is TaskStatus.CANCELED)
    found = [task for task in rows if task.failed]
    found += [task for task in canceled if not (task.executed and _left_behind(changeset, task))]
    return sorted(found, key=lambda task: task.seq)


def _left_behind(changeset: Changeset, task: Task) -> bool:
    """Return True if a loop, or the JOIN of a dynamic fork, around a task ended well without it: then the task stays canceled."""
    scopes = changeset.rows.node(task).scopes
    return any(changeset.rows.known(printed_ref(scope, task.iterations[:depth])).status.successful for scope, depth in scopes)


def _resumed(changeset: Changeset) -> frozenset[str]:
    return frozenset(task.ref for task in _failed(changeset) if task.sub_workflow_id is not None)


def _reopen_where_it_failed(changeset: Changeset, in_place: Collection[str], *, cause: str | None = None) -> None:
    """Reopen an ended workflow. `in_place` are SUB_WORKFLOW tasks whose own child goes on; that of `cause` knows it already."""
    not_begun = not changeset.rows.everything()
    reopened = [task for task in _failed(changeset) if task.ref not in in_place]
    left = {task.ref for task in changeset.rows.everything() if task.live and task.status.successful} - set(in_place)
    reopen_workflow(changeset)
    set_workflow_timeout(changeset)
    changeset.counting = False
    for ref in sorted(in_place):
        _reopen_child(changeset, changeset.rows.known(ref), resume=ref != cause)
    if not_begun:
        changeset.work.stack.append(("schedule", changeset.plan.first, []))
    reopen(changeset, reopened)
    recount(changeset)
    follow_up_all(changeset, left)


def reopen_workflow(changeset: Changeset) -> None:
    """Take back what reported the end; events that were written before are void from here on."""
    follow_clock(changeset)
    changeset.change(generation=changeset.workflow.generation + 1, last_retried_at=changeset.moment.now)
    changeset.start()
    if changeset.workflow.status.terminal:
        changeset.take_back_end()
        changeset.move_workflow(WorkflowStatus.RUNNING, verb=True)
    changeset.work.reopening = True


def reopen(changeset: Changeset, tasks: list[Task]) -> None:
    """Try tasks again: JOINs and loops as the rows they are, the others in new attempts with fresh budgets."""
    for task in sorted(tasks, key=lambda task: changeset.rows.node(task).task.type not in _IN_PLACE):
        node = changeset.rows.node(task)
        if node.task.type in _IN_PLACE:
            _in_place(changeset, task)
        else:
            fresh = changeset.put(task, first_attempt=task.attempt + 1, first_scheduled_at=changeset.moment.now)
            reschedule(changeset, node, fresh, 0)


def _in_place(changeset: Changeset, task: Task) -> None:
    fields = reopened_loop(changeset, task) if changeset.rows.node(task).task.type == "DO_WHILE" else {"output": EMPTY}
    go_on(changeset, task, generation=changeset.workflow.generation, **fields)


def go_on(changeset: Changeset, task: Task, *, lease: int = 0, **fields: Any) -> Task:
    """Reopen an ended task as the row it is; its deadlines start again. What has followed from it is not done again."""
    row, before = changeset.rows.opened(task)
    reopen_attempt(row, changeset.moment.now, lease=lease)
    for name, value in fields.items():
        setattr(row, name, value)
    changeset.settle(row, before, verb=True)
    return start_deadlines(changeset, changeset.rows.node(row), row)


def recount(changeset: Changeset) -> None:
    """The counters follow the rows: what is tried again has to arrive again, and its failure is not permitted yet."""
    changeset.recount()
    permitted = 0
    for task in changeset.rows.everything():
        placed = changeset.rows.placed(task)
        if placed is None:
            continue
        node = placed.task
        if node.type == "JOIN" and not task.status.terminal:
            changeset.put(task, waiting=recount_join(changeset, task))
        if task.executed and not task.status.successful and node.permissive and not node.optional:
            permitted += not (task.status is TaskStatus.CANCELED and _left_behind(changeset, task))
    changeset.change(permitted_failures=permitted)


def follow_up_all(changeset: Changeset, left: Collection[str], *, around: Collection[str] = ()) -> None:
    """Go on with what has ended without being followed up (`left`), loops between two rounds, JOINs that wait for nothing.

    In loops `around` what is run again something is about to be scheduled: their round is not begun once more.
    """
    for task in changeset.rows.everything():
        if task.ref in left:
            _follow_up(changeset, task)
            continue
        node = changeset.rows.node(task) if task.status is TaskStatus.IN_PROGRESS else None
        if node is None:
            continue
        if node.task.type == "DO_WHILE":
            if task.ref not in around:
                resume_loop(changeset, task)
        elif node.task.type == "JOIN":
            changeset.work.queue.append(("look_again", task.ref))  # behind what is still to be scheduled in its branches
        elif node.task.type == "EXCLUSIVE_JOIN":
            changeset.work.queue.append(("choose", task.ref))


def _follow_up(changeset: Changeset, task: Task) -> None:
    """Schedule what a finished task had not scheduled yet when its turn was cut or its workflow paused."""
    kind = changeset.rows.node(task).task.type
    if kind in ("FORK_JOIN", "FORK_JOIN_DYNAMIC") and task.status is TaskStatus.COMPLETED:
        resume_fork(changeset, task)
        return
    changeset.work.queue.append(("advance", task.ref))
    head = chosen_head(changeset, task)
    if head is not None:
        changeset.follow(task, head, task.iterations)


# ---------------------------------------------------------------------- families


def _reopen_child(changeset: Changeset, task: Task, *, resume: bool) -> None:
    """Reopen a SUB_WORKFLOW task as the row it is: its own child goes on, and has to be notified if it does not know.

    The row keeps its generation: by that the child's events find it. A child that is notified has it under a lease: its end counts,
    but for one that was asked for before.
    """
    lease = changeset.events.next_number() if resume else 0
    task = go_on(changeset, task, lease=lease, output=changeset.documents.payload({"subWorkflowId": task.sub_workflow_id}))
    if resume:
        start_child(changeset, task, changeset.moment.clock, again=True)  # only if it was ended before it began
        event_id = f"{EventKind.RETRY}:{task.task_id}:{changeset.workflow.generation}"
        changeset.events.post_to(str(task.sub_workflow_id), event_id, EventKind.RETRY, {"resume": True, "parent": True})


def notify_parent_reopened(changeset: Changeset) -> None:
    """Notify the task that started this execution that it goes on."""
    workflow = changeset.workflow
    if workflow.parent_workflow_id is not None:
        changeset.events.post_to(
            workflow.parent_workflow_id,
            f"{EventKind.CHILD_REOPENED}:{workflow.workflow_id}:{changeset.workflow.generation}",
            EventKind.CHILD_REOPENED,
            {"workflowId": workflow.workflow_id, "taskId": workflow.parent_task_id},
            ref=workflow.parent_ref,
            attempt=workflow.parent_attempt,
            generation=workflow.parent_generation,
        )


def on_child_reopened(changeset: Changeset, event: Event) -> None:
    """Wait again for a child that was retried, restarted or rerun by itself; the parent is reopened where it failed.

    A task that was superseded, whose failure does not matter (`optional`), whose loop or dynamic fork is over, or whose workflow
    was compensated or ended by a TERMINATE task is left alone, and the child runs by itself.
    What has followed from the task already is not done again.
    """
    task = changeset.addressee(event)
    if (
        task is None
        or task.retried
        or not task.status.terminal
        or (task.attempt, task.generation) != (event.attempt, event.generation)
        or task.sub_workflow_id != changeset.documents.value(event.data)["workflowId"]
        or changeset.rows.node(task).task.optional
        or _left_behind(changeset, task)
        or changeset.workflow.compensating is not None
        or was_compensated(changeset, changeset.rows.everything())
        or _terminate_task(changeset, changeset.rows.everything()) is not None
    ):
        changeset.reply(event, Outcome.IGNORED, "the task does not wait for this execution")
        return
    if not reopens(changeset, event):
        return
    changeset.journal.add(HistoryKind.VERB, "CHILD_REOPENED", ref=task.ref, attempt=task.attempt)
    if changeset.workflow.status.terminal:
        resumed = _resumed(changeset) if changeset.workflow.status is not WorkflowStatus.COMPLETED else frozenset()
        _reopen_where_it_failed(changeset, resumed | {task.ref}, cause=task.ref)
        notify_parent_reopened(changeset)
        return
    changeset.events.cancel(f"{EventKind.CONTINUE}:{task.ref}")
    changeset.counting = False
    _reopen_child(changeset, task, resume=False)
    recount(changeset)
