"""Whatever is public is explained; every test says in a sentence what it shows."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

from house import PACKAGE, ROOT, functions_of

from conductorlite import errors


def _undocumented(folder: Path) -> list[tuple[Path, int, str]]:
    """Public modules, classes, functions and methods without a docstring, as ruff finds them: file, line, name."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "D100,D101,D102,D103,D104",
        "--output-format",
        "json",
    ]
    said = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode in (0, 1), said.stderr
    found = []
    for one in json.loads(said.stdout):
        path, row = Path(one["filename"]), one["location"]["row"]
        lines = path.read_text(encoding="utf-8").splitlines()
        name = re.search(r"(?:def|class) (\w+)", lines[row - 1] if lines else "")
        found.append((path, row, name[1] if name else "the module"))
    return found


def _asked_of_a_store() -> set[str]:
    """Names of the methods that the protocols of a store explain."""
    files = (PACKAGE / "store" / name for name in ("ports.py", "transactions.py"))
    return {function.name for path in files for function in functions_of(path) if ast.get_docstring(function)}


def test_public_things_have_docstrings() -> None:
    """Every public module, class, function and method has a docstring; a transaction leaves to its protocol what that says."""
    asked = _asked_of_a_store()
    public = [one for one in _undocumented(PACKAGE) if not one[2].startswith("_")]
    found = [one for one in public if one[0].parent.parent != PACKAGE / "store" or one[2] not in asked]
    assert found == []


def test_every_test_has_a_docstring() -> None:
    """Every test of this repository says what it shows."""
    assert [one for one in _undocumented(ROOT / "tests") if one[2].startswith("test_")] == []


def test_every_error_is_documented() -> None:
    """docs/reference/errors.md has every exception."""
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in errors.__all__ if f"## {name}\n" not in text] == []
