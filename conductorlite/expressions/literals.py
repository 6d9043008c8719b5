"""JSON as Conductor's paths hold it, in filters and arguments: texts may stand in single quotes or in none."""

from __future__ import annotations

import json
import re
from typing import Final

from conductorlite.errors import InvalidExpression
from conductorlite.expressions.sources import Json

__all__ = ["read_literal", "unescape"]

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
