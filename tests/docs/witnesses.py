"""Tests that a page or a list names as its witnesses: whether they are there, run in the fast tier, and check anything."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import Final

from pages import ROOT

sys.path.insert(0, str(ROOT / "tests" / "house"))

from house import nodes_of, tree_of, walked

#: Marks by which a test is not run, or not counted.
_LEFT_OUT: Final = frozenset({"deep", "skip", "skipif", "xfail"})

#: What a function that checks something does, or calls.
_ASSERTING: Final = frozenset({"assert", "raises", "warns", "fail"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def collected_of(path: Path) -> dict[str, Function]:
    """The tests that pytest collects of a file: a name defined twice is the later one, and what is in a function is none."""
    body = tree_of(path).body
    body = [*body, *(node for one in body if isinstance(one, ast.ClassDef) and _collected(path, one) for node in one.body)]
    return {node.name: node for node in body if isinstance(node, Function) and node.name.startswith("test_")}


def _collected(path: Path, found: ast.ClassDef) -> bool:
    return found.name.startswith("Test") or "conformance" in path.parts


def marks_of(path: Path, function: Function) -> frozenset[str]:
    """Names of the marks of a test as a whole, those of its file included; not one that only asks what the platform can."""
    marks = [
        node.value for node in tree_of(path).body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    found = set()
    for mark in (*marks, *function.decorator_list):
        for one in mark.elts if isinstance(mark, ast.List) else (mark,):
            text = ast.unparse(one)
            if text.startswith("pytest.mark.") and "hasattr(" not in text and "sys.platform" not in text:
                found.add(text.removeprefix("pytest.mark.").partition("(")[0])
    return frozenset(found)


@cache
def _checking(path: Path) -> frozenset[str]:
    """Functions of a file that check something: by themselves, or by another function, of the file or of a kit it imports from."""
    tree = tree_of(path)
    called = {node.name: _called(node) for node in nodes_of(path) if isinstance(node, Function)}
    found = {name for name, calls in called.items() if calls & _ASSERTING}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {alias.name for alias in node.names}
            if node.module.startswith("conductorlite.testing"):
                found |= names
            for kit in (path.parent / f"{node.module}.py", ROOT / "tests" / "engine" / f"{node.module}.py"):
                found |= _checking(kit) if kit.is_file() else set()
    while more := {name for name, calls in called.items() if name not in found and found & calls}:
        found |= more
    return frozenset(found)


def _called(function: Function) -> set[str]:
    """The last names of what a function calls, and `assert` if it has one."""
    found = set()
    for node in walked(function):
        if isinstance(node, ast.Assert):
            found.add("assert")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found.add(node.func.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(node.func.id)
    return found


def fault(named: str) -> str | None:
    """What is wrong with a witness `file::test`, or `file` for all its tests; None when it is one."""
    file, _, test = named.partition("::")
    path = ROOT / file
    if not path.is_file():
        return f"{file} is not there"
    if not test:
        running = [name for name in collected_of(path) if fault(f"{file}::{name}") is None]
        suites = [node for node in tree_of(path).body if isinstance(node, ast.ClassDef) and "Conformance" in ast.unparse(node)]
        return None if running or suites else f"{file} has no test that is run"
    function = collected_of(path).get(test)
    if function is None:
        return f"{named} is not there"
    if _LEFT_OUT & marks_of(path, function):
        return f"{named} is left out of the fast tests"
    if "pytest.skip(" in ast.unparse(function):
        return f"{named} may be skipped"
    return None if test in _checking(path) else f"{named} checks nothing"
