"""Nothing in the house is too big to be read in one sitting."""

from __future__ import annotations

from house import ROOT, functions_of, named, python_files

FILE_LINES = 500
FUNCTION_LINES = 60


def test_no_file_is_too_long() -> None:
    """A file past 500 lines becomes a folder with one file per noun."""
    lines = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    assert {name: count for name, count in lines.items() if count > FILE_LINES} == {}


def test_no_function_is_too_long() -> None:
    """A function past 60 lines, docstring and all, is two functions."""
    long = {
        f"{named(path)}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in python_files()
        for function in functions_of(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES
    }
    assert long == {}


def test_no_file_is_named_after_a_pattern() -> None:
    """Files are named after what is in them, never after a pattern."""
    banned = ("service", "manager", "facade", "utils", "helpers", "common", "misc")
    assert [named(path) for path in python_files() if path.stem.endswith(banned)] == []


def test_every_module_of_the_tests_has_a_name_of_its_own() -> None:
    """Folders of tests are no packages: of two modules of one name only one can be imported in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.stem not in ("conftest", "__init__", "__main__")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
