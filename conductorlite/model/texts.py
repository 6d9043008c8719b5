"""Texts for people out of anything: cut to a length, printable whatever they are made of; and what was meant by a name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["REASON_LENGTH", "cut", "did_you_mean", "error_text", "printable", "type_name"]

#: Longest text of a reason, as in Conductor.
REASON_LENGTH: Final = 500

#: Names looked through, and the longest that is compared: what is compared grows with the product of both lengths.
_MOST: Final = 2_000
_LONGEST: Final = 100


def printable(value: object, limit: int) -> str:
    """The text of anything, of at most `limit` characters, without what no store and no terminal takes; raises nothing.

    An object whose own text cannot be had is told by its type. (KeyboardInterrupt passes: it may be the user's.)
    """
    try:
        text = str.__str__(value) if isinstance(value, str) else str(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type_name(value)} without a text>"
    # A subclass may have answered, whose methods are its own.
    return cut(str.__str__(text), limit)


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters: of a longer one the beginning and the end, and how much is left out between."""
    if len(text) > limit:
        note = f" … {len(text)} characters in all … "
        kept = max(0, limit - len(note))
        head = kept - kept // 3
        text = f"{text[:head]}{note}{text[len(text) - (kept - head) :]}"[:limit]
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def type_name(value: object) -> str:
    """The name of an object's type, whatever its metaclass says."""
    return cut(type.__dict__["__name__"].__get__(type(value)), _LONGEST)


def error_text(error: BaseException, limit: int = REASON_LENGTH) -> str:
    """The type and the text of an error, whatever it is made of; the text has at most `limit` characters."""
    return f"{type_name(error)}: {printable(error, limit)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'price'?` for a name like one of those known, else an empty text."""
    if len(name) > _LONGEST:
        return ""
    from difflib import get_close_matches  # costs 5 ms that most programs never need

    names = [other for _, other in zip(range(_MOST), known, strict=False) if len(other) <= _LONGEST and other != name]
    found = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""
