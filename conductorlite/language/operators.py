"""The operators of a script as calls, so that whole numbers beyond 2^53 can be carried through JavaScript as BigInts.

JavaScript refuses to calculate with a BigInt beside a number, and `===` and `typeof` treat the two as different. `exact_operators`
rewrites a script that has been compiled before: `a + b` becomes `__exactly.add(a, b)`, and so on; `wide.js` defines the functions.
A whole number in the text that a double cannot hold becomes a BigInt. Lines stay where they are, so that places in errors are those
of the script.

Only what the rewriting needs is parsed: brackets, operands, and the operators that bind more strongly than `&`. Whatever else there
is (statements, `?:`, `&&`, assignments) separates one such expression from the next, and is copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from conductorlite.language.values import SAFE_LIMIT
from conductorlite.model.later import pattern

__all__ = ["exact_operators"]

#: What the object of the functions is called in a script.
_OBJECT: Final = "__exactly"
_SPACE: Final = pattern(r"(?:\A#![^\n]*|[\s\ufeff]|//[^\n\r\u2028\u2029]*|/\*.*?\*/)+", re.DOTALL)
_TOKEN: Final = pattern(
    r"""(?P<number>0[xXbBoO][\da-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?[\d_]+)?n?)
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<name>\#?(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]+\})+)
      | (?P<sign>>>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?!\d)|\+\+|--
            |\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|>>|\*\*|[-+*/%&|^!~<>=?:;,.()\[\]{}@`])""",
    re.VERBOSE | re.DOTALL,
)
_REGEX: Final = pattern(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_DECIMAL: Final = pattern(r"[1-9][\d_]*")
#: A script that makes BigInts itself keeps what JavaScript does with them.
_OWN_BIG_INTEGERS: Final = pattern(r"BigInt|bigint|\dn\b")

_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
#: Words that begin or divide statements, and with which no expression goes on.
_STATEMENTS: Final = frozenset(
    {
        "break", "case", "catch", "class", "const", "continue", "debugger", "default", "do", "else", "export", "extends", "finally",
        "for", "function", "if", "import", "return", "switch", "throw", "try", "var", "while", "with", "yield",
    }
)  # fmt: skip
#: Words behind which stands something in parentheses that is no operand.
_HEADED: Final = frozenset({"if", "while", "for", "with", "switch", "catch"})
_PREFIXES: Final = frozenset({"typeof", "void", "delete", "await", "new", "-", "+", "!", "~", "++", "--"})
#: Binary operators by how strongly they bind, and the functions that some become.
_LEVELS: Final = {
    sign: level
    for level, signs in enumerate(
        ("== != === !==", "< > <= >= in instanceof", "<< >> >>>", "+ -", "* / %", "**"),
    )
    for sign in signs.split()
}
_COMPARING: Final = {"===": "same", "!==": "differs", "<": "less", ">": "greater", "<=": "atMost", ">=": "atLeast"}
_ASSIGNING: Final = frozenset({"+=", "-=", "*=", "/=", "%=", "**="})
_CALCULATING: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "remainder", "**": "power"}


class _Token(NamedTuple):
    """A token, or a bracket with all that is in it; `before` is the space before it, `tail` that before the closing bracket."""

    kind: str
    text: str
    before: str
    inside: tuple[_Token, ...] = ()
    tail: str = ""

    @property
    def breaks(self) -> bool:
        """True if a line ends before it."""
        return "\n" in self.before or "\r" in self.before


#: Text in pieces, which are put together at the end.
_Pieces: TypeAlias = "str | tuple[_Pieces, ...]"


@lru_cache(maxsize=256)
def exact_operators(text: str) -> str:
    """A compiled script with its operators as calls; raises RecursionError for one that is nested too deeply."""
    tokens, tail = _Reader(text).tokens("")
    own = _OWN_BIG_INTEGERS.search(text) is not None
    return "".join(_flat((_Writer(tokens, own).pieces(), tail)))


class _Reader:
    """Divides a script into tokens; that it can be compiled is known."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def tokens(self, closing: str) -> tuple[tuple[_Token, ...], str]:
        """The tokens up to a closing bracket, and the space before it."""
        found: list[_Token] = []
        while True:
            space = _SPACE.match(self._text, self._at)
            before = "" if space is None else space[0]
            self._at += len(before)
            if self._at >= len(self._text) or (closing and self._text[self._at] == closing):
                self._at += 1
                return tuple(found), before
            found.append(self._token(before, found))

    def _token(self, before: str, left: list[_Token]) -> _Token:
        regex = _REGEX.match(self._text, self._at) if _may_begin_regex(left) else None
        matched = regex or _TOKEN.match(self._text, self._at)
        if matched is None:  # nothing that compiles
            self._at += 1
            return _Token("sign", self._text[self._at - 1], before)
        self._at = matched.end()
        if regex is not None:
            return _Token("text", regex[0], before)
        text, kind = matched[0], matched.lastgroup or ""
        if text in _CLOSING:
            inside, tail = self.tokens(_CLOSING[text])
            return _Token(text, text, before, inside, tail)
        return _Token("`", "`", before, tuple(self._template())) if text == "`" else _Token(kind, text, before)

    def _template(self) -> Iterator[_Token]:
        """Yield the parts of a template literal: its texts, and brackets for what is filled in."""
        start = self._at
        while self._at < len(self._text) and self._text[self._at] != "`":
            if self._text[self._at] == "\\":
                self._at += 2
            elif self._text.startswith("${", self._at):
                yield _Token("text", self._text[start : self._at + 1], "")
                self._at += 2
                inside, tail = self.tokens("}")
                yield _Token("{", "{", "", inside, tail)
                start = self._at
            else:
                self._at += 1
        self._at += 1
        yield _Token("text", self._text[start : self._at], "")


def _may_begin_regex(left: list[_Token]) -> bool:
    """Return True if a `/` behind these tokens begins a regular expression, and divides nothing."""
    last = left[-1] if left else None
    if last is None or last.kind == "{":
        return True
    if last.kind == "(":
        return len(left) > 1 and left[-2].text in _HEADED and not (len(left) > 2 and left[-3].text in (".", "?."))
    if last.kind == "name":
        word = last.text in _STATEMENTS or last.text in ("typeof", "void", "delete", "await", "in", "instanceof", "of", "new")
        return word and not (len(left) > 1 and left[-2].text in (".", "?."))
    return last.kind == "sign" and last.text not in ("++", "--")


def _flat(pieces: _Pieces) -> Iterator[str]:
    stack: list[_Pieces] = [pieces]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            yield top
        else:
            stack.extend(reversed(top))


class _Writer:
    """Writes the tokens of one bracket again, with calls in place of operators.

    Each part is written without the space before its first token, which its caller writes.
    """

    def __init__(self, tokens: tuple[_Token, ...], own_big_integers: bool) -> None:
        self._tokens, self._at, self._own = tokens, 0, own_big_integers

    def pieces(self) -> _Pieces:
        """All of them, with the space before the first."""
        found: list[_Pieces] = []
        begun = -1
        while (token := self._peek()) is not None:
            here, expression = self._at, self._binary(0)
            if expression is not None:
                found += (token.before, expression)
                begun = here
                continue
            if token.text in _ASSIGNING and not self._own:
                assigned = self._assigned(begun, found[-1]) if begun >= 0 else None
                if assigned is not None:
                    found += assigned
                    continue
            begun = -1
            self._copy(token, found)
            if token.text == "/=" and not self._own:
                found.append(" +")  # refuses a BigInt: one divided by another would lose the rest
            head = self._peek()
            if token.text in _HEADED and head is not None and head.text == "await":
                self._copy(head, found)
                head = self._peek()
            if token.text in _HEADED and head is not None and head.kind == "(":
                self._copy(head, found)
        return tuple(found)

    def _assigned(self, begun: int, target: _Pieces) -> tuple[_Pieces, ...] | None:
        """Return what follows the target of `+=` and the like; None, with nothing done, unless the target can be written twice."""
        here = self._at
        sign = self._tokens[here]
        if not all(_is_plain(token) for token in self._tokens[begun:here]):
            return None
        self._at += 1
        first, value, following = self._peek(), self._binary(0), self._peek()
        if (
            first is None
            or value is None
            or (following is not None and following.kind == "sign" and following.text not in (";", ","))
        ):
            self._at = here
            return None
        call = f"{_OBJECT}.{_CALCULATING[sign.text[:-1]]}("
        return (sign.before, "= ", call, target, ",", first.before, value, ")")

    def _copy(self, token: _Token, found: list[_Pieces]) -> None:
        self._at += 1
        found += (token.before, self._primary(token))

    def _binary(self, level: int) -> _Pieces | None:
        """An expression of operators that bind at least so strongly; None when none begins here."""
        first = self._peek()
        if first is None or _divides(first) or (first.text == "of" and self._at):
            return None
        left = self._unary()
        if left is None:
            return None
        adding: tuple[_Pieces, ...] = ()
        while self._goes_on(first):
            sign = self._tokens[self._at]
            strength = _LEVELS[sign.text]
            if strength < level:
                break
            right = self._right(strength)
            if right is None:
                break
            function = _COMPARING.get(sign.text) or (None if self._own else _CALCULATING.get(sign.text))
            if function == "add":
                adding = (*(adding or (f"{_OBJECT}.add(", left)), sign.before, ",", *right)
                continue
            left, adding = (*adding, ")") if adding else left, ()
            if function is None:
                left = (left, sign.before, sign.text, *right)
            else:
                left = (f"{_OBJECT}.{function}(", left, sign.before, ",", *right, ")")
        return (*adding, ")") if adding else left

    def _goes_on(self, first: _Token) -> bool:
        """Return True if the next token is a binary operator on what has been read; a block is no operand."""
        sign, last = self._peek(), self._tokens[self._at - 1]
        return (
            sign is not None and sign.kind in ("sign", "name") and sign.text in _LEVELS and not (last is first and last.kind == "{")
        )

    def _right(self, strength: int) -> tuple[_Pieces, _Pieces] | None:
        """Return what is at the right of the operator that comes next, with the space before it; None when nothing is."""
        here, power = self._at, self._tokens[self._at].text == "**"
        self._at += 1
        first = self._peek()
        right = self._binary(strength if power else strength + 1)
        if first is None or right is None:
            self._at = here
            return None
        return first.before, right

    def _unary(self) -> _Pieces | None:
        token = self._peek()
        if token is None or token.kind not in ("sign", "name") or token.text not in _PREFIXES:
            return self._operand()
        here = self._at
        self._at += 1
        operand = self._peek()
        inner = None if operand is None or (operand.kind == "(" and not operand.inside) else self._unary()
        if operand is None or inner is None:
            self._at = here
            return None
        written = (token.text, operand.before, inner)
        if self._own or (here and self._tokens[here - 1].kind == "{"):  # it may stand between two operands
            return written
        if token.text == "typeof":
            return (f"{_OBJECT}.kinds[", *written, "]")
        if token.text in ("-", "+") and operand.kind != "number":
            return (f"{_OBJECT}.{'negative' if token.text == '-' else 'positive'}(", operand.before, inner, ")")
        return written

    def _operand(self) -> _Pieces | None:
        token = self._peek()
        if token is None or token.kind == "sign" or _divides(token):
            return None
        self._at += 1
        found: list[_Pieces] = [self._primary(token)]
        while (suffix := self._peek()) is not None:
            if suffix.text in (".", "?."):
                self._copy(suffix, found)
                member = self._peek()
                if member is not None and (member.kind == "name" or suffix.text == "?."):
                    self._copy(member, found)
            elif token.kind == "{" and len(found) == 1:
                break
            elif suffix.kind in ("(", "[", "`") or (suffix.text in ("++", "--") and not suffix.breaks):
                self._copy(suffix, found)
            else:
                break
        return tuple(found)

    def _primary(self, token: _Token) -> _Pieces:
        if token.kind == "`":
            return ("`", *(self._primary(piece) for piece in token.inside))
        if token.kind in _CLOSING:
            return (token.text, _Writer(token.inside, self._own).pieces(), token.tail, _CLOSING[token.kind])
        if token.kind == "number" and not self._own and _DECIMAL.fullmatch(token.text) is not None:
            digits = token.text.replace("_", "")
            return f"{digits}n" if len(digits) > 15 and int(digits) > SAFE_LIMIT else token.text
        return token.text

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None


def _is_plain(token: _Token) -> bool:
    """Return True if a part of a reference calls nothing: a name, a point, or a name or literal in brackets."""
    if token.kind == "[":
        return len(token.inside) == 1 and token.inside[0].kind in ("name", "number", "text")
    return token.kind == "name" or token.text == "."


def _divides(token: _Token) -> bool:
    return token.kind == "name" and (token.text in _STATEMENTS or token.text in ("in", "instanceof"))
