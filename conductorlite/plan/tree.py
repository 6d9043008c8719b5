"""The task tree of a definition as a flat walk: each task with its path, its siblings and the loops around it.

Which task types are the decider's own, and for which there are workers to include.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from conductorlite.model.definitions import TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.scalars import MAX_NESTING, step_path

__all__ = ["OPERATOR_TYPES", "SHIPPED_TYPES", "Place", "branches", "walk"]

#: Types whose workers we ship, and nobody gets unasked.
SHIPPED_TYPES: Final = frozenset({TaskType.HTTP, TaskType.EVENT, TaskType.KAFKA_PUBLISH})

#: Task types the decider carries out itself; every other type is a worker's.
OPERATOR_TYPES: Final = frozenset(
    {
        TaskType.FORK_JOIN,
        TaskType.JOIN,
        TaskType.SWITCH,
        TaskType.DO_WHILE,
        TaskType.WAIT,
        TaskType.NOOP,
        TaskType.INLINE,
        TaskType.SET_VARIABLE,
        TaskType.SUB_WORKFLOW,
        TaskType.TERMINATE,
        TaskType.DYNAMIC,
        TaskType.FORK_JOIN_DYNAMIC,
        TaskType.START_WORKFLOW,
        TaskType.DECISION,
        TaskType.EXCLUSIVE_JOIN,
        TaskType.HUMAN,
        TaskType.LAMBDA,
        TaskType.JSON_JQ_TRANSFORM,
    }
)


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Place:
    """One task in its place. `loops` are the DO_WHILE tasks around it, outermost first; `parent` is what contains it.

    `route` is the way down from the workflow: (path of a task list, index in it) per level, this task's own place last.
    """

    task: WorkflowTask
    path: str
    siblings: Sequence[WorkflowTask]
    parent: Place | None
    loops: tuple[WorkflowTask, ...]
    route: tuple[tuple[str, int], ...]
    #: The task that this one undoes, for a compensation: the flow never comes to it.
    compensates: WorkflowTask | None = None

    @property
    def index(self) -> int:
        """Position among the siblings."""
        return self.route[-1][1]

    @property
    def list_path(self) -> str:
        """JSON path of the list this task is an element of."""
        return self.route[-1][0]

    @property
    def depth(self) -> int:
        """1 for a task of the workflow itself, one more per task that contains it."""
        return len(self.route)

    @property
    def previous(self) -> WorkflowTask | None:
        """The sibling just before, if any."""
        return self.siblings[self.index - 1] if self.index else None

    @property
    def following(self) -> WorkflowTask | None:
        """The sibling just after, if any."""
        return self.siblings[self.index + 1] if self.index + 1 < len(self.siblings) else None


def branches(task: WorkflowTask, path: str) -> Iterator[tuple[str, Sequence[WorkflowTask]]]:
    """Every list of tasks directly inside `task` with its path: cases, default and loop body if not empty, branches."""
    for key, tasks in task.decision_cases.items():
        yield step_path(f"{path}.decisionCases", key), tasks
    if task.default_case:
        yield f"{path}.defaultCase", task.default_case
    for index, tasks in enumerate(task.fork_tasks):
        yield f"{path}.forkTasks[{index}]", tasks
    if task.loop_over:
        yield f"{path}.loopOver", task.loop_over


def walk(defn: WorkflowDef, path: str = "$", *, deepest: int = MAX_NESTING) -> Iterator[Place]:
    """All tasks of `defn` in document order, each before its compensation and what it contains; inline definitions are not entered.

    Nothing below `deepest` levels is visited, save one level more, so that the caller can see that it went too deep.
    """
    stack = _places(defn.tasks, f"{path}.tasks", None)
    while stack:
        node = stack.pop()
        yield node
        if node.depth <= deepest:
            inner: list[Place] = _compensations(node)
            for list_path, tasks in branches(node.task, node.path):
                inner.extend(reversed(_places(tasks, list_path, node)))
            stack.extend(reversed(inner))


def _places(tasks: Sequence[WorkflowTask], list_path: str, parent: Place | None) -> list[Place]:
    """The tasks of one list, last first, as a stack wants them."""
    loops = () if parent is None else parent.loops
    if parent is not None and list_path == f"{parent.path}.loopOver":
        loops = (*loops, parent.task)
    route = () if parent is None else parent.route
    return [
        Place(
            task=tasks[index],
            path=f"{list_path}[{index}]",
            siblings=tasks,
            parent=parent,
            loops=loops,
            route=(*route, (list_path, index)),
        )
        for index in reversed(range(len(tasks)))
    ]


def _compensations(node: Place) -> list[Place]:
    """The compensation of a task, which stands alone; one of its own is visited too, for the validator to refuse."""
    task = node.task.compensation
    if task is None:
        return []
    path = f"{node.path}.compensate"
    return [
        Place(
            task=task,
            path=path,
            siblings=(task,),
            parent=node,
            loops=node.loops,
            route=(*node.route, (path, 0)),
            compensates=node.task,
        )
    ]
