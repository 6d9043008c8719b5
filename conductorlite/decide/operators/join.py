"""FORK_JOIN and what ends it: JOIN and EXCLUSIVE_JOIN.

A FORK_JOIN puts the head of every branch on the work list. The row of the JOIN behind it is made first, so that it counts branches
that end while a wide fork is still scheduling (a turn may be cut in between); it takes its place in the order of tasks behind the
heads, as in Conductor. Until then it waits for one end more than it has branches.

A JOIN is over when `waiting` and `open` are 0. `waiting` counts the joined references that have not ended: each end that no retry
follows takes one off, whatever the width. Behind a dynamic fork `open` counts, like a loop, what is live in the branches: a branch
may be a sequence, and only its own end is the end of it. The joined rows are read once, at the end, for the output and the status.
What is not pretty: whatever moves rows about (retry, rerun, skip, migrate) must call `recount_join`, for the counter knows nothing
of them. Source of the rule: Conductor's `Join.execute`, without its race (it may look at a failed attempt before the retry is
scheduled) and its polling.

An EXCLUSIVE_JOIN looks whenever one of the tasks it names ends, or something that could still have led to one (its
`predecessors`). Of several that have ended when it looks, one that ended well comes before one that did not, then the order of the
list decides; its output is that task's. A failure ends it only when nothing better can come. `defaultExclusiveJoinTask` is for when
none of `joinOn` was scheduled. Source of the rule: Conductor's documentation of EXCLUSIVE_JOIN; its code (`ExclusiveJoin.execute`)
takes the first that is listed, waits for ever when none was scheduled, and throws when one of several was not.
"""

from __future__ import annotations

from collections.abc import Sequence

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators.document import joined_payload, rendered
from conductorlite.decide.operators.worker import start_deadlines
from conductorlite.decide.reasons import joined, joined_in_spite
from conductorlite.decide.transitions import reopen_attempt
from conductorlite.model.definitions import TaskType
from conductorlite.model.errors import InvalidInput
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node
from conductorlite.plan.grafts import FORKED_DEFINITION

__all__ = [
    "branches_ended",
    "branches_left",
    "choose",
    "create_collecting_join",
    "create_join",
    "joined_refs",
    "look_again",
    "one_less",
    "pass_over_join",
    "recount_join",
    "resume_fork",
    "schedule_branch",
    "schedule_exclusive_join",
    "schedule_fork",
    "schedule_join",
]


def schedule_exclusive_join(changeset: Changeset, node: Node, iterations: tuple[int, ...]) -> None:
    """Create the row, and look at once."""
    named = {"joinOn": list(node.task.join_on), "defaultExclusiveJoinTask": list(node.task.default_exclusive_join_task)}
    join = changeset.create(node, iterations, TaskStatus.IN_PROGRESS, input=changeset.documents.payload(named))
    join = start_deadlines(changeset, node, join)
    choose(changeset, join.ref)


def choose(changeset: Changeset, ref: str) -> None:
    """End an EXCLUSIVE_JOIN if what it names allows it; nothing happens when it has ended."""
    join = changeset.rows.known(ref)
    if join.status.terminal:
        return
    node = changeset.rows.node(join)
    for refs in (node.task.join_on, node.task.default_exclusive_join_task):
        tasks, hope = _scheduled(changeset, node, join, refs)
        ended = [task for task in tasks if not task.live or task.status.successful]
        done = next((task for task in ended if task.status.successful), None)
        if done is not None:
            changeset.close(join, TaskStatus.COMPLETED, output=done.output)
            return
        if hope or len(ended) < len(tasks):
            return
        if ended:
            texts = [f"{task.ref} is {task.status}" + (f": {task.reason}" if task.reason else "") for task in ended]
            changeset.close(join, TaskStatus.FAILED, output=ended[0].output, reason="; ".join(texts))
            return
    names = ", ".join(dict.fromkeys((*node.task.join_on, *node.task.default_exclusive_join_task)))
    changeset.close(join, TaskStatus.FAILED, reason=f"none of the tasks it joins has run: {names}")


def _scheduled(changeset: Changeset, node: Node, join: Task, refs: Sequence[str]) -> tuple[list[Task], bool]:
    """The rows of those that were scheduled and not skipped, in order; and whether one that has none may still come."""
    named = list(dict.fromkeys(refs))
    found = changeset.rows.known_tasks(printed_ref(ref, join.iterations) for ref in named)
    missing = [ref for ref, task in zip(named, found, strict=True) if task is None]
    predecessors = sorted(frozenset().union(*(node.predecessors[ref] for ref in missing)))
    hope = any(
        task is not None and task.live
        for task in changeset.rows.known_tasks(printed_ref(ref, join.iterations) for ref in predecessors)
    )
    return [task for task in found if task is not None and task.status is not TaskStatus.SKIPPED], hope


def schedule_join(changeset: Changeset, node: Node, iterations: tuple[int, ...]) -> None:
    """Create a JOIN that no fork created, and look at once whether it has anything to wait for."""
    join = create_join(changeset, node, iterations, forked=frozenset())
    join = changeset.put(join, seq=changeset.next_place(join.ref))
    one_less(changeset, join.ref)


def create_join(changeset: Changeset, node: Node, iterations: tuple[int, ...], *, forked: frozenset[str]) -> Task:
    """Create the row. `forked` are nodes of the fork that is just being scheduled: none of them has ended."""
    earlier = [ref for ref in dict.fromkeys(node.task.join_on) if ref not in forked]
    ended = _ended(changeset, [printed_ref(ref, iterations) for ref in earlier])
    join = changeset.create(
        node,
        iterations,
        TaskStatus.IN_PROGRESS,
        input=changeset.documents.payload({"joinOn": list(node.task.join_on)}),
        in_order=False,
        waiting=len(dict.fromkeys(node.task.join_on)) - ended + 1,
    )
    return start_deadlines(changeset, node, join)


def create_collecting_join(
    changeset: Changeset, node: Node, iterations: tuple[int, ...], refs: list[str], *, retried: bool
) -> Task:
    """Create the row behind a dynamic fork, or reopen it for one that is `retried`. `refs` are the last tasks of its branches."""
    given = changeset.documents.payload({"joinOn": refs})
    passed = changeset.rows.task(printed_ref(node.ref, iterations)) if retried else None
    if passed is not None:
        # The fork was malformed at first, and nothing joined: what follows has been scheduled.
        row, before = changeset.rows.opened(passed)
        reopen_attempt(row, changeset.moment.now)
        row.succeeded_before, row.seq, row.waiting, row.input = True, 0, 1, given
        changeset.settle(row, before, verb=True)
        return start_deadlines(changeset, node, row)
    join = changeset.create(node, iterations, TaskStatus.IN_PROGRESS, input=given, in_order=False, waiting=1)
    return start_deadlines(changeset, node, join)


def pass_over_join(changeset: Changeset, node: Node, fork: Task) -> None:
    """Skip the JOIN of a fork that was skipped, or whose failure is tolerated: there is nothing to join."""
    join = changeset.rows.plan_of(node.grafts).nodes[str(node.join)]
    if changeset.rows.task(printed_ref(join.ref, fork.iterations)) is None:
        changeset.create_ended(join, fork.iterations, TaskStatus.SKIPPED)


def _ended(changeset: Changeset, refs: list[str]) -> int:
    return sum(task is not None and task.passed for task in changeset.rows.known_tasks(refs))


def joined_refs(changeset: Changeset, join: Task) -> list[str]:
    """Printed references the JOIN waits for, each once."""
    node = changeset.rows.node(join)
    refs = changeset.documents.value(join.input)["joinOn"] if node.collects else node.task.join_on
    return [printed_ref(ref, join.iterations) for ref in dict.fromkeys(refs)]


def recount_join(changeset: Changeset, join: Task) -> int:
    """Return how many ends the JOIN waits for, counted over the rows."""
    refs = [] if changeset.rows.node(join).collects else joined_refs(changeset, join)
    return len(refs) - _ended(changeset, refs) + (join.seq == 0)


def one_less(changeset: Changeset, ref: str) -> None:
    """Count one arrival at a JOIN; the last one ends it. Nothing happens when the JOIN was not scheduled or has ended."""
    join = changeset.rows.task(ref)
    if join is None or join.status.terminal:
        return
    if changeset.rows.node(join).task.type == "EXCLUSIVE_JOIN":
        choose(changeset, ref)
        return
    join = changeset.put(join, waiting=join.waiting - 1)
    branches_ended(changeset, join)


def branches_ended(changeset: Changeset, join: Task) -> None:
    """End a JOIN that waits for nothing any more."""
    if not join.status.terminal and join.waiting == 0 and join.open == 0:
        _finish(changeset, join)


def look_again(changeset: Changeset, ref: str) -> None:
    """End a JOIN that was reopened, if nothing that was scheduled since is to arrive at it."""
    join = changeset.rows.task(ref)
    if join is not None:
        branches_ended(changeset, join)


def _finish(changeset: Changeset, join: Task) -> None:
    tasks = [task for task in changeset.rows.known_tasks(joined_refs(changeset, join)) if task is not None]
    try:
        output = joined_payload(changeset, tasks)
    except InvalidInput as error:
        changeset.close(join, TaskStatus.FAILED_WITH_TERMINAL_ERROR, reason=f"its output cannot be kept: {error}")
        return
    failed = [task for task in tasks if not task.status.successful]
    weighty = [task for task in failed if not changeset.rows.node(task).task.optional]
    reason: str | None = None
    sentence: str | None = None
    if weighty:
        reason, sentence = joined(failed)
        canceled = all(task.status is TaskStatus.CANCELED for task in weighty)
        status = TaskStatus.CANCELED if canceled else TaskStatus.FAILED
    elif any(task.status is TaskStatus.COMPLETED_WITH_ERRORS for task in tasks):
        lesser = [task for task in tasks if task.status is TaskStatus.COMPLETED_WITH_ERRORS]
        status, (reason, sentence) = TaskStatus.COMPLETED_WITH_ERRORS, joined_in_spite(lesser)
    else:
        status = TaskStatus.COMPLETED
    changeset.close(join, status, output=output, reason=reason, conductor_reason=sentence)


def schedule_fork(changeset: Changeset, node: Node, iterations: tuple[int, ...]) -> None:
    """Create the FORK and its JOIN; the branches follow from the work list."""
    values = rendered(changeset, node, iterations)
    fork = changeset.create(
        node,
        iterations,
        TaskStatus.COMPLETED,
        input=changeset.documents.payload(values),
    )
    if node.join is not None:
        join = changeset.rows.plan_of(node.grafts).nodes[node.join]
        create_join(changeset, join, iterations, forked=node.inside)
    changeset.work.stack.append(("branch", fork.ref, 0))


def schedule_branch(changeset: Changeset, ref: str, index: int) -> None:
    """Schedule the head of one branch; behind the last one, the JOIN takes its place."""
    fork = changeset.rows.known(ref)
    node = _extended(changeset, fork)
    if index == 0 and _may_exist(changeset):
        branches_left(changeset, ref, 0)
    if index < len(node.heads):
        changeset.work.stack.append(("branch", ref, index + 1))
        head = changeset.rows.plan_of((*fork.grafts, *_graft(changeset, fork))).nodes[node.heads[index]]
        changeset.work.stack.append(("schedule", head.ref, list(fork.iterations), list(head.grafts)))
        return
    if node.join is not None:
        join = changeset.rows.known(printed_ref(node.join, fork.iterations))
        if join.seq == 0:  # a fork that is taken up again may have come this far before
            changeset.put(join, seq=changeset.next_place(join.ref))
            one_less(changeset, join.ref)
    changeset.work.queue.append(("advance", ref))


def _graft(changeset: Changeset, fork: Task) -> tuple[str, ...]:
    """The hash of the definition a dynamic fork has made of its branches; nothing for any other."""
    if changeset.rows.node(fork).task.type != TaskType.FORK_JOIN_DYNAMIC:
        return ()
    digest = changeset.documents.value(fork.input).get(FORKED_DEFINITION)
    return (digest,) if digest else ()


def _extended(changeset: Changeset, fork: Task) -> Node:
    return changeset.rows.plan_of((*fork.grafts, *_graft(changeset, fork))).nodes[fork.base_ref]


def branches_left(changeset: Changeset, ref: str, index: int) -> tuple[str, ...]:
    """The heads of a fork's branches that are to be scheduled yet, from the one of that number on.

    What scheduling them reads is loaded, as far as this turn will come: the JOIN, and whether there is a task of the name of one
    that was made at run time, was skipped, or stands there already.
    """
    fork = changeset.rows.known(ref)
    node = _extended(changeset, fork)
    heads = node.heads[index:]
    wanted = [] if node.join is None else [node.join]
    if _graft(changeset, fork) or _may_exist(changeset):
        wanted += heads[: changeset.bounds.rows]
    changeset.reader.prefetch(refs=[printed_ref(name, fork.iterations) for name in wanted])
    return heads


def _may_exist(changeset: Changeset) -> bool:
    return bool(changeset.work.reopening or changeset.workflow.skips)


def resume_fork(changeset: Changeset, fork: Task) -> None:
    """Go on with a fork whose turn was cut before its execution ended and was reopened."""
    changeset.work.stack.append(("branch", fork.ref, 0))
