"""Expressions of Python beside their JavaScript (`language.expressions`): that both mean the same, and read what is there."""

from __future__ import annotations

from typing import Final

from conductorlite.language.expressions.condition import StoredExpression, compile_stored, not_portable, refuse_mismatch
from conductorlite.model.definitions import PYTHON_KEY, TaskType
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.later import pattern
from conductorlite.plan.findings import Findings, has_input
from conductorlite.plan.tree import TreePosition, tasks_inside

__all__ = ["check_portable_expression", "check_stored_expression"]

#: Kinds whose text is not the same in Python, in JavaScript and in Java.
_NO_CASES: Final = frozenset({"dict", "float", "list", "tuple"})

#: A reference to what a task has raised.
_ERROR: Final = pattern(r"\$\{[^{}.]+\.error\b[^{}]*\}")


def check_stored_expression(node: TreePosition, findings: Findings) -> None:
    """Add what is wrong with the Python of a task that has it, with its JavaScript, and with the values that both read."""
    task = node.task
    path = f"{node.path}.inputParameters"
    condition = findings.tried(f"{path}.{PYTHON_KEY}", compile_stored, task.input_parameters[PYTHON_KEY])
    if condition is None:
        return
    for name in sorted(condition.names):
        if not has_input(task, name):
            message = f"reads {name}, which is no input parameter: add it, with the value or the ${{…}} that it stands for"
            findings.error(f"{path}.{PYTHON_KEY}", message)
    _check_javascript(node, condition, findings)
    if task.type == TaskType.SWITCH and condition.kind in _NO_CASES:
        findings.error(f"{path}.{PYTHON_KEY}", f"gives a {condition.kind}, which no case can be: give a str, a bool or an int")
    if task.type == TaskType.DO_WHILE:
        _check_loop(node, condition, findings)


def check_portable_expression(node: TreePosition, findings: Findings) -> None:
    """Add what of a task's expression a Conductor server answers otherwise; nothing of one that cannot be read."""
    try:
        condition = compile_stored(node.task.input_parameters[PYTHON_KEY])
    except InvalidExpression:
        return
    for said in dict.fromkeys(not_portable(condition)):
        findings.warn(f"{node.path}.inputParameters.{PYTHON_KEY}", said)
    for name, value in node.task.input_parameters.items():
        if (
            isinstance(value, str)
            and _ERROR.fullmatch(value)
            and not condition.text.startswith((f"{name} is None or ", "reraise("))
        ):
            findings.warn(
                f"{node.path}.inputParameters.{name}",
                "reads what a task has raised, which a Conductor server does not keep: only `except Exception` holds there",
            )


def _check_javascript(node: TreePosition, condition: StoredExpression, findings: Findings) -> None:
    task = node.task
    if task.type == TaskType.INLINE:
        place, script = "inputParameters.expression", task.input_parameters.get("expression")
        evaluator, at = task.input_parameters.get("evaluatorType"), "inputParameters.evaluatorType"
    elif task.type == TaskType.SWITCH:
        place, script, evaluator, at = "expression", task.expression, task.evaluator_type, "evaluatorType"
    else:
        place, script, evaluator, at = "loopCondition", task.loop_condition, "javascript", ""
    if evaluator != "javascript":
        findings.error(f"{node.path}.{at}", f"must be 'javascript' beside {PYTHON_KEY}, not {str(evaluator)[:60]!r}")
    if not isinstance(script, str):
        findings.error(f"{node.path}.{place}", f"is missing: it must be the JavaScript of the Python under {PYTHON_KEY}")
    else:
        findings.tried(f"{node.path}.{place}", refuse_mismatch, condition, script)


def _check_loop(node: TreePosition, condition: StoredExpression, findings: Findings) -> None:
    path = f"{node.path}.inputParameters.{PYTHON_KEY}"
    if condition.kind != "bool":
        said = "is not certain to be True or False, and Conductor takes a loop's condition for false unless it is true or above 0"
        findings.error(path, f"{said}: write bool({condition.text[:60]})")
    taken = {node.ref, *(inner.task_reference_name for inner in tasks_inside(node.task))} & condition.names
    for name in sorted(taken):
        said = f"reads {name}, which is a task of the loop too, and a Conductor server would read that task's output"
        findings.error(path, f"{said}: give one of them another name")
