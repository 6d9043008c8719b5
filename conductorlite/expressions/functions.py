"""Scripts that are the body of a function, as LAMBDA has them: what they `return` is the answer, and without it null."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.expressions.conditions import Condition, compile_condition
from conductorlite.expressions.sources import Json

__all__ = ["compile_function"]

_BEFORE: Final = "(function () {"
#: On a line of its own, so that the body may end with a comment.
_AFTER: Final = "\n})()"
_FIRST_LINE: Final = re.compile(r"line 1 column (\d+)")


@attrs.frozen(kw_only=True)
class _Function:
    condition: Condition

    @property
    def names(self) -> frozenset[str]:
        return self.condition.names

    @property
    def everything(self) -> bool:
        return self.condition.everything

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        try:
            return self.condition.evaluate(values, now=now, seed=seed)
        except ExpressionFailed as error:
            raise type(error)(_in_its_own_words(str(error))) from None


def compile_function(body: str) -> Condition:
    """Compile the body of a JavaScript function without parameters; its `$` is what a condition's is.

    Raises InvalidExpression with the place, MissingExtra when only the extra knows what the body uses.
    """
    try:
        return _Function(condition=compile_condition(f"{_BEFORE}{body}{_AFTER}", "javascript"))
    except InvalidExpression as error:
        raise InvalidExpression(_in_its_own_words(str(error))) from None


def _in_its_own_words(message: str) -> str:
    """Places and quotations without what was put around the body."""
    own = _FIRST_LINE.sub(lambda found: f"line 1 column {max(1, int(found[1]) - len(_BEFORE))}", message)
    return own.replace(_BEFORE, "").replace(repr(_AFTER)[1:-1], "")
