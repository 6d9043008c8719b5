"""FORK_JOIN_DYNAMIC and DYNAMIC: branches, and a task, that are known only now, from the input.

The branches of a fork become a definition of their own (a FORK_JOIN with its JOIN), embedded under its hash like the execution's,
and the tasks in them carry that hash. So whatever a definition may hold can stand behind a dynamic branch: operators, sequences (a
list in place of a task), further dynamic forks. What the input says is data: an expression in it is text; only the inputParameters
written in a task are resolved. Source of the shapes: Conductor's `ForkJoinDynamicTaskMapper`.

The name that a DYNAMIC finds may be a task's, or that of a built-in type that stands alone. What it turns out to be is embedded as
a definition of its own, with the task definition registered under the resolved name. Fields that only that type has may be among
the inputs: the sink of an EVENT, what a SUB_WORKFLOW starts. Source of the rule: Conductor's `DynamicTaskMapper`, which takes
the definition of the placeholder's name instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from conductorlite.decide.changeset.changeset import Changeset
from conductorlite.decide.operators.document import rendered
from conductorlite.decide.operators.join import create_collecting_join
from conductorlite.language.values import to_text
from conductorlite.model.definitions import NAMED_BY_INPUT, SubWorkflowParams, TaskType, WorkflowDef
from conductorlite.model.executions import Task, printed_ref
from conductorlite.model.statuses import TaskStatus
from conductorlite.plan.compile import Node
from conductorlite.plan.grafts import ALONE, FORKED_DEFINITION

__all__ = ["MOST_BRANCHES", "resolve_dynamic", "schedule_dynamic_fork"]

#: Built-in types that workers carry out.
_WORKERS: Final = frozenset({TaskType.HTTP, TaskType.EVENT, TaskType.KAFKA_PUBLISH})

#: Types of workers' tasks, which have names of their own.
_NAMELESS: Final = frozenset({TaskType.SIMPLE, TaskType.USER_DEFINED})


def resolve_dynamic(
    changeset: Changeset,
    node: Node,
    iterations: tuple[int, ...],
    previous: Task | None,
    schedule: Callable[[Node], None],
) -> None:
    """Find out what the node stands for and have that scheduled; a name that stands for nothing fails the task for good."""
    values = rendered(changeset, node, iterations)
    param = node.task.dynamic_task_name_param or ""
    value = values.get(param)
    problem = None
    name = "" if value is None else to_text(value).strip()
    if not name:
        problem = f"Input {param!r} names no task: it is {'missing' if value is None else 'empty'}"
    elif name in TaskType.__members__ and name not in ALONE and name not in _WORKERS:
        what = "the type of a task, not its name" if name in _NAMELESS else "a task type that cannot stand alone"
        problem = f"Input {param!r} is {name!r}, {what}"
    if problem is None:
        kind = name if name in ALONE or name in _WORKERS else str(TaskType.SIMPLE)
        fields = _fields_of(kind, node, values)
        task = attrs.evolve(node.task, name=name, type=kind, dynamic_task_name_param=None, **fields)
        definition = WorkflowDef(name=changeset.workflow.name, tasks=[task])
        attempt = 0 if previous is None else previous.attempt + 1
        # What the task itself embeds, as a SUB_WORKFLOW may, goes by its reference and attempt alone.
        found = changeset.documents.embed(f"{printed_ref(node.ref, iterations)}#{attempt} resolved", definition)
        if found.digest is not None:
            schedule(changeset.rows.plan_of((*node.grafts, found.digest)).nodes[node.ref])
            return
        shown = found.problem.replace("$.tasks[0]", "the task")
        problem = f"Input {param!r} is {name!r}, which cannot be scheduled: {shown}"
    changeset.create_ended(
        node,
        iterations,
        TaskStatus.FAILED_WITH_TERMINAL_ERROR,
        previous=previous,
        input=changeset.documents.payload(values),
        reason=problem,
    )


def _fields_of(kind: str, node: Node, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that a task of this type needs and a DYNAMIC has among its inputs."""
    sink = values.get("sink")
    if kind == TaskType.EVENT and not node.task.sink and isinstance(sink, str):
        return {"sink": literal(sink)}
    if kind == TaskType.SUB_WORKFLOW and node.task.sub_workflow_param is None:
        return {"sub_workflow_param": SubWorkflowParams(extra={NAMED_BY_INPUT: True})}
    return {}


#: Branches one fork may have: more is a mistake, or an attack.
MOST_BRANCHES: Final = 20_000

#: A task in Conductor's JSON; a branch is one or several of them.
_Json = dict[str, Any]
_Branch = list[_Json]


class _Malformed(Exception):
    """The input names no branches; says where and why."""


def schedule_dynamic_fork(changeset: Changeset, node: Node, iterations: tuple[int, ...], previous: Task | None = None) -> None:
    """Create the FORK and the JOIN that collects; the branches follow from the work list.

    Malformed input fails the FORK for good, with the place of the mistake.
    """
    values = rendered(changeset, node, iterations)
    ref = printed_ref(node.ref, iterations)
    try:
        branches = _branches(changeset, node, iterations, values)
        last = [branch[-1]["taskReferenceName"] for branch in branches]
        given: dict[str, Any] = {"forkedTasks": last}
        if branches:
            given[FORKED_DEFINITION] = _grow(changeset, node, iterations, branches, previous)
    except _Malformed as error:
        changeset.create_ended(
            node,
            iterations,
            TaskStatus.FAILED_WITH_TERMINAL_ERROR,
            previous=previous,
            input=changeset.documents.payload(values),
            reason=str(error),
        )
        return
    changeset.create(
        node,
        iterations,
        TaskStatus.COMPLETED,
        previous=previous,
        input=changeset.documents.payload({**values, **given}),
    )
    if node.join is not None:
        join = changeset.rows.plan_of(node.grafts).nodes[node.join]
        create_collecting_join(changeset, join, iterations, last, retried=previous is not None)
    changeset.work.stack.append(("branch", ref, 0))


def _grow(changeset: Changeset, node: Node, iterations: tuple[int, ...], branches: list[_Branch], previous: Task | None) -> str:
    """Embed the branches as a definition of their own; its hash."""
    join = node.join or ""
    definition = {
        "name": changeset.workflow.name,
        "schemaVersion": 2,
        "tasks": [
            {"name": node.task.name, "taskReferenceName": node.ref, "type": "FORK_JOIN", "forkTasks": branches},
            {
                "name": join,
                "taskReferenceName": join,
                "type": "JOIN",
                "joinOn": [branch[-1]["taskReferenceName"] for branch in branches],
            },
        ],
    }
    attempt = 0 if previous is None else previous.attempt + 1
    found = changeset.documents.embed(f"{printed_ref(node.ref, iterations)}#{attempt}", definition)
    if found.digest is None:
        shown = found.problem.replace("$.tasks[0].forkTasks", "branches")
        raise _Malformed(f"{_source(node)}: the branches are no valid tasks: {shown}")
    nodes = changeset.rows.plan_of((*node.grafts, found.digest)).nodes
    inside = nodes[node.ref].inside
    undoing = {ref for name in inside if (ref := nodes[name].compensation) is not None}
    taken = sorted((inside | undoing) & changeset.rows.plan_of(node.grafts).nodes.keys())
    rows = changeset.rows.known_tasks(printed_ref(ref, iterations) for ref in sorted(inside))
    taken += sorted(task.ref for task in rows if task is not None and task.grafts != (*node.grafts, found.digest))
    if taken:
        raise _Malformed(f"{_source(node)}: the execution has another task {taken[0]!r}")
    return found.digest


def _source(node: Node) -> str:
    param = node.task.dynamic_fork_tasks_param or node.task.dynamic_fork_join_tasks_param or "forkTaskInputs"
    return f"Input {param!r}"


# ---------------------------------------------------------------------- the three shapes of the input


def _branches(changeset: Changeset, node: Node, iterations: tuple[int, ...], values: Mapping[str, Any]) -> list[_Branch]:
    task = node.task
    if isinstance(values.get("forkTaskInputs"), list):
        branches = _same_task(changeset, node, iterations, values)
    elif task.dynamic_fork_tasks_param is not None:
        inputs = task.dynamic_fork_tasks_input_param_name or ""
        branches = _tasks_and_inputs(task.dynamic_fork_tasks_param, values, inputs)
    elif task.dynamic_fork_join_tasks_param is not None:
        branches = _legacy(task.dynamic_fork_join_tasks_param, values)
    else:
        raise _Malformed(f"Input 'forkTaskInputs' is {_kind(values.get('forkTaskInputs'))}, not a list")
    if task.optional:
        for branch in branches:
            for one in branch:
                one["optional"] = True
    return branches


def _same_task(changeset: Changeset, node: Node, iterations: tuple[int, ...], values: Mapping[str, Any]) -> list[_Branch]:
    """One task, or one sub-workflow, for each element of `forkTaskInputs`."""
    workflow, version = values.get("forkTaskWorkflow"), values.get("forkTaskWorkflowVersion")
    kind = "SUB_WORKFLOW" if workflow else _text(values, "forkTaskType") or "SIMPLE"
    name = _text(values, "forkTaskName") or (kind if kind in _BUILT_IN and not workflow else node.ref)
    elements = _listed(values["forkTaskInputs"], "Input 'forkTaskInputs'")
    prefix = f"_{name}"
    changeset.reader.prefetch(refs=[printed_ref(f"{prefix}_{index}", iterations) for index in range(len(elements) or 1)])
    if changeset.rows.task(printed_ref(f"{prefix}_0", iterations)) is not None:
        # An earlier dynamic fork has taken the short names.
        prefix = f"_{node.ref}_{name}"
    branches: list[_Branch] = []
    for index, element in enumerate(elements):
        given = element if isinstance(element, dict) else {"input": element}
        one: _Json = {
            "name": str(workflow) if workflow else name,
            "taskReferenceName": f"{prefix}_{index}",
            "type": kind,
            "inputParameters": literal({**given, "__index": index}),
        }
        if workflow:
            one["subWorkflowParam"] = {"name": str(workflow), "version": _version(version)}
            if isinstance(given.get("taskToDomain"), dict):
                one["subWorkflowParam"]["taskToDomain"] = given["taskToDomain"]
        branches.append([one])
    return branches


_BUILT_IN: Final = frozenset(TaskType) - {TaskType.SIMPLE, TaskType.USER_DEFINED}


def _version(value: Any) -> int | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _Malformed(f"Input 'forkTaskWorkflowVersion' is {str(value)[:60]!r}, not a version")


def _text(values: Mapping[str, Any], key: str) -> str | None:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise _Malformed(f"Input {key!r} is {_kind(value)}, not a text")
    return value


def _tasks_and_inputs(param: str, values: Mapping[str, Any], input_param: str) -> list[_Branch]:
    """A list of tasks, and their inputs by reference. A list in the list is a branch of several tasks."""
    inputs = values.get(input_param)
    if not isinstance(inputs, dict):
        raise _Malformed(f"Input {input_param!r} is {_kind(inputs)}, not a map of inputs by reference name")
    branches = []
    for index, element in enumerate(_listed(values.get(param), f"Input {param!r}")):
        elements = element if isinstance(element, list) else [element]
        where = f"Input {param!r}[{index}]"
        if not elements:
            raise _Malformed(f"{where} is empty: a branch needs a task")
        branches.append([_task(one, inputs, input_param, where) for one in elements])
    return branches


def _task(element: Any, inputs: Mapping[str, Any], input_param: str, where: str) -> _Json:
    if not isinstance(element, dict):
        raise _Malformed(f"{where} is {_kind(element)}, not a task")
    ref = element.get("taskReferenceName")
    if not isinstance(ref, str) or not ref:
        raise _Malformed(f"{where}.taskReferenceName is missing")
    given = inputs.get(ref, {})
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise _Malformed(f"Tasks could not be dynamically forked: Input {input_param!r}.{ref} is {_kind(given)}, not a map")
    own = element.get("inputParameters") or {}
    if not isinstance(own, dict):
        raise _Malformed(f"{where}.inputParameters is {_kind(own)}, not a map")
    return {**element, "inputParameters": {**own, **literal(given)}}


def _legacy(param: str, values: Mapping[str, Any]) -> list[_Branch]:
    """`{"dynamicTasks": [{"taskName", "referenceName", "type", "input"}]}`."""
    said = values.get(param)
    if not isinstance(said, dict):
        raise _Malformed(f"Input {param!r} is {_kind(said)}, not a map with 'dynamicTasks'")
    branches = []
    for index, element in enumerate(_listed(said.get("dynamicTasks"), f"Input {param!r}.dynamicTasks")):
        where = f"Input {param!r}.dynamicTasks[{index}]"
        if not isinstance(element, dict):
            raise _Malformed(f"{where} is {_kind(element)}, not a task")
        for key in ("taskName", "referenceName"):
            if not isinstance(element.get(key), str) or not element[key]:
                raise _Malformed(f"{where}.{key} is missing")
        given = element.get("input") or {}
        if not isinstance(given, dict):
            raise _Malformed(f"{where}.input is {_kind(given)}, not a map")
        task = {"name": element["taskName"], "taskReferenceName": element["referenceName"]}
        branches.append([{**task, "type": element.get("type") or "SIMPLE", "inputParameters": literal(given)}])
    return branches


def _listed(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Malformed(f"{where} is {_kind(value)}, not a list of tasks")
    if len(value) > MOST_BRANCHES:
        raise _Malformed(f"{where} has {len(value)} branches, more than {MOST_BRANCHES}")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "missing"
    names = {bool: "a boolean", str: "a text", dict: "a map", list: "a list"}
    return names.get(type(value), "a number")


def literal(value: Any) -> Any:
    """JSON as an input template that gives back exactly this JSON: every `${` in it is escaped."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: literal(inner) if isinstance(inner, _HOLDING) else inner for key, inner in value.items()}
    return [literal(inner) if isinstance(inner, _HOLDING) else inner for inner in value] if isinstance(value, list) else value


#: What may hold text.
_HOLDING: Final = (str, dict, list)
