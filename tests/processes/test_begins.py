"""What the observer of begins finds, small: two processes, a kill and jumps; and that it would find what is above."""

from __future__ import annotations

from pathlib import Path

import pytest
from begins import RATE, SLOTS, Begin, above, judged, run


def test_a_few_begins_under_a_kill_and_jumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Never more in a window than the rate, nor at once than the slots; and no law is broken."""
    found = run(tmp_path, 12, 7, 1, jump_every=0.2, kill_every=1e9)
    with capsys.disabled():
        print(f" [{found}]", end="")
    assert (found["most in a window"] <= RATE, found["most at once"] <= SLOTS, found["laws broken"]) == (True, True, [])
    assert found["begins"] >= 12


@pytest.mark.deep
def test_a_thousand_begins(tmp_path: Path) -> None:
    """Three processes, of which one is killed every four seconds; the clock is set twelve times a second, so also during turns."""
    found = run(tmp_path, 1_000, 1, 3, jump_every=0.08, kill_every=4.0)
    assert (found["most in a window"] <= RATE, found["most at once"] <= SLOTS, found["laws broken"]) == (True, True, [])


def test_the_observer_sees_what_is_above() -> None:
    """Calls that lie in one window beyond doubt are counted, and functions that are at work at once."""
    calls = [Begin(first=10.0 * number, last=10.0 * number + 5) for number in range(40)]
    assert (above(calls, 200), above(calls, 205), above(calls[::4], 200)) == (20, 20, 5)
    assert above([Begin(first=0, last=300), *calls], 200) == 20
    lines = [["begin", f"t{number}", 0, 0] for number in range(SLOTS + 1)]
    assert judged([*lines, ["end", "t0"], ["begin", "t0", 1, 1]])["most at once"] == SLOTS + 1
