"""The command that kills programs at random instants, once each: what was in hand is handed out again, and nothing is lost."""

from __future__ import annotations

import sys

import kill_programs
import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be killed so here")


@pytest.mark.parametrize(
    "name", ["tutorial", pytest.param("main", marks=pytest.mark.deep), pytest.param("three", marks=pytest.mark.deep)]
)
def test_a_killed_program_goes_on(name: str) -> None:
    """Nothing that was in hand is forgotten, no law is broken, and it ends as if nobody had been killed."""
    found = kill_programs.run(name, times=1, seed=3)
    assert (found.kills, found.problems) == (1, [])
