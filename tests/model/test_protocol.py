"""What the search through the protocol finds: every law holds with the protections there are, and each of them is needed.

The machine is in `protocol.py`, its findings in docs/explanation/protocol.md. The fast test looks at small scopes,
`python -m pytest -m deep tests/model` at larger ones.
"""

from __future__ import annotations

from functools import cache, partial

import pytest
from protocol import Scope, explore, named

#: What is looked at in seconds: by name, and how many worlds there are at least.
SMALL = {
    "two engines, two workers, one retry": (Scope(verbs=0, put_backs=0, repeats=0), 800),
    "a task put back, a report repeated": (Scope(verbs=0), 20_000),
    "a verb that reopens": (Scope(put_backs=0, repeats=0), 20_000),
    "two tasks": (Scope(tasks=2, verbs=0, put_backs=0, repeats=0), 6_000),
    "with locks that lapse": (Scope(lock=True, verbs=0, put_backs=0, repeats=0), 1_000),
}
#: What is found in one of these, all of it.
small = cache(partial(explore, endings=True))

LARGE = {
    "everything at once": Scope(),
    "a verb, and a report repeated": Scope(put_backs=0),
    "a verb, and a task put back": Scope(repeats=0),
    "three engines, three workers": Scope(engines=3, workers=3, verbs=0, put_backs=0, repeats=0),
    "two tasks, and a report repeated": Scope(tasks=2, verbs=0, put_backs=0),
    "two retries": Scope(retries=2, moments=3, verbs=0, repeats=0),
    "locks that lapse, and a verb": Scope(lock=True, put_backs=0, repeats=0),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if least < 20_000 else pytest.mark.slow) for name, (_, least) in SMALL.items()]
)
def test_every_law_holds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No update is lost, one attempt is live, what has ended stays, a stale holder changes nothing, and everything can end."""
    scope, least = SMALL[name]
    found = small(scope)
    with capsys.disabled():
        print(f" [{found.worlds:,} worlds, {found.steps:,} steps]", end="")
    assert found.law is None, [named(step) for step in found.way]
    assert found.worlds >= least


@pytest.mark.deep
@pytest.mark.parametrize("name", LARGE)
def test_every_law_holds_in_larger_scopes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same with more of everything."""
    found = explore(LARGE[name])
    with capsys.disabled():
        print(f" [{found.worlds:,} worlds, {found.steps:,} steps]", end="")
    assert found.law is None, [named(step) for step in found.way]


def way(scope: Scope) -> tuple[str | None, list[str]]:
    """The law that is broken, and the shortest way to it."""
    found = explore(scope)
    return found.law, [named(step) for step in found.way]


def test_without_the_fence_an_update_is_lost() -> None:
    """Two engines read, both commit: the second undoes the first. One message is taken twice."""
    law, steps = way(Scope(fence=False, verbs=0, put_backs=0, repeats=0))
    assert law == "an update is lost: what was committed is not told any more"
    assert steps == ["read POLL", "read POLL", "commit POLL", "commit POLL"]


def test_without_the_lease_a_stale_worker_reports() -> None:
    """A worker that has put its task back reports on it all the same."""
    law, steps = way(Scope(lease=False, verbs=0, repeats=0))
    assert law == "a worker that has lost its lease has changed something"
    assert steps[-1] == "commit REPORT COMPLETED of lease 1"
    assert "commit REPORT PUT_BACK of lease 1" in steps


def test_without_the_generation_an_event_of_an_earlier_run_counts() -> None:
    """What was said of an attempt before a restart moves the attempt of the same number after it."""
    law, steps = way(Scope(generation=False, put_backs=0, repeats=0))
    assert law == "an event of an earlier generation has changed something"
    assert "commit RESTART" in steps


def test_a_lock_alone_holds_as_long_as_it_does_not_lapse() -> None:
    """Without the fence a lock is enough, unless it may lapse while its holder goes on; with the fence it need not hold."""
    alone = Scope(fence=False, lock=True, verbs=0, put_backs=0, repeats=0)
    law, steps = way(alone)
    assert law == "an update is lost: what was committed is not told any more"
    assert "lock lapses POLL" in steps
    never = Scope(fence=False, lock=True, lock_lapses=False, verbs=0, put_backs=0, repeats=0)
    assert explore(never, endings=True).law is None


@pytest.mark.slow
def test_everything_that_may_happen_happens() -> None:
    """The scopes are not empty: each kind of step is taken."""
    kinds = {kind for scope, _ in SMALL.values() for kind in small(scope).kinds}
    for wanted in ("time passes", "read DRIVE", "commit RETRY", "commit RESTART", "commit REPORT FAILED of lease 1",
                   "commit REPORT PUT_BACK of lease 1", "read REPORT COMPLETED of lease none", "lock lapses POLL"):  # fmt: skip
        assert wanted in kinds
