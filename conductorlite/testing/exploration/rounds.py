"""Choices that are made again in each round of a loop.

A loop that has no end goes round in a circle of moments: what was chosen in one round, or in a few, can be chosen again in all that
follow. Wherever a course comes to a new round, or has an execution started of a definition that it has run before, the search tries
that: a choice with `, ever after` is made again in each later round, one with `, every 2 rounds after` in every second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from conductorlite.model.definitions import LOOP_DELIMITER
from conductorlite.model.executions import HistoryEvent, HistoryKind
from conductorlite.testing.exploration.cases import ROOT, Action
from conductorlite.testing.steps import base_ref

__all__ = ["Lasting", "Marks", "begun", "repeated", "skeleton"]

#: How many rounds the longest circle has that is looked for.
_PERIODS: Final = 3

_EVER: Final = re.compile(r", (?:ever after|every (\d+) rounds after)\Z")
#: Numbers of rounds, and of executions that were started by others.
_ROUND: Final = re.compile(rf"(?<={LOOP_DELIMITER})\d+|(?<=\bother-)\d+")

#: Where on a course rounds have begun, each with how many choices had been made before.
Marks = tuple[tuple[str, int], ...]


def begun(history: Iterable[tuple[str, Sequence[HistoryEvent]]], name_of: Callable[[str], str]) -> list[str]:
    """Return the loops of which a round has begun, and the names of definitions of which an execution was started by another."""
    found = []
    for owner, lines in history:
        for line in lines:
            if line.kind is HistoryKind.ROUND:
                found.append(f"{name_of(owner)} {base_ref(line.ref or '')}")
            elif line.n == 1 and owner.partition("-")[0] != ROOT:
                found.append(name_of(owner))
    return list(dict.fromkeys(found))


def repeated(marks: Marks, loop: str, chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Schedules in which the choices of the last round, or of the last two or three, are made again in all that follow."""
    starts = [at for one, at in marks if one == loop][-_PERIODS:]
    for period, start in enumerate(reversed(starts), 1):
        suffix = ", ever after" if period == 1 else f", every {period} rounds after"
        if chosen[start:] and not any(map(_EVER.search, chosen[start:])):
            yield (*chosen[:start], *(one + suffix for one in chosen[start:]))


def skeleton(schedule: Iterable[str]) -> str:
    """Return a schedule without the numbers of rounds, as one text."""
    return _ROUND.sub("*", "\n".join(schedule))


class Lasting:
    """The choices of a schedule that are made again in later rounds."""

    def __init__(self) -> None:
        self._begun: list[tuple[str, list[int], int]] = []
        self._made: set[tuple[str, object]] = set()

    @staticmethod
    def plain(text: str) -> str:
        """A choice as it is made the first time."""
        return _EVER.sub("", text)

    def begin(self, text: str, action: Action) -> None:
        """Note that a choice was made; one that lasts is made again from now on."""
        found = _EVER.search(text)
        if found is not None:
            plain = text[: found.start()]
            self._begun.append((_ROUND.sub("*", plain), _rounds(plain), int(found[1] or 1)))
            self._made.add((plain, _subject(action)))

    def next(self, texts: Mapping[str, Action]) -> str | None:
        """Return the choice that is to be made again now, if there is one."""
        for text, action in texts.items() if self._begun else ():
            for plain, rounds, period in self._begun:
                if _ROUND.sub("*", text) == plain and (text, _subject(action)) not in self._made and _fits(text, rounds, period):
                    self._made.add((text, _subject(action)))
                    return text
        return None


def _rounds(text: str) -> list[int]:
    return [int(found) for found in _ROUND.findall(text)]


def _fits(text: str, rounds: Sequence[int], period: int) -> bool:
    return all((later - before) % period == 0 for later, before in zip(_rounds(text), rounds, strict=True))


def _subject(action: Action) -> object:
    """What distinguishes two choices of one name: the execution, or the call that is reported."""
    if action.message is not None:
        return action.message.workflow_id
    return action.value[0] if isinstance(action.value, tuple) else action.number
