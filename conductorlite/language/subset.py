"""The conditions that Conductor's own loops and switches are mostly made of, compiled to closures.

Covered is only what provably cannot loop or call anything: paths below `$`, literals, comparisons, arithmetic, `&&`, `||`, `!`,
`?:`, and `if`/`else`/`return` around them, also as the body of a function that is called at once. Values are numbers, texts,
booleans, null and undefined; a list or a map is only walked through, compared with null, or tested for being there. Whole numbers
beyond 2^53 are read, compared and written exactly.

Everything else is QuickJS's: a text outside the grammar compiles to None, and an operation on values that the table here does not
know raises `Outside` while it is evaluated. Nothing here has an effect, so QuickJS can then begin from the start. What is
answered here QuickJS answers too: `tests/scripts` holds both against each other over all kinds of values.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from conductorlite.language.values import SAFE_LIMIT, Json, Outside
from conductorlite.model.later import pattern

__all__ = ["Outside", "Subset", "compile_subset"]

#: Longest text and deepest nesting that is compiled: closures call each other.
_MAX_TOKENS: Final = 250
_MAX_DEPTH: Final = 40
#: Longest text that is put together.
_MAX_TEXT: Final = 100_000

_TOKEN: Final = pattern(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<number>(?:0|[1-9]\d{0,14})(?:\.\d{1,14})?(?![\w.$]))
      | (?P<text>'[^'\\\n\r\u2028\u2029]*'|"[^"\\\n\r\u2028\u2029]*")
      | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
      | (?P<sign>===|!==|==|!=|<=|>=|&&|\|\||\+\+|--|\*\*|\?\?|\?\.|=>|<<|>>|\.\.\.|[-+*/%<>!?:;.,(){}\[\]=&|^~])""",
    re.VERBOSE | re.ASCII,
)
#: What every object has without holding it.
_INHERITED: Final = frozenset(
    {
        "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "__proto__", "constructor",
        "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
    }
)  # fmt: skip
_WORDS: Final = frozenset({"$", "if", "else", "return", "function", "true", "false", "null", "undefined"})


class _Undefined:
    __slots__ = ()


_UNDEFINED: Final = _Undefined()
#: The completion of a statement that has no value, or has not returned.
_EMPTY: Final = _Undefined()

_Values = Mapping[str, Json]
_Closure = Callable[[_Values], Any]


class Subset(NamedTuple):
    """A compiled text, the first-level names it reads, and the keys it reads directly below each of them.

    A name without a key is only compared or tested for being there, which no entry of a map changes.
    """

    run: _Closure
    keys: Mapping[str, frozenset[str]]

    def evaluate(self, values: _Values) -> Json:
        """The answer as JSON; raises Outside."""
        answer: Json = self.run(values)
        kind = type(answer)
        if kind is bool or kind is int or kind is str:
            return answer
        if answer is _UNDEFINED or answer is _EMPTY or answer is None:
            return None
        if isinstance(answer, list | dict):
            raise Outside
        return answer


def compile_subset(text: str) -> Subset | None:
    """Compile a text of the subset; None when QuickJS is to have it."""
    try:
        parser = _Parser(_tokens(text))
        return Subset(parser.script(), {name: frozenset(keys) for name, keys in parser.keys.items()})
    except Outside:
        return None


class _Token(NamedTuple):
    kind: str
    text: str
    #: Whether a line ends before it.
    breaks: bool


_END: Final = _Token("end", "", True)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, breaks = 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) > _MAX_TOKENS:
            raise Outside
        at, kind = found.end(), found.lastgroup or ""
        if kind == "space":
            breaks = breaks or "\n" in found[0] or "\r" in found[0]
            continue
        tokens.append(_Token(kind, found[0], breaks))
        breaks = False
    tokens.append(_END)
    return tokens


class _Parser:
    """Recursive descent; whatever it does not know is Outside."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._in_function = False
        self.keys: dict[str, set[str]] = {}

    def script(self) -> _Closure:
        """A function called at once, or statements, the last value of which is the answer."""
        name = self._tokens[1].text if len(self._tokens) > 1 else ""
        if self._sees("(", "function", "(", ")", "{"):
            return self._called(4, ")", "(", ")")
        if self._sees("function", name, "(", ")", "{") and name not in _WORDS:
            return self._called(4, name, "(", ")")
        return _last(self._statements(""))

    def _called(self, head: int, *then: str) -> _Closure:
        self._at += head
        self._in_function = True
        body = self._block()
        for text in then:
            self._take(text)
        while self._took(";"):
            pass
        if self._peek().kind != "end":
            raise Outside
        return body

    def _block(self) -> _Closure:
        self._take("{")
        body = self._statements("}")
        self._take("}")
        return _first(body) if self._in_function else _last(body)

    def _statements(self, end: str) -> list[_Closure]:
        found = []
        while self._peek().text != end:
            if self._peek().kind == "end":
                raise Outside
            if not self._took(";"):
                found.append(self._statement())
        return found

    def _statement(self) -> _Closure:
        self._deeper()
        if self._sees("{"):
            statement = self._block()
        elif self._took("if"):
            self._take("(")
            test = self._expression()
            self._take(")")
            yes = self._statement()
            no = self._statement() if self._took("else") else _nothing
            statement = _chosen(test, yes, no, _EMPTY if self._in_function else _UNDEFINED)
        else:
            # Of a function only what it returns counts, and `return` is followed by its value in the same line.
            if self._in_function:
                self._take("return")
            if self._in_function and (self._peek().breaks or self._peek().text in (";", "}")):
                raise Outside
            statement = self._expression()
            if not self._took(";") and self._peek().text != "}" and self._peek().kind != "end":
                raise Outside  # what only the end of a line ends is QuickJS's
        self._depth -= 1
        return statement

    def _expression(self) -> _Closure:
        self._deeper()
        found = self._binary(0)
        if self._took("?"):
            yes = self._expression()
            self._take(":")
            found = _chosen(found, yes, self._expression(), _UNDEFINED)
        self._depth -= 1
        return found

    def _binary(self, level: int) -> _Closure:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek().kind == "sign" and self._peek().text in _LEVELS[level]:
            sign = self._peek().text
            self._at += 1
            left = _LEVELS[level][sign](left, self._binary(level + 1))
        return left

    def _unary(self) -> _Closure:
        self._deeper()
        if self._took("!"):
            found = _not(self._unary())
        elif self._took("-"):
            found = _negative(self._unary())
        else:
            found = self._primary()
        self._depth -= 1
        return found

    def _primary(self) -> _Closure:
        token = self._peek()
        self._at += 1
        if token.kind in ("number", "text"):
            return _Constant(_literal(token))
        if token.text == "(":
            inner = self._expression()
            self._take(")")
            return inner
        if token.text == "$":
            return self._path()
        if token.text not in _CONSTANTS:
            raise Outside
        return _Constant(_CONSTANTS[token.text])

    def _path(self) -> _Closure:
        keys: list[str | int] = []
        while self._sees(".") or self._sees("["):
            named = self._took(".")
            if not named:
                self._take("[")
            token = self._peek()
            self._at += 1
            key = token.text if named and token.kind == "name" else "" if named else _literal(token)
            if key == "" or isinstance(key, float):
                raise Outside
            keys.append(key)
            if not named:
                self._take("]")
        if not keys or self._sees("("):
            raise Outside
        self.keys.setdefault(str(keys[0]), set()).update(map(str, keys[1:2]))
        return _read(str(keys[0]), keys[1:])

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _sees(self, *texts: str) -> bool:
        upcoming = self._tokens[self._at : self._at + len(texts)]
        return [token.text for token in upcoming if token.kind in ("sign", "name")] == list(texts)

    def _took(self, text: str) -> bool:
        seen = self._sees(text)
        self._at += seen
        return seen

    def _take(self, text: str) -> None:
        if not self._took(text):
            raise Outside

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Outside


def _literal(token: _Token) -> str | int | float:
    if token.kind == "text":
        return token.text[1:-1]
    if token.kind != "number":
        raise Outside
    return _number(float(token.text)) if "." in token.text else int(token.text)


class _Constant:
    """Operand that is the same whatever the values are; an operation does not call the one at its right."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, values: _Values) -> Any:
        return self.value


def _nothing(values: _Values) -> Any:
    return _EMPTY


def _last(body: list[_Closure]) -> _Closure:
    """The last value of a list of statements."""

    def run(values: _Values) -> Any:
        answer: Any = _EMPTY
        for statement in body:
            value = statement(values)
            answer = answer if value is _EMPTY else value
        return answer

    return body[0] if len(body) == 1 else run


def _first(body: list[_Closure]) -> _Closure:
    """Return a closure that gives what the first statement that returns has returned."""

    def run(values: _Values) -> Any:
        return next((value for statement in body if (value := statement(values)) is not _EMPTY), _EMPTY)

    return body[0] if len(body) == 1 else run


def _chosen(test: _Closure, yes: _Closure, no: _Closure, without: _Undefined) -> _Closure:
    """A branch of an `if` or `?:`; `without` is what one without a value completes with."""

    def run(values: _Values) -> Any:
        answer = yes(values) if _truth(test(values)) else no(values)
        return without if answer is _EMPTY else answer

    return run


def _read(name: str, keys: list[str | int]) -> _Closure:
    path = [(key, str(key)) for key in (name, *keys)]

    def run(values: _Values) -> Any:
        value: Any = values
        for key, text in path:
            # Mostly it is there, in a map.
            found = value.get(text) if type(value) is dict else None
            value = _member(value, key) if found is None else found
        return _number(value) if type(value) is float else value

    return run


def _member(value: Any, key: str | int) -> Any:
    if isinstance(value, Mapping):
        found = value.get(str(key), _UNDEFINED)
        if found is _UNDEFINED and key in _INHERITED:
            raise Outside
        return found
    if isinstance(value, list) and key != "length":
        if isinstance(key, int):
            return value[key] if key < len(value) else _UNDEFINED
    elif key == "length" and (isinstance(value, list) or (isinstance(value, str) and value.isascii())):
        return len(value)
    raise Outside


def _truth(value: Any) -> bool:
    if type(value) is bool:
        return value
    return value is not _UNDEFINED and (isinstance(value, list | dict) or bool(value))


def _number(value: float) -> int | float:
    """A result as JavaScript would print it: whole numbers are integers. What only a double can be is QuickJS's."""
    if not -SAFE_LIMIT <= value <= SAFE_LIMIT or (value == 0 and math.copysign(1, value) < 0):
        raise Outside
    return int(value) if value == int(value) else value


def _wide(value: float) -> bool:
    return type(value) is int and not -SAFE_LIMIT <= value <= SAFE_LIMIT


def _numbers(left: Any, right: Any) -> bool:
    return type(left) in (int, float) and type(right) in (int, float)


def _not(value: _Closure) -> _Closure:
    return lambda values: not _truth(value(values))


def _negative(value: _Closure) -> _Closure:
    return lambda values: _minus(-0.0, value(values))


def _and(left: _Closure, right: _Closure) -> _Closure:
    return lambda values: right(values) if _truth(found := left(values)) else found


def _or(left: _Closure, right: _Closure) -> _Closure:
    return lambda values: found if _truth(found := left(values)) else right(values)


def _operation(operate: Callable[[Any, Any], Any]) -> Callable[[_Closure, _Closure], _Closure]:
    def compiled(left: _Closure, right: _Closure) -> _Closure:
        if isinstance(right, _Constant):
            constant = right.value
            return lambda values: operate(left(values), constant)
        return lambda values: operate(left(values), right(values))

    return compiled


def _arithmetic(operate: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if not _numbers(left, right) or _wide(left) or _wide(right):
            raise Outside
        try:
            return _number(operate(float(left), float(right)))
        except (ArithmeticError, ValueError):
            raise Outside from None

    return run


_minus: Final = _arithmetic(operator.sub)
_sum: Final = _arithmetic(operator.add)


def _plus(left: Any, right: Any) -> Any:
    if type(left) in (int, str) and type(right) in (int, str) and not _numbers(left, right):
        if len(text := f"{left}{right}") > _MAX_TEXT:
            raise Outside
        return text
    return _sum(left, right)


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if not (type(left) is type(right) is int or _numbers(left, right)) and not (
            type(left) is type(right) is str and left.isascii() and right.isascii()
        ):
            raise Outside
        return compare(left, right)

    return run


def _strictly(left: Any, right: Any) -> bool:
    containers = isinstance(left, list | dict) + isinstance(right, list | dict)
    if containers == 2:
        raise Outside
    return not containers and (type(left) is type(right) or _numbers(left, right)) and bool(left == right)


def _loosely(left: Any, right: Any) -> bool:
    empty = (left in (None, _UNDEFINED)) + (right in (None, _UNDEFINED))
    if not empty and type(left) is not type(right) and not _numbers(left, right):
        raise Outside
    return empty == 2 if empty else _strictly(left, right)


_CONSTANTS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None, "undefined": _UNDEFINED}
#: The binary operators, from the weakest to the strongest.
_LEVELS: Final[tuple[Mapping[str, Callable[[_Closure, _Closure], _Closure]], ...]] = (
    {"||": _or},
    {"&&": _and},
    {
        "===": _operation(_strictly),
        "!==": _operation(lambda left, right: not _strictly(left, right)),
        "==": _operation(_loosely),
        "!=": _operation(lambda left, right: not _loosely(left, right)),
    },
    {
        "<": _operation(_compared(operator.lt)),
        ">": _operation(_compared(operator.gt)),
        "<=": _operation(_compared(operator.le)),
        ">=": _operation(_compared(operator.ge)),
    },
    {"+": _operation(_plus), "-": _operation(_minus)},
    {
        "*": _operation(_arithmetic(operator.mul)),
        "/": _operation(_arithmetic(operator.truediv)),
        "%": _operation(_arithmetic(math.fmod)),
    },
)
