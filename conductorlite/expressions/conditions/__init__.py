"""Scripts of loops, switches and INLINE tasks behind one seam: text in, a compiled Condition out.

`javascript` and `graaljs` are JavaScript: what the safe subset in this package covers is interpreted here, the rest by the
extra `javascript`. `python` is a safe subset of Python, `value-param` the literal key of one value. Another evaluator is
plugged in by passing a larger mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from conductorlite.errors import InvalidExpression
from conductorlite.expressions.conditions.seam import Condition, Evaluator, ScriptTimedOut
from conductorlite.expressions.conditions.value_param import ValueParam
from conductorlite.expressions.sources import Json

__all__ = [
    "EVALUATORS",
    "Condition",
    "Evaluator",
    "ScriptTimedOut",
    "ValueParam",
    "compile_condition",
    "is_true",
]


class _JavaScript:
    """The evaluator of `expressions.javascript`, imported with the first script: most programs never have one."""

    def compile(self, text: str) -> Condition:
        """See `JavaScript.compile`."""
        from conductorlite.expressions.javascript import JavaScript

        return JavaScript().compile(text)


class _Python:
    """The evaluator of `expressions.python`, imported with the first script."""

    def compile(self, text: str) -> Condition:
        """See `SafePython.compile`."""
        from conductorlite.expressions.python import SafePython

        return SafePython().compile(text)


#: The evaluators by Conductor's names.
EVALUATORS: Final[Mapping[str, Evaluator]] = MappingProxyType(
    {"javascript": _JavaScript(), "graaljs": _JavaScript(), "python": _Python(), "value-param": ValueParam()}
)


def compile_condition(text: str, evaluator_type: str = "javascript", evaluators: Mapping[str, Evaluator] = EVALUATORS) -> Condition:
    """Compile a condition with the evaluator of that name.

    Raises InvalidExpression when there is no such evaluator, or it cannot compile the text.
    """
    evaluator = evaluators.get(evaluator_type)
    if evaluator is None:
        known = ", ".join(sorted(evaluators))
        raise InvalidExpression(f"No evaluator registered for type: {evaluator_type[:80]} (there are: {known})")
    return evaluator.compile(text)


def is_true(value: Json) -> bool:
    """Conductor's reading of a result as yes or no: a boolean as it is, a number when above 0, all else no."""
    if isinstance(value, bool):
        return value
    return isinstance(value, int | float) and value > 0
