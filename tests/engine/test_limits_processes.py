"""Limits across processes: four of them share one file, some are killed while they hold slots; every law holds, and nothing leaks.

The laws are looked at by a fifth one, the test, in read views of the file while the others write. At the end the journals tell
that no window was ever too full, and when all work is done nothing is in use.

The deep run: `python -m pytest tests/engine/test_limits_processes.py -m deep`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from limits_kit import verify
from limits_traffic import Traffic

from conductorlite import SystemClock
from conductorlite.store.sqlite.backend import SQLiteBackend

_CHILD = Path(__file__).with_name("limits_process.py")


def _started(store: Path, seed: int, seconds: float) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join([str(_CHILD.parent), *sys.path])
    command = [sys.executable, str(_CHILD), str(store), str(seed), str(seconds)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.PIPE)


def _look(store: SQLiteBackend) -> None:
    # A millisecond that passed since an event came due is no reason to complain: the driver was not there yet.
    verify(store, SystemClock().now(), rounding_ms=1)


def _share(folder: Path, seconds: float, kills: int) -> dict[str, Any]:
    """Have four processes share a file, kill some and start others in their place, then end all that is left, alone."""
    path = folder / "store.db"
    store = SQLiteBackend(path, synchronous="NORMAL", busy_timeout_ms=20_000)
    clock, looked, killed = SystemClock(), 0, 0
    began = clock.now()
    processes = [_started(path, seed, seconds) for seed in range(4)]
    try:
        while any(one.poll() is None for one in processes):
            _look(store)
            looked += 1
            with store.reading() as view:
                busy = any(limit.in_use for limit in view.limits.page("", 100))
            late = clock.now() - began > 1_000 * seconds * (killed + 1) / (kills + 1)
            if busy and late and killed < kills and processes[killed].poll() is None:
                processes[killed].send_signal(signal.SIGKILL)
                processes.append(_started(path, 100 + killed, seconds / 2))
                killed += 1
        told = [(one.wait(), (one.stderr.read() if one.stderr else b"").decode()[-2_000:]) for one in processes]
        assert {code for code, _ in told} <= {0, -signal.SIGKILL}, told
    finally:
        for one in processes:
            one.kill()
            one.wait()
            if one.stderr is not None:
                one.stderr.close()
    return {"looks": looked, "killed": killed, **_finished(store)}


def _finished(store: SQLiteBackend) -> dict[str, Any]:
    """Go on alone, in virtual time, until nothing is left to do."""
    traffic = Traffic(store, settles=False, begins=SystemClock().now() + 1)
    engine = traffic.engines[0]
    with engine.backend.reading() as view:
        held = sum(limit.in_use for limit in view.limits.page("", 100))
    for each in list(engine.admin.workflow_ids()):
        traffic.names[each] = engine.get(each).name
        traffic.histories[each] = list(engine.history(each))
    traffic.every = 50
    # A process reads its clock before it reads the file: what ended a millisecond later may be gone already.
    traffic.exact = False
    traffic.finish()
    engine.close()
    return {"executions": len(traffic.names), "in use when they stopped": held}


@pytest.mark.slow
def test_two_seconds_of_four_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run in CI: one of them is killed."""
    seen = _share(tmp_path, 1.0, 1)
    with capsys.disabled():
        print(f" [{seen}]", end="")
    assert seen["killed"] == 1
    assert seen["executions"] > 10


@pytest.mark.deep
def test_ten_seconds_of_four_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The deep run: five are killed."""
    seen = _share(tmp_path, 10.0, 5)
    with capsys.disabled():
        print(f" [{seen}]", end="")
    assert seen["killed"] >= 3
