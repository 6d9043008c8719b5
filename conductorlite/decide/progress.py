"""The steps that follow when a task has ended: retry, JOINs, successors, the end of the workflow.

Each is a function of the changeset and of what JSON can hold, called by the loop in `decide`: it looks at a few rows, and puts
further steps on the work list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.endings import (
    complete_workflow,
    end_compensated,
    fail_workflow,
    follow_compensation,
    is_last_compensation,
    terminate_workflow,
)
from conductorlite.decide.operators import reschedule, schedule, scope_is_empty
from conductorlite.decide.operators.do_while import with_rounds
from conductorlite.decide.operators.join import one_less, pass_over_join
from conductorlite.decide.reasons import failed_with, out_of_time
from conductorlite.decide.transitions import delay_of_retry
from conductorlite.model.errors import InvariantBroken
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.later import functions
from conductorlite.model.statuses import TaskStatus, WorkflowStatus
from conductorlite.plan.compile import Node
from conductorlite.plan.tree import CHOOSES

if TYPE_CHECKING:
    from conductorlite.decide.operators.scripts import chosen_head
else:
    (chosen_head,) = functions("conductorlite.decide.operators.scripts", "chosen_head")

__all__ = ["advance", "executed", "schedule_item"]

#: Never retried by themselves, whatever their definition says.
_NEVER_RETRIED: Final = frozenset({"FORK_JOIN", "FORK_JOIN_DYNAMIC", "JOIN", "EXCLUSIVE_JOIN", "SWITCH", "DECISION", "DO_WHILE"})


def schedule_item(
    changeset: Changeset,
    ref: str,
    iterations: list[int],
    grafts: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
) -> None:
    """Schedule the first attempt at a node, unless a reopened execution has one already; `given` replaces its input.

    One that was skipped ahead has ended with that. A node made at run time may have the name of one that was made by another task
    meanwhile: then the workflow fails.
    """
    node = (changeset.rows.plan_of(grafts) if grafts else changeset.plan).nodes[ref]
    place = tuple(iterations)
    printed = printed_ref(ref, place) if place else ref
    if changeset.work.reopening or changeset.workflow.skips or grafts:
        existing = changeset.rows.task(printed)
        if existing is not None:
            if grafts and not changeset.work.reopening and not existing.skipped_ahead:
                reason = f"Task {printed!r} cannot be scheduled: the execution has another one of that name"
                fail_workflow(changeset, WorkflowStatus.FAILED, reason, None)
            elif existing.skipped_ahead:
                changeset.change(skips=changeset.workflow.skips - 1)
                # In a loop its round is known as the newest one by its place.
                come: dict[str, Any] = {"seq": changeset.next_place(printed)} if place else {"due_at": max(1, changeset.moment.now)}
                changeset.put(existing, **come)
                changeset.work.queue.append(("advance", printed))
            return
    if given is not None:
        changeset.given = {**changeset.given, printed: given}
    schedule(changeset, node, place)


def advance(changeset: Changeset, ref: str) -> None:
    """Do what follows from the end of a task: try it again, let the workflow fail, or go on."""
    task = changeset.rows.last.get(ref) or changeset.rows.known(ref)
    if task.retried or task.executed or not task.status.terminal:
        return
    node = changeset.rows.node(task) if task.grafts else changeset.plan.nodes[task.base_ref]
    if not task.status.successful:
        if _retries_left(changeset, node, task):
            _retry(changeset, node, task)
            return
        if not _tolerated(changeset, node, task):
            return
    elif node.task.type == "TERMINATE" and task.status is TaskStatus.COMPLETED:
        terminate_workflow(changeset, task)
        return
    if node.compensates is not None:
        follow_compensation(changeset, changeset.rows.known(ref))
        return
    if task.open:
        _cancel_inside(changeset, task)
    # Last in, first out: the task stays live until everything that its successor schedules has its row.
    changeset.work.queue.appendleft(("executed", ref))
    if node.join is not None and task.status is not TaskStatus.COMPLETED:
        pass_over_join(changeset, node, task)
    # Behind a SWITCH that has chosen, the case goes on in its place.
    chosen = node.task.type in CHOOSES and chosen_head(changeset, task) is not None
    if node.successor is not None and not chosen and not task.succeeded_before:
        changeset.follow(task, node.successor, task.iterations)


def _cancel_inside(changeset: Changeset, scope: Task) -> None:
    """A loop, or the JOIN of a dynamic fork, was ended by a report or a timeout while something in it was live.

    What is live inside ends with it, and nothing follows.
    """
    depth = len(scope.iterations)
    inside = [
        task
        for task in changeset.rows.all_live()
        if task.iterations[:depth] == scope.iterations and (scope.base_ref, depth) in changeset.rows.node(task).scopes
    ]
    # Innermost first: a scope counts what is live in it as long as it is live itself.
    for ref in [task.ref for task in sorted(inside, key=lambda task: -len(changeset.rows.node(task).scopes))]:
        task = changeset.rows.known(ref)
        changeset.put(task if task.status.terminal else changeset.cancel(with_rounds(changeset, task)), executed=True)


def _retries_left(changeset: Changeset, node: Node, task: Task) -> bool:
    total = node.policy.total_timeout_ms
    return _attempts_left(node, task) and not (total > 0 and changeset.moment.now - task.first_scheduled_at >= total)


def _attempts_left(node: Node, task: Task) -> bool:
    if not task.status.retriable or node.task.type in _NEVER_RETRIED:
        return False
    return task.attempt - task.first_attempt < node.policy.retry_count


def _retry(changeset: Changeset, node: Node, task: Task) -> None:
    reschedule(changeset, node, task, delay_of_retry(changeset.workflow, node, task))


def _tolerated(changeset: Changeset, node: Node, task: Task) -> bool:
    """Return True if the workflow goes on in spite of a task that failed for good; if not, fail it here."""
    if node.task.optional:
        if task.status is not TaskStatus.COMPLETED_WITH_ERRORS:
            changeset.put(task, status=TaskStatus.COMPLETED_WITH_ERRORS)
        return True
    if node.task.permissive:
        changeset.change(permitted_failures=changeset.workflow.permitted_failures + 1)
        owner = changeset.rows.owner(task)
        if owner is not None and owner.failed_child is None:
            reason = task.reason or f"{task.ref} is {task.status}"
            changeset.put(owner, failed_child=reason, conductor_failed_child=task.conductor_reason)
        return True
    status = {
        TaskStatus.CANCELED: WorkflowStatus.TERMINATED,
        TaskStatus.TIMED_OUT: WorkflowStatus.TIMED_OUT,
    }.get(task.status, WorkflowStatus.FAILED)
    reason, sentence = out_of_time(changeset, task) if _attempts_left(node, task) else failed_with(task)
    fail_workflow(changeset, status, reason, task, conductor_reason=sentence)
    return False


def executed(changeset: Changeset, ref: str) -> None:
    """Note that the successors of a task have their rows, and notify JOINs; a scope that holds nothing live any more is over."""
    task = changeset.rows.last.get(ref) or changeset.rows.known(ref)
    if not task.status.terminal:
        raise InvariantBroken(f"task {ref!r} is executed before its end")
    row = changeset.execute(task)
    node = changeset.rows.node(row) if row.grafts else changeset.plan.nodes[row.base_ref]
    if node.compensates is not None:
        if is_last_compensation(changeset, row):
            end_compensated(changeset)
        return
    # Only now: a JOIN that this task's own end has scheduled counted it as live.
    if node.joins:
        for join in changeset.rows.joins_of(row):
            one_less(changeset, join)
    owner = changeset.rows.owner(row) if node.scopes else None
    if owner is not None:
        if owner.open == 0:
            scope_is_empty(changeset, owner)
    elif changeset.workflow.open == 0:
        complete_workflow(changeset)
