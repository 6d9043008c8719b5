"""The source distribution and the wheel made of it: what is in them, and that they work in an empty environment with no extra and
with each."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD = SETTINGS["project"], SETTINGS["build-system"]
SOURCES = SETTINGS["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
EXTRAS = PROJECT["optional-dependencies"]

#: What each extra brings, as modules; an extra made of others brings what they bring.
MODULES = {
    "python": {"pydantic_monty"},
    "jq": {"jq"},
    "cli": {"click", "rich"},
    "http": {"httpx"},
    "payload": {"fsspec"},
    "schema": {"jsonschema"},
    "testing": {"hypothesis", "pytest"},
}

SMOKE = """
import importlib.util, pathlib, sys
import conductorlite
import logging
logging.getLogger("conductorlite").addHandler(logging.NullHandler())  # a failed attempt is logged: nothing amiss
from conductorlite import Engine, InvalidDefinition, VirtualClock, Workers, WorkflowDef, WorkflowTask
from conductorlite.errors import MissingExtra

assert pathlib.Path(conductorlite.__file__).is_relative_to(sys.prefix), conductorlite.__file__
lazy = {"click", "rich", "httpx", "fsspec", "_quickjs", "pydantic_monty", "jq", "jsonschema", "hypothesis", "pytest", "asyncio"}
assert not lazy & set(sys.modules), "imported without need"

workers = Workers()


@workers.task("double")
def double(n: int) -> dict:
    return {"n": 2 * n}


tasks = [
    WorkflowTask(name="double", task_reference_name="d", input_parameters={"n": "${workflow.input.n}"}),
    WorkflowTask(name="w", task_reference_name="w", type="WAIT", input_parameters={"duration": "30 days"}),
    WorkflowTask(name="s", task_reference_name="s", type="INLINE",
                 input_parameters={"expression": "$.n + 1", "n": "${d.output.n}"}),
]
definition = WorkflowDef(name="smoke", tasks=tasks, output_parameters={"n": "${s.output.result}"})
for store in (None, "smoke.db"):
    with Engine(store, workers=workers, clock=VirtualClock(0)) as engine:
        assert engine.start(definition, {"n": 20}, workflow_id="smoke").result() == {"n": 41}
        assert engine.admin.check() == []
        assert "</svg>" in engine.admin.page("smoke")
        assert engine.clock.now() == 30 * 86_400_000

names = ("python", "jq", "cli", "http", "payload", "schema", "testing")
there = {name for name in names if all(map(importlib.util.find_spec, MODULES[name]))}
assert there == WANTED, (there, WANTED)

beyond = WorkflowTask(name="x", task_reference_name="x", type="INLINE", input_parameters={"expression": "/a/.test('cat')"})
assert Engine(clock=VirtualClock(0)).start(WorkflowDef(name="x", tasks=[beyond])).result() == {"result": True}
snake = WorkflowTask(name="y", task_reference_name="y", type="INLINE",
                     input_parameters={"evaluatorType": "python", "expression": "n + 1", "n": 1})
try:
    run = Engine(clock=VirtualClock(0)).start(WorkflowDef(name="y", tasks=[snake]))
    assert "python" in there and run.result() == {"result": 2}, run.workflow
except InvalidDefinition as error:
    assert "python" not in there and "pip install 'conductorlite[python]'" in str(error), error
try:
    from conductorlite.language.conditions import compile_condition
    compile_condition("1", "python")
    assert "python" in there
except MissingExtra as error:
    assert "python" not in there and "pip install 'conductorlite[python]'" in str(error), error
from conductorlite.ext.workers import system_workers
call = WorkflowTask(name="c", task_reference_name="c", type="HTTP", input_parameters={"uri": "http://127.0.0.1:1", "method": "GET"})
with Engine(workers=system_workers(), clock=VirtualClock(0)) as engine:
    run = engine.start(WorkflowDef(name="c", tasks=[call]))
    engine.run_until_idle()
    reason = run.workflow.tasks[0].reason
    assert ("pip install 'conductorlite[http]'" in reason) != ("http" in there), reason
query = WorkflowTask(name="q", task_reference_name="q", type="JSON_JQ_TRANSFORM",
                     input_parameters={"queryExpression": ".a[0], env", "a": [7]})
try:
    run = Engine(clock=VirtualClock(0)).start(WorkflowDef(name="q", tasks=[query]))
    assert "jq" in there and run.result() == {"result": 7, "resultList": [7, {}]}, run.workflow
except InvalidDefinition as error:
    assert "jq" not in there and "pip install 'conductorlite[jq]'" in str(error), error
from conductorlite import SchemaDef
from conductorlite.errors import InvalidInput
strict = WorkflowDef(name="s", tasks=tasks, input_schema=SchemaDef(name="i", data={"required": ["a"]}))
try:
    Engine(clock=VirtualClock(0)).start(strict, {})
    raise SystemExit("not refused")
except InvalidInput as error:
    assert "schema" in there and "'a' missing" in str(error), error
except InvalidDefinition as error:
    assert "schema" not in there and "pip install 'conductorlite[schema]'" in str(error), error
try:
    Engine(payloads="memory://payloads").close()
    assert "payload" in there
except MissingExtra as error:
    assert "payload" not in there and "pip install 'conductorlite[payload]'" in str(error), error
try:
    import conductorlite.testing.strategies
    assert "testing" in there
except MissingExtra as error:
    assert "testing" not in there and "pip install 'conductorlite[testing]'" in str(error), error
print("fine")
"""


def _brings(extra: str) -> set[str]:
    """The extras with modules of their own that an extra amounts to."""
    found = {extra} & MODULES.keys()
    for requirement in EXTRAS.get(extra, ()):
        if requirement.startswith("conductorlite["):
            for name in requirement.partition("[")[2].partition("]")[0].split(","):
                found |= _brings(name.strip())
    return found


def _run(*command: str | Path, cwd: Path, expected: int = 0) -> str:
    """What a command prints on both streams; PYTHON… variables and other environments are kept from it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from the repository by what pyproject.toml asks for."""
    folder = tmp_path_factory.mktemp("sdist")
    _run(sys.executable, "-m", "venv", "env", cwd=folder)
    python = folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *BUILD["requires"], cwd=folder)
    build = f"import {BUILD['build-backend']} as backend; backend.build_sdist({str(folder)!r})"
    _run(python, "-c", build, cwd=ROOT)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    command = ("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", folder, sdist)
    _run(sys.executable, *command, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


def test_what_is_in_the_source_distribution(sdist: Path) -> None:
    """The package, its tests, examples and documentation; nothing of git, no environment, nothing that a run leaves behind."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    listed = _run("git", "ls-files", cwd=ROOT).splitlines()
    kept = {name for name in listed if name.split("/")[0] in SOURCES}
    assert kept <= names
    assert {name.split("/")[0] for name in names} <= {*SOURCES, "PKG-INFO", "pyproject.toml", ".gitignore"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".db")]


def test_what_is_in_the_wheel(wheel: Path) -> None:
    """The package whole, typed and licensed, and nothing beside it: no tests, examples, documentation or leftovers."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    info = {name for name in names if ".dist-info/" in name}
    package = {path.relative_to(ROOT).as_posix() for path in (ROOT / "conductorlite").rglob("*") if path.is_file()}
    assert names - info == {name for name in package if "__pycache__" not in name}
    assert "conductorlite/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in info)
    assert "License-Expression: Apache-2.0" in metadata
    assert sorted(EXTRAS) == sorted(line.split(": ")[1] for line in metadata.splitlines() if line.startswith("Provides-Extra"))


def test_the_tutorial_without_extras(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel as it is, and pytest: every command of the tutorial prints what it says."""
    monkeypatch.setenv("CONDUCTORLITE_PACKAGE", f"{wheel} pytest")
    test = "tests/docs/test_tutorial.py::test_it_works_in_an_empty_environment"
    _run(sys.executable, "-m", "pytest", "-q", "-m", "deep", "-p", "no:cacheprovider", test, cwd=ROOT)


@pytest.mark.parametrize("extra", ["", *EXTRAS], ids=lambda extra: extra or "none")
def test_it_works_in_an_empty_environment(wheel: Path, tmp_path: Path, extra: str) -> None:
    """Installed with no extra or with one, workflows run, and what needs an extra that is absent names the pip command."""
    _run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    scripts = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    requirement = f"{wheel}[{extra}]" if extra else str(wheel)
    _run(scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement, cwd=tmp_path)
    (tmp_path / "smoke.py").write_text(f"MODULES, WANTED = {MODULES!r}, {_brings(extra)!r}\n{SMOKE}", encoding="utf-8")
    assert _run(scripts / "python", "-I", "-W", "error", "smoke.py", cwd=tmp_path) == "fine\n"
    for name in PROJECT.get("scripts", ()):
        if "cli" in _brings(extra):
            assert PROJECT["name"] in _run(scripts / name, "--version", cwd=tmp_path)
            assert "smoke" in _run(scripts / name, "list", "--db", "smoke.db", cwd=tmp_path)
        else:
            assert "pip install 'conductorlite[cli]'" in _run(scripts / name, "--version", cwd=tmp_path, expected=2)
    assert "No broken requirements" in _run(scripts / "python", "-m", "pip", "check", cwd=tmp_path)
