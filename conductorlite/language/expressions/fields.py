"""Fields that store an expression in a task: Conductor's own hold the JavaScript, and one key of its input the Python.

`inputParameters["@python"]` is `{"text": …, "generator": …}`. A Conductor server carries out the JavaScript, which reads the other
entries of `inputParameters`; this engine the Python, whose names are their keys. A name that Conductor reserves has a key that ends
with a `_` more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from conductorlite.language.expressions.expression import Expression
from conductorlite.language.expressions.keys import input_key
from conductorlite.language.values import Json
from conductorlite.model.definitions import PYTHON_KEY

__all__ = ["GENERATOR", "condition_fields", "inline_fields", "switch_fields"]

#: The version of what makes JavaScript of Python. It rises with every change of what is made of any expression.
GENERATOR: Final = 1


def inline_fields(expression: Expression, given: Mapping[str, Json]) -> dict[str, Any]:
    """Fields of an INLINE that gives the answer as its `result`; `given` has the values by name, `${…}` most of them.

    Raises KeyError for a name that the expression reads and that is not given.
    """
    script = {"evaluatorType": "javascript", "expression": expression.javascript}
    return {"input_parameters": {**script, **_inputs(expression, given)}}


def switch_fields(expression: Expression, given: Mapping[str, Json]) -> dict[str, Any]:
    """Fields of a SWITCH whose cases are the answers as texts: `true`, `false`, `1`, `a`. See `inline_fields`."""
    return {
        "evaluator_type": "javascript",
        "expression": expression.javascript,
        "input_parameters": _inputs(expression, given),
    }


def condition_fields(expression: Expression, given: Mapping[str, Json]) -> dict[str, Any]:
    """Fields of a DO_WHILE that goes on while the answer is true. See `inline_fields`."""
    return {"loop_condition": expression.javascript, "input_parameters": _inputs(expression, given)}


def _inputs(expression: Expression, given: Mapping[str, Json]) -> dict[str, Json]:
    values = {input_key(name): given[name] for name in expression.names}
    return {**values, PYTHON_KEY: {"text": expression.python, "generator": GENERATOR}}
