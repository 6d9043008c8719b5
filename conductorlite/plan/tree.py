"""The task tree of a definition as a flat walk: each task with its path, its siblings and what is around it.

The one walk for all who need one: checks, plans, differences, migrations, explanations. A stack, not recursion, for definitions may
nest deeper than Python's. Here too: which task types are the decider's own, and for which there are workers to include.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from operator import is_not
from typing import Any, Final

import attrs

from conductorlite.model.definitions import PYTHON_KEY, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.scalars import MAX_NESTING, step_path

__all__ = [
    "CHOOSES",
    "EXPRESSED",
    "LEVEL",
    "OPERATOR_TYPES",
    "SHIPPED_TYPES",
    "Branch",
    "Route",
    "TreePosition",
    "attempt_in",
    "branches",
    "changed_branches",
    "holder_of",
    "holds_tasks",
    "is_expressed",
    "levels",
    "merges_template",
    "other_case",
    "positions",
    "python_of",
    "tasks_inside",
    "walk",
    "where_parted",
]

#: Types whose workers we ship, and which no engine has unasked.
SHIPPED_TYPES: Final = frozenset({TaskType.HTTP, TaskType.EVENT, TaskType.KAFKA_PUBLISH})

#: Operators whose own input merges the template of their definition, as workers' tasks do (Conductor's mappers).
_MERGES: Final = frozenset({TaskType.DO_WHILE, TaskType.INLINE, TaskType.LAMBDA, TaskType.JSON_JQ_TRANSFORM})

#: Types that go on with one of their cases.
CHOOSES: Final = frozenset({TaskType.SWITCH, TaskType.DECISION})

#: Types that may hold an expression of Python beside the JavaScript made of it, see `language.expressions`.
EXPRESSED: Final = frozenset({TaskType.INLINE, TaskType.SWITCH, TaskType.DO_WHILE})

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
        TaskType.PULL_WORKFLOW_MESSAGES,
        TaskType.LAMBDA,
        TaskType.JSON_JQ_TRANSFORM,
        TaskType.EMIT,
    }
)


def is_expressed(task: WorkflowTask) -> bool:
    """Return True if a task decides, or computes, by an expression of Python that is stored beside its JavaScript."""
    return task.type in EXPRESSED and PYTHON_KEY in task.input_parameters


def python_of(task: WorkflowTask) -> str | None:
    """The Python by which a task decides or computes, for people to read; None when it has none."""
    entry = task.input_parameters[PYTHON_KEY] if is_expressed(task) else None
    text = entry.get("text") if isinstance(entry, dict) else None
    return text if isinstance(text, str) else None


def attempt_in(task: WorkflowTask) -> WorkflowDef | None:
    """The steps of a `try` or an `attempt` of a flow, which are a workflow of their own there; None for any other task."""
    param = task.sub_workflow_param
    inner = None if task.type != TaskType.SUB_WORKFLOW or not task.optional or param is None else param.workflow_definition
    found = isinstance(inner, WorkflowDef) and inner.name.endswith(f"_{task.task_reference_name}")
    return inner if found and isinstance(inner, WorkflowDef) else None


def holder_of(definition: WorkflowDef, ref: str) -> WorkflowDef | None:
    """The innermost workflow of `try` blocks in which a step is, or this definition itself; None when no step has the reference."""
    pending = [definition]
    while pending:
        one = pending.pop(0)
        for position in walk(one):
            if position.ref == ref:
                return one
            inner = attempt_in(position.task)
            if inner is not None:
                pending.append(inner)
    return None


def merges_template(task: WorkflowTask) -> bool:
    """Return True if a task's own input merges the template of its definition."""
    return task.type not in OPERATOR_TYPES or task.type in _MERGES


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Branch:
    """One list of tasks inside a task: `kind` is case, default, branch, body or compensation; `key` names or numbers it."""

    ref: str
    kind: str
    key: str | int = ""

    def __str__(self) -> str:
        match self.kind:
            case "case":
                return f"case {self.key!r} of {self.ref!r}"
            case "default":
                return f"the default of {self.ref!r}"
            case "branch":
                return f"a branch of {self.ref!r}"
            case _:
                return f"the loop {self.ref!r}"

    def excludes(self, other: Branch | None) -> bool:
        """Return True if this and another list of the same task are cases of which only one is run."""
        return other is not None and {self.kind, other.kind} <= {"case", "default"}


#: The way down from the workflow to a task, four entries a level: whose list, its kind and key, and the place in it. Texts and
#: numbers only: plans keep it, and the garbage collector is to leave it alone.
Route = tuple[str | int, ...]
LEVEL: Final = 4


def levels(route: Route) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """The lists on the way down, by what they are known by, and the place in each."""
    return ((route[at : at + 3], int(route[at + 3])) for at in range(0, len(route), LEVEL))


@attrs.frozen(kw_only=True, slots=True, eq=False, repr=False)
class TreePosition:
    """One task and where it stands: its JSON path, its siblings, and what contains it (`parent`)."""

    task: WorkflowTask
    path: str
    siblings: Sequence[WorkflowTask]
    parent: TreePosition | None
    #: The list it is an element of, None for the workflow's own, and the place in it.
    branch: Branch | None
    index: int
    #: 1 for a task of the workflow itself, one more per task that contains it.
    depth: int
    #: References of the loops it is in, outermost first.
    loops: tuple[str, ...]
    #: The task that this one undoes, for a compensation: the flow never comes to it.
    compensates: WorkflowTask | None = None

    @property
    def ref(self) -> str:
        """The task's reference."""
        return self.task.task_reference_name

    @property
    def around(self) -> tuple[Branch, ...]:
        """The lists it is in, outermost first, without the workflow's own."""
        found: list[Branch] = []
        at = self
        while at.branch is not None and at.parent is not None:
            found.append(at.branch)
            at = at.parent
        return tuple(found[::-1])

    @property
    def route(self) -> Route:
        """The way down to it."""
        down: Route = ()
        at: TreePosition | None = self
        while at is not None:
            branch = at.branch
            level = ("", "", "", at.index) if branch is None else (branch.ref, branch.kind, branch.key, at.index)
            down, at = (*level, *down), at.parent
        return down

    @property
    def outwards(self) -> Iterator[TreePosition]:
        """It and what is around it, innermost first."""
        at: TreePosition | None = self
        while at is not None:
            yield at
            at = at.parent

    @property
    def previous(self) -> WorkflowTask | None:
        """The sibling just before, if any."""
        return self.siblings[self.index - 1] if self.index else None

    @property
    def following(self) -> WorkflowTask | None:
        """The sibling just after, if any."""
        return self.siblings[self.index + 1] if self.index + 1 < len(self.siblings) else None


def other_case(one: TreePosition, other: TreePosition) -> str | None:
    """Return what messages say of two that `where_parted` finds in different lists, if only one is run; None: both may be."""
    apart = one.branch is not None and one.branch.excludes(other.branch)
    return "is in another case of the same switch" if apart else None


def where_parted(one: TreePosition, other: TreePosition) -> tuple[TreePosition, TreePosition]:
    """The first two on the ways down to two tasks of a definition, of any two walks, that are not the same task; the same one
    twice if one of the two is, or is in, the other.
    """
    while one.depth > other.depth and one.parent is not None:
        one = one.parent
    while other.depth > one.depth and other.parent is not None:
        other = other.parent
    while one.parent is not None and other.parent is not None and one.parent.path != other.parent.path:
        one, other = one.parent, other.parent
    return one, other


def holds_tasks(task: WorkflowTask) -> bool:
    """Return True if there are tasks directly inside a task."""
    return bool(task.fork_tasks or task.loop_over or task.decision_cases or task.default_case)


def branches(task: WorkflowTask) -> Iterator[tuple[Branch, str, Sequence[WorkflowTask]]]:
    """Every list of tasks directly inside a task that is not empty, with its path below the task's."""
    ref = task.task_reference_name
    for key, tasks in task.decision_cases.items():
        yield Branch(ref=ref, kind="case", key=key), step_path(".decisionCases", key), tasks
    if task.default_case:
        yield Branch(ref=ref, kind="default"), ".defaultCase", task.default_case
    for index, tasks in enumerate(task.fork_tasks):
        yield Branch(ref=ref, kind="branch", key=index), f".forkTasks[{index}]", tasks
    if task.loop_over:
        yield Branch(ref=ref, kind="body"), ".loopOver", task.loop_over


def tasks_inside(task: WorkflowTask) -> Iterator[WorkflowTask]:
    """Every task inside a task, at any depth, in no order."""
    stack = [inner for _, _, tasks in branches(task) for inner in tasks]
    while stack:
        inner = stack.pop()
        yield inner
        for _, _, tasks in branches(inner):
            stack.extend(tasks)


def changed_branches(task: WorkflowTask, change: Callable[[Sequence[WorkflowTask]], Sequence[WorkflowTask]]) -> dict[str, Any]:
    """The fields of a task that hold lists of tasks, as far as `change` answers another list for one of them."""
    cases = {case: change(tasks) for case, tasks in task.decision_cases.items()}
    fields: dict[str, Any] = {"default_case": change(task.default_case)}
    forks = tuple(change(tasks) for tasks in task.fork_tasks)
    fields["loop_over"] = change(task.loop_over)
    if any(map(is_not, cases.values(), task.decision_cases.values())):
        fields["decision_cases"] = cases
    if any(map(is_not, forks, task.fork_tasks)):
        fields["fork_tasks"] = forks
    return {name: value for name, value in fields.items() if value is not getattr(task, name)}


def walk(defn: WorkflowDef, path: str = "$", *, deepest: float = MAX_NESTING) -> Iterator[TreePosition]:
    """All tasks of `defn` in document order, each before its compensation and what it contains; inline definitions are not entered.

    Nothing below `deepest` levels is visited, save one level more, so that the caller can see that it went too deep.
    """
    stack = _positions(defn.tasks, f"{path}.tasks", None, None)
    while stack:
        position = stack.pop()
        yield position
        task = position.task
        if (task.compensate is not None or holds_tasks(task)) and position.depth <= deepest:
            for branch, below, tasks in reversed([*branches(task)]):
                stack += _positions(tasks, position.path + below, position, branch)
            undo = task.compensation
            if undo is not None:
                # One of a compensation's own is visited too, for the validator to refuse.
                alone = Branch(ref=position.ref, kind="compensation")
                [place] = _positions((undo,), f"{position.path}.compensate", position, alone)
                stack.append(attrs.evolve(place, path=f"{position.path}.compensate", compensates=task))


def positions(defn: WorkflowDef | None, *, compensations: bool = False) -> dict[str, TreePosition]:
    """Every task by its reference, in document order, however deep; compensations only if they are asked for."""
    found = () if defn is None else walk(defn, deepest=inf)
    return {position.ref: position for position in found if compensations or position.compensates is None}


def _positions(tasks: Sequence[WorkflowTask], path: str, parent: TreePosition | None, branch: Branch | None) -> list[TreePosition]:
    """The tasks of one list, last first, as a stack wants them."""
    depth = 1
    loops: tuple[str, ...] = ()
    if parent is not None and branch is not None:
        depth, loops = parent.depth + 1, parent.loops
        if branch.kind == "body":
            loops = (*loops, branch.ref)
    return [
        TreePosition(
            task=tasks[index],
            path=f"{path}[{index}]",
            siblings=tasks,
            parent=parent,
            branch=branch,
            index=index,
            depth=depth,
            loops=loops,
        )
        for index in reversed(range(len(tasks)))
    ]
