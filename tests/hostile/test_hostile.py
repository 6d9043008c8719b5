"""Input meant to do harm: a named error or a normal end, in little time and memory, and the engine goes on.

`attacks.py` has them. The goal is 2 seconds and 256 MB; the test leaves room for a slow machine and prints what it measured.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("processes are forked and measured as on POSIX", allow_module_level=True)

from attacks import ATTACKS

HERE = Path(__file__).parent
SECONDS, MEGABYTES = 10.0, 256.0

def carried_out(*names: str) -> dict[str, dict[str, Any]]:
    """What became of attacks."""
    command = [sys.executable, str(HERE / "attacks.py"), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60 + 35 * len(names))
    return {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="session")
def measured() -> dict[str, dict[str, Any]]:
    """All attacks, carried out one after another."""
    return carried_out(*ATTACKS)


def judge(name: str, found: dict[str, Any]) -> None:
    """What must hold after an attack."""
    if importlib.util.find_spec("_quickjs") is None and "MissingExtra" in found["outcome"]:
        pytest.skip("needs the extra javascript")
    if importlib.util.find_spec("jq") is None and "conductorlite[jq]" in found["outcome"]:
        pytest.skip("needs the extra jq")
    assert not found["outcome"].startswith("UNNAMED"), found["outcome"]
    assert found["seconds"] < SECONDS, found
    assert found["mb"] < MEGABYTES, found
    assert (found["after"], found["broken"]) == ("COMPLETED", []), found


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_does_no_harm(measured: dict[str, dict[str, Any]], name: str) -> None:
    """It ends with a named error or as asked, within bounds, and a normal workflow runs on the same engine."""
    judge(name, measured[name])


def test_the_table(measured: dict[str, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """What was measured is printed: input, seconds, megabytes, outcome."""
    with capsys.disabled():
        print()
        for name, found in measured.items():
            print(f"  {name:38} {found['seconds']:5.2f} s {found['mb']:4.0f} MB  {found['outcome'][:90]}")
