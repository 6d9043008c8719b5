"""The floors of the house, as import-linter sees them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from house import PACKAGE, ROOT


def test_every_import_contract_is_kept() -> None:
    """A module imports only from floors below; logic, storage and each dependency keep to their doors."""
    pytest.importorskip("importlinter")
    beside = Path(sys.executable).with_name("lint-imports")
    command = str(beside) if beside.exists() else shutil.which("lint-imports")
    if command is None:
        pytest.skip("lint-imports is not installed")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_top_level_module_is_drawn() -> None:
    """ARCHITECTURE.md names every module of the package, so that a newcomer finds each in the drawing."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    modules |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(name for name in modules - {"__init__"} if f"`{name}`" not in text) == []
