"""The query language of searches: text → a frozen tree, or InvalidQuery with the place.

    query       either { OR either }
    either      each { AND each }                             AND binds tighter than OR
    each        NOT each | ( query ) | comparison
    comparison  field ( = | == | != | <> | < | <= | > | >= ) value
                field [NOT] IN ( value { , value } )          field [NOT] BETWEEN value AND value
                field [NOT] STARTS_WITH value                 field IS [NOT] NULL
    field       a name of `fields`, or input or output with a path: input.a.b, output.items[0].sku, input.items[*], input['a b']
    value       'text', "text", a number, true, false, or a bare word

Keywords and fields are those of Conductor's search over Elasticsearch; precedence, NOT, the missing operators and what is absent
are as in SQL, except that every comparison is either true or false: one with what is absent is false, and NOT of it true, so that
`a != x` is always `NOT a = x`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import attrs

from conductorlite.model.errors import InvalidInput, InvalidQuery
from conductorlite.model.later import pattern
from conductorlite.model.texts import did_you_mean, to_instant
from conductorlite.store.documents import IDS, Cell, Field, Kind, Subject, cell, path_of

__all__ = ["And", "Compare", "Condition", "Not", "Or", "Pattern", "fits", "parse_query"]

#: Characters of a query, comparisons in it, values in one list, texts with wildcards, and parentheses and NOTs within each other.
MAX_QUERY: Final = 20_000
MAX_COMPARISONS: Final = 200
MAX_VALUES: Final = 1_000
MAX_PATTERNS: Final = 100
MAX_DEPTH: Final = 20

_TOKEN: Final = pattern(
    r"""\s*(?:
        (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<sign><=|>=|<>|!=|==|=|<|>|\(|\)|,)
      | (?P<word>(?:[^\s()'",=<>!\[]|\[[^\]'"]*\]|\[\s*'(?:[^'\\]|\\.)*'\s*\]|\[\s*"(?:[^"\\]|\\.)*"\s*\])+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_STEP: Final = pattern(
    r"""\.(?P<name>[^.\[\]]+)|\[\s*(?:(?P<any>\*)|(?P<place>\d{1,9})|'(?P<one>(?:[^'\\]|\\.)*)'|"(?P<two>(?:[^"\\]|\\.)*)")\s*\]""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER: Final = pattern(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?")
_ESCAPE: Final = pattern(r"\\(.)", re.DOTALL)
_SURROGATE: Final = pattern("[\ud800-\udfff]")
_KEYWORDS: Final = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "STARTS_WITH"})
_ORDER: Final = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}
_EQUAL: Final = frozenset({"=", "==", "!=", "<>"})


@attrs.frozen(slots=True)
class Pattern:
    """A text with wildcards: what stands before, between and after them."""

    parts: tuple[str, ...]

    def fits(self, text: str) -> bool:
        """Return True if a text is like this; linear in its length."""
        first, *middle, last = self.parts
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


def fits(value: object, parts: str) -> bool:
    """Return True if a value is like a pattern, whose parts come joined by NUL: a function for SQL."""
    return isinstance(value, str) and Pattern(tuple(parts.split("\0"))).fits(value)


Value = Cell | Pattern


@attrs.frozen(slots=True)
class Compare:
    """One comparison. `operator` is <, <=, >, >=, BETWEEN, STARTS_WITH, EXISTS, or IN: any of the values, of which `=` has one."""

    field: Field
    operator: str
    values: tuple[Value, ...] = ()
    #: The values, apart: what may be equal, and what may be alike.
    exact: frozenset[Cell] = attrs.field(init=False, eq=False, repr=False)
    patterns: tuple[Pattern, ...] = attrs.field(init=False, eq=False, repr=False)

    @exact.default
    def _exact(self) -> frozenset[Cell]:
        return frozenset(value for value in self.values if not isinstance(value, Pattern))

    @patterns.default
    def _patterns(self) -> tuple[Pattern, ...]:
        return tuple(value for value in self.values if isinstance(value, Pattern))


@attrs.frozen(slots=True)
class Not:
    """The contrary."""

    part: Condition


@attrs.frozen(slots=True)
class And:
    """All of them."""

    parts: tuple[Condition, ...]


@attrs.frozen(slots=True)
class Or:
    """At least one of them."""

    parts: tuple[Condition, ...]


Condition = Compare | Not | And | Or


@attrs.frozen(slots=True)
class _Token:
    """`kind` is text, sign, word or end; `at` is where it begins."""

    kind: str
    text: str
    at: int

    @property
    def keyword(self) -> str:
        return self.text.upper() if self.kind == "word" and self.text.upper() in _KEYWORDS else ""


def parse_query(text: str, subject: Subject) -> Condition | None:
    """The tree of a query; None when it is blank. Raises InvalidQuery."""
    if len(text) > MAX_QUERY:
        raise InvalidQuery(f"the query has more than {MAX_QUERY:,} characters", MAX_QUERY)
    surrogate = _SURROGATE.search(text)
    if surrogate is not None:
        raise InvalidQuery("a lone surrogate is no character", surrogate.start())
    if not text.strip():
        return None
    parser = _Parser(_tokens(text), subject)
    found = parser.either()
    token = parser.token
    if token.kind != "end":
        raise InvalidQuery(f"AND, OR or the end is expected, not {_shown(token)}", token.at)
    return found


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            at += len(text[at:end]) - len(text[at:end].lstrip())
            what = "a text has no closing quote" if text[at] in "'\"" else f"{text[at]!r} is not expected"
            raise InvalidQuery(what, at)
        kind = match.lastgroup or ""
        found.append(_Token(kind, match.group(kind), match.start(kind)))
        at = match.end()
    return [*found, _Token("end", "", end)]


def _shown(token: _Token) -> str:
    return "the end" if token.kind == "end" else repr(token.text if len(token.text) <= 40 else token.text[:37] + "…")


class _Parser:
    """Recursive descent; `_depth` bounds it."""

    def __init__(self, tokens: list[_Token], subject: Subject) -> None:
        self._tokens = tokens
        self._subject = subject
        self._next = 0
        self._depth = 0
        self._comparisons = 0
        self._patterns = 0

    @property
    def token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self.token
        self._next += 1
        return token

    def _expect(self, *texts: str) -> _Token:
        token = self.token
        if token.keyword not in texts and not (token.kind == "sign" and token.text in texts):
            raise InvalidQuery(f"{' or '.join(texts)} is expected, not {_shown(token)}", token.at)
        return self._take()

    def either(self) -> Condition:
        return self._joined("OR", self._both, Or)

    def _both(self) -> Condition:
        return self._joined("AND", self._each, And)

    def _joined(self, keyword: str, part: Callable[[], Condition], whole: type[And | Or]) -> Condition:
        parts = [part()]
        while self.token.keyword == keyword:
            self._take()
            parts.append(part())
        return parts[0] if len(parts) == 1 else whole(tuple(parts))

    def _each(self) -> Condition:
        token = self.token
        opens = token.kind == "sign" and token.text == "("
        if token.keyword != "NOT" and not opens:
            return self._comparison()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise InvalidQuery(f"parentheses and NOTs are nested deeper than {MAX_DEPTH}", token.at)
        self._take()
        found: Condition
        if opens:
            found = self.either()
            self._expect(")")
        else:
            found = Not(self._each())
        self._depth -= 1
        return found

    def _comparison(self) -> Condition:
        token = self._take()
        if token.kind != "word" or token.keyword:
            raise InvalidQuery(f"a field is expected, not {_shown(token)}", token.at)
        self._comparisons += 1
        if self._comparisons > MAX_COMPARISONS:
            raise InvalidQuery(f"the query has more than {MAX_COMPARISONS} comparisons", token.at)
        field = _field(token, self._subject)
        sign = self._take()
        if sign.keyword == "IS":
            negated = self.token.keyword == "NOT" and self._take() is not None
            self._expect("NULL")
            there = Compare(field, "EXISTS")
            return there if negated else Not(there)
        negated = sign.keyword == "NOT"
        if negated:
            sign = self._take()
        return _negated(self._operation(field, sign, negated), negated)

    def _operation(self, field: Field, sign: _Token, negated: bool) -> Condition:
        if sign.keyword == "IN":
            return Compare(field, "IN", self._list(field))
        if sign.keyword == "BETWEEN":
            low = self._ordered(field)
            self._expect("AND")
            at = self.token
            high = self._ordered(field)
            if isinstance(low, str) is not isinstance(high, str):
                raise InvalidQuery("a number and a text have no order between them", at.at)
            return Compare(field, "BETWEEN", (low, high))
        if sign.keyword == "STARTS_WITH":
            return Compare(field, "STARTS_WITH", (self._beginning(field),))
        if not negated and sign.kind == "sign" and sign.text in _EQUAL:
            equal = Compare(field, "IN", (self._value(field),))
            return _negated(equal, sign.text in ("!=", "<>"))
        if not negated and sign.kind == "sign" and sign.text in _ORDER:
            return Compare(field, sign.text, (self._ordered(field),))
        operators = "IN, BETWEEN or STARTS_WITH" if negated else "an operator"
        raise InvalidQuery(f"{operators} is expected, not {_shown(sign)}", sign.at)

    def _list(self, field: Field) -> tuple[Value, ...]:
        self._expect("(")
        found = [self._value(field)]
        while self._expect(",", ")").text == ",":
            if len(found) == MAX_VALUES:
                raise InvalidQuery(f"a list has more than {MAX_VALUES:,} values", self.token.at)
            found.append(self._value(field))
        return tuple(dict.fromkeys(found))

    def _value(self, field: Field) -> Value:
        """A value that something may be equal to: `*` in a text stands for anything."""
        token = self._operand()
        value = _converted(token, field, wild=True)
        self._one_of(field, token, value, lambda choice: value.fits(choice) if isinstance(value, Pattern) else value == choice)
        self._patterns += isinstance(value, Pattern)
        if self._patterns > MAX_PATTERNS:
            raise InvalidQuery(f"the query has more than {MAX_PATTERNS} texts with *", token.at)
        return value

    def _ordered(self, field: Field) -> Cell:
        """A value that something may be less than."""
        token = self._operand()
        value = _converted(token, field, wild=False)
        if isinstance(value, bytes | Pattern):
            raise InvalidQuery(f"{_shown(token)} has no order", token.at)
        return value

    def _beginning(self, field: Field) -> Cell:
        token = self._operand()
        if field.kind not in (Kind.TEXT, Kind.MANY, Kind.PATH):
            raise InvalidQuery(f"{field.name} is a {field.kind.value}: it does not start with anything", token.at)
        value = _cut(_unescaped(token) if token.kind == "text" else token.text, field)
        self._one_of(field, token, value, lambda choice: choice.startswith(value))
        return value

    def _one_of(self, field: Field, token: _Token, value: Value, fitting: Callable[[str], bool]) -> None:
        """Refuse a value that no choice of a field fits, which would find nothing without a word."""
        choices = self._subject.choices.get(field.name)
        if choices is None or any(map(fitting, choices)):
            return
        known = [str(choice) for choice in choices]
        meant = did_you_mean(value, known) if isinstance(value, str) else ""
        raise InvalidQuery(f"{field.name} {_shown(token)} is none of {', '.join(known)}{meant}", token.at)

    def _operand(self) -> _Token:
        token = self._take()
        if token.kind not in ("text", "word") or token.keyword:
            hint = "; ask IS NULL" if token.keyword == "NULL" else ""
            raise InvalidQuery(f"a value is expected, not {_shown(token)}{hint}", token.at)
        return token


def _negated(condition: Condition, negated: bool) -> Condition:
    return Not(condition) if negated else condition


def _field(token: _Token, subject: Subject) -> Field:
    """A field by its name, or a path into input or output."""
    name = re.match(r"[^.\[]*", token.text)
    root = name.group() if name is not None else ""
    rest = token.text[len(root) :]
    if root in ("input", "output"):
        return Field(token.text, Kind.PATH, root + path_of(_steps(rest, token, len(root))))
    found = None if rest else subject.field(root)
    if found is None:
        meant = did_you_mean(root, (*subject.fields, *subject.aliases, "input", "output"))
        raise InvalidQuery(f"{subject.name} have no field {_shown(token)}{meant}", token.at)
    return found


def _steps(text: str, token: _Token, offset: int) -> tuple[str | int | None, ...]:
    steps: list[str | int | None] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            what = f"a path goes on with .name, [0], [*] or ['name'], not {text[at : at + 10]!r}"
            raise InvalidQuery(what, token.at + offset + at)
        name, one, two = match.group("name", "one", "two")
        if match.group("any"):
            steps.append(None)
        elif match.group("place"):
            steps.append(int(match.group("place")))
        else:
            quoted = one if one is not None else two
            steps.append(name if name is not None else _ESCAPE.sub(r"\1", quoted or ""))
        at = match.end()
    if not steps:
        raise InvalidQuery(f"say what in {token.text}: {token.text}.name", token.at)
    return tuple(steps)


def _converted(token: _Token, field: Field, *, wild: bool) -> Value:
    """A value as the field compares it; raises InvalidQuery when it never could."""
    text = _unescaped(token) if token.kind == "text" else token.text
    if field.kind is Kind.NUMBER:
        return _number(text, token, f"{field.name} is a number")
    if field.kind is Kind.TIME:
        return _instant(text, token, field)
    if field.kind is Kind.FLAG:
        if text.lower() not in ("true", "false"):
            raise InvalidQuery(f"{field.name} is true or false, not {_shown(token)}", token.at)
        return text.lower().encode()
    if field.kind is Kind.PATH and token.kind == "word":
        if _NUMBER.fullmatch(text):
            return _number(text, token, "this is no number")
        if text in ("true", "false"):
            return text.encode()
    return _pattern(token, field) if wild else _cut(text, field)


def _number(text: str, token: _Token, why: str) -> int | float:
    if not _NUMBER.fullmatch(text) or len(text) > 1_000:
        raise InvalidQuery(f"{why}, not {_shown(token)}", token.at)
    try:
        value = cell(int(text))
    except ValueError:
        value = float(text)
    return value if isinstance(value, int | float) else 0


def _instant(text: str, token: _Token, field: Field) -> int | float:
    """Epoch ms, or ISO 8601 with an offset."""
    if _NUMBER.fullmatch(text):
        return _number(text, token, f"{field.name} is an instant")
    try:
        return to_instant(text)
    except InvalidInput as error:
        raise InvalidQuery(f"{field.name} is an instant, and {error}", token.at) from None


def _cut(text: str, field: Field) -> str:
    """A text as documents have it."""
    found = text if field.name in IDS else cell(text)
    return found if isinstance(found, str) else ""


def _unescaped(token: _Token) -> str:
    return _ESCAPE.sub(r"\1", token.text[1:-1])


def _pattern(token: _Token, field: Field) -> Value:
    """A text, or a pattern when it holds `*`; `\\*` in quotes is the sign itself."""
    if token.kind == "word":
        parts = token.text.split("*")
    else:
        parts = [""]
        signs = iter(token.text[1:-1])
        for sign in signs:
            if sign == "*":
                parts.append("")
            else:
                parts[-1] += next(signs) if sign == "\\" else sign
    if len(parts) == 1:
        return _cut(parts[0], field)
    between = [part for part in parts[1:-1] if part]
    return Pattern(tuple(part.replace("\0", "\ufffd") for part in (parts[0], *between, parts[-1])))
