"""On a terminal: tables, colours, a bar; and Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_kit import Shell
from rich.console import Console

from conductorlite import Engine
from conductorlite.cli import output as showing
from conductorlite.cli.output import Screen

SLOW = {"name": "slow", "schemaVersion": 2, "tasks": [
    {"name": "slow", "taskReferenceName": "first"},
    {"name": "slow", "taskReferenceName": "second"},
]}  # fmt: skip


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What commands write to a terminal of 120 columns."""
    written = io.StringIO()

    def standard(as_json: bool) -> Screen:
        console = Console(file=written, force_terminal=True, width=120, color_system="standard", highlight=False)
        return Screen(console=console, json=as_json)

    monkeypatch.setattr(showing.Screen, "standard", staticmethod(standard))
    return written


def test_a_table_on_a_terminal_has_colours(shell: Shell, terminal: io.StringIO) -> None:
    """`list` paints statuses on a terminal, and nothing elsewhere."""
    shell.hello()
    shell("list")
    assert "\x1b[32mCOMPLETED" in terminal.getvalue()


def test_what_users_wrote_cannot_command_a_terminal(shell: Shell, terminal: io.StringIO) -> None:
    """Escape sequences in a reason are replaced, and square brackets are no markup."""
    shell.failed()
    terminal.truncate(0)
    shell("list")
    shell("history", "f1")
    shell("explain", "f1")
    text = terminal.getvalue()
    assert "[bold]red[/bold]" in text.replace("\n", "")
    assert "\x1b[31m[bold]" not in text


def test_run_on_a_terminal_shows_a_bar(shell: Shell, terminal: io.StringIO) -> None:
    """While an execution runs, a bar counts ended tasks; afterwards it is wiped and the result stands alone."""
    (shell.folder / "slow.json").write_text(json.dumps(SLOW), encoding="utf-8")
    assert shell("run", "slow.json", "--workers", "crew:workers", "--watch").code == 0
    text = terminal.getvalue()
    assert "slow: " in text
    assert "1/2" in text
    assert "first  COMPLETED" in text
    assert text.splitlines()[-1].strip().endswith('{"done":true}') or "COMPLETED" in text.splitlines()[-2]


def test_json_on_a_terminal_is_plain(shell: Shell, terminal: io.StringIO) -> None:
    """--json prints no colours on a terminal either."""
    shell.hello()
    said = shell("show", "h1", "--json")
    assert said.json["status"] == "COMPLETED"
    assert "\x1b" not in said.out


def _interrupted(folder: Path, number: int, times: int = 1) -> Any:
    """`run` in a process of its own, sent a signal once its first task is in progress."""
    (folder / "slow.json").write_text(json.dumps(SLOW), encoding="utf-8")
    command = [sys.executable, "-m", "conductorlite", "run", "slow.json", "--workers", "crew:workers", "--id", "s1", "--watch"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if "first  IN_PROGRESS" in line:
            break
    process.send_signal(number)
    for _ in range(times - 1):
        process.stderr.readline()
        process.send_signal(number)
    process.stdout.read()
    err = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    return process.wait(), err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_running_tasks(shell: Shell, number: int, code: int) -> None:
    """Ctrl-C and SIGTERM take no more tasks, report the running one, and say how to go on; `run --id` does."""
    ended, err = _interrupted(shell.folder, number)
    assert ended == code
    assert "conductorlite run --id s1" in err
    with shell.engine() as engine:
        assert engine.get("s1").task("first").status == "COMPLETED"
        assert engine.get("s1").status == "RUNNING"
    assert shell("run", "--id", "s1", "--workers", "crew:workers").code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_second_signal_abandons_them(shell: Shell) -> None:
    """A second Ctrl-C ends the process at once; the store is whole, and whoever opens it gives the task back: no death."""
    ended, _ = _interrupted(shell.folder, signal.SIGINT, times=2)
    assert ended == 130
    with shell.engine() as engine:
        task = engine.get("s1").task("first")
        assert (task.status, task.attempt, task.deaths) == ("SCHEDULED", 0, 0)
    assert shell("check").code == 0


def test_a_driver_that_breaks_is_reported(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops the driving thread reaches the command as an error of its own kind."""
    from conductorlite.errors import StorageFull

    def full(self: object) -> None:
        raise StorageFull("the disk is full")

    monkeypatch.setattr(Engine, "run_forever", full)
    said = shell("run", "hello.json", "--workers", "crew:workers")
    assert (said.code, said.err) == (5, "conductorlite: the disk is full\n")
