"""What goes wrong is one clear line on stderr, nothing on stdout, and an exit code that says what kind it was."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from cli_kit import Shell

from conductorlite import Engine, errors
from conductorlite.cli import main, shared
from conductorlite.cli.shared import Exit, exit_code

CASES: dict[str, tuple[list[str], int, str]] = {
    "no such file": (["start", "no.json"], 2, "No such file or directory: 'no.json'"),
    "broken JSON": (["start", "text.json"], 2, "text.json: broken JSON at line 1 column 2"),
    "broken input": (["start", "hello.json", "--input", "{"], 2, "--input: broken JSON at line 1"),
    "input is a list": (["start", "hello.json", "--input", "[1]"], 2, "--input is a list, not a JSON object"),
    "input file missing": (["start", "hello.json", "--input", "@no.json"], 2, "no.json"),
    "no such name": (["start", "nobody"], 3, "no workflow 'nobody' is registered"),
    "unknown id": (["show", "nobody"], 3, "no execution has the id 'nobody'"),
    "unknown id, explained": (["explain", "nobody"], 3, "no execution has the id 'nobody'"),
    "unknown id, run": (["run", "--id", "nobody"], 3, "no execution has the id 'nobody'"),
    "retry of a finished one": (["retry", "h1"], 4, "h1: "),
    "id is taken": (["start", "hello.json", "--id", "h1"], 4, "h1"),
    "another definition": (["run", "broken.json", "--id", "h1"], 4, "h1 is an execution of 'hello', not of 'broken'"),
    "another input": (["run", "hello.json", "--id", "h1", "--input", "{}"], 4, "h1 exists with another input"),
    "no database": (["list", "--db", "no.db"], 3, "there is no database 'no.db'; name it with --db"),
    "no JSON database": (["list", "--db", "hello.json"], 5, "hello.json"),
    "workers without colon": (["run", "hello.json", "--workers", "crew"], 2, "--workers 'crew' is not module:attribute"),
    "workers without module": (["run", "hello.json", "--workers", "no:w"], 2, "No module named 'no'"),
    "workers without attribute": (["run", "hello.json", "--workers", "crew:no"], 2, "there is no 'no' in crew"),
    "workers are none": (["run", "hello.json", "--workers", "crew:nothing"], 2, "is a int, not a conductorlite.Workers"),
    "workers that raise": (["run", "hello.json", "--workers", "bad:w"], 2, "ZeroDivisionError while it was imported"),
    "no span": (["run", "hello.json", "--timeout", "soon"], 2, "'soon' is not a length of time"),
    "empty reason": (["terminate", "h1", "--reason", " "], 2, "--reason is empty"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_is_one_line(shell: Shell, case: str) -> None:
    """The command says what is wrong in one line, prints nothing else, and ends with the documented code."""
    arguments, code, text = CASES[case]
    shell.hello()
    (shell.folder / "text.json").write_text("{nonsense", encoding="utf-8")
    (shell.folder / "bad.py").write_text("1 / 0", encoding="utf-8")
    said = shell(*arguments)
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith("conductorlite: ")
    assert said.err.count("\n") == 1
    assert text in said.err


def test_an_invalid_definition_lists_all_problems(shell: Shell) -> None:
    """`start` of an invalid definition ends with 2 and has a line for every problem."""
    said = shell("start", "invalid.json")
    assert said.code == 2
    assert "$.name" in said.err
    assert "$.tasks[1].taskReferenceName" in said.err


@pytest.mark.parametrize("arguments", [["list", "--nonsense"], ["nonsense"], ["show"], ["run"], ["list", "--limit", "0"]])
def test_wrong_usage(shell: Shell, arguments: Sequence[str]) -> None:
    """Unknown options and commands and missing arguments end with 2 and show how it is used."""
    said = shell(*arguments)
    assert said.code == 2
    assert "Usage: conductorlite" in said.err


def test_no_command_shows_the_help(shell: Shell) -> None:
    """Without a command the help is shown, and the code is 2."""
    said = shell()
    assert said.code == 2
    assert "Commands:" in said.out + said.err


def test_a_damaged_database(shell: Shell) -> None:
    """A database whose pages are overwritten ends with 5, whatever is asked of it."""
    shell.hello()
    file = shell.folder / "conductorlite.db"
    file.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5_000)
    said = shell("list")
    assert (said.code, said.out, said.err.count("\n")) == (5, "", 1)


def test_looking_makes_no_database(shell: Shell) -> None:
    """Only `run` and `start` of a definition make a new database file."""
    for command in (["list"], ["show", "x"], ["retry", "x"], ["check"], ["agenda"], ["run", "--id", "x"]):
        assert shell(*command).code == 3
    assert not (shell.folder / "conductorlite.db").exists()


def test_debug_shows_the_traceback(shell: Shell) -> None:
    """With --debug the traceback comes before the line."""
    said = shell("list", "--debug")
    assert "Traceback (most recent call last)" in said.err
    assert said.err.splitlines()[-1].startswith("conductorlite: there is no database")


def test_an_unexpected_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error nobody foresaw ends with 70 in one line that says how to see more."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("surprise")

    monkeypatch.setattr(Engine, "pause", fails)
    shell.hello()
    said = shell("pause", "h1")
    assert said.code == 70
    assert said.err == "conductorlite: RuntimeError: surprise (this should not happen; --debug shows where)\n"


@pytest.mark.parametrize("name", ["click", "rich"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Without click or rich the command names the pip command and ends with 2."""
    real = builtins.__import__

    def without(wanted: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
                names: Sequence[str] = (), level: int = 0) -> Any:  # fmt: skip
        if wanted == name:
            raise ImportError(wanted)
        return real(wanted, globals, locals, names, level)

    monkeypatch.setattr(builtins, "__import__", without)
    code = main(["list"])
    monkeypatch.undo()
    assert code == 2
    said = capsys.readouterr().err
    assert said == "conductorlite: The command line needs an optional dependency: pip install 'conductorlite[cli]'\n"


def test_every_error_has_a_code() -> None:
    """Each public error that a command can meet has a code of its kind; what is left is internal."""
    kinds = [getattr(errors, name) for name in errors.__all__]
    internal = {kind.__name__ for kind in kinds if exit_code(kind.__new__(kind)) is Exit.INTERNAL}
    expected = {"ConductorliteError", "ClockError", "EngineClosed", "ExpressionFailed", "FencedOut", "InvariantBroken"}
    assert expected <= internal
    assert not internal & {"StorageFull", "StaleLease", "TaskNotFound", "InvalidInput", "MissingExtra", "ResultTimeout"}


def test_importing_the_package_imports_no_extra() -> None:
    """Neither `conductorlite` nor `conductorlite.cli` imports click or rich; the commands do."""
    import subprocess

    program = "import sys, conductorlite, conductorlite.cli; print(sorted({'click', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert shared.DATABASE == "conductorlite.db"
