"""`[?(…)]` with Jayway's answers: its comparisons, its operators, its rules for what is not there.

A path alone asks whether it leads anywhere. In a comparison a definite path that leads nowhere is null, as Conductor configures
Jayway. Numbers and texts are equal when they are written alike; everything else equals only its own kind, and only numbers are
less than numbers, texts than texts. Source of the rules: Jayway JsonPath's README, "Filter Operators", and what Conductor answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final, Protocol

import attrs

from conductorlite.errors import ExpressionFailed, InvalidExpression
from conductorlite.expressions.regexes import BoundedPattern, bounded_pattern
from conductorlite.expressions.sources import Json

__all__ = ["Filter", "compile_filter"]

#: Deepest nesting of parentheses and brackets in one filter, and its longest text.
_MAX_NESTING: Final = 16
_MAX_LENGTH: Final = 1000
#: Pairs that `subsetof`, `anyof`, `noneof` and `all` compare.
_MAX_PAIRS: Final = 1_000_000

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
          | (?P<number>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
          | (?P<pattern>/(?:[^/\\]|\\.)*/[a-zA-Z]*)
          | (?P<path>[@$](?:\.\.?(?:\*|[^\s.\[\]()=<>!&|,~*]+)?(?:\([^()]*\))?
                          |\[(?:[^\[\]'"]|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")*\])*)
          | (?P<word>[A-Za-z]+)
          | (?P<sign>===|!==|==|!=|<=|>=|=~|&&|\|\||[<>!()\[\],{}:]))""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_CONSTANTS: Final[Mapping[str, Json]] = {"true": True, "false": False, "null": None}
_FLAGS: Final = {"i": re.IGNORECASE, "s": re.DOTALL, "m": re.MULTILINE, "x": re.VERBOSE, "d": 0, "u": 0, "U": 0}


class _Path(Protocol):
    """What a filter needs of a compiled path."""

    def evaluate(self, base: Json, skip: int, document: Callable[[], Json]) -> Json: ...

    def leads_somewhere(self, base: Json, document: Callable[[], Json]) -> bool: ...


_Document = Callable[[], Json]
_Operand = Callable[[Json, _Document], Json]
_Test = Callable[[Json, _Document], bool]


@attrs.frozen(kw_only=True)
class Filter:
    """A compiled filter; `reads_document` says that it uses `$`, so needs the whole document and not only the items."""

    text: str
    reads_document: bool
    _test: _Test = attrs.field(repr=False, eq=False)

    def select(self, items: list[Json], document: _Document) -> list[Json]:
        """The items that pass, in order; raises ExpressionFailed when a comparison is too large."""
        return [item for item in items if self._test(item, document)]


def compile_filter(text: str, compile_path: Callable[[str], _Path]) -> Filter:
    """Compile the text between `[?(` and `)]`; raises InvalidExpression when it is not a filter."""
    if len(text) > _MAX_LENGTH:
        raise InvalidExpression(f"filter longer than {_MAX_LENGTH} characters")
    parser = _Parser(text, compile_path)
    test = parser.filter()
    return Filter(text=text, reads_document=parser.reads_document, test=test)


class _Parser:
    """Recursive descent: `||` over `&&` over `!`, parentheses, and comparisons."""

    def __init__(self, text: str, compile_path: Callable[[str], _Path]) -> None:
        self._text = text
        self._compile_path = compile_path
        self._tokens = self._split(text)
        self._at = 0
        self._depth = 0
        self.reads_document = False

    def filter(self) -> _Test:
        """The whole text."""
        test = self._any()
        if self._at < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._at][1]!r}")
        return test

    def _split(self, text: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            token = _TOKEN.match(text, at)
            if token is None:
                raise self._error(f"unexpected {text[at:].strip()[:20]!r}")
            kind = token.lastgroup or ""
            end = token.end()
            if kind == "path":
                end = self._nested(text, end)
            found.append((kind, text[token.start(kind) : end]))
            at = end
        return found

    def _nested(self, text: str, at: int) -> int:
        """The end of a path that holds filters of its own."""
        while text[at : at + 1] == "[":
            depth = 0
            for bracket in re.finditer(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[\]]", text[at:], re.DOTALL):
                depth += {"[": 1, "]": -1}.get(bracket[0], 0)
                if depth == 0:
                    break
            else:
                raise self._error("a bracket is not closed")
            at += bracket.end()
            rest = _TOKEN.match("@" + text[at:])
            at += rest.end("path") - 1 if rest is not None and rest.lastgroup == "path" else 0
        return at

    def _any(self) -> _Test:
        tests = [self._all()]
        while self._took("||"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda item, document: any(test(item, document) for test in tests)

    def _all(self) -> _Test:
        tests = [self._one()]
        while self._took("&&"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else lambda item, document: all(test(item, document) for test in tests)

    def _one(self) -> _Test:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise InvalidExpression(f"filter nested deeper than {_MAX_NESTING} levels")
        try:
            if self._took("!"):
                inner = self._one()
                return lambda item, document: not inner(item, document)
            if self._took("("):
                inner = self._any()
                self._take(")")
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> _Test:
        kind, text = self._peek()
        left = self._operand()
        operator = self._peek()[1]
        if operator.lower() in _OPERATORS and self._peek()[0] in ("sign", "word"):
            compare = _OPERATORS[operator.lower()]
            self._at += 1
            right = self._operand()
            return lambda item, document: compare(left(item, document), right(item, document))
        if kind != "path":
            raise self._error(f"{text!r} is not compared with anything")
        path = self._path(text)
        return lambda item, document: path.leads_somewhere(document() if text[0] == "$" else item, document)

    def _operand(self) -> _Operand:
        kind, text = self._peek()
        if kind == "path":
            self._at += 1
            path = self._path(text)
            if text[0] == "$":
                self.reads_document = True
                return lambda item, document: path.evaluate(document(), 0, document)
            return lambda item, document: path.evaluate(item, 0, document)
        value = self._literal()
        return lambda item, document: value

    def _path(self, text: str) -> _Path:
        return self._compile_path("$" + text[1:])

    def _literal(self) -> Json:
        kind, text = self._peek()
        self._at += 1
        if kind == "text":
            return _ESCAPE.sub(r"\1", text[1:-1])
        if kind == "number":
            number: int | float = json.loads(text)
            return number
        if kind == "pattern":
            return _compiled(text)
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text == "[":
            return self._list()
        raise self._error(f"a value expected instead of {text!r}" if text else "a value expected at the end")

    def _list(self) -> list[Json]:
        values: list[Json] = []
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise InvalidExpression(f"filter nested deeper than {_MAX_NESTING} levels")
        while not self._took("]"):
            if values:
                self._take(",")
            values.append(self._literal())
        self._depth -= 1
        return values

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _took(self, text: str) -> bool:
        seen = self._peek() == ("sign", text)
        self._at += seen
        return seen

    def _take(self, text: str) -> None:
        if not self._took(text):
            raise self._error(f"{text!r} expected")

    def _error(self, problem: str) -> InvalidExpression:
        return InvalidExpression(f"filter ?({self._text}): {problem}")


@lru_cache(maxsize=256)
def _compiled(literal: str) -> BoundedPattern:
    body, _, flags = literal[1:].rpartition("/")
    if not set(flags) <= _FLAGS.keys():
        raise InvalidExpression(f"regular expression {literal}: unknown flags {flags!r}")
    bits = 0
    for flag in flags:
        bits |= _FLAGS[flag]
    return bounded_pattern(body.replace("\\/", "/"), bits)


# -- comparisons ------------------------------------------------------------------------------------------------------


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Json, right: Json) -> bool:
    if _is_number(left) and isinstance(right, str) and len(right) < _MAX_LENGTH:
        try:
            return Decimal(right) == Decimal(str(left))
        except InvalidOperation:
            return False
    if isinstance(left, str) and _is_number(right):
        return left == str(right)
    return _same(left, right)


def _same(left: Json, right: Json) -> bool:
    if _is_number(left) and _is_number(right):
        return bool(left == right)
    if type(left) is not type(right):
        return False
    if isinstance(left, list | dict):
        return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    return bool(left == right)


def _ordered(compare: Callable[[Json, Json], bool]) -> Callable[[Json, Json], bool]:
    def test(left: Json, right: Json) -> bool:
        alike = (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))
        return alike and compare(left, right)

    return test


def _matches(left: Json, right: Json) -> bool:
    if isinstance(left, BoundedPattern):
        left, right = right, left
    if not isinstance(right, BoundedPattern) or isinstance(left, BoundedPattern):
        return False
    texts = left if isinstance(left, list) else [left]
    return any(right.fullmatch(text if isinstance(text, str) else json.dumps(text)) for text in texts if not isinstance(text, dict))


def _in(left: Json, right: Json) -> bool:
    return isinstance(right, list) and any(_equal(left, item) for item in right)


def _contains(left: Json, right: Json) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_equal(right, item) for item in left)


def _size(left: Json, right: Json) -> bool:
    return _is_number(right) and isinstance(left, str | list) and len(left) == right


def _empty(left: Json, right: Json) -> bool:
    return isinstance(right, bool) and isinstance(left, str | list | dict) and (not left) is right


def _of_lists(test: Callable[[list[Json], list[Json]], bool]) -> Callable[[Json, Json], bool]:
    def run(left: Json, right: Json) -> bool:
        if not isinstance(left, list) or not isinstance(right, list):
            return False
        if len(left) * len(right) > _MAX_PAIRS:
            raise ExpressionFailed(f"a filter compares lists of {len(left):,} and {len(right):,} items")
        return test(left, right)

    return run


_OPERATORS: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "===": _same,
    "!==": lambda left, right: not _same(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "=~": _matches,
    "in": _in,
    "nin": lambda left, right: not _in(left, right),
    "contains": _contains,
    "size": _size,
    "empty": _empty,
    "all": _of_lists(lambda left, right: all(_in(item, left) for item in right)),
    "subsetof": _of_lists(lambda left, right: all(_in(item, right) for item in left)),
    "anyof": _of_lists(lambda left, right: any(_in(item, right) for item in left)),
    "noneof": _of_lists(lambda left, right: not any(_in(item, right) for item in left)),
}
