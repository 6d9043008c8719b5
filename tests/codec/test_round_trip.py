"""Nothing is lost between Conductor's JSON and the definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from definition_strategies import task_defs, workflow_defs, workflow_documents
from hypothesis import given

from conductorlite.errors import InvalidDefinition
from conductorlite.model import definitions
from conductorlite.model.canonical import canonical
from conductorlite.model.codec import definition_hash, definition_text, several_from_json
from conductorlite.model.definitions import IdempotencyStrategy, SubWorkflowParams, TaskDef, TaskType, WorkflowDef, WorkflowTask
from conductorlite.model.scalars import json_names

FOLDER = Path(__file__).parent / "definitions"
FILES = sorted(FOLDER.glob("*.json"))

_ALWAYS = {"name", "version", "schemaVersion", "tasks", "taskReferenceName", "type"}


@given(workflow_defs())
def test_a_workflow_definition_survives_its_json(defn: WorkflowDef) -> None:
    """Reading what was written gives the same definition, from the mapping and from its text."""
    assert WorkflowDef.from_json(defn.to_json()) == defn
    assert WorkflowDef.from_json(definition_text(defn)) == defn


@given(task_defs())
def test_a_task_definition_survives_its_json(task_def: TaskDef) -> None:
    """Reading what was written gives the same task definition, alone and in a list."""
    document = task_def.to_json()
    assert TaskDef.from_json(document) == task_def
    assert several_from_json(TaskDef, [document, document]) == (task_def, task_def)
    assert TaskDef.from_json(task_def.to_json()) == task_def


@given(workflow_documents())
def test_written_json_is_a_fixed_point(document: dict[str, Any]) -> None:
    """JSON that we wrote is written again byte for byte, key order included."""
    assert canonical(WorkflowDef.from_json(document).to_json()) == canonical(document)


@given(workflow_defs())
def test_null_counts_as_absent(defn: WorkflowDef) -> None:
    """Every known property spelled out as null changes nothing."""
    document = defn.to_json()
    for name in json_names(WorkflowDef).values():
        document.setdefault(name, None)
    for task in document["tasks"]:
        for name in json_names(WorkflowTask).values():
            task.setdefault(name, None)
    assert WorkflowDef.from_json(document) == defn


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_realistic_file_comes_back_whole(file: Path) -> None:
    """Every value of a hand-written definition that says something is in the JSON written from it."""
    given_json = json.loads(file.read_text())
    if isinstance(given_json, list):
        written: Any = [each.to_json() for each in several_from_json(TaskDef, file)]
    else:
        written = WorkflowDef.from_json(file).to_json()
    assert _without_idle(written) == _without_idle(given_json)


def _without_idle(value: Any) -> Any:
    """The value without null, false, zero, one and empty entries: what may be left out as a default."""
    if isinstance(value, dict):
        kept = {key: _without_idle(entry) for key, entry in value.items()}
        kept = {key: entry for key, entry in kept.items() if (key, entry) != ("type", "SIMPLE")}
        return {key: entry for key, entry in kept.items() if key in _ALWAYS or entry not in (None, False, 0, [], {})}
    return [_without_idle(entry) for entry in value] if isinstance(value, list) else value


def test_the_files_cover_every_property_and_type() -> None:
    """No field and no task type is missing from the hand-written files."""
    used: set[str] = set()
    types: set[str] = set()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            used.update(value)
            if isinstance(value.get("taskReferenceName"), str):
                types.add(value.get("type", "SIMPLE"))
        for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            visit(entry)

    for file in FILES:
        visit(json.loads(file.read_text()))
    named = set(definitions.__all__) - {"StartWorkflowRequest"}  # a request, which schedules hold
    classes = [getattr(definitions, name) for name in named if attrs.has(getattr(definitions, name))]
    wanted = {name for each in classes for name in json_names(each).values()}
    assert wanted - used == set()
    assert {str(each) for each in TaskType} - types == set()


def test_defaults_are_left_out_and_identity_is_written() -> None:
    """The smallest definition is written with what identifies it and nothing else."""
    defn = WorkflowDef(name="w", tasks=[WorkflowTask(name="a", task_reference_name="a")])
    task = {"name": "a", "taskReferenceName": "a", "type": "SIMPLE"}
    assert defn.to_json() == {"name": "w", "version": 1, "tasks": [task], "schemaVersion": 2}


@pytest.mark.trap("tasks-8")
def test_not_given_differs_from_every_explicit_value() -> None:
    """An explicit zero, false or empty map in a field whose default is None is written."""
    task_def = TaskDef(name="t", retry_count=0, enforce_schema=False, timeout_ms=0)
    assert task_def.to_json() == {"name": "t", "retryCount": 0, "timeoutSeconds": 0, "enforceSchema": False}
    params = SubWorkflowParams(name="c", task_to_domain={}, priority=0)
    task = WorkflowTask(name="s", task_reference_name="s", type="SUB_WORKFLOW", sub_workflow_param=params)
    written = WorkflowDef(name="w", tasks=[task]).to_json()["tasks"][0]["subWorkflowParam"]
    assert written == {"name": "c", "taskToDomain": {}, "priority": 0}


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(5000, 5), (1500, 1.5), (1, 0.001), (-2000, -2), (2**61 + 1, f"{(2**61 + 1) // 1000}.953")],
)
def test_durations_keep_their_milliseconds(milliseconds: int, seconds: object) -> None:
    """Milliseconds are written as seconds, with a fraction only where there is one, and come back exactly."""
    document = TaskDef(name="t", timeout_ms=milliseconds, backoff_jitter_ms=7).to_json()
    assert document == {"name": "t", "timeoutSeconds": seconds, "backoffJitterMs": 7}
    assert TaskDef.from_json(document).timeout_ms == milliseconds


def test_the_order_of_cases_and_maps_is_kept() -> None:
    """Conductor evaluates and prints in the order of the document, so that order is part of it."""
    cases: dict[str, list[object]] = {key: [] for key in ("z", "a", "m")}
    task = {"name": "s", "taskReferenceName": "s", "decisionCases": cases, "inputParameters": {"y": 1, "b": 2}}
    [read] = WorkflowDef.from_json({"name": "w", "tasks": [task]}).tasks
    assert list(read.decision_cases) == ["z", "a", "m"]
    assert list(read.input_parameters) == ["y", "b"]


@pytest.mark.trap("tasks-69")
def test_nothing_is_shared_with_the_caller() -> None:
    """Changing the mapping that was read, or the one that was written, leaves the definition as it was."""
    document: dict[str, Any] = {"name": "w", "variables": {"list": [1]}}
    defn = WorkflowDef.from_json(document)
    document["variables"]["list"].append(2)
    defn.to_json()["variables"]["list"].append(3)
    assert defn.variables == {"list": [1]}


def test_an_extra_that_shadows_a_property_is_refused() -> None:
    """Two values for one property cannot both be written, so neither is silently dropped."""
    with pytest.raises(InvalidDefinition, match="extra holds 'version'"):
        WorkflowDef(name="w", extra={"version": 3}).to_json()


def test_equal_definitions_have_one_hash() -> None:
    """The content hash depends on what a definition says, not on whether enums or texts said it."""
    plain = WorkflowDef(name="w", tasks=[WorkflowTask(name="a", task_reference_name="a", type="JOIN")])
    typed = WorkflowDef(name="w", tasks=(WorkflowTask(name="a", task_reference_name="a", type=TaskType.JOIN),))
    assert plain == typed
    assert definition_hash(plain) == definition_hash(typed)
    assert definition_hash(plain) != definition_hash(attrs.evolve(plain, version=2))


def test_a_text_is_no_list_of_texts() -> None:
    """A bare text where a list is meant would become its events; it is refused at once."""
    with pytest.raises(TypeError, match="the text 'abc'"):
        WorkflowTask(name="j", task_reference_name="j", type="JOIN", join_on="abc")


def test_idempotency_strategies_may_be_expressions() -> None:
    """A known strategy becomes the enum, anything else stays the text it is."""
    for text, expected in (("FAIL", IdempotencyStrategy.FAIL), ("${workflow.input.s}", "${workflow.input.s}")):
        task = {"name": "s", "taskReferenceName": "s", "subWorkflowParam": {"idempotencyStrategy": text}}
        [read] = WorkflowDef.from_json({"name": "w", "tasks": [task]}).tasks
        assert read.sub_workflow_param is not None
        assert read.sub_workflow_param.idempotency_strategy == expected


def test_cattrs_is_imported_with_the_first_document() -> None:
    """Definitions can be imported and made without it."""
    program = (
        "import sys; from conductorlite.model.definitions import WorkflowDef\n"
        "definition = WorkflowDef(name='w'); assert 'cattrs' not in sys.modules\n"
        "WorkflowDef.from_json(definition.to_json()); assert 'cattrs' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(definitions.__file__).parents[2])
