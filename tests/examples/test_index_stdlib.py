"""The index job on a small part of the library: what it reports, and what a kill in the middle of it changes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kill_index import JOB, SCRIPT, begin, called_again, calls, finish, kill, laws, scene, tables
from scripts import load

from conductorlite import Engine, VirtualClock, Workers

FILES = 24
SMALL = ("--limit", str(FILES))
BROKEN = [
    ("broken/not_utf8.py", "is not in the encoding it claims", "UnicodeDecodeError: "),
    ("broken/syntax_error.py", "is not valid Python", "SyntaxError: "),
    ("broken/vanishes.py", "vanished while it was indexed", "FileNotFoundError: "),
]


def _await_first_progress(process: subprocess.Popen[str]) -> None:
    """Read what the job prints up to its first line of progress."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if " files, " in line:
            return
    pytest.fail(f"the job ended without progress:\n{printed}")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An undisturbed run: its folder, and what it printed."""
    work = tmp_path_factory.mktemp("calm")
    return work, finish(work, *SMALL)


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_job_goes_on_where_it_was(calm: tuple[Path, str], tmp_path: Path) -> None:
    """After SIGKILL the job goes on, calls no finished task again, and ends with the tables of an undisturbed run."""
    work = tmp_path / "killed"
    process = begin(work, *SMALL)
    _await_first_progress(process)
    kill(process)
    left = scene(work)
    assert 0 < len(left.done) < FILES
    assert "Going on where it was." in finish(work, *SMALL)
    wrongly, rightly = called_again(work, left)
    assert wrongly == []
    assert set(rightly) == left.in_progress
    assert tables(work) == tables(calm[0])
    assert laws(work) == []


@pytest.mark.slow
def test_a_job_may_be_gone_on_with_days_later(tmp_path: Path) -> None:
    """Nothing of a killed job is lost to a timeout, however long it lies."""
    process = begin(tmp_path, *SMALL)
    _await_first_progress(process)
    kill(process)
    left = scene(tmp_path)
    workers = Workers().include(load("index_stdlib/index_stdlib.py").job_for(tmp_path))
    with Engine(tmp_path / "jobs.db", workers=workers, clock=VirtualClock(datetime.now(UTC) + timedelta(days=3))) as engine:
        engine.run(JOB).result()
        assert engine.admin.check() == []
    assert called_again(tmp_path, left)[0] == []
    modules, _, broken = tables(tmp_path)
    assert (len(modules), [row[0] for row in broken]) == (FILES, [file for file, _, _ in BROKEN])


def test_exactly_the_three_broken_inputs_are_reported(calm: tuple[Path, str]) -> None:
    """The report lists the three inputs of the broken folder with what is wrong with each, and nothing else as broken."""
    work, printed = calm
    modules, definitions, broken = tables(work)
    assert [(file, problem, str(reason).split(" ")[0] + " ") for file, problem, reason in broken] == BROKEN
    assert len(modules) == FILES
    assert {row[0] for row in definitions} <= {row[0] for row in modules}
    assert f"{FILES} of {FILES + 3} files are indexed, 3 are broken:" in printed
    assert re.findall(r"^  (broken/\S+)", printed, re.MULTILINE) == [file for file, _, _ in BROKEN]


@pytest.mark.slow
def test_a_finished_job_says_so(tmp_path: Path) -> None:
    """Run again, a finished job calls no worker and prints its summary; with --fresh it begins anew."""
    first = finish(tmp_path, "--limit", "5")
    before = calls(tmp_path)
    again = finish(tmp_path, "--limit", "5")
    assert "Done already" in again
    assert first[first.index("largest packages") :] == again[again.index("largest packages") :]
    assert calls(tmp_path) == before
    assert "Done already" not in finish(tmp_path, "--fresh", "--limit", "2")
    assert len(tables(tmp_path)[0]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT")
def test_ctrl_c_is_an_orderly_end(tmp_path: Path) -> None:
    """Ctrl-C ends the job with 130 and a word on how to go on; every task that ran has reported, so none is repeated."""
    process = begin(tmp_path)
    _await_first_progress(process)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Run it again to go on." in printed
    assert "Traceback" not in printed
    assert scene(tmp_path).in_progress == frozenset()
    assert laws(tmp_path) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_on_a_terminal_one_line_moves(tmp_path: Path) -> None:
    """On a terminal the progress is a bar that is drawn over again, and ends at 100 %."""
    mine, theirs = os.openpty()
    command = [sys.executable, str(SCRIPT), "--work", str(tmp_path), "--limit", "5"]
    with subprocess.Popen(command, stdout=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        printed = b""
        try:
            while part := os.read(mine, 65536):
                printed += part
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(mine)
        assert process.wait(timeout=60) == 0
    text = printed.decode()
    assert "\r[" in text
    assert f"[{'█' * 30}]100%  8 of 8 files" in text
