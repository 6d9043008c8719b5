"""Lengths of time, instants and lists as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["TOLD", "instant_in_words", "listed", "span_in_words"]

#: How many open tasks, references and failures are told one by one.
TOLD: Final = 5

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS: Final = ((86_400_000, "day"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span_in_words(span_ms: int) -> str:
    """A length of time in at most two units: `450 ms`, `3 s`, `1 min 30 s`, `29 days 23 h`."""
    if span_ms < 1_000:
        return f"{span_ms} ms"
    for place, (size, unit) in enumerate(_UNITS):
        if span_ms >= size:
            words = [_count(span_ms // size, unit)]
            rest = 0
            if place + 1 < len(_UNITS):
                smaller, below = _UNITS[place + 1]
                rest = span_ms % size // smaller
                words += [_count(rest, below)] if rest else []
            return " ".join(words)
    return f"{span_ms} ms"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}s" if unit == "day" and number != 1 else f"{number} {unit}"


def instant_in_words(at: int) -> str:
    """An instant (epoch ms) in UTC, to the second."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at)
    except OverflowError:
        return f"{at} ms after 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`; of many the first ones, and how many more there are."""
    shown = list(words[:TOLD])
    if len(words) > TOLD:
        shown.append(f"{len(words) - TOLD} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
