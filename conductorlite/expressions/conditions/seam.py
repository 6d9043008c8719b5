"""What a language of conditions is: text in, a compiled Condition out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from conductorlite.errors import ExpressionFailed
from conductorlite.expressions.sources import Json

__all__ = ["BeyondSubset", "Condition", "Evaluator", "ScriptTimedOut"]


class BeyondSubset(ExpressionFailed):
    """The safe subset gave up where full JavaScript may go on; internal: to others, an ExpressionFailed."""


class ScriptTimedOut(ExpressionFailed):
    """A script ran into its time limit; internal: an operator may try again, to others it is an ExpressionFailed."""


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
        """Compile a text; raises InvalidExpression with the place."""
        ...
