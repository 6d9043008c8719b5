"""Texts for people, and texts from people.

Texts for people are cut to a length and printable whatever they are made of; a name that is not known gets the one that was meant.

Lengths of time as public calls take them are a text such as `"90s"`, `"5m"` or `"1d 2h"`, or a timedelta. A number is taken only
where the name of the argument says its unit (`retry_delay_ms`, `retry_delay_seconds`), and there a text or a timedelta will do as
well. Inside the library every length of time is whole milliseconds.

Points in time name a time zone (`to_instant`). Inside the library they are epoch milliseconds, UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from importlib import import_module
from typing import Any, Final, TypeVar

import attrs

from conductorlite.model.errors import InvalidInput
from conductorlite.model.later import pattern

__all__ = [
    "REASON_LENGTH",
    "InNotebook",
    "Instant",
    "Listing",
    "Milliseconds",
    "Seconds",
    "Span",
    "as_map",
    "as_text",
    "brief",
    "class_name",
    "cut",
    "did_you_mean",
    "error_text",
    "escape_for_log",
    "format_traceback",
    "instant_in_words",
    "instant_text",
    "member_of",
    "optional_ms",
    "plain_ms",
    "printable",
    "span_in_words",
    "to_instant",
    "to_instant_since",
    "to_ms",
    "to_seconds",
    "to_span",
    "type_name",
]

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

#: Longest text of a reason, as in Conductor.
REASON_LENGTH: Final = 500

#: Names looked through, and the longest that is compared: what is compared grows with the product of both lengths.
_MOST: Final = 2_000
_LONGEST: Final = 100


class InNotebook:
    """Object that a notebook shows as a picture or a table: IPython and others ask for `_repr_html_`."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        # By name, when it is asked for: how things look is known far above.
        shown: str | None = import_module("conductorlite.runtime.notebook").html_of(self)
        return shown


class Listing(list[T], InNotebook):
    """A list that a notebook shows as a table."""

    __slots__ = ()


def printable(value: object, limit: int) -> str:
    """The text of anything, of at most `limit` characters, without what no store and no terminal takes; raises nothing.

    An object whose own text cannot be read is shown by its type. (KeyboardInterrupt passes: it may be the user's.)
    """
    try:
        text = value if type(value) is str else str.__str__(value) if isinstance(value, str) else str(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type_name(value)} without a text>"
    # A subclass may have answered, whose methods are its own.
    text = str.__str__(text)
    return text if text.isascii() and len(text) <= limit and "\0" not in text else cut(text, limit)


def cut(text: str, limit: int) -> str:
    """A text of at most `limit` characters: of a longer one the beginning and the end, and how much is left out between."""
    if len(text) > limit:
        note = f" … {len(text)} characters in all … "
        kept = max(0, limit - len(note))
        head = kept - kept // 3
        text = f"{text[:head]}{note}{text[len(text) - (kept - head) :]}"[:limit]
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def type_name(value: object) -> str:
    """The name of an object's type, whatever its metaclass says."""
    return class_name(type(value))


def class_name(kind: type) -> str:
    """The name of a class, whatever its metaclass says."""
    return cut(type.__dict__["__name__"].__get__(kind), _LONGEST)


def error_text(error: BaseException, limit: int = REASON_LENGTH) -> str:
    """The type and the text of an error, whatever it is made of; the text has at most `limit` characters."""
    return f"{type_name(error)}: {printable(error, limit)}"


def brief(value: Any) -> str:
    """An object of fields as it would be written: without those that are as they are anyway."""
    given: list[str] = []
    for field in attrs.fields(type(value)):
        factory = getattr(field.default, "factory", None)
        default = field.default if factory is None else factory()
        if (found := getattr(value, field.name)) != default:
            given.append(f"{field.name}={found!r}")
    return f"{type(value).__name__}({', '.join(given)})"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'price'?` for a name like one of those known, else an empty text.

    First comes one that differs by case, underscores, hyphens and blanks alone.
    """
    if len(name) > _LONGEST:
        return ""
    from difflib import get_close_matches  # costs 5 ms that most programs never need

    names = [other for _, other in zip(range(_MOST), known, strict=False) if len(other) <= _LONGEST and other != name]
    spelling = _spelling(name)
    found = [other for other in names if spelling and _spelling(other) == spelling] or get_close_matches(
        name, names, n=1, cutoff=0.6
    )
    if not found:
        folded = {other.casefold(): other for other in names}
        found = [folded[other] for other in get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)]
    return f"; did you mean {str(found[0])!r}?" if found else ""


def member_of(kind: type[E], value: object, what: str) -> E:
    """The member of an enumeration that a value names; raises InvalidInput, which lists them and the nearest."""
    if type(value) is kind:
        return value
    known = [str(one.value) for one in kind]
    if not isinstance(value, str):
        raise InvalidInput(f"{what} is a text, one of {', '.join(known)}, and not {printable(value, 60)}")
    if value not in known:
        raise InvalidInput(f"{what} {cut(value, 60)!r} is none of {', '.join(known)}{did_you_mean(value, known)}")
    return kind(value)


def as_map(value: object, what: str) -> dict[str, Any]:
    """A copy of a mapping; raises InvalidInput for anything else."""
    if type(value) is dict or isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        raise InvalidInput(f"{what} is a mapping, and not the text {cut(value, 60)!r}; read JSON with json.loads first")
    raise InvalidInput(f"{what} is a mapping, and not {printable(value, 60)}")


def as_text(value: object, what: str) -> str:
    """A text as it is; raises InvalidInput for anything else."""
    if isinstance(value, str):
        return value
    raise InvalidInput(f"{what} is a text, and not {printable(value, 60)}")


def _spelling(name: str) -> str:
    return name.casefold().translate(_SEPARATORS)


_SEPARATORS: Final = {ord(sign): None for sign in "_- "}


#: What public calls accept as a length of time: a timedelta, or text such as "90s", "5m", "1d 2h"; a number has no unit.
Span = str | timedelta

#: What is accepted where the name says `_ms`: a number of them, too.
Milliseconds = int | str | timedelta

#: What is accepted where the name says `_seconds`: a number of them, too.
Seconds = int | float | str | timedelta

_UNITS: Final = {"ms": 1} | {
    word: factor
    for factor, words in (
        (1_000, "s sec secs second seconds"),
        (60_000, "m min mins minute minutes"),
        (3_600_000, "h hr hrs hour hours"),
        (86_400_000, "d day days"),
    )
    for word in words.split()
}
_PART: Final = pattern(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]+)", re.ASCII)

#: What JSON numbers carry exactly, and a 64-bit column holds with room to spare.
_LONGEST_MS: Final = 2**53 - 1
_LONGEST_TEXT: Final = 100


#: What public calls accept as a point in time: epoch ms, a datetime with a time zone, or ISO 8601 text with an offset.
Instant = int | str | datetime

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_instant(value: Instant) -> int:
    """Epoch milliseconds of a point in time.

    This is the rule for every instant that enters: what names no time zone is no point in time, and is refused rather than read as
    UTC or as local time. Raises InvalidInput, which says what to write.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    moment: object = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(f"{value!r:.80} is not a point in time: {_FORMS}") from None
    if not isinstance(moment, date | time):
        raise InvalidInput(f"{value!r:.80} is not a point in time: {_FORMS}")
    # The methods of datetime itself: a subclass may answer something else (pandas' NaT is one).
    if not isinstance(moment, datetime) or moment.tzinfo is None or datetime.utcoffset(moment) is None:
        raise InvalidInput(f"{value!r:.80} names no point in time, as it {_lacks(moment)}: {_FORMS}")
    try:
        return datetime.__sub__(moment, _EPOCH) // timedelta(milliseconds=1)
    except OverflowError:
        raise InvalidInput(f"{value!r:.80} is beyond the calendar") from None


#: What is accepted, for errors.
_FORMS: Final = (
    "give epoch ms or ISO 8601 text with an offset (2030-01-31T09:00Z, 2030-01-31T09:00-05:00), or a datetime with a time zone "
    "(datetime.now(UTC), or local.astimezone() for a reading of this machine's wall clock)"
)


def _lacks(moment: date | time) -> str:
    if isinstance(moment, datetime):
        return "has no time zone"
    return "has no date" if isinstance(moment, time) else "has no time of day and no time zone"


def to_span(value: Span) -> int:
    """Milliseconds of a length of time; raises InvalidInput when it is none, is negative, or is a number without a unit."""
    number: object = value
    if isinstance(number, int | float) and not isinstance(number, bool):
        if number == 0:
            return 0  # in whatever unit
        raise InvalidInput(f"{value!r:.40} is a length of time without a unit: write '{value!r:.40}s' or '{value!r:.40}ms'")
    return to_ms(value)


def to_instant_since(value: Instant | Span, start: int) -> int:
    """Epoch milliseconds of a point in time, or of a length of time ("90s", a timedelta) after `start`.

    Raises InvalidInput when it is neither.
    """
    if isinstance(value, timedelta):
        return start + to_span(value)
    if isinstance(value, str):
        try:
            return start + to_span(value)
        except InvalidInput:
            pass
    return to_instant(value)


def to_ms(value: Milliseconds) -> int:
    """Whole milliseconds of a number of them, a text or a timedelta; raises InvalidInput when it is negative or none of these."""
    if isinstance(value, timedelta):
        span = round(value / timedelta(milliseconds=1))
    elif isinstance(value, str):
        span = _parsed(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        span = value
    else:
        raise InvalidInput(f"{value!r:.80} is not a length of time")
    if span < 0:
        raise InvalidInput(f"{value!r:.80} is negative")
    if span > _LONGEST_MS:
        raise InvalidInput(f"{value!r:.80} is too long")
    return span


def to_seconds(value: Seconds) -> int:
    """Whole milliseconds of a number of seconds, a text or a timedelta; raises as `to_ms`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value) or abs(value) > _LONGEST_MS:
            raise InvalidInput(f"{value!r:.80} is not a length of time")
        return to_ms(round(value * 1_000))
    return to_ms(value)


def plain_ms(value: Milliseconds) -> int:
    """Return the value that a field in ms is set to: a number is left to the validator. Raises InvalidInput for another text."""
    return to_ms(value) if isinstance(value, str | timedelta) else value


def optional_ms(value: Milliseconds | None) -> int | None:
    """As `plain_ms`, for a field that may be None."""
    return to_ms(value) if isinstance(value, str | timedelta) else value


def _parsed(text: str) -> int:
    total, at = 0.0, 0
    stripped = text.strip() if len(text) <= _LONGEST_TEXT else ""
    while at < len(stripped):
        found = _PART.match(stripped, at)
        if found is None or found[2] not in _UNITS:
            break
        total += float(found[1]) * _UNITS[found[2]]
        at = found.end()
    if not stripped or at < len(stripped):
        raise InvalidInput(f"{text!r:.80} is not a length of time such as '90s', '5m' or '1d 2h'")
    if total > _LONGEST_MS:
        raise InvalidInput(f"{text!r:.80} is too long")
    return round(total)


_WORDS: Final = ((86_400_000, "day"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span_in_words(span_ms: int) -> str:
    """A length of time in at most two units: `450 ms`, `3 s`, `1 min 30 s`, `29 days 23 h`."""
    if span_ms < 1_000:
        return f"{span_ms} ms"
    place = next(place for place, (size, _) in enumerate(_WORDS) if span_ms >= size)
    (size, unit), *smaller = _WORDS[place : place + 2]
    rest = [(span_ms % size // below, name) for below, name in smaller]
    return " ".join(_counted(number, name) for number, name in [(span_ms // size, unit), *rest] if number)


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}s" if unit == "day" and number != 1 else f"{number} {unit}"


def instant_in_words(at: int) -> str:
    """An instant (epoch ms) in UTC, to the second."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at)
    except OverflowError:
        return f"{at} ms after 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def instant_text(at: int) -> str:
    """An instant in ISO 8601, in UTC, as Java writes it: with ms where there are any."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    return f"{moment.isoformat(timespec='milliseconds' if at % 1000 else 'seconds')[:-6]}Z"


def escape_for_log(text: str) -> str:
    """A text of a stranger's for one line of a log: what is no printable ASCII as escapes, a backslash doubled."""
    return text.encode("unicode_escape").decode("ascii")


def format_traceback(error: BaseException) -> str:
    """A traceback for a log: indented, so that no text in it looks like another entry, and its control characters as escapes."""
    import traceback

    lines = "".join(traceback.format_exception(error)).split("\n")
    shown = ("".join(one if one.isprintable() else escape_for_log(one) for one in line) for line in lines)
    return "\n".join(f"  {line}" for line in shown if line)
