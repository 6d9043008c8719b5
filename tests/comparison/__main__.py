"""One order, tested with conductorlite, Temporal, DBOS, go-workflows and LangGraph: lines, seconds, and what each cannot say.

    python -m tests.comparison              ours
    python -m tests.comparison FOLDER       beside the others, whose environments are made in the folder from the package index

An order is charged with 20 retries and backoff, waits 30 days, is approved or cancelled after 7 more, and is shipped; a worker is
lost, a process crashes, something is delivered twice. Each program prints its parts; a part that is missing there cannot be said.
Temporal's test server is downloaded by its SDK where it may, or is the program that TEMPORAL_TEST_SERVER names; go-workflows
needs Go, and GO_WORKFLOWS may name its sources. What cannot be made is told and left out. See docs/explanation/testing-compared.md.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
GO: Final = HERE / "go_workflows"
PARTS: Final = ("retries", "month", "race", "lost_worker", "crash", "twice")

#: Program and packages of each in Python; ours runs where this does.
PYTHON: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "conductorlite": ("ours.py", ()),
    "Temporal": ("temporal_order.py", ("temporalio==1.35.0",)),
    "DBOS": ("dbos_order.py", ("dbos==3.4.0",)),
    "LangGraph": ("langgraph_order.py", ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2")),
}


def lines_of(path: Path) -> int:
    """Lines that say something: no blanks, comments, docstrings, imports, or brackets alone."""
    text = path.read_text()
    left = set(_python_lines(text) if path.suffix == ".py" else _go_lines(text))
    bare = {number for number, line in enumerate(text.splitlines(), 1) if not line.strip(" \t()[]{},:")}
    return len(left - bare)


def _python_lines(text: str) -> Iterator[int]:
    skipped: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        document = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if isinstance(node, ast.stmt) and (document or isinstance(node, ast.Import | ast.ImportFrom)):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing:
            yield from {*range(token.start[0], token.end[0] + 1)} - skipped


def _go_lines(text: str) -> Iterator[int]:
    importing = False
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        importing = word == "import (" or (importing and word != ")")
        if word and not importing and not word.startswith(("//", "package ")):
            yield number


def python_of(name: str, packages: Sequence[str], folder: Path) -> Path | None:
    """Its interpreter, made when it is not there; None when that is not possible."""
    made = folder / name.lower() / "bin" / "python"
    if not made.exists():
        print(f"making {made.parent.parent}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(made.parent.parent)], check=True, timeout=300)
    if subprocess.run([made, "-m", "pip", "install", "-q", *packages], timeout=600, check=False).returncode:
        return None
    return made


def told(command: Sequence[object], where: Path) -> tuple[dict[str, float], float] | None:
    """The parts that a program has printed, with their seconds, and how long it took; None when it failed."""
    began = time.perf_counter()
    ran = subprocess.run([*map(str, command)], cwd=where, capture_output=True, text=True, timeout=600)
    took = time.perf_counter() - began
    records = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    go = {_in_words(one["Test"]): one["Elapsed"] for one in records if one.get("Action") == "pass" and "Test" in one}
    parts = {one["part"]: one["seconds"] for one in records if "part" in one} or go
    failed = [one["Test"] for one in records if one.get("Action") == "fail" and "Test" in one]
    # Temporal's SDK may abort when the interpreter ends, with everything done.
    if ran.returncode and (failed or PARTS[-1] not in parts):
        print(f"{command[0]}: {', '.join(failed) or 'it ended early'}")
        print("\n".join([*ran.stdout.splitlines()[-5:], *ran.stderr.splitlines()[-8:]]))
        return None
    return parts, took


def _in_words(test: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in test.removeprefix("Test")).strip("_")


def go_told(folder: Path) -> tuple[dict[str, float], float] | None:
    """The parts of the program in Go, in a copy of its module."""
    if not shutil.which("go"):
        print("go-workflows: there is no Go here")
        return None
    where = folder / "go_workflows"
    shutil.copytree(GO, where, dirs_exist_ok=True)
    if sources := os.environ.get("GO_WORKFLOWS"):
        subprocess.run(["go", "mod", "edit", f"-replace=github.com/cschleiden/go-workflows={sources}"], cwd=where, check=True)
    for command in (["go", "mod", "tidy"], ["go", "test", "-c", "-o", "compiled"]):
        if subprocess.run(command, cwd=where, timeout=600, check=False).returncode:
            return None
    return told(["go", "test", "-count=1", "-json", "./..."], where)


def main() -> int:
    """Run those that can be run, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.comparison", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="where environments of the others are, or are made")
    folder: Path | None = parser.parse_args().folder
    found: dict[str, tuple[int, tuple[dict[str, float], float] | None]] = {}
    for name, (program, packages) in PYTHON.items():
        if packages and folder is None:
            continue
        python = Path(sys.executable) if not packages or folder is None else python_of(name, packages, folder)
        found[name] = lines_of(HERE / program), None if python is None else told([python, HERE / program], HERE)
    if folder is not None:
        found["go-workflows"] = lines_of(GO / "order_test.go"), go_told(folder)
    print(f"\nPython {platform.python_version()}; seconds of each part, – what it has not")
    print(f"{'':<15}{'lines':>7}{'all':>9}" + "".join(f"{part:>13}" for part in PARTS))
    for name, (lines, ran) in found.items():
        if ran is None:
            print(f"{name:<15}{lines:>7}   could not be run here")
            continue
        cells = "".join(f"{ran[0][part]:>13.2f}" if part in ran[0] else f"{'–':>13}" for part in PARTS)
        print(f"{name:<15}{lines:>7}{ran[1]:>9.1f}{cells}")
    return 0 if all(ran is not None for _, ran in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
