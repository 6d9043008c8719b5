"""Parts made at run time, put in their place: in a plan (`grafted`), and in a definition (`unfolded`).

The branches of a FORK_JOIN_DYNAMIC and the task that a DYNAMIC stands for are known only when they are scheduled. They are made
into a definition of their own, embedded by hash like every other, and compiled. In a plan its nodes are given the surroundings of
the node they grow from: its loops, its scopes, its place in the flow. Tasks carry the hashes (`grafts`).

To be read or drawn, a definition is given them too: a dynamic fork gets its branches as `fork_tasks`, its JOIN the references it
collects; a DYNAMIC becomes what it stands for. Of what is made again in every round of a loop the newest counts.

How far an execution has come: what is counted, and of how much that is known to be ahead.

What is ahead is every task of the definition that the flow has not come to, but for the cases that were not taken, and for those of
a switch that is still ahead. Branches over a list count from when the list is known, rounds of a loop from when they begin: so the
total may grow.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import Final, TypeVar

import attrs

from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.executions import Task, Workflow
from conductorlite.model.statuses import WorkflowStatus
from conductorlite.model.texts import InNotebook
from conductorlite.plan.compile import Node, Plan
from conductorlite.plan.tree import LEVEL, TreePosition, changed_branches, positions

__all__ = ["ALONE", "FORKED_DEFINITION", "RunProgress", "grafted", "progress_of", "unfolded"]

#: Where a dynamic fork keeps the hash of the definition made of its branches, which stand between two tasks of that definition.
FORKED_DEFINITION: Final = "forkedDefinitionHash"
_AROUND: Final = 2

#: The type of the row of a fork, of either kind.
_FORK: Final = "FORK"

#: Per place (the hashes around it, its reference) the hash of what was made of it.
_Grown = Mapping[tuple[tuple[str, ...], str], str]


def unfolded(workflow: Workflow) -> WorkflowDef | None:
    """The definition of an execution as `Engine.get` returns it, with its `made` put in place; None without a definition."""
    definition = workflow.definition
    if definition is None or not workflow.made:
        return definition
    extended = {
        (task.grafts[:depth], workflow.made[digest].tasks[0].task_reference_name): digest
        for task in workflow.tasks
        for depth, digest in enumerate(task.grafts)
        if digest in workflow.made
    }
    return attrs.evolve(definition, tasks=_sequence(definition.tasks, (), extended, workflow.made))


def _sequence(
    tasks: Iterable[WorkflowTask], grafts: tuple[str, ...], extended: _Grown, made: Mapping[str, WorkflowDef]
) -> tuple[WorkflowTask, ...]:
    """Return the same list unfolded. Depth is bounded by the validator, and by that of what an execution has made."""

    def inner(listed: Iterable[WorkflowTask], below: tuple[str, ...] = grafts) -> tuple[WorkflowTask, ...]:
        return _sequence(listed, below, extended, made)

    found: list[WorkflowTask] = []
    joined: list[str] | None = None
    for task in tasks:
        digest = extended.get((grafts, task.task_reference_name))
        fields: dict[str, object] = {} if joined is None else {"join_on": joined}
        joined = None
        if digest is not None and task.type == TaskType.DYNAMIC:
            found.append(made[digest].tasks[0])
            continue
        if digest is not None and task.type == TaskType.FORK_JOIN_DYNAMIC:
            branches = [inner(branch, (*grafts, digest)) for branch in made[digest].tasks[0].fork_tasks]
            joined = [branch[-1].task_reference_name for branch in branches]
            fields["fork_tasks"] = branches
        fields = {**changed_branches(task, inner), **fields}
        found.append(attrs.evolve(task, **fields) if fields else task)  # type: ignore[arg-type]
    return tuple(found)


#: What a DYNAMIC may turn out to be, besides workers' tasks: types that stand alone.
ALONE: Final = frozenset(
    {
        TaskType.WAIT,
        TaskType.NOOP,
        TaskType.INLINE,
        TaskType.SET_VARIABLE,
        TaskType.SUB_WORKFLOW,
        TaskType.START_WORKFLOW,
        TaskType.TERMINATE,
        TaskType.HUMAN,
        TaskType.PULL_WORKFLOW_MESSAGES,
        TaskType.LAMBDA,
        TaskType.JSON_JQ_TRANSFORM,
        TaskType.EMIT,
    }
)


def grafted(plan: Plan, root: str, digest: str, inner: Plan) -> Plan:
    """The plan with the nodes of `inner` grown from its node `root`, a DYNAMIC or a FORK_JOIN_DYNAMIC.

    After a migration there may be none: what had grown from it has no place in the plan.
    """
    outer = plan.nodes.get(root)
    if outer is None or outer.task.type not in (TaskType.DYNAMIC, TaskType.FORK_JOIN_DYNAMIC):
        return plan
    grow = _branches if outer.task.type == TaskType.FORK_JOIN_DYNAMIC else _stand_in
    extended = dict(grow(outer, (*outer.grafts, digest), inner.nodes))
    # What it has outside of them a node made at run time does not know: its own reads ahead are those inside.
    ahead = ChainMap(*_maps(plan.ahead), inner.ahead)  # type: ignore[arg-type]
    return attrs.evolve(plan, nodes=ChainMap(extended, *_maps(plan.nodes)), ahead=ahead)


T = TypeVar("T")


def _maps(under: Mapping[str, T]) -> list[MutableMapping[str, T]]:
    """Return the maps it is made of, to be put together again without a copy: a wide fork may have a DYNAMIC in each branch."""
    return under.maps if isinstance(under, ChainMap) else [under]  # type: ignore[list-item]


def _stand_in(outer: Node, grafts: tuple[str, ...], nodes: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    """The one node of a DYNAMIC: what it is, where the DYNAMIC stands."""
    node = nodes[outer.ref]
    yield (
        outer.ref,
        attrs.evolve(
            node,
            grafts=grafts,
            loops=outer.loops,
            scopes=outer.scopes,
            route=outer.route,
            successor=outer.successor,
            joins=outer.joins,
        ),
    )


def _branches(outer: Node, grafts: tuple[str, ...], nodes: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    """The branches of a dynamic fork; the JOIN behind it counts what is live in them."""
    depth = len(outer.loops)
    around = outer.scopes if outer.join is None else (*outer.scopes, (outer.join, depth))
    for ref, node in nodes.items():
        if ref == outer.ref:
            yield ref, attrs.evolve(outer, heads=node.heads, inside=node.inside)
        elif node.compensates is not None:
            yield ref, attrs.evolve(node, grafts=grafts, loops=(*outer.loops, *node.loops))
        elif ref != outer.join:
            yield (
                ref,
                attrs.evolve(
                    node,
                    grafts=grafts,
                    loops=(*outer.loops, *node.loops),
                    # Most are counted by the JOIN alone, and share the tuple that says so.
                    scopes=(*around, *((scope, number + depth) for scope, number in node.scopes)) if node.scopes else around,
                    route=(*outer.route, *node.route[LEVEL:]),
                    joins=tuple(join for join in node.joins if join != outer.join),
                ),
            )


@attrs.frozen(kw_only=True, slots=True)
class RunProgress(InNotebook):
    """Progress of an execution, which follows from its rows alone: a restart does not change it."""

    status: WorkflowStatus
    #: Tasks by their status: the last attempt of each reference.
    by_status: Mapping[str, int]
    #: The same for each reference of the definition, over all its rounds; of what was made at run time, by the task's name.
    by_step: Mapping[str, Mapping[str, int]]
    #: Printed references of what is with a worker or waits for time, an event or a person.
    running: tuple[str, ...]
    done: int
    total: int
    elapsed_ms: int
    #: What is left if it goes on as fast as so far; None when it has ended, or nothing is done yet.
    remaining_ms: int | None

    @property
    def fraction(self) -> float:
        """From 0 to 1; 1 only for an execution that COMPLETED."""
        if self.status is WorkflowStatus.COMPLETED:
            return 1.0
        return min(self.done / self.total, 0.999) if self.total else 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(self.by_status.items()))
        return f"{self.status}: {self.done} of {self.total} tasks ({self.fraction:.0%}){f': {counts}' if counts else ''}"


def progress_of(workflow: Workflow, now: int) -> RunProgress:
    """The progress of an execution with its tasks and its definition."""
    last: dict[str, Task] = {task.ref: task for task in workflow.tasks}
    nodes = positions(workflow.definition)
    by_step: dict[str, Counter[str]] = {}
    for task in last.values():
        by_step.setdefault(task.base_ref if task.base_ref in nodes else task.name, Counter())[str(task.status)] += 1
    done = sum(task.status.terminal for task in last.values())
    running = workflow.status in (WorkflowStatus.RUNNING, WorkflowStatus.PAUSED)
    total = len(last) + (_ahead(nodes.values(), by_step) + _branches_ahead(workflow, last) if running else 0)
    elapsed = max(0, (workflow.ended_at or now) - (workflow.started_at or workflow.created_at))
    return RunProgress(
        status=workflow.status,
        by_status=Counter(str(task.status) for task in last.values()),
        by_step=by_step,
        running=tuple(task.ref for task in last.values() if task.live),
        done=done,
        total=total,
        elapsed_ms=elapsed,
        remaining_ms=elapsed * (total - done) // done if running and done else None,
    )


def _branches_ahead(workflow: Workflow, last: Mapping[str, Task]) -> int:
    """Return how many tasks dynamic forks still have to create: branches are known at once, and created some thousand at a time."""
    ahead = 0
    for fork in last.values():
        if fork.task_type != _FORK or fork.input.absent or fork.input.external is not None:
            continue
        branches, digest = fork.input.value.get("forkedTasks"), fork.input.value.get(FORKED_DEFINITION)
        if not isinstance(branches, list) or not isinstance(digest, str):
            continue
        made, depth = workflow.made.get(digest), len(fork.iterations)
        known = len(branches)
        if made is not None:
            known = sum(all(part.kind == "branch" for part in one.around) for one in positions(made).values()) - _AROUND
        begun = sum(digest in task.grafts and task.iterations[:depth] == fork.iterations for task in last.values())
        ahead += max(0, known - begun)
    return ahead


def _ahead(nodes: Collection[TreePosition], reached: Collection[str]) -> int:
    taken = {branch for node in nodes if node.ref in reached for branch in node.around}
    return sum(
        node.ref not in reached and all(branch in taken for branch in node.around if branch.kind in ("case", "default"))
        for node in nodes
    )
