"""LAMBDA and JSON_JQ_TRANSFORM: their scripts are there, and compile where they are all there already."""

from __future__ import annotations

from collections.abc import Callable

from conductorlite.errors import InvalidExpression, MissingExtra
from conductorlite.expressions.functions import compile_function
from conductorlite.expressions.jq import compile_jq, need_jq
from conductorlite.plan.checks_findings import Findings, Scope, blank, input_value
from conductorlite.plan.tree import Place

__all__ = ["check_lambda", "check_transform"]


def check_lambda(node: Place, scope: Scope, findings: Findings) -> None:
    """A LAMBDA has the body of a JavaScript function in its input."""
    _check_script(node, "scriptExpression", compile_function, findings)


def check_transform(node: Place, scope: Scope, findings: Findings) -> None:
    """A JSON_JQ_TRANSFORM has a jq program in its input, and jq is installed."""
    try:
        need_jq()
    except MissingExtra as error:
        findings.error(f"{node.path}.type", str(error))
    else:
        _check_script(node, "queryExpression", compile_jq, findings)


def _check_script(node: Place, name: str, compile_: Callable[[str], object], findings: Findings) -> None:
    script, path = input_value(node.task, name), f"{node.path}.inputParameters.{name}"
    if script is None:
        findings.error(path, f"is missing: {node.task.type} needs it")
    elif not isinstance(script, str):
        findings.error(path, "must be a text")
    elif blank(script):
        findings.error(path, f"is empty: {node.task.type} needs it")
    elif "${" not in script:
        try:
            compile_(script)
        except (InvalidExpression, MissingExtra) as error:
            findings.error(path, str(error))
