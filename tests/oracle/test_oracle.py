"""The oracle: a slice decides as the whole does, memory writes what SQLite writes, and no law is broken on the way."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from tape import TAPES, Shape, Tape, draw_definition, draw_operations, many
from twins import Matrix, Twins, of_variant

from conductorlite.model.decisions import EventKind

OPERATORS = (
    *("SIMPLE", "FORK_JOIN", "JOIN", "SWITCH", "DO_WHILE", "WAIT", "NOOP"),
    *("SET_VARIABLE", "SUB_WORKFLOW", "INLINE", "TERMINATE"),
    *("FORK_JOIN_DYNAMIC", "DYNAMIC", "START_WORKFLOW"),
    *("DECISION", "EXCLUSIVE_JOIN", "HUMAN", "LAMBDA", "JSON_JQ_TRANSFORM"),
)

#: A TERMINATE ends its workflow in the turn it is scheduled: of what happens to open tasks nothing can follow.
AFTER_THE_END = ("START", "PAUSE", "RESUME", "TERMINATE", "RETRY", "CONTINUE", "COMPLETED")

REPORTS = ("COMPLETED", "FAILED", "FAILED_WITH_TERMINAL_ERROR", "IN_PROGRESS", "CANCELED")

#: What has lives of its own: migrations and limits, in the files beside this one; and schedules and events, elsewhere.
ELSEWHERE = (
    *(EventKind.MIGRATE, EventKind.ADMISSION, EventKind.GRANTED, EventKind.WINDOW_MOVES),
    *(EventKind.SCHEDULE, EventKind.APPEND, EventKind.OFFER_ENDS),
)
EVENTS = (*(str(kind) for kind in EventKind if kind not in (EventKind.REPORT, *ELSEWHERE)), *REPORTS)


class Tally:
    """What the cases of a run covered."""

    def __init__(self) -> None:
        self.matrix: Matrix = Counter()
        self.cases = 0
        self.deep_cases = 0

    def count(self, shape: Shape) -> None:
        self.cases += 1
        self.deep_cases += shape.nested >= 3

    def table(self) -> str:
        width = max(map(len, EVENTS)) + 2
        lines = [" " * width + "".join(f"{operator[:13]:>14}" for operator in OPERATORS)]
        for event in EVENTS:
            lines.append(f"{event:<{width}}" + "".join(f"{self.matrix[(o, event)]:>14}" for o in OPERATORS))
        share = 100 * self.deep_cases // max(1, self.cases)
        lines.append(f"{self.cases} cases, {share} % with three or more kinds nested in each other")
        return "\n".join(lines)


def live(choices: Sequence[int], tally: Tally) -> None:
    """One case: a definition, a life, a variant, all from the tape."""
    tape = Tape(choices)
    variant = tape.pick(6)
    definition, value, shape = draw_definition(tape)
    operations = draw_operations(tape, 14 + tape.pick(16))
    tally.count(shape)
    with tempfile.TemporaryDirectory() as folder:
        twins = Twins(
            Path(folder),
            definition,
            value,
            **of_variant(variant),
            matrix=tally.matrix,
        )
        try:
            for operation, a, b in operations:
                twins.do(operation, a, b)
            twins.finish()
        finally:
            twins.close()


def explore(cases: int) -> Tally:
    """Run so many cases and tally them."""
    tally = Tally()

    @many(cases)
    @given(TAPES)
    def case(choices: bytes) -> None:
        live(choices, tally)

    case()
    return tally


@pytest.mark.trap("core-33", "core-34", "tasks-4", "tasks-32", "tasks-42")
@pytest.mark.parametrize("lives", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_slices_stores_and_laws_agree(lives: int, shown: list[str]) -> None:
    """Random lives: slice ≡ whole, memory ≡ SQLite, every law after every operation, every execution can end."""
    tally = explore(lives)
    shown.append(tally.table())
    assert tally.cases >= lives
    assert lives == 6 or not [o for o in OPERATORS if not any(tally.matrix[(o, event)] for event in EVENTS)]


@pytest.mark.parametrize("seed", [502365])
def test_lives_that_broke_a_law(seed: int) -> None:
    """Lives found by chance that once broke a law: a fork taken up again had told its JOIN before that it was through."""
    chance = random.Random(seed)
    live([chance.randrange(256) for _ in range(500)], Tally())


@pytest.mark.deep
def test_slices_stores_and_laws_agree_deep(shown: list[str]) -> None:
    """10,000 random lives, with no empty cell in the operator × event matrix (20 or more in each)."""
    tally = explore(10_000)
    shown.append(tally.table())
    cells = [(o, e) for o in OPERATORS for e in EVENTS if o != "TERMINATE" or e in AFTER_THE_END]
    thin = {cell: tally.matrix[cell] for cell in cells if tally.matrix[cell] < 20}
    assert not thin
    assert tally.deep_cases >= 0.3 * tally.cases
