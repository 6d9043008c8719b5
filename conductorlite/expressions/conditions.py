"""Scripts of loops, switches and INLINE tasks: text in, a compiled Condition out.

`javascript` and `graaljs` are JavaScript, `python` is Python (an extra), `value-param` the literal key of one value. Another
evaluator is plugged in by passing a larger mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

import attrs

from conductorlite.errors import InvalidExpression
from conductorlite.expressions.sources import Json
from conductorlite.sandbox import ScriptCut, ScriptTimedOut, patience

__all__ = [
    "EVALUATORS",
    "Condition",
    "Evaluator",
    "ScriptCut",
    "ScriptTimedOut",
    "ValueParam",
    "compile_condition",
    "is_true",
    "patience",
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

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        """The result as JSON; raises ExpressionFailed for errors in the script and for a spent budget.

        `now` (epoch ms) is what the script's clock says and `seed` what its chance is drawn from: the same values give the
        same answer, whenever and wherever it is asked. Raises ScriptTimedOut when the script ran into its time limit.
        """
        ...


class Evaluator(Protocol):
    """One language of conditions."""

    def compile(self, text: str) -> Condition:
        """Compile a text; raises InvalidExpression with the place, MissingExtra without what the language needs."""
        ...


@attrs.frozen(kw_only=True)
class _Parameter:
    text: str

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.text,))

    @property
    def everything(self) -> bool:
        return False

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        return values.get(self.text)


@attrs.frozen
class ValueParam:
    """`value-param`: the text is the literal key of one value, null when it is absent."""

    def compile(self, text: str) -> Condition:
        """Nothing to compile; never raises."""
        return _Parameter(text=text)


class _JavaScript:
    """The evaluator of `expressions.javascript`, imported with the first script: most programs never have one."""

    def compile(self, text: str) -> Condition:
        """See `JavaScript.compile`."""
        from conductorlite.expressions.javascript import JavaScript

        return JavaScript().compile(text)


class _Python:
    """The evaluator of `expressions.python`, imported with the first script."""

    def compile(self, text: str) -> Condition:
        """See `compile_python`."""
        from conductorlite.expressions.python import compile_python

        return compile_python(text)


#: The evaluators by Conductor's names.
EVALUATORS: Final[Mapping[str, Evaluator]] = MappingProxyType(
    {"javascript": _JavaScript(), "graaljs": _JavaScript(), "python": _Python(), "value-param": ValueParam()}
)


def compile_condition(text: str, evaluator_type: str = "javascript", evaluators: Mapping[str, Evaluator] = EVALUATORS) -> Condition:
    """Compile a condition with the evaluator of that name.

    Raises InvalidExpression when there is no such evaluator, or it cannot compile the text; MissingExtra.
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
