"""Python source laid out: on one line where it fits, else a part on each, as formatters do it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, Protocol

import attrs

__all__ = ["WIDTH", "Call", "Code", "Group", "Plain", "Text", "quoted"]

#: Characters of a line, as formatters have it where nobody says otherwise.
WIDTH: Final = 88


class Code(Protocol):
    """An expression."""

    @property
    def flat(self) -> str:
        """It on one line."""

    def lines(self, indent: int, used: int) -> str:
        """It on as many lines as it takes, of which the first has `used` characters already; later ones are indented."""


@attrs.frozen(slots=True)
class Plain:
    """What stands on one line however long it is."""

    flat: str

    def lines(self, indent: int, used: int) -> str:
        """It as it is."""
        return self.flat


@attrs.frozen(slots=False)
class Text:
    """A text, of which a long one is cut between words and after line ends."""

    value: str

    @cached_property
    def flat(self) -> str:
        """It on one line."""
        return quoted(self.value)

    def lines(self, indent: int, used: int) -> str:
        """In brackets, a piece on each line."""
        if used + len(self.flat) <= WIDTH or not any(c in self.value for c in " \n"):
            return self.flat
        pieces = "\n".join(" " * (indent + 4) + quoted(piece) for piece in self._pieces(max(20, WIDTH - indent - 8)))
        return f"(\n{pieces}\n{' ' * indent})"

    def _pieces(self, width: int) -> Iterator[str]:
        piece = ""
        for line in self.value.splitlines(keepends=True):
            for word in re.findall("[^ ]* |[^ ]+", line):
                if piece and len(quoted(piece + word)) > width:
                    yield piece
                    piece = ""
                piece += word
            if piece:
                yield piece
                piece = ""


@attrs.frozen(slots=False)
class Group:
    """What stands in brackets, each part with what comes before it: a key, the name of an argument."""

    head: str
    parts: Sequence[tuple[str, Code]]
    tail: str

    @cached_property
    def flat(self) -> str:
        """It on one line."""
        return f"{self.head}{', '.join(key + part.flat for key, part in self.parts)}{self.tail}"

    def lines(self, indent: int, used: int) -> str:
        """A part on each line, where one does not suffice."""
        if used + len(self.flat) <= WIDTH or not self.parts:
            return self.flat
        below, space = indent + 4, " " * (indent + 4)
        shown = [f"{space}{key}{part.lines(below, below + len(key) + 1)},\n" for key, part in self.parts]
        return f"{self.head}\n{''.join(shown)}{' ' * indent}{self.tail}"


@attrs.frozen(slots=False)
class Call:
    """Groups one after the other: `charge.options(name="deposit")(amount=10)`; the last one is broken first."""

    groups: Sequence[Group]

    @cached_property
    def flat(self) -> str:
        """It on one line."""
        return "".join(group.flat for group in self.groups)

    def lines(self, indent: int, used: int) -> str:
        """It on as many lines as it takes."""
        *first, last = self.groups
        text = "".join(group.flat for group in first)
        if first and used + len(text) + len(last.head) > WIDTH:
            text = "".join(group.lines(indent, used if group is first[0] else WIDTH) for group in first)
        return text + last.lines(indent, used + len(text.rpartition("\n")[2]))


def quoted(value: str) -> str:
    """A text as formatters write it: in double quotes, where that needs no more backslashes."""
    shown = repr(value)
    if shown[0] == "'" and '"' not in value:
        shown = f'"{shown[1:-1]}"'
    return shown
