"""The compatibility pages name every task type, field, property and verb there is, and nothing that is not there."""

from __future__ import annotations

import inspect
import re
from enum import StrEnum
from typing import Any, Final, get_overloads

import attrs
import pytest
from pages import DOCS, ROOT
from test_generated import GENERATOR

import conductorlite
from conductorlite import Engine, TaskResult, TaskStatus, TaskType, WorkflowStatus
from conductorlite.engine.config import services
from conductorlite.model import definitions, handlers
from conductorlite.model.canonical import ExternalPayload, Payload
from conductorlite.model.decisions import EventKind
from conductorlite.model.documents import task_to_json, workflow_to_json
from conductorlite.model.scalars import json_names
from conductorlite.testing.conformance.executions import filled
from conductorlite.testing.conformance.samples import task, workflow

FIELDS: Final = "compatibility-fields.md"
OPERATIONS: Final = "compatibility-operations.md"

#: Every page of compatibility.
PAGES: Final = ("compatibility.md", FIELDS, OPERATIONS)

VERDICTS: Final = {"works", "works: ignored as there", "differs", "ours", "out of scope"}

#: Classes of definitions, each with a section of its name.
DEFINITIONS: Final = (
    "WorkflowDef",
    "WorkflowTask",
    "TaskDef",
    "SubWorkflowParams",
    "RateLimitConfig",
    "SchemaDef",
    "CacheConfig",
    "StateChangeEvent",
)

#: Classes of event handlers, likewise.
HANDLERS: Final = (
    "EventHandler",
    "EventAction",
    "StartWorkflow",
    "TaskDetails",
    "TerminateWorkflow",
    "UpdateWorkflowVariables",
    "SendMessage",
)

#: What a page must not say of the future.
PROMISES: Final = re.compile(r"\b(not yet|planned|later release|in this release|coming soon|roadmap)\b", re.IGNORECASE)


def _class_of(name: str) -> Any:
    return getattr(definitions, name, None) or getattr(handlers, name)


def sections(name: str) -> dict[str, list[list[str]]]:
    """The rows of each section of a page, without the heads of its tables, as lists of cells."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    lines = (DOCS / "reference" / name).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("#"):
            rows = found[line.lstrip("# ")] = []
        elif line.startswith("|") and not set(line) <= set("|-") and not set((*lines, "")[number + 1] or " ") <= set("|-"):
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def _names(rows: list[list[str]]) -> list[str]:
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]


FIELD_SECTIONS: Final = sections(FIELDS)
OPERATION_SECTIONS: Final = sections(OPERATIONS)


@pytest.mark.parametrize("name", [*DEFINITIONS, *HANDLERS])
def test_every_field_has_a_row(name: str) -> None:
    """The section of a class names each of its fields once, by the property of Conductor's JSON."""
    assert sorted(_names(FIELD_SECTIONS[name])) == sorted(json_names(_class_of(name)).values())


def test_every_definition_class_has_a_section() -> None:
    """A new class of definitions cannot be forgotten."""
    classes = {name for name in definitions.__all__ if attrs.has(getattr(definitions, name))}
    assert classes - {"StartWorkflowRequest"} == set(DEFINITIONS)  # a request: it stands with schedules
    others = {name for name in handlers.__all__ if attrs.has(getattr(handlers, name))}
    assert others - {"EventExecution"} == set(HANDLERS)


def test_every_task_type_has_a_row() -> None:
    """What we know of Conductor's task types is on the page; what else is there is out of scope."""
    rows = FIELD_SECTIONS["Task types"]
    assert sorted(row[0] for row in rows if row[1] != "out of scope") == sorted(TaskType)


def test_every_word_has_a_row() -> None:
    """Each enumeration of definitions and statuses lists its values; how we choose, and how bad a problem is, is ours."""
    enums = [value for value in vars(definitions).values() if isinstance(value, type) and issubclass(value, StrEnum)]
    enums = [enum for enum in enums if enum.__name__ not in ("StrEnum", "TaskType", "Semantics", "Severity")]
    said = {row[0]: re.findall(r"`(\w+)`", row[2]) for row in FIELD_SECTIONS["Words"]}
    assert said == {enum.__name__: list(enum) for enum in (TaskStatus, WorkflowStatus, *enums)}


@pytest.mark.parametrize(
    ("section", "verb", "without"),
    [
        ("StartWorkflowRequest", "start", set[str]()),
        ("RerunWorkflowRequest", "rerun", set[str]()),
        ("SkipTaskRequest", "skip_task", {"workflow_id", "ref"}),
    ],
)
def test_every_argument_of_a_request_has_a_row(section: str, verb: str, without: set[str]) -> None:
    """Each argument of the verb is named in the section of the request it answers."""
    said = {name for row in FIELD_SECTIONS[section] for name in re.findall(r"`(\w+)`", row[2])}
    function = inspect.unwrap(getattr(Engine, verb))
    arguments = set(inspect.signature([function, *get_overloads(function)][-1]).parameters) - {"self"}
    assert said >= arguments - without
    assert not {name for name in said if name == name.lower()} - arguments


def test_every_field_of_a_report_has_a_row() -> None:
    """Each field of TaskResult is named in its section."""
    said = {name for row in FIELD_SECTIONS["TaskResult"] for name in re.findall(r"`(\w+)`", row[2])}
    assert {field.name for field in attrs.fields(TaskResult)} <= said


def _written(section: str) -> set[str]:
    """The properties in the document of an execution, or of an attempt, in which every field holds something."""
    kept = Payload(None, external=ExternalPayload(digest="d", size=1, key="k"))
    task_def = definitions.TaskDef(
        name="t",
        rate_limit_per_frequency=1,
        rate_limit_frequency_ms=1,
        response_timeout_ms=1,
        execution_name_space="e",
        isolation_group_id="i",
    )
    node = definitions.WorkflowTask(name="t", task_reference_name="t", task_definition=task_def)
    attempt = filled(task(), input=kept, output=kept, grafts=(), iterations=())
    attempt = attrs.evolve(attempt, base_ref="t")
    row = filled(
        workflow(), input=kept, output=kept, tasks=(attempt,), definition=definitions.WorkflowDef(name="w", tasks=[node]), made={}
    )
    return set(workflow_to_json(row) if section == "Workflow" else task_to_json(attempt, row))


@pytest.mark.parametrize("section", ["Workflow", "Task"])
def test_documents_have_the_properties_of_the_page(section: str) -> None:
    """What an execution's JSON holds is what the page says it holds, and nothing that it says is not written."""
    rows = [row for row in FIELD_SECTIONS[section] if "not written" not in row[2]]
    assert sorted(_names(rows)) == sorted(_written(section))


def _public(engine: Engine) -> set[str]:
    """The verbs of an engine, and those of its services with their nouns."""
    owners = {"": engine, **{f"{noun}.": service for noun, service in services(engine).items()}}
    found = {noun + name for noun, owner in owners.items() for name, _ in inspect.getmembers(type(owner), inspect.isfunction)}
    return {name for name in found if "._" not in f".{name}"}


def test_every_verb_has_a_row() -> None:
    """Each public verb of the engine is somewhere in the tables of operations, and each verb named there exists."""
    text = (DOCS / "reference" / OPERATIONS).read_text(encoding="utf-8")
    named = set(re.findall(r"`engine\.([\w.]+)`", text))
    with Engine() as engine:
        assert named == _public(engine)


def test_every_function_is_named() -> None:
    """What can be called without an engine is on the page of operations, too."""
    text = (DOCS / "reference" / OPERATIONS).read_text(encoding="utf-8")
    functions = [name for name in conductorlite.__all__ if inspect.isfunction(getattr(conductorlite, name))]
    assert [name for name in functions if f"`{name}`" not in text] == []


@pytest.mark.parametrize("name", sorted(GENERATOR.EFFECTS))
def test_what_is_kept_without_effect_is_said_to_be(name: str) -> None:
    """The page of definitions and this one agree on which fields the engine does not act upon."""
    rows = {_names([row])[0]: row for row in FIELD_SECTIONS[name]}
    for field, effect in GENERATOR.EFFECTS[name].items():
        if field != "extra":
            _, verdict, how, _ = rows[json_names(_class_of(name))[field]]
            unused = verdict == "works: ignored as there" or how.startswith("accepted and kept, not acted upon")
            assert effect.startswith("kept") == unused, (field, effect, verdict, how)


def test_every_event_has_a_row() -> None:
    """What can happen to an execution is on the page, with what makes it happen."""
    assert [row[0] for row in OPERATION_SECTIONS["Events of an execution"]] == list(EventKind)


@pytest.mark.parametrize("name", [FIELDS, OPERATIONS])
def test_every_row_has_a_verdict(name: str) -> None:
    """One of the five words, and a test, also that what is out of scope is not here."""
    rows = [row for rows in sections(name).values() for row in rows if len(row) == 4]
    assert len(rows) > 50
    for row in rows:
        assert row[1] in VERDICTS, row
        assert row[2], row
        assert "`tests/" in row[3], row
        if row[1] == "out of scope":
            assert re.search(r"\b(AI|server|user interface|brokers)\b", row[2]), row


@pytest.mark.parametrize("name", [FIELDS, OPERATIONS, "compatibility.md"])
def test_every_deviation_has_a_reason_and_a_test(name: str) -> None:
    """No row of a table has an empty cell, and the last cell of a deviation names a test."""
    for section, rows in sections(name).items():
        for row in rows:
            assert all(row), (section, row)
            assert name != "compatibility.md" or "`tests/" in row[-1], (section, row)


def _prose() -> list[str]:
    pages = [*DOCS.rglob("*.md"), DOCS / "generate.py", ROOT / "README.md", *(ROOT / "conductorlite").rglob("*.py")]
    return [page.relative_to(ROOT).as_posix() for page in pages]


def test_nothing_is_promised() -> None:
    """Documentation and docstrings say what is true, and not what will be."""
    allowed = {"conductorlite/language/paths.py"}
    found = []
    for name in _prose():
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            if PROMISES.search(line) and "0: not yet" not in line and name not in allowed:
                found.append(f"{name}: {line.strip()}")
    assert found == []
