"""The rooms of the house, as import-linter sees them."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from house import PACKAGE, ROOT, module_of, nodes_of, python_files


def test_every_import_contract_is_kept() -> None:
    """A module imports only from rooms below; logic and storage keep apart."""
    pytest.importorskip("importlinter")
    beside = Path(sys.executable).with_name("lint-imports")
    command = str(beside) if beside.exists() else shutil.which("lint-imports")
    if command is None:
        pytest.skip("lint-imports is not installed")
    done = subprocess.run([command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_imports_itself_through_others() -> None:
    """Imports of modules make no circle, within a room either; those for type checkers only count. The root is everybody's."""
    files = {module_of(path): path for path in python_files()}
    imported: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                imported[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported[name] |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    del imported["conductorlite"]
    graph = {name: {one for one in found if one in imported and one != name} for name, found in imported.items()}
    assert [*TopologicalSorter(graph).static_order()] != []


def _modules() -> list[str]:
    return sorted({path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")})


def test_the_rooms_are_drawn_as_they_are() -> None:
    """ARCHITECTURE.md draws every room of the package once, in the order of the import contract."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## The rooms")[2]
    lines = [line for line in text.partition("```text\n")[2].partition("```")[0].splitlines() if "──────" not in line]
    drawn = [name for line in lines for name in re.split(r"\s{2,}", line[11:])[0].split(" │ ")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {name: number for number, layer in enumerate(layers) for name in layer.split(" | ")}
    assert sorted(drawn) == [name for name in _modules() if not name.startswith("__")]
    assert [floor[name] for name in drawn] == sorted(floor[name] for name in drawn)


def _named(room: Path) -> set[str]:
    """Files and folders that the README of a room names in the first column of its table, and in the lines before."""
    cells = re.findall(r"^\| (.*?) \| .* \|$", (room / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {name.rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize("room", [path.parent for path in sorted(PACKAGE.glob("*/__init__.py"))], ids=lambda room: room.name)
def test_the_readme_of_a_room(room: Path) -> None:
    """It names every file of the room, and no other; says what the room must not know, where to start and how it is tested."""
    text = (room / "README.md").read_text(encoding="utf-8")
    there = {path.stem if path.suffix == ".py" else path.name for path in room.iterdir()} - {"__pycache__", "README.md", "__init__"}
    assert sorted(there - {"contract.txt", "prelude.js", "wide.js", "wide.jq"} - _named(room)) == []
    assert sorted(_named(room) - there - {"__init__"}) == []
    assert text.count("\n") <= 40
    assert [head for head in ("**Must not know**", "**Start reading**", "**Tests**") if head not in text] == []
    folders = set(re.findall(r"`tests/([\w/.]+)`", text))
    assert sorted(folder for folder in folders if not (ROOT / "tests" / folder).exists()) == []


def test_every_room_is_told_of() -> None:
    """tests/README.md says of every folder of tests what it shows."""
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert sorted(room for room in rooms if f"`tests/{room}/`" not in text) == []
