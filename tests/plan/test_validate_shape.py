"""Definitions written in Python without a type checker: reported, never stumbled over."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductorlite.model.definitions import SubWorkflowParams, TaskDef, WorkflowDef, WorkflowTask
from conductorlite.model.errors import InvalidDefinition, InvalidInput, Problem
from conductorlite.model.scalars import MAX_NESTING, json_names
from conductorlite.plan.validate import checked, examine, misshapen, validate, validate_task_def

#: Values of every kind that a careless author, or a script, might put anywhere.
ANYTHING: list[Any] = [
    None,
    True,
    5,
    -1,
    2**70,
    10**5000,
    1.5,
    float("nan"),
    "x",
    "${a b}",
    b"x",
    {1},
    [1],
    {1: 2},
    (None,),
]


def built(kind: type[Any], fields: dict[str, Any]) -> Any:
    """An object of the class with those fields, set behind the back of its converters."""
    required = {"name": "t", **({"task_reference_name": "t"} if kind is WorkflowTask else {})}
    made = kind(**required)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


@pytest.mark.parametrize(
    ("task", "path", "message"),
    [
        (built(WorkflowTask, {"name": 5}), "$.tasks[0].name", "expected text, got 5"),
        (built(WorkflowTask, {"optional": "yes"}), "$.tasks[0].optional", "expected True or False, got the text 'yes'"),
        (built(WorkflowTask, {"retry_count": True}), "$.tasks[0].retryCount", "expected an integer of at most 64 bits"),
        (built(WorkflowTask, {"start_delay_ms": 2**99}), "$.tasks[0].startDelay", "at most 64 bits, got an integer of"),
        (built(WorkflowTask, {"join_mode": "SYNC"}), "$.tasks[0].joinMode", "expected a JoinMode (SYNC, ASYNC), got"),
        (built(WorkflowTask, {"loop_over": (7,)}), "$.tasks[0].loopOver[0]", "expected a WorkflowTask, got 7"),
        (built(WorkflowTask, {"decision_cases": {3: ()}}), "$.tasks[0].decisionCases (key)", "expected text, got 3"),
        (
            built(WorkflowTask, {"input_parameters": [1]}),
            "$.tasks[0].inputParameters",
            "expected a mapping, got a list",
        ),
        (
            built(WorkflowTask, {"input_parameters": {"a": [object()]}}),
            "$.tasks[0].inputParameters.a[0]",
            "a object is not JSON",
        ),
        (built(WorkflowTask, {"extra": {"a": float("inf")}}), "$.tasks[0].a", "inf is not a JSON number"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_problem(task: WorkflowTask, path: str, message: str) -> None:
    """The path is that of the JSON the definition would have been."""
    [problem] = validate(WorkflowDef(name="w", tasks=[task]))
    assert problem.path == path
    assert message in problem.message


def test_a_cycle_is_a_problem() -> None:
    """A definition that contains itself ends in an error, not in an endless walk."""
    task = WorkflowTask(name="l", task_reference_name="l", type="DO_WHILE", loop_condition="false")
    object.__setattr__(task, "loop_over", (task,))
    [problem] = validate(WorkflowDef(name="w", tasks=[task]))
    assert "cyclic" in problem.message


@given(st.data())
def test_nothing_whatever_is_raised(data: st.DataObject) -> None:
    """Any field of any class may hold anything: the answer is a list of problems."""
    kind = data.draw(st.sampled_from([WorkflowDef, WorkflowTask, TaskDef]))
    names = [field.name for field in attrs.fields(kind)]
    fields = data.draw(st.dictionaries(st.sampled_from(names), st.sampled_from(ANYTHING), max_size=4))
    made = built(kind, fields)
    if kind is TaskDef:
        problems = validate_task_def(made)
    else:
        problems = validate(made if kind is WorkflowDef else WorkflowDef(name="w", tasks=[made]))
    assert all(isinstance(problem, Problem) and problem.path.startswith("$") for problem in problems)


@pytest.mark.parametrize("value", [{1, 2}, object(), {"a": {1}}, float("nan")])
def test_a_value_of_no_declared_type_must_be_json(value: object) -> None:
    """What may be an expression or anything it stands for is JSON all the same."""
    params = SubWorkflowParams(name="child", priority=value)
    task = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=params)
    paths = [problem.path for problem in validate(WorkflowDef(name="w", tasks=[task]))]
    assert any(path.startswith("$.tasks[0].subWorkflowParam.priority") for path in paths), paths


@pytest.mark.parametrize(("innermost", "problem"), [(None, False), (SubWorkflowParams(name="x"), True)])
def test_how_far_a_definition_is_looked_into(innermost: SubWorkflowParams | None, problem: bool) -> None:
    """Four containers for each level that may be nested, and eight more: what is deeper is one problem, and nothing is raised."""
    leaf = WorkflowTask(name="a", task_reference_name="a", sub_workflow_param=innermost)
    inner = [WorkflowTask(name="l", task_reference_name="l", type="DO_WHILE", loop_over=[leaf])]
    for _ in range(MAX_NESTING + 1):
        params = SubWorkflowParams(name="w", workflow_definition=WorkflowDef(name="w", tasks=inner))
        inner = [WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=params)]
    found, _ = examine(WorkflowDef(name="w", tasks=inner), "$", WorkflowDef)
    assert [one.message for one in found] == [f"tasks are nested deeper than {MAX_NESTING} levels (or cyclic)"] * problem


#: What JSON has of it, and lists of tasks where none, or another list, belongs.
_ONE: dict[str, Any] = {"name": "q", "taskReferenceName": "q"}
IN_JSON: list[Any] = [
    *[value for value in ANYTHING if not isinstance(value, bytes | set | tuple) and value == value and value != 10**5000],
    "",
    "5 s",
    [],
    {},
    {"a": 1},
    [[]],
    [{}],
    [_ONE],
    [[_ONE]],
    {"a": [_ONE]},
    "\ud800",
]


@pytest.mark.parametrize("kind", [WorkflowDef, WorkflowTask, TaskDef])
def test_what_is_read_from_json_is_of_the_declared_types(kind: type[Any]) -> None:
    """Any value as any property is refused, or becomes one of its type: what was read need not be examined for that again."""
    refused = 0
    for name in json_names(kind).values():
        for value in IN_JSON:
            task_def: dict[str, Any] = {"name": "a"}
            task = {"name": "a", "taskReferenceName": "a", "taskDefinition": task_def}
            document = {"name": "w", "version": 1, "tasks": [task]}
            {WorkflowDef: document, WorkflowTask: task, TaskDef: task_def}[kind][name] = value
            try:
                definition = WorkflowDef.from_json(document)
            except (InvalidDefinition, InvalidInput):
                refused += 1
                continue
            assert misshapen(definition) == [], (name, value)
            assert checked(definition, ())[0] == validate(definition)
    assert refused
