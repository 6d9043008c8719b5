"""The engine does what the machine does: two real engines on one store are walked along its ways, and stand where it stands.

After each step status, fence, generation, every attempt, every message and the turns under way are compared; at the end every
law of the engine is looked at. The fast test walks some ways, `python -m pytest -m deep tests/model` many.
"""

from __future__ import annotations

import pytest
from protocol import Scope, explore, named
from walking import Walk

SCOPES = {
    "one task": (Scope(verbs=0, put_backs=0, repeats=0), 6),
    "put back and repeated": (Scope(verbs=0), 200),
    "reopened": (Scope(put_backs=0, repeats=0), 160),
    "two tasks": (Scope(tasks=2, verbs=0, put_backs=0, repeats=0), 60),
}


def walked(scope: Scope, every: int) -> int:
    """Walk to every so-manieth world; returns how many steps that was."""
    found = explore(scope)
    taken = 0
    for world in list(found.parents)[::every]:
        way = found.way_to(world)
        walk = Walk(scope)
        try:
            for step in way:
                walk.step(step)
            walk.close()
        except AssertionError as error:
            raise AssertionError(f"{error}\non the way {', '.join(map(named, way))}") from error
        finally:
            walk.abandon()
        taken += len(way)
    return taken


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == "one task" else pytest.mark.slow) for name in SCOPES])
def test_the_engine_walks_the_ways_of_the_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A sample of the shortest ways to worlds, from the first to the last that was found."""
    scope, every = SCOPES[name]
    steps = walked(scope, every)
    with capsys.disabled():
        print(f" [{steps:,} steps]", end="")
    assert steps > 500


@pytest.mark.deep
@pytest.mark.parametrize("name", SCOPES)
def test_the_engine_walks_many_ways(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Thirty times as many."""
    scope, every = SCOPES[name]
    steps = walked(scope, max(1, every // 30))
    with capsys.disabled():
        print(f" [{steps:,} steps]", end="")
    assert steps > 5_000
