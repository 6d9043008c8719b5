"""Result of a search, as values and as text: the problems with their timelines, and a test to paste."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, Final

import attrs

from conductorlite.model.pickling import Portable
from conductorlite.model.texts import span_in_words

__all__ = ["ExplorationFailed", "Explored", "Problem", "paste"]

#: A member of an enumeration, as repr() shows it.
_ENUM: Final = re.compile(r"<(\w+\.\w+): '\w+'>")


@attrs.frozen(kw_only=True, slots=True)
class Problem:
    """Something that must not happen, and can: `schedule` is the fewest choices out of the ordinary that lead to it.

    `number` counts the schedules that were tried until it was found; `timeline` is what happens, `test` a test that it does.
    """

    name: str
    text: str
    workflow_id: str
    schedule: tuple[str, ...]
    timeline: str
    number: int
    test: str = ""

    def __str__(self) -> str:
        steps = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.schedule, 1)) or "  in the ordinary course"
        parts = [f"{self.name}: {self.text}", steps, "", self.timeline, "", self.test]
        return "\n".join(parts)


@attrs.frozen(kw_only=True, slots=True)
class Explored:
    """Result of an `explore`.

    `schedules` were tried over so many distinct `moments`. `exhausted` is true if nothing was left to try: no schedule leads to
    another problem. `unreached` are references that no schedule came to: if `exhausted`, none can. `longest_ms` and `most_calls`
    are the longest an execution can take and the most calls it can cost among what was tried, None where a way leads back to where
    it began. `bounds` names what was not searched (if `exhausted`, only time after `until=`); `merged` names the values that
    moments may differ in and were still merged, because no decision and no rule read them.
    """

    schedules: int
    moments: int
    exhausted: bool
    unreached: tuple[str, ...]
    longest_ms: int | None
    most_calls: int | None
    problems: tuple[Problem, ...] = ()
    bounds: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()

    def __str__(self) -> str:
        longest = "without end" if self.longest_ms is None else span_in_words(self.longest_ms)
        calls = "without end" if self.most_calls is None else str(self.most_calls)
        whole = "all there are" if self.exhausted else "a sample"
        plural = "" if self.schedules == 1 else "s"
        lines = [
            f"{self.schedules} schedule{plural} ({whole}), {self.moments} moments: {len(self.problems)} problems",
            f"longest: {longest}; most calls: {calls}",
        ]
        if self.bounds:
            lines.append(f"not searched: {'; '.join(self.bounds)}")
        if self.merged:
            lines.append(f"not read by any rule or definition, and so not distinguished: {'; '.join(self.merged)}")
        if self.unreached:
            lines.append(f"never reached: {', '.join(self.unreached)}")
        return "\n".join([*lines, *(f"\n{problem}" for problem in self.problems)])


class ExplorationFailed(Portable, AssertionError):
    """A search has found what must not happen: `explored` holds it."""

    def __init__(self, explored: Explored) -> None:
        self.explored = explored
        super().__init__(str(explored))


def paste(name: str, said: Mapping[str, Any], named: Sequence[str], found: Problem) -> str:
    """A test that runs a problem's schedule, with what is `named`, the definition and the invariants under names they may have."""
    plain = re.sub(r"[^0-9a-zA-Z_]", "_", name)
    workflow = plain if plain.isidentifier() and not iskeyword(plain) else f"workflow_{plain}"
    given = {key: _ENUM.sub(r"\1", repr(value)) for key, value in said.items() if value}
    called = re.sub(r"\W+", "_", f"{name} {found.name}".lower()).strip("_")
    options = "".join(f"        {key}={value},\n" for key, value in given.items())
    options += "".join(f"        {key}={key.upper()},\n" for key in named)
    schedule = "".join(f"            {step!r},\n" for step in found.schedule)
    return (
        f"def test_{called[:60].strip('_')}() -> None:\n"
        f"    explore(\n        {workflow},\n{options}        invariants=INVARIANTS,\n"
        f"        schedule=[\n{schedule}        ],\n    )"
    )
