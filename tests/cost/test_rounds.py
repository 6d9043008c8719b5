"""What a round of a loop costs, as counts: the same in the tenth as in the ten-thousandth, whatever is in the loop."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from rounds import BEYOND_THE_SUBSET, LOOPS, WINDOW, Profile, full, named, profile, scripted

from conductorlite import WorkflowDef
from conductorlite.language.subset import compile_subset

#: Rounds of a run; of the long run.
ROUNDS = 150
MANY = {"children": 1_000, "kept": 1_000, "variables": 1_000, "scripted": 10_000}
COUNTS = ("statements", "rows_read", "commits")

#: The numbers in a round get longer, not more, with each digit by so much: of what a round reads, some 300 characters, 14 are the
#: last digits of such numbers.
DIGITS = 1.06


@pytest.fixture(scope="session")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Runs each loop once and keeps what its rounds cost."""
    folder = tmp_path_factory.mktemp("rounds")

    @cache
    def of(shape: str, rounds: int) -> Profile:
        return profile(folder / f"{shape}{rounds}.db", LOOPS[shape](rounds), rounds)

    return of


@pytest.mark.parametrize(
    ("shape", "rounds"),
    [
        *(pytest.param(shape, ROUNDS, marks=[] if shape in ("children", "kept") else pytest.mark.slow) for shape in LOOPS),
        *(pytest.param(*long, marks=pytest.mark.deep) for long in MANY.items()),
    ],
)
def test_a_late_round_costs_what_an_early_one_does(profiles: object, shape: str, rounds: int) -> None:
    """Statements, rows read and commits of a round are equal at the 10th, the 100th and the last; its text nearly so."""
    run: Profile = profiles(shape, rounds)  # type: ignore[operator]
    places = sorted({10, 100, rounds - WINDOW, min(1_000, rounds) - WINDOW})
    for counted in COUNTS:
        costs = [run.cost(counted, at) for at in places]
        assert len(set(costs)) == 1, (counted, costs)
    for counted in ("text_written", "text_read"):
        costs = [run.cost(counted, at) for at in places]
        more = len(str(places[-1])) - len(str(places[0]))
        assert max(costs) / min(costs) <= DIGITS ** max(1, more), (counted, costs)


def test_kept_rows_are_bounded(profiles: object) -> None:
    """A loop with keepLastN has as many rows of tasks in its last rounds as in its 25th."""
    rows = profiles("kept", ROUNDS).rows  # type: ignore[operator]
    assert len(rows) == (ROUNDS + 25) // 50
    assert max(rows) == min(rows) <= 20


def test_a_round_with_full_javascript_costs_the_same(tmp_path: Path) -> None:
    """A condition that only QuickJS understands reads no more of the execution in a late round than in an early one."""
    assert compile_subset(BEYOND_THE_SUBSET) is None
    run = profile(tmp_path / "full.db", full(ROUNDS), ROUNDS)
    for counted in COUNTS:
        assert run.cost(counted, 10) == run.cost(counted, ROUNDS - WINDOW), counted
    for counted in ("text_written", "text_read"):
        assert run.cost(counted, ROUNDS - WINDOW) / run.cost(counted, 10) <= DIGITS, counted


@pytest.mark.parametrize(
    "definition",
    [
        scripted(60, "$.loop['1'].t.x == 'steady' && $.loop != null && $.loop['iteration'] < $.limit"),
        scripted(60, "(() => $.loop && $.loop[2]?.t.x !== 'no' && $.loop.iteration < $.limit)()"),
        named(60),
    ],
    ids=["subset", "full", "input"],
)
def test_a_round_reads_only_the_rounds_that_are_named(tmp_path: Path, definition: WorkflowDef) -> None:
    """A condition, or an input, that names a round reads that one, however many there are."""
    run = profile(tmp_path / "named.db", definition, 60)
    for counted in COUNTS:
        assert abs(run.cost(counted, 10) - run.cost(counted, 60 - WINDOW)) < 1, counted
