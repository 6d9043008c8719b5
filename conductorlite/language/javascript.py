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

import attrs

from conductorlite.language.operators import exact_operators
from conductorlite.language.printing import without_lines
from conductorlite.language.processes import Limits, ScriptCut, TextCut, chance_of, run_script
from conductorlite.language.subset import compile_subset
from conductorlite.language.values import AtOnce, Json, Outside, may_hold_wide, name_wide_numbers
from conductorlite.model.errors import ExpressionFailed, InvalidExpression
from conductorlite.model.later import pattern

__all__ = ["JavaScript", "Script"]

#: Longest script that is compiled, in characters.
_MAX_TEXT: Final = 1_000_000
#: The first line of the prelude, behind all lines of scripts.
_FIRST_LINE: Final = 100_000

_ROOT: Final = pattern(
    r"""(?<![\w$.])\$(?![\w${])          # the root as a name of its own, not the `${` of a template literal
        (?:\s*\??\.\s*([A-Za-z_]\w*)(?!\s*\(|[\w$])|\s*\[\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*\](?!\s*\())?""",
    re.VERBOSE,
)
#: A key directly below a name, and what may follow a name that is only tested.
_KEY: Final = pattern(
    r"""\s*(?:\??\.\s*([A-Za-z_]\w*)(?!\s*\(|[\w$])
        |(?:\?\.\s*)?\[\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)"|(0|[1-9][0-9]{0,14}))\s*\](?!\s*\())""",
    re.VERBOSE,
)
_TESTED: Final = pattern(r"\s*(?:&&|\?(?![.?])|[!=]==?\s*(?:null|undefined)\b)")
#: What may stand before a name that is only tested; in how many characters before it that is looked for.
_BEFORE_TEST: Final = ("(", "!", "&", "|", "{", "}", ";", "?", ":", ",", "=", "=>", "return")
_NEAR: Final = 100
#: Longest script that is examined for comments and texts.
_MAX_EXAMINED: Final = 50_000
_ANY_ROOT: Final = pattern(r"(?<![\w$])\$(?![\w${])")
_HIDDEN: Final = pattern(r"\\[ux]|\b(?:globalThis|this|with|eval|Function|constructor)\b")
#: Comments and texts, and what may begin a regular expression or a template; a regular expression; words that one may follow.
_LEXEME: Final = pattern(
    r"""//[^\n\r\u2028\u2029]* | /\*.*?\*/ | '(?:[^'\\\n\r]|\\.)*' | "(?:[^"\\\n\r]|\\.)*" | [/`'"] | <!-- | --> | \#!""",
    re.VERBOSE | re.DOTALL,
)
_REGEX: Final = pattern(r"/(?:[^/\\\[\n\r]|\\.|\[(?:[^\]\\\n\r]|\\.)*\])+/[A-Za-z]*")
_BEFORE_REGEX: Final = ("(", ",", "=", ":", "[", "!", "&", "|", "?", ";", "{")
_BEFORE_DIVISION: Final = pattern(
    r"(?:\]|'|\"|[0-9]|(?<![\w$])(?!(?:return|typeof|case|in|of|do|else|void|new|throw|delete|yield|await|instanceof)$)[A-Za-z_$][\w$]*)$"
)
#: Without any of these a script cannot read the clock; nor chance, without these or what it is drawn by.
_TIMED: Final = pattern(r"Date|globalThis|\bthis\b|\\[ux]")
_DRAWS: Final = pattern(r"random|globalThis|\bthis\b|\\[ux]|\bMath\b(?!\s*\.\s*[A-Za-z])")
_JAVA: Final = pattern(r"\.\s*(?:get|size|isEmpty|contains|containsKey)\s*\(")
_LINE: Final = pattern(r"<input>:(\d+)(?::(\d+))?")

#: Follows the message of JavaScript where it refuses a BigInt.
_NOT_EXACT: Final = "a whole number beyond 2^53 cannot stand here (Number(x) rounds it, String(x) writes it out)"


@attrs.frozen(kw_only=True)
class Script:
    """A compiled script; `at_once` is the subset, which answers it in this process where it can.

    `keys` has, for each name, the keys that are read directly below it; None when the text may read any.
    """

    text: str
    keys: Mapping[str, frozenset[str] | None]
    names: frozenset[str] = attrs.field(init=False, eq=False, repr=False)
    everything: bool
    java: bool
    #: Whether it may read the clock, and whether it may draw by chance.
    timed: bool
    draws: bool
    limits: Limits
    at_once: AtOnce | None = attrs.field(eq=False, repr=False)

    @property
    def foreign(self) -> bool:
        """True if QuickJS carries it out; the subset leaves it only values that it does not know."""
        return self.at_once is None

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(self.keys))

    def keys_of(self, name: str) -> frozenset[str] | None:
        """See `Condition.keys_of`."""
        return None if self.everything else self.keys.get(name, frozenset())

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
        wide = may_hold_wide(document)
        drawn = hashlib.sha256(f"conductorlite:{chance_of(seed, draws=self.draws)}".encode()).digest()
        request: dict[str, Any] = {
            "text": _exactly(self.text) if wide else self.text,
            "run": True,
            "values": document,
            # The binding passes whole numbers as 32 bits: the instant goes as a float. One that is not read is left out: what is
            # asked again at another instant has been answered.
            "now": float(now) if self.timed else 0.0,
            "chance": [int.from_bytes(drawn[at : at + 4], "big", signed=True) for at in (0, 4, 8, 12)],
            "java": self.java,
            "wide": wide,
        }
        try:
            return _result(run_script("javascript", request, self.limits) or "")
        except ExpressionFailed as error:
            numbers = name_wide_numbers(given) if wide and "bigint" in str(error).lower() else ""
            if not numbers:
                raise
            raise ExpressionFailed(f"{error}; {_NOT_EXACT}: {numbers}") from None


@attrs.frozen(kw_only=True)
class JavaScript:
    """The evaluator; `limits` bound one evaluation in QuickJS. Without `quick` nothing is answered by the subset."""

    limits: Limits = attrs.field(factory=Limits)
    quick: bool = True

    def compile(self, text: str) -> Script:
        """Check the syntax; raises InvalidExpression with the place."""
        if text.startswith("#!"):
            text = "//" + text[2:]  # only the first line of a file may begin so
        subset = compile_subset(text) if self.quick else None
        if subset is not None:
            return _script(text, subset.keys, self.limits, at_once=subset.evaluate)
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
        keys, everything = _reads(text)
        return _script(text, keys, self.limits, everything=everything)


def _script(
    text: str,
    keys: Mapping[str, frozenset[str] | None],
    limits: Limits,
    *,
    everything: bool = False,
    at_once: AtOnce | None = None,
) -> Script:
    java, timed, draws = (one.search(text) is not None for one in (_JAVA, _TIMED, _DRAWS))
    return Script(text=text, keys=keys, everything=everything, java=java, timed=timed, draws=draws, limits=limits, at_once=at_once)


def _exactly(text: str) -> str:
    try:
        return exact_operators(text)
    except RecursionError:
        raise ExpressionFailed("the script is nested too deeply to be given whole numbers beyond 2^53") from None


def _result(answer: str) -> Json:
    answer = without_lines(answer)
    if answer.startswith("!"):
        said, stack = json.loads(answer[1:])
        if said.endswith("out of memory"):
            raise ScriptCut("the script needs more memory than it may have")
        raise ExpressionFailed(said + _place(stack))
    try:
        return json.loads(answer[1:])
    except RecursionError:
        raise ExpressionFailed("the result is nested too deeply") from None


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


def _reads(text: str) -> tuple[dict[str, frozenset[str] | None], bool]:
    """The first-level names of `$` in the text with the keys below each, and whether it may read others: in doubt, it may."""
    keys: dict[str, set[str] | None] = {}
    seen = 0
    text = _code(text)
    for found in _ROOT.finditer(text):
        name = next((group for group in found.groups() if group is not None), None)
        if name is None:
            return {}, True
        seen += 1
        key = _key_below(text, found.start(), found.end())
        known = keys.setdefault(name, set())
        if key is None or known is None:
            keys[name] = None
        else:
            known.update(key)
    hidden = _HIDDEN.search(text) is not None or len(_ANY_ROOT.findall(text)) != seen
    return {name: None if read is None else frozenset(read) for name, read in keys.items()}, hidden


def _key_below(text: str, start: int, end: int) -> tuple[str, ...] | None:
    """The key read below the name at `start` to `end`, none when the name is only tested; None when it may be any."""
    below = _KEY.match(text, end)
    if below is not None:
        return tuple(group for group in below.groups() if group is not None)
    before = text[max(0, start - _NEAR) : start].rstrip()
    first = start == 0 or (not before and start < _NEAR)
    return () if _TESTED.match(text, end) is not None and (first or before.endswith(_BEFORE_TEST)) else None


def _code(text: str) -> str:
    """The text without comments, regular expressions, and texts that are no keys; all of it where one cannot be sure."""
    parts: list[str] = []
    at = 0
    before = ""
    if len(text) > _MAX_EXAMINED:
        return text
    while (found := _LEXEME.search(text, at)) is not None:
        parts.append(text[at : found.start()])
        before = (before + parts[-1][-_NEAR:]).rstrip()[-_NEAR:]
        lexeme, at = found[0], found.end()
        if lexeme.startswith(("//", "/*")):
            parts.append(" " if "\n" not in lexeme else "\n")
        elif lexeme == "/" and (not before or before.endswith(_BEFORE_REGEX)):
            literal = _REGEX.match(text, found.start())
            if literal is None:
                return text
            parts.append("''")
            at = literal.end()
        elif lexeme == "/" and _BEFORE_DIVISION.search(before):
            parts.append("/")
        elif len(lexeme) > 1 and lexeme[0] in "'\"":
            parts.append(lexeme if before.endswith("[") else "''")
        else:
            return text
        before += parts[-1]
    return "".join((*parts, text[at:]))
