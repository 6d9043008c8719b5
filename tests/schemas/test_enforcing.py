"""Schemas of tasks and workflows, enforced at both ends, registered by name, embedded for good."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from conductorlite import (
    Engine,
    InvalidDefinition,
    SchemaDef,
    Task,
    TaskDef,
    TaskResult,
    TaskStatus,
    VirtualClock,
    WorkflowDef,
    WorkflowStatus,
    WorkflowTask,
    validate,
    validate_task_def,
)
from conductorlite.errors import AlreadyExists, DefinitionNotFound, InvalidInput
from conductorlite.model.definitions import SubWorkflowParams
from conductorlite.store.ports import Backend
from conductorlite.testing import replay

pytest.importorskip("jsonschema")


def schema(required: str = "id", kind: str = "integer") -> SchemaDef:
    """An object with one property of a type."""
    return SchemaDef(name="s", data={"type": "object", "required": [required], "properties": {required: {"type": kind}}})


def flow(task_def: TaskDef | None = None, inputs: dict[str, Any] | None = None, **fields: Any) -> WorkflowDef:
    """A workflow of one task `t`."""
    task = WorkflowTask(name="t", task_reference_name="t", task_definition=task_def, input_parameters=inputs or {})
    return WorkflowDef(name="flow", tasks=[task], **fields)


def report(engine: Engine, task: Task, output: dict[str, Any]) -> Task:
    """COMPLETED, with that output."""
    done = TaskResult(workflow_id=task.workflow_id, task_id=task.task_id, status=TaskStatus.COMPLETED, output_data=output)
    stored = engine.update_task(done)
    engine.settle()
    return stored


@pytest.fixture
def engine(backend: Backend) -> Engine:
    """An engine in virtual time."""
    return Engine(backend, clock=VirtualClock(0))


def started(engine: Engine, definition: WorkflowDef | str, given: dict[str, Any] | None = None) -> None:
    """An execution `w`."""
    engine.start(definition, given, workflow_id="w")
    engine.settle()


def test_an_input_that_breaks_the_schema_is_never_offered(engine: Engine) -> None:
    """The attempt is there, with its input, failed for good; the reason names path and rule, and no value."""
    strict = TaskDef(name="t", input_schema=schema(), enforce_schema=True, retry_count=3)
    started(engine, flow(strict, {"id": "${workflow.input.id}"}), {"id": "confidential"})
    (task,) = engine.get("w").tasks
    assert (task.status, task.input_data) == (TaskStatus.FAILED_WITH_TERMINAL_ERROR, {"id": "confidential"})
    assert task.reason == 'its input breaks inputSchema: $.id: breaks type "integer"'
    assert engine.poll("t") == []
    assert engine.status("w") is WorkflowStatus.FAILED
    assert engine.admin.check() == []
    replay(engine.admin.export("w"))


def test_an_output_that_breaks_the_schema_fails_the_task_for_good(engine: Engine) -> None:
    """Trying again would not mend the worker; what it said is kept."""
    strict = TaskDef(name="t", output_schema=schema(), enforce_schema=True, retry_count=3)
    started(engine, flow(strict))
    (task,) = engine.poll("t")
    stored = report(engine, task, {"no": 1})
    assert (stored.status, stored.output_data) == (TaskStatus.FAILED_WITH_TERMINAL_ERROR, {"no": 1})
    assert stored.reason == "its output breaks outputSchema: $: required: 'id' missing"
    assert engine.status("w") is WorkflowStatus.FAILED
    assert engine.admin.check() == []


@pytest.mark.trap("core-50")
def test_what_fits_goes_on(engine: Engine) -> None:
    """All four, all satisfied."""
    strict = TaskDef(name="t", input_schema=schema(), output_schema=schema(), enforce_schema=True)
    whole = flow(strict, {"id": 1}, input_schema=schema(), output_schema=schema(), output_parameters={"id": "${t.output.id}"})
    started(engine, whole, {"id": 7})
    report(engine, engine.poll("t")[0], {"id": 2})
    assert (engine.status("w"), engine.get("w").output_data) == (WorkflowStatus.COMPLETED, {"id": 2})


def test_failures_and_partial_reports_are_not_checked(engine: Engine) -> None:
    """Only what a completed task puts out is held against the schema."""
    strict = TaskDef(name="t", output_schema=schema(), enforce_schema=True, retry_count=0)
    started(engine, flow(strict))
    (task,) = engine.poll("t")
    engine.update_task(TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.IN_PROGRESS, output_data={"x": 1}))
    engine.settle()
    (task,) = engine.poll("t")
    failed = TaskResult(workflow_id="w", task_id=task.task_id, status=TaskStatus.FAILED, output_data={"x": 1}, reason="own")
    assert engine.update_task(failed).reason == "own"


@pytest.mark.parametrize("said", [None, False])
def test_a_task_enforces_only_when_it_says_so(engine: Engine, said: bool | None) -> None:
    """Conductor's default of a task definition; a schema that is not even one does no harm then."""
    loose = TaskDef(name="t", input_schema=SchemaDef(data={"type": "no"}), output_schema=schema(), enforce_schema=said)
    started(engine, flow(loose))
    report(engine, engine.poll("t")[0], {})
    assert engine.status("w") is WorkflowStatus.COMPLETED


def test_a_workflow_enforces_unless_it_says_no(engine: Engine) -> None:
    """Conductor's default of a workflow definition."""
    with pytest.raises(InvalidInput, match=r"inputSchema of 'flow': \$: required: 'id' missing"):
        engine.start(flow(input_schema=schema()), {}, workflow_id="w")
    assert list(engine.admin.workflow_ids()) == []
    started(engine, flow(input_schema=schema(), enforce_schema=False))
    assert engine.status("w") is WorkflowStatus.RUNNING


def test_the_input_template_counts_before_the_schema(engine: Engine) -> None:
    """What it fills in satisfies the schema."""
    started(engine, flow(input_schema=schema(), input_template={"id": 1}))
    assert engine.status("w") is WorkflowStatus.RUNNING


def test_an_output_that_breaks_the_workflows_schema_fails_it(engine: Engine) -> None:
    """The output is kept, the failure workflow started, what was done is undone."""
    undo = WorkflowTask(name="undo", task_reference_name="undo")
    task = WorkflowTask(name="t", task_reference_name="t", compensate=undo)
    started(engine, WorkflowDef(name="flow", tasks=[task], output_schema=schema(), output_parameters={"id": "${t.output.id}"}))
    report(engine, engine.poll("t")[0], {"id": "x"})
    report(engine, engine.poll("undo")[0], {})
    row = engine.get("w")
    assert (row.status, row.output_data) == (WorkflowStatus.FAILED, {"id": "x"})
    assert row.reason == 'its output breaks outputSchema: $.id: breaks type "integer"'
    assert engine.admin.check() == []
    replay(engine.admin.export("w"))


def test_a_terminate_that_completes_is_checked_too(engine: Engine) -> None:
    """Its output is the workflow's."""
    inputs = {"terminationStatus": "COMPLETED", "workflowOutput": {"id": "x"}}
    end = WorkflowTask(name="end", task_reference_name="end", type="TERMINATE", input_parameters=inputs)
    started(engine, WorkflowDef(name="flow", tasks=[end], output_schema=schema()))
    assert (engine.status("w"), engine.get("w").output_data) == (WorkflowStatus.FAILED, {"id": "x"})
    assert engine.admin.check() == []


def test_a_childs_input_that_breaks_its_schema_fails_the_task_that_starts_it(engine: Engine) -> None:
    """The child is there and says why; nothing in it was scheduled."""
    engine.register(flow(input_schema=schema()))
    params = SubWorkflowParams(name="flow")
    sub = WorkflowTask(name="sub", task_reference_name="sub", type="SUB_WORKFLOW", sub_workflow_param=params)
    started(engine, WorkflowDef(name="outer", tasks=[sub]))
    engine.run_until_idle()
    (child,) = engine.admin.children("w")
    assert (child.status, child.task_seq) == (WorkflowStatus.FAILED, 0)
    assert child.reason == "its input breaks inputSchema: $: required: 'id' missing"
    outer = engine.get("w")
    assert outer.status is WorkflowStatus.FAILED
    assert child.reason in (outer.tasks[-1].reason or "")
    assert engine.admin.check() == []
    replay(engine.admin.export("w"))


def test_registered_schemas_are_found_by_name_and_embedded_for_good(engine: Engine) -> None:
    """A definition names one; what is registered later changes nothing that runs."""
    engine.definitions.register_schema(attrs_of(schema(), "order", 1), attrs_of(schema("key", "string"), "order", 2))
    assert list(engine.definitions.schemas()) == [("order", 1), ("order", 2)]
    assert (engine.definitions.schema("order").version, engine.definitions.schema("order", 1).data) == (2, schema().data)
    named = TaskDef(name="t", output_schema=SchemaDef(name="order", version=1), enforce_schema=True)
    engine.register(named, flow())
    started(engine, "flow")
    engine.definitions.register_schema(attrs_of(schema("other"), "order", 1))
    assert report(engine, engine.poll("t")[0], {"id": 1}).status is TaskStatus.COMPLETED
    engine.start("flow", workflow_id="w2")
    engine.settle()
    assert report(engine, engine.poll("t")[0], {"id": 1}).status is TaskStatus.FAILED_WITH_TERMINAL_ERROR


def attrs_of(found: SchemaDef, name: str, version: int) -> SchemaDef:
    """The schema under another name."""
    return SchemaDef(name=name, version=version, data=found.data)


def test_the_registry_refuses(engine: Engine) -> None:
    """What is no schema, what has no name or no data, what is there already; then nothing is registered."""
    bad = SchemaDef(data={"type": "nope"})
    with pytest.raises(InvalidDefinition, match=r"(?s)\$\.name: is empty.*\$\.data: \$\.type: 'nope'"):
        engine.definitions.register_schema(schema(), bad)
    with pytest.raises(InvalidDefinition, match=r"\$\.data: is missing"):
        engine.definitions.register_schema(SchemaDef(name="x"))
    assert list(engine.definitions.schemas()) == []
    engine.definitions.register_schema(schema(), SchemaDef(name="avro", type="AVRO", external_ref="registry://x"))
    with pytest.raises(AlreadyExists):
        engine.definitions.register_schema(schema(), overwrite=False)
    with pytest.raises(DefinitionNotFound, match="no schema 'none' is registered"):
        engine.definitions.schema("none")
    with pytest.raises(DefinitionNotFound, match="no schema 's' version 9 is registered"):
        engine.start(flow(input_schema=SchemaDef(name="s", version=9)))
    assert SchemaDef.from_json(schema().to_json()) == schema()


@pytest.mark.parametrize(
    ("fields", "severity", "path"),
    [
        ({"input_schema": SchemaDef(name="s", data={"type": 5})}, "error", "$.inputSchema.data"),
        ({"output_schema": SchemaDef(name="s", data={"$ref": "http://x/y"})}, "error", "$.outputSchema.data"),
        ({"input_schema": SchemaDef(name="s", data={"pattern": "(a*)*"})}, "error", "$.inputSchema.data"),
        ({"input_schema": SchemaDef()}, "error", "$.inputSchema"),
        ({"input_schema": SchemaDef(name="s", type="AVRO")}, "warning", "$.inputSchema.type"),
    ],
)
def test_validation(fields: dict[str, Any], severity: str, path: str) -> None:
    """What cannot be enforced is refused, or told, when a definition is validated."""
    for found in (validate(flow(**fields)), validate_task_def(TaskDef(name="t", enforce_schema=True, **fields))):
        assert [(str(problem.severity), problem.path) for problem in found] == [(severity, path)]
    assert validate(flow(**fields, enforce_schema=False)) == []


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validation names the pip command; a schema that is not enforced needs nothing."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "jsonschema" else find(name, *a))
    (problem,) = validate(flow(input_schema=schema()))
    assert "conductorlite[schema]" in problem.message
    assert validate(flow(input_schema=schema(), enforce_schema=False)) == []


def test_a_schema_for_an_operator_is_told(engine: Engine) -> None:
    """Its input is not checked, and validation says so; what is reported on a HUMAN is."""
    strict = TaskDef(name="h", input_schema=schema(), output_schema=schema(), enforce_schema=True)
    human = WorkflowTask(name="h", task_reference_name="h", type="HUMAN", task_definition=strict)
    definition = WorkflowDef(name="flow", tasks=[human])
    assert [problem.path for problem in validate(definition)] == ["$.tasks[0].taskDefinition.inputSchema"]
    started(engine, definition)
    assert engine.signal("w", {"id": "x"}).status is TaskStatus.FAILED_WITH_TERMINAL_ERROR
