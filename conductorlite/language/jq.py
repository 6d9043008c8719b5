"""jq programs behind the protocol of conditions: needs the extra `jq`.

jq cannot be interrupted, reads the environment, the clock and files, and lives in C: so it runs in a helper process
(`conductorlite.language`) with bounds on processor time and memory, and a prelude that takes the world away. What a program
puts out follows from its text, its input and the instant it is given.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from conductorlite.language.processes import Limits, ScriptCut, TextCut, installed, run_script
from conductorlite.language.values import Json
from conductorlite.model import attrs
from conductorlite.model.errors import ExpressionFailed, InvalidExpression, MissingExtra
from conductorlite.model.later import pattern

__all__ = ["JqProgram", "compile_jq", "need_jq"]

#: Longest program, in characters.
_MAX_TEXT: Final = 1_000_000
_WIDEST: Final = 2**63

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
        request = {"text": self.text, "run": True, "now": now / 1000, "values": document}
        try:
            results: list[Any] = json.loads(run_script("jq", request, self.limits) or "[]", parse_int=_integer)
        except RecursionError:
            raise ExpressionFailed("the result is nested too deeply") from None
        return results


def _integer(digits: str) -> int | float:
    # jq's numbers are floating point; the binding writes whole ones out, however large.
    number = float(digits)
    return int(digits) if abs(number) < _WIDEST else number


def _syntax(said: str) -> str:
    """jq's first line without its name and the program's text. The program begins on the second line of what jq was given."""
    found = _FIRST.match(said.split("\n", 1)[0])
    if found is None:
        return said
    return found[1] + (f" at line {int(found[2]) - 1} column {found[3]}" if found[2] else "")
