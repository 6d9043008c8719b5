"""The grammar of JSONPath as Conductor reads it: text in, segments out, nothing evaluated.

JSON as Conductor's paths hold it, in filters and arguments: texts may stand in single quotes or in none.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn, TypeAlias

import attrs

from conductorlite.language.values import Json
from conductorlite.model.errors import InvalidExpression

__all__ = [
    "MAX_PATH",
    "Argument",
    "FilterText",
    "Function",
    "Indexes",
    "Key",
    "Keys",
    "Segment",
    "Slice",
    "Wild",
    "read_literal",
    "split_path",
    "unescape",
]

_TOKEN: Final = re.compile(
    r"\s*(?:('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([\[\]{},:])|([^\s\[\]{},:'\"][^\[\]{},:]*))", re.DOTALL
)
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_MAX_DEPTH: Final = 16
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def unescape(text: str) -> str:
    """A quoted text's inside as it is meant."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda found: _escaped(found.group(1)), text)


def _escaped(text: str) -> str:
    return chr(int(text[1:], 16)) if len(text) == 5 else _ESCAPES.get(text, text)


def read_literal(text: str) -> Json:
    """The value a text is; raises InvalidExpression when it is none, or nested deeper than 16 levels."""
    stripped = text.strip()
    if stripped[:1] not in ("{", "[", '"', "'"):
        return _bare(stripped)
    tokens = []
    at = 0
    while at < len(stripped):
        found = _TOKEN.match(stripped, at)
        if found is None:
            raise InvalidExpression(f"{text[:40]!r} is no JSON")
        tokens.append((found[1] or "", found[2] or "", (found[3] or "").strip()))
        at = found.end()
    value, end = _value(tokens, 0, 0)
    if end < len(tokens):
        raise InvalidExpression(f"{text[:40]!r} is no JSON")
    return value


def _value(tokens: list[tuple[str, str, str]], at: int, depth: int) -> tuple[Json, int]:
    quoted, sign, bare = tokens[at] if at < len(tokens) else ("", "", "")
    if quoted:
        return unescape(quoted[1:-1]), at + 1
    if bare:
        return _bare(bare), at + 1
    if sign not in ("[", "{") or depth >= _MAX_DEPTH:
        raise InvalidExpression("JSON in a path is not closed, or nested too deeply")
    end = "]" if sign == "[" else "}"
    items: list[Json] = []
    pairs: dict[str, Json] = {}
    at += 1
    while at < len(tokens) and tokens[at][1] != end:
        if tokens[at][1] == ",":
            at += 1
            continue
        value, at = _value(tokens, at, depth + 1)
        if sign == "[":
            items.append(value)
        elif at < len(tokens) and tokens[at][1] == ":":
            pairs[value if isinstance(value, str) else json.dumps(value)], at = _value(tokens, at + 1, depth + 1)
        else:
            raise InvalidExpression("a map in a path needs a value for each key")
    if at >= len(tokens):
        raise InvalidExpression("JSON in a path is not closed")
    return (items if sign == "[" else pairs), at + 1


def _bare(text: str) -> Json:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    number = _NUMBER.fullmatch(text)
    if number is None or len(text) > 1000:
        return text
    return float(text) if number[1] or number[2] else int(text)


#: Longest path in characters, and most segments in one.
MAX_PATH: Final = 4096
_MAX_SEGMENTS: Final = 256
_INDEXES: Final = range(-(2**31), 2**31)

_FUNCTIONS: Final = frozenset(
    ("length", "size", "keys", "first", "last", "index", "avg", "max", "min", "sum", "stddev", "concat", "append")
)
_NAME: Final = re.compile(r"[^.\[( ]+")
_QUOTED: Final = re.compile(r"\s*(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\s*", re.DOTALL)
_NUMBERS: Final = re.compile(r"\[([-0-9,: ]+)\]")
_WILD: Final = re.compile(r"\[\s*\*\s*\]")
_FILTER_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?<=~) ?/(?:[^/\\]|\\.)*/|[\[\]]", re.DOTALL)


@attrs.frozen(kw_only=True)
class Key:
    """`.name` or `['name']`."""

    name: str
    scan: bool = False


@attrs.frozen(kw_only=True)
class Keys:
    """`['a','b']`."""

    names: tuple[str, ...]
    scan: bool = False


@attrs.frozen(kw_only=True)
class Indexes:
    """`[0]`, `[-1]`, `[0,2]`."""

    indexes: tuple[int, ...]
    scan: bool = False


@attrs.frozen(kw_only=True)
class Slice:
    """`[1:3]`, `[:2]`, `[-2:]`; Jayway reads past a step."""

    start: int | None
    stop: int | None
    scan: bool = False


@attrs.frozen(kw_only=True)
class Wild:
    """`.*` or `[*]`."""

    scan: bool = False


@attrs.frozen(kw_only=True)
class FilterText:
    """`[?(…)]`, its inner text not yet compiled."""

    text: str
    scan: bool = False


@attrs.frozen(kw_only=True)
class Argument:
    """Of a function: the text of a path, or a value."""

    path: str = ""
    value: Json = None


@attrs.frozen(kw_only=True)
class Function:
    """`.length()`, `.index(2)`, `.sum($.x, 1)`; None where nothing stands between the parentheses."""

    name: str
    arguments: tuple[Argument, ...] | None = None
    scan: bool = False


Segment: TypeAlias = Key | Keys | Indexes | Slice | Wild | FilterText | Function


def split_path(text: str) -> tuple[Segment, ...]:
    """Split a path into segments; the empty path, `$` alone, is the document. Raises InvalidExpression, with place."""
    if len(text) > MAX_PATH:
        raise InvalidExpression(f"path longer than {MAX_PATH} characters: {text[:40]}…")
    # As Jayway: what stands before a path is part of it, `${ a}` looks for a key " a" and fails.
    path = text.rstrip(" ")
    if path[:1] not in ("$", "@"):
        path = "$." + path
    return _Splitter(text, path).run()


class _Splitter:
    """One pass over the text of one path."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self._path = path
        self._position = 1

    def run(self) -> tuple[Segment, ...]:
        path = self._path
        if path.endswith("."):
            self._fail("it ends with a dot")
        if len(path) > 1 and path[1] not in ".[":
            self._fail("'.' or '[' expected")
        segments: list[Segment] = []
        # Jayway reads past one character at the very end.
        while self._position < len(path) - bool(segments):
            segments.append(self._segment())
            if len(segments) > _MAX_SEGMENTS:
                self._fail(f"it has more than {_MAX_SEGMENTS} segments")
        return tuple(segments)

    def _fail(self, reason: str) -> NoReturn:
        raise self._error(reason)

    def _error(self, reason: str) -> InvalidExpression:
        shown = self._text if len(self._text) <= 80 else self._text[:79] + "…"
        return InvalidExpression(f"path {shown!r}: {reason} (at {self._position} of {self._path[:80]!r})")

    def _segment(self) -> Segment:
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
            return self._bracket(scan)
        if char == "*":
            self._position += 1
            return Wild(scan=scan)
        return self._name(scan)

    def _name(self, scan: bool) -> Segment:
        found = _NAME.match(self._path, self._position)
        if found is None:
            self._fail("a name expected; write ['…'] around one that holds blanks, dots or brackets")
        self._position = found.end()
        following = self._path[self._position : self._position + 1]
        if following == " ":
            self._fail("a blank in a name; write ['…'] around it")
        if following != "(":
            return Key(name=found.group(), scan=scan)
        name = found.group()
        if name not in _FUNCTIONS:
            self._fail(f"there is no function {name}()")
        if scan and self._path[1:].startswith(f"..{name}("):
            self._fail(f"{name}() needs something before it")
        self._position += 1
        if self._path[self._position : self._position + 1] == ")":
            # As Jayway, which goes on reading at the parenthesis: what follows finds nothing.
            return Function(name=name, scan=scan)
        return Function(name=name, arguments=self._arguments(), scan=scan)

    def _arguments(self) -> tuple[Argument, ...]:
        """As Jayway: what begins neither as a path, a number, a text nor a map is passed over."""
        found: list[Argument] = []
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
                    found.append(Argument(path=text) if kind == "path" else Argument(value=read_literal(text)))
                text = kind = ""
                if parentheses == 0:
                    return tuple(found)
            if kind and not (char == "," and not inside and parentheses == 1):
                text += char
            prior = char
        if parentheses or braces or brackets:
            self._fail("the arguments are not closed")
        return tuple(found)

    def _bracket(self, scan: bool) -> Segment:
        wild = _WILD.match(self._path, self._position)
        if wild is not None:
            self._position = wild.end()
            return Wild(scan=scan)
        numbers = _NUMBERS.match(self._path, self._position)
        if numbers is not None:
            self._position = numbers.end()
            return self._numbers(numbers.group(1), scan)
        inner = self._path[self._position + 1 : self._position + 40].lstrip()
        if inner[:1] in ("'", '"'):
            return self._quoted(scan)
        if inner[:1] == "?":
            return self._filter(scan)
        raise self._error("an index, a quoted name, '*' or a filter expected after '['")

    def _numbers(self, text: str, scan: bool) -> Segment:
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
            return Slice(start=numbers[0], stop=numbers[1], scan=scan)
        indexes = tuple(number for number in numbers if number is not None)
        if len(indexes) != len(numbers):
            self._fail("a number is missing between brackets")
        return Indexes(indexes=indexes, scan=scan)

    def _quoted(self, scan: bool) -> Segment:
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
        return Key(name=names[0], scan=scan) if len(names) == 1 else Keys(names=tuple(names), scan=scan)

    def _filter(self, scan: bool) -> Segment:
        start = self._path.index("?", self._position) + 1
        depth = 0
        for token in _FILTER_TOKEN.finditer(self._path, self._position):
            depth += {"[": 1, "]": -1}.get(token.group(), 0)
            if depth == 0 and token.group() == "]":
                inner = self._path[start : token.start()].strip()
                if not inner.startswith("(") or not inner.endswith(")"):
                    self._fail("a filter is written [?(…)]")
                self._position = token.end()
                return FilterText(text=inner[1:-1], scan=scan)
        raise self._error("a filter is not closed")
