"""Texts that are JSON objects or lists, read as what they are: for messages that carry JSON in texts.

Source of the rule: Conductor's JsonUtils.expand, which forgets texts that are entries of a list.
"""

from __future__ import annotations

from conductorlite.canonical import MAX_DEPTH, parse
from conductorlite.errors import InvalidInput
from conductorlite.expressions.sources import Json

__all__ = ["expanded"]


def expanded(value: Json) -> Json:
    """A copy in which every text that begins with `{` or `[` is read as JSON, and a text at the top whatever it is.

    Once: texts in what was read stay texts. A text that is no JSON stays as it is, and so does one whose JSON would lie deeper
    than `canonical.MAX_DEPTH`.
    """
    return _read(value, 0) if isinstance(value, str) else _entries(value, 0)


def _entries(value: Json, depth: int) -> Json:
    if isinstance(value, dict):
        return {key: _entry(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_entry(item, depth + 1) for item in value]
    return value


def _entry(value: Json, depth: int) -> Json:
    if isinstance(value, str):
        return _read(value, depth) if value.lstrip().startswith(("{", "[")) else value
    return _entries(value, depth)


def _read(text: str, depth: int) -> Json:
    try:
        found = parse(text)
    except InvalidInput:
        return text
    return text if depth + _depth(found) > MAX_DEPTH else found


def _depth(value: Json) -> int:
    deepest = 0
    stack = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        entries = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack.extend((entry, depth + 1) for entry in entries)
    return deepest
