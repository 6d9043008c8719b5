"""Random programs mean as flows what they mean in Python: the same value or exception, and the same calls in the same order."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductorlite.errors import BuildError

from programs import as_flow, as_python, compiled, has_fork, nested_kinds, program  # isort: skip

#: What the language of flows leaves out, in the words of its errors.
REFUSED = (
    "which would change with it",
    "calls no task",
    "may be unassigned here",
    "is gone after its `except`",
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Tasks that fail are meant to."""
    with caplog.at_level(logging.CRITICAL, logger="conductorlite"):
        yield


def compare(seed: int, store: Path | None, size: int = 9) -> bool:
    """Carry a program out both ways; whether it was compiled."""
    made = program(seed, size)
    try:
        flow = compiled(made)
    except BuildError as error:
        if any(reason in str(error) for reason in REFUSED):
            return False
        raise
    # Python comes second: a list that grows while a loop goes over it, which is refused, would never end there.
    found, wanted = as_flow(made, flow, store), as_python(made)
    if not found.agrees(wanted, forks=has_fork(made)):
        assert found == wanted, f"{seed}\n{made.source}\n{made.arguments}"
    return True


@pytest.mark.parametrize("first", range(0, 300, 20))
def test_a_program_in_memory(first: int) -> None:
    """Most are compiled; none means anything else."""
    assert sum(compare(seed, None) for seed in range(first, first + 20)) >= 14


@pytest.mark.parametrize("first", range(300, 320, 10))
def test_a_program_on_sqlite(first: int, tmp_path: Path) -> None:
    """The same in a file."""
    assert sum(compare(seed, tmp_path / f"{seed}.db") for seed in range(first, first + 10)) >= 6


@pytest.mark.deep
@pytest.mark.parametrize("first", range(1_000, 11_000, 100))
def test_many_programs(first: int) -> None:
    """Ten thousand, of several sizes."""
    for seed in range(first, first + 100):
        compare(seed, None, 5 + seed % 12)


def test_what_the_programs_have() -> None:
    """Every kind of statement occurs within every kind that holds statements."""
    found = sum((nested_kinds(program(seed).source) for seed in range(600)), Counter[tuple[str, str]]())
    outer = ("If", "For", "While", "match_case", "Try", "ExceptHandler", "FunctionDef")
    inner = ("Assign", "AugAssign", "If", "For", "While", "Match", "Try", "Return", "Raise", "Expr")
    missing = {(one, other) for one in outer for other in inner if not found[one, other]}
    assert missing <= {("FunctionDef", "Raise")}
