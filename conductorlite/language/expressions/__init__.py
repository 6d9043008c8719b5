"""Expressions of Python over JSON values, answered in this process: see `grammar` for what they may be made of."""

from conductorlite.language.expressions.expression import (
    CompiledExpression,
    Expression,
    ExpressionRaised,
    compile_expression,
    evaluate,
    render,
    truth,
)
from conductorlite.language.expressions.fields import (
    GENERATOR,
    condition_fields,
    inline_fields,
    switch_fields,
)
from conductorlite.language.expressions.grammar import ExpressionRefused
from conductorlite.language.expressions.keys import input_key

__all__ = [
    "GENERATOR",
    "CompiledExpression",
    "Expression",
    "ExpressionRaised",
    "ExpressionRefused",
    "compile_expression",
    "condition_fields",
    "evaluate",
    "inline_fields",
    "input_key",
    "render",
    "switch_fields",
    "truth",
]
