"""What each task type demands of its fields and of its input, one function per type, and what all have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from conductorlite.definitions import TaskType
from conductorlite.errors import InvalidExpression
from conductorlite.expressions.durations import parse_duration, parse_until
from conductorlite.plan.checks_compensation import check_compensation
from conductorlite.plan.checks_findings import Findings, Scope, blank, has_input, input_value, is_expression
from conductorlite.plan.checks_joins import check_dynamic_fork, check_exclusive_join, check_fork, check_join
from conductorlite.plan.checks_leaves import check_lambda, check_transform
from conductorlite.plan.checks_limits import check_task_limits
from conductorlite.plan.checks_scripts import check_decision, check_inline, check_loop, check_switch
from conductorlite.plan.checks_task_def import check_task_def
from conductorlite.plan.tree import Place

__all__ = ["check_task"]

Check = Callable[[Place, Scope, Findings], None]

_TERMINATIONS: Final = ("COMPLETED", "FAILED", "TERMINATED")


def check_task(node: Place, scope: Scope, findings: Findings) -> None:
    """Add what is wrong with one task by itself and among its neighbours."""
    task = node.task
    if task.start_delay_ms < 0:
        findings.error(f"{node.path}.startDelay", "is negative")
    if task.retry_count is not None and task.retry_count < 0:
        findings.error(f"{node.path}.retryCount", "is negative")
    if task.compensate is not None or node.compensates is not None:
        check_compensation(node, findings)
    check = _CHECKS.get(task.type)
    if check is not None:
        check(node, scope, findings)
    if task.task_definition is not None:
        check_task_def(task.task_definition, f"{node.path}.taskDefinition", findings, embedded=True)
        check_task_limits(task, task.task_definition, f"{node.path}.taskDefinition", findings)


def _check_wait(node: Place, scope: Scope, findings: Findings) -> None:
    duration, until = input_value(node.task, "duration"), input_value(node.task, "until")
    path = f"{node.path}.inputParameters"
    if _given(duration) and _given(until):
        findings.error(path, "has both duration and until; WAIT takes one of them")
    if _given(duration) and not is_expression(duration):
        try:
            parse_duration(str(duration))
        except InvalidExpression as error:
            findings.error(f"{path}.duration", str(error))
    if _given(until) and not is_expression(until):
        try:
            parse_until(str(until), "UTC")
        except InvalidExpression as error:
            findings.error(f"{path}.until", str(error))


def _given(value: object) -> bool:
    return value is not None and bool(str(value).strip())


def _check_terminate(node: Place, scope: Scope, findings: Findings) -> None:
    if node.task.optional:
        findings.error(f"{node.path}.optional", "is true: a TERMINATE task cannot be optional")
    status, path = input_value(node.task, "terminationStatus"), f"{node.path}.inputParameters.terminationStatus"
    if status is None:
        findings.error(path, f"is missing: TERMINATE needs one of {', '.join(_TERMINATIONS)}")
    elif not is_expression(status) and status not in _TERMINATIONS:
        findings.error(path, f"{str(status)[:60]!r} is not one of {', '.join(_TERMINATIONS)}")


def _check_sub_workflow(node: Place, scope: Scope, findings: Findings) -> None:
    params, path = node.task.sub_workflow_param, f"{node.path}.subWorkflowParam"
    if params is None:
        findings.error(path, "is missing: SUB_WORKFLOW needs it")
        return
    definition = params.workflow_definition
    if definition is None and blank(params.name):
        findings.error(path, "needs a name or a workflowDefinition")
    if isinstance(definition, str) and not (definition.startswith("${") and definition.endswith("}")):
        findings.error(f"{path}.workflowDefinition", "is text but not an expression ${…}")
    if params.version is not None and params.version < 0:
        findings.error(f"{path}.version", "is negative")


def _check_event(node: Place, scope: Scope, findings: Findings) -> None:
    if blank(node.task.sink):
        findings.error(f"{node.path}.sink", "is missing: EVENT needs a sink")


def _check_dynamic(node: Place, scope: Scope, findings: Findings) -> None:
    param = node.task.dynamic_task_name_param
    if param is None or not param.strip():
        findings.error(f"{node.path}.dynamicTaskNameParam", "is missing: DYNAMIC needs the name of an input parameter")
    elif not has_input(node.task, param):
        findings.warn(f"{node.path}.dynamicTaskNameParam", f"{param!r} is not an input parameter of this task")


def _demanding(*keys: str) -> Check:
    """A check that the input has at least one of the keys."""

    def check(node: Place, scope: Scope, findings: Findings) -> None:
        if not has_input(node.task, *keys):
            findings.error(f"{node.path}.inputParameters", f"{node.task.type} needs {' or '.join(keys)}")

    return check


#: By type; types that are not here, users' own among them, demand nothing.
_CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        TaskType.DECISION: check_decision,
        TaskType.DO_WHILE: check_loop,
        TaskType.DYNAMIC: _check_dynamic,
        TaskType.EVENT: _check_event,
        TaskType.EXCLUSIVE_JOIN: check_exclusive_join,
        TaskType.FORK_JOIN: check_fork,
        TaskType.FORK_JOIN_DYNAMIC: check_dynamic_fork,
        TaskType.HTTP: _demanding("http_request", "uri", "method"),
        TaskType.INLINE: check_inline,
        TaskType.JOIN: check_join,
        TaskType.JSON_JQ_TRANSFORM: check_transform,
        TaskType.KAFKA_PUBLISH: _demanding("kafka_request"),
        TaskType.LAMBDA: check_lambda,
        TaskType.SUB_WORKFLOW: _check_sub_workflow,
        TaskType.SWITCH: check_switch,
        TaskType.TERMINATE: _check_terminate,
        TaskType.WAIT: _check_wait,
    }
)
