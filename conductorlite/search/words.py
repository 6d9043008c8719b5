"""Free text: what counts as a word, and what is asked of the words of a document.

A word is a run of letters and digits, without case and accents; each sign of a script without spaces is a word of its own. Words
are kept as ASCII (`é` is `e`, `я` is `z44fz`), so that every index that splits at spaces keeps them as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final

import attrs

from conductorlite.errors import InvalidQuery

__all__ = ["BREAK", "Phrase", "contains", "free_text", "joined", "words_of"]

#: A word nobody can ask for: it keeps phrases from reaching out of one value into the next.
BREAK: Final = "\N{BROKEN BAR}"

#: Characters of a word that count, of a free text that are taken, and how many words may be asked for.
_WORD: Final = 64
_MAX_TEXT: Final = 10_000
_MAX_WORDS: Final = 100

#: Characters of which it is kept what they are without case and accents.
_REMEMBERED: Final = 10_000

_PLAIN: Final = re.compile(r"[a-z0-9]+")
#: Han, kana, Thai, Lao, Khmer, Burmese: written without spaces.
_ALONE: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_FOLDED: Final = re.compile(rf"(?=[^\W_])[{_ALONE}]|[^\W_{_ALONE}]+")
_ASKED: Final = re.compile(r'"([^"]*)("|$)(\*?)|([^\s"]+)')


@attrs.frozen(slots=True)
class Phrase:
    """Words that follow one another; with `open`, the last one may go on."""

    words: tuple[str, ...]
    open: bool = False


class _Bare(dict[int, str]):
    """Characters without case and accents, each by itself: a text folded as a whole sorts its accents, in quadratic time."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", chr(code).casefold())
        bare = "".join(sign for sign in folded if not unicodedata.combining(sign))
        if len(self) < _REMEMBERED:
            self[code] = bare
        return bare


_BARE: Final = _Bare()


def words_of(text: str, most: int | None = None) -> list[str]:
    """The words of a text, in order; with `most` no more than the first ones."""
    return list(islice(_words(text), most))


def _words(text: str) -> Iterator[str]:
    if text.isascii():
        yield from (match.group()[:_WORD] for match in _PLAIN.finditer(text.lower()))
    else:
        yield from (_ascii(match.group())[:_WORD] for match in _FOLDED.finditer(text.translate(_BARE)))


def _ascii(word: str) -> str:
    return word if word.isascii() else "".join(sign if sign.isascii() else f"z{ord(sign):x}z" for sign in word[:_WORD])


def joined(pieces: list[list[str]]) -> str:
    """The words of several values as one text, with breaks between them."""
    return f" {BREAK} ".join(" ".join(words) for words in pieces if words)


def contains(words: str, phrase: Phrase) -> bool:
    """Whether a joined text holds a phrase."""
    wanted = " " + " ".join(phrase.words)
    return (wanted if phrase.open else wanted + " ") in f" {words} "


def free_text(text: str) -> tuple[Phrase, ...]:
    """What a free text asks for, all of it: words, `"phrases"`, `beginnings*`. Empty, or `*`: nothing.

    A word with punctuation inside (`order-42`) is a phrase. Raises InvalidQuery for an open quote, for what has no letter or digit,
    and for more than 10,000 characters or 100 words.
    """
    if len(text) > _MAX_TEXT:
        raise InvalidQuery(f"the free text has more than {_MAX_TEXT:,} characters", _MAX_TEXT)
    if text.strip() in ("", "*"):
        return ()
    found: list[Phrase] = []
    for match in _ASKED.finditer(text):
        quoted, end, star, bare = match.groups()
        if quoted is not None and not end:
            raise InvalidQuery("a phrase has no closing quote", match.start())
        asked = quoted if bare is None else bare.removesuffix("*")
        words = tuple(words_of(asked, _MAX_WORDS + 1))
        if not words:
            raise InvalidQuery("there is no letter or digit to look for", match.start())
        found.append(Phrase(words, open=bool(star) if bare is None else bare.endswith("*")))
        if sum(len(phrase.words) for phrase in found) > _MAX_WORDS:
            raise InvalidQuery(f"the free text asks for more than {_MAX_WORDS} words", match.start())
    return tuple(found)
