"""The tutorial, gone through as a reader does: its files written, its commands run, in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pages import DOCS, ROOT, Block, blocks

TUTORIAL = DOCS / "tutorial" / "first-workflow.md"
STEPS = blocks(TUTORIAL)


def _commands(block: Block) -> list[str]:
    return [line for line in block.code.splitlines() if line and not line.startswith("#")] if block.language == "sh" else []


COMMANDS = [command for block in STEPS for command in _commands(block)]


def test_it_is_short() -> None:
    """At most six commands and under forty lines of the reader's own: a flow with a retry, its page, a unit test with a clock."""
    own = [line for block in STEPS if block.mark == "file" for line in block.code.splitlines() if line.strip()]
    assert len(COMMANDS) <= 6
    assert len(own) < 40
    assert all(any(word in line for line in own) for word in ("@flow", "retry=", "admin.page(", "clock.now()"))
    assert COMMANDS[-1].endswith("-m pytest -q")
    assert {block.mark for block in STEPS if block.language != "sh"} == {"file", "prints"}


def test_it_works_here(tmp_path: Path) -> None:
    """With the package as it is installed here, the tutorial's commands print what it says."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    interpreter = tmp_path / ".venv" / "bin" / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    interpreter.chmod(0o755)
    _follow(tmp_path, left_out=2)


@pytest.mark.deep
def test_it_works_in_an_empty_environment(tmp_path: Path) -> None:
    """From `python3 -m venv` on, with this package (or what is asked for) instead of the published one, every command succeeds."""
    _follow(tmp_path)


def _follow(folder: Path, left_out: int = 0) -> None:
    """Do what the tutorial says, but for its first commands."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON", "VIRTUAL_ENV"))}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    package, printed = os.environ.get("CONDUCTORLITE_PACKAGE"), ""
    for block in STEPS:
        if block.mark == "file":
            assert block.name is not None
            (folder / block.name).write_text(block.code, encoding="utf-8")
        elif block.mark == "prints":
            expected = ".*".join(re.escape(part) for part in block.code.split("…"))
            assert re.fullmatch(expected, printed, re.DOTALL), f"first-workflow.md:{block.line}: {printed}"
        for command in _commands(block):
            left_out -= 1
            if left_out >= 0:
                continue
            command = re.sub(r"^python3 ", f"{shlex.quote(sys.executable)} ", command)
            command = re.sub(r"'conductorlite(\[\w+\])?'", lambda name: package or shlex.quote(f"{ROOT}{name[1] or ''}"), command)
            done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            printed = done.stdout
    page = (folder / "ann.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert {ref for ref in ("open_account", "a_month", "invoice") if ref in page} == {"open_account", "a_month", "invoice"}
