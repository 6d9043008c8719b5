"""Copies of the tree in which something is changed, and runs of tests in them: nothing is ever changed in the tree itself."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mutants import ROOT

__all__ = ["BUILD", "FAILED", "LATE", "PASSED", "change", "copy_of_the_tree", "pytest_in"]

BUILD: Final = ROOT / "build" / "mutation"
PASSED: Final = "passed"
FAILED: Final = "failed"
LATE: Final = "late"

_FOLDERS: Final = ("conductorlite", "tests", "examples", "docs")
#: A mutant that grows for ever is stopped before the machine is.
_MEMORY: Final = 6 << 30


def copy_of_the_tree(name: str) -> Path:
    """A fresh copy of what the tests need, below build/."""
    target = BUILD / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for folder in _FOLDERS:
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis", "*.db*"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, target)
    return target


def change(path: Path, text: str) -> None:
    """Write a file of a copy, and forget its bytecode: that is told from the source by the second and the size only."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def pytest_in(tree: Path, arguments: Sequence[str], *, seconds: float | None, log: Path, **variables: str) -> tuple[str, str]:
    """Run pytest in a copy, politely; how it went, and what it printed.

    The tests are those that CI runs. A run that is not over in time is ended with everything that it started.
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HYPOTHESIS_PROFILE", "PYTHONDONTWRITEBYTECODE")
    }
    # In CI, Hypothesis tries the same examples every time.
    environment |= {"CI": "1", "PYTHONPATH": os.pathsep.join([str(tree), str(Path(__file__).parent)]), **variables}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "listening", "-m", "not deep", *arguments]
    with log.open("w+b") as output:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_politely(),
        )
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    if code is None:
        return LATE, printed
    return (PASSED if code in (0, 5) else FAILED), printed


def _politely() -> Callable[[], None]:
    def before_the_program() -> None:
        os.nice(19)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))

    return before_the_program


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
