"""Event handlers: a name, an event, a condition that compiles, and actions whose bodies say all they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conductorlite.language.conditions import EVALUATORS, Evaluator, compile_condition
from conductorlite.language.templates import compile_template
from conductorlite.model.definitions import MAX_KEY
from conductorlite.model.errors import InvalidExpression, MissingExtra
from conductorlite.model.handlers import (
    ActionType,
    EventAction,
    EventHandler,
    StartWorkflow,
    TaskDetails,
    TerminateWorkflow,
    UpdateWorkflowVariables,
)
from conductorlite.plan.findings import Findings, blank

__all__ = ["check_event_handler"]


def check_event_handler(
    handler: EventHandler, path: str, findings: Findings, evaluators: Mapping[str, Evaluator] = EVALUATORS
) -> None:
    """All problems of an event handler whose values are of their declared types."""
    for field, text in (("name", handler.name), ("event", handler.event)):
        if blank(text):
            findings.error(f"{path}.{field}", "is empty")
        elif len(text) > MAX_KEY:
            findings.error(f"{path}.{field}", f"is longer than {MAX_KEY} characters")
    _check_condition(handler, path, evaluators, findings)
    if not handler.actions:
        findings.error(f"{path}.actions", "is empty")
    if not handler.active:
        findings.warn(f"{path}.active", "is false, which is the default: the handler does nothing")
    for number, action in enumerate(handler.actions):
        _check_action(action, f"{path}.actions[{number}]", findings)


def _check_condition(handler: EventHandler, path: str, evaluators: Mapping[str, Evaluator], findings: Findings) -> None:
    evaluator = handler.evaluator_type
    if not blank(evaluator) and evaluator not in evaluators:
        known = ", ".join(sorted(evaluators))
        findings.error(f"{path}.evaluatorType", f"{str(evaluator)[:60]!r} is not one of {known}")
        return
    condition = handler.condition
    if condition is None or blank(condition):
        return
    try:
        compile_condition(condition, evaluator if evaluator and not blank(evaluator) else "javascript", evaluators)
    except (InvalidExpression, MissingExtra) as error:
        findings.error(f"{path}.condition", str(error))


def _check_action(action: EventAction, path: str, findings: Findings) -> None:
    known = [str(kind) for kind in ActionType]
    if action.action not in known:
        findings.error(f"{path}.action", f"{action.action[:60]!r} is not one of {', '.join(known)}")
        return
    bodies = {kind: getattr(action, kind) for kind in known}
    body = bodies.pop(action.action)
    for kind, other in bodies.items():
        if other is not None:
            findings.warn(f"{path}.{kind}", f"has no effect: the action is {action.action}")
    if body is None:
        findings.error(f"{path}.{action.action}", "is missing: it says what the action is about")
        return
    _check_body(body, f"{path}.{action.action}", findings)
    for key in body.extra:
        findings.warn(f"{path}.{action.action}.{key}", "is not known, and has no effect")


def _check_body(body: Any, path: str, findings: Findings) -> None:
    if isinstance(body, StartWorkflow):
        if body.name is None or blank(body.name):
            findings.error(f"{path}.name", "is missing: the name of a registered workflow")
        _check_template(body.input, f"{path}.input", findings)
        _check_template(body.correlation_id, f"{path}.correlationId", findings)
    elif isinstance(body, TaskDetails):
        if blank(body.task_id) and (blank(body.workflow_id) or blank(body.task_ref_name)):
            findings.error(path, "names no task: give taskId, or workflowId and taskRefName")
        for name, text in (("workflowId", body.workflow_id), ("taskRefName", body.task_ref_name), ("taskId", body.task_id)):
            _check_template(text, f"{path}.{name}", findings)
        _check_template(body.output, f"{path}.output", findings)
        _check_template(body.reason_for_incompletion, f"{path}.reasonForIncompletion", findings)
    else:
        if blank(body.workflow_id):
            findings.error(f"{path}.workflowId", "is missing")
        _check_template(body.workflow_id, f"{path}.workflowId", findings)
    if isinstance(body, TerminateWorkflow):
        _check_template(body.termination_reason, f"{path}.terminationReason", findings)
    if isinstance(body, UpdateWorkflowVariables):
        if not body.variables:
            findings.error(f"{path}.variables", "is empty")
        _check_template(body.variables, f"{path}.variables", findings)


def _check_template(value: Any, path: str, findings: Findings) -> None:
    try:
        template = compile_template(value)
    except InvalidExpression as error:
        findings.error(path, str(error))
        return
    for where, message in template.problems:
        findings.warn(path + where.removeprefix("$"), message)
