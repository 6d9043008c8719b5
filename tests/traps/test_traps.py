"""Every trap a re-implementation of Conductor falls into has an answer: a test, and where we differ a row of the documentation."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]

#: How many traps of the engine's core, and of its task types, expressions and interfaces.
EXPECTED: Final = [f"core-{n}" for n in range(1, 53)] + [f"tasks-{n}" for n in range(1, 78)]

TRAPS: Final[list[dict[str, Any]]] = tomllib.loads((Path(__file__).parent / "traps.toml").read_text(encoding="utf-8"))["trap"]


@cache
def _tests_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name.startswith("test_"))


@cache
def _points() -> frozenset[str]:
    lines = (ROOT / "docs/reference/compatibility.md").read_text(encoding="utf-8").splitlines()
    return frozenset(line.split("|")[1].strip() for line in lines if line.startswith("| "))


def test_all_are_there() -> None:
    """Each trap once, in order, and nothing else."""
    assert [trap["id"] for trap in TRAPS] == EXPECTED


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap["id"])
def test_it_is_answered(trap: dict[str, Any]) -> None:
    """A verdict, words of its own, a test that exists, the rows that are named, and for what cannot occur the reason."""
    assert trap.keys() <= {"id", "verdict", "trap", "tests", "rows", "why"}
    assert trap["verdict"] in ("same", "better", "moot")
    assert trap["trap"].strip()
    assert trap["tests"]
    assert ("why" in trap) == (trap["verdict"] == "moot")
    for named in trap["tests"]:
        path, _, test = named.partition("::")
        assert test in _tests_of(ROOT / path), named
    assert set(trap.get("rows", ())) <= _points()
