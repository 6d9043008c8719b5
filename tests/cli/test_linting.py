"""`to-python` and `lint`: definitions written as flows, and followed along their paths."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Shell

EXAMPLES = Path(__file__).parents[2] / "examples"

FLOWS = """
from conductorlite import flow, task

@task
def greet(name: str) -> str: ...

@task
def shout(text: str) -> None: ...

@flow
def good(name: str) -> None:
    shout(greet(name))

@flow
def bad(name: str) -> None:
    shout(greet.options(undo=shout)(name))
"""


@pytest.fixture
def flows(shell: Shell) -> Iterator[Shell]:
    """A shell in a folder with flows in Python."""
    (shell.folder / "my_flows.py").write_text(FLOWS, encoding="utf-8")
    yield shell
    sys.modules.pop("my_flows", None)


def written(shell: Shell, file: str, **fields: Any) -> str:
    """A definition in a file."""
    task = {"name": "work", "taskReferenceName": "work"}
    (shell.folder / file).write_text(json.dumps({"name": file, "tasks": [task], **fields}), encoding="utf-8")
    return file


def test_to_python(shell: Shell) -> None:
    """From a file, and of a registered name."""
    source = shell("to-python", "hello.json").out
    assert "def hello(name=None):\n" in source
    assert shell("to-python", "hello.json", "--json").json == {"python": source.rstrip("\n")}
    shell.hello()
    assert shell("to-python", "nobody").code == 3


def test_compile(flows: Shell) -> None:
    """The definition of a flow, printed or in a folder; what is no flow is refused."""
    printed = flows("compile", "my_flows:good").out
    assert [task["name"] for task in json.loads(printed)["tasks"]] == ["greet", "shout"]
    assert flows("compile", "my_flows:good", "-o", "made", "--json").json == {"files": [str(Path("made") / "good.1.json")]}
    assert json.loads((flows.folder / "made" / "good.1.json").read_text(encoding="utf-8")) == json.loads(printed)
    assert "made: 1 definition(s)" in flows("compile", "my_flows:good", "-o", "made").err
    refused = flows("compile", "my_flows:greet")
    assert (refused.code, "it is a TaskFunction, not a flow" in refused.err) == (2, True)


def test_lint_says_that_nothing_is_found(flows: Shell) -> None:
    """Of a file, and of a flow, whose tasks are known."""
    assert (flows("lint", "my_flows:good").code, flows("lint", "my_flows:good").out) == (0, "nothing found in 1 definition\n")
    assert flows("lint", written(flows, "a.json"), written(flows, "b.json")).out == "nothing found in 2 definitions\n"


def test_lint_finds(flows: Shell) -> None:
    """In text, as JSON, as SARIF; exit code 1."""
    said = flows("lint", "my_flows:bad", "--for", "conductor", "--json")
    assert said.code == 1
    assert [one["path"] for one in said.json] == ["$.tasks[0].compensate"]
    line = 1 + FLOWS.splitlines().index("    shout(greet.options(undo=shout)(name))")
    assert said.json[0]["line"] == f"my_flows.py:{line}"
    assert f"$.tasks[0].compensate (my_flows.py:{line})" in flows("lint", "my_flows:bad", "--for", "conductor").out
    broken = written(flows, "c.json", outputParameters={"x": "${wrk.output.y}"})
    assert "did you mean 'work'?" in flows("lint", broken).out
    log = json.loads(flows("lint", broken, "--format", "sarif").out)
    [result] = log["runs"][0]["results"]
    assert (log["version"], result["level"], result["locations"][0]["physicalLocation"]["artifactLocation"]) == (
        "2.1.0",
        "warning",
        {"uri": "c.json"},
    )


def test_lint_of_definitions_that_run_each_other(shell: Shell) -> None:
    """They are looked at together."""
    files = []
    for name, other in (("a", "b"), ("b", "a")):
        calls = {"name": "call", "taskReferenceName": "call", "type": "SUB_WORKFLOW", "subWorkflowParam": {"name": other}}
        files.append(written(shell, f"{name}.json", name=name, tasks=[calls]))
    said = shell("lint", *files, "--json")
    assert [one["message"] for one in said.json] == ["runs itself without end: a → b → a", "runs itself without end: b → a → b"]
    assert shell("lint", files[0]).code == 0


def test_lint_of_what_is_no_definition(flows: Shell) -> None:
    """A problem of a document is found too; what is no flow is a mistake in the command."""
    assert flows("lint", written(flows, "d.json", tasks="none")).code == 1
    assert "is a TaskFunction, not a flow" in flows("lint", "my_flows:greet").err
    assert "there is no 'none' in my_flows" in flows("lint", "my_flows:none").err


@pytest.mark.parametrize("flow", ["order_saga:order_saga", "booking_saga:booking", "etl:etl", "nightly_batch:nightly_batch"])
def test_lint_finds_nothing_in_the_examples(shell: Shell, flow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what their workers take and give."""
    module = flow.partition(":")[0]
    monkeypatch.chdir(EXAMPLES / module)
    try:
        assert shell("lint", flow).out == "nothing found in 1 definition\n"
    finally:
        sys.modules.pop(module, None)


def test_the_hook_is_the_command() -> None:
    """What pre-commit runs."""
    hook = (EXAMPLES.parent / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert "entry: conductorlite lint\n" in hook


def test_import(shell: Shell) -> None:
    """A folder comes in; the exit code is that of the worst finding, and each difference has a line."""
    folder = shell.folder / "set"
    folder.mkdir()
    sound = {"name": "sound", "schemaVersion": 2, "tasks": [{"name": "n", "taskReferenceName": "n", "type": "NOOP"}]}
    (folder / "sound.json").write_text(json.dumps([sound, {**sound, "version": 2}]), encoding="utf-8")
    answer = shell("import", "set")
    assert (answer.code, answer.out) == (0, "registered: 2 workflows\n")
    join = {"name": "j", "taskReferenceName": "j", "type": "JOIN"}
    (folder / "join.json").write_text(json.dumps({**sound, "name": "join", "tasks": [join]}), encoding="utf-8")
    (folder / "other.json").write_text("{}", encoding="utf-8")
    answer = shell("import", "set")
    assert answer.code == 1
    assert "join.json" in answer.out
    assert "other.json" not in answer.out
    assert answer.out.endswith("registered: 3 workflows; 1 warning, 1 note\n")
    assert "other.json" in shell("import", "set", "--notes").out
    assert shell("import", "set", "--strict").code == 2
    (folder / "old.json").write_text(json.dumps({**sound, "name": "old", "schemaVersion": 1}), encoding="utf-8")
    document = shell("import", "set", "--json")
    assert document.code == 2
    assert document.json["workflows"] == [
        {"name": "join", "version": 1},
        {"name": "sound", "version": 1},
        {"name": "sound", "version": 2},
    ]
    assert [one["severity"] for one in document.json["findings"]] == ["warning", "error", "note"]
    (folder / "sound.json").write_text(json.dumps({**sound, "description": "new"}), encoding="utf-8")
    kept = shell("import", "set", "--keep")
    assert "stays as it is" in kept.out
    assert shell("import", "nowhere").code == 2
