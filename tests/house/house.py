"""What the house rules look at: the files of the package, and their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "conductorlite"

#: The rooms of the logic: what is in them depends on its arguments and on nothing else.
LOGIC = ("model", "language", "plan", "decide", "pages")

#: What stands in these rooms for everybody and is none of it: the clock, locks, and the helpers that carry out foreign scripts.
NOT_LOGIC = (
    "model/clock.py",
    "model/threads.py",
    "model/codec.py",
    "language/processes.py",
    "language/child.py",
    "language/python.py",
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(folder: Path = PACKAGE) -> list[Path]:
    """Every Python file below a folder, in a stable order."""
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def logic_files() -> list[Path]:
    """Every file of the logic."""
    apart = {PACKAGE / name for name in NOT_LOGIC}
    return [path for room in LOGIC for path in python_files(PACKAGE / room) if path not in apart]


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


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the syntax tree of a file: walked once for all rules that look at it."""
    return walked(tree_of(path))


def walked(top: ast.AST) -> tuple[ast.AST, ...]:
    """A node and all below it but the contexts of names, as `ast.walk` has them, in half its time."""
    found = [top]
    for node in found:
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                found += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and field != "ctx":
                found.append(value)
    return tuple(found)


def functions_of(path: Path) -> Iterator[Function]:
    """Every function and method of a file, nested ones too."""
    return (node for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def imports_of(path: Path) -> tuple[tuple[int, str], ...]:
    """Every import of a file, also inside functions: line and dotted name."""
    found: list[tuple[int, str]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found += [(node.lineno, node.module), *((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)]
    return tuple(found)


def docstrings_of(path: Path) -> set[int]:
    """Identities of the constants of a file that are docstrings."""
    found: set[int] = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found
