"""Texts that are JSON objects or lists, read as what they are: for messages that carry JSON in texts.

Source of the rule: Conductor's JsonUtils.expand, which forgets texts that are entries of a list.
"""

from __future__ import annotations

from conductorlite.canonical import MAX_DEPTH, MAX_SIZE, parse
from conductorlite.errors import InvalidInput
from conductorlite.expressions.sources import Json

__all__ = ["expanded"]


def expanded(value: Json) -> Json:
    """A copy in which every text below the top that begins with `{` or `[` is read as JSON, as deep as it goes.

    A text that is no JSON stays as it is, and so does one that lies, or leads, deeper than `canonical.MAX_DEPTH`.
    """
    return _Expansion().value(value, 0)


class _Expansion:
    """Bounded by what is read altogether: texts within texts within texts could be read as often as they are deep."""

    def __init__(self) -> None:
        self.left = MAX_SIZE

    def value(self, value: Json, depth: int) -> Json:
        if isinstance(value, dict):
            return {key: self.entry(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.entry(item, depth + 1) for item in value]
        return value

    def entry(self, value: Json, depth: int) -> Json:
        if not isinstance(value, str):
            return self.value(value, depth)
        if not value.lstrip().startswith(("{", "[")) or len(value) > self.left:
            return value
        self.left -= len(value)
        try:
            found = parse(value)
        except InvalidInput:
            return value
        return value if _depth(found) + depth > MAX_DEPTH else self.value(found, depth)


def _depth(value: Json) -> int:
    deepest = 0
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        deepest = max(deepest, depth)
        entries = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        stack.extend((entry, depth + 1) for entry in entries)
    return deepest
