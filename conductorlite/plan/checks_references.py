"""`${…}` everywhere a definition may hold one: it can be read, and its root is the workflow or one of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from conductorlite.definitions import step_path
from conductorlite.errors import InvalidExpression
from conductorlite.expressions.templates import compile_template
from conductorlite.plan.checks_findings import Findings, Scope, is_expression
from conductorlite.plan.tree import Place

__all__ = ["check_references"]


def check_references(scope: Scope, findings: Findings) -> None:
    """Warn of expressions that cannot be read and of roots that name nothing: both resolve to null at run time."""
    defn, path = scope.defn, scope.path
    for node in scope.nodes:
        for value, at in _templates_of(node):
            _check(value, at, scope, findings)
    _check(defn.output_parameters, f"{path}.outputParameters", scope, findings)
    _check(defn.failure_workflow, f"{path}.failureWorkflow", scope, findings)
    if defn.rate_limit_config is not None:
        _check(defn.rate_limit_config.rate_limit_key, f"{path}.rateLimitConfig.rateLimitKey", scope, findings)


def _templates_of(node: Place) -> Iterator[tuple[Any, str]]:
    task, path = node.task, node.path
    if task.input_parameters:
        yield task.input_parameters, f"{path}.inputParameters"
    if task.items is not None:
        yield task.items, f"{path}.items"
    if task.sink is not None:
        yield task.sink, f"{path}.sink"
    if task.task_definition is not None:
        yield task.task_definition.input_template, f"{path}.taskDefinition.inputTemplate"
    params = task.sub_workflow_param
    if params is not None:
        path = f"{path}.subWorkflowParam"
        yield params.name, f"{path}.name"
        yield params.priority, f"{path}.priority"
        yield params.task_to_domain, f"{path}.taskToDomain"
        yield params.idempotency_key, f"{path}.idempotencyKey"
        yield params.idempotency_strategy, f"{path}.idempotencyStrategy"
        if isinstance(params.workflow_definition, str):
            yield params.workflow_definition, f"{path}.workflowDefinition"


def _check(value: Any, path: str, scope: Scope, findings: Findings) -> None:
    for text, at in _texts(value, path):
        try:
            template = compile_template(text)
        except InvalidExpression as error:
            findings.error(at, str(error))
            continue
        for _, message in template.problems:
            findings.warn(at, f"{message}; it resolves to null")
        roots = {root for root, _ in template.reads.members} | template.reads.roots
        for root in sorted(root for root in roots if root != "workflow" and root not in scope.by_ref):
            findings.warn(at, f"${{{root}…}} names neither the workflow nor a task of this definition")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text with an expression within a JSON value, in document order, with its path."""
    stack: list[tuple[Any, str]] = [(value, path)]
    while stack:
        item, at = stack.pop()
        if isinstance(item, str):
            if is_expression(item):
                yield item, at
        elif isinstance(item, Mapping):
            # Most values hold no expression, and their paths need not be written.
            entries = [(key, entry) for key, entry in item.items() if _worth_a_look(entry)]
            stack.extend((entry, step_path(at, str(key))) for key, entry in reversed(entries))
        elif isinstance(item, list | tuple):
            indices = [index for index, entry in enumerate(item) if _worth_a_look(entry)]
            stack.extend((item[index], step_path(at, index)) for index in reversed(indices))


def _worth_a_look(value: Any) -> bool:
    if isinstance(value, str):
        return "${" in value
    return type(value) not in _PLAIN and isinstance(value, Mapping | list | tuple)


#: Types of values that hold nothing: of a long list most are.
_PLAIN: Final = frozenset({int, float, bool, type(None)})
