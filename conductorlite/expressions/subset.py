"""The conditions that Conductor's own loops and switches are mostly made of, compiled to closures.

Covered is only what provably cannot loop or call anything: paths below `$`, literals, comparisons, arithmetic, `&&`, `||`, `!`,
`?:`, and `if`/`else`/`return` around them, also as the body of a function that is called at once. Values are numbers, texts,
booleans, null and undefined; a list or a map is only walked through, compared with null, or tested for being there.

Everything else is QuickJS's: a text outside the grammar compiles to None, and an operation on values that the table here does not
know raises `Outside` while it is evaluated. Nothing here has an effect, so QuickJS can then begin from the start. What is
answered here QuickJS answers too: `tests/scripts` holds both against each other over all kinds of values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from conductorlite.expressions.sources import Json

__all__ = ["Outside", "Subset", "compile_subset"]

#: Longest text and deepest nesting that is compiled: closures call each other.
_MAX_TOKENS: Final = 250
_MAX_DEPTH: Final = 40
#: Longest text that is put together.
_MAX_TEXT: Final = 100_000
#: The widest whole number that a JavaScript number holds exactly.
_EXACT: Final = 2**53

_TOKEN: Final = re.compile(
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
_WORDS: Final = frozenset({"if", "else", "return", "function", "true", "false", "null", "undefined"})


class Outside(Exception):
    """The text, or an operation on the values at hand, is QuickJS's."""


class _Undefined:
    __slots__ = ()


_UNDEFINED: Final = _Undefined()
#: The completion of a statement that has no value, or has not returned.
_EMPTY: Final = _Undefined()

_Values = Mapping[str, Json]
_Closure = Callable[[_Values], Any]


class Subset(NamedTuple):
    """A compiled text and the first-level names it reads."""

    run: _Closure
    names: frozenset[str]

    def evaluate(self, values: _Values) -> Json:
        """The answer as JSON; raises Outside."""
        answer = self.run(values)
        if answer is _UNDEFINED or answer is _EMPTY or answer is None:
            return None
        if isinstance(answer, list | dict):
            raise Outside
        return answer


def compile_subset(text: str) -> Subset | None:
    """Compile a text of the subset; None when QuickJS is to have it."""
    try:
        parser = _Parser(_tokens(text))
        return Subset(parser.script(), frozenset(parser.names))
    except Outside:
        return None


class _Token(NamedTuple):
    kind: str
    text: str
    #: Whether a line ends before it.
    first: bool


_END: Final = _Token("end", "", True)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at, first = 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) > _MAX_TOKENS:
            raise Outside
        at, kind = found.end(), found.lastgroup or ""
        if kind == "space":
            first = first or "\n" in found[0] or "\r" in found[0]
            continue
        tokens.append(_Token(kind, found[0], first))
        first = False
    tokens.append(_END)
    return tokens


class _Parser:
    """Recursive descent; whatever it does not know is Outside."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._in_function = False
        self.names: set[str] = set()

    # -- statements ---------------------------------------------------------------------------------------------------

    def script(self) -> _Closure:
        """A function called at once, or statements, the last value of which is the answer."""
        if self._sees("(", "function", "(", ")", "{"):
            self._at += 4
            return self._called(")", "(", ")")
        if self._sees("function") and self._tokens[self._at + 1].kind == "name":
            name = self._tokens[self._at + 1].text
            if name in _WORDS or name == "$" or not self._sees("function", name, "(", ")", "{"):
                raise Outside
            self._at += 4
            return self._called(name, "(", ")")
        body = self._statements("")
        return _completion(body)

    def _called(self, *then: str) -> _Closure:
        self._in_function = True
        self._take("{")
        body = self._statements("}")
        self._take("}")
        for text in then:
            self._take(text)
        while self._sees(";"):
            self._take(";")
        if self._peek().kind != "end":
            raise Outside
        return _returned(body)

    def _statements(self, end: str) -> list[_Closure]:
        found = []
        while self._peek().kind != "end" and self._peek().text != end:
            if self._sees(";"):
                self._take(";")
            else:
                found.append(self._statement())
        if self._peek().text != end:
            raise Outside
        return found

    def _statement(self) -> _Closure:
        self._deeper()
        try:
            if self._sees("{"):
                self._take("{")
                body = self._statements("}")
                self._take("}")
                return self._block(body)
            if self._sees("if"):
                return self._if()
            if self._sees("return"):
                return self._return()
            value = self._expression()
            self._over()
            return _discard(value) if self._in_function else value
        finally:
            self._depth -= 1

    def _block(self, body: list[_Closure]) -> _Closure:
        return _returned(body) if self._in_function else _completion(body)

    def _if(self) -> _Closure:
        self._take("if")
        self._take("(")
        test = self._expression()
        self._take(")")
        yes = self._statement()
        no: _Closure | None = None
        if self._sees("else"):
            self._take("else")
            no = self._statement()
        return _chosen(test, yes, no, _EMPTY if self._in_function else _UNDEFINED)

    def _return(self) -> _Closure:
        if not self._in_function:
            raise Outside
        self._take("return")
        if self._peek().first and self._peek().kind != "end":
            raise Outside  # the line ends the statement
        if self._peek().text in (";", "}"):
            self._over()
            return lambda values: _UNDEFINED
        value = self._expression()
        self._over()
        return value

    def _over(self) -> None:
        """A statement ends with `;`, with its block, or with the text. What only a line ends is left to QuickJS."""
        if self._sees(";"):
            self._take(";")
        elif self._peek().text != "}" and self._peek().kind != "end":
            raise Outside

    # -- expressions --------------------------------------------------------------------------------------------------

    def _expression(self) -> _Closure:
        self._deeper()
        test = self._binary(0)
        if self._sees("?"):
            self._take("?")
            yes = self._expression()
            self._take(":")
            no = self._expression()
            test = _chosen(test, yes, no, _UNDEFINED)
        self._depth -= 1
        return test

    def _binary(self, level: int) -> _Closure:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek().text in _LEVELS[level] and self._peek().kind == "sign":
            sign = self._tokens[self._at].text
            self._at += 1
            left = _LEVELS[level][sign](left, self._binary(level + 1))
        return left

    def _unary(self) -> _Closure:
        self._deeper()
        try:
            if self._sees("!"):
                self._take("!")
                return _not(self._unary())
            if self._sees("-"):
                self._take("-")
                return _negative(self._unary())
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> _Closure:
        token = self._tokens[self._at]
        self._at += 1
        if token.kind == "number":
            return _constant(float(token.text) if "." in token.text else int(token.text))
        if token.kind == "text":
            return _constant(token.text[1:-1])
        if token.text == "(":
            inner = self._expression()
            self._take(")")
            return inner
        if token.text == "$":
            return self._path()
        if token.text in _CONSTANTS:
            return _constant(_CONSTANTS[token.text])
        raise Outside

    def _path(self) -> _Closure:
        keys: list[str | int] = []
        while True:
            if self._sees("."):
                self._take(".")
                token = self._tokens[self._at]
                if token.kind != "name":
                    raise Outside
                keys.append(token.text)
                self._at += 1
            elif self._sees("["):
                self._take("[")
                token = self._tokens[self._at]
                if token.kind == "text":
                    keys.append(token.text[1:-1])
                elif token.kind == "number" and "." not in token.text:
                    keys.append(int(token.text))
                else:
                    raise Outside
                self._at += 1
                self._take("]")
            else:
                break
        if not keys or self._sees("("):
            raise Outside
        self.names.add(str(keys[0]))
        return _read(str(keys[0]), tuple(keys[1:]))

    # -- tokens -------------------------------------------------------------------------------------------------------

    def _peek(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _sees(self, *texts: str) -> bool:
        upcoming = self._tokens[self._at : self._at + len(texts)]
        return [token.text for token in upcoming if token.kind in ("sign", "name")] == list(texts)

    def _take(self, text: str) -> None:
        if not self._sees(text):
            raise Outside
        self._at += 1

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Outside


# -- closures of statements -------------------------------------------------------------------------------------------


def _completion(body: list[_Closure]) -> _Closure:
    """The last value of a list of statements."""
    if len(body) == 1:
        return body[0]

    def run(values: _Values) -> Any:
        answer: Any = _EMPTY
        for statement in body:
            value = statement(values)
            if value is not _EMPTY:
                answer = value
        return answer

    return run


def _returned(body: list[_Closure]) -> _Closure:
    """What the first statement that returns has returned."""
    if len(body) == 1:
        return body[0]

    def run(values: _Values) -> Any:
        for statement in body:
            value = statement(values)
            if value is not _EMPTY:
                return value
        return _EMPTY

    return run


def _discard(value: _Closure) -> _Closure:
    def run(values: _Values) -> Any:
        value(values)
        return _EMPTY

    return run


def _chosen(test: _Closure, yes: _Closure, no: _Closure | None, without: _Undefined) -> _Closure:
    """A branch of an `if` or `?:`; `without` is what one without a value completes with."""

    def run(values: _Values) -> Any:
        if _truth(test(values)):
            answer = yes(values)
        elif no is not None:
            answer = no(values)
        else:
            return without
        return without if answer is _EMPTY else answer

    return run


# -- closures of expressions ------------------------------------------------------------------------------------------


def _constant(value: Any) -> _Closure:
    return lambda values: value


def _read(name: str, keys: tuple[str | int, ...]) -> _Closure:
    def run(values: _Values) -> Any:
        value: Any = values.get(name, _UNDEFINED)
        if value is _UNDEFINED and name in _INHERITED:
            raise Outside
        for key in keys:
            value = _member(value, key)
        kind = type(value)
        if kind is float:
            return _number(value)
        if kind is int and not -_EXACT <= value <= _EXACT:
            raise Outside
        return value

    return run


def _member(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        key = str(key)
        if key in value:
            return value[key]
        if key in _INHERITED:
            raise Outside
        return _UNDEFINED
    if isinstance(value, list):
        if key == "length":
            return len(value)
        if isinstance(key, int):
            return value[key] if key < len(value) else _UNDEFINED
    elif isinstance(value, str) and key == "length":
        return len(value) if value.isascii() else len(value.encode("utf-16-le", "surrogatepass")) // 2
    raise Outside


def _truth(value: Any) -> bool:
    return value is not _UNDEFINED and (isinstance(value, list | dict) or bool(value))


def _number(value: float) -> int | float:
    """A result as JavaScript would print it: whole numbers are integers. What only a double can be is QuickJS's."""
    if not math.isfinite(value) or abs(value) > _EXACT or (value == 0 and math.copysign(1, value) < 0):
        raise Outside
    return int(value) if value.is_integer() else value


def _both_numbers(left: Any, right: Any) -> bool:
    return type(left) in _NUMBERS and type(right) in _NUMBERS


def _not(value: _Closure) -> _Closure:
    return lambda values: not _truth(value(values))


def _negative(value: _Closure) -> _Closure:
    def run(values: _Values) -> Any:
        found = value(values)
        if type(found) not in _NUMBERS or found == 0:
            raise Outside
        return -found

    return run


def _and(left: _Closure, right: _Closure) -> _Closure:
    def run(values: _Values) -> Any:
        found = left(values)
        return right(values) if _truth(found) else found

    return run


def _or(left: _Closure, right: _Closure) -> _Closure:
    def run(values: _Values) -> Any:
        found = left(values)
        return found if _truth(found) else right(values)

    return run


def _operation(operate: Callable[[Any, Any], Any]) -> Callable[[_Closure, _Closure], _Closure]:
    return lambda left, right: lambda values: operate(left(values), right(values))


def _plus(left: Any, right: Any) -> Any:
    if _both_numbers(left, right):
        return _number(float(left) + float(right))
    if (type(left) in _PRINTED and type(right) in _PRINTED) and len(text := f"{left}{right}") <= _MAX_TEXT:
        return text
    raise Outside


def _arithmetic(operate: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if not _both_numbers(left, right):
            raise Outside
        try:
            return _number(operate(float(left), float(right)))
        except ArithmeticError:
            raise Outside from None
        except ValueError:
            raise Outside from None

    return run


def _compared(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        texts = type(left) is str and type(right) is str and left.isascii() and right.isascii()
        if not texts and not _both_numbers(left, right):
            raise Outside
        return compare(left, right)

    return run


def _strictly(left: Any, right: Any) -> bool:
    containers = isinstance(left, list | dict), isinstance(right, list | dict)
    if all(containers):
        raise Outside
    if any(containers):
        return False
    return bool(left == right) if type(left) is type(right) or _both_numbers(left, right) else False


def _loosely(left: Any, right: Any) -> bool:
    empty = left is None or left is _UNDEFINED, right is None or right is _UNDEFINED
    if any(empty):
        return all(empty)
    if type(left) is not type(right) and not _both_numbers(left, right):
        raise Outside
    return _strictly(left, right)


_NUMBERS: Final = frozenset({int, float})
_PRINTED: Final = frozenset({int, str})
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
        "<": _operation(_compared(lambda left, right: left < right)),
        ">": _operation(_compared(lambda left, right: left > right)),
        "<=": _operation(_compared(lambda left, right: left <= right)),
        ">=": _operation(_compared(lambda left, right: left >= right)),
    },
    {"+": _operation(_plus), "-": _operation(_arithmetic(lambda left, right: left - right))},
    {
        "*": _operation(_arithmetic(lambda left, right: left * right)),
        "/": _operation(_arithmetic(lambda left, right: left / right)),
        "%": _operation(_arithmetic(math.fmod)),
    },
)
