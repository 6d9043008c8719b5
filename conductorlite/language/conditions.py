"""Scripts of loops, switches and INLINE tasks: text in, a compiled Condition out.

`javascript` and `graaljs` are JavaScript, `python` is Python (an extra), `value-param` the literal key of one value.

Scripts that are the body of a function, as LAMBDA has them: what they `return` is the answer, and without it null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Protocol

import attrs

from conductorlite.language.processes import ScriptCut, ScriptTimedOut, patience
from conductorlite.language.values import AtOnce, Json
from conductorlite.model.errors import ExpressionFailed, InvalidExpression
from conductorlite.model.later import pattern

__all__ = [
    "EVALUATORS",
    "Condition",
    "ScriptCut",
    "ScriptTimedOut",
    "broken_condition",
    "compile_condition",
    "compile_function",
    "is_true",
    "patience",
]


class Condition(Protocol):
    """A compiled condition: immutable, and usable from several threads."""

    @property
    def names(self) -> frozenset[str]:
        """The first-level names it reads of its values; all it needs, unless `everything`."""

    @property
    def everything(self) -> bool:
        """True if what it reads cannot be known from its text (`$` by itself, or `$[x]`)."""

    def keys_of(self, name: str) -> frozenset[str] | None:
        """Keys directly below a name that may decide whether the answer is true; None if the text may read any of them."""

    @property
    def foreign(self) -> bool:
        """True if an interpreter carries it out, and not closures of our own, which are soon done."""

    @property
    def at_once(self) -> AtOnce | None:
        """Function that mostly answers it without being asked when and with which seed; None where only `evaluate` does."""

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        """The result as JSON; raises ExpressionFailed for errors in the script and for a spent budget.

        `now` (epoch ms) is what the script's clock says and `seed` what its chance is drawn from: the same values give the
        same answer, whenever and wherever it is asked. Raises ScriptTimedOut when the script ran into its time limit.
        """


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Parameter:
    """`value-param`: the text is the literal key of one value, null when it is absent."""

    text: str
    names: frozenset[str]
    everything: bool = False
    at_once: AtOnce = attrs.field(eq=False, repr=False)
    foreign: bool = False

    def keys_of(self, name: str) -> frozenset[str] | None:
        # The value itself is the answer, and a map is never true.
        return frozenset()

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        return self.at_once(values)


def _parameter(text: str) -> Condition:
    return _Parameter(text=text, names=frozenset((text,)), at_once=lambda values: values.get(text))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Broken:
    """A condition that cannot be compiled: to evaluate it fails."""

    text: str
    problem: str
    names: frozenset[str] = frozenset()
    everything: bool = False
    at_once: None = None
    foreign: bool = False

    def keys_of(self, name: str) -> frozenset[str] | None:
        return frozenset()

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        raise ExpressionFailed(self.problem)


def broken_condition(text: str, problem: str) -> Condition:
    """A condition that raises ExpressionFailed with the problem when it is evaluated."""
    return _Broken(text=text, problem=problem)


def _javascript(text: str) -> Condition:
    # Imported with the first script, as Python is: most programs never have one.
    from conductorlite.language.javascript import JavaScript

    return JavaScript().compile(text)


def _python(text: str) -> Condition:
    from conductorlite.language.python import compile_python

    return compile_python(text)


#: What compiles a script, by Conductor's names of evaluators.
EVALUATORS: Final[Mapping[str, Callable[[str], Condition]]] = MappingProxyType(
    {"javascript": _javascript, "graaljs": _javascript, "python": _python, "value-param": _parameter}
)


def compile_condition(text: str, evaluator_type: str = "javascript") -> Condition:
    """Compile a condition with the evaluator of that name.

    Raises InvalidExpression when there is no such evaluator, or it cannot compile the text (with the place); MissingExtra without
    what the language needs.
    """
    if evaluator_type not in EVALUATORS:
        known = ", ".join(sorted(EVALUATORS))
        raise InvalidExpression(f"No evaluator registered for type: {evaluator_type[:80]} (there are: {known})")
    return EVALUATORS[evaluator_type](text)


def is_true(value: Json) -> bool:
    """Conductor's reading of a result as yes or no: a boolean as it is, a number when above 0, all else no."""
    if isinstance(value, bool):
        return value
    return isinstance(value, int | float) and value > 0


_BEFORE: Final = "(function () {"
#: On a line of its own, so that the body may end with a comment.
_AFTER: Final = "\n})()"
_FIRST_LINE: Final = pattern(r"line 1 column (\d+)")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Function:
    condition: Condition
    names: frozenset[str]
    everything: bool
    foreign: bool
    at_once: AtOnce | None = attrs.field(eq=False, repr=False)

    def keys_of(self, name: str) -> frozenset[str] | None:
        return self.condition.keys_of(name)

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
        inner = compile_condition(f"{_BEFORE}{body}{_AFTER}")
        return _Function(
            condition=inner, names=inner.names, everything=inner.everything, foreign=inner.foreign, at_once=inner.at_once
        )
    except InvalidExpression as error:
        raise InvalidExpression(_in_its_own_words(str(error))) from None


def _in_its_own_words(message: str) -> str:
    """Places and quotations without what was put around the body."""
    own = _FIRST_LINE.sub(lambda found: f"line 1 column {max(1, int(found[1]) - len(_BEFORE))}", message)
    return own.replace(_BEFORE, "").replace(repr(_AFTER)[1:-1], "")
