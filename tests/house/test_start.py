"""What a program imports before its first workflow is done: counted, since what it takes depends on the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from budgets import assert_within

import conductorlite
from conductorlite.store.sqlite.backend import SQLiteBackend

#: Modules of ours that a first workflow imports; those of others, on the Python that imports most; classes that attrs makes of ours
#: with `Engine`, `flow` and `task`, and how many fields those have for which it writes an `__eq__` or a `__repr__`.
OURS, OTHERS, CLASSES, WRITTEN = 127, 133, 128, 1065

FIRST = """
import sys
before = set(sys.modules)
from conductorlite import Engine, WorkflowDef, Workers
imported = set(sys.modules) - before
workers = Workers()
workers.add("step", lambda: {"x": 1})
task = {"name": "step", "taskReferenceName": "a", "type": "SIMPLE"}
definition = WorkflowDef.from_json({"name": "w", "tasks": [task]})
with Engine(sys.argv[1], workers=workers) as engine:
    assert engine.start(definition).result() == {"x": 1}
whole = set(sys.modules) - before
print(*sorted(imported)); print(*sorted(whole))
"""

#: What is needed by those who ask for it.
LATER = [
    "asyncio", "apscheduler", "jsonschema", "sqlite_utils", "logging", "subprocess", "tempfile", "uuid",
    "zoneinfo",
    "conductorlite.cli", "conductorlite.ext", "conductorlite.flows", "conductorlite.pages", "conductorlite.testing",
    "conductorlite.runtime.aio", "conductorlite.engine.admin", "conductorlite.engine.explain", "conductorlite.engine.invariants",
    "conductorlite.engine.schedules", "conductorlite.engine.search", "conductorlite.language.triggers",
]  # fmt: skip


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """Modules imported with `Engine`, and until a first workflow in a store that was made before is done."""
    path = tmp_path_factory.mktemp("start") / "s.db"
    SQLiteBackend(path).close()
    return modules_of_a_first_workflow(path)


def modules_of_a_first_workflow(path: Path) -> tuple[set[str], set[str]]:
    """Modules that a program imports with `Engine`, and until its first workflow in a file is done."""
    command = [sys.executable, "-c", FIRST, str(path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    return set(printed[0].split()), set(printed[1].split())


def test_a_first_workflow_imports_what_it_needs(imported: tuple[set[str], set[str]]) -> None:
    """Neither rooms nor libraries that a first workflow does not use are imported."""
    first, whole = imported
    assert ("cattrs" in first, "cattrs" in whole) == (False, True)  # it reads the definition
    assert [name for name in LATER if any(one == name or one.startswith(f"{name}.") for one in whole)] == []


def test_a_new_store_is_made_by_sqlite_utils(tmp_path: Path) -> None:
    """It runs the steps of the schema; nothing else is imported that is needed by those who ask for it."""
    _, whole = modules_of_a_first_workflow(tmp_path / "new.db")
    assert {name for name in LATER if name in whole and name.startswith("conductorlite")} == set()
    assert "sqlite_utils" in whole
    assert "apscheduler" not in whole


def test_no_more_is_imported_than_before(imported: tuple[set[str], set[str]]) -> None:
    """The number of modules, ours and others."""
    _, whole = imported
    ours = {name for name in whole if name.split(".")[0] == "conductorlite"}
    assert_within(OURS, len(ours), "modules of ours")
    assert_within(OTHERS, len(whole - ours), "modules of others")


def test_an_import_makes_few_classes() -> None:
    """A class of attrs takes half a millisecond of an import, and as much again for each of `__eq__` and `__repr__`."""
    program = (
        "import gc, attrs; from conductorlite import Engine, flow, task\n"
        "ours = [one for one in gc.get_objects() if isinstance(one, type) and one.__module__.startswith('conductorlite.')]\n"
        "made = [one for one in set(ours) if '__attrs_attrs__' in vars(one)]\n"
        "written = [name for one in made for name in ('__eq__', '__repr__') if name in vars(one) for _ in attrs.fields(one)]\n"
        "print(len({(one.__module__, one.__qualname__) for one in made}), len(written))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    classes, written = map(int, done.stdout.split())
    assert_within(CLASSES, classes, "classes of attrs made by an import")
    assert_within(WRITTEN, written, "fields in `__eq__` and `__repr__` written by an import")


def test_python_m_starts_the_command_line() -> None:
    """`python -m conductorlite` is the command line."""
    package = Path(conductorlite.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "conductorlite", "--version"], capture_output=True, text=True, timeout=60, cwd=package
    )
    assert (done.returncode, done.stdout.split()[0]) == (0, "conductorlite")


def test_the_plugin_imports_nothing_of_the_engine() -> None:
    """pytest loads the plugin in every run where the package is installed."""
    program = (
        "import pytest, sys; import conductorlite.testing.plugin; print(*(one for one in sys.modules if 'conductorlite.' in one))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["conductorlite.testing", "conductorlite.testing.plugin"]
