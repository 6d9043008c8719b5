"""`value-param`: not a script but the literal key of one value."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from conductorlite.expressions.conditions.seam import Condition
from conductorlite.expressions.sources import Json

__all__ = ["ValueParam"]


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


@attrs.frozen
class ValueParam:
    """`value-param`: the text is the literal key of one value, null when it is absent."""

    def compile(self, text: str) -> Condition:
        """Nothing to compile; never raises."""
        return _ParameterCondition(text=text)
