"""jq programs behind the protocol of conditions: needs the extra `jq`.

jq cannot be interrupted, reads the environment, the clock and files, and lives in C: so it runs in a helper process
(`conductorlite.language`) with bounds on processor time and memory, and a prelude that takes the world away. What a program
puts out follows from its text, its input and the instant it is given.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from conductorlite.language.processes import Limits, ScriptCut, TextCut, installed, run_script
from conductorlite.language.values import Json, may_hold_wide, name_wide_numbers, wide_numbers
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, MissingExtra
from conductorlite.model.later import pattern

__all__ = ["JqProgram", "compile_jq", "need_jq"]

#: Longest program, in characters.
_MAX_TEXT: Final = 1_000_000
_WIDEST: Final = 2**63
#: Significant digits of a number that jq has worked out.
_DIGITS: Final = 17

#: What an operation of a program on a number says that it cannot be exact on; see `wide.jq`.
_INEXACT: Final = "beyond 2^53"

_FIRST: Final = pattern(r"\Ajq: error: (.*?)(?: at <top-level>, line (\d+), column (\d+):?)?\s*\Z")


def need_jq() -> None:
    """Raises MissingExtra unless the extra `jq` is installed."""
    if not installed("jq"):
        raise MissingExtra("jq", "JSON_JQ_TRANSFORM")


def compile_jq(text: str, limits: Limits = Limits()) -> JqProgram:  # noqa: B008 - frozen
    """Check a program; raises InvalidExpression with the place, MissingExtra without the extra."""
    need_jq()
    if len(text) > _MAX_TEXT:
        raise InvalidExpression(f"the jq program is longer than {_MAX_TEXT:,} characters")
    if "\0" in text:
        raise InvalidExpression("the jq program holds the character U+0000")
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        raise InvalidExpression("the jq program holds half of a surrogate pair")
    try:
        run_script("jq", {"text": text, "run": False}, limits)
    except ScriptCut as error:
        raise TextCut(str(error)) from None
    except ExpressionFailed as error:
        raise InvalidExpression(_syntax(str(error))) from None
    return JqProgram(text=text, limits=limits)


@attrs.frozen(kw_only=True)
class JqProgram:
    """A compiled jq program: a Condition whose values are its input and whose answer is the list of its results."""

    text: str
    limits: Limits
    names: frozenset[str] = frozenset()
    everything: bool = True
    foreign: bool = True

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> list[Any]:
        """All results, in order; raises ExpressionFailed for errors in the program and when a bound is reached."""
        try:
            document = json.dumps(values, allow_nan=False, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError) as error:
            raise ExpressionFailed(f"the input of the jq program is not JSON: {error}") from None
        wide = may_hold_wide(document)
        request = {"text": self.text, "run": True, "now": now / 1000 if "now" in self.text else 0, "values": document, "wide": wide}
        read_integer, read_float = (_exact_integer(values), _narrow_float) if wide else (_integer, float)
        try:
            answer = run_script("jq", request, self.limits) or "[]"
            results: list[Any] = json.loads(answer, parse_int=read_integer, parse_float=read_float)
        except ExpressionFailed as error:
            numbers = name_wide_numbers(values) if wide and _INEXACT in str(error) else ""
            if not numbers:
                raise
            raise ExpressionFailed(f"{error}: {numbers}") from None
        except RecursionError:
            raise ExpressionFailed("the result is nested too deeply") from None
        return results


def _integer(digits: str) -> int | float:
    # jq's numbers are floating point; the binding writes whole ones out, however large.
    number = float(digits)
    return int(digits) if abs(number) < _WIDEST else number


def _exact_integer(values: Json) -> Callable[[str], int | float]:
    """Make what reads the whole numbers of a result: jq writes those it has read as they were, and its own with up to 17 digits."""
    given = {value for _, value in wide_numbers(values)}

    def read(digits: str) -> int | float:
        number = int(digits)
        exact = -_WIDEST <= number < _WIDEST or number in given or len(digits.strip("-0")) > _DIGITS
        return number if exact else float(digits)

    return read


def _narrow_float(digits: str) -> int | float:
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) < _WIDEST else number


def _syntax(said: str) -> str:
    """jq's first line without its name and the program's text. The program begins on the second line of what jq was given."""
    found = _FIRST.match(said.split("\n", 1)[0])
    if found is None:
        return said
    return found[1] + (f" at line {int(found[2]) - 1} column {found[3]}" if found[2] else "")
