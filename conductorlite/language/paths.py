"""The grammar of JSONPath as Conductor reads it: text in, steps out, nothing evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import attrs

from conductorlite.model.errors import InvalidExpression
from conductorlite.model.later import functions, pattern

if TYPE_CHECKING:
    from conductorlite.language.filters import Filter, compile_filter, read_literal, unescape
else:
    compile_filter, read_literal, unescape = functions(
        "conductorlite.language.filters", "compile_filter", "read_literal", "unescape"
    )

__all__ = ["MAX_PATH", "Call", "Indexes", "Keys", "Slice", "Wild", "split_path"]

#: Longest path in characters, and most segments in one.
MAX_PATH: Final = 4096
_MAX_SEGMENTS: Final = 256
_INDEXES: Final = range(-(2**31), 2**31)

_FUNCTIONS: Final = frozenset(
    ("length", "size", "keys", "first", "last", "index", "avg", "max", "min", "sum", "stddev", "concat", "append")
)
_NAME: Final = pattern(r"[^.\[( ]+")
_QUOTED: Final = pattern(r"\s*(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\s*", re.DOTALL)
_NUMBERS: Final = pattern(r"\[([-0-9,: ]+)\]")
_WILD: Final = pattern(r"\[\s*\*\s*\]")
_FILTER_TOKEN: Final = pattern(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?<=~) ?/(?:[^/\\]|\\.)*/|[\[\]]", re.DOTALL)


@attrs.frozen(repr=False)
class Keys:
    """`.name` or `['name']`; several of them, `['a','b']`."""

    names: tuple[str, ...]


@attrs.frozen(repr=False)
class Indexes:
    """`[0]`, `[-1]`, `[0,2]`."""

    indexes: tuple[int, ...]


@attrs.frozen(repr=False)
class Slice:
    """`[1:3]`, `[:2]`, `[-2:]`; Jayway reads past a step."""

    start: int | None
    stop: int | None


@attrs.frozen(repr=False)
class Wild:
    """`.*` or `[*]`."""


@attrs.frozen(repr=False)
class Call:
    """`.length()`, `.index(2)`, `.sum($.x, 1)`; `arguments` are values and compiled paths."""

    name: str
    arguments: tuple[Any, ...] = ()


if TYPE_CHECKING:
    PathStep: TypeAlias = Keys | Indexes | Slice | Wild | Call | Filter

#: How a path within a path is compiled.
Compile = Callable[[str], Any]


def split_path(text: str, compiled: Compile) -> list[tuple[PathStep, bool]]:
    """Split a path into steps, each with whether `..` precedes it; the empty path, `$` alone, is the document.

    Raises InvalidExpression, with place.
    """
    if len(text) > MAX_PATH:
        raise InvalidExpression(f"path longer than {MAX_PATH} characters: {text[:40]}…")
    # As Jayway: what stands before a path is part of it, `${ a}` looks for a key " a" and fails.
    path = text.rstrip(" ")
    if path[:1] not in ("$", "@"):
        path = "$." + path
    return _Splitter(text, path, compiled).run()


class _Splitter:
    """One pass over the text of one path."""

    def __init__(self, text: str, path: str, compiled: Compile) -> None:
        self._compiled = compiled
        self._text = text
        self._path = path
        self._position = 1

    def run(self) -> list[tuple[PathStep, bool]]:
        path = self._path
        if path.endswith("."):
            self._fail("it ends with a dot")
        if len(path) > 1 and path[1] not in ".[":
            self._fail("'.' or '[' expected")
        steps: list[tuple[PathStep, bool]] = []
        # Jayway reads past one character at the very end.
        while self._position < len(path) - bool(steps):
            steps.append(self._step())
            if len(steps) > _MAX_SEGMENTS:
                self._fail(f"it has more than {_MAX_SEGMENTS} segments")
        return steps

    def _fail(self, reason: str) -> NoReturn:
        raise self._error(reason)

    def _error(self, reason: str) -> InvalidExpression:
        shown = self._text if len(self._text) <= 80 else self._text[:79] + "…"
        return InvalidExpression(f"path {shown!r}: {reason} (at {self._position} of {self._path[:80]!r})")

    def _step(self) -> tuple[PathStep, bool]:
        scan = False
        if self._path[self._position] == ".":
            self._position += 1
            if self._path[self._position] == ".":
                scan = True
                self._position += 1
                if self._path[self._position] == ".":
                    self._fail("three dots in a row")
        char = self._path[self._position]
        if char == "[":
            return self._bracket(), scan
        if char == "*":
            self._position += 1
            return Wild(), scan
        return self._name(scan), scan

    def _name(self, scan: bool) -> PathStep:
        found = _NAME.match(self._path, self._position)
        if found is None:
            self._fail("a name expected; write ['…'] around one that holds blanks, dots or brackets")
        self._position = found.end()
        following = self._path[self._position : self._position + 1]
        if following == " ":
            self._fail("a blank in a name; write ['…'] around it")
        if following != "(":
            return Keys((found.group(),))
        name = found.group()
        if name not in _FUNCTIONS:
            self._fail(f"there is no function {name}()")
        if scan and self._path[1:].startswith(f"..{name}("):
            self._fail(f"{name}() needs something before it")
        self._position += 1
        if self._path[self._position : self._position + 1] == ")":
            # As Jayway, which goes on reading at the parenthesis: what follows finds nothing.
            return Call(name)
        return Call(name, self._arguments())

    def _arguments(self) -> tuple[Any, ...]:
        """As Jayway: what begins neither as a path, a number, a text nor a map is passed over."""
        found: list[Any] = []
        text = kind = prior = ""
        parentheses, braces, brackets, quoted = 1, 0, 0, False
        while self._position < len(self._path):
            char = self._path[self._position]
            self._position += 1
            kind = kind or ("path" if char in "$@" else "value" if char in '{"-0123456789' else "")
            quoted ^= char == '"' and (not quoted or prior != "\\")
            parentheses += (char == "(") - (char == ")")
            braces += (char == "{") - (char == "}")
            brackets += (char == "[") - (char == "]")
            if min(braces, brackets) < 0:
                self._fail(f"an unexpected {char!r}")
            inside = bool(braces or brackets)
            if char == ")" and prior == "(" and kind:
                text += char
            if char in ")," and not quoted and not inside and parentheses <= 1:
                if kind:
                    found.append(self._compiled(text) if kind == "path" else read_literal(text))
                text = kind = ""
                if parentheses == 0:
                    return tuple(found)
            if kind and not (char == "," and not inside and parentheses == 1):
                text += char
            prior = char
        if parentheses or braces or brackets:
            self._fail("the arguments are not closed")
        return tuple(found)

    def _bracket(self) -> PathStep:
        wild = _WILD.match(self._path, self._position)
        if wild is not None:
            self._position = wild.end()
            return Wild()
        numbers = _NUMBERS.match(self._path, self._position)
        if numbers is not None:
            self._position = numbers.end()
            return self._numbers(numbers.group(1))
        inner = self._path[self._position + 1 : self._position + 40].lstrip()
        if inner[:1] in ("'", '"'):
            return self._quoted()
        if inner[:1] == "?":
            return self._filter()
        raise self._error("an index, a quoted name, '*' or a filter expected after '['")

    def _numbers(self, text: str) -> PathStep:
        slice_ = ":" in text
        parts = text.strip(" ").split(":") if slice_ else [part.strip(" ") for part in text.split(",")]
        if any(part and not re.fullmatch(r"-?[0-9]{1,10}", part) for part in parts[: 2 if slice_ else None]):
            self._fail("a whole number expected between brackets")
        numbers = [int(part) if part else None for part in parts[: 2 if slice_ else None]]
        if any(number is not None and number not in _INDEXES for number in numbers):
            self._fail("an index beyond 32 bits")
        if slice_:
            if numbers == [None, None] or set(text.strip(" ")) & set(", "):
                self._fail("a slice is [from:], [:to] or [from:to]")
            return Slice(numbers[0], numbers[1])
        indexes = tuple(number for number in numbers if number is not None)
        if len(indexes) != len(numbers):
            self._fail("a number is missing between brackets")
        return Indexes(indexes)

    def _quoted(self) -> PathStep:
        names: list[str] = []
        position = self._position
        while True:
            found = _QUOTED.match(self._path, position + 1)
            if found is None:
                self._fail("a quoted name is not closed")
            names.append(unescape(found.group(1) if found.group(1) is not None else found.group(2)))
            position = found.end()
            following = self._path[position : position + 1]
            if following == "]":
                break
            if following != ",":
                self._fail("',' or ']' expected after a quoted name")
        self._position = position + 1
        return Keys(tuple(names))

    def _filter(self) -> PathStep:
        start = self._path.index("?", self._position) + 1
        depth = 0
        for token in _FILTER_TOKEN.finditer(self._path, self._position):
            depth += {"[": 1, "]": -1}.get(token.group(), 0)
            if depth == 0 and token.group() == "]":
                inner = self._path[start : token.start()].strip()
                if not inner.startswith("(") or not inner.endswith(")"):
                    self._fail("a filter is written [?(…)]")
                self._position = token.end()
                return compile_filter(inner[1:-1], self._compiled)
        raise self._error("a filter is not closed")
