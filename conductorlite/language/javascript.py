"""JavaScript: `javascript` and `graaljs`.

What most conditions are made of is compiled to closures (`subset`). Everything else is QuickJS's, in a helper process
(`conductorlite.language`) with bounds on processor time and memory: a call of a built-in function cannot be interrupted, so nothing
but the end of its process bounds a script. Each script sees a realm that no other has touched, no input or output, no clock but
the one it is given and no chance but the one it is seeded with: what it answers follows from its text and its values.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from conductorlite.language.processes import Limits, ScriptCut, TextCut, run_script
from conductorlite.language.subset import compile_subset
from conductorlite.language.values import AtOnce, Json, Outside
from conductorlite.model import attrs
from conductorlite.model.errors import ExpressionFailed, InvalidExpression
from conductorlite.model.later import pattern

__all__ = ["JavaScript", "Script"]

#: Longest script that is compiled, in characters.
_MAX_TEXT: Final = 1_000_000
#: The first line of the prelude, behind all lines of scripts.
_FIRST_LINE: Final = 100_000
_WIDEST: Final = 2**63

_ROOT: Final = pattern(
    r"""(?<![\w$.])\$(?![\w${])          # the root as a name of its own, not the `${` of a template literal
        (?:\s*\??\.\s*([A-Za-z_]\w*)(?!\s*\(|[\w$])|\s*\[\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*\](?!\s*\())?""",
    re.VERBOSE,
)
_ANY_ROOT: Final = pattern(r"(?<![\w$])\$(?![\w${])")
_HIDDEN: Final = pattern(r"\\[ux]|\bglobalThis\b|\bthis\b|\bwith\b")
_JAVA: Final = pattern(r"\.\s*(?:get|size|isEmpty|contains|containsKey)\s*\(")
_LINE: Final = pattern(r"<input>:(\d+)(?::(\d+))?")


@attrs.frozen(kw_only=True)
class Script:
    """A compiled script; `at_once` is the subset, which answers it in this process where it can."""

    text: str
    names: frozenset[str]
    everything: bool
    java: bool
    limits: Limits
    at_once: AtOnce | None = attrs.field(eq=False, repr=False)

    @property
    def foreign(self) -> bool:
        """Whether QuickJS carries it out; the subset leaves it only values that it does not know."""
        return self.at_once is None

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        """The result as JSON; see `Condition.evaluate`."""
        if self.at_once is not None:
            try:
                return self.at_once(values)
            except Outside:
                pass
        given = values if self.everything else {name: values[name] for name in values if name in self.names}
        try:
            document = json.dumps(given, allow_nan=False, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError) as error:
            raise ExpressionFailed(f"the values of the script are not JSON: {error}") from None
        drawn = hashlib.sha256(f"conductorlite:{seed}".encode()).digest()
        request: dict[str, Any] = {
            "text": self.text,
            "run": True,
            "values": document,
            # The binding passes whole numbers as 32 bits: the instant goes as a float.
            "now": float(now),
            "chance": [int.from_bytes(drawn[at : at + 4], "big", signed=True) for at in (0, 4, 8, 12)],
            "java": self.java,
        }
        return _result(run_script("javascript", request, self.limits) or "")


@attrs.frozen(kw_only=True)
class JavaScript:
    """The evaluator; `limits` bound one evaluation in QuickJS. Without `quick` nothing is answered by the subset."""

    limits: Limits = attrs.field(factory=Limits)
    quick: bool = True

    def compile(self, text: str) -> Script:
        """Check the syntax; raises InvalidExpression with the place."""
        subset = compile_subset(text) if self.quick else None
        if subset is not None:
            return Script(text=text, names=subset.names, everything=False, java=False, limits=self.limits, at_once=subset.evaluate)
        if len(text) > _MAX_TEXT:
            raise InvalidExpression(f"the script is longer than {_MAX_TEXT:,} characters")
        try:
            run_script("javascript", {"text": text, "run": False}, self.limits)
        except ScriptCut as error:
            raise TextCut(str(error)) from None
        except ExpressionFailed as error:
            said = str(error)
            if said.splitlines()[:1] != ["0"]:
                raise InvalidExpression(_syntax(said)) from None
        names, everything = _reads(text)
        java = _JAVA.search(text) is not None
        return Script(text=text, names=names, everything=everything, java=java, limits=self.limits, at_once=None)


def _result(answer: str) -> Json:
    if answer.startswith("!"):
        said, stack = json.loads(answer[1:])
        if said.endswith("out of memory"):
            raise ScriptCut("the script needs more memory than it may have")
        raise ExpressionFailed(said + _place(stack))
    try:
        return json.loads(answer[1:], parse_int=_integer)
    except RecursionError:
        raise ExpressionFailed("the result is nested too deeply") from None


def _integer(digits: str) -> int | float:
    number = int(digits) if len(digits) <= 20 else _WIDEST
    return number if -_WIDEST <= number < _WIDEST else float(digits)


def _place(stack: str) -> str:
    lines = (int(found[1]) for found in _LINE.finditer(stack))
    line = next((line for line in lines if line < _FIRST_LINE), None)
    return "" if line is None else f" at line {line}"


def _syntax(said: str) -> str:
    first = said.splitlines()[0] if said else ""
    if first in ("", "null"):
        return "the script is too large"
    found = _LINE.search(said)
    if not found:
        return first
    column = int(found[2] or 1) - (8 if found[1] == "1" else 0)
    return f"{first} at line {found[1]} column {max(1, column)}"


def _reads(text: str) -> tuple[frozenset[str], bool]:
    """The first-level names of `$` in the text, and whether it may read others: in doubt, it may."""
    names: set[str] = set()
    seen = 0
    for found in _ROOT.finditer(text):
        name = next((group for group in found.groups() if group is not None), None)
        if name is None:
            return frozenset(names), True
        seen += 1
        names.add(name)
    hidden = _HIDDEN.search(text) is not None or len(_ANY_ROOT.findall(text)) != seen
    return frozenset(names), hidden
