"""What the house rules look at: the files of the package, and their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "conductorlite"

#: The pure floors: what is in them depends on their arguments and on nothing else.
LOGIC = (
    "canonical",
    "definitions",
    "executions",
    "decisions",
    "expressions",
    "plan",
    "migration",
    "policies",
    "draft",
    "operators",
    "decider",
    "invariants",
    "diagrams",
    "explain",
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(folder: Path = PACKAGE) -> list[Path]:
    """Every Python file below a folder, in a stable order."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def logic_files() -> list[Path]:
    """Every file of the pure floors."""
    files: list[Path] = []
    for name in LOGIC:
        folder = PACKAGE / name
        files += python_files(folder) if folder.is_dir() else [folder.with_suffix(".py")]
    return files


def named(path: Path) -> str:
    """A file as it is called in messages."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def functions(tree: ast.AST) -> Iterator[Function]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every import, also inside functions: line and dotted name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def docstrings(tree: ast.AST) -> set[int]:
    """Identities of the constants that are docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found
