"""Whatever is public is explained; every test says in a sentence what it shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from house import PACKAGE, ROOT, Function, functions_of, named, python_files, tree_of

from conductorlite import errors


def _undocumented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    if tree.body and ast.get_docstring(tree) is None:
        yield 1, "the module"
    waiting: list[tuple[ast.Module | ast.ClassDef, str]] = [(tree, "")]
    while waiting:
        owner, prefix = waiting.pop()
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if ast.get_docstring(node) is None and not _overload(node):
                yield node.lineno, prefix + node.name
            if isinstance(node, ast.ClassDef):
                waiting.append((node, f"{prefix}{node.name}."))


def _overload(node: ast.ClassDef | Function) -> bool:
    return any(ast.unparse(decorator).split(".")[-1] in ("overload", "setter") for decorator in node.decorator_list)


def _asked_of_a_store() -> set[str]:
    """Names of the methods that the protocols of a store explain."""
    files = (PACKAGE / "store" / name for name in ("ports.py", "transactions.py"))
    return {function.name for path in files for function in functions_of(path) if ast.get_docstring(function)}


def test_public_things_have_docstrings() -> None:
    """Every public module, class, function and method has a docstring; a transaction leaves to its protocol what that says."""
    asked = _asked_of_a_store()
    found = [
        f"{named(path)}:{line} {name}"
        for path in python_files()
        for line, name in _undocumented(tree_of(path))
        if path.parent.parent != PACKAGE / "store" or name.split(".")[-1] not in asked
    ]
    assert found == []


def test_every_test_has_a_docstring() -> None:
    """Every test of this repository says what it shows."""
    found = [
        f"{named(path)}:{function.lineno} {function.name}"
        for path in python_files(ROOT / "tests")
        for function in functions_of(path)
        if function.name.startswith("test_") and ast.get_docstring(function) is None
    ]
    assert found == []


def test_every_error_is_documented() -> None:
    """docs/reference/errors.md has every exception."""
    text = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in errors.__all__ if f"## {name}\n" not in text] == []
