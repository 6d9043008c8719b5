"""A gate for regular expressions in definitions: refuses those that can run away, bounds the rest.

Python's `re` backtracks. The number of ways a pattern can match a text is at most the product of what each quantifier
and each alternative may choose, as long as no quantifier sits inside a repeated group: then it is
exponential, and refused.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from conductorlite.model.errors import ExpressionFailed, InvalidExpression
from conductorlite.model.later import pattern

__all__ = ["BoundedPattern", "bounded_pattern"]

#: Ways to match that a single test may have to try.
_MAX_WAYS: Final = 1_000_000
#: The same for a search, which begins again at each character: it is the length of the text once more.
_MAX_SEARCHED: Final = 20_000_000
_MAX_LENGTH: Final = 500

_UNBOUNDED: Final = -1
#: `{n}`: a repeat, but without a choice of its own.
_EXACT: Final = -2
_QUANTIFIER: Final = pattern(r"[*+?]|\{(\d*)(,?)(\d*)\}")
#: Where Python warns that it may once read them as Java does: an error for a program that makes errors of warnings.
_SET_IN_SET: Final = pattern(r"(?<!\\)(?:\\\\)*\[\^?(?:\[|\]?(?:\\.|[^\]\\])*?(?:--|&&|~~|\|\|))", re.DOTALL)
_PLAIN_GROUPS: Final = ("(?:", "(?P<")


@attrs.frozen(kw_only=True)
class BoundedPattern:
    """A compiled regular expression whose cost is known: `fixed` ways times length to the power of `unbounded`."""

    pattern: re.Pattern[str]
    fixed: int
    unbounded: int

    def ways(self, text: str) -> int:
        """Return how many ways there are at most to match the whole text."""
        return self.fixed * int((len(text) + 1) ** max(1, self.unbounded))

    def fullmatch(self, text: str) -> bool:
        """Return True if the whole text matches; raises ExpressionFailed when the text is too long to try in bounded time."""
        if self.ways(text) > _MAX_WAYS:
            raise ExpressionFailed(f"a text of {len(text)} characters is too long for /{self.pattern.pattern}/")
        return self.pattern.fullmatch(text) is not None

    def search(self, text: str) -> bool:
        """Return True if the text matches somewhere; raises ExpressionFailed if the text is too long to try in bounded time."""
        anchored = self.pattern.pattern.startswith("^") and "|" not in self.pattern.pattern
        if self.fixed * (len(text) + 1) ** max(1, self.unbounded + (not anchored)) > _MAX_SEARCHED:
            raise ExpressionFailed(f"a text of {len(text)} characters is too long for /{self.pattern.pattern}/")
        return self.pattern.search(text) is not None


def bounded_pattern(text: str, flags: int = 0) -> BoundedPattern:
    """Compile `text` (Python's syntax); raises InvalidExpression if it is broken, or could take exponential time."""
    if len(text) > _MAX_LENGTH:
        raise InvalidExpression(f"regular expression longer than {_MAX_LENGTH} characters")
    if _SET_IN_SET.search(text):
        raise InvalidExpression(f"regular expression /{text}/ may hold a set in a set, which is read in different ways")
    try:
        pattern = re.compile(text, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidExpression(f"regular expression /{text}/: {error}") from None
    fixed, unbounded = _cost(text)
    return BoundedPattern(pattern=pattern, fixed=fixed, unbounded=unbounded)


def _cost(text: str) -> tuple[int, int]:
    """Ways to match, as (product of bounded choices, number of unbounded repeats)."""
    fixed, unbounded = 1, 0
    groups: list[bool] = []  # per open group: does it hold a choice?
    closed: bool | None = None  # the group that the previous character closed
    position = 0
    while position < len(text):
        char = text[position]
        quantifier = _QUANTIFIER.match(text, position)
        if quantifier is not None and position and quantifier.group() != "{}":
            count = _repeats(quantifier)
            if closed and count != 1:
                raise InvalidExpression(f"regular expression /{text}/ repeats a group that holds a choice or a repeat")
            if count == _UNBOUNDED:
                unbounded += 1
            elif count != _EXACT:
                fixed *= count + 1
            groups = [True] * len(groups)
            position = quantifier.end()
            if text[position : position + 1] in ("?", "+"):  # lazy or possessive: the same choices
                position += 1
            closed = None
            continue
        closed = None
        if char == "\\":
            if text[position + 1 : position + 2].isdigit() and text[position + 1] != "0":
                raise InvalidExpression(f"regular expression /{text}/ uses a back reference")
            position += 2
        elif char == "[":
            position = _class_end(text, position)
        elif char == "(":
            position = _group_start(text, position)
            groups.append(False)
        elif char == ")":
            closed = groups.pop() if groups else None
            position += 1
        else:
            if char == "|":
                fixed *= 2
                groups = [True] * len(groups)
            position += 1
    return fixed, unbounded


def _repeats(quantifier: re.Match[str]) -> int:
    if quantifier.group() == "?":
        return 1
    if quantifier.group() in "*+":
        return _UNBOUNDED
    low, comma, high = quantifier.groups()
    if not comma:
        return 0 if int(low) < 2 else _EXACT
    return int(high) if high else _UNBOUNDED


def _group_start(text: str, position: int) -> int:
    if text[position + 1 : position + 2] != "?":
        return position + 1
    for opening in _PLAIN_GROUPS:
        if text.startswith(opening, position):
            end = text.find(">", position) if opening.endswith("<") else position + len(opening) - 1
            return end + 1
    raise InvalidExpression(f"regular expression /{text}/ uses a group other than (…), (?:…) and (?P<name>…)")


def _class_end(text: str, position: int) -> int:
    position += 1
    if text[position : position + 1] == "^":
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    while position < len(text) and text[position] != "]":
        position += 2 if text[position] == "\\" else 1
    return position + 1
