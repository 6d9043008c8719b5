"""The two evaluators that need nothing installed: the safe subset of JavaScript, and `value-param`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from conductorlite.expressions.conditions.interpreter import MAX_STEPS, run
from conductorlite.expressions.conditions.parser import Script, parse
from conductorlite.expressions.conditions.seam import Condition
from conductorlite.expressions.sources import Json

__all__ = ["SafeJavaScript", "ValueParam"]


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

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
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

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
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
