"""Forks and joins: what is forked is joined, and what is joined can be reached.

An EXCLUSIVE_JOIN also has to know what may still come: the tasks that, while they are live, may lead to one it names, its
predecessors. Usually there is none: what it names stands in cases of a SWITCH before it, and when the EXCLUSIVE_JOIN is scheduled,
those are through. Only a fork can let something come later: in another branch than the EXCLUSIVE_JOIN's, or in one that the fork's
JOIN did not wait for. Then they are the fork, the tasks before the named one in its branch and those around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.plan.findings import Findings, Scope, has_input
from conductorlite.plan.tree import TreePosition, branches, walk

__all__ = ["check_dynamic_fork", "check_exclusive_join", "check_fork", "check_join", "conditional_on", "find_predecessors"]


def find_predecessors(definition: WorkflowDef) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Per EXCLUSIVE_JOIN, per reference it names (also as a default), in its order: the references of its predecessors."""
    joins = [place for place in walk(definition) if place.task.type == TaskType.EXCLUSIVE_JOIN]
    if not joins:
        return {}
    places = {place.task.task_reference_name: place for place in walk(definition)}
    return {
        join.task.task_reference_name: {
            ref: frozenset(_predecessors(join, places[ref])) for ref in (*join.task.join_on, *join.task.default_exclusive_join_task)
        }
        for join in joins
    }


def _predecessors(join: TreePosition, target: TreePosition) -> Iterator[str]:
    around = {place.path for place in join.outwards}
    chain = list(target.outwards)
    forks = [index for index, place in enumerate(chain) if place.task.type == TaskType.FORK_JOIN and index]
    # The innermost fork around both is passed by both at once: what matters is inside it, and when it is still forking.
    inside = [index for index in forks if chain[index].path not in around]
    shared = next((index for index in forks if chain[index].path in around and _parts(join, target, chain[index])), None)
    last = shared if shared is not None else max(inside, default=None)
    if last is None:
        return
    for place in chain[: last + 1]:
        if place is not target:
            yield place.task.task_reference_name
        if place is not chain[last]:
            yield from _all_of(place.siblings[: place.index])


def _parts(join: TreePosition, target: TreePosition, fork: TreePosition) -> bool:
    """Whether two positions below a fork are in different branches of it."""
    depth = fork.depth
    return join.depth > depth and target.depth > depth and join.route[depth][0] != target.route[depth][0]


def _all_of(tasks: Sequence[WorkflowTask]) -> Iterator[str]:
    """Tasks and what is in them; a loop is live as long as anything in it, so what is in it need not be named."""
    waiting = list(tasks)
    while waiting:
        task = waiting.pop()
        yield task.task_reference_name
        if task.type != TaskType.DO_WHILE:
            for _, _, inner in branches(task):
                waiting.extend(inner)


def check_fork(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A FORK_JOIN has branches, each with a task, and a JOIN right behind it."""
    if not node.task.fork_tasks:
        findings.error(f"{node.path}.forkTasks", "is empty: FORK_JOIN needs at least one branch")
    for index, branch in enumerate(node.task.fork_tasks):
        if not branch:
            findings.error(f"{node.path}.forkTasks[{index}]", "is empty: each branch needs at least one task")
    _check_followed_by_join(node, findings)


def check_dynamic_fork(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A FORK_JOIN_DYNAMIC says in exactly one of three ways what to fork, and has a JOIN right behind it."""
    task = node.task
    legacy = task.dynamic_fork_join_tasks_param is not None
    pair = (task.dynamic_fork_tasks_param is not None, task.dynamic_fork_tasks_input_param_name is not None)
    if not has_input(task, "forkTaskInputs"):
        if legacy and any(pair):
            findings.error(node.path, "has both dynamicForkJoinTasksParam and dynamicForkTasksParam; give one of them")
        elif not legacy and not all(pair):
            findings.error(
                node.path,
                "needs inputParameters.forkTaskInputs, or dynamicForkTasksParam and dynamicForkTasksInputParamName",
            )
    _check_followed_by_join(node, findings)


def _check_followed_by_join(node: TreePosition, findings: Findings) -> None:
    following = node.following
    if following is None or following.type != TaskType.JOIN:
        found = "nothing" if following is None else f"a {following.type}"
        findings.error(node.path, f"{node.task.type} must be followed directly by a JOIN, not by {found}")


def check_join(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A JOIN waits for something, and for nothing that can never end before it."""
    previous = node.previous
    if previous is not None and previous.type == TaskType.FORK_JOIN_DYNAMIC:
        # Its own list is ignored: the fork supplies what was forked.
        return
    path = f"{node.path}.joinOn"
    if not node.task.join_on:
        findings.error(path, "is empty: JOIN must name the tasks it waits for")
    for index, target in _targets(node.task.join_on, path, scope, findings):
        at = f"{path}[{index}]"
        reason = _unreachable(node, target)
        if reason is not None:
            findings.error(at, f"{node.task.join_on[index]!r} {reason}, so this JOIN would never complete")
        elif (switch := conditional_on(node, target)) is not None:
            ref = node.task.join_on[index]
            message = f"{ref!r} runs only in one case of {switch!r}; if another is taken, this JOIN never completes"
            findings.warn(at, message)


def check_exclusive_join(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """An EXCLUSIVE_JOIN has something to wait for, and everything it names can end before it."""
    task = node.task
    if not task.join_on and not task.default_exclusive_join_task:
        findings.error(f"{node.path}.joinOn", "is empty: EXCLUSIVE_JOIN must name the tasks it waits for")
    for name, refs in (("joinOn", task.join_on), ("defaultExclusiveJoinTask", task.default_exclusive_join_task)):
        path = f"{node.path}.{name}"
        for index, target in _targets(refs, path, scope, findings):
            reason = _unreachable(node, target)
            if reason is not None:
                findings.error(f"{path}[{index}]", f"{refs[index]!r} {reason}, so it is never joined")


def _targets(refs: Sequence[str], path: str, scope: Scope, findings: Findings) -> Iterator[tuple[int, TreePosition]]:
    """The joined tasks with their indices; unknown and repeated ones are reported and left out."""
    seen: set[str] = set()
    for index, ref in enumerate(refs):
        if ref in seen:
            findings.warn(f"{path}[{index}]", f"{ref!r} is listed twice")
        elif ref not in scope.by_ref:
            findings.error(f"{path}[{index}]", f"{ref!r} is not the reference name of any task of this definition")
        else:
            yield index, scope.by_ref[ref]
        seen.add(ref)


def _unreachable(join: TreePosition, target: TreePosition) -> str | None:
    """Why `target` can never have ended when `join` looks at it, or None if it can."""
    if target is join:
        return "is the join itself"
    if target.compensates is not None:
        return "is a compensation"
    mine, other = join.loops, target.loops
    if mine != other:
        if target.task.task_reference_name in mine:
            return "is the loop this join is in"
        # Each iteration has tasks of its own: a join sees those of its own iteration and no others.
        if len(other) > len(mine):
            return f"is in the loop {other[-1]!r}, and the join is not"
        return "is not in the join's loop"
    for (mine_at, mine_index), (other_at, other_index) in zip(join.route, target.route, strict=False):
        if mine_at != other_at:
            return "is in another case of the same switch" if mine_at is not None and mine_at.excludes(other_at) else None
        if mine_index != other_index:
            return "comes after the join" if other_index > mine_index else None
    return None


def conditional_on(join: TreePosition, target: TreePosition) -> str | None:
    """The reference of a switch around `target` that is not around `join`, if there is one."""
    around = {above.path for above in join.outwards}
    switches = (above for above in target.outwards if above.task.type in (TaskType.SWITCH, TaskType.DECISION))
    return next((above.ref for above in switches if above.path not in around and above is not target), None)
