"""Full JavaScript on QuickJS: the only importer of the extra `javascript`.

The safe subset is asked first: it needs no extra and costs no context. What it refuses, and what outgrows its budget, runs
in a fresh QuickJS context with limits on time, memory and stack, no input or output, no clock but the one it is given and
no chance but the one it is seeded with. The time limit counts the processor time of this process, and QuickJS looks at it
between steps: a single built-in call is bounded by a budget of its own (`prelude`), not by the clock.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from conductorlite.errors import ExpressionFailed, InvalidExpression, MissingExtra
from conductorlite.expressions.conditions.seam import BeyondSubset, Condition, ScriptTimedOut
from conductorlite.expressions.conditions.subset import SafeJavaScript
from conductorlite.expressions.prelude import FIRST_LINE, PRELUDE
from conductorlite.expressions.sources import Json

__all__ = ["FullJavaScript", "JavaScript"]

#: Longest script that is compiled, in characters.
_MAX_TEXT: Final = 1_000_000
#: Room for a result of 200 levels; less than CPython gives its threads on glibc, macOS and Windows (not on musl: 128 KB).
_STACK: Final = 512 * 1024
_WIDEST: Final = 2**63
#: What only full JavaScript has is refused by the subset with a hint at the extra.
_HINT: Final = "conductorlite[javascript]"

_ROOT: Final = re.compile(
    r"""(?<![\w$.])\$(?![\w${])          # the root as a name of its own, not the `${` of a template literal
        (?:\s*\??\.\s*([A-Za-z_]\w*)(?!\s*\(|[\w$])|\s*\[\s*(?:'([^'\\\n]*)'|"([^"\\\n]*)")\s*\](?!\s*\())?""",
    re.VERBOSE,
)
_ANY_ROOT: Final = re.compile(r"(?<![\w$])\$(?![\w${])")
_HIDDEN: Final = re.compile(r"\\[ux]|\bglobalThis\b|\bthis\b|\bwith\b")
_JAVA: Final = re.compile(r"\.\s*(?:get|size|isEmpty|contains|containsKey)\s*\(")
_LINE: Final = re.compile(r"<input>:(\d+)(?::(\d+))?")


#: Answers kept per set of limits, and the longest of them; they are forgotten together.
_KEPT: Final = 64
_KEPT_LENGTH: Final = 64 * 1024


@lru_cache(maxsize=8)
def _answers(limits: FullJavaScript) -> dict[bytes, str | ExpressionFailed]:
    return {}


def _engine() -> Any:
    try:
        import _quickjs  # type: ignore[import-not-found, unused-ignore]  # the package `quickjs` around it starts a thread when it is imported
    except ImportError:
        return None
    return _quickjs


@attrs.frozen(kw_only=True)
class _FullCondition:
    text: str
    names: frozenset[str]
    everything: bool
    java: bool
    limits: FullJavaScript

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        # The binding passes whole numbers as 32 bits: the instant goes as a float.
        given = values if self.everything else {name: values[name] for name in values if name in self.names}
        try:
            document = json.dumps(given, allow_nan=False, separators=(",", ":"))
        except (ValueError, TypeError, RecursionError) as error:
            raise ExpressionFailed(f"the values of the script are not JSON: {error}") from None
        # A turn that asks for more is decided again: what a script answered is kept, above all that it took too long.
        told = "\0".join((self.text, document, str(now), seed)).encode("utf-8", "surrogatepass")
        key, kept = hashlib.sha256(told).digest(), _answers(self.limits)
        answer = kept.get(key)
        if answer is None:
            try:
                answer = self._run(document, now, seed)
            except ExpressionFailed as failed:
                answer = failed
            if isinstance(answer, ExpressionFailed) or len(answer) <= _KEPT_LENGTH:
                if len(kept) >= _KEPT:
                    kept.clear()
                kept[key] = answer
        if isinstance(answer, ExpressionFailed):
            raise answer.with_traceback(None)
        return _result(answer)

    def _run(self, document: str, now: int, seed: str) -> str:
        drawn = hashlib.sha256(f"conductorlite:{seed}".encode()).digest()
        chance = [int.from_bytes(drawn[at : at + 4], "big", signed=True) for at in (0, 4, 8, 12)]
        return self.limits.call(document, self.text, float(now), *chance, self.java)


@attrs.frozen(kw_only=True)
class FullJavaScript:
    """Everything runs on QuickJS, in a context of its own; raises MissingExtra when it is not installed."""

    seconds: float = 1.5
    memory_bytes: int = 64 * 1024 * 1024

    def compile(self, text: str) -> Condition:
        """Check the syntax; raises InvalidExpression with the place, MissingExtra without the extra."""
        quickjs = _engine()
        if quickjs is None:
            raise MissingExtra("javascript", "JavaScript beyond the safe subset")
        if len(text) > _MAX_TEXT:
            raise InvalidExpression(f"the script is longer than {_MAX_TEXT:,} characters")
        try:
            # What is parsed is not run: the first statement throws.
            self._context(quickjs).eval("throw 0;" + text)
        except UnicodeEncodeError:
            raise InvalidExpression("the script holds half of a surrogate pair") from None
        except (quickjs.JSException, quickjs.StackOverflow, MemoryError) as error:
            said = str(error).strip()
            if said.splitlines()[:1] != ["0"]:
                raise InvalidExpression(_syntax(said)) from None
        names, everything = _reads(text)
        java = _JAVA.search(text) is not None
        return _FullCondition(text=text, names=names, everything=everything, java=java, limits=self)

    def call(self, *arguments: object) -> str:
        """Run the prelude's function in a fresh context; raises ExpressionFailed, ScriptTimedOut or MissingExtra."""
        quickjs = _engine()
        if quickjs is None:
            raise MissingExtra("javascript", "JavaScript beyond the safe subset")
        try:
            answer = self._context(quickjs).eval(PRELUDE)(*arguments)
        except UnicodeEncodeError:
            raise ExpressionFailed("a text given to the script holds half of a surrogate pair") from None
        except (quickjs.JSException, quickjs.StackOverflow, MemoryError) as error:
            said = str(error).strip()
            if said.startswith("InternalError: interrupted"):
                raise ScriptTimedOut(f"the script takes longer than {self.seconds:g} seconds{_place(said)}") from None
            limit = f"the script needs more than {self.memory_bytes:,} bytes of memory"
            raise ExpressionFailed(limit if said in ("null", "") else said.splitlines()[0]) from None
        return str(answer)

    def _context(self, quickjs: Any) -> Any:
        context = quickjs.Context()
        context.set_memory_limit(self.memory_bytes)
        context.set_time_limit(self.seconds)
        context.set_max_stack_size(_STACK)
        return context


def _result(answer: str) -> Json:
    if answer.startswith("!"):
        said, stack = json.loads(answer[1:])
        if said.endswith("out of memory"):
            said = "the script needs more memory than it may have"
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
    line = next((line for line in lines if line < FIRST_LINE), None)
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


@attrs.frozen(kw_only=True)
class _EitherCondition:
    """A script of the subset that goes on in QuickJS where the subset gives up and QuickJS is installed."""

    subset: Condition
    text: str
    full: FullJavaScript

    @property
    def names(self) -> frozenset[str]:
        return self.subset.names

    @property
    def everything(self) -> bool:
        return self.subset.everything

    def evaluate(self, values: Mapping[str, Json], *, now: int = 0, seed: str = "") -> Json:
        try:
            return self.subset.evaluate(values, now=now, seed=seed)
        except BeyondSubset:
            try:
                condition = self.full.compile(self.text)
            except (MissingExtra, InvalidExpression):
                condition = None
            if condition is None:
                raise
            return condition.evaluate(values, now=now, seed=seed)


@attrs.frozen(kw_only=True)
class JavaScript:
    """`javascript` and `graaljs`: the safe subset where it suffices, QuickJS for the rest.

    `seconds` and `memory_bytes` bound one evaluation in QuickJS.
    """

    seconds: float = 1.5
    memory_bytes: int = 64 * 1024 * 1024

    def compile(self, text: str) -> Condition:
        """Compile; raises InvalidExpression with the place, MissingExtra when only the extra knows what the text uses."""
        full = FullJavaScript(seconds=self.seconds, memory_bytes=self.memory_bytes)
        try:
            return _EitherCondition(subset=SafeJavaScript().compile(text), text=text, full=full)
        except InvalidExpression as refused:
            if _engine() is not None:
                return full.compile(text)
            if _HINT in str(refused):
                raise MissingExtra("javascript", str(refused).split(" is outside")[0]) from None
            raise
