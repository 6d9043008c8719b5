"""The safe subset of JavaScript, which needs nothing installed."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from conductorlite.expressions.conditions.interpreter import MAX_STEPS, run
from conductorlite.expressions.conditions.parser import Script, parse
from conductorlite.expressions.conditions.seam import Condition
from conductorlite.expressions.sources import Json

__all__ = ["SafeJavaScript"]


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
class SafeJavaScript:
    """The subset: expressions, if/else, switch, variables, functions; no loops, no objects with behaviour, no clock.

    `max_steps` bounds one evaluation. The result is the script's completion value: undefined and NaN become null, whole
    numbers integers.
    """

    max_steps: int = MAX_STEPS

    def compile(self, text: str) -> Condition:
        """Parse the text; raises InvalidExpression, which names the construct if only full JavaScript has it."""
        return _ScriptCondition(text=text, script=parse(text), max_steps=self.max_steps)
