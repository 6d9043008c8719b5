"""The published JSON Schemas take what the codec takes and refuse what it refuses."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pages import DOCS, ROOT

from conductorlite import Engine, EventHandler, SchemaDef, TaskDef, VirtualClock, WorkflowDef, WorkflowSchedule
from conductorlite.errors import InvalidDefinition
from conductorlite.testing import replay

FOLDER = DOCS / "reference" / "schemas"
KINDS = {
    "workflow-def": WorkflowDef,
    "task-def": TaskDef,
    "event-handler": EventHandler,
    "schedule": WorkflowSchedule,
    "schema-def": SchemaDef,
}
VALIDATORS = {
    path.stem: Draft202012Validator(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.json"))
}

EXECUTION = WorkflowDef.from_json({"name": "w", "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]})
HANDLER = {
    "name": "h",
    "event": "e",
    "active": True,
    "actions": [
        {
            "action": "start_workflow",
            "start_workflow": {"name": "w", "version": 1, "input": {"a": 1}, "taskToDomain": {"*": "d"}},
        },
        {"action": "complete_task", "complete_task": {"taskId": "${t}", "output": {"a": 1}}, "expandInlineJSON": True},
        {
            "action": "update_workflow_variables",
            "update_workflow_variables": {"variables": {}, "appendArray": True},
        },
    ],
}
SCHEDULE = {
    "name": "s",
    "cronSchedules": [{"cronExpression": "0 0 2 * * *", "zoneId": "Europe/Rome"}],
    "startWorkflowRequest": {"name": "w", "priority": 3, "workflowDef": EXECUTION.to_json()},
    "scheduleStartTime": "2030-01-01T00:00:00Z",
    "misfireGraceSeconds": 60,
    "paused": False,
}
SCHEMA = {"name": "s", "version": 2, "type": "JSON", "data": {"type": "object"}}


def _documents() -> Iterator[tuple[str, Any]]:
    yield from (("event-handler", HANDLER), ("schedule", SCHEDULE), ("schema-def", SCHEMA))
    for path in (ROOT / "tests" / "corpus").glob("*.json"):
        yield from (("workflow-def", entry["definition"]) for entry in json.loads(path.read_text(encoding="utf-8")))
    for path in (ROOT / "tests" / "codec" / "definitions").glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        found = document if isinstance(document, list) else [document]
        yield from (("workflow-def" if "tasks" in one else "task-def", one) for one in found)
    yield from (("workflow-def", json.loads(path.read_text(encoding="utf-8"))) for path in (ROOT / "examples").glob("*/*.json"))


DOCUMENTS = list(_documents())


def test_every_document_has_a_schema() -> None:
    """None is missing."""
    assert set(VALIDATORS) == {*KINDS, "export"}


@pytest.mark.slow
@pytest.mark.parametrize("name", VALIDATORS)
def test_a_schema_is_one(name: str) -> None:
    """By the schema of schemas."""
    Draft202012Validator.check_schema(VALIDATORS[name].schema)


def test_they_take_every_definition_there_is() -> None:
    """Those of others, of ours, of the examples, as they were written and as they are written back."""
    assert len(DOCUMENTS) > 200
    for kind, document in DOCUMENTS:
        for one in (document, KINDS[kind].from_json(document).to_json()):
            assert [f"{error.json_path}: {error.message}" for error in VALIDATORS[kind].iter_errors(one)] == []


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document with every key of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


#: What stands in the place of something.
OTHERS = [None, True, 5, -1.5, "x", "7", " ", "${a.b}", [], {}, ["x"], {"name": 1}, [[{"name": "a"}]], 2**70]


def _refused(kind: str, document: Any) -> bool:
    """Whether the codec refuses a document for what a type or an absent property is; None for what only a class knows."""
    try:
        KINDS[kind].from_json(document)
    except InvalidDefinition as error:
        said = [problem.message.startswith(("expected", "is missing")) for problem in error.problems]
        return any(said)
    return False


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))])
def test_they_refuse_what_the_codec_refuses(seed: int) -> None:
    """Each document with one value, at any depth, made another: both say the same of it."""
    chance, refused = random.Random(seed), 0
    for kind, document in chance.sample(DOCUMENTS, 60) + DOCUMENTS[:3] * 10:
        mutant = copy.deepcopy(document)
        container, key = chance.choice(list(_places(mutant)))
        container[key] = chance.choice(OTHERS)
        wrong = _refused(kind, mutant)
        refused += wrong
        assert VALIDATORS[kind].is_valid(mutant) is not wrong, f"{kind}: {key!r} = {container[key]!r}"
    assert refused > 5


def test_an_export_fits_its_schema() -> None:
    """And one of which a part is gone or another does not, as `replay` refuses it."""
    with Engine(clock=VirtualClock(0)) as engine:
        run = engine.start(EXECUTION, {"a": 1})
        document = engine.admin.export(run.workflow_id)
    assert replay(document).workflow_id == run.workflow_id
    validator = VALIDATORS["export"]
    assert [error.message for error in validator.iter_errors(document)] == []
    for name in document:
        assert not validator.is_valid({**document, name: 7 if name != "formatVersion" else 2})
        assert not validator.is_valid({key: value for key, value in document.items() if key != name})
