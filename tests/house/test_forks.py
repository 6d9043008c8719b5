"""The forks that run the tests tell of everything that does not pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TOP = Path(__file__).parents[2]

_TOLD = """
import pytest

@pytest.fixture
def broken_end():
    yield
    raise ValueError

@pytest.mark.parametrize("n", range(20))
def test_passes(n): pass

def test_fails(): assert 1 == 2
def test_errs(broken_end): pass
def test_skips(): pytest.skip("no")
"""

_DIES = """
import os
def test_dies(): os._exit(0)
"""


@pytest.mark.slow
def test_what_does_not_pass_is_told(tmp_path: Path) -> None:
    """Two files, a fork each: a test that fails, one whose end does, one that is skipped, and one that ends its process."""
    for name, text in {"pytest.ini": "[pytest]\n", "test_a.py": _TOLD, "test_b.py": _DIES}.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.forks", "-p", "no:cacheprovider", "-c", "pytest.ini", "."]
    environment = os.environ | {"PYTHONPATH": str(_TOP)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert "2 failed, 21 passed, 1 skipped, 1 error" in ran.stdout, ran.stdout + ran.stderr
    assert "the process died in test_b.py::test_dies" in ran.stdout
    assert ran.returncode == 1
