"""What is public is said to be, and nothing else is."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from house import PACKAGE, module_of, named, nodes_of, python_files, tree_of

import conductorlite
from conductorlite import errors

MODULES = [path for path in python_files() if path.stem not in ("__main__", "conftest")]


def _defines(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign) for node in tree.body)


def test_the_root_exports_are_sorted_and_resolve() -> None:
    """`conductorlite.__all__` is in order, without doubles, and every name in it exists."""
    names = conductorlite.__all__
    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(conductorlite, name)] == []


def test_the_root_imports_what_is_used() -> None:
    """Each name is imported when it is asked for, from where type checkers find it; to import the root imports nothing else."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    homes = {alias.name: node.module for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name: f"conductorlite.{home}" for name, home in conductorlite._HOMES.items()} == homes
    assert sorted(homes) == conductorlite.__all__
    assert all(getattr(conductorlite, name) is getattr(importlib.import_module(home), name) for name, home in homes.items())
    assert set(conductorlite.__all__) <= set(dir(conductorlite))
    with pytest.raises(AttributeError, match="has no attribute 'Enigne'"):
        conductorlite.Enigne  # noqa: B018
    loaded = "import sys, conductorlite; print(sorted(name for name in sys.modules if name.startswith('conductorlite')))"
    assert (
        subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout == "['conductorlite']\n"
    )


def test_the_root_is_what_everyday_programs_need() -> None:
    """About fifty names, five of them errors; the others are in their rooms."""
    assert len(conductorlite.__all__) <= 57
    everyday = {"ConductorliteError", "InvalidDefinition", "ResultTimeout", "TaskFailedTerminally", "WorkflowFailed"}
    assert set(errors.__all__) & set(conductorlite.__all__) == everyday


def test_every_error_is_exported_and_drawn() -> None:
    """Every exception of the errors module can be imported from it, and stands in the drawn tree."""
    raised = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    assert sorted(raised) == sorted(errors.__all__)
    assert [name for name in raised if name not in (errors.__doc__ or "")] == []


def test_every_error_has_the_one_root() -> None:
    """`except ConductorliteError` catches whatever is raised on purpose."""
    assert all(issubclass(getattr(errors, name), errors.ConductorliteError) for name in errors.__all__)


def test_exceptions_are_defined_in_errors_only() -> None:
    """Exceptions that users may meet live in two files; those kept inside a module say that they never leave it."""
    inner = []
    for path in MODULES:
        if path.stem in ("errors", "failures") or PACKAGE / "testing" in path.parents:
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id in ("Exception", "BaseException", *errors.__all__) for base in node.bases
            ):
                text = (ast.get_docstring(node) or "").lower()
                if "internal" not in text and "never leaves" not in text and not node.name.startswith("_"):
                    inner.append(f"{named(path)}:{node.lineno} {node.name}")
    assert inner == []


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_every_module_says_what_is_public(path: Path) -> None:
    """Each module that defines something has an `__all__` without doubles whose names exist."""
    name = module_of(path)
    if not _defines(tree_of(path)):
        pytest.skip("defines nothing")
    try:
        module = importlib.import_module(name)
        assert hasattr(module, "__all__"), f"{name} has no __all__"
        assert len(module.__all__) == len(set(module.__all__))
        assert [public for public in module.__all__ if not hasattr(module, public)] == []
    except (errors.MissingExtra, ModuleNotFoundError) as error:
        if getattr(error, "name", None) and str(error.name).startswith("conductorlite"):
            raise
        pytest.skip(str(error))  # an extra that is not in [dev]
