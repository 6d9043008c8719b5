"""Every trap a re-implementation of Conductor falls into has an answer: a test, and where we differ a row of the documentation."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from witnesses import collected_of, fault

ROOT: Final = Path(__file__).parents[2]

#: How many traps of the engine's core, and of its task types, expressions and interfaces.
EXPECTED: Final = [f"core-{n}" for n in range(1, 53)] + [f"tasks-{n}" for n in range(1, 78)]

TRAPS: Final[list[dict[str, Any]]] = tomllib.loads((Path(__file__).parent / "traps.toml").read_text(encoding="utf-8"))["trap"]


@cache
def _marked() -> dict[str, set[str]]:
    """The traps that each test of the repository says it answers, by the test."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        if "pytest.mark.trap(" in path.read_text(encoding="utf-8"):
            for name, function in collected_of(path).items():
                marks = [mark for mark in function.decorator_list if ast.unparse(mark).startswith("pytest.mark.trap(")]
                said = {ast.literal_eval(each) for mark in marks if isinstance(mark, ast.Call) for each in mark.args}
                found[f"{path.relative_to(ROOT).as_posix()}::{name}"] = said
    return {test: said for test, said in found.items() if said}


@cache
def _points() -> frozenset[str]:
    lines = (ROOT / "docs/reference/compatibility.md").read_text(encoding="utf-8").splitlines()
    return frozenset(line.split("|")[1].strip() for line in lines if line.startswith("| "))


def test_all_are_there() -> None:
    """Each trap once, in order, and nothing else."""
    assert [trap["id"] for trap in TRAPS] == EXPECTED


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap["id"])
def test_it_is_answered(trap: dict[str, Any]) -> None:
    """A verdict, words of its own, tests that are run and check something, the rows that are named, and why if it cannot occur."""
    assert trap.keys() <= {"id", "verdict", "trap", "tests", "rows", "why"}
    assert trap["verdict"] in ("same", "better", "moot")
    assert trap["trap"].strip()
    assert trap["tests"]
    assert ("why" in trap) == (trap["verdict"] == "moot")
    assert [said for said in map(fault, trap["tests"]) if said is not None] == []
    assert set(trap.get("rows", ())) <= _points()


def test_tests_and_traps_name_each_other() -> None:
    """A test that is listed bears the trap's mark, and a test with the mark is listed: neither is changed without the other."""
    listed = {test: {trap["id"] for trap in TRAPS if test in trap["tests"]} for trap in TRAPS for test in trap["tests"]}
    assert _marked() == listed


def test_the_tests_of_a_trap_are_collected(request: pytest.FixtureRequest) -> None:
    """Of the files that pytest has collected in this run, every test that is listed has been collected."""
    config = request.config
    if config.option.keyword or config.option.markexpr != "not deep" or any("::" in argument for argument in config.args):
        return
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    files = {node.partition("::")[0] for node in collected}
    listed = {test for trap in TRAPS for test in trap["tests"]}
    assert {test for test in listed if test.partition("::")[0] in files} <= collected
