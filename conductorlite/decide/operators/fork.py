"""FORK_JOIN: schedules the head of every branch at once, and the JOIN behind it.

The JOIN's row is made first, so that it counts branches that end while a wide fork is still scheduling (a turn may be cut in
between), but it takes its place in the order behind the heads, as in Conductor. Until then one more is waited for.
"""

from __future__ import annotations

from typing import Final

import attrs

from conductorlite.decide.draft.rows import Draft
from conductorlite.decide.operators.document import rendered
from conductorlite.decide.operators.join import create_join, one_less
from conductorlite.model.definitions import TaskType
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node

__all__ = ["FORKED_DEFINITION", "branches_left", "resume_fork", "schedule_branch", "schedule_fork"]

#: Where a dynamic fork keeps the hash of the definition made of its branches.
FORKED_DEFINITION: Final = "forkedDefinitionHash"


def schedule_fork(draft: Draft, node: Node, iterations: tuple[int, ...]) -> None:
    """Create the FORK and its JOIN; the branches follow from the work list."""
    values = rendered(draft, node, iterations)
    fork = draft.create(
        node,
        iterations,
        TaskStatus.COMPLETED,
        input=draft.payload(values),
        started_at=draft.now,
        ended_at=draft.now,
    )
    if node.join is not None:
        join = draft.plan_of(node.grafts).nodes[node.join]
        create_join(draft, join, iterations, forked=node.inside)
    draft.stack.append(("branch", fork.ref, 0))


def schedule_branch(draft: Draft, ref: str, index: int) -> None:
    """Schedule the head of one branch; behind the last one, the JOIN takes its place."""
    fork = draft.known(ref)
    node = _grown(draft, fork)
    if index == 0 and _may_exist(draft):
        branches_left(draft, ref, 0)
    if index < len(node.heads):
        draft.stack.append(("branch", ref, index + 1))
        head = draft.plan_of((*fork.grafts, *_graft(draft, fork))).nodes[node.heads[index]]
        draft.stack.append(("schedule", head.ref, list(fork.iterations), list(head.grafts)))
        return
    if node.join is not None:
        join = draft.known(printed_ref(node.join, fork.iterations))
        if join.seq == 0:  # a fork that is taken up again may have come this far before
            draft.put(attrs.evolve(join, seq=draft.next_place(join.ref)))
            one_less(draft, join.ref)
    draft.queue.append(("advance", ref))


def _graft(draft: Draft, fork: Task) -> tuple[str, ...]:
    """The hash of the definition a dynamic fork has made of its branches; nothing for any other."""
    if draft.node(fork).task.type != TaskType.FORK_JOIN_DYNAMIC:
        return ()
    digest = draft.value(fork.input).get(FORKED_DEFINITION)
    return (digest,) if digest else ()


def _grown(draft: Draft, fork: Task) -> Node:
    return draft.plan_of((*fork.grafts, *_graft(draft, fork))).nodes[fork.base_ref]


def branches_left(draft: Draft, ref: str, index: int) -> tuple[str, ...]:
    """The heads of a fork's branches that are to be scheduled yet, from the one of that number on.

    What scheduling them reads is loaded, as far as this turn will come: the JOIN, and whether there is a task of the name of one
    that was made at run time, was skipped, or stands there already.
    """
    fork = draft.known(ref)
    node = _grown(draft, fork)
    heads = node.heads[index:]
    wanted = [] if node.join is None else [node.join]
    if _graft(draft, fork) or _may_exist(draft):
        wanted += heads[: draft.bounds.rows]
    draft.reader.prefetch(refs=[printed_ref(name, fork.iterations) for name in wanted])
    return heads


def _may_exist(draft: Draft) -> bool:
    return bool(draft.reopening or draft.field("skips"))


def resume_fork(draft: Draft, fork: Task) -> None:
    """Go on with a fork whose turn was cut before its execution ended and was reopened."""
    draft.stack.append(("branch", fork.ref, 0))
