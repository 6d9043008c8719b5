"""Every command, found by introspection: a closed output is no error, options may stand before it, it knows what is archived."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from cli_kit import DEFINITIONS, Shell

from conductorlite import Engine, Workers, WorkflowDef, WorkflowSchedule
from conductorlite.cli.commands import complete

SCHEDULE = {"name": "nightly", "at": "2100-01-01T00:00:00Z", "startWorkflowRequest": {"name": "waiting"}}

#: What each command is called with; `X` is the execution it is about.
ARGUMENTS: dict[str, list[str]] = {
    "run": ["--id", "X", "--timeout", "100ms"],
    "start": ["waiting.json", "--id", "new"],
    "retry": ["X"],
    "restart": ["X"],
    "rerun": ["X"],
    "fork": ["X", "--at", "w"],
    "skip": ["X", "w"],
    "send": ["X", "news", "1"],
    "signal": ["X", "--task", "w"],
    "set-variables": ["X", '{"a": 1}'],
    "pause": ["X"],
    "resume": ["X"],
    "terminate": ["X"],
    "remove": ["X"],
    "sweep-payloads": [],
    "list": [],
    "show": ["X"],
    "history": ["X"],
    "logs": ["X"],
    "watch": ["X"],
    "messages": ["X"],
    "stream": ["X"],
    "export": ["X"],
    "explain": ["X"],
    "serve": ["--port", "0"],
    "worker": ["--workers", "crew:workers", "--timeout", "50ms"],
    "drive": ["--timeout", "50ms"],
    "copy": ["store.db", "memory.db"],
    "agenda": [],
    "query": ["SELECT workflow_id FROM conductor_workflows"],
    "queues": [],
    "limits": [],
    "check": ["X"],
    "diagram": ["X"],
    "to-python": ["hello.json"],
    "compile": ["crew:greeting"],
    "lint": ["invalid.json"],
    "import": ["."],
    "validate": ["invalid.json"],
    "diff": ["waiting.json", "hello.json"],
    "migrate": ["X", "--to", "waiting.json"],
    "publish": ["an:event", "{}"],
    "events": [],
    "handlers": [],
    "schedule save": ["nightly.json"],
    "schedule list": [],
    "schedule show": ["nightly"],
    "schedule pause": ["nightly"],
    "schedule resume": ["nightly"],
    "schedule remove": ["nightly"],
    "schedule preview": ["nightly"],
    "schedule backfill": ["nightly", "2000-01-01T00:00Z", "2000-01-02T00:00Z"],
    "search": [],
    "archive": ["X"],
    "prune": ["--older-than", "1d"],
    "compact": [],
    "reseal": [],
    "size": [],
    "reindex": [],
    "engines": [],
    "take-over": ["another"],
    "backup": ["copy.db"],
}

#: Commands about one execution that tell of one that is archived, or delete it.
SEEING = {"run", "show", "history", "logs", "watch", "messages", "stream", "export", "explain", "check", "diagram", "remove"}

#: Commands that are done to an execution that has not ended.
OPEN = {"run", "fork", "skip", "send", "signal", "set-variables", "pause", "terminate", "migrate"}

#: Commands that say no to these executions: on standard error, and with a code of their own.
REFUSED = {"run", "retry", "skip", "resume", "copy", "reseal"}

#: Commands that need no database.
WITHOUT = {"compile", "lint", "validate", "diff", "copy"}


PROGRAM = complete()


def _commands(group: click.Group = PROGRAM, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _line(command: str, execution: str) -> list[str]:
    return [*command.split(), *(execution if word == "X" else word for word in ARGUMENTS[command])]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with an execution that waits, one that has ended, one that is archived, and a schedule."""
    file = tmp_path_factory.mktemp("made") / "store.db"
    workers = Workers()
    workers.task("greet")(lambda name="you": {"text": name})
    with Engine(file, workers=workers) as engine:
        engine.register(*(WorkflowDef.from_json(DEFINITIONS[name]) for name in ("hello.json", "waiting.json")))
        engine.start("waiting", workflow_id="waits")
        for one in ("ended", "archived"):
            engine.start("hello", workflow_id=one).result()
        engine.admin.archive("archived")
        engine.schedules.save(WorkflowSchedule.from_json(SCHEDULE))
    return file


@pytest.fixture
def filled(shell: Shell, made: Path) -> Shell:
    """A shell beside a copy of that database, which has another name than the default one."""
    shutil.copy(made, shell.folder / "store.db")
    (shell.folder / "nightly.json").write_text(json.dumps(SCHEDULE), encoding="utf-8")
    return shell


def test_every_command_is_called() -> None:
    """A new command cannot be forgotten."""
    assert sorted(ARGUMENTS) == sorted(name for name, _ in _commands())


@pytest.mark.parametrize("line", ["show ended", "schedule list", "diff waiting.json hello.json"])
@pytest.mark.parametrize("where", ["before", "after", "environment", "after wins"])
def test_the_database_is_found(filled: Shell, line: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be named before the command, after it, or by the environment; after it counts before all others."""
    named, other = ["--db", "store.db"], ["--db", "no.db"]
    after = [*line.split(), *([] if line.split()[0] in WITHOUT else named)]
    words = {"before": [*named, *line.split()], "after": after, "environment": line.split(), "after wins": [*other, *after]}
    monkeypatch.setenv("CONDUCTORLITE_DB", "store.db" if where == "environment" else "nowhere.db")
    answer = filled(*words[where])
    assert (answer.code in (0, 1), answer.err) == (True, "")
    assert [file.name for file in filled.folder.glob("*.db")] == ["store.db"]


@pytest.mark.parametrize("group", ["", "schedule"])
def test_the_shared_options_are_the_same_everywhere(group: str) -> None:
    """What every command takes, the groups above it take before its name."""
    above = PROGRAM if not group else PROGRAM.commands[group]
    names = {"db", "payloads", "codec", "as_json", "debug"}
    assert names <= {option.name for option in above.params}
    for name, command in _commands():
        missing = {"db", "payloads", *(["codec"] if name != "copy" else [])} if name in WITHOUT else set()
        assert names - {option.name for option in command.params} == missing


def test_json_before_the_command(filled: Shell) -> None:
    """A flag counts wherever it stands; between a group and its command, too."""
    assert filled("--json", "--db", "store.db", "list").json["totalHits"] == 2
    assert [one["name"] for one in filled("schedule", "--json", "--db", "store.db", "list").json] == ["nightly"]


@contextmanager
def _closed(stream: str) -> Iterator[None]:
    """Have a stream of the process be a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    before = getattr(sys, stream)
    with os.fdopen(writing, "w", encoding="utf-8") as closed:
        setattr(sys, stream, closed)
        try:
            yield
        finally:
            setattr(sys, stream, before)


@pytest.mark.parametrize("command", [*ARGUMENTS, "--help", "schedule --help", "--version"])
def test_a_closed_output_is_no_error(filled: Shell, command: str) -> None:
    """Whoever closes what a command writes to, as `head` does, gets no text of an error and the code 141."""
    line = _line(command, "waits" if command in OPEN else "ended") if command in ARGUMENTS else command.split()
    with _closed("stdout"):
        answer = filled("--db", "store.db", *line)
    assert answer.code == 141 or (command in REFUSED and answer.code in (2, 4, 6))
    assert answer.err == "" or command in REFUSED


@pytest.mark.parametrize(
    "line", ["show nobody", "nonsense", "run --id waits --timeout 50ms", "schedule show nothing", "retry waits x"]
)
def test_a_closed_error_output_is_no_error(filled: Shell, line: str) -> None:
    """What a command says beside its answer may be closed as well."""
    with _closed("stderr"):
        assert filled("--db", "store.db", *line.split()).code == 141


@pytest.mark.parametrize("answer", ["history ended", "--help", "explain nobody"])
def test_the_process_ends_without_a_word(made: Path, answer: str) -> None:
    """Not even the interpreter, when it closes its streams at its end, says anything of a pipe that is closed."""
    command = [sys.executable, "-m", "conductorlite", "--db", str(made), *answer.split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=60)
    assert process.returncode in (141, 3)
    assert said == b"" or process.returncode == 3


def test_a_coloured_table_into_a_closed_pipe(filled: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rich writes, which would end the process by itself."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _closed("stdout"):
        assert filled("--db", "store.db", "list").code == 141


def _about_one() -> list[str]:
    return [name for name in ARGUMENTS if "X" in ARGUMENTS[name]]


@pytest.mark.parametrize("command", _about_one())
def test_a_command_knows_what_is_archived(filled: Shell, command: str) -> None:
    """It answers, or says that the execution is archived; no command says that there is none."""
    answer = filled("--db", "store.db", *_line(command, "archived"))
    if command in SEEING:
        assert (answer.code, "is archived" in answer.err, "no execution" in answer.err) == (0, False, False)
    else:
        assert answer.code == 3
        assert "'archived' is archived: it can be looked at" in answer.err


def test_a_run_of_what_is_archived_is_not_begun_again(filled: Shell) -> None:
    """The same command once more shows how the execution ended, as it does of one that is not archived."""
    again = filled("--db", "store.db", "run", "hello.json", "--id", "archived")
    assert (again.code, again.out) == (0, filled("--db", "store.db", "run", "--id", "archived").out)
    assert filled("--db", "store.db", "--json", "list").json["totalHits"] == 2
