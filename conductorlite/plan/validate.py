"""Everything that can be known to be wrong with a definition before it runs, found at once.

Errors prevent a definition from being used; warnings tell of what is allowed and probably not meant. The rules are
Conductor's, applied everywhere (Conductor forgets the bodies of loops and inline definitions), and a few more for what
can never work. All functions here are pure and raise nothing, whatever a definition holds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from conductorlite.language.conditions import EVALUATORS, Evaluator
from conductorlite.model.canonical import canonical
from conductorlite.model.definitions import TaskDef, TaskType, WorkflowDef
from conductorlite.model.errors import InvalidInput, Problem
from conductorlite.model.handlers import EventHandler
from conductorlite.model.scalars import MAX_NESTING
from conductorlite.plan.findings import Findings, Scope
from conductorlite.plan.handlers import check_event_handler
from conductorlite.plan.names import check_names, check_served, check_workflow_extras
from conductorlite.plan.references import check_references
from conductorlite.plan.schemas import check_schemas, check_task_schemas
from conductorlite.plan.secrets import check_secrets
from conductorlite.plan.shape import examine
from conductorlite.plan.tasks import check_task, check_task_def, check_workflow_limit
from conductorlite.plan.tree import TreePosition, walk

__all__ = ["validate", "validate_event_handler", "validate_task_def"]

_LONE_DOLLAR: Final = re.compile(r"\$(?!\{)")
#: `$workflow.input.name`, as Conductor reads it; `${…}` and plain names are accepted as well.
_FAILURE_WORKFLOW: Final = re.compile(r"\$workflow\.input\.[^.\s]+\Z")


def validate(
    defn: WorkflowDef,
    evaluators: Mapping[str, Evaluator] = EVALUATORS,
    *,
    environment: Collection[str] | None = (),
    served: Collection[str] | None = None,
) -> list[Problem]:
    """All problems of a workflow definition and its inline ones, errors and warnings mixed.

    `environment` are the names that `${NAME}` may stand for besides tasks; with None unknown roots are only warned of, as in a
    definition that is made at run time and may name what is around it. `served` are the task types that workers carry out
    (`Workers.task_types`): with it, tasks are warned of that nobody there would carry out.

    If values are not even of their declared types, or payloads are not JSON, or tasks are nested deeper than
    MAX_NESTING, only that is reported: everything else presumes it. Scripts are compiled by `evaluators`, by name.
    """
    misshapen = _misshapen(defn, "$", WorkflowDef)
    if misshapen:
        return misshapen
    findings = Findings()
    # Inline definitions wait here, with the nesting their sub-workflow task has already used up and the limits held around them.
    waiting: list[tuple[WorkflowDef, str, int, dict[str, str]]] = [(defn, "$", 0, {})]
    for definition, path, depth, around in waiting:
        held = check_workflow_limit(definition, path, around, findings)
        nodes = tuple(walk(definition, path, deepest=MAX_NESTING - depth))
        for node in nodes:
            if node.depth + depth > MAX_NESTING:
                return [Problem(path=node.path, message=f"tasks are nested deeper than {MAX_NESTING} levels")]
            params = node.task.sub_workflow_param
            if params is not None and isinstance(params.workflow_definition, WorkflowDef):
                inner = f"{node.path}.subWorkflowParam.workflowDefinition"
                needed = held if node.task.type == TaskType.SUB_WORKFLOW else {}  # another is not waited for
                waiting.append((params.workflow_definition, inner, depth + node.depth, needed))
        _check_definition(definition, path, nodes, evaluators, environment, findings)
        check_served(nodes, served, findings)
    return findings.problems


def validate_task_def(task_def: TaskDef, path: str = "$") -> list[Problem]:
    """All problems of a task definition that stands alone; paths start with `path`."""
    misshapen = _misshapen(task_def, path, TaskDef)
    if misshapen:
        return misshapen
    findings = Findings()
    check_task_def(task_def, path, findings, embedded=False)
    check_task_schemas(task_def, path, findings)
    return findings.problems


def validate_event_handler(handler: EventHandler, evaluators: Mapping[str, Evaluator] = EVALUATORS) -> list[Problem]:
    """All problems of an event handler, errors and warnings mixed."""
    misshapen = _misshapen(handler, "$", EventHandler)
    if misshapen:
        return misshapen
    findings = Findings()
    check_event_handler(handler, "$", findings, evaluators)
    return findings.problems


def _misshapen(value: object, path: str, kind: type[object]) -> list[Problem]:
    problems, payloads = examine(value, path, kind)
    if problems:
        return problems
    try:
        canonical([payload for payload, _ in payloads])
    except ValueError:
        pass  # each by itself: which it is, and whether it is more than that they are many
    else:
        return []
    for payload, where in payloads:
        try:
            canonical(payload, where=where)
        except InvalidInput as error:
            at, _, message = str(error).partition(": ")
            problems.append(Problem(path=at, message=message))
        except ValueError as error:
            problems.append(Problem(path=where, message=str(error)))
    return problems


def _check_definition(
    defn: WorkflowDef,
    path: str,
    nodes: tuple[TreePosition, ...],
    evaluators: Mapping[str, Evaluator],
    environment: Collection[str] | None,
    findings: Findings,
) -> None:
    by_ref: dict[str, TreePosition] = {}
    for node in nodes:
        by_ref.setdefault(node.task.task_reference_name, node)
    scope = Scope(defn=defn, path=path, nodes=nodes, by_ref=by_ref, evaluators=evaluators, environment=environment)
    _check_workflow(defn, path, findings)
    check_workflow_extras(defn, path, findings)
    check_names(scope, findings)
    for node in nodes:
        check_task(node, scope, findings)
    check_references(scope, findings)
    check_secrets(scope, findings)
    check_schemas(scope, findings)


def _check_workflow(defn: WorkflowDef, path: str, findings: Findings) -> None:
    if not defn.name.strip():
        findings.error(f"{path}.name", "is empty")
    if not defn.tasks:
        findings.error(f"{path}.tasks", "is empty")
    if defn.schema_version != 2:
        findings.error(f"{path}.schemaVersion", f"is {defn.schema_version}, but must be 2")
    if defn.timeout_ms < 0:
        findings.error(f"{path}.timeoutSeconds", "is negative")
    failure = defn.failure_workflow
    if failure is not None and _LONE_DOLLAR.match(failure) and not _FAILURE_WORKFLOW.match(failure):
        findings.error(f"{path}.failureWorkflow", f"{failure!r} is neither a name nor $workflow.input.<name>")
