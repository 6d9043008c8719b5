"""The command that kills processes at random, shortened: everything is accounted for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(__file__).with_name("kill.py")

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed so here")


def figures(*options: str) -> dict[str, object]:
    """What the command prints; it must have found nothing wrong."""
    done = subprocess.run([sys.executable, str(COMMAND), *options], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_two_processes_killed_once_each_way() -> None:
    """The shortest run there is: somebody is killed, and nothing is missing."""
    found = figures("--seconds", "1", "--every", "0.5", "--processes", "2", "--executions", "6", "--seed", "1")
    assert (found["executions"], found["tasks"], found["booked"]) == (12, 36, 36)
    assert found["kills"]


@pytest.mark.deep
@pytest.mark.parametrize("options", [[], ["--locked"], ["--local"]], ids=["shared", "locked", "local"])
def test_four_processes(options: list[str]) -> None:
    """Four processes for five seconds, on a common store, with a lock, and each with executions of its own."""
    found = figures("--seconds", "5", "--every", "0.5", "--executions", "100", *options)
    assert (found["executions"], found["booked"]) == (200, 600)
