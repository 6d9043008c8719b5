"""SWITCH, DECISION, DO_WHILE and INLINE: their scripts compile, and read what they will be given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from conductorlite.language.conditions import compile_condition
from conductorlite.model.definitions import TaskType, WorkflowTask
from conductorlite.model.errors import InvalidExpression, MissingExtra
from conductorlite.plan.findings import Findings, Scope, blank, has_input, input_value, is_expression
from conductorlite.plan.tree import TreePosition, branches

__all__ = ["check_decision", "check_inline", "check_loop", "check_switch"]

_READ: Final = re.compile(r"""\$\.([A-Za-z_]\w*)|\$\[\s*(?:'([^'\\]+)'|"([^"\\]+)")\s*\]""")
#: What the engine adds to the names a loop's condition may read.
_LOOP_NAMES: Final = frozenset({"loopIndex", "loopItem", "iteration"})


def check_switch(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A SWITCH has an evaluator, an expression for it, and at least one case."""
    task, path = node.task, node.path
    evaluator, expression = task.evaluator_type, task.expression
    known = sorted(scope.evaluators)
    if evaluator is None or not evaluator.strip():
        findings.error(f"{path}.evaluatorType", f"is missing: SWITCH needs one of {', '.join(known)}")
    elif evaluator not in known:
        findings.error(f"{path}.evaluatorType", f"{evaluator[:60]!r} is not one of {', '.join(known)}")
    if expression is None or not expression.strip():
        findings.error(f"{path}.expression", "is missing: SWITCH needs an expression")
    elif evaluator is not None and evaluator in scope.evaluators:
        _compile(expression, evaluator, f"{path}.expression", scope, findings)
    if evaluator == "value-param" and expression is not None and expression.strip():
        if "${" in expression:
            findings.warn(f"{path}.expression", "is the literal name of an input parameter: ${…} in it is not resolved")
        elif not has_input(task, expression):
            message = f"{expression!r} is not an input parameter, so the case is always 'null'"
            findings.warn(f"{path}.expression", message)
    _check_cases(node, findings)


def check_inline(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """An INLINE has a script in its input, of a language that is known, that compiles where it is all there already."""
    task, path = node.task, f"{node.path}.inputParameters"
    evaluator, script = input_value(task, "evaluatorType"), input_value(task, "expression")
    evaluator = "javascript" if evaluator is None else evaluator
    if script is None:
        findings.error(f"{path}.expression", "is missing: INLINE needs an expression")
    elif not isinstance(script, str):
        findings.error(f"{path}.expression", "must be a text")
    elif blank(script):
        findings.error(f"{path}.expression", "is empty: INLINE needs an expression")
    if is_expression(evaluator):
        return
    if not isinstance(evaluator, str) or evaluator not in scope.evaluators:
        known = ", ".join(sorted(scope.evaluators))
        findings.error(f"{path}.evaluatorType", f"{str(evaluator)[:60]!r} is not one of {known}")
    elif isinstance(script, str) and not blank(script) and "${" not in script:
        _compile(script, evaluator, f"{path}.expression", scope, findings)


def check_decision(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A DECISION has a parameter or a script to decide by, and at least one case."""
    task = node.task
    if not blank(task.case_expression):
        _compile(task.case_expression or "", "javascript", f"{node.path}.caseExpression", scope, findings)
    elif blank(task.case_value_param):
        findings.error(node.path, "DECISION needs caseValueParam or caseExpression")
    _check_cases(node, findings)


def _check_cases(node: TreePosition, findings: Findings) -> None:
    if not node.task.decision_cases:
        findings.error(f"{node.path}.decisionCases", f"is empty: {node.task.type} needs at least one case")


def check_loop(node: TreePosition, scope: Scope, findings: Findings) -> None:
    """A DO_WHILE has a body, a list or a condition that compiles and reads what is there, and a sensible keepLastN."""
    task, path = node.task, node.path
    if not task.loop_over:
        findings.error(f"{path}.loopOver", "is empty: DO_WHILE needs at least one task to repeat")
    listed = not blank(task.items) or any(key in task.input_parameters for key in ("items", "_items"))
    condition = task.loop_condition
    if condition is None and not listed:
        findings.error(f"{path}.loopCondition", "is missing: DO_WHILE needs a condition or items")
    elif condition is not None and not condition.strip() and not listed:
        findings.warn(f"{path}.loopCondition", "is blank, which is false: the body runs once")
    elif condition is not None and condition.strip():
        _compile(condition, task.evaluator_type or "javascript", f"{path}.loopCondition", scope, findings)
        _check_names_read(node, condition, findings)
    keep = task.input_parameters.get("keepLastN")
    if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
        findings.error(f"{path}.inputParameters.keepLastN", "must be a positive integer, written as a number")


def _check_names_read(node: TreePosition, condition: str, findings: Findings) -> None:
    task = node.task
    inside = list(_body(task))
    if any(each.type == TaskType.FORK_JOIN_DYNAMIC for each in inside):
        # The references of its branches exist only at run time.
        return
    known = {task.task_reference_name, *_LOOP_NAMES, *task.input_parameters}
    known.update(each.task_reference_name for each in inside)
    if task.task_definition is not None:
        known.update(task.task_definition.input_template)
    reads = (next(name for name in found.groups() if name) for found in _READ.finditer(condition))
    for name in dict.fromkeys(reads):
        if name not in known:
            message = f"reads $.{name}, which is no input parameter, no task of the body, and not the loop itself"
            findings.warn(f"{node.path}.loopCondition", message)


def _body(loop: WorkflowTask) -> Iterator[WorkflowTask]:
    stack = list(loop.loop_over)
    while stack:
        task = stack.pop()
        yield task
        for _, _, tasks in branches(task):
            stack.extend(tasks)


def _compile(script: str, evaluator: str, path: str, scope: Scope, findings: Findings) -> None:
    try:
        compile_condition(script, evaluator, scope.evaluators)
    except (InvalidExpression, MissingExtra) as error:
        findings.error(path, str(error))
