"""`[?(…)]` as Jayway reads it; what its operators answer stands in `comparisons`.

A path alone asks whether it leads anywhere, from the item, also when it is written with `$`. In a comparison a definite path that
leads nowhere is null, as Conductor configures Jayway. JSON in filters and arguments may have its texts in single quotes, or in
none. Source of the rules: Jayway JsonPath's README, "Filter Operators" and "Predicates", and what its release 2.9.0 answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final, Protocol

import attrs

from conductorlite.language.comparisons import OPERATORS, Budget, Refused, to_decimal
from conductorlite.language.regexes import BoundedPattern, bounded_pattern
from conductorlite.language.values import Json
from conductorlite.model.errors import InvalidExpression
from conductorlite.model.later import pattern

__all__ = ["Filter", "compile_filter", "read_literal", "unescape"]

#: Deepest nesting of parentheses and brackets in one filter, and its longest text.
_MAX_NESTING: Final = 16
_MAX_LENGTH: Final = 1000

_QUOTED: Final = pattern(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_BRACKET: Final = pattern(rf"{_QUOTED.pattern}|[\[\]{{}}]", re.DOTALL)
_PATTERN: Final = pattern(r"/((?:[^/\\]|\\.)*)/([dixmsuU]*)", re.DOTALL)
_INLINE: Final = pattern(r"\(\?([dixmsuU]+)\)")
_NUMBER: Final = pattern(r"[-0-9.eE]*")
_WORD: Final = pattern(r"true|false|null")
_OPERATOR: Final = pattern(r"[<>=~!]+|[^ <>=~!][^ ]*")
_NO_ARGUMENTS: Final = pattern(r"\( *\)")
_CONSTANTS: Final[Mapping[str, Json]] = {"true": True, "false": False, "null": None}
_FLAGS: Final = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE, "d": 0, "u": 0, "U": 0}


_TOKEN: Final = pattern(r"\s*(?:('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([\[\]{},:])|([^\s\[\]{},:'\"][^\[\]{},:]*))", re.DOTALL)
_LITERAL_NUMBER: Final = pattern(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MAX_DEPTH: Final = 16
_ESCAPE: Final = pattern(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
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
    number = _LITERAL_NUMBER.fullmatch(text)
    if number is None or len(text) > 1000:
        return text
    return float(text) if number[1] or number[2] else int(text)


class _Path(Protocol):
    """Protocol of a compiled path, as a filter needs it."""

    def operand(self, base: Json, document: Budget) -> Json: ...

    def leads_somewhere(self, base: Json, document: Budget) -> bool: ...


_Operand = Callable[[Json, Budget], Json]
_Test = Callable[[Json, Budget], bool]


@attrs.frozen(kw_only=True)
class Filter:
    """A compiled filter; `reads_document` says that it uses `$`, so needs the whole document and not only the items."""

    text: str
    reads_document: bool
    _test: _Test = attrs.field(repr=False, eq=False)

    def select(self, items: list[Json], document: Budget) -> list[Json]:
        """The items that pass, in order; raises ExpressionFailed when a comparison cannot be made or is too large."""
        return [item for item in items if self.passes(item, document)]

    def passes(self, item: Json, document: Budget) -> bool:
        """Return True if one item passes."""
        document.spend(1)
        try:
            return self._test(item, document)
        except Refused:
            return False


def compile_filter(text: str, compile_path: Callable[[str], _Path]) -> Filter:
    """Compile the text between `[?(` and `)]`; raises InvalidExpression when it is not a filter."""
    if len(text) > _MAX_LENGTH:
        raise InvalidExpression(f"filter longer than {_MAX_LENGTH} characters")
    parser = _Parser(text, compile_path)
    test = parser.filter()
    return Filter(text=text, reads_document=parser.reads_document, test=test)


@attrs.frozen(kw_only=True)
class _Value:
    """One side of a comparison: a path's text or what a literal says."""

    path: str = ""
    unwanted: bool = False
    literal: Json = None


class _Parser:
    """Recursive descent: `||` over `&&` over `!`, parentheses, and comparisons. Only spaces are blanks."""

    def __init__(self, text: str, compile_path: Callable[[str], _Path]) -> None:
        self._text = text
        self._compile_path = compile_path
        self._at = 0
        self._depth = 0
        self.reads_document = False

    def filter(self) -> _Test:
        """The whole text."""
        test = self._any()
        if self._rest():
            raise self._error(f"unexpected {self._rest()[:20]!r}")
        return test

    def _any(self) -> _Test:
        return self._joined("||", self._all, any)

    def _all(self) -> _Test:
        return self._joined("&&", self._one, all)

    def _joined(self, sign: str, part: Callable[[], _Test], passed: Callable[[Iterable[bool]], bool]) -> _Test:
        tests = [part()]
        while self._took(sign):
            tests.append(part())
        return tests[0] if len(tests) == 1 else lambda item, document: passed(test(item, document) for test in tests)

    def _one(self) -> _Test:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise InvalidExpression(f"filter nested deeper than {_MAX_NESTING} levels")
        try:
            if self._sees("!") and self._rest()[1:].lstrip(" ")[:1] not in ("$", "@"):
                self._took("!")
                inner = self._one()
                return lambda item, document: not inner(item, document)
            if self._took("("):
                inner = self._any()
                if not self._took(")"):
                    raise self._error("')' expected")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Test:
        left = self._value()
        found = _OPERATOR.match(self._rest())
        compare = OPERATORS.get(found[0].lower()) if found is not None else None
        if found is None or compare is None:
            if not left.path:
                raise self._error(f"{self._text[: self._at][-20:]!r} is not compared with anything")
            path, wanted = self._path(left), not left.unwanted
            return lambda item, document: path.leads_somewhere(item, document) is wanted
        self._take(found[0])
        right = self._value()
        if isinstance(left.literal, list | dict) and found[0] in ("==", "!=", "===", "!=="):
            return lambda item, document: found[0][0] == "!"  # Jayway compares such a text with what the other side is
        first, second = self._operand(left), self._operand(right)
        return lambda item, document: compare(first(item, document), second(item, document), document)

    def _operand(self, value: _Value) -> _Operand:
        if not value.path:
            return lambda item, document: value.literal
        path = self._path(value)
        if value.path[0] == "@":
            return path.operand
        self.reads_document = True

        def read(item: Json, document: Budget) -> Json:
            if id(path) not in document.found:
                document.found[id(path)] = path.operand(document(), document)
            return document.found[id(path)]

        return read

    def _path(self, value: _Value) -> _Path:
        return self._compile_path("$" + value.path[1:])

    def _value(self) -> _Value:
        rest = self._rest()
        unwanted = rest[:1] == "!"
        if unwanted:
            self._take("!")
            rest = self._rest()
        if rest[:1] in ("$", "@"):
            start = self._at
            self._end_of_path()
            return _Value(path=self._text[start : self._at], unwanted=unwanted)
        if unwanted:
            raise self._error("a path expected after '!'")
        for kind in (_QUOTED, _PATTERN, _WORD):
            found = kind.match(rest)
            if found is not None:
                self._at += found.end()
                text = found[0]
                literal = _CONSTANTS[text] if kind is _WORD else _compiled(text) if kind is _PATTERN else unescape(text[1:-1])
                return _Value(literal=literal)
        if rest[:1] in ("[", "{"):
            end = self._closed(self._at)
            literal = read_literal(self._text[self._at : end])
            self._at = end
            return _Value(literal=literal)
        found = _NUMBER.match(rest)
        number = None if found is None else to_decimal(found[0])
        if found is None or number is None:
            raise self._error(f"a value expected instead of {rest[:20]!r}" if rest else "a value expected at the end")
        self._at += found.end()
        return _Value(literal=number)

    def _end_of_path(self) -> None:
        """As Jayway: a path ends at a blank, a sign of comparison or a parenthesis that closes no call without arguments."""
        text = self._text
        self._at += 1
        while self._at < len(text):
            if text[self._at] == "[":
                self._at = self._closed(self._at)
            call = _NO_ARGUMENTS.match(text, self._at)
            if call is not None:
                self._at = call.end()
                continue
            if self._at >= len(text) or text[self._at] in " <>=~!)":
                return
            self._at += 1

    def _closed(self, start: int) -> int:
        """Behind the bracket that closes the one at `start`; quoted ones do not count."""
        depth = deepest = 0
        for bracket in _BRACKET.finditer(self._text, start):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(bracket[0], 0)
            deepest = max(deepest, depth)
            if deepest > _MAX_NESTING:
                raise InvalidExpression(f"filter nested deeper than {_MAX_NESTING} levels")
            if depth == 0:
                return bracket.end()
        raise self._error("a bracket is not closed")

    def _rest(self) -> str:
        while self._text[self._at : self._at + 1] == " ":
            self._at += 1
        return self._text[self._at :]

    def _sees(self, sign: str) -> bool:
        return self._rest().startswith(sign)

    def _took(self, sign: str) -> bool:
        seen = self._sees(sign)
        self._at += len(sign) * seen
        return seen

    def _take(self, sign: str) -> None:
        self._at += len(sign)

    def _error(self, problem: str) -> InvalidExpression:
        return InvalidExpression(f"filter ?({self._text}): {problem}")


@lru_cache(maxsize=256)
def _compiled(literal: str) -> BoundedPattern:
    body, _, flags = literal[1:].rpartition("/")
    inline = _INLINE.match(body)
    if inline is not None:
        body, flags = body[inline.end() :], flags + inline[1]
    bits = 0
    for flag in flags:
        bits |= _FLAGS[flag]
    return bounded_pattern(body.replace("\\/", "/"), bits)
