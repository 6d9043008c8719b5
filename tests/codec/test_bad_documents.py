"""Bad JSON is reported whole, with paths, and never as anything but our own errors."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from functools import partial
from typing import Any

import pytest
from definition_strategies import broken_documents, json_values, task_defs, workflow_documents
from hypothesis import given

from conductorlite.errors import InvalidDefinition, InvalidInput
from conductorlite.model.codec import several_from_json
from conductorlite.model.definitions import TaskDef, WorkflowDef
from conductorlite.model.scalars import MAX_NESTING


def task(**properties: Any) -> dict[str, Any]:
    """A task as JSON."""
    return {"name": "t", "taskReferenceName": "t", **properties}


def problems_of(document: Any) -> list[tuple[str, str]]:
    """(path, message) of everything wrong with a workflow document."""
    with pytest.raises(InvalidDefinition) as caught:
        WorkflowDef.from_json(document)
    return [(problem.path, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("properties", "path", "message"),
    [
        ({"startDelay": "abc"}, ".startDelay", 'expected an integer, got "abc"'),
        ({"startDelay": True}, ".startDelay", "expected an integer, got true"),
        ({"startDelay": 0.0001}, ".startDelay", "expected whole seconds or milliseconds, got 0.0001"),
        ({"startDelay": 10**17}, ".startDelay", "expected seconds within 64 bits of milliseconds"),
        ({"retryCount": 1.5}, ".retryCount", "expected an integer, got 1.5"),
        ({"retryCount": 2**63}, ".retryCount", "expected an integer of at most 64 bits"),
        ({"retryCount": "1_000"}, ".retryCount", 'expected an integer, got "1_000"'),
        ({"retryCount": []}, ".retryCount", "expected an integer, got a list"),
        ({"optional": "yes"}, ".optional", 'expected true or false, got "yes"'),
        ({"optional": {}}, ".optional", "expected true or false, got an object"),
        ({"description": {}}, ".description", "expected text, got an object"),
        ({"name": 5}, ".name", "expected text, got 5"),
        ({"taskReferenceName": None}, ".taskReferenceName", "is missing"),
        ({"taskReferenceName": False}, ".taskReferenceName", "expected text, got false"),
        ({"type": 1}, ".type", "expected text, got 1"),
        ({"inputParameters": []}, ".inputParameters", "expected an object, got a list"),
        ({"joinOn": "a"}, ".joinOn", 'expected a list, got "a"'),
        ({"joinOn": ["a", None]}, ".joinOn[1]", "expected text, got null"),
        ({"joinMode": "sync"}, ".joinMode", 'expected one of SYNC, ASYNC, got "sync"'),
        ({"forkTasks": [{}]}, ".forkTasks[0]", "expected a list, got an object"),
        ({"forkTasks": [[5]]}, ".forkTasks[0][0]", "expected an object, got 5"),
        ({"loopOver": {}}, ".loopOver", "expected a list, got an object"),
        ({"decisionCases": []}, ".decisionCases", "expected an object, got a list"),
        (
            {"decisionCases": {"a b": [task(startDelay="x")]}},
            ".decisionCases['a b'][0].startDelay",
            "expected an integer",
        ),
        ({"decisionCases": {"it's": [None]}}, ".decisionCases['it\\'s'][0]", "expected an object, got null"),
        (
            {"taskDefinition": {"name": "x", "retryLogic": "fixed"}},
            ".taskDefinition.retryLogic",
            "expected one of FIXED",
        ),
        ({"taskDefinition": 1}, ".taskDefinition", "expected an object, got 1"),
        ({"subWorkflowParam": {"version": "${v}"}}, ".subWorkflowParam.version", 'expected an integer, got "${v}"'),
        ({"subWorkflowParam": {"workflowDefinition": "x"}}, ".subWorkflowParam.workflowDefinition", "an expression"),
        ({"subWorkflowParam": {"workflowDefinition": 1}}, ".subWorkflowParam.workflowDefinition", "expected an object"),
        ({"subWorkflowParam": {"workflowDefinition": {}}}, ".subWorkflowParam.workflowDefinition.name", "is missing"),
        (
            {"onStateChange": {"start": [{"payload": 1}]}},
            ".onStateChange.start[0].payload",
            "expected an object, got 1",
        ),
        ({"cacheConfig": {"ttlInSecond": "x"}}, ".cacheConfig.ttlInSecond", "expected an integer"),
    ],
)
def test_a_wrong_value_is_reported_at_its_place(properties: dict[str, Any], path: str, message: str) -> None:
    """Each kind of wrong value gives one problem with its JSON path and what was expected."""
    [(found_path, found_message)] = problems_of({"name": "w", "tasks": [task(), task(**properties)]})
    assert found_path == f"$.tasks[1]{path}"
    assert message in found_message


@pytest.mark.parametrize("document", [None, 5, [], "5", '"w"', "[1]", b"null"])
def test_a_document_must_be_an_object(document: Any) -> None:
    """Any other JSON value is a problem at the root."""
    [(path, message)] = problems_of(document)
    assert path == "$"
    assert message.startswith("expected an object, got")


def test_all_problems_are_reported_at_once() -> None:
    """One bad place hides no other, at any level."""
    inner = task(startDelay="abc", loopOver=[{"name": 1}])
    document = {
        "tasks": [None, task(decisionCases={"a b": [inner, inner]}, joinOn=[[], "b", {}])],
        "timeoutPolicy": "SOON",
        "inputParameters": "x",
    }
    cases = "$.tasks[1].decisionCases['a b']"
    expected = {"$.name", "$.tasks[0]", "$.timeoutPolicy", "$.inputParameters"}
    expected |= {"$.tasks[1].joinOn[0]", "$.tasks[1].joinOn[2]"}
    for index in (0, 1):
        at = f"{cases}[{index}]"
        expected |= {f"{at}.startDelay", f"{at}.loopOver[0].name", f"{at}.loopOver[0].taskReferenceName"}
    found = [path for path, _ in problems_of(document)]
    assert set(found) == expected
    assert len(found) == len(expected)


def test_a_list_of_task_definitions_is_reported_by_index() -> None:
    """Each bad entry of a list has its own path."""
    with pytest.raises(InvalidDefinition) as caught:
        several_from_json(TaskDef, [{"name": "a"}, {"retryCount": {}}, 5])
    assert [problem.path for problem in caught.value.problems] == ["$[1].name", "$[1].retryCount", "$[2]"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name":\n  b}', "line 2 column 3"),
        ("", "line 1 column 1"),
        ('{"name": NaN}', "NaN"),
        ('{"name": "w", "version": 1e999}', "inf is not a JSON number"),
        (b'{"name": "\xff"}', "not UTF-8"),
        ('{"name": "\\ud800"}', "surrogate"),
        ("[" * 5000 + "]" * 5000, "nested deeper"),
        ("1" * 5000, "digits"),
    ],
)
def test_broken_text_is_invalid_input(text: str | bytes, message: str) -> None:
    """What is no JSON, or JSON that nothing can keep, says where and why."""
    with pytest.raises(InvalidInput, match=message):
        WorkflowDef.from_json(text)


@pytest.mark.parametrize("value", [{"name": {1, 2}}, {1: "x"}, {"name": float("inf")}, object()])
def test_python_values_that_are_no_json_are_invalid_input(value: Any) -> None:
    """A mapping is checked as text would be."""
    with pytest.raises(InvalidInput):
        WorkflowDef.from_json(value)


def nested(levels: int, kind: str) -> dict[str, Any]:
    """A workflow with tasks nested `levels` deep, in loops or in inline definitions."""
    inner = task()
    for _ in range(levels - 1):
        if kind == "loop":
            inner = task(type="DO_WHILE", loopOver=[inner])
        else:
            inner = task(subWorkflowParam={"workflowDefinition": {"name": "i", "tasks": [inner]}})
    return {"name": "w", "tasks": [inner]}


@pytest.mark.parametrize("kind", ["loop", "inline"])
def test_the_deepest_allowed_nesting_is_read_and_written(kind: str) -> None:
    """MAX_NESTING levels of either kind survive the round trip within the default stack."""
    document = nested(MAX_NESTING, kind)
    assert json.loads(json.dumps(WorkflowDef.from_json(document).to_json())).keys() >= document.keys()
    assert WorkflowDef.from_json(WorkflowDef.from_json(document).to_json()) == WorkflowDef.from_json(document)


def test_deeper_nesting_is_one_problem() -> None:
    """One level more is reported where it begins."""
    [(path, message)] = problems_of(nested(MAX_NESTING + 1, "loop"))
    assert path == "$.tasks[0]" + ".loopOver[0]" * MAX_NESTING
    assert str(MAX_NESTING) in message


def test_of_several_that_are_too_deep_one_is_a_problem() -> None:
    """The first; the others would say the same. What else is wrong is reported all the same."""
    [deep] = nested(MAX_NESTING + 1, "loop")["tasks"]
    found = problems_of({"name": "w", "tasks": [deep, task(startDelay="x"), deep]})
    assert found == [
        ("$.tasks[0]" + ".loopOver[0]" * MAX_NESTING, f"tasks are nested deeper than {MAX_NESTING} levels"),
        ("$.tasks[1].startDelay", 'expected an integer, got "x"'),
    ]


def test_a_caller_who_has_used_up_the_stack_is_told_so() -> None:
    """Reading needs a few hundred calls for what is nested as deeply as it may be."""
    document = nested(MAX_NESTING, "inline")

    def called(calls: int) -> WorkflowDef:
        return called(calls - 1) if calls else WorkflowDef.from_json(document)

    calls = sys.getrecursionlimit() - len(inspect.stack(0)) - 250
    with pytest.raises(InvalidDefinition, match=r"\$: nested too deeply for what is left of the stack"):
        called(calls)
    assert WorkflowDef.from_json(document).name == "w"


@given(json_values)
def test_any_json_gives_a_definition_or_our_errors(value: Any) -> None:
    """No JSON value whatever makes the reader stumble."""
    for read in (WorkflowDef.from_json, TaskDef.from_json, partial(several_from_json, TaskDef)):
        with contextlib.suppress(InvalidDefinition, InvalidInput):
            read(json.dumps(value))


@given(broken_documents(workflow_documents()))
def test_a_definition_broken_anywhere_gives_a_definition_or_our_errors(document: Any) -> None:
    """One random part replaced or removed is either still a definition, which then survives, or a clean report."""
    try:
        defn = WorkflowDef.from_json(document if isinstance(document, dict) else json.dumps(document))
    except (InvalidDefinition, InvalidInput):
        return
    assert WorkflowDef.from_json(defn.to_json()) == defn


@given(broken_documents(task_defs().map(TaskDef.to_json)))
def test_a_task_definition_broken_anywhere_gives_one_or_our_errors(document: Any) -> None:
    """The same for task definitions."""
    try:
        task_def = TaskDef.from_json(document if isinstance(document, dict) else json.dumps(document))
    except (InvalidDefinition, InvalidInput):
        return
    assert TaskDef.from_json(task_def.to_json()) == task_def
