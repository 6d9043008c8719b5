"""What Conductor's parser accepts, we accept, and read the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conductorlite.errors import InvalidDefinition
from conductorlite.model.definitions import JoinMode, WorkflowDef, WorkflowTask


def read_task(**properties: Any) -> WorkflowTask:
    """The one task of a definition read from JSON."""
    document = {"name": "w", "tasks": [{"name": "t", "taskReferenceName": "t", **properties}]}
    return WorkflowDef.from_json(document).tasks[0]


@pytest.mark.parametrize(
    ("properties", "field", "expected"),
    [
        ({"retryCount": "5"}, "retry_count", 5),
        ({"retryCount": 5.0}, "retry_count", 5),
        ({"retryCount": " 5 "}, "retry_count", 5),
        ({"retryCount": ""}, "retry_count", None),
        ({"startDelay": "5"}, "start_delay_ms", 5000),
        ({"startDelay": 0.25}, "start_delay_ms", 250),
        ({"startDelay": None}, "start_delay_ms", 0),
        ({"optional": "true"}, "optional", True),
        ({"optional": "False"}, "optional", False),
        ({"optional": 1}, "optional", True),
        ({"optional": ""}, "optional", False),
        ({"optional": None}, "optional", False),
        ({"loopCondition": True}, "loop_condition", "true"),
        ({"expression": 5}, "expression", "5"),
        ({"description": ""}, "description", ""),
        ({"joinOn": None}, "join_on", ()),
        ({"joinOn": [1, True]}, "join_on", ("1", "true")),
        ({"inputParameters": None}, "input_parameters", {}),
        ({"decisionCases": {"a": None}}, "decision_cases", {"a": ()}),
        ({"type": None}, "type", "SIMPLE"),
        ({"workflowTaskType": "HTTP"}, "type", "HTTP"),
        ({"workflowTaskType": "HTTP"}, "extra", {}),
        ({"type": "x", "workflowTaskType": "USER_DEFINED"}, "type", "x"),
        ({"type": "x", "workflowTaskType": "USER_DEFINED"}, "extra", {"workflowTaskType": "USER_DEFINED"}),
        ({"joinMode": "SYNC"}, "join_mode", JoinMode.SYNC),
        ({"retryLogic": "FIXED", "nothing": None}, "extra", {"retryLogic": "FIXED", "nothing": None}),
    ],
)
def test_a_property_is_read_as_conductor_reads_it(properties: dict[str, Any], field: str, expected: object) -> None:
    """Each loosely written value becomes what Conductor makes of it."""
    value = getattr(read_task(**properties), field)
    assert value == expected
    assert isinstance(value, type(expected))


@pytest.mark.parametrize(("given", "expected"), [("3", 3), (3, 3), ("", None), (None, None)])
def test_a_sub_workflow_version_may_be_digits_or_blank(given: object, expected: int | None) -> None:
    """`subWorkflowParam.version` is an integer, its text, or nothing."""
    params = read_task(subWorkflowParam={"name": "c", "version": given}).sub_workflow_param
    assert params is not None
    assert params.version == expected


def test_an_inline_definition_is_an_object_or_an_expression() -> None:
    """`workflowDefinition` becomes a definition, or stays the expression it is."""
    inline = read_task(subWorkflowParam={"workflowDefinition": {"name": "c"}}).sub_workflow_param
    expression = read_task(subWorkflowParam={"workflowDefinition": "${x.output.d}"}).sub_workflow_param
    assert inline is not None
    assert inline.workflow_definition == WorkflowDef(name="c")
    assert expression is not None
    assert expression.workflow_definition == "${x.output.d}"


def test_an_embedded_task_definition_takes_its_tasks_name() -> None:
    """Exported definitions often leave the name out where it could only be the same."""
    task_def = read_task(taskDefinition={"retryCount": 1}).task_definition
    assert task_def is not None
    assert (task_def.name, task_def.retry_count) == ("t", 1)


def test_every_kind_of_source_is_read(tmp_path: Path) -> None:
    """Text, bytes, a parsed mapping and a path give the same definition."""
    text = '{"name": "ä", "version": 3}'
    file = tmp_path / "definition.json"
    file.write_text(text, encoding="utf-8")
    expected = WorkflowDef(name="ä", version=3)
    for source in (text, text.encode(), {"name": "ä", "version": 3}, file):
        assert WorkflowDef.from_json(source) == expected


def test_a_missing_file_is_an_ordinary_os_error(tmp_path: Path) -> None:
    """A path that cannot be read raises what `open` raises."""
    with pytest.raises(FileNotFoundError):
        WorkflowDef.from_json(tmp_path / "absent.json")


def test_an_empty_name_is_left_to_the_validator() -> None:
    """The codec demands that a name is there; whether it is a good one is not its business."""
    assert WorkflowDef.from_json({"name": ""}).name == ""
    with pytest.raises(InvalidDefinition, match="is missing"):
        WorkflowDef.from_json({})
