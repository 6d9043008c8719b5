"""Type checkers agree on a project that uses every public name, and on what each call of a flow gives."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conductorlite
import conductorlite.flows

HERE = Path(__file__).parent
SAMPLES = [HERE / "sample.py", HERE.parent / "flows" / "trips.py"]
PYRIGHT = next(filter(None, map(shutil.which, ("basedpyright", "pyright"))), None)

#: What `reveal_type` says of the results of a flow, in order: of an Engine's run, and of an AsyncEngine's.
REVEALED = ["list[float]", "list[float]"]


def test_the_sample_uses_every_public_name() -> None:
    """Those of the root and of `conductorlite.flows`, beyond the imports."""
    tree = ast.parse((HERE / "sample.py").read_text(encoding="utf-8"))
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {*conductorlite.__all__, *conductorlite.flows.__all__} - used == set()


@pytest.mark.slow
def test_mypy_takes_it_strictly() -> None:
    """Without an error; what is revealed is what the flow returns."""
    pytest.importorskip("mypy", reason="needs mypy")
    root = HERE.parents[1]
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file=",
        "--strict",
        "--cache-dir",
        str(root / ".mypy_cache"),
        *map(str, SAMPLES),
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r'Revealed type is "(.*?)"', done.stdout) == REVEALED


@pytest.mark.deep
@pytest.mark.skipif(PYRIGHT is None, reason="there is no pyright: pip install basedpyright")
def test_pyright_agrees() -> None:
    """With its errors; put its folder into PATH to run this."""
    command = [str(PYRIGHT), "--pythonpath", sys.executable, *map(str, SAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if " error: " in line] == []
    assert re.findall(r'Type of "(?:run|await run)\.result\(\)" is "(.*?)"', done.stdout) == REVEALED
