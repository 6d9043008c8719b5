"""`${workflow.secrets.NAME}` only where it is filled in for a worker: anywhere else it would have to be stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from conductorlite.language.secrets import SECRETS
from conductorlite.language.templates import compile_template
from conductorlite.model.definitions import TaskType, WorkflowTask
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.scalars import step_path
from conductorlite.plan.findings import Findings, Scope
from conductorlite.plan.tree import OPERATOR_TYPES, TreePosition

__all__ = ["check_secrets"]

_MISPLACED: Final = (
    "names a secret where it cannot be filled in without being stored: only the input of a task that a worker carries out can"
)
_BURIED: Final = "the name of a secret is written out, in an expression of its own"


def check_secrets(scope: Scope, findings: Findings) -> None:
    """Refuse secrets outside the inputs of workers' tasks, and those whose names are made at run time."""
    defn, path = scope.defn, scope.path
    for node in scope.nodes:
        for value, at, filled in _texts_of(node):
            _check(value, at, filled, findings)
    limit = defn.rate_limit_config
    for value, at in (
        (defn.output_parameters, "outputParameters"),
        (defn.failure_workflow, "failureWorkflow"),
        (defn.input_template, "inputTemplate"),
        (defn.variables, "variables"),
        (None if limit is None else limit.rate_limit_key, "rateLimitConfig.rateLimitKey"),
    ):
        _check(value, f"{path}.{at}", False, findings)


def _texts_of(node: TreePosition) -> Iterator[tuple[Any, str, bool]]:
    """What a task holds, where, and whether secrets in it are filled in."""
    task, path = node.task, node.path
    worker = task.type not in OPERATOR_TYPES
    for key, value in task.input_parameters.items():
        if not _mentions(value):
            continue  # here already: most have none, and their paths need not be written
        if task.type == TaskType.START_WORKFLOW and isinstance(value, Mapping):
            # A definition in there has inputs of its own, and is checked when it is embedded.
            value = {name: entry for name, entry in value.items() if name != "workflowDef"}
        yield value, step_path(f"{path}.inputParameters", key), worker or _reaches_workers(task, key)
    if task.task_definition is not None:
        yield task.task_definition.input_template, f"{path}.taskDefinition.inputTemplate", worker
    if task.sink is not None:
        yield task.sink, f"{path}.sink", task.type == TaskType.EVENT
    for text, name in (
        (task.items, "items"),
        (task.expression, "expression"),
        (task.case_expression, "caseExpression"),
        (task.loop_condition, "loopCondition"),
        (task.script_expression, "scriptExpression"),
    ):
        if text is not None:
            yield text, f"{path}.{name}", False
    params = task.sub_workflow_param
    if params is not None:
        path = f"{path}.subWorkflowParam"
        yield params.name, f"{path}.name", False
        yield params.idempotency_key, f"{path}.idempotencyKey", False
        yield params.task_to_domain, f"{path}.taskToDomain", False
        yield params.priority, f"{path}.priority", False


def _reaches_workers(task: WorkflowTask, key: str) -> bool:
    """Whether a parameter of an operator is a template again for the tasks it makes at run time."""
    if task.type == TaskType.DYNAMIC:
        return key != task.dynamic_task_name_param
    return task.type == TaskType.FORK_JOIN_DYNAMIC and key == task.dynamic_fork_tasks_param


def _check(value: Any, path: str, filled: bool, findings: Findings) -> None:
    if not _mentions(value):
        return
    try:
        template = compile_template(value)
    except InvalidExpression:
        return  # told by the check of references
    for at in template.buried:
        findings.error(f"{path}{at[1:]}", _BURIED)
    if not filled:
        for site in template.secrets:
            at = path
            for step in site.steps:
                at = step_path(at, step)
            findings.error(at, f"${{{SECRETS}{site.names[0]}}} {_MISPLACED}")


def _mentions(value: Any) -> bool:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if SECRETS in item:
                return True
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif type(item) not in _PLAIN and isinstance(item, Mapping):
            pending.extend(item.values())
    return False


#: Types of values that hold nothing: of a long list most are.
_PLAIN: Final = frozenset({int, float, bool, type(None)})
