"""The floors of the house, as import-linter sees them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
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


def _modules() -> list[str]:
    return sorted({path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")})


def test_the_floors_are_drawn_as_they_are() -> None:
    """ARCHITECTURE.md draws every module of the package once, in the order of the import contract."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## The floors")[2]
    lines = [line for line in text.partition("```text\n")[2].partition("```")[0].splitlines() if "──────" not in line]
    drawn = [name for line in lines for name in re.split(r" ── |\s{2,}", line[11:])[0].split(" │ ")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {name: number for number, layer in enumerate(layers) for name in layer.split(" | ")}
    assert sorted(drawn) == [name for name in _modules() if name != "__init__"]
    assert [floor[name] for name in drawn] == sorted(floor[name] for name in drawn)


def test_every_module_has_one_row() -> None:
    """The table of modules has every module of the package once, so that a newcomer finds each, and finds one truth."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("| module | what, and its rule |")[2]
    rows = re.findall(r"^\| `(\w+)` \|", text.partition("\n\n")[0], re.MULTILINE)
    assert sorted(rows) == [name for name in _modules() if name != "__init__"]


def test_every_room_is_told_of() -> None:
    """tests/README.md says of every folder of tests what it shows."""
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert sorted(room for room in rooms if f"`tests/{room}/`" not in text) == []
