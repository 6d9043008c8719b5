"""The words of a condition: numbers, texts, names and punctuation, with their places."""

from __future__ import annotations

import re
from typing import Final, NoReturn

import attrs

from conductorlite.errors import InvalidExpression

__all__ = ["MAX_TEXT", "OTHER_OPERATORS", "OTHER_WORDS", "RESERVED", "Token", "syntax_error", "tokenize", "unsupported"]

#: Longest condition in characters.
MAX_TEXT: Final = 10_000

#: JavaScript's operators and words that the subset lacks: named in the error.
OTHER_OPERATORS: Final = {
    "**": "the operator **", "++": "the operator ++", "--": "the operator --", "&": "a bitwise operator",
    "|": "a bitwise operator", "^": "a bitwise operator", "~": "a bitwise operator", "<<": "a bitwise operator",
    ">>": "a bitwise operator", ">>>": "a bitwise operator", "...": "a spread", "in": "the operator in",
    "instanceof": "the operator instanceof",
}  # fmt: skip
OTHER_WORDS: Final = frozenset(
    [
        "new",
        "for",
        "while",
        "do",
        "try",
        "throw",
        "class",
        "async",
        "await",
        "yield",
        "import",
        "export",
        "delete",
        "void",
        "with",
        "this",
        "super",
        "debugger",
        "continue",
        "Date",
        "JSON",
        "Object",
        "RegExp",
        "Promise",
        "Map",
        "Set",
        "Symbol",
        "console",
        "eval",
        "Function",
        "globalThis",
        "Error",
        "Intl",
        "Reflect",
        "Proxy",
    ]
)
RESERVED: Final = frozenset(
    [
        "if",
        "else",
        "switch",
        "case",
        "default",
        "break",
        "return",
        "function",
        "var",
        "let",
        "const",
        "typeof",
        "in",
        "instanceof",
        "catch",
        "finally",
    ]
)

_SKIP: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n\r]*|/\*(?:[^*]|\*(?!/))*\*/)+")
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAME: Final = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_PUNCTUATION: Final = re.compile(
    r">>>=|\.\.\.|===|!==|\*\*=|<<=|>>=|>>>|&&=|\|\|=|\?\?=|=>|==|!=|<=|>=|&&|\|\||\?\?|\?\.(?![0-9])|\+\+|--"
    r"|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<|>>|\*\*|[{}()\[\];,<>+\-*/%&|^!~?:=.@#\\]"
)
_TEXT_PLAIN: Final = {
    "'": re.compile(r"[^'\\\n\r]*"),
    '"': re.compile(r'[^"\\\n\r]*'),
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r": ""}
_HEX: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")


@attrs.frozen(kw_only=True)
class Token:
    """One word; `kind` is number, text, name, punctuation or end, `newline` says that a line ended before it."""

    kind: str
    text: str
    value: float | str | None
    position: int
    newline: bool


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line} column {position - text.rfind(chr(10), 0, position)}"


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


def syntax_error(text: str, position: int, reason: str) -> InvalidExpression:
    """The error for text that is no JavaScript."""
    return InvalidExpression(f"{reason} at {_place(text, position)} of {_quoted(text)}")


def unsupported(text: str, position: int, construct: str) -> InvalidExpression:
    """The error for JavaScript outside the subset."""
    return InvalidExpression(
        f"{construct} at {_place(text, position)} of {_quoted(text)} is outside the JavaScript that conditions know; "
        "for all of it: pip install 'conductorlite[javascript]'"
    )


def tokenize(text: str) -> list[Token]:
    """Split a condition into tokens, the last of kind `end`; raises InvalidExpression with the place."""
    if len(text) > MAX_TEXT:
        raise InvalidExpression(f"a condition of {len(text)} characters; {MAX_TEXT} are allowed")
    tokens: list[Token] = []
    position = 0
    newline = False
    while True:
        skipped = _SKIP.match(text, position)
        if skipped is not None:
            newline = newline or "\n" in skipped.group() or "\r" in skipped.group()
            position = skipped.end()
        if position >= len(text):
            tokens.append(Token(kind="end", text="", value=None, position=position, newline=newline))
            return tokens
        token = _token(text, position, newline)
        tokens.append(token)
        position = token.position + len(token.text)
        newline = False


def _token(text: str, position: int, newline: bool) -> Token:
    char = text[position]
    if char in "'\"":
        return _text(text, position, newline)
    if char == "`":
        raise unsupported(text, position, "a template literal")
    number = _NUMBER.match(text, position)
    if number is not None and (char != "." or number.end() > position + 1):
        following = text[number.end() : number.end() + 1]
        if following == "n":
            raise unsupported(text, position, "a BigInt")
        if following and (following.isalnum() or following in "_$"):
            raise syntax_error(text, position, "a broken number")
        found = number.group()
        value = float(int(found, 0)) if found[1:2] and found[1] in "xXoObB" else float(found)
        return Token(kind="number", text=found, value=value, position=position, newline=newline)
    name = _NAME.match(text, position)
    if name is not None:
        return Token(kind="name", text=name.group(), value=None, position=position, newline=newline)
    mark = _PUNCTUATION.match(text, position)
    if mark is None:
        raise syntax_error(text, position, f"an unexpected character {char!r}")
    return Token(kind="punctuation", text=mark.group(), value=None, position=position, newline=newline)


def _text(text: str, start: int, newline: bool) -> Token:
    quote = text[start]
    plain = _TEXT_PLAIN[quote]
    pieces: list[str] = []
    position = start + 1
    while True:
        found = plain.match(text, position)
        if found is not None:
            pieces.append(found.group())
            position = found.end()
        char = text[position : position + 1]
        if char == quote:
            break
        if char != "\\" or position + 1 >= len(text):
            raise syntax_error(text, start, "a text without its closing quote")
        position = _escape(text, position + 1, pieces)
    return Token(kind="text", text=text[start : position + 1], value="".join(pieces), position=start, newline=newline)


def _escape(text: str, position: int, pieces: list[str]) -> int:
    char = text[position]
    if char in "xu":
        found = _HEX.match(text, position)
        code = int(next(group for group in found.groups() if group), 16) if found is not None else -1
        if found is None or code > 0x10FFFF:
            _fail(text, position)
        pieces.append(chr(code))
        return found.end()
    pieces.append(_ESCAPES.get(char, char))
    return position + 1


def _fail(text: str, position: int) -> NoReturn:
    raise syntax_error(text, position, "a broken escape")
