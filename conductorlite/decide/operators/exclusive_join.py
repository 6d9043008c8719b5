"""EXCLUSIVE_JOIN: ends with the first of the tasks it names to end, and puts out what that one has put out.

It looks whenever one of them ends, or something that could still have led to one (`Node.heralds`). Of several that have ended
when it looks, one that ended well comes before one that did not, then the order of the list decides. A failure ends it only
when nothing better can come. `defaultExclusiveJoinTask` is for when none of `joinOn` was scheduled. Source of the rule:
Conductor's documentation of EXCLUSIVE_JOIN; its code (`ExclusiveJoin.execute`) takes the first that is listed, waits for ever
when none was scheduled, and throws when one of several was not.
"""

from __future__ import annotations

from collections.abc import Sequence

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["choose", "schedule_exclusive_join"]


def schedule_exclusive_join(draft: Draft, node: Node, iterations: tuple[int, ...]) -> None:
    """Create the row, and look at once."""
    named = {"joinOn": list(node.task.join_on), "defaultExclusiveJoinTask": list(node.task.default_exclusive_join_task)}
    join = draft.create(node, iterations, TaskStatus.IN_PROGRESS, input=draft.payload(named), started_at=draft.now)
    join = start_deadlines(draft, node, join)
    choose(draft, join.ref)


def choose(draft: Draft, ref: str) -> None:
    """End an EXCLUSIVE_JOIN if what it names allows it; nothing happens when it has ended."""
    join = draft.known(ref)
    if join.status.terminal:
        return
    node = draft.node(join)
    for refs in (node.task.join_on, node.task.default_exclusive_join_task):
        tasks, hope = _scheduled(draft, node, join, refs)
        ended = [task for task in tasks if not task.live or task.status.successful]
        done = next((task for task in ended if task.status.successful), None)
        if done is not None:
            draft.close(join, TaskStatus.COMPLETED, output=done.output)
            return
        if hope or len(ended) < len(tasks):
            return
        if ended:
            told = [f"{task.ref} is {task.status}" + (f": {task.reason}" if task.reason else "") for task in ended]
            draft.close(join, TaskStatus.FAILED, output=ended[0].output, reason="; ".join(told))
            return
    names = ", ".join(dict.fromkeys((*node.task.join_on, *node.task.default_exclusive_join_task)))
    draft.close(join, TaskStatus.FAILED, reason=f"none of the tasks it joins has run: {names}")


def _scheduled(draft: Draft, node: Node, join: Task, refs: Sequence[str]) -> tuple[list[Task], bool]:
    """The rows of those that were scheduled and not skipped, in order; and whether one that has none may still come."""
    named = list(dict.fromkeys(refs))
    found = draft.known_tasks(printed_ref(ref, join.iterations) for ref in named)
    missing = [ref for ref, task in zip(named, found, strict=True) if task is None]
    heralds = sorted(frozenset().union(*(node.heralds[ref] for ref in missing)))
    hope = any(task is not None and task.live for task in draft.known_tasks(printed_ref(ref, join.iterations) for ref in heralds))
    return [task for task in found if task is not None and task.status is not TaskStatus.SKIPPED], hope
