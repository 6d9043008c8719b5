"""Schemas that are enforced: of a type that can be, and sound in themselves."""

from __future__ import annotations

from typing import Final

from conductorlite.language.schemas import compile_schema
from conductorlite.model.definitions import SchemaDef, TaskDef, WorkflowDef
from conductorlite.model.errors import InvalidExpression, InvalidInput, MissingExtra
from conductorlite.plan.findings import Findings, Scope
from conductorlite.plan.tree import OPERATOR_TYPES

__all__ = ["check_schemas", "check_task_schemas", "enforced", "schema_problems"]

_SIDES: Final = (("input_schema", "inputSchema"), ("output_schema", "outputSchema"))


def enforced(definition: WorkflowDef | TaskDef) -> bool:
    """Whether its schemas are enforced: a workflow's unless it says no, a task's only if it says so. Conductor's defaults."""
    said = definition.enforce_schema
    return isinstance(definition, WorkflowDef) if said is None else said


def check_schemas(scope: Scope, findings: Findings) -> None:
    """Add what is wrong with the schemas of a workflow and of the task definitions in it."""
    _check(scope.defn, scope.path, findings)
    for node in scope.nodes:
        definition = node.task.task_definition
        if definition is None:
            continue
        path = f"{node.path}.taskDefinition"
        check_task_schemas(definition, path, findings)
        if node.task.type in OPERATOR_TYPES and enforced(definition) and definition.input_schema is not None:
            findings.warn(f"{path}.inputSchema", f"is not enforced for {node.task.type}: only for tasks that workers carry out")


def check_task_schemas(task_def: TaskDef, path: str, findings: Findings) -> None:
    """Add what is wrong with the schemas of one task definition."""
    _check(task_def, path, findings)


def _check(definition: WorkflowDef | TaskDef, path: str, findings: Findings) -> None:
    if not enforced(definition):
        return
    for field, name in _SIDES:
        schema: SchemaDef | None = getattr(definition, field)
        if schema is None:
            continue
        if schema.type.upper() != "JSON":
            findings.warn(f"{path}.{name}.type", f"is {schema.type[:40]!r}: kept, but only JSON schemas are enforced")
        elif schema.data is None and not schema.name.strip():
            findings.error(f"{path}.{name}", "has neither data nor the name of a registered schema")
        elif schema.data is not None:
            try:
                compile_schema(schema)
            except (InvalidExpression, InvalidInput, MissingExtra) as error:
                findings.error(f"{path}.{name}.data", str(error))


def schema_problems(schema: SchemaDef) -> list[tuple[str, str]]:
    """What is wrong with a schema that stands alone: paths and messages."""
    found: list[tuple[str, str]] = []
    if not schema.name.strip():
        found.append(("$.name", "is empty"))
    if schema.type.upper() != "JSON":
        return found
    if schema.data is None:
        return [*found, ("$.data", "is missing")]
    try:
        compile_schema(schema)
    except (InvalidExpression, InvalidInput, MissingExtra) as error:
        found.append(("$.data", str(error)))
    return found
