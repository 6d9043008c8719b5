"""Limits under random traffic: every law after every commit, windows and crowds by the journals, and nobody is left behind.

Seven definitions share four task limits (slots, a window, both, and one whose two definitions differ) and limits on executions with
constant and dynamic keys; executions are started now and later with priorities, polled, reported on, paused, terminated, retried,
rerun, restarted, skipped in and removed; workers fail, call back and die. What is checked is told in `limits_kit`.

The deep run: `python -m pytest tests/engine/test_limits_traffic.py -m deep`.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from limits_traffic import OPERATIONS, Traffic

from conductorlite.store.memory.backend import MemoryBackend
from conductorlite.store.ports import Backend
from conductorlite.store.sqlite.backend import SQLiteBackend

_NUMBERS = st.integers(0, 15)
#: Long lives: what goes wrong needs a crowd.
LIVES = st.lists(st.tuples(st.sampled_from(OPERATIONS), _NUMBERS, _NUMBERS), min_size=30, max_size=80)


def live(store: Backend, life: Sequence[tuple[str, int, int]], skew_ms: int, settles: bool) -> Traffic:
    """One life, to its end."""
    traffic = Traffic(store, skew_ms=skew_ms, settles=settles)
    for operation, a, b in life:
        traffic.do(operation, a, b)
    traffic.finish()
    return traffic


def _explore(kind: str, cases: int, seen: Counter[str]) -> None:
    @settings(
        max_examples=cases,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(LIVES, st.sampled_from((0, 0, 1_500)), st.booleans())
    def case(life: list[tuple[str, int, int]], skew_ms: int, settles: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            if kind == "sqlite":
                store: Backend = SQLiteBackend(Path(folder) / "store.db", synchronous="NORMAL")
            else:
                store = MemoryBackend(relay=kind == "relay")
            traffic = live(store, life, skew_ms, settles)
            seen.update(lives=1, commits=traffic.commits, completed=traffic.completed(), waiting=traffic.most_waiting)
            store.close()

    case()


@pytest.mark.parametrize(
    ("kind", "cases"),
    [("memory", 2), *(pytest.param(*more, marks=pytest.mark.slow) for more in (("memory", 4), ("relay", 2), ("sqlite", 1)))],
)
def test_every_law_holds_after_every_commit(kind: str, cases: int, capsys: pytest.CaptureFixture[str]) -> None:
    """No slot too many, none idle while somebody waits, no window too full, nobody forgotten; in the end nothing is in use."""
    seen: Counter[str] = Counter()
    _explore(kind, cases, seen)
    with capsys.disabled():
        print(f" [{dict(seen)}]", end="")
    assert seen["commits"] > 50 * seen["lives"]
    assert seen["waiting"] > 3 * seen["lives"]
    assert seen["completed"] > seen["lives"]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["memory", "relay", "sqlite"])
def test_every_law_holds_for_long(kind: str) -> None:
    """The same, a thousand lives of each store."""
    _explore(kind, 1_000, Counter())
