"""What an EXCLUSIVE_JOIN may still hope for: the tasks that, while they are live, may lead to one it names.

Usually there is none: what it names stands in cases of a SWITCH before it, and when the EXCLUSIVE_JOIN is scheduled, those are
through. Only a fork can let something come later: in another branch than the EXCLUSIVE_JOIN's, or in one that the fork's JOIN
did not wait for. Then the heralds of a named task are the fork, the tasks before it in its branch and those around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conductorlite.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.plan.tree import Place, branches, walk

__all__ = ["find_heralds"]


def find_heralds(definition: WorkflowDef) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Per EXCLUSIVE_JOIN, per reference it names (also as a default), in its order: the references of its heralds."""
    joins = [place for place in walk(definition) if place.task.type == TaskType.EXCLUSIVE_JOIN]
    if not joins:
        return {}
    places = {place.task.task_reference_name: place for place in walk(definition)}
    return {
        join.task.task_reference_name: {
            ref: frozenset(_heralds(join, places[ref])) for ref in (*join.task.join_on, *join.task.default_exclusive_join_task)
        }
        for join in joins
    }


def _heralds(join: Place, target: Place) -> Iterator[str]:
    around = {place.path for place in _outwards(join)}
    chain = list(_outwards(target))
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


def _parts(join: Place, target: Place, fork: Place) -> bool:
    """Whether two places below a fork are in different branches of it."""
    depth = fork.depth
    return join.depth > depth and target.depth > depth and join.route[depth][0] != target.route[depth][0]


def _outwards(place: Place) -> Iterator[Place]:
    at: Place | None = place
    while at is not None:
        yield at
        at = at.parent


def _all_of(tasks: Sequence[WorkflowTask]) -> Iterator[str]:
    """Tasks and what is in them; a loop is live as long as anything in it, so what is in it need not be named."""
    waiting = list(tasks)
    while waiting:
        task = waiting.pop()
        yield task.task_reference_name
        if task.type != TaskType.DO_WHILE:
            for _, inner in branches(task, ""):
                waiting.extend(inner)
