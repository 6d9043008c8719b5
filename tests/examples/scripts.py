"""How the tests load and run the examples, which are scripts and no package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(script: str) -> ModuleType:
    """Import an example by its path below `examples/`."""
    path = EXAMPLES / script
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script: str, *arguments: str, folder: Path, logged: str = "") -> str:
    """Run an example as its README says, in a folder; returns what it printed. On stderr is what it `logged`, else nothing."""
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    if done.returncode or bool(done.stderr) != bool(logged) or logged not in done.stderr:
        raise RuntimeError(f"{script} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
