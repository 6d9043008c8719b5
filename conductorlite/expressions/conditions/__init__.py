"""Conditions of loops and switches behind one seam: text in, a compiled Condition out.

The names `javascript` and `graaljs` mean the safe subset in this package: what Conductor's definitions use of
JavaScript, interpreted here within limits, with no engine installed. Another
evaluator is plugged in by passing a larger mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import attrs

from conductorlite.errors import InvalidExpression
from conductorlite.expressions.conditions.interpreter import MAX_STEPS, run
from conductorlite.expressions.conditions.parser import Script, parse
from conductorlite.expressions.sources import Json

__all__ = [
    "EVALUATORS",
    "Condition",
    "Evaluator",
    "SafeJavaScript",
    "ValueParam",
    "compile_condition",
    "is_true",
]


class Condition(Protocol):
    """A compiled condition: immutable, and usable from several threads."""

    @property
    def names(self) -> frozenset[str]:
        """The first-level names it reads of its values; all it needs, unless `everything`."""
        ...

    @property
    def everything(self) -> bool:
        """Whether what it reads cannot be known from its text (`$` by itself, or `$[x]`)."""
        ...

    def evaluate(self, values: Mapping[str, Json]) -> Json:
        """The result as JSON; raises ExpressionFailed for errors in the script and for a spent budget."""
        ...


class Evaluator(Protocol):
    """One language of conditions."""

    def compile(self, text: str) -> Condition:
        """Compile a text; raises InvalidExpression with the place."""
        ...


@attrs.frozen(kw_only=True)
class _ScriptCondition:
    text: str
    script: Script = attrs.field(repr=False, eq=False)
    max_steps: int

    @property
    def names(self) -> frozenset[str]:
        return self.script.names

    @property
    def everything(self) -> bool:
        return self.script.everything

    def evaluate(self, values: Mapping[str, Json]) -> Json:
        return run(self.script, values, self.max_steps)


@attrs.frozen(kw_only=True)
class _ParameterCondition:
    text: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.text,))

    @property
    def everything(self) -> bool:
        return False

    def evaluate(self, values: Mapping[str, Json]) -> Json:
        return values.get(self.text)


@attrs.frozen(kw_only=True)
class SafeJavaScript:
    """The subset: expressions, if/else, switch, variables, functions; no loops, no objects with behaviour, no clock.

    `max_steps` bounds one evaluation. The result is the script's completion value: undefined and NaN become null, whole
    numbers integers.
    """

    max_steps: int = MAX_STEPS

    def compile(self, text: str) -> Condition:
        """Parse the text; raises InvalidExpression, which names the construct if only full JavaScript has it."""
        return _ScriptCondition(text=text, script=parse(text), max_steps=self.max_steps)


@attrs.frozen
class ValueParam:
    """`value-param`: the text is the literal key of one value, null when it is absent."""

    def compile(self, text: str) -> Condition:
        """Nothing to compile; never raises."""
        return _ParameterCondition(text=text)


#: The evaluators that come without an extra, by Conductor's names.
EVALUATORS: Final[Mapping[str, Evaluator]] = MappingProxyType(
    {"javascript": SafeJavaScript(), "graaljs": SafeJavaScript(), "value-param": ValueParam()}
)


def compile_condition(
    text: str, evaluator_type: str = "javascript", evaluators: Mapping[str, Evaluator] = EVALUATORS
) -> Condition:
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
